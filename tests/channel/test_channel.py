"""Channels, exactly: sampler, law, proof, decoder and covariance of every shape are one and the same.

Small cases are enumerated in full, in integers and fractions. The law here is read off the *sampler*:
words at both ends of every slice go through ``draw`` and the widths of the slices are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import prod

import numpy as np
import pytest

from keyveil import ChannelError, Plan, Schema
from keyveil.channel import (
    SHAPES,
    Channel,
    CoCo,
    Collision,
    Halfspace,
    Hash,
    Product,
    Subset,
    Symbols,
    Symmetric,
    Table,
    parse_channel,
)
from keyveil.channel.report_choices import ReportChoices
from keyveil.channel.shapes.hash import hashed, mixed
from keyveil.channel.shapes.symbol_planes import unplane
from keyveil.foundation.arrays import WORD
from keyveil.foundation.exact import at_most
from keyveil.mechanisms.kvoh import flipped_bits
from keyveil.people.views import Views
from keyveil.testing import check_choices, check_distances, check_limits, check_simulation

Q, H = WORD // 4, WORD // 2
EPSILONS = ("0.01", "0.1", "0.5", "1", "3", "5", "10")

TABLES = {
    "two by two": Table(((3, WORD - 3), (1, WORD - 1))),
    "an empty column": Table(((H, 0, H), (Q, 0, 3 * Q))),
    "more outputs": Table(((7, Q, H, Q - 7), (5, H, Q, Q - 5), (9, Q, Q, H - 9))),
    "more states": Table(((H, H), (Q, 3 * Q), (3 * Q, Q), (1, WORD - 1))),
    "seventeen outputs": Table(
        (tuple([WORD // 17] * 16 + [WORD - 16 * (WORD // 17)]), tuple([3] * 16 + [WORD - 48]))
    ),
}
SYMMETRIC = {
    "two states": Symmetric.of(2, Decimal(1)),
    "three states": Symmetric.of(3, Decimal(1)),
    "a rest": Symmetric(4, WORD - 3 * 1000 - 2, 1000),
    "the largest rest": Symmetric(5, WORD - 4 * 9 - 3, 9),
    "nine states": Symmetric.of(9, Decimal("0.1")),
    "flat but for one unit": Symmetric(3, WORD // 3, WORD // 3),
    "two states that say nothing": Symmetric(2, H, H),
    "four states that say nothing": Symmetric(4, Q, Q),
}
BACK, HIGH, LOW = (H, Q, Q), (Q, H - 5, Q + 5), (Q - 9, Q, H + 9)
SYMBOLS = {
    "one bit": Symbols.bits_of(1, 3 * Q, Q, 1),
    "one bit, one state": Symbols.bits_of(1, 3 * Q, Q),
    "two bits": Symbols.bits_of(2, 3 * Q, Q),
    "three bits, unequal": Symbols.bits_of(3, H, Q + 77),
    "four bits and silence": Symbols.bits_of(4, H, 1000, 1),
    "three symbols": Symbols(2, (BACK, HIGH, LOW)),
    "three symbols and silence": Symbols(2, (BACK, HIGH, LOW), 1),
    "three symbols at one position": Symbols(1, (BACK, HIGH, LOW)),
    "three symbols at one position and silence": Symbols(1, (BACK, HIGH, LOW), 1),
    "four symbols, three laws": Symbols(
        3, ((Q, Q, Q, Q), (H, Q, Q - 1, 1), (1, H, Q, Q - 1), (Q, Q - 3, H, 3)), 1
    ),
}
INNER = Table(((H, H), (Q, 3 * Q)))
HASHES = {
    "two cells": Hash(3, 4, 0, INNER),
    "two cells and silence": Hash(5, 8, 7, Table(((3 * Q, Q), (Q, 3 * Q), (H, H)))),
    "three cells": Hash(4, 16, 99, Table((BACK, HIGH, LOW))),
    "one seed": Hash(6, 1, 2, INNER),
    "more items than seeds tell apart": Hash(6, 2, 2, Table(((3 * Q, Q), (Q, 3 * Q), (H, H)))),
}
SUBSETS = {
    "one of two": Subset(2, 1, 3 * Q),
    "one of three": Subset(3, 1, H),
    "two of three": Subset(3, 2, 3 * Q),
    "two of five": Subset(5, 2, 3 * Q + 1),
    "three of seven": Subset(7, 3, H),
}
HALFSPACES = {f"{signs} signs": Halfspace.of(signs, Decimal(1)) for signs in range(1, 7)}
ALL = {
    f"{group}: {name}": channel
    for group, channels in {
        "table": TABLES,
        "symmetric": SYMMETRIC,
        "symbols": SYMBOLS,
        "hash": HASHES,
        "subset": SUBSETS,
        "halfspace": HALFSPACES,
    }.items()
    for name, channel in channels.items()
}
MANY = {
    "thirteen bits": Symbols.bits_of(13, 3 * Q, Q),
    "thirteen bits and silence": Symbols.bits_of(13, 3 * Q, Q, 1),
    "eight of three symbols": Symbols(8, (BACK, HIGH, LOW), 1),
    "eight of three symbols, no silence": Symbols(8, (BACK, HIGH, LOW)),
}


class Played:
    """A stream of given words, a row for each person."""

    def __init__(self, words):
        self._words = np.array(words, np.uint32)

    def words(self, first, count, rows=None):
        return self._words[:, first : first + count]

    def skip(self, count):
        return Played(self._words[:, count:])


# -- the sampler's own law -------------------------------------------------------------------------


def sliced(draw, ends):
    """The exact law of an output that is constant between neighbouring ``ends`` of one word."""
    ends = sorted({0, WORD, *ends})
    words = [w for a, b in pairwise(ends) for w in (a, (a + b) // 2, b - 1)]
    outputs = np.asarray(draw(words)).reshape(-1, 3)
    law: dict[int, Fraction] = {}
    for (first, middle, last), (a, b) in zip(outputs.tolist(), pairwise(ends), strict=True):
        assert first == middle == last, "the sampler has a threshold where its law has none"
        law[first] = law.get(first, Fraction(0)) + Fraction(b - a, WORD)
    return law


def drawn_law(channel, state):
    """Pr[output | state] of the sampler, as fractions."""
    if isinstance(channel, Table):

        def draw(words):
            return channel.draw(np.full(len(words), state), Played([[w] for w in words]))

        return sliced(draw, np.cumsum(channel.rows[state]).tolist())
    if isinstance(channel, Symmetric):

        def draw(words):
            return channel.draw(np.full(len(words), state), Played([[w] for w in words]))

        steps = [channel.keep] + [channel.lie + (i < channel.rest) for i in range(channel.states - 1)]
        return sliced(draw, np.cumsum(steps).tolist())
    if isinstance(channel, Symbols):
        return symbols_law(channel, state)
    if isinstance(channel, Hash):
        return hash_law(channel, state)
    if isinstance(channel, Subset):
        return subset_law(channel, state)
    return halfspace_law(channel, state)


def planes(numbers):
    """The words whose bit planes are these numbers, one row a person: the inverse of the layout."""
    rows = []
    for row in numbers:
        size = len(row)
        bits = 0
        for plane in range(32):
            for position, number in enumerate(row):
                bits |= (int(number) >> (31 - plane) & 1) << (plane * size + position)
        rows.append([bits >> (32 * word) & 0xFFFFFFFF for word in range(size)])
    return rows


def symbols_law(channel, state):
    """Each position's slices while the others stand still, then the product."""
    per_position = []
    for position in range(channel.positions):
        ends = {e for law in channel.laws for e in np.cumsum([*law[1:], law[0]]).tolist()}

        def draw(words, position=position):
            numbers = [[0] * position + [w] + [0] * (channel.positions - position - 1) for w in words]
            codes = channel.draw(np.full(len(words), state), Played(planes(numbers)))
            return codes // channel.alphabet**position % channel.alphabet

        per_position.append(sliced(draw, ends))
    law = {}
    for digits in product(range(channel.alphabet), repeat=channel.positions):
        code = sum(digit * channel.alphabet**place for place, digit in enumerate(digits))
        law[code] = prod(row.get(d, Fraction(0)) for row, d in zip(per_position, digits, strict=True))
    return law


