"""Decoding collisions: how often each item's cell is named, and what the pool's collisions explain.

The score of an item is the share of reports whose cell is the item's own under the report's seed,
less 1/t, by ``high`` less 1/t. Over all hashes it is unbiased. Over the fixed seeds of a pool the
scores of a population with frequencies x are on average A x, where A_ij = (c_ij - 1/t) / (1 - 1/t)
and c_ij is the share of seeds on which items i and j collide: the best linear prediction for any
sizes of sets, and exact for sets of one. What it leaves is of second order (three items at a time) and
falls with the pool: measured with four keys held, it adds about 1 % to the variance at a million reports
and 1,024 seeds; in proportion more with more reports, so that ten million want a larger pool.

The *core* are the items whose A is undone by a dense solve: all items, or only the single keys, or
none, the first of these that is affordable and takes away more than it costs. Left alone, the pool adds
a part n gain^2 sum(x^2) / G to the variance; undoing it for k items adds about k / (G (t - 1)), and is
always done where that is at most ``SMALL_SHARE``. Items outside the core are relieved of what collides
with the core; what they do to each other is estimated from the tally (two reports with one seed agree
more often than 1/t) and added to their variance.

Covariances are those of the tally's own cell weights: sums over cells of weight x weight x share.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Floats, Integers
from ..channel import Collision
from ..encode import SETS, pair_item
from ..errors import PlanError
from .answer import Answers
from .linear import Moments, answers_of, key_answers
from .predict import Predicted

if TYPE_CHECKING:
    from ..plan import Plan
    from ..tally import Tally

MOST_CORE = 4096
"""Items of a dense solve."""
MOST_SHARE = 1 / 4
"""Items of the core by cells of the pool: more would blow up the noise."""
SMALL_SHARE = 1 / 64
"""Up to so many the solve costs next to nothing."""
MOST_PAIRS = 1 << 29
"""Collisions that are counted one by one for a core."""
_BLOCK = 1 << 22
_SINGULAR = 1e6


class Scores:
    """Items' frequencies from one collision's tally, with any of their covariances."""

    def __init__(self, channel: Collision, counts: Integers, singles: int) -> None:
        self.channel = channel
        self.reports = int(counts.sum())
        grid = np.asarray(counts, np.float64).reshape(channel.pool, channel.small)
        self._grid = grid
        self.shares = grid / max(self.reports, 1)
        # One more report, spread evenly, for caution: one report alone has no spread.
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
        together, weighted = _collided(hashes, self._seen)
        excess = _excess(together / self.channel.pool, self.channel.small)
        undo = _undone(excess)
        values: Floats = undo @ self._scored(hashes)
        spread: Floats = undo @ self._spread(weighted, np.diag(weighted), np.diag(weighted)) @ undo.T
        return values, spread, undo

    def _spread(self, both: Floats, one: Floats, two: Floats) -> Floats:
        """Covariance of scores, from how often both cells, and how often each, is named."""
        scale = self.channel.gain**2 * max(self.reports, 1)
        return np.asarray((both - np.outer(one, two)) / scale)

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
        if len(other):
            values[~inside], cross, outer = self._outside(other)
            spread[np.ix_(~inside, ~inside)] = outer
            spread[np.ix_(~inside, inside)] = cross[:, own]
            spread[np.ix_(inside, ~inside)] = cross[:, own].T
        return values, spread

    def _outside(self, items: Integers) -> tuple[Floats, Floats, Floats]:
        """Items outside the core: frequencies, covariance with the core's, covariance of their own."""
        hashes = self.channel.hashes(items)
        values, one = self._scored(hashes), self._seen[self._seeds, hashes].sum(axis=0)
        _, both = self._met(hashes, hashes)
        spread = self._spread(both, one, one) + self.pool_variance * np.eye(len(items))
        if not self.core:
            return values, np.zeros((len(items), 0)), spread
        core, of_core, undo = self._solved
        share, both = self._met(hashes, self._core_hashes)
        pull = _excess(share, self.channel.small)
        told = (
            self._spread(both, one, self._core_named) @ undo.T
        )  # covariance of these scores with the core
        cross = told - pull @ of_core
        spread = spread - told @ pull.T - pull @ told.T + pull @ of_core @ pull.T
        return values - pull @ core, cross, spread

    @cached_property
    def pool_variance(self) -> float:
        """What items outside the core do to each other by colliding: a variance over random pools."""
        if self.core == self.channel.items:
            return 0.0
        energy = self.energy
        if self.core:
            values, spread, _ = self._solved
            energy -= float((values**2 - np.diag(spread)).sum())
        return max(energy, 0.0) / ((self.channel.small - 1) * self.channel.pool)

    @property
    def energy(self) -> float:
        """The sum over all items of their squared frequencies: reports of one seed agree more for it."""
        each = self._grid.sum(axis=1)
        pairs = float((each * (each - 1)).sum())
        if pairs <= 0:
            return 0.0
        agree = float((self._grid * (self._grid - 1)).sum()) / pairs
        part = 1.0 / self.channel.small
        return (agree - part) * (1.0 - part) / self.channel.gain**2

    def singles(self, keys: int) -> tuple[Floats, Floats]:
        """Low and high of every key: frequencies (keys, 2) and covariances (keys, 2, 2)."""
        if self.core >= 2 * keys:
            core, of_core, _ = self._solved
            at = np.arange(2 * keys).reshape(keys, 2)
            return core[at], of_core[at[:, :, None], at[:, None, :]]
        values, spread = np.empty((keys, 2)), np.empty((keys, 2, 2))
        step = max(1, _BLOCK // (2 * self.channel.pool))
        for first in range(0, keys, step):
            rows = slice(first, min(first + step, keys))
            hashes = self.channel.hashes(np.arange(2 * rows.start, 2 * rows.stop))
            values[rows] = self._scored(hashes).reshape(-1, 2)
            seen = self._seen[self._seeds, hashes]
            named = seen.sum(axis=0).reshape(-1, 2)
            same = ((hashes[:, 0::2] == hashes[:, 1::2]) * seen[:, 0::2]).sum(axis=0)
            both = np.stack([named[:, 0], same, same, named[:, 1]], axis=1).reshape(-1, 2, 2)
            scale = self.channel.gain**2 * max(self.reports, 1)
            spread[rows] = (both - named[:, :, None] * named[:, None, :]) / scale
        return values, spread + self.pool_variance * np.eye(2)


def core_size(channel: Collision, singles: int, told: float) -> int:
    """How many items, from item 0 on, are solved for; ``told`` is n gain^2 sum(x^2)."""
    for count in (channel.items, singles):
        share = count / (channel.pool * (channel.small - 1))
        counted = channel.pool * count**2 // (2 * channel.small)
        if count > MOST_CORE or share > MOST_SHARE or counted > MOST_PAIRS:
            continue
        if share <= SMALL_SHARE or told / channel.pool > share / (1 - share):
            return count
    return 0


def _excess(share: Floats, small: int) -> Floats:
    """``(c - 1/t) / (1 - 1/t)``: 1 for an item with itself, 0 on average for two."""
    return np.asarray((share - 1.0 / small) / (1.0 - 1.0 / small))


def _undone(excess: Floats) -> Floats:
    """The inverse; of a pool that cannot tell some items apart, the inverse where it can."""
    try:
        undo = np.asarray(np.linalg.inv(excess), np.float64)
    except np.linalg.LinAlgError:
        undo = np.full_like(excess, np.inf)
    if np.abs(undo).max(initial=0.0) < _SINGULAR:
        return undo
    return np.asarray(np.linalg.pinv(excess, rcond=1 / _SINGULAR, hermitian=True), np.float64)


def _collided(hashes: np.ndarray, seen: Floats) -> tuple[Floats, Floats]:
    """On how many seeds items collide, and the share of reports in the cells where they do.

    Items are sorted by their cell, seed by seed: those that collide are then neighbours, next ones,
    next but one, and so on until no two are so far apart in one cell.
    """
    seeds, items = hashes.shape
    together, weighted = np.zeros(items * items), np.zeros(items * items)
    step = max(1, _BLOCK // max(items, 1))
    for first in range(0, seeds, step):
        block = hashes[first : first + step]
        order = np.argsort(block, axis=1, kind="stable")
        cells = np.take_along_axis(block, order, axis=1)
        named = np.take_along_axis(seen[first : first + step], cells, axis=1)
        for lag in range(1, items):
            same = cells[:, lag:] == cells[:, :-lag]
            if not same.any():
                break
            at = order[:, :-lag][same] * items + order[:, lag:][same]
            together += np.bincount(at, minlength=items * items)
            weighted += np.bincount(at, named[:, lag:][same], minlength=items * items)
    together, weighted = together.reshape(items, items), weighted.reshape(items, items)
    together, weighted = together + together.T, weighted + weighted.T
    np.fill_diagonal(together, seeds)
    np.fill_diagonal(weighted, seen[np.arange(seeds)[:, None], hashes].sum(axis=0))
    return together, weighted


# -- answers ---------------------------------------------------------------------------------------


def scores_of(plan: Plan, tally: Tally) -> Scores:
    """The scores of a tally of a plan that speaks of sets."""
    tally.belongs_to(plan)
    channel = plan.view_channels[0]
    if plan.encode not in SETS or not isinstance(channel, Collision):
        raise PlanError("this estimator is for plans that speak of sets of items")
    return Scores(channel, tally.view_counts(0)[1], 2 * len(plan.schema.keys))


def least_squares(plan: Plan, tally: Tally, level: float) -> Answers:
    """Frequency and mean of every key, of at most ``cap`` keys a person."""
    scores, keys = scores_of(plan, tally), len(plan.schema.keys)
    ends, spread = (
        scores.singles(keys) if tally.reports else (np.zeros((keys, 2)), np.zeros((keys, 2, 2)))
    )
    turn = np.array([[1.0, 1.0], [-1.0, 1.0]])  # frequency and mass from low and high
    moments = Moments(np.full(keys, tally.reports, np.int64), ends @ turn.T, turn @ spread @ turn.T)
    return answers_of(plan, key_answers(plan, moments, level), "least_squares", level)


def predicted_variance(
    channel: Collision, people: float, frequency: float, mean: float, energy: float = 0.0
) -> Predicted:
    """Variances of a key's answers when ``people`` answer; those of a pair are of the same form.

    ``energy`` is the sum of squared frequencies of items that decoding does not correct for.
    """
    part, gain = 1.0 / channel.small, channel.gain
    low, high = (part + gain * frequency * (1 + sign * mean) / 2 for sign in (-1, 1))
    both = part * (part + gain * frequency)  # the two ends collide under one seed in t
    pool = energy / ((channel.small - 1) * channel.pool)
    scale = gain**2 * people
    of_frequency = (low + high + 2 * both - (low + high) ** 2) / scale + 2 * pool
    of_mass = (low + high - 2 * both - (high - low) ** 2) / scale + 2 * pool
    shared = (high - low - (high**2 - low**2)) / scale
    if frequency <= 0:
        return Predicted(of_frequency, float("nan"), of_mass)
    of_mean = (of_mass - 2 * mean * shared + mean**2 * of_frequency) / frequency**2
    return Predicted(of_frequency, of_mean, of_mass)


class PairEvidence:
    """What a tally says of one key, or of two keys together, as estimates with their covariance."""

    def __init__(self, plan: Plan, tally: Tally) -> None:
        self.plan = plan
        self._scores = scores_of(plan, tally)
        self.reports = self._scores.reports

    def moments(self, keys: tuple[int, ...], weights: Floats) -> tuple[Floats, Floats] | None:
        """Estimates of E[weights(joint state of the keys)], and their covariance.

        ``weights`` has an axis of 3 for each key (0 not held, 1 low, 2 high), and a last one for the
        functionals. None if the reports do not speak of so many keys at a time.
        """
        width = len(keys)
        if width not in (1, 2) or len(set(keys)) != width:
            return None
        if width == 2 and self.plan.encode != "pair_items":
            return None
        weights = np.asarray(weights, np.float64)
        if not self.reports:
            count = weights.shape[-1]
            return np.full(count, np.nan), np.full((count, count), np.nan)
        items, worth = self._expanded(keys, weights)
        values, spread = self._scores.of(items)
        constant = weights[(0,) * width]
        return constant + values @ worth, worth.T @ spread @ worth

    def _expanded(self, keys: tuple[int, ...], weights: Floats) -> tuple[Integers, Floats]:
        """The items that a functional is made of, and its weight on each; not held = 1 - low - high."""
        if len(keys) == 1:
            return 2 * keys[0] + np.arange(2), weights[1:] - weights[0]
        if keys[0] > keys[1]:
            keys, weights = (keys[1], keys[0]), weights.swapaxes(0, 1)
        one, two = keys
        none, of_one, of_two = weights[0, 0], weights[1:, 0], weights[0, 1:]
        of_both = weights[1:, 1:] - of_one[:, None] - of_two[None, :] + none
        first = pair_item(len(self.plan.schema.keys), one, two)
        items = np.concatenate([2 * one + np.arange(2), 2 * two + np.arange(2), first + np.arange(4)])
        return items, np.concatenate([of_one - none, of_two - none, of_both.reshape(4, -1)])
