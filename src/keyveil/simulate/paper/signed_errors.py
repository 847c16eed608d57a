"""Figs. 2, 3 and 4: boxes of signed errors, by frequency and average.

The paper does not say how many keys such a data set has, nor which epsilon. Here 20 keys of the stated
frequency have means around the stated one (Gaussian: N(m, 0.05), Uniform: m -+ 0.1), each key has
100,000 reports, and epsilon is 1.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.coins import Coins
from ...mechanisms.privkv import keep_probability, sign_means
from ...people.synthetic import StatedPopulation, normal_values, of_keys, uniform_values
from ..chains import one_round
from . import figures
from .compared import ABOUT_AUTO, MORE, SIX, Measurement, by_source, errors_of, measure, repetitions
from .evidence import select_rows
from .experiment import STATISTICS, Experiment, Figure, Job, Row, Setup
from .signed_claims import AVERAGES, FREQUENCIES, ONES, fig2_claims, fig3_claims, fig4_claims

KEYS, REPORTS, EPSILON = 20, 100_000, 1.0
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
LINES = (*SIX, *MORE[-2:])
SOURCES = by_source(LINES)
LABELS = [line.label for line in LINES]
CLOSE = [label for label in LABELS if label not in ("PrivKV", "PrivKVM")]
"""Lines with small errors, which a second row of panels shows enlarged."""
ABOUT = (
    f"{KEYS} keys of one frequency with means around one average, {REPORTS:,} reports for each key, "
    f"epsilon {EPSILON:g} (the paper does not state it). Boxes are quartiles, whiskers the middle 90 % "
    "of signed errors over keys and repetitions. " + ABOUT_AUTO + " All keys of such a data set are "
    "alike, which is the ideal case of shrinking: its boxes here say little of keys that differ."
)


def _jobs(data: str, setup: Setup) -> list[Job]:
    """A job for each frequency and source of reports."""
    sources = (*SOURCES, *(ONES if data == "Gaussian" else ()))
    cost = {"PrivKVM": 2.0, "auto": 6.0}
    return [
        Job({"frequency": f, "source": source}, cost.get(source, 0.5))
        for f in FREQUENCIES
        for source in sources
    ]


def _work(data: str, setup: Setup, what: dict[str, Any]) -> list[Row]:
    """Quantiles of signed errors at every average."""
    frequency, source = what.values()
    runs = range(setup.pick(50, 10 if source in ("PrivKVM", "auto") else 50))
    rows: list[Row] = []
    for average in AVERAGES.values():
        population = _data_set(setup, data, frequency, average)
        coins = setup.coins("boxes", data, frequency, average, source)
        if source in ONES:
            errors = {source: _ones(population, source, coins, runs)}
        else:
            lines = SOURCES[source]
            measured = measure(lines, population, EPSILON, REPORTS * KEYS, coins, runs)
            errors = {line.label: of_line for line, of_line in zip(lines, measured, strict=True)}
        about = {"data": data, "frequency": frequency, "mean": average}
        for label, part in product(errors, STATISTICS):
            rows.append({**about, **_box(label, errors[label], part)})
    return rows


def _box(label: str, errors: Measurement, part: str) -> Row:
    """Quantiles of one line's signed errors of frequency or mean, and their summary."""
    off = getattr(errors, part)
    quantiles = zip(QUANTILES, np.quantile(off, QUANTILES), strict=True)
    return {
        "part": part,
        "line": label,
        "chosen": errors.chosen,
        "epsilon": EPSILON,
        "reports": REPORTS,
        "repetitions": len(off),
        **{f"q{round(100 * q):02d}": float(at) for q, at in quantiles},
        "mae": float(np.abs(off).mean()),
        "se_mae": float(np.abs(off).std(ddof=1) / np.sqrt(off.size)),
        "bias": float(off.mean()),
        "spread": float(off.std()),
        "se_spread": float(off.std() / np.sqrt(2 * (off.size - 1))),
    }


def _data_set(setup: Setup, data: str, frequency: float, average: float) -> StatedPopulation:
    """Keys of one frequency with means around one average."""
    draw = setup.coins("boxes", data, "keys").generator()
    off = draw.normal(0, 0.05, KEYS) if data == "Gaussian" else draw.uniform(-0.1, 0.1, KEYS)
    means = np.clip(average + off - off.mean(), -0.95, 0.95)
    law = normal_values if data == "Gaussian" else uniform_values
    return of_keys(np.full(KEYS, frequency), means, law)


