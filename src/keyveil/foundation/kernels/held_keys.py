"""One held key of each person, and k-RR."""

from __future__ import annotations

from typing import Any

from .lanes import U, jit


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
def walk(
    words: Any, column: int, states: Any, count: int, keep: int, lie: int, rest: int, out: Any
) -> None:
    """``Symmetric.draw``: below ``keep`` the state itself, above it a walk around the circle."""
    heavy = U(rest) * U(lie + 1)
    for p in range(U(words.shape[0])):
        word = U(words[p, U(column)])
        to = U(states[p])
        if word >= U(keep):
            over = word - U(keep)
            if over < heavy:
                to += over // U(lie + 1) + U(1)
            else:
                to += U(rest) + (over - heavy) // U(lie) + U(1)
            to -= U(count) if to >= U(count) else U(0)
        out[p] = to
