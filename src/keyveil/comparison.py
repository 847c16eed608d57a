"""Comparison: mechanisms side by side on one population, by repeated simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from .arrays import Floats
from .coins import Coins
from .errors import PlanError
from .estimate.conditional import Conditionals, query_weights
from .plan import Plan
from .query import Query
from .schema import Schema
from .simulate import Population, simulate

MOST_QUERIES = 20_000


@dataclass(frozen=True)
class Row:
    """One mechanism, estimator and epsilon: its error and coverage over all repetitions."""

    mechanism: str
    chosen: str
    """What ``auto`` stood for; otherwise the mechanism itself."""
    estimator: str
    epsilon: float
    true_epsilon: float
    d: int
    n: int
    repetitions: int
    mse_conditional_frequency: float
    mse_conditional_mean: float
    coverage_frequency: float | None
    coverage_mean: float | None
    bounded_frequency: float
    bounded_mean: float

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return dict(self.__dict__)


def conditional_queries(schema: Schema, order: int) -> list[tuple[str, tuple[str, ...]]]:
    """Every key given every ``order - 1`` others that are held, in both directions."""
    if not 2 <= order <= len(schema.keys):
        raise PlanError(f"conditional takes 2 to {len(schema.keys)} keys together, target included")
    made: list[tuple[str, tuple[str, ...]]] = []
    for keys in permutations(schema.keys, order):
        if list(keys[1:]) == sorted(keys[1:], key=schema.index.__getitem__):
            made.append((keys[0], keys[1:]))
        if len(made) > MOST_QUERIES:
            raise PlanError(f"more than {MOST_QUERIES} queries; take fewer keys with --top")
    return made


def true_value(population: Population, query: Query) -> float:
    """The query's value at the population's law; NaN where no one meets the condition."""
    target, given = query.places(population.schema)
    keys = (target, *(place for place, _ in given))
    states = population.levels + 1
    law = population.law(keys).reshape((states,) * len(keys))
    weights = query_weights(population.schema, query)
    above, below = (law[..., None] * weights).reshape(-1, 2).sum(axis=0)
    return float(above / below) if below > 0 else float("nan")


def compare_conditionals(
    schema: Schema,
    population: Population,
    mechanisms: Sequence[str],
    epsilons: Sequence[str],
    people: int,
    repetitions: int,
    order: int = 2,
    coins: Coins | None = None,
    moved: Callable[[int, int], None] | None = None,
) -> Iterator[Row]:
    """Rows of measured error, each mechanism's published and best estimator.

    Values are on the [-1, 1] scale and clipped to their range; a value that is unknown counts as the
    middle of its range. Coverage is over bounded intervals.
    """
    scaled, population = Schema.of(list(schema.keys)), population.on_unit_scale()
    asked = conditional_queries(scaled, order)
    kinds = ("frequency", "mean")
    queries = {
        kind: [Query(kind, k, tuple((c, True) for c in given)) for k, given in asked] for kind in kinds
    }
    truth = {
        kind: np.array([true_value(population, query) for query in queries[kind]]) for kind in kinds
    }
    done, jobs = 0, len(mechanisms) * len(epsilons) * repetitions
    for epsilon in epsilons:
        for name in mechanisms:
            chosen, _, channel = (_auto(order) if name == "auto" else name).partition(":")
            plan = Plan.of(scaled, chosen, epsilon, **({"channel": channel} if channel else {}))
            estimators = _estimators(plan, name)
            found: dict[str, dict[str, list[Floats]]] = {e: {k: [] for k in kinds} for e in estimators}
            for run in range(repetitions):
                tally = simulate(plan, population, people, coins or Coins.secure(), run)
                for estimator in estimators:
                    source = Conditionals(plan, tally, estimator)
                    for kind in kinds:
                        made = [answer.estimate for answer in source.answers(queries[kind])]
                        found[estimator][kind].append(np.array([[e.value, e.low, e.high] for e in made]))
                done += 1
                if moved is not None:
                    moved(done, jobs)
            for estimator in estimators:
                yield _row(plan, name, chosen, estimator, epsilon, people, found[estimator], truth)


def _auto(order: int) -> str:
    return "pairs" if order == 2 else "triples"


def _estimators(plan: Plan, name: str) -> tuple[str, ...]:
    if name in ("ioh", "ioh_optimal") and not plan.channels[0].one_cell:
        return ("printed", "simplex", "pooled")
    return ("pooled",) if name == "auto" else ("least_squares", "pooled")


def _row(
    plan: Plan,
    name: str,
    chosen: str,
    estimator: str,
    epsilon: str,
    people: int,
    found: dict[str, list[Floats]],
    truth: dict[str, Floats],
) -> Row:
    measured: dict[str, tuple[float, float | None, float]] = {}
    for kind, low in (("frequency", 0.0), ("mean", -1.0)):
        known = np.isfinite(truth[kind])
        true = truth[kind][known]
        made = np.array(found[kind])[:, known]
        values = np.clip(np.nan_to_num(made[:, :, 0], nan=(low + 1) / 2), low, 1.0)
        bounded = np.isfinite(made[:, :, 1]) & np.isfinite(made[:, :, 2])
        inside = (made[:, :, 1] <= true) & (true <= made[:, :, 2])
        coverage = float(inside[bounded].mean()) if bounded.any() else None
        measured[kind] = (float(((values - true) ** 2).mean()), coverage, float(bounded.mean()))
    frequency, mean = measured["frequency"], measured["mean"]
    return Row(
        name,
        chosen,
        estimator,
        float(epsilon),
        float(plan.proven),
        len(plan.schema.keys),
        people,
        len(found["frequency"]),
        frequency[0],
        mean[0],
        frequency[1],
        mean[1],
        frequency[2],
        mean[2],
    )
