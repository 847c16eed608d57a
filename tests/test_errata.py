"""docs/errata.md, one test for each entry: what the paper prints, and what the channels say instead."""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import product
from math import exp, inf, log, log2, sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from keyveil import (
    ChannelError,
    Coins,
    FinishedError,
    People,
    Plan,
    QueryError,
    Schema,
    Tally,
    estimate,
)
from keyveil.channel import Channel, Symbols, Symmetric, Table
from keyveil.estimate import published_bounds as bounds
from keyveil.estimate.forecast.key_forecast import forecast_key, state_law
from keyveil.estimate.linear import key_weights
from keyveil.foundation.arrays import WORD
from keyveil.foundation.stream import Stream
from keyveil.mechanisms.encodings.view_state import ViewState
from keyveil.mechanisms.f2m import by_two_bits, f2m_rows
from keyveil.mechanisms.ioh import count_operator, paper_conditional, paper_index, sum_operator
from keyveil.mechanisms.kvoh import by_bits, by_constrained_bits, flipped_bits
from keyveil.mechanisms.privkv import keeps_of, privkv_rows, raw_means
from keyveil.people.views import Views

PAGE = Path(__file__).parents[1] / "docs" / "errata.md"
ONE_KEY = Schema.of(1)
STATES = np.eye(3)  # absent, low, high
COARSE = 1e-8
"""Laws are whole multiples of 2^-32, so a closed form in e^epsilon agrees to about 1e-9."""


def plan_of(mechanism: str, epsilon: object = 1, **parameters: object) -> Plan:
    return Plan.of(ONE_KEY, mechanism, epsilon, **parameters)


def channel_of(mechanism: str, epsilon: object = 1, **parameters: object) -> Channel:
    return plan_of(mechanism, epsilon, **parameters).channels[0]


def expected_tally(plan: Plan, frequency: float, mean: float, reports: int = 10**12) -> Tally:
    """The tally that reports add up to on average, so large that whole counts do not matter."""
    counts = []
    for channel in plan.view_channels:
        marks = np.rint(reports * channel.mix(state_law(plan, frequency, mean))).astype(np.int64)
        counts += [int(marks.sum()), *marks.tolist()]
    return Tally(plan, np.array(counts))


def given_states(channel: Channel, decoder: np.ndarray, law: np.ndarray) -> np.ndarray:
    """Covariance of one report's sums when the states are fixed, as the paper's counts N_i are."""
    every = np.eye(channel.states)
    return sum(share * channel.covariance(decoder, row) for share, row in zip(law, every, strict=True))


def epsilon_of(rows: np.ndarray) -> float:
    return float(Table.rounded(rows).proof().epsilon)


def test_every_entry_has_a_place_the_print_the_correction_and_a_test_that_is_here():
    entries = re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    named = []
    for number, entry in enumerate(entries, 1):
        assert entry.startswith(f"{number}. "), "numbered one by one"
        parts = re.findall(r"^- \*\*(\w+):\*\* (.+)$", entry, re.MULTILINE)
        assert [name for name, _ in parts] == ["Place", "Printed", "Correct", "Test"], number
        name = parts[-1][1].strip("`")
        assert name.startswith(f"test_erratum_{number:02}_")
        assert callable(globals()[name])
        named.append(name)
    assert sorted(named) == sorted(name for name in globals() if name.startswith("test_erratum"))


# -- wrong formulas ---------------------------------------------------------------------------------


def test_erratum_01_the_mean_of_pepsi_has_a_sign_too_many():
    ratings = (0.8, 0.9, 0.8)
    assert round(sum(ratings) / 3, 2) == 0.83
    assert round((0.8 + (-0.9) + 0.8) / 3, 2) == 0.23


def test_erratum_02_privkv_subtracts_the_count_of_minus_ones():
    plan = plan_of("privkv")
    tally = Tally(plan, np.array([1000, 500, 200, 300]))
    keep = keeps_of(plan.channels[0])[1]
    high, low = (((keep - 1) * 500 + n) / (2 * keep - 1) for n in (300, 200))
    assert raw_means(plan, tally)[0] == pytest.approx((high - low) / 500, rel=1e-12)
    assert raw_means(plan, tally)[0] != 0 == (high - high) / 500


