"""Answers without the reports that someone chose: views and seeds that are met too often are left out.

Devices draw views and seeds with public weights. One that is met more often than chance allows holds
reports of fakes who chose it, and which of its reports these are cannot be known. So all its reports are
left out, where others speak of the key. Where none do, the number of fakes there is known up to chance
(what is met beyond the public share), and the honest answer is known up to what so many could have sent.

Fakes who draw like everyone look like people, and are in what is left: ``share`` states how many of them
the ranges allow for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite, nan, sqrt
from typing import Any

import numpy as np

from ...channel.seed_pool import pool_of
from ...estimate.answer import quantile
from ...estimate.decoding import moments_of
from ...estimate.linear import Moments
from ...estimate.pools.collision_matrix import undoing_over
from ...foundation.arrays import Floats, Integers
from ...foundation.errors import PlanError
from ...foundation.tails import above
from ...plan.encoding import SETS
from ...plan.plan import Plan
from ...plan.tally import Tally
from .attack import check
from .influence import MOST_SOLVED, CellInfluence, ReportGroup, set_worth
from .reach import ANYWHERE, LEVEL, Cheat, ShiftSource

RATE = 1e-3
"""How often an honest tally has anything left out."""


@dataclass(frozen=True)
class Repaired:
    """One key's answers after repair: value and ends of each; a value is NaN where only the ends are
    known, and None stands for what the mechanism does not answer."""

    key: str
    kept: float
    """The share of the reports on the key that was used."""
    frequency: tuple[float, float, float] | None
    mean: tuple[float, float, float] | None
    mass: tuple[float, float, float] | None

    def document(self) -> dict[str, Any]:
        """As JSON, null for what is not known."""
        made: dict[str, Any] = {"key": self.key, "kept": self.kept}
        for part in ("frequency", "mean", "mass"):
            three = getattr(self, part)
            if three is not None:
                names = zip(("value", "low", "high"), three, strict=True)
                three = {name: end if isfinite(end) else None for name, end in names}
            made[part] = three
        return made


@dataclass(frozen=True)
class Repair:
    """What was left out of a tally, how many chose it, and the answers of the rest."""

    kind: str
    """What is drawn: views or seeds; nothing where a plan draws neither."""
    left_out: tuple[int, ...]
    """The numbers of the views or seeds that were met too often."""
    fakes: tuple[float, float, float]
    """The share of all reports from fakes who chose, with its ends; fakes who drew are not in it."""
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
    """Answers without the views or seeds that fakes chose, with ranges for what stays unknown.

    ``share`` of the other reports may be fakes who drew their view and seed. A view or seed of an
    honest tally is left out by chance with the stated rate.
    """
    tally.belongs_to(plan)
    answers = plan.mechanism.answers
    goal = "raise-frequency" if "frequency" in answers else "raise-mean"
    check(plan, share, goal, "crafted", "chosen", "drawn")
    if not tally.reports:
        raise PlanError("a tally without reports has nothing to repair; count some first")
    channel = plan.channels[0]
    kind, counts, weights = "nothing", np.array([tally.reports]), np.ones(1)
    if len(plan.views) > 1:
        kind, counts, weights = "views", tally.counts[plan.layout.own], plan.views.shares
    elif plan.encode in SETS:
        kind = "seeds"
        counts = tally.view_counts(0)[1].reshape(channel.seeds, -1).sum(axis=1)
        weights = np.full(channel.seeds, 1.0 / channel.seeds)
    odd = too_many(counts, weights, rate)
    moments = moments_of(plan, tally.counts)
    source = _without_seeds if kind == "seeds" and len(odd) else _without_views
    made = []
    for key in plan.schema.keys if keys is None else keys:
        made.append(source(plan, tally, plan.schema.place(key), moments, odd, share, level))
    fakes = _chosen_share(counts, weights, odd, level)
    return Repair(kind, tuple(odd.tolist()), fakes, share, level, tuple(made))


def too_many(counts: Integers, weights: Floats, rate: float) -> Integers:
    """Which counts are above their weight, one after the other: each is tested against those that stay.

    At every step the oddest is left out if it is odd at the rate, corrected for how many are left.
    """
    kept = np.ones(len(counts), bool)
    while kept.sum() > 1:
        at = np.flatnonzero(kept)
        law = weights[at] / weights[at].sum()
        chances = above(counts[at], float(counts[at].sum()), law) * len(at)
        odd = chances < rate
        if not odd.any():
            break
        # Leave out the worst tenth of what is odd, so that a heavy one does not hide the others.
        order = at[np.argsort(chances, kind="stable")][: max(1, int(odd.sum()) // 10)]
        kept[order] = False
    return np.flatnonzero(~kept)


def _honest_total(counts: Integers, weights: Floats, odd: Integers) -> float:
    """How many honest reports there are in all, as the others point to."""
    rest = np.delete(np.arange(len(counts)), odd)
    return float(counts[rest].sum() / weights[rest].sum())


def _chosen_share(
    counts: Integers, weights: Floats, odd: Integers, level: float
) -> tuple[float, float, float]:
    """The share of reports that is beyond what the others point to, with the ends of its interval."""
    if not len(odd):
        return 0.0, 0.0, 0.0
    total, whole = float(counts.sum()), _honest_total(counts, weights, odd)
    rest = 1.0 - float(weights[odd].sum())
    chance = quantile(level) * sqrt(whole * (1 - rest) / max(rest, 1e-300))
    ends = [1.0 - (whole + side * chance) / total for side in (0.0, 1.0, -1.0)]
    return ends[0], max(ends[1], 0.0), min(ends[2], 1.0)


def _repaired(
    plan: Plan,
    place: int,
    source: ShiftSource,
    cheat: Cheat,
    level: float,
    kept: float,
    known: bool = True,
) -> Repaired:
    low, high = float(plan.schema.low[place]), float(plan.schema.high[place])
    frequency, mass = source.values
    mean = np.clip(mass / frequency, -1, 1) if frequency > 0 else nan
    values = {"frequency": frequency, "mean": low + (mean + 1) / 2 * (high - low), "mass": mass}
    parts = {
        part: None if ends is None else (float(values[part]) if known else nan, *ends)
        for part, ends in source.ranges(plan, place, cheat, level).items()
    }
    return Repaired(plan.schema.keys[place], kept, **parts)


def _without_views(
    plan: Plan,
    tally: Tally,
    place: int,
    moments: Moments,
    odd: Integers,
    share: float,
    level: float,
) -> Repaired:
    """A key's answers from its other views; from all of them, as far as that goes, where all are odd."""
    holding = [view for view, keys in enumerate(plan.views.keys) if place in keys]
    if plan.encode != "views":
        holding = [0]
    seen = tally.counts[plan.layout.own[holding]].astype(np.float64)
    clean = ~np.isin(holding, odd)
    if not seen.sum() or (clean.any() and not seen[clean].sum()):
        parts = {
            p: (nan, *ANYWHERE) if p in plan.mechanism.answers else None
            for p in ("frequency", "mean", "mass")
        }
        return Repaired(plan.schema.keys[place], 0.0, **parts)
    if clean.any():
        source = ShiftSource.of(plan, tally, place, moments, frozenset(odd.tolist()))
        kept = float(seen[clean].sum() / seen.sum())
        return _repaired(plan, place, source, source.drawn(share), level, kept)
    counts, weights = tally.counts[plan.layout.own], plan.views.shares
    honest = _honest_total(counts, weights, odd) * float(weights[holding].sum())
    honest = (1 - share) * max(honest - quantile(level) * sqrt(honest), 0.0)
    source = ShiftSource.of(plan, tally, place, moments)
    return _repaired(
        plan, place, source, source.chosen(1 - honest / seen.sum(), seen.sum()), level, 1.0, False
    )


