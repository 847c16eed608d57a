"""Limits of hash pools: how often an honest person can name a key's cells, whatever else is held.

A record puts m items into j <= m different cells of a seed. Each of those is named with ``high``, every
other cell with w(j), which falls as j rises. So of some cells b, of which O have an item,

    Pr[one of them is named] = mean over seeds of b w(j) + O (high - w(j)),

and what is not known of a record is which other items fall into them. Their numbers are counted over
the plan's own pool, and the worst that any record of at most ``cap`` keys, each with one sign, can be
made of is summed up: of every m the largest or the smallest shares. Two items may share a cell, then j
and O are less than m and their number, at most by how many pairs do:

    O >= sum of items in the cells - pairs of items there,    w(j) <= w(m) + pairs (w(m - 1) - w(m)),

and a sum over the pairs of m items is at most that of each one's worst m - 1 others, by two.
All this holds for each single record; so it holds for every population.

With ``coco`` cells come in pairs, mirrored. A pair that is claimed has high + low whoever claims it, and
its cells differ by high - low at the most; the keys that fall into another one's pair do so with either
sign, which nearly cancels over seeds. Everyone claims ``held`` pairs, dummies being drawn evenly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from math import exp, log

import numpy as np

from ...channel.coco_channel import CoCo
from ...channel.collision_channel import Collision
from ...channel.hash import MOST_HASHED
from ...channel.law import Channel, HonestLimits
from ...channel.seed_pool import SeedPool
from ...foundation.arrays import WORD, Floats, Integers

MOST_FOLLOWED = 1 << 25
"""Items times seeds, pairs of keys included, of which it is known which meet."""
MOST_COMPARED = 1 << 30
"""Pairs of items times seeds for which it is counted how often they fall together."""
MOST_TRIPLED = 1 << 34
"""The same of three items; beyond, nothing is taken to fall into an item's cell for certain."""
MOST_PAIRED = 2048
"""Items of which every two are compared, where pairs of keys are items too."""
_ROUNDED = 1e-9
"""More than integers over 2^32 differ from the shares that they stand for."""


@dataclass(frozen=True)
class PoolLimits:
    """The least and the most often that a person names a cell of a key."""

    item: Floats
    """Of each sign's cell the least, low and high of every key in turn."""
    least: Floats
    most: Floats
    """Of the cells of either sign, for every key."""
    lost: Floats
    """Of who holds 0 .. cap keys: how many items, at the most, share a cell with another on average."""


@dataclass(frozen=True)
class Mirrored:
    """Of CoCo's keys: the least share of a pair of cells, and the largest difference of its two
    cells, where the key is not held."""

    least: Floats
    apart: Floats


# -- what health asks of a pool's shape --------------------------------------------------------------


@singledispatch
def least_of_items(channel: Channel, keys: int, cap: int) -> Floats | None:
    """The least probability that each signed key's cell is named; None for the shape's own limit."""
    return None


@singledispatch
def limits_of_keys(channel: Channel, keys: int, cap: int) -> tuple[Floats, Floats] | None:
    """The least and the largest probability that a cell of either sign of each key is named."""
    return None


@singledispatch
def odd_sets(
    channel: Channel, keys: list[str], cap: int, n: float, grid: Floats
) -> Iterator[tuple[str, float]]:
    """Bounds on the chance of what keys say together, by name. ``grid``: counts, seed by cell."""
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
    met = grid[seeds, high].sum(axis=0) + np.where(low != high, grid[seeds, low], 0.0).sum(axis=0)
    return HonestLimits(met, *ends)


# -- collision ---------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def collision_limits(channel: Collision, keys: int, cap: int) -> PoolLimits | None:
    """The limits of every key of a pool; None where they are too many to look at."""
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
    others = _PairItems(cells[2 * keys :], channel.small) if items > 2 * keys else None
    lost = _lost(shares if others is None else None, cells, cap)
    most = [
        _most_of_key(law, shares, key, float(apart[key]), lost, others, singles, cap)
        for key in range(keys)
    ]
    return PoolLimits(least, (1.0 + apart) * law.least, np.minimum(most, 1.0), lost)


