"""Where the honest answers may lie, if some of a tally's reports are fake."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Floats
from ..estimate.answer import quantile
from ..estimate.linear import Moments
from ..estimate.predict import prior_law
from ..plan import Plan
from ..tally import Tally
from ..worth import Cells, Group, Options
from .attack import check
from .pooled import is_pooled


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
    pass their check: then fakes are the same share of every view. Where all reports on a key may be
    fake, or there are none, nothing is known of the honest ones.
    """
    tally.belongs_to(plan)
    answers = plan.kind.answers
    goal = "raise-frequency" if "frequency" in answers else "raise-mean"
    check(plan, share, goal, "crafted", seeds, views)
    errors = quantile(level)
    moments = plan.kind.moments(plan, tally.counts)
    made = []
    for key in plan.schema.keys if keys is None else keys:
        place = plan.schema.place(key)
        if not moments.reports[place]:
            Options.of(plan, [place])  # or why it cannot be said of this plan
            made.append(Reach(key, *(ANYWHERE if part in answers else None for part in PARTS)))
            continue
        source = _Source(plan, tally, place, moments, seeds)
        cheat = source.drawn(share) if views == "drawn" else source.chosen(share)
        ends = partial(source.ends, cheat, errors)
        low, high = float(plan.schema.low[place]), float(plan.schema.high[place])
        mean = None
        if "mean" in answers:
            first, last = _mean_ends(ends)
            mean = (low + (first + 1) / 2 * (high - low), low + (last + 1) / 2 * (high - low))
        made.append(
            Reach(
                plan.schema.keys[place],
                ends(np.array([1.0, 0.0])) if "frequency" in answers else None,
                mean,
                ends(np.array([0.0, 1.0])) if "mass" in answers else None,
            )
        )
    return made


class _Cheat(NamedTuple):
    """Fakes among the reports on a key."""

    share: Floats
    """Their share of what tells the frequency, and of what tells the mass."""
    weights: list[Floats]
    """Of each group of views: what a fake's worth there counts in both."""
    together: bool
    """Whether fakes are in all groups at once, or in any one of them."""


class _Source:
    """A key's frequency and mass as fixed sums over reports, with their sampling error.

    Sums have weights that do not depend on what the reports say, so they are linear in the fakes too.
    Views that are pooled by precision are weighed by their reports and by how much their channel tells.
    """

    def __init__(self, plan: Plan, tally: Tally, place: int, moments: Moments, seeds: str) -> None:
        self.options, self.seeds = Options.of(plan, [place], tally), seeds
        groups = self.options.groups
        reports = np.array([tally.counts[plan.layout.own[g.members]].sum() for g in groups], float)
        told = np.ones(len(groups))
        if is_pooled(plan):
            told = np.array([_precision(plan, group) for group in groups])
        speaks = np.array([group.speaks[0] for group in groups], float)
        counted = (reports * told)[:, None] * speaks
        with np.errstate(divide="ignore", invalid="ignore"):
            self.parts = np.nan_to_num(counted / counted.sum(axis=0))
            self.each = np.nan_to_num(self.parts / reports[:, None])
        self.total = float(tally.reports)
        seen = [_seen(plan, tally, group) for group in groups]
        self.values = np.nan_to_num(moments.values[place])
        self.spreads = [np.nan_to_num(moments.covariance[place])]
        known = [one for one in seen if one is not None]
        if len(known) == len(groups):
            middle = sum(part * one[0] for part, one in zip(self.parts, known, strict=True))
            spread = sum(
                part[:, None] * part * one[1] / max(n, 1.0)
                for part, one, n in zip(self.parts, known, reports, strict=True)
            )
            if is_pooled(plan):
                self.values, self.spreads = np.asarray(middle), []
            self.spreads.append(np.asarray(spread))

    def drawn(self, share: float) -> _Cheat:
        """The same share of fakes in every group."""
        return _Cheat(np.full(2, share), [share * part for part in self.parts], True)

    def chosen(self, share: float) -> _Cheat:
        """All fakes in any of the groups; where one counts for more, in that."""
        most = share * self.total * self.each.max(axis=0)
        speaks = (self.each > 0).astype(float)
        return _Cheat(most, [most * part for part in speaks], False)

    def ends(self, cheat: _Cheat, errors: float, contrast: Floats) -> tuple[float, float]:
        """Where a weighted sum of the honest frequency and mass may lie."""
        if (cheat.share[contrast != 0] >= 1).any():
            return ANYWHERE
        scaled = np.where(contrast != 0, contrast / np.maximum(1 - cheat.share, 1e-300), 0.0)
        middle = float(scaled @ self.values)
        variance = max(float(scaled @ spread @ scaled) for spread in self.spreads)
        chance = errors * float(np.sqrt(max(variance, 0.0)))
        least = [
            -self._most(group, -scaled * w)
            for group, w in zip(self.options.groups, cheat.weights, strict=True)
        ]
        most = [
            self._most(group, scaled * w)
            for group, w in zip(self.options.groups, cheat.weights, strict=True)
        ]
        if cheat.together:
            return middle - sum(most) - chance, middle - sum(least) + chance
        return middle - max(most) - chance, middle - min(least) + chance

    def _most(self, group: Group, weights: Floats) -> float:
        """The largest weighted worth of any report that may be sent."""
        if not weights.any():
            return 0.0
        pick = group.best.pick(weights[None, :], self.seeds)
        return float((weights * group.best.worth_of(pick)[0]).sum())


def _precision(plan: Plan, group: Group) -> float:
    """How much one report of a group tells of a frequency, where keys are as plans assume."""
    view = group.members[0]
    channel, size = plan.view_channels[view], len(plan.views.keys[view])
    assert isinstance(group.best, Cells)
    law = channel.mix(prior_law(plan.schema.levels, size)[None, :])[0]
    worth = group.best.worth[0, :, 0, 0]
    return 1.0 / max(float(law @ worth**2 - (law @ worth) ** 2), 1e-300)


def _seen(plan: Plan, tally: Tally, group: Group) -> tuple[Floats, Floats] | None:
    """The mean and covariance of what a group's reports are worth, with one more for caution."""
    best = group.best
    if not isinstance(best, Cells) or best.worth.shape[0] * best.worth.shape[1] != len(
        tally.view_counts(group.members[0])[1]
    ):
        return None
    counts = sum(tally.view_counts(view)[1].astype(np.float64) for view in group.members)
    law = np.reshape(counts, best.worth.shape[:2])
    n = float(law.sum())
    worth = best.worth[:, :, 0]
    middle = np.einsum("sc,sci->i", law, worth) / max(n, 1.0)
    even = np.broadcast_to(best.many, law.shape) / (best.many.sum() * len(law))
    law = (law + even) / (n + 1.0)
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
