"""PrivKVM's rounds for all keys at once: the law of its chain of plans, without making the plans.

A plan for every round, repetition and epsilon would take most of the time of Fig. 1. Here a round is
drawn straight from its law (the plans' laws are the same up to 2^-32); a test runs both.
"""

from __future__ import annotations

import numpy as np

from ...foundation.arrays import Floats, Integers
from ...foundation.coins import Coins
from ...mechanisms.privkv import keep_probability, sign_means
from ...people.synthetic import KnownPopulation
from ..chains import one_round


def chain_runs(
    population: KnownPopulation,
    epsilon: float,
    rounds: int,
    people: int,
    coins: Coins,
    runs: range,
    told: float = 0.0,
) -> tuple[Floats, Floats]:
    """Frequency of the first round and raw mean of the last, a row for each repetition.

    ``told`` is what absent keys say in the first round.
    """
    keys = len(population.schema.keys)
    laws = np.array([population.law((key,)) for key in range(keys)])
    key, value = epsilon / 2, epsilon / (2 * rounds)
    frequency, mean = np.empty((len(runs), keys)), np.empty((len(runs), keys))
    for place, run in enumerate(runs):
        draw = coins.under("privkvm").generator(run)
        feedback = np.full(keys, told)
        for number in range(rounds):
            share = key if number == 0 else 0.0
            counts = one_round(draw, laws, share, value, feedback, people)
            if number == 0:
                frequency[place] = _frequency(counts, key)
            means = sign_means(counts, keep_probability(value))
            # Plans tell means to six places; a key that no one showed keeps its feedback.
            feedback = np.where(np.isfinite(means), np.round(means, 6), feedback)
        mean[place] = means
    return frequency, mean


def _frequency(counts: Integers, key_epsilon: float) -> Floats:
    keep = keep_probability(key_epsilon)
    with np.errstate(invalid="ignore"):
        shown = counts[:, 1:].sum(axis=1) / counts.sum(axis=1)
    return np.asarray((shown + keep - 1) / (2 * keep - 1))
