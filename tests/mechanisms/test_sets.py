"""Padding and sampling, signed bits, CoCo and sizes: laws, proofs over records, decoding, forecasts.

Draws use stated coins. All comparisons with ``check_counts`` of this file together reject a correct
sampler with a chance of at most ``testing.FALSE_ALARM``.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, product
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyveil import (
    ChannelError,
    Coins,
    FinishedError,
    People,
    Plan,
    PlanError,
    Schema,
    Tally,
    audit,
    estimate,
)
from keyveil.channel import CoCo, Symbols, Symmetric, parse_channel
from keyveil.channel.shapes.coco_channel import best_cells
from keyveil.channel.shapes.coco_channel import variances as coco_variances
from keyveil.estimate.forecast.key_forecast import forecast
from keyveil.estimate.pools.collision_matrix import undoing
from keyveil.estimate.pools.padded_items import padded_moments
from keyveil.estimate.pools.pool_decoder import pool_moments
from keyveil.foundation.arrays import WORD
from keyveil.foundation.coins import address
from keyveil.foundation.compiled import compiled
from keyveil.foundation.stream import Stream
from keyveil.mechanisms.encodings.padded_item import PaddedItem
from keyveil.mechanisms.encodings.set_size import SetSize
from keyveil.mechanisms.encodings.view_state import ViewState
from keyveil.mechanisms.pckv import padded_symmetric
from keyveil.mechanisms.signed_ue import best_pair, signed_symbols, variances
from keyveil.mechanisms.sized import CAP_NAMES, bucket_law, sizes_of
from keyveil.people.prior import Prior
from keyveil.people.size_buckets import bucket_ends, bucket_of
from keyveil.people.views import Views
from keyveil.simulate.tallies import Population, simulate, simulate_runs
from keyveil.testing import check_counts, check_sampler, crowd, report_law

EPSILONS = ("0.01", "0.1", "0.5", "1", "2", "5", "10")
PADDED = ("pckv_ue", "pckv_grr", "signed_ue")
SCHEMA = Schema.of(["a", "b", "c"], 1, 5).at(2)
ODDS = exp(1)


# -- the promise over records ----------------------------------------------------------------------


def words_for(number: int, of: int) -> int:
    """How many words give floor(word * of / 2^32) = number, by counting."""
    return -(-(number + 1) * WORD // of) + number * WORD // -of


def mixture(keys: int, length: int, signs: tuple[int, ...]) -> list[Fraction]:
    """A record's exact law over states: for each key 0 not held, 1 low, 2 high."""
    held = [(key, sign - 1) for key, sign in enumerate(signs) if sign]
    law = [Fraction(0)] * (2 * (keys + length))
    m = max(len(held), length)
    for number, (key, sign) in enumerate(held):
        law[2 * key + sign] = Fraction(words_for(number, m), WORD)
    rest = 1 - sum(law)
    for dummy in range(length):
        for sign in (0, 1):
            law[2 * (keys + dummy) + sign] = rest * Fraction(words_for(dummy, length), 2 * WORD)
    assert sum(law) == 1
    return law


def worst_over_records(keys: int, length: int, rows: list[list[Fraction]]) -> Fraction:
    """The largest ratio of any output between two of all records with values at the ends."""
    records = [mixture(keys, length, signs) for signs in product((0, 1, 2), repeat=keys)]
    outputs = [
        [sum(w * row[z] for w, row in zip(law, rows, strict=True) if w) for law in records]
        for z in range(len(rows[0]))
    ]
    return max(max(column) / min(column) for column in outputs)


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("epsilon", ["0.01", "1", "5"])
def test_the_proof_of_padded_krr_is_the_worst_ratio_over_all_records(length, epsilon):
    keys = 3
    channel = padded_symmetric(keys, length, Decimal(epsilon))
    states = channel.states
    circle = [channel.keep] + [channel.lie + (i < channel.rest) for i in range(states - 1)]
    rows = [[Fraction(circle[(z - s) % states], WORD) for z in range(states)] for s in range(states)]
    proof = PaddedItem().proof(channel, keys)
    worst, bound = worst_over_records(keys, length, rows), Fraction(proof.numerator, proof.denominator)
    assert worst <= bound
    # Never more than a unit of a lie above the truth.
    assert bound - worst <= Fraction(1, channel.lie)
    assert proof.keeps(Decimal(epsilon))
    assert proof.epsilon >= Decimal("0.999") * Decimal(epsilon)


def test_padding_amplifies_and_the_ratio_between_states_is_only_a_bound():
    for length in (1, 2, 8):
        plan = Plan.of(Schema.of(40), "pckv_grr", 1, length=length)
        states = float(plan.channels[0].proof().epsilon)
        assert states == pytest.approx(np.log(length * (ODDS - 1) + 1), rel=1e-6)  # 32-bit weights
        assert Decimal("0.999") < plan.proven <= 1
    with pytest.raises(ChannelError, match="breaks its promise"):  # without padding it is no proof
        Plan(plan.schema.at(2), plan.views, "item", (Symmetric(41, *_odds(41, 3)),), Decimal(1), "grr")


def _odds(states: int, odds: int) -> tuple[int, int]:
    lie = WORD // (odds + states - 1)
    return WORD - (states - 1) * lie, lie