def _ones(population: StatedPopulation, label: str, coins: Coins, runs: range) -> Measurement:
    """Algorithm 1 with 1 instead of the random value, decoded as printed."""
    laws = np.array([population.law((key,)) for key in range(KEYS)])
    half = EPSILON / 2
    keep = keep_probability(half)
    frequency, mean = np.empty((len(runs), KEYS)), np.empty((len(runs), KEYS))
    for place, run in enumerate(runs):
        counts = one_round(coins.generator(run), laws, half, half, np.ones(KEYS), REPORTS * KEYS)
        held, signed = _printed(counts.astype(np.float64), keep)
        frequency[place] = held / counts.sum(axis=1)
        mean[place] = sign_means(counts, keep) if label == ONES[0] else signed / held
    return errors_of(population, frequency, mean, EPSILON, "privkv, absent keys say 1")


def _printed(counts: Floats, keep: float) -> tuple[Floats, Floats]:
    """N_1* + N_-1* and N_1* - N_-1*, as Sec. III prints them, for absent keys with a fair coin."""
    total, low, high = counts.sum(axis=1), counts[:, 1], counts[:, 2]
    held = (low + high - total * (1 - keep)) / (2 * keep - 1)
    return held, (high - low) / (keep * (2 * keep - 1))


# -- figures -----------------------------------------------------------------------------------------


def _figure(rows: list[Row], name: str, caption: str, *bands: tuple[str, list[str], str]) -> Figure:
    """A panel for each frequency; a row of panels for each part, its lines, and a remark on it."""
    height = 1.3 + 2.7 * len(bands)
    figure, grid = figures.panels(
        len(bands), 4, 14, height, bottom=0.8, across=0.6, down=0.25, sharex=True
    )
    groups = {f"{name} ({m:g})": m for name, m in AVERAGES.items()}
    for panel, (part, labels, remark), (f, words) in figures.cells(grid, bands, FREQUENCIES.items()):
        figures.boxes(panel, select_rows(rows, part=part, frequency=f), labels, groups)
        if panel in grid[0]:
            panel.set_title(f"{words} frequency, f = {f:g}")
        if panel in grid[-1]:
            panel.set_xlabel("average of the mean")
        if panel in grid[:, 0]:
            panel.set_ylabel(f"error of the {part}{remark}")
    shown = [row for row in rows if any(row["line"] in labels for _, labels, _ in bands)]
    note = (
        f"Epsilon {EPSILON:g}, {KEYS} keys, {REPORTS:,} reports for each, {repetitions(shown)}; "
        "boxes: quartiles and median, whiskers: the middle 90 % of errors over keys and repetitions"
    )
    return figures.finished(name, f"{caption} {note}.", figure, grid, columns=8, note=note)


def _draw2(setup: Setup, rows: list[Row]) -> list[Figure]:
    caption = (
        "Fig. 2: signed error of the frequency on Gaussian data, by frequency and average. PrivKV, "
        "PrivKVM, PrivKV-A and F2M flip the key alike, so their boxes differ by luck alone."
    )
    return [_figure(rows, "fig2", caption, ("frequency", LABELS, ""))]


def _draw3(setup: Setup, rows: list[Row]) -> list[Figure]:
    caption = (
        "Fig. 3: signed error of the mean on Gaussian data, by frequency and average; below, the "
        "accurate ones again. Every panel has a scale of its own."
    )
    absent = (
        "Algorithm 1 as printed (a random value for an absent key) beside a program in which "
        "absent keys say 1: only the second favours high averages."
    )
    ones = ["PrivKV", ONES[0], "PrivKV-A", ONES[1]]
    return [
        _figure(rows, "fig3", caption, ("mean", LABELS, ""), ("mean", CLOSE, ", closer")),
        _figure(rows, "fig3-absent", absent, ("mean", ones, "")),
    ]


def _draw4(setup: Setup, rows: list[Row]) -> list[Figure]:
    caption = (
        "Fig. 4: signed errors on Uniform data, by frequency and average. Every panel has a scale "
        "of its own."
    )
    bands = (("frequency", LABELS, ""), ("mean", LABELS, ""), ("mean", CLOSE, ", closer"))
    return [_figure(rows, "fig4", caption, *bands)]


GAUSSIAN, UNIFORM = (
    (ABOUT, partial(_jobs, data), partial(_work, data)) for data in ("Gaussian", "Uniform")
)
EXPERIMENTS = {
    "fig2": Experiment(
        "fig2", "Fig. 2: error of the frequency, Gaussian", *GAUSSIAN, _draw2, fig2_claims
    ),
    "fig3": Experiment(
        "fig3", "Fig. 3: error of the mean, Gaussian", *GAUSSIAN, _draw3, fig3_claims, shows="fig2"
    ),
    "fig4": Experiment("fig4", "Fig. 4: errors on Uniform data", *UNIFORM, _draw4, fig4_claims),
}
