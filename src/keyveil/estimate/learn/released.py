"""Released: the laws and moments of several keys, the only input of every learner."""

from __future__ import annotations

from math import erfc, exp, inf, isfinite, lgamma, log, nan, sqrt
from typing import NamedTuple

from ...foundation.arrays import Floats
from ...foundation.errors import PlanError, QueryError
from ..answer import Estimate, plain
from ..linear import single_keys
from ..together.conditional import Conditionals, entropy_law, entropy_moments, known_parts
from ..together.identified_range import IdentifiedRange, known_moments
from ..together.joint import Evidence, JointMoments
from .exact_statistics import ExactEvidence

Source = Conditionals | ExactEvidence
"""The source of laws: the conditionals of a tally, or a table for comparison."""

ROUNDS = 60
"""Rounds of proportional fitting. Noisy laws never agree fully, and stop changing long before."""
MOST_STATES = 3**8
"""Largest number of joint states of a law of most entropy."""


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
        if isinstance(source, ExactEvidence):
            self.evidence: Evidence = source
            self.schema = source.schema
        else:
            plan = source.plan
            self.evidence, self.schema = source.evidence, plan.schema
            if single_keys(plan):
                raise PlanError(
                    f"{plan.mechanism_name} speaks of one key at a time; learn from views, like pairs"
                )
        self.source, self.level = source, source.level
        self.states = self.schema.levels + 1
        self._laws: dict[tuple[int, ...], Floats | None] = {}
        self._ranges: dict[tuple[int, ...], tuple[IdentifiedRange, int]] = {}

    # -- names -----------------------------------------------------------------------------------

    def place(self, key: str) -> int:
        """The place of a key in the schema; the error for an unknown key names the nearest one."""
        return self.schema.place(str(key))

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
        if not raw.bounded:
            return raw
        low, high = (min(max(end, 0.0), 1.0) for end in (raw.low, raw.high))
        return Estimate(value, raw.stderr, min(low, value), max(high, value), raw.reports)


def tail(z: float) -> float:
    """Probability that a standard normal variable is above ``z``."""
    return 0.5 * erfc(z / sqrt(2))


def chi_square_tail(value: float, freedom: int) -> float:
    """Probability that a chi-square variable is above ``value``."""
    if value == inf or value <= 0 or not freedom:
        return 0.0 if value == inf else 1.0
    half, odd = value / 2, freedom % 2
    total = erfc(sqrt(half)) if odd else 0.0
    # Every two degrees of freedom add a term of the Poisson (or half-integer) series.
    for step in range(freedom // 2):
        power = step + odd / 2
        total += exp(power * log(half) - half - lgamma(power + 1))
    return total


def score(value: float, variance: float) -> float:
    """A value divided by its standard error; infinite if the variance is zero."""
    if variance > 0:
        return value / sqrt(variance)
    return 0.0 if abs(value) < 1e-12 else value * float("inf")


def shown(estimate: Estimate, digits: int = 2) -> str:
    """A value with its interval as text, or "unknown"."""
    ends = f"[{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]" if estimate.bounded else ""
    value = f"{estimate.value:.{digits}f}" if isfinite(estimate.value) else ""
    return " ".join(filter(None, (value, ends))) or "unknown"


def check_chance(value: float, name: str) -> float:
    """Returns a number between 0 and 1, and refuses any other."""
    if not 0 < value < 1:
        raise QueryError(f"{name} lies between 0 and 1, like 0.05")
    return value
