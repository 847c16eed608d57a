"""Collision: the exact law of sets, its proof, its words, and decoding with the pool's collisions.

Draws use stated coins. All comparisons with ``check_counts`` of this file together reject a correct
sampler with a chance of at most ``testing.FALSE_ALARM``.
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from keyveil import ChannelError, Coins, People, Plan, PlanError, Schema, Tally, estimate
from keyveil.channel import CoCo, Collision, Symmetric, parse_channel
from keyveil.channel.shapes.collision_channel import best_small
from keyveil.estimate.forecast.key_forecast import forecast
from keyveil.estimate.pools.collision_matrix import collided, core_size, undoing
from keyveil.estimate.pools.pair_evidence import PairEvidence
from keyveil.estimate.pools.pair_items import Scores, scores_of
from keyveil.estimate.pools.pool_decoder import forecast_pool_key, pool_moments
from keyveil.foundation.arrays import WORD
from keyveil.foundation.coins import address
from keyveil.foundation.stream import Stream
from keyveil.mechanisms.collision import LEAST_POOL, fitting, pool_for
from keyveil.mechanisms.encodings.item_set import ItemSet, PairItemSet
from keyveil.people.prior import Prior
from keyveil.people.views import Views
from keyveil.plan.encoding import pair_item
from keyveil.simulate.tallies import Population
from keyveil.testing import check_counts, check_sampler, check_support, crowd

EPSILONS = ("0.1", "0.2", "0.5", "1", "2", "3", "4", "5")
NAMES = ("collision", "pair_collision")


def tiny(held: int = 2, small: int = 5, items: int = 5, pool: int = 8, epsilon: str = "1") -> Collision:
    return Collision.of(items, held, Decimal(epsilon), pool, 7, small)


def sets_of(items: int, held: int) -> list[tuple[int, ...]]:
    return [members for size in range(held + 1) for members in combinations(range(items), size)]


def weights_of(channel: Collision, occupied: tuple[int, ...]) -> list[int]:
    """The weights of all cells of a seed, given the occupied cells."""
    low, rest = channel.low(len(occupied))
    weights = [channel.high] * channel.small
    for rank, cell in enumerate(sorted(set(range(channel.small)) - set(occupied))):
        weights[cell] = low + (rank < rest)
    return weights


# -- the law and its proof -------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "3", "10"])
@pytest.mark.parametrize(("held", "small"), [(1, 2), (1, 6), (2, 3), (2, 7), (3, 4), (3, 8)])
def test_the_proof_is_the_worst_ratio_over_all_sets_of_occupied_cells(held, small, epsilon):
    channel = Collision.of(9, held, Decimal(epsilon), 1, 0, small)
    rows = [weights_of(channel, occupied) for occupied in sets_of(small, held)]
    assert all(sum(row) == WORD for row in rows)
    ratios = [Fraction(max(column), min(column)) for column in zip(*rows, strict=True)]
    proof = channel.proof()
    assert max(ratios) == Fraction(proof.numerator, proof.denominator)
    assert proof.keeps(Decimal(epsilon))


def test_the_law_written_out_is_that_of_the_rows_under_every_seed():
    channel = tiny()
    hashes = channel.hashes(np.arange(channel.items))
    law = channel.expected()
    assert len(law) == channel.states == 1 + 5 + 10
    for members, row in zip(sets_of(5, 2), law, strict=True):
        weights = [
            weights_of(channel, tuple({int(c) for c in hashes[g, list(members)]})) for g in range(8)
        ]
        exact = np.array(weights).ravel() / WORD / 8  # exact: powers of two
        assert np.array_equal(row, exact)
    ratio = law.max(axis=0) / law.min(axis=0)
    assert np.log(ratio.max()) <= float(channel.proof().epsilon) + 1e-12  # doubles
    assert channel.sets(np.arange(16)).tolist() == [
        [*members, *[-1] * (2 - len(members))] for members in sets_of(5, 2)
    ]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_promise_is_kept_and_used_up(epsilon):
    for held in range(1, 22):
        channel = Collision.of(400, held, Decimal(epsilon), 1024, 1)
        assert channel.small == best_small(held, Decimal(epsilon)) < 1 << 12
        assert channel.proof().keeps(Decimal(epsilon))
        assert channel.proof().epsilon >= Decimal("0.999") * Decimal(epsilon)
        assert (
            not Collision(400, held, channel.small, 1024, 1, channel.high + 1)
            .proof()
            .keeps(Decimal(epsilon))
        )
        odds = float(Decimal(epsilon).exp())
        paper = odds / (held * odds + channel.small - held)
        assert channel.keep == pytest.approx(paper, rel=1e-6)  # 32-bit weights


def test_at_large_epsilon_the_cells_stay_within_the_tally():
    channel = Collision.of(200, 21, Decimal(10), 1024, 1)
    assert channel.cells == 1 << 22
    assert channel.proof().epsilon >= Decimal("9.99")


def test_a_held_item_is_met_with_one_weight_and_another_with_its_fair_share_over_all_hashes():
    """Exactly, in integers, remainders included: averaged over every function from items to cells."""
    channel = tiny(held=2, small=4, items=4, epsilon="0.7")
    functions = list(product(range(4), repeat=4))
    for members in sets_of(4, 2):
        met = [0] * 4
        for cells in functions:
            row = weights_of(channel, tuple({cells[item] for item in members}))
            for item in range(4):
                met[item] += row[cells[item]]
        for item in range(4):
            fair = channel.high if item in members else WORD // 4
            assert met[item] == fair * len(functions)


@pytest.mark.parametrize(
    "change",
    [
        {"pool": 3},
        {"pool": 1 << 22},
        {"held": 5},
        {"held": 0},
        {"items": 1},
        {"high": 0},
        {"high": WORD},
        {"high": WORD // 2},
        {"cells": 2},
        {"salt": -1},
        {"high": "1"},
    ],
)
def test_what_is_no_law_is_refused(change):
    with pytest.raises(ChannelError):
        parse_channel({**tiny().document(), **change})


def test_a_channel_that_breaks_its_promise_is_refused():
    channel = tiny()
    assert parse_channel(channel.document()) == channel
    with pytest.raises(ChannelError, match="breaks its promise"):
        Collision(5, 2, 5, 8, 7, channel.high + 1).check(Decimal(1))


def test_a_law_of_many_sets_is_not_written_out():
    with pytest.raises(ChannelError, match="not written out"):
        Plan.of(Schema.of(30), "collision", 1).channels[0].expected()


# -- the sampler -----------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize(
    "channel",
    [tiny(), tiny(held=3, small=4, items=4), tiny(held=1, small=2, items=3), tiny(epsilon="5")],
    ids=["two of five", "three of four", "one of three", "large epsilon"],
)
def test_the_sampler_draws_the_law_of_every_set(channel, scale):
    check_sampler(channel, draws=20_000 * scale, seed="collision")


class Leaky(Collision):
    """Forgets that items fall into one cell: such a cell is named twice as often."""

    def draw(self, states, stream):
        honest, sets = super().draw(states, stream), self.sets(states)
        seeds, word = honest // self.small, stream.words(1, 1)[:, 0]
        first, second = self.hashes(np.arange(self.items))[seeds[:, None], np.maximum(sets, 0)].T
        again = (sets[:, 1] >= 0) & (first == second) & (word < 2 * self.high)
        return np.where(again, seeds * self.small + first, honest)


@pytest.mark.sampled
def test_a_sampler_that_counts_items_and_not_cells_is_rejected():
    with pytest.raises(AssertionError, match="state"):
        check_sampler(Leaky.of(5, 2, Decimal(1), 8, 7, 5), draws=20_000, seed="collision")


# -- encoding --------------------------------------------------------------------------------------

SCHEMA = Schema.of(["a", "b", "c", "d"], 1, 5).at(2)


def encoded(encoding, records, cap, key="encode"):
    people = People.of_records(SCHEMA, records)
    stream = Stream(Coins.stated(key), people.addresses)
    picked = np.zeros(len(people), np.int64)
    return encoding.encode(SCHEMA, Views.whole(4), people, picked, stream, cap)


def test_items_are_held_keys_with_their_ends():
    records = [{}, {"a": 1}, {"a": 5, "d": 1}, {"b": 5, "c": 5, "d": 5}]
    assert encoded(ItemSet(), records, 3).tolist() == [
        [-1, -1, -1],
        [0, -1, -1],
        [1, 6, -1],
        [3, 5, 7],
    ]
    pairs = encoded(PairItemSet(), records, 3)
    assert pairs.shape == (4, 6)
    assert set(pairs[2].tolist()) == {-1, 1, 6, 8 + 4 * 2 + 2 * 1 + 0}
    assert pairs[1].tolist() == [0, -1, -1, -1, -1, -1]


def test_every_pair_of_signed_keys_is_an_item_of_its_own():
    sets = PairItemSet()
    items = {
        int(pair_item(5, first, second)) + end
        for first, second in combinations(range(5), 2)
        for end in range(4)
    }
    assert items == set(range(10, sets.items(5)))
    assert [sets.cap_for(sets.most_held(cap)) for cap in range(1, 9)] == list(range(1, 9))
    assert sets.cap_for(5) == 0


def test_who_holds_more_than_the_cap_keeps_every_choice_equally_often(scale):
    record = {"a": 1, "b": 1, "c": 1, "d": 1}
    draws = 20_000 * scale
    people = crowd(SCHEMA, record, draws)
    stream = Stream(Coins.stated("cap"), people.addresses)
    items = ItemSet().encode(SCHEMA, Views.whole(4), people, np.zeros(draws, np.int64), stream, 2)
    keys = np.sort(items // 2, axis=1)
    counts = np.bincount(keys[:, 0] * 4 + keys[:, 1], minlength=16)
    law = np.zeros(16)
    law[[first * 4 + second for first, second in combinations(range(4), 2)]] = 1 / 6
    check_counts(counts, law, "kept keys")


def test_values_are_rounded_without_bias_and_by_words_of_their_own(scale):
    draws = 20_000 * scale
    people = crowd(SCHEMA, {"a": 2, "c": 4}, draws)
    stream = Stream(Coins.stated("ends"), people.addresses)
    items = ItemSet().encode(SCHEMA, Views.whole(4), people, np.zeros(draws, np.int64), stream, 3)
    counts = np.bincount(items[:, 0] * 2 + items[:, 1] - 4, minlength=4)
    check_counts(counts, np.array([3 / 16, 9 / 16, 1 / 16, 3 / 16]), "both ends")


@pytest.mark.parametrize("name", NAMES)
def test_a_report_takes_so_many_words_whatever_is_held(name):
    plan = Plan.of(SCHEMA, name, 1, cap=2)
    words = Coins.stated("words").words(0, 0, plan.words_of(0)).tolist()
    assert plan.words_of(0) == 1 + 2 * 2 + 2
    for record in ({}, {"a": 2}, {"a": 2, "b": 3}, {"a": 2, "b": 3, "c": 4, "d": 1.5}):
        seed = plan.report(record, Coins.recorded(words), 0).cells[1] - 1
        assert seed // plan.channels[0].small == words[5] * 1024 >> 32


@pytest.mark.parametrize("name", NAMES)
def test_one_person_is_the_batch_whatever_the_chunks(name, monkeypatch):
    records = [{k: 1 + (i * j) % 5 for j, k in enumerate("abcd") if i >> j & 1} for i in range(16)] * 3
    plan = Plan.of(SCHEMA, name, 2, cap=3)
    people, coins = People.of_records(SCHEMA, records), Coins.stated("same")
    codes = plan.privatise(people, coins).codes
    cells = [plan.report(record, coins, person).cells for person, record in enumerate(records)]
    assert cells == [(0, 1 + int(code)) for code in codes]
    monkeypatch.setattr("keyveil.plan.batch.CHUNK", 5)
    assert np.array_equal(plan.privatise(people, coins).codes, codes)


def states_law(plan: Plan, record: dict[str, float]) -> dict[tuple[int, ...], float]:
    """The sets a record becomes, where no more keys are held than the cap."""
    places = [(plan.schema.index[key], (value - 1) / 4) for key, value in sorted(record.items())]
    chances = {}
    for ends in product((0, 1), repeat=len(places)):
        single = [2 * place + end for (place, _), end in zip(places, ends, strict=True)]
        pairs = [
            int(pair_item(4, first // 2, second // 2)) + 2 * (first % 2) + second % 2
            for first, second in combinations(single, 2)
        ]
        chance = np.prod([up if end else 1 - up for (_, up), end in zip(places, ends, strict=True)])
        chances[tuple(single + (pairs if plan.encode == "pair_items" else []))] = float(chance)
    return chances


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("record", [{}, {"b": 2.5}, {"a": 1.5, "c": 4, "d": 5}], ids=len)
def test_a_records_reports_follow_the_mixture_of_its_sets(name, record, scale):
    plan = Plan.of(SCHEMA, name, 1, cap=3, pool=16)
    channel = plan.channels[0]
    law = sum(c * channel.law_of(np.array(m, int)) for m, c in states_law(plan, record).items())
    draws = 60_000 * scale
    codes = plan.privatise(crowd(SCHEMA, record, draws), Coins.stated(f"law {len(record)}")).codes
    check_counts(np.bincount(codes, minlength=channel.cells), law, name)


# -- plans -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_is_read_back_and_admits_what_is_sent(name):
    plan = Plan.of(SCHEMA, name, 1)
    assert Plan.parse(plan.dumps()) == plan
    assert plan.cap == 4, "no more than there are keys"
    assert plan.channels[0].held == {"collision": 4, "pair_collision": 10}[name]
    check_support(plan)


def test_a_plan_whose_channel_is_for_other_sets_is_refused():
    plan = Plan.of(SCHEMA, "pair_collision", 1)
    parts = plan.schema, plan.views
    good = plan.channels[0]
    rest = Decimal(1), "pair_collision"
    bad = (
        Collision.of(good.items, 9, Decimal(1), 64, 1),  # no cap leaves nine items
        Collision.of(good.items - 1, 10, Decimal(1), 64, 1),
        Symmetric.of(good.items, Decimal(1)),
    )
    for channel in bad:
        with pytest.raises(PlanError, match="does not fit"):
            Plan(*parts, plan.encode, (channel,), *rest)
    with pytest.raises(PlanError, match="does not fit"):
        Plan(plan.schema.at(3), plan.views, plan.encode, (good,), *rest)
    with pytest.raises(PlanError, match="does not fit"):
        Plan(Schema.of(1).at(2), Views.whole(1), "views", (tiny(1, 3, 2),), *rest)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"pool": 1000}, "power of two"),
        ({"cells": 3}, "cells must be at least 5 for this cap"),
        ({"cap": 0}, "cap must lie between 1"),
    ],
)
def test_parameters_that_make_no_plan_are_refused(given, why):
    with pytest.raises(PlanError, match=why):
        Plan.of(SCHEMA, "collision", 1, **given)


@pytest.mark.parametrize("name", ["collision", "coco"])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "5", "10"])
@pytest.mark.parametrize("cap", [1, 8, 64])
def test_the_pool_makes_room_for_the_cells_whatever_the_epsilon_and_cap(name, epsilon, cap):
    plan = Plan.of(Schema.of(1000), name, epsilon, cap=cap, pool=1 << 16)
    channel = plan.channels[0]
    assert channel.cells <= 1 << 22
    assert channel.pool >= LEAST_POOL
    best = plan.mechanism.best(cap, Decimal(epsilon))
    assert channel.small == min(best, (1 << 22) // channel.pool)
    assert channel.small == best or channel.pool == LEAST_POOL, "cells give way last"
    assert plan.proven >= Decimal("0.999") * plan.promised


def test_seeds_give_way_to_cells():
    assert fitting(1024, 100) == (1024, 100)
    assert fitting(1024, 4097) == (512, 4097)
    assert fitting(1024, 1 << 20) == (LEAST_POOL, (1 << 22) // LEAST_POOL)
    assert fitting(4, 1 << 20) == (4, 1 << 20), "a small pool is asked for"


def test_the_pool_grows_with_the_people():
    gain = Plan.of(Schema.of(100), "collision", 1).channels[0].gain
    pool = pool_for(1e7, gain, 0.3)
    assert 1e7 * gain**2 * 0.3 / pool <= 0.05 < 1e7 * gain**2 * 0.3 / (pool / 2)
    assert pool_for(1, gain, 0.3) == 1


# -- decoding --------------------------------------------------------------------------------------

MANY = 1 << 40


def told(plan: Plan, law: dict[tuple[int, ...], float]) -> Tally:
    """A tally without noise of people who hold these sets."""
    channel = plan.channels[0]
    chances = sum(chance * channel.law_of(np.array(members, int)) for members, chance in law.items())
    counts = np.rint(chances * MANY).astype(np.int64)
    return Tally(plan, np.concatenate([[counts.sum()], counts]))


ENDS = np.array([[0.5, -0.5], [0.5, 0.5]])
"""Low and high from frequency and mass."""


def singles(plan: Plan, law: dict[tuple[int, ...], float]) -> np.ndarray:
    """Low and high of every key, from a tally without noise."""
    return (pool_moments(plan, told(plan, law).counts).values @ ENDS.T).ravel()


def test_a_pool_that_cannot_tell_two_items_apart_is_no_error():
    plan = Plan.of(SCHEMA, "collision", 5, pool=1, cells=50)
    plan = Plan(
        plan.schema, plan.views, "items", (_blind(plan.channels[0]),), plan.promised, "collision"
    )
    tally = told(plan, {(0,): 0.5, (3,): 0.5})
    assert scores_of(plan, tally).core == 8
    moments = pool_moments(plan, tally.counts)
    assert np.isfinite(moments.values).all()
    assert np.abs(moments.values).max() < 2
    assert np.isfinite(moments.covariance).all()


def _blind(channel: Collision) -> Collision:
    """The same channel with a salt under which two items collide in the only seed."""
    for salt in range(1000):
        other = Collision(channel.items, channel.held, channel.small, 1, salt, channel.high)
        if len(set(other.hashes(np.arange(8))[0].tolist())) < 8:
            return other
    raise AssertionError("every salt tells them apart")


def test_the_pool_is_corrected_for_where_that_lowers_the_error():
    channel = Collision.of(2000, 8, Decimal(1), 1024, 1)
    share = 2000 / (1024 * (channel.small - 1))
    assert [core_size(channel, 1000, part * 1024) for part in (0.9 * share, 1.1 * share)] == [0, 2000]
    few, many = (Collision.of(items, 8, Decimal(1), 1024, 1) for items in (200, 20_000))
    assert core_size(few, 100, 0.0) == 200, "costs next to nothing"
    assert core_size(many, 100, 1e9) == 200, "the singles alone"
    assert core_size(many, 5_000, 1e9) == 0, "too many to solve for"


@pytest.mark.parametrize("pool", [16, 64, 1024])
def test_sets_of_one_are_decoded_without_bias_whatever_the_pool_collides(pool):
    plan = Plan.of(SCHEMA, "collision", 1, pool=pool)
    truth = np.array([0.3, 0, 0.2, 0.1, 0, 0, 0.05, 0.25])
    law = {(): 0.1, **{(item,): float(share) for item, share in enumerate(truth)}}
    assert scores_of(plan, told(plan, law)).core == 8
    values = singles(plan, law)
    # Remainders of 2^-32 and whole counts, seen through a gain of about 0.1.
    assert np.abs(values - truth).max() < 1e-6
    raw = Scores(plan.channels[0], told(plan, law).view_counts(0)[1], 8)
    raw.core = 0
    assert np.abs(raw.of(np.arange(8))[0] - truth).max() > 0.1 / pool, "the pool does collide"


def test_larger_sets_leave_a_second_order_that_falls_with_the_pool():
    """All sets of four signed keys of eight, each alone: the bias of every item, by enumeration."""
    off = {}
    for pool in (64, 4096):
        plan = Plan.of(SCHEMA, "collision", 1, pool=pool)
        worst = []
        for members in product(*((2 * k, 2 * k + 1) for k in range(4))):
            values = singles(plan, {members: 1.0})
            truth = np.isin(np.arange(8), members)
            worst.append(np.sqrt(((values - truth) ** 2).mean()))
        off[pool] = max(worst)
    assert off[4096] < 0.02  # measured 0.011, against a standard error of 0.03 at 1e5 reports
    assert off[4096] < off[64] / 4  # by the square root of 64, and the luck of two pools


def brute(scores: Scores, items: np.ndarray) -> np.ndarray:
    """Covariance of one report's estimates, from the weight of every cell written out."""
    channel = scores.channel
    every = np.arange(channel.items)
    marks = channel.hashes(every)[:, None, :] == np.arange(channel.small)[None, :, None]
    marks = marks.reshape(channel.cells, -1).astype(float)
    score = (marks - 1 / channel.small) / channel.gain
    share = marks.T @ marks
    excess = (share / channel.pool - 1 / channel.small) / (1 - 1 / channel.small)
    core = scores.core
    weights = score.copy()
    if core:
        weights[:, :core] = score[:, :core] @ np.linalg.inv(excess[:core, :core]).T
        weights[:, core:] -= weights[:, :core] @ excess[core:, :core].T
    weights, chances = weights[:, items], scores._seen.ravel()
    mean = chances @ weights
    return (weights * chances[:, None]).T @ weights - np.outer(mean, mean)