def hash_law(channel, state):
    law: dict[int, Fraction] = {}
    for seed in range(channel.pool):
        word = seed * WORD // channel.pool

        def draw(words, word=word):
            return channel.draw(np.full(len(words), state), Played([[word, w] for w in words]))

        ends = {e for row in channel.inner.rows for e in np.cumsum(row).tolist()}
        for output, share in sliced(draw, ends).items():
            assert output // channel.inner.cells == seed
            law[output] = law.get(output, Fraction(0)) + share / channel.pool
    return law


def subset_law(channel, state):
    """Every path through the sampler's decisions: own state first, then the others in order."""
    order = [state, *(other for other in range(channel.states) if other != state)]
    sets = list(combinations(range(channel.states), channel.size))
    law: dict[int, Fraction] = {}

    def walk(words, share, need):
        step = len(words)
        if step == channel.states:
            output = int(channel.draw(np.array([state]), Played([words]))[0])
            law[output] = law.get(output, Fraction(0)) + share
            return

        def draw(tried):
            rows = [[*words, word] + [0] * (channel.states - step - 1) for word in tried]
            codes = channel.draw(np.full(len(rows), state), Played(rows))
            return [int(order[step] in sets[code]) for code in codes]

        end = channel.show if step == 0 else (need << 32) // (channel.states - step)
        for taken, part in sliced(draw, [end]).items():
            walk([*words, 0 if taken else WORD - 1], share * part, need - taken)

    walk([], Fraction(1), channel.size)
    return law


def halfspace_law(channel, state):
    """All vectors z, and both ends of both sides."""
    law: dict[int, Fraction] = {}
    signs = [state >> place & 1 for place in range(channel.signs)]
    for z in range(1 << channel.signs):

        def draw(words, z=z):
            return channel.draw(np.tile(signs, (len(words), 1)), Played([[w, z] for w in words]))

        for output, share in sliced(draw, [channel.keep]).items():
            law[output] = law.get(output, Fraction(0)) + share / (1 << channel.signs)
    return law


@pytest.mark.parametrize("name", ALL)
def test_the_sampler_draws_exactly_the_stated_law(name):
    channel = ALL[name]
    stated = channel.expected()
    for state in range(channel.states):
        law = drawn_law(channel, state)
        assert sum(law.values()) == 1
        assert set(law) <= set(range(channel.cells))
        chances = np.array([float(law.get(output, Fraction(0))) for output in range(channel.cells)])
        if channel.shape in ("table", "symmetric"):
            assert np.array_equal(chances, stated[state])  # multiples of 2^-32 are doubles
        else:
            # A product of a few doubles, each rounded once.
            np.testing.assert_allclose(chances, stated[state], rtol=1e-15 * 8, atol=0)


