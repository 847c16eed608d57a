"""Shuffle amplification against brute force, closed forms and plain sums, and the plans' figures."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from itertools import combinations_with_replacement, permutations, product
from math import comb, exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from keyveil import REGISTRY, Plan, PlanError, Schema
from keyveil.channel import CoCo, Collision, Halfspace, Hash, Product, Subset, Symbols, Symmetric, Table
from keyveil.channel.law import Channel
from keyveil.cli.command import run
from keyveil.foundation.tails import above, below, chi_square_above, entropy_above, log_binomial
from keyveil.mechanisms.kvoh import flipped_bits
from keyveil.testing import record_law
from keyveil.trust.shuffle import (
    Accountant,
    Parameters,
    amplified,
    channel_parameters,
    closed_form,
    line,
    parameters,
    smallest_epsilon,
)

EPSILON = Decimal(1)
E = exp(1)
COARSE = 2e-9
"""Laws are whole multiples of 2^-32."""


def brute_variation(rows: np.ndarray) -> float:
    return max(float(np.abs(a - b).sum()) / 2 for a in rows for b in rows)


def shuffled(rows: np.ndarray, states: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """The law of the counts of all outputs when these states report."""
    law = {(0,) * rows.shape[1]: 1.0}
    for state in states:
        after: Counter[tuple[int, ...]] = Counter()
        for counts, chance in law.items():
            for output, share in enumerate(rows[state]):
                more = tuple(c + (i == output) for i, c in enumerate(counts))
                after[more] += chance * share
        law = dict(after)
    return law


def divergence(first: dict, second: dict, epsilon: float) -> float:
    return sum(max(0.0, p - exp(epsilon) * second[counts]) for counts, p in first.items())


def plain_delta(parameters: Parameters, people: int, epsilon: float) -> float:
    """The bound as it is written: L takes three values, and every number of draws is summed."""
    grown, ratio, blanket = exp(epsilon), parameters.ratio, parameters.blanket
    values = blanket * np.array([ratio - grown, 1 - grown * ratio, 1 - grown])
    most = (1 - grown - values[1]) / (values[0] - values[1])
    upper = min(parameters.variation / (blanket * (ratio - 1)), most)
    lower = (upper * (values[0] - values[2]) + values[2] - (1 - grown)) / (values[2] - values[1])
    law = np.maximum([upper, lower, 1 - upper - lower], 0.0)  # rounding may leave less than nothing
    total = 0.0
    for m in range(1, people + 1):
        chance = stats.binom.pmf(m - 1, people - 1, blanket)
        for a in range(m + 1):
            for b in range(m - a + 1):
                share = stats.multinomial.pmf([a, b, m - a - b], m, law / law.sum())
                total += chance * share * max(0.0, values @ [a, b, m - a - b]) / m
    return float(total)


def published_delta(variation: float, ratio: float, people: int, epsilon: float) -> float:
    """Wang et al.'s reduction to two counts of clones, one's own report among them or not."""
    clone, others = variation / (ratio - 1), people - 1
    first_pmf = np.zeros((people + 1, people + 1))
    second_pmf = np.zeros_like(first_pmf)
    for c in range(others + 1):
        for a in range(c + 1):
            chance = stats.binom.pmf(c, others, 2 * clone) * stats.binom.pmf(a, c, 0.5)
            for law, first, second in (
                (first_pmf, ratio * clone, clone),
                (second_pmf, clone, ratio * clone),
            ):
                law[a + 1, c - a] += chance * first
                law[a, c - a + 1] += chance * second
                law[a, c - a] += chance * (1 - first - second)
    return float(np.maximum(first_pmf - exp(epsilon) * second_pmf, 0.0).sum())


# -- tails -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", [1, 2, 7, 60, 1000, 10**6, 10**9])
@pytest.mark.parametrize("chance", [0.01, 0.3, 0.5, 0.9])
def test_binomial_tails_agree_with_scipy(trials, chance):
    spread = np.sqrt(trials * chance * (1 - chance))
    counts = np.unique(np.clip(np.round(trials * chance + spread * np.linspace(-7, 9, 17)), 0, trials))
    np.testing.assert_allclose(
        above(counts, trials, chance), stats.binom.sf(counts - 1, trials, chance), 1e-9
    )
    np.testing.assert_allclose(
        below(counts, trials, chance), stats.binom.cdf(counts, trials, chance), 1e-9
    )


def test_binomial_terms_sum_to_one_and_have_edges():
    assert np.exp(log_binomial(np.arange(31), 30, 0.37)).sum() == pytest.approx(1, abs=1e-13)
    assert np.exp(log_binomial([0, 3, 4, -1], 3, 0.25)) == pytest.approx([27 / 64, 1 / 64, 0, 0])
    assert above([0, 4], 3, 0.5).tolist() == [1, 0]
    assert below([-1, 3], 3, 0.5).tolist() == [0, 1]


@pytest.mark.parametrize("freedom", [1, 2, 9, 400, 10**5])
def test_chi_square_agrees_with_scipy(freedom):
    for z in (-2, -0.5, 0, 1, 3, 7):
        x = freedom + z * np.sqrt(2 * freedom)
        if x > 0:
            assert chi_square_above(x, freedom) == pytest.approx(stats.chi2.sf(x, freedom), rel=1e-8)


@pytest.mark.parametrize("law", [(0.5, 0.5), (0.05, 0.95), (0.2, 0.3, 0.5), (0.01, 0.01, 0.98)])
def test_the_entropy_bound_holds_by_enumeration(law):
    """Every count of n draws, its exact chance and its relative entropy."""
    n, k = 12, len(law)
    pairs = []
    for counts in combinations_with_replacement(range(k), n):
        each = np.bincount(counts, minlength=k)
        shares = each[each > 0] / n
        nats = n * float((shares * np.log(shares / np.array(law)[each > 0])).sum())
        pairs.append((nats, stats.multinomial.pmf(each, n, law)))
    for nats, _ in pairs:
        exact = sum(chance for other, chance in pairs if other >= nats - 1e-12)
        assert exact <= entropy_above(nats, k) + 1e-12


# -- the three numbers of a channel -------------------------------------------------------------------


def small_channels() -> list[Channel]:
    uneven = ((1 << 31, 1 << 30, 1 << 30), (1 << 30, 1 << 31, 1 << 30), (1 << 30, 1 << 30, 1 << 31))
    return [
        Symmetric.of(2, EPSILON),
        Symmetric.of(3, EPSILON),
        Symmetric.of(11, Decimal("2.7")),
        Table.rounded([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]]),
        flipped_bits(3, EPSILON),
        flipped_bits(4, EPSILON, silent=1),
        Symbols(3, uneven),
        Symbols(2, uneven, 1),
        Subset.of(6, EPSILON, 1),
        Subset.of(6, EPSILON, 3),
        Subset.of(5, Decimal(3), 2),
        Product(3, Symmetric.of(3, Decimal("0.4"))),
        Halfspace.of(1, EPSILON),
        Halfspace.of(4, EPSILON),
        Halfspace.of(5, EPSILON),
        Halfspace.of(6, Decimal(3)),
    ]


@pytest.mark.parametrize("channel", small_channels(), ids=lambda c: f"{c.shape}-{c.states}")
def test_parameters_are_those_of_the_law_written_out(channel):
    law, parameters = channel.expected(), channel_parameters(channel)
    apart, shared = brute_variation(law), float(law.min(axis=0).sum())
    assert apart - 1e-13 <= parameters.variation <= apart + 1e-7  # never below, and only rounding above
    assert shared - 1e-7 <= parameters.blanket <= shared + 1e-13
    assert float((law.max(axis=0) / law.min(axis=0)).max()) == pytest.approx(parameters.ratio, rel=1e-9)


@pytest.mark.parametrize(
    "channel",
    [
        Collision.of(5, 2, EPSILON, 8, 7),
        Collision.of(4, 3, Decimal(2), 8, 7),
        Collision.of(9, 1, Decimal(2), 16, 7, 5),
        CoCo.of(8, 1, EPSILON, 16, 5),
        CoCo.of(8, 2, Decimal(2), 16, 5),
        Hash(6, 16, 3, Table.rounded([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])),
    ],
)
def test_parameters_of_hashes_cover_every_pair_of_states(channel):
    """A pool of few seeds may keep two sets nearer to each other than they could be, never further."""
    law, parameters = channel.expected(), channel_parameters(channel)
    assert brute_variation(law) <= parameters.variation <= 1.35 * brute_variation(law)
    assert 0.8 * law.min(axis=0).sum() <= parameters.blanket <= law.min(axis=0).sum()


def test_many_positions_are_not_written_out():
    bits = channel_parameters(flipped_bits(700, EPSILON))
    assert bits.variation == pytest.approx(
        brute_variation(flipped_bits(2, EPSILON).expected()), abs=1e-12
    )
    assert bits.blanket == pytest.approx(exp(-0.5), abs=1e-8)  # some bit of 700 is not set
    parameters = channel_parameters(Subset.of(200, EPSILON, 54))
    assert parameters.variation == pytest.approx(
        (E - 1) * (comb(199, 53) - comb(198, 52)) / (E * comb(199, 53) + comb(199, 54)), rel=1e-6
    )


def test_closed_forms_of_the_tables():
    """Variation by mechanism, as Wang et al. list it."""
    assert channel_parameters(Symmetric.of(40, EPSILON)).variation == pytest.approx(
        (E - 1) / (E + 39), abs=40 * COARSE
    )
    assert parameters(Plan.of(Schema.of(9), "kvue", 1)).variation == pytest.approx(
        (E - 1) / (E + 2), abs=COARSE
    )
    hashed = Plan.of(Schema.of(50), "shist", 1)
    assert parameters(hashed).variation == pytest.approx((E - 1) / (E + 1), abs=COARSE)
    held, channel = 4, Collision.of(100, 4, EPSILON, 64, 1)
    assert channel_parameters(channel).variation == pytest.approx(
        min(held, channel.small - held) * (E - 1) / (held * E + channel.small - held), abs=1e-7
    )
    e1 = e2 = exp(0.5)
    listed = max(e1 * (e2 - 1) / (e2 + 1), e1 - 1 + (e2 - 1) / (2 * (e2 + 1))) / (e1 + 1)
    exact = max(e1 / (e1 + 1) * (e2 - 1) / (e2 + 1), (e1 - 1) / (e1 + 1))
    assert parameters(Plan.of(Schema.of(10), "privkv", 1)).variation == pytest.approx(exact, abs=COARSE)
    assert exact < listed  # the list has an upper bound for an absent key against a held one


def test_views_are_part_of_the_report():
    """One key of two is asked for: written out, the report is (view, output)."""
    plan = Plan.of(Schema.of(2), "kvue", 1)
    rows = plan.channels[0].expected()
    records = np.array([np.concatenate([rows[i] / 2, rows[j] / 2]) for i in range(3) for j in range(3)])
    values = parameters(plan)
    assert values.variation == pytest.approx(brute_variation(records), abs=1e-12)
    assert values.blanket == pytest.approx(records.min(axis=0).sum(), abs=1e-12)


@pytest.mark.parametrize(("keys", "length"), [(2, 1), (3, 2), (4, 3)])
def test_padding_draws_one_state_of_several(keys, length):
    """Every record of a tiny plan written out: its ratio is e^epsilon, not that of the k-RR's states."""
    plan = Plan.of(Schema.of(keys), "pckv_grr", 2, "tight", length=length)
    records = [
        {place: value for place, value in enumerate(values) if value}
        for values in product((0.0, -1.0, 1.0), repeat=keys)
    ]
    rows = plan.channels[0].expected()
    law = np.array([record_law(plan, record) for record in records]) @ rows
    values = parameters(plan)
    worst = float((law.max(axis=0) / law.min(axis=0)).max())
    assert worst <= values.ratio <= worst * (1 + 1e-7)
    assert values.ratio == pytest.approx(exp(float(plan.proven)), rel=1e-9)
    assert brute_variation(law) - 1e-13 <= values.variation <= brute_variation(law) + 1e-7
    assert values.blanket <= float(law.min(axis=0).sum()) + 1e-13
    if length > 1:
        assert channel_parameters(plan.channels[0]).ratio > 1.5 * values.ratio


