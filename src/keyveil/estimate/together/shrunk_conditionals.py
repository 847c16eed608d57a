"""Conditionals from shrunk associations: the default answers to queries.

Queries of one key have the default answers of that key. Queries of two keys follow from the association
and the shift of their pair (``pair_associations``). With more conditions, the answer is shrunk towards
the one without interaction: log-odds of the frequency and shifts of the mean add up over conditions.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...foundation.arrays import Floats, Integers
from ..answer import Band, Estimate, KeyBands, as_wide_as_interval, quantile
from ..assisted import Mixture, RatioEstimates, assisted_interval
from .joint import Evidence, JointMoments
from .pair_associations import LEAST_SHARE, PairAssociations
from .pair_moments import BOTH, FIRST_GIVEN, SECOND, Pair, PairMoments
from .placed_queries import Given, PlacedQueries, pair_of
from .query import Query
from .raw_lift import raw_lift

if TYPE_CHECKING:
    from ...people.schema import Schema

LEAST_SCALE = 0.05
"""Smallest standard deviation of an interaction: pairs that are all alike say little about it."""
WIDE_SCALE = 0.3
"""Standard deviation of an interaction if no pair of the keys is known."""

_RANGES = {"frequency": (0.0, 1.0), "mean": (-1.0, 1.0)}


class ShrunkAnswer(NamedTuple):
    """A value with its standard error and interval, means on [-1, 1]."""

    value: float
    stderr: float
    low: float
    high: float
    shown: bool | None
    """Whether the tally shows that the answer differs from that without the condition; None without
    a condition."""

    def estimate(self, reports: int, level: float) -> Estimate:
        """The answer as an estimate, its interval widened to contain the value."""
        low, high = min(self.low, self.value), max(self.high, self.value)
        return as_wide_as_interval(Estimate(self.value, self.stderr, low, high, reports), level)


class ShrunkConditionals:
    """Shrunk answers from one source of evidence and the default answers of single keys."""

    def __init__(self, schema: Schema, source: Evidence, singles: KeyBands, level: float) -> None:
        self.schema, self.source, self.singles, self.level = schema, source, singles, level
        self._asked: set[Pair] = set()
        self._pairs: PairAssociations | None = None

    def prepare(self, queries: list[tuple[int, Given]]) -> None:
        """Decodes the pairs of these queries; otherwise ``answer`` does, one at a time."""
        self._decode({pair_of(target, key) for target, given in queries for key, _ in given})

    def _decode(self, asked: Collection[Pair]) -> None:
        if self._pairs is None or not self._asked.issuperset(asked):
            self._asked.update(asked)
            moments = PairMoments.of(self.source, self.schema, self._asked)
            frequency = self.singles.frequency
            assert frequency is not None
            self._pairs = PairAssociations(moments, frequency, self.singles.mean, self.level)

    @property
    def pairs(self) -> PairAssociations:
        """The associations of the decoded pairs."""
        if self._pairs is None:
            self.prepare([])
        assert self._pairs is not None
        return self._pairs

    def answer(self, query: Query, target: int, given: Given, moments: JointMoments) -> ShrunkAnswer:
        """The answer to a query, whose functionals are ``moments``."""
        if not given:
            band = self.singles.frequency if query.kind == "frequency" else self.singles.mean
            assert band is not None
            return _of_band(band, target, None)
        self.prepare([(target, given)])
        if query.kind == "lift":
            return self._lift(target, given, moments)
        condition, held = given[0]
        row = self.pairs.rows.get((target, condition))
        if len(given) > 1 or row is None:  # a pair may be known only in part: enough for this query
            return self._of_many(query.kind, target, given, moments)
        answer = self._pair_frequency if query.kind == "frequency" else self._pair_mean
        return answer(row, held, moments)

    def values(self, asked: PlacedQueries) -> Floats:
        """The values of frequencies and means, NaN if their keys are not known together.

        If all conditions of a query are held keys, its interval is not computed, which saves most of
        the time.
        """
        from .conditional import query_weights

        self._decode(asked.asked)
        rows = self._held_rows(asked)
        values = np.full(len(asked.queries), np.nan)
        for kind, of_kind in asked.kinds.items():
            own = of_kind & (rows >= 0)
            values[own] = self._held_values(kind)[rows[own]]
        for number in np.flatnonzero(rows < 0).tolist():
            query, (target, given) = asked.queries[number], asked.places[number]
            keys = (target, *(place for place, _ in given))
            moments = self.source.moments(keys, query_weights(self.schema, query))
            if moments is not None and len(given) > 1:
                values[number] = self._many_value(query.kind, target, given, moments)[0]
            elif moments is not None:
                values[number] = self.answer(query, target, given, moments).value
        return values

    def pair_ratios(self, asked: PlacedQueries) -> tuple[Floats, Floats]:
        """Unbiased numerators and denominators of queries with one held key as their condition.

        NaN for other queries, and if the two keys are not known together.
        """
        rows = self._held_rows(asked)
        ratios = np.full((2, len(rows)), np.nan)
        for kind, of_kind in asked.kinds.items():
            own = of_kind & (rows >= 0)
            parts = [BOTH, SECOND] if kind == "frequency" else [FIRST_GIVEN, BOTH]
            ratios[:, own] = self.pairs.values[rows[own]][:, parts].T
        return ratios[0], ratios[1]

    def _held_rows(self, asked: PlacedQueries) -> Integers:
        """The row of each query's pair; -1 without one, or with other conditions than one held key."""
        keys = len(self.schema.keys)
        rows = np.full((keys + 1, keys + 1), -1)  # the last place is that of no key
        rows[tuple(self.pairs.keys.T)] = np.arange(len(self.pairs.keys))
        return np.asarray(rows[tuple(asked.held_pairs.T)])

    def _held_values(self, kind: str) -> Floats:
        """f(k | c) or m(k | c) of every ordered pair."""
        return (self.pairs.frequencies() if kind == "frequency" else self.pairs.means())[0]

    def _lift(self, target: int, given: Given, moments: JointMoments) -> ShrunkAnswer:
        """The frequency over that among all people; the interval is that of the raw lift."""
        joint, condition = 0, 2
        part = JointMoments(
            moments.values[[joint, condition]],
            moments.covariance[np.ix_([joint, condition], [joint, condition])],
            moments.reports,
        )
        frequency = Query("frequency", *self._names(target, given))
        raw = raw_lift(moments, self.level)
        answer = self.answer(frequency, target, given, part)
        value = answer.value / float(self.pairs.frequency[target])
        return ShrunkAnswer(value, raw.stderr, raw.low, raw.high, answer.shown)

    def _names(self, target: int, given: Given) -> tuple[str, tuple[tuple[str, bool], ...]]:
        keys = self.schema.keys
        return keys[target], tuple((keys[place], held) for place, held in given)

    # -- two keys ----------------------------------------------------------------------------------

    def _pair_frequency(self, row: int, held: bool, moments: JointMoments) -> ShrunkAnswer:
        pairs = self.pairs
        shown = bool(pairs.associated[row])
        value, stderr = (float(part[row]) for part in pairs.frequencies())
        if held:
            return ShrunkAnswer(value, stderr, *_ends_at(pairs.frequency_ends, row), shown)
        rest = max(1.0 - pairs.given[row], LEAST_SHARE)
        factor = -pairs.given[row] / rest
        low, high = self._interval(moments, _row(pairs.absent_frequency_prior, row), (0.0, 1.0))
        other = (pairs.target[row] - pairs.joint[row]) / rest
        return ShrunkAnswer(min(max(other, 0.0), 1.0), stderr * abs(factor), low, high, shown)

    def _pair_mean(self, row: int, held: bool, moments: JointMoments) -> ShrunkAnswer:
        pairs = self.pairs
        shown = bool(pairs.shifted[row])
        value, stderr = (float(part[row]) for part in pairs.means())
        if held:
            return ShrunkAnswer(value, stderr, *_ends_at(pairs.mean_ends, row), shown)
        assert pairs.mean is not None
        mean = float(pairs.mean[pairs.keys[row, 0]])
        factor = -pairs.joint[row] / max(pairs.target[row] - pairs.joint[row], LEAST_SHARE)
        low, high = self._interval(moments, _row(pairs.absent_mean_prior, row), (-1.0, 1.0))
        other = mean + factor * pairs.shift.mean[row]
        return ShrunkAnswer(min(max(other, -1.0), 1.0), stderr * abs(factor), low, high, shown)

    # -- more keys ---------------------------------------------------------------------------------

    def _expected(self, kind: str, target: int, given: Given) -> float:
        """The answer without interaction between conditions, from the pairs of target and condition."""
        pairs = self.pairs
        f = float(pairs.frequency[target])
        total = _log_odds(f) if kind == "frequency" else 0.0
        for condition, held in given:
            row = pairs.rows.get((target, condition))
            if row is None:
                continue
            joint, share = float(pairs.joint[row]), float(pairs.given[row])
            if kind == "frequency":
                other = joint / share if held else (f - joint) / max(1.0 - share, LEAST_SHARE)
                total += _log_odds(other) - _log_odds(f)
            else:
                factor = 1.0 if held else -joint / max(f - joint, LEAST_SHARE)
                total += factor * float(pairs.shift.mean[row])
        if kind == "frequency":
            return float(1.0 / (1.0 + np.exp(-total)))
        assert pairs.mean is not None
        return float(np.clip(pairs.mean[target] + total, -1.0, 1.0))

    def _of_many(self, kind: str, target: int, given: Given, moments: JointMoments) -> ShrunkAnswer:
        low, high = _RANGES[kind]
        wide = Mixture(np.full(1, (low + high) / 2), np.full((1, 1), (high - low) / 2), np.ones(1))
        ends = self._interval(moments, wide, (low, high))
        value, stderr = self._many_value(kind, target, given, moments)
        alone = self.pairs.frequency if kind == "frequency" else self.pairs.mean
        assert alone is not None
        above, below = moments.values[:2]
        without = float(alone[target])
        distance = abs(float(above - without * below)) / np.sqrt(_variance_at(moments, without))
        shown = bool(distance > quantile(self.level))
        return ShrunkAnswer(value, stderr, *ends, shown)

    def _many_value(
        self, kind: str, target: int, given: Given, moments: JointMoments
    ) -> tuple[float, float]:
        """The value with several conditions and its standard error."""
        centre = self._expected(kind, target, given)
        above, below = moments.values[:2]
        noise = _variance_at(moments, centre)
        across = self._scale(kind, target, given) ** 2
        share = max(float(below), 0.0)
        weight = share * across / (share**2 * across + noise)
        value = centre + weight * (above - centre * below)
        stderr = float(np.sqrt(across * noise / (share**2 * across + noise)))
        return float(np.clip(value, *_RANGES[kind])), stderr

    def _scale(self, kind: str, target: int, given: Given) -> float:
        """Standard deviation of the prior around the answer without interaction.

        Interactions are taken to be as large as the pairs' own deviations from their common value, and
        at least ``LEAST_SCALE``.
        """
        prior = self.pairs.frequency_prior() if kind == "frequency" else self.pairs.mean_prior()
        rows = [self.pairs.rows.get((target, condition)) for condition, _ in given]
        scales = [float(prior.scales[row, 0]) for row in rows if row is not None]
        return max(float(np.sqrt(np.mean(np.square(scales)))), LEAST_SCALE) if scales else WIDE_SCALE

    def _interval(
        self, moments: JointMoments, prior: Mixture, limits: tuple[float, float]
    ) -> tuple[float, float]:
        (above, below), spread = moments.values[:2], moments.covariance
        tested = RatioEstimates(
            *(np.array([x]) for x in (above, below, spread[0, 0], spread[0, 1], spread[1, 1]))
        )
        return _ends_at(assisted_interval(tested, prior, limits, self.level), 0)


def _variance_at(moments: JointMoments, ratio: float) -> float:
    """The variance of numerator - ratio * denominator."""
    spread = moments.covariance
    return max(float(spread[0, 0] - 2 * ratio * spread[0, 1] + ratio**2 * spread[1, 1]), 1e-30)


def _of_band(band: Band, place: int, shown: bool | None) -> ShrunkAnswer:
    value, stderr, low, high = (
        float(part[place]) for part in (band.value, band.stderr, band.low, band.high)
    )
    return ShrunkAnswer(value, stderr, low, high, shown)


def _ends_at(ends: tuple[Floats, Floats], row: int) -> tuple[float, float]:
    return float(ends[0][row]), float(ends[1][row])


def _row(prior: Mixture, row: int) -> Mixture:
    """The prior of one ordered pair."""
    one = slice(row, row + 1)
    above, below = np.asarray(prior.with_above)[one], np.asarray(prior.with_below)[one]
    return Mixture(prior.centre[one], prior.scales[one], prior.weights, above, below)


def _log_odds(share: float) -> float:
    inside = min(max(share, LEAST_SHARE), 1.0 - LEAST_SHARE)
    return float(np.log(inside / (1.0 - inside)))
