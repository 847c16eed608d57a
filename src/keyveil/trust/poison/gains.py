"""What a share of fakes does to single keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

from ...foundation.arrays import Floats
from ...plan.plan import Plan
from ...plan.tally import Tally
from .attack import FREQUENCY, MEAN, Attack, Scene, finite, on_own_range, places_of, ratio


@dataclass(frozen=True)
class Change:
    """An answer before and after an attack."""

    before: float
    after: float

    @property
    def shift(self) -> float:
        """The difference of the two."""
        return self.after - self.before

    def document(self) -> dict[str, float | None]:
        """As JSON, null for what is unknown."""
        parts = {"before": self.before, "after": self.after, "shift": self.shift}
        return {name: finite(value) for name, value in parts.items()}


@dataclass(frozen=True)
class Shift:
    """The changes of one key's answers; None for answers that the mechanism does not give."""

    key: str
    frequency: Change | None
    mean: Change | None
    mass: Change | None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        parts = {"frequency": self.frequency, "mean": self.mean, "mass": self.mass}
        return {"key": self.key, **{n: change and change.document() for n, change in parts.items()}}


@dataclass(frozen=True)
class Gain:
    """What a share of fake clients does to their targets."""

    mechanism: str
    epsilon: float
    attack: str
    goal: str
    share: float
    seeds: str
    views: str
    shifts: tuple[Shift, ...]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        facts = {k: v for k, v in self.__dict__.items() if k != "shifts"}
        return {**facts, "shifts": [shift.document() for shift in self.shifts]}


def gain(
    plan: Plan,
    share: float,
    targets: Sequence[str],
    goal: str = "raise-frequency",
    attack: str = "crafted",
    *,
    tally: Tally | None = None,
    frequency: float = FREQUENCY,
    mean: float = MEAN,
    seeds: str = "chosen",
    views: str = "chosen",
) -> Gain:
    """What fakes that are ``share`` of all clients do to their ``targets``, all at once.

    The honest answers are those of ``tally``; without one every key has the stated frequency and mean.
    """
    how = Attack(share, goal, attack, seeds, views).checked(plan)
    places = places_of(plan, targets)
    scene = Scene(plan, places, tally, frequency, mean)
    before, after = scene.before, scene.after(how)
    shifts = tuple(_shift(plan, place, before[row], after[row]) for row, place in enumerate(places))
    return Gain(plan.mechanism_name, float(plan.proven), attack, goal, share, seeds, views, shifts)


def _shift(plan: Plan, place: int, before: Floats, after: Floats) -> Shift:
    def mean(values: Floats, known: bool) -> float:
        return on_own_range(plan, place, np.clip(ratio(values) if known else nan, -1, 1))

    was = bool(before[0] > 0)
    changes = {
        "frequency": Change(float(before[0]), float(after[0])),
        "mean": Change(mean(before, was), mean(after, was or bool(after[0] > 0))),
        "mass": Change(float(before[1]), float(after[1])),
    }
    known = (changes[part] if part in plan.mechanism.answers else None for part in changes)
    return Shift(plan.schema.keys[place], *known)


def raisable(plan: Plan) -> list[str]:
    """The parts that ``raised`` takes for this plan. A mechanism without means has its mass raised."""
    parts = ("frequency", "mean")
    return [p for p in parts if Attack(0.0, f"raise-{p}").part(plan) in plan.mechanism.answers]


def raised(plan: Plan, part: str, share: float, frequency: float, mean: float) -> tuple[Change, Change]:
    """How far crafted fakes raise a part of the first key, with views and seeds chosen, and drawn."""

    def change(seeds: str, views: str) -> Change:
        first, goal = plan.schema.keys[:1], f"raise-{part}"
        result = gain(plan, share, first, goal, frequency=frequency, mean=mean, seeds=seeds, views=views)
        known: Change = getattr(result.shifts[0], Attack(share, goal).part(plan))
        return known

    return change("chosen", "chosen"), change("assigned", "drawn")