@pytest.mark.parametrize("name", ALL)
def test_the_proof_is_the_worst_ratio_of_all_pairs_and_outputs(name):
    channel = ALL[name]
    laws = [drawn_law(channel, state) for state in range(channel.states)]
    worst = max(
        (
            first[output] / second[output]
            for first in laws
            for second in laws
            for output in range(channel.cells)
            if first.get(output)
        ),
        default=Fraction(1),
    )
    proof = channel.proof()
    if channel.shape == "subset":  # the two extremes need not belong to one set
        assert worst <= Fraction(proof.numerator, proof.denominator) <= worst * (1 + Fraction(1, Q))
        return
    assert Fraction(proof.numerator, proof.denominator) == worst
    if channel.shape in ("halfspace", "hash"):
        return  # names vectors of signs, or the states of the small channel
    first, second = (laws[state] for state in proof.states)
    assert max(first[output] / second[output] for output in first if first[output]) == worst


def test_a_proof_of_a_hash_is_never_less_than_its_worst_ratio():
    """One item and silence: the small channel's worst pair is never met, and the proof stays safe."""
    channel = Hash(1, 2, 0, Table(((3 * Q, Q), (Q, 3 * Q), (H, H))))
    law = channel.expected()
    assert float(channel.proof().epsilon) > np.log(law.max(axis=0) / law.min(axis=0)).max()


def test_bit_planes_are_laid_out_as_stated():
    """Bit j r + p of r words, least significant first, is bit 31 - j of position p's number."""
    coins = np.random.Generator(np.random.PCG64(5))
    for size in (1, 2, 3, 5, 31, 32):
        numbers = coins.integers(0, WORD, (3, size))
        assert np.array_equal(unplane(np.array(planes(numbers), np.uint32), size), numbers)


def test_positions_beyond_a_group_read_words_of_their_own():
    channel = Symbols.bits_of(70, 3 * Q, Q)
    numbers = np.full((3, 70), WORD - 1)
    numbers[1, 40], numbers[2, 69] = Q - 1, 0
    words = np.concatenate([planes(numbers[:, s : s + 32]) for s in (0, 32, 64)], axis=1)
    drawn = channel.draw(np.array([0, 0, 5]), Played(words))
    assert [np.flatnonzero(row).tolist() for row in drawn] == [[], [40], [69]]
    own = channel.draw(np.array([40, 69, 69]), Played(words))
    assert [np.flatnonzero(row).tolist() for row in own] == [[], [40], [69]]


def test_many_positions_mark_the_cell_of_position_and_symbol():
    channel = MANY["eight of three symbols"]
    numbers = np.full((2, 8), WORD - 1)
    numbers[0, 3], numbers[0, 5], numbers[1, 7] = 0, Q, Q - 1
    drawn = channel.draw(np.array([0, 0]), Played(planes(numbers)))
    assert [np.flatnonzero(row).tolist() for row in drawn] == [[6, 11], [14]]


@pytest.mark.parametrize("signs", [13, 40])
def test_a_long_halfspace_turns_the_whole_vector_to_its_side(signs):
    channel = Halfspace(signs, 3 * Q)
    own = np.ones((4, signs), np.uint8)
    z = (1 << signs) - 1
    words = [z & 0xFFFFFFFF, z >> 32]
    side = [0, 3 * Q - 1, 3 * Q, WORD - 1]
    drawn = channel.draw(own, Played([[s, *words][: channel.words] for s in side]))
    assert drawn.sum(axis=1).tolist() == [signs, signs, 0, 0]


def test_the_public_hash_is_the_stated_bijection():
    """In plain integers, as another client would write it."""

    def plain(word):
        for shift, multiplier in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
            word = (word ^ word >> shift) * multiplier % WORD
        return word

    words = [0, 1, 2, 77, WORD - 1, 0x9E3779B9]
    assert mixed(np.array(words, np.uint32)).tolist() == [plain(word) for word in words]
    for seed, item in product((0, 5, 1023), (0, 3, 70_000)):
        word = plain(plain(seed ^ 99) ^ plain((item + 0x9E3779B9) % WORD))
        assert hashed(99, np.array([seed]), np.array([item]), 7)[0] == word * 7 // WORD


# -- what follows from the law ---------------------------------------------------------------------


@pytest.mark.parametrize("name", {**ALL, **MANY})
def test_mix_and_back_are_adjoint(name):
    channel = {**ALL, **MANY}[name]
    coins = np.random.Generator(np.random.PCG64(1))
    law = channel.expected()
    states, weights = coins.dirichlet(np.ones(channel.states), 3), coins.normal(size=(2, law.shape[1]))
    # Sums of a few thousand doubles of size one.
    np.testing.assert_allclose(channel.mix(states), states @ law, atol=1e-12)
    np.testing.assert_allclose(channel.back(weights), weights @ law.T, atol=1e-12)
    np.testing.assert_allclose(
        channel.mix(states) @ weights.T, states @ channel.back(weights).T, atol=1e-11
    )
    np.testing.assert_allclose(channel.mix(states[0]), channel.mix(states)[0], atol=1e-12)


