"""The joint state of the keys of a view, the one key of a padded record, one value, and set sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import U, fetch, jit, slot_of
from .record_keys import RUN, find_held, round_held


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
def pick_weighted(words: Any, ends: Any, guide: Any, shift: int, picked: Any) -> None:
    """The view that each person's first word picks: the slice that contains it."""
    for p in range(U(words.shape[0])):
        picked[p] = slot_of(U(words[p, U(0)]), U(0), ends, guide, U(shift))


@jit
def join_codes(cells: int, picked: Any, outputs: Any, codes: Any) -> None:
    """The code of each output of the picked view, if all views have so many cells."""
    for p in range(U(len(codes))):
        codes[p] = U(picked[p]) * U(cells) + U(outputs[p])


@jit
def _want(picked: Any, view_keys: Any, i: Any, at: Any, size: Any, wanted: Any) -> None:
    """The i-th key of everyone's picked view, in the type of keys."""
    for p in range(size):
        wanted[p] = view_keys[U(picked[at + p]), i]


@jit
def _add(
    picked: Any, view_keys: Any, i: Any, at: Any, found: Any, digits: Any, powers: Any, states: Any
) -> None:
    """Add the levels of the i-th keys of views to the states of those who hold them."""
    holders, who = found
    for h in range(holders):
        person = at + U(who[h])
        view, later = U(picked[person]), U(0)
        for j in range(i + U(1), U(view_keys.shape[1])):
            later += U(view_keys[view, j] >= 0)
        states[person] += U(digits[h]) * powers[later] * U(view_keys[view, i] >= 0)


@jit
def encode_views(
    words: Any, picked: Any, view_keys: Any, inside: int, table: Any, ranges: Any, states: Any
) -> None:
    """The state of each person in the picked view. ``view_keys[view]`` are its keys, filled up with -1.

    Of the first ``inside`` people LANES keys can be read. ``table`` are starts, keys and values;
    ``ranges`` the lows, highs, and levels of keys.
    """
    people, longest, near = U(words.shape[0]), view_keys.shape[1], U(inside)
    width, flat, wanted = U(longest), view_keys.reshape(-1), np.empty(RUN, table[1].dtype)
    holders, who = np.empty(longest, np.uint64), np.empty((longest, RUN + 1), np.uint32)
    row, digits = np.empty((longest, RUN + 1), np.uint64), np.empty(RUN, np.uint16)
    powers, own_ranges = np.empty(longest, np.uint64), (*ranges, np.empty(RUN))
    powers[0] = U(1)
    for i in range(U(1), width):
        powers[i] = powers[i - U(1)] * U(ranges[2] + 1)
    for at in range(U(0), people, U(RUN)):
        size = min(U(RUN), people - at)
        for p in range(at + size, min(at + size + U(RUN), people)):
            fetch(flat, U(picked[p]) * width)
        for i in range(width):
            _want(picked, view_keys, i, at, size, wanted)
            holders[i] = find_held(wanted, at, size, near, table, who[i], row[i])
        states[at : at + size] = U(0)
        for i in range(width):
            count, drawn = holders[i], words[:, U(1) + i]
            round_held(drawn, at, count, who[i], row[i], table, own_ranges, digits)
            _add(picked, view_keys, i, at, (count, who[i]), digits, powers, states)


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


@jit
def encode_any(
    words: Any, starts: Any, keys: Any, values: Any, low: Any, high: Any, levels: int, states: Any
) -> None:
    """The level of one held value of each person, 0 if none is held."""
    steps, top = np.float64(levels - 1), np.float64(max(levels - 2, 0))
    for p in range(U(words.shape[0])):
        first = U(starts[p])
        held = U(starts[p + U(1)]) - first
        states[p] = U(0)
        if held:
            row = first + ((U(words[p, U(1)]) * held) >> U(32))
            key = U(keys[row])
            states[p] = _digit(words[p, U(2)], values[row], low[key], high[key], steps, top)


@jit
def encode_sizes(starts: Any, last: int, states: Any) -> None:
    """The bucket of each person's number of keys, at most ``last``; see ``bucket_of``."""
    for p in range(U(len(states))):
        held, power = U(starts[p + U(1)]) - U(starts[p]), U(2)
        while held >> (power + U(1)):
            power += U(1)
        bucket = held
        if held >= U(8):
            bucket = U(4) * (power - U(1)) + (held >> (power - U(2))) - U(4)
        states[p] = min(bucket, U(last))
