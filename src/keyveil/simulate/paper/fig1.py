"""Fig. 1: overall error against epsilon on MovieLens, Gaussian and Uniform data.

100 keys and 50 repetitions, read both ways: 100,000 people in all, which leaves 1,000 reports for a
key, and 100,000 reports for each key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import figures
from .compared import ABOUT_AUTO, MORE, SIX, TRUE, Line, by_source, measure_all, repetitions, there
from .experiment import EPSILONS, PEOPLE, Figure, Job, Row, Setup, averages, picked
from .fig1_claims import DATA, ENOUGH, FROM, PARTS, READINGS, claims

__all__ = ["ABOUT", "NAME", "TITLE", "claims", "draw", "jobs", "setting", "work"]

NAME = ROWS_OF = "fig1"
TITLE = "Fig. 1: overall error against epsilon"
ABOUT = (
    "100 keys, 50 repetitions, each person speaks of one key drawn at random (PCKV and auto may speak "
    "of the whole set; PCKV has the padding length of least predicted error). Errors are averaged over "
    "keys and repetitions, estimates clipped to their range. " + ABOUT_AUTO
)

QUICK = (0.5, 4.0)
SLOW = {"auto": 12.0, "privkvm": 6.0, "pckv_ue": 4.0, "pckv_grr": 2.0}
"""Mechanisms that are not drawn in one go for all repetitions, and what they cost."""


def jobs(setup: Setup) -> list[Job]:
    """Slow lines have a job for each epsilon, so that an interrupted run loses little."""
    made = []
    for source, (line, *_) in by_source((*SIX, *MORE, *TRUE)).items():
        cost = SLOW.get(line.mechanism, 2.0)
        each = [[e] for e in _epsilons(setup)] if cost > 4 else [list(_epsilons(setup))]
        for data in DATA:
            for reading in READINGS:
                if line in TRUE and (data, reading) != ("Gaussian", "reports"):
                    continue
                what = {"data": data, "reading": reading, "source": source}
                made += [Job({**what, "epsilons": some}, cost / len(each)) for some in each]
    return sorted(made, key=lambda job: -job.cost)


def work(setup: Setup, what: dict[str, Any]) -> list[Row]:
    lines = by_source((*SIX, *MORE, *TRUE))[what["source"]]
    return [
        row
        for epsilon in what["epsilons"]
        for row in settings(setup, NAME, lines, what["data"], what["reading"], epsilon)
    ]


def setting(setup: Setup, where: str, line: Line, data: str, reading: str, epsilon: float) -> Row:
    """One line's errors on one data set at one epsilon."""
    return settings(setup, where, [line], data, reading, epsilon)[0]


def settings(
    setup: Setup, where: str, lines: list[Line], data: str, reading: str, epsilon: float
) -> list[Row]:
    """The errors of lines of one source on one data set at one epsilon."""
    population = setup.population(data)
    people = PEOPLE * (len(population.schema.keys) if reading == "reports" else 1)
    coins = setup.coins(where, data, reading, lines[0].source, epsilon)
    runs = setup.runs(50, 5 if lines[0].mechanism in SLOW else 50)
    made = []
    for line, found in zip(
        lines, measure_all(lines, population, epsilon, people, coins, runs), strict=True
    ):
        off_f, off_m = found.frequency, found.mean
        # The slope of errors on true means: 0 if means are unbiased, -1 if all are found to be 0.
        pulls = (off_m * population.mean).mean(axis=1) / (population.mean**2).mean()
        noise = pulls.std(ddof=1) / np.sqrt(len(pulls)) if len(pulls) > 1 else np.inf
        made.append(
            {
                "data": data,
                "reading": reading,
                "line": line.label,
                "whose": line.whose,
                "epsilon": epsilon,
                "true_epsilon": found.epsilon,
                "chosen": found.chosen,
                "estimator": line.estimator or "least_squares",
                "people": people,
                "repetitions": len(off_f),
                **averages("frequency", off_f),
                **averages("mean", off_m),
                "pull": float(pulls.mean()),
                "se_pull": float(noise),
            }
        )
    return made


def _epsilons(setup: Setup) -> tuple[float, ...]:
    return QUICK if setup.quick else EPSILONS


