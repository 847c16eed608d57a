"""Released: the laws and moments of several keys, the only input of every learner."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from math import inf, isfinite, nan
from numbers import Real
from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import PlanError, QueryError
from ...plan.tally import Tally
from ..answer import Estimate, plain
from ..linear import single_keys
from ..together.conditional import Conditionals
from ..together.entropy_law import entropy_law, entropy_moments, known_parts
from ..together.identified_range import IdentifiedRange, known_moments
from ..together.joint import Evidence, HeldEvidence, JointMoments, not_together
from .exact_statistics import ExactEvidence

Source = Conditionals | Tally | ExactEvidence
"""The source of laws: a tally or its conditionals, or a table for comparison."""

Keys = tuple[int, ...]
"""Places of keys in the schema."""

ROUNDS = 60
"""Rounds of proportional fitting. Noisy laws never agree fully, and stop changing long before."""
MOST_STATES = 3**8
"""Largest number of joint states of a law of most entropy."""


WITHOUT_NOISE = 10**15
"""Number of reports that a table without noise counts as."""


class KnownStatistic(NamedTuple):
    """A proper joint law, and how it was obtained: "view" or "maximum entropy"."""

    law: Floats
    how: str


class Released:
    """The schema, laws and moments of a source.

    If no view holds the keys of a law, the law of most entropy that agrees with the views is a guess.
    Intervals are then identified ranges: all values that agree with the views, widened for sampling
    error.
    """

    def __init__(self, source: Source) -> None:
        if isinstance(source, Tally):
            source = Conditionals(source.plan, source)
        if not isinstance(source, Conditionals | ExactEvidence):
            raise QueryError("learn from a tally or its Conditionals; learners never see rows of people")
        if isinstance(source, ExactEvidence):
            self.evidence: Evidence = source
            self.schema = source.schema
        else:
            plan = source.plan
            self.evidence, self.schema = source.evidence, plan.schema
            if single_keys(plan):
                raise not_together(plan)
        self.source, self.level = source, source.level
        self.frame_library = getattr(source, "frame_library", None)
        self.origin: str = getattr(source, "origin", "")
        self.states = self.schema.levels + 1
        self._laws: dict[tuple[int, ...], Floats | None] = {}
        self._counts: dict[tuple[int, ...], int] = {}
        self._ranges: dict[tuple[int, ...], tuple[IdentifiedRange, int]] = {}

    # -- names -----------------------------------------------------------------------------------

    @property
    def interval_origin(self) -> str:
        """For titles: "60,000 reports at epsilon 2, pairs, 95% intervals"; empty for exact laws."""
        return f"{self.origin}, {self.level:.0%} intervals" if self.origin else ""

    def place(self, key: Hashable) -> int:
        """The place of a key in the schema; the error for an unknown key names the nearest one."""
        return self.schema.place(key)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the digits of a key: absent, then its levels."""
        levels = self.schema.levels
        if levels < 3:
            return (("absent", "held"), ("absent", "low", "high"))[levels - 1]
        return ("absent", *(f"level {level}" for level in range(1, levels + 1)))

    # -- laws ------------------------------------------------------------------------------------

    def view_law(self, keys: tuple[int, ...]) -> Floats | None:
        """The proper joint law of keys that a view holds together; None if no view does."""
        if keys not in self._laws:
            self._laws[keys] = self.evidence.law(keys)
        return self._laws[keys]

    def prepare(self, sets: Iterable[Keys]) -> None:
        """Computes the laws of several sets of keys at once if that is faster."""
        if isinstance(self.evidence, HeldEvidence):
            self.evidence.prepare(sets)

    def law(self, keys: tuple[int, ...]) -> KnownStatistic:
        """The joint law of any keys."""
        law = self.view_law(keys)
        if law is not None:
            return KnownStatistic(law, "view")
        return KnownStatistic(entropy_law(keys, self._parts(keys), ROUNDS), "maximum entropy")

    def speaks_of(self, key: int) -> bool:
        """Whether any report is about a key."""
        return self.view_law((key,)) is not None

    def single(self, key: int) -> Floats:
        """The law of a single key."""
        law = self.view_law((key,))
        if law is None:
            raise PlanError(f"the tally has no report about {self.schema.keys[key]!r}")
        return law

    def _parts(self, keys: tuple[int, ...]) -> dict[tuple[int, ...], Floats]:
        """The largest subsets of the keys that views hold, with their laws."""
        if self.states ** len(keys) > MOST_STATES:
            raise QueryError(f"{len(keys)} keys are too many at once; ask of fewer together")
        parts = known_parts(keys, self.view_law)
        for key in keys:
            if not any(key in part for part in parts):
                self.single(key)  # raises, because no report is about it
        return parts

    def reports(self, keys: tuple[int, ...]) -> int:
        """Number of reports about the keys together, or about the least known part of them."""
        if isinstance(self.source, ExactEvidence) and self.source.people is None:
            return WITHOUT_NOISE
        if keys not in self._counts:
            known = [keys] if self.view_law(keys) is not None else list(self._parts(keys))
            moments = [self.evidence.moments(part, self._highest(len(part))) for part in known]
            self._counts[keys] = min((part.reports for part in moments if part is not None), default=0)
        return self._counts[keys]

    def _highest(self, keys: int) -> Floats:
        """Weights of the state in which all keys have their highest value, which needs every report."""
        weights = np.zeros((self.states,) * keys + (1,))
        weights[(-1,) * keys] = 1.0
        return weights

    # -- moments ---------------------------------------------------------------------------------

    def moments(self, keys: tuple[int, ...], weights: Floats) -> JointMoments:
        """Functionals with their covariance; at the law of most entropy if no view holds the keys.

        That covariance is only sampling error: it does not include the distance from the true law.
        """
        moments = self.evidence.moments(keys, weights)
        if moments is not None:
            return moments
        parts = self._parts(keys)
        return entropy_moments(self.evidence, keys, weights, entropy_law(keys, parts, ROUNDS), parts)

    def regressed(self, keys: tuple[int, ...], weights: Floats, law: Floats) -> dict[Keys, Floats]:
        """The regression at a law of weights on the states of the parts that views hold.

        At a law of most entropy with these parts, the sum of the parts' means is the mean of the
        weights, and it has the same slopes.
        """
        parts = list(self._parts(keys))
        digits = np.indices(law.shape).reshape(len(keys), -1)
        columns = []
        for part in parts:
            at = np.zeros(law.size, np.int64)
            for key in part:
                at = at * self.states + digits[keys.index(key)]
            columns.append((at[:, None] == np.arange(self.states ** len(part))).astype(np.float64))
        root = np.sqrt(law.reshape(-1, 1))
        slopes = np.linalg.lstsq(root * np.hstack(columns), root[:, 0] * weights.reshape(-1), rcond=1e-9)
        ends = np.cumsum([column.shape[1] for column in columns])[:-1]
        return {
            part: slope.reshape((self.states,) * len(part))
            for part, slope in zip(parts, np.split(slopes[0], ends), strict=True)
        }

    def identified(self, keys: tuple[int, ...], above: Floats, below: Floats) -> Estimate:
        """The identified range of a ratio of shares, without a value; unbounded without SciPy."""
        if keys not in self._ranges:
            moments = known_moments(self.evidence.moments, self._parts(keys), keys, self.schema.levels)
            reports = min(part.reports for part in moments.values())
            self._ranges[keys] = IdentifiedRange(keys, self.states, moments, self.level), reports
        ranges, reports = self._ranges[keys]
        ends = ranges.ends(above, below)
        if ends is None:
            return Estimate(nan, nan, -inf, inf, reports)
        return Estimate(nan, nan, max(ends[0], 0.0), min(ends[1], 1.0), reports)

    def share(self, value: float, moments: JointMoments) -> Estimate:
        """A share at a proper law, with the interval of the unbiased share cut to [0, 1]."""
        raw = plain(
            float(moments.values[0]), float(moments.covariance[0, 0]), moments.reports, self.level
        )
        return within(raw, 0.0, 1.0, value) if raw.bounded else raw


