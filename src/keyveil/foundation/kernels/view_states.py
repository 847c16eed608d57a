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
def join_codes(first_code: Any, picked: Any, outputs: Any, codes: Any) -> None:
    """The code of each output of the picked view."""
    for p in range(U(len(codes))):
        codes[p] = first_code[U(picked[p])] + outputs[p]


@jit
def encode_views(
    words: Any,
    picked: Any,
    view_keys: Any,
    sizes: Any,
    starts: Any,
    keys: Any,
    values: Any,
    low: Any,
    high: Any,
    levels: int,
    inside: int,
    states: Any,
) -> None:
    """The state of each person under the picked view, a number in base ``levels + 1``.

    ``view_keys[view]`` are the places of its keys, of which ``sizes[view]`` count. The first LANES keys
    of each of the first ``inside`` people can be compared at once.
    """
    steps, top = np.float64(levels - 1), np.float64(max(levels - 2, 0))
    base = U(levels + 1)
    for p in range(U(words.shape[0])):
        view, first = U(picked[p]), U(starts[p])
        size = U(starts[p + U(1)]) - first
        own = (U(1) << min(size, U(LANES))) - U(1)
        state = U(0)
        for i in range(U(sizes[view])):
            key = keys.dtype.type(view_keys[view, i])
            row: Any = first
            found = False
            if p < U(inside):
                bits = equal_lanes(keys, first, key) & own
                found = bits != U(0)
                row = first + lowest_bit(bits)
            if not found and (size > U(LANES) or p >= U(inside)):
                for r in range(first, first + size):
                    if keys[r] == key:
                        row, found = r, True
                        break
            state *= base
            if found:
                place = U(key)
                word = words[p, U(1) + i]
                state += _digit(word, values[row], low[place], high[place], steps, top)
        states[p] = state


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