@pytest.mark.parametrize("name", ["pckv_ue", "signed_ue"])
@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
def test_records_reach_the_ratio_between_states_of_symbols(name, length, epsilon):
    """So that for symbols the proof over states is the proof over records, and not wasteful."""
    plan = Plan.of(Schema.of(2), name, epsilon, length=length)
    channel, size = plan.channels[0], 2 + length
    outputs = list(product(range(channel.alphabet), repeat=size))
    rows = []
    for state in range(channel.states):
        position, own = channel.marked(state)
        laws = [channel.laws[own if p == position else 0] for p in range(size)]
        rows.append(
            [
                np.prod([Fraction(w[x], WORD) for w, x in zip(laws, output, strict=True)], dtype=object)
                for output in outputs
            ]
        )
    proof = plan.proof
    assert worst_over_records(2, length, rows) == Fraction(proof.numerator, proof.denominator)
    assert plan.proven >= Decimal("0.999") * plan.promised


@pytest.mark.parametrize("name", PADDED)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("calibrate", ["paper", "tight"])
def test_the_promise_is_kept_and_used_up(name, epsilon, calibrate):
    for keys, length in ((1, 1), (5, 5), (100, 1), (100, 7), (2000, 64)):
        plan = Plan.of(Schema.of(keys), name, epsilon, calibrate, length=length)
        assert plan.cap == length
        assert Decimal("0.999") * plan.promised <= plan.proven <= plan.promised
        assert plan == Plan.parse(plan.dumps())


def test_an_audit_proves_records_too_and_finds_a_length_that_was_tampered_with():
    plan = Plan.of(Schema.of(20), "pckv_grr", 1, length=4)
    result = audit(plan.dumps())
    assert result.sound
    assert result.proven == plan.proven
    document = plan.document()
    document["schema"]["keys"] = document["schema"]["keys"] + ["more", "keys", "yet"]  # length 1
    assert any("breaks its promise" in finding for finding in audit(document).findings)


def test_a_padded_plan_whose_channel_is_for_other_states_is_refused():
    whole = Views.whole(3)
    rest = Decimal(1), "pckv_ue"
    good = Plan.of(SCHEMA, "pckv_ue", 1, length=2).channels[0]
    bad = (
        Symbols(3, good.laws),  # no dummy
        Symbols(7, good.laws),  # more dummies than keys
        Symbols(5, good.laws[:2]),  # one sign
        Symbols(4, good.laws, 1),
        Symmetric.of(9, Decimal(1)),
    )
    for channel in bad:
        with pytest.raises(PlanError, match="does not fit"):
            Plan(SCHEMA, whole, "padded", (channel,), *rest)
    with pytest.raises(PlanError, match="does not fit"):
        Plan(SCHEMA.at(3), whole, "padded", (good,), *rest)
    with pytest.raises(PlanError, match="one view"):
        Plan(SCHEMA, Views.singles(3), "padded", (good,), *rest)


# -- the published parameters ----------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", ["0.5", "1", "3"])
def test_pckv_has_the_papers_letters(epsilon):
    odds = exp(float(epsilon))
    back, low, high = (np.array(law) / WORD for law in _channel("pckv_ue", epsilon, 1).laws)
    assert back == pytest.approx([1 - 2 / (odds + 3), 1 / (odds + 3), 1 / (odds + 3)], rel=1e-6)
    keep = odds / (odds + 1)
    assert high == pytest.approx([0.5, (1 - keep) / 2, keep / 2], rel=1e-6)
    assert low.tolist() == high[[0, 2, 1]].tolist()
    for length in (1, 4):
        channel = _channel("pckv_grr", epsilon, length)
        more, size = length * (odds - 1), 100 + length
        show, keep = (more + 2) / (more + 2 * size), (more + 1) / (more + 2)
        assert channel.keep / WORD == pytest.approx(show * keep, rel=1e-5)  # 32-bit weights
        assert channel.lie / WORD == pytest.approx(show * (1 - keep), rel=1e-5)
        assert channel.lie / WORD == pytest.approx((1 - show) / (size - 1) / 2, rel=1e-5)


def _channel(name: str, epsilon: str, length: int):
    return Plan.of(Schema.of(100), name, epsilon, length=length).channels[0]


def test_the_variances_are_the_papers_for_rare_keys():
    """n Var of frequency and mass, by the forecast for keys that no one holds; see mechanisms.md."""
    for epsilon in (0.5, 1.0, 2.0):
        odds = exp(epsilon)
        prior = Prior(np.array([1000.0]), np.zeros(1), np.full((1, 841), 1 / 841), np.array([1.0]))
        schema = Schema.of(1000)
        ue = forecast(Plan.of(schema, "pckv_ue", epsilon, length=1), 1.0, prior).covariance[0]
        of_mass = 8 * (odds + 1) ** 2 / ((odds - 1) ** 2 * (odds + 3))
        of_frequency = 8 * (odds + 1) / (odds - 1) ** 2
        # A thousandth less than for an infinity of keys: shares sum to one.
        assert ue[1, 1] == pytest.approx(of_mass, rel=2e-3)
        assert ue[0, 0] == pytest.approx(of_frequency, rel=2e-3)
        for length in (1, 4):
            plan = Plan.of(schema, "pckv_grr", epsilon, length=length)
            grr = forecast(plan, 1.0, prior).covariance[0]
            constant = 2 * (length * (odds - 1) + 2 * (1000 + length)) / (odds - 1) ** 2
            assert np.diag(grr) == pytest.approx([constant, constant], rel=2e-3)


