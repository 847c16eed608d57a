"""Outlook: how well a plan will answer conditionals, said when it is made.

The forecast is the planner's own, so a plan that the planner chose has the same outlook as one that was
named. Nothing is known of which keys go together, so they are taken to be held independently.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite, sqrt
from typing import Any

from ..estimate.forecast.pair_forecast import HOPELESS
from ..estimate.forecast.query_forecast import QueryForecast
from ..estimate.together.joint import evidence
from ..estimate.together.query import Query
from ..foundation.errors import ChannelError, PlanError
from ..people.prior import Prior, enough_people, keys_in_words
from ..people.prior_laws import independent_law
from ..plan.plan import Plan
from ..plan.tally import Tally
from .key_scores import people_factor, refined_factor
from .planner import least_epsilon

PRODUCTS = "coefficients"
"""The mechanism whose views have one product of a few keys and not their joint law."""


@dataclass(frozen=True)
class Outlook:
    """The predicted standard error of a conditional frequency, and what it would take to do better."""

    people: int
    stderr: float
    """That of the middle one of all pairs of keys that are held often."""
    people_needed: int | None
    """People with whom the standard error falls to where an answer begins to say something; None if no
    number of people is enough."""
    epsilon_needed: str | None
    """The least epsilon of two digits that does so with these people, if there is one."""
    held: float
    """How many keys people are expected to hold on average."""

    @property
    def answers(self) -> bool:
        """Whether the plan can answer at all."""
        return self.stderr <= HOPELESS

    def __str__(self) -> str:
        if_held = f"if people hold {keys_in_words(self.held)} on average"
        who = f"with {self.people:,} {'people' if self.people > 1 else 'person'}"
        if self.answers:
            return f"{who} a conditional frequency has a standard error near {self.stderr:.3f} {if_held}"
        ways = (
            [] if self.people_needed is None else [f"about {enough_people(self.people_needed)} people"]
        )
        ways += [f"epsilon {self.epsilon_needed}"] if self.epsilon_needed else []
        takes = f"; it takes {', or '.join(ways)}" if ways else ""
        return (
            f"{who} this plan cannot answer: a conditional frequency has a "
            f"standard error near {self.stderr:.2g} {if_held}{takes}"
        )

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {**self.__dict__, "answers": self.answers}


def outlook(plan: Plan, people: int, prior: Prior | None = None) -> Outlook | None:
    """The outlook of ``people`` who answer a plan that asks about keys together; None for others.

    ``prior`` is what is known about people; without it, it is the default one.
    """
    prior = Prior.of(plan.schema) if prior is None else prior
    factor = _people_factor(plan, people, prior)
    if factor is None:
        return None
    epsilon = None
    if factor > 1:
        epsilon = least_epsilon(plan.promised, lambda larger: _works(plan, people, prior, larger))
    whole = factor
    if plan.mechanism.name != PRODUCTS:
        whole = refined_factor(plan, people, "conditional", prior, factor)
    needed = ceil(people * whole) if isfinite(whole) else None
    return Outlook(people, HOPELESS * sqrt(factor), needed, epsilon, prior.held)


def _people_factor(plan: Plan, people: float, prior: Prior) -> float | None:
    """The factor of people that the plan needs to answer conditionals; None if it does not ask them."""
    if plan.mechanism.name == PRODUCTS:
        return _of_products(plan, people, prior)
    try:
        if plan.parts is None:
            evidence(plan, Tally(plan))
        return people_factor(plan, int(people), "conditional", prior)
    except PlanError:
        return None


def _of_products(plan: Plan, people: float, prior: Prior) -> float:
    """The same for a plan without joint laws, from the worst of its views."""
    levels, names = plan.schema.levels, plan.schema.keys
    held = float(prior.weight @ prior.frequency)
    laws = {size: independent_law(levels, size, held) for size in set(plan.views.sizes.tolist())}
    forecast = QueryForecast(plan, lambda keys: laws[len(keys)], people)
    pairs = {len(keys): keys[:2] for keys in plan.views.keys if len(keys) > 1}
    queries = (Query("frequency", names[a], ((names[b], True),)) for a, b in pairs.values())
    return max(forecast.variance(query) or 0.0 for query in queries) / HOPELESS**2


def _works(plan: Plan, people: int, prior: Prior, epsilon: str) -> bool:
    """Whether the same mechanism can answer at another epsilon."""
    try:
        other = Plan.of_document(
            plan.schema, plan.mechanism_name, epsilon, plan.calibrate, plan.parameters
        )
    except (PlanError, ChannelError):
        return False  # not available at this epsilon
    factor = _people_factor(other, people, prior)
    return factor is not None and factor <= 1
