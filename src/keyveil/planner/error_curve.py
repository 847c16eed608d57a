"""Error curve: the error of a plan's answers so far, and the predicted error against people."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, sqrt
from typing import Any

import numpy as np

from ..estimate import estimate
from ..estimate.answer import Answers
from ..estimate.forecast.normal_law import clipped
from ..estimate.forecast.pair_forecast import forecast_pairs
from ..foundation.errors import PlanError
from ..people.prior import Prior
from ..people.scale import Scale
from ..plan.plan import Plan
from ..plan.tally import Tally
from .key_scores import key_scores

FACTORS = tuple(10.0 ** (quarter / 4) for quarter in range(-8, 9))
"""Numbers of people on a curve, relative to the number that was asked about."""
STEPS = ("raw", "shrunk")
STATISTICS = ("frequency", "mean")

Row = dict[str, Any]


def error_curve(plan: Plan, people: float, prior: Prior | None = None) -> list[Row]:
    """Root mean squared errors over keys for numbers of people around ``people``.

    A row has ``people``, and "raw", "shrunk" and "together", each with "frequency" and "mean" on the
    scale of the schema's values. Each is None if it is not predicted. "raw" is the error before
    shrinkage, clipped to the range; "together" that of conditionals of two keys.
    """
    belief = Prior.of(plan.schema) if prior is None else prior
    counts = sorted({max(1, round(people * factor)) for factor in FACTORS})
    return [{"people": count, **_predicted(plan, count, belief)} for count in counts]


def _predicted(plan: Plan, people: int, prior: Prior) -> Row:
    unit = {"frequency": 1.0, "mean": Scale.of(plan.schema).half}
    scores = key_scores(plan, people, prior)
    row: Row = dict.fromkeys((*STEPS, "together"))
    if scores is not None:
        row |= {step: _roots(getattr(scores, step)._asdict(), unit, plan) for step in STEPS}
    try:
        together = forecast_pairs(plan, people, prior).errors()
    except PlanError:
        return row
    return row | {"together": _roots(together._asdict(), unit, plan)}


def _roots(squares: dict[str, float], unit: dict[str, float], plan: Plan) -> dict[str, float | None]:
    """Roots on the user's scale; None for what the plan does not answer."""
    return {
        name: sqrt(squares[name]) * unit[name]
        if name in plan.mechanism.answers and isfinite(squares[name]) and squares[name] >= 0
        else None
        for name in STATISTICS
    }


def error_so_far(plan: Plan, tally: Tally) -> Row | None:
    """Root mean squared standard errors over keys; None without reports.

    "raw" is that of least squares, clipped to the range as in a forecast; "best" that of the default
    answers. An unbounded answer counts as if it were drawn anywhere in the range.
    """
    if not tally.reports:
        return None
    best = estimate(plan, tally)
    raw = estimate(plan, tally, "least_squares")
    return {"raw": _spread(plan, raw), "best": _spread(plan, best)}


def _spread(plan: Plan, answers: Answers) -> dict[str, float | None]:
    scale, schema = Scale.of(plan.schema), plan.schema
    half = (np.asarray(schema.high, float) - np.asarray(schema.low, float)) / 2
    spreads: dict[str, float | None] = {}
    for name in STATISTICS:
        estimates = [getattr(answer, name) for answer in answers]
        if any(e is None for e in estimates):
            spreads[name] = None
            continue
        value = np.array([e.value for e in estimates])
        stderr = np.array([e.stderr for e in estimates])
        ends = (0.0, 1.0)
        if name == "mean":
            value, stderr, ends = (value - schema.low) / half - 1.0, stderr / half, (-1.0, 1.0)
        squares = _clipped(value, stderr, ends)
        unit = scale.half if name == "mean" else 1.0
        spreads[name] = sqrt(float(squares.mean())) * unit
    return spreads


def _clipped(value: np.ndarray, stderr: np.ndarray, ends: Sequence[float]) -> np.ndarray:
    """Squared errors of values that are clipped to their range."""
    low, high = ends
    truth = np.clip(np.where(np.isfinite(value), value, (low + high) / 2), low, high)
    variance = np.where(np.isfinite(stderr), stderr, np.inf) ** 2
    return np.asarray(clipped(variance, truth, low, high))
