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
TILE = 256
"""People at a time: their planes stay in the nearest cache."""


@jit
def below(words: Any, p: Any, column: Any, size: Any, end: Any) -> Any:
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
def _columns(words: Any, first: Any, column: Any, count: Any, columns: Any) -> None:
    """Words of the people from ``first`` on, ``count`` of each, as rows of ``columns``."""
    people = min(U(TILE), U(words.shape[0]) - first)
    for w in range(count):
        row = columns[w]
        for p in range(people):
            row[p] = words[first + p, column + w]


@jit
def _compare_own(columns: Any, size: Any, fake: Any, show: Any, own: Any, less: Any, same: Any) -> Any:
    """Compare the first planes of a group's numbers with ``fake``, with ``show`` where ``own`` is set.

    Returns whether something is undecided.
    """
    full = np.uint32((U(1) << size) - U(1))
    for p in range(U(len(own))):
        less[p], same[p] = np.uint32(0), full
    for j in range(U(4 * AT_FIRST)):
        word, shift = (j * size) >> U(5), np.uint32((j * size) & U(31))
        every = np.uint32(0) - np.uint32((fake >> (U(31) - j)) & U(1))
        other = np.uint32(0) - np.uint32(((fake ^ show) >> (U(31) - j)) & U(1))
        low, high = columns[word], columns[word + U(1)]
        back = np.uint32(31) - shift
        for p in range(U(len(own))):
            plane = np.uint32(low[p] >> shift) | np.uint32(np.uint32(high[p] << np.uint32(1)) << back)
            want = np.uint32(every ^ np.uint32(other & own[p]))
            less[p] |= same[p] & want & ~plane
            same[p] &= ~(plane ^ want)
    undecided = np.uint32(0)
    for p in range(U(len(own))):
        undecided |= same[p]
    return undecided != np.uint32(0)


@jit
def draw_bits(
    words: Any, column: int, positions: int, silent: int, fake: int, show: int, states: Any, out: Any
) -> None:
    """``Symbols.draw`` for one-hot bits, 32 of them in a word of ``out``.

    Twelve planes are compared for many people at once, and all planes for those whom they leave open.
    """
    columns = np.zeros((4 * AT_FIRST + 1, TILE), np.uint32)
    own, less, same = np.zeros((3, TILE), np.uint32)
    for start in range(U(0), U(words.shape[0]), U(TILE)):
        people = min(U(TILE), U(words.shape[0]) - start)
        for group in range((U(positions) + U(31)) >> U(5)):
            first = group << U(5)
            size = min(U(32), U(positions) - first)
            before = np.uint32(U(silent) + first)
            needed = (U(4 * AT_FIRST) * size + U(31)) >> U(5)
            _columns(words, start, U(column) + first, needed, columns)
            for p in range(people):
                place = np.uint32(states[start + p]) - before  # wraps around below it
                own[p] = np.uint32(place < np.uint32(size)) << (place & np.uint32(31))
            masks = own[:people], less[:people], same[:people]
            is_open = _compare_own(columns, size, U(fake), U(show), *masks)
            for p in range(people):
                out[start + p, group] = less[p]
            if is_open:
                for p in range(people):
                    if same[p]:
                        at, mine = U(column) + first, U(own[p])
                        bits = below(words, start + p, at, size, U(fake)) & ~mine
                        bits |= below(words, start + p, at, size, U(show)) & mine
                        out[start + p, group] = bits


@jit
def _planes(words: Any, block: Any, first: Any, people: Any, size: Any, count: Any, planes: Any) -> None:
    """Planes of a group, one row each, for people from ``first`` on, from blocks of all people."""
    if size == U(32):
        for b in range(count >> U(2)):
            own, row = words[block + b, first : first + people], b << U(2)
            for p in range(people):
                planes[row, p] = own[p, U(0)]
                planes[row + U(1), p] = own[p, U(1)]
                planes[row + U(2), p] = own[p, U(2)]
                planes[row + U(3), p] = own[p, U(3)]
        return
    for j in range(count):
        word, shift = (j * size) >> U(5), (j * size) & U(31)
        own = words[block + (word >> U(2))]
        for p in range(people):
            planes[j, p] = own[first + p, word & U(3)] >> shift
        if shift + size > U(32):
            word, shift = word + U(1), U(32) - shift
            own = words[block + (word >> U(2))]
            for p in range(people):
                planes[j, p] |= own[first + p, word & U(3)] << shift


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
def draw_one_end(
    words: Any,
    group: int,
    groups: int,
    end: int,
    marks: Any,
    open_people: Any,
    open_groups: Any,
    undecided_before: int,
) -> Any:
    """``draw_planes`` for one slice end and whole groups: it needs no planes in rows of their own."""
    undecided = U(undecided_before)
    wanted = np.empty(4 * AT_FIRST, np.uint32)
    for j in range(U(4 * AT_FIRST)):
        wanted[j] = np.uint32(0) - np.uint32((U(end) >> (U(31) - j)) & U(1))
    for g in range(U(groups)):
        own = words[g * U(AT_FIRST) : (g + U(1)) * U(AT_FIRST)]
        for p in range(U(words.shape[1])):
            less, same = np.uint32(0), np.uint32(0xFFFFFFFF)
            for b in range(U(AT_FIRST)):
                for c in range(U(4)):
                    want = wanted[b * U(4) + c]
                    other = np.uint32(own[b, p, c] ^ want)
                    less = np.uint32(less | (same & other & want))
                    same = np.uint32(same & ~other)
            marks[p, U(group) + g] = less
            if same:
                open_people[undecided] = p
                open_groups[undecided] = U(group) + g
                undecided += U(1)
    return undecided


