"""What Figs. 2, 3 and 4 share: data sets of one frequency and one average, and boxes of signed errors.

The paper does not say how many keys such a data set has, nor which epsilon. Here 20 keys of the stated
frequency have means around the stated one (Gaussian: N(m, 0.05), Uniform: m -+ 0.1), each key has
100,000 reports, and epsilon is 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...foundation.arrays import Floats
from ...mechanisms.privkv import keep_probability, sign_means
from ...people.synthetic import StatedPopulation, normal_values, of_keys, uniform_values
from ..chains import one_round
from . import figures
from .compared import (
    ABOUT_AUTO,
    MORE,
    OURS,
    PLAIN,
    SHRUNK,
    SIX,
    Line,
    Measurement,
    by_source,
    errors_of,
    measure_all,
    repetitions,
)
from .experiment import Figure, Job, Row, Setup, select_rows

FREQUENCIES = {0.05: "extreme low", 0.2: "low", 0.6: "middle", 0.8: "high"}
AVERAGES = {"low": -0.8, "middle": 0.0, "high": 0.8}
KEYS, REPORTS, EPSILON = 20, 100_000, 1.0
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

OURS_TOO = tuple(line for line in MORE if line.whose == OURS)
CLOSE = ("PrivKV-A", "F2M", "KVUE", "KVOH", SHRUNK, PLAIN)
"""Lines with small errors, which a second row of panels shows enlarged."""

ONES = (
    Line("PrivKV, absent say 1", "privkv", "published"),
    Line("PrivKV-A, absent say 1", "privkv", "unbiased"),
)
"""Algorithm 1 with 1 instead of the random value, decoded as printed."""


def box_jobs(with_ones: bool) -> list[Job]:
    """A job for each frequency and source of reports."""
    lines = (*SIX, *OURS_TOO, *(ONES if with_ones else ()))
    cost = {"PrivKVM": 2.0, "auto": 6.0}
    return [
        Job({"frequency": f, "source": source}, cost.get(source, 0.5))
        for f in FREQUENCIES
        for source in by_source(lines)
    ]


def box_rows(setup: Setup, data: str, what: dict[str, Any], parts: tuple[str, ...]) -> list[Row]:
    """Quantiles of signed errors at every average."""
    lines = by_source((*SIX, *OURS_TOO, *ONES))[what["source"]]
    rows: list[Row] = []
    for average in AVERAGES.values():
        population = data_set(setup, data, what["frequency"], average)
        coins = setup.coins("boxes", data, what["frequency"], average, what["source"])
        slow = what["source"] in ("PrivKVM", "auto")
        runs = setup.runs(50, 10 if slow else 50)
        if lines[0] in ONES:
            found_by = [_ones(population, lines[0], coins, runs)]
        else:
            found_by = measure_all(lines, population, EPSILON, REPORTS * KEYS, coins, runs)
        about = {"data": data, "frequency": what["frequency"], "mean": average}
        for line, made_by in zip(lines, found_by, strict=True):
            rows += [{**about, **_box(line, made_by, part)} for part in parts]
    return rows


def _box(line: Line, made_by: Measurement, part: str) -> Row:
    """Quantiles of one line's signed errors of frequency or mean, and their summary."""
    off = getattr(made_by, part)
    return {
        "part": part,
        "line": line.label,
        "chosen": made_by.chosen,
        "epsilon": EPSILON,
        "reports": REPORTS,
        "repetitions": len(off),
        **{
            f"q{round(100 * q):02d}": float(at)
            for q, at in zip(QUANTILES, np.quantile(off, QUANTILES), strict=True)
        },
        "mae": float(np.abs(off).mean()),
        "se_mae": float(np.abs(off).std(ddof=1) / np.sqrt(off.size)),
        "bias": float(off.mean()),
        "spread": float(off.std()),
        "se_spread": float(off.std() / np.sqrt(2 * (off.size - 1))),
    }


