"""The collision matrix of a hash pool, its core (the items whose collisions are undone) and its inverse.

Let items have the frequencies x. Under the fixed seeds of a pool, the expected scores of the items are
A x, where A_ij = (c_ij - 1/t) / (1 - 1/t) and c_ij is the share of seeds under which items i and j
collide. This is the best linear prediction for sets of any size, and exact for sets of one item. (CoCo
has two matrices. The one of frequencies counts collisions in the t / 2 pairs of cells. The one of masses
counts seeds with equal cells, less seeds with mirrored cells.)

The *core* consists of the items whose A is undone by a dense solve: all items, or only the single keys,
or none. The first of these is taken that is affordable and reduces the variance. Collisions that are not
undone add a relative variance of n gain^2 sum(x^2) / G. Undoing them for k items adds about
k / (G (t - 1)), and is always done if that is at most ``SMALL_SHARE``.

All of this depends on the channel alone, so cells and the inverse of A are cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, singledispatch
from math import inf
from typing import NamedTuple

import numpy as np

from ...channel.shapes.coco_channel import CoCo
from ...channel.shapes.collision_channel import Collision
from ...channel.shapes.seed_pool import SeedPool
from ...foundation.arrays import Floats, Integers
from ...foundation.compiled import worthwhile
from ...foundation.errors import PlanError
from .padded_items import TURN

MOST_CORE = 4096
"""Maximum number of items of a dense solve."""
MOST_SHARE = 1 / 4
"""Maximum of the core's items divided by the pool's cells. More items would add too much variance."""
SMALL_SHARE = 1 / 64
"""Up to this share the solve adds next to no variance."""
MOST_PAIRS = 1 << 29
"""Maximum number of collisions that are counted one by one for a core."""
MOST_KEPT = 1 << 24
"""Maximum number of cells of keys under all seeds that are cached between tallies."""
_BLOCK = 1 << 22
_MET = 1e-7
"""Seconds to find the collisions of one item under one seed without compiled loops."""
_SINGULAR = 1e6


def core_size(channel: SeedPool, keys: int, energy: float | Callable[[], float]) -> int:
    """The number of items, from item 0 on, in the core. ``energy`` is n gain^2 sum(x^2)."""
    for items, count in channel.cores(keys):
        share = core_share(channel, count)
        if share > MOST_SHARE:
            continue
        if share <= SMALL_SHARE:
            return items
        energy = energy() if callable(energy) else energy
        if energy / channel.pool > share / (1 - share):
            return items
    return 0


def core_share(channel: SeedPool, count: int) -> float:
    """The relative variance that a solve for ``count`` items adds; infinite if it is too large."""
    if count > MOST_CORE or channel.pool * count**2 // (2 * channel.places) > MOST_PAIRS:
        return inf
    return count / (channel.pool * (channel.places - 1))


def item_weights(undo: Floats, place: int) -> Floats:
    """The weights of items' scores, ``(2, items)``, whose sums are a key's frequency and mass.

    ``undo`` is the inverse of these items' collision matrix.
    """
    if undo.ndim == 2:
        return np.asarray(TURN @ undo[2 * place : 2 * place + 2])
    # One matrix over keys for frequencies and one for masses: low counts against high.
    weights = undo[:, place, :, None] * TURN[:, None, :]
    return weights.reshape(2, -1)


def excess(share: Floats, small: int) -> Floats:
    """``(c - 1/t) / (1 - 1/t)``: 1 for an item with itself, 0 on average for two items."""
    return np.asarray((share - 1.0 / small) / (1.0 - 1.0 / small))


def undone(excess: Floats) -> Floats:
    """The inverse; the pseudo-inverse if the pool cannot distinguish some items."""
    try:
        undo = np.asarray(np.linalg.inv(excess), np.float64)
    except np.linalg.LinAlgError:
        undo = np.full_like(excess, np.inf)
    if np.abs(undo).max(initial=0.0) < _SINGULAR:
        return undo
    return np.asarray(np.linalg.pinv(excess, rcond=1 / _SINGULAR), np.float64)


def meetings(hashes: np.ndarray) -> Iterator[tuple[Integers, Integers, Integers]]:
    """All collisions in several runs: the seeds, the first items and the second items.

    Items are sorted by their cell under each seed, so items that collide are one place apart, two places
    apart, and so on, until no two items at that distance share a cell.
    """
    seeds, items = hashes.shape
    step = max(1, _BLOCK // max(items, 1))
    for first in range(0, seeds, step):
        block = hashes[first : first + step]
        order = np.argsort(block, axis=1, kind="stable")
        cells = np.take_along_axis(block, order, axis=1)
        pairs = []
        for lag in range(1, items):
            seed, place = np.nonzero(cells[:, lag:] == cells[:, :-lag])
            if not len(seed):
                break
            pairs.append((first + seed, order[seed, place], order[seed, place + lag]))
        if pairs:
            yield tuple(np.concatenate(part) for part in zip(*pairs, strict=True))  # type: ignore[misc]


def collided(hashes: np.ndarray, seen: Floats | None = None) -> Floats:
    """The number of seeds under which two items collide; with ``seen``, the reports in their cells."""
    seeds, items = hashes.shape
    loops = worthwhile(hashes.size * _MET, "collisions") if seen is None else None
    if loops is not None:
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


def _mirrored(channel: CoCo, keys: int) -> tuple[Floats, Floats, Floats]:
    """Three matrices over the keys of CoCo, each a share of seeds.

    The first counts seeds under which two keys share a pair of cells. The second counts those with equal
    cells, less those with mirrored cells. The third is the second, weighted by the chance that the other
    key is the one reported: a reported key lends its sign to every key that shares its pair.
    """
    half, words = channel.small // 2, channel.words_under(np.arange(keys))
    cells = (words >> np.uint64(32)).astype(np.int64)
    survival = channel.relative_survival(words)
    together, agree, lent = (np.zeros((keys, keys)) for _ in range(3))
    loops = worthwhile(cells.size * _MET, "collisions")
    if loops is not None:
        loops.collide_signed(cells, half, survival, together, agree, lent)
    else:
        for seed, first, second in meetings((cells % half).astype(np.int32)):
            sign = np.where(cells[seed, first] == cells[seed, second], 1.0, -1.0)
            np.add.at(together, (first, second), 1.0)
            np.add.at(agree, (first, second), sign)
            np.add.at(lent, (first, second), sign * survival[seed, second])
            np.add.at(lent, (second, first), sign * survival[seed, first])
    matrices = [part / channel.pool for part in (together + together.T, agree + agree.T, lent)]
    for part, own in zip(matrices, (1.0, 1.0, survival.mean(axis=0)), strict=True):
        np.fill_diagonal(part, own)
    return matrices[0], matrices[1], matrices[2]


@lru_cache(maxsize=4)
def undoing(channel: SeedPool, count: int) -> tuple[Floats, Floats]:
    """The inverse for the first ``count`` items, and the covariance that it adds to each key.

    The first part is one matrix over items, or two over keys: for frequencies and for masses. The second
    part, (keys, 2, 2), is in units of ``SeedPool.noise``: the scores of reports that are noise alone
    have the covariance A, so their solution has the inverse of A as its covariance.
    """
    return _undoing(channel, count)


@singledispatch
def _undoing(channel: SeedPool, count: int) -> tuple[Floats, Floats]:
    raise PlanError(f"the collisions of a {channel.shape} are not undone")


@_undoing.register
def _(channel: CoCo, count: int) -> tuple[Floats, Floats]:
    keys = count // 2
    together, agree, lent = _mirrored(channel, keys)
    of_mass = undone(lent)
    undo = np.stack([undone(excess(together, channel.places)), of_mass])
    more = np.zeros((keys, 2, 2))
    more[:, 0, 0] = np.diag(undo[0]) - 1.0
    more[:, 1, 1] = np.einsum("ij,jk,ik->i", of_mass, agree, of_mass, optimize=True) - 1.0
    return undo, more


@_undoing.register
def _(channel: Collision, count: int) -> tuple[Floats, Floats]:
    together = collided(channel.hashes(np.arange(count)).astype(np.int32))
    left = excess(together / channel.pool, channel.places)
    undo = undone(left)
    at = np.arange(count).reshape(-1, 2)
    block = (undo - left)[at[:, :, None], at[:, None, :]]
    return undo, TURN @ block @ TURN.T


@singledispatch
def undoing_over(channel: SeedPool, count: int, seeds: Integers) -> Floats | None:
    """The inverse for the first ``count`` items under these seeds alone; None if the pool has none."""
    return None


@undoing_over.register
def _(channel: Collision, count: int, seeds: Integers) -> Floats | None:
    together = collided(channel.hashes(np.arange(count))[seeds].astype(np.int32))
    return undone(excess(together / len(seeds), channel.small))


class SeedCells(NamedTuple):
    """The cells of some keys in the tally, low and high, under every seed, and where they are equal."""

    keys: slice
    cells: Integers
    """(seeds, keys, 2)."""
    meet: tuple[Integers, Integers]
    """The cell and the key for every seed under which a key's low and high cells are equal."""


