"""The number of reports about a key is random, and few of them cost more than their average says.

A variance is inverse to the number of reports n, and the expectation of 1/n is larger than one over the
expectation of n: by a tenth if ten reports are expected, by a thousandth if a thousand are.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt

import numpy as np

MANY = 200.0
"""The expected number of reports from which on the first order is exact to a part in ten thousand."""


@lru_cache(maxsize=4096)
def effective_reports(people: float, share: float = 1.0) -> float:
    """One over the expectation of 1/n, if each of ``people`` tells of a key with probability ``share``.

    Without any report there is no answer, so at least one is taken for granted. Never above the expected
    number.
    """
    expected = people * share
    if share >= 1.0 or expected <= 0.0:
        return expected
    if expected >= MANY:
        return expected - (1.0 - share)
    most = min(people, expected + 12.0 * sqrt(expected) + 30.0)
    number = np.arange(1.0, max(most, 1.0) + 1.0)
    # the ratio of chances of n and n - 1 people, which for a tiny share is that of a Poisson law
    ratio = np.maximum(people - number + 1.0, 0.0) * share / ((1.0 - share) * number)
    with np.errstate(divide="ignore"):
        logarithm = np.cumsum(np.log(ratio))
    chance = np.exp(logarithm - logarithm.max())
    return min(float(chance.sum() / (chance / number).sum()), expected)
