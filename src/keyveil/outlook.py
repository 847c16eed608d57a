"""Outlook: how well a plan will answer conditionals, said when it is made.

Predicted for a condition and a target that each three people in ten hold, independently, before what
the views know of each other's keys is pooled: a cautious figure, and good to a factor of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import ceil, sqrt
from typing import Any

from .estimate.conditional import query_weights
from .estimate.joint import lifted
from .estimate.predict import prior_law, query_variance
from .plan import Plan
from .query import Query

HOPELESS = 0.25
"""With a larger standard error, a 95 % interval for a frequency is as wide as all frequencies."""
EPSILONS = ("0.5", "1", "1.5", "2", "3", "4", "5", "6", "8", "10")


@dataclass(frozen=True)
class Outlook:
    """The predicted standard error of a conditional frequency, and what it would take to do better."""

    people: int
    stderr: float
    people_needed: int
    """People with whom the standard error falls to where an answer begins to say something."""
    epsilon_needed: str | None
    """The epsilon that does so with these people, if any of the usual ones does."""

    @property
    def answers(self) -> bool:
        """Whether the plan can answer at all."""
        return self.stderr <= HOPELESS

    def __str__(self) -> str:
        if self.answers:
            said = f"with {self.people:,} people a conditional frequency has a standard error near "
            return said + f"{self.stderr:.3f}"
        either = f", or epsilon {self.epsilon_needed}" if self.epsilon_needed else ""
        return (
            f"with {self.people:,} people this plan cannot answer: a conditional frequency has a "
            f"standard error near {self.stderr:.2g}; "
            f"it takes about {self.people_needed:,} people{either}"
        )

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {**self.__dict__, "answers": self.answers}


def outlook(plan: Plan, people: int) -> Outlook | None:
    """The outlook of a plan whose views hold two keys or more; None for others."""
    stderr = _stderr(plan, people)
    if stderr is None:
        return None
    needed = ceil(people * (stderr / HOPELESS) ** 2)
    epsilon = None
    if stderr > HOPELESS:
        epsilon = next((e for e in EPSILONS if _better(plan, people, e)), None)
    return Outlook(people, stderr, needed, epsilon)


def _stderr(plan: Plan, people: int) -> float | None:
    """The worst view's standard error of frequency(k | c)."""
    if plan.encode != "views" or plan.kind.name == "coefficients":
        return None
    worst = 0.0
    seen = set()
    for view, keys in enumerate(plan.views.keys):
        share, channel = float(plan.views.shares[view]), plan.view_channels[view]
        if len(keys) < 2 or (id(channel), share) in seen:
            continue
        seen.add((id(channel), share))
        names = [plan.schema.keys[key] for key in keys]
        weights = query_weights(plan.schema, Query("frequency", names[0], ((names[1], True),)))
        flat = lifted(weights, keys[:2], keys, plan.schema.levels)
        variance = query_variance(channel, prior_law(plan.schema.levels, len(keys)), flat)
        worst = max(worst, sqrt(variance / (people * share)))
    return worst or None


def _better(plan: Plan, people: int, epsilon: str) -> bool:
    if Decimal(epsilon) <= plan.promised:
        return False
    other = Plan.of(plan.schema, plan.mechanism, epsilon, plan.calibrate, **plan.parameters)
    stderr = _stderr(other, people)
    return stderr is not None and stderr <= HOPELESS
