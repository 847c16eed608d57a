"""Fig. 6: conditional frequency of two keys, 2, 4 and 8 keys, 1e5 and 1e6 people."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from .conditional_errors import (
    ABOUT,
    KEYS,
    PEOPLE,
    conditional_figure,
    conditional_jobs,
    conditional_rows,
)
from .experiment import (
    Claim,
    Figure,
    Job,
    Row,
    Setup,
    below,
    number,
    only_if,
    only_row,
    select_rows,
    verdict,
)

__all__ = ["ABOUT", "NAME", "TITLE", "claims", "draw", "jobs", "work"]

NAME = ROWS_OF = "fig6"
TITLE = "Fig. 6: conditional frequency of two keys"


def jobs(setup: Setup) -> list[Job]:
    return conditional_jobs(setup)


def work(setup: Setup, what: dict[str, Any]) -> list[Row]:
    return conditional_rows(setup, what)


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    caption = "Fig. 6: error of f(k | c) over all ordered pairs. split spends epsilon / d on every key."
    return [conditional_figure(setup, rows, "frequency", NAME, caption)]


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    return [overcomes_split(rows), dimensions(rows, "frequency", NAME), _pairs(rows)]


def overcomes_split(rows: list[Row]) -> Claim:
    wins, total, lost = 0, 0, []
    for row in select_rows(rows, line="IOH"):
        same = {name: row[name] for name in ("keys", "people", "epsilon")}
        split = only_row(rows, line="split", **same)
        total += 1
        wins += below(row, split, "mae_frequency")
        if below(split, row, "mae_frequency"):
            lost.append((row["keys"], row["epsilon"], row["mae_frequency"] / split["mae_frequency"]))
    worst = max(lost, key=lambda item: item[2], default=None)
    least = {d: min((e for k, e, _ in lost if k == d), default=None) for d in KEYS}
    words = ", ".join(f"{d} keys from epsilon {e:g}" for d, e in least.items() if e is not None)
    return Claim(
        "Sec. V",
        "Encoding each pair with epsilon / d causes errors; IOH overcomes this.",
        verdict(wins > 0)
        if not lost or not wins
        else only_if("epsilon is small, and the smaller the more keys there are; else split is better"),
        f"IOH's error of the conditional frequency is clearly below split's in {wins} of {total} "
        f"settings and clearly above it in {len(lost)}"
        + (
            f": {words}; at worst {worst[2]:.1f} times split's ({worst[0]} keys, epsilon {worst[1]:g})."
            if worst
            else "."
        ),
        NAME,
    )


def dimensions(rows: list[Row], kind: str, figure: str) -> Claim:
    """Errors of conditionals rise with the number of keys."""
    error = f"mae_{kind}"
    at = {d: only_row(rows, line="IOH", keys=d, people=PEOPLE[0], epsilon=1.0)[error] for d in KEYS}
    rises, falls, steps = 0, 0, 0
    for n, e in sorted({(row["people"], row["epsilon"]) for row in rows}):
        by_keys = [only_row(rows, line="IOH", keys=d, people=n, epsilon=e) for d in KEYS]
        for fewer, more in pairwise(by_keys):
            rises += below(fewer, more, error)
            falls += below(more, fewer, error)
            steps += 1
    return Claim(
        "Sec. VI-D",
        f"With the increase of dimensions the estimating error increases (conditional {kind}).",
        verdict(not falls)
        if not falls or rises < falls
        else only_if("errors do not reach the width of the range"),
        f"From 2 to 4 and from 4 to 8 keys IOH's error clearly rises in {rises} and clearly falls in "
        f"{falls} of {steps} steps; at epsilon 1 and 100,000 people it is "
        + ", ".join(f"{number(v)} with {d} keys" for d, v in at.items())
        + ". (The encoded space is 3^d, not O(d^3).)",
        figure,
    )


def _pairs(rows: list[Row]) -> Claim:
    gains: dict[int, list[float]] = {d: [] for d in KEYS}
    for row in select_rows(rows, line="pairs"):
        same = {name: row[name] for name in ("keys", "people", "epsilon")}
        ioh = only_row(rows, line="IOH", **same)
        gains[row["keys"]].append(ioh["mse_frequency"] / row["mse_frequency"])
    return Claim(
        "Sec. V, VI-D",
        "Conditional analysis has limitations on high-dimensional data currently.",
        only_if("all keys are encoded together; views of pairs answer for hundreds of keys")
        if np.median(gains[8]) > 3
        else verdict(True),
        "IOH's squared error of the conditional frequency over that of views of pairs, median: "
        + ", ".join(f"{d} keys {np.median(g):.1f} times" for d, g in gains.items())
        + ".",
        NAME,
    )
