"""Ranges of the honest answers, if some of a tally's reports are fake."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from ...estimate.answer import quantile
from ...estimate.caution import with_one_more
from ...estimate.decoding import moments_of
from ...estimate.linear import Moments
from ...foundation.arrays import Floats
from ...people.prior_laws import independent_law
from ...plan.plan import Plan
from ...plan.tally import Tally
from .attack import Attack, finite, first_goal, on_own_range
from .averaged_attack import is_pooled
from .influence import PossibleReports, ReportGroup
from .report_influence import CellInfluence, Positions


@dataclass(frozen=True)
class Reach:
    """The ranges of one key's honest answers, if a share of the reports is fake."""

    key: str
    frequency: tuple[float, float] | None
    mean: tuple[float, float] | None
    mass: tuple[float, float] | None

    def document(self) -> dict[str, Any]:
        """As JSON, null for an end that is not bounded."""
        ends = {part: getattr(self, part) for part in PARTS}
        return {"key": self.key, **{n: v and [finite(end) for end in v] for n, v in ends.items()}}


ANYWHERE = (-np.inf, np.inf)
PARTS = ("frequency", "mean", "mass")
LEVEL = 0.95
COUNTED = 0.2
"""The fraction of the error rate that goes to the counts of views; the rest goes to the answers."""
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
    """The range of each honest answer if at most ``share`` of a tally's reports are fake.

    An answer is on average (1 - s) honest + s influence, so the honest one is (answer - s influence) /
    (1 - s) for some possible influence. The answer itself has a sampling error. The range contains the
    truth with probability ``level``, whatever the fakes send. ``views="drawn"`` is for tallies whose
    views pass their check. Then fakes drew their views, or chose them so that the check does not
    notice, and a view holds no more fakes than its count allows in addition to honest reports
    (``ShiftSource.room``). If all reports on a key may be fake, or there are none, the range is
    unbounded.
    """
    tally.belongs_to(plan)
    answers = plan.mechanism.answers
    Attack(share, first_goal(plan), "crafted", seeds, views).checked(plan)
    moments = moments_of(plan, tally.counts)
    reaches = []
    for key in plan.schema.keys if keys is None else keys:
        place = plan.schema.place(key)
        if not moments.reports[place]:
            PossibleReports.of(plan, [place])  # raises the reason if this plan is not supported
            reaches.append(Reach(key, *(ANYWHERE if part in answers else None for part in PARTS)))
            continue
        source = ShiftSource.of(plan, tally, place, moments)
        source.seeds = seeds
        cheats, at = source.room(plan, share, level)
        if views == "chosen":
            cheats, at = [source.chosen(share)], level
        ranges = [source.ranges(plan, place, cheat, at) for cheat in cheats]
        reaches.append(Reach(plan.schema.keys[place], **{part: _common(ranges, part) for part in PARTS}))
    return reaches


def _common(
    ranges: list[dict[str, tuple[float, float] | None]], part: str
) -> tuple[float, float] | None:
    """The intersection of all ranges of a part, or the first range if it is empty."""
    known = [ends for by_part in ranges if (ends := by_part[part]) is not None]
    if not known:
        return None
    low, high = max(low for low, _ in known), min(high for _, high in known)
    return (low, high) if low <= high else known[0]


class Cheat(NamedTuple):
    """Fakes among the reports on a key."""

    share: Floats
    """Their share of the weight in the frequency, and in the mass, ``(2,)``."""
    weights: list[Floats]
    """For each group of views, the weight of a fake's influence in frequency and mass."""
    together: bool
    """Whether fakes are in all groups at once, rather than in any one of them."""


