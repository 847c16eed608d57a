"""The errors that a user of the commands gets, beside the rows of ``auto`` in ``compare``.

``python -m bench.end_to_end [--write] [--data DIR] [--repeat 10] [--people 20000] [--epsilon 1,4]
[--only NAMES] [--json FILE]`` draws people from a population, writes them as a table, and runs
``plan --mechanism auto``, ``privatise``, ``tally`` and ``estimate`` in files. If the planner recommends
a first round, some people answer it, and ``plan --pilot`` plans for the others. The reports also go to
a collector over HTTP, whose answers are measured, too. Errors are those of ``compare``: on [-1, 1],
averaged over keys. People are an independent draw from the population in each repetition, as in a
simulation. With ``--data`` there are the most held keys of real tables. ``--json`` keeps rows that were
measured before.
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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import hypot
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np

from keyveil import Coins, People, Plan, Prior, Schema
from keyveil.cli.command import run
from keyveil.people.population import Population
from keyveil.people.synthetic import StatedPopulation, gaussian, pckv_uniform, tied
from keyveil.plan.report_file import reading
from keyveil.planner.competitor import competitor_name
from keyveil.service.collector.http.batches import BINARY, encode_binary
from keyveil.simulate.contest import Contest
from keyveil.simulate.contest_row import standard_error

from .planner import EPSILONS, write
from .shrunk_conditionals import TABLES, most_held

KEYVEIL = str(Path(sys.executable).parent / "keyveil")
KEYS = 20
POPULATIONS: dict[str, Callable[[], StatedPopulation]] = {
    "gaussian": lambda: gaussian(KEYS),
    "pckv-uu": lambda: pckv_uniform(KEYS),
    "tied": lambda: tied(KEYS, frequency=0.3, mean=0.4),
}
"""Made-up populations: many keys a person, one key a person, and keys that go together."""
ROW = "auto:nothing"
"""The row of ``compare`` that plans as these commands do: told nothing, and with a first round."""
BATCH = 5000
HEADER = [
    "| population | epsilon | first round | plan | f: files | compare | difference (se) "
    "| m: files | compare | difference (se) | collector's answers |",
    "| --- | --: | --: | --- | --: | --: | --: | --: | --: | --: | --- |",
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


def collected(url: str, folder: Path, name: str, plan_path: Path, file: Path) -> dict[str, Any]:
    """The collector's answers to the reports of a file."""
    plan = Plan.load(plan_path)
    commands("collection", "create", name, plan_path, "--store", folder / "collector.sqlite")
    path = f"{url}/v1/collections/{name}"
    for _ in range(600):  # a served collector reads new collections now and then
        if (answer := httpx.get(path)).status_code == 200:
            break
        time.sleep(0.1)
    epoch = answer.raise_for_status().json()["epoch"]["now"]
    for reports in reading(plan, file):
        rows = plan.packing.packed(reports)
        for first in range(0, len(rows), BATCH):
            part = rows[first : first + BATCH]
            body = encode_binary(plan.hash, epoch, secrets.token_bytes(16 * len(part)), part.tobytes())
            answer = httpx.post(
                f"{path}/reports", content=body, headers={"content-type": BINARY}, timeout=60
            )
            answer.raise_for_status()
    return httpx.get(f"{path}/estimates", timeout=60).json()


def write_table(path: Path, schema: Schema, people: People, first: int, last: int) -> None:
    """A table of some of the people; who holds nothing has a row without a key."""
    starts = people.starts[first : last + 1]
    number, held = np.diff(starts), slice(starts[0], starts[-1])
    who = np.repeat(np.arange(first, last), number)
    keys, values = np.array(schema.keys)[people.keys[held]], people.values[held]
    rows = [f"{p},{k},{v!r}" for p, k, v in zip(who, keys, values.tolist(), strict=True)]
    rows += [f"{p},," for p in first + np.flatnonzero(number == 0)]
    path.write_text("\n".join(["person,key,value", *rows]) + "\n")


FORCE = ("--force", "-o")
"""Outputs of an earlier repetition are replaced."""
AUTO = ("plan", "--mechanism", "auto", "--anyway")


def printed(*arguments: object) -> Any:
    """The JSON that a command prints."""
    words = [KEYVEIL, *map(str, arguments), "--json"]
    return json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout)


def make_plan(population: Population, people: int, epsilon: str, folder: Path) -> int:
    """Make the plan, or that of a first round, as ``first.json``; the people to ask first, or 0."""
    (folder / "keys.txt").write_text("\n".join(population.schema.keys) + "\n")
    arguments = ("--keys", folder / "keys.txt", "--range=-1,1", "--epsilon", epsilon, "--people", people)
    facts = printed(*AUTO, *arguments, *FORCE, folder / "first.json")
    return int(facts["advice"]["first_round"]["people"]) if facts["is_first_round"] else 0


