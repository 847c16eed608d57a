"""The joint state of the keys of a view, and the one key of a padded record."""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import LANES, U, equal_lanes, jit, lowest_bit


@jit
def _digit(word: Any, value: Any, low: Any, high: Any, steps: Any, top: Any) -> Any:
    """The level of a value, with the operations of ``Schema.rounded`` in the same order."""
    at = (value - low) / (high - low) * steps
    below = min(np.floor(at), top)
    up = np.float64(word) < np.floor((at - below) * 4294967296.0)
    return U(np.int64(below)) + U(1) + U(up)


@jit
def pick_views(words: Any, views: int, picked: Any) -> None:
    """The view that each person's first word picks, all equally likely."""
    for p in range(U(words.shape[0])):
        picked[p] = (U(words[p, U(0)]) * U(views)) >> U(32)


@jit
def pick_weighted(words: Any, bounds: Any, picked: Any) -> None:
    """The view that each person's first word picks: the number of slice ends up to the word."""
    count, longest = U(len(bounds)), U(1)
    while longest * U(2) <= count:
        longest *= U(2)
    for p in range(U(words.shape[0])):
        word, at, step = U(words[p, U(0)]), U(0), longest
        while step:
            inside = at + step <= count
            last = at + step - U(1) if inside else U(0)
            at += step * U(inside and bounds[last] <= word)
            step >>= U(1)
        picked[p] = at


@jit
def join_codes(cells: int, picked: Any, outputs: Any, codes: Any) -> None:
    """The code of each output of the picked view, if all views have so many cells."""
    for p in range(U(len(codes))):
        codes[p] = U(picked[p]) * U(cells) + U(outputs[p])


@jit
def find_in_views(
    words: Any,
    picked: Any,
    view_keys: Any,
    starts: Any,
    keys: Any,
    base: int,
    inside: int,
    who: Any,
    row: Any,
    place: Any,
    worth: Any,
) -> Any:
    """Write down who holds which key of the picked view, and what its digit is worth in the state.

    ``view_keys[view]`` are its keys, filled up with -1. The first LANES keys of each of the first
    ``inside`` people are compared at once. Everything is written down and what is not held overwritten,
    which saves a branch. Returns how many keys are held.
    """
    holders = U(0)
    for p in range(U(words.shape[0])):
        view, first = U(picked[p]), U(starts[p])
        size = U(starts[p + U(1)]) - first
        own = (U(1) << min(size, U(LANES))) - U(1)
        width: Any = U(view_keys.shape[1])
        while view_keys[view, width - U(1)] < 0:
            width -= U(1)
        power: Any = U(1)
        for back in range(width):
            i: Any = width - U(1) - back
            key = keys.dtype.type(view_keys[view, i])
            who[holders], place[holders], worth[holders] = p, i, power
            power *= U(base)
            if p < U(inside) and size <= U(LANES):
                bits = equal_lanes(keys, first, key) & own
                row[holders] = first + lowest_bit(bits)
                holders += U(bits != U(0))
            else:
                for r in range(first, first + size):
                    if keys[r] == key:
                        row[holders] = r
                        holders += U(1)
                        break
    return holders


@jit
def round_in_views(
    words: Any,
    keys: Any,
    values: Any,
    low: Any,
    high: Any,
    levels: int,
    holders: int,
    who: Any,
    row: Any,
    place: Any,
    worth: Any,
    room: Any,
    states: Any,
) -> None:
    """The states of all people, from the keys that were found."""
    for i in range(U(holders)):  # a loop of its own, so that many reads from memory overlap
        room[i] = values[row[i]]
    for p in range(U(len(states))):
        states[p] = U(0)
    steps, top = np.float64(levels - 1), np.float64(max(levels - 2, 0))
    for i in range(U(holders)):
        key, person = U(keys[row[i]]), U(who[i])
        word = words[person, U(1) + U(place[i])]
        states[person] += worth[i] * _digit(word, room[i], low[key], high[key], steps, top)


@jit
def encode_whole(
    words: Any,
    place: Any,
    digit_values: Any,
    starts: Any,
    keys: Any,
    values: Any,
    low: Any,
    high: Any,
    levels: int,
    states: Any,
) -> None:
    """The state of each person under the only view; ``place[key]`` is -1 for a key outside it."""
    steps, top = np.float64(levels - 1), np.float64(max(levels - 2, 0))
    for p in range(U(words.shape[0])):
        state = np.int64(0)
        for r in range(U(starts[p]), U(starts[p + U(1)])):
            key = U(keys[r])
            at = place[key]
            if at >= 0:
                word = words[p, U(1) + U(at)]
                digit = _digit(word, values[r], low[key], high[key], steps, top)
                state += np.int64(digit) * digit_values[U(at)]
        states[p] = state


@jit
def encode_padded(
    words: Any,
    length: int,
    dummies: int,
    starts: Any,
    keys: Any,
    values: Any,
    low: Any,
    high: Any,
    out: Any,
) -> None:
    """One signed key of each person, held or a dummy; dummies begin at place ``dummies``."""
    for p in range(U(words.shape[0])):
        first = U(starts[p])
        held = U(starts[p + U(1)]) - first
        number = (U(words[p, U(1)]) * max(held, U(length))) >> U(32)
        if number < held:
            key = U(keys[first + number])
            value = values[first + number]
            digit = _digit(words[p, U(3)], value, low[key], high[key], 1.0, 0.0)
            out[p] = U(2) * key + digit - U(1)
        else:
            dummy = U(dummies) + ((U(words[p, U(2)]) * U(length)) >> U(32))
            out[p] = U(2) * dummy + U(words[p, U(3)] < U(1 << 31))
