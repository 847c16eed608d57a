"""Symbols with given weights, from bit planes that are made and compared in registers.

The same symbols as by ``bit_planes``, on processors with ``FAST_AES``. Sixteen people's numbers of one
group are compared at a time. Eight planes decide seven of eight such groups. The others wait in a queue
until there are many, and take four planes more at a time, so that no one's words are made in vain. The
number of the position that a state marks is compared with the end of the state's own law, along with the
others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import U, jit
from .plane_lanes import (
    PART_PLANES,
    PLANES,
    below_first,
    below_first_of_two,
    below_more,
    below_more_of_two,
    part_below_first,
    part_below_first_of_two,
    part_below_more,
    store_four,
)
from .registers import TILE, lane_of, whole_lines
from .vector_aes import words_of_chosen, words_of_one, words_of_two

WORD = np.uint32
RUN = 512
"""Maximum number of people whose undecided groups wait together."""
MOST_GROUPS = 128
"""Groups of a run's tiles, so that what is below stays in the nearest cache."""
ROOM, COLUMNS = 1024, 5
"""Undecided groups that a queue has room for, and what it says of each."""
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
def _mark_own(states: Any, first: Any, people_count: Any, silent: Any, two: bool, own: Any) -> None:
    """Which position each state marks: rows of lanes for the group, and for its bit by each law.

    ``own`` has three rows for each tile.
    """
    own[:] = WORD(0)
    for k in range(people_count):
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
    tiles: Any,
    whole: Any,
    groups: Any,
    two: bool,
    wanted: Any,
    own: Any,
    planes: Any,
    less: Any,
    queue: Any,
    counts: Any,
) -> None:
    """Compare the first planes of the tiles' groups of 32 positions, and more of what waits for it."""
    cells, apart = U(len(counts)), U(ROOM + TILE)
    for tile in range(tiles):
        for group in range(whole):
            words_of_two(plain, U(4) * T * tile, block + U(8) * group, schedule, planes, U(0))
            for t in range(cells):
                to, first, at = ((tile * cells + t) * groups + group) * T, t * U(96), U(counts[t])
                place = t * U(COLUMNS) * apart + at
                names = group, tile * T, less, to, queue, place, apart
                if two:
                    counts[t] = at + below_first_of_two(planes, wanted, first, own, *names)
                else:
                    counts[t] = at + below_first(planes, wanted, first, own, *names)
                if counts[t] > U(ROOM - TILE):
                    _decide_queue(plain, schedule, block, t, two, wanted, planes, less, queue, counts)


@jit
def _decide_queue(
    plain: Any,
    schedule: Any,
    block: Any,
    t: Any,
    two: bool,
    wanted: Any,
    planes: Any,
    less: Any,
    queue: Any,
    counts: Any,
) -> None:
    """Compare as many planes as it takes of what waits for it in the queue of an end."""
    apart, done = U(ROOM + TILE), U(2)
    start = t * U(COLUMNS) * apart
    while counts[t] and done < U(8):
        count, kept, first = U(counts[t]), U(0), t * U(96) + U(4) * done
        for column in range(U(3)):  # lanes behind the last one: nothing is undecided there
            for i in range(count, count + T):
                queue[start + column * apart + i] = WORD(0)
        for i in range(U(0), count, T):
            words_of_chosen(plain, queue, start + apart + i, block + done, schedule, planes)
            facts = planes, wanted, first, less, queue, start + i, start + kept, apart
            kept += below_more_of_two(*facts) if two else below_more(*facts)
        counts[t] = kept
        done += U(1)
    counts[t] = U(0)


