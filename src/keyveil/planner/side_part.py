"""Side part: whether it pays to ask some people only for one held value, without its key.

On sparse tables, most of the error of means is that of the mean of all keys together. A small share of
people who tell the sign of one held value (``sign``) know it far better. Fewer people are left for the
keys, so frequencies lose a little. Both are in the predicted score of the plan of parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..estimate import DEFAULT, default_estimator
from ..estimate.shrink.shrinkage import FEWEST
from ..foundation.arrays import Floats
from ..foundation.errors import ChannelError, PlanError
from ..people.beliefs import Beliefs
from ..people.prior import Prior
from ..people.scale import Scale
from ..plan.plan import Plan
from .final_choice import EstimatorErrors, KnownErrors, penalised_errors
from .helpful_fact import OFF
from .key_scores import key_scores
from .options import Option, cost_among, scored
from .robust import NEAR_WORST
from .tight_plans import kept_plan

SHARES = ("0.05", "0.1", "0.2")
"""The shares of people for the side question that are tried."""
GAIN = 1.05
"""The factor by which the predicted score must fall, because predictions are not more exact."""
BELIEF_SHARE = 0.25
"""The share of the usual number of draws under each of several beliefs."""
ALL_DRAWS = 1.0
"""The share of draws if there is one prior."""
SIDE = "sign"
"""The mechanism of the side question."""


def with_side_part(
    options: Sequence[Option], people: int, ask: str, prior: Prior, known: KnownErrors | None = None
) -> tuple[Option, ...]:
    """The options, best first, after a plan of parts: the first option with a side part, if it pays.

    Its predicted mean must gain by itself: fewer people cannot improve frequencies, and a gain there is
    chance. ``known`` are errors that the choice has simulated already.
    """
    chosen = options[0]
    if not may_gain(chosen.plan, ask):
        return tuple(options)
    kvue = kept_plan(chosen.plan.schema, "kvue", chosen.plan.promised, {})
    known = {} if known is None else known

    def errors_of(plan: Plan) -> EstimatorErrors:
        if (plan.hash, ALL_DRAWS) not in known:
            known[plan.hash, ALL_DRAWS] = penalised_errors(plan, people, prior)
        return known[plan.hash, ALL_DRAWS]

    base, plain = errors_of(kvue), errors_of(chosen.plan)

    def score(errors: EstimatorErrors) -> float:
        return scored(ask, errors.frequency / base.frequency, errors.mean / base.mean)

    tried = []
    for plan in with_shares(chosen.plan):
        scores, errors = key_scores(plan, people, prior), errors_of(plan)
        if scores is not None and GAIN * errors.mean <= plain.mean:
            total = chosen.score * score(errors) / score(plain)
            tried.append(Option(plan, *scores.raw, total, scores.people_factors[ask], DEFAULT))
    cost = cost_among(options)
    best = min(tried, key=cost, default=chosen)
    return (best, *options) if GAIN * cost(best) <= cost(chosen) else tuple(options)


def with_side_part_over_beliefs(
    options: Sequence[Option], people: int, ask: str, beliefs: Beliefs
) -> tuple[Option, ...]:
    """The same if several beliefs are possible.

    Where values lie is not known either, unless it was stated: each belief is then judged by values
    around the middle of their range, and by values near one end. The average score over all of these
    must fall by ``GAIN``. Told nothing, the choice is by regret; see ``_least_regret``.
    """
    chosen = options[0]
    if not may_gain(chosen.plan, ask):
        return tuple(options)
    priors = beliefs.priors
    if beliefs.mean is None:
        priors = (*priors, *(_near_end(chosen.plan, prior, beliefs) for prior in priors))
    plans, ratios = [chosen.plan], [np.ones(len(priors))]
    for plan, ratio in score_ratios(chosen.plan, people, ask, priors):
        if key_scores(plan, people, beliefs.prior) is not None:
            plans.append(plan)
            ratios.append(ratio)
    by_belief = np.array(ratios).reshape(len(plans), -1, len(beliefs.priors))
    if beliefs.weights is None:
        return _least_regret(options, plans, by_belief, people, beliefs.prior)
    logs = np.log(by_belief).mean(axis=1)
    averages = np.exp(np.average(logs, axis=1, weights=beliefs.weights))
    best = int(np.argmin(averages))
    if GAIN * averages[best] > 1.0:
        return tuple(options)
    regrets = np.array(chosen.regrets) * np.exp(logs[best])
    score = chosen.score * float(averages[best])
    return (_with_regrets(chosen, plans[best], regrets, people, beliefs.prior, score), *options)


def _least_regret(
    options: Sequence[Option], plans: Sequence[Plan], ratios: Floats, people: int, prior: Prior
) -> tuple[Option, ...]:
    """The options after the plan whose share of people for the side question has the least regret.

    ``ratios`` ``(plans, places of values, beliefs)`` are scores over that of the first plan, which has
    no side part. The regret of a plan is relative to the best of them under the same belief. Shares
    whose worst regrets are within ``NEAR_WORST`` of the smallest, and whose averages predictions cannot
    tell apart, are alike: the largest is taken, because it costs little and gains most if values lie
    near one end. All options then have regrets relative to plans with a side part.
    """
    least = ratios.min(axis=0)
    regrets = np.array(options[0].regrets) * ratios / least
    worst = regrets.max(axis=(1, 2))
    averages = np.exp(np.log(regrets).mean(axis=(1, 2)))
    pays = (GAIN * averages <= averages[0]) & (worst <= worst[0])
    near = np.flatnonzero(pays & (worst <= NEAR_WORST * worst.min()))
    if not len(near):
        return tuple(options)
    best = int(near[averages[near] <= GAIN * averages[near].min()][-1])
    own = regrets[best].max(axis=0)
    others = []
    for option in options:
        after = (np.array(option.regrets) / least).max(axis=0)
        others.append(replace(option, regrets=tuple(after.tolist()), score=float(after.max())))
    return (_with_regrets(options[0], plans[best], own, people, prior, float(own.max())), *others)


def _near_end(plan: Plan, prior: Prior, beliefs: Beliefs) -> Prior:
    """The same belief with values near the upper end of their range."""
    mean = Scale.of(plan.schema).value(OFF)
    return Prior.of(plan.schema, mean=mean, spread=beliefs.spread, sizes=prior.sizes)


def score_ratios(
    plan: Plan, people: int, ask: str, priors: Sequence[Prior]
) -> Iterator[tuple[Plan, Floats]]:
    """Each plan with a side part, and its score over that of ``plan`` under each belief."""
    kvue = kept_plan(plan.schema, "kvue", plan.promised, {})

    def errors_of(other: Plan) -> list[EstimatorErrors]:
        return [penalised_errors(other, people, prior, BELIEF_SHARE) for prior in priors]

    base = errors_of(kvue)
    plain = base if plan == kvue else errors_of(plan)

    def scores(errors: Sequence[EstimatorErrors]) -> Floats:
        pairs = zip(errors, base, strict=True)
        return np.array([scored(ask, e.frequency / b.frequency, e.mean / b.mean) for e, b in pairs])

    for longer in with_shares(plan):
        yield longer, scores(errors_of(longer)) / scores(plain)


def _with_regrets(
    chosen: Option, plan: Plan, regrets: Floats, people: int, prior: Prior, score: float
) -> Option:
    """The option with a side part; its people factors grow as fewer people are left for the keys."""
    scores = key_scores(plan, people, prior)
    assert plan.parts is not None
    assert scores is not None
    left = plan.parts[0].share
    return Option(
        plan,
        *scores.raw,
        score,
        chosen.people_factor / left,
        DEFAULT,
        tuple(regrets.tolist()),
        tuple(factor / left for factor in chosen.people_factors),
    )


def may_gain(plan: Plan, ask: str) -> bool:
    """Whether means are asked for, and the default answers of the plan use a side question."""
    return (
        ask != "frequency"
        and not any(own.mechanism_name == SIDE for own in plan.part_plans)
        and plan.chain is None
        and "mean" in plan.mechanism.answers
        and len(plan.schema.keys) >= FEWEST
        and default_estimator(plan) == DEFAULT
    )


def with_shares(plan: Plan) -> Iterator[Plan]:
    """The plan with each share of people for the side question, if there is such a plan."""
    try:
        side = Plan.of_document(plan.schema, SIDE, plan.promised, plan.calibrate, {})
        for share in SHARES:
            if plan.parts is None:
                yield Plan.of_parts([(None, plan), (share, side)])
            else:
                listed = {"parts": f"{plan.parameters['parts']}/{SIDE}@{share}"}
                yield Plan.of_document(plan.schema, "parts", plan.promised, plan.calibrate, listed)
    except (PlanError, ChannelError):
        return
