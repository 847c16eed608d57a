"""The last choice: options near each other, by the error that their answers will have.

What shrinkage leaves is reckoned in closed form for all options (``options``), which is quick, and
misses it by a tenth or two where keys are few or lost in noise. Mechanisms that are near each other by
that are compared once more, by the estimator itself on fixed draws of what each forecast says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from .estimate import estimators_of
from .estimate.forecast import forecast
from .estimate.shrink import FEWEST
from .estimate.shrinkforecast import shrunk_errors
from .options import ALIKE, BIAS, CORRECTED, SHRUNK, Option, cost_among, made_tight, ordered, scored
from .plan import Plan
from .prior import Prior
from .schema import Schema

NEAR = 1.3
"""Of mechanisms whose predicted errors lie within this factor the better one is found by draws."""
MOST = 4
"""So many of them at most."""


class Answered(NamedTuple):
    """The estimator that is predicted to serve better, and its mean squared errors."""

    estimator: str
    frequency: float
    mean: float


def answered(plan: Plan, people: int, ask: str, prior: Prior) -> Answered:
    """Shrunk across keys where that is predicted to pay, else each key by itself.

    Where keys' own reports tell enough, what all have in common adds next to nothing; and keys whose
    law is far from any that shrinkage knows may even lose by it. Means are then corrected for the
    ratio's bias, where the plan has that estimator.
    """
    first, *others = estimators_of(plan)
    alone = CORRECTED if CORRECTED in others and ask != "frequency" else first
    told = forecast(plan, people, prior)
    held = prior.weight * (prior.frequency > 0)
    raw = prior.weight @ told.clipped_frequency(prior), held @ told.clipped_mean(prior) / held.sum()
    if SHRUNK not in others or len(plan.schema.keys) < FEWEST:
        return Answered(alone, *map(float, raw))
    shrunk = shrunk_errors(plan, told, people, prior)
    parts = {"frequency": (0,), "mean": (1,)}.get(ask, (0, 1))
    ratio = np.mean([shrunk[part] / raw[part] for part in parts])
    return Answered(SHRUNK, *shrunk) if ALIKE * ratio < 1 else Answered(alone, *map(float, raw))


def settled(
    options: Sequence[Option], schema: Schema, epsilon: Decimal, people: int, ask: str, prior: Prior
) -> tuple[Option, ...]:
    """Options for single keys, those that are near the best compared by draws, best first again.

    Of each mechanism its first option is looked at; its others go with it.
    """
    cost, first = cost_among(options), dict[str, Option]()
    for option in options:
        first.setdefault(option.mechanism, option)
    waiting, found = list(first.values()), dict[str, Answered]()
    if len(waiting) < 2 or cost(waiting[1]) > NEAR * cost(waiting[0]):
        return tuple(options)
    base = _with_cap(made_tight(schema, "kvue", epsilon, {}), people, ask, prior)
    ratios: dict[str, float] = {}
    while waiting and len(found) < MOST:
        option, *waiting = waiting
        name = option.mechanism
        made = base if name == "kvue" else _with_cap(option.plan, people, ask, prior)
        found[name] = made
        score = scored(ask, made.frequency / base.frequency, made.mean / base.mean)
        ratios[name] = score / option.score
        best = min(cost(first[other]) * ratio for other, ratio in ratios.items())
        # All may be off to the same side, as the first one is.
        side = min(1.0, next(iter(ratios.values())))
        waiting = [other for other in waiting if cost(other) * side <= NEAR * best]
    return ordered(
        [
            replace(
                option,
                score=option.score * ratios.get(option.mechanism, 1.0),
                estimator=found[option.mechanism].estimator
                if option.mechanism in found and first[option.mechanism] is option
                else None,
            )
            for option in options
        ]
    )


def _with_cap(plan: Plan, people: int, ask: str, prior: Prior) -> Answered:
    """The better estimator's errors, what a cap leaves out counted as ``options`` does."""
    made = answered(plan, people, ask, prior)
    off = float(prior.weight @ forecast(plan, people, prior).bias[:, 0] ** 2)
    return made._replace(frequency=made.frequency + (BIAS - 1) * off)
