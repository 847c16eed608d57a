"""Evidence from one view of all keys, with many states: IOH and split, as printed and improved."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Floats
from ..channel import Symbols
from ..errors import PlanError
from .joint import Moments, lifted, nearest_of
from .project import onto_simplex

if TYPE_CHECKING:
    from ..plan import Plan
    from ..tally import Tally


class WholeEvidence:
    """One view of all keys with many states; weights are decoded as they are asked for."""

    def __init__(self, plan: Plan, tally: Tally) -> None:
        self.plan, self.levels = plan, plan.schema.levels
        self.view, self.channel = plan.views.keys[0], plan.channels[0]
        self.reports, counts = tally.view_counts(0)
        self.shares = counts / max(self.reports, 1)
        self._laws: dict[tuple[int, ...], Floats | None] = {}

    @cached_property
    def raw(self) -> Floats:
        """The unbiased law of the states, which sums to one."""
        if self.channel.one_cell:
            return self.channel.unmixed(self.shares)
        return self.channel.state_estimates(self.shares)[0]

    @cached_property
    def states(self) -> Floats:
        """The nearest proper law of all states (Norm-Sub of the unbiased one)."""
        return onto_simplex(self.raw[None, :])[0]

    def moments(self, keys: tuple[int, ...], weights: Floats) -> Moments | None:
        if not self.reports or not set(keys) <= set(self.view):
            return None
        flat = lifted(weights, keys, self.view, self.levels)
        decoder = self._decoder(flat)
        marks = self.shares if self.channel.one_cell else np.append(self.shares, 1.0)
        covariance = self.channel.covariance(decoder, self.states) / self.reports
        return Moments(marks @ decoder, covariance, self.reports)

    def _decoder(self, weights: Floats) -> Floats:
        return self.channel.decoder(weights)

    def law(self, keys: tuple[int, ...]) -> Floats | None:
        if keys not in self._laws:
            self._laws[keys] = nearest_of(self, keys, self.levels)
        return self._laws[keys]


class PrintedEvidence(WholeEvidence):
    """IOH as the paper prints it: every cell from its own bit, with no constraint on their sum."""

    def _decoder(self, weights: Floats) -> Floats:
        if not isinstance(self.channel, Symbols) or self.channel.one_cell:
            raise PlanError("the printed estimator is IOH's")
        return self.channel.position_decoder(weights, np.zeros(weights.shape[1]))


class SimplexEvidence(WholeEvidence):
    """The law of all states after projection onto the simplex (Norm-Sub)."""

    def law(self, keys: tuple[int, ...]) -> Floats | None:
        if not self.reports or not set(keys) <= set(self.view):
            return None
        whole = self.states.reshape((self.levels + 1,) * len(self.view))
        others = tuple(i for i, key in enumerate(self.view) if key not in keys)
        kept = [key for key in self.view if key in keys]
        return np.asarray(whole.sum(axis=others).transpose([kept.index(key) for key in keys]))


WHOLE = {
    "pooled": WholeEvidence,
    "least_squares": WholeEvidence,
    "printed": PrintedEvidence,
    "simplex": SimplexEvidence,
}
