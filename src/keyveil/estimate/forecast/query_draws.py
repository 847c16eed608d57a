"""Forecast of the default answers to queries, by simulated tallies, when the joint law is known.

Shrinkage learns from all pairs together, so its error has no closed form. Tallies are drawn from the law
of the plan's reports with fixed coins, and the estimator itself answers from each. Intervals, which take
most of an answer's time, are left out. The error of unbiased answers on the same tallies is a control
variate: its expectation given how many reports each view has is known, so it removes much of the noise
of the draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, permutations
from math import nan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...channel.law_arrays import as_laws
from ...foundation.arrays import Floats, Integers
from ...foundation.coins import Coins
from .. import DEFAULT, bands
from ..answer import Band, KeyBands
from ..together.joint import evidence
from ..together.placed_queries import PlacedQueries
from ..together.query import Query
from ..together.shrunk_conditionals import ShrunkConditionals
from .predicted_error import Errors

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from .query_forecast import Law

FEWEST, MOST = 8, 256
"""The least and the largest number of tallies, where plans are compared."""
FINE, FINE_WORK = 8, 256
"""The factors of the number of tallies and of the work for a forecast that is shown.

Where few tallies make most of the error, 256 leave up to a fifth of it to chance.
"""
MOST_WORK = 1 << 18
"""The most cells, and four times the most answers, of all tallies together, beyond the fewest."""
SLOW = 8
"""The factor of work if pairs are decoded one by one, from views of more than two keys."""
BATCH = 32
"""Number of tallies that are drawn at once."""
PRECISE, FINE_PRECISE = 0.03, 0.01
"""No more tallies are drawn once the relative standard error of both errors is at most this; the second
is for a forecast that is shown."""
RANGES = {"frequency": (0.0, 1.0), "mean": (-1.0, 1.0)}
"""Statistics that are forecast, and their ranges."""
_LEVEL = 0.95


def drawn_counts(plan: Plan, law: Law, people: int, batch: int) -> Iterator[Integers]:
    """Counts ``(batch, cells)`` of tallies of ``people`` people, the same on every call, without end."""
    coins = Coins.stated("tallies of a forecast")
    laws = [
        as_laws(np.array([law(plan.views.keys[view]) for view in plan.views_of(number)]))
        for number in range(len(plan.channels))
    ]
    for number_of_batch in count():
        draw = coins.generator(number_of_batch)
        counts = np.zeros((batch, plan.layout.cells), np.int64)
        reports = draw.multinomial(people, plan.views.shares, size=batch)
        counts[:, plan.layout.own] = reports
        for number, channel in enumerate(plan.channels):
            views = plan.views_of(number)
            cells = plan.layout.own[views][:, None] + 1 + np.arange(channel.cells)
            counts[:, cells] = channel.draw_counts(laws[number], reports[:, views], draw)
        yield counts


class TrueQueries(NamedTuple):
    """Queries of one statistic, and what a law says about each."""

    queries: list[Query]
    truth: Floats
    """The true values."""
    below: Floats
    """The true denominators: the share of people who meet the condition, or of holders for a mean."""
    variance: Floats
    """The variances of unbiased answers; NaN if unanswered."""


class ReportsTogether:
    """The number of reports about every two keys together, from the number that each view has."""

    def __init__(self, plan: Plan) -> None:
        self._keys = len(plan.schema.keys)
        cells = [
            (view, first * self._keys + second)
            for view, keys in enumerate(plan.views.keys)
            for first, second in permutations(keys, 2)
        ]
        self._views, self._cells = np.array(cells, np.int64).reshape(-1, 2).T

    def of(self, reports: Floats | Integers) -> Floats:
        """Their number ``(keys, keys)``."""
        size = self._keys**2
        together = np.bincount(self._cells, weights=reports[self._views], minlength=size)
        return together.reshape(self._keys, self._keys).astype(np.float64)


def forecast_queries_by_draws(
    plan: Plan, law: Law, people: int, asked: Mapping[str, TrueQueries], fine: bool = False
) -> Errors:
    """The mean squared errors of default answers, clipped to their range and averaged over queries.

    ``asked`` is by statistic, "frequency" and "mean". A ``fine`` forecast may take ``FINE`` times
    the tallies and ``FINE_WORK`` times the work. NaN without queries, or if one is not known together.
    """
    work = max(plan.layout.cells, 4 * sum(len(part.queries) for part in asked.values()))
    slow = SLOW if plan.views.sizes.max() > 2 else 1
    draws, allowed, precise = (FINE, FINE_WORK, FINE_PRECISE) if fine else (1, 1, PRECISE)
    most = min(max(allowed * MOST_WORK // (work * slow), FEWEST), draws * MOST // slow)
    placed = {kind: PlacedQueries.of(part.queries, plan.schema) for kind, part in asked.items()}
    together = ReportsTogether(plan)
    expected = together.of(people * plan.views.shares)
    runs: dict[str, list[tuple[float, float]]] = {kind: [] for kind in RANGES}
    for counts in drawn_counts(plan, law, people, min(most, BATCH)):
        for own, source in zip(counts, sources(plan, counts), strict=True):
            with np.errstate(divide="ignore", invalid="ignore"):
                scarcer = expected / together.of(own[plan.layout.own])
            for kind, part in asked.items():
                runs[kind].append(squared_errors(source, part, kind, placed[kind], scarcer))
        errors = {kind: _average(runs[kind]) for kind in asked}
        # unknown errors stay unknown
        if len(runs["mean"]) >= most or not any(error.noise > precise for error in errors.values()):
            break
    return Errors(*(errors[kind].value for kind in RANGES))


def squared_errors(
    source: ShrunkConditionals, true: TrueQueries, kind: str, placed: PlacedQueries, scarcer: Floats
) -> tuple[float, float]:
    """The mean squared errors of default answers, and of unbiased ones to first order.

    The second is a difference from its expectation. That is inverse to the number of reports about both
    keys, and ``scarcer`` has the expected number over this tally's, for every two keys.
    """
    if not true.queries:
        return nan, nan
    gaps = np.clip(source.values(placed), *RANGES[kind]) - true.truth
    above, below = source.pair_ratios(placed)
    control = (above - true.truth * below) / true.below
    expectation = true.variance * scarcer[tuple(placed.held_pairs.T)]
    return float(np.mean(gaps**2)), float(np.mean(control**2 - expectation))


class _Average(NamedTuple):
    value: float
    noise: float
    """Its relative standard error; NaN if the value is unknown."""


def _average(runs: Sequence[tuple[float, float]]) -> _Average:
    """The average error over tallies, with a control variate whose expectation is zero."""
    errors, control = np.array(runs).T
    value = float(errors.mean())
    if np.isfinite(control).all() and control.std() > 0:
        slope = float(np.cov(errors, control)[0, 1] / control.var(ddof=1))
        adjusted = errors - slope * control
        if adjusted.mean() > 0.5 * value:
            errors = adjusted
    spread = float(errors.std(ddof=1)) / np.sqrt(len(errors))
    average = float(errors.mean())
    return _Average(average, spread / average if average else 0.0)


def sources(plan: Plan, counts: Integers) -> Iterator[ShrunkConditionals]:
    """The default conditionals of each tally."""
    from ...plan.tally import Tally

    singles = bands(plan, counts, DEFAULT, _LEVEL)
    for row, own in enumerate(counts):
        parts = (_at(band, row) for band in (singles.frequency, singles.mean))
        known = KeyBands(singles.reports[row], *parts)
        yield ShrunkConditionals(plan.schema, evidence(plan, Tally(plan, own)), known, _LEVEL)


def _at(band: Band | None, row: int) -> Band | None:
    """The answers of one tally."""
    if band is None:
        return None
    return Band(*(part[row] for part in (band.value, band.stderr, band.low, band.high)))
