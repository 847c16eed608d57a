"""Options: every plan that could be taken, with its predicted error, best first.

Plans are compared at equal proven epsilon, by the predicted error after shrinkage across keys (the
planner's own estimator). Shrinkage reduces an error v to v t^2 / (v + t^2), where t^2 is the variance
across keys, and adds the error of the common mean, which must itself be estimated. The *score* is the
squared error of the frequency plus that of the mean, each divided by KVUE's: KVUE has 2, less is better.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from ..estimate.forecast.cap_forecast import corrected_forecast, top_coverage
from ..estimate.forecast.key_forecast import forecast
from ..estimate.forecast.pair_forecast import forecast_pairs
from ..estimate.forecast.predicted_error import Errors, Forecast
from ..estimate.together.query import Query, split_queries
from ..foundation.arrays import Floats
from ..foundation.errors import ChannelError, PlanError
from ..mechanisms import REGISTRY
from ..mechanisms.sized import CAP_NAMES
from ..people.prior import Prior
from ..people.scale import Scale
from ..people.schema import Schema
from ..plan.encoding import MOST_CAP
from ..plan.plan import Plan
from .competitor import stated_parameters

CAP_SHARES = (0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
"""Caps and padding lengths to try: the numbers of keys that these shares of people do not exceed."""
SIZED_CAPS = (1, 2, 4, 8, 16, 32)
"""Caps to try if some people tell how many keys they hold, which corrects for what a cap leaves out."""
SIZE = "size"
"""The mechanism with which some people tell how many keys they hold."""
SIZE_SHARE = "0.05"
"""The share of people who are asked how many keys they hold."""
LEFT_OUT = 1e-6
"""The least share of held keys beyond a cap for which it pays to ask how many keys people hold."""
COVERED = 0.94
"""The least predicted coverage of each of the most held keys at a level of 95 %. Options that cover less
are not taken. It is above the 93 % that answers should have, because predictions are not exact."""
MOST_PAIRED = 12
"""The largest cap for mechanisms that report pairs of held keys: 78 items per person."""
MOST_TRIPLED = 24
"""The most keys for which views of three keys are an option for questions about two: 2,024 views."""
PUBLISHED = ("privkv", "f2m", "kvoh", "bisample")
"""Published mechanisms that are listed, though another option is always as good or better."""
MANY = 2_000_000
"""The number of people from which a larger pool of seeds is tried too."""
POOLS: tuple[dict[str, int], ...] = ({}, {"pool": 1 << 14})
"""Parameters for the pool. With many people the fixed error of a small pool can exceed the noise."""
LEAST_ACROSS = 1e-3
"""The least assumed variance of means across keys; without it shrinkage would make all plans alike."""
ANYWHERE_F, ANYWHERE_M = 1 / 12, 1 / 3
"""The variance of a uniform frequency on [0, 1], and of a uniform mean on [-1, 1]."""
CAP_WEIGHT, KNOWN_CAP_WEIGHT = 4.0, 2.0
"""Weight of the squared bias that a cap causes; the second one if a table gives its size. It is above 1
because neither more people nor shrinkage reduce that bias, and intervals do not include it."""
LOSS = 0.5
"""Penalty per unit by which a frequency or mean is worse than KVUE's, in units of KVUE's error."""
MOST_LOSS = 0.02
"""The largest penalty as a share of the score: it decides only between options near each other."""
ALIKE = 1.03
"""Options whose errors differ by less than this factor are alike: predictions are no more exact."""
SIMPLE = ("rr", "kvue", "pairs")
"""Simple mechanisms; the first of these is taken among options that are alike."""
TELLING = 0.1
"""A plan can answer if at least this share of its keys has a useful answer."""
SURE = 2.0
"""A useful frequency exceeds this many standard errors."""
COARSE = 0.5
"""The largest standard error of a useful mean, on [-1, 1]."""


@dataclass(frozen=True)
class Option:
    """A plan that could be taken, and its predicted error."""

    plan: Plan
    frequency: float
    """The mean squared error of frequencies before shrinkage, averaged over keys."""
    mean: float
    """The mean squared error of means on [-1, 1] before shrinkage, averaged over keys."""
    score: float
    """Errors after shrinkage relative to KVUE's, frequency plus mean; less is better."""
    people_factor: float
    """The factor of people that the plan needs to answer, to first order; above 1 if it cannot answer.
    ``Advice.factor`` refines it."""
    estimator: str | None = None
    """Its best estimator, if that was simulated."""
    regrets: tuple[float, ...] = ()
    """If nothing was known: under each belief, its score over the least score of any option. ``score``
    is then the largest of these, and ``people_factor`` the largest under any belief."""
    people_factors: tuple[float, ...] = ()
    """If nothing was known: the factor of people under each belief."""
    covered: float = 1.0
    """The predicted coverage of the frequency that is covered least among the most held keys."""

    @property
    def mechanism(self) -> str:
        return self.plan.mechanism_name

    @property
    def family(self) -> str:
        """The mechanism; of a plan of parts, those of all parts, like ``pckv_grr+size``."""
        return family_of(self.mechanism, self.plan.parameters)

    @property
    def cost(self) -> float:
        """The score, times the factor by which standard errors are too large to answer."""
        return self.score * sqrt(max(1.0, self.people_factor))

    @property
    def name(self) -> str:
        """The mechanism with the parameters that are not at their default, on the values' scale.

        A plan of parts has the names of all, from the second on with their shares of people.
        """
        if self.plan.parts is None:
            return _plan_name(self.plan)
        first, *others = self.plan.parts
        words = [f"{_plan_name(part.plan)} {100 * part.share:.3g} %" for part in others]
        return " + ".join([_plan_name(first.plan), *words])

    def document(self) -> dict[str, Any]:
        """As JSON; the mean's error and parameters are on the scale of the plan's values."""
        half = Scale.of(self.plan.schema).half
        return {
            "mechanism": self.mechanism,
            "parameters": self.plan.parameters_on_scale,
            "proven_epsilon": float(self.plan.proven),
            "mse_frequency": _number(self.frequency),
            "mse_mean": _number(self.mean * half**2),
            "score": _number(self.score),
            "bits_per_report": round(self.plan.bits_per_report, 4),
            "answers": self.people_factor <= 1,
        }


