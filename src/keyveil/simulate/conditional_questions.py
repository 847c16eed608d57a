"""Questions about conditionals: the frequency and the mean of every key given other keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np

from ..estimate.answer import Band
from ..estimate.forecast.query_forecast import QueryForecast
from ..estimate.linear import single_keys
from ..estimate.together.conditional import ESTIMATORS, Conditionals, query_weights
from ..estimate.together.joint import evidence, not_together
from ..estimate.together.query import Query
from ..foundation.arrays import Floats
from ..foundation.errors import PlanError
from ..people.population import Population
from ..people.schema import Schema
from ..plan.plan import Plan
from ..plan.tally import Tally
from .contest_row import STATISTICS
from .questions import AnswerGroup, Questions, StatisticBands
from .tallies import simulate

MOST_QUERIES = 20_000
PLANNER = ("best",)
"""The estimator of the planner's choice."""
USUAL = ("least_squares", "pooled", "best")
"""Estimators that are measured if none is requested."""
USUAL_OF_IOH = ("printed", "simplex", "pooled", "best")
"""The same for IOH, whose published estimator is ``printed``."""
ONE_VIEW = ("printed", "simplex")
"""Estimators that only plans with one view of all keys have, and of those not all."""


def conditional_queries(schema: Schema, keys_together: int) -> list[tuple[str, tuple[str, ...]]]:
    """Every target with every ``keys_together - 1`` other keys that are held."""
    if len(schema.keys) < 2:
        raise PlanError("conditionals need at least two keys, and there is one")
    if not 2 <= keys_together <= len(schema.keys):
        several = "2" if len(schema.keys) == 2 else f"2 to {len(schema.keys)}"
        raise PlanError(
            f"conditional takes {several} keys together, target included, not {keys_together}"
        )
    queries: list[tuple[str, tuple[str, ...]]] = []
    for keys in permutations(schema.keys, keys_together):
        if list(keys[1:]) == sorted(keys[1:], key=schema.index.__getitem__):
            queries.append((keys[0], keys[1:]))
        if len(queries) > MOST_QUERIES:
            raise PlanError(f"more than {MOST_QUERIES} queries; take fewer keys with --top")
    return queries


def true_value(population: Population, query: Query) -> float:
    """The query's value in the population; NaN if no one meets the condition."""
    target, given = query.places(population.schema)
    keys = (target, *(place for place, _ in given))
    states = population.levels + 1
    law = population.law(keys).reshape((states,) * len(keys))
    weights = query_weights(population.schema, query)
    above, below = (law[..., None] * weights).reshape(-1, 2).sum(axis=0)
    return float(above / below) if below > 0 else float("nan")


@dataclass(frozen=True)
class ConditionalQuestions(Questions):
    """The frequency and the mean of every key given ``keys_together - 1`` others.

    If no view contains the keys of a query together, its guess is measured.
    """

    keys_together: int = 2

    @property
    def ask(self) -> str | Sequence[str]:
        """Conditionals of two keys have a name; others are described by their first query."""
        target, given = conditional_queries(self.schema, self.keys_together)[0]
        return "conditional" if self.keys_together == 2 else [str(_query("mean", target, given))]

    @cached_property
    def queries(self) -> Mapping[str, list[Query]]:
        """By statistic: the queries that have a true value."""
        asked = conditional_queries(self.schema, self.keys_together)
        known: dict[str, list[Query]] = {}
        for statistic in STATISTICS:
            queries = [_query(statistic, target, given) for target, given in asked]
            known[statistic] = [q for q in queries if np.isfinite(true_value(self.population, q))]
            if not known[statistic]:
                raise PlanError(
                    f"no one holds the keys together, so there is no conditional {statistic}"
                )
        return known

    @cached_property
    def truth(self) -> Mapping[str, Floats]:
        """The true value of every query."""
        return {
            statistic: np.array([true_value(self.population, query) for query in queries])
            for statistic, queries in self.queries.items()
        }

    def plan(
        self,
        mechanism: str,
        parameters: Mapping[str, Any],
        epsilon: str,
        calibrate: str,
        people: int,
        estimator: str | None,
    ) -> Plan:
        """The plan; a plan that asks about one key at a time is refused."""
        plan = Plan.of_document(self.schema, mechanism, epsilon, calibrate, parameters)
        if single_keys(plan):
            raise not_together(plan)
        return plan

    def estimators(self, plan: Plan) -> tuple[str, ...]:
        """Every estimator of conditionals that the plan's tallies allow."""
        return tuple(name for name in ESTIMATORS if name not in ONE_VIEW or _accepts(plan, name))

    def usual_estimators(self, plan: Plan, known: Sequence[str]) -> tuple[str, ...]:
        """The published estimator or least squares, the pooled and the default one."""
        ioh = plan.mechanism_name in ("ioh", "ioh_optimal") and not plan.channels[0].one_cell
        return USUAL_OF_IOH if ioh else USUAL

    def planner_estimators(self, known: Sequence[str]) -> tuple[str, ...]:
        """The default estimator."""
        return PLANNER

    def answers(
        self, plan: Plan, people: int, repetitions: int, estimators: Sequence[str]
    ) -> Iterator[AnswerGroup]:
        """Simulated answers, one repetition at a time."""
        for run in range(repetitions):
            tally = simulate(plan, self.population, people, self.coins, run)
            bands = {name: self._bands(Conditionals(plan, tally, name)) for name in estimators}
            yield AnswerGroup(plan, 1, bands)

    def _bands(self, source: Conditionals) -> StatisticBands:
        """The answers of one tally, as arrays ``(1, queries)``."""
        bands = {}
        for statistic, queries in self.queries.items():
            answers = source.answers(queries)
            rows = [(a.point, a.estimate.stderr, a.estimate.low, a.estimate.high) for a in answers]
            bands[statistic] = Band(*np.array(rows).T[:, None])
        return bands

    def predicted(
        self, plan: Plan, people: int, estimators: Sequence[str]
    ) -> dict[str, dict[str, float | None]]:
        """Forecasts of clipped values; of ``pooled`` before values are moved to a proper law."""
        errors: dict[str, dict[str, float | None]] = {
            name: dict.fromkeys(STATISTICS) for name in estimators
        }
        for name in estimators:
            try:
                forecast = QueryForecast(plan, self.population.law, people, name)
            except PlanError:
                continue  # this estimator or this plan has no forecast
            pair = forecast.errors(self.queries, fine=True)
            known = (value if np.isfinite(value) else None for value in pair)
            errors[name] = dict(zip(STATISTICS, known, strict=True))
        return errors


def _query(statistic: str, target: str, given: tuple[str, ...]) -> Query:
    return Query(statistic, target, tuple((key, True) for key in given))


def _accepts(plan: Plan, name: str) -> bool:
    """Whether an estimator accepts the plan's tallies; it is given an empty one."""
    try:
        evidence(plan, Tally(plan), name)
    except PlanError:
        return False
    return True
