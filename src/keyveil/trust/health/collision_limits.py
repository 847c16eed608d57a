"""Limits of ``collision`` pools: how often an honest person can name the cells of a key.

A record puts m items into j <= m different cells of a seed. Each of these cells is named with
probability ``high``, every other cell with w(j), which falls as j rises. For a set of b cells, O of
which hold an item,

    Pr[one of them is named] = mean over seeds of b w(j) + O (high - w(j)).

The unknown part is which other items of the record fall into these cells. The plan's own pool tells how
often each item does. The worst record of at most ``cap`` keys, each with one sign, takes for every m the
largest (or smallest) of these shares. If two items share a cell, j is smaller than m and O is smaller
than the number of items, at most by the number of such pairs:

    O >= sum of items in the cells - pairs of items there,    w(j) <= w(m) + pairs (w(m - 1) - w(m)).

A sum over the pairs of m items is at most half the sum over items of the worst m - 1 partners. All this
holds for every single record, so it holds for every population.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import log

import numpy as np

from ...channel.shapes.collision_channel import Collision
from ...foundation.arrays import WORD, Floats, Integers
from ...foundation.tails import exponential_bound

MOST_FOLLOWED = 1 << 25
"""Maximum of items times seeds, pairs of keys included, for which limits are computed."""
MOST_COMPARED = 1 << 30
"""Maximum of pairs of items times seeds for which shared cells are counted."""
MOST_TRIPLED = 1 << 34
"""The same for triples of items. Above it, the least share of an item ignores other items."""
MOST_PAIRED = 2048
"""Maximum number of items that are compared pair by pair, if pairs of keys are items too."""
ROUNDED = 1e-9
"""Upper bound on the difference between integers over 2^32 and the shares that they stand for."""


@dataclass(frozen=True)
class PoolLimits:
    """The least and the largest probability that a person names a cell of a key."""

    item: Floats
    """The least probability of each sign's cell; low and high of every key in turn."""
    least: Floats
    most: Floats
    """The limits of the cells of either sign, one entry per key."""
    lost: Floats
    """For people with 0 .. cap keys, the largest mean number of items that share a cell with another."""


@lru_cache(maxsize=4)
def collision_limits(channel: Collision, keys: int, cap: int) -> PoolLimits | None:
    """The limits of every key of a pool; None if there are too many keys."""
    pool, items = channel.pool, channel.items
    if items * pool > MOST_FOLLOWED or (2 * keys) ** 2 * pool > MOST_COMPARED:
        return None
    law = _Weights.of(channel)
    kind = np.int16 if channel.small < 1 << 15 else np.int32
    cells = np.ascontiguousarray(channel.hashes(np.arange(items)).T.astype(kind))
    singles = cells[: 2 * keys]
    shares, least = np.empty((2 * keys, 2 * keys)), np.full(2 * keys, law.least)
    tripled = (2 * keys) ** 3 * pool <= MOST_TRIPLED and items == 2 * keys
    for item, own in enumerate(singles):
        same = singles == own
        shares[item] = same.mean(axis=1)
        if tripled:
            there = least_there(shares[item], two_in(same, item, cap, 2), item, 2)
            least[item] = _least_item(law, there)
    apart = 1.0 - np.diagonal(shares[::2, 1::2])
    others = PairItems(cells[2 * keys :], channel.small) if items > 2 * keys else None
    lost = _lost(shares if others is None else None, cells, cap)
    most = [
        _most_of_key(law, shares, key, float(apart[key]), lost, others, singles, cap)
        for key in range(keys)
    ]
    return PoolLimits(least, (1.0 + apart) * law.least, np.minimum(most, 1.0), lost)


@dataclass(frozen=True)
class _Weights:
    """The probability of a cell with an item, and of one without an item if j cells hold one."""

    high: float
    low: Floats
    """Lower bounds of w(j), which fall as j rises."""
    over: Floats
    """Upper bounds of w(j)."""

    @staticmethod
    def of(channel: Collision) -> _Weights:
        weights = [channel.low(j) for j in range(channel.held + 1)]
        low = np.minimum.accumulate([weight / WORD for weight, _ in weights])
        over = np.array([(weight + bool(rest)) / WORD for weight, rest in weights])
        return _Weights(channel.high / WORD, low, np.maximum.accumulate(over[::-1])[::-1])

    @property
    def least(self) -> float:
        return float(min(self.high, self.low.min()))

    def more(self, items: int, lost: float) -> float:
        """An upper bound on the mean of w(j) - w(items), if ``lost`` items share a cell on average."""
        if items < 2:
            return 0.0
        shared = np.arange(1, items)
        slopes = (self.over[items - shared] - self.low[items]) / shared
        return float(min(lost * max(slopes.max(), 0.0), self.over[1] - self.low[items]))


