"""Post-processing steps by name; each docstring says what happens to the value and the interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isfinite, isnan, nan
from typing import TYPE_CHECKING

import numpy as np

from ..foundation.arrays import Floats
from .answer import Answers, Estimate, KeyAnswer, shifted
from .decoding import state_decoding_of

if TYPE_CHECKING:
    from ..plan.plan import Plan
    from ..plan.tally import Tally

Step = Callable[["Plan", "Tally", Answers], Answers]
"""A step of post-processing."""


_AT_ONCE = 1 << 12
"""Rows at a time, which stay in the cache."""


def onto_simplex(points: Floats) -> Floats:
    """The probability vector nearest to each row (Norm-Sub): shift all entries equally, cut at zero."""
    points = np.atleast_2d(points)
    if len(points) > _AT_ONCE:
        runs = range(0, len(points), _AT_ONCE)
        return np.concatenate([onto_simplex(points[first : first + _AT_ONCE]) for first in runs])
    ordered = -np.sort(-points, axis=1)
    excess = np.cumsum(ordered, axis=1) - 1.0
    ranks = np.arange(1, points.shape[1] + 1)
    last = (ordered - excess / ranks > 0).sum(axis=1)
    shift = excess[np.arange(len(points)), last - 1] / last
    return np.maximum(points - shift[:, None], 0.0)


def nearest_law(points: Floats, covariance: Floats, steps: int = 300) -> Floats:
    """The proper law nearest to each row, measured in standard errors.

    Minimises (law - point)' covariance^-1 (law - point) over the simplex by accelerated projected
    gradient. To second order this is the most likely law, given an unbiased estimate and its covariance.
    """
    metric = np.linalg.pinv(covariance, rcond=1e-9, hermitian=True)
    metric /= np.linalg.norm(metric, ord=2, axis=(1, 2), keepdims=True)
    law = ahead = onto_simplex(points)
    pace = 1.0
    for _ in range(steps):
        slope = np.einsum("vst,vt->vs", metric, ahead - points)
        after = onto_simplex(ahead - slope)
        quicker = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead = after + (pace - 1) / quicker * (after - law)
        if np.abs(after - law).max() < 1e-9:
            law = after
            break
        law, pace = after, quicker
    return law


def _within(estimate: Estimate | None, low: float, high: float) -> Estimate | None:
    """The estimate with its value moved into a range and its interval cut to the range.

    The truth lies in the range, so the interval still covers at its level. The standard error no longer
    describes the value and is dropped.
    """
    if estimate is None:
        return None
    value = min(max(estimate.value, low), high) if not isnan(estimate.value) else nan
    ends = (estimate.low, estimate.high)
    if isnan(ends[0]):
        return replace(estimate, value=value)
    # An interval that lies outside the range becomes the nearest end of the range.
    cut = tuple(min(max(end, low), high) for end in ends)
    return Estimate(value, nan, cut[0], cut[1], estimate.reports)


def within_range(plan: Plan, answers: Answers) -> Answers:
    """The answers with values and bounded intervals moved into their range, and the raw ones.

    Unbounded intervals and standard errors stay.
    """

    def inside(estimate: Estimate | None, low: float, high: float) -> Estimate | None:
        moved = _within(estimate, low, high)
        if estimate is None or moved is None:
            return None
        if not estimate.bounded:
            return replace(estimate, value=moved.value)
        return replace(moved, stderr=estimate.stderr)

    moved = _moved(plan, answers, inside)
    keys = (replace(key, raw=own) for key, own in zip(moved, answers, strict=True))
    return replace(answers, keys=tuple(keys))


def _moved(
    plan: Plan,
    answers: Answers,
    move: Callable[[Estimate | None, float, float], Estimate | None],
) -> tuple[KeyAnswer, ...]:
    """The answers of every key, each statistic moved by its range."""
    return tuple(
        replace(
            answer,
            frequency=move(answer.frequency, 0.0, 1.0),
            mean=move(answer.mean, float(low), float(high)),
            mass=move(answer.mass, -1.0, 1.0),
        )
        for answer, low, high in zip(answers, plan.schema.low, plan.schema.high, strict=True)
    )


def clip(plan: Plan, tally: Tally, answers: Answers) -> Answers:
    """Moves frequencies into [0, 1] and means into the range of their key; cuts intervals to match."""
    return answers.replaced(_moved(plan, answers, _within), "clip")


def simplex(plan: Plan, tally: Tally, answers: Answers) -> Answers:
    """Replaces values by those of the nearest probability vector over states.

    Intervals remain those of the unprojected estimate, cut to the range and widened to contain the new
    value. So they cover at least as often as before. Standard errors are dropped.
    """
    values = state_decoding_of(plan).projected(plan, tally)
    keys = []
    for place, answer in enumerate(answers):
        frequency, mean = values[place]
        low, high = float(plan.schema.low[place]), float(plan.schema.high[place])
        scaled = shifted(Estimate(mean, nan, nan, nan, 0), low, high).value
        keys.append(
            replace(
                answer,
                frequency=_with_value(_within(answer.frequency, 0.0, 1.0), frequency),
                mean=_with_value(_within(answer.mean, low, high), scaled),
            )
        )
    return answers.replaced(tuple(keys), "simplex")


def _with_value(estimate: Estimate | None, value: float) -> Estimate | None:
    """The estimate with another value, its interval widened to contain it."""
    if estimate is None or not isfinite(value):
        return estimate
    if isnan(estimate.low):
        return replace(estimate, value=value)
    low, high = min(estimate.low, value), max(estimate.high, value)
    return Estimate(value, nan, low, high, estimate.reports)


STEPS: dict[str, Step] = {"clip": clip, "simplex": simplex, "norm_sub": simplex}
"""The steps by name; the literature calls the projection Norm-Sub."""