@pytest.mark.parametrize("core", [0, 8, 32])
def test_the_covariance_is_that_of_the_cells_weights(core):
    plan = Plan.of(SCHEMA, "pair_collision", 1, pool=32)
    records = [{"a": 5, "b": 1}, {"c": 5}, {"a": 1, "b": 5, "d": 2}] * 300
    tally = Tally(plan).add(plan.privatise(People.of_records(SCHEMA, records), Coins.stated("cov")))
    scores = Scores(plan.channels[0], tally.view_counts(0)[1], 8)
    scores.core = core
    scores._core_hashes = scores.channel.hashes(np.arange(core)).astype(np.int32)
    items = np.array([0, 1, 2, 3, 8, 9, 10, 11, 31])
    covariance = scores.of(items)[1] - np.diag(np.full(len(items), scores.pool_variance))
    goal = brute(scores, items) / scores.reports
    assert np.abs(covariance - goal).max() < 1e-12 * np.abs(goal).max() * 100  # doubles


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pool", [64, 1024])
def test_the_moments_of_single_keys_are_those_of_the_cells_weights(name, pool, monkeypatch):
    # What pairs of held keys leave has nothing to do with the cells' weights.
    monkeypatch.setattr(
        sys.modules["keyveil.estimate.pools.pool_decoder"], "pair_variance", lambda *_: 0.0
    )
    plan = Plan.of(SCHEMA, name, 1, pool=pool, cap=3)
    records = [{"a": 5, "b": 1}, {"c": 5}, {"a": 1, "b": 5, "d": 2}] * 3000
    tally = Tally(plan).add(plan.privatise(People.of_records(SCHEMA, records), Coins.stated("cov")))
    scores, moments = scores_of(plan, tally), pool_moments(plan, tally.counts)
    assert scores.core == plan.channels[0].items
    values, spread = scores.of(np.arange(8))
    assert np.allclose((moments.values @ ENDS.T).ravel(), values, atol=1e-10)
    turn = np.linalg.inv(ENDS)
    for key, own in enumerate(moments.covariance):
        goal = turn @ spread[2 * key : 2 * key + 2, 2 * key : 2 * key + 2] @ turn.T
        # What collides is added as if no one held anything: off by a part of a small part.
        assert np.abs(own - goal).max() < 0.3 / np.sqrt(pool) * goal[0, 0]