def family_of(mechanism: str, parameters: Mapping[str, Any]) -> str:
    """The name of a mechanism without its parameters; of parts, the names of all."""
    if "parts" not in parameters:
        return mechanism
    names = [part.partition("@")[0].partition(":")[0] for part in str(parameters["parts"]).split("/")]
    return "+".join(names)


def _plan_name(plan: Plan) -> str:
    """The name of a plan without parts."""
    words = [
        f"{name} {value}" if name != "queries" else _number_of(str(value))
        for name, value in stated_parameters(plan).items()
    ]
    return f"{plan.mechanism_name} ({', '.join(words)})" if words else plan.mechanism_name


def _number_of(queries: str) -> str:
    """How many queries, for a name that is short however many there are."""
    many = len(split_queries(queries))
    return f"{many} queries" if many > 1 else queries.strip()


def options_for(
    schema: Schema,
    epsilon: Decimal,
    people: int,
    ask: str,
    queries: tuple[Query, ...],
    prior: Prior,
    only: Collection[str] | None = None,
) -> tuple[Option, ...]:
    """Options, best first; for single keys, ``only`` those of some families, which saves time."""
    if ask == "conditional":
        return _conditional_options(schema, epsilon, people, queries, prior)
    base = key_scores(tight_plan(schema, "kvue", epsilon, {}), people, prior)
    assert base is not None
    options = []
    for mechanism, parameters in candidates(epsilon, ask, prior, people):
        if only is not None and family_of(mechanism, parameters) not in only:
            continue
        try:
            plan = tight_plan(schema, mechanism, epsilon, parameters)
        except (PlanError, ChannelError):
            continue  # not available for this schema and epsilon
        scores = key_scores(plan, people, prior)
        if scores is None or scores.covered < COVERED:
            continue
        ratios = (own / kvue for own, kvue in zip(scores.shrunk, base.shrunk, strict=True))
        score = scored(ask, *ratios)
        if np.isfinite(score):
            options.append(Option(plan, *scores.raw, float(score), scores.people_factors[ask]))
    if not options:
        raise PlanError("no mechanism can be planned here; take fewer keys")
    return ordered(options)


def scored(ask: str, of_f: float, of_m: float) -> float:
    """The score, from errors of frequency and mean relative to KVUE's; KVUE has 2."""
    loss = max(0.0, of_f - 1.0) + max(0.0, of_m - 1.0)
    both = of_f + of_m
    penalty = min(LOSS * loss, MOST_LOSS * both)
    return {"both": both + penalty, "frequency": 2 * of_f}.get(ask, 2 * of_m)


def ordered(options: list[Option], *, simple: bool = True) -> tuple[Option, ...]:
    """Options, best first; if ``simple``, a simple one comes before all that are hardly better."""
    cost = cost_among(options)
    ranked = sorted(options, key=lambda option: (cost(option), option.score))
    for name in SIMPLE if simple else ():
        for place, option in enumerate(ranked):
            if option.mechanism == name and cost(option) <= ALIKE * cost(ranked[0]):
                return (option, *ranked[:place], *ranked[place + 1 :])
    return tuple(ranked)


