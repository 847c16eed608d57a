"""Fig. 7: conditional mean of two keys, from the run of Fig. 6."""

from __future__ import annotations

import numpy as np

from .conditional_errors import ABOUT, conditional_figure
from .experiment import Claim, Figure, Row, Setup, below, only_if, select_rows, verdict
from .fig6 import dimensions, jobs, work

__all__ = ["ABOUT", "NAME", "TITLE", "claims", "draw", "jobs", "work"]

NAME, ROWS_OF = "fig7", "fig6"
TITLE = "Fig. 7: conditional mean of two keys"


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    caption = "Fig. 7: error of m(k | c) over all ordered pairs, the run of Fig. 6."
    return [conditional_figure(setup, rows, "mean", NAME, caption)]


def _error(row: Row, kind: str) -> Row:
    return {"mae": row[f"mae_{kind}"], "se_mae": row.get(f"se_mae_{kind}", 0.0)}


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    own = select_rows(rows, line="IOH")
    ratio = float(np.median([row["mae_mean"] / row["mae_frequency"] for row in own]))
    parts = [{kind: _error(row, kind) for kind in ("frequency", "mean")} for row in own]
    lower = sum(below(part["frequency"], part["mean"], "mae") for part in parts)
    higher = sum(below(part["mean"], part["frequency"], "mae") for part in parts)
    return [
        Claim(
            "Sec. VI-D",
            "The error of the conditional frequency is lower than that of the conditional mean.",
            verdict(not higher)
            if not higher or lower <= higher
            else only_if("a few settings are left out"),
            f"Clearly so in {lower} and clearly not in {higher} of {len(own)} settings of IOH; the "
            f"mean's error is {ratio:.2f} times the frequency's at the median, on a range twice "
            "as wide.",
            NAME,
        ),
        dimensions(rows, "mean", NAME),
    ]
