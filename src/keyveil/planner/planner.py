"""Planner: the plan with the least predicted error among all mechanisms and their parameters.

Predictions come from the channels' own laws at a stated ``Prior``; no data is used. ``options`` says
what is predicted and compared. Without a prior, ``robust`` chooses over several beliefs about the number
of keys that people hold, and ``first_round`` says whether it pays to ask some people first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil, inf
from numbers import Real
from typing import Any

import numpy as np

from ..estimate.together.query import Query
from ..foundation.errors import PlanError
from ..foundation.exact import epsilon_of, text
from ..foundation.search import smallest_fitting
from ..people.beliefs import Beliefs, in_words
from ..people.prior import Prior
from ..people.scale import Scale
from ..people.schema import Schema
from ..plan.plan import Plan
from .conditional_choice import choose_conditional_plan
from .final_choice import choose_by_simulation
from .first_round import FirstRound, first_round
from .helpful_fact import HelpfulFact, helpful_fact
from .options import ALIKE, Option, counted_of, options_for, people_factor
from .robust import BeliefComparison
from .side_part import with_side_part, with_side_part_over_beliefs

ASKS = ("both", "frequency", "mean", "conditional")
"""What may be asked about."""
EPSILONS = ("0.1", "0.2", "0.3", "0.5", "0.7", "1", "1.5", "2", "3", "4", "5", "6", "8", "10")
"""The epsilons that are tried first when no plan can answer."""
STEPS = 8
"""The most steps of the search for the number of people that a plan needs."""
MOST_PEOPLE = 1e15
"""The search for a number of people ends here."""


@dataclass(frozen=True)
class Advice:
    """The options from best to worst, and whether any can answer at all."""

    options: tuple[Option, ...]
    epsilon: Decimal
    people: int
    ask: str
    prior: Prior
    epsilon_needed: str | None = None
    """If no plan can answer: the least epsilon of two digits at which one can."""
    people_needed: int = 0
    """The number of people with which the planner's choice can answer."""
    counted: tuple[str, ...] = ("frequency", "mean")
    """The errors that count in the score."""
    beliefs: Beliefs | None = None
    """What was held possible, if no single prior was given; ``prior`` is the one that is shown."""
    first_round: FirstRound | None = None
    """The first round that pays, if nothing was known about how many keys people hold."""
    fact: HelpfulFact | None = None
    """The fact that would help most, if nothing was known."""

    @property
    def best(self) -> Option:
        return self.options[0]

    @property
    def plan(self) -> Plan:
        return self.best.plan

    @property
    def answers(self) -> bool:
        """Whether any plan can answer; with several beliefs, whether the choice can under each."""
        if self.beliefs is not None:
            return self.best.people_factor <= 1
        return _least_factor(self.options) <= 1

    @property
    def may_answer(self) -> bool:
        """Whether any plan can answer under some belief."""
        if self.beliefs is None:
            return self.answers
        return any(min(option.people_factors) <= 1 for option in self.options)

    @property
    def estimator(self) -> str | None:
        """The estimator with the least predicted error; None for conditionals."""
        return self.best.estimator

    def runners_up(self, most: int = 8) -> list[Option]:
        """The best option of each mechanism, best first."""
        seen: dict[str, Option] = {}
        for option in self.options:
            seen.setdefault(option.family, option)
        return list(seen.values())[:most]

    def factor(self, option: Option) -> float:
        """The factor of people that an option needs to answer; at most 1 if it can already.

        Errors do not fall exactly as people rise, so it is found step by step.
        """
        people, factor = self.people, option.people_factor
        for _ in range(STEPS):
            if not factor > 1 or not np.isfinite(people * factor) or people * factor > MOST_PEOPLE:
                break
            people = ceil(people * max(factor, 1.02))
            factor = people_factor(option.plan, people, self.ask, self._hardest(option))
        if factor > 1:
            return inf
        return option.people_factor if people == self.people else people / self.people

    def _hardest(self, option: Option) -> Prior:
        """The prior under which an option needs the most people."""
        if self.beliefs is None:
            return self.prior
        return self.beliefs.priors[int(np.argmax(option.people_factors))]

    def _over_beliefs(self) -> str:
        """Why the choice was made if several beliefs are possible, and when it can answer."""
        assert self.beliefs is not None
        best, beliefs = self.best, self.beliefs
        if beliefs.weights is None:
            words = (
                f"{best.name} is the safest choice: its error is at most {best.score:.2f} times that of "
                "the best plan, whatever number of keys people hold"
            )
        else:
            words = f"{best.name} has the least predicted error over what the pilot leaves possible"
        if self.answers:
            return words
        able = self.able(best)
        if not able:
            return f"{words}; it cannot answer, and another plan could, with a larger error"
        return f"{words}; it can answer only if people hold {able}"

    def able(self, option: Option) -> str:
        """The beliefs under which an option can answer, in words; empty without any."""
        names = [] if self.beliefs is None else [belief.words for belief in self.beliefs.possible]
        able = [name for name, factor in zip(names, option.people_factors, strict=True) if factor <= 1]
        if len(able) > 1 and able == names[-len(able) :]:
            return f"{able[0]} or more"
        return in_words(able) if able else ""

    def __str__(self) -> str:
        best = self.best
        if self.beliefs is not None and self.may_answer:
            return self._over_beliefs()
        if not self.answers:
            held = "" if self.beliefs is None else f"if people hold {self.prior.held:.3g} keys, "
            either = f", or epsilon {self.epsilon_needed}" if self.epsilon_needed else ""
            return (
                f"with {self.people:,} {'people' if self.people > 1 else 'person'} at epsilon "
                f"{text(self.epsilon)} no plan can answer; "
                f"{held}it takes about {self.people_needed:,} people{either}"
            )
        able = [option for option in self.options if option.people_factor <= 1]
        others = [option for option in self.runners_up() if option.family != best.family]
        others = [option for option in others if option.people_factor <= 1]
        least = f"{best.name} has the least predicted error"
        if best.people_factor > 1:
            return (
                f"{least}; it answers with about {ceil(self.people * self.factor(best)):,} people, "
                f"{able[0].name} now, with {able[0].score / best.score:.2f} times the error"
            )
        if any(ALIKE * option.score < best.score for option in self.options if option.people_factor > 1):
            least += " of those that can answer"
        if not others or not best.score > 0:
            return least
        ratio = others[0].score / best.score
        if ratio < ALIKE:
            return f"{least}, and {others[0].name} as little within {100 * (ALIKE - 1):.0f} %"
        return f"{least}, {ratio:.2f} times below {others[0].name}, the next"

    def document(self) -> dict[str, Any]:
        """As JSON; errors of means are on ``mean_scale``."""
        return {
            "chosen": self.best.document(),
            "estimator": self.estimator,
            "why": str(self),
            "ask": self.ask,
            "people": self.people,
            "epsilon": float(self.epsilon),
            "prior": self.prior.source if self.beliefs is None else self.beliefs.source,
            "beliefs": self._beliefs_document(),
            "first_round": None if self.first_round is None else self.first_round.document(),
            "fact": None if self.fact is None else self.fact.document(),
            "mean_scale": Scale.of(self.plan.schema).document(),
            "answers": self.answers,
            "people_needed": self.people_needed,
            "epsilon_needed": self.epsilon_needed,
            "options": [option.document() for option in self.runners_up(99)],
        }

    def _beliefs_document(self) -> list[dict[str, Any]] | None:
        """For each belief, the regret of the choice and whether it can answer."""
        if self.beliefs is None:
            return None
        weights = self.beliefs.weights
        return [
            {
                "people_hold": belief.words,
                "probability": None if weights is None else float(weights[place]),
                "regret": self.best.regrets[place],
                "answers": self.best.people_factors[place] <= 1,
            }
            for place, belief in enumerate(self.beliefs.possible)
        ]


