"""The choice of a plan for single keys if several beliefs about the number of keys are possible.

Under each belief every option has a cost, its predicted score. Its *regret* there is that cost over the
least cost of any option. If nothing is known, the choice has the smallest worst regret over all beliefs.
If beliefs have probabilities, it has the smallest expected logarithm of the regret. Costs are in closed
form; those of options that come near to the choice are corrected by running the estimator on fixed
draws, as ``final_choice`` does for one prior.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from math import nan, sqrt
from typing import Any, NamedTuple

import numpy as np

from ..estimate import default_estimator
from ..foundation.arrays import Flags, Floats
from ..foundation.errors import ChannelError, PlanError
from ..people.beliefs import Beliefs
from ..people.prior import Prior
from ..people.schema import Schema
from ..plan.plan import Plan
from .final_choice import FIRST_SHARE, TRUST, Simulation
from .key_scores import KNOWN_CAP_WEIGHT, KeyScores, key_scores, people_factor
from .options import ALIKE, COVERED, SIMPLE, Option, candidates, family_of, scored
from .tight_plans import kept_plan

RIVALS = 2
"""The number of best mechanisms under each belief that are evaluated under all beliefs."""
MOST_FACTOR = 4.0
"""The largest factor of people that counts in a cost: a plan that cannot answer costs at most twice."""
UNCOVERED = 4.0
"""The factor on an option's cost under a belief under which it does not cover the most held keys."""
NEAR_WORST = 1.1
"""Options with a worst regret within this factor of the smallest are chosen between by all beliefs."""
SHORTLIST, WEIGHED_SHORTLIST = 3, 5
"""The number of mechanisms that are simulated under every belief, besides KVUE; the second number if
beliefs have probabilities."""
BASE = ("kvue", "rr")
"""Mechanisms whose costs are not corrected: KVUE's is the unit, and ``rr`` has no other estimator."""

Name = tuple[str, tuple[tuple[str, Any], ...]]
"""A mechanism and its stated parameters."""


class RegretTable(NamedTuple):
    """Costs of options under beliefs."""

    mechanisms: tuple[str, ...]
    """The mechanism of each option."""
    costs: Floats
    """``(options, beliefs)``: predicted costs, less is better."""
    least: Floats
    """The least cost under each belief, of any option."""
    weights: Floats | None = None
    """The probability of each belief; None if none is likelier than another."""
    allowed: Flags | None = None
    """``(options,)``: whether each covers the most held keys under every belief; None if all do."""

    @property
    def regrets(self) -> Floats:
        """``(options, beliefs)``: cost over the least cost under that belief, at least 1."""
        return np.asarray(np.maximum(self.costs / self.least, 1.0))

    @property
    def worst(self) -> Floats:
        """The largest regret of each option."""
        return np.asarray(self.regrets.max(axis=1))

    @property
    def average(self) -> Floats:
        """The geometric mean of each option's regrets, by the probabilities of beliefs."""
        return np.asarray(np.exp(np.average(np.log(self.regrets), axis=1, weights=self.weights)))

    @property
    def criterion(self) -> Floats:
        """What options are ordered by: the average if beliefs have probabilities, else the worst."""
        return self.worst if self.weights is None else self.average

    def choice(self) -> int:
        """The place of the option to take.

        Without probabilities, it is among options with a worst regret within ``NEAR_WORST`` of the
        smallest, and there the one with the smallest average. A simple option with hardly a larger
        average comes first.
        """
        places = np.arange(len(self.costs))
        if self.allowed is not None:
            places = places[self.allowed]
        if self.weights is None:
            worst = self.worst[places]
            places = places[worst <= NEAR_WORST * worst.min()]
        average = self.average[places]
        for name in SIMPLE:
            for place, mean in zip(places.tolist(), average.tolist(), strict=True):
                if self.mechanisms[place] == name and mean <= ALIKE * average.min():
                    return int(place)
        return int(places[np.argmin(average)])


