"""The posterior of associations and shifts, which are possible only within limits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Flags, Floats
from ..assisted import WEIGHTS, WIDER, Mixture
from ..forecast.normal_law import cut_normal

SCALES = np.geomspace(1.0 / 60.0, 1.0, 10)
"""Standard deviations of associations that are tried if pairs are few, relative to the widest."""
USUAL_SCALE = 0.5
"""Scale of the half-Cauchy prior of that standard deviation (Gelman 2006)."""


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


def posterior_of_few(
    value: Floats,
    loading: Floats,
    variance: Floats,
    learned_from: Flags,
    widest: float,
    around_zero: float,
    limits: tuple[Floats, Floats],
) -> AssociationPosterior:
    """The posterior if pairs are so few that they hardly tell how far associations vary.

    It is averaged over ``SCALES`` of that variation, by their prior and their likelihood given all
    pairs. The centre is near zero with the standard deviation ``around_zero``.
    """
    x, noise = value[learned_from] / loading[learned_from], (variance / loading**2)[learned_from]
    heights, posteriors = [], []
    for scale in widest * SCALES:
        weight = 1.0 / (noise + scale**2)
        total = weight.sum() + around_zero**-2.0
        centre = (weight * x).sum() / total
        fit = np.log(weight).sum() - np.log(total) - (weight * x**2).sum() + centre**2 * total
        # The scales are evenly spaced in their logarithm.
        heights.append(0.5 * fit + np.log(scale) - np.log1p((scale / USUAL_SCALE) ** 2))
        own = np.minimum(np.sqrt(scale**2 + 1.0 / total) * np.array([1.0, WIDER, np.inf]), widest)
        prior = Mixture(np.full_like(value, centre), np.tile(own, (len(value), 1)), WEIGHTS)
        posteriors.append(posterior(value, loading, variance, prior, *limits))
    weights = np.exp(np.array(heights) - max(heights))
    weights /= weights.sum()
    mean = weights @ np.array([part.mean for part in posteriors])
    square = weights @ np.array([part.stderr**2 + part.mean**2 for part in posteriors])
    return AssociationPosterior(mean, np.sqrt(np.maximum(square - mean**2, 0.0)))
