"""Forecast of rounds with feedback, where absent keys repeat the mean that the last round estimated.

A round's raw mean is t' = f m + (1 - f) t + noise, clipped to [-1, 1], for a key with frequency f, mean
m and feedback t. So the law of each round's feedback follows from that of the round before. It is kept
as weights on an even grid for each key. A value between two grid points is split between both, which
preserves the mean; with normal noise all weights have a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import erf, pi
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...foundation.arrays import Floats
from .normal_law import NODES, REACH, WEIGHTS, below, clipped, density
from .predicted_error import Forecast, WithPublished

if TYPE_CHECKING:
    from ...people.prior import Prior

POINTS = 49
"""Points of the grid. It spans ``REACH`` standard deviations to both sides, or to the ends."""
_FAR = 9.0
_AT = np.linspace(-_FAR, _FAR, (1 << 14) + 1)
_ABOVE = np.exp(-(_AT**2) / 2) / np.sqrt(2 * pi) + _AT * np.array(
    [0.5 + 0.5 * erf(z / np.sqrt(2.0)) for z in _AT.tolist()]
)
"""The expected part above zero of a normal number with mean z and variance 1."""


class FeedbackForecast(NamedTuple):
    """The law of each key's feedback: ascending points and their probabilities, ``(keys, points)``."""

    at: Floats
    chance: Floats

    @classmethod
    def surely(cls, feedback: Floats) -> FeedbackForecast:
        """Feedback that is certain."""
        return cls(feedback[:, None], np.ones((len(feedback), 1)))

    def expect(self, values: Floats) -> Floats:
        """The expectation of values at the points, for each key."""
        return np.asarray((self.chance * values).sum(axis=1))


@dataclass(frozen=True)
class FeedbackRound:
    """A round: mean and variance of the raw mean before clipping, ``(keys, points of feedback)``."""

    feedback: FeedbackForecast
    middle: Floats
    variance: Floats

    @classmethod
    def of(
        cls, feedback: FeedbackForecast, held: Floats, mean: Floats, shown: Floats, gain: float
    ) -> FeedbackRound:
        """``held`` is the share of holders among the shown, ``gain`` twice the sign's keep less one."""
        middle = held[:, None] * mean[:, None] + (1.0 - held[:, None]) * feedback.at
        return cls(feedback, middle, (1.0 / gain**2 - middle**2) / shown[:, None])

    def error(self, truth: Floats) -> Floats:
        """The mean squared error of the clipped raw mean."""
        at = truth[:, None]
        return self.feedback.expect(clipped(self.variance, at, -1.0, 1.0, self.middle - at))

    def change(self) -> tuple[float, float]:
        """Expectation and variance of the raw mean's distance from the feedback, averaged over keys."""
        size, at = np.sqrt(self.variance), self.feedback.at
        # E|y - t| = 2 E(y - t)+ - E(y - t), of a normal y clipped to [-1, 1].
        most, least = (size * _above((self.middle - end) / size) for end in (1.0, -1.0))
        beyond = size * _above((self.middle - at) / size) - most
        apart = self.feedback.expect(2 * beyond - (-1.0 + least - most - at))
        square = self.feedback.expect(clipped(self.variance, at, -1.0, 1.0, self.middle - at))
        return float(apart.mean()), float(np.maximum(square - apart**2, 0.0).mean() / len(at))

    def next(self) -> FeedbackForecast:
        """The law of the clipped raw mean, which is the next round's feedback."""
        average = self.feedback.expect(self.middle)
        size = np.sqrt(self.feedback.expect(self.variance + (self.middle - average[:, None]) ** 2))
        low, high = np.clip(average - REACH * size, -1, 1), np.clip(average + REACH * size, -1, 1)
        low, high = np.minimum(low, 1 - 1e-6), np.maximum(high, low + 1e-6)
        at = np.linspace(low, high, POINTS, axis=1)
        step = ((high - low) / (POINTS - 1))[:, None]
        spread = np.sqrt(self.variance)[:, :, None]
        z = (self.middle[:, :, None] - at[:, None, :]) / spread
        above = np.einsum("kj,kji->ki", self.feedback.chance, spread * _above(z))
        fall = (above[:, :-1] - above[:, 1:]) / step  # the chance to lie above, averaged over a step
        chance = np.concatenate([1.0 - fall[:, :1], fall[:, :-1] - fall[:, 1:], fall[:, -1:]], axis=1)
        chance = np.maximum(chance, 0.0)
        return FeedbackForecast(at, chance / chance.sum(axis=1, keepdims=True))


def _above(z: Floats) -> Floats:
    """The expected part above zero of normal numbers with means z and variance 1."""
    return np.asarray(np.where(z > _FAR, z, np.interp(z, _AT, _ABOVE)))


@dataclass(frozen=True)
class RawMeans(Forecast):
    """The forecast of raw means: all shown signs, of holders and others."""

    last: FeedbackRound

    @cached_property
    def clipped_mean(self) -> Floats:
        """The mean squared error of each mean, which the estimator itself clips."""
        return self.last.error(self.truth.mean)


def first_round(alone: Forecast, at: FeedbackRound) -> Forecast:
    """The forecast of a first round: least squares, with raw means as the published estimator."""
    parts = alone.truth, alone.bias, alone.covariance
    return WithPublished(*parts, RawMeans(*parts, at))


@dataclass(frozen=True)
class Debiased(Forecast):
    """The forecast of means without the feedback's pull, t + (share - t) / f; f is the first round's."""

    last: FeedbackRound

    @classmethod
    def of(cls, frequency: Floats, last: FeedbackRound, prior: Prior) -> Debiased:
        """``frequency`` is the variance of each frequency; the rest to first order in the noise."""
        f, m = np.maximum(prior.frequency, 1e-12), prior.mean
        share = last.feedback.expect(last.variance)
        apart = last.feedback.expect((last.feedback.at - m[:, None]) ** 2)
        covariance = np.empty((len(f), 2, 2))
        covariance[:, 0, 0] = frequency
        covariance[:, 0, 1] = covariance[:, 1, 0] = m * frequency
        covariance[:, 1, 1] = m**2 * frequency + share + apart * frequency
        return cls(prior, np.zeros((len(f), 2)), covariance, last)

    @property
    def published(self) -> Forecast:
        """The forecast of means with the pull."""
        return RawMeans(self.truth, self.bias, self.covariance, self.last)

    @cached_property
    def clipped_mean(self) -> Floats:
        """The mean squared error of each mean after clipping to [-1, 1].

        Given the frequency and the feedback, the rest is normal: this is a sum over both. The mean is 0
        if the estimated frequency is not above zero.
        """
        frequency, mean = self.truth.frequency, self.truth.mean
        truth, size = mean[:, None, None], np.sqrt(np.maximum(self.covariance[:, 0, 0], 1e-300))
        first = np.clip(-frequency / size, -REACH, REACH)
        half = (REACH - first)[:, None] / 2
        z = first[:, None] + half * (1.0 + NODES)
        f = np.maximum(frequency[:, None] + size[:, None] * z, 1e-12)[:, None, :]
        feedback = self.last.feedback.at[:, :, None]
        middle = feedback + (self.last.middle[:, :, None] - feedback) / f
        off = clipped(self.last.variance[:, :, None] / f**2, truth, -1.0, 1.0, middle - truth)
        errors = np.einsum("kji,kj->ki", off, self.last.feedback.chance)
        return np.asarray((errors * density(z) * half) @ WEIGHTS + below(first) * mean**2)
