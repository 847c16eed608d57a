"""Names for the array types that travel along the line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint32]
    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Bits = NDArray[np.uint8]
    Flags = NDArray[np.bool_]
else:  # numpy.typing takes a millisecond to load, and only type checkers need it
    Words = Integers = Floats = Bits = Flags = np.ndarray

WORD = 1 << 32
"""The number of values of a 32-bit word; every row of weights sums to it."""
