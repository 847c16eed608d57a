"""What the rows of Figs. 2, 3 and 4 say of the paper's claims."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np

from .compared import SIX
from .evidence import below, listed, number, only_row, pooled, select_rows, verdict
from .experiment import STATISTICS, Claim, Row, Setup

FREQUENCIES = {0.05: "extreme low", 0.2: "low", 0.6: "middle", 0.8: "high"}
AVERAGES = {"low": -0.8, "middle": 0.0, "high": 0.8}
LABELS = tuple(line.label for line in SIX)
FAMILY = ("PrivKV", "PrivKVM", "PrivKV-A")
EXISTING, PROPOSED = ("PrivKV", "PrivKVM"), ("F2M", "KVOH")
ONES = ("PrivKV, absent say 1", "PrivKV-A, absent say 1")
"""Lines of programs in which absent keys say 1 instead of a random value."""
PROFOUND = 1.5
"""The factor that "profoundly" asks for."""


def fig2_claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    return [not_influenced(rows, "fig2"), lowest(rows, "frequency", "fig2"), acceptable(rows)]


def fig3_claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    text = "With the increase of frequency the variance of the mean's error decreases (Gaussian)."
    return [
        *_location(rows),
        inaccurate(rows),
        lowest(rows, "mean", "fig3"),
        _steadier(rows, "spread", text, "Standard deviation of the mean's error", "fig3"),
    ]


def fig4_claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    text = "A higher frequency leads to a lower mean estimation error (Uniform)."
    steadier = _steadier(rows, "mae", text, "Absolute error of the mean", "fig4")
    return [not_influenced(rows, "fig4"), steadier]


def not_influenced(rows: list[Row], figure: str) -> Claim:
    """Errors of the frequency do not depend on the frequency; on Uniform data, not profoundly."""
    ratios, differ = {}, []
    for label in LABELS:
        own = select_rows(rows, part="frequency", line=label)
        by_frequency = [pooled(select_rows(own, frequency=f), "mae") for f in FREQUENCIES]
        least, *_, largest = sorted(by_frequency, key=lambda row: row["mae"])
        ratios[label] = largest["mae"] / least["mae"]
        if below(least, largest, "mae"):
            differ.append(label)
    if rows[0]["data"] == "Gaussian":
        text = "Errors of the frequency are not under the influence of frequencies (Gaussian)."
        holds, remark = not differ, ""
    else:
        text = "Errors of the frequency are not profoundly affected by the frequency (Uniform)."
        holds = not differ or max(ratios.values()) < PROFOUND
        remark = f" ('Profoundly' is read as by a factor of {PROFOUND}.)"
    names = " and ".join(differ)
    condition = f"{names} is left out; the bits of the others are flipped alike, held or not"
    partly = len(differ) < len(LABELS) and max(ratios.values()) < PROFOUND
    return Claim(
        "Sec. VI-B",
        text,
        verdict(holds, condition if partly else None),
        "Largest absolute error over the smallest among the four frequencies: "
        f"{listed(ratios, '{:.2f}'.format)}; "
        + (f"clearly more than 1 for {names}." if differ else "none clearly over 1.")
        + remark,
        figure,
    )


def lowest(rows: list[Row], part: str, figure: str) -> Claim:
    """KVUE has the lowest error of the six."""
    lost: dict[tuple[float, float], str] = {}
    worst = 1.0
    settings = list(product(FREQUENCIES, AVERAGES.values()))
    for f, m in settings:
        own = [only_row(rows, part=part, line=name, frequency=f, mean=m) for name in LABELS]
        least, kvue = min(own, key=lambda row: row["mae"]), only_row(own, line="KVUE")
        worst = max(worst, kvue["mae"] / least["mae"])
        if below(least, kvue, "mae"):
            lost[f, m] = least["line"]
    wins = len(settings) - len(lost)
    by = "".join(f"; {who} is clearly below it at f = {f:g}, m = {m:g}" for (f, m), who in lost.items())
    why = (
        " (Raw PrivKV pulls means to 0, which helps where they are 0 and noise is large.)"
        if "PrivKV" in lost.values()
        else ""
    )
    return Claim(
        "Sec. VI-B",
        f"KVUE achieves the lowest error of the {part} ({rows[0]['data']}).",
        verdict(not lost, _outside(set(lost)) if wins > len(settings) / 2 else None),
        f"KVUE is the lowest, or not clearly above it, on {wins} of {len(settings)} data sets, at worst "
        f"{worst:.2f} times the lowest{by}.{why}",
        figure,
    )


def _outside(lost: set[tuple[float, float]]) -> str:
    """In words: not in these cells of frequency and average."""
    fs, ms = sorted({f for f, _ in lost}), sorted({m for _, m in lost})
    of_f, of_m = (" or ".join(f"{value:g}" for value in values) for values in (fs, ms))
    if lost != set(product(fs, ms)):
        return "not " + " nor ".join(f"(f = {f:g} and m = {m:g})" for f, m in sorted(lost))
    if len(fs) == len(FREQUENCIES):
        return f"the average is not {of_m}"
    if len(ms) == len(AVERAGES):
        return f"the frequency is not {of_f}"
    return f"not both the frequency is {of_f} and the average is {of_m}"


def _over_data_sets(rows: list[Row], labels: tuple[str, ...], error: str) -> dict[str, dict[str, Row]]:
    """By statistic and line: an error averaged over the twelve data sets."""
    return {
        part: {name: pooled(select_rows(rows, part=part, line=name), error) for name in labels}
        for part in STATISTICS
    }


def _said(errors: dict[str, dict[str, Row]], error: str) -> str:
    return listed(errors, lambda rows: listed(rows, lambda row: number(row[error])), "; ")


def acceptable(rows: list[Row]) -> Claim:
    errors = _over_data_sets(rows, (*PROPOSED, *EXISTING), "mae")
    worse = []
    for part, by_line in errors.items():
        best = min((by_line[old] for old in EXISTING), key=lambda row: row["mae"])
        worse += [f"{name}'s {part}" for name in PROPOSED if below(best, by_line[name], "mae")]
    condition = f"{' and '.join(worse)} is left out, which is worse than PrivKV's"
    partly = len(worse) < len(STATISTICS) * len(PROPOSED)
    return Claim(
        "Sec. VI-B",
        "F2M and KVOH attain acceptable results compared with existing methods.",
        verdict(not worse, condition if partly else None),
        "'Acceptable' is read as not clearly worse than the better of PrivKV and PrivKVM. Mean absolute "
        f"error over the twelve data sets: {_said(errors, 'mae')}. (KVOH is decoded as printed; F2M's "
        "key bit is PrivKV's.)",
        "fig2, fig3",
    )


def _location(rows: list[Row]) -> list[Claim]:
    """Two claims: accuracy rises with the average, and is good only where it is high."""
    errors = {
        label: {
            name: float(np.mean([r["mae"] for r in select_rows(rows, part="mean", line=label, mean=m)]))
            for name, m in AVERAGES.items()
        }
        for label in (*FAMILY, *ONES)
    }
    printed, ones = (
        [errors[label]["high"] < 0.8 * errors[label]["low"] for label in labels]
        for labels in (FAMILY, ONES)
    )
    condition = "absent keys say 1 and not, as Algorithm 1 has it, a random value"
    outcome = verdict(all(printed), condition if all(ones) and not any(printed) else None)
    words = "; ".join(f"{label}: {listed(values, number)}" for label, values in errors.items())
    ratios = listed(errors, lambda values: f"{values['low'] / values['high']:.2f}")
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
            f"Low over high average, mean absolute error: {ratios}.",
            "fig3-absent",
        ),
    ]


def inaccurate(rows: list[Row]) -> Claim:
    spread = _over_data_sets(rows, LABELS, "spread")
    frequency, mean = (
        all(below(by_line[name], by_line["PrivKVM"], "spread") for name in LABELS if name != "PrivKVM")
        for by_line in spread.values()
    )
    condition = "the mean is meant; its frequency is that of PrivKV"
    return Claim(
        "Sec. VI-B",
        "In both cases (frequency and mean) PrivKVM returns an inaccurate result with large variance.",
        verdict(frequency and mean, condition if frequency or mean else None),
        f"Standard deviation of the error: {_said(spread, 'spread')}. (PrivKVM tells frequencies once, "
        "in its first round, with PrivKV's budget for the key.)",
        "fig2, fig3",
    )


def _steadier(rows: list[Row], error: str, text: str, words: str, figure: str) -> Claim:
    """The mean's error ("spread" or "mae") falls as the frequency rises."""
    own = select_rows(rows, part="mean")
    errors = {
        label: [pooled(select_rows(own, line=label, frequency=f), error) for f in FREQUENCIES]
        for label in LABELS
    }
    rising = sorted(
        name
        for name, by_f in errors.items()
        if any(below(a, b, error) for a, b in pairwise(by_f)) or not below(by_f[-1], by_f[0], error)
    )
    condition = f"the mechanism divides by the frequency; not so for {' and '.join(rising)}"
    said = listed(errors, lambda by_f: ", ".join(number(row[error]) for row in by_f), "; ")
    return Claim(
        "Sec. VI-B",
        text,
        verdict(not rising, condition if len(rising) < len(LABELS) else None),
        f"{words} at f = .05, .2, .6, .8: {said}.",
        figure,
    )
