"""Questions about single keys: the frequency and the mean of every key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..estimate import DEFAULT, KeyBands, bands, estimators_of
from ..estimate.forecast.by_draws import DRAWN_ESTIMATORS, forecast_by_draws
from ..estimate.forecast.key_forecast import forecast
from ..estimate.forecast.predicted_error import Errors, held_keys
from ..foundation.arrays import Floats, Integers
from ..foundation.errors import PlanError
from ..plan.plan import Plan
from ..planner.padding import padded_plan
from .chains import chain_bands
from .contest_row import STATISTICS
from .questions import AnswerGroup, Questions, StatisticBands
from .tallies import simulate_runs

USUAL = ("published", "likelihood", DEFAULT)
"""Estimators that are measured besides a mechanism's first one, if it has them. The planner's choice is
answered by the last, so every mechanism has a row with the same estimator."""
MOST_COUNTS = 1 << 24
"""Counts that are drawn at a time."""


@dataclass(frozen=True)
class KeyQuestions(Questions):
    """The frequency and the mean of every key."""

    ask: str = "both"

    @cached_property
    def truth(self) -> Mapping[str, Floats]:
        """The frequency and the mean of every key; the mean is NaN if no one holds the key."""
        prior = self.table_prior
        return {
            "frequency": prior.frequency,
            "mean": np.where(held_keys(prior), prior.mean, np.nan),
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
        """The plan, with the cap or padding length that is best for the estimator if none is stated."""
        return padded_plan(
            *(self.schema, mechanism, epsilon, people, self.table_prior),
            estimator=estimator,
            ask=self.ask,
            calibrate=calibrate,
            parameters=parameters,
        )

    def estimators(self, plan: Plan) -> tuple[str, ...]:
        """Every estimator of the plan, its default first."""
        return tuple(estimators_of(plan))

    def usual_estimators(self, plan: Plan, known: Sequence[str]) -> tuple[str, ...]:
        """The plan's first estimator and the usual ones that it has."""
        return (*known[:1], *(name for name in USUAL if name in known[1:]))

    def planner_estimators(self, known: Sequence[str]) -> tuple[str, ...]:
        """The default estimator, if the plan has it, and the plan's first."""
        return tuple(dict.fromkeys(name for name in (DEFAULT, known[0]) if name in known))

    def answers(
        self, plan: Plan, people: int, repetitions: int, estimators: Sequence[str]
    ) -> Iterator[AnswerGroup]:
        """Simulated answers; a chain of plans is followed to its last round."""
        if plan.chain is not None:
            groups = chain_bands(plan, self.population, people, self.coins, repetitions, estimators)
            for last, answers in groups:
                yield _group(last, answers)
            return
        for counts in self._counts(plan, people, repetitions):
            yield _group(plan, {estimator: bands(plan, counts, estimator) for estimator in estimators})

    def _counts(self, plan: Plan, people: int, repetitions: int) -> Iterator[Integers]:
        step = max(1, MOST_COUNTS // plan.layout.cells)
        for first in range(0, repetitions, step):
            runs = range(first, min(first + step, repetitions))
            yield simulate_runs(plan, self.population, people, self.coins, runs)

    def predicted(
        self, plan: Plan, people: int, estimators: Sequence[str]
    ) -> dict[str, dict[str, float | None]]:
        """Forecasts of the plan's first estimator, ``published`` and those forecast by draws."""
        errors: dict[str, dict[str, float | None]] = {
            name: dict.fromkeys(STATISTICS) for name in estimators
        }
        try:
            first = forecast(plan, people, self.table_prior)
        except PlanError:
            return errors
        for name in estimators:
            if name in DRAWN_ESTIMATORS:
                errors[name] = _by_statistic(forecast_by_draws(plan, first, people, (name,))[name])
            elif name == "published" and first.published is not None:
                errors[name] = _by_statistic(first.published.errors())
            elif name == self.estimators(plan)[0] and name != "published":
                errors[name] = _by_statistic(first.errors())
        return errors


def _group(plan: Plan, answers: Mapping[str, KeyBands]) -> AnswerGroup:
    by_statistic: dict[str, StatisticBands] = {
        name: {"frequency": bands.frequency, "mean": bands.mean} for name, bands in answers.items()
    }
    repetitions = len(next(iter(answers.values())).reports)
    return AnswerGroup(plan, repetitions, by_statistic)


def _by_statistic(errors: Errors) -> dict[str, float | None]:
    """The errors of the contest's statistics; None where one is not answered."""
    values = (errors.frequency, errors.mean)
    return {
        name: value if np.isfinite(value) else None
        for name, value in zip(STATISTICS, values, strict=True)
    }
