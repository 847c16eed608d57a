"""Decoding a pool of seeds in one pass: how often the cells of every key's two items are named."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from .lanes import U, jit
from .registers import FOUR, I32, I64, TILE, everywhere, place_of, whole_lines

_inline: Any = intrinsic
KEYS = 512
"""Keys at a time: their words and sums stay in the nearest cache."""


def _mixed(builder: Any, word: Any) -> Any:
    """``hash.mixed`` of a register of words."""

    def shifted(word: Any, by: int) -> Any:
        return builder.xor(word, builder.lshr(word, ir.Constant(FOUR, [by] * TILE)))

    word = builder.mul(shifted(word, 16), ir.Constant(FOUR, [0x7FEB352D] * TILE))
    word = builder.mul(shifted(word, 15), ir.Constant(FOUR, [0x846CA68B] * TILE))
    return shifted(word, 16)


@_inline
def _add_seed(
    typing: Any, base: Any, ends: Any, grid: Any, row: Any, work: Any, first: Any, size: Any
) -> Any:
    """Add what one seed's cells were named to the sums of ``TILE`` keys.

    Rows of ``work``, ``size`` words each, are the keys' words, low and high, and the four sums.
    """

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        def part(number: int) -> Any:
            at = builder.add(values[5], builder.mul(values[6], ir.Constant(I64, number)))
            return place_of(context, builder, signature.args[4], values[4], at, FOUR)

        def count(cell: int) -> Any:
            at = builder.add(values[3], ir.Constant(I64, cell))
            place = place_of(context, builder, signature.args[2], values[2], at, I32)
            return everywhere(builder, builder.load(place, align=4))

        def add(number: int, more: Any) -> None:
            place = part(number)
            builder.store(builder.add(builder.load(place, align=4), more), place, align=4)

        nothing, seed = ir.Constant(FOUR, [0] * TILE), everywhere(builder, values[0])
        counts, both_items = [count(cell) for cell in range(len(signature.args[1]) + 1)], []
        for number in range(2):
            word = _mixed(builder, builder.xor(builder.load(part(number), align=4), seed))
            named, cell = counts[0], nothing
            for slot in range(len(signature.args[1])):
                end = everywhere(builder, builder.extract_value(values[1], slot))
                beyond = builder.icmp_unsigned(">=", word, end)
                named = builder.select(beyond, counts[slot + 1], named)
                cell = builder.select(beyond, ir.Constant(FOUR, [slot + 1] * TILE), cell)
            add(2 + number, named)
            both_items.append((named, cell))
        both = builder.icmp_unsigned("==", both_items[0][1], both_items[1][1])
        add(4, builder.select(both, both_items[0][0], nothing))
        add(5, builder.select(both, ir.Constant(FOUR, [1] * TILE), nothing))
        return context.get_dummy_value()

    return types.void(types.uint32, ends, grid, types.uint64, work, types.uint64, types.uint64), build


@jit
def name_keys(bases: Any, ends: Any, grid: Any, words: Any, sums: Any) -> None:
    """Sums over seeds for each key: how often its low cell, its high cell and a cell that is both is
    named, and under how many seeds they are one cell.

    ``bases`` are the mixed numbers of seeds, ``grid`` the counts (seeds, cells), ``words`` the mixed
    numbers of keys' low and high items, (2, keys), and ``ends`` a tuple of the first word of each cell
    but the first. ``sums`` (4, keys) are words, so there are fewer than 2^32 reports.
    """
    flat, cells, keys = grid.reshape(-1), U(grid.shape[1]), U(words.shape[1])
    work = whole_lines(6 * KEYS)
    for first in range(U(0), keys, U(KEYS)):
        key_count = min(U(KEYS), keys - first)
        work[:] = np.uint32(0)
        for number in range(U(2)):
            for k in range(key_count):
                work[number * U(KEYS) + k] = words[number, first + k]
        for seed in range(U(len(bases))):
            for at in range(U(0), key_count, U(TILE)):
                _add_seed(bases[seed], ends, flat, seed * cells, work, at, U(KEYS))
        for number in range(U(4)):
            for k in range(key_count):
                sums[number, first + k] = work[(number + U(2)) * U(KEYS) + k]


@jit
def _cell(word: Any, cells: Any) -> Any:
    """The cell of a word: the high half of ``hash.mixed`` of it, times the number of cells."""
    ones = U(0xFFFFFFFF)
    word ^= word >> U(16)
    word = (word * U(0x7FEB352D)) & ones
    word ^= word >> U(15)
    word = (word * U(0x846CA68B)) & ones
    word ^= word >> U(16)
    return (word * cells) >> U(32)


@jit
def name_keys_of_many(bases: Any, grid: Any, words: Any, sums: Any) -> None:
    """The same for any number of cells, one key at a time."""
    cells, keys = U(grid.shape[1]), U(words.shape[1])
    for first in range(U(0), keys, U(KEYS)):
        for seed in range(U(len(bases))):
            row, base = grid[seed], U(bases[seed])
            for k in range(first, min(first + U(KEYS), keys)):
                low, high = _cell(base ^ U(words[0, k]), cells), _cell(base ^ U(words[1, k]), cells)
                same = np.uint32(low == high)
                sums[0, k] += row[low]
                sums[1, k] += row[high]
                sums[2, k] += same * row[low]
                sums[3, k] += same
