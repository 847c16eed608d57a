"""Evidence from one view of all keys, with many states: IOH and split, as printed and improved.

A query is about few keys, so its weights are equal in all states that differ only in other keys. Then
the 3^d cells need not be decoded for each query. Bits (IOH) and digits (split) are summed, once per set
of keys, into cells of the keys in the query, and these few cells are decoded. Answers and covariances
are the same as without folding, up to the order of summation.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...channel import Channel
from ...channel.one_hot_bits import OneHotBits
from ...foundation.arrays import WORD, Floats
from ...foundation.errors import PlanError
from ..projection import onto_simplex
from .joint import JointMoments, lifted, nearest_of

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...plan.tally import Tally


class WholeEvidence:
    """Evidence from one view of all keys; cells are folded and decoded when a query needs them."""

    def __init__(self, plan: Plan, tally: Tally) -> None:
        self.plan, self.levels = plan, plan.schema.levels
        self.view, self.channel = plan.views.keys[0], plan.channels[0]
        self.reports, counts = tally.view_counts(0)
        self.shares = counts / max(self.reports, 1)
        self._laws: dict[tuple[int, ...], Floats | None] = {}
        self._folds: dict[tuple[str, tuple[int, ...]], Floats] = {}

    @cached_property
    def raw(self) -> Floats:
        """The unbiased law of the states; it sums to one."""
        if self.channel.one_cell:
            return self.channel.unmixed(self.shares)
        return self.channel.state_estimates(self.shares)[0]

    @cached_property
    def states(self) -> Floats:
        """The proper law nearest to the unbiased law of all states (Norm-Sub)."""
        return onto_simplex(self.raw[None, :])[0]

    def speaks_of(self, keys: tuple[int, ...]) -> bool:
        """Whether there are reports, and the view holds all of the keys."""
        return bool(self.reports) and set(keys) <= set(self.view)

    def moments(self, keys: tuple[int, ...], weights: Floats) -> JointMoments | None:
        if not self.speaks_of(keys):
            return None
        flat = weights.reshape(-1, weights.shape[-1])
        few, bits = self.channel.few_digits(len(keys)), bits_of_states(self.channel)
        if bits is not None:
            values, spread = self._of_bits(bits, keys, flat)
        elif few is not None:
            decoder = few.decoder(flat)
            values = self.folded("shares", keys) @ decoder
            spread = few.covariance(decoder, self.folded("states", keys))
        else:
            decoder = self.channel.decoder(lifted(weights, keys, self.view, self.levels))
            outputs = self.shares if self.channel.one_cell else np.append(self.shares, 1.0)
            values, spread = outputs @ decoder, self.channel.covariance(decoder, self.states)
        return JointMoments(values, spread / self.reports, self.reports)

    def _of_bits(
        self, kind: OneHotBits, keys: tuple[int, ...], weights: Floats
    ) -> tuple[Floats, Floats]:
        """Values and one report's covariance from folded bits; see ``Symbols.position_decoder``."""
        lift, offset = kind.lift, self._offset(weights)
        centred, law = weights - offset, self.folded("states", keys)
        cells_folded = len(self.shares) // len(law)  # cells folded into one
        bits = (self.folded("shares", keys) - cells_folded * kind.fake / WORD) / lift
        noise = kind.second_moment(law, cells_folded)
        average = law @ centred
        spread = (centred * noise[:, None]).T @ centred / lift**2 - np.outer(average, average)
        return bits @ centred + offset, spread

    def _offset(self, weights: Floats) -> Floats:
        """A constant taken from all weights and added back once, because shares sum to one."""
        return np.asarray(weights.mean(axis=0))

    def folded(self, name: str, keys: tuple[int, ...]) -> Floats:
        """``shares`` or ``states`` summed over all other keys, flat, in the order of ``keys``."""
        if (name, keys) not in self._folds:
            table = getattr(self, name).reshape((self.levels + 1,) * len(self.view))
            others = tuple(axis for axis, key in enumerate(self.view) if key not in keys)
            order = [key for key in self.view if key in keys]
            part = table.sum(axis=others).transpose([order.index(key) for key in keys])
            self._folds[name, keys] = np.ascontiguousarray(part).reshape(-1)
        return self._folds[name, keys]

    def law(self, keys: tuple[int, ...]) -> Floats | None:
        if keys not in self._laws:
            self._laws[keys] = nearest_of(self, keys, self.levels)
        return self._laws[keys]


class PrintedEvidence(WholeEvidence):
    """IOH as the paper prints it: every cell from its own bit, without a constraint on the sum."""

    def __init__(self, plan: Plan, tally: Tally) -> None:
        super().__init__(plan, tally)
        if bits_of_states(self.channel) is None:
            raise PlanError("the printed estimator is IOH's")

    def _offset(self, weights: Floats) -> Floats:
        return np.zeros(weights.shape[1])


class SimplexEvidence(WholeEvidence):
    """The law of all states after projection onto the simplex (Norm-Sub)."""

    def law(self, keys: tuple[int, ...]) -> Floats | None:
        if not self.speaks_of(keys):
            return None
        return self.folded("states", keys).reshape((self.levels + 1,) * len(keys))


def bits_of_states(channel: Channel) -> OneHotBits | None:
    """The bits of a channel in which every state has its own bit and a report marks the set ones."""
    bits = None if channel.one_cell else channel.one_hot_bits
    return bits if bits is not None and not bits.silent and bits.lift else None


WHOLE = {
    "pooled": WholeEvidence,
    "least_squares": WholeEvidence,
    "printed": PrintedEvidence,
    "simplex": SimplexEvidence,
}
"""Evidence by the name of the estimator."""