@dataclass(frozen=True)
class _Weights:
    """A collision's weights as shares: of a cell with an item, and without one if j cells have one."""

    high: float
    low: Floats
    """From below; they fall as j rises."""
    over: Floats
    """From above."""

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
        """By how much w exceeds w(items) on average, if ``lost`` of the cells are taken twice."""
        if items < 2:
            return 0.0
        gone = np.arange(1, items)
        each = (self.over[items - gone] - self.low[items]) / gone
        return float(min(lost * max(each.max(), 0.0), self.over[1] - self.low[items]))


def _two_in(same: np.ndarray, item: int, cap: int, signs: int) -> Floats:
    """For each other one and 0 .. cap members: its part of the pairs that fall into the item's cell."""
    if cap < 2:
        return np.zeros((len(same), cap + 1))
    bits = np.packbits(np.pad(same, ((0, 0), (0, -same.shape[1] % 64))), axis=1).view(np.uint64)
    bits[item] = 0
    pairs = np.bitwise_count(bits[:, None] & bits).sum(axis=2, dtype=np.float64)
    return _halves(pairs / same.shape[1], cap, signs)


def _halves(pairs: Floats, cap: int, signs: int) -> Floats:
    """Half of the sum of each one's worst m - 1 others, m = 0 .. cap: of a key one sign counts."""
    rows = np.arange(len(pairs))
    by_key = pairs.reshape(len(pairs), -1, signs).max(axis=2)
    by_key[rows, rows // signs] = 0.0
    kept = max(0, min(cap - 1, by_key.shape[1]))
    made = np.zeros((len(pairs), cap + 1))
    made[:, 2 : 2 + kept] = np.cumsum(-np.sort(-by_key, axis=1)[:, :kept], axis=1) / 2
    made[:, 2 + kept :] = made[:, [min(1 + kept, cap)]]
    return made


def _least_there(shares: Floats, halves: Floats, own: int, signs: int) -> Floats:
    """In what share of seeds, at the least, one of 0 .. cap others falls into the item's cell."""
    there = (shares[:, None] - halves).T
    there[:, own] = np.inf  # itself is not held
    by_key = np.sort(there.reshape(len(there), -1, signs).min(axis=2), axis=1)
    sums = np.concatenate([np.zeros((len(there), 1)), np.cumsum(by_key, axis=1)], axis=1)
    counts = np.minimum(np.arange(len(there)), by_key.shape[1])
    return np.clip(np.nan_to_num(sums[np.arange(len(there)), counts], nan=0.0, posinf=0.0), 0.0, 1.0)


def _most_pairs(halves: Floats, signs: int) -> Floats:
    """The worst sum over the pairs of 0 .. cap members."""
    by_key = -np.sort(-halves.reshape(-1, signs, halves.shape[1]).max(axis=1), axis=0)
    return np.array([by_key[:count, count].sum() for count in range(halves.shape[1])])


def _least_item(law: _Weights, there: Floats) -> float:
    """How often, at the least, an item's cell is named, with so many others there at the least."""
    low, over = law.low[: len(there)], law.over[: len(there)]
    return min(law.high, float((low + there * np.maximum(law.high - over, 0.0)).min()))


def _lost(shares: Floats | None, cells: Integers, cap: int) -> Floats:
    """For 0 .. cap keys: how many of their items, at the most, share a cell with another on average."""
    if shares is not None:
        return _most_pairs(_halves(shares, cap, 2), 2)
    held = np.arange(cap + 1) * np.arange(1, cap + 2) // 2  # keys, and pairs of keys
    if len(cells) > MOST_PAIRED:
        return held.astype(np.float64)
    each = np.array([(cells == own).mean(axis=1) for own in cells])
    return _most_pairs(_halves(each, int(held[-1]), 1), 1)[held]


class _PairItems:
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
        """For each of them the share of seeds under which it falls into this cell."""
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
    others: _PairItems | None,
    singles: Integers,
    cap: int,
) -> float:
    """How often, at the most, a cell of either sign is named, by who holds the key or does not."""
    signs = shares[2 * key : 2 * key + 2]
    elsewhere = np.arange(shares.shape[1] // 2) != key
    by_key = [side.reshape(-1, 2).max(axis=1)[elsewhere] for side in (*signs, signs.sum(axis=0))]
    one = np.maximum(*(_tops(side, cap) for side in by_key[:2]))
    either = _tops(by_key[2], cap)
    pairs = np.arange(cap + 1) * np.arange(-1, cap) // 2 * (others is not None)
    if others is not None:
        low, high = (others.meeting(singles[2 * key + sign]) for sign in (0, 1))
        most = int(pairs[-1])
        of_one = np.maximum(_tops(low, most), _tops(high, most))[pairs]
        of_either = _tops(low + high, most)[pairs]
    else:
        of_one = of_either = np.zeros(cap + 1)
    found = (1 + apart) * float(law.over[0])
    for count in range(1, cap + 1):
        items = count + int(pairs[count])
        rest, more = float(law.over[items]), law.more(items, float(lost[count]))
        gain = max(law.high - float(law.low[items]), 0.0)
        beside = min(float(one[count - 1] + of_one[count]), apart)
        holding = law.high + apart * (rest + more) + beside * gain
        there = min(float(either[count] + of_either[count]), 1 + apart)
        found = max(found, holding, (1 + apart) * (rest + more) + there * gain)
    return found


def _tops(values: Floats, most: int) -> Floats:
    """The sums of the 0 .. most largest."""
    kept = min(most, len(values))
    largest = np.partition(values, len(values) - kept)[len(values) - kept :] if kept else values[:0]
    sums = np.concatenate([[0.0], np.cumsum(-np.sort(-largest))])
    return np.append(sums, np.full(most - kept, sums[-1]))


def too_many(channel: Collision, keys: int, grid: Floats, limits: PoolLimits) -> float:
    """A bound on the chance that people who hold ``held`` keys at the most have so many in all.

    A report counts for as many items as its cell has under its seed, and the bound is Chernoff's.
    ``grid`` has the counts of a tally, seed by cell.
    """
    at = channel.hashes(np.arange(2 * keys))
    worth = members(channel, at) - 2 * keys / channel.small
    n, total = float(grid.sum()), float((grid * worth).sum())
    if total <= n * channel.gain * channel.held:
        return 1.0

    def exponent(tilt: float) -> float:
        return n * log(most_grown(channel, at, tilt * worth, limits)) - tilt * total

    low, high = 0.0, 8.0 / max(float(worth.max()), 1.0)
    for _ in range(40):  # it falls, then rises
        one, two = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, two) if exponent(one) < exponent(two) else (one, high)
    return exp(min(0.0, max(-700.0, exponent((low + high) / 2))))


