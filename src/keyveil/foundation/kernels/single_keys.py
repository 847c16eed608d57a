"""One key of each person: picked, found, rounded and drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import LANES, U, equal_lanes, jit, lowest_bit


@jit
def pick_and_draw(words: Any, column: int, views: int, ends: Any, out: Any) -> None:
    """Pick each person's key, all equally likely, and draw its code as if the key were not held.

    ``ends`` is a tuple of the slice ends of state 0. Its slices are in the order of outputs.
    """
    width = U(len(ends) + 1)
    for p in range(U(words.shape[0])):
        word = words[p, U(column)]
        slot = U(0)
        for end in ends:
            slot += U(word >= end)
        out[p] = ((U(words[p, U(0)]) * U(views)) >> U(32)) * width + slot


@jit
def find_held(words: Any, starts: Any, keys: Any, views: int, inside: int, who: Any, row: Any) -> Any:
    """Write down who of the first ``inside`` people holds the picked key, and its row of the table.

    The first LANES keys of each record are compared at once, so the table must have as many more rows.
    Returns the number of holders, and the length of the longest record. Every person is written down,
    and the next one overwrites a person who does not hold the key, which saves a branch.
    """
    holders, most = U(0), U(0)
    for p in range(U(inside)):
        key = (U(words[p, U(0)]) * U(views)) >> U(32)
        first = U(starts[p])
        size = U(starts[p + U(1)]) - first
        most = max(most, size)
        own = (U(1) << min(size, U(LANES))) - U(1)
        bits = equal_lanes(keys, first, keys.dtype.type(key)) & own
        who[holders] = p
        row[holders] = first + lowest_bit(bits)
        holders += U(bits != U(0))
    return holders, most


@jit
def find_rest(
    words: Any,
    starts: Any,
    keys: Any,
    views: int,
    begin: int,
    inside: int,
    holders: int,
    who: Any,
    row: Any,
) -> Any:
    """The rest of ``find_held``: long records, from person ``begin`` on, and people not inside."""
    held = U(holders)
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


@jit
def round_held(
    words: Any,
    keys: Any,
    values: Any,
    low: Any,
    high: Any,
    levels: int,
    holders: int,
    who: Any,
    row: Any,
    room: Any,
    states: Any,
) -> None:
    """The state of each holder, with the operations of ``Schema.rounded`` in the same order."""
    for i in range(U(holders)):  # a loop of its own, so that many reads from memory overlap
        room[i] = values[row[i]]
    steps, top = np.float64(levels - 1), np.float64(max(levels - 2, 0))
    for i in range(U(holders)):
        key = U(keys[row[i]])
        at = (room[i] - low[key]) / (high[key] - low[key]) * steps
        below = min(np.floor(at), top)
        up = np.float64(words[who[i], U(1)]) < np.floor((at - below) * 4294967296.0)
        states[i] = U(np.int64(below)) + U(1) + U(up)


@jit
def redraw_held(
    words: Any,
    column: int,
    views: int,
    ends: Any,
    order: Any,
    holders: int,
    who: Any,
    states: Any,
    out: Any,
) -> None:
    """Redraw for the people who hold their key, from their state and the same word.

    ``ends[state]`` are the slice ends of a state, ``order[state]`` the outputs of its slices.
    """
    slots, width = U(ends.shape[1]), U(order.shape[1])
    for i in range(U(holders)):
        p, state = U(who[i]), U(states[i])
        word = U(words[p, U(column)])
        slot = U(0)
        for j in range(slots):
            slot += U(word >= ends[state, j])
        key = (U(words[p, U(0)]) * U(views)) >> U(32)
        out[p] = key * width + order[state, slot]
