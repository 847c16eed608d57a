"""Forecast: the result of every prediction of error, and its variants.

A forecast has a row for each representative key of a ``Prior``. Bias and covariance are those of the
estimates of frequency and mass (frequency times mean). The errors of frequency, mean and mass follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from ...foundation.arrays import Flags, Floats
from .normal_law import NODES, REACH, WEIGHTS, below, clipped, density


class Truth(Protocol):
    """The law that answers are compared with, a row for each representative key. A ``Prior`` is one."""

    @property
    def count(self) -> Floats:
        """How many keys each row stands for."""

    @property
    def weight(self) -> Floats:
        """The share of keys that each row stands for."""

    @property
    def frequency(self) -> Floats:
        """The share of people who hold the key."""

    @property
    def mean(self) -> Floats:
        """The mean value among holders, on [-1, 1]."""


@dataclass(frozen=True)
class StatedTruth:
    """Frequencies and means that are stated, with a count for each row."""

    frequency: Floats
    mean: Floats
    count: Floats

    @classmethod
    def of_key(cls, frequency: float, mean: float) -> StatedTruth:
        """One key, without a row axis."""
        return cls(np.asarray(frequency), np.asarray(mean), np.asarray(1.0))

    @cached_property
    def weight(self) -> Floats:
        """The share of keys that each row stands for."""
        return np.asarray(self.count / self.count.sum())


class ValueForecast(NamedTuple):
    """The predicted answer to the question for one held value: see ``side.ValueAnswer``."""

    values: Floats
    """The share of people who hold anything, and the mass of one held value, ``(2,)``."""
    covariance: Floats
    """The covariance of the estimates of the two, ``(2, 2)``."""


class SizeForecast(NamedTuple):
    """The predicted answer to the question for the number of keys: see ``side.SizeAnswer``."""

    shares: Floats
    """The shares of people in the buckets, ``(buckets,)``."""
    covariance: Floats
    """The covariance of their estimates, ``(buckets, buckets)``."""
    one_report: Floats
    """As in ``SizeAnswer``."""
    reports: float
    """The expected number of reports."""


class CapForecast(NamedTuple):
    """What will be known about the keys that caps leave out."""

    size: SizeForecast
    keys: int
    caps: tuple[int | None, ...]
    """The most keys of one person that count in each answering part; None without a cap."""
    weights: Floats
    """The share of each answering part in the frequencies."""
    known: bool
    """Whether a table tells how many other keys the holders of each key hold. The bias then includes how
    far each key is from the usual."""


class Errors(NamedTuple):
    """Mean squared errors averaged over keys, means on [-1, 1]; NaN if unanswered."""

    frequency: float
    mean: float


def held_keys(truth: Truth) -> Flags:
    """Whether anyone holds each representative key. Only such a key has a mean."""
    return np.asarray(truth.frequency > 0)


def averaged(truth: Truth, frequency: Floats, mean: Floats) -> Errors:
    """Squared errors of each representative key, averaged over keys.

    The errors of means are averaged over the keys that someone holds; NaN if there are none.
    """
    held = held_keys(truth)
    weight = truth.weight[held]
    of_mean = float(weight @ mean[held] / weight.sum()) if held.any() else float("nan")
    return Errors(float(truth.weight @ frequency), of_mean)


@dataclass(frozen=True)
class Forecast:
    """Bias ``(..., 2)`` and covariance ``(..., 2, 2)`` of frequency and mass; NaN where unanswered."""

    truth: Truth
    bias: Floats
    covariance: Floats
    together: float = field(default=1.0, kw_only=True)
    """As in ``Moments``."""
    claimed: Floats | None = field(default=None, kw_only=True)
    """The covariance that the estimator claims, if it differs from the true one."""
    fixed: Floats | None = field(default=None, kw_only=True)
    """The part of the bias that a larger pool of seeds would remove; None if there is none."""
    side: ValueForecast | None = field(default=None, kw_only=True)
    """The answer to the plan's question for one held value; None if it does not ask for it."""
    caps: CapForecast | None = field(default=None, kw_only=True)
    """What will be known about the keys that caps leave out, if the plan asks how many keys people hold
    and leaves any out. Bias and covariance are those of kept keys, before they are corrected for it."""

    @property
    def left_out(self) -> Floats:
        """The part of the bias that a cap on keys causes."""
        return self.bias if self.fixed is None else np.asarray(self.bias - self.fixed)

    @property
    def frequency(self) -> Floats:
        """The mean squared error of each frequency."""
        return np.asarray(self.bias[..., 0] ** 2 + self.covariance[..., 0, 0])[()]

    @property
    def mass(self) -> Floats:
        """The mean squared error of each mass."""
        return np.asarray(self.bias[..., 1] ** 2 + self.covariance[..., 1, 1])[()]

    @property
    def mean(self) -> Floats:
        """The mean squared error of each mean, by the delta method."""
        f, mass = self.truth.frequency, self.truth.frequency * self.truth.mean
        with np.errstate(divide="ignore", invalid="ignore"):
            f, mass = f + self.bias[..., 0], mass + self.bias[..., 1]
            m = mass / f
            error = ratio_variance(m, f, self.covariance) + (m - self.truth.mean) ** 2
            return np.asarray(np.where(~(f <= 0), error, np.inf))[()]

    @cached_property
    def clipped_frequency(self) -> Floats:
        """The mean squared error of each frequency after clipping to [0, 1]."""
        return clipped(self.covariance[:, 0, 0], self.truth.frequency, 0.0, 1.0, self.bias[:, 0])

    @cached_property
    def clipped_mean(self) -> Floats:
        """The mean squared error of each mean after clipping to [-1, 1]."""
        return self.clipped_ratio()

    def clipped_ratio(self) -> Floats:
        """The mean squared error of mass over frequency, after clipping to [-1, 1].

        Frequency and mass are taken as jointly normal: given the frequency, the mass is normal, so this
        is an integral over the frequency. The mean is 0 if the estimated frequency is not above zero.
        """
        c, truth = self.covariance, self.truth.mean[:, None]
        center = self.truth.frequency + self.bias[:, 0]
        size = np.sqrt(np.maximum(c[:, 0, 0], 1e-300))
        first = np.clip(-center / size, -REACH, REACH)  # the frequency is above zero from here on
        half = (REACH - first)[:, None] / 2
        z = first[:, None] + half * (1.0 + NODES)
        f = np.maximum(center[:, None] + size[:, None] * z, 1e-12)
        mass = (self.truth.frequency * self.truth.mean + self.bias[:, 1])[:, None]
        mass = mass + (c[:, 0, 1] / size)[:, None] * z
        rest = np.maximum(c[:, 1, 1] - (c[:, 0, 1] / size) ** 2, 0.0)[:, None]
        error = clipped(rest / f**2, truth, -1.0, 1.0, mass / f - truth)
        above = (error * density(z) * half) @ WEIGHTS
        return np.asarray(above + below(first) * self.truth.mean**2)

    def errors(self) -> Errors:
        """The errors of clipped answers, as ``averaged`` states them."""
        return averaged(self.truth, self.clipped_frequency, self.clipped_mean)

    @property
    def published(self) -> Forecast | None:
        """The forecast of the mechanism's estimator ``published``; None if it is not known."""
        return None