def members(channel: Collision, at: Integers) -> Floats:
    """How many items each cell has, seed by cell."""
    flat = np.arange(channel.pool)[:, None] * channel.small + at
    return (
        np.bincount(flat.ravel(), minlength=channel.cells).reshape(channel.pool, -1).astype(np.float64)
    )


def most_grown(channel: Collision, at: Integers, worth: Floats, limits: PoolLimits) -> float:
    """The largest expectation of exp(worth of the report) that any record has, or a little more.

    With y what exp(worth) exceeds its mean over a seed's cells by, that of m items in j cells is the
    mean of exp(worth) and gain t / (t - j) times the sum of y over the j cells.
    """
    small, held = channel.small, channel.held
    grown = np.exp(worth)
    even = grown.mean(axis=1, keepdims=True)
    over = grown - even
    each = over[np.arange(channel.pool)[:, None], at].mean(axis=0).reshape(-1, 2).max(axis=1)
    sizes = np.arange(held + 1)
    factor = small / (small - sizes)
    step = np.diff(factor, prepend=factor[:1])
    fall = max(0.0, -float(over.min()))
    more = factor * _tops(each, held) + limits.lost * fall * (factor + sizes * step)
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
    """All keys held by more people than each person may hold."""
    limits = collision_limits(channel, len(keys), cap) if channel.items == 2 * len(keys) else None
    if limits is not None:
        yield "all keys", too_many(channel, len(keys), grid, limits)


