"""The check of two tallies of a plan: are both draws from one population?"""

from __future__ import annotations

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.tails import above, below, chi_square_above
from ...plan.plan import Plan
from ...plan.tally import Tally
from .draws import EXPECTED
from .finding import FALSE_ALARM, Finding, named_finding, unchecked
from .mixture import parts
from .occurrences import cell_occurrences


def check_change(plan: Plan, tally: Tally, other: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """Check that two tallies of a plan, such as those of two days, are draws from one population."""
    tally.belongs_to(plan)
    other.belongs_to(plan)
    names: list[str] = []
    rows: list[tuple[Floats, Floats]] = []
    for (_, views, first), (_, _, second) in zip(parts(plan, tally), parts(plan, other), strict=True):
        names += views
        rows += zip(first, second, strict=True)
    if not rows:
        events = zip(cell_occurrences(plan, tally), cell_occurrences(plan, other), strict=True)
        for own_events, other_events in events:
            names += own_events.names
            rows += zip(own_events.two_sided, other_events.two_sided, strict=True)
    p_values = [law_p_value(first, second) for first, second in rows]
    if not p_values:
        why = "what two tallies of this plan have in common is not compared"
        return unchecked("change", why, false_alarm)
    digits = float(-np.log10(max(min(p_values), 1e-300)))
    return named_finding("change", digits, np.array(p_values), false_alarm, names.__getitem__)


def law_p_value(first: Floats, second: Floats) -> float:
    """The p-value of two rows of counts having one law: chi-square, or an exact bound for few counts."""
    n, m = first.sum(), second.sum()
    if n == 0 or m == 0:
        return 1.0
    total = first + second
    order = np.argsort(-total, kind="stable")
    first, second, total = first[order], second[order], total[order]
    part = min(n, m) / (n + m)
    enough = total * part >= EXPECTED
    if enough.sum() >= 2 or (enough.any() and not enough.all()):
        cells = int(enough.sum())
        rows = np.array([np.append(row[:cells], row[cells:].sum()) for row in (first, second)])
        if rows[:, -1].sum() * part < EXPECTED:  # the rest is too small for a cell of its own
            rows[:, -2] += rows[:, -1]
            rows = rows[:, :-1]
        if rows.shape[1] >= 2:
            expected = rows.sum(axis=0) * (np.array([[n], [m]]) / (n + m))
            return chi_square_above(float(((rows - expected) ** 2 / expected).sum()), rows.shape[1] - 1)
    # The rarer outputs, given their total: binomial, whose tails are heavier than the exact ones.
    rare = float(total[1:].sum())
    share = float(n / (n + m))
    count = float(first[1:].sum())
    both = min(float(above(count, rare, share)), float(below(count, rare, share)))
    return min(1.0, 2 * both)
