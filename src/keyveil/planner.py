"""Planner: of all mechanisms and their parameters, the plan with the least predicted error.

What is compared, at equal proven epsilon, is the error that answers will have after shrinkage across
keys (the planner's own estimator): an error v on a number that varies by t^2 across keys comes down
to v t^2 / (v + t^2), and to that comes the error of what keys have in common, which must itself be
learned. Frequency and mean count alike, each relative to KVUE's: the sum of the two ratios is the
*score*, so KVUE has 2 and less is better.
Predictions come from the channels' own laws at a stated ``Prior``; nothing is tried out on data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from math import ceil, inf
from numbers import Real
from typing import Any

import numpy as np

from .arrays import Floats
from .errors import ChannelError, PlanError
from .estimate.forecast import Forecast, forecast
from .estimate.pairforecast import pair_errors
from .exact import epsilon_of, text
from .mechanisms import REGISTRY
from .plan import Plan
from .prior import Prior
from .query import Query
from .schema import Schema

ASKS = ("both", "frequency", "mean", "conditional")
CAPS = (0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
"""Caps and padding lengths that are tried: how many keys this share of people does not exceed."""
MOST_CAP = 64
MOST_PAIRED = 12
"""Of pairs of held keys: 78 items a person."""
SETS = {"collision": "cap", "coco": "cap", "signed_ue": "length", "pckv_grr": "length"}
"""Mechanisms that speak of the whole set, and what their cap is called."""
MANY = 2_000_000
POOLS: tuple[dict[str, int], ...] = ({}, {"pool": 1 << 14})
"""With so many people what a pool of seeds leaves may be more than noise: a larger one is tried too."""
LEAST = 1e-3
"""Keys' means are taken to vary by at least so much, or shrinkage would make all plans alike."""
ANYWHERE_F, ANYWHERE_M = 1 / 12, 1 / 3
"""The variance of a number that may lie anywhere in its range, for a frequency and for a mean."""
BIAS = 4.0
"""What a cap leaves out counts so many times its square: it does not average out, no shrinkage takes it
away, and intervals do not know of it."""
LOSS = 0.5
"""What a frequency or a mean that is worse than KVUE's costs beside what the other one gains."""
ALIKE = 1.01
"""Options whose errors differ by less are as good as each other."""
SIMPLE = ("rr", "kvue", "pairs")
"""Of options that are as good the first of these is taken."""
EPSILONS = ("0.1", "0.2", "0.3", "0.5", "0.7", "1", "1.5", "2", "3", "4", "5", "6", "8", "10")
TELLING = 0.1
"""A plan can answer if at least this share of its keys is told from nothing."""
STEPS = 8
"""In which the number of people is found that a plan or the planner's choice needs."""
MOST_PEOPLE = 1e15
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

    @property
    def mechanism(self) -> str:
        return self.plan.mechanism

    @property
    def name(self) -> str:
        """The mechanism with the parameters that are not at their default."""
        known = self.plan.kind.parameters
        said = [
            f"{name} {value}" if name != "queries" else _number_of(str(value))
            for name, value in self.plan.parameters.items()
            if str(value) != str(known[name].default)
        ]
        return f"{self.mechanism} ({', '.join(said)})" if said else self.mechanism

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "mechanism": self.mechanism,
            "parameters": dict(self.plan.parameters),
            "proven_epsilon": float(self.plan.proven),
            "mse_frequency": _number(self.frequency),
            "mse_mean": _number(self.mean),
            "score": _number(self.score),
            "bits_per_report": round(self.plan.bits_per_report, 4),
            "answers": self.lacks <= 1,
        }


def _number_of(queries: str) -> str:
    """How many queries, for a name that is short however many there are."""
    many = queries.count(";") + 1
    return f"{many} queries" if many > 1 else queries.strip()


