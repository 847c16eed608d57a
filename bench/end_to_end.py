"""The errors that a user of the commands gets, beside the rows of ``auto`` in ``compare``.

``python -m bench.end_to_end [--write] [--repeat 10] [--people 20000] [--epsilon 1,4] [--only NAMES]``
draws people from a population, writes them as a table, and runs ``plan --mechanism auto``,
``privatise``, ``tally`` and ``estimate`` in files; the same reports go to a collector over HTTP, whose
answers are measured, too. Errors are those of ``compare``: on [-1, 1], averaged over keys. People are an
independent draw from the population in each repetition, as in a simulation.
"""

from __future__ import annotations

import argparse
import json
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import hypot
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np

from keyveil import Coins, Plan
from keyveil.cli.command import run
from keyveil.people.population import Population
from keyveil.people.synthetic import gaussian, pckv_uniform, tied
from keyveil.plan.report_file import reading
from keyveil.service.collector.http.batches import BINARY, encode_binary
from keyveil.simulate.contest import Contest
from keyveil.simulate.contest_row import standard_error

PAGE = Path(__file__).parents[1] / "docs" / "planner-benchmarks.md"
KEYVEIL = str(Path(sys.executable).parent / "keyveil")
POPULATIONS = {
    "gaussian": lambda: gaussian(20),
    "pckv-uu": lambda: pckv_uniform(20),
    "tied": lambda: tied(20, frequency=0.3, mean=0.4),
}
"""Populations of 20 keys: many keys a person, one key a person, and keys that go together."""
ROW = "auto:one_round"
"""The row of ``compare`` that plans as these commands do: told nothing, in one round."""
BATCH = 5000
HEADER = [
    "| population | epsilon | plan | f: files | compare | difference (se) | m: files | compare "
    "| difference (se) | collector's answers |",
    "| --- | --: | --- | --: | --: | --: | --: | --: | --: | --- |",
]


class RunErrors(NamedTuple):
    """The mean squared errors of one repetition, and whether the collector answered the same."""

    plan: Plan
    frequency: float
    mean: float
    same: bool


def commands(*arguments: object) -> None:
    """Run a command in this process; refuses to go on if it fails."""
    if run([str(word) for word in arguments]):
        raise SystemExit(f"keyveil {arguments[0]} failed")


