"""What a tally knows of several keys together: linear functionals of joint states, with covariance.

A *functional* is a weight for every joint state of some keys (digit 0 not held, then the levels);
its value is the mean weight over people. Frequencies, sums of values and all conditionals are
ratios of two of them. A source of evidence says which functionals it can estimate: ``viewlaws`` for
plans of small views, ``whole`` for plans with one view of all keys, ``products`` for plans that tell
products of signs and presences.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ...people.views import digits
from ..decoding import decoding_of, state_decoding_of
from ..projection import nearest_law

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...plan.tally import Tally


class JointMoments(NamedTuple):
    """Values of some functionals, their covariance, and how many reports speak of them."""

    values: Floats
    covariance: Floats
    reports: int


class Evidence(Protocol):
    """A source that estimates functionals of some keys, or says None."""

    def moments(self, keys: tuple[int, ...], weights: Floats) -> JointMoments | None:
        """Estimates of ``weights``, an array of shape (levels + 1,) * keys + (functionals,)."""

    def law(self, keys: tuple[int, ...]) -> Floats | None:
        """The likeliest joint law of the keys, a proper probability array, if it is known."""


def lifted(weights: Floats, keys: tuple[int, ...], view: tuple[int, ...], levels: int) -> Floats:
    """Weights on the states of ``keys`` as weights on the states of a view that holds them."""
    places = [view.index(key) for key in keys]
    rows = digits(levels, len(view))[:, places]
    return weights[tuple(rows.T)]


class HeldPairs(Protocol):
    """Estimates of functionals of one or two keys from reports about whole sets."""

    reports: int

    def moments(self, keys: tuple[int, ...], weights: Floats) -> tuple[Floats, Floats] | None:
        """Values and covariance, or None."""


class HeldEvidence:
    """Reports that speak of all keys and pairs a person holds (pair collision).

    What is known of two keys is computed once for all their states, and every query of the two, either
    way round, is a sum of that; ``prepare`` finds the nearest laws of many pairs at once.
    """

    def __init__(self, plan: Plan, pairs: HeldPairs) -> None:
        self.levels, self.pairs = plan.schema.levels, pairs
        self._whole: dict[tuple[int, ...], tuple[Floats, Floats] | None] = {}
        self._laws: dict[tuple[int, ...], Floats] = {}

    def _states(self, keys: tuple[int, ...]) -> tuple[Floats, Floats] | None:
        """Every joint state's share and their covariance, for keys in ascending order."""
        if keys not in self._whole:
            shape = (self.levels + 1,) * len(keys)
            count = (self.levels + 1) ** len(keys)
            each = np.eye(count).reshape((*shape, count))
            self._whole[keys] = self.pairs.moments(keys, each) if self.pairs.reports else None
        return self._whole[keys]

    def moments(self, keys: tuple[int, ...], weights: Floats) -> JointMoments | None:
        order = np.argsort(keys)
        found = self._states(tuple(sorted(keys)))
        if found is None:
            return None
        flat = np.transpose(weights, (*order, len(keys))).reshape(len(found[0]), -1)
        return JointMoments(found[0] @ flat, flat.T @ found[1] @ flat, self.pairs.reports)

    def prepare(self, sets: Iterable[tuple[int, ...]]) -> None:
        """Find the nearest proper laws of some sets of keys, all at once."""
        wanted = [keys for keys in {tuple(sorted(keys)) for keys in sets} if keys not in self._laws]
        for size in sorted({len(keys) for keys in wanted}):
            found = {k: self._states(k) for k in sorted(wanted) if len(k) == size}
            known = {keys: made for keys, made in found.items() if made is not None}
            if known:
                values = np.array([value for value, _ in known.values()])
                spread = np.array([each for _, each in known.values()])
                self._laws.update(zip(known, nearest_law(values, spread), strict=True))

    def law(self, keys: tuple[int, ...]) -> Floats | None:
        self.prepare([keys])
        law = self._laws.get(tuple(sorted(keys)))
        if law is None:
            return None
        shaped = law.reshape((self.levels + 1,) * len(keys))
        return np.transpose(shaped, np.argsort(np.argsort(keys)))


def nearest_of(source: Evidence, keys: tuple[int, ...], levels: int) -> Floats | None:
    """The proper law nearest to a source's unbiased one, in standard errors."""
    states, count = levels + 1, (levels + 1) ** len(keys)
    found = source.moments(keys, np.eye(count).reshape((states,) * len(keys) + (count,)))
    if found is None:
        return None
    law = nearest_law(found.values[None, :], found.covariance[None, :, :])[0]
    return law.reshape((states,) * len(keys))


def not_together(plan: Plan) -> PlanError:
    """Why a plan cannot say how keys go together, and which plans can."""
    return PlanError(
        f"this plan ({plan.mechanism_name}) does not ask about keys together (keyveil estimate "
        "answers each key by itself); a plan that does: keyveil plan --mechanism auto "
        "--ask conditional --people N, or --mechanism pairs"
    )


def evidence(plan: Plan, tally: Tally, estimator: str = "pooled") -> Evidence:
    """The source of evidence that fits a plan."""
    tally.belongs_to(plan)
    own = decoding_of(plan).evidence(plan, tally)
    return state_decoding_of(plan).evidence(plan, tally, estimator) if own is None else own
