"""How many people a query needs before its answer says something."""

from __future__ import annotations

from math import ceil, inf, isfinite, log10
from typing import Any, NamedTuple

import numpy as np

from ..answer import quantile
from ..forecast.pair_forecast import HOPELESS
from .conditional import Conditionals, query_weights
from .query import Query

SPAN = {"frequency": 1.0, "mean": 2.0}
"""Width of the range of each statistic, means on [-1, 1]."""


class PeopleNeeded(NamedTuple):
    """The number of people with whom a query becomes estimable."""

    query: Query
    people: int | None
    """Two digits, rounded up. None if no number of people is known to suffice: see ``why``."""
    why: str
    """Empty, or why there is no number: "no view", "no reports" or "nobody"."""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"query": str(self.query), "people": self.people, "why": self.why}


def people_needed(source: Conditionals, reports: int, query: Query) -> PeopleNeeded:
    """The number of people with whom the unbiased answer to a query is bounded and useful.

    It is useful if its standard error is at most a quarter of the range of the statistic. The variance
    is that of the tally of ``reports`` people, taken at its nearest proper law and scaled by the number
    of people. A lift needs as many people as the frequency that it divides.
    """
    asked = Query("frequency", query.target, query.given) if query.kind == "lift" else query
    if not reports:
        return PeopleNeeded(query, None, "no reports")
    target, given = asked.places(source.plan.schema)
    keys = (target, *(place for place, _ in given))
    weights = query_weights(source.plan.schema, asked)
    moments, law = source.evidence.moments(keys, weights), source.evidence.law(keys)
    if moments is None or law is None:
        return PeopleNeeded(query, None, "no view")
    above, below = law.reshape(-1) @ weights.reshape(-1, 2)
    if below <= 0:
        return PeopleNeeded(query, None, "nobody")
    slope = np.array([1.0, -above / below]) / below
    variance = max(float(slope @ moments.covariance @ slope), 0.0)
    for_error = variance / (HOPELESS * SPAN[asked.kind]) ** 2
    unsure = max(float(moments.covariance[1, 1]), 0.0)
    for_bound = quantile(source.level) ** 2 * unsure / below**2
    return PeopleNeeded(query, _two_digits(reports * max(for_error, for_bound)), "")


def _two_digits(number: float) -> int | None:
    """A number of people, rounded up to two digits; None if it is infinite."""
    if not isfinite(number) or number == inf:
        return None
    step = 10 ** max(int(log10(max(number, 1.0))) - 1, 0)
    return max(1, ceil(number / step) * step)
