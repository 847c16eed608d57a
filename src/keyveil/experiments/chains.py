"""PrivKVM's rounds for all keys at once: the law of its chain of plans, without making the plans.

A plan for every round, repetition and epsilon would take most of the time of Fig. 1. Here a round is
drawn straight from its law (the plans' laws are the same up to 2^-32); a test runs both.
"""

from __future__ import annotations

from math import exp

import numpy as np

from ..arrays import Floats, Integers
from ..coins import Coins
from ..mechanisms.privkv import privkv_rows
from ..populations import KnownPopulation


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
            means = raw_means(counts, kept(value))
            # Plans tell means to six places; a key that no one showed keeps its feedback.
            feedback = np.where(np.isfinite(means), np.round(means, 6), feedback)
        mean[place] = means
    return frequency, mean


def one_round(
    draw: np.random.Generator,
    laws: Floats,
    key_epsilon: float,
    value_epsilon: float,
    feedback: Floats,
    people: int,
) -> Integers:
    """Counts of absent, low and high for every key, each person asked for one of them."""
    seen = round_law(laws, key_epsilon, value_epsilon, feedback)
    reports = draw.multinomial(people, np.full(len(laws), 1.0 / len(laws)))
    return draw.multinomial(reports, seen / seen.sum(axis=1, keepdims=True))


def round_law(laws: Floats, key_epsilon: float, value_epsilon: float, feedback: Floats) -> Floats:
    """The law of a round's outputs for every key, given the laws of states and what absent keys say."""
    rows = privkv_rows(key_epsilon, value_epsilon)
    high = (1 + (2 * kept(value_epsilon) - 1) * feedback) / 2
    shown = rows[0, 1] + rows[0, 2]
    absent = np.stack([np.full(len(laws), rows[0, 0]), shown * (1 - high), shown * high], axis=1)
    return np.asarray(laws[:, :1] * absent + laws[:, 1:] @ rows[1:])


def _frequency(counts: Integers, key_epsilon: float) -> Floats:
    keep = kept(key_epsilon)
    with np.errstate(invalid="ignore"):
        shown = counts[:, 1:].sum(axis=1) / counts.sum(axis=1)
    return np.asarray((shown + keep - 1) / (2 * keep - 1))


def raw_means(counts: Integers | Floats, keep: float) -> Floats:
    """PrivKV's own means from counts ``(..., 3)`` of absent, low and high.

    Signs are debiased among the shown, whoever they are; ``keep`` is how often a sign is kept.
    """
    shown = counts[..., 1:].sum(axis=-1)
    low, high = (
        np.clip(((keep - 1) * shown + counts[..., place]) / (2 * keep - 1), 0, shown) for place in (1, 2)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((high - low) / shown)


def kept(epsilon: float) -> float:
    """How often randomised response keeps what it is given."""
    return exp(epsilon) / (exp(epsilon) + 1)
