"""Mechanisms: every one conforms at every epsilon, and equals its paper or differs as the errata say."""

from __future__ import annotations

import os
from decimal import Decimal
from math import exp, log, log2, tanh

import numpy as np
import pytest

from keyveil import (
    REGISTRY,
    Coins,
    FinishedError,
    People,
    Plan,
    PlanError,
    ReportError,
    Schema,
    Tally,
    estimate,
)
from keyveil.channel import Symbols, Symmetric, Table
from keyveil.estimate.linear import key_weights, least_squares
from keyveil.foundation.arrays import WORD
from keyveil.foundation.compiled import compiled, histogram
from keyveil.foundation.stream import Stream
from keyveil.mechanisms import privkv
from keyveil.mechanisms.f2m import by_two_bits, f2m_rows
from keyveil.mechanisms.kvoh import by_bits, by_constrained_bits
from keyveil.mechanisms.mechanism import CALIBRATIONS, Draft, Mechanism, fitted
from keyveil.mechanisms.privkv import keeps_of, privkv_rows
from keyveil.people.views import Views
from keyveil.testing import (
    EPSILONS,
    check_covariance,
    check_decoder,
    check_mechanism,
    check_privacy,
    check_support,
    example_plan,
    ideal_tally,
    report_law,
)

SCHEMA = Schema.of(["a", "b", "c"], 1, 5)
ONE = Schema.of(["a"], -1, 1)
CHECKS = (check_privacy, check_decoder, check_covariance, check_support)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("calibrate", CALIBRATIONS)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", REGISTRY)
def test_conforms(name, epsilon, calibrate, check):
    check(example_plan(SCHEMA, name, epsilon, calibrate))


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["kvue", "harmony", "grr"])
def test_the_whole_suite_is_one_call_for_third_parties(name):
    check_mechanism(name, draws=5_000)


@pytest.mark.parametrize("calibrate", CALIBRATIONS)
@pytest.mark.parametrize("epsilon", ["0.001", "20"])
@pytest.mark.parametrize("name", REGISTRY)
def test_the_ends_of_what_can_be_promised_are_kept(name, epsilon, calibrate):
    plan = example_plan(SCHEMA, name, epsilon, calibrate)
    assert plan.proof.keeps(plan.promised)


@pytest.mark.parametrize("name", [n for n, kind in REGISTRY.items() if kind.fewest_keys == 1])
def test_one_key_is_enough(name):
    plan = Plan.of(ONE, name, 1)
    for check in CHECKS[1:]:
        check(plan)
    if name == "rappor":  # a single bit speaks against silence alone, and half of epsilon is unused
        assert float(plan.proven) == pytest.approx(0.5, abs=1e-9)  # 32-bit weights
    else:
        check_privacy(plan)


@pytest.mark.parametrize("default", ["1", "2", "3", "3.6", "5"])
@pytest.mark.parametrize("split", ["0.1", "0.5", "0.9"])
@pytest.mark.parametrize("calibrate", CALIBRATIONS)
def test_f2m_conforms_whatever_its_default_and_split(default, split, calibrate):
    plan = Plan.of(SCHEMA, "f2m", 1, calibrate, default=default, split=split)
    for check in CHECKS:
        check(plan)


@pytest.mark.parametrize(
    ("schema", "given", "refusal"),
    [
        (
            SCHEMA,
            "0.5",
            "default must lie in [1, 5], for values on [1, 5]: the value an absent key is given",
        ),
        (
            SCHEMA,
            5.1,
            "default must lie in [1, 5], for values on [1, 5]: the value an absent key is given",
        ),
        (Schema.of(2, 0, "0.3"), 1, "default must lie in [0, 0.3], for values on [0, 0.3]: the value"),
        (Schema.of(2), 2, "default must lie in [-1, 1], for values on [-1, 1]: the value"),
        (SCHEMA, "high", "default must be a number, like 1 or 0.5"),
    ],
)
def test_f2m_refuses_a_default_outside_the_range_of_values(schema, given, refusal):
    with pytest.raises(PlanError) as error:
        Plan.of(schema, "f2m", 1, default=given)
    assert str(error.value).startswith(refusal)


def test_an_absent_key_of_f2m_sends_the_value_bit_of_the_default():
    """The middle of the range sends a fair bit; an end sends what a holder of that value sends."""
    for default, share in ((1, None), (3, 0.5), (5, None)):
        absent, low, high = Plan.of(SCHEMA, "f2m", 1, default=default).channels[0].expected()
        same = {1: low, 5: high}.get(default)
        said_high = absent[1] + absent[3]
        wanted = share if same is None else same[1] + same[3]
        assert said_high == pytest.approx(wanted, abs=1e-8)


def test_the_check_of_privacy_rejects_a_wasteful_plan_that_says_it_is_tight():
    plan = Plan.of(ONE, "privkv", 1)
    check_privacy(plan)
    claims = Plan(plan.schema, plan.views, "views", plan.channels, plan.promised, "privkv", "tight")
    with pytest.raises(AssertionError, match=r"promises 1 and proves only 0\.71"):
        check_privacy(claims)


def test_the_check_of_the_decoder_rejects_an_estimator_that_forgets_what_absent_keys_say(monkeypatch):
    """PrivKV's own mean, passed off as unbiased."""

    def passed_off(plan, tally, level):
        honest = privkv.unbiased(plan, tally, level)
        means = privkv.published(plan, tally, level)
        keys = tuple(
            type(a)(a.key, a.frequency, type(a.mean)(b.mean.value, a.mean.stderr, 1, 5, 1))
            for a, b in zip(honest, means, strict=True)
        )
        return honest.replaced(keys, "wrong")

    monkeypatch.setitem(REGISTRY["privkv"].estimators, "unbiased", passed_off)
    with pytest.raises(AssertionError, match="estimator unbiased: mean"):
        check_decoder(Plan.of(SCHEMA, "privkv", 1))


