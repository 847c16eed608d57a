"""Sets of items: the signed keys that people keep, and pairs of them, a run of people at a time.

Each step is a loop of its own over the people of a run, so that one instruction does several people.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import U, alone, jit

W = np.uint32
NONE = W(0xFFFFFFFF)
"""The item in a place where a person has none."""
RUN = 256
"""People at a time: what is noted of them stays in the nearest cache."""


@jit
def _begin(starts: Any, at: Any, size: Any, first: Any, held: Any, seen: Any) -> Any:
    """The first row and the number of keys of each person; returns the most that someone has."""
    longest = U(0)
    for p in range(size):
        first[p], seen[p] = U(starts[at + p]), U(0)
        held[p] = U(starts[at + p + U(1)]) - U(starts[at + p])
        longest = max(longest, held[p])
    return longest


@jit
def _drawn(word: Any, i: Any, held: Any, most: Any) -> Any:
    """The number that a word draws for the i-th kept key, and the last one that it may be."""
    last = held - min(held, most) + i
    return (U(word) * (last + U(1))) >> U(32), last


@jit
def _choose(
    words: Any, at: Any, size: Any, i: Any, most: Any, held: Any, seen: Any, chosen: Any
) -> None:
    """The number of the i-th kept key of each person, by Floyd's method; ``seen`` are those before."""
    alone()
    for p in range(size):
        number, last = _drawn(words[at + p, U(1) + i], i, held[p], most)
        number += ((seen[p] >> (number & U(63))) & U(1)) * (last - number)
        number = number if held[p] > most else i
        seen[p] |= U(1) << (number & U(63))
        chosen[p] = number


@jit
def _choose_of_many(words: Any, at: Any, size: Any, i: Any, most: Any, held: Any, chosen: Any) -> None:
    """``_choose`` where some hold more than 64 keys."""
    for p in range(size):
        number, last = _drawn(words[at + p, U(1) + i], i, held[p], most)
        taken = U(0)
        for j in range(i):
            taken |= U(chosen[j, p] == number)
        number += taken * (last - number)
        chosen[i, p] = number if held[p] > most else i


@jit
def _read(
    chosen: Any, size: Any, first: Any, table: Any, ranges: Any, own: Any, over: Any, width: Any
) -> None:
    """Everyone's chosen key, its value above the lowest one, and the width of its range."""
    keys, values = table
    low, widths = ranges
    last_row = U(len(keys) - 1)  # read in place of what a person does not hold
    for p in range(size):
        row = min(first[p] + chosen[p], last_row)
        key = U(keys[row])
        own[p], over[p], width[p] = key, values[row] - low[key], widths[key]


@jit
def _round(
    words: Any, at: Any, size: Any, column: Any, i: Any, held: Any, kept: Any, items: Any
) -> None:
    """The items of the keys that were read, with the operations of ``Schema.rounded``."""
    alone()
    own, over, width = kept
    for p in range(size):
        up = np.floor(over[p] / width[p] * 4294967296.0)
        item = W(2) * own[p] + W(np.float64(words[at + p, column]) < up)
        items[i, at + p] = item if i < held[p] else NONE


@jit
def _pair(d: Any, at: Any, size: Any, i: Any, j: Any, items: Any, place: Any) -> None:
    """The item of the pair of everyone's i-th and j-th items, if there are both."""
    alone()
    for p in range(at, at + size):
        lower, upper = U(min(items[i, p], items[j, p])), U(max(items[i, p], items[j, p]))
        key, other = lower >> U(1), upper >> U(1)
        rank = ((key * (U(2) * d - key - U(1))) >> U(1)) + other - key - U(1)
        item = W(U(2) * d + U(4) * rank + U(2) * (lower & U(1)) + (upper & U(1)))
        items[place, p] = item if upper != U(NONE) else NONE


@jit
def encode_items(
    words: Any, cap: int, starts: Any, keys: Any, values: Any, low: Any, high: Any, items: Any
) -> None:
    """Up to ``cap`` signed keys of each person, a row for each place, and NONE where there is none.

    If there are more than ``cap`` rows, each pair of kept keys follows as one more item.
    """
    most, people, pairs = U(cap), U(words.shape[0]), len(items) > cap
    if len(keys) == 0:
        items[:] = NONE
        return
    first, held, seen = np.empty(RUN, np.uint64), np.empty(RUN, np.uint64), np.empty(RUN, np.uint64)
    chosen, kept = np.empty((cap, RUN), np.uint64), (np.empty(RUN, W), np.empty(RUN), np.empty(RUN))
    ranges = low, high - low
    for at in range(U(0), people, U(RUN)):
        size, place = min(U(RUN), people - at), most
        longest = _begin(starts, at, size, first, held, seen)
        if longest < most:  # nobody has these items
            items[longest:, at : at + size] = NONE
        for i in range(min(longest, most)):
            if longest > U(64):
                _choose_of_many(words, at, size, i, most, held, chosen)
            else:
                _choose(words, at, size, i, most, held, seen, chosen[i])
            _read(chosen[i], size, first, (keys, values), ranges, *kept)
            _round(words, at, size, U(1) + most + i, i, held, kept, items)
            for j in range(i if pairs else U(0)):
                _pair(U(len(low)), at, size, i, j, items, place)
                place += U(1)
