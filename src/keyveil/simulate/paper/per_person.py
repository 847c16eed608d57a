"""For doubters: a part of Fig. 1 with every person's record and report, beside the fast simulation.

Each repetition draws 100,000 people with whole records, runs the devices' own code on them (the batch
path, which gives the same reports as one by one), tallies the reports and estimates. PrivKVM runs its
chain of plans for real, everyone answering in all ten rounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...estimate import bands
from ...foundation.errors import FinishedError
from ...people.synthetic import StatedPopulation
from ...plan.plan import Plan
from ...plan.tally import Tally
from . import figures
from .compared import SIX, decimal_of, found, line_named
from .experiment import (
    CLEAR,
    PEOPLE,
    Claim,
    Figure,
    Job,
    Row,
    Setup,
    averages,
    one,
    picked,
    pooled,
    verdict,
)
from .fig1 import setting

NAME = ROWS_OF = "person"
TITLE = "Person by person: a part of Fig. 1 without the fast simulation"
ABOUT = (
    "Gaussian data, 100,000 people in all. Ways: 'person' makes every record and report, 'counts' "
    "draws the tallies from their law as all other figures do."
)

EPSILONS = (0.5, 1.0, 2.0, 5.0)
QUICK = (1.0, 5.0)
PARTS = ("mae_frequency", "mae_mean")


def jobs(setup: Setup) -> list[Job]:
    return [Job({"run": run}, 10.0) for run in setup.runs(10, 2)] + [
        Job({"line": line.label}, 1.0) for line in SIX
    ]


def _epsilons(setup: Setup) -> tuple[float, ...]:
    return QUICK if setup.quick else EPSILONS


def work(setup: Setup, what: dict[str, Any]) -> list[Row]:
    if "line" in what:
        line = line_named(what["line"])
        rows = [setting(setup, "fig1", line, "Gaussian", "people", e) for e in _epsilons(setup)]
        return [
            {
                "way": "counts",
                "run": -1,
                "line": row["line"],
                "epsilon": row["epsilon"],
                **{name: row[name] for part in PARTS for name in (part, f"se_{part}")},
            }
            for row in rows
        ]
    population = setup.gaussian
    assert isinstance(population, StatedPopulation)
    run = int(what["run"])
    people = population.draw(PEOPLE, setup.coins(NAME, "people").generator(run))
    made = []
    for line in SIX:
        for epsilon in _epsilons(setup):
            plan = Plan.of(
                population.schema, line.mechanism, decimal_of(epsilon), **dict(line.parameters)
            )
            coins = setup.coins(NAME, "coins", run)
            tally = Tally(plan).add(plan.privatise(people, coins))
            while plan.chain is not None:
                try:
                    plan = plan.next(tally)
                except FinishedError:
                    break
                tally = Tally(plan).add(plan.privatise(people, coins))
            answers = bands(plan, tally.counts[None, :], line.estimator)
            assert answers.frequency is not None
            assert answers.mean is not None
            off = found(population, answers.frequency.value, answers.mean.value, epsilon, "")
            made.append(
                {
                    "way": "person",
                    "run": run,
                    "line": line.label,
                    "epsilon": epsilon,
                    **_only(averages("frequency", off.frequency), "mae_frequency"),
                    **_only(averages("mean", off.mean), "mae_mean"),
                }
            )
    return made


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    with figures.look() as pyplot:
        figure, grid = figures.panels(pyplot, 1, 2, 10.5, 4.6)
        for panel, part in zip(grid[0], PARTS, strict=True):
            for line in SIX:
                look = figures.style_of(line.label)
                some = picked(rows, line=line.label)
                counts = sorted((r["epsilon"], r[part]) for r in picked(some, way="counts"))
                panel.plot(*zip(*counts, strict=True), color=look["color"], label=line.label)
                dots = [(r["epsilon"], r[part]) for r in picked(some, way="person")]
                panel.plot(
                    *zip(*dots, strict=True),
                    linestyle="",
                    marker=look["marker"],
                    color=look["color"],
                    markersize=4,
                    alpha=0.6,
                )
            figures.errors(panel)
            figures.epsilons(panel, _epsilons(setup))
            panel.set_ylabel(part.replace("mae_", "absolute error of the "))
        figures.legend(figure, grid, 6)
        caption = "Lines: the fast simulation. Marks: repetitions made person by person."
        return [Figure(NAME, caption, figure)]


def _only(row: Row, part: str) -> Row:
    return {name: row[name] for name in (part, f"se_{part}")}


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    off, far = [], []
    for line in SIX:
        for epsilon in _epsilons(setup):
            same = {"line": line.label, "epsilon": epsilon}
            for part in PARTS:
                made = pooled(picked(rows, way="person", **same), part)
                fast = one(rows, way="counts", **same)
                off.append(made[part] / fast[part] - 1)
                noise = float(np.hypot(made[f"se_{part}"], fast[f"se_{part}"]))
                far.append((made[part] - fast[part]) / noise)
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
