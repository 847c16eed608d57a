"""Keys of records: who of a run of people holds a key, and the level of its value."""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import LANES, U, equal_lanes, fetch, jit, lowest_bit

RUN = 512
"""People at a time: so many that reads of their values from memory overlap."""


@jit
def _find_first(picked: Any, at: Any, size: Any, starts: Any, keys: Any, who: Any, row: Any) -> Any:
    """Write down who of a run of people holds the picked key, and its row of the table.

    The first LANES keys of each record are compared at once, so the table must have as many more rows.
    Returns the number of holders, and whether some record is longer. Every person is written down, and
    the next one overwrites a person who does not hold the key, which saves a branch.
    """
    holders, long, last = U(0), U(0), U(starts[at])
    for p in range(size):
        long |= U(U(starts[at + p + U(1)]) - U(starts[at + p]) > U(LANES))
    for p in range(size):
        first, last = last, U(starts[at + p + U(1)])
        own = (U(1) << min(last - first, U(LANES))) - U(1)
        bits = equal_lanes(keys, first, picked[p]) & own
        who[holders] = p
        row[holders] = bits
        holders += U(bits != U(0))
    for i in range(holders):
        row[i] = U(starts[at + U(who[i])]) + lowest_bit(row[i])
    return holders, long != U(0)


@jit
def _find_rest(
    picked: Any, at: Any, size: Any, before: Any, starts: Any, keys: Any, who: Any, row: Any, held: Any
) -> Any:
    """``find_held`` among the keys from number ``before`` of each record on, after ``held`` holders."""
    holders = U(held)
    for p in range(size):
        first, last = U(starts[at + p]) + before, U(starts[at + p + U(1)])
        hit = U(0)
        for r in range(first, last):  # no early exit: a branch costs more
            hit |= U(keys[r] == picked[p]) * (r + U(1) - first)
        who[holders] = p
        row[holders] = first + hit - U(1)
        holders += U(hit != U(0))
    return holders


@jit
def find_held(picked: Any, at: Any, size: Any, inside: Any, table: Any, who: Any, row: Any) -> Any:
    """Write down who of a run of people holds the picked key, and its row of the table; how many do.

    Of the first ``inside`` people LANES keys can be read. The values of the rows are asked for.
    """
    starts, keys, values = table
    if at + size > inside:
        return _find_rest(picked, at, size, U(0), starts, keys, who, row, U(0))
    holders, long = _find_first(picked, at, size, starts, keys, who, row)
    if long:
        holders = _find_rest(picked, at, size, U(LANES), starts, keys, who, row, holders)
    for i in range(holders):
        fetch(values, row[i])
    return holders


@jit
def round_held(
    drawn: Any, first: Any, holders: Any, who: Any, row: Any, table: Any, ranges: Any, states: Any
) -> None:
    """The state of each holder, with the operations of ``Schema.rounded`` in the same order.

    Person p of the run rounds with word ``drawn[first + p]``.
    """
    _, keys, values = table
    low, high, levels, room = ranges
    for i in range(holders):  # a loop of its own, so that many reads from memory overlap
        room[i] = values[row[i]]
    steps, top = np.float64(levels - 1), np.float64(max(levels - 2, 0))
    for i in range(holders):
        key = U(keys[row[i]])
        at = (room[i] - low[key]) / (high[key] - low[key]) * steps
        below = min(np.floor(at), top)
        up = np.float64(drawn[first + U(who[i])]) < np.floor((at - below) * 4294967296.0)
        states[i] = U(np.int64(below)) + U(1) + U(up)
