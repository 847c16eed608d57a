"""Channels on a view: every one keeps its promise exactly, and the optimal one is worth its name."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from keyveil import PlanError, optimal
from keyveil.arrays import WORD
from keyveil.channel import Channel, Subset, Symbols, Symmetric, Table, parse_channel
from keyveil.optimal import MOVES, moved, optimal_pair, orbit, solve_pair, tabled, tabled_pair
from keyveil.viewchannels import (
    CHANNELS,
    CLOSED_FORMS,
    best_subset,
    candidates,
    choose,
    conditional_error,
    default_prior,
    workload,
)

EPSILONS = [Decimal(e) for e in ("0.1", "0.5", "1", "1.7", "2", "3", "4", "5")]
KEYS = {3: 1, 9: 2, 27: 3}
PRIOR = default_prior(2, 2)
UNIFORM = np.full(9, 1 / 9)
STATES = np.array([(a, b) for a in (0, -1, 1) for b in (0, -1, 1)])


@cache
def closed(states: int, epsilon: Decimal) -> dict[str, Channel]:
    return candidates(states, epsilon)


@cache
def best_closed(epsilon: Decimal) -> float:
    return min(conditional_error(c, PRIOR, 2) for c in closed(9, epsilon).values())


def independent(frequency: float, mean: float) -> np.ndarray:
    one = np.array([1 - frequency, frequency * (1 - mean) / 2, frequency * (1 + mean) / 2])
    return np.outer(one, one).ravel()


def tight(channel: Channel, epsilon: Decimal) -> None:
    proof = channel.check(epsilon)
    assert proof.epsilon >= epsilon * Decimal("0.999")


# -- closed forms --------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("states", KEYS)
def test_closed_forms_keep_their_promise_and_use_it(states: int, epsilon: Decimal):
    found = closed(states, epsilon)
    assert list(found) == list(CLOSED_FORMS)
    for channel in found.values():
        assert channel.states == states
        tight(channel, epsilon)
        assert parse_channel(channel.document()) == channel


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("states", KEYS)
def test_decoders_of_closed_forms_are_unbiased(states: int, epsilon: Decimal):
    for channel in closed(states, epsilon).values():
        decoder = channel.decoder(np.eye(states))
        # Weights reach 1e3 at epsilon 0.1, and a row adds up to thousands of them.
        np.testing.assert_allclose(channel.expected() @ decoder, np.eye(states), atol=1e-8)


def test_bits_show_half_and_fake_as_seldom_as_the_promise_allows():
    for epsilon in EPSILONS:
        bits = closed(9, epsilon)["bits"]
        assert isinstance(bits, Symbols)
        assert bits.one_cell
        (_, fake), (_, show) = bits.laws
        assert show == WORD // 2
        assert not Symbols.bits_of(9, show, fake - 1).proof().keeps(epsilon)
    assert not closed(27, Decimal(1))["bits"].one_cell


@pytest.mark.parametrize("states", [2, 3, 7, 8, 9, 27, 81])
def test_hadamard_favours_half_the_outputs_and_two_states_share_half_of_those(states: int):
    table = CLOSED_FORMS["hadamard"](states, Decimal(1))
    assert isinstance(table, Table)
    rows = np.array(table.rows)
    favoured = (rows == rows.max()).astype(int)
    both = favoured @ favoured.T
    assert table.cells > states >= table.cells // 2
    expected = np.full((states, states), table.cells // 4) + np.eye(states) * (table.cells // 4)
    np.testing.assert_array_equal(both, expected)


@pytest.mark.parametrize("states", [3, 9, 13])
@pytest.mark.parametrize("epsilon", [Decimal("0.3"), Decimal("0.9"), Decimal("1.2"), Decimal(3)])
def test_the_size_of_a_subset_is_the_one_with_the_least_error(states: int, epsilon: Decimal):
    """By the full predicted error, and for any workload at all: here the states of one wide key."""
    prior = np.full(states, 1 / states)

    def error(size: int) -> float:
        return conditional_error(Subset.of(states, epsilon, size), prior, 1)

    assert best_subset(states, epsilon).size == min(range(1, states), key=error)


def test_a_closed_form_that_32_bits_cannot_hold_is_left_out():
    found = candidates(729, Decimal(5))
    assert "hadamard" not in found
    assert {"grr", "subset", "bits"} <= set(found)


# -- the predicted error -------------------------------------------------------------------------


def test_the_workload_of_a_pair_is_the_eight_functionals():
    a, b = STATES.T
    rows = []
    for one, other in ((a, b), (b, a)):
        for held in (other != 0, other == 0):
            rows += [(one != 0) & held, one * held]
    np.testing.assert_array_equal(workload(2, 2), np.array(rows, float).T)


def test_the_workload_of_one_key_is_frequency_and_mass():
    np.testing.assert_array_equal(workload(1, 2).T, [[0, 1, 1], [0, -1, 1]])
    np.testing.assert_array_equal(workload(1, 1).T, [[0, 1]])
    np.testing.assert_array_equal(workload(1, 3).T, [[0, 1, 1, 1], [0, -1, 0, 1]])


def test_the_workload_of_a_triple_has_every_presence_with_each_value():
    columns = workload(3, 2)
    assert columns.shape == (27, 24)
    held = workload(3, 1)
    assert held.shape == (8, 12)
    assert len(np.unique(held, axis=1).T) == 7  # of eight presences all but "none"


def test_the_error_of_one_key_is_the_exact_variance():
    """k-RR of three states has as many outputs as states: one unbiased estimator, by hand."""
    channel = Symmetric.of(3, Decimal(1))
    law = np.array([0.5, 0.2, 0.3])
    decoder = np.linalg.inv(channel.expected()) @ workload(1, 2)
    seen = law @ channel.expected()
    by_hand = (seen @ decoder**2 - (seen @ decoder) ** 2).sum()
    assert conditional_error(channel, law, 1) == pytest.approx(by_hand, rel=1e-9)


def test_the_reference_figures_of_the_study():
    """`checks/opt_pair.py`, uniform prior, to the digits printed there."""
    for epsilon, grr, subset in (("0.5", 480.7, 274.9), ("1", 84.55, 65.04), ("2", 12.61, 14.43)):
        size = {"0.5": 3, "1": 2, "2": 2}[epsilon]
        e = Decimal(epsilon)
        assert conditional_error(Symmetric.of(9, e), UNIFORM, 2) == pytest.approx(grr, rel=1e-3)
        assert conditional_error(Subset.of(9, e, size), UNIFORM, 2) == pytest.approx(subset, rel=1e-3)


def test_marks_and_whole_sets_predict_the_same_where_all_states_are_alike():
    """At the uniform law the marks of a subset say as much as the set: 27 states, by both roads."""
    channel = Subset.of(27, Decimal(2), 3)
    assert channel.one_cell
    wanted, law = workload(3, 2), np.full(27, 1 / 27)
    show = channel.show / WORD
    fake = (3 - show) / 26
    information = 27 * 26 / (3 * 24) * (show - fake) ** 2  # of each contrast between states
    spread = ((wanted - wanted.mean(axis=0)) ** 2).sum() / information
    assert conditional_error(channel, law, 3) == pytest.approx(spread, rel=1e-6)


def test_what_cannot_be_estimated_has_infinite_error():
    blind = Table(((WORD // 2, WORD // 2),) * 9)
    assert conditional_error(blind, UNIFORM, 2) == np.inf


@pytest.mark.parametrize(("keys", "levels"), [(1, 1), (1, 2), (2, 2), (2, 4), (3, 2)])
def test_the_default_prior_is_a_law_and_knows_no_key_from_another(keys: int, levels: int):
    law = default_prior(keys, levels)
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    cube = law.reshape((levels + 1,) * keys)
    for one, other in combinations(range(keys), 2):
        np.testing.assert_allclose(cube, cube.swapaxes(one, other), atol=1e-15)


# -- the shipped table ---------------------------------------------------------------------------


def test_every_tabled_channel_keeps_its_promise_and_uses_it():
    epsilons = list(tabled())
    assert epsilons == sorted(epsilons)
    assert (epsilons[0], epsilons[-1]) == (optimal.SMALLEST_TABLED, Decimal(6))
    assert epsilons == optimal._grid()
    for epsilon in epsilons:
        table = tabled_pair(epsilon)
        tight(table, epsilon)
        assert parse_channel(table.document()) == table


def test_the_table_lists_one_pattern_of_each_class_and_small_blanks():
    for epsilon, classes in tabled().items():
        patterns = [pattern for pattern, _ in classes]
        assert patterns == sorted(set(patterns))
        assert all(0 < pattern < 511 and pattern == orbit(pattern)[0] for pattern in patterns)
        blank = [row[-1] for row in tabled_pair(epsilon).rows]
        assert 0 < max(blank) < WORD // 100_000


def test_tabled_channels_do_not_change_when_keys_swap_or_values_turn_round():
    assert len(set(MOVES)) == 8
    for epsilon in (Decimal("0.1"), Decimal(1), Decimal("2.5"), Decimal(6)):
        rows = np.array(tabled_pair(epsilon).rows)
        columns = sorted(map(tuple, rows.T))
        for move in MOVES:
            assert sorted(map(tuple, rows[list(move)].T)) == columns


def test_moves_are_a_group_on_the_states():
    a, b = STATES.T
    for move in MOVES:
        moved_pair = STATES[list(move)]
        one, other = moved_pair.T
        assert sorted(move) == list(range(9))
        straight = (abs(one) == abs(a)).all() and (abs(other) == abs(b)).all()
        crossed = (abs(one) == abs(b)).all() and (abs(other) == abs(a)).all()
        assert straight or crossed
        for then in MOVES:
            assert tuple(then[state] for state in move) in MOVES
    assert moved(0b1, MOVES[0]) == 0b1
    assert len({orbit(pattern) for pattern in range(1, 511)}) == 100


@pytest.mark.parametrize("epsilon", ["0.1", "1", "2", "6"])
def test_decoders_of_tabled_channels_are_unbiased(epsilon: str):
    table = tabled_pair(Decimal(epsilon))
    decoder = table.decoder(np.eye(9))
    np.testing.assert_allclose(table.expected() @ decoder, np.eye(9), atol=1e-8)  # as above


def test_optimal_is_a_tenth_below_every_closed_form_up_to_epsilon_one():
    for epsilon in [e for e in tabled() if e <= 1]:
        assert conditional_error(tabled_pair(epsilon), PRIOR, 2) < 0.9 * best_closed(epsilon)


def test_optimal_is_never_above_the_closed_forms_at_a_tabled_epsilon():
    for epsilon in [e for e in tabled() if e > 1]:
        error = conditional_error(tabled_pair(epsilon), PRIOR, 2)
        assert error <= best_closed(epsilon) * (1 + 1e-5)  # the blank's share of the reports


def test_the_signs_of_a_pair_can_be_told_though_no_conditional_needs_them():
    """Without its small weight E[v_a v_b] would be lost at epsilon 2 and below."""
    for epsilon in tabled():
        assert np.linalg.matrix_rank(tabled_pair(epsilon).expected(), 1e-4) == 9


def test_between_two_tabled_epsilons_the_lower_one_is_taken():
    assert optimal_pair(Decimal("0.0999")) is None
    assert optimal_pair(Decimal("1.0199")) == tabled_pair(Decimal(1))
    assert optimal_pair(Decimal("1.02")) == tabled_pair(Decimal("1.02"))
    assert optimal_pair(Decimal(20)) == tabled_pair(Decimal(6))


def test_the_table_is_what_a_fresh_solve_finds():
    epsilon = Decimal("0.7")
    fresh = conditional_error(solve_pair(epsilon), PRIOR, 2)
    # Two solvers may stop at different places on the flat ground around the optimum.
    assert conditional_error(tabled_pair(epsilon), PRIOR, 2) == pytest.approx(fresh, rel=0.005)


@pytest.mark.parametrize("epsilon", ["0.01", "0.0731", "1.0199", "10"])
def test_a_solved_channel_keeps_its_promise_and_uses_it(epsilon: str):
    table = optimal_pair(Decimal(epsilon), solve=True)
    assert table is not None
    tight(table, Decimal(epsilon))
    least = best_closed(Decimal(epsilon))
    assert conditional_error(table, PRIOR, 2) <= least * (1 + 1e-4)  # rounding at epsilon 10


def test_a_prior_of_ones_own_is_solved_for_and_the_default_stays_near():
    for epsilon in (Decimal("0.5"), Decimal(1), Decimal(2)):
        for prior in (independent(0.8, -0.5), independent(0.2, 0.3)):
            own = solve_pair(epsilon, prior)
            tight(own, epsilon)
            best = conditional_error(own, prior, 2)
            shipped = conditional_error(tabled_pair(epsilon), prior, 2)
            assert 0.99 * best <= shipped <= 1.07 * best  # below one: E[v_a v_b] has its price


def test_a_lopsided_prior_is_solved_without_the_symmetry_it_lacks():
    one, other = np.array([0.2, 0.1, 0.7]), np.array([0.6, 0.3, 0.1])
    prior = np.outer(one, other).ravel()
    table = solve_pair(Decimal(1), prior)
    tight(table, Decimal(1))
    assert conditional_error(table, prior, 2) < conditional_error(tabled_pair(Decimal(1)), prior, 2)


# -- the choice ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prior", [None, UNIFORM, independent(0.05, 0.2)], ids=["default", "even", "rare"]
)
def test_the_choice_for_pairs_is_never_worse_than_a_closed_form(prior: np.ndarray | None):
    law = PRIOR if prior is None else prior
    for epsilon in [*EPSILONS, Decimal("0.05"), Decimal("1.019"), Decimal("2.99"), Decimal(8)]:
        name, channel = choose(2, 2, epsilon, prior)
        channel.check(epsilon)
        error = conditional_error(channel, law, 2)
        for other in closed(9, epsilon).values():
            assert error <= conditional_error(other, law, 2) * (1 + 1e-6), name


def test_the_choice_on_the_whole_grid():
    names = {}
    for epsilon in tabled():
        names[epsilon], channel = choose(2, 2, epsilon)
        assert conditional_error(channel, PRIOR, 2) <= best_closed(epsilon) * (1 + 1e-6)
    assert {names[e] for e in names if e <= 2} == {"optimal"}
    assert {names[e] for e in names if e >= 4} == {"grr"}


def test_the_choice_for_one_key_and_for_triples_is_the_best_closed_form():
    for keys in (1, 3):
        for epsilon in EPSILONS:
            name, channel = choose(keys, 2, epsilon)
            law = default_prior(keys, 2)
            errors = {n: conditional_error(c, law, keys) for n, c in closed(3**keys, epsilon).items()}
            assert errors[name] <= min(errors.values()) * (1 + 1e-6)
            assert channel == closed(3**keys, epsilon)[name]
    assert choose(2, 4, Decimal(1))[1].states == 25


@pytest.mark.parametrize("name", CHANNELS)
def test_every_name_makes_its_channel(name: str):
    found, channel = choose(2, 2, Decimal(1), channel=name)
    assert found == name
    tight(channel, Decimal(1))


def test_bad_choices_are_refused_in_one_line():
    with pytest.raises(PlanError, match=r"^unknown channel 'gr'; known: best, grr, subset, bits, h"):
        choose(2, 2, Decimal(1), channel="gr")
    for name in ("optimal", "solved"):
        with pytest.raises(PlanError, match="views of two keys at two levels"):
            choose(3, 2, Decimal(1), channel=name)
    with pytest.raises(PlanError, match=r"begins at epsilon 0\.1"):
        choose(2, 2, Decimal("0.05"), channel="optimal")
    with pytest.raises(PlanError, match="up to epsilon 10"):
        choose(2, 2, Decimal(11), channel="solved")
    with pytest.raises(PlanError, match="not for a view of 2 keys"):
        conditional_error(Symmetric.of(10, Decimal(1)), np.full(10, 0.1), 2)
    for bad in (np.ones(9), np.full(3, 1 / 3), [2.0, -1.0, *[0.0] * 7], np.full(9, np.nan)):
        with pytest.raises(PlanError, match="a prior is 9 shares"):
            choose(2, 2, Decimal(1), bad)


def test_without_cvxpy_the_table_serves_and_solving_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    assert choose(2, 2, Decimal("0.505"))[0] == "optimal"
    with pytest.raises(PlanError, match=r"needs CVXPY: pip install 'keyveil\[design\]'"):
        optimal_pair(Decimal("0.505"), solve=True)


def test_importing_loads_neither_the_table_nor_the_solver():
    code = (
        "import sys, keyveil, keyveil.viewchannels, keyveil.optimal as o\n"
        "from decimal import Decimal\n"
        "print(o.tabled.cache_info().currsize, 'cvxpy' in sys.modules)\n"
        "keyveil.viewchannels.choose(2, 2, Decimal(1))\n"
        "print(o.tabled.cache_info().currsize, 'cvxpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "False", "1", "False"]
