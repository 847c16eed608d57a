"""Does the sampler draw the channel? The only draws of the suite, with its false-alarm rate stated.

All comparisons of this file together reject a correct sampler with a chance of at most
``testing.FALSE_ALARM``. Coins are stated, so a run repeats; ``KEYVEIL_LONG=1`` draws more.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pytest
from scipy import stats

from keyveil import REGISTRY, Coins, People, Plan, Schema, Tally
from keyveil.channel import Halfspace, Hash, Symbols, Symmetric, Table
from keyveil.foundation.arrays import WORD
from keyveil.people.views import Views
from keyveil.testing import (
    ALPHA,
    FALSE_ALARM,
    HEAVY,
    MOST_TESTS,
    POOLED,
    check_counts,
    check_reports,
    check_sampler,
    crowd,
    example_plan,
    report_law,
)

SCHEMA = Schema.of(["a", "b", "c"], 1, 5)
RECORDS = {
    "nothing": {},
    "one": {"b": 2.3},
    "two": {"a": 5, "c": 1},
    "all": {"a": 1.25, "b": 3.0, "c": 4.999},
    "middle": {"a": 3.0, "b": 3.0, "c": 3.0},
}

QUARTER, HALF = WORD // 4, WORD // 2
BACKGROUND = (HALF, QUARTER, QUARTER)
HIGH, LOW = (QUARTER, HALF, QUARTER), (QUARTER + 7, QUARTER, HALF - 7)
MANY = (WORD // 20,) * 19 + (WORD - 19 * (WORD // 20),)
SHAPES = {
    "table of few outputs": Table(((7, WORD - 10, 3), (QUARTER, HALF, QUARTER))),
    "table of many outputs": Table(tuple(MANY[s:] + MANY[:s] for s in range(4))),
    "symmetric": Symmetric.of(7, Decimal(1)),
    "bits": Symbols.bits_of(4, 3 * QUARTER, QUARTER),
    "bits with silence": Symbols.bits_of(3, HALF, QUARTER, 1),
    "three symbols": Symbols(3, (BACKGROUND, HIGH, LOW)),
    "three symbols with silence": Symbols(2, (BACKGROUND, HIGH, LOW), 1),
    "bits in two groups": Symbols.bits_of(40, 3 * QUARTER, QUARTER),
    "three symbols in two groups": Symbols(35, (BACKGROUND, HIGH, LOW), 1),
    "hash": Hash(6, 8, 99, Table((HIGH, LOW, BACKGROUND))),
    "hash with silence": Hash(3, 4, 1, Table(((HALF, HALF), (QUARTER, 3 * QUARTER), (HALF, HALF)))),
    "halfspace, odd": Halfspace.of(5, Decimal(1)),
    "halfspace, even": Halfspace.of(4, Decimal(1)),
    "halfspace of many signs": Halfspace.of(45, Decimal(3)),
}


@pytest.mark.sampled
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_draws_its_law(shape, scale):
    check_sampler(SHAPES[shape], draws=15_000 * scale, seed=f"shapes {shape}")


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("name", REGISTRY)
def test_a_records_reports_follow_the_mixture_of_its_states(name, record, scale):
    plan = example_plan(SCHEMA, name)
    check_reports(plan, RECORDS[record], draws=40_000 * scale, seed=f"records {record}")


@pytest.mark.parametrize("name", ["rappor", "meanest", "kvoh", "grr"])
def test_reports_over_many_keys_follow_their_law(name, scale):
    plan = Plan.of(Schema.of(9), name, 1)
    check_reports(plan, {"0": -1, "3": 0.25, "8": 0.75}, draws=20_000 * scale)


def test_reports_that_mark_many_cells_follow_their_law(scale):
    plan = Plan.of(Schema.of(70), "rappor", 1)
    assert not plan.layout.one_cell
    check_reports(plan, {"0": -1, "31": 1, "32": 1, "69": 0}, draws=20_000 * scale)


def test_rounds_with_feedback_of_their_own_follow_their_law(scale):
    first = Plan.of(SCHEMA, "privkvm", 1)
    tally = Tally(first, np.array([9000, 0, 4500, 4500, 9060, 0, 4500, 4560, 9000, 0, 7000, 2000]))
    second = first.next(tally)
    assert len(second.channels) == 3
    check_reports(second, RECORDS["two"], draws=40_000 * scale)


def test_weighted_views_of_several_keys_follow_their_law(scale):
    """A pair and a single: views of different sizes, weights and channels."""
    plan = Plan(
        SCHEMA,
        Views(((0, 2), (1,)), (3 * QUARTER, QUARTER)),
        "views",
        (Symmetric.of(9, Decimal(1)), Symmetric.of(3, Decimal(1))),
        Decimal(1),
        "kvue",
        channel_of=(0, 1),
    )
    check_reports(plan, RECORDS["all"], draws=40_000 * scale)
    check_reports(plan, RECORDS["middle"], draws=40_000 * scale)  # both keys rounded, and apart


def test_graded_values_follow_their_law(scale):
    schema = SCHEMA.at(5)
    plan = Plan(schema, Views.singles(3), "views", (Symmetric.of(6, Decimal(1)),), Decimal(1), "kvue")
    check_reports(plan, RECORDS["all"], draws=40_000 * scale)


def test_nobodys_coins_follow_anothers(scale):
    """Two people with neighbouring numbers: their outputs are independent."""
    plan, people = Plan.of(SCHEMA, "kvue", 1), crowd(SCHEMA, {"a": 5, "b": 5, "c": 5}, 60_000 * scale)
    codes = plan.privatise(people, Coins.stated("pairs")).codes.astype(np.int64)
    law = report_law(plan, {"a": 5, "b": 5, "c": 5})
    both = np.bincount(codes[0::2] * len(law) + codes[1::2], minlength=len(law) ** 2)
    check_counts(both, np.multiply.outer(law, law).ravel(), "neighbours")


# -- the tester's own tests --------------------------------------------------------------------------


@dataclass(frozen=True)
class OffTable(Table):
    """One threshold is off by 5 %."""

    def draw(self, states, stream):
        word = stream.words(0, 1)[:, 0].astype(np.float64)
        ends = self.thresholds[states].astype(np.float64)
        ends[:, 0] *= 1.05
        return (word[:, None] >= ends).sum(axis=1)


@dataclass(frozen=True)
class TruthfulSymmetric(Symmetric):
    """A lie may be the truth: the classic confusion of k-RR with "replace by a uniform state"."""

    def draw(self, states, stream):
        word = stream.words(0, 1)[:, 0].astype(np.int64)
        other = (word - self.keep) * self.states // (WORD - self.keep)
        return np.where(word < self.keep, states, other)


@dataclass(frozen=True)
class ForgetfulSymbols(Symbols):
    """The true bit is always set: pure-LDP's bug of 2021 to 2023, rebuilt."""

    def _redraw(self, symbols, numbers, states, first, size):
        for row, state in enumerate(states):
            marked = self.marked(int(state))
            if marked is not None and first <= marked[0] < first + size:
                symbols[row, marked[0]] = 1