@pytest.mark.parametrize("name", {**ALL, **MANY})
def test_decoder_times_law_is_the_identity_or_nan(name):
    channel = {**ALL, **MANY}[name]
    law, weights = channel.expected(), np.eye(channel.states)
    with np.errstate(all="raise"):
        decoder = channel.decoder(weights)
    best = np.linalg.lstsq(law, weights, rcond=None)[0]
    known = np.abs(law @ best - weights).max(axis=0) < 1e-6  # of size one where it is not known
    assert np.isnan(decoder).all(axis=0).tolist() == (~known).tolist()
    # Cancellation of numbers of the decoder's size.
    slack = 1e-9 * (1 + np.abs(decoder[:, known]).max(initial=0))
    np.testing.assert_allclose(law @ decoder[:, known], weights[:, known], atol=slack)


def test_what_no_estimator_can_know_is_nan_and_the_rest_is_not():
    harmony = Table(((H, H), (Q, 3 * Q), (3 * Q, Q)))
    decoder = harmony.decoder(np.array([[0.0, 0, 1], [1, 1, 1], [1, -1, 1]]))
    assert np.isnan(decoder).all(axis=0).tolist() == [True, False, False]


@pytest.mark.parametrize("positions", [3, 13])
def test_laws_that_no_symbol_tells_apart_are_nan_however_the_tally_keeps_them(positions):
    """Two laws of one bit: each position's share is known, which of the two laws it was is not."""
    channel = Symbols(positions, ((3 * Q, Q), (Q, 3 * Q), (H, H)), 1)
    weights = np.zeros((channel.states, 2))
    weights[1, 0] = 1  # one of the two
    weights[1:3, 1] = 0.5, 0.25  # worth what each lifts its bit by
    decoder = channel.decoder(weights)
    assert np.isnan(decoder[:, 0]).all()
    # Sums of a few doubles of size one.
    np.testing.assert_allclose(channel.expected() @ decoder[:, 1], weights[:, 1], atol=1e-9)


WRITTEN = {name: c for name, c in {**ALL, **MANY}.items() if c.shape != "halfspace"}
"""Halfspaces are decoded sign by sign."""


@pytest.mark.parametrize("name", WRITTEN)
def test_covariance_is_that_of_all_outputs_written_out(name):
    channel = WRITTEN[name]
    outputs, marks = channel.output_law(), channel.output_marks()
    decoder = channel.decoder(np.eye(channel.states))
    decoder = decoder[:, ~np.isnan(decoder).any(axis=0)]
    states = np.random.Generator(np.random.PCG64(2)).dirichlet(np.ones(channel.states))
    chances, sums = states @ outputs, marks @ decoder
    apart = sums - chances @ sums
    covariance = channel.covariance(decoder, states)
    # Cancellation of squares of the decoder's size.
    slack = 1e-11 * (1 + (decoder**2).max(initial=0))
    np.testing.assert_allclose(covariance, (apart * chances[:, None]).T @ apart, atol=slack)


TOLD_APART = {
    name: channel
    for name, channel in WRITTEN.items()
    if not np.isnan(channel.decoder(np.eye(channel.states))).any()
    and (channel.one_cell or len(channel.laws) == 2)
}
"""Channels that know every state's share; of those that mark many cells, one-hot bits."""


@pytest.mark.parametrize("name", TOLD_APART)
def test_state_estimates_are_the_decoder_and_its_variance(name):
    channel = TOLD_APART[name]
    decoder = channel.decoder(np.eye(channel.states))
    states = np.random.Generator(np.random.PCG64(3)).dirichlet(np.ones(channel.states))
    values, variances = channel.state_estimates(channel.mix(states)[: channel.cells])
    # Cancellation of numbers of the decoder's size, and of their squares.
    np.testing.assert_allclose(values, states, atol=1e-9 * (1 + np.abs(decoder).max()))
    exact = np.diag(channel.covariance(decoder, states))
    slack = 1e-9 * (1 + (decoder**2).max())
    first = 0 if channel.one_cell else getattr(channel, "silent", 0)  # "no item" is approximate
    np.testing.assert_allclose(variances[first:], exact[first:], atol=slack)


@pytest.mark.parametrize("name", TOLD_APART)
def test_state_estimates_of_many_tallies_are_those_of_each(name):
    channel = TOLD_APART[name]
    shares = np.random.default_rng(4).dirichlet(np.ones(channel.cells), (2, 3))
    values, variances = channel.state_estimates(shares)
    assert values.shape == variances.shape == (2, 3, channel.states)
    for at in np.ndindex(2, 3):
        alone = channel.state_estimates(shares[at])
        slack = 1e-12 * (1 + np.abs(variances).max())  # doubles
        np.testing.assert_allclose(values[at], alone[0], atol=slack)
        np.testing.assert_allclose(variances[at], alone[1], atol=slack)


@pytest.mark.parametrize("inner", [((3 * Q, Q), (Q, 3 * Q), (H, H)), (HIGH, LOW, BACK)])
def test_a_hash_of_many_items_is_decoded_without_bias(inner):
    """Too large to be checked whenever it is decoded: items are solved for, not searched."""
    channel = Hash(600, 2048, 7, Table(inner))
    assert channel.states * channel.cells > 1 << 20
    identity = channel.mix(np.eye(channel.states)) @ channel.decoder(np.eye(channel.states))
    np.testing.assert_allclose(identity, np.eye(channel.states), atol=1e-9)


