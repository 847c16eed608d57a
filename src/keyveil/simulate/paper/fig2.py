"""Fig. 2: boxes of the frequency's error on Gaussian data, by frequency and average."""

from __future__ import annotations

from typing import Any

from . import figures
from .compared import SIX
from .experiment import (
    STATISTICS,
    Claim,
    Figure,
    Job,
    Row,
    Setup,
    below,
    number,
    only_if,
    only_row,
    pooled,
    select_rows,
    verdict,
)
from .signed_errors import ABOUT, AVERAGES, FREQUENCIES, box_figure, box_jobs, box_rows, drawn

__all__ = ["ABOUT", "NAME", "TITLE", "claims", "draw", "jobs", "work"]

NAME = ROWS_OF = "fig2"
TITLE = "Fig. 2: error of the frequency, Gaussian"


def jobs(setup: Setup) -> list[Job]:
    return box_jobs(with_ones=True)


def work(setup: Setup, what: dict[str, Any]) -> list[Row]:
    return box_rows(setup, "Gaussian", what, STATISTICS)


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    with figures.look() as pyplot:
        caption = (
            "Fig. 2: signed error of the frequency on Gaussian data, by frequency and average. PrivKV, "
            "PrivKVM, PrivKV-A and F2M flip the key alike, so their boxes differ by luck alone."
        )
        bands = [("frequency", drawn(rows), "error of the frequency")]
        return [box_figure(pyplot, rows, NAME, caption, bands)]


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    return [not_influenced(rows, NAME), lowest(rows, "frequency", NAME), acceptable_accuracy(rows)]


def not_influenced(rows: list[Row], figure: str) -> Claim:
    """Errors of the frequency do not depend on the frequency; on Uniform data, not profoundly."""
    ratios, differ = {}, []
    for line in SIX:
        own = select_rows(rows, part="frequency", line=line.label)
        errors = sorted(
            (pooled(select_rows(own, frequency=f), "mae") for f in FREQUENCIES),
            key=lambda row: row["mae"],
        )
        ratios[line.label] = errors[-1]["mae"] / errors[0]["mae"]
        if below(errors[0], errors[-1], "mae"):
            differ.append(line.label)
    words = (
        "Errors of the frequency are not under the influence of frequencies (Gaussian)."
        if rows[0]["data"] == "Gaussian"
        else "Errors of the frequency are not profoundly affected by the frequency (Uniform)."
    )
    profoundly = rows[0]["data"] != "Gaussian"
    if not differ or (profoundly and max(ratios.values()) < PROFOUND):
        outcome = verdict(True)
    elif len(differ) < len(SIX) and max(ratios.values()) < PROFOUND:
        outcome = only_if(
            f"{' and '.join(differ)} is left out; the bits of the others are flipped alike, held or not"
        )
    else:
        outcome = verdict(False)
    return Claim(
        "Sec. VI-B",
        words,
        outcome,
        "Largest absolute error over the smallest among the four frequencies: "
        + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
        + (f"; clearly more than 1 for {' and '.join(differ)}." if differ else "; none clearly over 1.")
        + (f" ('Profoundly' is read as by a factor of {PROFOUND}.)" if profoundly else ""),
        figure,
    )


PROFOUND = 1.5


def lowest(rows: list[Row], part: str, figure: str) -> Claim:
    """KVUE has the lowest error of the six."""
    lost: dict[tuple[float, float], str] = {}
    worst = 1.0
    for f in FREQUENCIES:
        for m in AVERAGES.values():
            errors = {
                line.label: only_row(rows, part=part, line=line.label, frequency=f, mean=m)
                for line in SIX
            }
            least = min(errors, key=lambda name: errors[name]["mae"])
            worst = max(worst, errors["KVUE"]["mae"] / errors[least]["mae"])
            if below(errors[least], errors["KVUE"], "mae"):
                lost[f, m] = least
    total = len(FREQUENCIES) * len(AVERAGES)
    wins = total - len(lost)
    if not lost:
        outcome = verdict(True)
    elif wins > total / 2:
        outcome = only_if(outside(set(lost)))
    else:
        outcome = verdict(False)
    by = "".join(f"; {who} is clearly below it at f = {f:g}, m = {m:g}" for (f, m), who in lost.items())
    why = (
        " (Raw PrivKV pulls means to 0, which helps where they are 0 and noise is large.)"
        if "PrivKV" in lost.values()
        else ""
    )
    return Claim(
        "Sec. VI-B",
        f"KVUE achieves the lowest error of the {part} ({rows[0]['data']}).",
        outcome,
        f"KVUE is the lowest, or not clearly above it, on {wins} of {total} data sets, at worst "
        f"{worst:.2f} times the lowest{by}.{why}",
        figure,
    )


def outside(lost: set[tuple[float, float]]) -> str:
    """In words: not in these cells of frequency and average."""
    fs, ms = {f for f, _ in lost}, {m for _, m in lost}
    of_f = " or ".join(f"{f:g}" for f in sorted(fs))
    of_m = " or ".join(f"{m:g}" for m in sorted(ms))
    if lost != {(f, m) for f in fs for m in ms}:
        return "not " + " nor ".join(f"(f = {f:g} and m = {m:g})" for f, m in sorted(lost))
    if len(fs) == len(FREQUENCIES):
        return f"the average is not {of_m}"
    if len(ms) == len(AVERAGES):
        return f"the frequency is not {of_f}"
    return f"not both the frequency is {of_f} and the average is {of_m}"


EXISTING, PROPOSED = ("PrivKV", "PrivKVM"), ("F2M", "KVOH")


def acceptable_accuracy(rows: list[Row]) -> Claim:
    errors = {
        part: {
            name: pooled(select_rows(rows, part=part, line=name), "mae")
            for name in (*PROPOSED, *EXISTING)
        }
        for part in STATISTICS
    }
    worse = [
        (name, part)
        for part, by_line in errors.items()
        for name in PROPOSED
        if below(
            min((by_line[old] for old in EXISTING), key=lambda row: row["mae"]), by_line[name], "mae"
        )
    ]
    outcome = verdict(not worse)
    if worse and len(worse) < len(STATISTICS) * len(PROPOSED):
        worst = " and ".join(f"{name}'s {part}" for name, part in worse)
        outcome = only_if(f"{worst} is left out, which is worse than PrivKV's")
    return Claim(
        "Sec. VI-B",
        "F2M and KVOH attain acceptable results compared with existing methods.",
        outcome,
        "'Acceptable' is read as not clearly worse than the better of PrivKV and PrivKVM. Mean absolute "
        "error over the twelve data sets: "
        + "; ".join(
            f"{part} " + ", ".join(f"{name} {number(row['mae'])}" for name, row in by_line.items())
            for part, by_line in errors.items()
        )
        + ". (KVOH is decoded as printed; F2M's key bit is PrivKV's.)",
        "fig2, fig3",
    )
