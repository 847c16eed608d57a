"""Chains by simulation: many repetitions of a chain of plans at once.

A plan for every round and repetition would take most of the time. Where rounds tell absent keys what to
say (PrivKVM, PrivKVM+), the first is drawn under its own plan and the later ones straight from their
law, which is the plans' up to 2^-32. Where a first round finds a cap (``sized``), repetitions that
found the same are drawn together. ``followed`` is the long way, round by round; tests run both.
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
from ..plan.tally import Tally
from .tallies import simulate, simulate_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..plan.plan import Plan

LEVEL = 0.95
FEEDBACK = ("debiased", "published")
"""The estimators that rounds with feedback have."""

# -- one round with feedback -------------------------------------------------------------------------


def round_law(laws: Floats, key_epsilon: float, value_epsilon: float, feedback: Floats) -> Floats:
    """The law ``(..., keys, 3)`` of a round's outputs, given states' laws and what absent keys say.

    Leading axes of ``feedback`` are repetitions, which get different feedback.
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


# -- whole chains ------------------------------------------------------------------------------------


def chain_bands(
    plan: Plan,
    population: Population,
    people: int,
    coins: Coins,
    runs: int,
    estimators: Sequence[str],
) -> Iterator[tuple[Plan, dict[str, KeyBands]]]:
    """Bands of every estimator for all repetitions of a chain, in groups that need not be in order.

    Everyone answers every round, or people are split between them where the chain says so. The plan
    beside a group is one that its members answered.
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
    """One repetition, plan by plan: the last one and its counts."""
    while True:
        tally = simulate(plan, population, answering(plan, people), coins, run)
        try:
            plan = plan.next(tally)
        except FinishedError:
            return plan, tally.counts


def answering(plan: Plan, people: int) -> int:
    """How many of all people answer this plan of a chain."""
    return max(1, round(people * float((plan.chain or {}).get("share", 1))))


def _capped(
    plan: Plan, population: Population, people: int, coins: Coins, runs: int, names: Sequence[str]
) -> Iterator[tuple[Plan, dict[str, KeyBands]]]:
    """Second rounds of the same cap have the same law, whatever the first round's tally was."""
    found: dict[int, list[Plan]] = {}
    for counts in simulate_runs(plan, population, answering(plan, people), coins, runs):
        second = plan.next(Tally(plan, counts))
        assert second.chain is not None
        found.setdefault(int(second.chain["cap"]), []).append(second)
    for cap in sorted(found):
        second = found[cap][0]
        made = simulate_runs(second, population, answering(second, people), coins, len(found[cap]))
        yield second, {name: bands(second, made, name, LEVEL) for name in names}


@dataclass
class _Rounds:
    """The latest round of every repetition: its counts, what it was told, and how often it keeps."""

    counts: Integers
    told: Floats
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
    told = np.tile([float(word) for word in plan.chain["feedback"]], (runs, 1))
    keep = np.full(runs, keeps_of(plan.channels[0])[1])
    at = _Rounds(cells[:, np.argsort(places)].astype(np.int64), told, keep)
    cost = float(plan.parameters.get("cost", -1))
    going, ended_at_once = np.ones(runs, bool), np.zeros(runs, bool)
    for number, value in enumerate(later_budgets(plan)):
        means = sign_means(at.counts, at.keep[:, None]).round(6)  # plans tell six places
        told = np.where(np.isfinite(means), means, at.told)
        going = going & (np.abs(told - at.told).mean(axis=1) > cost)
        if number == 0:
            ended_at_once = ~going
        if not going.any():
            break
        at.told[going] = told[going]
        at.counts[going] = one_round(draw, laws, 0.0, value, told[going], people)
        at.keep[going] = keep_probability(value)
    if ended_at_once.any():
        alone = first[ended_at_once]
        yield plan, {name: bands(plan, alone, name, LEVEL) for name in names}
    later = ~ended_at_once
    if later.any():
        rest = _Rounds(at.counts[later], at.told[later], at.keep[later])
        yield plan, _answers(plan, first[later], rest, names)


def _answers(plan: Plan, first: Integers, at: _Rounds, names: Sequence[str]) -> dict[str, KeyBands]:
    """Frequencies of the first round; means of the last, as published or without the feedback's pull."""
    moments = view_moments(plan, first)
    value, variance = moments.values[..., 0], moments.covariance[..., 0, 0]
    frequency = Band.plain(value, variance, moments.reports, LEVEL)
    made = {}
    for name in names:
        mean = _debiased(at, value, variance) if name == "debiased" else _published(at)
        made[name] = KeyBands(moments.reports, frequency, mean)
    return made


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
        apart = Band.ratio(average / sign - at.told, frequency, covariance, shown, LEVEL)
    return Band(at.told + apart.value, apart.stderr, at.told + apart.low, at.told + apart.high)
