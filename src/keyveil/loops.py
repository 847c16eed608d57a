"""Compiled loops over arrays; imported by ``fast`` alone. Unsigned indices: no wrap-around tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["count", "find_singles", "round_singles", "slices"]

_jit: Any = njit(cache=True, nogil=True)
U = np.uint64


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


@_jit
def find_singles(words: Any, starts: Any, keys: Any, views: int, picked: Any, who: Any, row: Any) -> int:
    """Pick each person's key evenly and note the people who hold theirs, and in which row."""
    people = U(words.shape[0])
    for p in range(people):
        picked[p] = (U(words[p, U(0)]) * U(views)) >> U(32)
    found = U(0)
    for p in range(people):
        key = picked[p]
        first = U(starts[p])
        hit = U(0)
        for j in range(U(starts[p + U(1)]) - first):  # no early exit: a branch costs more
            hit |= U(keys[first + j] == key) * (j + U(1))
        who[found] = p
        row[found] = first + hit - U(1)
        found += U(hit != U(0))
    return found


@_jit
def round_singles(
    words: Any,
    keys: Any,
    values: Any,
    low: Any,
    high: Any,
    levels: int,
    found: int,
    who: Any,
    row: Any,
    states: Any,
) -> None:
    """The level of each found value, in the order of operations that ``Schema.rounded`` states."""
    steps = np.float64(levels - 1)
    top = np.float64(levels - 2)
    for i in range(U(found)):
        p, r = who[i], row[i]
        key = U(keys[r])
        at = (values[r] - low[key]) / (high[key] - low[key]) * steps
        below = min(np.floor(at), top)
        up = np.float64(words[p, U(1)]) < np.floor((at - below) * 4294967296.0)
        states[p] = np.uint8(below) + np.uint8(1) + np.uint8(up)


@_jit
def slices(words: Any, column: int, ends: Any, order: Any, picked: Any, states: Any, out: Any) -> None:
    """Draw each state's output by counting the slice ends at or below its word.

    ``ends[state]`` are a row's slice ends, ``order[state]`` the outputs of its slices.
    """
    slots = U(ends.shape[1])
    width = U(order.shape[1])
    for p in range(U(words.shape[0])):
        word = U(words[p, U(column)])
        state = U(states[p])
        slot = U(0)
        for j in range(slots):
            slot += U(word >= ends[state, j])
        out[p] = U(picked[p]) * width + U(order[state, slot])