@jit
def draw_planes(
    words: Any,
    group: int,
    groups: int,
    positions: int,
    ends: Any,
    marks: Any,
    open_people: Any,
    open_groups: Any,
    undecided_before: int,
) -> Any:
    """Compare the first planes of ``groups`` groups with slice ends: ``marks[end, person, group]``.

    ``words`` are blocks of all people, (blocks, people, 4), and ``ends`` those of the law of positions
    that no state marks. Writes down who is undecided in which group; returns how many are.
    """
    thresholds, undecided = U(len(ends)), U(undecided_before)
    planes = np.empty((32, TILE), np.uint32)
    less, same = np.empty((2, len(ends), TILE), np.uint32)
    for start in range(U(0), U(words.shape[1]), U(TILE)):
        people = min(U(TILE), U(words.shape[1]) - start)
        for g in range(U(group), U(group + groups)):
            size = min(U(32), U(positions) - g * U(32))
            blocks = min((size + U(3)) >> U(2), U(AT_FIRST))
            count = min(U(32), (blocks << U(7)) // size)
            _planes(words, (g - U(group)) * U(AT_FIRST), start, people, size, count, planes)
            full = np.uint32((U(1) << size) - U(1))
            for t in range(thresholds):
                own, rest = less[t, :people], same[t, :people]
                _compare(planes, count, U(ends[t]), full, own, rest)
                for p in range(people):
                    marks[t, start + p, g] = own[p]
                if t:
                    for p in range(people):
                        same[U(0), p] |= rest[p]
            for p in range(people):
                if same[U(0), p]:
                    open_people[undecided] = start + p
                    open_groups[undecided] = g
                    undecided += U(1)
    return undecided


@jit
def mark_own(
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
    undecided_before: int,
) -> Any:
    """Compare the number of the position that a state marks with the ends of the state's own law.

    ``ends[law]`` are the ends of all laws. The rest is as in ``draw_planes``, of which this is the
    second half.
    """
    laws, undecided = U(ends.shape[0] - 1), U(undecided_before)
    for p in range(U(words.shape[1])):
        if U(states[p]) < U(silent):
            continue
        place, law = (U(states[p]) - U(silent)) // laws, (U(states[p]) - U(silent)) % laws + U(1)
        g = place >> U(5)
        if g < U(group) or g >= U(group + groups):
            continue
        size, place = min(U(32), U(positions) - g * U(32)), place & U(31)
        blocks = min((size + U(3)) >> U(2), U(AT_FIRST))
        count, number, at = min(U(32), (blocks << U(7)) // size), U(0), place
        first = (g - U(group)) * U(AT_FIRST)
        for _ in range(count):
            word = words[first + (at >> U(7)), p, (at >> U(5)) & U(3)]
            number = (number << U(1)) | ((U(word) >> (at & U(31))) & U(1))
            at += size
        is_open = False
        for t in range(U(ends.shape[1])):
            end = U(ends[law, t]) >> (U(32) - count)
            is_open |= number == end
            bits = U(marks[t, p, g]) & ~(U(1) << place)
            marks[t, p, g] = bits | (U(number < end) << place)
        if is_open:
            open_people[undecided] = p
            open_groups[undecided] = g
            undecided += U(1)
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
            bits = below(words, i, U(0), size, U(ends[U(0), t])) & ~own
            if own:
                bits |= below(words, i, U(0), size, U(ends[law, t])) & own
            marks[t, p, g] = bits