@dataclass(frozen=True)
class Advice:
    """The options from best to worst, and whether the best can answer at all."""

    options: tuple[Option, ...]
    epsilon: Decimal
    people: int
    ask: str
    prior: Prior
    epsilon_needed: str | None = None
    """Where nothing answers: the least epsilon of two digits at which something does."""
    people_needed: int = 0
    """With how many people the planner's choice answers."""

    @property
    def best(self) -> Option:
        return self.options[0]

    @property
    def plan(self) -> Plan:
        return self.best.plan

    @property
    def answers(self) -> bool:
        """Whether the best plan can answer."""
        return self.best.lacks <= 1

    def runners_up(self, most: int = 8) -> list[Option]:
        """The best option of each mechanism, best first."""
        seen: dict[str, Option] = {}
        for option in self.options:
            seen.setdefault(option.mechanism, option)
        return list(seen.values())[:most]

    def factor(self, option: Option) -> float:
        """How many times the people an option needs to answer; at most 1 if it can already.

        Errors do not fall quite as people rise, so the number is found step by step.
        """
        people, factor = self.people, option.lacks
        for _ in range(STEPS):
            if not factor > 1 or not np.isfinite(people * factor) or people * factor > MOST_PEOPLE:
                break
            people = ceil(people * max(factor, 1.02))
            factor = _lacks(option.plan, people, self.ask, self.prior)
        if factor > 1:
            return inf
        return option.lacks if people == self.people else people / self.people

    def __str__(self) -> str:
        best = self.best
        if not self.answers:
            either = f", or epsilon {self.epsilon_needed}" if self.epsilon_needed else ""
            return (
                f"with {self.people:,} {'people' if self.people > 1 else 'person'} at epsilon "
                f"{text(self.epsilon)} no plan can answer; "
                f"it takes about {self.people_needed:,} people{either}"
            )
        others = [o for o in self.runners_up() if o.mechanism != best.mechanism and o.lacks <= 1]
        least = f"{best.name} has the least predicted error"
        if any(ALIKE * option.score < best.score for option in self.options):
            least += " of those that can answer"
        if not others or not best.score > 0:
            return least
        ratio = others[0].score / best.score
        if ratio < ALIKE:
            return f"{least}, and {others[0].name} as little within 1 %"
        return f"{least}, {ratio:.2f} times below {others[0].name}, the next"

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "chosen": self.best.document(),
            "why": str(self),
            "ask": self.ask,
            "people": self.people,
            "epsilon": float(self.epsilon),
            "prior": self.prior.source,
            "answers": self.answers,
            "people_needed": self.people_needed,
            "epsilon_needed": self.epsilon_needed,
            "options": [option.document() for option in self.runners_up(99)],
        }


def advise(
    schema: Schema,
    epsilon: float | str | Decimal,
    people: float,
    *,
    ask: str | Sequence[str] = "both",
    prior: Prior | None = None,
    hope: bool = True,
) -> Advice:
    """Every option with its predicted error, best first.

    ``ask`` is "both" (frequency and mean of every key), "frequency", "mean", "conditional" (every key
    given every other), or a list of queries. Without ``hope`` no larger epsilon is looked for when
    nothing answers, which saves time.
    """
    promised = epsilon_of(epsilon)
    if not isinstance(schema, Schema):
        raise PlanError("the planner needs a Schema first, like Schema.of(100, 1, 5)")
    if isinstance(people, bool) or not isinstance(people, Real) or not 1 <= people < inf:
        raise PlanError("people must be a number of at least 1, like 100_000 or 1e6")
    if not (prior is None or isinstance(prior, Prior)):
        raise PlanError("prior must be a Prior, like Prior.of(100, held=3)")
    prior = prior or Prior.of(len(schema.keys))
    if prior.keys != len(schema.keys):
        raise PlanError(f"the prior is for {prior.keys} keys, the plan for {len(schema.keys)}")
    kind, queries = _asked(ask, schema)
    options = _options(schema, promised, int(people), kind, queries, prior)
    needed, count = None, ceil(people * options[0].lacks)
    if hope and options[0].lacks > 1:
        count = _enough(schema, promised, count, kind, queries, prior)

        def works(larger: str) -> bool:
            found = _options(schema, Decimal(larger), int(people), kind, queries, prior)
            return found[0].lacks <= 1

        needed = _least_epsilon(promised, works)
    return Advice(options, promised, int(people), kind, prior, needed, count)


def _least_epsilon(promised: Decimal, works: Callable[[str], bool]) -> str | None:
    """The least epsilon of two digits above the promise that works; None if none of the usual does."""
    below = promised
    for each in EPSILONS:
        if Decimal(each) <= promised:
            continue
        if works(each):
            between = _two_digits(below, Decimal(each))
            low, high = 0, len(between) - 1  # the last one works
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if works(between[middle]) else (middle + 1, high)
            return between[high]
        below = Decimal(each)
    return None


def _two_digits(below: Decimal, most: Decimal) -> list[str]:
    """Numbers of at most two digits above one number, up to another."""
    made, at = [text(most)], most
    while True:
        step = Decimal(1).scaleb((at - at / 1000).adjusted() - 1)
        at = (at - step).quantize(step)
        if at <= below:
            return made[::-1]
        made.append(text(at))


def _enough(
    schema: Schema, epsilon: Decimal, people: int, ask: str, queries: tuple[Query, ...], prior: Prior
) -> int:
    """So many people, or as many more as it takes where with more people another plan is chosen."""
    for _ in range(STEPS):
        lacks = _options(schema, epsilon, people, ask, queries, prior)[0].lacks
        if lacks <= 1:
            break
        people = ceil(people * max(lacks, 1.02))
    return people


