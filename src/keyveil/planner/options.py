"""Options: every plan that could be taken, with the error it will have, best first.

What is compared, at equal proven epsilon, is the error that answers will have after shrinkage across
keys (the planner's own estimator): an error v on a number that varies by t^2 across keys comes down
to v t^2 / (v + t^2), and to that comes the error of what keys have in common, which must itself be
learned. Frequency and mean count alike, each relative to KVUE's: the sum of the two ratios is the
*score*, so KVUE has 2 and less is better.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from math import inf, sqrt
from typing import Any

import numpy as np

from ..estimate.forecast.key_forecast import forecast
from ..estimate.forecast.pair_forecast import forecast_pairs
from ..estimate.forecast.result import Forecast
from ..estimate.together.query import Query, split_queries
from ..foundation.arrays import Floats
from ..foundation.errors import ChannelError, PlanError
from ..mechanisms import REGISTRY
from ..mechanisms.collision import MOST_CAP
from ..people.prior import Prior
from ..people.scale import Scale
from ..people.schema import Schema
from ..plan.plan import Plan

CAPS = (0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
"""Caps and padding lengths that are tried: how many keys this share of people does not exceed."""
MOST_PAIRED = 12
"""Of pairs of held keys: 78 items a person."""
MOST_TRIPLED = 24
"""With more keys every three of them are no option for questions about two: 2,024 views."""
SETS = {
    "collision": "cap",
    "coco": "cap",
    "signed_ue": "length",
    "pckv_ue": "length",
    "pckv_grr": "length",
}
"""Mechanisms that speak of the whole set, and what their cap is called."""
SHRUNK, CORRECTED = "shrunk", "corrected"
PUBLISHED = ("privkv", "f2m", "kvoh", "bisample")
"""Weighed beside the others, though one of those is as good or better."""
MANY = 2_000_000
POOLS: tuple[dict[str, int], ...] = ({}, {"pool": 1 << 14})
"""With so many people what a pool of seeds leaves may be more than noise: a larger one is tried too."""
LEAST = 1e-3
"""Keys' means are taken to vary by at least so much, or shrinkage would make all plans alike."""
ANYWHERE_F, ANYWHERE_M = 1 / 12, 1 / 3
"""The variance of a number that may lie anywhere in its range, for a frequency and for a mean."""
BIAS, TOLD_BIAS = 4.0, 2.0
"""What a cap leaves out counts so many times its square: it does not average out, no shrinkage takes it
away, and intervals do not know of it. Less where a table tells how much it is."""
LOSS = 0.5
"""What a frequency or a mean that is worse than KVUE's costs beside what the other one gains;"""
MOST_LOSS = 0.02
"""but no more than this share of both: it decides between options that are near each other."""
ALIKE = 1.03
"""Options whose errors differ by less are as good as each other: predictions after shrinkage are no
closer than that."""
SIMPLE = ("rr", "kvue", "pairs")
"""Of options that are as good the first of these is taken."""
TELLING = 0.1
"""A plan can answer if at least this share of its keys is told from nothing."""
SURE = 2.0
"""Standard errors by which a frequency is told from zero."""
COARSE = 0.5
"""The largest standard error of a mean on [-1, 1] that still says something."""