@dataclass(frozen=True)
class CorrelatedSymbols(Symbols):
    """Every position has its own law, but neighbours share their coins."""

    def draw(self, states, stream):
        marks = super().draw(states, stream).copy()
        marks[:, 31] = np.where(states == 31, marks[:, 31], marks[:, 30])
        return marks


@dataclass(frozen=True)
class ChoosySeeds(Hash):
    """The seed depends on the item."""

    def draw(self, states, stream):
        drawn = super().draw(states, stream)
        first = drawn < self.inner.cells
        return np.where(first & (np.asarray(states) == self.items - 1), drawn + self.inner.cells, drawn)


@dataclass(frozen=True)
class TurnedHalfspace(Halfspace):
    """Vectors at right angles are turned round as well, by the side."""

    def draw(self, states, stream):
        drawn = super().draw(states, stream)
        bits = (drawn[:, None] >> np.arange(self.signs)) & 1
        flat = (bits == states).sum(axis=1) * 2 == self.signs
        positive = bits[:, 0] == states[:, 0]
        return np.where(flat & ~positive, (1 << self.signs) - 1 - drawn, drawn)


EPSILON = Decimal(1)
TWINS = {
    "table": OffTable(Plan.of(SCHEMA, "privkv", 1).channels[0].rows),
    "symmetric": TruthfulSymmetric(3, Symmetric.of(3, EPSILON).keep, Symmetric.of(3, EPSILON).lie),
    "bits": ForgetfulSymbols(3, Plan.of(SCHEMA, "kvoh", 1).channels[0].laws),
    "many bits": ForgetfulSymbols(40, Plan.of(SCHEMA, "kvoh", 1).channels[0].laws),
    "correlated bits": CorrelatedSymbols(40, Plan.of(SCHEMA, "kvoh", 1).channels[0].laws),
    "hash": ChoosySeeds(3, 16, 5, Plan.of(SCHEMA, "shist", 1).channels[0].inner),
    "halfspace": TurnedHalfspace(4, Halfspace.of(4, EPSILON).keep),
}


