"""What fakes send: the reports that serve a goal best, or do not try to."""

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
from .influence import Options, core_of, possible_cores

GOALS = ("raise-frequency", "lower-frequency", "raise-mean", "lower-mean")
ATTACKS = ("crafted", "random", "pairs")
CHOICES = {"seeds": ("chosen", "assigned"), "views": ("chosen", "drawn")}
FREQUENCY, MEAN = HELD, 0.0
"""The frequency and mean of a key about which nothing is known."""


def places_of(plan: Plan, targets: Sequence[str]) -> list[int]:
    places = [plan.schema.place(key) for key in targets]
    if not places or len(set(places)) != len(places):
        raise PlanError("an attack has one or more targets, each named once")
    return places


def check(plan: Plan, share: float, goal: str, attack: str, seeds: str, views: str) -> None:
    if not 0 <= share < 1:
        raise PlanError("the share of fakes lies between 0 and 1, like 0.01")
    chosen = {"goal": (goal, GOALS), "attack": (attack, ATTACKS)}
    chosen |= {"seeds": (seeds, CHOICES["seeds"]), "views": (views, CHOICES["views"])}
    for name, (value, known) in chosen.items():
        if value not in known:
            raise PlanError(f"unknown {name} {value!r}; known: {', '.join(known)}")
    answers = plan.mechanism.answers
    part = "frequency" if goal.endswith("frequency") else "mean"
    if part not in answers and not (part == "mean" and "mass" in answers):
        raise PlanError(f"{plan.mechanism_name} answers {', '.join(answers)} alone: take another goal")


def honest_values(
    plan: Plan, places: list[int], tally: Tally | None, frequency: float, mean: float
) -> Floats:
    """Frequency and mass of the targets before anyone cheats."""
    if tally is not None:
        tally.belongs_to(plan)
        return np.asarray(moments_of(plan, tally.counts).values[places])
    if not 0 <= frequency <= 1 or not -1 <= mean <= 1:
        raise PlanError("a frequency lies in [0, 1] and a mean in [-1, 1]")
    return np.tile([frequency, frequency * mean], (len(places), 1))


class Aimed(NamedTuple):
    """Frequency and mass of the targets after an attack, and how it is done."""

    values: Floats
    drawn: Floats
    """The share of fakes in each group of views."""
    picks: list[Any]
    """What they send there."""


class Scene:
    """A plan, its targets and the honest answers, for trying what a share of fakes does to them.

    An estimator that is linear in the tally is known by its worths (``Options``). One that pools views
    by precision is run itself (``Pooled``). A hash pool has several linear estimators, and the tally
    decides between them: a crafted attack is given the one that serves it best, which bounds what it
    can do.
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
        self.options = [(Options.of(plan, places, tally), self.before)]
        """The linear estimators, that of the tally first, each with its own honest answers."""
        cores = possible_cores(plan)
        used = cores[0] if tally is None else core_of(plan, tally)
        for core in cores if self.pooled is None else []:
            if core != used:
                options = Options.of(plan, places, tally, core)
                before = self.before if tally is None else options.average(tally)
                self.options.append((options, before))

    def after(self, share: float, goal: str, attack: str, seeds: str, views: str) -> Floats:
        """Frequency and mass of the targets, ``(targets, 2)``, with a share of fakes."""
        if self.pooled is not None:
            return self.pooled.values(self.sent(share, goal, attack, views))
        return self.aimed(share, goal, attack, seeds, views).values

    def sent(self, share: float, goal: str, attack: str, views: str) -> list[Floats]:
        """What fakes send to each block of pooled views."""
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
        found = [
            attacked(self.plan, some, before, share, goal, attack, seeds, views)
            for some, before in options
        ]
        return max(found, key=lambda aimed: float(served(self.plan, goal, aimed.values)))


def served(plan: Plan, goal: str, values: Floats) -> Floats:
    """How well values ``(..., targets, 2)`` serve a goal: the sum of the targets' answers, signed."""
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
    options: Options,
    before: Floats,
    share: float,
    goal: str,
    attack: str,
    seeds: str,
    views: str,
) -> Aimed:
    if attack == "random":
        worths = [group.best.even() for group in options.groups]
        return Aimed(options.after(before, share, options.evenly, worths), options.evenly, [])
    if attack == "pairs":
        honest = options.honest(goal)
        worths = [honest[group.targets] for group in options.groups]
        return Aimed(options.after(before, share, options.shares, worths), options.shares, [])

    def outcome(weights: Floats) -> Aimed:
        picks = [group.best.pick(weights[group.targets], seeds) for group in options.groups]
        worths = [g.best.worth_of(pick) for g, pick in zip(options.groups, picks, strict=True)]
        drawn = options.shares if views == "drawn" else options.chosen(weights, worths, before)
        return Aimed(options.after(before, share, drawn, worths), drawn, picks)

    return best(plan, before, goal, outcome)


def best(plan: Plan, before: Floats, goal: str, outcome: Callable[[Floats], Aimed]) -> Aimed:
    """The outcome that serves the goal best, among those of ever better weights on worths.

    A frequency is linear in what is sent. A mean is a ratio: the report that raises it to m is the
    one with the largest mass - m x frequency, and m is found in a few rounds (Dinkelbach).
    """
    sign = 1.0 if goal.startswith("raise") else -1.0
    if goal.endswith("frequency"):
        return outcome(np.tile([sign, 0.0], (len(before), 1)))
    if "mean" not in plan.mechanism.answers:
        return outcome(np.tile([0.0, sign], (len(before), 1)))
    return best_ratio(before, sign, outcome)


def best_ratio(before: Floats, sign: float, outcome: Callable[[Floats], Aimed]) -> Aimed:
    """The outcome whose second value by the first is the largest, or with a sign of -1 the least."""
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
    """Mass by frequency. Where the frequency is driven to zero the mean goes to either end."""
    frequency, mass = float(values[0]), float(values[1])
    if not (isfinite(frequency) and isfinite(mass)):
        return nan
    return mass / frequency if frequency > 0 else inf if mass > 0 else -inf if mass < 0 else nan
