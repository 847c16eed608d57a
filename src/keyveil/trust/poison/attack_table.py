"""A table of mechanisms: what the same fakes do to each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ...foundation.errors import KeyveilError
from ...mechanisms import REGISTRY
from ...people.schema import Schema
from ...plan.plan import Plan
from .attack import FREQUENCY, MEAN
from .fakes_needed import fakes_needed
from .gains import raised


@dataclass(frozen=True)
class AttackRow:
    """What crafted fakes do to one key under one mechanism, or the reason why it is not offered."""

    mechanism: str
    epsilon: float | None
    frequency: float | None = None
    """Shift of the frequency with chosen views and seeds; ``frequency_drawn`` with drawn ones."""
    frequency_drawn: float | None = None
    mean: float | None = None
    """Shift of the mean on [-1, 1], or of the mass if the mechanism has no mean."""
    mean_drawn: float | None = None
    fakes: float | None = None
    """Number of fakes, with drawn views and seeds, that shift the frequency by its standard error.

    It is about the mass if the mechanism has no frequency.
    """
    reason: str = ""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        members = dict(self.__dict__)
        return {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in members.items()}


def compare_gains(
    schema: Schema,
    epsilon: float | str,
    share: float,
    mechanisms: Iterable[str] | None = None,
    *,
    people: float = 1e6,
    frequency: float = FREQUENCY,
    mean: float = MEAN,
) -> list[AttackRow]:
    """Every mechanism at the same true epsilon, against fakes that raise the first key."""
    rows = []
    unit = Schema.of(list(schema.keys))
    for name in REGISTRY if mechanisms is None else mechanisms:
        try:
            plan = Plan.of(unit, name, epsilon, "tight", **REGISTRY[name].example(unit))
            rows.append(_compared(plan, share, people, frequency, mean))
        except KeyveilError as error:
            rows.append(AttackRow(name, None, reason=str(error)))
    return rows


def _compared(plan: Plan, share: float, people: float, frequency: float, mean: float) -> AttackRow:
    key, answers = plan.schema.keys[0], plan.mechanism.answers
    shifts: dict[str, float | None] = {}
    for part in ("frequency", "mean"):
        known = part in answers or (part == "mean" and "mass" in answers)
        for name, seeds, views in ((part, "chosen", "chosen"), (f"{part}_drawn", "assigned", "drawn")):
            shifts[name] = (
                raised(plan, key, part, share, frequency, mean, seeds, views).shift if known else None
            )
    goal = "raise-frequency" if "frequency" in answers else "raise-mean"
    needed = fakes_needed(
        plan,
        key,
        goal,
        people=people,
        frequency=frequency,
        mean=mean,
        seeds="assigned",
        views="drawn",
    )
    return AttackRow(
        plan.mechanism_name,
        float(plan.proven),
        shifts["frequency"],
        shifts["frequency_drawn"],
        shifts["mean"],
        shifts["mean_drawn"],
        needed.fakes,
    )