# -- true epsilons ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("nominal", "true"), [("0.5", 0.367), ("1", 0.719), ("2", 1.380), ("4", 2.566)])
def test_privkv_truly_spends_less_than_it_says(nominal, true):
    half = float(nominal) / 2
    assert float(Plan.of(ONE, "privkv", nominal).proven) == pytest.approx(
        max(half, half + log(2 / (1 + exp(-half)))), abs=1e-8
    )  # weights are rounded to 32 bits
    assert float(Plan.of(ONE, "privkv", nominal).proven) == pytest.approx(true, abs=5e-4)  # 3 places


@pytest.mark.parametrize(("default", "true"), [("0", 0.781), ("1", 1.0), ("-1", 1.0)])
def test_f2m_spends_all_of_its_epsilon_only_with_a_default_at_an_end(default, true):
    plan = Plan.of(ONE, "f2m", 1, default=default)
    assert float(plan.proven) == pytest.approx(true, abs=5e-4)  # printed to 3 places
    if default == "0":
        assert float(plan.proven) == pytest.approx(0.5 + log((1 + exp(0.5)) / 2), abs=1e-8)  # 32 bits


@pytest.mark.parametrize(
    ("name", "true"), [("privkv", 0.7191), ("privkvm", 0.9747), ("privkvm_plus", 0.9980), ("f2m", 1.0)]
)
def test_the_true_epsilon_of_a_published_mechanism_is_stated_over_all_rounds(name, true):
    assert float(REGISTRY[name].true_epsilon(Decimal(1))) == pytest.approx(true, abs=5e-5)  # 4 places


@pytest.mark.parametrize("name", [n for n, m in REGISTRY.items() if not m.wasteful])
def test_what_is_not_called_wasteful_proves_what_it_promises(name):
    if REGISTRY[name].parameters.get("rounds") is None:
        assert 0.999 <= float(REGISTRY[name].true_epsilon(Decimal(1))) <= 1


def told(plan: Plan, mean: float) -> Tally:
    """A tally whose raw means are all ``mean``."""
    counts = np.zeros(plan.layout.cells, np.int64)
    for view, channel in enumerate(plan.view_channels):
        keep, reports, own = keeps_of(channel)[1], 1 << 40, int(plan.layout.own[view])
        high = round(reports * (1 + mean * (2 * keep - 1)) / 2)
        counts[own : own + 4] = reports, 0, reports - high, high
    return Tally(plan, counts)


@pytest.mark.parametrize("mean", [-1.0, -0.9, -0.3, 0.0, 0.45, 1.0])
def test_no_feedback_makes_privkvm_spend_more_than_is_stated(mean):
    plan = Plan.of(Schema.of(2), "privkvm", 1)
    spent = plan.proven
    for _ in range(9):
        plan = plan.next(told(plan, mean))
        assert [float(m) for m in plan.chain["feedback"]] == pytest.approx([mean] * 2, abs=1e-6)
        check_privacy(plan)
        spent += plan.proven
    assert Decimal(plan.chain["spent"]) + plan.proven == spent
    assert 0.9746 < float(spent) <= 0.9748
    with pytest.raises(FinishedError, match="round 10 was the last"):
        plan.next(told(plan, mean))


# -- the paper's closed forms ----------------------------------------------------------------------

COUNTS = np.array([5200, 2600, 2200])


def tally_of(plan: Plan, counts) -> Tally:
    return Tally(plan, np.array([sum(counts), *counts]))


