"""Noise as a function of what is true, read off the covariances that were estimated for all keys."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Flags, Floats, Integers

LEAST = 0.02
"""No variance is less than this share of the average."""
STRAIGHT = 0.25
"""A line fits if it misses the keys' own variances by no more than this share of their average."""


class Noise(NamedTuple):
    """Covariance of one report's (frequency, mass) as a function of both.

    It is ``line @ (1, frequency, mass)`` less the product of the two values. Where a line does not fit,
    each key has the covariance that was estimated at its own values.
    """

    line: Floats
    """(repetition, 2, 2, 3)."""
    fits: Flags
    """(repetition, 1)."""
    own: Floats
    """(repetition, key, 2, 2), of one report."""
    reports: Floats
    """(repetition, key); one where there are none."""
    least: Floats
    """(repetition, 2): the least variances of one report."""

    @classmethod
    def of(cls, values: Floats, covariance: Floats, reports: Integers, known: Flags) -> Noise:
        """Fit the line through all keys that are known."""
        n = np.maximum(reports, 1).astype(np.float64)
        own = np.where(known[..., None, None], covariance * n[..., None, None], np.eye(2))
        f = np.where(known, np.clip(values[..., 0], 0.0, 1.0), 0.0)
        s = np.where(known, np.clip(values[..., 1], -f, f), 0.0)
        both = np.stack([f, s], axis=-1)
        across = np.stack([np.ones_like(f), f, s], axis=-1) * known[..., None]
        wanted = own + both[..., :, None] * both[..., None, :]
        square = np.swapaxes(across, -1, -2) @ across
        back = np.linalg.pinv(square, rcond=1e-9, hermitian=True) @ np.swapaxes(across, -1, -2)
        line = np.einsum("rck,rkij->rijc", back, wanted)
        off = np.einsum("rkc,rijc->rkij", across, line) - wanted * known[..., None, None]
        count = np.maximum(known.sum(axis=-1), 1)
        average = (own[..., [0, 1], [0, 1]] * known[..., None]).sum(axis=-2) / count[:, None]
        average = np.where(known.any(axis=-1, keepdims=True), average, 1.0)
        rest = np.sqrt((off[..., [0, 1], [0, 1]] ** 2).sum(axis=-2) / count[:, None])
        fits = (rest <= STRAIGHT * average).all(axis=-1, keepdims=True)
        return cls(line, fits, own, n, LEAST * average)

    def entry(self, one: int, two: int, f: Floats, s: Floats) -> Floats:
        """The entry of a key's covariance at a frequency and mass, (repetition, key, any)."""
        line = self.line[:, one, two, :, None, None]
        values = (f, s)
        at = line[:, 0] + line[:, 1] * f + line[:, 2] * s - values[one] * values[two]
        at = np.where(self.fits[..., None], at, self.own[..., one, two, None])
        if one == two:
            at = np.maximum(at, self.least[:, None, one, None])
        return np.asarray(at / self.reports[..., None])
