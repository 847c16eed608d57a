"""What health asks of the shape of a hash pool; ``collision`` and ``coco`` have a file each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch

import numpy as np

from ...channel.honest_limits import HonestLimits
from ...channel.law import Channel
from ...channel.shapes.coco_channel import CoCo
from ...channel.shapes.collision_channel import Collision
from ...channel.shapes.hash import MOST_HASHED
from ...channel.shapes.seed_pool import SeedPool
from ...foundation.arrays import WORD, Floats
from .coco_limits import coco_limits, one_sided
from .collision_limits import collision_limits, too_many


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
