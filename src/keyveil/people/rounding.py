"""Rounding without bias: a value goes to one of the two levels beside it, so that its mean stays.

``Schema.rounded`` applies this rule to random words. Compiled loops repeat that method and are tested
to agree with it. Every law of rounded values comes from ``rounding``.
"""

from __future__ import annotations

import numpy as np

from ..foundation.arrays import Floats, Integers


def between_levels(positions: Floats, levels: int) -> tuple[Integers, Floats]:
    """The level below each position on [0, levels - 1], and the chance of the level above it."""
    below = np.minimum(np.floor(positions), max(levels - 2, 0))
    return below.astype(np.int64), positions - below


def rounding(points: Floats, levels: int) -> Floats:
    """The chance ``(points, levels)`` that each point of [-1, 1] is rounded to each level."""
    below, up = between_levels((points + 1.0) / 2.0 * (levels - 1), levels)
    law, rows = np.zeros((len(points), levels)), np.arange(len(points))
    law[rows, below] = 1.0 - up
    law[rows, np.minimum(below + 1, levels - 1)] += up
    return law
