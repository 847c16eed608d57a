"""The collision matrix of a hash pool and its inverse, for the items of the core.

Over the fixed seeds of a pool, items with frequencies x have expected scores A x, where
A_ij = (c_ij - 1/t) / (1 - 1/t) and c_ij is the share of seeds under which items i and j collide. This is
the best linear prediction for sets of any size, and exact for sets of one item. For CoCo, frequencies
have the A of the t / 2 pairs of cells. Masses count seeds with equal cells minus seeds with mirrored
cells.

The *core* is the set of items for which A is inverted: all items, or only single keys, or none. It is
the first of these that is affordable and reduces the variance. Without inversion, the pool increases the
variance by a share n gain^2 sum(x^2) / G. Inversion for k items increases it by a share of about
k / (G (t - 1)). If that is at most ``SMALL_SHARE``, A is always inverted.

All of this depends only on the channel, so cells and the inverse of A are cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

import numpy as np

from ...channel import CoCo, Collision
from ...foundation.arrays import Floats, Integers
from ...foundation.compiled import compiled
from .padded_items import TURN

MOST_CORE = 4096
"""Largest number of items of the core."""
MOST_SHARE = 1 / 4
"""Largest share of variance that inversion may add; beyond it the noise grows without limit."""
SMALL_SHARE = 1 / 64
"""Share of added variance up to which inversion is always done."""
MOST_PAIRS = 1 << 29
"""Largest number of collisions that are counted for a core."""
MOST_KEPT = 1 << 24
"""Largest number of cells of keys under all seeds that are cached between tallies."""
_BLOCK = 1 << 22
"""Number of array elements processed at once."""
_SINGULAR = 1e6
"""Largest entry of an inverse; a matrix with a larger one counts as singular."""


def core_size(channel: Collision, singles: int, signal: float | Callable[[], float]) -> int:
    """Number of items of the core, from item 0 on; ``signal`` is n gain^2 sum(x^2)."""
    for count in (channel.items, singles):
        share = core_share(channel, count)
        if share > MOST_SHARE:
            continue
        if share <= SMALL_SHARE:
            return count
        signal = signal() if callable(signal) else signal
        if signal / channel.pool > share / (1 - share):
            return count
    return 0


def core_share(channel: Collision | CoCo, count: int) -> float:
    """Share of variance that inversion for ``count`` items adds; infinite if it is not affordable."""
    cells = channel.small if isinstance(channel, Collision) else channel.small // 2
    if count > MOST_CORE or channel.pool * count**2 // (2 * cells) > MOST_PAIRS:
        return inf
    return count / (channel.pool * (cells - 1))


def solves(channel: CoCo, keys: int, signal: Callable[[], float]) -> bool:
    """Whether the collision matrix of CoCo's keys is inverted, by the same rule as for items."""
    share = core_share(channel, keys)
    if share > MOST_SHARE:
        return False
    return share <= SMALL_SHARE or signal() / channel.pool > share / (1 - share)


def excess(share: Floats, small: int) -> Floats:
    """``(c - 1/t) / (1 - 1/t)``: 1 for an item with itself, 0 on average for two."""
    return np.asarray((share - 1.0 / small) / (1.0 - 1.0 / small))


def undone(excess: Floats) -> Floats:
    """The inverse, or the pseudo-inverse if the pool does not distinguish all items."""
    try:
        undo = np.asarray(np.linalg.inv(excess), np.float64)
    except np.linalg.LinAlgError:
        undo = np.full_like(excess, np.inf)
    if np.abs(undo).max(initial=0.0) < _SINGULAR:
        return undo
    return np.asarray(np.linalg.pinv(excess, rcond=1 / _SINGULAR), np.float64)


