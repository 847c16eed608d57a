"""Decoding of items and pairs of items under hashing: their frequencies and covariances.

Scores are defined in ``pool_decoder``, the core in ``collision_matrix``. Collisions of the other items
with the core are subtracted. Collisions among the other items are estimated from the tally and added to
their variance. Covariances are sums over cells of weight x weight x observed share.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...channel import Collision
from ...foundation.arrays import Floats, Integers
from ...foundation.errors import PlanError
from ...plan.encoding import pair_item
from .collision_matrix import collided, core_size, excess, undoing
from .pool_decoder import energy_of

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...plan.tally import Tally


class Scores:
    """Frequencies of items from a tally, with their covariances."""

    def __init__(self, channel: Collision, counts: Integers, singles: int) -> None:
        self.channel = channel
        self.reports = int(counts.sum())
        grid = np.asarray(counts, np.float64).reshape(channel.pool, channel.small)
        self._grid = grid
        self.shares = grid / max(self.reports, 1)
        # One report, spread evenly, is added, because a single report has no spread.
        self._seen = (grid + 1.0 / channel.cells) / (self.reports + 1)
        self.core = core_size(channel, singles, self.reports * channel.gain**2 * self.energy)
        self._core_hashes = channel.hashes(np.arange(self.core)).astype(np.int32)

    @cached_property
    def _seeds(self) -> Integers:
        return np.arange(self.channel.pool)[:, None]

    @cached_property
    def _even(self) -> Floats:
        return np.full(self.channel.pool, 1.0 / self.channel.pool)

    @cached_property
    def _core_named(self) -> Floats:
        """The share of reports in the cells of each core item."""
        return np.asarray(self._seen[self._seeds, self._core_hashes].sum(axis=0))

    def _scored(self, hashes: np.ndarray) -> Floats:
        """Scores of items, from the share of reports in their cells."""
        named = self.shares[self._seeds, hashes].sum(axis=0)
        return np.asarray((named - 1.0 / self.channel.small) / self.channel.gain)

    @cached_property
    def _solved(self) -> tuple[Floats, Floats, Floats]:
        """Frequencies of the core, their covariance, and the inverse of the collision matrix."""
        hashes = self._core_hashes
        weighted = collided(hashes, self._seen)
        undo = undoing(self.channel, self.core)[0]
        values: Floats = undo @ self._scored(hashes)
        spread: Floats = undo @ self._spread(weighted, np.diag(weighted), np.diag(weighted)) @ undo.T
        return values, spread, undo

    def _spread(self, both: Floats, first: Floats, second: Floats) -> Floats:
        """Covariance of scores, from the shares of reports in both cells and in each."""
        scale = self.channel.gain**2 * max(self.reports, 1)
        return np.asarray((both - np.outer(first, second)) / scale)

    def _met(self, hashes: np.ndarray, others: np.ndarray) -> tuple[Floats, Floats]:
        """Share of seeds under which items collide, and share of reports in their common cells."""
        named = self._seen[self._seeds, hashes]
        collisions = np.empty((hashes.shape[1], others.shape[1]))
        both = np.empty_like(collisions)
        cells, others = hashes.astype(np.int32), others.astype(np.int32, copy=False)
        for i in range(hashes.shape[1]):
            same = (others == cells[:, i, None]).astype(np.float64)
            collisions[i], both[i] = np.stack([self._even, named[:, i]]) @ same
        return collisions, both

    def of(self, items: Integers) -> tuple[Floats, Floats]:
        """Estimated frequencies of distinct items, and their covariance."""
        items = np.asarray(items, np.int64)
        inside = items < self.core
        own, other = items[inside], items[~inside]
        values = np.empty(len(items))
        spread = np.empty((len(items), len(items)))
        if len(own):
            core, of_core, _ = self._solved
            values[inside] = core[own]
            spread[np.ix_(inside, inside)] = of_core[np.ix_(own, own)]
            spread[inside, inside] += self.pool_variance
        if len(other):
            values[~inside], cross, outer = self._outside(other)
            spread[np.ix_(~inside, ~inside)] = outer
            spread[np.ix_(~inside, inside)] = cross[:, own]
            spread[np.ix_(inside, ~inside)] = cross[:, own].T
        return values, spread

    def _outside(self, items: Integers) -> tuple[Floats, Floats, Floats]:
        """Frequencies of items outside the core, their covariance with the core, and their own."""
        hashes = self.channel.hashes(items)
        values, named = self._scored(hashes), self._seen[self._seeds, hashes].sum(axis=0)
        _, both = self._met(hashes, hashes)
        spread = self._spread(both, named, named) + self.pool_variance * np.eye(len(items))
        if not self.core:
            return values, np.zeros((len(items), 0)), spread
        core, of_core, undo = self._solved
        share, both = self._met(hashes, self._core_hashes)
        excess_share = excess(share, self.channel.small)
        with_core = self._spread(both, named, self._core_named) @ undo.T
        cross = with_core - excess_share @ of_core
        spread = (
            spread
            - with_core @ excess_share.T
            - excess_share @ with_core.T
            + excess_share @ of_core @ excess_share.T
        )
        return values - excess_share @ core, cross, spread

    @cached_property
    def pool_variance(self) -> float:
        """Variance over random pools from collisions among items outside the core."""
        if self.core == self.channel.items:
            return 0.0
        energy = self.energy
        if self.core:
            values, spread, _ = self._solved
            energy -= float((values**2 - np.diag(spread)).sum())
        return max(energy, 0.0) / ((self.channel.small - 1) * self.channel.pool)

    @property
    def energy(self) -> float:
        """The sum over all items of their squared frequencies."""
        return energy_of(self.channel, self._grid)[0]


# -- answers ---------------------------------------------------------------------------------------


def scores_of(plan: Plan, tally: Tally) -> Scores:
    """The scores of a tally whose reports are about sets of items."""
    tally.belongs_to(plan)
    channel = plan.view_channels[0]
    if not isinstance(channel, Collision):
        raise PlanError("this estimator is for plans whose reports are about sets of items")
    return Scores(channel, tally.view_counts(0)[1], 2 * len(plan.schema.keys))


class PairEvidence:
    """Evidence of a tally about one key or about two keys together."""

    def __init__(self, plan: Plan, tally: Tally) -> None:
        self.plan = plan
        self._scores = scores_of(plan, tally)
        self.reports = self._scores.reports

    def moments(self, keys: tuple[int, ...], weights: Floats) -> tuple[Floats, Floats] | None:
        """Estimates of E[weights(joint state of the keys)], and their covariance.

        ``weights`` has an axis of 3 for each key (0 not held, 1 low, 2 high) and a last axis for the
        functionals. None if the reports are not about this number of keys together.
        """
        width = len(keys)
        if not 1 <= width <= self.plan.encoding.item_width or len(set(keys)) != width:
            return None
        weights = np.asarray(weights, np.float64)
        if not self.reports:
            count = weights.shape[-1]
            return np.full(count, np.nan), np.full((count, count), np.nan)
        items, item_weights = self._expanded(keys, weights)
        values, spread = self._scores.of(items)
        constant = weights[(0,) * width]
        return constant + values @ item_weights, item_weights.T @ spread @ item_weights

    def _expanded(self, keys: tuple[int, ...], weights: Floats) -> tuple[Integers, Floats]:
        """The items of a functional and its weights on them, with not held = 1 - low - high."""
        if len(keys) == 1:
            return 2 * keys[0] + np.arange(2), weights[1:] - weights[0]
        if keys[0] > keys[1]:
            keys, weights = (keys[1], keys[0]), weights.swapaxes(0, 1)
        first_key, second_key = keys
        none, of_first, of_second = weights[0, 0], weights[1:, 0], weights[0, 1:]
        of_both = weights[1:, 1:] - of_first[:, None] - of_second[None, :] + none
        first = pair_item(len(self.plan.schema.keys), first_key, second_key)
        items = np.concatenate(
            [2 * first_key + np.arange(2), 2 * second_key + np.arange(2), first + np.arange(4)]
        )
        return items, np.concatenate([of_first - none, of_second - none, of_both.reshape(4, -1)])
