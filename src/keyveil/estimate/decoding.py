"""Decoding: how mechanisms and encodings read the tallies of plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from ..foundation.errors import PlanError

if TYPE_CHECKING:
    from ..foundation.arrays import Floats, Integers
    from ..people.prior import Prior
    from ..plan.plan import Plan
    from ..plan.tally import Tally
    from .answer import Answers
    from .forecast.predicted_error import Forecast, SizeForecast, ValueForecast
    from .linear import Moments
    from .side import SizeAnswer, ValueAnswer
    from .together.joint import Evidence

Estimator = Callable[["Plan", "Tally", float], "Answers"]
"""Answers from a plan, a tally and the level of the intervals."""

_PLACES = {"least_squares": "linear", "likelihood": "likelihood"}
"""Modules of the estimators that many mechanisms have, by name."""


class NamedEstimators(Mapping[str, Estimator]):
    """Estimators that many mechanisms have, by name; each is loaded when it is first asked for.

    Making plans and counting reports need none of them.
    """

    def __init__(self, *names: str) -> None:
        self._names = names

    def __getitem__(self, name: str) -> Estimator:
        if name not in self._names:
            raise KeyError(name)
        estimator: Estimator = getattr(import_module(f".{_PLACES[name]}", __package__), name)
        return estimator

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Decoding:
    """The part of a mechanism that reads tallies; the other part, ``Recipe``, makes plans."""

    estimators: Mapping[str, Estimator]
    """Estimators by name, the default first."""

    def moments(self, plan: Plan, counts: Integers) -> Moments:
        """Unbiased frequency and mass of every key from counts ``(..., cells)``; see ``Moments``."""
        return state_decoding_of(plan).moments(plan, counts)

    @property
    def has_own_moments(self) -> bool:
        """Whether the mechanism has its own method to decode single keys."""
        return type(self).moments is not Decoding.moments

    @property
    def has_own_evidence(self) -> bool:
        """Whether the mechanism has its own method to decode keys together."""
        return type(self).evidence is not Decoding.evidence

    def has_moments(self, plan: Plan) -> bool:
        """Whether ``moments`` can decode this plan."""
        return self.has_own_moments or state_decoding_of(plan).has_moments

    def evidence(self, plan: Plan, tally: Tally) -> Evidence | None:
        """Evidence of a tally about several keys together; None to use that of the encoding."""
        return None

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        """The predicted error of the least-squares answers for this number of people."""
        return state_decoding_of(plan).forecast(plan, people, prior)


class StateDecoding:
    """The part of an encoding that reads tallies; the other part, ``Encoding``, makes states.

    A mechanism uses it unless it has its own method. Every method of this class raises ``PlanError``.
    """

    has_moments: ClassVar[bool] = False
    """Whether ``moments`` estimates frequencies or masses of single keys."""

    def moments(self, plan: Plan, counts: Integers) -> Moments:
        """Unbiased frequency and mass of every key from counts ``(..., cells)``; see ``Moments``."""
        raise PlanError(f"{plan.mechanism_name} has no unbiased estimate of single keys")

    def side_answer(self, plan: Plan, counts: Integers) -> SizeAnswer | ValueAnswer | None:
        """The answer to a side question from counts ``(..., cells)``; None if the states name keys."""
        return None

    def evidence(self, plan: Plan, tally: Tally, estimator: str) -> Evidence:
        """Evidence of a tally about several keys together, for a named estimator of conditionals."""
        from .together.joint import not_together

        raise not_together(plan)

    def projected(self, plan: Plan, tally: Tally) -> Floats:
        """Frequency and mean of every key, ``(keys, 2)``, after projection of the law of states.

        Means are on [-1, 1]; NaN for keys without reports.
        """
        raise PlanError("simplex projection is for plans whose reports are about one key or one item")

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        """The predicted error of the least-squares answers for this number of people."""
        raise PlanError(f"the error of {plan.mechanism_name} is not forecast")

    def value_forecast(self, plan: Plan, people: float, prior: Prior) -> ValueForecast | None:
        """The predicted answer to the question for one held value; None if the plan does not ask."""
        return None

    def size_forecast(self, plan: Plan, people: float, prior: Prior) -> SizeForecast | None:
        """The predicted answer to the question for the number of keys; None if the plan does not ask."""
        return None

    def pair_forecast(
        self, plan: Plan, people: float, prior: Prior, first: int, second: int
    ) -> tuple[float, float, float]:
        """Variances of frequency(first | second) and mean(first | second), and bias of the frequency.

        ``first`` and ``second`` are kinds of keys of the prior.
        """
        raise PlanError(f"conditionals of {plan.mechanism_name} are not forecast")


def decoding_of(plan: Plan) -> Decoding:
    """The plan's mechanism, as the part that reads tallies."""
    mechanism = plan.mechanism
    if not isinstance(mechanism, Decoding):
        raise PlanError(f"{plan.mechanism_name} makes plans but has no estimator")
    return mechanism


def state_decoding_of(plan: Plan) -> StateDecoding:
    """The plan's encoding, as the part that reads tallies."""
    encoding = plan.encoding
    if not isinstance(encoding, StateDecoding):
        raise PlanError(f"the encoding {plan.encode} makes states but has no estimator")
    return encoding


def moments_of(plan: Plan, counts: Integers) -> Moments:
    """Unbiased frequency and mass of every key, decoded by the plan's mechanism."""
    return decoding_of(plan).moments(plan, counts)
