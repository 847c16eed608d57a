"""What Figs. 6 and 7 share: conditionals of two keys, IOH beside split and our views of pairs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from ...estimate.together.conditional import Conditionals
from ...estimate.together.query import Query
from ...foundation.arrays import Floats
from ...mechanisms.ioh import paper_conditional, paper_order
from ...mechanisms.kvoh import by_bits
from ...people.synthetic import tied
from ...plan.plan import Plan
from ...plan.tally import Tally
from ..conditional_questions import true_value
from ..tallies import simulate
from . import figures
from .experiment import STATISTICS, Figure, Job, Row, Setup, averages, picked

KEYS = (2, 4, 8)
PEOPLE = (100_000, 1_000_000)
EPSILONS = (0.2, 0.5, 1.0, 2.0, 3.0, 5.0)
QUICK = (0.5, 1.0, 5.0)
LINES = {
    "IOH": ("ioh", "printed"),
    "split": ("split", "least_squares"),
    "pairs": ("pairs", "pooled"),
}
"""Label, then mechanism and estimator: the paper's, its naive way with epsilon / d a key, and ours."""
ABOUT = (
    "Keys held by 80 % with a mean of -0.8; two kinds of people tie them together (one kind holds 65 "
    "% and values lower, the other 95 %; the paper does not say how its keys go together). Errors are "
    "averaged over all ordered pairs of keys, estimates clipped to their range."
)


def conditional_jobs(setup: Setup) -> list[Job]:
    """A job for each number of keys, of people, and line."""
    cost = {2: 0.6, 4: 2.0, 8: 8.0}
    made = [
        Job({"keys": d, "people": n, "line": label}, cost[d])
        for d in KEYS
        for n in PEOPLE
        for label in LINES
    ]
    return sorted(made, key=lambda job: -job.cost)


def conditional_rows(setup: Setup, what: dict[str, Any]) -> list[Row]:
    """Errors at every epsilon."""
    population = tied(what["keys"])
    mechanism, estimator = LINES[what["line"]]
    names = population.schema.keys
    queries = {
        kind: [Query(kind, k, ((c, True),)) for k in names for c in names if k != c]
        for kind in STATISTICS
    }
    truth = {kind: np.array([true_value(population, q) for q in queries[kind]]) for kind in STATISTICS}
    runs = setup.runs(20, 4)
    made = []
    for epsilon in QUICK if setup.quick else EPSILONS:
        plan = Plan.of(population.schema, mechanism, Decimal(str(epsilon)))
        coins = setup.coins("conditionals", *what.values(), epsilon)
        off: dict[str, list[Any]] = {kind: [] for kind in STATISTICS}
        for run in runs:
            tally = simulate(plan, population, what["people"], coins, run)
            for kind in STATISTICS:
                low = 0.0 if kind == "frequency" else -1.0
                values = answered(plan, tally, estimator, queries[kind])
                values = np.clip(np.nan_to_num(values, nan=(low + 1) / 2), low, 1.0)
                off[kind].append(values - truth[kind])
        errors = {kind: np.array(off[kind]) for kind in STATISTICS}
        made.append(
            {
                **what,
                "epsilon": epsilon,
                "true_epsilon": float(plan.proven),
                "repetitions": len(runs),
                **averages("frequency", errors["frequency"], by_run=True),
                **averages("mean", errors["mean"], by_run=True),
            }
        )
    return made


def answered(plan: Plan, tally: Tally, estimator: str, queries: list[Query]) -> Floats:
    """The values of some queries of two keys."""
    if estimator == "printed" and plan.channels[0].one_cell:
        # With two keys a report is one cell of 2^9, and the paper's array A_s is its bits' sums.
        reports, counts = tally.view_counts(0)
        decoder = by_bits(plan.channels[0], np.eye(plan.channels[0].states))
        cells = paper_order(counts / reports @ decoder, len(plan.schema.keys))
        made = []
        for query in queries:
            target, given = query.places(plan.schema)
            found = paper_conditional(cells, len(plan.schema.keys), target, dict(given))
            made.append(found[STATISTICS.index(query.kind)])
        return np.array(made)
    answers = Conditionals(plan, tally, estimator).answers(queries)
    return np.array([answer.estimate.value for answer in answers])


def conditional_figure(setup: Setup, rows: list[Row], kind: str, name: str, caption: str) -> Figure:
    """A panel for each number of people and of keys."""
    with figures.look() as pyplot:
        figure, grid = figures.panels(
            pyplot, 2, 3, 11, 6.6, left=0.9, across=0.3, sharey=True, sharex=True
        )
        for across, people in zip(grid, PEOPLE, strict=True):
            for panel, keys in zip(across, KEYS, strict=True):
                for label in LINES:
                    some = picked(rows, keys=keys, people=people, line=label)
                    figures.curve(panel, some, "epsilon", f"mae_{kind}", label)
                panel.set_title(f"{people:,} people, {keys} keys")
            across[0].set_ylabel(f"absolute error of the\nconditional {kind}")
        figures.errors(grid[0][0])  # all panels share it
        for panel in grid[-1]:
            figures.epsilons(panel, QUICK if setup.quick else EPSILONS)
        figures.legend(figure, grid, 3)
        return Figure(name, caption, figure)
