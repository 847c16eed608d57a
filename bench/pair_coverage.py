"""How often the interval of every single pair covers, over many tallies.

``python -m bench.pair_coverage --data DIR [--tallies 1000] [--json FILE] [--only NAMES] [--keys 3,...]
[--write]`` draws tallies of ``pairs`` from the guests of README, and from the most held keys of real
tables in DIR. A row has the pairs that are covered least and most. Beside them is the range in which
both would lie, 95 % of the time, if every pair were covered 95 % of the time. An unbounded interval
covers; their share is in the last column. With 20 keys there are a third of the tallies, with 100 keys a
tenth. ``--json`` keeps rows that were measured before.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from math import lgamma, log
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import keyveil as kv
from keyveil.people.people import People
from keyveil.simulate.conditional_questions import true_value
from keyveil.simulate.tallies import Population, simulate

from .shrunk_conditionals import RANGES, TABLES, answers, most_held

PAGE = Path(__file__).parents[1] / "docs" / "conditional.md"
GUESTS = 60_000
EPSILONS = ("0.5", "1", "2", "4")
SETTINGS = (
    *(("guests", 5, GUESTS, epsilon) for epsilon in ("1", "2")),
    ("movietweetings-336k", 3, 100_000, "1"),
    *((n, 8, people, e) for n in TABLES for people in (6000, 100_000, 1_000_000) for e in EPSILONS),
    *((name, 20, 100_000, epsilon) for name in TABLES for epsilon in EPSILONS),
    *((name, 100, 1_000_000, "2") for name in TABLES),
)
"""Table, keys, people and epsilon."""
FEWER = {20: 3, 100: 10}
"""By the number of keys: the factor by which there are fewer tallies."""
LEVEL = 0.95
HEADER = [
    "| table | keys | people | epsilon | tallies | answer | pairs | covered, all | least | most "
    "| both expected in | unbounded |",
    "| --- | --: | --: | --: | --: | --- | --: | --: | --: | --: | --- | --: |",
]


def guests() -> Population:
    """The guests of README."""
    frame = pd.DataFrame(kv.synthetic.orders(GUESTS))
    columns = {"person": "guest", "key": "dish", "value": "rating"}
    schema = kv.Schema.from_frame(frame, **columns, low=1, high=5)
    people = People.from_frame(frame, schema, **columns, everyone=GUESTS)
    return Population(schema, people).on_unit_scale()


def expected_range(pairs: int, tallies: int) -> tuple[float, float]:
    """The lowest and highest share of ``pairs`` independent binomial shares, each 2.5 % of the time."""
    ways = np.array([lgamma(k + 1) for k in range(tallies + 1)])
    k = np.arange(tallies + 1)
    below = np.cumsum(
        np.exp(ways[-1] - ways - ways[::-1] + k * log(LEVEL) + (tallies - k) * log(1 - LEVEL))
    )
    least = int(np.searchsorted(1.0 - (1.0 - below) ** pairs, 0.025))
    most = int(np.searchsorted(below**pairs, 0.975))
    return least / tallies, most / tallies


Row = dict[str, Any]


def rows_of(population: Population, facts: tuple[str, int, int, str], tallies: int) -> Iterator[Row]:
    """The rows of one setting, for frequencies and for means."""
    name, keys, people, epsilon = facts
    tallies = max(2, tallies // FEWER.get(keys, 1))
    plan, names = kv.Plan.of(population.schema, "pairs", epsilon), population.schema.keys
    coins = kv.Coins.stated(f"pair coverage {name}")
    runs = [
        answers(plan, simulate(plan, population, people, coins, run), with_pooled=False)
        for run in range(tallies)
    ]
    for kind in RANGES:
        truth = np.array(
            [
                true_value(population, kv.Query(kind, names[k], ((names[c], True),)))
                for k, c in runs[0].keys.tolist()
            ]
        )
        held = np.isfinite(truth)
        low, high = (np.array([run.best[kind][part][held] for run in runs]) for part in (1, 2))
        asked, truth = ~np.isnan(low), truth[held]
        covered = ((low <= truth + 1e-12) & (truth - 1e-12 <= high)).sum(axis=0)
        share = covered / np.maximum(asked.sum(axis=0), 1)
        yield {
            "table": name, "keys": keys, "people": people, "epsilon": epsilon, "tallies": tallies,
            "answer": kind, "pairs": len(share), "all": float(covered.sum() / asked.sum()),
            "least": float(share.min()), "most": float(share.max()),
            "unbounded": float(np.isinf(low[asked]).mean()),
        }  # fmt: skip


def line(row: Row) -> str:
    """A row as a line of the table."""
    low, high = expected_range(row["pairs"], row["tallies"])
    facts = (row["table"], row["keys"], f"{row['people']:,}", row["epsilon"], f"{row['tallies']:,}")
    shares = [f"{row[name]:.1%}" for name in ("all", "least", "most")]
    cells = [*facts, row["answer"], row["pairs"], *shares, f"{low:.1%} to {high:.1%}"]
    return f"| {' | '.join(map(str, cells))} | {row['unbounded']:.0%} |"


def verdict(rows: list[Row]) -> list[str]:
    """For each answer: the coverage, and how many settings have a pair outside the range of chance."""
    lines = []
    for kind in RANGES:
        here = [row for row in rows if row["answer"] == kind]
        ends = [expected_range(row["pairs"], row["tallies"]) for row in here]
        below = sum(row["least"] < low for row, (low, _) in zip(here, ends, strict=True))
        above = sum(row["most"] > high for row, (_, high) in zip(here, ends, strict=True))
        average = [row["all"] for row in here]
        many = [row for row in here if row["keys"] not in FEWER]
        least = min(many, key=lambda row: float(row["least"]))
        lines.append(
            f"- {kind.capitalize()}: {min(average):.1%} to {max(average):.1%} of intervals cover. "
            f"The pair that is covered least, up to 8 keys, is covered {least['least']:.1%} of the time "
            f"({least['table']}, {least['people']:,} people, epsilon {least['epsilon']}). "
            f"At {below} of {len(here)} settings the least covered pair lies below the range of chance, "
            f"and at {above} the most covered one above it."
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pair_coverage", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder with the tables of ratings")
    parser.add_argument("--tallies", type=int, default=1000)
    parser.add_argument("--only", default="", help="names of tables, all by default")
    parser.add_argument("--keys", default="", help="numbers of keys, all by default")
    parser.add_argument("--people", default="", help="numbers of people, all by default")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    measured: list[Row] = []
    if given.json and given.json.exists():
        measured = json.loads(given.json.read_text())
    parts = ("table", "keys", "people", "epsilon")
    known = {tuple(row[part] for part in parts) for row in measured}
    for facts in SETTINGS:
        name, keys, people, _ = facts
        asked = ((given.only, name), (given.keys, str(keys)), (given.people, str(people)))
        if facts in known or any(words and own not in words.split(",") for words, own in asked):
            continue
        table = given.data / f"{name}.parquet"
        population = guests() if name == "guests" else most_held(table, TABLES[name], keys)
        for row in rows_of(population, facts, given.tallies):
            measured.append(row)
            print(line(row), flush=True)
        if given.json:
            given.json.write_text(json.dumps(measured))
    measured.sort(key=lambda row: SETTINGS.index(tuple(row[part] for part in parts)))
    lines = [*verdict(measured), "", *HEADER, *map(line, measured)]
    print("\n".join(lines))
    if given.write:
        page = PAGE.read_text("utf-8")
        start, end = "<!-- bench:pair-coverage -->", "<!-- /bench -->"
        before, rest = page.split(start)
        after = rest.split(end, 1)[1]
        PAGE.write_text(f"{before}{start}\n\n" + "\n".join(lines) + f"\n\n{end}{after}", "utf-8")


if __name__ == "__main__":
    main()
