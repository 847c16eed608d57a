"""Side mean: the mean of one held value of each person, as an observation of the mean of all keys.

A person who is asked for one held value tells about key k with a probability that is nearly proportional
to the key's frequency. So the answers estimate the average of the keys' means, weighted by frequency.
They come from people who answer nothing else, so their error is independent of all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..foundation.arrays import Flags, Floats
from .forecast.normal_law import cut_normal

if TYPE_CHECKING:
    from .side import ValueAnswer

UNCLEAR = 2.0
"""Standard errors that the share of people who hold anything must lie above zero to tell anything."""
CLEAR = 4.0
"""Standard errors from which the share is far from an end of [0, 1]."""


class CommonMean(NamedTuple):
    """An observation of the mean of the prior of all keys, on [-1, 1]."""

    value: Floats
    variance: Floats
    """The variance of the answers; infinite if they tell nothing."""
    concentration: Floats
    """The sum of the squared weights of keys. Times the variance of means across keys it is the variance
    of the weighted average of the keys' means around the mean of their prior."""

    def spread(self, across: Floats) -> Floats:
        """The variance of the observation, if means have the variance ``across`` across keys."""
        return np.asarray(self.variance + across * self.concentration)

    def log_likelihood(self, means: Floats, across: Floats) -> Floats:
        """Logarithm of the likelihood of priors with these means and variances, up to a constant."""
        spread = self.spread(across)
        known = np.isfinite(spread)
        spread = np.where(known, spread, 1.0)
        height = -((self.value - means) ** 2) / (2 * spread) - 0.5 * np.log(spread)
        return np.where(known, height, 0.0)


class SideMean(NamedTuple):
    """The mean over holders of one held value, on [-1, 1], ``(...,)``."""

    value: Floats
    """The estimate; 0 if it is unknown."""
    variance: Floats
    """Its variance; infinite if it is unknown."""

    @classmethod
    def of(cls, answer: ValueAnswer) -> SideMean:
        """The mean and its variance by the delta method.

        A share of holders that is nearly as small as its error says little about a ratio. But a share
        lies in [0, 1]: near an end, its law is cut to what is possible, and the mass is moved with it
        by regression. At epsilon 0.1 this is all that thousands of people can tell.
        """
        share, noise = answer.values[..., 0], answer.covariance[..., 0, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.sqrt(noise)
            tells = share > UNCLEAR * error
            clear = np.minimum(share, 1.0 - share) > CLEAR * error
            near_end = cls._near_end(answer)
            value = np.where(clear, answer.mean, near_end.value)
            variance = np.where(clear, answer.stderr**2, near_end.variance)
        tells &= np.isfinite(variance) & (variance > 0)
        return cls(np.where(tells, value, 0.0), np.where(tells, variance, np.inf))

    @classmethod
    def _near_end(cls, answer: ValueAnswer) -> SideMean:
        """The same with the law of the share cut to [0, 1]."""
        share, mass = answer.values[..., 0], answer.values[..., 1]
        noise, shared = answer.covariance[..., 0, 0], answer.covariance[..., 0, 1]
        slope = shared / noise
        rest = answer.covariance[..., 1, 1] - slope * shared
        ends = np.zeros_like(share), np.ones_like(share)
        holders, unsure, _ = cut_normal(share, np.sqrt(noise), *ends)
        value = (mass - slope * (share - holders)) / holders
        return cls(value, (rest + unsure * (slope - value) ** 2) / holders**2)

    def flat(self) -> SideMean:
        """The same with one axis."""
        return SideMean(*(np.asarray(part).reshape(-1) for part in self))

    def rows(self, part: slice) -> SideMean:
        """Some of the tallies."""
        return SideMean(self.value[part], self.variance[part])

    def of_keys(self, frequency: Floats, offset: Floats, known: Flags) -> CommonMean:
        """As an observation of the common mean, ``(repetition,)``, for keys ``(repetition, key)``.

        ``offset`` is the expected difference of each key's mean from the common mean.
        """
        weight = np.where(known, frequency, 0.0)
        weight = weight / np.maximum(weight.sum(axis=-1, keepdims=True), 1e-300)
        shift = (weight * offset).sum(axis=-1)
        return CommonMean(self.value - shift, self.variance, (weight**2).sum(axis=-1))

    def of_other_keys(self, frequency: Floats, known: Flags) -> CommonMean:
        """The same for each key, with the frequencies of all others, ``(repetition, key)``."""
        weight = np.where(known, frequency, 0.0)
        squares, total = weight**2, weight.sum(axis=-1, keepdims=True)
        others = np.maximum(total - weight, 1e-100)
        concentration = (squares.sum(axis=-1, keepdims=True) - squares) / others**2
        concentration = np.clip(concentration, 0.0, 1.0)
        return CommonMean(self.value[:, None], self.variance[:, None], concentration)
