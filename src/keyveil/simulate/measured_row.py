"""Rows: what was measured of one mechanism, estimator and epsilon, as tables and JSON have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isfinite, sqrt
from typing import Any

import numpy as np

from ..foundation.arrays import Floats
from ..people.scale import Scale

ROUNDING = 1e-9
"""A truth of 1 that was summed up may be a little more, and an interval that ends at 1 holds it."""


@dataclass(frozen=True, kw_only=True)
class AnyRow:
    """What every row says, whatever was asked: who was measured, how often, and its intervals.

    Errors of means are on [-1, 1]; ``on_scale`` brings a document to the scale of the values.
    """

    mechanism: str
    chosen: str
    """What ``auto`` stood for; otherwise the mechanism itself. With parameters off their default."""
    estimator: str
    epsilon: float
    true_epsilon: float
    d: int
    n: int
    repetitions: int
    coverage_frequency: float | None
    """Of the bounded intervals, how many hold the truth; None where none is bounded."""
    coverage_mean: float | None
    bounded_frequency: float | None
    """How many intervals are bounded; an unbounded one says that the data cannot tell."""
    bounded_mean: float | None
    skipped: tuple[str, ...] = ()
    """Estimators that were asked for and that this mechanism does not have."""
    runs: Mapping[str, Floats] = field(default_factory=dict, repr=False, compare=False)
    """Each repetition's mean squared error, for ratios with a standard error."""

    def document(self) -> dict[str, Any]:
        """As JSON; null for what is unknown."""
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}


def on_scale(row: dict[str, Any], scale: Scale) -> dict[str, Any]:
    """A row's document with the mean's errors on a scale, from [-1, 1]; ``mean_scale`` says which."""
    powers = {"mse": 2, "predicted": 2, "mae": 1}
    made = dict(row)
    for name, value in row.items():
        kind, _, of = name.removesuffix("_se").partition("_")
        if kind in powers and of.removeprefix("conditional_") == "mean" and value is not None:
            made[name] = value * scale.half ** powers[kind]
    runs = row["runs"].get("mean", [])
    made["runs"] = {**row["runs"], "mean": [None if e is None else e * scale.half**2 for e in runs]}
    return {**made, "mean_scale": scale.document()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return [_plain(each) for each in value.astype(float).tolist()]
    return None if isinstance(value, float) and not isfinite(value) else value


@dataclass(frozen=True)
class Measured:
    """Errors of one kind of answer over all keys and repetitions; None where there is no answer."""

    mse: float | None = None
    mse_se: float | None = None
    """The standard error over repetitions; None for one repetition alone."""
    mae: float | None = None
    mae_se: float | None = None
    coverage: float | None = None
    bounded: float | None = None
    runs: Floats = field(default_factory=lambda: np.zeros(0), repr=False)


def measured(value: Floats, low: Floats, high: Floats, truth: Floats, least: float) -> Measured:
    """Errors of values ``(repetitions, keys)`` and how often their intervals hold the truth.

    Values are clipped to their range, from ``least`` to 1; an unknown value counts as its middle. A
    key whose truth is NaN is left out.
    """
    known = np.isfinite(truth)
    if not known.any() or not len(value):
        return Measured()
    value, low, high, true = value[:, known], low[:, known], high[:, known], truth[known]
    made = np.nan_to_num(value, nan=(least + 1) / 2, posinf=1.0, neginf=least)
    off = np.clip(made, least, 1.0) - true
    bounded = np.isfinite(low) & np.isfinite(high)
    inside = (low <= true + ROUNDING) & (true <= high + ROUNDING)
    squares, sizes = (off**2).mean(axis=1), np.abs(off).mean(axis=1)
    return Measured(
        *(float(squares.mean()), spread(squares), float(sizes.mean()), spread(sizes)),
        float(inside[bounded].mean()) if bounded.any() else None,
        float(bounded.mean()),
        squares,
    )


def spread(runs: Floats) -> float | None:
    """The standard error of an average over repetitions."""
    return float(runs.std(ddof=1) / sqrt(len(runs))) if len(runs) > 1 else None