@pytest.mark.parametrize(("epsilon", "gain"), [(0.25, 19.3), (0.5, 14.3), (1.0, 7.5), (2.0, 2.4)])
def test_signed_bits_gain_on_pckv_and_on_unary_encoding(epsilon, gain):
    odds = exp(epsilon)

    def cost(alpha, gamma):
        mass, frequency = variances(odds, alpha, gamma)
        return mass + frequency / 3

    best, pckv = cost(*best_pair(odds, 1 / 3)), cost(1 / (odds + 3), 0.0)
    unary = 1 / (odds + 1), 1 / (odds + 1) ** 2
    assert variances(odds, *unary) == pytest.approx([8 * odds / (odds - 1) ** 2] * 2)
    assert 100 * (1 - best / pckv) == pytest.approx(gain, abs=0.05)
    assert best < cost(*unary)
    grid = [
        cost(alpha, gamma)
        for alpha in np.linspace(0.01, 0.5, 200)
        for gamma in np.linspace(0, alpha, 200)[:-1]
        if (alpha + gamma) / 2 > alpha**2
    ]
    assert best <= min(grid)


def test_the_family_of_signed_bits_contains_pckv_and_unary_encoding():
    odds = exp(1)
    channel = signed_symbols(7, Decimal(1), 1 / (odds + 3), 0.0)
    paper = Plan.of(Schema.of(6), "pckv_ue", 1, length=1).channels[0]
    assert np.array(channel.laws) / WORD == pytest.approx(np.array(paper.laws) / WORD, rel=1e-6)
    fake = 1 / (odds + 1)
    bits = np.array(signed_symbols(7, Decimal(1), fake, fake**2).laws) / WORD
    assert bits[0] == pytest.approx([(1 - fake) ** 2, fake * (1 - fake), fake * (1 - fake), fake**2])
    assert bits[2] == pytest.approx([(1 - fake) / 2, fake / 2, (1 - fake) / 2, fake / 2], rel=1e-6)


@pytest.mark.parametrize("weight", ["0.001", "0.333333", "1000"])
def test_the_weight_leans_towards_frequency_or_mass(weight):
    plan = Plan.of(Schema.of(50), "signed_ue", 1, weight=weight)
    prior = Prior.of(50, held=2)
    prediction = forecast(plan, 1.0, prior)
    other = forecast(Plan.of(Schema.of(50), "signed_ue", 1), 1.0, prior)
    if Decimal(weight) > 1:
        assert prediction.frequency.mean() < other.frequency.mean()
    else:
        assert prediction.mass.mean() <= other.mass.mean() * (1 + 1e-12)


@pytest.mark.parametrize(("held", "mass"), [(1, 5.54), (4, 33.8), (8, 71.0), (16, 145.0)])
def test_coco_has_the_papers_constants(held, mass):
    """V_S at epsilon 1, with the number of cells that is best for V_S + V_f / 3."""
    cells = best_cells(held, Decimal(1))
    variances = coco_variances(held, ODDS, cells)
    assert variances[0] == pytest.approx(mass, rel=3e-3)
    others = [coco_variances(held, ODDS, c) for c in range(2 * held + 2, 40 * held + 40, 2)]
    assert variances[0] + variances[1] / 3 <= min(s + f / 3 for s, f in others) * (1 + 1e-12)
    prior = Prior(np.array([500.0]), np.zeros(1), np.full((1, 841), 1 / 841), np.array([1.0]))
    plan = Plan.of(Schema.of(500), "coco", 1, cap=held, pool=1 << 14)
    covariance = forecast(plan, 1.0, prior).covariance[0]
    # The solve adds 500 / (pool t).
    assert np.diag(covariance)[::-1] == pytest.approx(variances, rel=0.01)


# -- encoding --------------------------------------------------------------------------------------