@pytest.mark.sampled
@pytest.mark.parametrize("twin", TWINS)
def test_the_check_rejects_a_leaky_twin(twin):
    with pytest.raises(AssertionError, match=r"state \d+"):
        check_sampler(TWINS[twin], draws=20_000)


@pytest.fixture
def plain(monkeypatch):
    """The plain path, whose parts can be replaced."""
    monkeypatch.setenv("KEYVEIL_FAST", "0")
    return monkeypatch


def test_the_check_of_reports_rejects_a_device_that_rounds_with_a_bias(plain):
    """The channel is right; the encoding rounds to the nearest level."""
    plain.setattr(Schema, "rounded", lambda self, places, values, words: np.where(values >= 3, 2, 1))
    with pytest.raises(AssertionError, match="kvue"):
        check_reports(Plan.of(SCHEMA, "kvue", 1), {"a": 2.0, "b": 2.0, "c": 2.0}, draws=40_000)


def test_the_check_of_reports_rejects_a_device_that_prefers_a_view(plain):
    plain.setattr(Views, "pick", lambda self, words: (words % 100 >= 32).astype(np.int64))
    with pytest.raises(AssertionError, match="kvue"):
        check_reports(Plan.of(SCHEMA, "kvue", 1), {}, draws=40_000)


def test_what_cannot_happen_fails_at_once():
    with pytest.raises(AssertionError, match="impossible and was drawn"):
        check_counts(np.array([10**6, 1]), np.array([1.0, 0.0]))


def test_an_output_that_never_comes_counts_its_full_expectation():
    """libprio's helper adds nothing for an empty bin and passes a sampler that never emits it."""
    law = np.full(40, 1 / 40)
    counts = np.full(40, 1100)
    counts[7] = 0
    with pytest.raises(AssertionError, match="output 7 was drawn 0 times"):
        check_counts(counts, law)


def test_a_misfit_spread_over_many_outputs_is_seen_by_chi_square_alone():
    """Each output lies within its own tails; together they are impossible."""
    law = np.full(200, 1 / 200)
    counts = 10_000 + np.where(np.arange(200) % 2, 250, -250)
    with pytest.raises(AssertionError, match="chi-square"):
        check_counts(counts, law)


def test_rare_outputs_are_pooled_and_still_tested_one_by_one():
    law = np.array([1 - 1e-4, 9e-5, 1e-5])
    check_counts(np.array([99_990, 9, 1]), law)
    with pytest.raises(AssertionError, match="output 2"):
        check_counts(np.array([99_960, 9, 31]), law)


@pytest.mark.parametrize("share", [1e-5, 1e-3, 0.1, 0.5])
def test_the_stated_false_alarm_rate_bounds_the_exact_tail_of_chi_square(share):
    """Two bins, the smaller expected POOLED times: a binomial, whose tail SciPy has exactly."""
    draws = round(POOLED / share)
    reach = np.sqrt(stats.chi2.isf(ALPHA / 2 / HEAVY, 1) * POOLED * (1 - share))
    above = stats.binom.sf(np.ceil(POOLED + reach) - 1, draws, share)
    below = stats.binom.cdf(np.floor(POOLED - reach), draws, share)
    assert above + below <= ALPHA / 2
    assert pytest.approx(FALSE_ALARM) == MOST_TESTS * ALPHA


def test_the_check_has_power_against_a_probability_that_is_off_by_a_fiftieth():
    """At 200,000 draws and the stated level, in expectation: no draws needed."""
    law = np.array([0.576, 0.212, 0.212])
    off = np.array([0.576 * 1.02, 0.212 - 0.576 * 0.01, 0.212 - 0.576 * 0.01])
    with pytest.raises(AssertionError):
        check_counts(np.rint(off * 200_000).astype(np.int64), law)


def test_a_crowd_is_people_of_one_record():
    people = crowd(SCHEMA, RECORDS["two"], 3)
    other = People.of_records(SCHEMA, [RECORDS["two"]] * 3)
    for name in ("addresses", "starts", "keys", "values"):
        assert np.array_equal(getattr(people, name), getattr(other, name))
