"""A first round: how many people to ask for the number of keys they hold, and whether that pays.

People who answer the pilot are missing from the main plan, so a larger pilot costs accuracy, and a
smaller one may mislead the choice. Both are predicted for every share of people. Under each belief,
simulated pilots give posterior probabilities of the beliefs; the option with the least expected log
regret is taken, and its regret under the true belief is averaged. The share has the smallest product of
the worst regret over beliefs and the average one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..foundation.arrays import Floats
from ..foundation.coins import Coins
from ..mechanisms.sized import noise_of
from ..people.beliefs import Beliefs
from ..people.prior import Prior
from ..people.size_buckets import bucket_shares
from ..people.size_guesses import slack_of
from ..plan.plan import Plan
from .pilot import check_pilot
from .robust import BeliefComparison

SHARES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.25, 0.3)
"""The shares of people that are tried for a first round."""
DRAWS = 48
"""The number of simulated pilots for each belief and share."""
PAYS_ABOVE = 1.3
"""A first round is considered if the worst regret of one plan is larger than this."""
GAIN = 0.95
"""A first round is recommended if it brings the worst regret down to this part or less."""
MIXTURES = ((0, -2, 0.1), (0, -1, 0.05), (1, -2, 0.1))
"""Beliefs that only a pilot has to tell apart from others: most people follow the law of the first
place among the beliefs, and a share of people follow that of the second."""


@dataclass(frozen=True)
class FirstRound:
    """A pilot that pays: its plan, the people to ask, and the worst regret with it."""

    plan: Plan
    people: int
    """The number of people who are asked how many keys they hold."""
    others: int
    """The number of people who are left for the main plan."""
    regret: float
    """The predicted worst regret: the score over that of a planner who knew everything."""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "mechanism": self.plan.mechanism_name,
            "people": self.people,
            "others": self.others,
            "regret": self.regret,
        }


def first_round(comparison: BeliefComparison, alone: float) -> FirstRound | None:
    """The first round with the best share of people; None if it does not pay.

    ``alone`` is the worst regret of the robust choice without a first round.
    """
    if alone <= PAYS_ABOVE or comparison.people < 2:
        return None
    pilot = Plan.of(comparison.schema, "sized", comparison.epsilon, "tight")
    best = best_round(pilot, comparison)
    return best if best.regret <= GAIN * alone else None


def pilot_people(plan: Plan, people: int) -> int:
    """The number of ``people`` whom a pilot's ``plan`` should ask if nothing is known about them."""
    check_pilot(plan)
    beliefs = Beliefs.of(plan.schema)
    return best_round(plan, BeliefComparison(plan.schema, plan.promised, people, "both", beliefs)).people


def best_round(pilot: Plan, comparison: BeliefComparison) -> FirstRound:
    """The first round with the best share of people, whether it pays or not."""
    people, mixed = comparison.people, _mixtures(comparison)
    regrets = comparison.simulated.regrets
    for prior in mixed:
        costs = comparison.costs_under(prior)
        regrets = np.column_stack([regrets, np.maximum(costs / costs.min(), 1.0)])
    laws = [prior.sizes for prior in (*comparison.priors, *mixed)]
    predicted = np.log(share_regrets(pilot, regrets, laws, people))
    best = int(np.argmin(predicted.max(axis=1) + predicted.mean(axis=1)))
    asked = max(1, min(round(SHARES[best] * people), people - 1))
    return FirstRound(pilot, asked, people - asked, float(np.exp(predicted[best].max())))


def share_regrets(pilot: Plan, regrets: Floats, laws: list[Floats], people: int) -> Floats:
    """The predicted regret ``(shares, beliefs)`` with a pilot of each of the ``SHARES`` of people.

    ``regrets`` has shape ``(options, beliefs)``, and ``laws`` are those of the number of keys.
    """
    buckets = np.array([bucket_shares(law, pilot.channels[0].states) for law in laws])
    noise, slack = noise_of(pilot, buckets), slack_of(buckets)
    logs = np.log(regrets)
    predicted = np.empty((len(SHARES), len(laws)))
    for row, share in enumerate(SHARES):
        spread = slack + noise / max(1.0, share * people)
        shares = buckets[:, None] + np.sqrt(spread)[:, None] * _draws(buckets.shape[1])
        off = shares[:, :, None] - buckets  # axes: true belief, draw, supposed belief, bucket
        likely = -0.5 * (off**2 / spread + np.log(spread)).sum(axis=3)
        posterior = np.exp(likely - likely.max(axis=2, keepdims=True))
        posterior /= posterior.sum(axis=2, keepdims=True)
        taken = np.argmin(posterior @ logs.T, axis=2)
        own = logs[taken, np.arange(len(laws))[:, None]]
        predicted[row] = np.exp(own.mean(axis=1)) / (1.0 - share)
    return predicted


def _mixtures(comparison: BeliefComparison) -> list[Prior]:
    """Priors of people who mostly hold few keys, while some hold many."""
    priors = comparison.priors
    if len(priors) < 4:
        return []
    mixed = []
    for few, many, part in MIXTURES:
        laws = [priors[few].sizes, priors[many].sizes]
        length = max(map(len, laws))
        first, second = (np.pad(law, (0, length - len(law))) for law in laws)
        sizes = (1.0 - part) * first + part * second
        stated = {"mean": comparison.beliefs.mean, "spread": comparison.beliefs.spread}
        mixed.append(Prior.of(comparison.schema, sizes=sizes, **stated))
    return mixed


@lru_cache(maxsize=8)
def _draws(buckets: int) -> Floats:
    """Standard normal draws ``(draws, buckets)``, the same on every call."""
    return Coins.stated("pilots of a first round").generator().normal(size=(DRAWS, buckets))
