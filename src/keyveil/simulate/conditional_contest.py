"""Comparison: mechanisms side by side on one population, by repeated simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import numpy as np

from ..estimate.forecast.normal_law import clipped
from ..estimate.forecast.query_forecast import FORECAST_ESTIMATORS, QueryForecast
from ..estimate.together.conditional import Conditionals, query_weights
from ..estimate.together.query import Query
from ..foundation.arrays import Floats
from ..foundation.coins import Coins
from ..foundation.errors import PlanError
from ..people.population import Population
from ..people.prior import Prior
from ..people.schema import Schema
from ..plan.plan import Plan
from ..planner.planner import advise
from .measured_row import AnyRow, Measured, measured
from .tallies import simulate

MOST_QUERIES = 20_000


@dataclass(frozen=True, kw_only=True)
class ConditionalRow(AnyRow):
    """One mechanism, estimator and epsilon: its error and coverage over all repetitions."""

    mse_conditional_frequency: float
    mse_conditional_frequency_se: float | None
    """Standard errors are over repetitions; None for one repetition alone."""
    mse_conditional_mean: float
    mse_conditional_mean_se: float | None
    mae_conditional_frequency: float
    mae_conditional_frequency_se: float | None
    mae_conditional_mean: float
    mae_conditional_mean_se: float | None
    predicted_conditional_frequency: float | None
    """The mean squared error that the plan itself predicts at the population's law; None if it does
    not. ``pooled`` moves values to a proper law afterwards, so its error is this much at most."""
    predicted_conditional_mean: float | None


def conditional_queries(schema: Schema, order: int) -> list[tuple[str, tuple[str, ...]]]:
    """Every key given every ``order - 1`` others that are held, in both directions."""
    if len(schema.keys) < 2:
        raise PlanError("conditionals need at least two keys, and there is one")
    if not 2 <= order <= len(schema.keys):
        raise PlanError(
            f"conditional takes 2 to {len(schema.keys)} keys together, target included, not {order}"
        )
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
    prior: Prior | None = None,
) -> Iterator[ConditionalRow]:
    """Rows of measured error, each mechanism's published and best estimator.

    Values are on the [-1, 1] scale and clipped to their range; a value that is unknown counts as the
    middle of its range, and where no view holds the keys together the guess is measured. Coverage is
    over bounded intervals. ``prior`` is what the planner believes; the table itself if not given.
    """
    scaled, population = Schema.of(list(schema.keys)), population.on_unit_scale()
    asked = _asked(population, conditional_queries(scaled, order))
    plans = [
        (name, epsilon, _plan(population, name, epsilon, order, people, prior))
        for epsilon in epsilons
        for name in mechanisms
    ]
    done, jobs = 0, len(plans) * repetitions
    for name, epsilon, plan in plans:
        estimators = _estimators(plan, name)
        found: dict[str, dict[str, list[Floats]]] = {e: {k: [] for k in KINDS} for e in estimators}
        for run in range(repetitions):
            tally = simulate(plan, population, people, coins or Coins.secure(), run)
            for estimator in estimators:
                source = Conditionals(plan, tally, estimator)
                for kind, one in asked.items():
                    made = source.answers(one.queries)
                    rows = [[a.point, a.estimate.low, a.estimate.high] for a in made]
                    found[estimator][kind].append(np.array(rows))
            done += 1
            if moved is not None:
                moved(done, jobs)
        for estimator in estimators:
            errors = {kind: _measured(one, found[estimator][kind]) for kind, one in asked.items()}
            expected = _predicted(plan, population, people, estimator, asked)
            yield _row(name, plan, estimator, epsilon, people, errors, expected)


def _row(
    name: str,
    plan: Plan,
    estimator: str,
    epsilon: str,
    people: int,
    errors: dict[str, Measured],
    expected: dict[str, float | None],
) -> ConditionalRow:
    frequency, mean = errors["frequency"], errors["mean"]
    assert frequency.mse is not None
    assert frequency.mae is not None
    assert mean.mse is not None
    assert mean.mae is not None
    return ConditionalRow(
        mechanism=name,
        chosen=plan.mechanism_name,
        estimator=estimator,
        epsilon=float(epsilon),
        true_epsilon=float(plan.proven),
        d=len(plan.schema.keys),
        n=people,
        repetitions=len(frequency.runs),
        mse_conditional_frequency=frequency.mse,
        mse_conditional_frequency_se=frequency.mse_se,
        mse_conditional_mean=mean.mse,
        mse_conditional_mean_se=mean.mse_se,
        mae_conditional_frequency=frequency.mae,
        mae_conditional_frequency_se=frequency.mae_se,
        mae_conditional_mean=mean.mae,
        mae_conditional_mean_se=mean.mae_se,
        predicted_conditional_frequency=expected["frequency"],
        predicted_conditional_mean=expected["mean"],
        coverage_frequency=frequency.coverage,
        coverage_mean=mean.coverage,
        bounded_frequency=frequency.bounded,
        bounded_mean=mean.bounded,
        runs={"frequency": frequency.runs, "mean": mean.runs},
    )


class _Asked(NamedTuple):
    """Queries of one kind whose truth is known, their true values, and where these may lie."""

    queries: list[Query]
    truth: Floats
    low: float


KINDS = {"frequency": 0.0, "mean": -1.0}
"""The statistics that are compared, and the least value of each; the largest is 1."""


def _asked(population: Population, asked: list[tuple[str, tuple[str, ...]]]) -> dict[str, _Asked]:
    made = {}
    for kind, low in KINDS.items():
        queries = [Query(kind, key, _held(given)) for key, given in asked]
        truth = np.array([true_value(population, query) for query in queries])
        known = np.isfinite(truth)
        if not known.any():
            raise PlanError(f"no one holds the keys together, so there is no conditional {kind}")
        kept = [query for query, is_known in zip(queries, known, strict=True) if is_known]
        made[kind] = _Asked(kept, truth[known], low)
    return made


def _plan(
    population: Population, name: str, epsilon: str, order: int, people: int, prior: Prior | None
) -> Plan:
    """The plan of a mechanism; for ``auto`` the planner's choice, who believes the table by default."""
    schema = Schema.of(list(population.schema.keys))
    if name == "auto":
        asked = conditional_queries(schema, order)[0]
        ask = "conditional" if order == 2 else [str(Query("mean", asked[0], _held(asked[1])))]
        prior = prior or Prior.of_people(schema, population.people)
        options = advise(schema, epsilon, people, ask=ask, prior=prior, brief=True).options
        return next(option.plan for option in options if option.mechanism != "workload")
    chosen, _, channel = name.partition(":")
    plan = Plan.of(schema, chosen, epsilon, **({"channel": channel} if channel else {}))
    if plan.encode == "views" and max(plan.views.sizes) < 2:
        raise PlanError(f"{chosen} speaks of one key at a time; conditionals need views, like pairs")
    return plan


