"""Fig. 3: boxes of the mean's error on Gaussian data, by frequency and average."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from . import figures
from .base import Claim, Figure, Row, Setup, below, number, only_if, picked, pooled, verdict
from .boxes import ABOUT, AVERAGES, FREQUENCIES, ONES, box_figure, close, drawn
from .fig2 import jobs, lowest, work
from .lines import SIX

__all__ = ["ABOUT", "NAME", "TITLE", "claims", "draw", "jobs", "work"]

NAME, ROWS_OF = "fig3", "fig2"
TITLE = "Fig. 3: error of the mean, Gaussian"
FAMILY = ("PrivKV", "PrivKVM", "PrivKV-A")


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    with figures.look() as pyplot:
        caption = (
            "Fig. 3: signed error of the mean on Gaussian data, by frequency and average; below, the "
            "accurate ones again. Every panel has a scale of its own."
        )
        labels = drawn(rows)
        bands = [
            ("mean", labels, "error of the mean"),
            ("mean", close(labels), "error of the mean, closer"),
        ]
        ones = ["PrivKV", ONES[0].label, "PrivKV-A", ONES[1].label]
        told = (
            "Algorithm 1 as printed (a random value for an absent key) beside a program in which "
            "absent keys say 1: only the second favours high averages."
        )
        return [
            box_figure(pyplot, rows, NAME, caption, bands),
            box_figure(pyplot, rows, "fig3-absent", told, [("mean", ones, "error of the mean")]),
        ]


def _by_average(rows: list[Row], label: str) -> dict[str, float]:
    """The mean absolute error at each average."""
    return {
        name: float(np.mean([r["mae"] for r in picked(rows, part="mean", line=label, mean=m)]))
        for name, m in AVERAGES.items()
    }


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    return [
        *_location(rows),
        _inaccurate(rows),
        lowest(rows, "mean", "Sec. VI-B", NAME),
        steadier(rows, NAME),
    ]


def _location(rows: list[Row]) -> list[Claim]:
    found = {label: _by_average(rows, label) for label in (*FAMILY, *(line.label for line in ONES))}

    def rises(label: str) -> bool:
        return found[label]["high"] < 0.8 * found[label]["low"]

    said = "; ".join(
        f"{label}: " + ", ".join(f"{name} {number(v)}" for name, v in found[label].items())
        for label in found
    )
    printed, ones = [rises(label) for label in FAMILY], [rises(line.label) for line in ONES]
    if all(printed):
        outcome = verdict(True)
    elif all(ones) and not any(printed):
        outcome = only_if("absent keys say 1 and not, as Algorithm 1 has it, a random value")
    else:
        outcome = verdict(False)
    return [
        Claim(
            "Sec. VI-B",
            "PrivKV, PrivKVM and PrivKV-A achieve higher accuracy with the rise of the mean.",
            outcome,
            f"Mean absolute error by average. {said}.",
            "fig3-absent",
        ),
        Claim(
            "Sec. I",
            "PrivKV-related methods only work well with a high average of the mean.",
            outcome,
            "Low over high average, mean absolute error: "
            + ", ".join(f"{label} {v['low'] / v['high']:.2f}" for label, v in found.items())
            + ".",
            "fig3-absent",
        ),
    ]


def _inaccurate(rows: list[Row]) -> Claim:
    spread = {
        line.label: float(np.mean([r["spread"] for r in picked(rows, part="mean", line=line.label)]))
        for line in SIX
    }
    error = {
        line.label: float(np.mean([r["mae"] for r in picked(rows, part="mean", line=line.label)]))
        for line in SIX
    }
    largest = max(spread, key=lambda name: spread[name]) == "PrivKVM"
    return Claim(
        "Sec. VI-B",
        "PrivKVM returns an inaccurate result with large variance.",
        verdict(largest),
        "Standard deviation of the mean's error: "
        + ", ".join(f"{name} {number(v)}" for name, v in spread.items())
        + f"; mean absolute error {number(error['PrivKVM'])} beside KVUE's {number(error['KVUE'])}.",
        NAME,
    )


def steadier(rows: list[Row], figure: str) -> Claim:
    """The variance of errors falls as the frequency rises."""
    some = picked(rows, part="mean")
    spread = {
        line.label: [pooled(picked(some, line=line.label, frequency=f), "spread") for f in FREQUENCIES]
        for line in SIX
    }
    not_all = sorted(
        name
        for name, found in spread.items()
        if any(below(a, b, "spread") for a, b in pairwise(found))
        or not below(found[-1], found[0], "spread")
    )
    return Claim(
        "Sec. VI-B",
        f"With higher frequency the mean's error has less variance ({rows[0]['data']}).",
        verdict(True)
        if not not_all
        else only_if(f"the mechanism divides by the frequency; not so for {' and '.join(not_all)}")
        if len(not_all) < len(SIX)
        else verdict(False),
        "Standard deviation of the mean's error at f = .05, .2, .6, .8: "
        + "; ".join(
            f"{name} {', '.join(number(row['spread']) for row in found)}"
            for name, found in spread.items()
        )
        + ".",
        figure,
    )
