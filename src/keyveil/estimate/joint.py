"""What a tally knows of several keys together: linear functionals of joint states, with covariance.

A *functional* is a weight for every joint state of some keys (digit 0 not held, then the levels);
its value is the mean weight over people. Frequencies, sums of values and all conditionals are
ratios of two of them. A source of evidence says which functionals it can estimate: ``viewlaws`` for
plans of small views, ``whole`` for plans with one view of all keys, ``products`` for plans that tell
products of signs and presences.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from ..arrays import Floats, Integers
from ..errors import PlanError
from .project import nearest_law

if TYPE_CHECKING:
    from ..plan import Plan
    from ..tally import Tally


class Moments(NamedTuple):
    """Values of some functionals, their covariance, and how many reports speak of them."""

    values: Floats
    covariance: Floats
    reports: int


class Evidence(Protocol):
    """A source that estimates functionals of some keys, or says None."""

    def moments(self, keys: tuple[int, ...], weights: Floats) -> Moments | None:
        """Estimates of ``weights``, an array of shape (levels + 1,) * keys + (functionals,)."""

    def law(self, keys: tuple[int, ...]) -> Floats | None:
        """The likeliest joint law of the keys, a proper probability array, if it is known."""


@lru_cache(maxsize=16)
def digits(levels: int, keys: int) -> Integers:
    """The digits of every state of a view, one row each, the first key first; not to be changed."""
    rows = np.array(list(product(range(levels + 1), repeat=keys)), np.int64).reshape(-1, keys)
    rows.flags.writeable = False
    return rows


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
    """Reports that speak of all keys and pairs a person holds (pair collision)."""

    def __init__(self, plan: Plan, pairs: HeldPairs) -> None:
        self.levels, self.pairs = plan.schema.levels, pairs

    def moments(self, keys: tuple[int, ...], weights: Floats) -> Moments | None:
        found = self.pairs.moments(keys, weights) if self.pairs.reports else None
        return None if found is None else Moments(found[0], found[1], self.pairs.reports)

    def law(self, keys: tuple[int, ...]) -> Floats | None:
        return nearest_of(self, keys, self.levels)


def nearest_of(source: Evidence, keys: tuple[int, ...], levels: int) -> Floats | None:
    """The proper law nearest to a source's unbiased one, in standard errors."""
    states, count = levels + 1, (levels + 1) ** len(keys)
    found = source.moments(keys, np.eye(count).reshape((states,) * len(keys) + (count,)))
    if found is None:
        return None
    law = nearest_law(found.values[None, :], found.covariance[None, :, :])[0]
    return law.reshape((states,) * len(keys))


def evidence(plan: Plan, tally: Tally, estimator: str = "pooled") -> Evidence:
    """The source of evidence that fits a plan."""
    from .viewlaws import ViewEvidence
    from .whole import WHOLE, WholeEvidence

    tally.belongs_to(plan)
    made = plan.kind.evidence(plan, tally)
    if made is not None:
        return made
    if plan.encode != "views":
        raise PlanError(f"{plan.mechanism} speaks of no keys together; use views, like pairs")
    if len(plan.views) == 1:
        return WHOLE.get(estimator, WholeEvidence)(plan, tally)
    if estimator in ("printed", "simplex"):
        raise PlanError(f"{estimator} is for plans with one view of all keys, like ioh")
    return ViewEvidence(plan, tally, sharpen=estimator == "pooled")
