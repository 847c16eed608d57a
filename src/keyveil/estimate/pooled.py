"""Frequency and mean of every key from views of several keys, pooled over all that hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .answer import Answers
from .joint import evidence
from .linear import Moments, answers_of, key_answers, key_weights

if TYPE_CHECKING:
    from ..plan import Plan
    from ..tally import Tally


def pooled_answers(plan: Plan, tally: Tally, level: float) -> Answers:
    """Unbiased answers for single keys, whatever the views."""
    known = evidence(plan, tally)
    weights = key_weights(plan.schema)
    keys = len(plan.schema.keys)
    reports = np.zeros(keys, np.int64)
    values, covariance = np.full((keys, 2), np.nan), np.full((keys, 2, 2), np.nan)
    for key in range(keys):
        found = known.moments((key,), weights)
        if found is not None:
            reports[key] = found.reports
            values[key], covariance[key] = found.values, found.covariance
    answers = key_answers(plan, Moments(reports, values, covariance), level)
    return answers_of(plan, answers, "least_squares", level)
