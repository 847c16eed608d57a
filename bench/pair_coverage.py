"""How often the interval of every single pair covers, over many tallies.

``python -m bench.pair_coverage --data DIR [--tallies 1000] [--write]`` draws tallies of ``pairs`` from
the guests of README, and from the most held keys of real tables in DIR. A row has the pairs that are
covered least and most. Beside them is the range in which both would lie, 95 % of the time, if every pair
were covered 95 % of the time. An unbounded interval covers; their share is in the last column.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from math import lgamma, log
from pathlib import Path

import numpy as np
import pandas as pd

import keyveil as kv
from keyveil.people.people import People
from keyveil.simulate.conditional_questions import true_value
from keyveil.simulate.tallies import Population, simulate

from .shrunk_conditionals import RANGES, TABLES, answers, most_held

PAGE = Path(__file__).parents[1] / "docs" / "conditional.md"
GUESTS = 60_000
SETTINGS = (
    ("guests", 5, GUESTS, "1"),
    ("guests", 5, GUESTS, "2"),
    ("ml-25m-recent", 8, 100_000, "0.5"),
    ("ml-25m-recent", 8, 100_000, "1"),
    ("movietweetings-336k", 8, 100_000, "2"),
    ("jester-1", 8, 100_000, "1"),
    ("movietweetings-336k", 3, 100_000, "1"),
)
"""Table, keys, people and epsilon."""
LEVEL = 0.95
HEADER = [
    "| table | keys | people | epsilon | answer | pairs | covered, all | least | most "
    "| both expected in | unbounded |",
    "| --- | --: | --: | --: | --- | --: | --: | --: | --: | --- | --: |",
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


def lines_of(population: Population, facts: tuple[str, int, int, str], tallies: int) -> Iterator[str]:
    """The lines of one setting, for frequencies and for means."""
    name, keys, people, epsilon = facts
    plan, names = kv.Plan.of(population.schema, "pairs", epsilon), population.schema.keys
    coins = kv.Coins.stated(f"pair coverage {name}")
    runs = [answers(plan, simulate(plan, population, people, coins, run)) for run in range(tallies)]
    for kind in RANGES:
        truth = np.array(
            [
                true_value(population, kv.Query(kind, names[k], ((names[c], True),)))
                for k, c in runs[0].keys.tolist()
            ]
        )
        low, high = (np.array([run.best[kind][part] for run in runs]) for part in (1, 2))
        held = np.isfinite(truth)
        covered = ((low <= truth + 1e-12) & (truth - 1e-12 <= high))[:, held].mean(axis=0)
        ends = expected_range(int(held.sum()), tallies)
        yield (
            f"| {name} | {keys} | {people:,} | {epsilon} | {kind} | {len(covered)} "
            f"| {covered.mean():.1%} | {covered.min():.1%} | {covered.max():.1%} "
            f"| {ends[0]:.1%} to {ends[1]:.1%} "
            f"| {np.isinf(low[:, held]).mean():.0%} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pair_coverage", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder with the tables of ratings")
    parser.add_argument("--tallies", type=int, default=1000)
    parser.add_argument("--only", default="", help="names of tables, all by default")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    lines = list(HEADER)
    for facts in SETTINGS:
        name, keys = facts[:2]
        if given.only and name not in given.only.split(","):
            continue
        table = given.data / f"{name}.parquet"
        population = guests() if name == "guests" else most_held(table, TABLES[name], keys)
        for line in lines_of(population, facts, given.tallies):
            lines.append(line)
            print(line, flush=True)
    if given.write:
        page = PAGE.read_text("utf-8")
        start, end = "<!-- bench:pair-coverage -->", "<!-- /bench -->"
        before, rest = page.split(start)
        after = rest.split(end, 1)[1]
        PAGE.write_text(f"{before}{start}\n\n" + "\n".join(lines) + f"\n\n{end}{after}", "utf-8")


if __name__ == "__main__":
    main()