@dataclass(frozen=True)
class BeliefComparison:
    """Every option under every belief, for one question about single keys."""

    schema: Schema
    epsilon: Decimal
    people: int
    ask: str
    beliefs: Beliefs
    _plans: dict[Name, Plan | None] = field(default_factory=dict, init=False, repr=False)
    _options: dict[tuple[Name, int], Option | None] = field(default_factory=dict, init=False, repr=False)
    _scores: dict[tuple[Name, int], KeyScores] = field(default_factory=dict, init=False, repr=False)

    @property
    def priors(self) -> tuple[Prior, ...]:
        return self.beliefs.priors

    @cached_property
    def kvue(self) -> Plan:
        return kept_plan(self.schema, "kvue", self.epsilon, {})

    # -- options in closed form --------------------------------------------------------------------

    @cached_property
    def own(self) -> list[list[Name]]:
        """The candidates of each belief that can be planned, best first."""
        return [list(self._own(place)) for place in range(len(self.priors))]

    def _own(self, place: int) -> Iterator[Name]:
        names = [
            (mechanism, tuple(sorted(parameters.items())))
            for mechanism, parameters in candidates(
                self.epsilon, self.ask, self.priors[place], self.people
            )
        ]
        known = {name: option for name in names if (option := self.option(name, place)) is not None}
        known = {name: option for name, option in known.items() if option.covered >= COVERED}
        if not known:
            raise PlanError("no mechanism can be planned here; take fewer keys")
        cost = bounded_cost_among(known.values())
        yield from sorted(known, key=lambda name: cost(known[name]))

    def option(self, name: Name, place: int) -> Option | None:
        """An option under one belief, in closed form; None if there is no plan or no forecast."""
        if (name, place) not in self._options:
            self._options[name, place] = self._scored(name, place)
        return self._options[name, place]

    def _known(self, name: Name, place: int) -> Option:
        option = self.option(name, place)
        assert option is not None
        return option

    def _scored(self, name: Name, place: int) -> Option | None:
        plan = self._plan(name)
        scores = None if plan is None else self._key_scores(plan, self.priors[place])
        if plan is None or scores is None:
            return None
        base = self._base[place].shrunk
        ratios = (own / kvue for own, kvue in zip(scores.shrunk, base, strict=True))
        score = float(scored(self.ask, *ratios))
        factor = scores.people_factors[self.ask]
        self._scores[name, place] = scores
        option = Option(plan, nan, nan, score, factor, covered=scores.covered)  # see ``_shown``
        return option if np.isfinite(score) else None

    @cached_property
    def _base(self) -> list[KeyScores]:
        """KVUE's scores under each belief."""
        scores = [self._key_scores(self.kvue, prior) for prior in self.priors]
        return [score for score in scores if score is not None]

    def _key_scores(self, plan: Plan, prior: Prior) -> KeyScores | None:
        """The bias of a cap weighs as if its size were known: beliefs differ where it is not."""
        return key_scores(plan, self.people, prior, KNOWN_CAP_WEIGHT)

    def _plan(self, name: Name) -> Plan | None:
        if name not in self._plans:
            try:
                self._plans[name] = kept_plan(self.schema, name[0], self.epsilon, dict(name[1]))
            except (PlanError, ChannelError):
                self._plans[name] = None  # not available for this schema and epsilon
        return self._plans[name]

    @cached_property
    def pool(self) -> list[Name]:
        """The options to choose from, which have a forecast under every belief.

        They are the candidates of all beliefs, and the best mechanisms under each.
        """
        shared = [name for name in self.own[0] if all(name in names for names in self.own[1:])]
        rivals = [name for names in self.own for name in _first_of_mechanisms(names)[:RIVALS]]
        names = dict.fromkeys([*shared, *rivals])
        places = range(len(self.priors))
        return [name for name in names if all(self.option(name, place) for place in places)]

    # -- regrets -----------------------------------------------------------------------------------

    @cached_property
    def in_closed_form(self) -> RegretTable:
        """The regrets of the pool in closed form."""
        return self._table({})

    def _table(self, corrections: Mapping[tuple[Name, int], float]) -> RegretTable:
        """The regrets of the pool; ``corrections`` multiply the cost of an option under a belief."""
        costs = np.empty((len(self.pool), len(self.priors)))
        least = np.empty(len(self.priors))
        for place, names in enumerate(self.own):
            known = {name: self._known(name, place) for name in dict.fromkeys([*names, *self.pool])}
            cost = bounded_cost_among(known.values())
            corrected = {
                name: cost(option)
                * corrections.get((name, place), 1.0)
                * (1.0 if option.covered >= COVERED else UNCOVERED)
                for name, option in known.items()
            }
            costs[:, place] = [corrected[name] for name in self.pool]
            least[place] = min(corrected.values())
        mechanisms = tuple(name[0] for name in self.pool)
        places = range(len(self.priors))
        allowed = [all(self._known(n, at).covered >= COVERED for at in places) for n in self.pool]
        return RegretTable(mechanisms, costs, least, self.beliefs.weights, np.array(allowed))

    def costs_under(self, prior: Prior) -> Floats:
        """The score of each option of the pool under another prior, in closed form."""
        base = self._key_scores(self.kvue, prior)
        assert base is not None
        scores = []
        for name in self.pool:
            own = self._key_scores(self._known(name, 0).plan, prior)
            ratios = [] if own is None else [a / b for a, b in zip(own.shrunk, base.shrunk, strict=True)]
            scores.append(float(scored(self.ask, *ratios)) if ratios else np.inf)
        return np.array(scores)

    @cached_property
    def simulated(self) -> RegretTable:
        """The regrets of the pool, corrected by running the estimator on a few draws.

        Simulated are, under every belief, the mechanisms that come near to the choice, and the belief's
        own best option if none is likelier than another.
        """
        weighed = self.beliefs.weights is not None
        order = np.argsort(self.in_closed_form.criterion, kind="stable")
        ranked = _first_of_mechanisms([self.pool[place] for place in order.tolist()])
        most = WEIGHED_SHORTLIST if weighed else SHORTLIST
        shortlist = [name for name in ranked if name[0] not in BASE][:most]
        corrections: dict[tuple[Name, int], float] = {}
        for place in range(len(self.priors)):
            own = [] if weighed else self.own[place][:1]
            names = [name for name in dict.fromkeys([*own, *shortlist]) if name[0] not in BASE]
            corrections |= self._corrections(names, place)
        return self._table(corrections)

    def _corrections(self, names: Sequence[Name], place: int) -> dict[tuple[Name, int], float]:
        """The simulated score over the one in closed form, under one belief.

        An option that is not simulated takes over the correction of its mechanism, or the average.
        """
        options = {str(name): self._known(name, place) for name in names}
        prior = self.priors[place]
        simulation = Simulation(options, self.kvue, self.people, self.ask, prior, KNOWN_CAP_WEIGHT)
        share = max(FIRST_SHARE, 1.0 / len(self.priors)) if self.beliefs.weights is not None else 0.0
        scores = simulation.scores(share or FIRST_SHARE, list(options))
        trust = max(TRUST, share)
        ratios = {name: scores[str(name)].ratio ** trust for name in names}
        by_family = {_family(name): ratio for name, ratio in reversed(ratios.items())}
        average = float(np.exp(np.mean(np.log([*ratios.values()])))) if ratios else 1.0
        return {
            (name, place): 1.0
            if name[0] in BASE
            else ratios.get(name, by_family.get(_family(name), average))
            for name in dict.fromkeys([*self.own[place], *self.pool])
        }

    # -- the answer --------------------------------------------------------------------------------

    def options(self) -> tuple[Option, ...]:
        """The options, the choice first, then by their regrets; errors are those under the prior."""
        table = self.simulated
        first = table.choice()
        order = np.argsort(table.criterion, kind="stable").tolist()
        places = [first, *(other for other in order if other != first)]
        listed = {*_first_of_mechanisms([self.pool[place] for place in places])}
        options = []
        for place in places:
            name, score = self.pool[place], float(table.criterion[place])
            factors = [self._factor(name, at, name in listed) for at in range(len(self.priors))]
            option = self._shown(name)
            estimator = default_estimator(option.plan) if place == first else None
            options.append(
                replace(
                    option,
                    score=score,
                    people_factor=max(factors),
                    estimator=estimator,
                    regrets=tuple(table.regrets[place].tolist()),
                    people_factors=tuple(factors),
                )
            )
        return tuple(options)

    def _factor(self, name: Name, place: int, both: bool) -> float:
        """The factor of people that an option needs under a belief.

        If ``both``, it is the larger one of uneven frequencies, as in the prior, and of even ones. How
        even they are is not known either, and the most frequent keys decide whether a plan can answer.
        """
        option, prior = self._known(name, place), self.priors[place]
        if not both:
            return option.people_factor
        frequency = np.full(len(prior.frequency), prior.weight @ prior.frequency)
        factor = people_factor(option.plan, self.people, self.ask, replace(prior, frequency=frequency))
        return max(option.people_factor, factor)

    def _shown(self, name: Name) -> Option:
        """An option with its errors under the prior that numbers are shown for."""
        places = (at for at, prior in enumerate(self.priors) if prior is self.beliefs.prior)
        place = next(places, None)
        option = self._known(name, place or 0)
        scores = self._scores[name, place or 0]
        if place is None:
            scores = self._key_scores(option.plan, self.beliefs.prior) or scores
        return replace(option, frequency=scores.raw.frequency, mean=scores.raw.mean)


def bounded_cost_among(options: Collection[Option]) -> Callable[[Option], float]:
    """The cost of options under one belief; it is finite."""
    answerable = any(option.people_factor <= 1 for option in options)

    def cost(option: Option) -> float:
        factor = min(max(option.people_factor, 1.0), MOST_FACTOR)
        return option.score * (sqrt(factor) if answerable else 1.0)

    return cost


def _first_of_mechanisms(names: Sequence[Name]) -> list[Name]:
    """The first name of every mechanism or family of parts."""
    first: dict[str, Name] = {}
    for name in names:
        first.setdefault(_family(name), name)
    return list(first.values())


def _family(name: Name) -> str:
    return family_of(name[0], dict(name[1]))
