"""How often each code occurs."""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import U, jit


@jit
def count(codes: Any, seen: Any) -> bool:
    """Count codes in ``seen``; returns False if a code is outside.

    There are four tables, so that runs of equal codes do not wait for each other's stores.
    """
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


@jit
def marks_twice(rows: Any, cells: int) -> bool:
    """Whether some position of a row of packed bits marks two of its ``cells`` cells (at most 8).

    Eight positions are as many bytes as a position has cells.
    """
    masks = np.zeros(cells, np.uint64)
    for apart in range(1, cells):
        for position in range(8):
            for cell in range(cells - apart):
                masks[apart] |= U(1) << U(position * cells + cell)
    for r in range(U(rows.shape[0])):
        for first in range(0, rows.shape[1], cells):
            bits = U(0)
            for byte in range(min(cells, rows.shape[1] - first)):
                bits |= U(rows[r, U(first + byte)]) << U(8 * byte)
            for apart in range(1, cells):
                if bits & (bits >> U(apart)) & masks[apart]:
                    return True
    return False
