"""Compiled loops over arrays; imported by ``fast`` alone. Unsigned indices: no wrap-around tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

__all__ = [
    "LANES",
    "count",
    "draw_bits",
    "find_held",
    "find_rest",
    "pick_and_draw",
    "pick_items",
    "redraw_held",
    "round_held",
    "walk",
]

_jit: Any = njit(cache=True, nogil=True)
_inline: Any = intrinsic
U = np.uint64

LANES = 16
"""Keys of a person that are compared at once."""


@_jit
def count(codes: Any, seen: Any) -> bool:
    """Add up codes into ``seen``; False if one lies outside. Four tables, so that runs of equal
    codes do not wait for each other's stores."""
    size = U(len(seen))
    parts = np.zeros((4, len(seen)), np.int64)
    whole = U(len(codes)) & ~U(3)
    for i in range(U(0), whole, U(4)):
        a, b, c, d = U(codes[i]), U(codes[i + U(1)]), U(codes[i + U(2)]), U(codes[i + U(3)])
        if a >= size or b >= size or c >= size or d >= size:
            return False
        parts[U(0), a] += 1
        parts[U(1), b] += 1
        parts[U(2), c] += 1
        parts[U(3), d] += 1
    for i in range(whole, U(len(codes))):
        a = U(codes[i])
        if a >= size:
            return False
        parts[U(0), a] += 1
    for j in range(size):
        seen[j] += parts[U(0), j] + parts[U(1), j] + parts[U(2), j] + parts[U(3), j]
    return True


@_inline
def _equal_lanes(typing: Any, keys: Any, first: Any, key: Any) -> Any:
    """Bit j says whether ``keys[first + j] == key``, for LANES keys of a contiguous array."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, values[0])
        lane, index = context.get_value_type(signature.args[2]), ir.IntType(32)
        lanes = ir.VectorType(lane, LANES)
        start = builder.gep(array.data, [values[1]])
        some = builder.load(builder.bitcast(start, lanes.as_pointer()), align=1)
        blank = ir.Constant(lanes, ir.Undefined)
        first_lane = builder.insert_element(blank, values[2], ir.Constant(index, 0))
        every_lane = ir.Constant(ir.VectorType(index, LANES), [0] * LANES)
        wanted = builder.shuffle_vector(first_lane, blank, every_lane)
        equal = builder.icmp_unsigned("==", some, wanted)
        return builder.zext(builder.bitcast(equal, ir.IntType(LANES)), ir.IntType(64))

    return types.uint64(keys, types.uint64, keys.dtype), build


@_inline
def _lowest_bit(typing: Any, bits: Any) -> Any:
    """The place of the lowest bit that is set; 64 for none."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.cttz(values[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), build


@_jit
def pick_and_draw(words: Any, column: int, views: int, ends: Any, out: Any) -> None:
    """Pick each person's key evenly and draw its code as if the key were not held.

    ``ends`` is a tuple of the slice ends of state 0, whose slices stand for the outputs in order.
    """
    width = U(len(ends) + 1)
    for p in range(U(words.shape[0])):
        word = words[p, U(column)]
        slot = U(0)
        for end in ends:
            slot += U(word >= end)
        out[p] = ((U(words[p, U(0)]) * U(views)) >> U(32)) * width + slot


@_jit
def find_held(words: Any, starts: Any, keys: Any, views: int, inside: int, who: Any, row: Any) -> Any:
    """Note who of the first ``inside`` people holds the key they pick, and in which row of the table.

    Compares the first LANES keys of each record at once, so that many must follow in the table.
    Returns how many were found, and the longest record. Every person is noted, and the next one
    overwrites those who do not hold their key: no branch.
    """
    found, most = U(0), U(0)
    for p in range(U(inside)):
        key = (U(words[p, U(0)]) * U(views)) >> U(32)
        first = U(starts[p])
        size = U(starts[p + U(1)]) - first
        most = max(most, size)
        own = (U(1) << min(size, U(LANES))) - U(1)
        bits = _equal_lanes(keys, first, keys.dtype.type(key)) & own
        who[found] = p
        row[found] = first + _lowest_bit(bits)
        found += U(bits != U(0))
    return found, most