def test_erratum_03_counts_equal_their_expectations_only_on_average():
    """The estimators are right: they are the only unbiased ones, of counts that are random."""
    channel = channel_of("privkv")
    p1, p2 = keeps_of(channel)
    q1, q2 = 2 * p1 - 1, 2 * p2 - 1
    scale = 2 * p1 * q1 * q2
    # N_1* and N_-1* as printed, as weights on M_0, M_-1, M_1.
    high = np.array([0, p1 * q2 - q1, p1 * q2 + q1]) - p1 * q2 * (1 - p1)
    low = np.array([0, p1 * q2 + q1, p1 * q2 - q1]) - p1 * q2 * (1 - p1)
    printed = np.stack([low, high], axis=1) / scale
    assert channel.decoder(STATES[:, 1:]) == pytest.approx(printed, abs=COARSE)
    law = np.array([0.5, 0.2, 0.3])
    assert (given_states(channel, np.eye(3), law).diagonal() > 0.1).all(), "M_i are not constants"


def test_erratum_04_f2m_scales_the_value_by_its_own_budget():
    plan, f, m = plan_of("f2m", 1, split="0.5"), 0.6, 0.5
    tally = expected_tally(plan, f, m)
    _, counts = tally.view_counts(0)
    minus, plus = counts[[0, 2]].sum(), counts[[1, 3]].sum()

    def mean(epsilon: float) -> float:
        overall = (exp(epsilon) + 1) / (exp(epsilon) - 1) * (plus - minus) / (plus + minus)
        return (overall - (1 - f) * 1.0) / f

    assert mean(1.0) == pytest.approx(-0.05, abs=0.01), "e^epsilon, as printed"
    assert mean(0.5) == pytest.approx(m, abs=1e-6)  # counts are whole
    assert estimate(plan, tally, "published")["0"].mean.value == pytest.approx(m, abs=1e-6)


def test_erratum_05_f2m_bound_has_a_plus_in_its_second_term():
    f, n, epsilon, miss = 0.5, 2000, 0.5, 0.05
    e, tail = exp(epsilon), log(2 / miss)
    r = (e + 1) / (e - 1) * sqrt(n * tail / 2)
    derived = 2 * r * (f + 1) / (f * (n * f - r))
    top = 2 * (f + 1) * (e + 1) * sqrt(tail)
    printed = top / (sqrt(2 * n) * f**2 * (e - 1) - f * (e - 1) * sqrt(tail))
    correct = top / (sqrt(2 * n) * f**2 * (e - 1) - f * (e + 1) * sqrt(tail))
    assert derived == pytest.approx(correct, rel=1e-12)
    assert (round(correct, 3), round(printed, 3)) == (1.979, 1.584)
    # With m_all - v = f (m - v) the same derivation gives 4 r / (N f - r).
    sharper = bounds.f2m_mean(epsilon, epsilon, f, n, miss).error
    assert sharper == pytest.approx(4 * r / (n * f - r), rel=1e-12)
    assert sharper == pytest.approx(1.319, abs=5e-4)


@pytest.mark.parametrize("epsilon", [0.5, 1, 3])
@pytest.mark.parametrize("share", [0.05, 0.8])
def test_erratum_06_kvue_variance_grows_with_the_count(epsilon, share):
    channel, e = channel_of("kvue", epsilon), exp(epsilon)
    law = np.array([share, 1 - share, 0])
    variance = given_states(channel, channel.decoder(STATES), law)[0, 0]
    printed = (e + 1) / (e - 1) ** 2
    assert variance == pytest.approx(printed + share / (e - 1), rel=COARSE)
    if (epsilon, share) == (1, 0.8):
        assert (round(variance, 3), round(printed, 3)) == (1.725, 1.259)


def test_erratum_07_kvoh_bound_is_stretched_not_shrunk():
    """Exact coverage: a bit's count is a sum of two binomials."""
    n, own, miss, t = 10_000, 3600, 0.05, exp(0.5)
    show = channel_of("kvoh").laws[1][1] / WORD
    ones = np.convolve(
        binom.pmf(range(own + 1), own, show), binom.pmf(range(n - own + 1), n - own, 1 - show)
    )
    off = np.abs(((t + 1) * np.arange(n + 1) - n) / (t - 1) - own)
    reach = sqrt(n / 2 * log(2 / miss))
    assert ones[off <= reach * (t + 1) / (t - 1)].sum() == pytest.approx(0.995, abs=5e-4)
    assert ones[off <= reach * (t - 1) / (t + 1)].sum() == pytest.approx(0.139, abs=5e-4), "as printed"


