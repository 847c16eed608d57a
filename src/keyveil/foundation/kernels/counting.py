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
