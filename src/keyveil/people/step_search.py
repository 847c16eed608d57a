"""How values of many people are looked up at once in the steps of a law."""

from __future__ import annotations

import numpy as np

from ..foundation.arrays import Floats, Integers

_MARKS = 1024
"""Marks of a guide on each unit: a power of two, so that heights times it are exact."""
_CLIMBED = 4
"""Steps that all heights between two marks climb together."""
_AT_ONCE = 1 << 16
"""Heights that stay in the processor's cache."""


def steps_up_to(ladder: Floats, heights: Floats) -> Integers:
    """How many steps of an ascending ladder are at most as high as each of the heights, all above 0.

    A guide has the answer at every mark; heights between two marks go up step by step. It is that of
    ``np.searchsorted``, sooner if there are many heights in no order.
    """
    marks = int(ladder[-1]) * _MARKS + 2
    if len(heights) < 4 * marks:
        return np.searchsorted(ladder, heights, "right")
    guide = np.searchsorted(ladder, np.arange(marks) / _MARKS, "right")
    steps = np.empty(len(heights), np.int64)
    for first in range(0, len(heights), _AT_ONCE):
        block = heights[first : first + _AT_ONCE]
        mark = (block * _MARKS).astype(np.int64)
        at, most = guide[mark], guide[mark + 1]
        left = np.flatnonzero(at < most)
        for _ in range(_CLIMBED):
            left = left[ladder[at[left]] <= block[left]]
            at[left] += 1
            left = left[at[left] < most[left]]
        at[left] = np.searchsorted(ladder, block[left], "right")
        steps[first : first + _AT_ONCE] = at
    return steps
