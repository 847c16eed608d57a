"""Symbols with given weights, from bit planes that are made and compared in registers.

The same symbols as by ``bit_planes``, on processors with ``FAST_AES``. Sixteen people's numbers of one
group are compared at a time. Twelve planes decide nine of ten such tiles, and the others take four more
at a time. The number of the position that a state marks is compared with the end of the state's own law,
along with the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import U, jit
from .plane_lanes import (
    PLANES,
    below_first,
    below_first_of_two,
    below_more,
    part_below_first,
    part_below_first_of_two,
    part_below_more,
    store_four,
)
from .registers import TILE, lane_of, whole_lines
from .vector_aes import words_of_one, words_of_three

WORD = np.uint32
RUN = 256
"""People whose states are looked at before their words are made."""
MANY = 32
"""Whole groups from which on the undecided ones wait for the others."""
MOST_LAWS = 2
"""Laws of a state's own position that are compared at once."""
T = U(TILE)


@jit
def _wanted(ends: Any) -> Any:
    """``wanted`` of ``below_first`` for each end, 96 words each."""
    wanted = np.zeros((ends.shape[1], 3, 32), np.uint32)
    for t in range(ends.shape[1]):
        for law in range(ends.shape[0]):
            bits = U(ends[law, t]) ^ (U(ends[0, t]) if law else U(0))
            for plane in range(32):
                if (bits >> U(31 - plane)) & U(1):
                    wanted[t, law, plane] = WORD(0xFFFFFFFF)
    return wanted.reshape(-1)


@jit
def _mark_own(states: Any, first: Any, some: Any, silent: Any, two: bool, own: Any) -> None:
    """Which position each state marks: rows of lanes for the group, and for its bit by each law.

    ``own`` has three rows for each tile.
    """
    own[:] = WORD(0)
    for k in range(some):
        state = U(states[first + k])
        if state >= silent:
            law, position = (state - silent) & U(two), (state - silent) >> U(two)
            at = (k & ~U(15)) * U(3) + lane_of(k & U(15))
            own[at] = position >> U(5)
            own[at + (law + U(1)) * T] = U(1) << (position & U(31))


@jit
def _decide_whole(
    plain: Any,
    schedule: Any,
    block: Any,
    group: Any,
    groups: Any,
    two: bool,
    wanted: Any,
    own: Any,
    planes: Any,
    same: Any,
    less: Any,
) -> None:
    """Compare the numbers of a group of 32 positions."""
    cells, undecided, done, full = U(len(same)) // T, U(0), U(3), WORD(0xFFFFFFFF)
    words_of_three(plain, U(0), block, schedule, planes, U(0))
    for t in range(cells):
        to, first, at = (t * groups + group) * T, t * U(96), t * T
        if two:
            undecided |= below_first_of_two(
                planes, U(32), wanted, first, U(0), own, group, full, same, at, less, to
            )
        else:
            undecided |= below_first(
                planes, U(32), wanted, first, U(0), own, group, full, same, at, less, to
            )
    while undecided and done < U(8):
        words_of_one(plain, U(0), block + done, schedule, planes, U(0))
        undecided = U(0)
        for t in range(cells):
            to, first, at = (t * groups + group) * T, t * U(96), t * T
            undecided |= below_more(
                planes, U(32), wanted, first, U(4) * done, own, group, full, same, at, less, to
            )
        done += U(1)


@jit
def _decide_many(
    plain: Any,
    schedule: Any,
    block: Any,
    whole: Any,
    groups: Any,
    two: bool,
    wanted: Any,
    own: Any,
    planes: Any,
    same: Any,
    less: Any,
    pending: Any,
) -> None:
    """``_decide_whole`` for many groups: undecided ones wait until all have been looked at.

    Each has rows of ``same``. Every group is written down in ``pending``, and the next one overwrites a
    group that is decided, which saves a branch.
    """
    cells, found, full = U(len(same)) // (T * U(len(pending))), U(0), WORD(0xFFFFFFFF)
    for group in range(whole):
        words_of_three(plain, U(0), block + U(8) * group, schedule, planes, U(0))
        undecided = U(0)
        for t in range(cells):
            to, first, at = (t * groups + group) * T, t * U(96), (found * cells + t) * T
            if two:
                undecided |= below_first_of_two(
                    planes, U(32), wanted, first, U(0), own, group, full, same, at, less, to
                )
            else:
                undecided |= below_first(
                    planes, U(32), wanted, first, U(0), own, group, full, same, at, less, to
                )
        pending[found] = group
        found += U(undecided != U(0))
    for i in range(found):
        undecided, done = U(1), U(3)
        late = U(pending[i])
        while undecided and done < U(8):
            words_of_one(plain, U(0), block + U(8) * late + done, schedule, planes, U(0))
            undecided = U(0)
            for t in range(cells):
                to, first, at = (t * groups + late) * T, t * U(96), (i * cells + t) * T
                undecided |= below_more(
                    planes, U(32), wanted, first, U(4) * done, own, late, full, same, at, less, to
                )
            done += U(1)