def within(estimate: Estimate, low: float, high: float, value: float | None = None) -> Estimate:
    """The estimate cut to a range, at another value if one is given; the interval contains it.

    An interval that lies outside becomes the nearest end of the range, with half its width inside.
    """
    middle = min(max(estimate.value if value is None else value, low), high)
    if not estimate.bounded:
        return replace(estimate, value=middle)
    ends = (min(max(end, low), high) for end in (estimate.low, estimate.high))
    first, last = ends
    if first == last and estimate.low < estimate.high:
        half = (estimate.high - estimate.low) / 2
        first, last = max(first - half, low), min(last + half, high)
    return replace(estimate, value=middle, low=min(first, middle), high=max(last, middle))


def shown(estimate: Estimate, digits: int = 2) -> str:
    """A value with its interval as text, or "unknown"."""
    ends = f"[{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]" if estimate.bounded else ""
    value = f"{estimate.value:.{digits}f}" if isfinite(estimate.value) else ""
    return " ".join(filter(None, (value, ends))) or "unknown"


def check_chance(value: float, name: str) -> float:
    """Returns a number between 0 and 1, and refuses any other."""
    if not isinstance(value, Real) or not 0 < value < 1:
        raise QueryError(f"{name} lies between 0 and 1, like 0.05")
    return value
