"""Estimate: a value with its standard error and interval; and the answers for every key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isfinite, isnan, nan
from statistics import NormalDist
from typing import Any

import numpy as np

from ..foundation.arrays import Floats, Integers
from ..foundation.errors import PlanError
from ..people.schema import unknown_key


@dataclass(frozen=True)
class Estimate:
    """A value, its standard error, and an interval that holds the truth at the stated level.

    An interval from minus to plus infinity says that the data cannot tell. NaN for the ends says
    that the estimator claims no interval, because it is biased. NaN for the value says that the data
    give a range and no value inside it.
    """

    value: float
    stderr: float
    low: float
    high: float
    reports: int

    def __post_init__(self) -> None:
        for name in ("value", "stderr", "low", "high"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def bounded(self) -> bool:
        """Whether the interval says anything."""
        return isfinite(self.low) and isfinite(self.high)

    def document(self) -> dict[str, Any]:
        """As JSON, with null for what is unknown or unbounded."""
        claim = "bounded" if self.bounded else "none" if isnan(self.low) else "unbounded"
        return {
            "value": _number(self.value),
            "stderr": _number(self.stderr),
            "low": _number(self.low),
            "high": _number(self.high),
            "interval": claim,
            "reports": self.reports,
        }


@dataclass(frozen=True)
class KeyAnswer:
    """What is known of one key; None for what the mechanism cannot answer."""

    key: str
    frequency: Estimate | None = None
    """The share of people who hold the key."""
    mean: Estimate | None = None
    """The mean value among those who hold it, on the key's own scale."""
    mass: Estimate | None = None
    """Frequency times mean, an absent key counting as 0, on the [-1, 1] scale."""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        parts = {"frequency": self.frequency, "mean": self.mean, "mass": self.mass}
        body: dict[str, Any] = {"key": self.key}
        body.update({n: None if e is None else e.document() for n, e in parts.items()})
        return body


@dataclass(frozen=True)
class Answers:
    """The answers of one tally, key by key, and how they were made."""

    keys: tuple[KeyAnswer, ...]
    mechanism: str
    estimator: str
    level: float
    note: str = ""
    after: tuple[str, ...] = ()
    """Post-processing that was applied, in order."""

    @cached_property
    def _by_name(self) -> dict[str, KeyAnswer]:
        return {answer.key: answer for answer in self.keys}

    def __getitem__(self, key: str) -> KeyAnswer:
        if key not in self._by_name:
            raise unknown_key(key, self._by_name)
        return self._by_name[key]

    def __iter__(self) -> Iterator[KeyAnswer]:
        return iter(self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "mechanism": self.mechanism,
            "estimator": self.estimator,
            "level": self.level,
            "after": list(self.after),
            "note": self.note,
            "keys": [answer.document() for answer in self.keys],
        }

    def replaced(self, keys: tuple[KeyAnswer, ...], step: str) -> Answers:
        """The same answers after one more step of post-processing."""
        return replace(self, keys=keys, after=(*self.after, step))


def quantile(level: float) -> float:
    """How many standard errors reach on either side at a level."""
    if not 1e-9 <= level <= 1 - 1e-9:  # nearer to either end there is no number for it
        raise PlanError("a level lies between 0 and 1, like 0.95")
    return NormalDist().inv_cdf(0.5 + level / 2)


@dataclass(frozen=True)
class Band:
    """Estimates as arrays of one shape: values, standard errors and the two ends of intervals."""

    value: Floats
    stderr: Floats
    low: Floats
    high: Floats

    @classmethod
    def plain(cls, value: Floats, variance: Floats, reports: Integers, level: float) -> Band:
        """Unbiased estimates with normal intervals; nothing is known without reports."""
        unknown = (np.asarray(reports) == 0) | np.isnan(value)
        value = np.where(unknown, nan, value)
        stderr = np.where(unknown, inf, np.sqrt(np.maximum(variance, 0.0)))
        reach = quantile(level) * stderr
        low, high = np.where(unknown, -inf, value - reach), np.where(unknown, inf, value + reach)
        return cls(value, stderr, low, high)

    @classmethod
    def ratio(
        cls, above: Floats, below: Floats, covariance: Floats, reports: Integers, level: float
    ) -> Band:
        """``above / below`` with Fieller's intervals, unbounded unless ``below`` is clearly above zero.

        ``covariance`` holds a 2 x 2 matrix of the two for each.
        """
        reach = quantile(level)
        va, cov, vb = covariance[..., 0, 0], covariance[..., 0, 1], covariance[..., 1, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            nothing = (np.asarray(reports) == 0) | ~(below > 0)
            value = np.where(nothing, nan, above / below)
            square = below * below - reach**2 * vb
            unknown = nothing | (square <= 0)
            middle = above * below - reach**2 * cov
            root = middle * middle - square * (above * above - reach**2 * va)
            half = np.sqrt(np.maximum(root, 0.0))
            spread = np.maximum(va - 2 * value * cov + value * value * vb, 0.0)
            stderr = np.where(unknown, inf, np.sqrt(spread) / below)
            low = np.where(unknown, -inf, (middle - half) / square)
            high = np.where(unknown, inf, (middle + half) / square)
        return cls(value, stderr, low, high)

    def estimate(self, place: Any, reports: int) -> Estimate:
        """The estimate at one place."""
        return Estimate(
            self.value[place], self.stderr[place], self.low[place], self.high[place], reports
        )


@dataclass(frozen=True)
class KeyBands:
    """What is known of every key, on the [-1, 1] scale, as arrays ``(..., keys)``.

    Leading axes are tallies that were estimated at once, such as a simulation's repetitions. None
    stands for what the mechanism cannot answer.
    """

    reports: Integers
    frequency: Band | None = None
    mean: Band | None = None
    mass: Band | None = None


def plain(value: float, variance: float, reports: int, level: float) -> Estimate:
    """An unbiased estimate with a normal interval; nothing is known without reports."""
    made = Band.plain(np.asarray(value), np.asarray(variance), np.asarray(reports), level)
    return made.estimate((), reports)


def ratio(above: float, below: float, covariance: Floats, reports: int, level: float) -> Estimate:
    """``above / below`` with Fieller's interval, unbounded unless ``below`` is clearly above zero."""
    made = Band.ratio(np.asarray(above), np.asarray(below), covariance, np.asarray(reports), level)
    return made.estimate((), reports)


def biased(value: float, reports: int) -> Estimate:
    """A value whose estimator claims neither standard error nor interval."""
    return Estimate(value, nan, nan, nan, reports)


def shifted(estimate: Estimate, low: float, high: float) -> Estimate:
    """An estimate on [-1, 1], on the scale from ``low`` to ``high``."""
    half = (high - low) / 2

    def place(x: float) -> float:
        return low + (x + 1.0) * half if isfinite(x) else x

    return Estimate(
        place(estimate.value),
        estimate.stderr * half,
        place(estimate.low),
        place(estimate.high),
        estimate.reports,
    )


def _number(value: float) -> float | None:
    return float(value) if isfinite(value) else None
