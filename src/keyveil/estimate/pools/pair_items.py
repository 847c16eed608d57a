"""Decoding collisions of items and pairs of items: any of their frequencies, with any covariance.

The scores are those of ``pool_decoder``, the core that of ``collision_matrix``. Items outside the core
are corrected for collisions with it. Their collisions with each other are estimated from the tally and
added to their variance.
Covariances are those of the tally's own cell weights: sums over cells of weight x weight x share.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...channel import Collision
from ...foundation.arrays import Floats, Integers
from ...foundation.errors import PlanError
from ..caution import with_one_more
from .collision_matrix import collided, core_size, excess, undoing

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...plan.tally import Tally


class Scores:
    """Items' frequencies from one collision's tally, with any of their covariances."""

    def __init__(self, channel: Collision, counts: Integers, keys: int) -> None:
        self.channel = channel
        self.reports = int(counts.sum())
        grid = np.asarray(counts, np.float64).reshape(channel.pool, channel.small)
        self._grid = grid
        self.shares = grid / max(self.reports, 1)
        self._seen = with_one_more(grid, 1.0 / channel.cells, self.reports)
        self.core = core_size(channel, keys, self.reports * channel.gain**2 * self.energy)
        self._core_hashes = channel.hashes(np.arange(self.core)).astype(np.int32)

    @cached_property
    def _seeds(self) -> Integers:
        return np.arange(self.channel.pool)[:, None]

    @cached_property
    def _even(self) -> Floats:
        return np.full(self.channel.pool, 1.0 / self.channel.pool)

    @cached_property
    def _core_named(self) -> Floats:
        """The share of reports in each core item's cells."""
        return np.asarray(self._seen[self._seeds, self._core_hashes].sum(axis=0))

    def _scored(self, hashes: np.ndarray) -> Floats:
        """Scores from the share of reports in each item's cells."""
        named = self.shares[self._seeds, hashes].sum(axis=0)
        return np.asarray((named - 1.0 / self.channel.small) / self.channel.gain)

    @cached_property
    def _solved(self) -> tuple[Floats, Floats, Floats]:
        """The core's frequencies, their covariance, and the matrix that undoes its collisions."""
        hashes = self._core_hashes
        weighted = collided(hashes, self._seen)
        undo = undoing(self.channel, self.core)[0]
        values: Floats = undo @ self._scored(hashes)
        spread: Floats = undo @ self._spread(weighted, np.diag(weighted), np.diag(weighted)) @ undo.T
        return values, spread, undo

    def _spread(self, both: Floats, first: Floats, second: Floats) -> Floats:
        """Covariance of scores, from how often both cells, and how often each, is named."""
        scale = self.channel.gain**2 * max(self.reports, 1)
        return np.asarray((both - np.outer(first, second)) / scale)

    def _met(self, hashes: np.ndarray, others: np.ndarray) -> tuple[Floats, Floats]:
        """For items by items: the share of seeds on which they collide, and of reports in that cell."""
        named = self._seen[self._seeds, hashes]
        share = np.empty((hashes.shape[1], others.shape[1]))
        both = np.empty_like(share)
        cells, others = hashes.astype(np.int32), others.astype(np.int32, copy=False)
        for i in range(hashes.shape[1]):
            same = (others == cells[:, i, None]).astype(np.float64)
            share[i], both[i] = np.stack([self._even, named[:, i]]) @ same
        return share, both

    def of(self, items: Integers) -> tuple[Floats, Floats]:
        """Estimated frequencies of some items, each once, and their covariance."""
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
        """Items outside the core: frequencies, covariance with the core's, covariance of their own."""
        hashes = self.channel.hashes(items)
        values, named = self._scored(hashes), self._seen[self._seeds, hashes].sum(axis=0)
        _, both = self._met(hashes, hashes)
        spread = self._spread(both, named, named) + self.pool_variance * np.eye(len(items))
        if not self.core:
            return values, np.zeros((len(items), 0)), spread
        core, of_core, undo = self._solved
        share, both = self._met(hashes, self._core_hashes)
        pull = excess(share, self.channel.small)
        with_core = (
            self._spread(both, named, self._core_named) @ undo.T
        )  # covariance of these scores with the core
        cross = with_core - pull @ of_core
        spread = spread - with_core @ pull.T - pull @ with_core.T + pull @ of_core @ pull.T
        return values - pull @ core, cross, spread

    def expected(self, law: Floats) -> Scores:
        """The same decoder where reports follow a law of seed and cell ``(pool, small)``.

        Its estimates are what is expected, and its covariance is that of as many reports.
        """
        scores = copy(self)
        scores.__dict__.update(pool_variance=self.pool_variance, shares=law, _seen=law)
        for name in ("_solved", "_core_named"):
            scores.__dict__.pop(name, None)
        return scores

    def own_weights(self, items: Integers) -> Floats:
        """Weights ``(items, items)`` of the items' own scores in each of their estimated frequencies.

        Undoing collisions also gives other items small weights; these are not returned.
        """
        inside, weights = items < self.core, np.eye(len(items))
        if inside.any():
            own, undo = items[inside], self._solved[2]
            weights[np.ix_(inside, inside)] = undo[np.ix_(own, own)]
            if not inside.all():
                share, _ = self._met(self.channel.hashes(items[~inside]), self._core_hashes)
                pull = excess(share, self.channel.small)
                weights[np.ix_(~inside, inside)] = -pull @ undo[:, own]
        return weights

    @cached_property
    def pool_variance(self) -> float:
        """What items outside the core do to each other by colliding: a variance over random pools."""
        if self.core == self.channel.items:
            return 0.0
        energy = self.energy
        if self.core:
            values, spread, _ = self._solved
            energy -= float((values**2 - np.diag(spread)).sum())
        return self.channel.item_pool_variance(max(energy, 0.0))

    @property
    def energy(self) -> float:
        """The sum over all items of their squared frequencies: reports of one seed agree more for it."""
        return self.channel.energies(self._grid)[0]


# -- answers ---------------------------------------------------------------------------------------


def scores_of(plan: Plan, tally: Tally) -> Scores:
    """The scores of a tally of a plan that speaks of sets."""
    tally.belongs_to(plan)
    channel = plan.view_channels[0]
    if not isinstance(channel, Collision):
        raise PlanError("this estimator is for plans that speak of sets of items")
    return Scores(channel, tally.view_counts(0)[1], len(plan.schema.keys))
