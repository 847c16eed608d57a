"""Contest rows: the measured errors of one mechanism, estimator and epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isfinite, sqrt
from typing import Any

import numpy as np

from ..foundation.arrays import Floats
from ..people.scale import Scale

STATISTICS = {"frequency": 0.0, "mean": -1.0}
"""The statistics that are measured, and the smallest value of each; the largest value is 1."""
ROUNDING = 1e-9
"""Tolerance of coverage: the sum of a true frequency may exceed 1 by rounding."""
POWERS = {"mse": 2, "predicted": 2, "mae": 1}
"""Kinds of errors, and the power of the scale with which each grows."""


@dataclass(frozen=True, kw_only=True)
class ContestRow:
    """The errors and coverage of one mechanism, estimator and epsilon over all repetitions.

    Errors of means are on [-1, 1]; ``on_scale`` converts a document to the scale of the values.
    Standard errors (``_se``) are over repetitions, and None for a single repetition.
    """

    mechanism: str
    chosen: str
    """The mechanism, for ``auto`` the planner's choice, with the parameters off their default."""
    estimator: str
    epsilon: float
    true_epsilon: float
    d: int
    n: int
    repetitions: int
    coverage_frequency: float | None
    """The share of all intervals that contain the truth; None if the estimator claims no interval. An
    unbounded interval contains it."""
    coverage_mean: float | None
    bounded_frequency: float | None
    """The share of intervals that are bounded. An unbounded interval says that the data cannot tell."""
    bounded_mean: float | None
    skipped: tuple[str, ...] = ()
    """Requested estimators that this mechanism does not have."""
    runs: Mapping[str, Floats] = field(default_factory=dict, repr=False, compare=False)
    """The mean squared error of every repetition, for standard errors of ratios."""
    mse_frequency: float | None
    mse_frequency_se: float | None
    mse_mean: float | None
    mse_mean_se: float | None
    mae_frequency: float | None
    mae_frequency_se: float | None
    mae_mean: float | None
    mae_mean_se: float | None
    predicted_frequency: float | None
    """The predicted mean squared error; None for an estimator without a forecast."""
    predicted_mean: float | None
    bias_from_cap: bool
    """Whether people hold more keys than the plan counts. Then answers are biased, and coverage is low,
    because intervals do not include this bias."""
    left_out: float
    """The share of all held keys that the plan's cap or padding length leaves out."""
    refused: bool = False
    """Whether the planner would make this plan only with ``--anyway``."""
    planner_estimator: str | None = None
    """For ``auto``: the planner's estimator. Rows with this estimator differ in the mechanism alone."""
    pilot: float | None = None
    """The share of people in the pilot, who report how many keys they hold."""
    choices: Mapping[str, int] | None = None
    """With a pilot: the number of repetitions for each choice. ``chosen`` is the most frequent one."""
    keys_together: int | None = None
    """The number of keys in a conditional, target included; None for single keys."""

    def document(self) -> dict[str, Any]:
        """The row as JSON. Errors of conditionals have names like ``mse_conditional_mean``."""
        return {self._member(member.name): _plain(getattr(self, member.name)) for member in fields(self)}

    def _member(self, name: str) -> str:
        kind, _, statistic = name.partition("_")
        conditional = self.keys_together is not None and kind in POWERS
        return f"{kind}_conditional_{statistic}" if conditional else name


def on_scale(row: dict[str, Any], scale: Scale) -> dict[str, Any]:
    """A row's document with the mean's errors on a scale, from [-1, 1]; ``mean_scale`` says which."""
    scaled = dict(row)
    for name, value in row.items():
        kind, _, statistic = name.removesuffix("_se").partition("_")
        if kind in POWERS and statistic.removeprefix("conditional_") == "mean" and value is not None:
            scaled[name] = value * scale.half ** POWERS[kind]
    runs = row["runs"].get("mean", [])
    scaled["runs"] = {**row["runs"], "mean": [None if e is None else e * scale.half**2 for e in runs]}
    return {**scaled, "mean_scale": scale.document()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.astype(float).tolist()]
    return None if isinstance(value, float) and not isfinite(value) else value


@dataclass(frozen=True)
class MeasuredErrors:
    """The errors of one statistic over all questions and repetitions; None without answers."""

    mse: float | None = None
    mse_se: float | None = None
    """Standard error over repetitions; None for a single repetition."""
    mae: float | None = None
    mae_se: float | None = None
    coverage: float | None = None
    bounded: float | None = None
    runs: Floats = field(default_factory=lambda: np.zeros(0), repr=False)


def measure_errors(
    value: Floats, low: Floats, high: Floats, truth: Floats, least: float
) -> MeasuredErrors:
    """Errors of values ``(repetitions, questions)`` and the coverage of their intervals.

    Values are clipped to [``least``, 1]. An unknown value counts as the middle of this range. Questions
    whose truth is NaN are left out. An unbounded interval covers; an interval of NaN is not counted.
    """
    known = np.isfinite(truth)
    if not known.any() or not len(value):
        return MeasuredErrors()
    value, low, high, true = value[:, known], low[:, known], high[:, known], truth[known]
    points = np.nan_to_num(value, nan=(least + 1) / 2, posinf=1.0, neginf=least)
    errors = np.clip(points, least, 1.0) - true
    bounded, claimed = np.isfinite(low) & np.isfinite(high), ~np.isnan(low)
    inside = (low <= true + ROUNDING) & (true <= high + ROUNDING)
    squares, sizes = (errors**2).mean(axis=1), np.abs(errors).mean(axis=1)
    return MeasuredErrors(
        mse=float(squares.mean()),
        mse_se=standard_error(squares),
        mae=float(sizes.mean()),
        mae_se=standard_error(sizes),
        coverage=float(inside[claimed].mean()) if claimed.any() else None,
        bounded=float(bounded.mean()),
        runs=squares,
    )


def standard_error(runs: Floats) -> float | None:
    """The standard error of an average over repetitions; None for a single one."""
    return float(runs.std(ddof=1) / sqrt(len(runs))) if len(runs) > 1 else None