@pytest.mark.parametrize("mechanism", ["kvue", "kvoh"])
def test_erratum_08_the_mean_is_high_less_low(mechanism):
    plan = plan_of(mechanism)
    mean = estimate(plan, expected_tally(plan, 0.5, 0.6))["0"].mean.value
    assert mean == pytest.approx(0.6, abs=1e-6)  # counts are whole
    a, b = 0.5 * (1 - 0.6) / 2, 0.5 * (1 + 0.6) / 2  # <1, -1> and <1, 1>, in the order stated
    assert (a - b) / (a + b) == pytest.approx(-0.6)


def test_erratum_09_the_ternary_number_210_is_21():
    assert int("210", 3) == 2 * 9 + 1 * 3 + 0 == 21
    # Our digits are 0 absent, 1 low, 2 high, so the same record is 201.
    user = People.one({0: 1.0, 2: -1.0}, np.zeros((1, 4), np.uint32))
    stream = Stream.of(Coins.recorded([0, 0, 0]), 0)
    states = ViewState().encode(Schema.of(3), Views.whole(3), user, np.zeros(1, np.int64), stream)
    assert states.tolist() == [int("201", 3)]
    assert paper_index(int("201", 3), 3) == 21


def test_erratum_10_ioh_indexes_each_key_once_and_flips_by_a_budget():
    records = list(product((0, 1, 2), repeat=3))
    assert len({9 * a + 3 * b + c for a, b, c in records}) == 27
    assert len({9 * a + 3 * a + c for a, _, c in records}) == 9, "as printed, key 2 is lost"
    assert 0.999999 < flipped_bits(27, Decimal("0.1")).proof().epsilon * 10 <= 1
    flip = round(WORD * 0.1 / 2)  # "perturb each bit with probability epsilon / 2"
    printed = Symbols.bits_of(27, WORD - flip, flip).proof().epsilon
    assert printed == pytest.approx(Decimal("5.889"), abs=Decimal("0.001"))


def test_erratum_11_communication_adds_outputs_to_the_key():
    keys = 128
    names = ("f2m", "kvoh", "privkv", "kvue")
    bits = {name: Plan.of(Schema.of(keys), name, 1).bits_per_report for name in names}
    assert bits["f2m"] == log2(keys) + 2 == log2(4 * keys) != 2 * log2(keys)
    assert bits["kvoh"] == log2(keys) + 3 == log2(8 * keys) != 3 * log2(keys)
    assert bits["privkv"] == bits["kvue"] == pytest.approx(log2(3 * keys))


def test_erratum_12_all_keys_together_have_three_to_the_d_states():
    for keys in (2, 4, 8):
        assert len(list(product(range(3), repeat=keys))) == 3**keys
    assert (3**8, 8**3) == (6561, 512)


# The paper's operators of Sec. V, on whole counts: digits 0 low, 1 absent, 2 high.

PEOPLE = [(2, 1, 0), (0, 2, 2), (1, 0, 0), (2, 1, 1), (2, 2, 2), (1, 1, 1), (0, 1, 2), (2, 1, 0)]
CELLS = {record: PEOPLE.count(record) for record in product(range(3), repeat=3)}
HELD = {1: (0, 2), 0: (1,)}
PAPER_CELLS = np.array([float(CELLS[record]) for record in product(range(3), repeat=3)])
"""The paper's array A_s in its own order, without noise."""


def frequency_cell(gamma):
    return sum(CELLS[cell] for cell in product(*(HELD[g] for g in gamma)))


def sign_cell(key, gamma, sign):
    """S+ or S-, the sum of A_s over the set of indices that the paper writes."""
    own = {1: (2,) if sign > 0 else (0,), 0: (1,)}
    sets = [own[g] if place == key else HELD[g] for place, g in enumerate(gamma)]
    return sum(CELLS[cell] for cell in product(*sets))


def meeting(alpha, beta):
    return [
        gamma
        for gamma in product((0, 1), repeat=3)
        if tuple(g & a for g, a in zip(gamma, alpha, strict=True)) == beta
    ]


def counted(alpha, beta):
    return sum(frequency_cell(gamma) for gamma in meeting(alpha, beta))


def test_erratum_13_the_counting_operator_counts():
    without = counted((0, 0, 1), (0, 0, 0))
    assert without == sum(person[2] == 1 for person in PEOPLE) == 2
    assert without / len(PEOPLE) == 0.25, "the frequency needs the division by N"
    share = counted((1, 0, 1), (1, 0, 1)) / counted((0, 0, 1), (0, 0, 1))
    held = [person for person in PEOPLE if person[2] != 1]
    assert share == sum(person[0] != 1 for person in held) / len(held)
    assert count_operator(PAPER_CELLS, (0, 0, 1), (0, 0, 0)) == without
    assert paper_conditional(PAPER_CELLS, 3, 0, {2: True})[0] == pytest.approx(share)


