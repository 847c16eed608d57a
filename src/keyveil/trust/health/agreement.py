"""Views that share a key: all of them say the same about it, because people draw their view at random.

The views of a key have the total probability W, and view v has w of it. For every report take

    S = (W / w - 1) d    if it is of the view v,        S = -d    if it is of another view of the key,

where d is the report's unbiased estimate for the key, minus a constant. The mean of S is zero for every
person, whatever that person holds. So Bernstein's inequality bounds the tail of the sum, with the
largest second moment of any state. Fakes who answer differently in one view than in others shift its
sum.
"""

from __future__ import annotations

from functools import cache
from math import exp, inf

import numpy as np

from ...estimate.linear import single_keys
from ...foundation.arrays import Floats
from ...plan.plan import Plan
from ...plan.tally import Tally
from ..poison.influence import view_influence
from .finding import FALSE_ALARM, Finding, named_finding, unchecked
from .occurrences import view_name

CENTRES = (0.5, 0.0)
"""Constants subtracted from frequency and mass. They make the worst second moment small."""
_ROUNDED = 1e-6
"""Upper bound on what rounding in a decoder adds to the mean of a report."""


def check_agreement(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """Check that all views of a key say the same about it."""
    parts = _parts(plan, tally)
    chances = [_chances(tally.reports, rows) for rows in parts.values()]
    if not chances:
        why = "no two views of this plan speak of the same key"
        return unchecked("agreement", why, false_alarm)
    p_values = np.concatenate(chances)
    views = [view for rows in parts.values() for view in rows.views]
    digits = float(-np.log10(max(p_values.min(), 1e-300)))
    names = [view_name(plan, view) for view in views]
    return named_finding("agreement", digits, p_values, false_alarm, names.__getitem__)


class _KeyViews:
    """The views of one key and one part (frequency or mass), with their sums of estimates."""

    def __init__(self) -> None:
        self.views: list[int] = []
        self.rows: list[tuple[float, float, float, float]] = []
        """Per view: weight, sum of estimates, largest second moment, largest estimate of a report."""


def _parts(plan: Plan, tally: Tally) -> dict[tuple[int, int], _KeyViews]:
    """The views by key and part, for every key that two or more views hold."""
    parts: dict[tuple[int, int], _KeyViews] = {}
    if not plan.encoding.speaks_of_views or single_keys(plan):
        return parts

    @cache
    def estimates_of(number: int, size: int) -> tuple[Floats, Floats, Floats]:
        estimates = view_influence(plan, number, size) - np.array(CENTRES)
        law = plan.channels[number].expected()
        second = np.einsum("sc,cki->ski", law, estimates**2).max(axis=0)
        return estimates, second, np.abs(estimates).max(axis=0)

    numbers = plan.channel_of or (0,) * len(plan.views)
    for view, keys in enumerate(plan.views.keys):
        channel = plan.channels[numbers[view]]
        if not channel.one_cell or channel.states > 1 << 10:
            continue
        estimates, second, largest = estimates_of(numbers[view], len(keys))
        sums = np.einsum("c,cki->ki", tally.view_counts(view)[1].astype(np.float64), estimates)
        for place, part in np.argwhere(np.isfinite(second)).tolist():
            rows = parts.setdefault((keys[place], part), _KeyViews())
            rows.views.append(view)
            weight = float(plan.views.shares[view])
            rows.rows.append((weight, sums[place, part], second[place, part], largest[place, part]))
    return {at: rows for at, rows in parts.items() if len(rows.views) > 1}


def _chances(reports: int, rows: _KeyViews) -> Floats:
    """For each view an upper bound on the p-value of its difference from the other views."""
    weight, sums, second, largest = np.array(rows.rows).T
    total = weight.sum()
    difference = np.abs(total / weight * sums - sums.sum()) - reports * _ROUNDED * total
    factor = total / weight - 1.0
    others = (weight * second).sum() - weight * second
    variance = reports * (weight * factor**2 * second + others)
    bound = np.maximum(factor * largest, largest.max())
    nats = np.where(
        difference > 0, difference**2 / (2 * variance + 2 * bound * np.maximum(difference, 0.0) / 3), 0.0
    )
    return np.array([min(1.0, 2 * exp(-nat)) if nat < inf else 0.0 for nat in nats.tolist()])
