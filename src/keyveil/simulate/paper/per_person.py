"""For doubters: a part of Fig. 1 with every person's record and report, against the fast simulation.

Each repetition draws 100,000 people with whole records, runs the devices' own code on them (the batch
path, which gives the same reports as one by one), tallies the reports and estimates. PrivKVM runs its
chain of plans for real, everyone answering in all ten rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from ...estimate import bands, first_estimator
from ...foundation.errors import FinishedError
from ...people.synthetic import StatedPopulation
from ...plan.plan import Plan
from ...plan.tally import Tally
from . import figures
from .compared import SIX, errors_of
from .evidence import CLEAR, averages, pooled, select_rows, verdict
from .experiment import PEOPLE, Claim, Experiment, Figure, Job, Row, Setup
from .fig1 import setting_rows

NAME = "person"
TITLE = "Person by person: a part of Fig. 1 without the fast simulation"
ABOUT = (
    "Gaussian data, 100,000 people in all. Ways: 'person' makes every record and report, 'counts' "
    "draws the tallies from their law as all other figures do."
)

EPSILONS = (0.5, 1.0, 2.0, 5.0)
QUICK = (1.0, 5.0)
PARTS = ("mae_frequency", "mae_mean")


def jobs(setup: Setup) -> list[Job]:
    return [Job({"run": run}, 10.0) for run in range(setup.pick(10, 2))] + [
        Job({"line": line.label}) for line in SIX
    ]


def work(setup: Setup, what: dict[str, Any]) -> list[Row]:
    return [
        {
            "way": "counts" if "line" in what else "person",
            "run": what.get("run", -1),
            "line": row["line"],
            "epsilon": row["epsilon"],
            **{name: row[name] for part in PARTS for name in (part, f"se_{part}")},
        }
        for row in (_fast_rows(setup, what["line"]) if "line" in what else _rows(setup, what["run"]))
    ]


def _fast_rows(setup: Setup, label: str) -> Iterator[Row]:
    lines = [line for line in SIX if line.label == label]
    for epsilon in setup.pick(EPSILONS, QUICK):
        yield from setting_rows(setup, lines, "Gaussian", "people", epsilon)


def _rows(setup: Setup, run: int) -> Iterator[Row]:
    """The errors of all lines in one repetition, from everyone's report."""
    population = setup.gaussian
    assert isinstance(population, StatedPopulation)
    people = population.draw(PEOPLE, setup.coins(NAME, "people").generator(run))
    for line, epsilon in product(SIX, setup.pick(EPSILONS, QUICK)):
        plan = Plan.of(population.schema, line.mechanism, epsilon, **dict(line.parameters))
        coins = setup.coins(NAME, "coins", run)
        tally = Tally(plan).add(plan.privatise(people, coins))
        while plan.chain is not None:
            try:
                plan = plan.next(tally)
            except FinishedError:
                break
            tally = Tally(plan).add(plan.privatise(people, coins))
        answers = bands(plan, tally.counts[None, :], line.estimator or first_estimator(plan))
        assert answers.frequency is not None
        assert answers.mean is not None
        errors = errors_of(population, answers.frequency.value, answers.mean.value, epsilon, "")
        of_both = averages("frequency", errors.frequency) | averages("mean", errors.mean)
        yield {"line": line.label, "epsilon": epsilon, **of_both}


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    figure, grid = figures.panels(1, 2, 10.5, 4.6)
    for panel, part in zip(grid[0], PARTS, strict=True):
        for line in SIX:
            look = figures.style_of(line.label)
            counts, dots = (
                [(row["epsilon"], row[part]) for row in select_rows(rows, line=line.label, way=way)]
                for way in ("counts", "person")
            )
            panel.plot(*zip(*counts, strict=True), color=look["color"], label=line.label)
            mark = {"color": look["color"], "marker": look["marker"], "markersize": 4, "alpha": 0.6}
            panel.plot(*zip(*dots, strict=True), linestyle="", **mark)
        figures.errors(panel)
        panel.set_ylabel(part.replace("mae_", "absolute error of the "))
    caption = "Lines: the fast simulation. Marks: repetitions made person by person."
    values = setup.pick(EPSILONS, QUICK)
    return [figures.finished(NAME, caption, figure, grid, values=values, columns=6)]


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    off, far = [], []
    for fast in select_rows(rows, way="counts"):
        own = select_rows(rows, way="person", line=fast["line"], epsilon=fast["epsilon"])
        for part in PARTS:
            average = pooled(own, part)
            off.append(average[part] / fast[part] - 1)
            noise = float(np.hypot(average[f"se_{part}"], fast[f"se_{part}"]))
            far.append((average[part] - fast[part]) / noise)
    return [
        Claim(
            "this library",
            "The fast simulation and the person-by-person path agree.",
            verdict(max(np.abs(far)) < CLEAR),
            f"Mean absolute errors differ by {np.mean(off):+.1%} on average and by at most "
            f"{max(np.abs(off)):.1%}, or {max(np.abs(far)):.1f} standard errors of the difference, over "
            f"{len(off)} settings.",
            NAME,
        )
    ]


EXPERIMENTS = {NAME: Experiment(NAME, TITLE, ABOUT, jobs, work, draw, claims)}
