"""Covariance as a function of the true values, fitted to the estimated covariances of all keys."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Flags, Floats, Integers

LEAST = 0.02
"""Smallest variance, as a share of the average."""
STRAIGHT = 0.25
"""Largest residual of a line that fits, as a share of the average variance."""


class Noise(NamedTuple):
    """Covariance of (frequency, mass) of one report as a function of both.

    It is ``line @ (1, frequency, mass)`` minus the product of the two values. If the line does not fit,
    each key has its own estimated covariance.
    """

    line: Floats
    """Coefficients, (repetition, 2, 2, 3)."""
    fits: Flags
    """Whether the line fits, (repetition, 1)."""
    own: Floats
    """Estimated covariance of one report for each key, (repetition, key, 2, 2)."""
    reports: Floats
    """Number of reports, at least 1, (repetition, key)."""
    least: Floats
    """Smallest variances of one report, (repetition, 2)."""
    off: Floats | None = None
    """Difference of each key's own covariance from the line, (repetition, key, 2, 2), if it is added."""

    @classmethod
    def of(cls, values: Floats, covariance: Floats, reports: Integers, known: Flags) -> Noise:
        """The line fitted through all known keys."""
        n = np.maximum(reports, 1).astype(np.float64)
        own = np.where(known[..., None, None], covariance * n[..., None, None], np.eye(2))
        f = np.where(known, np.clip(values[..., 0], 0.0, 1.0), 0.0)
        s = np.where(known, np.clip(values[..., 1], -f, f), 0.0)
        values_inside = np.stack([f, s], axis=-1)
        regressors = np.stack([np.ones_like(f), f, s], axis=-1) * known[..., None]
        target = own + values_inside[..., :, None] * values_inside[..., None, :]
        square = np.swapaxes(regressors, -1, -2) @ regressors
        solver = np.linalg.pinv(square, rcond=1e-9, hermitian=True) @ np.swapaxes(regressors, -1, -2)
        line = np.einsum("rck,rkij->rijc", solver, target)
        residual = np.einsum("rkc,rijc->rkij", regressors, line) - target * known[..., None, None]
        count = np.maximum(known.sum(axis=-1), 1)
        average = (own[..., [0, 1], [0, 1]] * known[..., None]).sum(axis=-2) / count[:, None]
        average = np.where(known.any(axis=-1, keepdims=True), average, 1.0)
        residual_size = np.sqrt((residual[..., [0, 1], [0, 1]] ** 2).sum(axis=-2) / count[:, None])
        fits = (residual_size <= STRAIGHT * average).all(axis=-1, keepdims=True)
        return cls(line, fits, own, n, LEAST * average)

    def through_own(self, values: Floats, known: Flags) -> Noise:
        """The line moved for each key so that it goes through the key's own estimate.

        With two levels of values the line is exact. With more, the covariance also depends on how far
        values spread, and near the ends of the range the line alone is too low. An estimate outside its
        range stays on the line.
        """
        f, s = values[..., 0], values[..., 1]
        inside = known & (f >= 0.0) & (f <= 1.0) & (np.abs(s) <= f)
        at = np.stack([np.ones_like(f), f, s], axis=-1)
        pair = np.stack([f, s], axis=-1)
        line = np.einsum("rkc,rijc->rkij", at, self.line) - pair[..., :, None] * pair[..., None, :]
        return self._replace(off=np.where(inside[..., None, None], self.own - line, 0.0))

    def entry(self, first: int, second: int, f: Floats, s: Floats) -> Floats:
        """An entry of the covariance of each key at a frequency and mass, (repetition, key, any)."""
        line = self.line[:, first, second, :, None, None]
        values = (f, s)
        at = line[:, 0] + line[:, 1] * f
        at += line[:, 2] * s
        at -= values[first] * values[second]
        if self.off is not None:
            at += self.off[..., first, second, None]
        if not self.fits.all():
            at = np.where(self.fits[..., None], at, self.own[..., first, second, None])
        if first == second:
            at = np.maximum(at, self.least[:, None, first, None])
        return np.asarray(at / self.reports[..., None])
