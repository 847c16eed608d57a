"""Errors with and without a side question, at the same epsilon and with the same number of people.

``python -m bench.side [--write] [--data DIR] [--repeat 40] [--epsilon 0.2,0.5,1,2] [--people 100000]``
takes the planner's choice without a side part, and the same plan when a share of people tells only the
sign of one held value. The share is the planner's, or a tenth if the planner asks no one. Populations
are two synthetic sparse ones, and with ``--data`` sparse real tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.planner import write
from keyveil import Coins, Plan, Schema
from keyveil.people.population import Population
from keyveil.people.synthetic import of_keys, uniform_values
from keyveil.people.tables.top_keys import read_top
from keyveil.planner.competitor import competitor_name
from keyveil.simulate.contest import Contest

TABLES = {"movietweetings-336k": (0.0, 10.0), "online-retail-uci": (0.0, 100.0)}
"""Tables and the ranges of their values."""
KEYS = 100
USUAL = "0.1"
"""The share of people that is measured if the planner asks no one."""


def populations(data: Path | None) -> Iterator[tuple[str, Population]]:
    """Sparse populations of 100 keys by name."""
    draw = np.random.default_rng(3)
    wobble = draw.normal(size=(2, KEYS))
    steep = 0.24 * np.arange(1, KEYS + 1) ** -0.9
    crowds = {
        "steep": (steep, np.clip(0.4 + 0.15 * wobble[0], -0.95, 0.95)),
        "flat": (np.full(KEYS, 0.03), np.clip(-0.3 + 0.3 * wobble[1], -0.95, 0.95)),
    }
    for name, (frequency, means) in crowds.items():
        stated = of_keys(frequency, means, uniform_values)
        yield name, Population(stated.schema, stated.people)
    for name, (low, high) in TABLES.items() if data is not None else ():
        read = read_top(str(data / f"{name}.parquet"), "user", "key", "value", (low, high), KEYS)
        schema = Schema.of(read.keys, repr(low), repr(high))
        yield name, Population(schema, read.people).on_unit_scale()


def line(name: str, contest: Contest, epsilon: str) -> str:
    """One row of the table."""
    options = contest.advice(epsilon).options
    plain = next(option.plan for option in options if "sign" not in option.family.split("+"))
    auto = "sign" in options[0].family.split("+")
    listed = {"parts": f"{competitor_name(plain).removeprefix('parts:')}/sign@{USUAL}"}
    usual = Plan.of_document(plain.schema, "parts", epsilon, plain.calibrate, listed)
    whole = options[0].plan if auto else usual
    assert whole.parts is not None
    before, after = (contest.rows(competitor_name(plan), epsilon)[0] for plan in (plain, whole))
    share = f"{100 * whole.parts[-1].share:.0f} %" + ("" if auto else " (auto: none)")
    return (
        f"| {name} | {epsilon} | {competitor_name(plain)} | {share} "
        f"| {before.mse_frequency:.2e} | {after.mse_frequency:.2e} "
        f"| {after.mse_frequency / before.mse_frequency:.2f} "
        f"| {before.mse_mean:.4f} | {after.mse_mean:.4f} | {before.mse_mean / after.mse_mean:.2f} "
        f"| {after.predicted_mean / after.mse_mean:.2f} |"
    )


def main() -> None:
    """Measure, print, and with ``--write`` put the table into the docs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeat", type=int, default=40)
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--epsilon", default="0.2,0.5,1,2")
    given = parser.parse_args()
    lines = [
        "| population | epsilon | plan | sign | f without | f with | ratio | m without | m with "
        "| gain | predicted / measured m |",
        "| --- | --: | --- | --- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    print("\n".join(lines))
    for name, population in populations(given.data):
        coins = Coins.stated("bench side").under(name)
        contest = Contest(population, given.people, given.repeat, coins, estimators=("best",))
        for epsilon in given.epsilon.split(","):
            lines.append(line(name, contest, epsilon))
            print(lines[-1], flush=True)
    if given.write:
        write({"side": lines})


if __name__ == "__main__":
    main()