def advise(
    schema: Schema,
    epsilon: float | str | Decimal,
    people: float,
    *,
    ask: str | Sequence[str] = "both",
    prior: Prior | Beliefs | None = None,
    brief: bool = False,
) -> Advice:
    """Every option with its predicted error, best first.

    ``prior`` is what is known about people, or several ``Beliefs``. Without it, people may hold
    anything from one key to most keys, and the choice has the smallest worst regret. Questions about
    keys together then take the default prior.

    ``ask`` is "both" (frequency and mean of every key), "frequency", "mean", "conditional" (every key
    given every other), or a list of queries. ``brief`` saves time: if no plan can answer, no larger
    epsilon is searched for, and no fact that would help.
    """
    promised = epsilon_of(epsilon)
    if not isinstance(schema, Schema):
        raise PlanError("the planner needs a Schema first, like Schema.of(100, 1, 5)")
    if isinstance(people, bool) or not isinstance(people, Real) or not 1 <= people < inf:
        raise PlanError("people must be a number of at least 1, like 100_000 or 1e6")
    if not (prior is None or isinstance(prior, Prior | Beliefs)):
        raise PlanError("prior must be a Prior, like Prior.of(100, held=3)")
    prior = prior or Beliefs.of(schema)
    if prior.keys != len(schema.keys):
        raise PlanError(f"the prior is for {prior.keys} keys, the plan for {len(schema.keys)}")
    kind, queries = _asked(ask, schema)
    if isinstance(prior, Beliefs):
        if kind != "conditional":
            return _advise_over_beliefs(schema, promised, int(people), kind, prior, brief)
        prior = prior.prior
    options = options_for(schema, promised, int(people), kind, queries, prior)
    if kind != "conditional":
        options = choose_by_simulation(options, schema, promised, int(people), kind, prior)
        options = with_side_part(options, int(people), kind, prior)
    else:
        options = choose_conditional_plan(options, int(people), queries, prior)
    needed, count = None, ceil(people * _least_factor(options))
    if not brief and _least_factor(options) > 1:
        count, needed = _takes(schema, promised, int(people), count, kind, queries, prior)
    counted = counted_of(queries) if kind in ("both", "conditional") else (kind,)
    return Advice(options, promised, int(people), kind, prior, needed, count, counted)


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

    return _enough(schema, epsilon, count, ask, queries, prior), _least_epsilon(epsilon, works)


