"""The normal law: distribution function, density, the error of a clipped normal number, and cut laws."""

from __future__ import annotations

from math import erf, pi

import numpy as np

from ...foundation.arrays import Floats

NODES, WEIGHTS = np.polynomial.legendre.leggauss(32)
"""Gauss-Legendre nodes and weights on [-1, 1], for integrals over a normal law."""
FAR = 6.0
"""From here on the error function is 1 in double precision."""
REACH = 6.0
"""Integrals over a normal law stop at this many standard deviations from its mean."""
LEAST_MASS = 1e-12
"""Probability within the limits below which a normal law is taken to be at the nearest limit."""


def below(z: Floats) -> Floats:
    """The probability that a standard normal number lies below z."""
    points = np.asarray(z, np.float64) / np.sqrt(2.0)
    value = np.asarray(np.sign(points))
    inside = ~(np.abs(points) >= FAR)
    value[inside] = list(map(erf, points[inside].tolist()))
    return np.asarray(0.5 + 0.5 * value)


def density(z: Floats) -> Floats:
    """The standard normal density at z."""
    return np.asarray(np.exp(-np.minimum(z**2, 1400.0) / 2) / np.sqrt(2 * pi))


def clipped(
    variance: Floats, truth: Floats, low: float, high: float, bias: Floats | float = 0.0
) -> Floats:
    """The mean squared error of normal estimates that are clipped to [low, high].

    An infinite variance puts half of the estimates at each end. NaN stays NaN.
    """
    known = np.isfinite(variance)
    size = np.sqrt(np.maximum(np.where(known, variance, 1.0), 1e-300))
    to_low, to_high = (low - truth - bias) / size, (high - truth - bias) / size
    under, over = below(to_low), below(-to_high)
    at_low, at_high = density(to_low), density(to_high)
    within = 1.0 - under - over
    error = size**2 * (within + to_low * at_low - to_high * at_high)
    error += 2 * bias * size * (at_low - at_high) + bias**2 * within
    error = error + under * (low - truth) ** 2 + over * (high - truth) ** 2
    ends = ((low - truth) ** 2 + (high - truth) ** 2) / 2
    return np.asarray(np.where(np.isinf(variance), ends, np.where(known, error, np.nan)))


def cut_normal(mean: Floats, stderr: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, variance and logarithm of the probability of normal laws that are cut to [low, high]."""
    stderr = np.maximum(stderr, 1e-150)
    to_low, to_high = (np.clip((end - mean) / stderr, -1e8, 1e8) for end in (low, high))
    # The probability of the side that is nearer keeps its digits.
    flipped = to_low > 0
    mass = np.where(flipped, below(-to_low) - below(-to_high), below(to_high) - below(to_low))
    inside = mass > LEAST_MASS
    safe = np.where(inside, mass, 1.0)
    at_low, at_high = density(to_low), density(to_high)
    moved = (at_low - at_high) / safe
    narrowed = 1.0 + (to_low * at_low - to_high * at_high) / safe - moved**2
    nearest = np.clip(mean, low, high)
    cut = np.where(inside, np.clip(mean + stderr * moved, low, high), nearest)
    variance = np.where(inside, stderr**2 * np.maximum(narrowed, 0.0), 0.0)
    away = np.minimum(np.minimum(np.abs(to_low), np.abs(to_high)), 1e8)
    height = np.where(inside, np.log(safe), -(away**2) / 2)
    return cut, variance, height
