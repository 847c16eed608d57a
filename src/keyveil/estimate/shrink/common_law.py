"""What keys have in common: a law of the keys' own values, learned from all of them at once.

Each key has a true value in [0, 1] and a likelihood over it. Keys' values are believed to follow a
beta law, but for a share of strays that may lie anywhere. Nothing about that law is fixed beforehand:
its mean, its width and the share of strays are averaged over, each choice weighed by how well it
explains all keys (a hierarchical Bayes estimate, by sums on grids). So the prior is as narrow as the
keys show it to be, and no narrower: with few keys or much noise it stays wide.

Arrays are (repetition, class, key, point): keys of one class share their prior, classes share its width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Floats

WIDTHS = 0.9 * ((np.arange(14) + 0.5) / 14) ** 2
"""Standard deviations of the prior, as shares of the largest that its mean allows."""
MEANS = 7
"""How many means are tried for each width, over three standard errors to either side."""
STRAYS = np.array([0.0, 0.1, 0.3])
"""Shares of keys that lie anywhere."""
_STRAY_LOG = np.log([1.0, 0.5, 0.5])
DOUBT, WIDER = 0.5, 2.0
"""For intervals, what keys have in common counts as if half the keys had shown it, and a width weighs
by its square: an interval must also hold where a prior was learned too narrow."""
FEW, ENOUGH = 2.5, 5.0
"""So many keys that tell of themselves show nothing of the others; so many show what is common. Two keys
that agree are no law: the rare ones may well lie at the other end."""
_TELLING = 0.002
"""The variance on [0, 1] below which a key tells as much as any."""
SKEWEST = 2.0
"""As skew as an exponential law: more is noise of the grid."""
_TINY = 1e-300


def points(count: int) -> Floats:
    """Points in (0, 1), evenly spaced in angle: as far apart as a share's own noise is large."""
    return np.asarray(np.sin(np.pi / 2 * (np.arange(count) + 0.5) / count) ** 2)


def spacing(at: Floats, count: int) -> Floats:
    """How far apart the points are near a value."""
    return np.asarray(np.pi / count * np.sqrt(np.clip(at * (1 - at), (0.25 / count) ** 2, None)))


class Laws(NamedTuple):
    """Beta laws that might be what keys have in common."""

    masses: Floats
    """(repetition, class, law, point), each law's masses summing to one."""
    weight: Floats
    """(repetition, law): log of what each is believed beforehand."""


def beta_laws(centre: Callable[[Floats], tuple[Floats, Floats]], shift: Floats, count: int) -> Laws:
    """Laws of every width, their means around where ``centre`` puts them for it.

    ``centre`` takes the widths and gives the likeliest mean and its standard error, (repetition,
    width) each; ``shift`` (repetition, class) moves the mean of a class.
    """
    middle, error = centre(WIDTHS)
    low = np.clip(middle - 3 * error, 1e-4, 1 - 2e-3)
    high = np.clip(middle + 3 * error, low + 1e-3, 1 - 1e-4)
    steps = (np.arange(MEANS) + 0.5) / MEANS
    means = (low[:, :, None] + (high - low)[:, :, None] * steps)[:, None]
    moved = shift[:, :, None, None]
    edge = np.where(moved == 0, 1e-4, 3e-3)
    means = np.clip(means + moved, edge, 1 - edge)
    size = (1 / WIDTHS**2 - 1)[:, None]
    at = points(count)
    logs = np.stack([np.log(at), np.log1p(-at)])
    # The points' own spacing takes half a power of either side away.
    power = np.stack([means * size - 0.5, (1 - means) * size - 0.5], axis=-1)
    height = power.reshape(*shift.shape, -1, 2) @ logs
    masses = np.exp(height - height.max(axis=-1, keepdims=True))
    masses /= masses.sum(axis=-1, keepdims=True)
    # Every mean and every width alike; widths lie as far apart as their root.
    weight = np.log(high - low) + 0.5 * np.log(WIDTHS)
    return Laws(masses, np.repeat(weight, MEANS, axis=1))


