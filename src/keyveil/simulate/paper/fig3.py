"""Fig. 3: boxes of the mean's error on Gaussian data, by frequency and average."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from . import figures
from .compared import SIX
from .experiment import Claim, Figure, Row, Setup, below, number, only_if, pooled, select_rows, verdict
from .fig2 import jobs, lowest, work
from .signed_errors import ABOUT, AVERAGES, FREQUENCIES, ONES, box_figure, close, drawn

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
        absent = (
            "Algorithm 1 as printed (a random value for an absent key) beside a program in which "
            "absent keys say 1: only the second favours high averages."
        )
        return [
            box_figure(pyplot, rows, NAME, caption, bands),
            box_figure(pyplot, rows, "fig3-absent", absent, [("mean", ones, "error of the mean")]),
        ]


def _by_average(rows: list[Row], label: str) -> dict[str, float]:
    """The mean absolute error at each average."""
    return {
        name: float(np.mean([r["mae"] for r in select_rows(rows, part="mean", line=label, mean=m)]))
        for name, m in AVERAGES.items()
    }


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    return [
        *_location(rows),
        privkvm_inaccurate(rows),
        lowest(rows, "mean", NAME),
        steadier(
            rows,
            "spread",
            "With the increase of frequency the variance of the mean's error decreases (Gaussian).",
            "Standard deviation of the mean's error",
            NAME,
        ),
    ]


def _location(rows: list[Row]) -> list[Claim]:
    averages = {label: _by_average(rows, label) for label in (*FAMILY, *(line.label for line in ONES))}

    def rises(label: str) -> bool:
        return averages[label]["high"] < 0.8 * averages[label]["low"]

    words = "; ".join(
        f"{label}: " + ", ".join(f"{name} {number(v)}" for name, v in averages[label].items())
        for label in averages
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
            f"Mean absolute error by average. {words}.",
            "fig3-absent",
        ),
        Claim(
            "Sec. I",
            "PrivKV-related methods only work well with a high average of the mean.",
            outcome,
            "Low over high average, mean absolute error: "
            + ", ".join(f"{label} {v['low'] / v['high']:.2f}" for label, v in averages.items())
            + ".",
            "fig3-absent",
        ),
    ]


def privkvm_inaccurate(rows: list[Row]) -> Claim:
    spread = {
        part: {
            line.label: pooled(select_rows(rows, part=part, line=line.label), "spread") for line in SIX
        }
        for part in ("frequency", "mean")
    }

    def largest(part: str) -> bool:
        """Whether PrivKVM's errors clearly spread more than those of all others."""
        others = [row for name, row in spread[part].items() if name != "PrivKVM"]
        return all(below(row, spread[part]["PrivKVM"], "spread") for row in others)

    both = [largest(part) for part in spread]
    return Claim(
        "Sec. VI-B",
        "In both cases (frequency and mean) PrivKVM returns an inaccurate result with large variance.",
        verdict(all(both))
        if both[0] == both[1]
        else only_if("the mean is meant; its frequency is that of PrivKV"),
        "Standard deviation of the error: "
        + "; ".join(
            f"{part} " + ", ".join(f"{name} {number(row['spread'])}" for name, row in by_line.items())
            for part, by_line in spread.items()
        )
        + ". (PrivKVM tells frequencies once, in its first round, with PrivKV's budget for the key.)",
        "fig2, fig3",
    )


def steadier(rows: list[Row], part: str, claim_text: str, words: str, figure: str) -> Claim:
    """The mean's error (its ``part``: "spread" or "mae") falls as the frequency rises."""
    own = select_rows(rows, part="mean")
    spreads = {
        line.label: [pooled(select_rows(own, line=line.label, frequency=f), part) for f in FREQUENCIES]
        for line in SIX
    }
    not_all = sorted(
        name
        for name, errors in spreads.items()
        if any(below(a, b, part) for a, b in pairwise(errors)) or not below(errors[-1], errors[0], part)
    )
    return Claim(
        "Sec. VI-B",
        claim_text,
        verdict(True)
        if not not_all
        else only_if(f"the mechanism divides by the frequency; not so for {' and '.join(not_all)}")
        if len(not_all) < len(SIX)
        else verdict(False),
        f"{words} at f = .05, .2, .6, .8: "
        + "; ".join(
            f"{name} {', '.join(number(row[part]) for row in errors)}"
            for name, errors in spreads.items()
        )
        + ".",
        figure,
    )