@jit
def _decide_part(
    plain: Any,
    schedule: Any,
    block: Any,
    tiles: Any,
    size: Any,
    groups: Any,
    two: bool,
    wanted: Any,
    own: Any,
    words: Any,
    same: Any,
    less: Any,
) -> None:
    """Compare the numbers of the last group, which has less than 32 positions."""
    cells, group = U(len(same)) // T, groups - U(1)
    for tile in range(tiles):
        undecided, ready, done = U(0), U(0), U(0)
        while done == U(0) or (undecided and done < U(32)):
            count = U(4) if done else U(PART_PLANES)
            while ready << U(7) < (done + count) * size:
                words_of_one(plain, U(4) * T * tile, block + ready, schedule, words, ready * U(4) * T)
                ready += U(1)
            undecided = U(0)
            for t in range(cells):
                to, where = ((tile * cells + t) * groups + group) * T, (tile * T, same, t * T)
                facts = words, size, wanted, t * U(96), done, own, group, *where, less, to
                if done:
                    undecided |= part_below_more(*facts)
                elif two:
                    undecided |= part_below_first_of_two(*facts)
                else:
                    undecided |= part_below_first(*facts)
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
    tiles = max(U(1), min(U(RUN) // T, U(MOST_GROUPS) // groups))
    run, first_part = tiles * T, U(block) + U(8) * whole
    plain, owns = whole_lines(np.int64(U(4) * run)), whole_lines(np.int64(U(3) * run))
    words, planes = whole_lines(48 * TILE), whole_lines(PLANES * TILE)
    same = whole_lines(np.int64(cells * T))
    less = whole_lines(np.int64((tiles * cells * groups + U(3)) * T))
    queue = whole_lines(np.int64(cells * U(COLUMNS * (ROOM + TILE))))
    counts, width, bits = np.zeros(cells, np.uint64), U(out.shape[1]), out.reshape(-1)
    for start in range(U(0), U(len(addresses)), run):
        people_count = min(run, U(len(addresses)) - start)
        used = (people_count + T - U(1)) // T
        _mark_own(states, start, people_count, U(silent), two, owns)
        plain[: U(4) * people_count] = flat[U(4) * start : U(4) * (start + people_count)]
        if whole:
            facts = plain, schedule, U(block), used, whole, groups, two, wanted, owns
            _decide_whole(*facts, planes, less, queue, counts)
        if size:
            facts = plain, schedule, first_part, used, size, groups, two, wanted, owns
            _decide_part(*facts, words, same, less)
        for t in range(cells):
            _decide_queue(plain, schedule, U(block), t, two, wanted, planes, less, queue, counts)
        for tile in range(used):
            own_people = min(T, people_count - tile * T)
            if cells == U(1):
                _write_rows(less, tile * groups, start + tile * T, own_people, groups, width, bits)
            else:
                _write_marks(less, tile * cells * groups, start + tile * T, own_people, marks)


@jit
def _write_rows(
    less: Any, first: Any, start: Any, people_count: Any, groups: Any, width: Any, flat: Any
) -> None:
    """Bits of one cell for each position, in rows of lanes from ``first`` on, as rows of bytes.

    Four groups are written at a time. The last ones reach into the rows that follow, which is why they
    are written first, and rows in their order.
    """
    if (start + T) * width + U(15) < U(len(flat)):
        last = (groups - U(1)) >> U(2)
        for back in range(last + U(1)):
            group = (last - back) << U(2)
            store_four(less, first + group, flat, start * width + U(4) * group, width)
        return
    for k in range(people_count):
        at, lane = (start + k) * width, lane_of(k)
        for byte in range(width):
            word = less[(first + (byte >> U(2))) * T + lane]
            flat[at + byte] = (word >> WORD(U(8) * (byte & U(3)))) & WORD(255)


@jit
def _write_marks(less: Any, first: Any, start: Any, people_count: Any, marks: Any) -> None:
    """Which numbers are below each end, from rows of lanes from ``first`` on."""
    groups = U(marks.shape[2])
    for t in range(U(len(marks))):
        for k in range(people_count):
            lane = lane_of(k)
            for g in range(groups):
                marks[t, start + k, g] = less[(first + t * groups + g) * T + lane]