@pytest.mark.parametrize("calibrate", CALIBRATIONS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_privkv_a_is_the_papers_unbiased_counts(epsilon, calibrate):
    """N_1* and N_-1* of Sec. III, printed with M_i for E[M_i] (erratum 3), are right."""
    plan = Plan.of(ONE, "privkv", epsilon, calibrate)
    keep_key, keep = keeps_of(plan.channels[0])
    twice_key, twice = 2 * keep_key - 1, 2 * keep - 1
    total, (_, low, high) = COUNTS.sum(), COUNTS
    base = keep_key * twice * (1 - keep_key) * total
    below = 2 * keep_key * twice_key * twice
    ones = ((keep_key * twice + twice_key) * high + (keep_key * twice - twice_key) * low - base) / below
    minus = ((keep_key * twice - twice_key) * high + (keep_key * twice + twice_key) * low - base) / below
    answer = estimate(plan, tally_of(plan, COUNTS), "unbiased")["a"]
    # Rows are rounded apart, so p1 and p2 are known to 2^-32 times the size of the decoder.
    slack = 1e-8 / (twice_key * twice) ** 2
    assert answer.frequency.value == pytest.approx((ones + minus) / total, abs=slack)
    if answer.frequency.value > 0:
        assert answer.mean.value == pytest.approx((ones - minus) / (ones + minus), abs=slack)


@pytest.mark.parametrize("mean", [-0.8, -0.3, 0.0, 0.3, 0.8])
def test_the_raw_mean_of_privkv_shrinks_by_lambda_whatever_the_sign(mean):
    """Erratum 21: with a random value for absent keys the error is symmetric in the sign of m."""
    frequency, plan = 0.2, Plan.of(ONE, "privkv", 1)
    keep_key, _ = keeps_of(plan.channels[0])
    shrink = frequency * keep_key / (frequency * keep_key + (1 - frequency) * (1 - keep_key))
    tally, _ = ideal_tally(plan, [frequency], [mean])
    answer = estimate(plan, tally, "published")["a"]
    assert answer.mean.value == pytest.approx(shrink * mean, abs=1e-8)  # whole counts of 2^36
    assert np.isnan(answer.mean.low), "a biased estimate claims no interval"
    assert answer.frequency.value == pytest.approx(frequency, abs=1e-8)
    assert answer.frequency.bounded


def test_virtual_iterations_are_the_recursion_and_approach_privkv_a(monkeypatch):
    plan = Plan.of(ONE, "privkv", 1)
    tally = tally_of(plan, COUNTS)
    goal = estimate(plan, tally, "unbiased")["a"]
    mean = estimate(plan, tally, "published")["a"].mean.value
    for _ in range(privkv.VIRTUAL_ROUNDS - 1):
        mean = goal.frequency.value * goal.mean.value + (1 - goal.frequency.value) * mean
    # The recursion and its closed form, in doubles.
    assert estimate(plan, tally, "virtual")["a"].mean.value == pytest.approx(mean, abs=1e-12)
    monkeypatch.setattr(privkv, "VIRTUAL_ROUNDS", 2000)
    assert estimate(plan, tally, "virtual")["a"].mean.value == pytest.approx(goal.mean.value, abs=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_kvue_is_the_papers_estimator_and_its_variance_has_a_second_term(epsilon):
    """Erratum 6: Var(N_i*) = N (E + 1) / (E - 1)^2 + N_i / (E - 1), for fixed people."""
    plan = Plan.of(ONE, "kvue", epsilon)
    channel = plan.channels[0]
    keep, total = channel.keep / WORD, COUNTS.sum()
    stars = (2 * COUNTS - (1 - keep) * total) / (3 * keep - 1)
    decoder = channel.decoder(np.eye(3))
    # At most one lie is a unit of 2^-32 heavier; the decoder magnifies it.
    slack = 1e-8 / (3 * keep - 1) ** 2
    np.testing.assert_allclose(COUNTS @ decoder, stars, atol=slack * total)
    answer = estimate(plan, tally_of(plan, COUNTS), "least_squares")["a"]
    assert answer.frequency.value == pytest.approx(1 - stars[0] / total, abs=slack)
    odds = exp(float(plan.proven))
    held = np.array([4000.0, 3600, 2400])
    for state in range(3):
        spread = sum(n * channel.covariance(decoder, np.eye(3)[x]) for x, n in enumerate(held))
        printed = held.sum() * (odds + 1) / (odds - 1) ** 2
        assert spread[state, state] == pytest.approx(printed + held[state] / (odds - 1), rel=1e-6)
        assert spread[state, state] > printed, "the printed variance is too small"


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_kvoh_is_the_papers_estimator_and_wastes_two_thirds_of_its_reports(epsilon):
    """Erratum 22: f by two bits has variance 2 V, by the absent one V, by all three 2 V / 3."""
    plan = Plan.of(ONE, "kvoh", epsilon)
    channel = plan.channels[0]
    root = exp(float(plan.proven) / 2)
    counts = np.arange(1, 9) * 1000
    total = counts.sum()
    marks = np.array([[code >> bit & 1 for bit in range(3)] for code in range(8)])
    stars = ((root + 1) * (counts @ marks) - total) / (root - 1)
    answer = estimate(plan, tally_of(plan, counts), "per_bit")["a"]
    # Cancellation of numbers of size (root - 1)^-1.
    assert answer.frequency.value == pytest.approx((stars[1] + stars[2]) / total, rel=1e-6, abs=1e-6)
    assert answer.mean.value == pytest.approx((stars[2] - stars[1]) / (stars[1] + stars[2]), rel=1e-6)
    each = by_bits(channel, np.eye(3))
    held = key_weights(plan.schema)[:, :1]
    variance = root / (root - 1) ** 2
    for state in np.eye(3):
        spread = channel.covariance(each, state)
        np.testing.assert_allclose(np.diag(spread), variance, rtol=1e-6)  # proven is rounded up
        two = channel.covariance(by_bits(channel, held), state)[0, 0]
        three = channel.covariance(by_constrained_bits(channel, held), state)[0, 0]
        assert two == pytest.approx(2 * variance, rel=1e-6)
        assert three == pytest.approx(2 * variance / 3, rel=1e-6)


def test_kvoh_by_least_squares_is_never_worse_than_by_constrained_bits():
    for epsilon in EPSILONS:
        channel = Plan.of(ONE, "kvoh", epsilon).channels[0]
        weights, uniform = key_weights(SCHEMA.at(2)), np.full(3, 1 / 3)
        best = np.diag(channel.covariance(channel.decoder(weights), uniform))
        bits = np.diag(channel.covariance(by_constrained_bits(channel, weights), uniform))
        assert (best <= bits * (1 + 1e-9)).all()  # equal but for rounding


def test_f2m_published_needs_the_values_own_epsilon():
    """Erratum 4: with the printed e^epsilon the mean 0.5 comes out as -0.05."""
    plan, (share, mean) = Plan.of(ONE, "f2m", 1), (0.6, 0.5)
    tally, _ = ideal_tally(plan, [share], [mean])
    n, counts = tally.view_counts(0)
    key_bits, value_bits = (counts[2] + counts[3]) / n, (counts[1] + counts[3]) / n
    keep_key = exp(0.5) / (exp(0.5) + 1)
    star = (key_bits + keep_key - 1) / (2 * keep_key - 1)

    def decoded(value_epsilon):
        gain = (exp(value_epsilon) + 1) / (exp(value_epsilon) - 1)
        return (gain * (2 * value_bits - 1) - (1 - star) * 1.0) / star

    answer = estimate(plan, tally, "published")["a"]
    assert answer.frequency.value == pytest.approx(star, abs=1e-7)  # 32-bit weights
    assert answer.mean.value == pytest.approx(decoded(0.5), abs=1e-7)
    assert answer.mean.value == pytest.approx(mean, abs=1e-7)
    assert decoded(1.0) == pytest.approx(-0.048, abs=1e-3)
    assert (tanh(0.25) / tanh(0.5) * 0.7 - 0.4) / 0.6 == pytest.approx(decoded(1.0), abs=1e-7)


@pytest.mark.parametrize("default", ["-1", "0", "0.5"])
def test_f2m_decodes_two_bits_apart_as_the_closed_form_does(default):
    plan = Plan.of(ONE, "f2m", 2, default=default)
    counts = np.array([4000, 2500, 1500, 2000])
    keep_key = keep = exp(1) / (exp(1) + 1)
    total = counts.sum()
    star = ((counts[2] + counts[3]) / total + keep_key - 1) / (2 * keep_key - 1)
    every = (2 * (counts[1] + counts[3]) / total - 1) / (2 * keep - 1)
    answer = estimate(plan, tally_of(plan, counts), "published")["a"]
    assert answer.frequency.value == pytest.approx(star, abs=1e-7)  # 32-bit weights
    mean = (every - (1 - star) * float(default)) / star
    assert answer.mean.value == pytest.approx(mean, abs=1e-6)


def test_f2m_by_least_squares_has_less_variance_than_published():
    plan, weights, uniform = Plan.of(ONE, "f2m", 1), key_weights(ONE), np.full(3, 1 / 3)
    channel = plan.channels[0]
    apart = np.diag(channel.covariance(by_two_bits(channel, weights), uniform))
    together = np.diag(channel.covariance(channel.decoder(weights), uniform))
    assert (together <= apart * (1 + 1e-9)).all()  # equal but for rounding
    assert together[1] < 0.99 * apart[1]


def test_bisample_is_its_papers_estimator_where_both_directions_are_asked_alike():
    plan = Plan.of(ONE, "bisample", 1)
    keep = exp(1) / (exp(1) + 1)
    counts = np.array([3000, 2000, 2600, 2400])
    ones, minus = counts[1] / counts[:2].sum(), counts[3] / counts[2:].sum()
    answer = estimate(plan, tally_of(plan, counts), "least_squares")["a"]
    frequency = (2 * keep - 2 + ones + minus) / (2 * keep - 1)
    assert answer.frequency.value == pytest.approx(frequency, abs=1e-7)  # 32-bit weights
    mean = (ones - minus) / (ones + minus + 2 * keep - 2)
    assert answer.mean.value == pytest.approx(mean, abs=1e-7)


@pytest.mark.parametrize(("f", "m"), [(0.2, 0.7), (0.6, -0.5), (0.9, 0.0)])
def test_bisamples_paper_decodes_the_law_itself(f, m):
    """F_pos and F_neg of the published formulas, on expectations."""
    channel = Plan.of(ONE, "bisample", 1).channels[0]
    chances = np.array([1 - f, f * (1 - m) / 2, f * (1 + m) / 2]) @ channel.expected()
    keep = channel.expected()[0, 0] * 2
    ones, minus = chances[1] / chances[:2].sum(), chances[3] / chances[2:].sum()
    assert (2 * keep - 2 + ones + minus) / (2 * keep - 1) == pytest.approx(f, abs=1e-12)  # doubles
    assert (ones - minus) / (ones + minus + 2 * keep - 2) == pytest.approx(m, abs=1e-12)


@pytest.mark.parametrize("name", ["harmony", "meanest"])
def test_harmony_and_meanest_know_frequency_times_mean_and_nothing_else(name):
    plan = Plan.of(SCHEMA, name, 1)
    shares, means = np.array([0.9, 0.5, 0.1]), np.array([0.5, -0.5, 1.0])
    tally, _ = ideal_tally(plan, shares, means)
    for answer, share, mean in zip(estimate(plan, tally), shares, means, strict=True):
        assert answer.frequency is None
        assert answer.mean is None
        assert answer.mass.value == pytest.approx(share * mean, abs=1e-7)  # whole counts of 2^36


@pytest.mark.parametrize("name", ["rappor", "grr", "shist"])
def test_rappor_grr_and_shist_know_the_share_of_drawn_keys_which_is_no_frequency(name):
    """Half hold a, half hold a and b: frequencies 1 and 1/2, shares of drawn keys 3/4 and 1/4."""
    plan = Plan.of(SCHEMA, name, 1)
    law = (report_law(plan, {"a": 3}) + report_law(plan, {"a": 3, "b": 4})) / 2
    counts = np.rint(law * (1 << 40)).astype(np.int64)
    tally = Tally(plan, np.array([counts.sum(), *counts]))
    frequencies = [answer.frequency.value for answer in estimate(plan, tally)]
    assert frequencies == pytest.approx([0.75, 0.25, 0], abs=1e-7)  # whole counts of 2^40
    assert "drawn" in plan.mechanism.note


@pytest.mark.parametrize("name", ["rappor", "grr", "shist"])
def test_many_tallies_of_drawn_keys_are_decoded_as_one_by_one(name):
    """And a tally of nobody says nothing."""
    plan = Plan.of(SCHEMA, name, 1)
    people = crowd_of(SCHEMA, 300)
    rows = [Tally(plan).add(plan.privatise(people, Coins.stated(str(i)))).counts for i in range(5)]
    rows.insert(2, np.zeros_like(rows[0]))
    together = plan.mechanism.moments(plan, np.array(rows).reshape(2, 3, -1))
    for number, row in enumerate(rows):
        alone, at = plan.mechanism.moments(plan, row), np.unravel_index(number, (2, 3))
        assert (alone.reports == together.reports[at]).all()
        np.testing.assert_allclose(together.values[at], alone.values, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(together.covariance[at], alone.covariance, rtol=1e-9)
        assert np.isnan(alone.values[:, 0]).all() == (number == 2)


def test_rr_halves_the_variance_of_kvues_frequency():
    """At epsilon 1 and a rare key: 0.97 against 1.86 (mechanisms.md, 0.1)."""
    variances = []
    for name in ("rr", "kvue"):
        plan = Plan.of(ONE, name, 1)
        channel = plan.channels[0]
        law = np.array([0.95, 0.05]) if name == "rr" else np.array([0.95, 0.025, 0.025])
        weights = np.ones((channel.states, 1))
        weights[0] = 0
        variances.append(channel.covariance(channel.decoder(weights), law)[0, 0])
    assert variances == pytest.approx([0.97, 1.86], abs=0.15)  # quoted to two places, f apart
    assert variances[0] < 0.55 * variances[1]


def test_published_rows_are_those_of_the_papers():
    """Rows absent, low, high against the formulas, in doubles."""
    a, b = exp(0.3) / (exp(0.3) + 1), exp(0.7) / (exp(0.7) + 1)
    np.testing.assert_allclose(
        privkv_rows(0.3, 0.7),
        [[a, (1 - a) / 2, (1 - a) / 2], [1 - a, a * b, a * (1 - b)], [1 - a, a * (1 - b), a * b]],
        rtol=1e-15 * 4,
    )
    rows = f2m_rows(0.3, 0.7, 1.0)
    np.testing.assert_allclose(rows[0], [a * (1 - b), a * b, (1 - a) * (1 - b), (1 - a) * b], rtol=4e-15)
    np.testing.assert_allclose(rows[2], [(1 - a) * (1 - b), (1 - a) * b, a * (1 - b), a * b], rtol=4e-15)


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("rr", log2(3) + 1),
        ("kvue", 2 * log2(3)),
        ("privkv", 2 * log2(3)),
        ("f2m", log2(3) + 2),
        ("kvoh", log2(3) + 3),
        ("bisample", log2(3) + 2),
        ("harmony", log2(3) + 1),
        ("grr", 2),
        ("rappor", 3),
        ("meanest", 3),
        ("shist", 11),
    ],
)
def test_bits_of_a_report_are_the_corrected_ones(name, bits):
    """Erratum 11: F2M sends log2 |K| + 2 bits and KVOH log2 |K| + 3, not two and three times."""
    assert Plan.of(SCHEMA, name, 1).bits_per_report == pytest.approx(bits)


# -- chains ----------------------------------------------------------------------------------------


def test_a_chain_names_its_parent_and_adds_up_what_it_spent():
    first = Plan.of(SCHEMA, "privkvm", 1, rounds=3)
    second = first.next(told(first, 0.4))
    third = second.next(told(second, -0.2))
    assert [p.chain["round"] for p in (first, second, third)] == [1, 2, 3]
    assert [p.chain["parent"] for p in (first, second, third)] == ["", first.hash, second.hash]
    assert first.chain["spent"] == "0"
    assert Decimal(second.chain["spent"]) == first.proven
    assert Decimal(third.chain["spent"]) == first.proven + second.proven
    assert third.chain["total"] == "1"
    assert first.promised + second.promised + third.promised <= Decimal("1.000000000000000001")
    for plan in (first, second, third):
        assert Plan.parse(plan.dumps()) == plan
    with pytest.raises(FinishedError, match="round 3 was the last"):
        third.next(told(third, 0))


def test_the_next_round_is_made_from_this_rounds_tally_alone():
    first = Plan.of(SCHEMA, "privkvm", 1)
    second = first.next(told(first, 0.1))
    with pytest.raises(ReportError, match="another plan"):
        second.next(told(first, 0.1))
    assert first.next(told(first, 0.1)) == second
    assert first.next(told(first, 0.2)) != second


@pytest.mark.parametrize("name", [n for n in REGISTRY if not n.startswith("privkvm") and n != "sized"])
def test_a_mechanism_of_one_round_has_no_next(name):
    plan = example_plan(SCHEMA, name)
    with pytest.raises(PlanError, match="one round"):
        plan.next(Tally(plan))


@pytest.mark.parametrize("name", ["privkvm", "privkvm_plus"])
def test_a_key_without_reports_keeps_its_feedback_and_stays_unknown(name):
    first = Plan.of(SCHEMA, name, 1)
    tally = told(first, -0.5)
    tally.counts[4:8] = 0
    second = first.next(tally)
    assert second.chain["feedback"] == ["-0.5", first.chain["feedback"][1], "-0.5"]
    answer = estimate(second, told(second, 0))["b"]
    assert np.isnan(answer.frequency.value)
    assert np.isnan(answer.mean.value)
    assert not answer.mean.bounded


@pytest.mark.parametrize("counts", [(9, 9, 0, 0), (7, 0, 7, 0), (11, 0, 0, 11), (1, 0, 1, 0)])
def test_a_tally_without_any_spread_still_has_a_next_round(counts):
    """All reports alike: the plug-in variance is zero up to rounding, and never the root of less."""
    first = Plan.of(SCHEMA, "privkvm", 1)
    for scale in (1, 3, 1000):
        second = first.next(Tally(first, np.tile(np.array(counts) * scale, 3)))
        assert all(float(row[1]) >= 0 for row in second.chain["frequency"])


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_debiasing_takes_the_feedbacks_pull_out_and_publishing_leaves_it_in(share):
    """m_r = f m + (1 - f) m_(r-1): after c rounds the bias is (1 - lambda) (1 - f)^(c - 1) of m."""
    shares, means = np.full(3, share), np.array([0.6, 0.0, -0.4])
    plan = Plan.of(SCHEMA, "privkvm", 2, rounds=4)
    keep_key, _ = keeps_of(plan.channels[0])
    remainder = 1 - share * keep_key / (share * keep_key + (1 - share) * (1 - keep_key))
    for round_ in range(1, 5):
        tally, _ = ideal_tally(plan, shares, means)
        biased = [answer.mean.value - 3 for answer in estimate(plan, tally, "published")]
        # Feedback is written with six places and passed on.
        assert biased == pytest.approx((2 * means * (1 - remainder)).tolist(), abs=1e-5)
        fair = [answer.mean.value - 3 for answer in estimate(plan, tally, "debiased")]
        assert fair == pytest.approx((2 * means).tolist(), abs=1e-5)
        frequencies = [answer.frequency.value for answer in estimate(plan, tally, "debiased")]
        assert frequencies == pytest.approx([share] * 3, abs=1e-6)  # written with nine places
        if round_ < 4:
            plan = plan.next(tally)
            remainder *= 1 - share


def test_privkvm_plus_decays_its_budget_and_never_spends_more_than_its_total():
    plan = Plan.of(SCHEMA, "privkvm_plus", 10, decay=2, cost=0, rounds=10)
    assert plan.promised == Decimal("7.5")
    spent, signs = plan.proven, 1.0
    for _ in range(9):
        plan = plan.next(told(plan, -signs))
        signs = -signs
        check_privacy(plan)
        spent += plan.proven
        if plan.chain["round"] == 2:
            assert plan.promised == Decimal("1.25")
    assert spent <= 10
    # Ten budgets rounded to 12 places, and weights of 32 bits.
    assert float(spent) == pytest.approx(10 - 5 * 0.5**10, abs=1e-5)
    with pytest.raises(FinishedError, match="round 10 was the last"):
        plan.next(told(plan, -signs))


def test_privkvm_plus_stops_when_a_round_changes_less_than_it_costs():
    first = Plan.of(SCHEMA, "privkvm_plus", 1, cost="0.1")
    assert first.chain["feedback"] == ["1", "1", "1"]
    with pytest.raises(FinishedError, match=r"changed by 0\.0900 on average in round 1"):
        first.next(told(first, 0.91))
    second = first.next(told(first, 0.5))
    with pytest.raises(FinishedError, match="round 2"):
        second.next(told(second, 0.45))
    equal = Plan.of(SCHEMA, "privkvm_plus", 1, cost="0.5")
    with pytest.raises(FinishedError, match=r"changed by 0\.5000 on average in round 1"):
        equal.next(told(equal, 0.5))
    assert second.next(told(second, 0.3)).chain["round"] == 3


def test_privkvm_plus_stops_when_no_budget_is_left_for_a_round():
    plan = Plan.of(SCHEMA, "privkvm_plus", "0.01", decay=2, cost=0)
    second = plan.next(told(plan, -1))
    assert second.promised == Decimal("0.00125")
    with pytest.raises(FinishedError, match="too little budget"):
        second.next(told(second, 1))


# -- fast forms equal slow forms -------------------------------------------------------------------


@pytest.fixture
def slow(monkeypatch):
    """Runs a function without the compiled loops."""

    def run(function):
        with monkeypatch.context() as here:
            here.setenv("KEYVEIL_FAST", "0")
            assert compiled() is None
            return function()

    return run


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64, np.int64])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 1000, 40_001])
def test_the_fast_histogram_is_bincount(kind, count, slow):
    codes = np.random.Generator(np.random.PCG64(count)).integers(0, 200, count).astype(kind)
    goal = np.bincount(codes.astype(np.int64), minlength=200)
    assert np.array_equal(histogram(codes, 200), goal)
    assert np.array_equal(slow(lambda: histogram(codes, 200)), goal)


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 5, 6, 39_999])
@pytest.mark.parametrize("wrong", [200, 201, (1 << 32) - 1, -1, -(1 << 40), 1 << 62])
def test_a_code_outside_is_found_wherever_it_stands(place, wrong, slow):
    codes = np.zeros(40_000 if place > 6 else 7, np.int64)
    codes[place] = wrong
    kinds = [np.int64] + [np.uint32] * (0 <= wrong < 1 << 32) + [np.uint64] * (wrong >= 0)
    for kind in kinds:
        assert histogram(codes.astype(kind), 200) is None
        assert slow(lambda kind=kind: histogram(codes.astype(kind), 200)) is None