@dataclass(frozen=True)
class WithPublished(Forecast):
    """The forecast of the first estimator, with that of the published one."""

    other: Forecast

    @property
    def published(self) -> Forecast:
        """The forecast of the published estimator."""
        return self.other


@dataclass(frozen=True)
class Mixed(Forecast):
    """A mixture of forecasts with their probabilities; bias and covariance are the likeliest one's."""

    parts: tuple[tuple[float, Forecast], ...]

    @classmethod
    def of(cls, parts: Sequence[tuple[float, Forecast]]) -> Forecast:
        """The mixture; a single forecast stays as it is."""
        likeliest = max(parts, key=lambda part: part[0])[1]
        if len(parts) == 1:
            return likeliest
        return cls(likeliest.truth, likeliest.bias, likeliest.covariance, tuple(parts))

    @cached_property
    def clipped_frequency(self) -> Floats:
        """The mean squared error of each frequency after clipping to [0, 1]."""
        return np.asarray(sum(chance * part.clipped_frequency for chance, part in self.parts))

    @cached_property
    def clipped_mean(self) -> Floats:
        """The mean squared error of each mean after clipping to [-1, 1]."""
        return np.asarray(sum(chance * part.clipped_mean for chance, part in self.parts))

    @property
    def published(self) -> Forecast | None:
        """The mixture of the published forecasts, if every part has one."""
        parts = [(chance, part.published) for chance, part in self.parts]
        known = [(chance, part) for chance, part in parts if part is not None]
        return Mixed.of(known) if len(known) == len(parts) else None


def ratio_variance(ratio: Floats, below: Floats, covariance: Floats) -> Floats:
    """The variance of a ratio by the delta method.

    ``covariance`` is that of (denominator, numerator); ``below`` is the denominator's expectation.
    """
    c = covariance
    spread = c[..., 1, 1] - 2 * ratio * c[..., 0, 1] + ratio**2 * c[..., 0, 0]
    return np.asarray(spread / below**2)
