"""Decoding: how a mechanism reads the tallies of its plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

from ..foundation.errors import PlanError
from ..plan.plan import Plan
from ..plan.tally import Tally
from .answer import Answers

if TYPE_CHECKING:
    from ..foundation.arrays import Integers
    from ..people.prior import Prior
    from .forecast.result import Forecast
    from .linear import Moments
    from .together.joint import Evidence

Estimator = Callable[[Plan, Tally, float], Answers]
"""Answers from a plan, a tally and the level of the intervals."""


class Decoding:
    """The half of a mechanism that reads tallies; the other half, ``Recipe``, makes the plans."""

    estimators: ClassVar[Mapping[str, Estimator]]
    """Estimators by name, the default first."""

    def moments(self, plan: Plan, counts: Integers) -> Moments:
        """Unbiased frequency and mass of every key from counts ``(..., cells)``; see ``Moments``."""
        from .linear import item_moments, sign_moments, single_keys, view_moments

        if single_keys(plan):
            return view_moments(plan, counts)
        if plan.encode == "views":
            from .together.averaged_views import pooled_moments

            return pooled_moments(plan, counts)
        if plan.encode == "item":
            return item_moments(plan, counts)
        if plan.encode == "signs":
            return sign_moments(plan, counts)
        raise PlanError(f"{plan.mechanism_name} has no unbiased estimate of single keys")

    @property
    def has_own_moments(self) -> bool:
        """Whether the mechanism decodes single keys in a way of its own."""
        return type(self).moments is not Decoding.moments

    @property
    def has_own_evidence(self) -> bool:
        """Whether the mechanism decodes keys together in a way of its own."""
        return type(self).evidence is not Decoding.evidence

    def has_moments(self, plan: Plan) -> bool:
        """Whether ``moments`` can decode this plan."""
        return self.has_own_moments or plan.encode in ("views", "item", "signs")

    def evidence(self, plan: Plan, tally: Tally) -> Evidence | None:
        """What a tally says about several keys together; None to decode by the plan's shape."""
        return None

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        """The predicted error of the least-squares answers for this number of people."""
        from .forecast.key_forecast import by_shape

        return by_shape(plan, people, prior)


def decoding_of(plan: Plan) -> Decoding:
    """How the tallies of this plan are read."""
    mechanism = plan.mechanism
    if not isinstance(mechanism, Decoding):
        raise PlanError(f"{plan.mechanism_name} makes plans but has no estimator")
    return mechanism


def moments_of(plan: Plan, counts: Integers) -> Moments:
    """Unbiased frequency and mass of every key, by the plan's own mechanism."""
    return decoding_of(plan).moments(plan, counts)