@dataclass(frozen=True)
class Option:
    """One plan that could be taken, and the error it will have."""

    plan: Plan
    frequency: float
    """The mean squared error of frequencies as estimated, averaged over keys."""
    mean: float
    """The same of means on [-1, 1], clipped to it."""
    score: float
    """What is compared: errors after shrinkage relative to KVUE's, frequency's and mean's summed."""
    lacks: float
    """By how much people would have to be more for the plan to answer, as it looks from this many:
    more than 1 if it cannot. ``Advice.factor`` says how many it takes in the end."""
    estimator: str | None = None
    """The better one of its estimators, where that was looked at."""

    @property
    def mechanism(self) -> str:
        return self.plan.mechanism_name

    @property
    def cost(self) -> float:
        """The score, times how many times too large errors are to answer, where they are."""
        return self.score * sqrt(max(1.0, self.lacks))

    @property
    def name(self) -> str:
        """The mechanism with the parameters that are not at their default."""
        known = self.plan.mechanism.parameters
        said = [
            f"{name} {value}" if name != "queries" else _number_of(str(value))
            for name, value in self.plan.parameters.items()
            if str(value) != str(known[name].default)
        ]
        return f"{self.mechanism} ({', '.join(said)})" if said else self.mechanism

    def document(self) -> dict[str, Any]:
        """As JSON; the mean's error is on the scale of the plan's values."""
        half = Scale.of(self.plan.schema).half
        return {
            "mechanism": self.mechanism,
            "parameters": dict(self.plan.parameters),
            "proven_epsilon": float(self.plan.proven),
            "mse_frequency": _number(self.frequency),
            "mse_mean": _number(self.mean * half**2),
            "score": _number(self.score),
            "bits_per_report": round(self.plan.bits_per_report, 4),
            "answers": self.lacks <= 1,
        }


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
    only: Collection[str] = REGISTRY,
) -> tuple[Option, ...]:
    """Options best first; for single keys ``only`` of some mechanisms, which saves time."""
    if ask == "conditional":
        return _conditional_options(schema, epsilon, people, queries, prior)
    base = errors(made_tight(schema, "kvue", epsilon, {}), people, prior)
    assert base is not None
    found = []
    for mechanism, parameters in candidates(epsilon, ask, prior, people):
        if mechanism not in only:
            continue
        try:
            plan = made_tight(schema, mechanism, epsilon, parameters)
        except (PlanError, ChannelError):
            continue  # a mechanism that cannot be had here is no option
        made = errors(plan, people, prior)
        if made is None:
            continue
        (f, m), parts, _ = made
        of_f, of_m = parts[0] / base[1][0], parts[1] / base[1][1]
        score = scored(ask, of_f, of_m)
        if np.isfinite(score):
            found.append(Option(plan, f, m, float(score), made[2][ask]))
    if not found:
        raise PlanError("no mechanism can be planned here; take fewer keys")
    return ordered(found)


def scored(ask: str, of_f: float, of_m: float) -> float:
    """The score of errors that are stated relative to KVUE's; KVUE has 2."""
    lost = max(0.0, of_f - 1.0) + max(0.0, of_m - 1.0)
    both = of_f + of_m
    costs = min(LOSS * lost, MOST_LOSS * both)
    return {"both": both + costs, "frequency": 2 * of_f}.get(ask, 2 * of_m)


def ordered(options: list[Option], *, simple: bool = True) -> tuple[Option, ...]:
    """Best first, where ``simple`` a simple one before all that are hardly better.

    Where some can answer and some cannot, an option pays for what it lacks; where none can, all are in
    the same boat, and only errors count.
    """
    cost = cost_among(options)
    made = sorted(options, key=lambda option: (cost(option), option.score))
    for name in SIMPLE if simple else ():
        for place, option in enumerate(made):
            if option.mechanism == name and cost(option) <= ALIKE * cost(made[0]):
                return (option, *made[:place], *made[place + 1 :])
    return tuple(made)


def cost_among(options: Collection[Option]) -> Callable[[Option], float]:
    """What options are ordered by."""
    some = any(option.lacks <= 1 for option in options)
    return lambda option: option.cost if some else option.score


def made_tight(schema: Schema, mechanism: str, epsilon: Decimal, parameters: Mapping[str, Any]) -> Plan:
    return Plan.of(schema, mechanism, epsilon, calibrate="tight", **parameters)


