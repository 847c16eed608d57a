"""Two tallies of a plan: whether both are draws from one population."""

from __future__ import annotations

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.tails import above, below, chi_square_above
from ...plan.plan import Plan
from ...plan.tally import Tally
from .draws import EXPECTED
from .finding import FALSE_ALARM, Finding, corrected, finding, holm, unchecked
from .mixture import parts
from .occurrences import cell_occurrences


def check_change(plan: Plan, tally: Tally, other: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """Whether two tallies of a plan, such as those of two days, are draws from one population."""
    tally.belongs_to(plan)
    other.belongs_to(plan)
    p_values: list[float] = []
    names: list[str] = []
    one, two = list(parts(plan, tally)), list(parts(plan, other))
    for (_, views, first), (_, _, second) in zip(one, two, strict=True):
        for name, a, b in zip(views, first, second, strict=True):
            names.append(name)
            p_values.append(alike(a, b))
    if not one:
        for met, met_ in zip(cell_occurrences(plan, tally), cell_occurrences(plan, other), strict=True):
            names += met.names
            for a, n, b, m in zip(met.counts, met.reports, met_.counts, met_.reports, strict=True):
                p_values.append(alike(np.array([a, n - a]), np.array([b, m - b])))
    if not p_values:
        return unchecked(
            "change", "what two tallies of this plan have in common is not compared", false_alarm
        )
    each = np.array(p_values)
    odd = np.flatnonzero(holm(each, false_alarm))
    return finding(
        "change",
        float(-np.log10(max(each.min(), 1e-300))),
        corrected(each),
        false_alarm,
        "both tallies may be draws from one population",
        "the two tallies are not draws from one population: people changed, or someone began to cheat",
        list(dict.fromkeys(names[row] for row in odd)),
    )


def alike(one: Floats, two: Floats) -> float:
    """Whether two rows of counts have one law: chi-square, or for few counts an exact bound."""
    n, m = one.sum(), two.sum()
    if n == 0 or m == 0:
        return 1.0
    seen = one + two
    order = np.argsort(-seen, kind="stable")
    one, two, seen = one[order], two[order], seen[order]
    part = min(n, m) / (n + m)
    enough = seen * part >= EXPECTED
    if enough.sum() >= 2 or (enough.any() and not enough.all()):
        kept = int(enough.sum())
        rows = np.array([np.append(row[:kept], row[kept:].sum()) for row in (one, two)])
        if rows[:, -1].sum() * part < EXPECTED:  # what is left is too little for a cell of its own
            rows[:, -2] += rows[:, -1]
            rows = rows[:, :-1]
        if rows.shape[1] >= 2:
            due = rows.sum(axis=0) * (np.array([[n], [m]]) / (n + m))
            return chi_square_above(float(((rows - due) ** 2 / due).sum()), rows.shape[1] - 1)
    # The rarer outputs given how often they were seen in all: binomial, which is wider than exact.
    rare = float(seen[1:].sum())
    share = float(n / (n + m))
    count = float(one[1:].sum())
    both = min(float(above(count, rare, share)), float(below(count, rare, share)))
    return min(1.0, 2 * both)