def test_no_pair_of_padded_records_beats_the_bound():
    """Two people, every pair of records of two keys: the divergence of what is shuffled is below."""
    plan = Plan.of(Schema.of(2), "pckv_grr", 2, "tight", length=2)
    held = [{}, {0: 1.0}, {0: -1.0, 1: 1.0}, {0: 1.0, 1: 1.0}]
    law = np.array([record_law(plan, record) for record in held]) @ plan.channels[0].expected()
    account = Accountant(parameters(plan), 2)
    for epsilon in (0.0, 0.5, 1.5):
        worst = max(
            divergence(shuffled(law, (first, other)), shuffled(law, (second, other)), epsilon)
            for first, second in permutations(range(len(held)), 2)
            for other in range(len(held))
        )
        assert worst <= account.delta(epsilon) + 1e-9
        assert epsilon or worst > 0.4 * account.delta(epsilon)


# -- the accountant ----------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.floats(0.1, 4), st.floats(0, 1), st.floats(0.05, 1), st.floats(0, 0.99))
def test_the_accountant_sums_the_bound(people, local, shared, part, share):
    ratio = exp(local)
    blanket = 1 / ratio + shared * (1 - 1 / ratio) * 0.95
    parameters = Parameters(ratio, part * min(1 - blanket, (ratio - 1) / (ratio + 1)), blanket)
    epsilon = share * local
    assert Accountant(parameters, people).delta(epsilon) == pytest.approx(
        plain_delta(parameters, people, epsilon), rel=1e-7, abs=1e-14
    )