@_jit
def find_rest(
    words: Any,
    starts: Any,
    keys: Any,
    views: int,
    begin: int,
    inside: int,
    found: int,
    who: Any,
    row: Any,
) -> Any:
    """What ``find_held`` leaves: long records, from person ``begin`` on, and people not inside."""
    held = U(found)
    for p in range(U(begin), U(words.shape[0])):
        key = (U(words[p, U(0)]) * U(views)) >> U(32)
        first = U(starts[p]) + (U(LANES) if p < U(inside) else U(0))
        hit = U(0)
        for r in range(first, U(starts[p + U(1)])):  # no early exit: a branch costs more
            hit |= U(keys[r] == keys.dtype.type(key)) * (r + U(1) - first)
        who[held] = p
        row[held] = first + hit - U(1)
        held += U(hit != U(0))
    return held


@_jit
def round_held(
    words: Any,
    keys: Any,
    values: Any,
    low: Any,
    high: Any,
    levels: int,
    found: int,
    who: Any,
    row: Any,
    room: Any,
    states: Any,
) -> None:
    """The state of each person found, in the order of operations that ``Schema.rounded`` states."""
    for i in range(U(found)):  # on its own, so that many reads from far memory are under way at once
        room[i] = values[row[i]]
    steps, top = np.float64(levels - 1), np.float64(max(levels - 2, 0))
    for i in range(U(found)):
        key = U(keys[row[i]])
        at = (room[i] - low[key]) / (high[key] - low[key]) * steps
        below = min(np.floor(at), top)
        up = np.float64(words[who[i], U(1)]) < np.floor((at - below) * 4294967296.0)
        states[i] = U(np.int64(below)) + U(1) + U(up)


@_jit
def redraw_held(
    words: Any,
    column: int,
    views: int,
    ends: Any,
    order: Any,
    found: int,
    who: Any,
    states: Any,
    out: Any,
) -> None:
    """Draw again for the people who hold their key, from their state and the same word.

    ``ends[state]`` are the slice ends of a state, ``order[state]`` the outputs of its slices.
    """
    slots, width = U(ends.shape[1]), U(order.shape[1])
    for i in range(U(found)):
        p, state = U(who[i]), U(states[i])
        word = U(words[p, U(column)])
        slot = U(0)
        for j in range(slots):
            slot += U(word >= ends[state, j])
        key = (U(words[p, U(0)]) * U(views)) >> U(32)
        out[p] = key * width + order[state, slot]


@_jit
def pick_items(words: Any, starts: Any, keys: Any, states: Any) -> None:
    """One held key of each person, all equally likely: 1 + its place, or 0 for none."""
    for p in range(U(words.shape[0])):
        first = U(starts[p])
        held = U(starts[p + U(1)]) - first
        if held:
            states[p] = U(1) + U(keys[first + ((U(words[p, U(1)]) * held) >> U(32))])
        else:
            states[p] = U(0)


@_jit
def walk(
    words: Any, column: int, states: Any, count: int, keep: int, lie: int, rest: int, out: Any
) -> None:
    """``Symmetric.draw``: below ``keep`` the state itself, above it a walk round the circle."""
    heavy = U(rest) * U(lie + 1)
    for p in range(U(words.shape[0])):
        word = U(words[p, U(column)])
        to = U(states[p])
        if word >= U(keep):
            over = word - U(keep)
            if over < heavy:
                to += over // U(lie + 1) + U(1)
            else:
                to += U(rest) + (over - heavy) // U(lie) + U(1)
            to -= U(count) if to >= U(count) else U(0)
        out[p] = to


@_jit
def _below(words: Any, p: Any, column: Any, size: Any, end: Any) -> Any:
    """Bit i says whether the number of a group's position i, laid out in bit planes, is below end."""
    less, same = U(0), (U(1) << size) - U(1)
    for j in range(U(32)):  # from the most significant plane on, until every position is decided
        at = j * size
        word, shift = column + (at >> U(5)), at & U(31)
        plane = U(words[p, word]) >> shift
        if shift + size > U(32):
            plane |= U(words[p, word + U(1)]) << (U(32) - shift)
        if (end >> (U(31) - j)) & U(1):
            less |= same & ~plane
            same &= plane
        else:
            same &= ~plane
        if same == U(0):
            break
    return less


@_jit
def draw_bits(
    words: Any, column: int, positions: int, silent: int, fake: int, show: int, states: Any, out: Any
) -> None:
    """``Symbols.draw`` for one-hot bits, 32 of them in a word of ``out``."""
    for p in range(U(words.shape[0])):
        marked = np.int64(states[p]) - silent
        for first in range(0, positions, 32):
            size, at = U(min(32, positions - first)), U(column + first)
            bits = _below(words, p, at, size, U(fake))
            if first <= marked < first + 32:
                own = U(1) << U(marked - first)
                bits = (bits & ~own) | (_below(words, p, at, size, U(show)) & own)
            out[p, first // 32] = bits
