"""The common law: a prior for the values of keys, learned from all keys at once.

Each key has a true value in [0, 1] and a likelihood of it. The prior is a beta law, mixed with a uniform
law for a share of outliers. Its mean, its width and the share of outliers are averaged over, weighted by
their likelihood given all keys (a hierarchical Bayes estimate, by sums on grids). So the prior is as
narrow as the keys support. With few keys or much noise it stays wide.

Arrays are (repetition, class, key, point). Keys of one class share a prior; classes share its width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Floats
from ..side_mean import CommonMean

WIDTHS = 0.9 * ((np.arange(14) + 0.5) / 14) ** 2
"""Standard deviations of the prior, as shares of the largest one that its mean allows."""
MEANS = 7
"""Number of means tried for each width, within three standard errors on either side."""
STRAYS = np.array([0.0, 0.1, 0.3])
"""Shares of outlying keys that are tried."""
_STRAY_LOG = np.log([1.0, 0.5, 0.5])
"""Logarithms of the prior weights of these shares."""
FEW = 2.5
"""Number of informative keys up to which the prior is uniform. Two keys that agree do not make a law:
rare keys may have very different values."""
ENOUGH = 5.0
"""Number of informative keys from which the learned prior is used in full."""
_INFORMATIVE_VARIANCE = 0.002
"""Variance on [0, 1] below which a key counts as fully informative."""
_TINY = 1e-300
"""Added to probabilities and divisors to keep them positive."""


def points(count: int) -> Floats:
    """Points in (0, 1), evenly spaced in angle: their spacing follows the noise of a share."""
    return np.asarray(np.sin(np.pi / 2 * (np.arange(count) + 0.5) / count) ** 2)


def spacing(at: Floats, count: int) -> Floats:
    """Distance between neighbouring points near a value."""
    return np.asarray(np.pi / count * np.sqrt(np.clip(at * (1 - at), (0.25 / count) ** 2, None)))


class Laws(NamedTuple):
    """Beta laws that are candidates for the prior."""

    masses: Floats
    """Probabilities of the points, (repetition, class, law, point); each law sums to one."""
    weight: Floats
    """Logarithm of the prior weight of each law, (repetition, law)."""


def beta_laws(
    centre: Callable[[Floats], tuple[Floats, Floats]],
    shift: Floats,
    count: int,
    common: CommonMean | None = None,
) -> Laws:
    """Laws of every width, with means around the most likely mean of each width.

    ``centre`` takes the widths and returns the most likely mean and its standard error, each
    (repetition, width). ``shift`` (repetition, class) moves the mean of a class. ``common`` is an
    observation of the mean from other people, on [-1, 1]; laws are weighted by its likelihood.
    """
    middle, error = centre(WIDTHS)
    low = np.clip(middle - 3 * error, 1e-4, 1 - 2e-3)
    high = np.clip(middle + 3 * error, low + 1e-3, 1 - 1e-4)
    steps = (np.arange(MEANS) + 0.5) / MEANS
    tried = low[:, :, None] + (high - low)[:, :, None] * steps
    means = tried[:, None]
    offset = shift[:, :, None, None]
    edge = np.where(offset == 0, 1e-4, 3e-3)
    means = np.clip(means + offset, edge, 1 - edge)
    size = (1 / WIDTHS**2 - 1)[:, None]
    at = points(count)
    logs = np.stack([np.log(at), np.log1p(-at)])
    # The spacing of the points removes half a power on either side.
    power = np.stack([means * size - 0.5, (1 - means) * size - 0.5], axis=-1)
    masses = power.reshape(*shift.shape, -1, 2) @ logs  # in place from here on: these arrays are large
    masses -= masses.max(axis=-1, keepdims=True)
    np.exp(masses, out=masses)
    masses /= masses.sum(axis=-1, keepdims=True)
    # Means and widths have uniform weight; the spacing of the widths grows with their root.
    weight = np.log(high - low) + 0.5 * np.log(WIDTHS)
    weight = np.repeat(weight, MEANS, axis=1)
    if common is not None:
        observed = CommonMean(*(part[:, None, None] for part in common))
        on_unit = 2 * tried - 1
        across = WIDTHS[:, None] ** 2 * (1 - on_unit**2)
        weight = weight + observed.log_likelihood(on_unit, across).reshape(weight.shape)
    return Laws(masses, weight)


def learn_prior(likelihood: Floats, laws: Laws, counted: Floats) -> Floats:
    """The prior of every key, (repetition, class, key, point), learned from all keys.

    It is the average of the laws, weighted by their likelihood given all keys.

    ``counted`` (repetition, class, key) is 1 for keys and 0 for padding. With few informative keys the
    prior is uniform.
    """
    trust = np.clip((_informative_keys(likelihood, counted) - FEW) / (ENOUGH - FEW), 0.0, 1.0)
    trust = trust[:, None, None, None]
    explained = _times(likelihood, np.swapaxes(laws.masses, -1, -2))  # (repetition, class, key, law)
    anywhere = likelihood.mean(axis=-1)[..., None]
    mixed = [_mixed(explained, anywhere, s) for s in STRAYS]
    fit = np.stack([_log_likelihood(chance, counted) for chance in mixed], axis=1)
    fit += laws.weight[:, None, :] + _STRAY_LOG[:, None]
    weight = np.exp(fit - fit.max(axis=(1, 2), keepdims=True))
    weight /= weight.sum(axis=(1, 2), keepdims=True)
    shares = mixed
    for i, chance in enumerate(mixed):
        np.divide(weight[:, None, None, i], chance, out=chance)
    outside = sum(s * share.sum(axis=-1) for s, share in zip(STRAYS, shares, strict=True))
    inside = sum(np.multiply(1 - s, share, out=share) for s, share in zip(STRAYS, shares, strict=True))
    flat = np.asarray(outside)[..., None] / likelihood.shape[-1]
    learned = _times(np.asarray(inside), laws.masses)
    learned += flat
    learned /= learned.sum(axis=-1, keepdims=True)
    learned *= trust
    learned += (1 - trust) / likelihood.shape[-1]
    return learned


def _mixed(explained: Floats, anywhere: Floats, stray: float) -> Floats:
    """The likelihood of each key under each law, if a share of keys lies anywhere."""
    chance = (1 - stray) * explained
    chance += stray * anywhere
    chance += _TINY
    return np.asarray(chance)


def _log_likelihood(chance: Floats, counted: Floats) -> Floats:
    """The logarithm of each law's likelihood given all keys that count, (repetition, law)."""
    logs = np.log(chance)
    logs *= counted[..., None]
    return np.asarray(logs.sum(axis=(1, 2)))


