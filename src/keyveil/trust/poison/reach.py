"""Where the honest answers may lie, if some of a tally's reports are fake."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import isfinite, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from ...estimate.answer import quantile
from ...estimate.caution import with_one_more
from ...estimate.decoding import moments_of
from ...estimate.linear import Moments
from ...foundation.arrays import Floats
from ...people.prior import independent_law
from ...plan.plan import Plan
from ...plan.tally import Tally
from .attack import check
from .averaged_attack import is_pooled
from .influence import CellInfluence, Options, Positions, ReportGroup


@dataclass(frozen=True)
class Reach:
    """Where one key's honest answers may lie if so many of the reports in a tally are fake."""

    key: str
    frequency: tuple[float, float] | None
    mean: tuple[float, float] | None
    mass: tuple[float, float] | None

    def document(self) -> dict[str, Any]:
        """As JSON, null for an end that is not bounded."""

        def ends(pair: tuple[float, float] | None) -> list[float | None] | None:
            return None if pair is None else [end if isfinite(end) else None for end in pair]

        return {n: v if isinstance(v, str) else ends(v) for n, v in self.__dict__.items()}


ANYWHERE = (-np.inf, np.inf)
PARTS = ("frequency", "mean", "mass")
LEVEL = 0.95
COUNTED = 0.2
"""The part of a range's misses that is left to the counts of views; the rest is for the answers."""
_STEPS = 26
"""Halvings of [-1, 1] for the end of a mean's range."""


def reach(
    plan: Plan,
    tally: Tally,
    share: float,
    keys: Iterable[str] | None = None,
    *,
    seeds: str = "chosen",
    views: str = "drawn",
    level: float = LEVEL,
) -> list[Reach]:
    """Where each honest answer may lie if at most ``share`` of a tally's reports are fake.

    An answer is on average (1 - s) honest + s worth, so the honest one is (answer - s worth) / (1 - s)
    for whatever worth fakes can have, and the answer itself is known up to chance: the range holds the
    truth with the stated level, whatever the fakes send. ``views="drawn"`` is for tallies whose views
    pass their check: then fakes have drawn their views, or chosen them so that no check sees it, and a
    view holds no more of them than its count leaves room for beside honest reports (``Source.room``).
    Where all reports on a key may be fake, or there are none, nothing is known of the honest ones.
    """
    tally.belongs_to(plan)
    answers = plan.mechanism.answers
    goal = "raise-frequency" if "frequency" in answers else "raise-mean"
    check(plan, share, goal, "crafted", seeds, views)
    moments = moments_of(plan, tally.counts)
    made = []
    for key in plan.schema.keys if keys is None else keys:
        place = plan.schema.place(key)
        if not moments.reports[place]:
            Options.of(plan, [place])  # or why it cannot be said of this plan
            made.append(Reach(key, *(ANYWHERE if part in answers else None for part in PARTS)))
            continue
        source = ShiftSource.of(plan, tally, place, moments)
        source.seeds = seeds
        cheats, at = source.room(plan, share, level)
        if views == "chosen":
            cheats, at = [source.chosen(share)], level
        ranges = [source.ranges(plan, place, cheat, at) for cheat in cheats]
        made.append(Reach(plan.schema.keys[place], **{part: _common(ranges, part) for part in PARTS}))
    return made


def _common(
    ranges: list[dict[str, tuple[float, float] | None]], part: str
) -> tuple[float, float] | None:
    """What is inside all ranges of a part; the first where they have nothing in common."""
    found = [ends for one in ranges if (ends := one[part]) is not None]
    if not found:
        return None
    low, high = max(low for low, _ in found), min(high for _, high in found)
    return (low, high) if low <= high else found[0]


class Cheat(NamedTuple):
    """Fakes among the reports on a key."""

    share: Floats
    """Their share of what tells the frequency, and of what tells the mass."""
    weights: list[Floats]
    """Of each group of views: what a fake's worth there counts in both."""
    together: bool
    """Whether fakes are in all groups at once, or in any one of them."""


