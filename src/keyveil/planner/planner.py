"""Planner: the plan with the least predicted error among all mechanisms and their parameters.

Predictions come from the channels' own laws at a stated ``Prior``; no data is used. ``options`` says
what is predicted and compared. Without a prior, ``robust`` chooses over several beliefs about the number
of keys that people hold (``robust_conditionals`` for conditionals), and ``first_round`` says whether it
pays to ask some people first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from math import ceil
from typing import SupportsFloat

from ..estimate.forecast.predicted_error import held_keys
from ..estimate.together.query import Query
from ..foundation.errors import PlanError, nearest
from ..foundation.exact import Number, count_of, epsilon_of, text
from ..foundation.search import smallest_fitting
from ..people.beliefs import Beliefs
from ..people.prior import Prior
from ..people.schema import Schema
from .advice import Advice, least_factor
from .conditional_choice import choose_conditional_plan
from .final_choice import KnownErrors, choose_by_simulation
from .first_round import first_round
from .helpful_fact import held_fact, helpful_fact
from .key_scores import MOST_PEOPLE, STEPS, people_factor
from .options import counted_of, options_for
from .robust import BeliefComparison
from .robust_conditionals import robust_conditionals
from .side_part import with_side_part, with_side_part_over_beliefs

ASKS = ("both", "frequency", "mean", "conditional")
"""What may be asked about."""
EPSILONS = ("0.1", "0.2", "0.3", "0.5", "0.7", "1", "1.5", "2", "3", "4", "5", "6", "8", "10")
"""The epsilons that are tried first when no plan can answer."""


def advise(
    schema: Schema,
    epsilon: Number,
    people: SupportsFloat,
    *,
    ask: str | Sequence[str] = "both",
    held: SupportsFloat | None = None,
    prior: Prior | Beliefs | None = None,
    brief: bool = False,
) -> Advice:
    """Every option with its predicted error, best first.

    ``held`` is the average number of keys that a person holds. ``prior`` says more about people, in its
    place; it may be several ``Beliefs``. Without either, people may hold anything from one key to most
    keys, and the choice has the smallest worst regret; for conditionals anything from one key or two,
    because people who all hold one key say nothing of keys together.

    ``ask`` is "both" (frequency and mean of every key; only frequency, if the schema was made with
    ``value=None``), "frequency", "mean", "conditional" (every key given every other), a list of queries,
    or a text of queries with semicolons between them. ``brief`` saves time: if no plan can answer, no
    larger epsilon is searched for, and no fact that would help.
    """
    promised = epsilon_of(epsilon)
    if not isinstance(schema, Schema):
        raise PlanError("the planner needs a Schema first, like Schema.of(100, 1, 5)")
    number = count_of(people, "people", "100_000 or 1e6")
    if not (prior is None or isinstance(prior, Prior | Beliefs)):
        raise PlanError("prior must be a Prior, like Prior.of(100, held=3)")
    if held is not None:
        if prior is not None:
            raise PlanError("give held or prior, not both: Prior.of(schema, held=...) says the same")
        prior = Prior.of(schema, held=held)
    prior = prior or Beliefs.of(schema)
    if prior.keys != len(schema.keys):
        raise PlanError(f"the prior is for {prior.keys} keys, the plan for {len(schema.keys)}")
    if isinstance(prior, Prior) and not held_keys(prior).any():
        raise PlanError("nobody holds a key by this prior; take one with holders, or none")
    kind, queries = _asked(ask, schema)
    if isinstance(prior, Beliefs):
        if kind != "conditional":
            return _advise_over_beliefs(schema, promised, number, kind, prior, brief)
        if prior.weights is None and len(schema.keys) > 1:
            return _advise_conditionals(schema, promised, number, queries, prior, brief)
        prior = prior.prior
    options = options_for(schema, promised, number, kind, queries, prior)
    if kind != "conditional":
        known: KnownErrors = {}
        options = choose_by_simulation(options, schema, promised, number, kind, prior, known)
        options = with_side_part(options, number, kind, prior, known)
    else:
        options = choose_conditional_plan(options, number, queries, prior)
    needed, count = None, ceil(float(people) * least_factor(options))
    if not brief and least_factor(options) > 1:
        count, needed = _takes(schema, promised, number, count, kind, queries, prior)
    counted = counted_of(queries) if kind in ("both", "conditional") else (kind,)
    return Advice(options, promised, number, kind, prior, needed, count, counted)


def _advise_over_beliefs(
    schema: Schema, epsilon: Decimal, people: int, ask: str, beliefs: Beliefs, brief: bool
) -> Advice:
    """The advice for single keys if several beliefs are possible."""
    comparison = BeliefComparison(schema, epsilon, people, ask, beliefs)
    options = comparison.options()
    first = fact = needed = None
    if beliefs.weights is None:
        first = first_round(comparison, options[0].score)
        fact = None if brief else helpful_fact(comparison, options[0])
    options = with_side_part_over_beliefs(options, people, ask, beliefs)
    count = _people_for(people, options[0].people_factor)
    if min(min(option.people_factors) for option in options) > 1:
        factor = people_factor(options[0].plan, people, ask, beliefs.prior)
        count = _people_for(people, factor)
        if not brief:
            count, needed = _takes(schema, epsilon, people, count, ask, (), beliefs.prior)
    counted = ("frequency", "mean") if ask == "both" else (ask,)
    return Advice(
        options, epsilon, people, ask, beliefs.prior, needed, count, counted, beliefs, first, fact
    )


def _advise_conditionals(
    schema: Schema,
    epsilon: Decimal,
    people: int,
    queries: tuple[Query, ...],
    beliefs: Beliefs,
    brief: bool,
) -> Advice:
    """The advice for conditionals if nothing is known of how many keys people hold."""
    beliefs = beliefs.about_several_keys(schema)
    options = robust_conditionals(schema, epsilon, people, queries, beliefs)
    count, needed = _people_for(people, options[0].people_factor), None
    if min(min(option.people_factors) for option in options) > 1:
        count = _people_for(people, people_factor(options[0].plan, people, "conditional", beliefs.prior))
        if not brief:
            count, needed = _takes(schema, epsilon, people, count, "conditional", queries, beliefs.prior)
    fact = None if brief else held_fact(options[0])
    return Advice(
        options,
        epsilon,
        people,
        "conditional",
        beliefs.prior,
        needed,
        count,
        counted_of(queries),
        beliefs,
        fact=fact,
    )


def _people_for(people: int, factor: float) -> int:
    """This factor of people, up to ``MOST_PEOPLE``."""
    return ceil(min(people * factor, max(MOST_PEOPLE, people)))


def _takes(
    schema: Schema,
    epsilon: Decimal,
    people: int,
    count: int,
    ask: str,
    queries: tuple[Query, ...],
    prior: Prior,
) -> tuple[int, str | None]:
    """The number of people, from ``count`` on, and the least epsilon with which a plan can answer."""

    def works(larger: str) -> bool:
        options = options_for(schema, Decimal(larger), people, ask, queries, prior)
        return options[0].people_factor <= 1

    return _enough(schema, epsilon, count, ask, queries, prior), least_epsilon(epsilon, works)


def least_epsilon(promised: Decimal, works: Callable[[str], bool]) -> str | None:
    """The least epsilon of two digits above the promise that works; None if no usual one does."""
    below = promised
    for epsilon in EPSILONS:
        if Decimal(epsilon) <= promised:
            continue
        if works(epsilon):
            return _first(two_digit_numbers(below, Decimal(epsilon)), works)
        below = Decimal(epsilon)
    return None


def _first(epsilons: list[str], works: Callable[[str], bool]) -> str:
    """The first of rising epsilons that works; the last one does."""
    return epsilons[smallest_fitting(0, len(epsilons) - 1, lambda at: works(epsilons[at]))]


def two_digit_numbers(below: Decimal, most: Decimal) -> list[str]:
    """The numbers of at most two digits above ``below``, up to ``most``."""
    numbers, at = [text(most)], most
    while True:
        step = Decimal(1).scaleb((at - at / 1000).adjusted() - 1)
        at = (at - step).quantize(step)
        if at <= below:
            return numbers[::-1]
        numbers.append(text(at))


def _enough(
    schema: Schema, epsilon: Decimal, people: int, ask: str, queries: tuple[Query, ...], prior: Prior
) -> int:
    """The least number of people, from ``people`` on, with which the plan that is chosen can answer."""
    for _ in range(STEPS):
        options = options_for(schema, epsilon, people, ask, queries, prior)
        factor = least_factor(options)
        if factor <= 1:
            if ask != "conditional":
                options = choose_by_simulation(options, schema, epsilon, people, ask, prior)
            factor = options[0].people_factor
        if factor <= 1 or people * factor > MOST_PEOPLE:
            break
        people = ceil(people * max(factor, 1.02))
    return people


def _asked(ask: str | Sequence[str], schema: Schema) -> tuple[str, tuple[Query, ...]]:
    """What kind of answer is asked for, and the queries if they are conditionals."""
    if isinstance(ask, str) and "(" in ask:
        ask = [str(query) for query in Query.parse_all(ask)]
    words = isinstance(ask, Sequence) and all(isinstance(word, str) for word in ask)
    if not words or (isinstance(ask, str) and ask not in ASKS):
        near = nearest(ask, ASKS) if isinstance(ask, str) else None
        hint = "" if near is None else f"; did you mean {near!r}?"
        raise PlanError(f"ask is one of {', '.join(ASKS)}, or a list of queries{hint}")
    if isinstance(ask, str):
        valueless = schema.frame is not None and schema.frame.value is None
        return "frequency" if ask == "both" and valueless else ask, ()
    queries = tuple(Query.parse(word) for word in ask)
    for query in queries:
        query.places(schema)  # an unknown key is refused here, with the nearest name
    if not queries:
        raise PlanError("ask for at least one query")
    if any(query.given for query in queries):
        return "conditional", queries
    kinds = {query.kind for query in queries}
    return ("both" if len(kinds) > 1 else kinds.pop()), ()