def _informative_keys(likelihood: Floats, counted: Floats) -> Floats:
    """Effective number of informative keys, (repetition,)."""
    at = points(likelihood.shape[-1])
    law = likelihood / likelihood.sum(axis=-1, keepdims=True)
    variance = law @ at**2 - (law @ at) ** 2
    weight = counted / (variance + _INFORMATIVE_VARIANCE)
    return np.asarray(weight.sum(axis=(1, 2)) ** 2 / (weight**2).sum(axis=(1, 2)).clip(_TINY))


def _times(rows: Floats, table: Floats) -> Floats:
    """A product of stacked matrices, computed in blocks of rows.

    Larger products would run on several threads, which is slower on a busy machine.
    """
    result = np.empty((*rows.shape[:-1], table.shape[-1]))
    step = max(1, (1 << 17) // (table.shape[-1] * table.shape[-2]))
    for first in range(0, rows.shape[-2], step):
        block = slice(first, first + step)
        np.matmul(rows[..., block, :], table, out=result[..., block, :])
    return result


class Posterior(NamedTuple):
    """Posterior mean and variance of each key."""

    mean: Floats
    variance: Floats


def posterior(likelihood: Floats, prior: Floats, at: Floats) -> Posterior:
    """Mean and variance of the law that is proportional to likelihood times prior, on a grid."""
    law = likelihood * prior
    law /= law.sum(axis=-1, keepdims=True)
    mean, square = np.moveaxis(law @ np.stack([at, at**2], axis=-1), -1, 0)
    return Posterior(mean, np.maximum(square - mean**2, 1e-14))