# -- coco --------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def coco_limits(channel: CoCo, keys: int) -> Mirrored | None:
    """How far the cells of a key's pair can go for who does not hold it; None where that is too much."""
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
            each = np.abs(np.bincount(who, sign * free[who, seeds] ** others, keys)) / pool
            lent = max(lent, float(_tops(each + halves[:, count], count)[count]))
        apart[key] = min(lent, 1.0)
    return Mirrored(least - _ROUNDED, apart * (channel.high - channel.low) / WORD + _ROUNDED)


def one_sided(channel: CoCo, limits: Mirrored, n: float, signs: Floats) -> Floats:
    """Bounds on the chance that a key's two cells are named so unlike, low over high and high over low.

    ``signs`` has how often each key's low and high cell is named. From who holds the key their sum is
    high + low and they differ by high - low at the most; from others the sum may be less, and they
    differ hardly. What lies beyond the line between the two is a mass above its frequency. Chernoff:
    the expectation of exp(tilt ...) is linear in a law, so it is largest at a corner of these laws.
    """
    claimed, apart = (channel.high + channel.low) / WORD, (channel.high - channel.low) / WORD
    sums = np.stack([limits.least, limits.least, *(np.full_like(limits.least, claimed),) * 2])
    held = np.full_like(limits.least, apart)
    unlike = np.stack([limits.apart, -limits.apart, held, -held])
    slope = (apart - limits.apart) / np.maximum(claimed - limits.least, 1e-12)
    made = []
    for this, other in ((signs[:, 0], signs[:, 1]), (signs[:, 1], signs[:, 0])):
        total = this - other - slope * (this + other)

        def exponent(tilt: Floats, total: Floats = total) -> Floats:
            up, down = np.expm1(tilt * (1 - slope)), np.expm1(-tilt * (1 + slope))
            grown = ((sums + unlike) / 2 * up + (sums - unlike) / 2 * down).max(axis=0)
            return np.asarray(n * np.log1p(grown) - tilt * total)

        low, high = np.zeros(len(slope)), np.full(len(slope), 8.0)
        for _ in range(100):  # convex in the tilt
            one, two = low + (high - low) / 3, high - (high - low) / 3
            falls = exponent(one) < exponent(two)
            low, high = np.where(falls, low, one), np.where(falls, two, high)
        made.append(np.exp(np.clip(exponent((low + high) / 2), -700.0, 0.0)))
    return np.stack(made, axis=1)


@limits_of_keys.register
def _(channel: CoCo, keys: int, cap: int) -> tuple[Floats, Floats]:
    """A claimed pair of cells has exactly high + low; another one has what is left, twice."""
    left = [channel.left(claimed) for claimed in range(channel.held + 1)]
    pair = channel.high + channel.low
    least = min(pair, *(2 * weight for weight, _ in left))
    most = max(pair, *(2 * (weight + bool(rest)) for weight, rest in left))
    return np.full(keys, least / WORD), np.full(keys, most / WORD)


@odd_sets.register
def _(channel: CoCo, keys: list[str], cap: int, n: float, grid: Floats) -> Iterator[tuple[str, float]]:
    """A mass above its frequency, for either sign of each key."""
    if 2 * len(keys) * channel.pool > MOST_HASHED:
        return
    limits = coco_limits(channel, len(keys))
    if limits is not None:
        at = channel.item_cells(np.arange(2 * len(keys)))
        signs = grid[np.arange(channel.pool)[:, None], at].sum(axis=0).reshape(-1, 2)
        p_values = one_sided(channel, limits, n, signs)
        yield from zip([key for key in keys for _ in (0, 1)], p_values.ravel().tolist(), strict=True)