def _without_seeds(
    plan: Plan,
    tally: Tally,
    place: int,
    moments: Moments,
    odd: Integers,
    share: float,
    level: float,
) -> Repaired:
    """A key's answers from the reports with other seeds, decoded with the collisions of these alone."""
    channel, items = pool_of(plan.channels[0]), 2 * len(plan.schema.keys)
    rest = np.delete(np.arange(channel.pool), odd)
    n, cells = tally.view_counts(0)
    grid = cells.reshape(channel.pool, -1)[rest].astype(np.float64)
    undo = undoing_over(channel, items, rest) if items <= MOST_SOLVED else None
    best = set_worth(plan, [place], 0 if undo is None else items, undo)
    best = CellInfluence(best.worth[rest], best.many)
    source = ShiftSource([ReportGroup([0], [0], best)], np.array([grid.sum()]), np.ones(1), grid.sum())
    source.heard([grid])
    left = max(0.0, channel.energies(grid)[0])
    if plan.encode == "items" and undo is not None:
        left = 0.0  # all collisions are undone
    source.spreads[0] = source.spreads[0] + 2 * np.eye(2) * left / ((channel.places - 1) * len(rest))
    source.spreads.append(np.nan_to_num(moments.covariance[place]) * n / grid.sum())
    return _repaired(plan, place, source, source.drawn(share), level, float(grid.sum() / n))