def test_collisions_are_counted_alike_with_and_without_compiled_loops(monkeypatch):
    hashes = np.random.default_rng(1).integers(0, 5, (40, 12)).astype(np.int32)
    coco = CoCo.of(24, 2, Decimal(1), 64, 1)
    fast, undone = collided(hashes), undoing.__wrapped__(coco, 24)
    monkeypatch.setenv("KEYVEIL_FAST", "0")
    same = (hashes[:, :, None] == hashes[:, None, :]).sum(axis=0)
    assert np.array_equal(fast, same)
    assert np.array_equal(collided(hashes), same)
    for quick, plain in zip(undone, undoing.__wrapped__(coco, 24), strict=True):
        assert np.allclose(quick, plain, atol=1e-12)


@pytest.mark.parametrize("name", [*NAMES, "coco"])
def test_many_tallies_are_decoded_as_one_by_one(name):
    plan = Plan.of(SCHEMA, name, 2, cap=2)
    people = People.of_records(SCHEMA, [{"a": 5, "b": 1}, {"c": 5}] * 200)
    rows = [Tally(plan).add(plan.privatise(people, Coins.stated(str(i)))).counts for i in range(5)]
    rows.append(np.zeros_like(rows[0]))
    together = plan.mechanism.moments(plan, np.array(rows).reshape(2, 3, -1))
    for number, row in enumerate(rows):
        alone, at = plan.mechanism.moments(plan, row), np.unravel_index(number, (2, 3))
        assert np.array_equal(together.values[at], alone.values, equal_nan=True)
        assert np.array_equal(together.covariance[at], alone.covariance, equal_nan=True)
        assert np.array_equal(together.reports[at], alone.reports)


