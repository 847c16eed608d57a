"""Fig. 4: boxes of both errors on Uniform data, by frequency and average."""

from __future__ import annotations

from typing import Any

from . import figures
from .experiment import STATISTICS, Claim, Figure, Job, Row, Setup
from .fig2 import not_influenced
from .fig3 import steadier
from .signed_errors import ABOUT, box_figure, box_jobs, box_rows, close, drawn

__all__ = ["ABOUT", "NAME", "TITLE", "claims", "draw", "jobs", "work"]

NAME = ROWS_OF = "fig4"
TITLE = "Fig. 4: errors on Uniform data"


def jobs(setup: Setup) -> list[Job]:
    return box_jobs(with_ones=False)


def work(setup: Setup, what: dict[str, Any]) -> list[Row]:
    return box_rows(setup, "Uniform", what, STATISTICS)


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    with figures.look() as pyplot:
        caption = (
            "Fig. 4: signed errors on Uniform data, by frequency and average. Every panel has a scale "
            "of its own."
        )
        labels = drawn(rows)
        bands = [
            ("frequency", labels, "error of the frequency"),
            ("mean", labels, "error of the mean"),
            ("mean", close(labels), "error of the mean, closer"),
        ]
        return [box_figure(pyplot, rows, NAME, caption, bands)]


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    return [
        not_influenced(rows, NAME),
        steadier(
            rows,
            "mae",
            "A higher frequency leads to a lower mean estimation error (Uniform).",
            "Absolute error of the mean",
            NAME,
        ),
    ]