LAWS = {
    "k-RR of 3": Symmetric.of(3, EPSILON).expected(),
    "k-RR of 2": Symmetric.of(2, Decimal("0.7")).expected(),
    "two bits": flipped_bits(2, Decimal(2)).expected(),
    "uneven": np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]]),
    "views": np.array(
        [
            np.concatenate([a / 2, b / 2])
            for a in Symmetric.of(2, EPSILON).expected()
            for b in Symmetric.of(2, EPSILON).expected()
        ]
    ),
}


@pytest.mark.parametrize("name", list(LAWS))
@pytest.mark.parametrize("people", [2, 3, 4])
def test_no_pair_of_small_data_sets_beats_the_bound(name, people):
    """Every pair of neighbouring data sets of every record: their exact divergence is below."""
    rows = LAWS[name]
    parameters = channel_parameters(Table.rounded(rows))
    bounds = {epsilon: Accountant(parameters, people).delta(epsilon) for epsilon in (0.0, 0.1, 0.4, 0.8)}
    worst = dict.fromkeys(bounds, 0.0)
    for others in combinations_with_replacement(range(len(rows)), people - 1):
        laws = [shuffled(rows, (state, *others)) for state in range(len(rows))]
        for first, second in permutations(laws, 2):
            for epsilon in bounds:
                worst[epsilon] = max(worst[epsilon], divergence(first, second, epsilon))
    for epsilon, bound in bounds.items():
        assert worst[epsilon] <= bound + 1e-9
    assert worst[0.0] > 0.5 * bounds[0.0]  # and not far below


