"""Conditionals side by side: IOH as printed and improved, split, coefficients, and views of pairs.

``python -m bench.conditional [--write] [--repeat 20] [--data FILE]``: correlated keys, all ordered
pairs, values clipped to their range; with ``--data`` also the whole matrix of a table's top 100 keys.
"""

from __future__ import annotations

import argparse
import resource
from pathlib import Path
from statistics import NormalDist
from time import perf_counter

import numpy as np

from keyveil import Coins, People, Plan, Query, Schema
from keyveil.cli.compare import top_people
from keyveil.comparison import Row, compare_conditionals, true_value
from keyveil.estimate.conditional import Conditionals
from keyveil.simulate import Population, simulate

PAGE = Path(__file__).parents[1] / "docs" / "conditional.md"
EPSILONS = ("0.5", "1", "2", "4")
MECHANISMS = ("ioh", "split", "coefficients", "pairs:grr", "pairs:subset", "auto")


def crowd(keys: int = 8, people: int = 20_000) -> Population:
    """Keys held by 80 %, low values, both moved by one hidden taste (correlation one half)."""
    draw = Coins.stated("bench conditional").generator()
    taste = draw.normal(size=(people, 1))
    holds = np.sqrt(0.5) * taste + np.sqrt(0.5) * draw.normal(size=(people, keys))
    pull = np.sqrt(0.3) * taste + np.sqrt(0.7) * draw.normal(size=(people, keys))
    who, key = np.nonzero(holds < NormalDist().inv_cdf(0.8))
    values = np.clip(-0.5 + 0.3 * pull, -1, 1)[who, key]
    schema = Schema.of(keys)
    return Population(schema, People.of_rows(schema, who, key, values))


def table(rows: list[Row]) -> list[str]:
    """Errors, and how many times IOH as printed has."""
    printed = {(r.epsilon, r.n): r for r in rows if r.estimator == "printed"}
    lines = [
        "| n | epsilon | mechanism | estimator | MSE frequency | IOH over it | MSE mean | IOH over it "
        "| coverage f, m |",
        "| --: | --: | --- | --- | --: | --: | --: | --: | --- |",
    ]
    for row in rows:
        base = printed[(row.epsilon, row.n)]
        cover = ", ".join(
            "-" if c is None else f"{c:.1%}" for c in (row.coverage_frequency, row.coverage_mean)
        )
        lines.append(
            f"| {row.n:,} | {row.epsilon:g} | {row.mechanism} | {row.estimator} "
            f"| {row.mse_conditional_frequency:.2e} "
            f"| {base.mse_conditional_frequency / row.mse_conditional_frequency:.1f} x "
            f"| {row.mse_conditional_mean:.2e} "
            f"| {base.mse_conditional_mean / row.mse_conditional_mean:.1f} x | {cover} |"
        )
    return lines


def matrix(data: str, ends: tuple[float, float], people: int = 10**7) -> list[str]:
    """The whole 100 x 100 matrix of a real table: planned, simulated, estimated."""
    keys, records = top_people(data, "user", "key", "value", ends, 100)
    schema = Schema.of(keys, repr(ends[0]), repr(ends[1]))
    lines = [
        "| epsilon | answer | seconds | MSE | mean squared stderr | coverage | bounded |",
        "| --: | --- | --: | --: | --: | --: | --: |",
    ]
    for epsilon in ("1", "2", "4"):
        began = perf_counter()
        population = Population(schema, records)
        plan = Plan.of(schema, "pairs", epsilon)
        source = Conditionals(plan, simulate(plan, population, people, Coins.stated("matrix")))
        made = {kind: source.matrix(kind) for kind in ("frequency", "mean")}
        seconds = perf_counter() - began
        for kind, rows in made.items():
            cells = [cell for row in rows for cell in row if cell is not None]
            true = np.array([true_value(population, Query(kind, *_asked(cell))) for cell in cells])
            if kind == "mean":
                true = ends[0] + (true + 1) / 2 * (ends[1] - ends[0])
            got = np.array(
                [[c.estimate.value, c.estimate.low, c.estimate.high, c.estimate.stderr] for c in cells]
            )
            known = np.isfinite(got[:, 1]) & np.isfinite(got[:, 2])
            inside = (got[:, 1] <= true) & (true <= got[:, 2])
            error = ((got[:, 0] - true) ** 2)[known].mean()
            lines.append(
                f"| {epsilon} | {kind} | {seconds:.1f} | {error:.2e} "
                f"| {(got[known, 3] ** 2).mean():.2e} "
                f"| {inside[known].mean():.1%} | {known.mean():.0%} |"
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    lines.append(f"\nPeak memory of the whole run: {peak:.2f} GiB.")
    return lines


def _asked(cell) -> tuple[str, tuple[tuple[str, bool], ...]]:
    return cell.query.target, cell.query.given


def write(name: str, lines: list[str]) -> None:
    """Replace a table on the page."""
    page = PAGE.read_text()
    start, end = f"<!-- bench:{name} -->", "<!-- /bench -->"
    before, rest = page.split(start)
    after = rest.split(end, 1)[1]
    PAGE.write_text(before + start + "\n\n" + "\n".join(lines) + "\n\n" + end + after)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.conditional", description=__doc__)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--people", default="100000,1000000")
    parser.add_argument("--data", help="a table with columns user, key, value")
    parser.add_argument("--range", default="0.5,5", dest="ends")
    parser.add_argument("--name", default="matrix", help="the table's place on the page")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.data:
        low, high = (float(end) for end in given.ends.split(","))
        lines = matrix(given.data, (low, high))
    else:
        population = crowd()
        rows: list[Row] = []
        for people in given.people.split(","):
            rows += compare_conditionals(
                population.schema,
                population,
                MECHANISMS,
                EPSILONS,
                int(people),
                given.repeat,
                coins=Coins.stated(f"bench {people}"),
            )
        lines = table(rows)
    print("\n".join(lines))
    if given.write:
        write(given.name if given.data else "pairs", lines)


if __name__ == "__main__":
    main()
