"""Side part: whether it pays to ask some people only for one held value, without its key.

On sparse tables, most of the error of means is that of the mean of all keys together. A small share of
people who tell the sign of one held value (``sign``) know it far better. Fewer people are left for the
keys, so frequencies lose a little. Both are in the predicted score of the plan of parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from .key_scores import KeyScores, key_scores
from .options import Option, cost_among, scored
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
    for plan in _with_shares(chosen.plan):
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

    The average score over beliefs must fall by ``GAIN``. If none is likelier than another, the worst
    regret must not rise. Where values lie is not known either, unless it was stated: under each belief
    the score is averaged over values around the middle of their range and near one end. Told nothing,
    the largest share is taken of those whose averages predictions cannot tell apart: it costs little,
    and gains most if values lie near one end.
    """
    chosen = options[0]
    if not may_gain(chosen.plan, ask):
        return tuple(options)
    weights, before = beliefs.weights, np.array(chosen.regrets)
    best, least = chosen, 1.0 / GAIN
    priors = beliefs.priors
    if beliefs.mean is None:
        priors = (*priors, *(_near_end(chosen.plan, prior, beliefs) for prior in priors))
    compared = SideComparison(chosen.plan, people, ask, priors)
    for plan in _with_shares(chosen.plan):
        ratios = compared.ratios(plan, before, safe=weights is None)
        if ratios is None:
            continue
        average = float(np.exp(np.average(np.log(ratios), weights=weights)))
        regrets = before * ratios
        scores = key_scores(plan, people, beliefs.prior)
        alike = GAIN if weights is None and best is not chosen else 1.0
        if average <= alike * least and scores is not None:
            score = float(regrets.max()) if weights is None else chosen.score * average
            best = _with_regrets(chosen, plan, regrets, scores, score)
            least = min(least, average)
    return tuple(options) if best is chosen else (best, *options)


def _near_end(plan: Plan, prior: Prior, beliefs: Beliefs) -> Prior:
    """The same belief with values near the upper end of their range."""
    mean = Scale.of(plan.schema).value(OFF)
    return Prior.of(plan.schema, mean=mean, spread=beliefs.spread, sizes=prior.sizes)


class SideComparison:
    """Plans with a side part against the plan without, under each belief."""

    def __init__(self, plan: Plan, people: int, ask: str, priors: Sequence[Prior]) -> None:
        self._plan, self._people, self._ask, self._priors = plan, people, ask, priors
        self._kvue = kept_plan(plan.schema, "kvue", plan.promised, {})
        self._base: dict[int, EstimatorErrors] = {}
        self._plain: dict[int, float] = {}

    def ratios(self, plan: Plan, before: Floats, *, safe: bool) -> Floats | None:
        """The score of a plan over that of the plan without a side part, under each belief.

        ``before`` are the regrets of the latter. If the plan must be ``safe``, None as soon as its
        regret is above the largest of those: beliefs with large regrets are compared first.
        """
        ratios = np.empty(len(before))
        for belief in np.argsort(-before, kind="stable").tolist():
            places = range(belief, len(self._priors), len(before))
            ratios_there = np.array([self._ratio(plan, place) for place in places])
            ratios[belief] = np.exp(np.log(ratios_there).mean())
            if safe and before[belief] * ratios[belief] > before.max():
                return None
        return ratios

    def _ratio(self, plan: Plan, place: int) -> float:
        if place not in self._base:
            self._base[place] = self._errors(self._kvue, place)
            same = self._plan == self._kvue
            plain = self._base[place] if same else self._errors(self._plan, place)
            self._plain[place] = self._score(plain, place)
        return self._score(self._errors(plan, place), place) / self._plain[place]

    def _errors(self, plan: Plan, place: int) -> EstimatorErrors:
        return penalised_errors(plan, self._people, self._priors[place], BELIEF_SHARE)

    def _score(self, errors: EstimatorErrors, place: int) -> float:
        base = self._base[place]
        return scored(self._ask, errors.frequency / base.frequency, errors.mean / base.mean)


def _with_regrets(
    chosen: Option, plan: Plan, regrets: Floats, scores: KeyScores, score: float
) -> Option:
    """The option with a side part; its people factors grow as fewer people are left for the keys."""
    assert plan.parts is not None
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


def _with_shares(plan: Plan) -> Iterator[Plan]:
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