def _cells(channel: SeedPool, keys: slice) -> SeedCells:
    first = np.arange(channel.pool, dtype=np.int64)[:, None, None] * channel.small
    both = channel.key_cells(np.arange(keys.start, keys.stop))
    seed, key = np.nonzero(both[:, :, 0] == both[:, :, 1])
    return SeedCells(keys, first + both, (seed * channel.small + both[seed, key, 0], key))


@lru_cache(maxsize=4)
def _kept_cells(channel: SeedPool, keys: int) -> SeedCells:
    return _cells(channel, slice(0, keys))


@lru_cache(maxsize=2)
def other_cells(channel: SeedPool, first: int, last: int) -> Integers:
    """The cells of the items from ``first`` up to ``last`` in the tally, under every seed."""
    cells = channel.item_cells(np.arange(first, last))
    return np.asarray(np.arange(channel.pool)[:, None] * channel.small + cells)


def blocks(channel: SeedPool, keys: int) -> Iterator[SeedCells]:
    """The cells of all keys, in runs that fit into memory; cached if they are few."""
    if 2 * keys * channel.pool <= MOST_KEPT:
        yield _kept_cells(channel, keys)
        return
    step = max(1, _BLOCK // (2 * channel.pool))
    for start in range(0, keys, step):
        yield _cells(channel, slice(start, min(start + step, keys)))
