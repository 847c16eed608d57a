"""Symbols with given weights, from numbers that lie in bit planes.

A plane has one bit of 32 positions' numbers, so one comparison decides 32 of them. After twelve planes,
the most significant ones first, one group of 32 positions in a hundred is open: the words of the other
planes are computed for these alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import U, jit

AT_FIRST = 3
"""Blocks of a group's words that are computed for everyone."""


@jit
def _below(words: Any, p: Any, column: Any, size: Any, end: Any) -> Any:
    """Bit i is set if the number of a group's position i, which is in bit planes, is below ``end``."""
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


@jit
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


@jit
def _planes(words: Any, block: Any, size: Any, count: Any, planes: Any) -> None:
    """Planes of a group, one row each. ``words`` are blocks of all people, (blocks, people, 4)."""
    if size == U(32):
        for b in range(count >> U(2)):
            row = b << U(2)
            for p in range(U(words.shape[1])):
                planes[row, p] = words[block + b, p, U(0)]
                planes[row + U(1), p] = words[block + b, p, U(1)]
                planes[row + U(2), p] = words[block + b, p, U(2)]
                planes[row + U(3), p] = words[block + b, p, U(3)]
        return
    for j in range(count):
        word, shift = (j * size) >> U(5), (j * size) & U(31)
        own = words[block + (word >> U(2))]
        if shift + size > U(32):
            other = words[block + ((word + U(1)) >> U(2))]
            for p in range(U(words.shape[1])):
                low = U(own[p, word & U(3)]) >> shift
                planes[j, p] = low | (U(other[p, (word + U(1)) & U(3)]) << (U(32) - shift))
        else:
            for p in range(U(words.shape[1])):
                planes[j, p] = U(own[p, word & U(3)]) >> shift


@jit
def _compare(planes: Any, count: Any, end: Any, full: Any, less: Any, same: Any) -> None:
    """Which positions are below ``end`` after these planes, and which are undecided."""
    for p in range(U(len(less))):
        less[p], same[p] = np.uint32(0), full
    for j in range(count):
        plane = planes[j]
        if (end >> (U(31) - j)) & U(1):
            for p in range(U(len(less))):
                less[p] |= same[p] & ~plane[p]
                same[p] &= plane[p]
        else:
            for p in range(U(len(less))):
                same[p] &= ~plane[p]


@jit
def draw_planes(
    words: Any,
    group: int,
    groups: int,
    positions: int,
    silent: int,
    ends: Any,
    states: Any,
    marks: Any,
    open_people: Any,
    open_groups: Any,
    found: int,
) -> Any:
    """Compare the first planes of ``groups`` groups with slice ends: ``marks[end, person, group]``.

    ``ends[law]`` are the ends of the slices of symbols 1, 2, ... Law 0 is that of all positions but the
    one that the state marks. Writes down who is undecided in which group; returns how many are.
    """
    people, thresholds, laws = U(words.shape[1]), U(ends.shape[1]), np.int64(ends.shape[0] - 1)
    planes = np.empty((32, words.shape[1]), np.uint32)
    less, same = np.empty((2, ends.shape[1], words.shape[1]), np.uint32)
    undecided = U(found)
    for g in range(U(group), U(group + groups)):
        first: Any = np.int64(g) * 32
        size = U(min(32, positions - first))
        blocks = min((size + U(3)) >> U(2), U(AT_FIRST))
        count = min(U(32), (blocks << U(7)) // size)
        _planes(words, (g - U(group)) * U(AT_FIRST), size, count, planes)
        full = np.uint32((U(1) << size) - U(1))
        for t in range(thresholds):
            _compare(planes, count, U(ends[U(0), t]), full, less[t], same[t])
        for p in range(people):
            at = np.int64(states[p]) - silent
            if at >= first * laws and at < (first + np.int64(size)) * laws:
                place = U(at // laws - first)
                law, number = U(1 + at % laws), U(0)
                for j in range(count):
                    number = (number << U(1)) | ((U(planes[j, p]) >> place) & U(1))
                bit = U(1) << place
                for t in range(thresholds):
                    end = U(ends[law, t]) >> (U(32) - count)
                    exact = (end << (U(32) - count)) == U(ends[law, t])
                    is_open = (not exact) and number == end
                    less[t, p] = (U(less[t, p]) & ~bit) | (bit * U(number < end))
                    same[t, p] = (U(same[t, p]) & ~bit) | (bit * U(is_open))
        for t in range(thresholds):
            for p in range(people):
                marks[t, p, g] = less[t, p]
        for p in range(people):
            rest = np.uint32(0)
            for t in range(thresholds):
                rest |= same[t, p]
            open_people[undecided] = p
            open_groups[undecided] = g
            undecided += U(rest != np.uint32(0))
    return undecided


@jit
def finish_planes(
    words: Any, positions: int, silent: int, ends: Any, states: Any, people: Any, groups: Any, marks: Any
) -> None:
    """Compare all planes for the people and groups that are undecided; row i has their words."""
    laws = np.int64(ends.shape[0] - 1)
    for i in range(U(len(people))):
        p, g = U(people[i]), U(groups[i])
        first: Any = np.int64(g) * 32
        size = U(min(32, positions - first))
        at = np.int64(states[p]) - silent
        own, law = U(0), U(0)
        if at >= first * laws and at < (first + np.int64(size)) * laws:
            own, law = U(1) << U(at // laws - first), U(1 + at % laws)
        for t in range(U(ends.shape[1])):
            bits = _below(words, i, U(0), size, U(ends[U(0), t])) & ~own
            if own:
                bits |= _below(words, i, U(0), size, U(ends[law, t])) & own
            marks[t, p, g] = bits


@jit
def pack_symbols(marks: Any, spread: Any, out: Any) -> None:
    """The cells of all positions as bits, from the slice ends that their numbers are below.

    ``spread[byte]`` has the bits of a byte as many places apart as a position has cells.
    """
    cells, width = U(marks.shape[0]), U(out.shape[1])
    for p in range(U(marks.shape[1])):
        at = U(0)
        for g in range(U(marks.shape[2])):
            for shift in range(U(0), U(32), U(8)):
                bits, before = U(0), U(0)
                for t in range(cells):
                    below = (U(marks[t, p, g]) >> shift) & U(255)
                    bits |= U(spread[below & ~before]) << t
                    before = below
                for _ in range(cells):
                    if at < width:
                        out[p, at] = bits & U(255)
                    bits >>= U(8)
                    at += U(1)