def _lacks(plan: Plan, people: int, ask: str, prior: Prior) -> float:
    """By what factor people would have to be more, as it looks from this many."""
    if ask == "conditional":
        return pair_errors(plan, people, prior)[2]
    made = _errors(plan, people, prior)
    return inf if made is None else made[2][ask]


def _asked(ask: str | Sequence[str], schema: Schema) -> tuple[str, tuple[Query, ...]]:
    words = isinstance(ask, Sequence) and all(isinstance(each, str) for each in ask)
    if not words or (isinstance(ask, str) and ask not in ASKS):
        raise PlanError(f"ask is one of {', '.join(ASKS)}, or a list of queries")
    if isinstance(ask, str):
        return ask, ()
    queries = tuple(Query.parse(each) for each in ask)
    for query in queries:
        query.places(schema)  # an unknown key is refused here, with the nearest name
    if not queries:
        raise PlanError("ask for at least one query")
    if any(query.given for query in queries):
        return "conditional", queries
    kinds = {query.kind for query in queries}
    return ("both" if len(kinds) > 1 else kinds.pop()), ()


def _options(
    schema: Schema,
    epsilon: Decimal,
    people: int,
    ask: str,
    queries: tuple[Query, ...],
    prior: Prior,
) -> tuple[Option, ...]:
    if ask == "conditional":
        return _conditional_options(schema, epsilon, people, queries, prior)
    base = _errors(_made(schema, "kvue", epsilon, {}), people, prior)
    assert base is not None
    found = []
    for mechanism, parameters in candidates(epsilon, ask, prior, people):
        try:
            plan = _made(schema, mechanism, epsilon, parameters)
        except (PlanError, ChannelError):
            continue  # a mechanism that cannot be had here is no option
        made = _errors(plan, people, prior)
        if made is None:
            continue
        (f, m), parts, _ = made
        of_f, of_m = parts[0] / base[1][0], parts[1] / base[1][1]
        lost = max(0.0, of_f - 1.0) + max(0.0, of_m - 1.0)
        score = {"both": of_f + of_m + LOSS * lost, "frequency": 2 * of_f}.get(ask, 2 * of_m)
        if np.isfinite(score):
            found.append(Option(plan, f, m, float(score), made[2][ask]))
    if not found:
        raise PlanError("no mechanism can be planned here; take fewer keys")
    return _ordered(found)


def _ordered(options: list[Option]) -> tuple[Option, ...]:
    """Best first: those that answer before those that do not, a simple one before all hardly better."""
    made = sorted(options, key=lambda option: (option.lacks > 1, option.score))
    first = made[0]
    for simple in SIMPLE:
        for place, option in enumerate(made):
            alike = option.score <= ALIKE * first.score and (option.lacks > 1) == (first.lacks > 1)
            if option.mechanism == simple and alike:
                return (option, *made[:place], *made[place + 1 :])
    return tuple(made)


def _made(schema: Schema, mechanism: str, epsilon: Decimal, parameters: Mapping[str, Any]) -> Plan:
    return Plan.of(schema, mechanism, epsilon, calibrate="tight", **parameters)


