"""Registers of sixteen 32-bit lanes, for operations that compiled loops do on many words at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]

from .lanes import U, jit

TILE = 16
"""Blocks, people or groups at a time: as many as a register has 32-bit lanes."""

I32, I64 = ir.IntType(32), ir.IntType(64)
BLOCK, FOUR = ir.VectorType(I32, 4), ir.VectorType(I32, TILE)
"""The words of a block, and of four blocks."""


def place_of(context: Any, builder: Any, kind: Any, value: Any, index: Any, vector: Any) -> Any:
    """A pointer to a vector of words at ``index`` of a contiguous array."""
    data = context.make_array(kind)(context, builder, value).data
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def everywhere(builder: Any, word: Any) -> Any:
    """A register with ``word`` in every lane."""
    first = builder.insert_element(ir.Constant(FOUR, ir.Undefined), word, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, first, ir.Constant(FOUR, [0] * TILE))


def transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Four registers of blocks as four of words: lane 4 i + k has block i of row k."""
    low = ir.Constant(FOUR, [q + s for q in range(0, TILE, 4) for s in (0, TILE, 1, TILE + 1)])
    high = ir.Constant(FOUR, [q + s for q in range(0, TILE, 4) for s in (2, TILE + 2, 3, TILE + 3)])
    first = ir.Constant(FOUR, [q + s for q in range(0, TILE, 4) for s in (0, 1, TILE, TILE + 1)])
    second = ir.Constant(FOUR, [q + s for q in range(0, TILE, 4) for s in (2, 3, TILE + 2, TILE + 3)])
    words = []
    for half in (low, high):
        left = builder.shuffle_vector(rows[0], rows[1], half)
        right = builder.shuffle_vector(rows[2], rows[3], half)
        words += [builder.shuffle_vector(left, right, pick) for pick in (first, second)]
    return words


@jit
def whole_lines(count: Any) -> Any:
    """Zeros, ``count`` words of them, from the beginning of a line of the cache."""
    room = np.zeros(count + 15, np.uint32)
    first = (16 - ((room.ctypes.data >> 2) & 15)) & 15
    return room[first : first + count]


@jit
def lane_of(stream: Any) -> Any:
    """The lane of a stream's words, if ``TILE`` addresses are taken four by four in their order."""
    return ((stream & U(3)) << U(2)) + (stream >> U(2))
