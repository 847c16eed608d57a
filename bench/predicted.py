"""Ratio of predicted to measured error, for every mechanism that answers for single keys.

``python -m bench.predicted [--write] [--data DIR] [--json FILE] [--repeat 200] [--only NAMES]`` measures
all populations of ``bench.planner`` at eight epsilons. ``--json`` keeps populations that were measured
before, so that they can be measured one after the other. ``--write`` puts the table into the docs.
``bench.predicted_auto`` has the planner's choice.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from keyveil import Coins
from keyveil.estimate import DEFAULT
from keyveil.estimate.forecast.key_forecast import forecast
from keyveil.simulate.contest import Contest
from keyveil.simulate.parallel import measure
from keyveil.simulate.planner_ways import all_competitors
from keyveil.simulate.tallies import Population

from .planner import EPSILONS, populations, write

FIRST = ("least_squares", "unbiased", "debiased")
"""Names of mechanisms' first estimators."""
GROUPS = ("first", "published", DEFAULT)
SLOW = ("collision", "coco", "sized")
"""Slow mechanisms, which have as few repetitions as shrinkage."""
SLOW_REPEAT = 50
AGAIN = 4
"""Factor on the repetitions when a ratio that is off by more than a tenth is measured again."""
LOW, HIGH = 0.9, 1.1
SURE = 3.0
"""A ratio is wrong if it is off by more than a tenth and by this many standard errors."""
STANDARD_ERRORS, CLEAR = 4.0, 0.5
"""Shrunk answers count if the forecast predicts that at least a share ``CLEAR`` of the keys has a
frequency of at least ``STANDARD_ERRORS`` standard errors."""


def rows_of(name: str, population: Population, people: int, repeat: int) -> list[dict[str, Any]]:
    """All rows of one population."""
    coins = Coins.stated("bench predicted").under(name)
    raw, slow = (*FIRST, "published"), min(repeat, SLOW_REPEAT)
    keys = len(population.schema.keys)
    quick = [label for label in all_competitors(keys) if label not in SLOW]
    measured: list[dict[str, Any]] = []
    for mechanisms, estimators, runs in (
        (quick, raw, repeat),
        (quick, (DEFAULT,), slow),
        (SLOW, (*raw, DEFAULT), slow),
    ):
        contest = Contest(population, people, runs, coins, estimators=estimators)
        start = perf_counter()
        rows = measure(contest, mechanisms, EPSILONS, lenient=True).rows
        print(f"{name}: {', '.join(estimators)}: {perf_counter() - start:.0f} s", flush=True)
        for row in rows:
            document = _without_runs(row.document())
            clear = share_clear(contest, row.chosen, f"{row.epsilon:g}")
            measured.append({"population": name, "clear": clear, **document})
    return measured


def share_clear(contest: Contest, chosen: str, epsilon: str) -> float:
    """The share of keys whose frequency the forecast puts clearly above zero."""
    errors = forecast(contest.plan(chosen, epsilon), contest.people, contest.table_prior)
    size = np.sqrt(errors.covariance[:, 0, 0])
    return float((contest.table_prior.frequency > STANDARD_ERRORS * size).mean())


def group_of(row: dict[str, Any]) -> str:
    return "first" if row["estimator"] in FIRST else str(row["estimator"])


def normal(row: dict[str, Any]) -> bool:
    """Whether the normal approximation holds, by the forecast itself; always for raw answers.

    In much noise, shrinkage finds the common law of the keys in some repetitions and not in others.
    Its error then depends on a few repetitions, and a small number of them cannot measure it.
    """
    return row["estimator"] != DEFAULT or float(row["clear"]) >= CLEAR


def ratios(rows: list[dict[str, Any]], part: str) -> list[tuple[dict[str, Any], float, float]]:
    """Each row with its ratio and the standard error of the ratio."""
    result = []
    for row in rows:
        predicted, measured = row[f"predicted_{part}"], row[f"mse_{part}"]
        if predicted is not None and measured and normal(row):
            ratio = predicted / measured
            result.append((row, ratio, ratio * row[f"mse_{part}_se"] / measured))
    return result


def off(row: dict[str, Any]) -> bool:
    """Whether one of the row's ratios is off by more than a tenth."""
    both = [ratio for part in ("frequency", "mean") for _, ratio, _ in ratios([row], part)]
    return any(not LOW <= ratio <= HIGH for ratio in both)