def two_in(same: np.ndarray, item: int, cap: int, signs: int) -> Floats:
    """For each other item and 0 .. cap members, its part of the pairs that fall into the item's cell."""
    if cap < 2:
        return np.zeros((len(same), cap + 1))
    bits = np.packbits(np.pad(same, ((0, 0), (0, -same.shape[1] % 64))), axis=1).view(np.uint64)
    bits[item] = 0
    pairs = np.bitwise_count(bits[:, None] & bits).sum(axis=2, dtype=np.float64)
    return _halves(pairs / same.shape[1], cap, signs)


def _halves(pairs: Floats, cap: int, signs: int) -> Floats:
    """For each item, half the sum of its worst m - 1 partners, m = 0 .. cap; one sign of each key."""
    rows = np.arange(len(pairs))
    by_key = pairs.reshape(len(pairs), -1, signs).max(axis=2)
    by_key[rows, rows // signs] = 0.0
    partners = max(0, min(cap - 1, by_key.shape[1]))
    sums = np.zeros((len(pairs), cap + 1))
    sums[:, 2 : 2 + partners] = np.cumsum(-np.sort(-by_key, axis=1)[:, :partners], axis=1) / 2
    sums[:, 2 + partners :] = sums[:, [min(1 + partners, cap)]]
    return sums


def least_there(shares: Floats, halves: Floats, own: int, signs: int) -> Floats:
    """The least share of seeds under which one of 0 .. cap other items is in the item's cell."""
    there = (shares[:, None] - halves).T
    there[:, own] = np.inf  # itself is not held
    by_key = np.sort(there.reshape(len(there), -1, signs).min(axis=2), axis=1)
    sums = np.concatenate([np.zeros((len(there), 1)), np.cumsum(by_key, axis=1)], axis=1)
    counts = np.minimum(np.arange(len(there)), by_key.shape[1])
    return np.clip(np.nan_to_num(sums[np.arange(len(there)), counts], nan=0.0, posinf=0.0), 0.0, 1.0)


def _most_pairs(halves: Floats, signs: int) -> Floats:
    """The largest sum over the pairs of 0 .. cap members."""
    by_key = -np.sort(-halves.reshape(-1, signs, halves.shape[1]).max(axis=1), axis=0)
    return np.array([by_key[:count, count].sum() for count in range(halves.shape[1])])


def _least_item(law: _Weights, there: Floats) -> float:
    """The least probability that an item's cell is named, from the least shares of other items there."""
    low, over = law.low[: len(there)], law.over[: len(there)]
    return min(law.high, float((low + there * np.maximum(law.high - over, 0.0)).min()))


def _lost(shares: Floats | None, cells: Integers, cap: int) -> Floats:
    """For 0 .. cap keys, the largest mean number of their items that share a cell with another."""
    if shares is not None:
        return _most_pairs(_halves(shares, cap, 2), 2)
    held = np.arange(cap + 1) * np.arange(1, cap + 2) // 2  # keys, and pairs of keys
    if len(cells) > MOST_PAIRED:
        return held.astype(np.float64)
    same_cell = np.array([(cells == own).mean(axis=1) for own in cells])
    return _most_pairs(_halves(same_cell, int(held[-1]), 1), 1)[held]


class PairItems:
    """Items that are pairs of keys: which of them fall into a cell under each seed."""

    def __init__(self, cells: Integers, small: int) -> None:
        self.count, pool = cells.shape
        self._small = small
        self._order = np.empty((pool, self.count), np.int32)
        here = np.empty((pool, small), np.int64)
        for seed in range(pool):
            row = cells[:, seed]
            self._order[seed] = np.argsort(row, kind="stable")
            here[seed] = np.bincount(row, minlength=small)
        self._here = here.ravel()
        self._first = np.cumsum(self._here) - self._here

    def meeting(self, own: Integers) -> Floats:
        """For each pair the share of seeds under which it falls into the cell ``own`` of the seed."""
        at = np.arange(len(own)) * self._small + own
        sizes = self._here[at]
        places = np.repeat(self._first[at] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
        return np.bincount(self._order.ravel()[places], minlength=self.count) / len(own)


def _most_of_key(
    law: _Weights,
    shares: Floats,
    key: int,
    apart: float,
    lost: Floats,
    others: PairItems | None,
    singles: Integers,
    cap: int,
) -> float:
    """The largest probability that a cell of either sign is named, by holders of the key or others."""
    signs = shares[2 * key : 2 * key + 2]
    elsewhere = np.arange(shares.shape[1] // 2) != key
    by_key = [side.reshape(-1, 2).max(axis=1)[elsewhere] for side in (*signs, signs.sum(axis=0))]
    single = np.maximum(*(largest_sums(side, cap) for side in by_key[:2]))
    either = largest_sums(by_key[2], cap)
    pairs = np.arange(cap + 1) * np.arange(-1, cap) // 2 * (others is not None)
    if others is not None:
        low, high = (others.meeting(singles[2 * key + sign]) for sign in (0, 1))
        most = int(pairs[-1])
        single_pairs = np.maximum(largest_sums(low, most), largest_sums(high, most))[pairs]
        either_pairs = largest_sums(low + high, most)[pairs]
    else:
        single_pairs = either_pairs = np.zeros(cap + 1)
    largest = (1 + apart) * float(law.over[0])
    for count in range(1, cap + 1):
        items = count + int(pairs[count])
        rest, more = float(law.over[items]), law.more(items, float(lost[count]))
        gain = max(law.high - float(law.low[items]), 0.0)
        mirrored = min(float(single[count - 1] + single_pairs[count]), apart)
        holding = law.high + apart * (rest + more) + mirrored * gain
        there = min(float(either[count] + either_pairs[count]), 1 + apart)
        largest = max(largest, holding, (1 + apart) * (rest + more) + there * gain)
    return largest


def largest_sums(values: Floats, most: int) -> Floats:
    """The sums of the 0 .. most largest values."""
    count = min(most, len(values))
    largest = np.partition(values, len(values) - count)[len(values) - count :] if count else values[:0]
    sums = np.concatenate([[0.0], np.cumsum(-np.sort(-largest))])
    return np.append(sums, np.full(most - count, sums[-1]))


def too_many(channel: Collision, keys: int, grid: Floats, limits: PoolLimits) -> float:
    """Chernoff's bound on the probability of this total of held keys, with at most ``held`` per person.

    A report counts once for each item in its cell under its seed. ``grid`` holds the counts of a tally,
    ``(seeds, cells)``.
    """
    at = channel.hashes(np.arange(2 * keys))
    scores = members(channel, at) - 2 * keys / channel.small
    n, total = float(grid.sum()), float((grid * scores).sum())
    if total <= n * channel.gain * channel.held:
        return 1.0

    def exponent(tilt: float) -> float:
        return n * log(most_grown(channel, at, tilt * scores, limits)) - tilt * total

    return float(exponential_bound(exponent, 0.0, 8.0 / max(float(scores.max()), 1.0), 40))


def members(channel: Collision, at: Integers) -> Floats:
    """The number of items in each cell, ``(seeds, cells)``."""
    flat = np.arange(channel.pool)[:, None] * channel.small + at
    counts = np.bincount(flat.ravel(), minlength=channel.cells)
    return counts.reshape(channel.pool, -1).astype(np.float64)


def most_grown(channel: Collision, at: Integers, scores: Floats, limits: PoolLimits) -> float:
    """An upper bound on the expectation of exp(score of the report) over all records.

    ``scores`` is ``(seeds, cells)``. Let y be exp(score) minus its mean over the cells of a seed, and t
    the number of cells. For m items in j cells the expectation is the mean of exp(score) plus gain t /
    (t - j) times the sum of y over the j cells.
    """
    small, held = channel.small, channel.held
    grown = np.exp(scores)
    even = grown.mean(axis=1, keepdims=True)
    over = grown - even
    by_key = over[np.arange(channel.pool)[:, None], at].mean(axis=0).reshape(-1, 2).max(axis=1)
    sizes = np.arange(held + 1)
    factor = small / (small - sizes)
    step = np.diff(factor, prepend=factor[:1])
    fall = max(0.0, -float(over.min()))
    more = factor * largest_sums(by_key, held) + limits.lost * fall * (factor + sizes * step)
    rounded = small * float(grown.max()) / WORD
    return float(even.mean()) + channel.gain * float(more.max()) + rounded
