"""How often the interval of every single key covers, over many tallies of the planner's choice.

``python -m bench.key_coverage --data DIR [--tallies 1000] [--json FILE] [--only NAMES] [--write]`` takes
the populations of ``bench.planner`` at eight epsilons. The planner is told the table. A row has the keys
that are covered least and most. An unbounded interval covers; the last column counts bounded ones alone.
``--json`` keeps rows that were measured before, so that populations can be measured one after the other.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keyveil import Coins
from keyveil.estimate import Band, bands
from keyveil.foundation.arrays import Floats
from keyveil.people.population import Population
from keyveil.planner.competitor import competitor_name
from keyveil.simulate.contest import Contest
from keyveil.simulate.tallies import simulate_runs

from .pair_coverage import expected_range
from .planner import EPSILONS, NAMES, populations, write

ROUNDING = 1e-12
"""A true frequency of one may be a little more by rounding."""
HEADER = [
    "| population | epsilon | plan | answer | covered, all | least | most | both expected in | bounded "
    "| covered, of these |",
    "| --- | --: | --- | --- | --: | --: | --: | --- | --: | --: |",
]


def row(band: Band, truth: Floats) -> dict[str, float]:
    """Coverage over keys whose truth is known: of all intervals, and of bounded ones."""
    known = np.isfinite(truth)
    low, high, true = band.low[:, known], band.high[:, known], truth[known]
    inside = (low <= true + ROUNDING) & (true - ROUNDING <= high)
    bounded = np.isfinite(low) & np.isfinite(high)
    by_key = inside.mean(axis=0)
    return {
        "keys": len(by_key),
        "tallies": len(inside),
        "all": float(by_key.mean()),
        "least": float(by_key.min()),
        "most": float(by_key.max()),
        "bounded": float(bounded.mean()),
        "of_bounded": float(inside[bounded].mean()) if bounded.any() else float("nan"),
    }


def rows(
    name: str, population: Population, people: int, epsilon: str, tallies: int
) -> Iterator[dict[str, object]]:
    """Both rows of one setting, for frequencies and for means."""
    contest = Contest(population, people, 1, Coins.stated("key coverage"))
    plan, prior = contest.advice(epsilon).plan, contest.table_prior
    coins = Coins.stated(f"key coverage {name} {epsilon}")
    answers = bands(plan, simulate_runs(plan, population, people, coins, tallies))
    means = np.where(prior.frequency > 0, prior.mean, np.nan)
    for answer, band, truth in (
        ("frequency", answers.frequency, prior.frequency),
        ("mean", answers.mean, means),
    ):
        assert band is not None
        facts = {"population": name, "epsilon": epsilon, "plan": competitor_name(plan)}
        yield {**facts, "answer": answer, **row(band, truth)}


def line(part: dict[str, object]) -> str:
    """A row as a line of the table."""
    low, high = expected_range(int(part["keys"]), int(part["tallies"]))
    shares = [f"{part[name]:.1%}" for name in ("all", "least", "most")]
    facts = [part[name] for name in ("population", "epsilon", "plan", "answer")]
    cells = [*facts, *shares, f"{low:.1%} to {high:.1%}", f"{part['bounded']:.0%}"]
    return f"| {' | '.join(map(str, cells))} | {part['of_bounded']:.1%} |"


def verdict(measured: list[dict[str, object]]) -> list[str]:
    """The least covered key of each answer, and how many rows have their least one below chance."""
    lines = []
    for answer in ("frequency", "mean"):
        here = [part for part in measured if part["answer"] == answer]
        least = min(here, key=lambda part: float(part["least"]))
        low = [expected_range(int(part["keys"]), int(part["tallies"]))[0] for part in here]
        below = sum(float(part["least"]) < end for part, end in zip(here, low, strict=True))
        average = [float(part["all"]) for part in here]
        lines.append(
            f"- {answer.capitalize()}: {min(average):.1%} to {max(average):.1%} of intervals cover. The "
            f"key that is covered least is covered {least['least']:.1%} of the time "
            f"({least['population']} at {least['epsilon']}). At {below} of {len(here)} settings the "
            "least covered key lies below the range of chance."
        )
    return lines


def main() -> None:
    """Measure, print, and with ``--write`` put the table into the docs."""
    parser = argparse.ArgumentParser(prog="python -m bench.key_coverage", description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder with the tables of ratings")
    parser.add_argument("--tallies", type=int, default=1000)
    parser.add_argument("--epsilon", default=",".join(EPSILONS))
    parser.add_argument("--only", default="", help="names of populations, all by default")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    measured: list[dict[str, object]] = []
    if given.json and given.json.exists():
        measured = json.loads(given.json.read_text())
    settings = {(part["population"], part["epsilon"]) for part in measured}
    only = {name for name in given.only.split(",") if name}
    for name, (population, people) in populations(given.data, only).items():
        for epsilon in given.epsilon.split(","):
            if (name, epsilon) in settings:
                continue
            for part in rows(name, population, people, epsilon, given.tallies):
                measured.append(part)
                print(line(part), flush=True)
            if given.json:
                given.json.write_text(json.dumps(measured))
    measured.sort(key=lambda part: (NAMES.index(str(part["population"])), float(str(part["epsilon"]))))
    lines = [*verdict(measured), "", *HEADER, *map(line, measured)]
    print("\n".join(lines))
    if given.write:
        write({"key-coverage": lines})


if __name__ == "__main__":
    main()