@contextmanager
def collector(folder: Path) -> Iterator[str]:
    """Run ``keyveil serve`` for as long as the block runs; yields its address."""
    words = [KEYVEIL, "serve", "--store", "collector.sqlite", "--port", "0"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert server.stdout is not None
            address = re.search(r"http://[^ ]+", server.stdout.readline())
            assert address is not None
            while httpx.get(f"{address[0]}/ready").status_code != 200:
                time.sleep(0.02)
            yield address[0]
        finally:
            server.terminate()
            server.wait(30)


def collected(url: str, folder: Path, name: str, plan: Plan) -> dict[str, object]:
    """The collector's answers to the reports of ``reports.kv``."""
    commands("collection", "create", name, folder / "plan.json", "--store", folder / "collector.sqlite")
    path = f"{url}/v1/collections/{name}"
    for _ in range(600):  # a served collector reads new collections now and then
        if (answer := httpx.get(path)).status_code == 200:
            break
        time.sleep(0.1)
    epoch = answer.raise_for_status().json()["epoch"]["now"]
    for reports in reading(plan, folder / "reports.kv"):
        rows = plan.packing.packed(reports)
        for first in range(0, len(rows), BATCH):
            part = rows[first : first + BATCH]
            body = encode_binary(plan.hash, epoch, secrets.token_bytes(16 * len(part)), part.tobytes())
            answer = httpx.post(
                f"{path}/reports", content=body, headers={"content-type": BINARY}, timeout=60
            )
            answer.raise_for_status()
    return httpx.get(f"{path}/estimates", timeout=60).json()


def write_table(path: Path, population: Population, people: int, draw: np.random.Generator) -> None:
    """A table of people drawn from the population; who holds nothing has a row without a key."""
    drawn = population.draw(people, draw)
    number = np.diff(drawn.starts)
    who = np.repeat(np.arange(people), number)
    keys, values = np.array(population.schema.keys)[drawn.keys], drawn.values
    rows = [f"{p},{k},{v!r}" for p, k, v in zip(who, keys, values.tolist(), strict=True)]
    rows += [f"{p},," for p in np.flatnonzero(number == 0)]
    path.write_text("\n".join(["person,key,value", *rows]) + "\n")


FORCE = ("--force", "-o")
"""Outputs of an earlier repetition are replaced."""


def make_plan(population: Population, people: int, epsilon: str, folder: Path) -> None:
    """Make ``plan.json``: the planner is told nothing but the number of people."""
    (folder / "keys.txt").write_text("\n".join(population.schema.keys) + "\n")
    asked = ("--keys", folder / "keys.txt", "--range=-1,1", "--epsilon", epsilon, "--people", people)
    commands(
        "plan", "--mechanism", "auto", "--one-round", "--anyway", *asked, *FORCE, folder / "plan.json"
    )


def one_run(
    population: Population, people: int, folder: Path, url: str, name: str, draw: np.random.Generator
) -> RunErrors:
    """Privatise, tally and estimate in files, and send the same reports to the collector."""
    write_table(folder / "people.csv", population, people, draw)
    plan_path, tally, force = folder / "plan.json", folder / "tally.kv", FORCE
    commands("privatise", plan_path, folder / "people.csv", *force, folder / "reports.kv")
    commands("tally", plan_path, folder / "reports.kv", *force, tally)
    printed = subprocess.run(
        [KEYVEIL, "estimate", plan_path, tally, "--json"], capture_output=True, check=True, text=True
    )
    plan, answers = Plan.load(plan_path), json.loads(printed.stdout)
    served = collected(url, folder, name, plan)
    keys = answers["keys"] if isinstance(answers, dict) else answers
    errors = {}
    prior = population.prior() if hasattr(population, "prior") else None
    assert prior is not None
    for kind, truth in (("frequency", prior.frequency), ("mean", prior.mean)):
        values = np.array([key[kind]["value"] for key in keys], np.float64)
        low = 0.0 if kind == "frequency" else -1.0
        known = np.nan_to_num(values, nan=(low + 1) / 2)
        errors[kind] = float(((np.clip(known, low, 1.0) - truth)[prior.frequency > 0] ** 2).mean())
    pairs = zip(keys, served["keys"], strict=True)  # type: ignore[arg-type]
    same = all(a[kind]["value"] == b[kind]["value"] for a, b in pairs for kind in errors)
    return RunErrors(plan, errors["frequency"], errors["mean"], same)


def row(name: str, epsilon: str, people: int, repeat: int, url: str, folder: Path) -> str:
    """One line of the table."""
    population = POPULATIONS[name]()
    draw = Coins.stated(f"end to end {name} {epsilon}").generator()
    label = f"{name}-{epsilon}".replace(".", "-")
    make_plan(population, people, epsilon, folder)
    runs = [
        one_run(population, people, folder, url, f"{label}-{number}", draw) for number in range(repeat)
    ]
    contest = Contest(population, people, 10 * repeat, Coins.stated("end to end"))
    measured = contest.rows(ROW, epsilon)[0]
    cells = [name, epsilon, measured.chosen]
    for kind in ("frequency", "mean"):
        errors = np.array([getattr(run_errors, kind) for run_errors in runs])
        expected, spread = getattr(measured, f"mse_{kind}"), getattr(measured, f"mse_{kind}_se")
        own = standard_error(errors) or float("nan")
        beyond = (errors.mean() - expected) / hypot(own, spread)
        cells += [f"{errors.mean():.2e} ±{own / errors.mean():.0%}", f"{expected:.2e}", f"{beyond:+.1f}"]
    same = sum(run_errors.same for run_errors in runs)
    return f"| {' | '.join(cells)} | equal in {same} of {len(runs)} |"


def main() -> None:
    """Measure, print, and with ``--write`` put the table into the docs."""
    parser = argparse.ArgumentParser(prog="python -m bench.end_to_end", description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--epsilon", default="1,4")
    parser.add_argument("--only", default=",".join(POPULATIONS))
    given = parser.parse_args()
    lines = list(HEADER)
    with tempfile.TemporaryDirectory(prefix="keyveil-bench-") as place, collector(Path(place)) as url:
        for name in given.only.split(","):
            for epsilon in given.epsilon.split(","):
                lines.append(row(name, epsilon, given.people, given.repeat, url, Path(place)))
                print(lines[-1], flush=True)
    if given.write:
        page = PAGE.read_text()
        start, end = "<!-- bench:end_to_end -->", "<!-- /bench -->"
        before, rest = page.split(start)
        after = rest.split(end, 1)[1]
        PAGE.write_text(f"{before}{start}\n\n" + "\n".join(lines) + f"\n\n{end}{after}")


if __name__ == "__main__":
    main()