def anew(row: dict[str, Any], population: Population, people: int) -> dict[str, Any]:
    """The same setting measured again, with other coins and more repetitions."""
    coins = Coins.stated("bench predicted anew").under(str(row["population"]))
    runs = AGAIN * int(row["repetitions"])
    contest = Contest(population, people, runs, coins, estimators=(str(row["estimator"]),))
    document = contest.rows(str(row["chosen"]), f"{row['epsilon']:g}")[0].document()
    own = {name: row[name] for name in ("population", "clear", "mechanism", "chosen")}
    was = {part: row[f"mse_{part}"] for part in ("frequency", "mean")}
    return {**_without_runs(document), **own, "was": was}


def lines_of(rows: list[dict[str, Any]]) -> list[str]:
    """One line per mechanism: the range of ratios over all settings, for each kind of estimator."""
    heads = [f"{group}, {part}" for group in GROUPS for part in ("f", "m")]
    lines = [f"| mechanism | {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads)]
    for mechanism in dict.fromkeys(str(row["mechanism"]) for row in rows):
        cells = []
        for group in GROUPS:
            group_rows = [
                row for row in rows if row["mechanism"] == mechanism and group_of(row) == group
            ]
            for part in ("frequency", "mean"):
                values = [ratio for _, ratio, _ in ratios(group_rows, part)]
                span = f"{min(values):.2f} to {max(values):.2f} ({len(values)})" if values else "-"
                cells.append(span)
        lines.append(f"| {mechanism} | {' | '.join(cells)} |")
    return lines


def outside(rows: list[dict[str, Any]]) -> list[str]:
    """Settings whose prediction is off by more than a tenth, and those that chance explains."""
    lines = []
    for groups, words in ((GROUPS[:2], "raw answers"), (GROUPS[2:], "default answers")):
        wrong, chance, count = [], [], 0
        for row in rows:
            for part in ("frequency", "mean"):
                for _, ratio, error in ratios([row] if group_of(row) in groups else [], part):
                    count += 1
                    if not LOW <= ratio <= HIGH:
                        who = f"{row['chosen']} on {row['population']} at {row['epsilon']:g}"
                        sentence = f"{who}, {row['estimator']}, {part}: {ratio:.2f} ± {error:.2f}"
                        (wrong if abs(ratio - 1.0) > SURE * error else chance).append(sentence)
        lines.append(
            f"- Of {count} ratios of {words}, off by more than a tenth and by more than three standard "
            f"errors: {len(wrong)}{_named(wrong)}; by more than a tenth within three: "
            f"{len(chance)}{_named(chance)}."
        )
    first = [
        f"{row['chosen']} on {row['population']} at {row['epsilon']:g}, {row['estimator']}, {part}: "
        f"{row[f'predicted_{part}'] / row['was'][part]:.2f}, then {ratio:.2f} ± {error:.2f}"
        for row in rows
        for part in ("frequency", "mean")
        for _, ratio, error in ratios([row] if "was" in row else [], part)
        if not LOW <= row[f"predicted_{part}"] / row["was"][part] <= HIGH
    ]
    return [
        *lines,
        f"- Off by more than a tenth at first, and measured anew with {AGAIN} times the repetitions, "
        f"which is what counts above: {len(first)}{_named(first)}.",
    ]


def _named(settings: list[str]) -> str:
    return f" ({'; '.join(settings)})" if settings else ""


def _without_runs(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "runs"}


def main() -> None:
    """Measure, print, and with ``--write`` put the table into the docs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeat", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if given.json and given.json.exists():
        rows = json.loads(given.json.read_text())
    names = {row["population"] for row in rows}
    only = {name for name in given.only.split(",") if name}
    for name, (population, people) in populations(given.data, only).items():
        if name not in names:
            rows += rows_of(name, population, people, given.repeat)
        rows = [
            anew(row, population, people)
            if row["population"] == name and "was" not in row and off(row)
            else row
            for row in rows
        ]
        if given.json:
            given.json.write_text(json.dumps(rows))
    lines = [*lines_of(rows), "", *outside(rows)]
    print("\n".join(lines))
    if given.write:
        write({"predicted": lines})


if __name__ == "__main__":
    main()
