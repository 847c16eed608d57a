"""What a share of fakes does to single keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

import numpy as np

from ...foundation.arrays import Floats
from ...plan.plan import Plan
from ...plan.tally import Tally
from .attack import FREQUENCY, MEAN, Scene, check, places_of, ratio


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
        return {name: value if isfinite(value) else None for name, value in parts.items()}


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
        members: dict[str, Any] = {"key": self.key}
        members.update({n: None if change is None else change.document() for n, change in parts.items()})
        return members


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
    check(plan, share, goal, attack, seeds, views)
    places = places_of(plan, targets)
    scene = Scene(plan, places, tally, frequency, mean)
    before, after = scene.before, scene.after(share, goal, attack, seeds, views)
    shifts = tuple(_shift(plan, place, before[row], after[row]) for row, place in enumerate(places))
    return Gain(plan.mechanism_name, float(plan.proven), attack, goal, share, seeds, views, shifts)


def _shift(plan: Plan, place: int, before: Floats, after: Floats) -> Shift:
    answers = plan.mechanism.answers
    low, high = float(plan.schema.low[place]), float(plan.schema.high[place])

    def scaled(values: Floats, known: bool) -> float:
        mean = ratio(values) if known else nan
        return float(low + (np.clip(mean, -1, 1) + 1) / 2 * (high - low))

    was = bool(before[0] > 0)
    means = Change(scaled(before, was), scaled(after, was or bool(after[0] > 0)))
    return Shift(
        plan.schema.keys[place],
        Change(float(before[0]), float(after[0])) if "frequency" in answers else None,
        means if "mean" in answers else None,
        Change(float(before[1]), float(after[1])) if "mass" in answers else None,
    )


def raised(
    plan: Plan,
    key: str,
    part: str,
    share: float,
    frequency: float,
    mean: float,
    seeds: str,
    views: str,
) -> Change:
    """How far crafted fakes raise one part of a key's answers."""
    goal = f"raise-{part}"
    shift = gain(
        plan, share, [key], goal, frequency=frequency, mean=mean, seeds=seeds, views=views
    ).shifts[0]
    change = shift.frequency if part == "frequency" else shift.mean or shift.mass
    assert change is not None
    return change
