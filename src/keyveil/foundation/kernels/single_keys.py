"""One key of each person: picked, found, rounded and drawn, a run of people at a time.

Most people do not hold the key they pick, so all are drawn as if they did not, and those who do are
drawn again from the same words. Words and notes of a run stay in the nearest cache, and the lines of the
table that it will read are asked for while its words are made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import U, fetch, jit
from .record_keys import RUN, find_held, round_held
from .registers import TILE, whole_lines
from .vector_aes import word_rows

BLOCK = 4
"""Words of each person, which are all that one key may take."""


@jit
def _fill(flat: Any, width: Any, schedule: Any, first: Any, at: Any, rows: Any, to: Any) -> None:
    """The first words of ``TILE`` people, a row for each word.

    Without a schedule they are those of ``flat``, which has ``width`` for each person; else its
    addresses are encrypted, and ``first`` is the number of the block.
    """
    if schedule is None:
        for word in range(U(BLOCK)):
            for i in range(U(TILE)):
                rows[word * U(RUN) + to + i] = flat[(at + i) * width + word]
    else:
        word_rows(flat, at * width, first, schedule, rows, to, U(RUN))


@jit
def _ask(table: Any, at: Any, size: Any, tile: Any, flat: Any, width: Any) -> None:
    """Ask for what a run and the next one will read, a part with each tile, while words are made."""
    starts, keys, _ = table
    lane = U(64 // keys.itemsize)
    lines = (U(starts[at + size]) - U(starts[at])) // (lane * U(RUN // TILE)) + U(1)
    for line in range(lines):
        fetch(keys, U(starts[at]) + (tile * lines + line) * lane)
    for line in range(U(2)):
        fetch(starts, at + U(RUN) + U(TILE) * tile + U(8) * line)
    for line in range(width):
        fetch(flat, width * (at + U(RUN // 2) + U(TILE) * tile) + U(16) * line)


@jit
def _hold(
    flat: Any,
    width: Any,
    schedule: Any,
    first: Any,
    views: Any,
    at: Any,
    size: Any,
    inside: Any,
    table: Any,
    rows: Any,
    plain: Any,
    picked: Any,
    who: Any,
    row: Any,
) -> Any:
    """Make the words of a run of people, pick their keys and find who holds them; how many do."""
    whole = size // U(TILE)
    for tile in range(whole):
        _ask(table, at, size, tile, flat, width)
        _fill(flat, width, schedule, first, at + U(TILE) * tile, rows, U(TILE) * tile)
    if U(TILE) * whole < size:
        begin = width * (at + U(TILE) * whole)
        for i in range(width * (size & U(TILE - 1))):
            plain[i] = flat[begin + i]
        _fill(plain, width, schedule, first, U(0), rows, U(TILE) * whole)
    for p in range(size):
        picked[p] = (U(rows[p]) * U(np.uint32(views))) >> U(32)
    return find_held(picked, at, size, inside, table, who, row)


@jit
def report_keys(
    source: Any,
    schedule: Any,
    first: int,
    column: int,
    views: int,
    inside: int,
    table: Any,
    ranges: Any,
    absent: Any,
    ends: Any,
    order: Any,
    out: Any,
) -> None:
    """Everyone's code: one key each, all equally likely, drawn with word ``column``.

    ``source`` are addresses, whose block ``first`` is made here, or words if ``schedule`` is None.
    Of the first ``inside`` people LANES keys can be read. ``table`` are starts, keys and values;
    ``ranges`` the lows, highs, and levels of keys. ``ends[state]`` are the slice ends of a state and
    ``order[state]`` the outputs of its slices; ``absent`` is a tuple of those of state 0, whose slices
    are in the order of outputs. All are drawn as if they did not hold their key, and those who do are
    drawn again from the same word.
    """
    flat, width = source.reshape(-1), U(source.shape[1])
    rows, plain = whole_lines(BLOCK * RUN), np.zeros(U(TILE) * width, np.uint32)
    picked, who = np.empty(RUN, table[1].dtype), np.empty(RUN + 1, np.uint32)
    row, states = np.empty(RUN + 1, np.uint64), np.empty(RUN, np.uint16)
    ranges = (*ranges, np.empty(RUN))
    people, drawn, cells = U(len(source)), rows[RUN * column :], U(len(absent) + 1)
    count, block, near = U(views), U(first), U(inside)
    for at in range(U(0), people, U(RUN)):
        size = min(U(RUN), people - at)
        holders = _hold(
            flat, width, schedule, block, count, at, size, near, table, rows, plain, picked, who, row
        )
        for p in range(size):
            slot = U(0)
            for end in absent:
                slot += U(drawn[p] >= end)
            out[at + p] = U(picked[p]) * cells + slot
        round_held(rows, U(RUN), holders, who, row, table, ranges, states)
        for i in range(holders):
            own, state = U(who[i]), U(states[i])
            slot = U(0)
            for j in range(len(absent)):
                slot += U(drawn[own] >= ends[state, j])
            out[at + own] = U(picked[own]) * cells + order[state, slot]


@jit
def hold_keys(
    words: Any, views: int, inside: int, table: Any, ranges: Any, keys: Any, states: Any
) -> None:
    """Everyone's picked key and its state, 0 for a key that is not held; as in ``report_keys``."""
    flat, width = words.reshape(-1), U(words.shape[1])
    rows, plain = whole_lines(BLOCK * RUN), np.zeros(U(TILE) * width, np.uint32)
    picked, who = np.empty(RUN, table[1].dtype), np.empty(RUN + 1, np.uint32)
    row, own = np.empty(RUN + 1, np.uint64), np.empty(RUN, np.uint16)
    ranges = (*ranges, np.empty(RUN))
    people, count, near = U(len(words)), U(views), U(inside)
    for at in range(U(0), people, U(RUN)):
        size = min(U(RUN), people - at)
        holders = _hold(
            flat, width, None, U(0), count, at, size, near, table, rows, plain, picked, who, row
        )
        round_held(rows, U(RUN), holders, who, row, table, ranges, own)
        for p in range(size):
            keys[at + p], states[at + p] = picked[p], 0
        for i in range(holders):
            states[at + U(who[i])] = own[i]
