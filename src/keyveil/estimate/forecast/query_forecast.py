"""Forecast of queries when the joint law of the keys is known.

The plan's own decoder works on the counts that the law leads one to expect. Its values are then the
truth, and its covariance is the one it will have, whether views are pooled or not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...channel import Channel
from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ...plan.plan import Plan
from ...plan.tally import Tally
from ..together.conditional import query_weights
from ..together.joint import evidence
from ..together.query import Query

MANY = 1 << 50
"""Reports of the expected tally: so many that rounding to whole counts does not show."""
FORECAST_ESTIMATORS = ("pooled", "least_squares", "printed")
"""The estimators whose error is forecast; ``pooled`` before values are moved to a proper law."""

Law = Callable[[tuple[int, ...]], Floats]
"""The share of every joint state of some keys, flat, the first key the most significant digit."""


def expected_tally(plan: Plan, law: Law) -> Tally:
    """The tally of ``MANY`` people without any noise."""
    if not plan.encoding.speaks_of_views:
        raise PlanError(f"the counts of {plan.mechanism_name} do not follow from the law of a few keys")
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
    """The predicted variances of a plan's answers to queries when ``people`` with a known law answer."""

    def __init__(self, plan: Plan, law: Law, people: float, estimator: str = "pooled") -> None:
        if estimator not in FORECAST_ESTIMATORS:
            known = ", ".join(FORECAST_ESTIMATORS)
            raise PlanError(f"the error of {estimator} is not forecast; the error of {known} is")
        self.plan, self.people = plan, people
        self.evidence = evidence(plan, expected_tally(plan, law), estimator)

    def variance(self, query: Query) -> float | None:
        """The variance of a frequency or mean (on [-1, 1]) by the delta method; None if unanswered."""
        if query.kind == "lift":
            raise PlanError("the error of a lift is not forecast")
        target, given = query.places(self.plan.schema)
        keys = (target, *(place for place, _ in given))
        moments = self.evidence.moments(keys, query_weights(self.plan.schema, query))
        if moments is None or not moments.values[1] > 1e-9:
            return None
        variance = _ratio_variance(moments.values, moments.covariance)
        return max(variance * MANY / self.people, 0.0)


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
