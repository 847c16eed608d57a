"""Outlook: how well a plan will answer conditionals, said when it is made.

``Foreseen`` knows the law of the people, and lets the plan's own decoder work on the counts that this
law leads one to expect: its values are the truth, and its covariance is the one that the decoder will
have, pooled over views or not. ``outlook`` takes for a law that three people in ten hold each key,
independently, and says what standard error that leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import ceil, sqrt
from typing import Any

import numpy as np

from ..estimate.forecast.variance import prior_law, query_variance
from ..estimate.linear import single_keys
from ..estimate.together.conditional import query_weights
from ..estimate.together.joint import evidence, lifted
from ..estimate.together.query import Query
from ..foundation.arrays import Floats
from ..foundation.errors import PlanError
from ..plan.plan import Plan
from ..plan.tally import Tally

HOPELESS = 0.25
"""With a larger standard error, a 95 % interval for a frequency is as wide as all frequencies."""
EPSILONS = ("0.5", "1", "1.5", "2", "3", "4", "5", "6", "8", "10")
MANY = 1 << 50
"""Reports of a tally without noise: so many that rounding to whole counts does not show."""
MOST_VIEWS = 5000
"""Views that are pooled for an outlook; with more, what one view knows alone is told, more cautious."""
FORESEEN = ("pooled", "least_squares", "printed")
"""The estimators whose error is foreseen; ``pooled`` before values are moved to a proper law."""

Law = Callable[[tuple[int, ...]], Floats]
"""The share of every joint state of some keys, flat, the first key the most significant digit."""


def expected_tally(plan: Plan, law: Law) -> Tally:
    """The tally of very many people without any noise."""
    if not plan.encoding.speaks_of_views:
        raise PlanError(f"the counts of {plan.mechanism_name} do not follow from the law of a few keys")
    tally, layout = Tally(plan), plan.layout
    reports = np.rint(MANY * plan.views.shares).astype(np.int64)
    tally.counts[layout.own] = reports
    for number, channel in enumerate(plan.channels):
        views = plan.views_of(number)
        laws = np.array([law(plan.views.keys[view]) for view in views])
        seen = np.rint(channel.mix(laws)[:, : channel.cells] * reports[views, None]).astype(np.int64)
        tally.counts[layout.own[views][:, None] + 1 + np.arange(channel.cells)] = seen
        if channel.one_cell:
            tally.counts[layout.own[views]] = seen.sum(axis=1)
    return tally


class Foreseen:
    """What a plan's answers will be worth when ``people`` with a known law answer it."""

    def __init__(self, plan: Plan, law: Law, people: float, estimator: str = "pooled") -> None:
        if estimator not in FORESEEN:
            raise PlanError(f"the error of {estimator} is not foreseen; of {', '.join(FORESEEN)} it is")
        self.plan, self.people = plan, people
        self.evidence = evidence(plan, expected_tally(plan, law), estimator)

    def variance(self, query: Query) -> float | None:
        """The variance of a frequency or mean (on [-1, 1]) by the delta method; None if unanswered."""
        if query.kind == "lift":
            raise PlanError("the error of a lift is not foreseen")
        target, given = query.places(self.plan.schema)
        keys = (target, *(place for place, _ in given))
        found = self.evidence.moments(keys, query_weights(self.plan.schema, query))
        if found is None or not found.values[1] > 1e-9:
            return None
        above, below = found.values
        slope = np.array([1.0 / below, -above / below**2])
        return max(float(slope @ found.covariance @ slope) * MANY / self.people, 0.0)


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
    if not plan.encoding.speaks_of_views or single_keys(plan):
        return None
    levels, names = plan.schema.levels, plan.schema.keys
    foreseen = None
    if len(plan.views) <= MOST_VIEWS:
        laws = {size: prior_law(levels, size) for size in set(plan.views.sizes.tolist())}
        foreseen = Foreseen(plan, lambda keys: laws[len(keys)], people)
    worst = 0.0
    seen = set()
    for view, keys in enumerate(plan.views.keys):
        share, channel = float(plan.views.shares[view]), plan.view_channels[view]
        if len(keys) < 2 or (id(channel), share) in seen:
            continue
        seen.add((id(channel), share))
        query = Query("frequency", names[keys[0]], ((names[keys[1]], True),))
        if foreseen is not None:
            variance = foreseen.variance(query) or 0.0
        elif plan.mechanism.name == "coefficients":
            return None  # a view tells one product of a few keys, not how they go together
        else:
            flat = lifted(query_weights(plan.schema, query), keys[:2], keys, levels)
            variance = query_variance(channel, prior_law(levels, len(keys)), flat) / (people * share)
        worst = max(worst, sqrt(variance))
    return worst or None


def _better(plan: Plan, people: int, epsilon: str) -> bool:
    if Decimal(epsilon) <= plan.promised:
        return False
    other = Plan.of(plan.schema, plan.mechanism_name, epsilon, plan.calibrate, **plan.parameters)
    stderr = _stderr(other, people)
    return stderr is not None and stderr <= HOPELESS
