"""Views that share a key: people draw their view whatever they hold, so all views tell the same of it.

For a view v among those that hold a key, drawn with chance w of W in all, take for every report

    S = (W / w - 1) d    if it is of the view v,        S = -d    if it is of another view of the key,

with d the report's unbiased word on the key (less a constant). Its mean is zero for every person,
whatever that person holds. Sums of independent terms with mean zero have Bernstein's tail, with the
largest second moment that any state has. Fakes who speak in one view as they would not in others move
its sum.
"""

from __future__ import annotations

from math import exp, inf

import numpy as np

from ...estimate.linear import single_keys
from ...foundation.arrays import Floats
from ...plan.plan import Plan
from ...plan.tally import Tally
from ..poison.influence import view_worth
from .finding import FALSE_ALARM, Finding, corrected, finding, holm, unchecked
from .occurrences import view_name

CENTRES = (0.5, 0.0)
"""Of the frequency and the mass: constants that make the worst second moment small."""
_ROUNDED = 1e-6
"""More than a decoder's rounding adds to a report's mean."""


def check_agreement(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """Every view that holds a key tells the same of it as the others do."""
    words = _words(plan, tally)
    each = [_views_of(tally.reports, rows) for rows in words.values()]
    if not each:
        why = "no two views of this plan speak of the same key"
        return unchecked("agreement", why, false_alarm)
    p_values = np.concatenate(each)
    views = [view for rows in words.values() for view in rows.views]
    odd = np.flatnonzero(holm(p_values, false_alarm))
    odd = odd[np.argsort(p_values[odd], kind="stable")]
    return finding(
        "agreement",
        float(-np.log10(max(p_values.min(), 1e-300))),
        corrected(p_values),
        false_alarm,
        "views that share a key tell the same of it",
        "views that share a key tell different things of it: someone answers as the view suits",
        list(dict.fromkeys(view_name(plan, views[row]) for row in odd)),
    )


class _Rows:
    """Of one key and one part: every view's weight, sum of words, and how far words go."""

    def __init__(self) -> None:
        self.views: list[int] = []
        self.rows: list[tuple[float, float, float, float]] = []
        """Weight, sum of words, largest second moment of a word, largest word."""


def _words(plan: Plan, tally: Tally) -> dict[tuple[int, int], _Rows]:
    """By key and part, for all that two views or more speak of."""
    found: dict[tuple[int, int], _Rows] = {}
    if not plan.encoding.speaks_of_views or single_keys(plan):
        return found
    told: dict[tuple[int, int], tuple[Floats, Floats, Floats]] = {}
    of = plan.channel_of
    for view, keys in enumerate(plan.views.keys):
        number = 0 if of is None else of[view]
        channel = plan.channels[number]
        if not channel.one_cell or channel.states > 1 << 10:
            continue
        if (number, len(keys)) not in told:
            words = view_worth(plan, number, len(keys)) - np.array(CENTRES)
            second = np.einsum("sc,cki->ski", channel.expected(), words**2).max(axis=0)
            told[number, len(keys)] = (words, second, np.abs(words).max(axis=0))
        words, second, largest = told[number, len(keys)]
        sums = np.einsum("c,cki->ki", tally.view_counts(view)[1].astype(np.float64), words)
        for place, part in np.argwhere(np.isfinite(second)).tolist():
            rows = found.setdefault((keys[place], part), _Rows())
            rows.views.append(view)
            weight = float(plan.views.shares[view])
            rows.rows.append((weight, sums[place, part], second[place, part], largest[place, part]))
    return {at: rows for at, rows in found.items() if len(rows.views) > 1}


def _views_of(reports: int, rows: _Rows) -> Floats:
    """For each view a bound on the chance that its words differ so much from those of all."""
    weight, sums, second, largest = np.array(rows.rows).T
    whole = weight.sum()
    off = np.abs(whole / weight * sums - sums.sum()) - reports * _ROUNDED * whole
    factor = whole / weight - 1.0
    others = (weight * second).sum() - weight * second
    variance = reports * (weight * factor**2 * second + others)
    bound = np.maximum(factor * largest, largest.max())
    nats = np.where(off > 0, off**2 / (2 * variance + 2 * bound * np.maximum(off, 0.0) / 3), 0.0)
    return np.array([min(1.0, 2 * exp(-nat)) if nat < inf else 0.0 for nat in nats.tolist()])