def data_set(setup: Setup, data: str, frequency: float, average: float) -> StatedPopulation:
    """Keys of one frequency with means around one average."""
    draw = setup.coins("boxes", data, "keys").generator()
    off = draw.normal(0, 0.05, KEYS) if data == "Gaussian" else draw.uniform(-0.1, 0.1, KEYS)
    means = np.clip(average + off - off.mean(), -0.95, 0.95)
    law = normal_values if data == "Gaussian" else uniform_values
    return of_keys(np.full(KEYS, frequency), means, law)


def _ones(population: StatedPopulation, line: Line, coins: Any, runs: range) -> Measurement:
    laws = np.array([population.law((key,)) for key in range(KEYS)])
    half = EPSILON / 2
    keep = keep_probability(half)
    frequency, mean = np.empty((len(runs), KEYS)), np.empty((len(runs), KEYS))
    for place, run in enumerate(runs):
        counts = one_round(coins.generator(run), laws, half, half, np.ones(KEYS), REPORTS * KEYS)
        held, signed = _printed(counts.astype(np.float64), keep)
        frequency[place] = held / counts.sum(axis=1)
        mean[place] = sign_means(counts, keep) if line is ONES[0] else signed / held
    return errors_of(population, frequency, mean, EPSILON, "privkv, absent keys say 1")


def _printed(counts: Floats, keep: float) -> tuple[Floats, Floats]:
    """N_1* + N_-1* and N_1* - N_-1*, as Sec. III prints them, for absent keys with a fair coin."""
    total, low, high = counts.sum(axis=1), counts[:, 1], counts[:, 2]
    held = (low + high - total * (1 - keep)) / (2 * keep - 1)
    return held, (high - low) / (keep * (2 * keep - 1))


def box_figure(
    pyplot: Any,
    rows: list[Row],
    name: str,
    caption: str,
    bands: list[tuple[str, list[str], str]],
) -> Figure:
    """A panel for each frequency; a row of panels for each part, its lines, and what it is called."""
    figure, grid = figures.panels(
        pyplot,
        *(len(bands), 4, 14, 1.3 + 2.7 * len(bands)),
        bottom=0.8,
        across=0.6,
        down=0.25,
        sharex=True,
    )
    for across, (part, labels, title) in zip(grid, bands, strict=True):
        for panel, (f, words) in zip(across, FREQUENCIES.items(), strict=True):
            own = select_rows(rows, part=part, frequency=f)
            figures.boxes(panel, own, labels, {f"{n} ({m:g})": m for n, m in AVERAGES.items()})
            if panel in grid[0]:
                panel.set_title(f"{words} frequency, f = {f:g}")
            if panel in grid[-1]:
                panel.set_xlabel("average of the mean")
        across[0].set_ylabel(title)
    figures.legend(figure, grid, 8)
    shown = [row for row in rows if any(row["line"] in labels for _, labels, _ in bands)]
    figures.note(figure, settings(shown))
    return Figure(name, f"{caption} {settings(shown)}.", figure)


def settings(rows: list[Row]) -> str:
    """Epsilon, reports, repetitions, and what boxes are, in one line."""
    return (
        f"Epsilon {EPSILON:g}, {KEYS} keys, {REPORTS:,} reports for each, {repetitions(rows)}; "
        "boxes: quartiles and median, whiskers: the middle 90 % of errors over keys and repetitions"
    )


def drawn(rows: list[Row]) -> list[str]:
    """The lines of the figure, in the usual order."""
    here = {row["line"] for row in rows}
    return [line.label for line in (*SIX, *OURS_TOO) if line.label in here]


ABOUT = (
    f"{KEYS} keys of one frequency with means around one average, {REPORTS:,} reports for each key, "
    f"epsilon {EPSILON:g} (the paper does not state it). Boxes are quartiles, whiskers the middle 90 % "
    "of signed errors over keys and repetitions. " + ABOUT_AUTO + " All keys of such a data set are "
    "alike, which is the ideal case of shrinking: its boxes here say little of keys that differ."
)


def close(labels: list[str]) -> list[str]:
    """The lines of the enlarged panels."""
    return [label for label in labels if label in CLOSE]