def test_erratum_14_terms_without_the_key_cancel():
    alpha, beta, key = (0, 0, 1), (0, 0, 1), 0
    terms = {
        gamma: sign_cell(key, gamma, +1) - sign_cell(key, gamma, -1) for gamma in meeting(alpha, beta)
    }
    assert all(term == 0 for gamma, term in terms.items() if gamma[key] == 0)
    assert any(sign_cell(key, gamma, +1) for gamma in terms if gamma[key] == 0), (
        "and not for want of people"
    )
    values = [person[0] - 1 for person in PEOPLE if person[0] != 1 and person[2] != 1]
    assert sum(terms.values()) / counted((1, 0, 1), (1, 0, 1)) == sum(values) / len(values)
    assert sum_operator(PAPER_CELLS, key, alpha, beta) == sum(values)
    mean = paper_conditional(PAPER_CELLS, 3, key, {2: True})[1]
    assert mean == pytest.approx(sum(values) / len(values))


def test_erratum_15_conditions_must_lie_in_alpha_and_leave_the_target_out():
    assert meeting((1, 0, 0), (1, 1, 0)) == [], "a value outside alpha is met by no one"
    # With the target among the conditions as absent, "or 1" overwrites the condition.
    target_held, target_absent = counted((1, 0, 0), (1, 0, 0)), counted((1, 0, 0), (0, 0, 0))
    assert target_held / target_absent == 3, "no probability"
    with pytest.raises(QueryError, match="beta may hold only"):
        count_operator(PAPER_CELLS, (1, 0, 0), (1, 1, 0))
    with pytest.raises(QueryError, match="condition of itself"):
        paper_conditional(PAPER_CELLS, 3, 0, {0: False})


def test_erratum_16_randomised_response_keeps_with_p():
    channel = channel_of("rr")
    keep = channel.expected()[0, 0]
    assert keep > 0.5
    assert log(keep / (1 - keep)) == pytest.approx(1, rel=COARSE)


@pytest.mark.parametrize("law", [(0.4, 0.24, 0.36), (0.8, 0.1, 0.1)])
def test_erratum_17_only_kvoh_has_independent_noise(law):
    law = np.array(law)
    kvue, kvoh = channel_of("kvue"), channel_of("kvoh")
    noise = given_states(kvue, kvue.decoder(STATES), law)
    assert noise[1, 2] < -0.1 * noise[1, 1]
    apart = given_states(kvoh, by_bits(kvoh, STATES), law)
    assert apart[1, 2] == pytest.approx(0, abs=1e-9)
    # For KVUE the counts sum to N, so f* = 1 - N_0* / N: one count, half the printed bound.
    assert kvue.decoder(STATES).sum(axis=1) == pytest.approx(np.ones(3), abs=1e-9)
    printed = (exp(1) + 2) / (exp(1) - 1) * sqrt(2 / 1000 * log(2 / 0.05))
    assert bounds.kvue_frequency(1, 1000, 0.05).error == pytest.approx(printed / 2)
    assert bounds.kvue_mean(1, 0.5, 1000, 0.05).probability == pytest.approx(1 - 2 * 0.05)