def test_six_people_do_not_beat_the_bound():
    rows = LAWS["k-RR of 3"]
    account = Accountant(channel_parameters(Symmetric.of(3, EPSILON)), 6)
    for others in ((0,) * 5, (0, 0, 0, 1, 1), (2,) * 5, (0, 0, 2, 2, 2)):
        first, second = shuffled(rows, (0, *others)), shuffled(rows, (1, *others))
        for epsilon in (0.0, 0.3, 0.7):
            assert max(
                divergence(first, second, epsilon), divergence(second, first, epsilon)
            ) <= account.delta(epsilon)


def test_one_person_alone_has_the_divergence_of_the_channel():
    rows, channel = LAWS["k-RR of 3"], Symmetric.of(3, EPSILON)
    account = Accountant(channel_parameters(channel), 1)
    for epsilon in (0.0, 0.2, 0.9):
        exact = float(np.maximum(rows[0] - exp(epsilon) * rows[1], 0).sum())
        assert account.delta(epsilon) == pytest.approx(exact, rel=1e-7)


def test_the_published_reduction_does_not_hold():
    """k-RR over three states, two people: (0, 0) against (1, 0), at epsilon 0.8."""
    rows = LAWS["k-RR of 3"]
    exact = divergence(shuffled(rows, (0, 0)), shuffled(rows, (1, 0)), 0.8)
    keep, lie = rows[0, 0], rows[0, 1]
    assert exact == pytest.approx(keep**2 - exp(0.8) * keep * lie, abs=1e-9)
    claimed = published_delta((E - 1) / (E + 2), E, 2, 0.8)
    assert claimed < 0.5 * exact
    assert Accountant(channel_parameters(Symmetric.of(3, EPSILON)), 2).delta(0.8) >= exact


