"""The last choice: options near each other, by the error that their answers will have.

What shrinkage leaves is reckoned in closed form for all options (``options``), which is quick, and
misses it by a tenth or two where keys are few or lost in noise. Mechanisms that are near the best by
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
NEARER, FARTHER = 0.5, 0.2
"""The share of draws that the last choice takes, and that mechanisms take which are only shown."""


class Answered(NamedTuple):
    """The estimator that is predicted to serve better, and its mean squared errors."""

    estimator: str
    frequency: float
    mean: float


def answered(plan: Plan, people: int, ask: str, prior: Prior, share: float = 1.0) -> Answered:
    """Shrunk across keys where that is predicted to pay, else each key by itself.

    Where keys' own reports tell enough, what all have in common adds next to nothing; and keys whose
    law is far from any that shrinkage knows may even lose by it. Means are then corrected for the
    ratio's bias, where the plan has that estimator. ``share`` of the draws are made.
    """
    first, *others = estimators_of(plan)
    alone = CORRECTED if CORRECTED in others and ask != "frequency" else first
    told = forecast(plan, people, prior)
    held = prior.weight * (prior.frequency > 0)
    raw = prior.weight @ told.clipped_frequency(prior), held @ told.clipped_mean(prior) / held.sum()
    if SHRUNK not in others or len(plan.schema.keys) < FEWEST:
        return Answered(alone, *map(float, raw))
    shrunk = shrunk_errors(plan, told, people, prior, share)
    parts = {"frequency": (0,), "mean": (1,)}.get(ask, (0, 1))
    ratio = np.mean([shrunk[part] / raw[part] for part in parts])
    return Answered(SHRUNK, *shrunk) if ALIKE * ratio < 1 else Answered(alone, *map(float, raw))


def settled(
    options: Sequence[Option],
    schema: Schema,
    epsilon: Decimal,
    people: int,
    ask: str,
    prior: Prior,
    brief: bool = False,
) -> tuple[Option, ...]:
    """Options for single keys, those that are near the best compared by draws, best first again.

    Of each mechanism its first option is looked at; its others go with it. KVUE is always near: nothing
    that is worse is chosen. Mechanisms that are not
    near get their error from fewer draws, or if ``brief`` from none; they are not chosen.
    """
    cost, first = cost_among(options), dict[str, Option]()
    for option in options:
        first.setdefault(option.mechanism, option)
    waiting, found = list(first.values()), dict[str, tuple[str | None, float]]()
    base = _with_cap(made_tight(schema, "kvue", epsilon, {}), people, ask, prior, NEARER)

    def look(option: Option, share: float) -> tuple[str | None, float]:
        """The better estimator, and the score with it over the score in closed form."""
        same = option.mechanism == "kvue"
        made = base if same else _with_cap(option.plan, people, ask, prior, share)
        score = scored(ask, made.frequency / base.frequency, made.mean / base.mean)
        return made.estimator if share == NEARER else None, score / option.score

    while waiting and len(found) < MOST:
        option, *waiting = waiting
        found[option.mechanism] = look(option, NEARER)
        best = min(cost(first[name]) * ratio for name, (_, ratio) in found.items())
        # All may be off to the same side, as the first one is.
        side = min(1.0, next(iter(found.values()))[1])
        waiting = [other for other in waiting if cost(other) * side <= NEAR * best]
    if "kvue" in first:
        found.setdefault("kvue", look(first["kvue"], NEARER))
    near = set(found)
    if not brief:
        found |= {name: look(option, FARTHER) for name, option in first.items() if name not in near}
    made = []
    for option in options:
        estimator, ratio = found.get(option.mechanism, (None, 1.0))
        own = estimator if first[option.mechanism] is option else None
        made.append(replace(option, score=option.score * ratio, estimator=own))
    chosen = ordered([option for option in made if option.mechanism in near])[0]
    return chosen, *ordered([option for option in made if option is not chosen], simple=False)


def _with_cap(plan: Plan, people: int, ask: str, prior: Prior, share: float) -> Answered:
    """The better estimator's errors, what a cap leaves out counted as ``options`` does."""
    made = answered(plan, people, ask, prior, share)
    off = float(prior.weight @ forecast(plan, people, prior).bias[:, 0] ** 2)
    return made._replace(frequency=made.frequency + (BIAS - 1) * off)