class ShiftSource:
    """A key's frequency and mass as fixed sums over reports, with their sampling error.

    The weights of the sums do not depend on the contents of reports, so the sums are linear in the
    fakes. Views that are averaged by precision are weighted by their numbers of reports and the
    precision of their channels.
    """

    def __init__(
        self, groups: list[ReportGroup], reports: Floats, precisions: Floats, total: float
    ) -> None:
        """Groups of views, with the number of reports and the precision of one report of each."""
        self.groups, self.total = groups, total
        speaks = np.array([group.speaks[0] for group in groups], float)
        counted = (reports * precisions)[:, None] * speaks
        with np.errstate(divide="ignore", invalid="ignore"):
            self.parts = np.nan_to_num(counted / counted.sum(axis=0))
            self.per_report = np.nan_to_num(self.parts / reports[:, None])
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
        """The source of a key in a tally, without the views ``left_out``."""
        groups = []
        for group in PossibleReports.of(plan, [place], tally).groups:
            members = [view for view in group.members if view not in left_out]
            if members:
                groups.append(ReportGroup(group.targets, members, group.best))
        reports = np.array([tally.counts[plan.layout.own[g.members]].sum() for g in groups], float)
        precisions = np.ones(len(groups))
        if is_pooled(plan):
            precisions = np.array([_precision(plan, group) for group in groups])
        source = cls(groups, reports, precisions, float(tally.reports))
        if not is_pooled(plan) and not left_out:
            source.values = np.nan_to_num(moments.values[place])
            source.spreads = [np.nan_to_num(moments.covariance[place])]
        source.add_sampling_error([_counted(tally, group) for group in groups])
        return source

    def add_sampling_error(self, laws: list[Floats | None]) -> None:
        """Add the sampling error estimated from the counts of each group's reports.

        If there is no estimate yet, it becomes the weighted average over these reports.
        """
        values, spread = np.zeros(2), np.zeros((2, 2))
        for group, law, part, n in zip(self.groups, laws, self.parts, self.reports, strict=True):
            if law is None:
                return
            mean, covariance = _influence_moments(group.best, law)
            values += part * mean
            spread += part[:, None] * part * covariance / max(n, 1.0)
        if not self.spreads:
            self.values = values
        self.spreads.append(spread)

    def ranges(
        self, plan: Plan, place: int, cheat: Cheat, level: float
    ) -> dict[str, tuple[float, float] | None]:
        """Ranges of the honest frequency, mean and mass at a level; None for missing answers."""
        answers, ends = plan.mechanism.answers, partial(self.ends, cheat, quantile(level))
        mean = None
        if "mean" in answers:
            first, last = (on_own_range(plan, place, end) for end in _mean_ends(ends))
            mean = (first, last)
        return {
            "frequency": ends(np.array([1.0, 0.0])) if "frequency" in answers else None,
            "mean": mean,
            "mass": ends(np.array([0.0, 1.0])) if "mass" in answers else None,
        }

    def room(self, plan: Plan, share: float, level: float) -> tuple[list[Cheat], float]:
        """The possible fakes that pass the check of views, and the level that is left for answers.

        Honest reports draw their views, so the number of honest reports on a key has a lower limit, and
        only the remaining reports can be fake. This holds for all views of the key together (fakes may
        be in any of them) and for each group of views (fakes are in all of them). Each of the two is a
        bound.
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
        fake_weights = list(np.array(apart)[:, None] * self.per_report)
        spread = Cheat(np.sum(fake_weights, axis=0), fake_weights, True)
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
        """All fakes, a share of ``total`` reports, in the group where a report has most weight."""
        most = share * (self.total if total is None else total) * self.per_report.max(axis=0)
        speaks = (self.per_report > 0).astype(float)
        return Cheat(most, [most * part for part in speaks], False)

    def ends(self, cheat: Cheat, errors: float, contrast: Floats) -> tuple[float, float]:
        """The range of a weighted sum of the honest frequency and mass."""
        if (cheat.share[contrast != 0] >= 1).any():
            return ANYWHERE
        scaled = np.where(contrast != 0, contrast / np.maximum(1 - cheat.share, 1e-300), 0.0)
        middle = float(scaled @ self.values)
        variance = max(float(scaled @ spread @ scaled) for spread in self.spreads)
        chance = errors * float(np.sqrt(max(variance, 0.0)))
        total = sum if cheat.together else max
        groups = list(zip(self.groups, cheat.weights, strict=True))
        most, least = (
            total([self._most(group, sign * scaled * w) for group, w in groups]) for sign in (1.0, -1.0)
        )
        return middle - most - chance, middle + least + chance

    def _most(self, group: ReportGroup, weights: Floats) -> float:
        """The largest weighted influence of a possible report."""
        if not weights.any():
            return 0.0
        pick = group.best.pick(weights[None, :], self.seeds)
        return float((weights * group.best.mean_influence(pick)[0]).sum())


def _precision(plan: Plan, group: ReportGroup) -> float:
    """The precision of one report of a group for a frequency, at the default prior."""
    view = group.members[0]
    channel, size = plan.view_channels[view], len(plan.views.keys[view])
    assert isinstance(group.best, CellInfluence)
    law = channel.mix(independent_law(plan.schema.levels, size)[None, :])[0]
    influence = group.best.influence[0, :, 0, 0]
    return 1.0 / max(float(law @ influence**2 - (law @ influence) ** 2), 1e-300)


def _counted(tally: Tally, group: ReportGroup) -> Floats | None:
    """The counts ``(seeds, cells)`` of a group's reports; None if reports mark positions."""
    best = group.best
    if not isinstance(best, CellInfluence):
        return None
    counts = np.sum([tally.view_counts(view)[1] for view in group.members], axis=0)
    shape = best.influence.shape[:2]
    return None if counts.size != shape[0] * shape[1] else counts.astype(np.float64).reshape(shape)


def _influence_moments(best: CellInfluence | Positions, law: Floats) -> tuple[Floats, Floats]:
    """The mean and covariance of the influence of reports. One uniform report is added for caution."""
    assert isinstance(best, CellInfluence)
    n, influence = float(law.sum()), best.influence[:, :, 0]
    middle = np.einsum("sc,sci->i", law, influence) / max(n, 1.0)
    even = np.broadcast_to(best.many, law.shape) / (best.many.sum() * len(law))
    law = with_one_more(law, even, n)
    first = np.einsum("sc,sci->i", law, influence)
    return middle, np.einsum("sc,sci,scj->ij", law, influence, influence) - first[:, None] * first


def _mean_ends(ends: Callable[[Floats], tuple[float, float]]) -> tuple[float, float]:
    """The ends of the means m in [-1, 1] for which mass - m frequency may be zero.

    Its upper end is convex in m and its lower end concave. So the means that are ruled out at either end
    of [-1, 1] form an interval, and bisection finds its inner end.
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

    edges = inner(-1.0, 1.0), inner(1.0, -1.0)
    return (edges[0], edges[1]) if edges[0] <= edges[1] else (edges[1], edges[0])