class Settled(NamedTuple):
    """The prior of every key as the other keys show it, (repetition, class, key, point)."""

    likely: Floats
    wide: Floats
    """The same for intervals, with doubt."""


def settle(likelihood: Floats, laws: Laws, counted: Floats) -> Settled:
    """Average the laws, each weighed by how well it explains all keys.

    ``counted`` (repetition, class, key) is 1 for keys that are there and 0 for padding. Where hardly
    any key tells of itself, keys may lie anywhere, whatever those few say.
    """
    trust = np.clip((_telling(likelihood, counted) - FEW) / (ENOUGH - FEW), 0.0, 1.0)
    trust = trust[:, None, None, None]
    explained = _times(likelihood, np.swapaxes(laws.masses, -1, -2))  # (repetition, class, key, law)
    anywhere = likelihood.mean(axis=-1)[..., None]
    mixed = [(1 - s) * explained + s * anywhere + _TINY for s in STRAYS]
    fit = np.stack([(np.log(each) * counted[..., None]).sum(axis=(1, 2)) for each in mixed], axis=1)
    fit += laws.weight[:, None, :] + _STRAY_LOG[:, None]
    widths = np.repeat(np.log(WIDTHS), MEANS)
    made = []
    for score in (fit, DOUBT * fit + WIDER * widths):
        weight = np.exp(score - score.max(axis=(1, 2), keepdims=True))
        weight /= weight.sum(axis=(1, 2), keepdims=True)
        shares = [weight[:, None, None, i] / each for i, each in enumerate(mixed)]
        inside = sum((1 - s) * share for s, share in zip(STRAYS, shares, strict=True))
        outside = sum(s * share.sum(axis=-1) for s, share in zip(STRAYS, shares, strict=True))
        flat = np.asarray(outside)[..., None] / likelihood.shape[-1]
        learned = _times(np.asarray(inside), laws.masses) + flat
        learned /= learned.sum(axis=-1, keepdims=True)
        made.append(trust * learned + (1 - trust) / likelihood.shape[-1])
    return Settled(*made)


def _telling(likelihood: Floats, counted: Floats) -> Floats:
    """How many keys tell of themselves, (repetition,): as many equal ones would weigh as much."""
    at = points(likelihood.shape[-1])
    law = likelihood / likelihood.sum(axis=-1, keepdims=True)
    variance = law @ at**2 - (law @ at) ** 2
    weight = counted / (variance + _TELLING)
    return np.asarray(weight.sum(axis=(1, 2)) ** 2 / (weight**2).sum(axis=(1, 2)).clip(_TINY))


def _times(rows: Floats, table: Floats) -> Floats:
    """A product of stacked matrices, few rows at a time.

    Larger products are spread over threads, which wait for each other far longer than they work
    where other work is going on.
    """
    made = np.empty((*rows.shape[:-1], table.shape[-1]))
    step = max(1, (1 << 17) // (table.shape[-1] * table.shape[-2]))
    for first in range(0, rows.shape[-2], step):
        some = slice(first, first + step)
        np.matmul(rows[..., some, :], table, out=made[..., some, :])
    return made


class Posterior(NamedTuple):
    """A key's mean after all, and the variance and skewness that its interval is made of."""

    mean: Floats
    variance: Floats
    skew: Floats


def posterior(likelihood: Floats, prior: Settled, at: Floats) -> Posterior:
    """Mean under the likely prior; variance around it under the wide one, where that is larger."""
    powers = np.stack([at, at**2, at**3], axis=-1)
    moments = []
    for each in prior:
        law = likelihood * each
        law /= law.sum(axis=-1, keepdims=True)
        moments.append(law @ powers)
    mean = moments[0][..., 0]
    (variance, _), (wide, third) = (_around(each, mean) for each in moments)
    total = np.maximum(np.maximum(variance, wide), 1e-14)
    return Posterior(mean, total, np.clip(third / total**1.5, -SKEWEST, SKEWEST))


def _around(moments: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """The second and third moments around a number, from those around zero, ``(..., 3)``."""
    first, second, third = np.moveaxis(moments, -1, 0)
    return second - 2 * mean * first + mean**2, third - mean * (3 * second - 3 * mean * first + mean**2)