def test_the_two_decoders_of_bits_are_both_unbiased_and_the_constrained_one_is_better():
    bits = Plan.of(Schema.of(1), "kvoh", 1).channels[0]
    weights = np.eye(3)
    alone = bits.per_output(bits.position_decoder(weights, np.zeros(3)))
    together = bits.per_output(bits.position_decoder(weights))
    for decoder in (alone, together):
        np.testing.assert_allclose(bits.expected() @ decoder, weights, atol=1e-12)  # a few doubles
    uniform = np.full(3, 1 / 3)
    gain = np.diag(bits.covariance(together, uniform)) / np.diag(bits.covariance(alone, uniform))
    assert (gain < 1).all()


@pytest.mark.parametrize("signs", range(1, 7))
def test_the_pull_of_a_halfspace_is_its_exact_expectation(signs):
    channel = HALFSPACES[f"{signs} signs"]
    vectors = (np.arange(1 << signs)[:, None] >> np.arange(signs) & 1) * 2.0 - 1.0
    # Sums of 2^signs doubles.
    np.testing.assert_allclose(channel.expected() @ vectors, channel.pull * vectors, atol=1e-14)
    np.testing.assert_allclose(channel.expected() @ channel.sign_decoder(), vectors, atol=1e-12)


@pytest.mark.parametrize("signs", [11, 12, 13, 100])
def test_a_halfspace_of_any_length_admits_what_it_sends(signs):
    plan = Plan.of(Schema.of(signs), "meanest", 1)
    channel = plan.channels[0]
    assert channel.admits((0,) if channel.one_cell else ())
    assert channel.admits((channel.cells - 1,))
    assert not channel.admits((channel.cells,))


@pytest.mark.parametrize("name", {**ALL, **MANY})
def test_possible_outputs_are_those_with_weight(name):
    channel = {**ALL, **MANY}[name]
    if channel.one_cell:
        assert np.array_equal(channel.possible, channel.expected().max(axis=0) > 0)


@pytest.mark.parametrize(
    "channel",
    [Symmetric.of(1 << 20, Decimal(1)), Hash(1 << 20, 1 << 20, 5, INNER)],
    ids=["symmetric", "hash"],
)
def test_a_channel_of_a_million_states_admits_a_report_without_writing_out_its_law(channel):
    assert channel.admits((channel.cells - 1,))
    assert not channel.admits((channel.cells,))


# -- the shuffle model's questions -------------------------------------------------------------------

SETS = {
    "collision: two of five": Collision.of(5, 2, Decimal(1), 8, 7),
    "coco: one of eight": CoCo.of(8, 1, Decimal(1), 16, 5),
    "coco: two of eight": CoCo.of(8, 2, Decimal(2), 16, 5),
    "product: three digits": Product(3, Symmetric.of(3, Decimal("0.4"))),
    "product: of a table": Product(2, TABLES["more outputs"]),
}
EVERY = {**ALL, **MANY, **SETS}


@pytest.mark.parametrize("name", EVERY)
def test_total_variation_and_blanket_are_those_of_the_rows(name):
    check_distances(EVERY[name])


@pytest.mark.parametrize("name", EVERY)
def test_distances_of_an_unknown_shape_are_read_off_its_law_or_its_proof(name, monkeypatch):
    """The base class has no formula of its own, and is as safe."""
    kind = type(EVERY[name])
    for method in ("total_variation", "blanket"):
        monkeypatch.setattr(kind, method, getattr(Channel, method))
    check_distances(EVERY[name])
    monkeypatch.setattr(Channel, "output_law", lambda channel: None)
    variation, blanket = Channel.total_variation(EVERY[name]), Channel.blanket(EVERY[name])
    monkeypatch.undo()
    law = EVERY[name].output_law()
    assert float(variation) >= brute_variation(law)
    assert float(blanket) <= law.min(axis=0).sum()


def brute_variation(law):
    return max(float(np.abs(first - second).sum()) / 2 for first, second in product(law, law))


@pytest.mark.parametrize("name", ["table: more outputs", "symbols: two bits", "subset: two of five"])
@pytest.mark.parametrize("method", ["total_variation", "blanket"])
def test_a_shape_that_states_wrong_distances_is_rejected(name, method, monkeypatch):
    channel = EVERY[name]
    right = getattr(channel, method)()
    wrong = right * (Fraction(9, 10) if method == "total_variation" else Fraction(11, 10))
    monkeypatch.setattr(type(channel), method, lambda self: wrong)
    with pytest.raises(AssertionError, match="states"):
        check_distances(channel)


# -- simulation ------------------------------------------------------------------------------------

SIMULATED = {
    name: channel for name, channel in EVERY.items() if len(channel.output_law()) == channel.states
} | {"subset: five of twenty": Subset(20, 5, 3 * Q)}


@pytest.mark.parametrize("name", SIMULATED)
def test_simulated_counts_follow_the_law(name):
    """False alarm: three times ``ALPHA`` of keyveil.testing for each channel."""
    check_simulation(SIMULATED[name], 4_000)


@pytest.mark.parametrize("name", ["thirteen bits", "subset: five of twenty"])
def test_a_shape_without_a_simulation_of_its_own_is_simulated_by_its_sampler(name, monkeypatch):
    monkeypatch.setattr(type(SIMULATED[name]), "draw_counts", Channel.draw_counts)
    check_simulation(SIMULATED[name], 4_000)