class ShiftSource:
    """A key's frequency and mass as fixed sums over reports, with their sampling error.

    Sums have weights that do not depend on what the reports say, so they are linear in the fakes too.
    Views that are pooled by precision are weighed by their reports and by how much their channel tells.
    """

    def __init__(self, groups: list[ReportGroup], reports: Floats, told: Floats, total: float) -> None:
        """Groups of views with their numbers of reports, and how much a report of each tells."""
        self.groups, self.total = groups, total
        speaks = np.array([group.speaks[0] for group in groups], float)
        counted = (reports * told)[:, None] * speaks
        with np.errstate(divide="ignore", invalid="ignore"):
            self.parts = np.nan_to_num(counted / counted.sum(axis=0))
            self.each = np.nan_to_num(self.parts / reports[:, None])
        self.reports, self.seeds = reports, "chosen"
        self.values = np.zeros(2)
        self.spreads: list[Floats] = []

    @classmethod
    def of(
        cls,
        plan: Plan,
        tally: Tally,
        place: int,
        moments: Moments,
        left_out: frozenset[int] = frozenset(),
    ) -> ShiftSource:
        """A key's source in a tally, some views left out."""
        groups = []
        for group in Options.of(plan, [place], tally).groups:
            members = [view for view in group.members if view not in left_out]
            if members:
                groups.append(ReportGroup(group.targets, members, group.best))
        reports = np.array([tally.counts[plan.layout.own[g.members]].sum() for g in groups], float)
        told = np.ones(len(groups))
        if is_pooled(plan):
            told = np.array([_precision(plan, group) for group in groups])
        made = cls(groups, reports, told, float(tally.reports))
        if not is_pooled(plan) and not left_out:
            made.values = np.nan_to_num(moments.values[place])
            made.spreads = [np.nan_to_num(moments.covariance[place])]
        made.heard([_counted(tally, group) for group in groups])
        return made

    def heard(self, laws: list[Floats | None]) -> None:
        """Add the sampling error that the counts of each group's reports show.

        Where no estimate is known yet, it becomes the average over them.
        """
        if any(law is None for law in laws):
            return
        seen = [_seen(g.best, law) for g, law in zip(self.groups, laws, strict=True) if law is not None]
        if not self.spreads:
            self.values = np.sum([part * s[0] for part, s in zip(self.parts, seen, strict=True)], axis=0)
        each = zip(self.parts, seen, self.reports, strict=True)
        self.spreads.append(
            np.sum([part[:, None] * part * s[1] / max(n, 1.0) for part, s, n in each], axis=0)
        )

    def ranges(
        self, plan: Plan, place: int, cheat: Cheat, level: float
    ) -> dict[str, tuple[float, float] | None]:
        """Where the honest frequency, mean and mass lie at a level; None for what is not answered."""
        answers, ends = plan.mechanism.answers, partial(self.ends, cheat, quantile(level))
        low, high = float(plan.schema.low[place]), float(plan.schema.high[place])
        mean = None
        if "mean" in answers:
            first, last = _mean_ends(ends)
            mean = (low + (first + 1) / 2 * (high - low), low + (last + 1) / 2 * (high - low))
        return {
            "frequency": ends(np.array([1.0, 0.0])) if "frequency" in answers else None,
            "mean": mean,
            "mass": ends(np.array([0.0, 1.0])) if "mass" in answers else None,
        }

    def room(self, plan: Plan, share: float, level: float) -> tuple[list[Cheat], float]:
        """Where fakes may be who watch the check of views, and the level that is left for answers.

        Honest reports draw their views, so at least so many of them speak of a key, and no more of the
        others can be fake. This holds for all views of the key together (fakes may be in any of them)
        and for each group of them (fakes are in all of them); each of the two is a bound by itself.
        """
        members = [group.members for group in self.groups]
        weights = [float(plan.views.shares[views].sum()) for views in members]
        if share == 0 or min(weights) > 1 - 1e-9:
            return [self.drawn(share)], level
        cases = 1 if len(members) == 1 else 1 + len(members)
        errors = NormalDist().inv_cdf(1 - COUNTED * (1 - level) / cases)

        def most(reports: float, weight: float) -> float:
            honest = (1 - share) * self.total
            least = honest * weight - errors * sqrt(honest * weight * max(1 - weight, 0.0))
            return min(max(reports - max(least, 0.0), 0.0), share * self.total, reports)

        apart = [most(n, w) for n, w in zip(self.reports.tolist(), weights, strict=True)]
        told = [fakes * each for fakes, each in zip(apart, self.each, strict=True)]
        spread = Cheat(np.sum(told, axis=0), told, True)
        left = 1 - (1 - COUNTED) * (1 - level)
        if cases == 1:
            return [spread], left
        speaking = np.unique(np.concatenate([np.asarray(views) for views in members]))
        together = most(float(self.reports.sum()), float(plan.views.shares[speaking].sum()))
        return [spread, self.chosen(together / self.total)], left

    def drawn(self, share: float) -> Cheat:
        """The same share of fakes in every group."""
        return Cheat(np.full(2, share), [share * part for part in self.parts], True)

    def chosen(self, share: float, total: float | None = None) -> Cheat:
        """All fakes, a share of ``total`` reports, in any of the groups; if one counts more, in that."""
        most = share * (self.total if total is None else total) * self.each.max(axis=0)
        speaks = (self.each > 0).astype(float)
        return Cheat(most, [most * part for part in speaks], False)

    def ends(self, cheat: Cheat, errors: float, contrast: Floats) -> tuple[float, float]:
        """Where a weighted sum of the honest frequency and mass may lie."""
        if (cheat.share[contrast != 0] >= 1).any():
            return ANYWHERE
        scaled = np.where(contrast != 0, contrast / np.maximum(1 - cheat.share, 1e-300), 0.0)
        middle = float(scaled @ self.values)
        variance = max(float(scaled @ spread @ scaled) for spread in self.spreads)
        chance = errors * float(np.sqrt(max(variance, 0.0)))
        least = [
            -self._most(group, -scaled * w) for group, w in zip(self.groups, cheat.weights, strict=True)
        ]
        most = [
            self._most(group, scaled * w) for group, w in zip(self.groups, cheat.weights, strict=True)
        ]
        if cheat.together:
            return middle - sum(most) - chance, middle - sum(least) + chance
        return middle - max(most) - chance, middle - min(least) + chance

    def _most(self, group: ReportGroup, weights: Floats) -> float:
        """The largest weighted worth of any report that may be sent."""
        if not weights.any():
            return 0.0
        pick = group.best.pick(weights[None, :], self.seeds)
        return float((weights * group.best.worth_of(pick)[0]).sum())