def cost_among(options: Collection[Option]) -> Callable[[Option], float]:
    """What options are ordered by: their cost if any can answer, their score if none can."""
    answerable = any(option.people_factor <= 1 for option in options)
    return lambda option: option.cost if answerable else option.score


def tight_plan(schema: Schema, mechanism: str, epsilon: Decimal, parameters: Mapping[str, Any]) -> Plan:
    """The mechanism's plan that proves all of epsilon; parameters are those of its document."""
    return Plan.of_document(schema, mechanism, epsilon, "tight", parameters)


def candidates(
    epsilon: Decimal, ask: str, prior: Prior, people: int = 0
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Mechanisms to compare for single keys, with the parameters of their documents."""
    if ask == "frequency":
        yield "rr", {}
    from ..channel.design.value_channels import candidates as singles

    yield from singles(epsilon, prior)
    yield from ((mechanism, {}) for mechanism in PUBLISHED)
    for mechanism, called in CAP_NAMES.items():
        pools = POOLS if people >= MANY and "pool" in REGISTRY[mechanism].parameters else ({},)
        for cap, pool in product(caps(prior), pools):
            yield mechanism, {called: cap, **pool}
        for cap, pool in product(_sized_caps(prior), pools):
            given = "+".join(f"{name}={value}" for name, value in {called: cap, **pool}.items())
            yield "parts", {"parts": f"{mechanism}:{given}/{SIZE}@{SIZE_SHARE}"}


def _sized_caps(prior: Prior) -> list[int]:
    """Caps to compare if some people tell how many keys they hold; each leaves some keys out."""
    tried = (cap for cap in SIZED_CAPS if cap < min(prior.quantile(1.0), prior.keys))
    return [cap for cap in tried if prior.kept(cap) < 1.0 - LEFT_OUT]


def caps(prior: Prior) -> list[int]:
    """Caps on the keys of a person to compare."""
    most = min(MOST_CAP, prior.keys)
    return sorted({min(max(1, prior.quantile(share)), most) for share in CAP_SHARES})


class KeyScores(NamedTuple):
    """Predicted errors of a plan for single keys, averaged over keys, and what it needs to answer."""

    raw: Errors
    """Before shrinkage, clipped to the range."""
    shrunk: Errors
    """After shrinkage, in closed form, with the penalty for a cap."""
    people_factors: dict[str, float]
    """The factor of people that the plan needs to answer, for each thing that may be asked."""
    covered: float
    """The predicted coverage of the frequency that is covered least among the most held keys."""


def key_scores(
    plan: Plan, people: int, prior: Prior, cap_weight: float | None = None
) -> KeyScores | None:
    """The predicted errors and people factors of a plan for single keys; None without a forecast."""
    try:
        predicted = forecast(plan, people, prior)
    except PlanError:
        return None
    across_f, across_m = prior.across()
    weight = prior.weight
    off_f, off_m = float(weight @ prior.frequency) - 0.5, float(weight @ prior.mean)
    corrected = corrected_forecast(predicted)
    noise, count = corrected.noise.covariance[:, 0, 0], prior.count
    shrunk_f = _shrunk(noise, max(across_f, 1e-12), count, (ANYWHERE_F, off_f), predicted.together)
    shrunk_m = _shrunk(predicted.mean, max(across_m, LEAST_ACROSS), count, (ANYWHERE_M, off_m))
    shrunk_f = shrunk_f + corrected.noise.bias[:, 0] ** 2 + corrected.unknown
    shrunk_f = shrunk_f + cap_penalty(prior, predicted, cap_weight)
    whole = corrected.whole
    raw = whole.clipped_frequency, whole.clipped_mean
    return KeyScores(
        Errors(*(float(weight @ error) for error in raw)),
        Errors(*(float(weight @ error) for error in (shrunk_f, shrunk_m))),
        people_factors(corrected.noise, prior, corrected.unknown),
        top_coverage(predicted, corrected),
    )


def cap_penalty(prior: Prior, predicted: Forecast, weight: float | None = None) -> Floats:
    """The penalty on each frequency's squared error for the bias that a cap causes.

    There is none if answers are corrected for it. Otherwise neither they nor their intervals know it.
    ``weight`` is that of the squared bias; by default it follows from what the prior knows.
    """
    if predicted.caps is not None:
        return np.zeros(len(predicted.bias))
    usual = CAP_WEIGHT if prior.together is None else KNOWN_CAP_WEIGHT
    times = usual if weight is None else weight
    return np.asarray((times - 1) * predicted.left_out[:, 0] ** 2)


def _shrunk(
    error: Floats, across: float, count: Floats, anywhere: tuple[float, float], together: float = 1.0
) -> Floats:
    """The error after shrinkage of numbers whose variance across keys is ``across``.

    ``anywhere`` is the prior variance of the keys' common mean, and its distance from the middle of the
    range; ``together`` is the factor by which errors that keys share raise the variance of their mean.
    """
    error = np.where(np.isinf(error), 1e12, error)
    common = together / float((count / (error + across)).sum())
    variance, off = anywhere
    trust = variance / (common + variance)
    common = trust**2 * common + (1.0 - trust) ** 2 * off**2
    own = across / (error + across)
    return np.asarray(error * own + (1.0 - own) ** 2 * common)


def people_factors(predicted: Forecast, prior: Prior, unknown: Floats | float = 0.0) -> dict[str, float]:
    """The factor of people that a plan needs to answer, for each thing that may be asked.

    A frequency must exceed its noise, the bias that a cap causes and the standard deviation of what is
    ``unknown`` about it (a variance); no number of people reduces the latter two.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        room = prior.frequency**2 - SURE**2 * (predicted.bias[:, 0] ** 2 + unknown)
        frequency = SURE**2 * predicted.covariance[:, 0, 0] / np.maximum(room, 1e-24)
        frequency = np.where(room <= 0, np.inf, frequency)
        mean = predicted.mean / COARSE**2
    wanted = {"frequency": frequency, "mean": np.maximum(frequency, mean)}
    factors = {name: _at_share(factor, prior.weight) for name, factor in wanted.items()}
    return {**factors, "both": factors["mean"]}


def _at_share(factor: Floats, weight: Floats) -> float:
    """The factor that suffices for the best-known ``TELLING`` of keys."""
    factor = np.where(np.isnan(factor), np.inf, factor)
    order = np.argsort(factor)
    reached = int(np.searchsorted(np.cumsum(weight[order]), TELLING - 1e-12))
    return float(factor[order][min(reached, len(order) - 1)])


def people_factor(plan: Plan, people: int, ask: str, prior: Prior) -> float:
    """The factor of people that a plan needs to answer, to first order."""
    if ask == "conditional":
        return forecast_pairs(plan, people, prior).people_factor
    scores = key_scores(plan, people, prior)
    return inf if scores is None else scores.people_factors[ask]


# -- conditionals ----------------------------------------------------------------------------------


def counted_of(queries: Sequence[Query]) -> tuple[str, ...]:
    """The errors that count: those of frequencies (lifts too), of means, or of both."""
    kinds = {"mean" if query.kind == "mean" else "frequency" for query in queries}
    return tuple(part for part in ("frequency", "mean") if part in kinds or not kinds)


def _conditional_options(
    schema: Schema, epsilon: Decimal, people: int, queries: tuple[Query, ...], prior: Prior
) -> tuple[Option, ...]:
    """Views of pairs or triples, exactly the queries' views, or collisions of held pairs."""
    keys = len(schema.keys)
    width = max((1 + len(query.given) for query in queries), default=2)
    if keys < width:
        raise PlanError(f"conditionals of {width} keys need at least {width} keys")
    tried: list[tuple[str, dict[str, Any]]] = []
    if queries:
        tried.append(("workload", {"queries": "; ".join(str(query) for query in queries)}))
    if width == 2:
        tried.append(("pairs", {}))
    if width == 3 or (width == 2 and 3 <= keys <= MOST_TRIPLED):
        tried.append(("triples", {}))
    if width == 2:
        tried += [("pair_collision", {"cap": cap}) for cap in caps(prior) if 2 <= cap <= MOST_PAIRED]
    forecasts: list[tuple[Plan, Errors, float]] = []
    for mechanism, parameters in tried:
        try:
            plan = tight_plan(schema, mechanism, epsilon, parameters)
        except (PlanError, ChannelError):
            continue
        pairs = forecast_pairs(plan, people, prior)
        if pairs.least_covered() >= COVERED:
            forecasts.append((plan, pairs.errors(), pairs.people_factor))
    if not forecasts:
        raise PlanError("no plan can answer these conditionals; ask of fewer keys together")
    base, parts = forecasts[0][1], counted_of(queries)
    options = []
    for plan, errors, factor in forecasts:
        ratios = {"frequency": errors.frequency / base.frequency, "mean": errors.mean / base.mean}
        score = sum(ratios[part] for part in parts) * 2 / len(parts)
        options.append(Option(plan, *errors, score, factor))
    return ordered(options)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
