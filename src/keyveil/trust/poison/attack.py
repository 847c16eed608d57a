"""What fakes send: the reports that serve a goal best, random reports, or honest ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isfinite, nan
from typing import Any, NamedTuple

import numpy as np

from ...estimate.decoding import moments_of
from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ...people.prior import HELD
from ...plan.plan import Plan
from ...plan.tally import Tally
from .averaged_attack import AveragedViews, is_pooled
from .influence import PossibleReports, core_of, possible_cores

GOALS = ("raise-frequency", "lower-frequency", "raise-mean", "lower-mean")
ATTACKS = ("crafted", "random", "pairs")
CHOICES = {"seeds": ("chosen", "assigned"), "views": ("chosen", "drawn")}
FREQUENCY, MEAN = HELD, 0.0
"""Assumed frequency and mean of a key without a tally."""


def places_of(plan: Plan, targets: Sequence[str]) -> list[int]:
    """The places of the targets in the schema. Raises ``PlanError`` if a target repeats."""
    places = [plan.schema.place(key) for key in targets]
    if not places or len(set(places)) != len(places):
        raise PlanError("an attack has one or more targets, each named once")
    return places


def check(plan: Plan, share: float, goal: str, attack: str, seeds: str, views: str) -> None:
    """Raise ``PlanError`` unless this is an attack that the plan can be asked about."""
    if not 0 <= share < 1:
        raise PlanError("the share of fakes lies between 0 and 1, like 0.01")
    chosen = {"goal": (goal, GOALS), "attack": (attack, ATTACKS)}
    chosen |= {"seeds": (seeds, CHOICES["seeds"]), "views": (views, CHOICES["views"])}
    for name, (value, known) in chosen.items():
        if value not in known:
            raise PlanError(f"unknown {name} {value!r}; known: {', '.join(known)}")
    answers = plan.mechanism.answers
    if plan.parts is not None or not answers:
        raise PlanError(f"what fakes could do to {plan.mechanism_name} is not offered")
    part = "frequency" if goal.endswith("frequency") else "mean"
    if part not in answers and not (part == "mean" and "mass" in answers):
        raise PlanError(f"{plan.mechanism_name} answers {', '.join(answers)} alone: take another goal")


def honest_values(
    plan: Plan, places: list[int], tally: Tally | None, frequency: float, mean: float
) -> Floats:
    """Honest frequency and mass of the targets, ``(targets, 2)``."""
    if tally is not None:
        tally.belongs_to(plan)
        return np.asarray(moments_of(plan, tally.counts).values[places])
    if not 0 <= frequency <= 1 or not -1 <= mean <= 1:
        raise PlanError("a frequency lies in [0, 1] and a mean in [-1, 1]")
    return np.tile([frequency, frequency * mean], (len(places), 1))


class Aimed(NamedTuple):
    """An attack, and the frequency and mass of the targets after it."""

    values: Floats
    drawn: Floats
    """The share of fakes in each group of views."""
    picks: list[Any]
    """The law of their reports in each group."""


class Scene:
    """A plan, its targets and the honest answers; computes what a share of fakes does to them.

    An estimator that is linear in the tally is described by its influences (``PossibleReports``). One
    that averages views by precision is run itself (``AveragedViews``). A hash pool has several linear
    estimators, and the tally decides between them. A crafted attack gets the one that serves it best,
    which is an upper bound.
    """

    def __init__(
        self,
        plan: Plan,
        places: list[int],
        tally: Tally | None = None,
        frequency: float = FREQUENCY,
        mean: float = MEAN,
    ) -> None:
        self.plan = plan
        self.before = honest_values(plan, places, tally, frequency, mean)
        self.pooled = AveragedViews(plan, places, tally, frequency, mean) if is_pooled(plan) else None
        self.options = [(PossibleReports.of(plan, places, tally), self.before)]
        """The linear estimators, each with its own honest answers; that of the tally is the first."""
        cores = possible_cores(plan)
        used = cores[0] if tally is None else core_of(plan, tally)
        for core in cores if self.pooled is None else []:
            if core != used:
                options = PossibleReports.of(plan, places, tally, core)
                before = self.before if tally is None else options.average(tally)
                self.options.append((options, before))

    def after(self, share: float, goal: str, attack: str, seeds: str, views: str) -> Floats:
        """Frequency and mass of the targets, ``(targets, 2)``, with a share of fakes."""
        if self.pooled is not None:
            return self.pooled.values(self.sent(share, goal, attack, views))
        return self.aimed(share, goal, attack, seeds, views).values

    def sent(self, share: float, goal: str, attack: str, views: str) -> list[Floats]:
        """The counts of fake reports in each block of averaged views."""
        assert self.pooled is not None
        count = self.pooled.reports * share / (1 - share)
        if attack == "random":
            return self.pooled.random(count)
        if attack == "pairs":
            return self.pooled.honest(count, goal)
        return self.pooled.worst(count, lambda values: served(self.plan, goal, values), views)

    def aimed(self, share: float, goal: str, attack: str, seeds: str, views: str) -> Aimed:
        """The attack on a linear estimator that serves the goal best."""
        options = self.options if attack == "crafted" else self.options[:1]
        attacks = [
            attacked(self.plan, possible, before, share, goal, attack, seeds, views)
            for possible, before in options
        ]
        return max(attacks, key=lambda aimed: float(served(self.plan, goal, aimed.values)))


def served(plan: Plan, goal: str, values: Floats) -> Floats:
    """The score ``(...)`` of values ``(..., targets, 2)`` for a goal: the signed sum of the answers."""
    sign = 1.0 if goal.startswith("raise") else -1.0
    if goal.endswith("frequency"):
        return np.asarray(sign * values[..., 0].sum(axis=-1))
    if "mean" not in plan.mechanism.answers:
        return np.asarray(sign * values[..., 1].sum(axis=-1))
    held, mass = values[..., 0], values[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(held > 0, mass / held, np.sign(mass) * inf)
    return np.asarray(sign * np.clip(np.nan_to_num(means, nan=0.0), -1.0, 1.0).sum(axis=-1))


def attacked(
    plan: Plan,
    options: PossibleReports,
    before: Floats,
    share: float,
    goal: str,
    attack: str,
    seeds: str,
    views: str,
) -> Aimed:
    """The attack on one linear estimator, given by its possible reports."""
    if attack == "random":
        influences = [group.best.even() for group in options.groups]
        return Aimed(options.after(before, share, options.evenly, influences), options.evenly, [])
    if attack == "pairs":
        honest = options.honest(goal)
        influences = [honest[group.targets] for group in options.groups]
        return Aimed(options.after(before, share, options.shares, influences), options.shares, [])

    def outcome(weights: Floats) -> Aimed:
        picks = [group.best.pick(weights[group.targets], seeds) for group in options.groups]
        influences = [g.best.mean_influence(pick) for g, pick in zip(options.groups, picks, strict=True)]
        drawn = options.shares if views == "drawn" else options.chosen(weights, influences, before)
        return Aimed(options.after(before, share, drawn, influences), drawn, picks)

    return best(plan, before, goal, outcome)


def best(plan: Plan, before: Floats, goal: str, outcome: Callable[[Floats], Aimed]) -> Aimed:
    """The outcome that serves the goal best, over weights on the influences.

    A frequency is linear in the reports. A mean is a ratio: the report that raises it to m has the
    largest mass - m x frequency, and a few rounds find m (Dinkelbach's method).
    """
    sign = 1.0 if goal.startswith("raise") else -1.0
    if goal.endswith("frequency"):
        return outcome(np.tile([sign, 0.0], (len(before), 1)))
    if "mean" not in plan.mechanism.answers:
        return outcome(np.tile([0.0, sign], (len(before), 1)))
    return best_ratio(before, sign, outcome)


def best_ratio(before: Floats, sign: float, outcome: Callable[[Floats], Aimed]) -> Aimed:
    """The outcome with the largest ratio of second to first value, or the smallest if sign is -1."""
    best, most, now = None, -inf, before
    for _ in range(12):
        held = np.maximum(np.nan_to_num(now[:, 0]), 1e-3)
        aim = np.clip(np.nan_to_num([ratio(row) for row in now]), -1.0, 1.0)
        after = outcome(sign * np.stack([-aim / held, 1.0 / held], axis=1))
        reached = sign * float(np.nansum(np.clip([ratio(row) for row in after.values], -1.0, 1.0)))
        if best is not None and not reached > most + 1e-12:
            break
        best, most, now = after, reached, after.values
        if not np.isfinite(now).all():
            break
    assert best is not None
    return best


def ratio(values: Floats) -> float:
    """Mass divided by frequency; plus or minus infinity if the frequency is not above zero."""
    frequency, mass = float(values[0]), float(values[1])
    if not (isfinite(frequency) and isfinite(mass)):
        return nan
    return mass / frequency if frequency > 0 else inf if mass > 0 else -inf if mass < 0 else nan
