"""Outlook: how well a plan will answer conditionals, said when it is made.

Nothing is known of the people then, so three in ten hold each key, independently of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import ceil, sqrt
from typing import Any

from ..estimate.forecast.pair_forecast import HOPELESS
from ..estimate.forecast.query_forecast import QueryForecast, query_variance
from ..estimate.linear import single_keys
from ..estimate.together.conditional import query_weights
from ..estimate.together.joint import lifted
from ..estimate.together.query import Query
from ..people.prior_laws import independent_law
from ..plan.plan import Plan

EPSILONS = ("0.5", "1", "1.5", "2", "3", "4", "5", "6", "8", "10")
"""The epsilons that are tried when a plan cannot answer."""
MOST_VIEWS = 5000
"""The most views that an outlook pools. With more, each view stands alone, which is cautious."""


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
    """The outlook of ``people`` who answer a plan whose views hold two keys or more; None for others."""
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
    if plan.parts is not None:
        errors = [(part.weight, _stderr(part.plan, round(people * part.share))) for part in plan.parts]
        known = [(weight, stderr) for weight, stderr in errors if stderr is not None]
        return max(known)[1] if known else None  # of the part that answers such queries
    if not plan.encoding.speaks_of_views or single_keys(plan):
        return None
    levels, names = plan.schema.levels, plan.schema.keys
    forecast = None
    if len(plan.views) <= MOST_VIEWS:
        laws = {size: independent_law(levels, size) for size in set(plan.views.sizes.tolist())}
        forecast = QueryForecast(plan, lambda keys: laws[len(keys)], people)
    worst = 0.0
    seen = set()
    for view, keys in enumerate(plan.views.keys):
        share, channel = float(plan.views.shares[view]), plan.view_channels[view]
        if len(keys) < 2 or (id(channel), share) in seen:
            continue
        seen.add((id(channel), share))
        query = Query("frequency", names[keys[0]], ((names[keys[1]], True),))
        if forecast is not None:
            variance = forecast.variance(query) or 0.0
        elif plan.mechanism.name == "coefficients":
            return None  # a view holds one product of a few keys, not their joint law
        else:
            flat = lifted(query_weights(plan.schema, query), keys[:2], keys, levels)
            variance = query_variance(channel, independent_law(levels, len(keys)), flat) / (
                people * share
            )
        worst = max(worst, sqrt(variance))
    return worst or None


def _better(plan: Plan, people: int, epsilon: str) -> bool:
    if Decimal(epsilon) <= plan.promised:
        return False
    kind = plan.mechanism_name
    other = Plan.of_document(plan.schema, kind, epsilon, plan.calibrate, plan.parameters)
    stderr = _stderr(other, people)
    return stderr is not None and stderr <= HOPELESS
