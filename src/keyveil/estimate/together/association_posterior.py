"""The posterior of associations and shifts, which are possible only within limits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Flags, Floats
from ..assisted import Mixture
from ..forecast.normal_law import below, density

LEAST_MASS = 1e-12
"""Probability within the limits below which a normal law is taken to be at the nearest limit."""


class AssociationPosterior(NamedTuple):
    """Posterior mean and standard deviation."""

    mean: Floats
    stderr: Floats


def common_prior(prior: Mixture, learned_from: Flags) -> Mixture:
    """The median of the priors that leave one out: the prior for values, which need no such care."""
    if not learned_from.any():
        return prior
    centre = np.full_like(prior.centre, np.median(prior.centre[learned_from]))
    scales = np.broadcast_to(np.median(prior.scales[learned_from], axis=0), prior.scales.shape)
    return Mixture(centre, scales, prior.weights)


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


def posterior(
    value: Floats, loading: Floats, variance: Floats, prior: Mixture, low: Floats, high: Floats
) -> AssociationPosterior:
    """Posterior mean and standard deviation of x, if ``value`` is ``loading * x`` plus normal noise.

    The laws of the prior are cut to what is possible, from ``low`` to ``high``.
    """
    across = prior.scales**2
    total = variance[:, None] + loading[:, None] ** 2 * across
    gap = (value - loading * prior.centre)[:, None]
    uncut = prior.centre[:, None] + across * loading[:, None] * gap / total
    means, variances, mass = cut_normal(
        uncut, np.sqrt(across * variance[:, None] / total), low[:, None], high[:, None]
    )
    before = cut_normal(prior.centre[:, None], prior.scales, low[:, None], high[:, None])[2]
    height = np.log(prior.weights) - gap**2 / (2 * total) - 0.5 * np.log(total) + mass - before
    weight = np.exp(height - height.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    mean = (weight * means).sum(axis=1)
    spread = (weight * (variances + (means - mean[:, None]) ** 2)).sum(axis=1)
    return AssociationPosterior(mean, np.sqrt(np.maximum(spread, 0.0)))
