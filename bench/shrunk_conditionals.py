"""Conditionals with and without shrinkage on the same tallies: ``best`` beside ``pooled``.

``python -m bench.shrunk_conditionals --data DIR [--write] [--repeat 20] [--keys 8,20,100]
[--people 6e3,1e5,1e6] [--epsilon 0.5,1,2,4] [--place shrunk] [--json FILE]`` reads the tables of ratings
in DIR and measures all ordered pairs of each table's most held keys with ``pairs``. A ratio is the
squared error of ``pooled`` over that of ``best``, values clipped to their range, unknown ones taken as
its middle. ``--json`` keeps rows that were measured before, so that tables can be measured one by one.
``bench.pair_coverage`` has the coverage of every single pair.
"""

from __future__ import annotations

import argparse
import json
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keyveil import Coins, Plan, Schema, Tally
from keyveil.estimate import bands
from keyveil.estimate.projection import nearest_law
from keyveil.estimate.together.joint import evidence
from keyveil.estimate.together.query import Query
from keyveil.estimate.together.shrunk_conditionals import ShrunkConditionals
from keyveil.estimate.together.view_laws import ViewEvidence
from keyveil.people.tables.top_keys import read_top
from keyveil.simulate.conditional_questions import true_value
from keyveil.simulate.tallies import Population, simulate

PAGE = Path(__file__).parents[1] / "docs" / "conditional.md"
TABLES = {
    "ml-25m-recent": (0.5, 5.0),
    "movietweetings-336k": (0.0, 10.0),
    "jester-1": (-10.0, 10.0),
    "online-retail-uci": (0.0, 100.0),
}
"""Tables and the range that their values are cut to."""
RANGES = {"frequency": (0.0, 1.0), "mean": (-1.0, 1.0)}
HEADER = [
    "| table | keys | people | epsilon | f: pooled over best | m | coverage f | worst tenth of pairs | "
    "m | worst tenth | m unbounded |",
    "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |",
]


def most_held(path: Path, ends: tuple[float, float], keys: int) -> Population:
    """The people of a table with its most held keys, values on [-1, 1]."""
    read = read_top(str(path), "user", "key", "value", ends, keys)
    schema = Schema.of(read.keys, repr(ends[0]), repr(ends[1]))
    return Population(schema, read.people).on_unit_scale()


class PairAnswers(NamedTuple):
    """Answers of all ordered pairs by statistic: value and both ends ``(pairs,)``."""

    keys: np.ndarray
    """Target and condition of each pair."""
    best: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
    pooled: dict[str, np.ndarray]


def answers(plan: Plan, tally: Tally, with_pooled: bool = True) -> PairAnswers:
    """The default and, if asked, the pooled answers of all pairs of a plan of pairs, at once.

    They are those of ``Conditionals``, which answers one query at a time. Pairs without reports are NaN.
    """
    source = evidence(plan, tally)
    singles = bands(plan, tally.counts, "best")
    pairs = ShrunkConditionals(plan.schema, source, singles, 0.95).pairs
    best = {
        "frequency": (pairs.frequencies()[0], *pairs.frequency_ends),
        "mean": (pairs.means()[0], *pairs.mean_ends),
    }
    assert isinstance(source, ViewEvidence)
    pooled = pooled_values(plan, source, pairs.keys.tolist()) if with_pooled else {}
    keys = np.array(list(permutations(range(len(plan.schema.keys)), 2)))
    place = {(int(k), int(c)): row for row, (k, c) in enumerate(keys)}
    rows = np.array([place[int(k), int(c)] for k, c in pairs.keys])

    def on_all(part: np.ndarray) -> np.ndarray:
        whole = np.full(len(keys), np.nan)
        whole[rows] = part
        return whole

    return PairAnswers(
        keys,
        {kind: (on_all(value), on_all(low), on_all(high)) for kind, (value, low, high) in best.items()},
        {kind: on_all(part) for kind, part in pooled.items()},
    )


def pooled_values(plan: Plan, source: ViewEvidence, pairs: list[list[int]]) -> dict[str, np.ndarray]:
    """The values of pairs at the nearest proper law of their view."""
    laws = {
        plan.views.keys[int(view)]: law.reshape(3, 3)
        for group in source.groups
        for view, law in zip(group.views, nearest_law(group.laws, group.covariance), strict=True)
    }
    tables = np.array([laws[k, c] if (k, c) in laws else laws[c, k].T for k, c in pairs])
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = tables[:, 1, 1:].sum(axis=1), tables[:, 2, 1:].sum(axis=1)
        return {
            "frequency": (low + high) / tables[:, :, 1:].sum(axis=(1, 2)),
            "mean": (high - low) / (low + high),
        }


