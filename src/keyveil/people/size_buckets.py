"""Size buckets: the groups in which people tell how many keys they hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..foundation.arrays import Floats, Integers


def bucket_of(held: Any) -> Any:
    """The bucket of a number of keys: one for each of 0 .. 7, then four for every doubling.

    With e = floor(log2 h) it is 4 (e - 1) + floor(h / 2^(e - 2)) - 4: 8 and 9 together, 10 and 11,
    12 and 13, 14 and 15, then 16 to 19, and so on.
    """
    number = np.asarray(held, np.int64)
    power = np.maximum(np.frexp(np.maximum(number, 1).astype(np.float64))[1] - 1, 2)
    return np.where(number < 8, number, 4 * (power - 1) + (number >> (power - 2)) - 4)


def bucket_ends(buckets: int) -> Integers:
    """The largest number of keys in each bucket; for the last bucket, the smallest."""
    last = [int(b) for b in range(8)]
    while len(last) < buckets:
        last.append(last[-1] + (1 << (len(last) // 4 - 1)))
    ends = np.array(last[:buckets], np.int64)
    ends[-1] = last[buckets - 2] + 1 if buckets > 1 else 0
    return ends


def bucket_shares(sizes: Floats, buckets: int) -> Floats:
    """Shares of people in the buckets, from the shares ``sizes`` of people with 0, 1, 2, ... keys."""
    bucket = np.minimum(bucket_of(np.arange(len(sizes))), buckets - 1)
    return np.bincount(bucket, sizes, buckets).astype(np.float64)
