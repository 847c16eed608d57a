"""How often the two cells of each key are named, summed over the seeds of a pool."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...channel.shapes.collision_channel import Collision
from ...channel.shapes.hash import item_words, mixed
from ...channel.shapes.seed_pool import SeedPool
from ...foundation.arrays import WORD, Floats, Integers
from ...foundation.compiled import worthwhile
from .collision_matrix import blocks

_HASHED = 2e-8
"""Seconds that the plain form takes for an item under a seed."""
_MOST_SLICES = 8
"""Cells of a seed up to which the compiled loop has them all in registers."""


def named_cells(channel: SeedPool, keys: int, rows: Integers) -> tuple[Floats, Floats, Floats]:
    """How often each key's low and high cell is named, ``(rows, keys, 2)``, and a cell that is both.

    ``rows`` are tallies: the number of reports, then the counts of all cells. The third result is the
    number of seeds under which low and high are one cell.
    """
    if isinstance(channel, Collision) and rows[:, 0].max(initial=0) < WORD:
        loops: Any = worthwhile(_HASHED * 2 * keys * channel.pool * len(rows), "named_cells")
        if loops is not None:
            return _in_one_pass(channel, keys, rows, loops)
    named, same = np.empty((len(rows), keys, 2)), np.zeros((len(rows), keys))
    meetings = np.zeros(keys)
    for of, cells, (cell, key) in blocks(channel, keys):
        meetings[of] = np.bincount(key, minlength=of.stop - of.start)
        for number, row in enumerate(rows[:, 1:]):
            named[number, of] = row[cells].sum(axis=0)
            same[number, of] = np.bincount(key, row[cell], of.stop - of.start)
    return named, same, meetings


def _in_one_pass(
    channel: SeedPool, keys: int, rows: Integers, loops: Any
) -> tuple[Floats, Floats, Floats]:
    """The same in a compiled loop, which hashes items and adds up at once."""
    seeds = np.arange(channel.pool, dtype=np.uint32)
    bases = mixed(seeds ^ np.uint32(channel.salt))
    words = np.ascontiguousarray(item_words(np.arange(2 * keys)).reshape(keys, 2).T)
    few = channel.small <= _MOST_SLICES
    cells = range(1, channel.small if few else 1)
    ends = tuple(np.uint32(-(-(cell << 32) // channel.small)) for cell in cells)
    sums = np.zeros((len(rows), 4, keys), np.uint32)
    for row, own in zip(rows, sums, strict=True):
        grid = row[1:].astype(np.uint32).reshape(channel.pool, channel.small)
        if few:
            loops.name_keys(bases, ends, grid, words, own)
        else:
            loops.name_keys_of_many(bases, grid, words, own)
    totals = sums.astype(np.float64)
    meetings = totals[0, 3] if len(rows) else np.zeros(keys)
    return np.moveaxis(totals[:, :2], 1, 2), totals[:, 2], meetings
