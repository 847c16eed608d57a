"""The final choice among options: by the error of the estimator itself, on simulated draws.

``options`` predicts what shrinkage leaves in closed form. That is quick, and off by a tenth or two where
keys are few or lost in noise: good enough to find a mechanism's parameters, but not to choose between
mechanisms. Those are compared by running the estimator on fixed draws of each plan's forecast.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from ..estimate import default_estimator
from ..estimate.forecast.by_draws import DRAWN_ESTIMATORS, forecast_by_draws
from ..estimate.forecast.key_forecast import forecast
from ..estimate.forecast.predicted_error import Forecast
from ..people.prior import Prior
from ..people.schema import Schema
from ..plan.plan import Plan
from .key_scores import cap_penalty
from .options import Option, cost_among, ordered, scored
from .tight_plans import kept_plan

FAR = 2.0
"""Mechanisms with an error in closed form beyond this factor of the least are not simulated."""
NEAR = 1.15
"""Mechanisms with an error within this factor of the least get a second simulation, with more draws."""
MOST = 6
"""The most mechanisms that are simulated a second time."""
FIRST_SHARE, SECOND_SHARE = 0.2, 1.0
"""The shares of the usual number of draws in the two simulations."""
TRUST = 0.5
"""Weight of the first simulation against the closed form. Below 1, because the smallest of many noisy
estimates is biased low."""


class EstimatorErrors(NamedTuple):
    """An estimator, and its predicted mean squared errors averaged over keys."""

    estimator: str
    frequency: float
    mean: float


def default_errors(plan: Plan, predicted: Forecast, people: int, share: float = 1.0) -> EstimatorErrors:
    """The predicted errors of the plan's default estimator, which is what its answers will have.

    ``share`` is the part of the usual number of draws to make.
    """
    name = default_estimator(plan)
    if name not in DRAWN_ESTIMATORS:
        return EstimatorErrors(name, *predicted.errors())
    return EstimatorErrors(name, *forecast_by_draws(plan, predicted, people, (name,), share)[name])


def penalised_errors(
    plan: Plan, people: int, prior: Prior, share: float = 1.0, cap_weight: float | None = None
) -> EstimatorErrors:
    """The same from the plan's forecast under a prior, with the penalty for a cap in the frequency."""
    predicted = forecast(plan, people, prior)
    errors = default_errors(plan, predicted, people, share)
    penalty = float(prior.weight @ cap_penalty(prior, predicted, cap_weight))
    return errors._replace(frequency=errors.frequency + penalty)


KnownErrors = dict[tuple[str, float], EstimatorErrors]
"""Penalised errors by the hash of a plan and the share of draws, for one question and prior."""


class SimulatedScore(NamedTuple):
    """A mechanism's simulated score over the one in closed form, and its estimator."""

    ratio: float
    estimator: str | None


@dataclass(frozen=True)
class Simulation:
    """The first option of every mechanism, and the question that they are simulated for."""

    first: Mapping[str, Option]
    kvue: Plan
    people: int
    ask: str
    prior: Prior
    cap_weight: float | None = None
    """The weight of the squared bias of a cap; None for the prior's own."""
    known: KnownErrors = field(default_factory=dict, repr=False)
    """Errors that are simulated already; new ones are added."""

    def scores(self, share: float, names: Collection[str]) -> dict[str, SimulatedScore]:
        """The simulated scores of these mechanisms, by ``share`` of the usual number of draws."""
        base = self._errors(self.kvue, share)
        scores = {}
        for name in names:
            option = self.first[name]
            errors = base if name == "kvue" else self._errors(option.plan, share)
            score = scored(self.ask, errors.frequency / base.frequency, errors.mean / base.mean)
            scores[name] = SimulatedScore(score / option.score, errors.estimator)
        return scores

    def _errors(self, plan: Plan, share: float) -> EstimatorErrors:
        """The errors of the default estimator, with the penalty for a cap that ``options`` adds."""
        if (plan.hash, share) not in self.known:
            self.known[plan.hash, share] = penalised_errors(
                plan, self.people, self.prior, share, self.cap_weight
            )
        return self.known[plan.hash, share]


def choose_by_simulation(
    options: Sequence[Option],
    schema: Schema,
    epsilon: Decimal,
    people: int,
    ask: str,
    prior: Prior,
    known: KnownErrors | None = None,
) -> tuple[Option, ...]:
    """Options for single keys, best first, with scores by simulation.

    Each mechanism is simulated at its first option; its other options take over the change. Mechanisms
    that are not far from the best get a few draws. Those that are then near the best, and KVUE, get
    more, and the choice is among these. Errors that were simulated are added to ``known``.
    """
    first: dict[str, Option] = {}
    for option in options:
        first.setdefault(option.family, option)
    kvue = kept_plan(schema, "kvue", epsilon, {})
    simulation = Simulation(first, kvue, people, ask, prior, known={} if known is None else known)
    cost = cost_among(options)
    least = min(map(cost, first.values()))
    close = [name for name, option in first.items() if name == "kvue" or cost(option) <= FAR * least]
    scores = simulation.scores(FIRST_SHARE, close)
    near = _nearest({name: cost(first[name]) * score.ratio**TRUST for name, score in scores.items()})
    if "kvue" in first and "kvue" not in near:
        near.append("kvue")
    return _ranked(options, first, near, scores, simulation.scores(SECOND_SHARE, near))


def _nearest(costs: Mapping[str, float]) -> list[str]:
    """The mechanisms with a cost near the least, best first."""
    best = min(costs.values())
    return [name for name in sorted(costs, key=costs.__getitem__) if costs[name] <= NEAR * best][:MOST]


def _ranked(
    options: Sequence[Option],
    first: Mapping[str, Option],
    near: Sequence[str],
    few_draws: Mapping[str, SimulatedScore],
    many_draws: Mapping[str, SimulatedScore],
) -> tuple[Option, ...]:
    """Options with simulated scores: the best of the ``near`` mechanisms, then all others in order.

    More draws change all scores to the same side on average. Mechanisms without a second simulation get
    that average change.
    """
    changes = [np.log(many_draws[name].ratio / few_draws[name].ratio) for name in near if name != "kvue"]
    change = float(np.exp(np.mean(changes))) if changes else 1.0
    scores = {name: score._replace(ratio=change * score.ratio) for name, score in few_draws.items()}
    scores |= many_draws
    rescored = []
    for option in options:
        ratio, estimator = scores.get(option.family, SimulatedScore(change, None))
        own = option.family in near and first[option.family] is option
        rescored.append(
            replace(option, score=option.score * ratio, estimator=estimator if own else None)
        )
    chosen = ordered([option for option in rescored if option.family in near])[0]
    others = ordered([option for option in rescored if option is not chosen], simple=False)
    return chosen, *others
