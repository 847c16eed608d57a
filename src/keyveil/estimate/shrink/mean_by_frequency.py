"""Means that go up or down with frequency: what it says of a key's mean, and what it leaves open."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Flags, Floats, Integers

CLASSES = 6
"""Classes of keys by frequency, where means go up or down with it."""
FEWEST_SLOPED = 12
"""Keys from which on means may go up or down with frequency."""
APART = 0.4
"""So far at most, for intervals, may the means of rare keys lie from those of keys that many hold, where
nothing shows it."""


class Held(NamedTuple):
    """Mass as frequency times mean plus noise, (repetition, key) each."""

    mass: Floats
    f: Floats
    noise: Floats
    f_noise: Floats
    slope: Floats

    def spread(self, mean: Floats, across: Floats | float) -> Floats:
        """The variance of the mass around frequency times ``mean``, means lying ``across`` apart."""
        return np.asarray(self.noise + self.f_noise * (mean - self.slope) ** 2 + self.f**2 * across)

    def centre(self, offset: Floats, known: Flags) -> Callable[[Floats], tuple[Floats, Floats]]:
        """For ``beta_laws``: the likeliest common mean for every width, on [0, 1]."""

        def made(widths: Floats) -> tuple[Floats, Floats]:
            held = Held(*(part[:, None] for part in self))
            middle = np.zeros((len(self.f), len(widths)))
            for _ in range(2):
                mean = np.clip(middle, -0.998, 0.998)
                across = (widths**2 * (1 - mean**2))[..., None]
                weight = known[:, None] / held.spread(mean[..., None] + offset[:, None], across)
                total = (weight * held.f**2).sum(axis=-1).clip(1e-300)
                rest = held.mass - held.f * offset[:, None]
                middle = (weight * held.f * rest).sum(axis=-1) / total
            return (middle + 1) / 2, 0.5 * total**-0.5

        return made


def offsets(held: Held, known: Flags) -> tuple[Floats, Floats]:
    """By how much each key's mean is expected above the common one, for its frequency.

    A regression on the frequency and its logarithm, the slopes held near zero and dropped as far as
    chance explains them. Beside it the variance that this leaves open, whether dropped or not.
    """
    f = held.f
    mean = np.zeros((len(f), 1))
    for _ in range(2):
        weight = known * f**2 / held.spread(mean, 0.04)
        total = weight.sum(axis=-1, keepdims=True).clip(1e-300)
        mean = np.clip((weight * held.mass / f).sum(axis=-1, keepdims=True) / total, -1, 1)
    across = np.stack([np.log(f), f], axis=-1)
    across -= (weight[..., None] * across).sum(axis=-2, keepdims=True) / total[..., None]
    size = np.sqrt((weight[..., None] * across**2).sum(axis=-2, keepdims=True) / total[..., None])
    across /= size + 1e-9
    across = np.concatenate([np.ones_like(f)[..., None], across], axis=-1)
    system = np.swapaxes(across * weight[..., None], -1, -2) @ across
    system += np.diag([1e-12, 1 / 0.3**2, 1 / 0.3**2])
    wanted = ((weight * held.mass / f)[..., None] * across).sum(axis=-2)
    slopes = np.linalg.solve(system, wanted[..., None])[..., 1:, 0]
    error = np.linalg.inv(system)[:, 1:, 1:]
    score = np.einsum("ri,rij,rj->r", slopes, np.linalg.inv(error), slopes)
    kept = np.maximum(0.0, 1.0 - 4.0 / np.maximum(score, 1e-300))
    kept *= known.sum(axis=-1) >= FEWEST_SLOPED
    made = (across[..., 1:] @ slopes[..., None])[..., 0] * kept[:, None]
    made -= made.mean(axis=-1, keepdims=True)
    left = np.einsum("rki,rij,rkj->rk", across[..., 1:], error, across[..., 1:])
    return np.asarray(np.clip(made, -1.0, 1.0)), np.minimum(left, APART**2)


def classes(offset: Floats) -> tuple[Integers, Floats, Floats]:
    """Keys in classes of like offset, padded: which keys, which of them count, and the offset."""
    reps, keys = offset.shape
    count = CLASSES if offset.any() else 1
    per = -(-keys // count)
    place = np.minimum(np.arange(count * per), keys - 1)
    order = np.argsort(offset, axis=1, kind="stable")[:, place].reshape(reps, count, per)
    counted = np.broadcast_to((np.arange(count * per) < keys).reshape(count, per), order.shape)
    there = taken(offset, order) * counted
    shift = there.sum(axis=-1) / np.maximum(counted.sum(axis=-1), 1)
    return order, counted.astype(np.float64), shift


def taken(values: np.ndarray, order: Integers) -> Floats:
    """Keys' values in the order of the classes."""
    return np.take_along_axis(values, order.reshape(len(order), -1), axis=1).reshape(order.shape)


def back(part: Floats, order: Integers, shape: tuple[int, ...]) -> Floats:
    """Classes of keys in the keys' own order again."""
    made = np.empty(shape)
    row = np.arange(len(order))[:, None]
    flat = order.reshape(len(order), -1)[:, : shape[1]]
    made[row, flat] = part.reshape(len(order), -1, *shape[2:])[:, : shape[1]]
    return made
