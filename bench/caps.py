"""Frequencies of the ten most held keys under caps: bias and coverage, without and with a size part.

``python -m bench.caps [--write] [--data DIR] [--repeat 40] [--epsilon 0.5,1,2,5] [--people 100000]``
takes a mechanism with a cap that leaves many keys out, then the same when a twentieth of people tell how
many keys they hold, then the planner's choice. Coverage is that of default answers at 95 %, averaged
over the ten most held keys, and of the one that is covered least. ``--spread`` shows instead how far
the keys of the populations lie from the centre that ``cap_correction`` takes. ``--auto`` measures the
rows of the planner's choice alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.planner import write
from keyveil import Coins, Plan, Schema
from keyveil.estimate import bands
from keyveil.estimate.cap_correction import CapCorrection
from keyveil.estimate.side import SizeAnswer
from keyveil.estimate.size_law import SizeLaw
from keyveil.foundation.arrays import Floats
from keyveil.people.population import Population
from keyveil.people.size_buckets import bucket_of, bucket_shares
from keyveil.people.synthetic import gaussian, of_keys, pckv_gaussian, uniform_values
from keyveil.people.tables.top_keys import read_top
from keyveil.plan.encoding import MOST_CAP
from keyveil.planner.competitor import competitor_name, parse_competitor
from keyveil.simulate.contest import Contest, left_out_by
from keyveil.simulate.tallies import simulate_runs

TABLES = {
    "movietweetings-336k": ((0.0, 10.0), 50),
    "online-retail-uci": ((0.0, 100.0), 50),
    "ml-25m-recent": ((0.5, 5.0), 100),
    "jester-1": ((-10.0, 10.0), 100),
}
"""Tables, the ranges of their values, and the number of their most held keys."""
CAPPED = ("pckv_grr:length=2", "collision:cap=4")
"""Mechanisms whose cap leaves keys out."""
TOP = 10
CAPS = (1, 2, 4, 8, 16)
"""Caps for which the spread is measured."""
MANY = 10**9
"""The number of reports for which the noise of the size question does not matter."""


def populations(data: Path | None) -> Iterator[tuple[str, Population]]:
    """Populations by name: synthetic sparse and dense ones, and real tables."""
    steep = 0.24 * np.arange(1, 51) ** -0.9
    means = np.clip(0.4 + 0.15 * np.random.default_rng(3).normal(size=50), -0.95, 0.95)
    steep_crowd = of_keys(steep, means, uniform_values)
    for name, stated in (("steep", steep_crowd), ("gaussian", gaussian()), ("pckv-gg", pckv_gaussian())):
        yield name, Population(stated.schema, stated.people)
    for name, ((low, high), keys) in TABLES.items() if data is not None else ():
        read = read_top(str(data / f"{name}.parquet"), "user", "key", "value", (low, high), keys)
        schema = Schema.of(read.keys, repr(low), repr(high))
        yield name, Population(schema, read.people).on_unit_scale()


def measured(plan: Plan, population: Population, truth: Floats, people: int, repeat: int) -> str:
    """Bias, coverage, least coverage and width of the ten most held keys, as cells of a table."""
    top = np.argsort(-truth, kind="stable")[:TOP]
    counts = simulate_runs(plan, population, people, Coins.stated("caps"), range(repeat))
    frequency = bands(plan, counts).frequency
    assert frequency is not None
    value, low, high = (part[:, top] for part in (frequency.value, frequency.low, frequency.high))
    covered = ((low <= truth[top]) & (truth[top] <= high)).mean(axis=0)
    bias = (value.mean(axis=0) / truth[top] - 1.0).mean()
    width = ((high - low) / 2 / truth[top]).mean()
    return f"{100 * bias:+.0f} % | {100 * covered.mean():.0f} | {100 * covered.min():.0f} | {width:.2f}"


def lines(
    name: str,
    population: Population,
    epsilon: str,
    people: int,
    repeat: int,
    capped: tuple[str, ...] = CAPPED,
) -> Iterator[str]:
    """Rows of the table for one population at one epsilon."""
    contest = Contest(population, people, repeat, Coins.stated("caps"))
    prior, auto = contest.table_prior, contest.advice(epsilon).plan
    for spec in capped:
        mechanism, stated = parse_competitor(spec)
        plain = Plan.of_document(population.schema, mechanism, epsilon, "tight", stated)
        loss = left_out_by(plain, population.sizes)
        if loss < 0.001:
            continue
        size = Plan.of(population.schema, "size", epsilon, "tight")
        whole = Plan.of_parts([(None, plain), ("0.05", size)])
        cells = [measured(p, population, prior.frequency, people, repeat) for p in (plain, whole)]
        yield f"| {name} | {epsilon} | {spec} | {100 * loss:.0f} % | {cells[0]} | {cells[1]} |"
    loss = left_out_by(auto, population.sizes)
    own = measured(auto, population, prior.frequency, people, repeat)
    yield f"| {name} | {epsilon} | auto: {competitor_name(auto)} | {100 * loss:.0f} % | | | | | {own} |"


def spread(name: str, population: Population) -> Iterator[str]:
    """How far the ten most held keys lie from their centre, in deviations over their holders."""
    prior = Contest(population, 1, 1, Coins.stated("caps")).table_prior
    keys = len(population.schema.keys)
    buckets = int(bucket_of(min(keys, MOST_CAP))) + 1
    shares = bucket_shares(prior.sizes, buckets)
    top = np.argsort(-prior.frequency, kind="stable")[:TOP]
    for cap in CAPS:
        if prior.kept(cap) > 0.999:
            continue
        answer = SizeAnswer(
            np.asarray(MANY), shares, np.zeros((buckets, buckets)), np.zeros(0, np.int64), np.ones(2)
        )
        correction = CapCorrection(SizeLaw.of(answer, keys, [cap]), np.ones(keys))
        moments = prior.capped(cap)
        share = correction.counted_share(moments[:, 0])
        true = moments[:, 0] / np.maximum(prior.frequency, 1e-300)
        off = ((true - share.value) / np.maximum(share.holders, 1e-9))[top]
        yield (
            f"| {name} | {cap} | {100 * (1 - prior.kept(cap)):.0f} % | {off.mean():+.2f} "
            f"| {np.sqrt((off**2).mean()):.2f} | {np.abs(off).max():.2f} |"
        )


HEAD = [
    "| population | epsilon | mechanism | left out | bias | covered, % | least | half width "
    "| bias, size part | covered, % | least | half width |",
    "| --- | --: | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |",
]
SPREAD_HEAD = [
    "| population | cap | left out | mean deviation | root mean square | largest |",
    "| --- | --: | --: | --: | --: | --: |",
]


def main() -> None:
    """Measure, print, and with ``--write`` put the tables into the docs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeat", type=int, default=40)
    parser.add_argument("--epsilon", default="0.5,1,2,5")
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--spread", action="store_true")
    parser.add_argument("--auto", action="store_true", help="the planner's choice alone")
    parser.add_argument("--only", default="", help="names of populations, with commas between them")
    given = parser.parse_args()
    capped = () if given.auto else CAPPED
    head = SPREAD_HEAD if given.spread else HEAD
    table = list(head)
    print("\n".join(head))
    for name, population in populations(given.data):
        if given.only and name not in given.only.split(","):
            continue
        rows = (
            spread(name, population)
            if given.spread
            else (
                row
                for epsilon in given.epsilon.split(",")
                for row in lines(name, population, epsilon, given.people, given.repeat, capped)
            )
        )
        for row in rows:
            print(row, flush=True)
            table.append(row)
    if given.write:
        write({"spread" if given.spread else "caps": table})


if __name__ == "__main__":
    main()
