"""Decoding hash pools: how often each key's two cells are named, and what the pool's collisions explain.

Under a seed every key has a low and a high cell: with ``collision`` the cells of its two items, with
``coco`` two mirrored ones. The share of reports that name either, less what chance gives, by what a
holder adds, is the key's frequency; their difference is its mass. Over all hashes both are unbiased.
Over the fixed seeds of a pool the scores of items with frequencies x are on average A x, where
A_ij = (c_ij - 1/t) / (1 - 1/t) and c_ij is the share of seeds on which items i and j collide: the best
linear prediction for any sizes of sets, and exact for sets of one. (CoCo: the frequencies' A is that of
the t / 2 pairs of cells; the masses' counts seeds with equal cells less those with mirrored ones.)
What it leaves is of second order, two items that one person holds at a time: a fixed error that falls
with the pool and not with reports. Its size is known (``second_order``) and counts in every covariance
and forecast; where it matters, at millions of reports, a larger pool is worth its while.

The *core* are the items whose A is undone by a dense solve: all items, or only the single keys, or
none, the first of these that is affordable and takes away more than it costs. Left alone, the pool adds
a part n gain^2 sum(x^2) / G to the variance; undoing it for k items adds about k / (G (t - 1)), and is
always done where that is at most ``SMALL_SHARE``. What items outside the core do is estimated from the
tally (two reports with one seed agree more often than 1/t) and added to the variance.

What depends on the channel alone, cells and the inverse of A, is made once and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from ..channel import CoCo, Collision
from ..encode import SETS
from ..errors import PlanError
from ..fast import compiled
from .forecast import Forecast
from .linear import Moments
from .predict import Predicted
from .sets import ENDS, TURN

if TYPE_CHECKING:
    from ..plan import Plan
    from ..prior import Prior

MOST_CORE = 4096
"""Items of a dense solve."""
MOST_SHARE = 1 / 4
"""Items of the core by cells of the pool: more would blow up the noise."""
SMALL_SHARE = 1 / 64
"""Up to so many the solve costs next to nothing."""
MOST_PAIRS = 1 << 29
"""Collisions that are counted one by one for a core."""
MOST_KEPT = 1 << 24
"""Cells of keys under all seeds that are kept between tallies."""
_BLOCK = 1 << 22
_SINGULAR = 1e6


# -- of the channel alone --------------------------------------------------------------------------


def core_size(channel: Collision, singles: int, told: float | Callable[[], float]) -> int:
    """How many items, from item 0 on, are solved for; ``told`` is n gain^2 sum(x^2)."""
    for count in (channel.items, singles):
        share = core_share(channel, count)
        if share > MOST_SHARE:
            continue
        if share <= SMALL_SHARE:
            return count
        told = told() if callable(told) else told
        if told / channel.pool > share / (1 - share):
            return count
    return 0


def core_share(channel: Collision | CoCo, count: int) -> float:
    """The part of the variance that solving for so many items adds; infinite where it is too much."""
    cells = channel.small if isinstance(channel, Collision) else channel.small // 2
    if count > MOST_CORE or channel.pool * count**2 // (2 * cells) > MOST_PAIRS:
        return inf
    return count / (channel.pool * (cells - 1))


def excess(share: Floats, small: int) -> Floats:
    """``(c - 1/t) / (1 - 1/t)``: 1 for an item with itself, 0 on average for two."""
    return np.asarray((share - 1.0 / small) / (1.0 - 1.0 / small))


def undone(excess: Floats) -> Floats:
    """The inverse; of a pool that cannot tell some items apart, the inverse where it can."""
    try:
        undo = np.asarray(np.linalg.inv(excess), np.float64)
    except np.linalg.LinAlgError:
        undo = np.full_like(excess, np.inf)
    if np.abs(undo).max(initial=0.0) < _SINGULAR:
        return undo
    return np.asarray(np.linalg.pinv(excess, rcond=1 / _SINGULAR), np.float64)


def meetings(hashes: np.ndarray) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Every two items that share a cell under a seed: seeds, and the two items, in several runs.

    Items are sorted by their cell, seed by seed: those that collide are then neighbours, next ones,
    next but one, and so on until no two are so far apart in one cell.
    """
    seeds, items = hashes.shape
    step = max(1, _BLOCK // max(items, 1))
    for first in range(0, seeds, step):
        block = hashes[first : first + step]
        order = np.argsort(block, axis=1, kind="stable")
        cells = np.take_along_axis(block, order, axis=1)
        found = []
        for lag in range(1, items):
            seed, place = np.nonzero(cells[:, lag:] == cells[:, :-lag])
            if not len(seed):
                break
            found.append((first + seed, order[seed, place], order[seed, place + lag]))
        if found:
            yield tuple(np.concatenate(part) for part in zip(*found, strict=True))  # type: ignore[misc]


def collided(hashes: np.ndarray, seen: Floats | None = None) -> Floats:
    """On how many seeds items collide; or the share of reports in the cells where they do."""
    seeds, items = hashes.shape
    loops: Any = compiled()
    if loops is not None and seen is None:
        both = np.zeros((items, items))
        loops.collide(hashes, int(hashes.max()) + 1, both)
    else:
        total = np.zeros(items * items)
        for seed, one, two in meetings(hashes):
            weights = None if seen is None else seen[seed, hashes[seed, one]]
            total += np.bincount(one * items + two, weights, items * items)
        both = total.reshape(items, items)
    both = both + both.T
    own = seeds if seen is None else seen[np.arange(seeds)[:, None], hashes].sum(axis=0)
    np.fill_diagonal(both, own)
    return both


def _mirrored(channel: CoCo, keys: int) -> tuple[Floats, Floats, Floats]:
    """Of CoCo's keys: shares of seeds on which two share a pair of cells; on which their cells are the
    same, less those on which they are mirrored; and these with the chance that the other key is told.

    A key that is told lends its sign to whoever shares its pair. Its chance under a seed, where
    dummies rank evenly, is (1 - 2 rank / t)^(held - 1): over all seeds ``CoCo.told``.
    """
    half, words = channel.small // 2, channel.words_under(np.arange(keys))
    cells = (words >> np.uint64(32)).astype(np.int64)
    rank = (words & np.uint64(0xFFFFFFFF)).astype(np.float64) / 4294967296.0
    told = (1.0 - 2.0 * rank / channel.small) ** (channel.held - 1) / channel.told
    together, agree, lent = (np.zeros((keys, keys)) for _ in range(3))
    loops: Any = compiled()
    if loops is not None:
        loops.collide_signed(cells, half, told, together, agree, lent)
    else:
        for seed, one, two in meetings((cells % half).astype(np.int32)):
            sign = np.where(cells[seed, one] == cells[seed, two], 1.0, -1.0)
            np.add.at(together, (one, two), 1.0)
            np.add.at(agree, (one, two), sign)
            np.add.at(lent, (one, two), sign * told[seed, two])
            np.add.at(lent, (two, one), sign * told[seed, one])
    made = [part / channel.pool for part in (together + together.T, agree + agree.T, lent)]
    for part, own in zip(made, (1.0, 1.0, told.mean(axis=0)), strict=True):
        np.fill_diagonal(part, own)
    return made[0], made[1], made[2]


@lru_cache(maxsize=4)
def undoing(channel: Collision | CoCo, count: int) -> tuple[Floats, Floats]:
    """What undoes the collisions of the first ``count`` items, and what it adds to a key's covariance.

    For a collision one matrix over items; for CoCo two over keys, of frequencies and of masses. The
    second part, (keys, 2, 2), is in units of the variance that items have where no one holds any:
    reports that are noise alone have the covariance A, and so their solution has that of the inverse.
    """
    if isinstance(channel, CoCo):
        keys = count // 2
        together, agree, lent = _mirrored(channel, keys)
        of_mass = undone(lent)
        undo = np.stack([undone(excess(together, channel.small // 2)), of_mass])
        more = np.zeros((keys, 2, 2))
        more[:, 0, 0] = np.diag(undo[0]) - 1.0
        more[:, 1, 1] = np.einsum("ij,jk,ik->i", of_mass, agree, of_mass, optimize=True) - 1.0
        return undo, more
    together = collided(channel.hashes(np.arange(count)).astype(np.int32))
    left = excess(together / channel.pool, channel.small)
    undo = undone(left)
    at = np.arange(count).reshape(-1, 2)
    block = (undo - left)[at[:, :, None], at[:, None, :]]
    return undo, TURN @ block @ TURN.T


class _Cells(NamedTuple):
    """Some keys' cells in the tally, low and high under every seed, and where the two are one."""

    keys: slice
    cells: Integers
    """(seeds, keys, 2)."""
    meet: tuple[Integers, Integers]
    """Cell and key of every seed under which a key's low and high are one cell."""


def _cells(channel: Collision | CoCo, keys: slice) -> _Cells:
    first = np.arange(channel.pool, dtype=np.int64)[:, None, None] * channel.small
    if isinstance(channel, CoCo):
        high = channel.hashes(np.arange(keys.start, keys.stop))
        both = np.stack([(high + channel.small // 2) % channel.small, high], axis=-1)
        return _Cells(keys, first + both, (np.empty(0, np.int64), np.empty(0, np.int64)))
    both = channel.hashes(np.arange(2 * keys.start, 2 * keys.stop)).reshape(channel.pool, -1, 2)
    seed, key = np.nonzero(both[:, :, 0] == both[:, :, 1])
    return _Cells(keys, first + both, (seed * channel.small + both[seed, key, 0], key))


@lru_cache(maxsize=4)
def _kept_cells(channel: Collision | CoCo, keys: int) -> _Cells:
    return _cells(channel, slice(0, keys))


@lru_cache(maxsize=2)
def _other_cells(channel: Collision, first: int, last: int) -> Integers:
    """The tally's cells of some items under every seed."""
    hashes = channel.hashes(np.arange(first, last))
    return np.asarray(np.arange(channel.pool)[:, None] * channel.small + hashes)


def _blocks(channel: Collision | CoCo, keys: int) -> Iterator[_Cells]:
    """The cells of all keys, in runs that fit into memory; kept where they are few."""
    if 2 * keys * channel.pool <= MOST_KEPT:
        yield _kept_cells(channel, keys)
        return
    step = max(1, _BLOCK // (2 * channel.pool))
    for start in range(0, keys, step):
        yield _cells(channel, slice(start, min(start + step, keys)))


def gains_of(channel: Collision | CoCo) -> tuple[float, float]:
    """What a holder adds to the share of a key's cells, and to that of its sign's over the other's."""
    return channel.gains if isinstance(channel, CoCo) else (channel.gain, channel.gain)


def _noise(channel: Collision | CoCo) -> Floats:
    """One report's variance of frequency and mass of a key where no one holds any; of items for a
    collision, whose two items are a key's."""
    part = 1.0 / channel.small
    if isinstance(channel, CoCo):
        met, told = channel.gains
        return np.array([2 * part * (1 - 2 * part) / met**2, 2 * part / told**2])
    return np.full(2, part * (1 - part) / channel.gain**2)


# -- of a tally ------------------------------------------------------------------------------------


def energy_of(channel: Collision | CoCo, grid: Floats) -> tuple[float, float]:
    """The sums over all items of squared frequencies, and for CoCo over keys of squared masses.

    ``grid`` has the counts of a tally, seed by cell: reports of one seed agree more for them.
    """
    each = grid.sum(axis=1)
    pairs = float((each * (each - 1)).sum())
    if pairs <= 0:
        return 0.0, 0.0
    if isinstance(channel, CoCo):
        half = channel.small // 2
        low, high = grid[:, half:], grid[:, :half]
        both, apart, part = low + high, high - low, 1.0 / half
        met, told = channel.gains
        of_mass = float((apart**2 - both).sum()) / pairs / told**2
    else:
        both, part, met, of_mass = grid, 1.0 / channel.small, channel.gain, 0.0
    agree = float((both * (both - 1)).sum()) / pairs
    return (agree - part) * (1.0 - part) / met**2, of_mass


def pool_moments(plan: Plan, counts: Integers) -> Moments:
    """Frequency and mass of every key, of ``cap`` keys a person at the most, from ``(..., cells)``."""
    channel, keys = plan.channels[0], len(plan.schema.keys)
    if plan.encode not in SETS or not isinstance(channel, Collision | CoCo):
        raise PlanError("this estimator is for plans that speak of sets of items")
    rows = np.asarray(counts).reshape(-1, plan.layout.cells)
    named, same = np.empty((len(rows), keys, 2)), np.zeros((len(rows), keys))
    meetings = np.zeros(keys)
    for cells, of, (cell, key) in _spelled(channel, keys):
        meetings[of] = np.bincount(key, minlength=of.stop - of.start)
        for number, row in enumerate(rows[:, 1:]):
            named[number, of] = row[cells].sum(axis=0)
            same[number, of] = np.bincount(key, row[cell], of.stop - of.start)
    n = rows[:, 0].astype(np.float64)
    values, spread = _raw(channel, named, same, meetings, n)
    for number, row in enumerate(rows):
        if n[number]:
            _corrected(channel, keys, row, values[number], spread[number])
    if plan.encode == "items":
        square = np.maximum(values**2 - np.diagonal(spread, axis1=-2, axis2=-1), 0.0)
        spread += second_order(channel, square, np.ones(keys))
    shape = np.shape(counts)[:-1]
    reports = np.broadcast_to(rows[:, :1], (len(rows), keys))
    return Moments(
        reports.reshape(*shape, keys).astype(np.int64),
        values.reshape(*shape, keys, 2),
        spread.reshape(*shape, keys, 2, 2),
    )


def _spelled(
    channel: Collision | CoCo, keys: int
) -> Iterator[tuple[Integers, slice, tuple[Integers, Integers]]]:
    for block in _blocks(channel, keys):
        yield block.cells, block.keys, block.meet


def _raw(
    channel: Collision | CoCo, named: Floats, same: Floats, meetings: Floats, reports: Floats
) -> tuple[Floats, Floats]:
    """Scores of frequency and mass, and their covariance, from how often low and high are named."""
    part, gains = 1.0 / channel.small, np.array(gains_of(channel))
    n = reports[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        values = ((named / n[..., None] - part) @ TURN.T) / gains
        # One more report, spread evenly, for caution: one report alone has no spread.
        shares = (named + part) / (n[..., None] + 1)
        meet = (same + meetings / channel.cells) / (n + 1)
        spread = _of_shares(shares, meet, gains) / n[..., None, None]
    return values, spread


def _of_shares(named: Floats, same: Floats, gains: Floats) -> Floats:
    """One report's covariance of frequency and mass, from the shares of low and high, and of both."""
    low, high = named[..., 0], named[..., 1]
    both, apart = low + high, high - low
    made = np.empty((*named.shape, 2))
    made[..., 0, 0] = both + 2 * same - both**2
    made[..., 1, 1] = both - 2 * same - apart**2
    made[..., 0, 1] = made[..., 1, 0] = apart - both * apart
    return made / (gains[:, None] * gains[None, :])


def _corrected(
    channel: Collision | CoCo, keys: int, row: Integers, values: Floats, spread: Floats
) -> None:
    """Undo the collisions of the core, and add what the others do: in place, for one tally."""
    n = float(row[0])
    known: list[tuple[float, float]] = []

    def energies() -> tuple[float, float]:
        if not known:
            grid = row[1:].astype(np.float64).reshape(channel.pool, channel.small)
            known.append(energy_of(channel, grid))
        return known[0]

    if isinstance(channel, CoCo):
        solved = _solves(channel, keys, lambda: n * channel.gains[0] ** 2 * energies()[0])
        if solved:
            undo, more = undoing(channel, 2 * keys)
            values[:, 0], values[:, 1] = undo[0] @ values[:, 0], undo[1] @ values[:, 1]
            spread += more * np.diag(_noise(channel)) / n
        else:
            of_frequency, of_mass = (max(0.0, energy) for energy in energies())
            half = channel.small // 2
            spread[:, 0, 0] += of_frequency / ((half - 1) * channel.pool)
            spread[:, 1, 1] += of_mass / (half * channel.pool)
        return
    core = core_size(channel, 2 * keys, lambda: n * channel.gain**2 * energies()[0])
    inside = 0.0
    if core:
        undo, more = undoing(channel, core)
        items = values @ ENDS
        scores = items.reshape(-1)
        if core > 2 * keys:
            named = row[1:][_other_cells(channel, 2 * keys, core)].sum(axis=0)
            rest = (named / n - 1.0 / channel.small) / channel.gain
            scores = np.concatenate([scores, rest])
        solved_items = undo @ scores
        values[:] = solved_items[: 2 * keys].reshape(-1, 2) @ TURN.T
        spread += more[:keys] * _noise(channel)[0] / n
        inside = float((solved_items**2).sum() - np.trace(undo) * _noise(channel)[0] / n)
    if core < channel.items:
        left = max(0.0, energies()[0] - inside)
        spread += 2 * np.eye(2) * left / ((channel.small - 1) * channel.pool)


def _solves(channel: CoCo, keys: int, told: Callable[[], float]) -> bool:
    """Whether CoCo's keys are solved for, by the same rule as a collision's items."""
    share = core_share(channel, keys)
    if share > MOST_SHARE:
        return False
    return share <= SMALL_SHARE or told() / channel.pool > share / (1 - share)


def second_order(channel: Collision | CoCo, square: Floats, count: Floats) -> Floats:
    """The covariance that pairs of held keys leave after collisions are undone, (..., keys, 2, 2).

    ``square`` are the squared frequencies and masses of keys, each standing for ``count``. Who holds
    both of two keys that collide names their cell once, not twice, which no sum over single keys
    knows: over pools that is a random error of x_ij^2 / t / G for every pair i, j of a key's own, and
    of x_jk^2 / t^2 / G for every other pair. Pairs are taken as held independently. (CoCo: of t / 2
    pairs of cells for frequencies; of two that collide one lends its sign, so masses have half.)
    """
    made = np.zeros((*square.shape, 2))

    def others(part: Floats) -> Floats:
        return np.maximum((part * count).sum(axis=-1, keepdims=True) - part, 0.0)

    def pairs(part: Floats) -> Floats:
        return np.asarray((part * others(part) * count).sum(axis=-1, keepdims=True) / 2)

    if isinstance(channel, CoCo):
        half = channel.small // 2
        f, mass = square[..., 0], square[..., 1]
        made[..., 0, 0] = f * others(f) / half + pairs(f) / half**2
        made[..., 1, 1] = (mass * others(f) + f * others(mass)) / (2 * half)
    else:
        each = square.mean(axis=-1)  # of low and high together
        both = each * others(each) / channel.small + 2 * pairs(each) / channel.small**2
        made[..., 0, 0] = made[..., 1, 1] = both
    return made / channel.pool


# -- before anyone has answered --------------------------------------------------------------------


def pool_forecast(plan: Plan, people: float, prior: Prior) -> Forecast:
    """The error of ``least_squares``, with what the cap leaves out and what the pool adds."""
    channel = plan.channels[0]
    if not isinstance(channel, Collision | CoCo):
        raise PlanError("this forecast is for plans that speak of sets of items")
    keys, kept = len(plan.schema.keys), prior.capped(plan.cap)
    ends = kept @ ENDS
    gains, part = np.array(gains_of(channel)), 1.0 / channel.small
    truth = np.stack([prior.frequency, prior.frequency * prior.mean], axis=1)
    each = (ends**2).sum(axis=1)
    if isinstance(channel, CoCo):
        f, mass = kept.T
        both, apart = 2 * part + gains[0] * f, gains[1] * mass
        named, same = np.stack([(both - apart) / 2, (both + apart) / 2], axis=1), np.zeros(len(f))
        energy, half = float(prior.count @ f**2), channel.small // 2
        solved = _solves(channel, keys, lambda: people * float(gains[0]) ** 2 * energy)
        share = core_share(channel, keys) if solved else 0.0
        left = np.array([energy / (half - 1), float(prior.count @ mass**2) / half])
        added = left * (not solved) / channel.pool
    else:
        named = part + channel.gain * ends
        same = part * (part + channel.gain * ends.sum(axis=1))  # collide under one seed in t
        inside = float(prior.count @ each)
        energy = inside
        if plan.encode == "pair_items":  # pairs as if keys were independent
            energy += (inside**2 - float(prior.count @ each**2)) / 2
        core = core_size(channel, 2 * keys, people * channel.gain**2 * energy)
        share = core_share(channel, core) if core else 0.0
        outside = 0.0 if core == channel.items else energy - (inside if core else 0.0)
        added = np.full(2, 2 * max(0.0, outside) / ((channel.small - 1) * channel.pool))
    spread = _of_shares(named, same, gains) / people
    noise = _noise(channel) * (1.0 if isinstance(channel, CoCo) else 2.0)
    spread += np.diag(noise * share / (1 - share) / people + added)
    if plan.encode == "items":
        spread += second_order(channel, kept**2, prior.count)
    return Forecast(kept - truth, spread)


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
