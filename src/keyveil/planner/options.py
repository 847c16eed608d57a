"""Options: every plan that could be taken, with its predicted error, best first.

Plans are compared at equal proven epsilon, by the predicted error after shrinkage across keys (the
planner's own estimator; see ``key_scores``). The *score* is the squared error of the frequency plus that
of the mean, each divided by KVUE's: KVUE has 2, less is better.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from math import sqrt
from typing import Any

import numpy as np

from ..estimate.forecast.pair_forecast import forecast_pairs
from ..estimate.together.query import Query, split_queries
from ..foundation.errors import ChannelError, PlanError
from ..mechanisms import REGISTRY
from ..mechanisms.collision import UNDONE, Sets
from ..mechanisms.sized import CAP_NAMES
from ..people.prior import Prior
from ..people.scale import Scale
from ..people.schema import Schema
from ..plan.encoding import MOST_CAP
from ..plan.plan import Plan
from .competitor import stated_parameters
from .key_scores import key_scores
from .tight_plans import kept_plan, tight_plan

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
"""The least predicted coverage of each answer that ``least_coverage`` counts, at a level of 95 %.
Options that cover less are not taken. It is above the 93 % that answers should have, because
predictions are not exact."""
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
LOSS = 0.5
"""Penalty per unit by which a frequency or mean is worse than KVUE's, in units of KVUE's error."""
MOST_LOSS = 0.02
"""The largest penalty as a share of the score: it decides only between options near each other."""
ALIKE = 1.03
"""Options whose errors differ by less than this factor are alike: predictions are no more exact."""
SIMPLE = ("rr", "kvue", "pairs")
"""Simple mechanisms; the first of these is taken among options that are alike."""
NO_CONDITIONALS = "no plan can answer these conditionals; ask of fewer keys together"
"""The error if there is no option for conditionals."""


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
    """The predicted coverage of the answer that is covered least, see ``least_coverage``."""

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
    base = key_scores(kept_plan(schema, "kvue", epsilon, {}), people, prior)
    assert base is not None
    options = []
    for mechanism, parameters in candidates(epsilon, ask, prior, people):
        if only is not None and family_of(mechanism, parameters) not in only:
            continue
        try:
            plan = kept_plan(schema, mechanism, epsilon, parameters)
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


def candidates(
    epsilon: Decimal, ask: str, prior: Prior, people: int = 0
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Mechanisms to compare for single keys, with the parameters of their documents."""
    if ask == "frequency":
        yield "rr", {}
    from ..channel.design.value_channels import candidates as singles

    yield from singles(epsilon, prior)
    yield from ((mechanism, {}) for mechanism in PUBLISHED)
    known = epsilon, prior, people
    for mechanism, called in CAP_NAMES.items():
        for cap, pool in _caps_and_pools(mechanism, caps(prior), *known):
            yield mechanism, {called: cap, **pool}
        for cap, pool in _caps_and_pools(mechanism, _sized_caps(prior), *known):
            given = "+".join(f"{name}={value}" for name, value in {called: cap, **pool}.items())
            yield "parts", {"parts": f"{mechanism}:{given}/{SIZE}@{SIZE_SHARE}"}


def _caps_and_pools(
    mechanism: str, tried: Sequence[int], epsilon: Decimal, prior: Prior, people: int
) -> Iterator[tuple[int, dict[str, int]]]:
    """Caps to compare, with parameters for the pool of seeds if the mechanism has one.

    Where collisions are not undone, there is one pool: the smallest that adds little to errors.
    """
    kind = REGISTRY[mechanism]
    if not isinstance(kind, Sets) or prior.keys <= UNDONE:
        pools = POOLS if people >= MANY and "pool" in kind.parameters else ({},)
        yield from product(tried, pools)
        return
    for cap in tried:
        channel = kind.drafted(prior.keys, epsilon, {**kind.chosen({}), "cap": cap})
        seeds = kind.seeds_for(channel, prior.keys, people, prior.capped(cap)[:, 0], prior.count)
        yield cap, {} if seeds is None else {"pool": seeds}


def _sized_caps(prior: Prior) -> list[int]:
    """Caps to compare if some people tell how many keys they hold; each leaves some keys out."""
    tried = (cap for cap in SIZED_CAPS if cap < min(prior.quantile(1.0), prior.keys))
    return [cap for cap in tried if prior.kept(cap) < 1.0 - LEFT_OUT]


def caps(prior: Prior) -> list[int]:
    """Caps on the keys of a person to compare."""
    most = min(MOST_CAP, prior.keys)
    return sorted({min(max(1, prior.quantile(share)), most) for share in CAP_SHARES})


# -- conditionals ----------------------------------------------------------------------------------


def counted_of(queries: Sequence[Query]) -> tuple[str, ...]:
    """The errors that count: those of frequencies (lifts too), of means, or of both."""
    kinds = {"mean" if query.kind == "mean" else "frequency" for query in queries}
    return tuple(part for part in ("frequency", "mean") if part in kinds or not kinds)


def conditional_candidates(
    schema: Schema, queries: Sequence[Query], prior: Prior
) -> list[tuple[str, dict[str, Any]]]:
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
    return tried


def conditional_plans(
    schema: Schema, epsilon: Decimal, tried: Sequence[tuple[str, dict[str, Any]]]
) -> list[Plan]:
    """The plans of candidates that are available for this schema and epsilon."""
    plans = []
    for mechanism, parameters in tried:
        with suppress(PlanError, ChannelError):
            plans.append(tight_plan(schema, mechanism, epsilon, parameters))
    if not plans and ("pairs", {}) in tried:
        raise PlanError(
            f"{len(schema.keys):,} keys have too many pairs for a plan; take fewer keys, for example "
            "those with the most holders (in Python: Schema.from_frame(..., top=100))"
        )
    return plans


def conditional_options(
    plans: Sequence[Plan], people: int, queries: Sequence[Query], prior: Prior
) -> list[Option]:
    """An option of each plan, in their order. Scores are relative to the first that covers its answers.

    ``covered`` is the predicted coverage; options that are below ``COVERED`` are not taken.
    """
    forecasts = [forecast_pairs(plan, people, prior) for plan in plans]
    covered = [pairs.least_covered() for pairs in forecasts]
    bases = (pairs.errors() for pairs, own in zip(forecasts, covered, strict=True) if own >= COVERED)
    base, parts = next(bases, None), counted_of(queries)
    if base is None:
        raise PlanError(NO_CONDITIONALS)
    options = []
    for plan, pairs, own in zip(plans, forecasts, covered, strict=True):
        errors = pairs.errors()
        ratios = {"frequency": errors.frequency / base.frequency, "mean": errors.mean / base.mean}
        score = sum(ratios[part] for part in parts) * 2 / len(parts)
        options.append(Option(plan, *errors, score, pairs.people_factor, covered=own))
    return options


def _conditional_options(
    schema: Schema, epsilon: Decimal, people: int, queries: tuple[Query, ...], prior: Prior
) -> tuple[Option, ...]:
    """The options for conditionals, best first."""
    plans = conditional_plans(schema, epsilon, conditional_candidates(schema, queries, prior))
    options = conditional_options(plans, people, queries, prior)
    return ordered([option for option in options if option.covered >= COVERED])


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
