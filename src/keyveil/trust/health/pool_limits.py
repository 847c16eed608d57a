"""Limits of hash pools: how often an honest person can name the cells of a key, whatever else is held.

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

In ``coco`` cells come in mirrored pairs. A claimed pair has the probability high + low, whoever claims
it, and its cells differ by at most high - low. Other keys fall into the pair with either sign, which
nearly cancels over seeds. Everyone claims ``held`` pairs; dummies are drawn evenly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from math import log

import numpy as np

from ...channel.honest_limits import HonestLimits
from ...channel.law import Channel
from ...channel.shapes.coco_channel import CoCo
from ...channel.shapes.collision_channel import Collision
from ...channel.shapes.hash import MOST_HASHED
from ...channel.shapes.seed_pool import SeedPool
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
_ROUNDED = 1e-9
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


@dataclass(frozen=True)
class Mirrored:
    """CoCo's limits from people who do not hold a key, one entry per key.

    ``least`` is the least share of the key's pair of cells, ``apart`` the largest difference of the two.
    """

    least: Floats
    apart: Floats


# -- what health asks of a pool's shape --------------------------------------------------------------


@singledispatch
def least_of_items(channel: Channel, keys: int, cap: int) -> Floats | None:
    """The least probability that each signed key's cell is named; None to use the shape's own limit."""
    return None


@singledispatch
def limits_of_keys(channel: Channel, keys: int, cap: int) -> tuple[Floats, Floats] | None:
    """The least and the largest probability that a cell of either sign of each key is named."""
    return None


@singledispatch
def odd_sets(
    channel: Channel, keys: list[str], cap: int, n: float, grid: Floats
) -> Iterator[tuple[str, float]]:
    """P-values, by name, of what keys say together. ``grid`` holds the counts, ``(seeds, cells)``."""
    return iter(())


def either_sign(channel: SeedPool, keys: int, cap: int, counts: Floats) -> HonestLimits | None:
    """How often a cell of either sign of each key is named, with its limits."""
    if 2 * keys * channel.pool > MOST_HASHED:
        return None
    ends = limits_of_keys(channel, keys, cap)
    if ends is None:
        return None
    at = channel.item_cells(np.arange(2 * keys))
    low, high = at[:, ::2], at[:, 1::2]
    grid, seeds = counts.reshape(channel.pool, -1), np.arange(channel.pool)[:, None]
    named = grid[seeds, high].sum(axis=0) + np.where(low != high, grid[seeds, low], 0.0).sum(axis=0)
    return HonestLimits(named, *ends)


# -- collision ---------------------------------------------------------------------------------------


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
            there = _least_there(shares[item], _two_in(same, item, cap, 2), item, 2)
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


def _two_in(same: np.ndarray, item: int, cap: int, signs: int) -> Floats:
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


def _least_there(shares: Floats, halves: Floats, own: int, signs: int) -> Floats:
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
    single = np.maximum(*(_tops(side, cap) for side in by_key[:2]))
    either = _tops(by_key[2], cap)
    pairs = np.arange(cap + 1) * np.arange(-1, cap) // 2 * (others is not None)
    if others is not None:
        low, high = (others.meeting(singles[2 * key + sign]) for sign in (0, 1))
        most = int(pairs[-1])
        single_pairs = np.maximum(_tops(low, most), _tops(high, most))[pairs]
        either_pairs = _tops(low + high, most)[pairs]
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


def _tops(values: Floats, most: int) -> Floats:
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
    more = factor * _tops(by_key, held) + limits.lost * fall * (factor + sizes * step)
    rounded = small * float(grown.max()) / WORD
    return float(even.mean()) + channel.gain * float(more.max()) + rounded


@least_of_items.register
def _(channel: Collision, keys: int, cap: int) -> Floats | None:
    limits = collision_limits(channel, keys, cap)
    return None if limits is None else limits.item


@limits_of_keys.register
def _(channel: Collision, keys: int, cap: int) -> tuple[Floats, Floats] | None:
    limits = collision_limits(channel, keys, cap)
    return None if limits is None else (limits.least, limits.most)


@odd_sets.register
def _(
    channel: Collision, keys: list[str], cap: int, n: float, grid: Floats
) -> Iterator[tuple[str, float]]:
    """Test for more held keys in all than people may hold."""
    limits = collision_limits(channel, len(keys), cap) if channel.items == 2 * len(keys) else None
    if limits is not None:
        yield "all keys", too_many(channel, len(keys), grid, limits)


# -- coco --------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def coco_limits(channel: CoCo, keys: int) -> Mirrored | None:
    """The limits of each key's pair of cells from people without the key; None if keys are too many."""
    pool, held, half = channel.pool, channel.held, channel.small // 2
    if keys**3 * pool > MOST_TRIPLED:
        return None
    words = channel.words_under(np.arange(keys)).T
    cell = (words >> np.uint64(32)).astype(np.int64)
    free = 1.0 - (words & np.uint64(WORD - 1)).astype(np.float64) / WORD / half
    pair, upper = np.ascontiguousarray((cell % half).astype(np.int32)), cell >= half
    claimed = (channel.high + channel.low) / WORD
    left = min(claimed, *(2 * weight / WORD for weight, _ in map(channel.left, range(held + 1))))
    dummies = held - np.arange(held + 1)
    least, apart = np.empty(keys), np.empty(keys)
    for key in range(keys):
        same = pair == pair[key]
        halves = _two_in(same, key, held, 1)
        there = _least_there(same.mean(axis=1), halves, key, 1)
        nobody = (1.0 - there) * (1.0 - 1.0 / half) ** dummies
        least[key] = (claimed - nobody * (claimed - left)).min()
        same[key] = False
        who, seeds = np.nonzero(same)
        sign = np.where(upper[who, seeds] == upper[key, seeds], 1.0, -1.0)
        lent = 0.0
        for count, others in enumerate(dummies.tolist()):
            shift = np.abs(np.bincount(who, sign * free[who, seeds] ** others, keys)) / pool
            lent = max(lent, float(_tops(shift + halves[:, count], count)[count]))
        apart[key] = min(lent, 1.0)
    return Mirrored(least - _ROUNDED, apart * (channel.high - channel.low) / WORD + _ROUNDED)


