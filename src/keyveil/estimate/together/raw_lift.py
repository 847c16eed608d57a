"""Lift from unbiased shares: the joint share over the product of both."""

from __future__ import annotations

from math import exp, inf, log, nan, sqrt

import numpy as np

from ..answer import Estimate, quantile
from .joint import JointMoments


def raw_lift(moments: JointMoments, level: float) -> Estimate:
    """The joint share over the product of both shares, with an interval on the logarithmic scale."""
    joint, target, condition = moments.values
    reach = quantile(level)
    clear = all(
        v > reach * sqrt(max(s, 0.0))
        for v, s in zip(moments.values, moments.covariance.diagonal(), strict=True)
    )
    if not (target > 0 and condition > 0):
        return Estimate(nan, inf, -inf, inf, moments.reports)
    value = joint / (target * condition)
    if not clear:
        return Estimate(value, inf, -inf, inf, moments.reports)
    slope = np.array([1 / joint, -1 / target, -1 / condition])
    spread = sqrt(max(float(slope @ moments.covariance @ slope), 0.0))
    middle = log(value)
    ends = (exp(middle - reach * spread), exp(middle + reach * spread))
    return Estimate(value, value * spread, ends[0], ends[1], moments.reports)
