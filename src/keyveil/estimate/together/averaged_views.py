"""Frequency and mean of every key, averaged over all views that hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...foundation.arrays import Integers
from ..answer import KeyBands
from ..estimator import on_arrays
from ..linear import Moments, key_bands, key_weights
from .joint import evidence

if TYPE_CHECKING:
    from ...plan.plan import Plan


def pooled_moments(plan: Plan, counts: Integers) -> Moments:
    """Frequency and mass of every key for views of any size, tally by tally."""
    from ...plan.tally import Tally

    weights = key_weights(plan.schema)
    shape = np.shape(counts)[:-1]
    moments = Moments.unknown(shape, len(plan.schema.keys))
    for place in np.ndindex(*shape):
        source = evidence(plan, Tally(plan, np.asarray(counts)[place]))
        for key in range(len(plan.schema.keys)):
            key_moments = source.moments((key,), weights)
            if key_moments is not None:
                moments.reports[(*place, key)] = key_moments.reports
                moments.values[(*place, key)] = key_moments.values
                moments.covariance[(*place, key)] = key_moments.covariance
    return moments


@on_arrays("least_squares")
def pooled_answers(plan: Plan, counts: Integers, level: float) -> KeyBands:
    """Unbiased answers for single keys, for views of any size."""
    return key_bands(plan, pooled_moments(plan, counts), level)
