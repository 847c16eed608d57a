"""Answers without the reports that fakes chose: views and seeds that occur too often are left out.

Devices draw views and seeds with public weights. A view or seed that occurs more often than chance
allows holds reports of fakes who chose it, and nobody can tell which reports these are. So all its
reports are left out if other views or seeds inform about the key. If none do, the excess over the
public share gives the number of fakes up to chance, and the honest answer is known up to what so many
fakes could have sent.

Fakes who draw their view and seed look like people and remain: the ranges allow for a ``share`` of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import nan, sqrt
from typing import Any

import numpy as np

from ...channel.shapes.seed_pool import pool_of
from ...estimate.answer import quantile
from ...estimate.decoding import moments_of
from ...estimate.linear import Moments
from ...estimate.pools.collision_matrix import undoing_over
from ...foundation.arrays import Floats, Integers
from ...foundation.errors import PlanError
from ...foundation.tails import above
from ...plan.plan import Plan
from ...plan.tally import Tally
from .attack import Attack, finite, first_goal, on_own_range
from .influence import MOST_SOLVED, ReportGroup, set_influence
from .reach import ANYWHERE, LEVEL, PARTS, Cheat, ShiftSource
from .report_influence import CellInfluence

RATE = 1e-3
"""The probability that anything is left out of an honest tally."""


@dataclass(frozen=True)
class Repaired:
    """One key's answers after repair: value, low end and high end of each.

    A value is NaN if only the ends are known. None stands for an answer that the mechanism does not
    give.
    """

    key: str
    kept: float
    """The share of the reports on the key that was used."""
    frequency: tuple[float, float, float] | None
    mean: tuple[float, float, float] | None
    mass: tuple[float, float, float] | None

    def document(self) -> dict[str, Any]:
        """As JSON, null for what is not known."""
        members: dict[str, Any] = {"key": self.key, "kept": self.kept}
        for part in PARTS:
            three = getattr(self, part)
            names = ("value", "low", "high")
            members[part] = three and dict(zip(names, map(finite, three), strict=True))
        return members


@dataclass(frozen=True)
class Repair:
    """What was left out of a tally, the share of fakes, and the answers of the rest."""

    kind: str
    """What devices draw: "views", "seeds", or "nothing"."""
    left_out: tuple[int, ...]
    """The numbers of the views or seeds that occur too often."""
    fakes: tuple[float, float, float]
    """The share of reports from fakes who chose their view or seed, with the ends of its interval."""
    share: float
    level: float
    keys: tuple[Repaired, ...]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        facts = {"kind": self.kind, "left_out": list(self.left_out), "fakes": list(self.fakes)}
        stated = {"share": self.share, "level": self.level}
        return {**facts, **stated, "keys": [key.document() for key in self.keys]}


def repair(
    plan: Plan,
    tally: Tally,
    keys: Iterable[str] | None = None,
    *,
    share: float = 0.0,
    level: float = LEVEL,
    rate: float = RATE,
) -> Repair:
    """Answers without the views or seeds that fakes chose, with ranges.

    ``share`` of the other reports may be fakes who drew their view and seed. A view or seed of an
    honest tally is left out by chance with the stated rate.
    """
    tally.belongs_to(plan)
    Attack(share, first_goal(plan), views="drawn").checked(plan)
    if not tally.reports:
        raise PlanError("a tally without reports has nothing to repair; count some first")
    channel = plan.channels[0]
    kind, counts, weights = "nothing", np.array([tally.reports]), np.ones(1)
    if len(plan.views) > 1:
        kind, counts, weights = "views", tally.counts[plan.layout.own], plan.views.shares
    elif plan.encoding.speaks_of_sets:
        kind = "seeds"
        counts = tally.view_counts(0)[1].reshape(channel.seeds, -1).sum(axis=1)
        weights = np.full(channel.seeds, 1.0 / channel.seeds)
    odd = too_many(counts, weights, rate)
    rest = _Rest(plan, tally, moments_of(plan, tally.counts), odd, share, level)
    repaired = rest.without_seeds if kind == "seeds" and len(odd) else rest.without_views
    places = [plan.schema.place(key) for key in (plan.schema.keys if keys is None else keys)]
    fakes = _chosen_share(counts, weights, odd, level)
    return Repair(kind, tuple(odd.tolist()), fakes, share, level, tuple(map(repaired, places)))


def too_many(counts: Integers, weights: Floats, rate: float) -> Integers:
    """The numbers of the counts that are too large for their weights.

    At every step the most extreme counts are removed if they are significant at the rate, corrected for
    the number of counts left. Each count is tested against those that remain.
    """
    honest = np.ones(len(counts), bool)
    while honest.sum() > 1:
        at = np.flatnonzero(honest)
        law = weights[at] / weights[at].sum()
        chances = above(counts[at], float(counts[at].sum()), law) * len(at)
        odd = chances < rate
        if not odd.any():
            break
        # Remove the worst tenth of the significant counts, so that a large one does not hide the others.
        order = at[np.argsort(chances, kind="stable")][: max(1, int(odd.sum()) // 10)]
        honest[order] = False
    return np.flatnonzero(~honest)


def _honest_total(counts: Integers, weights: Floats, odd: Integers) -> float:
    """The estimated number of all honest reports, from the counts that are not odd."""
    rest = np.delete(np.arange(len(counts)), odd)
    return float(counts[rest].sum() / weights[rest].sum())


def _chosen_share(
    counts: Integers, weights: Floats, odd: Integers, level: float
) -> tuple[float, float, float]:
    """The share of reports in excess of the honest estimate, with the ends of its interval."""
    if not len(odd):
        return 0.0, 0.0, 0.0
    total, whole = float(counts.sum()), _honest_total(counts, weights, odd)
    rest = 1.0 - float(weights[odd].sum())
    chance = quantile(level) * sqrt(whole * (1 - rest) / max(rest, 1e-300))
    ends = [1.0 - (whole + side * chance) / total for side in (0.0, 1.0, -1.0)]
    return ends[0], max(ends[1], 0.0), min(ends[2], 1.0)


@dataclass(frozen=True)
class _Rest:
    """A tally, and the numbers of its views or seeds that are left out because they are too many."""

    plan: Plan
    tally: Tally
    moments: Moments
    odd: Integers
    share: float
    level: float

    def without_views(self, place: int) -> Repaired:
        """A key's answers from its other views, or a range from all of them if all are odd."""
        plan, tally, share = self.plan, self.tally, self.share
        holding = [view for view, keys in enumerate(plan.views.keys) if place in keys]
        seen = tally.counts[plan.layout.own[holding]].astype(np.float64)
        clean = ~np.isin(holding, self.odd)
        if not seen.sum() or (clean.any() and not seen[clean].sum()):
            answers = plan.mechanism.answers
            parts = ((nan, *ANYWHERE) if part in answers else None for part in PARTS)
            return Repaired(plan.schema.keys[place], 0.0, *parts)
        if clean.any():
            left_out = frozenset(self.odd.tolist())
            source = ShiftSource.of(plan, tally, place, self.moments, left_out)
            kept = float(seen[clean].sum() / seen.sum())
            return self._answers(place, source, source.drawn(share), kept)
        weights = plan.views.shares
        honest = _honest_total(tally.counts[plan.layout.own], weights, self.odd)
        honest *= float(weights[holding].sum())
        honest = (1 - share) * max(honest - quantile(self.level) * sqrt(honest), 0.0)
        source = ShiftSource.of(plan, tally, place, self.moments)
        cheat = source.chosen(1 - honest / seen.sum(), seen.sum())
        return self._answers(place, source, cheat, 1.0, known=False)

    def without_seeds(self, place: int) -> Repaired:
        """A key's answers from the reports with other seeds, decoded with these seeds' collisions."""
        plan, moments = self.plan, self.moments
        channel, items = pool_of(plan.channels[0]), 2 * len(plan.schema.keys)
        rest = np.delete(np.arange(channel.pool), self.odd)
        n, cells = self.tally.view_counts(0)
        grid = cells.reshape(channel.pool, -1)[rest].astype(np.float64)
        total = grid.sum()
        undo = undoing_over(channel, items, rest) if items <= MOST_SOLVED else None
        best = set_influence(plan, [place], 0 if undo is None else items, undo)
        best = CellInfluence(best.influence[rest], best.many)
        source = ShiftSource([ReportGroup([0], [0], best)], np.array([total]), np.ones(1), total)
        source.add_sampling_error([grid])
        left = max(0.0, channel.energies(grid)[0])
        if plan.encoding.item_width == 1 and undo is not None:
            left = 0.0  # all collisions are undone
        pool_error = 2 * np.eye(2) * left / ((channel.places - 1) * len(rest))
        source.spreads[0] = source.spreads[0] + pool_error
        source.spreads.append(np.nan_to_num(moments.covariance[place]) * n / total)
        return self._answers(place, source, source.drawn(self.share), float(total / n))

    def _answers(
        self, place: int, source: ShiftSource, cheat: Cheat, kept: float, known: bool = True
    ) -> Repaired:
        """The answers of a source with their ranges, or only the ranges unless values are ``known``."""
        frequency, mass = source.values
        mean = np.clip(mass / frequency, -1, 1) if frequency > 0 else nan
        mean = on_own_range(self.plan, place, mean)
        values = {"frequency": frequency, "mean": mean, "mass": mass}
        ranges = source.ranges(self.plan, place, cheat, self.level)
        parts = (
            None if ends is None else (float(values[part]) if known else nan, *ends)
            for part, ends in ranges.items()
        )
        return Repaired(self.plan.schema.keys[place], kept, *parts)
