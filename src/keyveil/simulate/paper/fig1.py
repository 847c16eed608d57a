"""Fig. 1: overall error against epsilon on MovieLens, Gaussian and Uniform data.

100 keys and 50 repetitions, read both ways: 100,000 people in all, which leaves 1,000 reports for a
key, and 100,000 reports for each key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import figures
from .compared import ABOUT_AUTO, MORE, SIX, TRUE, Line, by_source, measure, repetitions
from .evidence import averages, select_rows
from .experiment import EPSILONS, PEOPLE, Experiment, Figure, Job, Row, Setup
from .fig1_claims import DATA, ENOUGH, FROM, PARTS, READINGS, claims

ABOUT = (
    "100 keys, 50 repetitions, each person speaks of one key drawn at random (PCKV and auto may speak "
    "of the whole set; PCKV has the padding length of least predicted error). Errors are averaged over "
    "keys and repetitions, estimates clipped to their range. " + ABOUT_AUTO
)
SOURCES = by_source((*SIX, *MORE, *TRUE))
QUICK = (0.5, 4.0)
SLOW = {"auto": 12.0, "privkvm": 6.0, "pckv_ue": 4.0, "pckv_grr": 2.0}
"""Mechanisms that are not drawn in one go for all repetitions, and what they cost."""
HIGHEST = 8.0
"""The largest ratio that the figure of true epsilon shows."""
ALIKE = "PrivKV, PrivKVM, PrivKV-A and F2M flip the key alike, so their frequencies lie on each other."


def jobs(setup: Setup) -> list[Job]:
    """Slow lines have a job for each epsilon, so that an interrupted run loses little."""
    epsilons = setup.pick(EPSILONS, QUICK)
    unsorted = []
    for source, (line, *_) in SOURCES.items():
        cost = SLOW.get(line.mechanism, 2.0)
        parts = [[epsilon] for epsilon in epsilons] if cost > 4 else [list(epsilons)]
        for data in DATA:
            for reading in READINGS:
                if line in TRUE and (data, reading) != ("Gaussian", "reports"):
                    continue
                what = {"data": data, "reading": reading, "source": source}
                unsorted += [Job({**what, "epsilons": part}, cost / len(parts)) for part in parts]
    return sorted(unsorted, key=lambda job: -job.cost)


def work(setup: Setup, what: dict[str, Any]) -> list[Row]:
    setting = (SOURCES[what["source"]], what["data"], what["reading"])
    return [row for epsilon in what["epsilons"] for row in setting_rows(setup, *setting, epsilon)]


def setting_rows(setup: Setup, lines: list[Line], data: str, reading: str, epsilon: float) -> list[Row]:
    """The errors of lines of one source on one data set at one epsilon."""
    populations = {"MovieLens": setup.movielens, "Gaussian": setup.gaussian, "Uniform": setup.uniform}
    population = populations[data]
    people = PEOPLE * (len(population.schema.keys) if reading == "reports" else 1)
    coins = setup.coins("fig1", data, reading, lines[0].source, epsilon)
    runs = range(setup.pick(50, 5 if lines[0].mechanism in SLOW else 50))
    rows = []
    errors_of_lines = measure(lines, population, epsilon, people, coins, runs)
    for line, errors in zip(lines, errors_of_lines, strict=True):
        # The slope of errors on true means: 0 if means are unbiased, -1 if all estimates are 0.
        pulls = (errors.mean * population.mean).mean(axis=1) / (population.mean**2).mean()
        noise = pulls.std(ddof=1) / np.sqrt(len(pulls)) if len(pulls) > 1 else np.inf
        rows.append(
            {
                "data": data,
                "reading": reading,
                "line": line.label,
                "whose": line.whose,
                "epsilon": epsilon,
                "true_epsilon": errors.epsilon,
                "chosen": errors.chosen,
                "estimator": line.estimator or "least_squares",
                "people": people,
                "repetitions": len(errors.mean),
                **averages("frequency", errors.frequency),
                **averages("mean", errors.mean),
                "pull": float(pulls.mean()),
                "se_pull": float(noise),
            }
        )
    return rows


# -- figures ----------------------------------------------------------------------------------------


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    by_reading = [_reading_figure(setup, rows, reading) for reading in READINGS]
    return [*by_reading, _true_figure(setup, rows)]


def _reading_figure(setup: Setup, rows: list[Row], reading: str) -> Figure:
    labels = [line.label for line in (*SIX, *MORE)]
    own = [row for row in select_rows(rows, reading=reading) if row["line"] in labels]
    margins = {"left": 0.9, "top": 0.9, "bottom": 1.0, "down": 0.25}
    figure, grid = figures.panels(3, 4, 13.5, 9.2, **margins, sharex=True)
    for panel, data, (part, title) in figures.cells(grid, DATA, PARTS.items()):
        for label in labels:
            figures.curve(panel, select_rows(own, data=data, line=label), "epsilon", part, label)
        figures.errors(panel)
        if part.startswith("mae"):
            # Where no curve is: the left is free, but for frequencies of many reports.
            figures.level(panel, ENOUGH, left=part == "mae_mean" or reading == "people")
        if panel in grid[0]:
            panel.set_title(title)
        if panel in grid[:, 0]:
            panel.set_ylabel(data, fontsize=11)
    words = READINGS[reading]
    return figures.finished(
        f"fig1-{reading}",
        f"Fig. 1 with {words}: error against epsilon, {repetitions(own)}. The dashed line is the "
        f"paper's {ENOUGH}, said to be reached above epsilon {FROM}. {ALIKE} {ABOUT_AUTO}",
        *(figure, grid),
        values=setup.pick(EPSILONS, QUICK),
        columns=(len(labels) + 1) // 2,
        note=f"{words}. MovieLens: {setup.movielens_note}\n{ALIKE} auto: one plan decoded twice; "
        "only 'shrunk across keys' pools over keys.",
    )


def _true_figure(setup: Setup, rows: list[Row]) -> Figure:
    own = select_rows(rows, data="Gaussian", reading="reports")
    figure, grid = figures.panels(1, 2, 11.5, 5.4, top=1.35, left=0.85, across=0.9)
    for panel, part in zip(grid[0], ("mse_frequency", "mse_mean"), strict=True):
        lines: dict[str, list[Row]] = {}
        for line in (*SIX[2:], *TRUE, *MORE):
            curve: list[Row] = [
                {"true_epsilon": row["true_epsilon"], "ratio": row[part] / kvue}
                for row in select_rows(own, line=line.label)
                if (kvue := _kvue_at(own, part, row["true_epsilon"])) is not None
            ]
            figures.curve(panel, curve, "true_epsilon", "ratio", line.label)
            lines[line.label] = curve
        figures.clipped_marks(panel, lines, "true_epsilon", "ratio", HIGHEST)
        panel.set_ylim(0.15, HIGHEST)
        figures.errors(panel)
        panel.set_ylabel("over KVUE's at the same true epsilon")
        panel.set_title(PARTS[part])
    caption = (
        "Fig. 1 again, Gaussian, 100,000 reports for each key: squared error over KVUE's at the epsilon "
        "that each mechanism truly proves (1 is as good as KVUE; between the points of KVUE it is "
        "interpolated). Tight: parameters that use all of epsilon. An arrowhead at the upper edge is a "
        f"point above {HIGHEST:g}, in the colour of its line. People hold some fifty keys here, and "
        "PCKV has the padding length of least predicted error."
    )
    for panel in grid[0]:
        figures.epsilons(panel, setup.pick(EPSILONS, QUICK), "true epsilon")
    return figures.finished("fig1-true", caption, figure, grid, columns=4)


def _kvue_at(rows: list[Row], part: str, epsilon: float) -> float | None:
    """KVUE's error at any epsilon between its least and its largest, interpolated on log scales."""
    points = sorted((row["true_epsilon"], row[part]) for row in select_rows(rows, line="KVUE"))
    known, errors = np.log(np.array(points).T)
    if not known[0] - 1e-6 <= np.log(epsilon) <= known[-1] + 1e-6:
        return None
    return float(np.exp(np.interp(np.log(epsilon), known, errors)))


TITLE = "Fig. 1: overall error against epsilon"
EXPERIMENTS = {"fig1": Experiment("fig1", TITLE, ABOUT, jobs, work, draw, claims)}