@pytest.mark.parametrize("name", ["thirteen bits", "eight of three symbols", "table: more states"])
def test_a_simulation_that_mixes_up_the_states_is_rejected(name, monkeypatch):
    right = type(SIMULATED[name]).draw_counts

    def wrong(channel, laws, reports, generator):
        return right(channel, laws[..., ::-1].copy(), reports, generator)

    monkeypatch.setattr(type(SIMULATED[name]), "draw_counts", wrong)
    with pytest.raises(AssertionError, match="was drawn"):
        check_simulation(SIMULATED[name], 100_000)


# -- what honest counts can be ------------------------------------------------------------------------


@pytest.mark.parametrize("name", SIMULATED)
def test_limits_of_honest_counts_are_those_of_all_states(name):
    check_limits(SIMULATED[name])


@pytest.mark.parametrize("name", ["thirteen bits", "symmetric: a rest", "hash: three cells"])
def test_a_shape_without_limits_of_its_own_has_those_of_its_cells(name, monkeypatch):
    monkeypatch.setattr(type(SIMULATED[name]), "limits", Channel.limits)
    check_limits(SIMULATED[name])


@pytest.mark.parametrize("change", [-1e-3, 1e-3])
@pytest.mark.parametrize("name", ["thirteen bits", "symmetric: nine states", "halfspace: 5 signs"])
def test_limits_that_are_too_narrow_or_too_wide_are_rejected(name, change, monkeypatch):
    right = type(SIMULATED[name]).limits

    def wrong(channel, counts, share=1.0):
        limits = right(channel, counts, share)
        return replace(limits, least=limits.least - change, most=limits.most + change)

    monkeypatch.setattr(type(SIMULATED[name]), "limits", wrong)
    with pytest.raises(AssertionError, match="limit"):
        check_limits(SIMULATED[name])


GROUPED = {
    "four states": Symmetric.of(4, Decimal(1)),
    "three symbols": Symbols(2, (BACK, HIGH, LOW)),
    "eight of three symbols, no silence": MANY["eight of three symbols, no silence"],
}


@pytest.mark.parametrize("share", [1.0, 0.5, 0.25])
@pytest.mark.parametrize("name", GROUPED)
def test_groups_of_states_stay_within_their_law_and_limits_at_any_share(name, share):
    """Two states of one group share ``share``, and a state of another group has the rest."""
    channel = GROUPED[name]
    groups = channel.states // 2
    for group, part in product(range(groups), (0.0, 0.3, 1.0)):
        states = np.zeros(channel.states)
        states[2 * group : 2 * group + 2] = share * part, share * (1 - part)
        states[2 * ((group + 1) % groups)] += 1 - share
        counts = channel.mix(states)[: channel.cells]
        shown = channel.group_counts(counts, 2)[group]
        own = np.array([1 - share, share * part, share * (1 - part)])
        # A lie's weight and its mean differ by less than one unit of 2^32.
        np.testing.assert_allclose(own @ channel.group_law(2)[:, 1:], shown, atol=2 / WORD)
        cases = [(channel.group_limits(counts, share, 2), [group])]
        if channel.names_states or not channel.one_cell:  # whole outputs have no share
            cases.append((channel.limits(counts, share), [2 * group, 2 * group + 1]))
        for limits, at in cases:
            assert (limits.counts[at] >= limits.least[at] - 1e-12).all()
            assert (limits.counts[at] <= limits.most[at] + 1e-12).all()


def test_outputs_outside_some_states_are_as_likely_as_stated():
    channel = SYMMETRIC["nine states"]
    least, most = channel.outside_limits(4)
    outside = 1 - channel.expected()[:, 2:6].sum(axis=1)
    assert least - 1e-12 <= outside.min() <= least + 9 / WORD
    assert most - 9 / WORD <= outside.max() <= most + 1e-12


def test_digits_of_a_product_are_counted_one_by_one():
    channel = SETS["product: three digits"]
    digits = np.array([0, 1, 2])
    state = np.eye(channel.states)[0 * 9 + 1 * 3 + 2]
    inner, counts = channel.digit_counts(channel.mix(state))
    np.testing.assert_allclose(counts, inner.expected()[digits], atol=1e-12)
    assert SYMMETRIC["two states"].digit_counts(np.ones(2)) is None


# -- what one report can move -------------------------------------------------------------------------


@pytest.mark.parametrize("name", SIMULATED)
def test_the_reports_to_choose_from_are_those_that_are_admitted(name):
    check_choices(SIMULATED[name])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("thirteen bits", ReportChoices(None, 13, size=5)),
        ("eight of three symbols", ReportChoices(None, 16)),
        ("subset: five of twenty", ReportChoices(None, 20)),
        ("table: an empty column", ReportChoices(np.ones((1, 3)))),
    ],
)
def test_choices_that_are_not_admitted_or_missing_are_rejected(name, wrong, monkeypatch):
    monkeypatch.setattr(type(SIMULATED[name]), "choices", lambda channel: wrong)
    with pytest.raises(AssertionError, match=r"admitted|possible"):
        check_choices(SIMULATED[name])


@pytest.mark.parametrize("name", [n for n, c in EVERY.items() if c.shape == "symbols"])
def test_a_state_marks_its_own_position(name):
    """No other position is more or less likely to be marked than without a state."""
    channel = EVERY[name]
    positions = channel.positions_of(np.arange(channel.states))
    own = [channel.marked(state) for state in range(channel.states)]
    assert all(cells is None or cells[0] == at for cells, at in zip(own, positions, strict=True))


