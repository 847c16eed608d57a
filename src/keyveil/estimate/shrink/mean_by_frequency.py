"""Regression of means on frequency: the expected offset of each mean, and its variance."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Flags, Floats, Integers
from ..side_mean import CommonMean

CLASSES = 6
"""Number of classes of keys with similar offsets, if means depend on frequency."""
FEWEST_SLOPED = 12
"""Smallest number of keys for a regression of means on frequency."""
APART = 0.4
"""Largest standard deviation of an offset in an interval. It limits the distance between means of rare
and of frequent keys that the data do not show."""


class Held(NamedTuple):
    """A model of the mass as frequency times mean plus noise; each array is (repetition, key)."""

    mass: Floats
    f: Floats
    """Frequency."""
    noise: Floats
    """Variance of the mass given the frequency."""
    f_noise: Floats
    """Variance of the frequency."""
    slope: Floats
    """Regression coefficient of the error of the mass on the error of the frequency."""

    def spread(self, mean: Floats, across: Floats | float) -> Floats:
        """Variance of the mass around frequency times ``mean``; ``across`` is the variance of means."""
        return np.asarray(self.noise + self.f_noise * (mean - self.slope) ** 2 + self.f**2 * across)

    def centre(
        self, offset: Floats, known: Flags, common: CommonMean | None
    ) -> Callable[[Floats], tuple[Floats, Floats]]:
        """A function for ``beta_laws``: the most likely common mean for every width, on [0, 1].

        ``common`` is an observation of it from other people.
        """

        def centre_of(widths: Floats) -> tuple[Floats, Floats]:
            held = Held(*(part[:, None] for part in self))
            middle = np.zeros((len(self.f), len(widths)))
            for _ in range(2):
                mean = np.clip(middle, -0.998, 0.998)
                across = (widths**2 * (1 - mean**2))[..., None]
                weight = known[:, None] / held.spread(mean[..., None] + offset[:, None], across)
                total = (weight * held.f**2).sum(axis=-1).clip(1e-300)
                rest = held.mass - held.f * offset[:, None]
                product = (weight * held.f * rest).sum(axis=-1)
                if common is not None:
                    observed = CommonMean(*(part[:, None] for part in common))
                    precision = 1.0 / observed.spread(across[..., 0])
                    total = total + precision
                    product = product + precision * observed.value
                middle = product / total
            return (middle + 1) / 2, 0.5 * total**-0.5

        return centre_of


def offsets(held: Held, known: Flags) -> tuple[Floats, Floats]:
    """Expected difference of each mean from the common mean given its frequency, and its variance.

    A ridge regression on the frequency and its logarithm. The slopes are shrunk as far as chance
    explains them; the variance is that of the slopes before shrinkage.
    """
    f = held.f
    mean = np.zeros((len(f), 1))
    for _ in range(2):
        weight = known * f**2 / held.spread(mean, 0.04)
        total = weight.sum(axis=-1, keepdims=True).clip(1e-300)
        mean = np.clip((weight * held.mass / f).sum(axis=-1, keepdims=True) / total, -1, 1)
    regressors = np.stack([np.log(f), f], axis=-1)
    regressors -= (weight[..., None] * regressors).sum(axis=-2, keepdims=True) / total[..., None]
    size = np.sqrt((weight[..., None] * regressors**2).sum(axis=-2, keepdims=True) / total[..., None])
    regressors /= size + 1e-9
    regressors = np.concatenate([np.ones_like(f)[..., None], regressors], axis=-1)
    system = np.swapaxes(regressors * weight[..., None], -1, -2) @ regressors
    system += np.diag([1e-12, 1 / 0.3**2, 1 / 0.3**2])
    right_side = ((weight * held.mass / f)[..., None] * regressors).sum(axis=-2)
    slopes = np.linalg.solve(system, right_side[..., None])[..., 1:, 0]
    error = np.linalg.inv(system)[:, 1:, 1:]
    score = np.einsum("ri,rij,rj->r", slopes, np.linalg.inv(error), slopes)
    shrinkage = np.maximum(0.0, 1.0 - 4.0 / np.maximum(score, 1e-300))
    shrinkage *= known.sum(axis=-1) >= FEWEST_SLOPED
    offset = (regressors[..., 1:] @ slopes[..., None])[..., 0] * shrinkage[:, None]
    offset -= offset.mean(axis=-1, keepdims=True)
    variance = np.einsum("rki,rij,rkj->rk", regressors[..., 1:], error, regressors[..., 1:])
    return np.asarray(np.clip(offset, -1.0, 1.0)), np.minimum(variance, APART**2)


def classes(offset: Floats) -> tuple[Integers, Floats, Floats]:
    """Classes of keys with similar offsets: the keys, 1 or 0 for padding, and the mean offset."""
    reps, keys = offset.shape
    count = CLASSES if offset.any() else 1
    per = -(-keys // count)
    place = np.minimum(np.arange(count * per), keys - 1)
    order = np.argsort(offset, axis=1, kind="stable")[:, place].reshape(reps, count, per)
    counted = np.broadcast_to((np.arange(count * per) < keys).reshape(count, per), order.shape)
    members = in_class_order(offset, order) * counted
    shift = members.sum(axis=-1) / np.maximum(counted.sum(axis=-1), 1)
    return order, counted.astype(np.float64), shift


def in_class_order(values: np.ndarray, order: Integers) -> Floats:
    """Values of keys in the order of the classes."""
    return np.take_along_axis(values, order.reshape(len(order), -1), axis=1).reshape(order.shape)


def in_key_order(part: Floats, order: Integers, shape: tuple[int, ...]) -> Floats:
    """Values of classes in the order of the keys."""
    values = np.empty(shape)
    row = np.arange(len(order))[:, None]
    flat = order.reshape(len(order), -1)[:, : shape[1]]
    values[row, flat] = part.reshape(len(order), -1, *shape[2:])[:, : shape[1]]
    return values
