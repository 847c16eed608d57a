"""The whole line over real HTTP: a collector, 50,000 people's reports, answers and the truth.

``make demo`` runs it. Everything is in a temporary folder that is removed at the end; the collector
listens only on this machine, at a free port.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from keyveil import Client, Coins, People, Plan
from keyveil.cli.demo_people import FOODS, population, record
from keyveil.cli.output import plain_only
from keyveil.service.collector.http.batches import BINARY, encode_binary

PEOPLE = 50_000
SINGLE = 5
"""Number of people who use a device of their own, each with a ledger."""
BATCH = 5_000
QUESTIONS = ("frequency(Pepsi | Hamburger)", "mean(Fries | Hamburger)", "frequency(Salad | Hamburger)")
WIDTH = 40
"""Columns of a bar."""
SIGNS = "-=|" if plain_only(sys.stdout.encoding, os.environ) else "─█│"
"""The range of a statistic, the interval, and the truth."""
LEGEND = f"{SIGNS[1]} interval, {SIGNS[2]} truth, on 0 to 1; means on 1 to 5"
KEYVEIL = str(Path(sys.executable).parent / "keyveil")
SHOWN = ".venv/bin/keyveil" if ".venv/bin/keyveil" in KEYVEIL else "keyveil"
"""The command as a person in the clone types it."""


def command(line: str, folder: Path) -> None:
    """Show a command and run it."""
    print(f"\n$ keyveil {line}", flush=True)
    subprocess.run([KEYVEIL, *shlex.split(line)], cwd=folder, check=True)


@contextmanager
def collector(folder: Path) -> Iterator[str]:
    """Run ``keyveil serve`` for as long as the block runs; yields its address."""
    words = ["serve", "--store", "collector.sqlite", "--port", "0"]
    print(f"\n$ keyveil {' '.join(words)}", flush=True)
    log = (folder / "log").open("wb")
    server = subprocess.Popen(
        [KEYVEIL, *words], cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True
    )
    try:
        assert server.stdout is not None
        said = server.stdout.readline()
        print(said, end="", flush=True)
        address = re.search(r"http://[^ ]+", said)
        if address is None:
            sys.exit((folder / "log").read_text())
        while httpx.get(f"{address[0]}/ready").status_code != 200:
            time.sleep(0.02)
        yield address[0]
    finally:
        server.terminate()
        server.wait(30)
        if server.stdout is not None:
            server.stdout.close()
        log.close()


def send_many(url: str, plan: Plan, held: np.ndarray, ratings: np.ndarray) -> int:
    """Draw everyone's report as on their devices, and send them in compact batches."""
    who, foods = np.nonzero(held)
    missing = np.flatnonzero(~held.any(axis=1))  # people who order nothing take part like anyone else
    people = People.of_rows(
        plan.schema,
        np.concatenate([who, missing]),
        np.concatenate([foods, np.full(len(missing), -2)]),
        np.concatenate([ratings[held], np.zeros(len(missing))]),
    )
    rows = plan.packing.packed(plan.privatise(people, Coins.secure()))
    epoch = httpx.get(f"{url}/v1/collections/menu").json()["epoch"]["now"]
    with httpx.Client(timeout=60, headers={"content-type": BINARY}) as http:

        def post(first: int) -> int:
            part = rows[first : first + BATCH]
            ids = secrets.token_bytes(16 * len(part))
            body = encode_binary(plan.hash, epoch, ids, part.tobytes())
            answer = http.post(f"{url}/v1/collections/menu/reports", content=body)
            answer.raise_for_status()
            return int(answer.json()["accepted"])

        with ThreadPoolExecutor(4) as pool:
            return sum(pool.map(post, range(0, len(rows), BATCH)))


def send_singly(url: str, folder: Path, held: np.ndarray, ratings: np.ndarray) -> int:
    """Send a few people's reports through ``keyveil.Client``; asked twice, they answer once."""
    counted = 0
    for number in range(len(held)):
        with Client(url, folder / f"device{number}", cap=4, allow=2) as client:
            counted += client.answer("menu", record(held, ratings, number)).counted
            client.answer("menu", {"Salad": 1.0})  # the record changed, but the first report stays
            if number == 0:
                print(
                    f"one person's ledger: spent {client.spent:.3f} of {client.cap}, "
                    f"all for {', '.join(entry.collection for entry in client.answers())}"
                )
    return counted


