"""The checks of what devices draw with public weights: views, seeds and dummies."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...foundation.arrays import Floats, Integers
from ...foundation.tails import above, below, chi_square_above
from ...plan.plan import Plan
from ...plan.tally import Tally
from .finding import FALSE_ALARM, Finding, corrected, finding, named_finding, unchecked
from .occurrences import view_name

EXPECTED = 10.0
"""Minimum expected count of a cell in a chi-square test. Smaller cells are merged."""


def drawn_evenly(counts: Integers, weights: Floats) -> tuple[float, float, Floats]:
    """The test that counts are draws with these weights: statistic, p-value, p-value of each count.

    Half of the rate goes to the most extreme single count (exact binomial, corrected for the number of
    counts). The other half goes to all counts together (chi-square, adjacent cells merged until each
    expects ten).
    """
    n = int(counts.sum())
    chances = np.minimum(1.0, 2 * np.minimum(above(counts, n, weights), below(counts, n, weights)))
    merged, expected = _merged(counts.astype(np.float64), n * weights)
    statistic = float(((merged - expected) ** 2 / expected).sum())
    joint = chi_square_above(statistic, len(merged) - 1) if len(merged) > 1 else 1.0
    return statistic, min(1.0, 2 * min(joint, corrected(chances))), chances


def _merged(counts: Floats, expected: Floats) -> tuple[Floats, Floats]:
    """Counts and expectations with adjacent cells merged until each expects enough."""
    if expected.min(initial=np.inf) >= EXPECTED:
        return counts, expected
    number = np.floor(np.cumsum(expected) / EXPECTED * (1 - 1e-12)).astype(np.int64)
    number = np.minimum(number, max(0, int(expected.sum() / EXPECTED) - 1))
    first = np.concatenate([[True], number[1:] != number[:-1]])
    at = np.flatnonzero(first)
    sums, expected_sums = np.add.reduceat(counts, at), np.add.reduceat(expected, at)
    small = np.flatnonzero(expected_sums < EXPECTED)
    if len(small) and len(expected_sums) > 1:  # a light cell may stand before a heavy one
        keep = expected_sums >= EXPECTED
        rest, expected_rest = sums[~keep].sum(), expected_sums[~keep].sum()
        sums, expected_sums = sums[keep], expected_sums[keep]
        if len(expected_sums):
            sums[-1], expected_sums[-1] = sums[-1] + rest, expected_sums[-1] + expected_rest
    return sums, expected_sums


def check_views(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """Check that the drawn views follow the plan's public weights."""
    if len(plan.views) == 1:
        return unchecked("views", "this plan has one view: no device draws any", false_alarm)
    counts = tally.counts[plan.layout.own]
    statistic, p_value, chances = drawn_evenly(counts, plan.views.shares)
    name = partial(view_name, plan)
    return named_finding("views", statistic, chances, false_alarm, name, p_value)


def check_dummies(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """Check that devices which pad draw all dummies equally often."""
    channel = plan.channels[0]
    if not plan.encoding.dummies(plan.cap) or not channel.names_states:
        return unchecked("dummies", "reports of this plan name no dummy keys", false_alarm)
    counts = tally.view_counts(0)[1][2 * len(plan.schema.keys) :]
    statistic, p_value, _ = drawn_evenly(counts, np.full(len(counts), 1.0 / len(counts)))
    return finding("dummies", statistic, p_value, false_alarm)


def check_seeds(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """Check that seeds are drawn evenly from the pool."""
    pool = plan.channels[0].seeds
    if pool < 2:
        return unchecked("seeds", "reports of this plan carry no seed", false_alarm)
    counts = tally.view_counts(0)[1].reshape(pool, -1).sum(axis=1)
    statistic, p_value, chances = drawn_evenly(counts, np.full(pool, 1.0 / pool))
    return named_finding("seeds", statistic, chances, false_alarm, "seed {}".format, p_value)
