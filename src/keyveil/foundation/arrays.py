"""Names for the array types that travel along the line."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Bits = NDArray[np.uint8]
Flags = NDArray[np.bool_]

WORD = 1 << 32
"""The number of values of a 32-bit word; every row of weights sums to it."""
