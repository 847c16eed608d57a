"""Counts against their limits: how often things are met, and how many positions reports mark."""

from __future__ import annotations

from math import exp

import numpy as np

from ...foundation.tails import above, below
from ...plan.plan import Plan
from ...plan.tally import Tally
from .finding import FALSE_ALARM, Finding, corrected, finding, holm, unchecked
from .occurrences import FLOORS, cell_occurrences, key_occurrences, many_below, set_chances


def check_shares(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """No cell, position, sign, item or key is met less or more often than from any record."""
    found = list(cell_occurrences(plan, tally))
    by_key = key_occurrences(plan, tally)
    if by_key is not None:
        found.append(by_key)
    if not found:
        why = "what is met in these reports has no limits that are looked at one by one"
        return unchecked("shares", why, false_alarm)
    counts, reports, least, most = (
        np.concatenate([getattr(met, part) for met in found])
        for part in ("counts", "reports", "least", "most")
    )
    sets = list(set_chances(plan, tally))
    p_values = np.concatenate(
        [above(counts, reports, most), below(counts, reports, least), [chance for _, chance in sets]]
    )
    names = [name for met in found for name in met.names] * 2 + [name for name, _ in sets]
    odd = np.flatnonzero(holm(p_values, false_alarm))
    where = list(dict.fromkeys(names[row] for row in odd))
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.nan_to_num(np.maximum(counts / reports - most, least - counts / reports))
    return finding(
        "shares",
        float(max(over.max(initial=0.0), 0.0)),
        corrected(p_values),
        false_alarm,
        "nothing is met more or less often than honest reports allow",
        "something is met more or less often than from any honest person, even if all were alike",
        where,
    )


def check_rare(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """All items together are not named less often than if nobody held them."""
    channel = plan.channels[0]
    n, cells = tally.view_counts(0)
    counts = cells.astype(np.float64)
    limits = channel.limits(counts) if channel.names_states else None
    if not plan.encoding.keyless or limits is None:
        why = "reports of this plan do not each name one item"
        return unchecked("rare", why, false_alarm)
    least = float(limits.least.min())
    p_values = np.array([many_below(counts, float(n), least, start) for start in FLOORS])
    return finding(
        "rare",
        float(np.maximum(n * least - counts, 0.0).sum()),
        corrected(p_values),
        false_alarm,
        "rare keys are named as often as lies alone name them",
        "many rare keys are each named a little less often than by lies alone: reports went elsewhere",
    )


def check_marks(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """How many positions a report marks: the channel says so, all but one whatever the record is."""
    channel = plan.channels[0]
    n, cells = tally.view_counts(0)
    totals = channel.mark_totals(cells)
    if channel.one_cell or len(plan.views) > 1 or not (channel.fixed_marks or totals):
        why = "reports of this plan mark one cell, or any number of them"
        return unchecked("marks", why, false_alarm)
    fine = "reports mark as many positions as honest ones do"
    odd = "reports mark more or fewer positions than honest ones do: someone marks many keys at once"
    if channel.fixed_marks:
        marks, due = int(cells.sum()), n * channel.fixed_marks
        return finding("marks", abs(marks - due), float(marks == due), false_alarm, fine, odd)
    p_values, worst = [], 0.0
    for kind in totals:
        rest = kind.others * kind.background
        low, high = n * (rest + kind.least), n * (rest + kind.most)
        worst = max(worst, (kind.total - high) / n, (low - kind.total) / n)
        p_values += [
            chernoff(kind.total, n, kind.others, kind.background, kind.most, up=True),
            chernoff(kind.total, n, kind.others, kind.background, kind.least, up=False),
        ]
    return finding("marks", max(worst, 0.0), corrected(np.array(p_values)), false_alarm, fine, odd)


def chernoff(total: int, n: int, others: int, back: float, own: float, *, up: bool) -> float:
    """A bound on the chance that n reports have so many marks, ``others`` positions each and one own."""
    mean = n * (others * back + own)
    if (total <= mean) if up else (total >= mean):
        return 1.0

    def exponent(tilt: float) -> float:
        grown = exp(tilt) - 1
        return n * (others * np.log1p(back * grown) + np.log1p(own * grown)) - tilt * total

    low, high = (0.0, 1.0) if up else (-1.0, 0.0)
    while up and exponent(2 * high) < exponent(high) and high < 50:
        high *= 2
    while not up and exponent(2 * low) < exponent(low) and low > -50:
        low *= 2
    low, high = 2 * low, 2 * high
    for _ in range(200):  # the exponent is convex in the tilt
        one, two = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, two) if exponent(one) < exponent(two) else (one, high)
    return exp(min(0.0, max(-700.0, float(exponent((low + high) / 2)))))