def test_a_padded_record_is_drawn_by_its_words():
    people = People.of_records(SCHEMA, [{"a": 1, "c": 5}] * 4)
    words = np.array([[0, 9, 9], [WORD // 4, 9, 9], [WORD // 2, 0, 9], [WORD - 1, WORD - 1, WORD // 2]])
    stream = Stream(Coins.stated("x"), people.addresses, ready=words.astype(np.uint32))
    encoding, rest = PaddedItem(), (SCHEMA, Views.whole(3), people, np.zeros(4, np.int64), stream)
    states = encoding.encode(*rest, 4)
    assert states.tolist() == [0, 5, 2 * 3 + 1, 2 * (3 + 3)]
    assert encoding.encode(*rest, 1).tolist() == [0, 0, 5, 5], "two held"


@pytest.mark.parametrize("name", PADDED)
@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_records_reports_follow_the_mixture_of_its_states(name, length, scale):
    plan = Plan.of(SCHEMA, name, 2, length=length)
    for record in ({}, {"b": 2.5}, {"a": 1.5, "b": 4, "c": 5}):
        draws = 20_000 * scale
        people = crowd(SCHEMA, record, draws)
        codes = plan.privatise(people, Coins.stated(f"padded {len(record)}")).codes
        check_counts(np.bincount(codes, minlength=plan.layout.codes), report_law(plan, record), name)


@given(st.integers(0, 1 << 20))
@settings(max_examples=200)
def test_buckets_are_in_order_and_as_the_docs_say(held):
    bucket = int(bucket_of(held))
    power = max(held.bit_length() - 1, 0)
    assert bucket == (held if held < 8 else 4 * (power - 1) + (held >> (power - 2)) - 4)
    assert int(bucket_of(held + 1)) - bucket in (0, 1)
    ends = bucket_ends(bucket + 2)
    assert ends[bucket] >= held
    assert bucket == 0 or ends[bucket - 1] < held


def test_a_size_is_a_bucket_and_the_last_has_no_end():
    schema = Schema.of(30).at(2)
    records = [{str(k): 0 for k in range(count)} for count in (0, 1, 7, 8, 9, 10, 30)]
    people = People.of_records(schema, records)
    stream = Stream(Coins.stated("x"), people.addresses)
    rest = Views.whole(30), people, np.zeros(7, np.int64), stream
    assert SetSize().encode(schema, *rest, 12).tolist() == [0, 1, 7, 8, 8, 9, 11]


# -- coco ------------------------------------------------------------------------------------------


def tiny(held: int = 2, small: int = 6, items: int = 6, pool: int = 8, epsilon: str = "1") -> CoCo:
    return CoCo.of(items, held, Decimal(epsilon), pool, 7, small)


def claims(small: int, held: int) -> list[tuple[int, ...]]:
    """Every set of at most ``held`` pairs of cells, with every choice of signs."""
    half = small // 2
    return [
        tuple(pair + half * sign for pair, sign in zip(pairs, signs, strict=True))
        for size in range(held + 1)
        for pairs in combinations(range(half), size)
        for signs in product((0, 1), repeat=size)
    ]


def claim_weights(channel: CoCo, claimed: tuple[int, ...]) -> list[int]:
    """The weights of all cells of a seed, given the signed cells of the claimed pairs."""
    mirrors = {(cell + channel.small // 2) % channel.small for cell in claimed}
    weight, rest = channel.left(len(claimed))
    weights = [0] * channel.small
    others = sorted(set(range(channel.small)) - set(claimed) - mirrors)
    for rank, cell in enumerate(others):
        weights[cell] = weight + (rank < rest)
    for cell in claimed:
        weights[cell] = channel.high
        weights[(cell + channel.small // 2) % channel.small] = channel.low
    return weights


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "3", "10"])
@pytest.mark.parametrize(("held", "small"), [(1, 4), (1, 8), (2, 6), (2, 8), (3, 8), (3, 10)])
def test_the_proof_of_coco_is_the_worst_ratio_over_all_claims(held, small, epsilon):
    channel = CoCo.of(6, held, Decimal(epsilon), 1, 0, small)
    rows = [claim_weights(channel, claimed) for claimed in claims(small, held)]
    assert all(sum(row) == WORD for row in rows)
    worst = max(Fraction(max(column), min(column)) for column in zip(*rows, strict=True))
    proof = channel.proof()
    assert worst == Fraction(proof.numerator, proof.denominator)
    assert proof.keeps(Decimal(epsilon))
    assert proof.epsilon >= Decimal("0.999") * Decimal(epsilon)


def test_coco_takes_the_largest_weight_that_keeps_the_promise():
    channel = tiny()
    more = CoCo(6, 2, 6, 8, 7, channel.high + 1, (WORD - 2 * (channel.high + 1)) // 4)
    assert not more.proof().keeps(Decimal(1))
    assert parse_channel(channel.document()) == channel


@pytest.mark.parametrize(
    "change",
    [
        {"pool": 3},
        {"pool": 1 << 22},
        {"held": 3},
        {"held": 0},
        {"items": 5},
        {"cells": 7},
        {"cells": 4},
        {"high": WORD // 2},
        {"low": 0},
        {"low": WORD // 2},
        {"high": 1},
        {"salt": -1},
        {"high": "1"},
    ],
)
def test_what_is_no_coco_is_refused(change):
    with pytest.raises(ChannelError):
        parse_channel({**tiny().document(), **change})


@pytest.mark.sampled
@pytest.mark.parametrize(
    "channel",
    [tiny(), tiny(held=3, small=8, items=6, pool=2), tiny(held=1, small=4), tiny(epsilon="5")],
    ids=["two", "three", "one", "large epsilon"],
)
def test_coco_draws_the_law_of_every_set(channel, scale):
    check_sampler(channel, draws=10_000 * scale, seed="coco")


class Careless(CoCo):
    """Forgets the dummies: who holds less is dropped less."""

    def _claimed(self, seeds, sets, dummies):
        return super()._claimed(seeds, np.where(sets < 0, np.maximum(sets[:, :1], 0), sets), dummies)


@pytest.mark.sampled
def test_a_coco_without_dummies_is_rejected():
    with pytest.raises(AssertionError, match="state"):
        check_sampler(Careless.parse(tiny().document()), 10_000)


@pytest.mark.parametrize("pool", [64, 1024])
def test_coco_decodes_sets_of_one_without_bias_whatever_the_pool_collides(pool):
    plan = Plan.of(Schema.of(5), "coco", 1, pool=pool, cap=2)
    channel, many = plan.channels[0], 1 << 40
    truth = np.array([0.3, 0, 0.2, 0.1, 0, 0, 0.05, 0.2, 0.02, 0])
    chances = (1 - truth.sum()) * channel.law_of(np.array([], int))
    chances = chances + sum(x * channel.law_of(np.array([item])) for item, x in enumerate(truth))
    counts = np.rint(chances * many).astype(np.int64)
    values = pool_moments(plan, np.concatenate([[counts.sum()], counts])).values
    low, high = truth.reshape(5, 2).T
    assert np.abs(values - np.stack([low + high, high - low], axis=1)).max() < 1e-6  # rounding of units
    assert np.abs(undoing(channel, 10)[0][1] - np.eye(5)).max() > 0.1 / pool, "the pool does collide"


# -- decoding --------------------------------------------------------------------------------------


def ideal(plan: Plan, law: np.ndarray, many: int = 1 << 40) -> np.ndarray:
    cell_counts = np.rint(plan.channels[0].mix(law) * many).astype(np.int64)[: plan.channels[0].cells]
    return np.concatenate([[many], cell_counts])


@pytest.mark.parametrize("name", PADDED)
@pytest.mark.parametrize(("keys", "length"), [(3, 2), (40, 3)])
def test_a_padded_tally_without_noise_is_decoded_exactly(name, keys, length):
    plan = Plan.of(Schema.of(keys), name, 1, length=length)
    law = np.random.default_rng(1).dirichlet(np.ones(2 * (keys + length)))
    for summed in (True, False):
        moments = padded_moments(plan, ideal(plan, law), summed)
        low, high = law[: 2 * keys].reshape(keys, 2).T * length
        goal = np.stack([low + high, high - low], axis=1)
        assert np.abs(moments.values - goal).max() < 1e-7  # whole counts out of 2^40


@pytest.mark.parametrize("name", PADDED)
def test_the_covariance_is_that_of_all_outputs(name):
    """By writing out every output of a small plan: weights on outputs, and their covariance."""
    plan = Plan.of(Schema.of(2), name, 1, length=1)
    channel, rng = plan.channels[0], np.random.default_rng(2)
    law = rng.dirichlet(np.full(6, 3.0))
    chances = law @ channel.expected()
    many = 1 << 40
    counts = np.concatenate([[many], np.rint(chances * many).astype(np.int64)])
    base = padded_moments(plan, counts)
    weights = []  # the estimator is linear in the shares: what one more report of an output would do
    for output in range(channel.cells):
        unit = np.zeros(channel.cells + 1, np.int64)
        unit[[0, 1 + output]] = 1
        weights.append(padded_moments(plan, unit).values)
    weights = np.array(weights)
    mean = np.tensordot(chances, weights, 1)
    assert np.abs(mean - base.values).max() < 1e-9
    apart = weights - mean
    goal = np.einsum("o,oki,okj->kij", chances, apart, apart)
    assert base.covariance * many == pytest.approx(goal, rel=1e-6, abs=1e-6)


def test_least_squares_is_no_worse_than_every_key_by_itself():
    for name in ("pckv_ue", "signed_ue"):
        plan = Plan.of(Schema.of(3), name, 1, length=1)
        counts = ideal(plan, np.full(8, 1 / 8))
        best, own = (padded_moments(plan, counts, summed).covariance for summed in (True, False))
        assert (best[:, 0, 0] < 0.9 * own[:, 0, 0]).all(), "four positions that sum to one"
        assert best[:, 1, 1] == pytest.approx(own[:, 1, 1])


def test_the_published_estimators_are_pckvs_formulas():
    plan = Plan.of(Schema.of(60), "pckv_ue", 1, length=2)
    n, odds = 10_000, ODDS
    counts = np.zeros(plan.layout.cells, np.int64)
    counts[0], counts[1:] = n, np.random.default_rng(3).integers(1_600, 2_400, plan.layout.cells - 1)
    a, b, p = 0.5, 2 / (odds + 3), odds / (odds + 1)
    tally = Tally(plan, counts)
    low, high = counts[1 : 1 + 120].reshape(60, 2).T.astype(float)
    f = np.clip(2 * ((low + high) / n - b) / (a - b), 1 / n, 1)
    matrix = np.array([[a * p - b / 2, a * (1 - p) - b / 2], [a * (1 - p) - b / 2, a * p - b / 2]])
    n1, n2 = np.linalg.solve(matrix, np.stack([high, low]) - n * b / 2)
    n1, n2 = (np.minimum(np.maximum(x, 1), n * f / 2) for x in (n1, n2))
    answers = estimate(plan, tally, "published")
    assert [x.frequency.value for x in answers] == pytest.approx(f, rel=1e-6)  # 32-bit weights
    assert [x.mean.value for x in answers] == pytest.approx(2 * (n1 - n2) / (n * f), rel=1e-4, abs=1e-6)
    assert all(np.isnan(x.mean.stderr) for x in answers), "clipped: no interval is claimed"
    assert "clipped" in answers.note
    answers = estimate(plan, tally, "baseline")
    raw = 2 * ((low + high) / n - b) / (a - b)
    assert [x.frequency.value for x in answers] == pytest.approx(raw, abs=1e-6)
    known = raw > 0
    mean = ((high - low) * (a - b) / (a * (2 * p - 1) * (high + low - n * b)))[known]
    assert [x.mean.value for x, k in zip(answers, known, strict=True) if k] == pytest.approx(
        mean, rel=1e-4
    )


@pytest.mark.parametrize("name", [*PADDED, "coco"])
def test_without_reports_nothing_is_known(name):
    plan = Plan.of(SCHEMA, name, 1)
    for answer in estimate(plan, Tally(plan)):
        assert not answer.frequency.bounded
        assert not answer.mean.bounded
    tally = Tally(plan).add(plan.report({"a": 3}))
    assert all(answer.frequency.stderr > 1 for answer in estimate(plan, tally)), (
        "one report tells little"
    )


def test_estimators_of_padding_refuse_other_plans():
    other = Plan.of(SCHEMA, "kvue", 1)
    with pytest.raises(PlanError, match="pad and sample"):
        padded_moments(other, Tally(other).counts)


# -- simulation ------------------------------------------------------------------------------------

RECORDS = [{}, {"a": 1.5}, {"b": 5, "c": 2}, {"a": 4, "b": 3, "c": 1}, {"c": 4.5}]
CROWD = Population(SCHEMA, People.of_records(SCHEMA, RECORDS))


def population_law(plan: Plan) -> np.ndarray:
    """Pr[code] of a person drawn from the crowd, by the law of each record."""
    return sum(report_law(plan, record) for record in RECORDS) / len(RECORDS)


FAST = [("collision", {"pool": 16, "cap": 3}), ("coco", {"pool": 16, "cap": 3})]
FAST += [("pair_collision", {"pool": 16, "cap": 3})]
FAST += [(name, {"length": length}) for name in PADDED for length in (1, 3)]
FAST += [("grr", {}), ("shist", {}), ("kvue", {}), ("kvoh", {}), ("sized", {})]


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "given"), FAST, ids=lambda part: str(part))
def test_a_simulated_tally_follows_the_law_of_the_per_person_path(name, given, scale):
    plan = Plan.of(SCHEMA, name, 2, **given)
    people = 60_000 * scale
    tally = simulate(plan, CROWD, people, Coins.stated(f"simulated {name}"))
    assert tally.reports == people
    check_counts(tally.counts[plan.layout.code_cells], population_law(plan), name)
    rows = simulate_runs(plan, CROWD, people // 10, Coins.stated(f"runs {name}"), 10)
    assert (rows[:, plan.layout.own].sum(axis=1) == people // 10).all()
    assert len({tuple(row) for row in rows}) == 10
    check_counts(rows.sum(axis=0)[plan.layout.code_cells], population_law(plan), f"{name}, runs")


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["collision", "coco", "pair_collision"])
def test_simulation_without_compiled_loops_follows_the_same_law(name, monkeypatch):
    monkeypatch.setenv("KEYVEIL_FAST", "0")
    plan = Plan.of(SCHEMA, name, 2, pool=16, cap=3)
    tally = simulate(plan, CROWD, 60_000, Coins.stated("plain"))
    check_counts(tally.counts[1:], population_law(plan), name)


@pytest.mark.sampled
@pytest.mark.skipif(compiled() is None, reason="numba is not installed")
@pytest.mark.parametrize("name", ["collision", "coco"])
def test_a_cap_keeps_every_choice_equally_often_in_the_compiled_loop(name):
    """Against the per-person path, of records that exceed the cap; both sampled, a two-sample test."""
    plan = Plan.of(SCHEMA, name, 3, pool=4, cap=1)
    fast = simulate_runs(plan, CROWD, 200_000, Coins.stated("fast"), 1)[0, 1:]
    people = CROWD.draw(200_000, np.random.default_rng(5))
    slow = Tally(plan).add(plan.privatise(people, Coins.stated("slow"))).counts[1:]
    misfit = ((fast - slow) ** 2 / (fast + slow)).sum()
    # Chi-square with a degree less than there are cells: five deviations, one in 10^5 at most.
    assert misfit < len(fast) + 5 * np.sqrt(2 * len(fast)) + 10


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["collision", "coco", "pair_collision", *PADDED])
def test_the_comparison_sees_one_person_in_five_who_rounds_the_other_way(name):
    wrong = Population(SCHEMA, People.of_records(SCHEMA, [*RECORDS[:-1], {"c": 1.5}]))
    plan = Plan.of(SCHEMA, name, 5, **({"length": 1} if name in PADDED else {"pool": 16, "cap": 3}))
    tally = simulate(plan, wrong, 60_000, Coins.stated("wrong"))
    with pytest.raises(AssertionError):
        check_counts(tally.counts[1:], population_law(plan), "wrong")


class Made(Population):
    """People who are made as they are drawn, as those of a stated population are."""

    def draw(self, people, draw, first=0):
        return super().draw(people, draw, first)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["collision", "coco"])
def test_people_who_are_made_as_they_are_drawn_follow_the_same_law(name, monkeypatch):
    monkeypatch.setattr("keyveil.simulate.tallies.MANY", 7_000)
    plan = Plan.of(SCHEMA, name, 2, pool=16, cap=3)
    tally = simulate(plan, Made(SCHEMA, CROWD.people), 60_000, Coins.stated("made"))
    assert tally.reports == 60_000
    check_counts(tally.counts[1:], population_law(plan), name)


@pytest.mark.sampled
def test_runs_may_be_numbered_and_repeat():
    plan, coins = Plan.of(SCHEMA, "collision", 1), Coins.stated("numbered")
    runs = simulate_runs(plan, CROWD, 1_000, coins, range(3, 5))
    assert runs.shape == (2, plan.layout.cells)
    assert np.array_equal(runs, simulate_runs(plan, CROWD, 1_000, coins, [3, 4]))
    assert not np.array_equal(runs, simulate_runs(plan, CROWD, 1_000, coins, 2))
    assert len(simulate_runs(plan, CROWD, 1_000, coins, 0)) == 0


def test_the_law_of_single_keys_is_that_of_the_dense_table():
    people = CROWD.people
    for levels in (1, 2, 3, 5):
        crowd_ = Population(SCHEMA, people, levels)
        dense = crowd_.chances.mean(axis=0)
        for key in range(3):
            assert crowd_.law((key,)) == pytest.approx(dense[key])
        both = np.einsum("pi,pj->ij", crowd_.chances[:, 0], crowd_.chances[:, 2]) / len(people)
        assert crowd_.law((0, 2)) == pytest.approx(both.ravel())
        three = np.einsum("pi,pj,pk->ijk", *(crowd_.chances[:, k] for k in (2, 0, 1))) / len(people)
        assert crowd_.law((2, 0, 1)) == pytest.approx(three.ravel())
    assert CROWD.at(3) is CROWD.at(3)
    assert CROWD.at(3).at(2) is CROWD
    assert CROWD.sizes.tolist() == [0.2, 0.4, 0.2, 0.2]


def test_the_drawn_law_is_that_of_padding():
    for length in (1, 2, 3):
        goal = np.zeros((3, 2))
        for record in RECORDS:
            for key, value in record.items():
                up = (value - 1) / 4
                goal["abc".index(key)] += np.array([1 - up, up]) / max(len(record), length)
        assert CROWD.drawn(length) == pytest.approx(goal / len(RECORDS))


@pytest.mark.sampled
def test_a_population_with_other_keys_is_refused():
    with pytest.raises(PlanError, match="other keys"):
        simulate(Plan.of(Schema.of(2), "kvue", 1), CROWD, 10, Coins.stated("x"))


# -- forecasts -------------------------------------------------------------------------------------


def sparse(keys: int, people: int, most: float) -> Population:
    """People who hold about ``most`` of the keys, some keys more often than others."""
    rng = np.random.default_rng(4)
    frequency = np.arange(1, keys + 1) ** -0.7
    frequency = np.minimum(frequency / frequency.sum() * most, 0.8)
    held = rng.random((people, keys)) < frequency * rng.gamma(4, 0.25, people)[:, None]
    places = np.nonzero(held)[1]
    values = np.clip(rng.normal(np.linspace(-0.6, 0.8, keys)[places], 0.4), -1, 1)
    starts = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
    return Population(
        Schema.of(keys), People(address(np.arange(people)), starts, places.astype(np.uint16), values)
    )


SPARSE = sparse(30, 5_000, 4.0)
BELIEF = Prior.of_people(SPARSE.schema, SPARSE.people)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("pckv_ue", {"length": 2}),
        ("pckv_ue", {"length": 6}),
        ("pckv_grr", {"length": 6}),
        ("signed_ue", {"length": 6}),
        ("collision", {"cap": 3}),
        ("collision", {"cap": 8}),
        ("coco", {"cap": 3}),
        ("coco", {"cap": 8}),
        ("pair_collision", {"cap": 4}),
    ],
    ids=str,
)
def test_the_predicted_error_is_the_measured_one(name, given):
    """At 100,000 people and epsilon 2, over 30 keys: a ratio's own deviation is about 2 %."""
    plan = Plan.of(SPARSE.schema, name, 2, **given)
    people, runs = 100_000, 400 if name in PADDED else 60
    counts = simulate_runs(plan, SPARSE, people, Coins.stated("forecast"), runs)
    moments = plan.mechanism.moments(plan, counts)
    truth = np.stack([BELIEF.frequency, BELIEF.frequency * BELIEF.mean], axis=1)
    prediction = forecast(plan, people, BELIEF)
    error = moments.values - truth
    for column, predicted in enumerate((prediction.frequency, prediction.mass)):
        assert 0.9 < predicted.mean() / (error[..., column] ** 2).mean() < 1.1
        own = moments.covariance[..., column, column].mean()
        assert 0.9 < own / error[..., column].var(axis=0).mean() < 1.1, "what a tally says of itself"


def kept_by_hand(cap: int) -> np.ndarray:
    """Frequency and mass of what people keep, one person after the other."""
    size = np.diff(SPARSE.people.starts)
    share = np.minimum(1, cap / np.repeat(size, size))
    keys, values = SPARSE.people.keys, SPARSE.people.values
    return np.stack([np.bincount(keys, share), np.bincount(keys, share * values)], axis=1) / len(size)


@pytest.mark.parametrize("cap", [1, 3, 6])
def test_a_table_tells_what_a_cap_leaves_of_every_key(cap):
    assert BELIEF.capped(cap) == pytest.approx(kept_by_hand(cap), abs=1e-12)


@pytest.mark.parametrize("cap", [1, 3, 6])
def test_without_a_table_who_holds_a_frequent_key_keeps_it_more_often(cap):
    blind = replace(BELIEF, together=None)
    held = BELIEF.frequency
    shares, true = blind.capped(cap)[:, 0] / held, kept_by_hand(cap)[:, 0] / held
    assert np.abs(shares - true).max() < 0.05
    assert np.abs(shares - true).mean() < np.abs(BELIEF.kept(cap) - true).mean(), "than one for all"
    average = BELIEF.sizes @ np.minimum(np.arange(len(BELIEF.sizes)), cap)
    assert shares @ held == pytest.approx(average, rel=0.01)


def test_who_holds_every_key_keeps_each_alike():
    every = Prior.of(5, held=5)
    assert every.capped(2)[:, 0] == pytest.approx(np.full(len(every.count), 0.4))


# -- sizes -----------------------------------------------------------------------------------------


def told_sizes(plan: Plan, sizes: np.ndarray, many: int = 1 << 40) -> Tally:
    buckets = plan.channels[0].states
    law = np.bincount(np.minimum(bucket_of(np.arange(len(sizes))), buckets - 1), sizes, buckets)
    return Tally(plan, ideal(plan, law, many))


@pytest.mark.parametrize("epsilon", ["0.5", "1", "5"])
def test_sizes_are_found_again(epsilon):
    plan = Plan.of(Schema.of(40), "sized", epsilon)
    sizes = np.zeros(30)
    sizes[[0, 1, 3, 9, 20]] = 0.1, 0.3, 0.3, 0.2, 0.1
    tally = told_sizes(plan, sizes)
    law = bucket_law(plan, tally.counts)
    assert law[[0, 1, 3, 8, 13]] == pytest.approx([0.1, 0.3, 0.3, 0.2, 0.1], abs=1e-6)
    estimates = sizes_of(plan, tally.counts)
    assert estimates.sum() == pytest.approx(1)
    assert estimates[[8, 9]] == pytest.approx([0.1, 0.1], abs=1e-6)
    assert estimates[20:24] == pytest.approx(np.full(4, 0.025), abs=1e-6)


@pytest.mark.parametrize("then", ["collision", "coco", "pckv_ue", "pckv_grr", "signed_ue"])
def test_the_second_plan_has_the_cap_that_the_first_found(then):
    sizes = np.zeros(12)
    sizes[[1, 3, 11]] = 0.5, 0.42, 0.08
    for quantile, cap in (("0.5", 1), ("0.9", 3), ("0.95", 10), ("1", 11)):
        first = Plan.of(Schema.of(40), "sized", 1, then=then, rule="quantile", quantile=quantile)
        second = first.next(told_sizes(first, sizes))
        assert second.cap == second.chain["cap"] == cap
        assert second.chain["parent"] == first.hash
        assert first.chain["share"], second.chain["share"] == ("0.1", "0.9")
        assert max(first.proven, second.proven) <= 1, "people are split: the larger, not the sum"
        assert Decimal(second.chain["spent"]) == first.proven, "for who answers both"
        assert Plan.parse(second.dumps()) == second
        assert Plan.parse(first.dumps()) == first
        alone = Plan.of(Schema.of(40), then, 1, **{CAP_NAMES[then]: cap})
        assert second.channels == alone.channels
        with pytest.raises(FinishedError):
            second.next(Tally(second))


def test_the_best_cap_has_the_least_predicted_error():
    first = Plan.of(SPARSE.schema, "sized", 1)
    second = first.next(told_sizes(first, SPARSE.sizes, 100_000))
    prior = Prior.of(30, sizes=SPARSE.sizes)
    errors = {}
    for cap in range(1, 20):
        prediction = forecast(Plan.of(SPARSE.schema, "collision", 1, cap=cap), 900_000, prior)
        errors[cap] = float(prior.weight @ (prediction.frequency + prediction.mass))
    assert errors[second.cap] <= 1.05 * min(errors.values())  # sizes within a bucket are alike
    # More people make room for a larger cap: bias counts for more than noise.
    more = first.next(told_sizes(first, SPARSE.sizes, 10_000_000))
    assert more.cap > second.cap


@pytest.mark.sampled
def test_the_chain_answers_in_its_second_round():
    first = Plan.of(SPARSE.schema, "sized", 4)
    tally = simulate(first, SPARSE, 10_000, Coins.stated("sized"))
    assert not any(answer.frequency.bounded for answer in estimate(first, tally))
    second = first.next(tally)
    counts = simulate(second, SPARSE, 90_000, Coins.stated("sized")).counts
    shares = BELIEF.kept(second.cap)
    moments = second.mechanism.moments(second, counts)
    off = (moments.values[:, 0] - shares * BELIEF.frequency) / np.sqrt(moments.covariance[:, 0, 0])
    assert np.abs(off).max() < 4.5
    prediction = forecast(first, 100_000, BELIEF)
    alone = forecast(Plan.of(SPARSE.schema, "collision", 4, cap=second.cap), 90_000, BELIEF)
    assert prediction.frequency.mean() == pytest.approx(alone.frequency.mean(), rel=0.1)


def test_a_cap_needs_reports_of_sizes():
    plan = Plan.of(SCHEMA, "sized", 1)
    with pytest.raises(PlanError, match="has no reports yet"):
        plan.next(Tally(plan))


@pytest.mark.parametrize(
    "change", [{"cap": 1}, {"round": 3}, {"round": True}, {"share": "x"}, {"more": 1}, {"spent": "-1"}]
)
def test_a_chain_that_no_round_could_have_made_is_found(change):
    document = Plan.of(SCHEMA, "sized", 1).document()
    document["chain"] = {**document["chain"], **change}
    assert any("chain" in finding for finding in audit(document).findings)


def test_a_channel_says_its_cap():
    assert ViewState().cap(Symmetric.of(3, Decimal(1)), 3) == 0
    assert PaddedItem().cap(Symmetric.of(10, Decimal(1)), 3) == 2
    assert SetSize().cap(Symmetric.of(10, Decimal(1)), 3) == 10