JOINT = {(): 0.2, ("a+",): 0.1, ("a+", "b-"): 0.3, ("a-", "b+", "d+"): 0.25, ("b-", "c+"): 0.15}


def signed(plan: Plan, names: tuple[str, ...]) -> tuple[int, ...]:
    single = sorted(2 * "abcd".index(key) + (end == "+") for key, end in names)
    pairs = [
        int(pair_item(4, first // 2, second // 2)) + 2 * (first % 2) + second % 2
        for first, second in combinations(single, 2)
    ]
    return tuple(single + pairs)


@pytest.mark.parametrize("keys", [(0,), (3,), (0, 1), (1, 0), (3, 1), (2, 3)], ids=str)
def test_moments_are_those_of_the_joint_states(keys):
    plan = Plan.of(SCHEMA, "pair_collision", 2, pool=1 << 14)
    tally = told(plan, {signed(plan, names): chance for names, chance in JOINT.items()})
    cells = np.zeros((3,) * len(keys))
    for names, chance in JOINT.items():
        digit = {"abcd".index(key): 2 if end == "+" else 1 for key, end in names}
        cells[tuple(digit.get(key, 0) for key in keys)] += chance
    weights = np.random.default_rng(3).normal(size=(*cells.shape, 5))
    truth = np.tensordot(cells, weights, len(keys))
    values, spread = PairEvidence(plan, tally).moments(keys, weights)
    assert np.abs(values - truth).max() < 0.01 * np.abs(weights).max()  # second order of the pool
    assert spread.shape == (5, 5)
    assert np.linalg.eigvalsh(spread).min() > -1e-12 * np.trace(spread)
    ones = PairEvidence(plan, tally).moments(keys, np.ones((*cells.shape, 1)))
    assert ones[0] == pytest.approx([1.0])
    assert ones[1] == pytest.approx(np.zeros((1, 1)), abs=1e-20)  # the whole has no error


def test_what_reports_do_not_speak_of_has_no_moments():
    pairs, single = (Plan.of(SCHEMA, name, 1) for name in reversed(NAMES))
    evidence = PairEvidence(pairs, Tally(pairs))
    assert evidence.moments((0, 1, 2), np.ones((3, 3, 3, 1))) is None
    assert evidence.moments((0, 0), np.ones((3, 3, 1))) is None
    assert np.isnan(evidence.moments((0, 1), np.ones((3, 3, 1)))[0]).all(), "no reports yet"
    assert PairEvidence(single, Tally(single)).moments((0, 1), np.ones((3, 3, 1))) is None
    other = Plan.of(SCHEMA, "kvue", 1)
    with pytest.raises(PlanError, match="sets of items"):
        PairEvidence(other, Tally(other))
    with pytest.raises(PlanError, match="sets of items"):
        pool_moments(other, Tally(other).counts)


@pytest.mark.parametrize("name", NAMES)
def test_without_reports_nothing_is_known(name):
    plan = Plan.of(SCHEMA, name, 1)
    for answer in estimate(plan, Tally(plan)):
        assert not answer.frequency.bounded
        assert not answer.mean.bounded
    tally = Tally(plan).add(plan.report({"a": 3}))
    assert all(answer.frequency.stderr > 1 for answer in estimate(plan, tally)), (
        "one report tells little"
    )
    json.dumps(estimate(plan, tally).document(), allow_nan=False)


# -- people ----------------------------------------------------------------------------------------


def sparse(keys: int, count: int, most: float, seed: int) -> tuple[People, np.ndarray, np.ndarray]:
    """People who hold about ``most`` of many keys, in kinds that hold keys together."""
    rng = np.random.default_rng(seed)
    frequency = np.arange(1, keys + 1) ** -0.8
    frequency = np.minimum(frequency / frequency.sum() * most, 0.8)
    kind = rng.integers(0, 4, count)
    tilt = np.where((np.arange(keys) % 4)[None, :] == kind[:, None], 2.2, 0.6)
    held = rng.random((count, keys)) < frequency * tilt
    values = np.clip(rng.normal(np.linspace(-0.5, 0.8, keys), 0.3, (count, keys)), -1, 1)
    who, places = np.nonzero(held)
    starts = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
    people = People(address(np.arange(count)), starts, places.astype(np.uint16), values[who, places])
    return people, held, values


def test_answers_lie_within_their_errors_and_these_are_as_predicted(scale):
    count = 40_000
    people, held, values = sparse(40, count, 4.0, 1)
    plan = Plan.of(Schema.of(40), "collision", 2, cap=12)
    tally = Tally(plan).add(plan.privatise(people, Coins.stated("answers")))
    answers = estimate(plan, tally, "least_squares")
    off, ratio = [], []
    for place, answer in enumerate(answers):
        truth = held[:, place].mean()
        mean = values[held[:, place], place].mean()
        off += [(answer.frequency.value - truth) / answer.frequency.stderr]
        if answer.mean.bounded:
            off += [(answer.mean.value - mean) / answer.mean.stderr]
        expected = forecast_pool_key(plan.channels[0], count, truth, mean).frequency
        ratio.append(answer.frequency.stderr**2 / expected)
    assert len(off) > 50
    assert 0.8 < np.std(off) < 1.2  # of about 60 numbers, whose spread has a deviation of 0.1
    assert np.abs(off).max() < 4.5
    assert np.mean(ratio) == pytest.approx(1, abs=0.03)  # a pool of 1024 is not all hashes


def test_pair_collision_beats_pair_views_on_sparse_records():
    """Conditional frequency of all pairs held together by more than one in a hundred, epsilon 2."""
    keys, count, epsilon = 50, 100_000, Decimal(2)
    people, held, _ = sparse(keys, count, 4.0, 2)
    wide = held.astype(np.float32)
    joint = (wide.T @ wide).astype(np.float64) / count
    pairs = [
        (first, second) for first, second in combinations(range(keys), 2) if joint[first, second] > 0.01
    ]
    assert len(pairs) > 50
    plan = Plan.of(Schema.of(keys), "pair_collision", epsilon, cap=6)
    tally = Tally(plan).add(plan.privatise(people, Coins.stated("pairs")))
    evidence = PairEvidence(plan, tally)
    every = tuple(combinations(range(keys), 2))
    views = Plan(
        Schema.of(keys).at(2), Views(every), "views", (Symmetric.of(9, epsilon),), epsilon, "kvue"
    )
    views_tally = Tally(views).add(views.privatise(people, Coins.stated("views")))
    decoder = views.channels[0].decoder(np.eye(9))
    weights = np.zeros((3, 3, 1))
    weights[1:, 1:] = 1
    error = {"collision": [], "views": []}
    off = []
    for first, second in pairs:
        value, spread = evidence.moments((first, second), weights)
        reports, counts = views_tally.view_counts(every.index((first, second)))
        joint_share = (counts / reports @ decoder).reshape(3, 3)[1:, 1:].sum()
        off.append((value[0] - joint[first, second]) / np.sqrt(spread[0, 0]))
        for given in (first, second):  # the frequency of the condition is given to both
            truth = joint[first, second] / joint[given, given]
            for name, share in (("collision", value[0]), ("views", joint_share)):
                error[name].append((np.clip(share / joint[given, given], 0, 1) - truth) ** 2)
    assert np.mean(error["views"]) > 1.5 * np.mean(error["collision"])
    assert 0.8 < np.std(off) < 1.3  # with the bias of the cap, which one in eight exceed


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["collision", "coco"])
def test_what_pairs_of_held_keys_leave_is_in_the_covariance_and_the_forecast(name, monkeypatch):
    """Three of six keys each, ten million people: with 1,024 seeds most of the error is the pool's.

    Two pools, each with its own number of cells, and fixed coins. The forecast knows the error of each,
    key by key; a covariance without that part is too low. (How large it is on average over pools, and
    how large tallies say, ``test_poolerror`` compares.)
    """
    schema, truth = Schema.of(list("abcdef"), -1, 1), np.tile([0.5, 0.25], (6, 1))
    records = [dict.fromkeys(three, 0.5) for three in combinations("abcdef", 3)]
    population = Population(schema, People.of_records(schema, records))
    prior, pools, runs = (
        Prior.of_people(schema, population.people),
        sys.modules[pool_moments.__module__],
        10,
    )
    # A value of 0.5 is rounded up three times in four.
    signed = [(three, ups) for three in combinations(range(6), 3) for ups in product((0, 1), repeat=3)]
    sets = np.array(
        [[2 * key + up for key, up in zip(three, ups, strict=True)] for three, ups in signed]
    )
    shares = np.prod([[(0.25, 0.75)[up] for up in ups] for _, ups in signed], axis=1) / 20
    error, variance, alone, claimed, spread = [], [], [], [], []
    for cells in (26, 30):
        plan = Plan.of(schema, name, 2, "tight", cap=3, cells=cells)
        law, draw = plan.channels[0].mixture(sets, shares), np.random.default_rng(cells)
        drawn = draw.multinomial(10**7, law, size=runs)
        counts = np.concatenate([np.full((runs, 1), 10**7), drawn], axis=1)
        moments = plan.mechanism.moments(plan, counts)
        off = moments.values - truth
        error.append((off**2).mean(axis=(0, 1)))
        variance.append(np.diagonal(moments.covariance.mean(axis=(0, 1))))
        with monkeypatch.context() as blind:
            blind.setattr(pools, "pair_variance", lambda *_: 0.0)
            alone.append(np.diagonal(plan.mechanism.moments(plan, counts).covariance.mean(axis=(0, 1))))
        foreseen = forecast(plan, 1e7, prior)
        claimed.append(np.diagonal(foreseen.claimed.mean(axis=0)))
        noise = np.sqrt(np.diagonal(foreseen.covariance, axis1=1, axis2=2))
        # Five standard errors of an average over runs, and of 8,180 draws of sets.
        assert (np.abs(off.mean(axis=0) - foreseen.bias) < 5 * noise / runs**0.5).all()
        assert (np.abs(off.mean(axis=0)) > 5 * noise / runs**0.5).any(), "the broken twin"
        spread.append((off.var(axis=0, ddof=1).mean(axis=0), (noise**2).mean(axis=0)))
    # 18 degrees of freedom at the least, where errors of all keys are one: three of their deviations.
    actual, expected = np.mean(spread, axis=0)
    assert actual == pytest.approx(expected, rel=3 * (2 / 18) ** 0.5)
    assert (np.mean(error, axis=0) > 1.5 * np.mean(alone, axis=0)).any(), "the broken twin"
    # What the estimator will claim is what it has claimed; pools differ in it by a tenth each.
    assert np.mean(claimed, axis=0) == pytest.approx(np.mean(variance, axis=0), rel=0.25)
