"""Forecast of queries when the joint law of the keys is known.

The plan's own decoder works on the counts that the law leads one to expect. Its values are then the
truth, and its covariance is the one it will have, whether views are pooled or not. The error of default
answers is that of simulated tallies (``query_draws``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from ...channel import Channel
from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ...plan.plan import Plan
from ...plan.tally import Tally
from .. import DEFAULT
from ..combined_parts import together_part
from ..together.conditional import Conditionals, query_weights
from ..together.joint import Evidence, evidence
from ..together.query import Query
from .normal_law import clipped
from .predicted_error import Errors
from .query_draws import RANGES, TrueQueries, forecast_queries_by_draws

MANY = 1 << 50
"""Reports of the expected tally: so many that rounding to whole counts does not show."""
FORECAST_ESTIMATORS = (DEFAULT, "pooled", "least_squares", "single_view", "printed")
"""The estimators whose error is forecast; ``pooled`` before values are moved to a proper law."""

Law = Callable[[tuple[int, ...]], Floats]
"""The share of every joint state of some keys, flat, the first key the most significant digit."""


def expected_tally(plan: Plan, law: Law) -> Tally:
    """The tally of ``MANY`` people without any noise."""
    if not plan.encoding.speaks_of_views:
        raise no_expected_counts(plan)
    tally, layout = Tally(plan), plan.layout
    reports = np.rint(MANY * plan.views.shares).astype(np.int64)
    tally.counts[layout.own] = reports
    for number, channel in enumerate(plan.channels):
        views = plan.views_of(number)
        laws = np.array([law(plan.views.keys[view]) for view in views])
        seen = np.rint(channel.mix(laws)[:, : channel.cells] * reports[views, None]).astype(np.int64)
        tally.counts[layout.own[views][:, None] + 1 + np.arange(channel.cells)] = seen
        if channel.one_cell:
            tally.counts[layout.own[views]] = seen.sum(axis=1)
    return tally


class QueryForecast:
    """The predicted errors of a plan's answers to queries when ``people`` with a known law answer.

    A plan of parts has the forecast of the part that knows about keys together.
    """

    def __init__(self, plan: Plan, law: Law, people: float, estimator: str = "pooled") -> None:
        if estimator not in FORECAST_ESTIMATORS:
            known = ", ".join(FORECAST_ESTIMATORS)
            raise PlanError(f"the error of {estimator} is not forecast; the error of {known} is")
        number, share = together_part(plan)
        self.plan, self.people, self.law = plan.part_plans[number], people * share, law
        if not self.plan.encoding.speaks_of_views:
            raise no_expected_counts(self.plan)
        if estimator == DEFAULT:
            estimator = Conditionals(self.plan, Tally(self.plan)).estimator
        self.estimator = estimator

    @cached_property
    def evidence(self) -> Evidence:
        """What the expected tally tells."""
        estimator = "pooled" if self.estimator == DEFAULT else self.estimator
        return evidence(self.plan, expected_tally(self.plan, self.law), estimator)

    def variance(self, query: Query) -> float | None:
        """The variance of a frequency or mean (on [-1, 1]) by the delta method; None if unanswered.

        It is that of the unbiased value, before any shrinkage.
        """
        if query.kind == "lift":
            raise PlanError("the error of a lift is not forecast")
        target, given = query.places(self.plan.schema)
        keys = (target, *(place for place, _ in given))
        moments = self.evidence.moments(keys, query_weights(self.plan.schema, query))
        if moments is None or not moments.values[1] > 1e-9:
            return None
        variance = _ratio_variance(moments.values, moments.covariance)
        return max(variance * MANY / self.people, 0.0)

    def errors(self, queries: Mapping[str, Sequence[Query]], fine: bool = False) -> Errors:
        """The mean squared errors of values clipped to their range, averaged over queries.

        ``queries`` are by statistic, "frequency" and "mean"; those without a true value are left out.
        NaN without queries, or if one of them is not answered. If tallies must be simulated, a ``fine``
        forecast takes more of them.
        """
        asked = {kind: self._true_queries(queries.get(kind, ())) for kind in RANGES}
        if self.estimator == DEFAULT:
            return forecast_queries_by_draws(self.plan, self.law, round(self.people), asked, fine)
        averages = []
        for kind, (low, high) in RANGES.items():
            part = asked[kind]
            errors = (
                clipped(part.variance, part.truth, low, high) if part.queries else np.full(1, np.nan)
            )
            averages.append(float(np.mean(errors)))
        return Errors(*averages)

    def _true_queries(self, queries: Sequence[Query]) -> TrueQueries:
        """The queries that have a true value, with what the law says about them."""
        parts = [(query, *self._ratio(query)) for query in queries]
        known = [(query, above / below, below) for query, above, below in parts if below > 0]
        truth, below = np.array([part[1:] for part in known]).reshape(-1, 2).T
        variance = np.array([self.variance(query) for query, *_ in known] or [np.nan], np.float64)
        return TrueQueries([query for query, *_ in known], truth, below, variance)

    def _ratio(self, query: Query) -> tuple[float, float]:
        """The query's numerator and denominator at the law, means on [-1, 1]."""
        target, given = query.places(self.plan.schema)
        keys = (target, *(place for place, _ in given))
        weights = query_weights(self.plan.schema, query)
        above, below = self.law(keys) @ weights.reshape(-1, weights.shape[-1])[:, :2]
        return float(above), float(below)


def no_expected_counts(plan: Plan) -> PlanError:
    """The error for a plan whose counts are not known from the law of a few keys."""
    return PlanError(f"the counts of {plan.mechanism_name} do not follow from the law of a few keys")


def query_variance(channel: Channel, law: Floats, weights: Floats) -> float:
    """The variance, for one report of a view, of the ratio of two functionals of its states.

    ``law`` is that of the view's states; ``weights`` ``(states, 2)`` are the numerator's and the
    denominator's.
    """
    spread = channel.covariance(channel.decoder(weights), law)
    return _ratio_variance(law @ weights[:, :2], spread[:2, :2])


def _ratio_variance(values: Floats, covariance: Floats) -> float:
    """The variance of numerator over denominator by the delta method, from their covariance."""
    above, below = values
    slope = np.array([1.0 / below, -above / below**2])
    return float(slope @ covariance @ slope)