def candidates(
    epsilon: Decimal, ask: str, prior: Prior, people: int = 0
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Mechanisms and parameters worth looking at for single keys."""
    if ask == "frequency":
        yield "rr", {}
    from ..channel.design.value_channels import candidates as singles

    yield from singles(epsilon, prior)
    yield from ((mechanism, {}) for mechanism in PUBLISHED)
    for mechanism, called in SETS.items():
        pools = POOLS if people >= MANY and "pool" in REGISTRY[mechanism].parameters else ({},)
        for cap, pool in product(caps(prior), pools):
            yield mechanism, {called: cap, **pool}


def caps(prior: Prior) -> list[int]:
    """Caps on the keys that a person keeps, worth looking at."""
    most = min(MOST_CAP, prior.keys)
    return sorted({min(max(1, prior.quantile(share)), most) for share in CAPS})


Errors = tuple[tuple[float, float], tuple[float, float], dict[str, float]]
"""Frequency's and mean's as estimated, the same after shrinkage, and people's factor lacking."""


def errors(plan: Plan, people: int, prior: Prior) -> Errors | None:
    """Frequency's and mean's error as estimated, after shrinkage, and how many more people it takes."""
    try:
        told = forecast(plan, people, prior)
    except PlanError:
        return None
    of_f, of_m = told.covariance[:, 0, 0], told.mean
    across_f, across_m = prior.across()
    weight = prior.weight
    middle_f, middle_m = float(weight @ prior.frequency) - 0.5, float(weight @ prior.mean)
    shrunk_f = _shrunk(of_f, max(across_f, 1e-12), prior.count, (ANYWHERE_F, middle_f), told.together)
    shrunk_m = _shrunk(of_m, max(across_m, LEAST), prior.count, (ANYWHERE_M, middle_m))
    shrunk_f = shrunk_f + told.bias[:, 0] ** 2 + cap_counts_more(prior, told)
    parts = float(weight @ shrunk_f), float(weight @ shrunk_m)
    raw = float(weight @ told.clipped_frequency), float(weight @ told.clipped_mean)
    return raw, parts, lacking(told, prior)


def cap_counts_more(prior: Prior, told: Forecast) -> Floats:
    """What a cap leaves out of frequencies counts several times: so much more than its square."""
    times = BIAS if prior.together is None else TOLD_BIAS
    return np.asarray((times - 1) * told.left_out[:, 0] ** 2)


def _shrunk(
    error: Floats, across: float, count: Floats, anywhere: tuple[float, float], together: float = 1.0
) -> Floats:
    """The error that is left when numbers that vary by ``across`` are shrunk towards each other.

    What they have in common is known to ``common``, errors that keys share counted; of itself it is
    believed to lie ``anywhere`` around the middle of the range, from which it is so far.
    """
    error = np.where(np.isinf(error), 1e12, error)
    common = together / float((count / (error + across)).sum())
    variance, off = anywhere
    trust = variance / (common + variance)
    common = trust**2 * common + (1.0 - trust) ** 2 * off**2
    kept = across / (error + across)
    return np.asarray(error * kept + (1.0 - kept) ** 2 * common)


def lacking(told: Forecast, prior: Prior) -> dict[str, float]:
    """By what factor people would have to be more, for each thing that may be asked.

    A frequency must lie above both its noise and what a cap leaves out, which no more people take away.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        room = prior.frequency**2 - SURE**2 * told.bias[:, 0] ** 2
        frequency = SURE**2 * told.covariance[:, 0, 0] / np.maximum(room, 1e-24)
        frequency = np.where(room <= 0, np.inf, frequency)
        mean = told.mean / COARSE**2
    wanted = {"frequency": frequency, "mean": np.maximum(frequency, mean)}
    made = {name: _at_share(factor, prior.weight) for name, factor in wanted.items()}
    return {**made, "both": made["mean"]}


def _at_share(factor: Floats, weight: Floats) -> float:
    """The factor that the best-known ``TELLING`` of keys stay below."""
    factor = np.where(np.isnan(factor), np.inf, factor)
    order = np.argsort(factor)
    reached = int(np.searchsorted(np.cumsum(weight[order]), TELLING - 1e-12))
    return float(factor[order][min(reached, len(order) - 1)])


def lacks(plan: Plan, people: int, ask: str, prior: Prior) -> float:
    """By what factor people would have to be more, as it looks from this many."""
    if ask == "conditional":
        return forecast_pairs(plan, people, prior).people_factor
    made = errors(plan, people, prior)
    return inf if made is None else made[2][ask]


# -- conditionals ----------------------------------------------------------------------------------


def counted_of(queries: Sequence[Query]) -> tuple[str, ...]:
    """Which errors count: of frequencies (lifts are made of them), of means, or of both."""
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
    found: list[tuple[Plan, float, float, float]] = []
    for mechanism, parameters in tried:
        try:
            plan = made_tight(schema, mechanism, epsilon, parameters)
        except (PlanError, ChannelError):
            continue
        pairs = forecast_pairs(plan, people, prior)
        found.append((plan, *pairs.errors(), pairs.people_factor))
    if not found:
        raise PlanError("no plan can answer these conditionals; ask of fewer keys together")
    _, base_f, base_m, _ = found[0]
    made, parts = [], counted_of(queries)
    for plan, f, m, lacks in found:
        of = {"frequency": f / base_f, "mean": m / base_m}
        made.append(Option(plan, f, m, sum(of[part] for part in parts) * 2 / len(parts), lacks))
    return ordered(made)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
