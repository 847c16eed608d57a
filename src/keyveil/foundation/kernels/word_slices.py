"""Outputs drawn with slices of one word, and sets of states drawn one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import U, jit, slot_of


@jit
def draw_slices(
    words: Any, column: int, states: Any, ends: Any, guide: Any, shift: int, out: Any
) -> None:
    """The output whose slice of [0, 2^32) contains the word.

    ``ends[state]`` are the upper ends of the slices in the order of outputs; see
    ``foundation.slot_guide``.
    """
    for p in range(U(words.shape[0])):
        out[p] = slot_of(U(words[p, U(column)]), U(states[p]), ends, guide, U(shift))


@jit
def draw_subset(
    words: Any,
    column: int,
    states: Any,
    others: int,
    size: int,
    show: int,
    chances: Any,
    ranks: Any,
    last: int,
    out: Any,
) -> None:
    """``Subset.draw`` where a set is one output: its number in lexicographic order.

    ``chances[left, need]`` is the weight of taking the next of ``left`` states when ``need`` are to be
    taken. ``ranks[state, left]`` is what a taken state takes away from the ``last`` number when ``left``
    states, itself included, are not numbered yet.
    """
    for p in range(U(words.shape[0])):
        own = U(states[p])
        shown = U(words[p, U(column)]) < U(show)
        need = U(size) - U(shown)
        left = U(size)
        number = np.int64(last)
        for j in range(U(others)):
            at = U(column) + U(1) + j
            if j == own and shown:
                number -= ranks[own, left]
                left -= U(1)
            if U(words[p, at]) < chances[U(others) - j, need]:
                need -= U(1)
                number -= ranks[j + U(j >= own), left]
                left -= U(1)
        if own == U(others) and shown:
            number -= ranks[own, left]
        out[p] = number
