"""Simulates many repetitions of a chain of plans at once.

A plan for every round and repetition would take most of the time. In chains with feedback (PrivKVM,
PrivKVM+) the first round is drawn under its plan, and later rounds from their law, which is the plans'
up to 2^-32. If a first round chooses a cap (``sized``), repetitions with the same cap are drawn
together. ``followed`` runs every round with its plan; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..estimate import KeyBands, bands
from ..estimate.answer import Band
from ..estimate.linear import view_counts, view_moments
from ..foundation.arrays import Floats, Integers
from ..foundation.coins import Coins
from ..foundation.errors import FinishedError
from ..mechanisms.privkv import (
    absent_law,
    keep_probability,
    keeps_of,
    privkv_rows,
    share_variance,
    sign_means,
)
from ..mechanisms.rounds import later_budgets
from ..people.population import Population
from ..people.synthetic import KnownPopulation
from ..plan.tally import Tally
from .tallies import simulate, simulate_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..plan.plan import Plan

LEVEL = 0.95
FEEDBACK = ("debiased", "published")
"""Estimators of chains with feedback."""

# -- one round with feedback -------------------------------------------------------------------------


def round_law(laws: Floats, key_epsilon: float, value_epsilon: float, feedback: Floats) -> Floats:
    """The law ``(..., keys, 3)`` of a round's outputs, from the laws of states and the feedback.

    ``feedback`` has the mean that absent keys report; its leading axes are repetitions.
    """
    rows = privkv_rows(key_epsilon, value_epsilon)
    absent = absent_law(key_epsilon, value_epsilon, feedback)
    return np.asarray(laws[:, :1] * absent + laws[:, 1:] @ rows[1:])


def one_round(
    draw: np.random.Generator,
    laws: Floats,
    key_epsilon: float,
    value_epsilon: float,
    feedback: Floats,
    people: int,
) -> Integers:
    """Counts ``(..., keys, 3)`` of absent, low and high, each person asked for one key."""
    seen = round_law(laws, key_epsilon, value_epsilon, feedback)
    even = np.full(len(laws), 1.0 / len(laws))
    reports = draw.multinomial(people, even, size=feedback.shape[:-1])
    return draw.multinomial(reports, seen / seen.sum(axis=-1, keepdims=True))


# -- PrivKVM without plans ---------------------------------------------------------------------------


def chain_runs(
    population: KnownPopulation,
    epsilon: float,
    rounds: int,
    people: int,
    coins: Coins,
    runs: range,
    first_feedback: float = 0.0,
) -> tuple[Floats, Floats]:
    """PrivKVM's frequencies of the first round and raw means of the last, ``(runs, keys)`` each.

    Rounds are drawn from their law, which is the plans' up to 2^-32. ``first_feedback`` is the mean that
    absent keys report in the first round.
    """
    keys = len(population.schema.keys)
    laws = np.array([population.law((key,)) for key in range(keys)])
    key, value = epsilon / 2, epsilon / (2 * rounds)
    frequency, mean = np.empty((len(runs), keys)), np.empty((len(runs), keys))
    for place, run in enumerate(runs):
        draw = coins.under("privkvm").generator(run)
        feedback = np.full(keys, first_feedback)
        for number in range(rounds):
            share = key if number == 0 else 0.0
            counts = one_round(draw, laws, share, value, feedback, people)
            if number == 0:
                frequency[place] = _frequency(counts, key)
            means = sign_means(counts, keep_probability(value))
            # Plans state means to six places. A key that no one reported keeps its feedback.
            feedback = np.where(np.isfinite(means), np.round(means, 6), feedback)
        mean[place] = means
    return frequency, mean


def _frequency(counts: Integers, key_epsilon: float) -> Floats:
    keep = keep_probability(key_epsilon)
    with np.errstate(invalid="ignore"):
        shown = counts[:, 1:].sum(axis=1) / counts.sum(axis=1)
    return np.asarray((shown + keep - 1) / (2 * keep - 1))


# -- whole chains ------------------------------------------------------------------------------------


def chain_bands(
    plan: Plan,
    population: Population,
    people: int,
    coins: Coins,
    runs: int,
    estimators: Sequence[str],
) -> Iterator[tuple[Plan, dict[str, KeyBands]]]:
    """Bands of every estimator for all repetitions of a chain, in groups without a fixed order.

    Everyone answers every round, unless the chain splits people between rounds. The plan of a group is
    one that its repetitions answered.
    """
    chain = plan.chain or {}
    if "feedback" in chain and set(estimators) <= set(FEEDBACK):
        yield from _with_feedback(plan, population, people, coins, runs, estimators)
    elif "cap" in chain:
        yield from _capped(plan, population, people, coins, runs, estimators)
    else:
        for run in range(runs):
            last, counts = followed(plan, population, people, coins, run)
            yield last, {name: bands(last, counts[None, :], name, LEVEL) for name in estimators}


def followed(
    plan: Plan, population: Population, people: int, coins: Coins, run: int
) -> tuple[Plan, Integers]:
    """The last plan of one repetition and its counts, by running every round."""
    while True:
        tally = simulate(plan, population, answering(plan, people), coins, run)
        try:
            plan = plan.next(tally)
        except FinishedError:
            return plan, tally.counts


def answering(plan: Plan, people: int) -> int:
    """The number of people who answer this plan of a chain."""
    return max(1, round(people * float((plan.chain or {}).get("share", 1))))


def _capped(
    plan: Plan, population: Population, people: int, coins: Coins, runs: int, names: Sequence[str]
) -> Iterator[tuple[Plan, dict[str, KeyBands]]]:
    """Draws second rounds with the same cap together, because they have the same law."""
    by_cap: dict[int, list[Plan]] = {}
    for counts in simulate_runs(plan, population, answering(plan, people), coins, runs):
        second = plan.next(Tally(plan, counts))
        assert second.chain is not None
        by_cap.setdefault(int(second.chain["cap"]), []).append(second)
    for cap in sorted(by_cap):
        second = by_cap[cap][0]
        counts_of_cap = simulate_runs(
            second, population, answering(second, people), coins, len(by_cap[cap])
        )
        yield second, {name: bands(second, counts_of_cap, name, LEVEL) for name in names}


@dataclass
class _Rounds:
    """The latest round of every repetition: counts, feedback, and probability of the true sign."""

    counts: Integers
    feedback: Floats
    keep: Floats


def _with_feedback(
    plan: Plan, population: Population, people: int, coins: Coins, runs: int, names: Sequence[str]
) -> Iterator[tuple[Plan, dict[str, KeyBands]]]:
    assert plan.chain is not None
    first = simulate_runs(plan, population, people, coins, runs)
    keys = range(len(plan.schema.keys))
    crowd = population.at(2)
    laws = np.array([crowd.law((key,)) for key in keys])
    draw = coins.under(f"{plan.hash} rounds").generator()
    places, cells = view_counts(plan, first, 0)
    feedback = np.tile([float(word) for word in plan.chain["feedback"]], (runs, 1))
    keep = np.full(runs, keeps_of(plan.channels[0])[1])
    at = _Rounds(cells[:, np.argsort(places)].astype(np.int64), feedback, keep)
    cost = float(plan.parameters.get("cost", -1))
    going, ended_at_once = np.ones(runs, bool), np.zeros(runs, bool)
    for number, value in enumerate(later_budgets(plan)):
        means = sign_means(at.counts, at.keep[:, None]).round(6)  # plans state six places
        feedback = np.where(np.isfinite(means), means, at.feedback)
        going = going & (np.abs(feedback - at.feedback).mean(axis=1) > cost)
        if number == 0:
            ended_at_once = ~going
        if not going.any():
            break
        at.feedback[going] = feedback[going]
        at.counts[going] = one_round(draw, laws, 0.0, value, feedback[going], people)
        at.keep[going] = keep_probability(value)
    if ended_at_once.any():
        alone = first[ended_at_once]
        yield plan, {name: bands(plan, alone, name, LEVEL) for name in names}
    later = ~ended_at_once
    if later.any():
        rest = _Rounds(at.counts[later], at.feedback[later], at.keep[later])
        yield plan, _answers(plan, first[later], rest, names)


def _answers(plan: Plan, first: Integers, at: _Rounds, names: Sequence[str]) -> dict[str, KeyBands]:
    """Frequencies of the first round and means of the last, as published or debiased."""
    moments = view_moments(plan, first)
    value, variance = moments.values[..., 0], moments.covariance[..., 0, 0]
    frequency = Band.plain(value, variance, moments.reports, LEVEL)
    answers = {}
    for name in names:
        mean = _debiased(at, value, variance) if name == "debiased" else _published(at)
        answers[name] = KeyBands(moments.reports, frequency, mean)
    return answers


def _published(at: _Rounds) -> Band:
    means = sign_means(at.counts, at.keep[:, None])
    nothing = np.full(means.shape, np.nan)
    return Band(means, nothing, nothing, nothing)


def _debiased(at: _Rounds, frequency: Floats, variance: Floats) -> Band:
    """m = m~ + (share - m~) / f, with Fieller's interval; the two rounds' noise is independent."""
    low, high = at.counts[..., 1], at.counts[..., 2]
    shown, sign = low + high, (2 * at.keep - 1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        average = (high - low) / shown
        noise = share_variance(average, shown.astype(np.float64), at.keep[:, None])
        covariance = np.zeros((*shown.shape, 2, 2))
        covariance[..., 0, 0], covariance[..., 1, 1] = noise, np.maximum(variance, 0.0)
        apart = Band.ratio(average / sign - at.feedback, frequency, covariance, shown, LEVEL)
    return Band(
        at.feedback + apart.value, apart.stderr, at.feedback + apart.low, at.feedback + apart.high
    )
