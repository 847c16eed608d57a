"""Tail probabilities of sums of independent reports, from their cumulants (Lugannani and Rice 1980)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import copysign, erfc, exp, inf, isfinite, pi, sqrt
from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Floats

NEAR = 1.5
"""Standard errors from the mean up to which the normal tail is used; nothing is significant there."""
STEPS = 60
"""Largest number of steps to the saddlepoint."""


class Cumulants(NamedTuple):
    """A cumulant generating function at one place, with its first two derivatives."""

    value: float
    slope: float
    curve: float


CumulantPart = Callable[[float], Cumulants]
"""The cumulant generating function of one of several independent terms of a sum."""


def mixture_cumulants(
    reports: int, law: Floats, scores: Floats, noise: Callable[[float], Floats] | None = None
) -> CumulantPart:
    """The sum of the scores of ``reports`` reports that draw one of the ``scores`` by ``law``.

    ``noise(t)`` holds the cumulants ``(3, scores)`` of independent noise that is added to each score.
    """
    inside = law > 0
    logs, points = np.log(law[inside]), scores[inside]

    def cumulants(t: float) -> Cumulants:
        heights, slopes, curves = t * points, points, 0.0 * points
        if noise is not None:
            more = noise(t)[:, inside]
            heights, slopes, curves = heights + more[0], slopes + more[1], curves + more[2]
        heights = heights + logs
        top = float(heights.max())
        weights = np.exp(heights - top)
        total = float(weights.sum())
        weights /= total
        slope = float(weights @ slopes)
        curve = float(weights @ (curves + (slopes - slope) ** 2))
        return Cumulants(reports * (top + float(np.log(total))), reports * slope, reports * curve)

    return cumulants


def normal_cumulants(mean: float, variance: float) -> CumulantPart:
    """A normal term."""
    return lambda t: Cumulants(t * mean + t * t * variance / 2, mean + t * variance, variance)


def upper_tail(parts: Sequence[CumulantPart], value: float) -> float:
    """Probability that the sum of the parts is at least ``value``."""
    above, beyond = _outer_tail(parts, value)
    return beyond if above else 1.0 - beyond


def two_sided(parts: Sequence[CumulantPart], value: float) -> float:
    """p-value of a value in both tails: twice the smaller one."""
    return min(1.0, 2 * _outer_tail(parts, value)[1])


def _outer_tail(parts: Sequence[CumulantPart], value: float) -> tuple[bool, float]:
    """Whether ``value`` is above the mean, and the probability of the tail beyond it on that side.

    It is computed as it is: one minus the other tail would be 0 where it is below 1e-16.
    """
    _, mean, variance = _summed(parts, 0.0)
    if variance <= 0:
        return value >= mean, 0.5 if abs(value - mean) < 1e-12 else 0.0
    z = (value - mean) / sqrt(variance)
    if abs(z) < NEAR:
        return z >= 0, normal_tail(abs(z))
    t, at = _saddlepoint(parts, value, z, sqrt(variance))
    root = sqrt(max(2 * (t * value - at.value), 0.0))
    step = abs(t) * sqrt(at.curve)
    if not isfinite(root) or not step > 1e-12:  # at the end of what the sum can be
        tail = exp(-root * root / 2) if isfinite(root) else 0.0
    else:
        density = exp(-root * root / 2) / sqrt(2 * pi)
        tail = normal_tail(root) + density * (1 / step - 1 / root)
        tail = min(max(tail, 0.0), exp(-root * root / 2))
    return z > 0, float(tail)  # parts of an array make it a NumPy number


def normal_tail(z: float) -> float:
    """Probability that a standard normal variable is above ``z``."""
    return 0.5 * erfc(z / sqrt(2))


def _summed(parts: Sequence[CumulantPart], t: float) -> Cumulants:
    cumulants = [part(t) for part in parts]
    return Cumulants(
        sum(part.value for part in cumulants),
        sum(part.slope for part in cumulants),
        sum(part.curve for part in cumulants),
    )


def _saddlepoint(
    parts: Sequence[CumulantPart], value: float, z: float, stderr: float
) -> tuple[float, Cumulants]:
    """The place where the slope is ``value``, by Newton's steps within a bracket."""
    near, far = 0.0, copysign(inf, z)
    t = z / stderr
    at = _summed(parts, t)
    for _ in range(STEPS):
        gap = at.slope - value
        if abs(gap) < 1e-7 * stderr:
            break
        if (gap > 0) == (z > 0):
            far = t
        else:
            near = t
        step = t - gap / at.curve if at.curve > 0 else copysign(inf, z)
        if not min(near, far) < step < max(near, far) or abs(step) > 4 * abs(t):
            step = 2 * t if not isfinite(far) else (near + far) / 2
        if abs(step) * stderr > 1e4:
            break
        t, at = step, _summed(parts, step)
    return t, at
