"""Which items fall into the same cell of a pool's seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import jit


@jit
def collide(hashes: Any, cells: int, total: Any) -> None:
    """Count for every two items, the later first, the rows in which they have the same cell."""
    newest, before = np.empty(cells, np.int64), np.empty(hashes.shape[1], np.int64)
    for seed in range(hashes.shape[0]):
        newest[:] = -1
        for item in range(hashes.shape[1]):
            cell = hashes[seed, item]
            other = newest[cell]
            while other >= 0:
                total[item, other] += 1.0
                other = before[other]
            before[item] = newest[cell]
            newest[cell] = item


@jit
def collide_signed(cells: Any, half: int, survival: Any, together: Any, agree: Any, lent: Any) -> None:
    """Sum for every two keys over the rows in which their cells are the same or ``half`` apart.

    A row adds 1 to ``together``, +1 or -1 to ``agree`` (the later key first), and the same sign times
    the second key's entry of ``survival`` to ``lent``.
    """
    newest, before = np.empty(half, np.int64), np.empty(cells.shape[1], np.int64)
    for seed in range(cells.shape[0]):
        newest[:] = -1
        for key in range(cells.shape[1]):
            cell = cells[seed, key]
            pair = cell - half if cell >= half else cell
            other = newest[pair]
            while other >= 0:
                sign = 1.0 if cells[seed, other] == cell else -1.0
                together[key, other] += 1.0
                agree[key, other] += sign
                lent[key, other] += sign * survival[seed, other]
                lent[other, key] += sign * survival[seed, key]
                other = before[other]
            before[key] = newest[pair]
            newest[pair] = key