def tallied(plan: Path, table: Path, name: str) -> Path:
    """The tally of a table of people, privatised in files."""
    reports, tally = (table.with_name(f"{name}.{kind}.kv") for kind in ("reports", "tally"))
    commands("privatise", plan, table, *FORCE, reports)
    commands("tally", plan, reports, *FORCE, tally)
    return tally


def one_run(
    population: Population, pilot_size: int, folder: Path, url: str, name: str, drawn: People
) -> RunErrors:
    """Plan, privatise, tally and estimate in files, and send the same reports to the collector."""
    plan_path, table = folder / "first.json", folder / "people.csv"
    if pilot_size:
        write_table(folder / "few.csv", population.schema, drawn, 0, pilot_size)
        pilot_tally = tallied(plan_path, folder / "few.csv", "few")
        plan_path = folder / "plan.json"
        pilot = ("--pilot", folder / "first.json", pilot_tally)
        commands(*AUTO, *pilot, "--people", len(drawn) - pilot_size, *FORCE, plan_path)
    write_table(table, population.schema, drawn, pilot_size, len(drawn))
    tally = tallied(plan_path, table, "people")
    plan, answers = Plan.load(plan_path), printed("estimate", plan_path, tally)
    served = collected(url, folder, name, plan_path, folder / "people.reports.kv")
    keys = answers["keys"] if isinstance(answers, dict) else answers
    errors = {}
    prior = Prior.of_people(population.schema, population.people)
    for kind, truth in (("frequency", prior.frequency), ("mean", prior.mean)):
        values = np.array([key[kind]["value"] for key in keys], np.float64)
        low = 0.0 if kind == "frequency" else -1.0
        guesses = np.nan_to_num(values, nan=(low + 1) / 2)
        errors[kind] = float(((np.clip(guesses, low, 1.0) - truth)[prior.frequency > 0] ** 2).mean())
    pairs = zip(keys, served["keys"], strict=True)
    same = all(a[kind]["value"] == b[kind]["value"] for a, b in pairs for kind in errors)
    return RunErrors(plan, errors["frequency"], errors["mean"], same)


def row(
    name: str, population: Population, epsilon: str, people: int, repeat: int, url: str, folder: Path
) -> str:
    """One line of the table."""
    draw = Coins.stated(f"end to end {name} {epsilon}").generator()
    label = f"{name}-{epsilon}".replace(".", "-")
    pilot_size = make_plan(population, people, epsilon, folder)
    runs = [
        one_run(population, pilot_size, folder, url, f"{label}-{number}", population.draw(people, draw))
        for number in range(repeat)
    ]
    contest = Contest(population, people, 10 * repeat, Coins.stated("end to end"), pilots=2 * repeat)
    measured = contest.rows(ROW, epsilon)[0]
    plans = Counter(competitor_name(run_errors.plan) for run_errors in runs)
    took = ", ".join(f"{plan} ({times})" if pilot_size else plan for plan, times in plans.most_common())
    cells = [name, epsilon, f"{pilot_size:,}" if pilot_size else "-", took]
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
    parser.add_argument("--data", type=Path, help="a folder with the tables of ratings")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--epsilon", default="1,4")
    parser.add_argument("--only", default="", help="names of populations, all by default")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: dict[str, str] = {}
    if given.json and given.json.exists():
        rows = json.loads(given.json.read_text())
    populations = [*POPULATIONS, *(TABLES if given.data else ())]
    print("\n".join(HEADER))
    with tempfile.TemporaryDirectory(prefix="keyveil-bench-") as place, collector(Path(place)) as url:
        for name in populations:
            if given.only and name not in given.only.split(","):
                continue
            if name in POPULATIONS:
                stated = POPULATIONS[name]()
                population = Population(stated.schema, stated.people)
            else:
                population = most_held(given.data / f"{name}.parquet", TABLES[name], KEYS)
            for epsilon in given.epsilon.split(","):
                setting = f"{name} {epsilon}"
                if setting not in rows:
                    arguments = (epsilon, given.people, given.repeat)
                    rows[setting] = row(name, population, *arguments, url, Path(place))
                    print(rows[setting], flush=True)
                if given.json:
                    given.json.write_text(json.dumps(rows))
    names = [f"{name} {epsilon}" for name in populations for epsilon in EPSILONS]
    if given.write:
        write({"end_to_end": [*HEADER, *(rows[setting] for setting in names if setting in rows)]})


if __name__ == "__main__":
    main()