def test_a_code_too_large_for_a_signed_integer_is_outside(slow):
    codes = np.array([0, (1 << 64) - 1], np.uint64)
    assert histogram(codes, 2) is None
    assert slow(lambda: histogram(codes, 2)) is None


def crowd_of(schema: Schema, count: int) -> People:
    """Records of all sizes, from nothing to every key, with values at and between the levels."""
    keys, coins = len(schema.keys), np.random.Generator(np.random.PCG64(11))
    held = coins.random((count, keys)) < np.linspace(0, 1, count)[:, None]
    who, places = np.nonzero(held)
    low, high = schema.low[places], schema.high[places]
    values = low + (high - low) * coins.choice([0, 0.25, 0.5, 1, 0.123456789], len(who))
    whole = np.concatenate([who, np.flatnonzero(~held.any(axis=1))])
    extra = len(whole) - len(who)
    return People.of_rows(
        schema,
        whole,
        np.concatenate([places, np.full(extra, -2)]),
        np.concatenate([values, np.zeros(extra)]),
    )


@pytest.mark.parametrize("keys", [1, 2, 5, 20, 300])
@pytest.mark.parametrize(
    "name", ["rr", "privkv", "kvue", "kvoh", "f2m", "bisample", "harmony", "rappor", "grr", "shist"]
)
def test_the_compiled_path_sends_the_identical_codes(name, keys, slow):
    assert compiled() is not None
    schema = Schema.of(keys, "-0.3", "4.7")
    plan, coins = Plan.of(schema, name, 1), Coins.stated("fast")
    people = crowd_of(schema, 700)
    fast = plan.privatise(people, coins)
    plain = slow(lambda: plan.privatise(people, coins))
    if fast.codes is None:
        assert np.array_equal(fast.bits, plain.bits)
        assert np.array_equal(fast.views, plain.views)
        return
    assert np.array_equal(fast.codes, plain.codes)
    views, outputs = plan.perturb(people, Stream(coins.under(plan.hash), people.addresses))
    assert np.array_equal(fast.codes, plan.layout.first_code[views] + outputs)