# -- documents -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", {**ALL, **MANY})
def test_parse_of_document_is_the_identity(name):
    channel = {**ALL, **MANY}[name]
    assert parse_channel(channel.document()) == channel
    assert channel.document()["shape"] in SHAPES


def test_every_shape_is_enumerated_here():
    tested = {"table", "symmetric", "symbols", "hash", "subset", "halfspace"}
    assert tested <= set(SHAPES)
    assert {channel.shape for channel in ALL.values()} == tested


MALFORMED = [
    None,
    [],
    {},
    {"shape": "tabel"},
    {"shape": []},
    {"shape": {}},
    {"shape": "table"},
    {"shape": "table", "rows": []},
    {"shape": "table", "rows": [[]]},
    {"shape": "table", "rows": [H, H]},
    {"shape": "table", "rows": [[H, H], [WORD]]},
    {"shape": "table", "rows": [[H, H - 1]]},
    {"shape": "table", "rows": [[-1, WORD + 1]]},
    {"shape": "table", "rows": [[float(H), float(H)]]},
    {"shape": "table", "rows": [[str(H), str(H)]]},
    {"shape": "table", "rows": [[True, WORD - 1]]},
    {"shape": "table", "rows": [[None, WORD]]},
    {"shape": "table", "rows": [[WORD] + [0] * 4096]},
    {"shape": "table", "rows": [[WORD] + [0] * 4095] * 17},
    {"shape": "symmetric", "states": 1, "keep": WORD, "lie": 1},
    {"shape": "symmetric", "states": 2, "keep": Q, "lie": 3 * Q},
    {"shape": "symmetric", "states": 2, "keep": H, "lie": H - 1},
    {"shape": "symmetric", "states": 3, "keep": WORD, "lie": 0},
    {"shape": "symmetric", "states": 3, "keep": WORD, "lie": 1},
    {"shape": "symmetric", "states": 3, "keep": H, "lie": 2},
    {"shape": "symmetric", "states": "3", "keep": H, "lie": Q},
    {"shape": "symmetric", "states": (1 << 20) + 1, "keep": H, "lie": 1},
    {"shape": "symmetric", "keep": H, "lie": Q},
    {"shape": "symbols", "positions": 0, "laws": [[H, H], [Q, 3 * Q]], "silent": 0},
    {"shape": "symbols", "positions": 2, "laws": [[H, H]], "silent": 0},
    {"shape": "symbols", "positions": 2, "laws": [[WORD], [WORD]], "silent": 0},
    {"shape": "symbols", "positions": 2, "laws": [[H, H], [WORD, 0]], "silent": 0},
    {"shape": "symbols", "positions": 2, "laws": [[H, H], [H, Q, Q]], "silent": 0},
    {"shape": "symbols", "positions": 2, "laws": [[H, H], [Q, 3 * Q]], "silent": 2},
    {"shape": "symbols", "positions": 2, "laws": [[H, H], [Q, 3 * Q]], "silent": False},
    {"shape": "symbols", "positions": 2, "laws": [[H, H], [Q, 3 * Q]]},
    {"shape": "symbols", "positions": 2, "laws": [], "silent": 0},
    {"shape": "symbols", "positions": 2, "laws": [3, 4], "silent": 0},
    {"shape": "symbols", "positions": 2, "laws": {"a": 1}, "silent": 0},
    {"shape": "hash", "items": 3, "pool": 3, "salt": 0, "inner": INNER.document()},
    {"shape": "hash", "items": 3, "pool": 0, "salt": 0, "inner": INNER.document()},
    {"shape": "hash", "items": 0, "pool": 4, "salt": 0, "inner": INNER.document()},
    {"shape": "hash", "items": 3, "pool": 4, "salt": WORD, "inner": INNER.document()},
    {"shape": "hash", "items": 3, "pool": 1 << 22, "salt": 0, "inner": INNER.document()},
    {"shape": "hash", "items": 3, "pool": 4, "salt": 0, "inner": SYMMETRIC["a rest"].document()},
    {"shape": "hash", "items": 3, "pool": 4, "salt": 0, "inner": {"shape": "table"}},
    {"shape": "hash", "items": 3, "pool": 4, "salt": 0, "inner": Table(((H, H),)).document()},
    {"shape": "hash", "items": 3, "pool": 4, "salt": 0},
    {"shape": "halfspace", "signs": 0, "keep": H},
    {"shape": "halfspace", "signs": 3, "keep": WORD},
    {"shape": "halfspace", "signs": 3, "keep": H - 1},
    {"shape": "halfspace", "signs": (1 << 16) + 1, "keep": H},
    {"shape": "halfspace", "signs": 3.0, "keep": H},
]


@pytest.mark.parametrize("document", MALFORMED, ids=lambda d: str(d)[:60])
def test_what_is_no_law_is_refused(document):
    with pytest.raises(ChannelError):
        parse_channel(document)


# -- promises --------------------------------------------------------------------------------------


def test_a_channel_that_breaks_its_promise_is_refused_with_the_pair_and_the_ratio():
    rows = ((Q, 3 * Q), (3 * Q, Q), (H, H))
    with pytest.raises(
        ChannelError,
        match=r"breaks its promise of epsilon 1: output 0 is 3221225472/1073741824 = e\^1\.0986\d+ "
        r"times as likely from state 1 as from state 0",
    ):
        Plan(Schema.of(2), Views.singles(2), "views", (Table(rows),), Decimal(1), "privkv")


