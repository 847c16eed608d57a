"""Padding: the cap or padding length with the least predicted error, for mechanisms for sets.

A short length leaves out keys of large sets, a long one adds noise. The best one depends on the people,
on epsilon and on the estimator: shrinkage reduces noise but not bias, so it prefers longer ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np

from ..estimate import estimators_of
from ..estimate.forecast.by_draws import DRAWN_ESTIMATORS, forecast_by_draws
from ..estimate.forecast.key_forecast import forecast
from ..estimate.forecast.predicted_error import Errors
from ..foundation.errors import ChannelError, PlanError
from ..mechanisms import REGISTRY
from ..mechanisms.mechanism import Parameter
from ..people.prior import Prior
from ..people.schema import Schema
from ..plan.plan import Plan

NAMES = ("cap", "length")
"""The names that the parameter can have."""
PADDED_FOR = ("published", *DRAWN_ESTIMATORS)
"""Estimators with a forecast of their own; any other gets the length of the mechanism's first."""
USUAL = 0.9
"""The share of people who do not exceed the length that is taken without a forecast."""
DRAWS = 0.2
"""The share of the usual number of draws; all lengths have the same draws."""
FINE = 0.1
"""The search ends when the next lengths tried lie within this share of the best one."""


def padding_parameter(mechanism: str) -> str | None:
    """The name of a mechanism's cap or padding length; None if it has none."""
    return next((name for name in NAMES if name in REGISTRY[mechanism].parameters), None)


def padded_plan(
    schema: Schema,
    mechanism: str,
    epsilon: Decimal | str,
    people: int,
    prior: Prior,
    *,
    estimator: str | None = None,
    ask: str = "both",
    calibrate: str = "tight",
    parameters: Mapping[str, Any] | None = None,
) -> Plan:
    """A mechanism's plan with the length that has the least predicted error for one estimator.

    The error is that of the frequency and of the mean, each relative to KVUE's with the same estimator,
    summed; or the one that is asked about. ``parameters`` are those of a plan's document, and a length
    among them stays. Without a forecast it is the length that nine people in ten do not exceed.
    """
    stated = dict(parameters or {})
    called = padding_parameter(mechanism)

    def plan_with(given: Mapping[str, Any]) -> Plan:
        return Plan.of_document(schema, mechanism, epsilon, calibrate, {**stated, **given})

    if called is None or called in stated:
        return plan_with({})
    longest = _longest(mechanism, called, prior)
    usual = min(max(1, prior.quantile(USUAL)), longest)
    try:
        kvue = Plan.of(schema, "kvue", epsilon, calibrate)
        base = forecast_errors(kvue, people, prior, estimator, DRAWS)

        @cache
        def score(length: int) -> float:
            plan = plan_with({called: length})
            return _relative(forecast_errors(plan, people, prior, estimator, DRAWS), base, ask)

        return plan_with({called: best_length(score, usual, longest)})
    except (PlanError, ChannelError):
        return plan_with({called: usual})


def _longest(mechanism: str, called: str, prior: Prior) -> int:
    """The longest length that can matter: no person holds more keys."""
    parameter = REGISTRY[mechanism].parameters[called]
    assert isinstance(parameter, Parameter)
    return max(1, min(int(parameter.high), prior.keys, prior.quantile(1.0)))


def best_length(score: Callable[[int], float], usual: int, longest: int) -> int:
    """The length with the least score, which falls to one length and rises from there."""
    lengths = sorted({usual, longest, *(1 << i for i in range(longest.bit_length()))})
    while True:
        best = min(lengths, key=score)
        place = lengths.index(best)
        nearest = [lengths[i] for i in (place - 1, place + 1) if 0 <= i < len(lengths)]
        between = {(best + other) // 2 for other in nearest if abs(best - other) > max(1.0, FINE * best)}
        fresh = between - set(lengths)
        if not fresh:
            return best
        lengths = sorted({*lengths, *fresh})


def forecast_errors(
    plan: Plan, people: int, prior: Prior, estimator: str | None, share: float = 1.0
) -> Errors:
    """The predicted errors of one estimator, or of the plan's first if that one has no forecast."""
    predicted = forecast(plan, people, prior)
    if estimator in DRAWN_ESTIMATORS and estimator in estimators_of(plan):
        return forecast_by_draws(plan, predicted, people, (estimator,), share)[estimator]
    if estimator == "published":
        predicted = predicted.published or predicted
    return predicted.errors()


def _relative(errors: Errors, base: Errors, ask: str) -> float:
    """Errors relative to KVUE's: of what is asked about, or the sum of those that are answered."""
    ratios = [error / other for error, other in zip(errors, base, strict=True)]
    if ask in ("frequency", "mean"):
        return ratios[ask == "mean"]
    return float(np.nansum(ratios))