def squared_error(values: np.ndarray, truth: np.ndarray, asked: np.ndarray, kind: str) -> float:
    """The mean squared error of pairs with reports.

    Values are clipped, and unknown ones are the middle of their range.
    """
    low, high = RANGES[kind]
    guesses = np.clip(np.nan_to_num(values, nan=(low + high) / 2), low, high)
    return float(((guesses - truth) ** 2)[asked].mean())


def row(name: str, population: Population, people: int, epsilon: str, repeat: int) -> tuple[str, tuple]:
    """One line of the table, and its two ratios."""
    schema = population.schema
    plan = Plan.of(schema, "pairs", epsilon)
    coins = Coins.stated(f"bench {name}")
    runs = [answers(plan, simulate(plan, population, people, coins, run)) for run in range(repeat)]
    ratios, cells, names = [], [], schema.keys
    for kind in RANGES:
        truth = np.array(
            [
                true_value(population, Query(kind, names[k], ((names[c], True),)))
                for k, c in runs[0].keys.tolist()
            ]
        )
        known = np.isfinite(truth)
        truth = truth[known]
        best, low, high = (np.array([run.best[kind][part][known] for run in runs]) for part in range(3))
        pooled = np.array([run.pooled[kind][known] for run in runs])
        asked = ~np.isnan(low)
        ratios.append(
            squared_error(pooled, truth, asked, kind) / squared_error(best, truth, asked, kind)
        )
        slack = 1e-12  # a truth of one may be a little more by rounding
        covered = (low <= truth + slack) & (truth - slack <= high)
        inside = covered.sum(axis=0) / np.maximum(asked.sum(axis=0), 1)
        cells.append(f"{covered[asked].mean():.1%}")
        cells.append(f"{np.quantile(inside[asked.any(axis=0)], 0.1):.0%}" if repeat >= 10 else "-")
        unbounded = np.isinf(low[asked]).mean()
    cells.append(f"{unbounded:.0%}")
    facts = (name, len(schema.keys), f"{people:,}", epsilon, *(f"{ratio:.2f}" for ratio in ratios))
    start = f"| {' | '.join(map(str, facts))} | "
    return start + " | ".join(cells) + " |", tuple(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.shrunk_conditionals", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder with the tables of ratings")
    parser.add_argument("--only", default=",".join(TABLES))
    parser.add_argument("--keys", default="8,20,100")
    parser.add_argument("--people", default="6e3,1e5,1e6")
    parser.add_argument("--epsilon", default="0.5,1,2,4")
    parser.add_argument("--repeat", type=int, default=20, help="for 100 keys a tenth of it")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--place", default="shrunk", help="the place on the page to write to")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    measured: dict[str, tuple[str, tuple]] = {}
    if given.json and given.json.exists():
        measured = json.loads(given.json.read_text())
    for name in given.only.split(","):
        for keys in map(int, given.keys.split(",")):
            top = most_held(given.data / f"{name}.parquet", TABLES[name], keys)
            for people in (int(float(number)) for number in given.people.split(",")):
                for epsilon in given.epsilon.split(","):
                    place = f"{name} {keys} {people} {epsilon}"
                    if place in measured:
                        continue
                    repeat = given.repeat if keys < 100 else max(1, given.repeat // 10)
                    measured[place] = row(name, top, people, epsilon, repeat)
                    print(measured[place][0], flush=True)
            if given.json:
                given.json.write_text(json.dumps(measured))
    ratios = [pair for _, pair in measured.values()]
    means = np.exp(np.log(ratios).mean(axis=0))
    least = np.min(ratios, axis=0)
    lines = [
        *HEADER,
        *(line for line, _ in measured.values()),
        "",
        f"Geometric means over {len(ratios)} settings: {means[0]:.2f} for frequencies and "
        f"{means[1]:.2f} for means; at worst {least[0]:.2f} and {least[1]:.2f}.",
    ]
    print(lines[-1])
    if given.write:
        page = PAGE.read_text()
        start, end = f"<!-- bench:{given.place} -->", "<!-- /bench -->"
        before, rest = page.split(start)
        after = rest.split(end, 1)[1]
        PAGE.write_text(f"{before}{start}\n\n" + "\n".join(lines) + f"\n\n{end}{after}")


if __name__ == "__main__":
    main()
