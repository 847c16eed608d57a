"""The last choice: options near each other, by the error that their answers will have.

What shrinkage leaves is reckoned in closed form for all options (``options``), which is quick, and
misses it by a tenth or two where keys are few or lost in noise. That is enough to find a mechanism's
parameters. Mechanisms are compared by the estimator itself, on fixed draws of what each forecast says.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from ..estimate import estimators_of
from ..estimate.forecast.by_draws import forecast_by_draws
from ..estimate.forecast.key_forecast import forecast
from ..estimate.forecast.result import Forecast
from ..estimate.shrink.shrinkage import FEWEST
from ..people.prior import Prior
from ..people.schema import Schema
from ..plan.plan import Plan
from .options import (
    ALIKE,
    CORRECTED,
    SHRUNK,
    Option,
    cap_counts_more,
    cost_among,
    made_tight,
    ordered,
    scored,
)

FAR = 2.0
"""Mechanisms whose error in closed form is beyond this factor of the least are not drawn for."""
NEAR = 1.15
"""Mechanisms whose errors lie within this factor by a few draws are compared by more of them."""
MOST = 6
"""So many of them at most."""
FARTHER, NEARER = 0.2, 1.0
"""The share of draws that the first look takes, and the second."""
TRUST = 0.5
"""How far the first look moves errors from the closed form: of many rough numbers the least is luck."""


class EstimatorScores(NamedTuple):
    """The estimator that is predicted to serve better, and its mean squared errors."""

    estimator: str
    frequency: float
    mean: float


def answered(
    plan: Plan, told: Forecast, people: int, ask: str, prior: Prior, share: float = 1.0
) -> EstimatorScores:
    """Shrunk across keys where that is predicted to pay, else each key by itself.

    Where keys' own reports tell enough, what all have in common adds next to nothing; and keys whose
    law is far from any that shrinkage knows may even lose by it. Means are then corrected for the
    ratio's bias, unless clipping takes more of it off. ``share`` of the draws are made.
    """
    first, *others = estimators_of(plan)
    alone = EstimatorScores(first, *told.errors())
    drawn = [name for name in (CORRECTED,) if name in others and ask != "frequency"]
    if SHRUNK in others and len(plan.schema.keys) >= FEWEST:
        drawn.append(SHRUNK)
    found = forecast_by_draws(plan, told, people, drawn, share) if drawn else {}
    if CORRECTED in found and found[CORRECTED][1] < alone.mean:
        alone = EstimatorScores(CORRECTED, alone.frequency, found[CORRECTED][1])
    if SHRUNK not in found:
        return alone
    of_f, of_m = found[SHRUNK][0] / alone.frequency, found[SHRUNK][1] / alone.mean
    ratio = {"frequency": of_f, "mean": of_m}.get(ask, (of_f + of_m) / 2)
    return EstimatorScores(SHRUNK, *found[SHRUNK]) if ALIKE * ratio < 1 else alone


def settled(
    options: Sequence[Option], schema: Schema, epsilon: Decimal, people: int, ask: str, prior: Prior
) -> tuple[Option, ...]:
    """Options for single keys once more, by draws: best first again.

    Of each mechanism its first option is looked at; its others go with it. Those that are not far are
    looked at by a few draws; those that are near the best by these, and KVUE, by more of them, and one
    of these is chosen.
    """
    first: dict[str, Option] = {}
    for option in options:
        first.setdefault(option.mechanism, option)
    kvue = made_tight(schema, "kvue", epsilon, {})

    def looked_at(share: float, names: Collection[str]) -> dict[str, tuple[float, str]]:
        """Each mechanism's score over what it is in closed form, and its better estimator."""
        base = _with_cap(kvue, people, ask, prior, share)
        made = {}
        for name in names:
            plan = first[name].plan
            one = base if name == "kvue" else _with_cap(plan, people, ask, prior, share)
            score = scored(ask, one.frequency / base.frequency, one.mean / base.mean)
            made[name] = score / first[name].score, one.estimator
        return made

    cost = cost_among(options)
    least = min(map(cost, first.values()))
    some = [name for name, option in first.items() if name == "kvue" or cost(option) <= FAR * least]
    found = looked_at(FARTHER, some)
    costs = {name: cost(first[name]) * ratio**TRUST for name, (ratio, _) in found.items()}
    best = min(costs.values())
    near = [name for name in sorted(costs, key=costs.__getitem__) if costs[name] <= NEAR * best][:MOST]
    if "kvue" in first and "kvue" not in near:
        near.append("kvue")
    again = looked_at(NEARER, near)
    # More draws move all to the same side; what was not drawn again goes with them.
    moved = [np.log(again[name][0] / found[name][0]) for name in near if name != "kvue"]
    side = float(np.exp(np.mean(moved))) if moved else 1.0
    found = {name: (side * ratio, estimator) for name, (ratio, estimator) in found.items()}
    found |= again
    made = []
    for option in options:
        ratio, estimator = found.get(option.mechanism, (side, None))
        own = option.mechanism in near and first[option.mechanism] is option
        made.append(replace(option, score=option.score * ratio, estimator=estimator if own else None))
    chosen = ordered([option for option in made if option.mechanism in near])[0]
    return chosen, *ordered([option for option in made if option is not chosen], simple=False)


def _with_cap(plan: Plan, people: int, ask: str, prior: Prior, share: float) -> EstimatorScores:
    """The better estimator's errors, what a cap leaves out counted as ``options`` does."""
    told = forecast(plan, people, prior)
    made = answered(plan, told, people, ask, prior, share)
    more = float(prior.weight @ cap_counts_more(prior, told))
    return made._replace(frequency=made.frequency + more)
