"""Caution: covariances are computed as if there had been one more report.

The empirical variance of one report alone is zero, which would claim certainty. One more report, spread
evenly over what could have been sent, prevents that and vanishes as reports grow. Estimates themselves
do not use it.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from ..foundation.arrays import Floats, Integers

Number = TypeVar("Number", float, Floats)
"""A number or an array of them."""


def with_one_more(counts: Floats | Integers, even: Floats | float, reports: Floats | float) -> Floats:
    """Shares of all reports, from counts, with one more report that counts ``even``."""
    return np.asarray((counts + even) / (reports + 1.0))


def law_with_one_more(laws: Floats, reports: Floats, states: int) -> Floats:
    """Laws of the states ``(..., states)`` with one more report from each state."""
    return np.asarray((reports * laws + 1.0) / (reports + states))


def mean_with_one_more(mean: Number, reports: Number) -> Number:
    """The mean of signs with one more fair report, whose expectation is 0."""
    return mean * reports / (reports + 1)
