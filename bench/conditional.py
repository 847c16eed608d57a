"""Conditionals side by side: IOH as printed and improved, split, coefficients, and views of pairs.

``python -m bench.conditional [--write] [--repeat 20] [--channels] [--data FILE]`` measures all ordered
pairs of correlated keys, with values clipped to their range. With ``--channels`` it compares the
optimal channel of pairs with every closed form, and with ``--data`` it measures the whole matrix of a
table's top 100 keys.
"""

from __future__ import annotations

import argparse
import resource
from itertools import permutations
from pathlib import Path
from statistics import NormalDist
from time import perf_counter

import numpy as np

from keyveil import Coins, People, Plan, Query, Schema
from keyveil.channel.design.view_channels import CLOSED_FORMS, conditional_variances, default_prior
from keyveil.estimate.together.conditional import Conditionals
from keyveil.people.tables.top_keys import read_top
from keyveil.simulate.conditional_questions import true_value
from keyveil.simulate.contest import Contest
from keyveil.simulate.contest_row import ContestRow
from keyveil.simulate.parallel import measure
from keyveil.simulate.tallies import Population, simulate

PAGE = Path(__file__).parents[1] / "docs" / "conditional.md"
EPSILONS = ("0.5", "1", "2", "4")
CHANNEL_EPSILONS = ("0.25", "0.5", "0.75", "1", "2")
MECHANISMS = ("ioh", "split", "coefficients", "pairs:grr", "pairs:subset", "auto")


def crowd(keys: int = 8, people: int = 20_000) -> Population:
    """Keys held by 80 % with low values; one hidden taste moves both (correlation one half)."""
    draw = Coins.stated("bench conditional").generator()
    taste = draw.normal(size=(people, 1))
    holds = np.sqrt(0.5) * taste + np.sqrt(0.5) * draw.normal(size=(people, keys))
    pull = np.sqrt(0.3) * taste + np.sqrt(0.7) * draw.normal(size=(people, keys))
    who, key = np.nonzero(holds < NormalDist().inv_cdf(0.8))
    values = np.clip(-0.5 + 0.3 * pull, -1, 1)[who, key]
    schema = Schema.of(keys)
    return Population(schema, People.of_rows(schema, who, key, values))


def table(rows: list[ContestRow]) -> list[str]:
    """Errors, and the error of IOH as printed divided by each."""
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
            f"| {row.mse_frequency:.2e} "
            f"| {base.mse_frequency / row.mse_frequency:.1f} x "
            f"| {row.mse_mean:.2e} "
            f"| {base.mse_mean / row.mse_mean:.1f} x | {cover} |"
        )
    return lines


def channels(population: Population, people: int, repeat: int) -> list[str]:
    """The optimal channel on pairs and the best closed form: measured and predicted errors."""
    schema, kinds = population.schema, ("frequency", "mean")
    queries = {
        kind: [Query(kind, k, ((c, True),)) for k, c in permutations(schema.keys, 2)] for kind in kinds
    }
    truth = {kind: np.array([true_value(population, q) for q in queries[kind]]) for kind in kinds}
    names, lines = ("optimal", *CLOSED_FORMS), []
    for epsilon in CHANNEL_EPSILONS:
        errors: dict[str, list[np.ndarray]] = {kind: [] for kind in kinds}
        predicted = []
        for name in names:
            plan = Plan.of(schema, "pairs", epsilon, channel=name)
            runs = []
            for run in range(repeat):
                coins = Coins.stated(f"channels {people}")
                source = Conditionals(plan, simulate(plan, population, people, coins, run))
                runs.append([_error(source, queries[kind], truth[kind]) for kind in kinds])
            for kind, values in zip(kinds, np.array(runs).T, strict=True):
                errors[kind].append(values)
            predicted.append(
                conditional_variances(plan.channels[0], default_prior(2, 2), 2, len(schema.keys) - 1)
            )
        for column, kind in enumerate(kinds):
            error = np.mean(errors[kind], axis=1)
            spread = np.std(errors[kind], axis=1, ddof=1) / np.sqrt(repeat) / error
            best = 1 + int(np.argmin(error[1:]))
            ratio = error[0] / error[best]
            foreseen = np.array(predicted)[:, column]
            cells = " | ".join(f"{value:.2e}" for value in error)
            lines.append(
                f"| {people:,} | {epsilon} | {kind} | {cells} | {names[best]} "
                f"| {ratio:.3f} ± {ratio * np.hypot(spread[0], spread[best]):.3f} "
                f"| {foreseen[0] / foreseen[1:].min():.3f} |"
            )
    return lines


def _error(source: Conditionals, queries: list[Query], truth: np.ndarray) -> float:
    values = np.array([answer.estimate.value for answer in source.answers(queries)])
    return float(np.mean((values - truth) ** 2))


CHANNELS_HEAD = [
    f"| n | epsilon | answer | optimal | {' | '.join(CLOSED_FORMS)} | best closed form "
    "| optimal over it | predicted |",
    f"| --: | --: | --- | {'--: | ' * (len(CLOSED_FORMS) + 1)}--- | --: | --: |",
]


def matrix(data: str, ends: tuple[float, float], people: int = 10**7) -> list[str]:
    """Plan, simulate and estimate the whole 100 x 100 matrix of a real table."""
    keys, records, *_ = read_top(data, "user", "key", "value", ends, 100)
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
        matrices = {kind: source.matrix(kind) for kind in ("frequency", "mean")}
        seconds = perf_counter() - began
        for kind, rows in matrices.items():
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
    parser.add_argument("--repeat", type=int, help="20; with --channels 100")
    parser.add_argument("--channels", action="store_true", help="the optimal channel and closed forms")
    parser.add_argument("--people", default="100000,1000000")
    parser.add_argument("--data", help="a table with columns user, key, value")
    parser.add_argument("--range", default="0.5,5", dest="ends")
    parser.add_argument("--name", default="matrix", help="the table's place on the page")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.data:
        low, high = (float(end) for end in given.ends.split(","))
        lines = matrix(given.data, (low, high))
    elif given.channels:
        lines, population = [*CHANNELS_HEAD], crowd()
        for people in given.people.split(","):
            lines += channels(population, int(people), given.repeat or 100)
    else:
        population = crowd()
        rows: list[ContestRow] = []
        for people in given.people.split(","):
            coins = Coins.stated(f"bench {people}")
            contest = Contest(
                population, int(people), given.repeat or 20, coins, "paper", keys_together=2
            )
            rows += measure(contest, MECHANISMS, EPSILONS).rows
        lines = table(rows)
    print("\n".join(lines))
    if given.write:
        write(given.name if given.data else "channels" if given.channels else "pairs", lines)


if __name__ == "__main__":
    main()