def test_erratum_18_rounding_adds_variance_and_ties_kvoh_bits_but_spoils_no_single_count():
    """All hold the key with value 0, so rounding is a fair coin."""
    schema = ONE_KEY
    words = np.array([0, WORD // 2 - 1, WORD // 2, WORD - 1], np.uint32)
    zeros = np.zeros(4)
    digits = schema.rounded(np.zeros(4, np.int64), zeros, words)
    assert schema.values[digits - 1].tolist() == [1, 1, -1, -1], "variance 1 - v^2 = 1, mean v = 0"
    kvue, kvoh, law = channel_of("kvue"), channel_of("kvoh"), np.array([0, 0.5, 0.5])
    weights = key_weights(schema)
    for channel in (kvue, kvoh):
        decoder = channel.decoder(weights)
        fixed, drawn = given_states(channel, decoder, law), channel.covariance(decoder, law)
        assert drawn[1, 1] == pytest.approx(fixed[1, 1] + 1)
    # A report is one Bernoulli draw with or without rounding: Hoeffding covers the true mean.
    n, miss = 1000, 0.05
    chance = kvue.mix(law)[2]
    r = (exp(1) + 2) / (exp(1) - 1) * sqrt(n / 2 * log(2 / miss))
    keep, lie = kvue.expected()[0, :2]
    off = np.abs((np.arange(n + 1) / n - lie) / (keep - lie) - 0.5) * n
    assert binom.pmf(range(n + 1), n, chance)[off <= r].sum() > 1 - miss
    # But given values rather than states, the two bits of KVOH move together.
    assert kvoh.covariance(by_bits(kvoh, STATES), law)[1, 2] == pytest.approx(-0.25, abs=1e-9)


# -- wrong or unsupported statements ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("nominal", "privkv", "f2m_at_0"),
    [(0.5, 0.367, 0.383), (1, 0.719, 0.781), (2, 1.380, 1.620), (4, 2.566, 3.434)],
)
def test_erratum_19_privkv_and_f2m_at_0_prove_less_than_they_promise(nominal, privkv, f2m_at_0):
    half = nominal / 2
    assert float(plan_of("privkv", nominal).proven) == pytest.approx(privkv, abs=6e-4)
    assert privkv == pytest.approx(max(half, half + log(2 / (1 + exp(-half)))), abs=6e-4)
    assert float(plan_of("f2m", nominal, default=0).proven) == pytest.approx(f2m_at_0, abs=6e-4)
    assert f2m_at_0 == pytest.approx(max(half, half + log((1 + exp(half)) / 2)), abs=6e-4)
    assert epsilon_of(privkv_rows(half, half, 1.0)) == pytest.approx(nominal, abs=COARSE)
    epsilons = [epsilon_of(f2m_rows(half, half, v)) for v in (-1, -0.99, 0.99, 1)]
    assert epsilons[0] == epsilons[3] == pytest.approx(nominal, abs=COARSE)
    assert max(epsilons[1:3]) < nominal - 1e-3, "only |v| = 1 attains it"
    for tight in ("kvue", "kvoh"):
        assert float(plan_of(tight, nominal).proven) == pytest.approx(nominal, abs=1e-6)


def test_erratum_20_privkvm_is_unbiased_only_without_end():
    """Exact recursion: the bias after c rounds is (1 - lambda)(1 - f)^(c - 1)(0 - m)."""
    f, m, rounds = 0.3, 0.6, 5
    plan = plan_of("privkvm", 1, rounds=rounds)
    keep_key, _ = keeps_of(plan.channels[0])
    shown = f * keep_key / (f * keep_key + (1 - f) * (1 - keep_key))
    assert plan.promised == Decimal("0.6"), "the key's half and a tenth: not epsilon / c = 0.2"
    for done in range(1, rounds + 1):
        tally = expected_tally(plan, f, m)
        bias = (1 - shown) * (1 - f) ** (done - 1) * (0 - m)
        # Feedback is told to six places.
        assert raw_means(plan, tally)[0] - m == pytest.approx(bias, abs=1e-5)
        assert estimate(plan, tally, "debiased")["0"].mean.value == pytest.approx(m, abs=1e-5)
        if done < rounds:
            plan = plan.next(tally)
            assert plan.promised == Decimal("0.1")
    with pytest.raises(FinishedError):
        plan.next(tally)
    # The one-shot ratios have no such term: unbiased counts, so the bias falls as 1 / N.
    for mechanism in ("privkv", "kvue", "kvoh"):
        once = plan_of(mechanism)
        mean = estimate(once, expected_tally(once, f, m))["0"].mean.value
        assert mean == pytest.approx(m, abs=1e-6)


@pytest.mark.parametrize("m", [0.2, 0.8])
def test_erratum_21_privkv_is_no_better_at_high_means(m):
    plan = plan_of("privkv")
    bias = [raw_means(plan, expected_tally(plan, 0.2, s * m))[0] - s * m for s in (1, -1)]
    assert bias[0] == pytest.approx(-bias[1], abs=1e-9)
    spread = [forecast_key(plan, 1, 0.2, s * m).mean for s in (1, -1)]
    assert spread[0] == pytest.approx(spread[1], rel=1e-9), "nor PrivKV-A"
    # Absent keys that say 1 would do what the paper's figures show.
    rows = privkv_rows(0.5, 0.5, 1.0)
    keep = exp(0.5) / (exp(0.5) + 1)

    def off(mean: float) -> float:
        _, low, high = state_law(plan, 0.2, mean) @ rows
        return abs((high - low) / (high + low) / (2 * keep - 1) - mean)

    assert off(m) < off(-m) / 1.4


@pytest.mark.parametrize(("epsilon", "found"), [(0.5, (31.83, 15.92, 10.61)), (1, (7.84, 3.92, 2.61))])
def test_erratum_22_kvoh_frequency_has_a_third_of_the_variance_for_free(epsilon, found):
    channel, t = channel_of("kvoh", epsilon), exp(epsilon / 2)
    law = np.array([0.4, 0.36, 0.24])
    held = key_weights(ONE_KEY)[:, :1]
    v = t / (t - 1) ** 2
    one_bit = channel.per_output(channel.position_decoder(held, np.ones(1)))
    variances = [
        given_states(channel, decoder, law)[0, 0]
        for decoder in (by_bits(channel, held), one_bit, by_constrained_bits(channel, held))
    ]
    assert variances == pytest.approx([2 * v, v, 2 * v / 3], rel=COARSE)
    assert variances == pytest.approx(found, abs=0.006)


def test_erratum_23_kvue_is_direct_encoding_and_kvoh_is_symmetric_unary():
    kvue, kvoh = channel_of("kvue"), channel_of("kvoh")
    assert isinstance(kvue, Symmetric)
    assert kvue == Plan.of(Schema.of(2), "grr", 1).channels[0]
    assert isinstance(kvoh, Symbols)
    assert kvoh.laws[0] == kvoh.laws[1][::-1]
    # Optimised unary encoding, n Var = 4E / (E - 1)^2 + f: worse on dense keys, better on rare cells.
    for epsilon, dense, rare in ((1, 0.8, 0.01), (4, 0.8, 0.01)):
        e, t = exp(epsilon), exp(epsilon / 2)
        oue = Symbols.bits_of(3, WORD // 2, round(WORD / (e + 1)))
        for share, better in ((dense, False), (rare, True)):
            law = np.array([1 - share, share, 0])
            spread = given_states(oue, by_bits(oue, STATES), law)[1, 1]
            assert spread == pytest.approx(4 * e / (e - 1) ** 2 + share, rel=1e-7)
            assert (spread < t / (t - 1) ** 2) == better


def test_erratum_24_composition_is_a_product_of_laws_of_one_record():
    """Two answers of one person: the worst ratio of the joint law is the product."""
    rows = channel_of("kvue").expected()
    joint = np.stack([np.outer(row, row).ravel() for row in rows])
    worst = max(log(joint[:, y].max() / joint[:, y].min()) for y in range(9))
    assert worst == pytest.approx(2, rel=COARSE)


def test_erratum_25_virtual_iterations_end_at_privkv_a_and_privkvm_plus_is_a_chain():
    plan = plan_of("privkv")
    tally = Tally(plan, np.array([10_000, 5200, 2200, 2600]))
    goal = estimate(plan, tally, "unbiased")["0"].mean.value
    held = estimate(plan, tally)["0"].frequency.value
    first = raw_means(plan, tally)[0]
    mean = first
    for rounds in range(2, 2001):
        mean = held * goal + (1 - held) * mean
        if rounds == 10:
            assert estimate(plan, tally, "virtual")["0"].mean.value == pytest.approx(mean, rel=1e-9)
    assert mean == pytest.approx(goal, abs=1e-9)
    assert plan.chain is None, "one real round: people answer once"
    plus = plan_of("privkvm_plus")
    assert plus.chain is not None
    assert plus.chain["feedback"] == ["1"]
    later = plus.next(expected_tally(plus, 0.3, -0.6))
    assert later.chain["parent"] == plus.hash, "people answer again"
    assert later.promised == Decimal("0.125"), "half of the quarter that is left"


# -- found on reading again -------------------------------------------------------------------------


def test_erratum_26_a_key_drawn_from_ones_own_pairs_has_no_epsilon():
    """The drawn key is sent in the clear, so it may not depend on what is held."""
    half = WORD // 2
    with pytest.raises(ChannelError, match="no epsilon covers it"):
        Table(((WORD, 0), (0, WORD), (half, half))).proof()  # holds key 0, key 1, both


@pytest.mark.parametrize(("epsilon", "ratio"), [(1, 1.317), (5, 1.618)])
def test_erratum_27_frequency_errors_depend_on_the_frequency(epsilon, ratio):
    held = key_weights(ONE_KEY)[:, :1]

    def spread(mechanism: str, decode, f: float) -> float:
        plan = plan_of(mechanism, epsilon)
        channel = plan.channels[0]
        law = state_law(plan, f, 0)
        return float(given_states(channel, decode(channel, held), law)[0, 0])

    kvue = [spread("kvue", Channel.decoder, f) for f in (0.05, 0.8)]
    assert kvue[0] / kvue[1] == pytest.approx(ratio, abs=5e-4)
    e = exp(epsilon)
    exact = [(e + 1) / (e - 1) ** 2 + (1 - f) / (e - 1) for f in (0.05, 0.8)]  # entry 6, of N - N_0
    assert kvue == pytest.approx(exact, rel=1e-7)
    for mechanism, decode in (("privkv", Channel.decoder), ("f2m", by_two_bits), ("kvoh", by_bits)):
        others = [spread(mechanism, decode, f) for f in (0.05, 0.8)]
        assert others[0] == pytest.approx(others[1], rel=COARSE), "bits that are flipped alike"


def test_erratum_28_who_wins_against_rappor_depends_on_how_many_keys_people_hold():
    """Everyone holds at most one of 100 keys: asking for one of them wastes 99 of 100 answers."""
    keys, n, f = 100, 1_000_000, 0.05
    rappor = Plan.of(Schema.of(keys), "rappor", 1).channels[0]
    law = np.array([0.0, f, *[(1 - f) / (keys - 1)] * (keys - 1)])
    whole = np.zeros((keys + 1, 1))
    whole[1] = 1
    bits = rappor.covariance(rappor.decoder(whole), law)[0, 0] / n
    sampled = forecast_key(Plan.of(Schema.of(keys), "privkv", 1), n, f, 0).frequency
    assert 99 < sampled / bits < 101
    best = forecast_key(Plan.of(Schema.of(keys), "kvue", 1), n, f, 0).frequency
    assert best / bits > 40


def test_erratum_29_an_absent_key_has_no_rounded_value():
    """With v* = Discretization(0) in {-1, 1} the law of an absent key does not sum to one."""
    e = exp(1)
    outputs = [(0, 0), (1, 1), (1, -1)]

    def row(k, v):
        return [(e - 1) / (e + 2) * (y == (k, v)) + 1 / (e + 2) for y in outputs]

    assert sum(row(0, 0)) == pytest.approx(1) == sum(row(1, 1))
    assert sum(row(0, 1)) == sum(row(0, -1)) == pytest.approx(3 / (e + 2))
    law = channel_of("kvue").expected()[[0, 2, 1]][:, [0, 2, 1]]
    assert law == pytest.approx(np.array([row(*state) for state in outputs]), abs=COARSE)


def test_erratum_30_mean_bounds_need_enough_reports():
    """100 keys and 100,000 people leave 1000 reports for a key."""
    f, n, miss, epsilon = 0.2, 1000, 0.05, 0.5
    e, tail = exp(epsilon), sqrt(2 * log(2 / miss))
    printed = (e + 2) * tail / ((e - 1) * f * sqrt(n) - (e + 2) * tail)
    assert printed < 0
    assert bounds.kvue_mean(epsilon, f, n, miss).error == inf
    assert bounds.kvue_mean(1, 0.8, n, miss).error == pytest.approx(0.418, abs=5e-4)


@pytest.mark.parametrize(("f", "m", "ratio"), [(0.8, 0.8, 1.78), (0.2, 0.8, 1.79)])
def test_erratum_31_the_default_value_matters(f, m, ratio):
    spread = {
        v: forecast_key(plan_of("f2m", 1, default=v), 1, f, m, decode=by_two_bits).mean
        for v in (-1, 0, 1)
    }
    assert spread[-1] / spread[1] == pytest.approx(ratio, abs=0.01)
    tight = forecast_key(plan_of("f2m", 1, calibrate="tight", default=0), 1, f, m, decode=by_two_bits)
    assert tight.mean < 0.8 * min(spread.values()), "0 at the same true epsilon beats them all"


def test_erratum_32_an_error_of_a_twentieth_needs_more_reports():
    plan = Plan.of(Schema.of(100), "kvue", "0.4")
    prediction = forecast_key(plan, 100_000, 0.5, 0)
    assert sqrt(prediction.frequency) == pytest.approx(0.108, abs=5e-4)
    assert sqrt(prediction.mean) == pytest.approx(0.360, abs=5e-4)
    alone = forecast_key(Plan.of(ONE_KEY, "kvue", "0.4"), 100_000, 0.5, 0)
    assert sqrt(alone.mean) < 0.05
    raw = plan_of("privkv", "0.6")
    bias = 0.25 - raw_means(raw, expected_tally(raw, 0.5, 0.25))[0]
    assert bias == pytest.approx(0.106, abs=5e-4)


@pytest.mark.parametrize("mechanism", ["kvue", "f2m"])
def test_erratum_33_hoeffding_bounds_a_count_around_its_expectation(mechanism):
    """Exact tails of a count of outputs given the states, which is a sum of binomials."""
    rows, states, n = channel_of(mechanism).expected()[:, -1], (800, 150, 50), 1000
    law = np.ones(1)
    for chance, count in zip(rows, states, strict=True):
        law = np.convolve(law, binom.pmf(range(count + 1), count, chance))
    expected = float(rows @ states)
    off = np.abs(np.arange(n + 1) - expected)
    for t in (5, 20, 50):
        assert law[off >= t].sum() <= 2 * exp(-2 * t**2 / n)
    # Around N_i, which is the only other count there is, it fails.
    away = np.abs(np.arange(n + 1) - states[-1])
    assert law[away >= 50].sum() > 2 * exp(-2 * 50**2 / n)


def test_erratum_34_ioh_beats_the_naive_way_only_at_small_epsilon():
    """The share who hold both of two keys, of eight: exact variance of one report, states fixed."""
    keys, ratios = 8, {}
    for epsilon in (0.5, 1, 2, 5):
        t = exp(epsilon / 2)
        cells = 4 * 3 ** (keys - 2)  # low or high for both, anything for the others; each has its bit
        ioh = cells * t / (t - 1) ** 2
        channel = channel_of("kvue", epsilon / keys)
        held = channel.decoder(np.array([[0.0], [1.0], [1.0]]))[:, 0]
        both = np.outer(held, held).ravel()  # the two keys' outputs are independent given the states
        split = 0.0
        for states in product(range(3), repeat=2):
            law = np.outer(*(channel.expected()[state] for state in states)).ravel()
            chance = np.prod([(0.2, 0.4, 0.4)[state] for state in states])
            split += chance * (law @ both**2 - (law @ both) ** 2)
        ratios[epsilon] = ioh / split
    assert [ratios[e] for e in (1, 2, 5)] == pytest.approx([0.76, 3.02, 12.5], rel=0.01)
    assert list(ratios.values()) == sorted(ratios.values())
    # A pair through nine-state k-RR with all of epsilon, but from 1 in 28 of the people.
    for epsilon, ratio in ratios.items():
        pair = Plan.of(Schema.of(2), "pairs", epsilon, channel="grr").channels[0]
        decoder = pair.decoder(np.array([[float(s // 3 > 0 and s % 3 > 0)] for s in range(9)]))
        law = np.outer((0.2, 0.4, 0.4), (0.2, 0.4, 0.4)).ravel()
        views = 28 * pair.covariance(decoder, law)[0, 0]
        t = exp(epsilon / 2)
        ioh = 4 * 3 ** (keys - 2) * t / (t - 1) ** 2
        assert views < min(ioh, ioh / ratio)


UNEVEN = {"default": "0", "split": "0.3", "calibrate": "tight"}


def test_erratum_35_more_outputs_do_not_by_themselves_tell_more():
    """Exact, at equal true epsilon: an even split for all defaults, then three tenths for the key."""
    for epsilon in (0.1, 0.5, 1, 2, 4):
        three = plan_of("privkv", epsilon, calibrate="tight")
        for default, f, m in product(
            ("-1", "-0.5", "0", "0.5", "1"), (0.02, 0.6, 0.98), (-0.99, -0.4, 0.0, 0.8)
        ):
            four = plan_of("f2m", epsilon, calibrate="tight", default=default)
            assert forecast_key(four, 1, f, m).mean > forecast_key(three, 1, f, m).mean
            smaller = forecast_key(four, 1, f, m).frequency < forecast_key(three, 1, f, m).frequency
            if default == "0" and f == 0.6:
                assert smaller == (epsilon <= 1)
    means, frequencies = [], []
    for epsilon in ("0.1", "0.5", "1", "2"):
        three, four, kvue = (
            forecast_key(plan, 1, 0.6, 0.4)
            for plan in (
                plan_of("privkv", epsilon, calibrate="tight"),
                plan_of("f2m", epsilon, **UNEVEN),
                plan_of("kvue", epsilon),
            )
        )
        means.append(four.mean / three.mean)
        frequencies.append(four.frequency / three.frequency)
        assert kvue.frequency < four.frequency
        assert (four.mean < kvue.mean) == (epsilon in ("0.1", "0.5"))
        if epsilon == "0.1":
            assert four.mean / kvue.mean == pytest.approx(0.80, abs=0.005)
    assert means == pytest.approx([0.59, 0.72, 0.96, 1.39], abs=0.005)
    assert frequencies == pytest.approx([1.43, 1.71, 2.21, 2.90], abs=0.005)