def test_a_broken_promise_in_the_tenth_digit_is_refused():
    """The weights one unit too honest: 1.0000000004 is more than 1."""
    channel = Symmetric.of(2, Decimal(1))
    assert channel.check(Decimal(1)).epsilon <= 1
    with pytest.raises(ChannelError, match=r"e\^1\.000000000\d+ times as likely from state 0"):
        Symmetric(2, channel.keep + 1, channel.lie - 1).check(Decimal(1))


def test_an_output_that_only_one_state_sends_is_covered_by_no_epsilon():
    with pytest.raises(ChannelError, match="possible from state 1 and impossible from state 0"):
        Table(((0, WORD), (1, WORD - 1))).check(Decimal(20))
    with pytest.raises(ChannelError, match="impossible"):
        Symbols(2, ((WORD, 0), (H, H)))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("states", [2, 3, 4, 9, 10, 81, 243, 729, 6561])
def test_a_symmetric_channel_of_any_size_is_tight(states, epsilon):
    channel, promised = Symmetric.of(states, Decimal(epsilon)), Decimal(epsilon)
    assert channel.proof().keeps(promised)
    assert channel.proof().epsilon <= promised
    assert channel.proof().epsilon >= Decimal("0.999") * promised


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("positions", [2, 3, 9, 81, 6561])
@pytest.mark.parametrize("silent", [0, 1])
def test_flipped_bits_of_any_number_are_tight(positions, epsilon, silent):
    proof, promised = flipped_bits(positions, Decimal(epsilon), silent).proof(), Decimal(epsilon)
    assert proof.keeps(promised)
    assert Decimal("0.999") * promised <= proof.epsilon <= promised


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("signs", [1, 2, 7, 100])
def test_a_halfspace_is_tight(signs, epsilon):
    proof, promised = Halfspace.of(signs, Decimal(epsilon)).proof(), Decimal(epsilon)
    assert proof.keeps(promised)
    assert Decimal("0.999") * promised <= proof.epsilon <= promised


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_symmetric_channel_that_keeps_the_promise_is_more_honest(epsilon):
    """Of all lies and keeps that fit 2^32, for a small number of states."""
    promised = Decimal(epsilon)
    for states in (2, 3, 5):
        channel = Symmetric.of(states, promised)
        others = states - 1
        best = Fraction(0)
        for lie in range(channel.lie - 2, channel.lie + 3):
            room = WORD - others * lie
            keep = min(at_most(lie, promised), room)
            if keep > room - max(others, 1):  # fewer than `others` units may be left over
                best = max(best, Fraction(keep, lie))
        assert Fraction(channel.keep, channel.lie) == best


def test_epsilon_is_rounded_up_and_never_claims_less():
    proof = Symmetric(2, 3 * Q, Q).proof()
    assert proof.epsilon > Decimal(3).ln() - Decimal("1e-27")
    assert proof.epsilon - Decimal(3).ln() < Decimal("1e-18")
    assert not proof.keeps(Decimal("1.098612288668109691"))  # ln 3 cut, not rounded up
    assert proof.keeps(Decimal("1.098612288668109692"))


def test_a_table_of_real_rows_is_the_nearest_one_of_whole_weights():
    rows = np.array([[0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3]])
    table = Table.rounded(rows)
    # Largest remainders: every weight is one of the two whole numbers beside the real one.
    assert (np.abs(np.array(table.rows) - rows * WORD) < 1).all()


@dataclass(frozen=True)
class _Unknown(Table):
    shape = "unknown"


def test_an_unknown_shape_is_named_with_the_known_ones():
    with pytest.raises(ChannelError, match="known: table, symmetric"):
        parse_channel(_Unknown(TABLES["two by two"].rows).document())


def test_a_shape_of_ones_own_is_named_in_documents(monkeypatch):
    with pytest.raises(ChannelError, match="a new law takes a new name"):
        SHAPES["table"] = _Unknown
    own = _Unknown(TABLES["two by two"].rows)
    SHAPES["unknown"] = _Unknown
    try:
        assert parse_channel(own.document()) == own
        assert [*SHAPES][-1] == "unknown"
        assert len(SHAPES) == len([*SHAPES])
    finally:
        del SHAPES["unknown"]
    with pytest.raises(ChannelError, match="unknown channel shape"):
        parse_channel(own.document())


@pytest.mark.parametrize(
    "channel",
    [
        Subset.of(40, Decimal("0.5")),
        Halfspace.of(30, Decimal(1)),
        Symbols.bits_of(30, 3 * Q, Q),
        Symbols(12, (BACK, HIGH, LOW), 1),
    ],
    ids=lambda channel: channel.shape,
)
def test_rows_of_marks_are_admitted_as_each_report_is(channel):
    assert not channel.one_cell
    draw = np.random.default_rng(4)
    marks = (draw.random((2000, channel.cells)) < draw.random((2000, 1)) ** 2).astype(np.uint8)
    verdicts = [channel.admits(tuple(np.flatnonzero(row).tolist())) for row in marks]
    assert any(verdicts)
    assert all(verdicts) == (channel.shape == "halfspace" or getattr(channel, "alphabet", 0) == 2)
    np.testing.assert_array_equal(channel.admits_rows(marks), verdicts)