def meetings(hashes: np.ndarray) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Every two items that share a cell under a seed: seeds, first items, second items, in blocks.

    Items are sorted by their cell, seed by seed, so items that collide are neighbours. Neighbours at
    distance 1, 2 and so on are compared, until no two share a cell.
    """
    seeds, items = hashes.shape
    step = max(1, _BLOCK // max(items, 1))
    for first in range(0, seeds, step):
        block = hashes[first : first + step]
        order = np.argsort(block, axis=1, kind="stable")
        cells = np.take_along_axis(block, order, axis=1)
        neighbours = []
        for lag in range(1, items):
            seed, place = np.nonzero(cells[:, lag:] == cells[:, :-lag])
            if not len(seed):
                break
            neighbours.append((first + seed, order[seed, place], order[seed, place + lag]))
        if neighbours:
            yield tuple(np.concatenate(part) for part in zip(*neighbours, strict=True))  # type: ignore[misc]


def collided(hashes: np.ndarray, seen: Floats | None = None) -> Floats:
    """Number of seeds under which items collide; with ``seen``, share of reports in common cells."""
    seeds, items = hashes.shape
    loops: Any = compiled()
    if loops is not None and seen is None:
        both = np.zeros((items, items))
        loops.collide(hashes, int(hashes.max()) + 1, both)
    else:
        total = np.zeros(items * items)
        for seed, first, second in meetings(hashes):
            weights = None if seen is None else seen[seed, hashes[seed, first]]
            total += np.bincount(first * items + second, weights, items * items)
        both = total.reshape(items, items)
    both = both + both.T
    own = seeds if seen is None else seen[np.arange(seeds)[:, None], hashes].sum(axis=0)
    np.fill_diagonal(both, own)
    return both


def report_chances(channel: CoCo, words: np.ndarray) -> Floats:
    """Chance that a key is reported under each seed, divided by its average over all seeds.

    With evenly ranked dummies it is (1 - 2 rank / t)^(held - 1); its average is ``CoCo.told``.
    """
    rank = (words & np.uint64(0xFFFFFFFF)).astype(np.float64) / 4294967296.0
    return np.asarray((1.0 - 2.0 * rank / channel.small) ** (channel.held - 1) / channel.told)


def _mirrored(channel: CoCo, keys: int) -> tuple[Floats, Floats, Floats]:
    """Three matrices over CoCo's keys, as shares of seeds.

    Seeds under which two keys share a pair of cells; seeds with equal cells minus seeds with mirrored
    cells; and the same weighted by the chance that the other key is reported. The reported key gives
    its sign to all keys that share its pair.
    """
    half, words = channel.small // 2, channel.words_under(np.arange(keys))
    cells = (words >> np.uint64(32)).astype(np.int64)
    chances = report_chances(channel, words)
    together, agree, lent = (np.zeros((keys, keys)) for _ in range(3))
    loops: Any = compiled()
    if loops is not None:
        loops.collide_signed(cells, half, chances, together, agree, lent)
    else:
        for seed, first, second in meetings((cells % half).astype(np.int32)):
            sign = np.where(cells[seed, first] == cells[seed, second], 1.0, -1.0)
            np.add.at(together, (first, second), 1.0)
            np.add.at(agree, (first, second), sign)
            np.add.at(lent, (first, second), sign * chances[seed, second])
            np.add.at(lent, (second, first), sign * chances[seed, first])
    shares = [part / channel.pool for part in (together + together.T, agree + agree.T, lent)]
    for part, own in zip(shares, (1.0, 1.0, chances.mean(axis=0)), strict=True):
        np.fill_diagonal(part, own)
    return shares[0], shares[1], shares[2]


@lru_cache(maxsize=4)
def undoing(channel: Collision | CoCo, count: int) -> tuple[Floats, Floats]:
    """Inverse of the collision matrix of the first ``count`` items, and its addition to covariances.

    Collision has one matrix over items; CoCo has two over keys, for frequencies and for masses. The
    addition, (keys, 2, 2), is in units of the variance of an item that nobody holds. Scores from noise
    alone have covariance A, so their solution has the inverse as covariance.
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


class SeedCells(NamedTuple):
    """Cells of a range of keys in the tally, low and high under every seed."""

    keys: slice
    cells: Integers
    """Positions in the tally, (seeds, keys, 2)."""
    meet: tuple[Integers, Integers]
    """Cells and keys for the seeds under which low and high of a key share a cell."""


def _cells(channel: Collision | CoCo, keys: slice) -> SeedCells:
    """The cells of a range of keys under every seed."""
    first = np.arange(channel.pool, dtype=np.int64)[:, None, None] * channel.small
    if isinstance(channel, CoCo):
        high = channel.hashes(np.arange(keys.start, keys.stop))
        both = np.stack([(high + channel.small // 2) % channel.small, high], axis=-1)
        return SeedCells(keys, first + both, (np.empty(0, np.int64), np.empty(0, np.int64)))
    both = channel.hashes(np.arange(2 * keys.start, 2 * keys.stop)).reshape(channel.pool, -1, 2)
    seed, key = np.nonzero(both[:, :, 0] == both[:, :, 1])
    return SeedCells(keys, first + both, (seed * channel.small + both[seed, key, 0], key))


@lru_cache(maxsize=4)
def _kept_cells(channel: Collision | CoCo, keys: int) -> SeedCells:
    return _cells(channel, slice(0, keys))


@lru_cache(maxsize=2)
def other_cells(channel: Collision, first: int, last: int) -> Integers:
    """Cells of items ``first`` to ``last`` in the tally, (seeds, items)."""
    hashes = channel.hashes(np.arange(first, last))
    return np.asarray(np.arange(channel.pool)[:, None] * channel.small + hashes)


def blocks(channel: Collision | CoCo, keys: int) -> Iterator[SeedCells]:
    """The cells of all keys, in blocks that fit into memory; cached if there are few."""
    if 2 * keys * channel.pool <= MOST_KEPT:
        yield _kept_cells(channel, keys)
        return
    step = max(1, _BLOCK // (2 * channel.pool))
    for start in range(0, keys, step):
        yield _cells(channel, slice(start, min(start + step, keys)))


def gains_of(channel: Collision | CoCo) -> tuple[float, float]:
    """What a holder adds to the share of the key's cells, and to the difference of its two cells."""
    return channel.gains if isinstance(channel, CoCo) else (channel.gain, channel.gain)


def noise_of(channel: Collision | CoCo) -> Floats:
    """Variance of one report for the frequency and mass of a key that nobody holds.

    For a collision, of the two items of a key.
    """
    part = 1.0 / channel.small
    if isinstance(channel, CoCo):
        key_gain, sign_gain = channel.gains
        return np.array([2 * part * (1 - 2 * part) / key_gain**2, 2 * part / sign_gain**2])
    return np.full(2, part * (1 - part) / channel.gain**2)