def show(url: str, held: np.ndarray, ratings: np.ndarray) -> None:
    """Print the answers of the collector's API, and the truth from all records."""
    path = f"{url}/v1/collections/menu"
    answers = httpx.get(f"{path}/estimates", timeout=60).json()
    asked = httpx.get(f"{path}/queries", params={"q": list(QUESTIONS)}, timeout=60).json()
    rows = []
    for place, key in enumerate(answers["keys"]):
        mine = held[:, place]
        rows.append((f"frequency({key['key']})", mine.mean(), key["frequency"]))
        rows.append((f"mean({key['key']})", ratings[mine, place].mean(), key["mean"]))
    rows += [
        (query, true_answer(query, held, ratings), answer)
        for query, answer in zip(QUESTIONS, asked["answers"], strict=True)
    ]
    print(f"\n{answers['reports']:,} reports counted. The truth beside the answers:\n")
    print(f"{'':<30} {'truth':>7} {'answer':>8}   {'95 % interval':<16} {LEGEND}")
    inside = 0
    for name, truth, answer in rows:
        inside += line(name, float(truth), answer)
    print(f"\n{inside} of {len(rows)} intervals hold the truth (on average 95 %, give or take luck).")


def line(name: str, truth: float, answer: dict[str, Any]) -> bool:
    """Print one answer; returns whether its interval contains the truth."""
    low, high = answer["low"], answer["high"]
    ends = (1.0, 5.0) if name.startswith("mean") else (0.0, 1.0)
    if answer["value"] is None or low is None or high is None:
        print(f"{name:<30} {truth:>7.3f} {'?':>8}   {'unbounded':<16} {bar(truth, *ends, ends)}")
        return True
    interval = f"[{low:.3f}, {high:.3f}]"
    inside = bool(low <= truth <= high)
    picture = bar(truth, low, high, ends) + ("" if inside else "  missed")
    print(f"{name:<30} {truth:>7.3f} {answer['value']:>8.3f}   {interval:<16} {picture}")
    return inside


def bar(truth: float, low: float, high: float, ends: tuple[float, float]) -> str:
    """The interval as a bar within the range of the statistic, with the truth marked."""

    def column(value: float) -> int:
        return min(WIDTH - 1, max(0, int((value - ends[0]) / (ends[1] - ends[0]) * WIDTH)))

    line, filled, mark = SIGNS
    cells = [line] * WIDTH
    cells[column(low) : column(high) + 1] = [filled] * (column(high) + 1 - column(low))
    cells[column(truth)] = mark
    return "".join(cells)


def true_answer(query: str, held: np.ndarray, ratings: np.ndarray) -> float:
    """The answer to a query, from the records themselves."""
    kind, target, given = re.fullmatch(r"(\w+)\((\w+) \| (\w+)\)", query).groups()  # type: ignore[union-attr]
    names = list(FOODS)
    of, among = names.index(target), held[:, names.index(given)]
    if kind == "frequency":
        return float(held[among, of].mean())
    return float(ratings[among & held[:, of], of].mean())


def main() -> None:
    """Run the demo: plan, collection, collector, reports, answers, clean-up."""
    started = time.perf_counter()
    held, ratings = population(PEOPLE)
    print(f"{PEOPLE:,} people order {int(held.sum()):,} foods and rate them; no record leaves a device.")
    with tempfile.TemporaryDirectory(prefix="keyveil-demo-") as name:
        folder = Path(name)
        (folder / "foods.txt").write_text("\n".join(FOODS) + "\n")
        command("plan --keys foods.txt --range 1,5 --epsilon 2 --mechanism pairs -o plan.json", folder)
        command("collection create menu plan.json --store collector.sqlite", folder)
        plan = Plan.load(folder / "plan.json")
        with collector(folder) as url:
            begun = time.perf_counter()
            many = send_many(url, plan, held[SINGLE:], ratings[SINGLE:])
            seconds = time.perf_counter() - begun
            print(f"\n{many:,} reports in batches of {BATCH:,}: on disk after {seconds:.1f} s")
            devices = send_singly(url, folder, held[:SINGLE], ratings[:SINGLE])
            print(f"{devices} devices of their own: each counted once")
            show(url, held, ratings)
            print(f"\nits dashboard: {url}/, its API: {url}/api; they end with this demo.")
        print(f"To look at a dashboard while visitors arrive: {SHOWN} demo")
        print(f"To keep a collector running: {SHOWN} serve (docs/collector.md).")
    print(f"seconds: {time.perf_counter() - started:.1f}; nothing is left behind.")


if __name__ == "__main__":
    main()
