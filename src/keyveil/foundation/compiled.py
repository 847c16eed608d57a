"""The loops that are worth compiling: the same results as their NumPy forms, faster.

Numba is loaded on the first batch, never at import, and only where it is installed
(``keyveil[fast]``). Set ``KEYVEIL_FAST=0`` to do without it.
"""

from __future__ import annotations

import os
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from .arrays import Integers

_BLOCK = 1 << 15


@cache
def compiled() -> SimpleNamespace | None:
    """The compiled loops, or None."""
    if os.environ.get("KEYVEIL_FAST", "1") == "0":
        return None
    try:
        from . import kernels as loops
    except ImportError:
        return None
    return SimpleNamespace(**{n: getattr(loops, n) for n in loops.__all__})


def histogram(codes: np.ndarray, size: int) -> Integers | None:
    """How often each code below ``size`` occurs; None if one lies outside."""
    loops: Any = compiled()
    if loops is not None and codes.dtype.kind == "u":
        seen = np.zeros(size, np.int64)
        good = loops.count(np.ascontiguousarray(codes), seen)
        return seen if good else None
    seen = np.zeros(size, np.int64)
    for first in range(0, len(codes), _BLOCK):  # blocks that stay in the cache while widened
        block = codes[first : first + _BLOCK]
        if block.min() < 0 or block.max() >= size:
            return None
        seen += np.bincount(block.astype(np.int64), minlength=size)
    return seen
