"""Frequency and mean of every key from views of several keys, pooled over all that hold it."""

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
    """Frequency and mass of every key, whatever the views, one tally after the other."""
    from ...plan.tally import Tally

    weights = key_weights(plan.schema)
    shape = np.shape(counts)[:-1]
    made = Moments.unknown(shape, len(plan.schema.keys))
    for place in np.ndindex(*shape):
        known = evidence(plan, Tally(plan, np.asarray(counts)[place]))
        for key in range(len(plan.schema.keys)):
            found = known.moments((key,), weights)
            if found is not None:
                made.reports[(*place, key)] = found.reports
                made.values[(*place, key)] = found.values
                made.covariance[(*place, key)] = found.covariance
    return made


@on_arrays("least_squares")
def pooled_answers(plan: Plan, counts: Integers, level: float) -> KeyBands:
    """Unbiased answers for single keys, whatever the views."""
    return key_bands(plan, pooled_moments(plan, counts), level)