# -- figures ----------------------------------------------------------------------------------------


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    labels = [line.label for line in there((*SIX, *MORE))]
    made = []
    with figures.look() as pyplot:
        for reading, words in READINGS.items():
            figure, grid = figures.panels(
                pyplot, 3, 4, 13.5, 9.2, left=0.9, top=0.9, bottom=1.0, down=0.25, sharex=True
            )
            for across, data in zip(grid, DATA, strict=True):
                for panel, (part, title) in zip(across, PARTS.items(), strict=True):
                    some = picked(rows, data=data, reading=reading)
                    _panel(panel, some, labels, part)
                    if data == DATA[0]:
                        panel.set_title(title)
                across[0].set_ylabel(data, fontsize=11)
            for panel in grid[-1]:
                figures.epsilons(panel, _epsilons(setup))
            figures.legend(figure, grid, (len(labels) + 1) // 2)
            figures.note(
                figure,
                f"{words}. MovieLens: {setup.movielens_note}\n{ALIKE} auto: one plan decoded twice; "
                "only 'shrunk across keys' pools over keys.",
            )
            name = f"fig1-{reading}"
            shown = [row for row in picked(rows, reading=reading) if row["line"] in labels]
            made.append(Figure(name, _caption(words, shown), figure))
        made.append(_true_figure(setup, rows, pyplot))
    return made


ALIKE = "PrivKV, PrivKVM, PrivKV-A and F2M flip the key alike, so their frequencies lie on each other."


def _caption(words: str, rows: list[Row]) -> str:
    return (
        f"Fig. 1 with {words}: error against epsilon, {repetitions(rows)}. The dashed line is the "
        f"paper's {ENOUGH}, said to be reached above epsilon {FROM}. {ALIKE} {ABOUT_AUTO}"
    )


def _panel(panel: Any, rows: list[Row], labels: list[str], part: str) -> None:
    for place, label in enumerate(labels):
        figures.curve(panel, picked(rows, line=label), "epsilon", part, label, place)
    figures.errors(panel)
    if part.startswith("mae"):
        # Where no curve is: at the left they lie above the line, but for frequencies of many reports.
        left = part == "mae_mean" or rows[0]["reading"] == "people"
        figures.level(panel, ENOUGH, f"{ENOUGH}", left=left)


HIGHEST = 8.0
"""Of the ratios in the figure of true epsilon."""


def _true_figure(setup: Setup, rows: list[Row], pyplot: Any) -> Figure:
    labels = [line.label for line in there((*SIX[2:], *TRUE, *MORE))]
    some = picked(rows, data="Gaussian", reading="reports")
    figure, grid = figures.panels(pyplot, 1, 2, 11.5, 5.4, top=1.35, left=0.85, across=0.9)
    for panel, part in zip(grid[0], ("mse_frequency", "mse_mean"), strict=True):
        for place, label in enumerate(labels):
            curve = [
                {"true_epsilon": row["true_epsilon"], "ratio": row[part] / at}
                for row in picked(some, line=label)
                if (at := _kvue_at(some, part, row["true_epsilon"])) is not None
            ]
            figures.curve(panel, curve, "true_epsilon", "ratio", label, place)
        panel.set_ylim(0.15, HIGHEST)
        figures.errors(panel)
        figures.epsilons(panel, _epsilons(setup), "true epsilon")
        panel.set_ylabel("over KVUE's at the same true epsilon")
        panel.set_title(PARTS[part])
    figures.legend(figure, grid, 4)
    caption = (
        "Fig. 1 again, Gaussian, 100,000 reports for each key: squared error over KVUE's at the epsilon "
        "that each mechanism truly proves (1 is as good as KVUE; between the points of KVUE it is "
        f"interpolated). Tight: parameters that use all of epsilon. Above {HIGHEST:g} nothing is shown, "
        "so PrivKVM's means and most of PCKV-UE are not: people hold some fifty keys here, and PCKV has "
        "the padding length of least predicted error."
    )
    return Figure("fig1-true", caption, figure)


def _kvue_at(rows: list[Row], part: str, epsilon: float) -> float | None:
    """KVUE's error at any epsilon between its least and its largest, interpolated on log scales."""
    points = sorted((row["true_epsilon"], row[part]) for row in picked(rows, line="KVUE"))
    known, errors = np.log(np.array(points).T)
    if not known[0] - 1e-6 <= np.log(epsilon) <= known[-1] + 1e-6:
        return None
    return float(np.exp(np.interp(np.log(epsilon), known, errors)))
