"""One held key of each person, and k-RR."""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import ABOVE, U, jit
from .registers import TILE
from .vector_aes import encrypt_tile, third_words

PEOPLE = 256
"""People at a time: their words stay in the nearest cache."""


@jit
def pick_items(words: Any, starts: Any, keys: Any, states: Any) -> None:
    """One held key of each person, all equally likely: 1 + its place, or 0 if none is held."""
    for p in range(U(words.shape[0])):
        first = U(starts[p])
        held = U(starts[p + U(1)]) - first
        if held:
            states[p] = U(1) + U(keys[first + ((U(words[p, U(1)]) * held) >> U(32))])
        else:
            states[p] = U(0)


@jit
def _law(count: int, keep: int, lie: int, rest: int) -> Any:
    """What ``_step`` needs to know of the law, in the types of its arithmetic."""
    by_more, by_less = ABOVE / np.float64(lie + 1), ABOVE / np.float64(lie)
    return np.int32(count), np.float64(keep), by_more, by_less, np.float64(rest)


@jit
def _step(word: Any, state: Any, count: Any, keep: Any, by_more: Any, by_less: Any, rest: Any) -> Any:
    """The state that a word sends a state to; see ``walk``."""
    over = np.float64(word) - keep
    lies = np.int32(max(over * by_more, (over - rest) * by_less))
    to = np.int32(state) + (np.int32(1) + lies if over >= 0.0 else np.int32(0))
    return to - (count if to >= count else np.int32(0))


@jit
def walk(
    words: Any, column: int, states: Any, count: int, keep: int, lie: int, rest: int, out: Any
) -> None:
    """``Symmetric.draw``: below ``keep`` the state itself, above it a walk around the circle.

    The first ``rest`` lies have ``lie + 1`` words each and the others ``lie``. The larger of the two
    quotients is the number of the lie, and numbers below 2^32 divide exactly in floating point.
    """
    law = _law(count, keep, lie, rest)
    for p in range(U(words.shape[0])):
        out[p] = _step(words[p, U(column)], states[p], *law)


@jit
def _one_each(starts: Any, first: Any, people: Any) -> bool:
    """Whether each of some people holds one key."""
    other = U(0)
    for p in range(first, first + people):
        other |= (U(starts[p + U(1)]) - U(starts[p])) ^ U(1)
    return other == U(0)


@jit
def report_items(
    addresses: Any,
    schedule: Any,
    starts: Any,
    keys: Any,
    count: int,
    keep: int,
    lie: int,
    rest: int,
    out: Any,
) -> None:
    """``pick_items`` and ``walk`` with words 1 and 2 of the first block, which is made here."""
    flat, people = addresses.reshape(-1), U(len(addresses))
    fresh, plain = np.empty(4 * PEOPLE, np.uint32), np.zeros(4 * PEOPLE, np.uint32)
    words, states = fresh.reshape(PEOPLE, 4), np.empty(PEOPLE, np.uint32)
    law = _law(count, keep, lie, rest)
    for first in range(U(0), people, U(PEOPLE)):
        size = min(U(PEOPLE), people - first)
        if size == U(PEOPLE) and _one_each(starts, first, size):  # only the third words are needed
            at = U(starts[first])
            for i in range(U(0), U(PEOPLE), U(TILE)):
                third_words(flat, U(4) * (first + i), schedule, fresh, i)
            for i in range(U(PEOPLE)):
                state = np.uint32(1) + np.uint32(keys[at + i])
                out[first + i] = _step(fresh[i], state, *law)
            continue
        if size == U(PEOPLE):
            for i in range(U(0), U(4 * PEOPLE), U(4 * TILE)):
                encrypt_tile(flat, U(4) * first + i, schedule, fresh, i)
        else:
            plain[: U(4) * size] = flat[U(4) * first : U(4) * (first + size)]
            for i in range(U(0), U(4) * size, U(4 * TILE)):
                encrypt_tile(plain, i, schedule, fresh, i)
        pick_items(words[:size], starts[first:], keys, states)
        walk(words[:size], 2, states, count, keep, lie, rest, out[first:])