def test_brute_force_catches_a_blanket_that_is_too_large():
    """The broken twin: a blanket that not every record wears."""
    rows = LAWS["k-RR of 3"]
    parameters = channel_parameters(Symmetric.of(3, EPSILON))
    broken = Accountant(
        Parameters(parameters.ratio, parameters.variation, 1 - parameters.blanket / 4), 2
    )
    first, second = shuffled(rows, (0, 0)), shuffled(rows, (1, 0))
    assert divergence(first, second, 0.8) > 1.2 * broken.delta(0.8)


def test_runs_of_neighbours_only_ever_add_to_delta(monkeypatch):
    parameters, epsilons = channel_parameters(Symmetric.of(3, EPSILON)), (0.05, 0.2, 0.3)
    coarse = Accountant(parameters, 200)
    bounds = [coarse.delta(epsilon) for epsilon in epsilons]
    monkeypatch.setattr("keyveil.trust.shuffle.RUNS_OF_PEOPLE", 201)
    monkeypatch.setattr("keyveil.trust.shuffle.RUNS_OF_DRAWS", 201)
    single = Accountant(parameters, 200)
    assert len(single.drawn) > 5 * len(coarse.drawn)
    for bound, epsilon in zip(bounds, epsilons, strict=True):
        exact = single.delta(epsilon)
        assert exact <= bound <= 1.25 * exact  # half a per cent in epsilon


@pytest.mark.parametrize("aim", [5e4, 6e4, 9e4])
def test_what_is_left_out_of_the_sum_is_added_to_delta(aim, monkeypatch):
    """Sums that end half a standard deviation from the mean still bound the divergence."""
    monkeypatch.setattr("keyveil.trust.shuffle.RUNS_OF_PEOPLE", 100)
    monkeypatch.setattr("keyveil.trust.shuffle.RUNS_OF_DRAWS", 100)
    parameters = channel_parameters(Symmetric.of(3, EPSILON))
    short, whole = Accountant(parameters, 80, aim), Accountant(parameters, 80)
    rest = 1.0 - short.mass.sum()
    assert rest > 0.02
    assert short.outside == pytest.approx(rest, rel=1e-6)
    for epsilon in (0.1, 0.3):
        assert short.delta(epsilon) >= whole.delta(epsilon)
        assert short.delta(epsilon) >= rest
    each, full = (account.mean_excesses(0.3, 0.5, 1.1) for account in (short, whole))
    drawn = dict(zip(whole.drawn.tolist(), full.tolist(), strict=True))
    assert all(value >= drawn[m] for m, value in zip(short.drawn.tolist(), each.tolist(), strict=True))
    monkeypatch.setattr(short, "mean_excesses", lambda *_: np.zeros(len(short.drawn)))
    assert short.delta(0.1) == pytest.approx(rest), "all that is left where the sum itself is zero"


def test_more_people_and_a_larger_delta_lower_epsilon():
    plan = Plan.of(Schema.of(100), "kvue", 1)
    epsilons = [amplified(plan, n).epsilon for n in (1, 10, 1000, 10**6, 10**9)]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[0] == pytest.approx(1, abs=1e-6)
    assert amplified(plan, 10**4, 1e-6).epsilon < amplified(plan, 10**4, 1e-12).epsilon


def test_the_bound_is_met_at_its_epsilon_and_not_below():
    parameters = channel_parameters(Symmetric.of(3, EPSILON))
    epsilon = smallest_epsilon(parameters, 10**5, 1e-8)
    account = Accountant(parameters, 10**5, 1e-8)
    assert account.delta(epsilon) <= 1e-8 < account.delta(epsilon * 0.999)


