"""What devices draw: views and seeds, with public weights whatever people hold."""

from __future__ import annotations

import numpy as np

from ...foundation.arrays import Floats, Integers
from ...foundation.tails import above, below, chi_square_above
from ...plan.plan import Plan
from ...plan.tally import Tally
from .finding import FALSE_ALARM, Finding, corrected, finding, holm, unchecked
from .occurrences import view_name

EXPECTED = 10.0
"""What every cell of a chi-square expects at least; cells that expect less are put together."""


def drawn_evenly(counts: Integers, weights: Floats) -> tuple[float, float, Floats]:
    """Whether counts are draws with these weights: statistic, p-value, and each one's own p-value.

    Half of the rate is for the oddest count by itself (exact binomial, as many tests as counts), half
    for all together (chi-square, neighbours put together until each expects ten).
    """
    n = int(counts.sum())
    each = np.minimum(1.0, 2 * np.minimum(above(counts, n, weights), below(counts, n, weights)))
    merged, expected = _merged(counts.astype(np.float64), n * weights)
    statistic = float(((merged - expected) ** 2 / expected).sum())
    all_of_them = chi_square_above(statistic, len(merged) - 1) if len(merged) > 1 else 1.0
    return statistic, min(1.0, 2 * min(all_of_them, corrected(each))), each


def _merged(counts: Floats, expected: Floats) -> tuple[Floats, Floats]:
    """Neighbouring cells put together until each expects enough; the last takes what is left."""
    if expected.min(initial=np.inf) >= EXPECTED:
        return counts, expected
    number = np.floor(np.cumsum(expected) / EXPECTED * (1 - 1e-12)).astype(np.int64)
    number = np.minimum(number, max(0, int(expected.sum() / EXPECTED) - 1))
    first = np.concatenate([[True], number[1:] != number[:-1]])
    at = np.flatnonzero(first)
    seen, due = np.add.reduceat(counts, at), np.add.reduceat(expected, at)
    small = np.flatnonzero(due < EXPECTED)
    if len(small) and len(due) > 1:  # a heavy cell may leave a light one before it
        keep = due >= EXPECTED
        rest_seen, rest_due = seen[~keep].sum(), due[~keep].sum()
        seen, due = seen[keep], due[keep]
        if len(due):
            seen[-1], due[-1] = seen[-1] + rest_seen, due[-1] + rest_due
    return seen, due


def check_views(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """The drawn views follow the plan's public weights, whatever people hold."""
    if len(plan.views) == 1:
        return unchecked("views", "this plan has one view: no device draws any", false_alarm)
    counts = tally.counts[plan.layout.own]
    statistic, p_value, each = drawn_evenly(counts, plan.views.shares)
    odd = np.flatnonzero(holm(each, false_alarm))
    odd = odd[np.argsort(each[odd], kind="stable")]
    return finding(
        "views",
        statistic,
        p_value,
        false_alarm,
        "views were drawn with the plan's weights",
        "views were not drawn with the plan's weights: someone chose what to speak of",
        [view_name(plan, int(view)) for view in odd],
    )


def check_dummies(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """Devices that pad draw their dummy evenly, and report each dummy as often as any other."""
    channel = plan.channels[0]
    if not plan.encoding.dummies(plan.cap) or not channel.names_states:
        return unchecked("dummies", "reports of this plan name no dummy keys", false_alarm)
    counts = tally.view_counts(0)[1][2 * len(plan.schema.keys) :]
    statistic, p_value, _ = drawn_evenly(counts, np.full(len(counts), 1.0 / len(counts)))
    return finding(
        "dummies",
        statistic,
        p_value,
        false_alarm,
        "dummy keys were drawn evenly",
        "dummy keys were not drawn evenly: someone chose which to send",
    )


def check_seeds(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """The drawn seeds are even over the pool."""
    pool = plan.channels[0].seeds
    if pool < 2:
        return unchecked("seeds", "reports of this plan carry no seed", false_alarm)
    counts = tally.view_counts(0)[1].reshape(pool, -1).sum(axis=1)
    statistic, p_value, each = drawn_evenly(counts, np.full(pool, 1.0 / pool))
    odd = np.flatnonzero(holm(each, false_alarm))
    return finding(
        "seeds",
        statistic,
        p_value,
        false_alarm,
        "seeds were drawn evenly from the pool",
        "seeds were not drawn evenly: someone searched for those under which keys collide",
        [f"seed {seed}" for seed in odd],
    )
