"""Fig. 7: conditional mean of two keys, from the run of Fig. 6."""

from __future__ import annotations

import numpy as np

from .base import Claim, Figure, Row, Setup, only_if, picked, verdict
from .conditionals import ABOUT, conditional_figure
from .fig6 import dimensions, jobs, work

__all__ = ["ABOUT", "NAME", "TITLE", "claims", "draw", "jobs", "work"]

NAME, ROWS_OF = "fig7", "fig6"
TITLE = "Fig. 7: conditional mean of two keys"


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    caption = "Fig. 7: error of m(k | c) over all ordered pairs, the run of Fig. 6."
    return [conditional_figure(setup, rows, "mean", NAME, caption)]


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    some = picked(rows, line="IOH")
    lower = [row["mae_frequency"] < row["mae_mean"] for row in some]
    ratio = float(np.median([row["mae_mean"] / row["mae_frequency"] for row in some]))
    share = float(np.mean(lower))
    return [
        Claim(
            "Sec. VI-D",
            "The error of the conditional frequency is lower than that of the conditional mean.",
            verdict(share == 1)
            if share == 1 or share < 0.5
            else only_if(f"a few settings are left out ({share:.0%} agree)"),
            f"So in {sum(lower)} of {len(lower)} settings of IOH; the mean's error is {ratio:.2f} "
            "times the frequency's at the median, on a range twice as wide.",
            NAME,
        ),
        dimensions(rows, "mean", NAME),
    ]