def _precision(plan: Plan, group: ReportGroup) -> float:
    """How much one report of a group tells of a frequency, where keys are as plans assume."""
    view = group.members[0]
    channel, size = plan.view_channels[view], len(plan.views.keys[view])
    assert isinstance(group.best, CellInfluence)
    law = channel.mix(independent_law(plan.schema.levels, size)[None, :])[0]
    worth = group.best.worth[0, :, 0, 0]
    return 1.0 / max(float(law @ worth**2 - (law @ worth) ** 2), 1e-300)


def _counted(tally: Tally, group: ReportGroup) -> Floats | None:
    """How often each seed and cell of a group was reported; None where only positions are known."""
    best = group.best
    if not isinstance(best, CellInfluence):
        return None
    counts = np.sum([tally.view_counts(view)[1] for view in group.members], axis=0)
    shape = best.worth.shape[:2]
    return None if counts.size != shape[0] * shape[1] else counts.astype(np.float64).reshape(shape)


def _seen(best: CellInfluence | Positions, law: Floats) -> tuple[Floats, Floats]:
    """The mean and covariance of the influence of reports, the latter with one more report."""
    assert isinstance(best, CellInfluence)
    n, worth = float(law.sum()), best.worth[:, :, 0]
    middle = np.einsum("sc,sci->i", law, worth) / max(n, 1.0)
    even = np.broadcast_to(best.many, law.shape) / (best.many.sum() * len(law))
    law = with_one_more(law, even, n)
    first = np.einsum("sc,sci->i", law, worth)
    return middle, np.einsum("sc,sci,scj->ij", law, worth, worth) - first[:, None] * first


def _mean_ends(ends: Callable[[Floats], tuple[float, float]]) -> tuple[float, float]:
    """The ends of the means m in [-1, 1] for which mass - m frequency may be zero.

    The largest that it may be is convex in m, and the least concave, so the means that are ruled out
    at either end are an interval, whose inner end halving finds.
    """

    def inner(outside: float, other: float) -> float:
        low, high = ends(np.array([-outside, 1.0]))
        if low <= 0 <= high:
            return outside
        side = 1.0 if low > 0 else -1.0
        inside = other
        for _ in range(_STEPS):
            middle = (outside + inside) / 2
            low, high = ends(np.array([-middle, 1.0]))
            ruled_out = low > 0 if side > 0 else high < 0
            outside, inside = (middle, inside) if ruled_out else (outside, middle)
        return inside

    found = inner(-1.0, 1.0), inner(1.0, -1.0)
    return (found[0], found[1]) if found[0] <= found[1] else (found[1], found[0])