@pytest.mark.parametrize("keys", [1, 3])
def test_a_table_of_one_output_sends_the_identical_codes(keys, slow):
    """The compiled loops have no slice ends to compare with."""
    schema, table = Schema.of(keys), Table(((WORD,),) * 3)
    plan = Plan(schema, Views.singles(keys), "views", (table,), Decimal(1), "kvue")
    people, coins = crowd_of(schema, 50), Coins.stated("one output")
    fast, plain = plan.privatise(people, coins), slow(lambda: plan.privatise(people, coins))
    assert np.array_equal(fast.codes, plain.codes)
    assert Tally(plan).add(fast).reports == 50


STATED = {
    "few": Symmetric(5, WORD - 4 * 1000 - 3, 1000),
    "no rest": Symmetric(4, WORD - 3 * 7, 7),
    "even": Symmetric(3, WORD // 3 + 1, WORD // 3),
    "many": Symmetric.of(40, Decimal("0.5")),
}
"""k-RR with units that are left over, without, and with the smallest difference there can be."""


@pytest.mark.parametrize("name", STATED)
def test_the_compiled_walk_is_the_plain_one_at_every_threshold(name):
    """Words one below, at and one above each end of a slice, for every state."""
    channel, loops = STATED[name], compiled()
    assert loops is not None
    steps = [channel.keep] + [channel.lie + (i < channel.rest) for i in range(channel.states - 1)]
    ends = np.cumsum(steps)[:-1]
    words = near(ends)
    for state in range(channel.states):
        states = np.full(len(words), state, np.uint32)
        plain = channel.draw(states, stream_of(words))
        by_slice = (state + np.searchsorted(ends, words.astype(np.int64), side="right")) % channel.states
        assert np.array_equal(plain, by_slice)
        out = np.empty(len(words), np.uint32)
        circle = (channel.states, channel.keep, channel.lie, channel.rest)
        loops.walk(words[:, None].copy(), 0, states, *circle, out)
        assert np.array_equal(out, plain)


@pytest.mark.parametrize(("states", "epsilon"), [(6561, "1"), (6561, "14"), (1 << 20, "5"), (2, "9")])
def test_the_compiled_walk_divides_exactly(states, epsilon):
    """Quotients by floating point, at the ends of all slices."""
    channel, loops = Symmetric.of(states, Decimal(epsilon)), compiled()
    assert loops is not None
    words = near(np.cumsum(channel.circle_weights())[:-1])
    for state in (0, states - 1):
        own, out = np.full(len(words), state, np.uint32), np.empty(len(words), np.uint32)
        loops.walk(words[:, None].copy(), 0, own, *channel.circle, out)
        assert np.array_equal(out, channel.draw(own, stream_of(words)))


@pytest.mark.parametrize("levels", [1, 2, 3, 9])
def test_the_compiled_rounding_is_the_plain_one_at_every_threshold(levels):
    """Words one below, at and one above the threshold of values at and between the levels."""
    schema, loops = Schema.of(2, "-0.3", "4.7").at(levels), compiled()
    assert loops is not None
    for value in (-0.3, 4.7, 0.0, 1.2, 2.2, 4.699999, 0.123456789):
        at = (value - schema.low[0]) / (schema.high[0] - schema.low[0]) * (levels - 1)
        below = min(np.floor(at), levels - 2)
        words = near(np.array([np.floor((at - below) * WORD)]))
        count = len(words)
        keys, values = np.zeros(count, np.uint32), np.full(count, value)
        plain = schema.rounded(keys.astype(np.int64), values, words)
        if levels > 1:
            by_hand = [int(below) + 1 + (int(word) < int((at - below) * WORD)) for word in words]
            assert plain.tolist() == by_hand
        table = np.arange(count + 1), np.pad(keys, (0, loops.LANES)), values
        both = np.stack([np.zeros_like(words), words, words, words], axis=1)
        picked, states = np.empty(count, np.uint32), np.empty(count, np.uint32)
        ranges = schema.low, schema.high, levels
        loops.hold_keys(both, 1, count, table, ranges, picked, states)
        assert not picked.any()
        assert np.array_equal(states, plain)


@pytest.mark.parametrize("ends", [(1,), (5, 6, WORD - 1), (WORD // 3, 2 * (WORD // 3))])
def test_compiled_slices_are_the_plain_ones_at_every_threshold(ends):
    loops, words = compiled(), near(np.array(ends))
    assert loops is not None
    rows = np.diff([0, *ends, WORD])
    table = Table((tuple(rows.tolist()), tuple(rows[::-1].tolist())))
    law = (
        tuple(np.uint64(end) for end in ends),
        table.thresholds,
        np.tile(np.arange(table.cells), (2, 1)),
    )
    count, one = len(words), np.ones(1)
    both = np.stack([np.zeros_like(words), np.zeros_like(words), words, words], axis=1)
    for state in (0, 1):  # the only key, of one level, is held by no one and by everyone
        held = np.arange(count + 1) * state, np.zeros(count + loops.LANES, np.uint16), np.zeros(count)
        out = np.empty(count, np.uint32)
        loops.report_keys(both, None, 0, 2, 1, count, held, (-one, one, 1), *law, out)
        assert np.array_equal(out, table.draw(np.full(count, state), stream_of(words)))


@pytest.mark.parametrize("positions", [1, 3, 32, 40])
@pytest.mark.parametrize("silent", [0, 1])
def test_compiled_bits_are_the_plain_ones_at_every_threshold(positions, silent):
    """Every position's number one below, at and one above the weight of a fake and of a true bit."""
    loops, channel = compiled(), Symbols.bits_of(positions, 3 << 30, 12345, silent)
    assert loops is not None
    numbers = near(np.array([12345, 3 << 30])).astype(np.uint64)
    words = np.concatenate([planes_of(number, positions) for number in numbers.tolist()])
    for state in range(channel.states):
        states = np.full(len(words), state, np.uint32)
        out = np.empty((len(words), -(-positions // 32)), "<u4")
        loops.draw_bits(words, 0, positions, silent, 12345, 3 << 30, states, out)
        own = state - silent
        bits = np.unpackbits(out.view(np.uint8), axis=1, bitorder="little")[:, :positions]
        for row, number in zip(bits, numbers.tolist(), strict=True):
            by_hand = [number < (3 << 30 if p == own else 12345) for p in range(positions)]
            assert row.tolist() == by_hand


def planes_of(number: int, positions: int) -> np.ndarray:
    """One person's words in which every position has this number, group by group in bit planes."""
    words = []
    for start in range(0, positions, 32):
        size = min(32, positions - start)
        bits = [number >> (31 - plane) & 1 for plane in range(32) for _ in range(size)]
        raw = np.packbits(np.array(bits, np.uint8), bitorder="little")
        words.append(raw.view("<u4"))
    return np.concatenate(words)[None, :].astype(np.uint32)


def near(ends: np.ndarray) -> np.ndarray:
    """The first and last word, and those one below, at and one above each end, as far as they exist."""
    ends = np.asarray(ends, np.int64)
    words = np.concatenate([[0, WORD - 1], ends - 1, ends, ends + 1])
    return np.unique(words[(words >= 0) & (words < WORD)]).astype(np.uint32)


def stream_of(words: np.ndarray) -> Stream:
    """A stream in which each person has one word."""
    addresses = np.zeros((len(words), 4), np.uint32)
    return Stream(Coins.stated("unused"), addresses, ready=words[:, None])


def test_the_loops_can_be_switched_off_from_outside():
    assert os.environ.get("KEYVEIL_FAST", "1") == "0" or compiled() is not None


# -- a mechanism of one's own ----------------------------------------------------------------------


class Warner(Mechanism):
    """Everything a mechanism must say: its channel; the rest follows from that."""

    name = "warner"
    source = "this test"
    speaks_of = "one key, drawn at random: held or not"
    answers = ("frequency",)
    bits = "log2 d + 1"
    estimators = {"least_squares": least_squares}

    def draft(self, schema, epsilon, tight, chosen):
        table = fitted(self.table, float(epsilon), epsilon)
        return Draft(schema.at(1), Views.singles(len(schema.keys)), "views", (table,), epsilon)

    def table(self, epsilon):
        keep = exp(epsilon) / (exp(epsilon) + 1)
        return Table.rounded([[keep, 1 - keep], [1 - keep, keep]])


class Timid(Warner):
    """Spends half of what it promises and does not say so."""

    name = "timid"

    def table(self, epsilon):
        return super().table(epsilon / 2)


@pytest.mark.sampled
def test_a_mechanism_that_states_its_channel_and_nothing_else_conforms(monkeypatch):
    monkeypatch.setitem(REGISTRY, "warner", Warner())
    check_mechanism("warner", draws=2_000)


@pytest.mark.sampled
def test_a_mechanism_that_wastes_its_epsilon_must_say_so(monkeypatch):
    monkeypatch.setitem(REGISTRY, "timid", Timid())
    with pytest.raises(AssertionError, match="proves only"):
        check_mechanism("timid", draws=2_000)
    monkeypatch.setattr(Timid, "wasteful", True)
    check_privacy(Plan.of(SCHEMA, "timid", 1))
