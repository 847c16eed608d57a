"""The posterior of associations and shifts, which are possible only within limits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Flags, Floats
from ..assisted import Mixture
from ..forecast.normal_law import cut_normal


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