def candidates(
    epsilon: Decimal, ask: str, prior: Prior, people: int = 0
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Mechanisms and parameters worth looking at for single keys."""
    if ask == "frequency":
        yield "rr", {}
    from .valuechannels import candidates as singles

    yield from singles(epsilon, prior)
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


def _errors(plan: Plan, people: int, prior: Prior) -> Errors | None:
    """Frequency's and mean's error as estimated, after shrinkage, and how many more people it takes."""
    try:
        told = forecast(plan, people, prior)
    except PlanError:
        return None
    of_f, of_m, off = told.covariance[:, 0, 0], told.mean(prior), told.bias[:, 0] ** 2
    across_f, across_m = prior.across()
    weight = prior.weight
    shrunk_f = _shrunk(of_f, max(across_f, 1e-12), prior.count, ANYWHERE_F) + BIAS * off
    shrunk_m = _shrunk(of_m, max(across_m, LEAST), prior.count, ANYWHERE_M)
    parts = float(weight @ shrunk_f), float(weight @ shrunk_m)
    raw = float(weight @ told.clipped_frequency(prior)), float(weight @ told.clipped_mean(prior))
    return raw, parts, lacking(told, prior)


def _shrunk(error: Floats, across: float, count: Floats, anywhere: float) -> Floats:
    """The error that is left when numbers that vary by ``across`` are shrunk towards each other.

    What they have in common is known to ``common``; of itself it may lie ``anywhere``.
    """
    error = np.where(np.isinf(error), 1e12, error)
    common = 1.0 / float((count / (error + across)).sum())
    common = common * anywhere / (common + anywhere)
    kept = across / (error + across)
    return np.asarray(error * kept + (1.0 - kept) ** 2 * common)


def lacking(told: Forecast, prior: Prior) -> dict[str, float]:
    """By what factor people would have to be more, for each thing that may be asked."""
    with np.errstate(divide="ignore", invalid="ignore"):
        frequency = SURE**2 * told.covariance[:, 0, 0] / np.maximum(prior.frequency, 1e-12) ** 2
        mean = told.mean(prior) / COARSE**2
    wanted = {"frequency": frequency, "mean": np.maximum(frequency, mean)}
    made = {name: _at_share(factor, prior.weight) for name, factor in wanted.items()}
    return {**made, "both": made["mean"]}


def _at_share(factor: Floats, weight: Floats) -> float:
    """The factor that the best-known ``TELLING`` of keys stay below."""
    factor = np.where(np.isnan(factor), np.inf, factor)
    order = np.argsort(factor)
    reached = int(np.searchsorted(np.cumsum(weight[order]), TELLING - 1e-12))
    return float(factor[order][min(reached, len(order) - 1)])


# -- conditionals ----------------------------------------------------------------------------------


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
    if width <= 3:
        tried.append(("pairs" if width == 2 else "triples", {}))
    if width == 2:
        tried += [("pair_collision", {"cap": cap}) for cap in caps(prior) if 2 <= cap <= MOST_PAIRED]
    found: list[tuple[Plan, float, float, float]] = []
    for mechanism, parameters in tried:
        try:
            plan = _made(schema, mechanism, epsilon, parameters)
        except (PlanError, ChannelError):
            continue
        frequency, mean, lacks = pair_errors(plan, people, prior)
        found.append((plan, frequency, mean, lacks))
    if not found:
        raise PlanError("no plan can answer these conditionals; ask of fewer keys together")
    _, base_f, base_m, _ = found[0]
    made = [Option(plan, f, m, f / base_f + m / base_m, lacks) for plan, f, m, lacks in found]
    return _ordered(made)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# -- pictures ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curves:
    """Predicted errors of a few mechanisms against epsilon, and against people."""

    epsilons: tuple[float, ...]
    people: tuple[int, ...]
    by_epsilon: dict[str, dict[str, list[float]]]
    """Mechanism, then "frequency" and "mean", then one error for each epsilon."""
    by_people: dict[str, dict[str, list[float]]]
    ask: str


def curves(schema: Schema, advice: Advice, most: int = 5) -> Curves:
    """The best options' errors around the promise and the number of people that were asked about.

    Against epsilon every mechanism takes its best parameters anew; the line ``auto`` is the least.
    """
    names = [option.mechanism for option in advice.runners_up(most)]
    epsilons = tuple(sorted({*map(float, EPSILONS[:-2]), float(advice.epsilon)}))
    parts = ("frequency", "mean")
    asked = next(
        (str(o.plan.parameters["queries"]) for o in advice.options if "queries" in o.plan.parameters), ""
    )
    queries = tuple(Query.parse(words) for words in asked.split(";") if words.strip())
    by_epsilon: dict[str, dict[str, list[float]]] = {
        name: {part: [] for part in parts} for name in names
    }
    for epsilon in epsilons:
        made = Advice(
            _options(schema, Decimal(str(epsilon)), advice.people, advice.ask, queries, advice.prior),
            Decimal(str(epsilon)),
            advice.people,
            advice.ask,
            advice.prior,
        )
        found = {option.mechanism: option for option in made.runners_up(99)}
        for name in names:
            for part in parts:
                value = getattr(found[name], part) if name in found else float("nan")
                by_epsilon[name][part].append(value)
    people = tuple(int(advice.people * 10**power) for power in np.linspace(-2, 2, 9))
    by_people: dict[str, dict[str, list[float]]] = {name: {part: [] for part in parts} for name in names}
    for option in advice.runners_up(most):
        for count in people:
            made_errors = _pair_or_single(option.plan, max(count, 1), advice)
            for part, value in zip(parts, made_errors, strict=True):
                by_people[option.mechanism][part].append(value)
    return Curves(epsilons, people, by_epsilon, by_people, advice.ask)


def _pair_or_single(plan: Plan, people: int, advice: Advice) -> tuple[float, float]:
    if advice.ask == "conditional":
        frequency, mean, _ = pair_errors(plan, people, advice.prior)
        return frequency, mean
    made = _errors(plan, people, advice.prior)
    return made[0] if made is not None else (float("nan"), float("nan"))