def one_sided(channel: CoCo, limits: Mirrored, n: float, signs: Floats) -> Floats:
    """P-values ``(keys, 2)`` of an excess of a key's low cell over its high cell, and the reverse.

    ``signs`` holds the counts of each key's low and high cell. For holders of the key the two have a sum
    of high + low and a difference of at most high - low. For others the sum may be smaller and the
    difference is small. A point beyond the line between the two is a mass above its frequency. The bound
    is Chernoff's: the expectation of exp(tilt ...) is linear in the law, so it is largest at a corner.
    """
    claimed, apart = (channel.high + channel.low) / WORD, (channel.high - channel.low) / WORD
    sums = np.stack([limits.least, limits.least, *(np.full_like(limits.least, claimed),) * 2])
    held = np.full_like(limits.least, apart)
    unlike = np.stack([limits.apart, -limits.apart, held, -held])
    slope = (apart - limits.apart) / np.maximum(claimed - limits.least, 1e-12)
    chances = []
    for this, other in ((signs[:, 0], signs[:, 1]), (signs[:, 1], signs[:, 0])):
        total = this - other - slope * (this + other)

        def exponent(tilt: Floats, total: Floats = total) -> Floats:
            up, down = np.expm1(tilt * (1 - slope)), np.expm1(-tilt * (1 + slope))
            grown = ((sums + unlike) / 2 * up + (sums - unlike) / 2 * down).max(axis=0)
            return np.asarray(n * np.log1p(grown) - tilt * total)

        chances.append(exponential_bound(exponent, np.zeros(len(slope)), np.full(len(slope), 8.0), 100))
    return np.stack(chances, axis=1)


@limits_of_keys.register
def _(channel: CoCo, keys: int, cap: int) -> tuple[Floats, Floats]:
    """A claimed pair of cells has exactly high + low, another pair two shares of the rest."""
    left = [channel.left(claimed) for claimed in range(channel.held + 1)]
    pair = channel.high + channel.low
    least = min(pair, *(2 * weight for weight, _ in left))
    most = max(pair, *(2 * (weight + bool(rest)) for weight, rest in left))
    return np.full(keys, least / WORD), np.full(keys, most / WORD)


@odd_sets.register
def _(channel: CoCo, keys: list[str], cap: int, n: float, grid: Floats) -> Iterator[tuple[str, float]]:
    """Test for a mass above its frequency, for either sign of each key."""
    if 2 * len(keys) * channel.pool > MOST_HASHED:
        return
    limits = coco_limits(channel, len(keys))
    if limits is not None:
        at = channel.item_cells(np.arange(2 * len(keys)))
        signs = grid[np.arange(channel.pool)[:, None], at].sum(axis=0).reshape(-1, 2)
        p_values = one_sided(channel, limits, n, signs)
        yield from zip([key for key in keys for _ in (0, 1)], p_values.ravel().tolist(), strict=True)
