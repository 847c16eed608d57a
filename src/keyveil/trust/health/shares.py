"""The checks of counts against their limits: shares of cells and keys, rare items, marks."""

from __future__ import annotations

from math import exp

import numpy as np

from ...foundation.tails import above, below, exponential_bound
from ...plan.plan import Plan
from ...plan.tally import Tally
from .finding import FALSE_ALARM, Finding, corrected, finding, named_finding, unchecked
from .occurrences import FLOORS, cell_occurrences, key_occurrences, many_below, set_chances


def check_shares(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """Check that no cell, sign, item or key occurs less or more often than records allow."""
    occurrences = list(cell_occurrences(plan, tally))
    by_key = key_occurrences(plan, tally)
    if by_key is not None:
        occurrences.append(by_key)
    if not occurrences:
        why = "what is met in these reports has no limits that are looked at one by one"
        return unchecked("shares", why, false_alarm)
    counts, reports, least, most = (
        np.concatenate([getattr(events, part) for events in occurrences])
        for part in ("counts", "reports", "least", "most")
    )
    sets = list(set_chances(plan, tally))
    p_values = np.concatenate(
        [above(counts, reports, most), below(counts, reports, least), [chance for _, chance in sets]]
    )
    names = [name for events in occurrences for name in events.names] * 2 + [name for name, _ in sets]
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.nan_to_num(np.maximum(counts / reports - most, least - counts / reports))
    most_over = float(max(over.max(initial=0.0), 0.0))
    return named_finding("shares", most_over, p_values, false_alarm, names.__getitem__)


def check_rare(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """Check that all items together are named at least as often as if nobody held them."""
    channel = plan.channels[0]
    n, cells = tally.view_counts(0)
    counts = cells.astype(np.float64)
    limits = channel.limits(counts) if channel.names_states else None
    if not plan.encoding.keyless or limits is None:
        why = "reports of this plan do not each name one item"
        return unchecked("rare", why, false_alarm)
    least = float(limits.least.min())
    p_values = np.array([many_below(counts, float(n), least, start) for start in FLOORS])
    lacking = float(np.maximum(n * least - counts, 0.0).sum())
    return finding("rare", lacking, corrected(p_values), false_alarm)


def check_marks(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """Check the number of marked positions; all positions but one do not depend on the record."""
    channel = plan.channels[0]
    n, cells = tally.view_counts(0)
    totals = channel.mark_totals(cells)
    if channel.one_cell or len(plan.views) > 1 or not (channel.fixed_marks or totals):
        why = "reports of this plan mark one cell, or any number of them"
        return unchecked("marks", why, false_alarm)
    if channel.fixed_marks:
        marks, due = int(cells.sum()), n * channel.fixed_marks
        return finding("marks", abs(marks - due), float(marks == due), false_alarm)
    p_values, worst = [], 0.0
    for kind in totals:
        rest = kind.others * kind.background
        low, high = n * (rest + kind.least), n * (rest + kind.most)
        worst = max(worst, (kind.total - high) / n, (low - kind.total) / n)
        p_values += [
            chernoff(kind.total, n, kind.others, kind.background, kind.most, up=True),
            chernoff(kind.total, n, kind.others, kind.background, kind.least, up=False),
        ]
    return finding("marks", max(worst, 0.0), corrected(np.array(p_values)), false_alarm)


def chernoff(total: int, n: int, others: int, back: float, own: float, *, up: bool) -> float:
    """Chernoff's bound on the probability of ``total`` or more (``up``), or fewer, marks in n reports.

    A report marks each of ``others`` positions with probability ``back``, and one more with ``own``.
    """
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
    return float(exponential_bound(exponent, 2 * low, 2 * high, 200))
