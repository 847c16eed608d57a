"""How many people a query needs before its answer says something."""

from __future__ import annotations

from math import ceil, isfinite, log10
from typing import Any, NamedTuple

import numpy as np

from ..answer import quantile
from ..forecast.pair_forecast import HOPELESS
from .conditional import Conditionals, query_weights
from .query import Query

SPAN = {"frequency": 1.0, "mean": 2.0}
"""Width of the range of each statistic, means on [-1, 1]."""

FARTHEST = 10_000.0
"""Largest factor of people that a tally can speak of; beyond it the denominator may as well be zero."""


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


def people_needed(source: Conditionals, reports: int, query: Query | str) -> PeopleNeeded:
    """The number of people with whom the unbiased answer to a query is bounded and useful.

    It is useful if its standard error is at most a quarter of the range of the statistic. The variance
    is that of the tally of ``reports`` people, at the answers of ``source``, and is scaled by the number
    of people. A lift needs as many people as the frequency that it divides.
    """
    query = Query.parse(query) if isinstance(query, str) else query
    asked = Query("frequency", query.target, query.given) if query.kind == "lift" else query
    if not reports:
        return PeopleNeeded(query, None, "no reports")
    schema = source.plan.schema
    target, given = asked.places(schema)
    keys = (target, *(place for place, _ in given))
    moments = source.evidence.moments(keys, query_weights(schema, asked))
    if moments is None:
        return PeopleNeeded(query, None, "no view")
    ratio, below = _expected(source, asked, target)
    if not (isfinite(ratio) and below > 0):
        return PeopleNeeded(query, None, "nobody")
    slope = np.array([1.0, -ratio]) / below
    variance = max(float(slope @ moments.covariance @ slope), 0.0)
    for_error = variance / (HOPELESS * SPAN[asked.kind]) ** 2
    unsure = max(float(moments.covariance[1, 1]), 0.0)
    for_bound = quantile(source.level) ** 2 * unsure / below**2
    factor = max(for_error, for_bound)
    people = _two_digits(reports * factor) if factor <= FARTHEST else None
    return PeopleNeeded(query, people, "" if people is not None else "nobody")


def _expected(source: Conditionals, asked: Query, target: int) -> tuple[float, float]:
    """The value of a query, means on [-1, 1], and its denominator, as the answers have them."""
    schema = source.plan.schema
    value, below = _value(source, asked), _share(source, asked.given)
    if asked.kind == "mean":
        low, high = float(schema.low[target]), float(schema.high[target])
        value = 2 * (value - low) / (high - low) - 1
        below *= _value(source, Query("frequency", asked.target, asked.given))
    return value, below


def _share(source: Conditionals, given: tuple[tuple[str, bool], ...]) -> float:
    """The share of people who meet the conditions; NaN if it is unknown."""
    share = 1.0
    for number, (key, held) in enumerate(given):
        # each condition among those who meet the ones before it
        frequency = _value(source, Query("frequency", key, given[:number]))
        share *= frequency if held else 1.0 - frequency
    return min(share, 1.0)


def _value(source: Conditionals, query: Query) -> float:
    """The answer's value; without the conditions if the tally does not show that they matter.

    Where the tally says little, the conditional value is mostly noise, and may be next to zero.
    """
    answer = source.answer(query)
    if answer.shown is False:
        answer = source.answer(Query(query.kind, query.target))
    return answer.estimate.value


def _two_digits(number: float) -> int:
    """A number of people, rounded up to two digits."""
    step = 10 ** max(int(log10(max(number, 1.0))) - 1, 0)
    return max(1, ceil(number / step) * step)