def _least_epsilon(promised: Decimal, works: Callable[[str], bool]) -> str | None:
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
        factor = _least_factor(options)
        if factor <= 1:
            if ask != "conditional":
                options = choose_by_simulation(options, schema, epsilon, people, ask, prior)
            factor = options[0].people_factor
        if factor <= 1 or people * factor > MOST_PEOPLE:
            break
        people = ceil(people * max(factor, 1.02))
    return people


def _least_factor(options: Sequence[Option]) -> float:
    """The least factor of people among the options."""
    return min(option.people_factor for option in options)


def _asked(ask: str | Sequence[str], schema: Schema) -> tuple[str, tuple[Query, ...]]:
    """What kind of answer is asked for, and the queries if they are conditionals."""
    words = isinstance(ask, Sequence) and all(isinstance(word, str) for word in ask)
    if not words or (isinstance(ask, str) and ask not in ASKS):
        raise PlanError(f"ask is one of {', '.join(ASKS)}, or a list of queries")
    if isinstance(ask, str):
        return ask, ()
    queries = tuple(Query.parse(word) for word in ask)
    for query in queries:
        query.places(schema)  # an unknown key is refused here, with the nearest name
    if not queries:
        raise PlanError("ask for at least one query")
    if any(query.given for query in queries):
        return "conditional", queries
    kinds = {query.kind for query in queries}
    return ("both" if len(kinds) > 1 else kinds.pop()), ()
