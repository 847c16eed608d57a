"""What fakes send: the reports that serve a goal best, random reports, or honest ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf, isfinite, nan
from typing import Any, NamedTuple

import numpy as np

from ...estimate.decoding import moments_of
from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ...people.prior_laws import HELD
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


class Attack(NamedTuple):
    """What fakes do: their share of all clients, what they want, send and may choose."""

    share: float
    goal: str = "raise-frequency"
    kind: str = "crafted"
    seeds: str = "chosen"
    views: str = "chosen"

    @property
    def sign(self) -> float:
        """1 if an answer is to be raised, -1 if it is to be lowered."""
        return 1.0 if self.goal.startswith("raise") else -1.0

    def part(self, plan: Plan) -> str:
        """The answer that the goal is about; a goal for the mean takes the mass if there is no mean."""
        if self.goal.endswith("frequency"):
            return "frequency"
        return "mean" if "mean" in plan.mechanism.answers else "mass"

    def checked(self, plan: Plan) -> Attack:
        """The attack. Raises ``PlanError`` unless the plan can be asked about it."""
        if not 0 <= self.share < 1:
            raise PlanError("the share of fakes lies between 0 and 1, like 0.01")
        chosen = {"goal": (self.goal, GOALS), "attack": (self.kind, ATTACKS)}
        chosen |= {name: (getattr(self, name), known) for name, known in CHOICES.items()}
        for name, (value, known) in chosen.items():
            if value not in known:
                raise PlanError(f"unknown {name} {value!r}; known: {', '.join(known)}")
        answers = plan.mechanism.answers
        if plan.parts is not None or not answers:
            raise PlanError(f"what fakes could do to {plan.mechanism_name} is not offered")
        if self.part(plan) not in answers:
            raise PlanError(
                f"{plan.mechanism_name} answers {', '.join(answers)} alone: take another goal"
            )
        return self


COLUMN = {"frequency": 0, "mass": 1}
"""The column of an answer in values ``(..., 2)``. A mean is the ratio of the two."""


def first_goal(plan: Plan) -> str:
    """A goal that the plan can be asked about."""
    return "raise-frequency" if "frequency" in plan.mechanism.answers else "raise-mean"


def finite(value: Any) -> Any:
    """The value, for JSON: None in place of a number that is not finite."""
    return None if isinstance(value, float) and not isfinite(value) else value


def on_own_range(plan: Plan, place: int, mean: float) -> float:
    """A mean on [-1, 1], on the range of the key at this place."""
    low, high = float(plan.schema.low[place]), float(plan.schema.high[place])
    return low + (float(mean) + 1) / 2 * (high - low)


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

    def after(self, attack: Attack) -> Floats:
        """Frequency and mass of the targets, ``(targets, 2)``, with a share of fakes."""
        if self.pooled is not None:
            return self.pooled.values(self.sent(attack))
        return self.aimed(attack).values

    def sent(self, attack: Attack) -> list[Floats]:
        """The counts of fake reports in each block of averaged views."""
        assert self.pooled is not None
        count = self.pooled.reports * attack.share / (1 - attack.share)
        if attack.kind == "random":
            return self.pooled.random(count)
        if attack.kind == "pairs":
            return self.pooled.honest(count, attack.goal)
        return self.pooled.worst(count, partial(served, self.plan, attack), attack.views)

    def aimed(self, attack: Attack) -> Aimed:
        """The attack on a linear estimator that serves the goal best."""
        options = self.options if attack.kind == "crafted" else self.options[:1]
        attacks = [attacked(self.plan, possible, before, attack) for possible, before in options]
        return max(attacks, key=lambda aimed: float(served(self.plan, attack, aimed.values)))


def served(plan: Plan, attack: Attack, values: Floats) -> Floats:
    """The score ``(...)`` of values ``(..., targets, 2)`` for a goal: the signed sum of the answers."""
    part = attack.part(plan)
    if part != "mean":
        return np.asarray(attack.sign * values[..., COLUMN[part]].sum(axis=-1))
    held, mass = values[..., 0], values[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(held > 0, mass / held, np.sign(mass) * inf)
    return np.asarray(attack.sign * np.clip(np.nan_to_num(means, nan=0.0), -1.0, 1.0).sum(axis=-1))


def attacked(plan: Plan, options: PossibleReports, before: Floats, attack: Attack) -> Aimed:
    """The attack on one linear estimator, given by its possible reports.

    A frequency is linear in the reports. A mean is a ratio: the report that raises it to m has the
    largest mass - m x frequency, and a few rounds find m (Dinkelbach's method).
    """
    share, groups = attack.share, options.groups
    if attack.kind == "random":
        influences = [group.best.even() for group in groups]
        return Aimed(options.after(before, share, options.evenly, influences), options.evenly, [])
    if attack.kind == "pairs":
        honest = options.honest(attack.goal)
        influences = [honest[group.targets] for group in groups]
        return Aimed(options.after(before, share, options.shares, influences), options.shares, [])

    def outcome(weights: Floats) -> Aimed:
        picks = [group.best.pick(weights[group.targets], attack.seeds) for group in groups]
        influences = [g.best.mean_influence(pick) for g, pick in zip(groups, picks, strict=True)]
        drawn = options.shares
        if attack.views == "chosen":
            drawn = options.chosen(weights, influences, before)
        return Aimed(options.after(before, share, drawn, influences), drawn, picks)

    part = attack.part(plan)
    if part == "mean":
        return best_ratio(before, attack.sign, outcome)
    return outcome(np.tile(attack.sign * np.eye(2)[COLUMN[part]], (len(before), 1)))


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