def test_the_closed_form_is_far_above():
    for local in (0.5, 3.0):
        plan = Plan.of(Schema.of(100), "kvue", local)
        guarantee = amplified(plan, 10**6)
        assert guarantee.closed_form == pytest.approx(closed_form(float(plan.proven), 10**6, 1e-9))
        assert guarantee.epsilon < guarantee.closed_form / 4
    assert closed_form(8.0, 1000, 1e-9) is None
    hand = log(1 + (E - 1) / (E + 1) * (8 * np.sqrt(E * log(4e9) / 1e6) + 8 * E / 1e6))
    assert closed_form(1.0, 10**6, 1e-9) == pytest.approx(hand)


def test_a_normal_law_gives_the_same_epsilon_for_many_people():
    """k-RR: one's own report shifts two counts that each have variance n lie."""
    channel = Symmetric.of(3, EPSILON)
    parameters, people, delta = channel_parameters(channel), 10**8, 1e-7
    shift = np.sqrt(2.0) * parameters.variation / np.sqrt(people * channel.lie / 2**32)

    def profile(epsilon: float) -> float:
        at = epsilon / shift
        return stats.norm.cdf(shift / 2 - at) - exp(epsilon) * stats.norm.cdf(-shift / 2 - at)

    low, high = 0.0, 0.1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if profile(middle) <= delta else (middle, high)
    assert smallest_epsilon(parameters, people, delta) == pytest.approx(high, rel=2e-3)


# -- plans -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(REGISTRY))
def test_every_mechanism_is_amplified(name):
    keys = 4 if REGISTRY[name].most_keys < 20 else 8
    schema = Schema.of(keys)
    plan = Plan.of(schema, name, 1, **REGISTRY[name].example(schema))
    values, local = parameters(plan), float(plan.proven)
    assert 0 < values.variation <= (values.ratio - 1) / (values.ratio + 1) * (1 + 1e-9)
    assert 1 / values.ratio <= values.blanket * (1 + 1e-9) <= 1
    guarantee = amplified(plan, 10**5)
    assert 0 < guarantee.epsilon < local / 4
    assert guarantee.document()["people"] == 10**5


def test_a_shape_of_ones_own_has_what_its_law_implies_or_else_its_epsilon():
    """Nothing but the base class: the law if it is written out, otherwise the proof."""

    class Own(Table):
        total_variation, blanket = Channel.total_variation, Channel.blanket

    class Unwritten(Own):
        def output_law(self):
            return None

    rows = Table.rounded(Symmetric.of(3, EPSILON).expected()).rows
    parameters = channel_parameters(Own(rows))
    assert parameters.variation == pytest.approx((E - 1) / (E + 2), abs=COARSE)
    assert parameters.blanket == pytest.approx(3 / (E + 2), abs=COARSE)
    parameters = channel_parameters(Unwritten(rows))
    assert parameters.variation == pytest.approx((E - 1) / (E + 1), abs=COARSE)
    assert parameters.blanket == pytest.approx(1 / E, abs=COARSE)


def test_the_line_says_both_epsilons():
    sentence = line(Plan.of(Schema.of(10), "kvue", 1), 10**6)
    assert "1,000,000 people" in sentence
    assert "epsilon 0.00498" in sentence
    assert sentence.endswith("not 1")


def test_the_command_says_the_same(tmp_path, capsys):
    plan = Plan.of(Schema.of(4), "kvue", 1)
    plan.save(tmp_path / "plan.json")
    path = str(tmp_path / "plan.json")
    assert run(["shuffle", path, "--people", "1e5", "--delta", "1e-8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == amplified(plan, 10**5, 1e-8).document()
    assert run(["shuffle", path]) == 0
    assert "whoever sees all 1,000,000" in capsys.readouterr().out
    for wrong in (["--people", "0"], ["--people", "1.5"], ["--delta", "2"], ["--people", "many"]):
        assert run(["shuffle", path, *wrong]) == 1
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("people", "delta"), [(0, 1e-9), (2.5, 1e-9), (10**13, 1e-9), (10, 0), (10, 1)])
def test_bad_input_is_one_line(people, delta):
    with pytest.raises(PlanError) as caught:
        amplified(Plan.of(Schema.of(2), "kvue", 1), people, delta)
    assert "\n" not in str(caught.value)
