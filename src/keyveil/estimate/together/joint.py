"""Evidence of a tally about several keys together: linear functionals of joint states.

A *functional* is a weight for every joint state of a set of keys (digit 0 not held, then the levels).
Its value is the mean weight over people. Frequencies, sums of values and all conditionals are ratios of
two functionals. A source of evidence says which functionals it can estimate: ``view_laws`` for plans of
small views, ``single_view`` for plans with one view of all keys, ``monomials`` for plans that report
products of signs and presences.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ...people.views import digits
from ..caution import law_with_one_more
from ..decoding import decoding_of, state_decoding_of
from ..projection import nearest_law

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...plan.tally import Tally
    from ..pools.pair_evidence import PairScore


class JointMoments(NamedTuple):
    """Values of functionals, their covariance, and the number of reports about them."""

    values: Floats
    covariance: Floats
    reports: int


class Evidence(Protocol):
    """A source that estimates functionals of sets of keys."""

    def moments(self, keys: tuple[int, ...], weights: Floats) -> JointMoments | None:
        """Estimates of ``weights``, an array of shape (levels + 1,) * keys + (functionals,).

        None if the keys are not known together.
        """

    def law(self, keys: tuple[int, ...]) -> Floats | None:
        """The most likely joint law of the keys, a proper probability array; None if unknown."""


def lifted(weights: Floats, keys: tuple[int, ...], view: tuple[int, ...], levels: int) -> Floats:
    """Weights on the states of ``keys``, as weights on the states of a view that holds them."""
    places = [view.index(key) for key in keys]
    rows = digits(levels, len(view))[:, places]
    return weights[tuple(rows.T)]


class HeldPairs(Protocol):
    """Estimates of functionals of one or two keys, from reports about sets of keys."""

    reports: int

    def moments(self, keys: tuple[int, ...], weights: Floats) -> tuple[Floats, Floats] | None:
        """Values and covariance, or None."""

    def score(self, keys: tuple[int, ...], score: Floats, law: Floats, laws: Floats) -> PairScore | None:
        """A functional and what is expected of it if the joint states of the keys follow ``law``."""


class HeldEvidence:
    """Evidence from reports about all keys and pairs that a person holds (pair collision).

    The estimates of two keys are computed once for all joint states. Every query of the two keys is a
    sum of them. ``prepare`` computes the nearest laws of many pairs at once.
    """

    def __init__(self, plan: Plan, pairs: HeldPairs) -> None:
        self.levels, self.pairs, self.keys = plan.schema.levels, pairs, len(plan.schema.keys)
        self._whole: dict[tuple[int, ...], tuple[Floats, Floats] | None] = {}
        self._laws: dict[tuple[int, ...], Floats] = {}

    def _states(self, keys: tuple[int, ...]) -> tuple[Floats, Floats] | None:
        """Shares of all joint states and their covariance, for keys in ascending order."""
        if keys not in self._whole:
            shape = (self.levels + 1,) * len(keys)
            count = (self.levels + 1) ** len(keys)
            identity = np.eye(count).reshape((*shape, count))
            self._whole[keys] = self.pairs.moments(keys, identity) if self.pairs.reports else None
        return self._whole[keys]

    def moments(self, keys: tuple[int, ...], weights: Floats) -> JointMoments | None:
        order = np.argsort(keys)
        estimates = self._states(tuple(sorted(keys)))
        if estimates is None:
            return None
        flat = np.transpose(weights, (*order, len(keys))).reshape(len(estimates[0]), -1)
        return JointMoments(estimates[0] @ flat, flat.T @ estimates[1] @ flat, self.pairs.reports)

    @cached_property
    def cautious_laws(self) -> Floats:
        """The laws of all keys ``(keys, levels + 1)``, with one more report of each state."""
        places = [(place,) for place in range(self.keys)]
        self.prepare(places)
        laws = np.array([self._laws[place] for place in places])
        return law_with_one_more(laws, np.asarray(float(self.pairs.reports)), self.levels + 1)

    def prepare(self, sets: Iterable[tuple[int, ...]]) -> None:
        """Computes the nearest proper laws of several sets of keys at once."""
        missing = [keys for keys in {tuple(sorted(keys)) for keys in sets} if keys not in self._laws]
        for size in sorted({len(keys) for keys in missing}):
            candidates = {k: self._states(k) for k in sorted(missing) if len(k) == size}
            known = {keys: estimates for keys, estimates in candidates.items() if estimates is not None}
            if known:
                values = np.array([value for value, _ in known.values()])
                spread = np.array([covariance for _, covariance in known.values()])
                self._laws.update(zip(known, nearest_law(values, spread), strict=True))

    def law(self, keys: tuple[int, ...]) -> Floats | None:
        self.prepare([keys])
        law = self._laws.get(tuple(sorted(keys)))
        if law is None:
            return None
        shaped = law.reshape((self.levels + 1,) * len(keys))
        return np.transpose(shaped, np.argsort(np.argsort(keys)))


def nearest_of(source: Evidence, keys: tuple[int, ...], levels: int) -> Floats | None:
    """The proper law nearest to the unbiased law of a source, in standard errors."""
    states, count = levels + 1, (levels + 1) ** len(keys)
    moments = source.moments(keys, np.eye(count).reshape((states,) * len(keys) + (count,)))
    if moments is None:
        return None
    law = nearest_law(moments.values[None, :], moments.covariance[None, :, :])[0]
    return law.reshape((states,) * len(keys))


class KeysApartError(PlanError):
    """A question about keys together, for a plan that does not ask about them."""


def not_together(plan: Plan) -> KeysApartError:
    """The error for a plan that does not ask about keys together."""
    return KeysApartError(
        f"this plan ({plan.mechanism_name}) does not ask about keys together (keyveil estimate "
        "answers each key by itself); a plan that does: keyveil plan --mechanism auto "
        "--ask conditional --people N, or --mechanism pairs; in Python Plan.choose(..., "
        'ask="conditional")'
    )


def evidence(plan: Plan, tally: Tally, estimator: str = "pooled") -> Evidence:
    """The source of evidence that fits a plan."""
    tally.belongs_to(plan)
    own = decoding_of(plan).evidence(plan, tally)
    return state_decoding_of(plan).evidence(plan, tally, estimator) if own is None else own