@jit
def _decide_part(
    plain: Any,
    schedule: Any,
    block: Any,
    size: Any,
    groups: Any,
    two: bool,
    wanted: Any,
    own: Any,
    words: Any,
    planes: Any,
    same: Any,
    less: Any,
) -> None:
    """Compare the numbers of the last group, which has less than 32 positions."""
    cells, undecided, group = U(len(same)) // T, U(0), groups - U(1)
    ready, done, full = U(0), U(0), WORD((U(1) << size) - U(1))
    while done == U(0) or (undecided and done < U(32)):
        count = U(4) if done else U(PLANES)
        while ready << U(7) < (done + count) * size:
            words_of_one(plain, U(0), block + ready, schedule, words, ready * U(4) * T)
            ready += U(1)
        undecided = U(0)
        for t in range(cells):
            to, first, at = (t * groups + group) * T, t * U(96), t * T
            if done:
                undecided |= part_below_more(
                    words, size, wanted, first, done, own, group, full, same, at, less, to
                )
            elif two:
                undecided |= part_below_first_of_two(
                    words, size, wanted, first, done, own, group, full, same, at, less, to
                )
            else:
                undecided |= part_below_first(
                    words, size, wanted, first, done, own, group, full, same, at, less, to
                )
        done += count


@jit
def draw_tiles(
    addresses: Any,
    schedule: Any,
    block: int,
    positions: int,
    silent: int,
    ends: Any,
    states: Any,
    marks: Any,
    out: Any,
) -> None:
    """Draw the symbols of all positions, whose words begin with ``block``.

    With one slice end, writes packed bits into the rows of ``out``; with several, writes which numbers
    are below each of them into ``marks[end, person, group]``.
    """
    flat, wanted, cells = addresses.reshape(-1), _wanted(ends), U(ends.shape[1])
    whole, size = U(positions) >> U(5), U(positions) & U(31)
    groups, two = whole + U(size > U(0)), ends.shape[0] > 2
    plain, owns = whole_lines(4 * TILE), whole_lines(3 * RUN)
    words, planes = whole_lines(48 * TILE), whole_lines(PLANES * TILE)
    same, less = whole_lines(np.int64(cells * T)), whole_lines(np.int64((cells * groups + U(3)) * T))
    pending = np.zeros(whole + U(1), np.uint32)
    waiting = whole_lines(np.int64(cells * T * U(len(pending))))
    for start in range(U(0), U(len(addresses)), T):
        some = min(T, U(len(addresses)) - start)
        if start % U(RUN) == U(0):
            _mark_own(states, start, min(U(RUN), U(len(states)) - start), U(silent), two, owns)
        own = owns[(start % U(RUN)) * U(3) :]
        for i in range(U(4) * some):
            plain[i] = flat[U(4) * start + i]
        if whole >= U(MANY):
            many = U(block), whole, groups, two
            _decide_many(plain, schedule, *many, wanted, own, planes, waiting, less, pending)
        else:
            for g in range(whole):
                here = U(block) + U(8) * g
                _decide_whole(plain, schedule, here, g, groups, two, wanted, own, planes, same, less)
        if size:
            last = U(block) + U(8) * whole
            _decide_part(
                plain, schedule, last, size, groups, two, wanted, own, words, planes, same, less
            )
        if cells == U(1):
            _write_rows(less, start, some, groups, out)
        else:
            _write_marks(less, start, some, marks)


@jit
def _write_rows(less: Any, start: Any, some: Any, groups: Any, out: Any) -> None:
    """Bits of one cell for each position, as rows of bytes.

    Four groups are written at a time. The last ones reach into the rows that follow, which is why they
    are written first, and rows in their order.
    """
    width, flat = U(out.shape[1]), out.reshape(-1)
    if (start + T) * width + U(15) < U(len(flat)):
        last = (groups - U(1)) >> U(2)
        for back in range(last + U(1)):
            group = (last - back) << U(2)
            store_four(less, group, flat, start * width + U(4) * group, width)
        return
    for k in range(some):
        at, lane = (start + k) * width, lane_of(k)
        for byte in range(width):
            word = less[(byte >> U(2)) * T + lane]
            flat[at + byte] = (word >> WORD(U(8) * (byte & U(3)))) & WORD(255)


@jit
def _write_marks(less: Any, start: Any, some: Any, marks: Any) -> None:
    """Which numbers are below each end."""
    groups = U(marks.shape[2])
    for t in range(U(len(marks))):
        for k in range(some):
            row, lane = marks[t, start + k], lane_of(k)
            for g in range(groups):
                row[g] = less[(t * groups + g) * T + lane]