def _held(keys: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    return tuple((key, True) for key in keys)


def _estimators(plan: Plan, name: str) -> tuple[str, ...]:
    if name in ("ioh", "ioh_optimal") and not plan.channels[0].one_cell:
        return ("printed", "simplex", "pooled")
    return ("pooled",) if name == "auto" else ("least_squares", "pooled")


def _measured(asked: _Asked, found: list[Floats]) -> Measured:
    """Error and coverage over all repetitions of all queries."""
    value, low, high = np.moveaxis(np.array(found), -1, 0)
    return measured(value, low, high, asked.truth, asked.low)


def _predicted(
    plan: Plan, population: Population, people: int, estimator: str, asked: dict[str, _Asked]
) -> dict[str, float | None]:
    """The mean squared error that the plan predicts, of values clipped to their range."""
    if estimator not in FORECAST_ESTIMATORS or plan.encode != "views":
        return dict.fromkeys(asked)
    forecast = QueryForecast(plan, population.law, people, estimator)
    made: dict[str, float | None] = {}
    for kind, one in asked.items():
        variances = [forecast.variance(query) for query in one.queries]
        known = [variance for variance in variances if variance is not None]
        whole = len(known) == len(variances)
        errors = clipped(np.array(known), one.truth, one.low, 1.0) if whole else np.empty(0)
        made[kind] = float(errors.mean()) if whole else None
    return made
