"""The law of reports about sets under a hypothesis, and the level of tests that use it."""

from __future__ import annotations

from itertools import combinations, product
from math import erfc, sqrt

import numpy as np
import pytest

from keyveil import Coins, People, Plan, Schema, Tally
from keyveil.estimate.learn import ChowLiu, DecisionTree, rules
from keyveil.estimate.learn.independence import keys_independence
from keyveil.estimate.learn.released import Released
from keyveil.estimate.learn.report_scores import score_sum
from keyveil.estimate.pools.expected_cells import independent_cells, kept_together, own_cells
from keyveil.estimate.pools.pair_evidence import PairEvidence
from keyveil.estimate.pools.pair_items import scores_of
from keyveil.estimate.together.conditional import Conditionals
from keyveil.people.population import Population
from keyveil.people.synthetic import of_keys, uniform_values
from keyveil.simulate.tallies import simulate

LAWS = np.array([[0.6, 0.3, 0.1], [0.5, 0.2, 0.3], [0.9, 0.05, 0.05]])


@pytest.fixture(scope="module")
def small():
    """The scores of a plan of three keys with few seeds, and the law of its cells at ``LAWS``."""
    plan = Plan.of(Schema.of(["a", "b", "c"]), "pair_collision", 2, pool=64, cap=3)
    tally = Tally(plan).add([plan.report({"a": 1}) for _ in range(50)])
    return scores_of(plan, tally), independent_cells(plan.channels[0], LAWS)


def test_the_expected_cells_have_the_frequencies_that_they_are_made_from(small):
    scores, law = small
    assert scores.core == scores.channel.items == 18
    assert law.sum() == pytest.approx(1)
    singles = LAWS[:, 1:].reshape(-1)
    pairs = [
        LAWS[a, i] * LAWS[b, j] for a, b in combinations(range(3), 2) for i, j in product((1, 2), (1, 2))
    ]
    values, _ = scores.expected(law).of(np.arange(18))
    assert values == pytest.approx(np.concatenate([singles, pairs]), abs=1e-9)


def test_the_expected_covariance_is_that_of_every_cell_written_out(small):
    scores, law = small
    items = np.array([0, 3, 7, 12])
    weights = np.empty((law.size, len(items)))
    for cell in range(law.size):
        unit = np.zeros(law.size)
        unit[cell] = 1.0
        weights[cell] = scores.expected(unit.reshape(law.shape)).of(items)[0]
    flat = law.reshape(-1)
    mean = flat @ weights
    spread = (weights * flat[:, None]).T @ weights - np.outer(mean, mean)
    null = scores.expected(law)
    assert null.of(items)[1] == pytest.approx(spread / scores.reports, abs=1e-9)
    cells = own_cells(scores.channel, law, items)
    own = cells.marks @ null.own_weights(items).T / scores.channel.gain
    around = own - cells.chances @ own
    share = np.einsum("ki,kj,k->ij", around, around, cells.chances).diagonal() / spread.diagonal()
    assert share == pytest.approx(1, abs=0.1), "what other cells add is small"


def test_own_cells_are_counted_by_the_items_that_fall_into_them(small):
    scores, law = small
    channel, items = scores.channel, np.array([1, 4, 9])
    cells = own_cells(channel, law, items)
    hashes = channel.hashes(items)
    expected: dict[tuple[bool, ...], float] = {}
    for seed in range(channel.pool):
        for cell in range(channel.small):
            marks = tuple((hashes[seed] == cell).tolist())
            expected[marks] = expected.get(marks, 0.0) + law[seed, cell]
    chances = {tuple((row > 0).tolist()): chance for row, chance in zip(*cells[:2], strict=True)}
    assert chances == pytest.approx(expected)
    more = np.array([0.1, 0.0, -0.02])
    changed = cells.chances_with(more, channel.gain)
    assert changed.sum() == pytest.approx(1)
    held = cells.marks.T @ (changed - cells.chances)
    assert held == pytest.approx(channel.gain * more, abs=2e-3)


@pytest.mark.parametrize("cap", [1, 2, 3, 5])
def test_keys_kept_together_are_those_of_all_sets(cap):
    """Five independent keys, enumerated: their kept frequencies give back how pairs are kept."""
    held = np.array([0.5, 0.4, 0.7, 0.2, 0.6])
    chances, pairs = np.zeros(5), 0.0
    for members in product((0, 1), repeat=5):
        chance = float(np.prod(np.where(members, held, 1 - held)))
        size = sum(members)
        count = min(size, cap)
        chances += chance * np.array(members) * (count / max(size, 1))
        pairs += chance * count * (count - 1)
    by_chance = chances.sum() ** 2 - (chances**2).sum()
    # Kept frequencies have other odds than held ones by a factor that differs a little by key.
    assert kept_together(chances, cap) == pytest.approx(pairs / by_chance, abs=0.01)
    assert kept_together(held, 5) == 1.0


def normal_test(released, first, second):
    """The broken twin: the covariance of two presences, with the tail of its estimated error."""
    margins = [released.single(key) for key in (first, second)]
    centred = [(np.arange(3) > 0) - (1 - margin[0]) for margin in margins]
    moments = released.evidence.moments((first, second), np.multiply.outer(*centred)[..., None])
    return erfc(abs(moments.values[0]) / sqrt(2 * moments.covariance[0, 0]))


@pytest.mark.sampled
@pytest.mark.parametrize(("share", "each"), [(0.03, 30), (0.5, 75)])
def test_false_edges_of_sets_are_rare_with_few_reports(share, each):
    """Six independent keys: over 4 of 15 runs with a false finding once in 1,600, at a level of 5 %."""
    population = of_keys(np.full(6, share), np.zeros(6), uniform_values)
    plan = Plan.of(population.schema, "pair_collision", 4)
    pairs = list(combinations(range(6), 2))
    edges = splits = listed = broken = 0
    for run in range(15):
        tally = simulate(plan, population, each * len(pairs), Coins.stated("few sets"), run)
        source = Conditionals(plan, tally)
        released = Released(source)
        edges += min(keys_independence(released, *pair) for pair in pairs) * len(pairs) < 0.05
        splits += DecisionTree(population.schema.keys[0], 1, 0.0).fit(source).root_.split is not None
        listed += bool(rules(source, given="either"))
        broken += min(normal_test(released, *pair) for pair in pairs) * len(pairs) < 0.05
    assert max(edges, splits, listed) <= 4, (edges, splits, listed)
    assert (broken > 4) == (share < 0.1), broken


@pytest.mark.sampled
def test_a_cap_makes_no_edges(monkeypatch):
    """Most people hold more than two of six keys; what is kept seems to avoid each other."""
    population = of_keys(np.full(6, 0.45), np.zeros(6), uniform_values)
    plan = Plan.of(population.schema, "pair_collision", 4, cap=2)
    conditionals = Conditionals(plan, simulate(plan, population, 500_000, Coins.stated("capped")))
    first, second = plan.schema.keys[:2]
    assert conditionals.answer(f"lift({first} | {second})").estimate.high < 0.95
    assert ChowLiu().fit(conditionals).edges_ == []
    assert rules(conditionals, given="either") == []
    monkeypatch.setattr(PairEvidence, "_cap_bias", lambda self, keys, law, laws: np.zeros(8))
    assert ChowLiu().fit(conditionals).edges_, "the broken twin forgets the cap"


@pytest.mark.sampled
def test_dependent_keys_are_found_by_sets():
    """Two of eight keys are held by the same people: one edge, one rule, one split."""
    schema = Schema.of([f"k{i}" for i in range(8)], 1, 5)
    coins = Coins.stated("who holds what").generator()
    held = coins.random((4000, 8)) < 0.15
    held[:, 1] = held[:, 0] ^ (coins.random(4000) < 0.05)
    records = [{schema.keys[k]: 1 + 4 * (k % 2) for k in np.flatnonzero(row)} for row in held]
    population = Population(schema, People.of_records(schema, records))
    plan = Plan.of(schema, "pair_collision", 4)
    source = Conditionals(plan, simulate(plan, population, 40_000, Coins.stated("sets")))
    (edge,) = ChowLiu().fit(source).edges_
    assert {edge.first, edge.second} == {"k0", "k1"}
    (rule,) = rules(source)
    assert {rule.consequent, rule.antecedent[0][0]} == {"k0", "k1"}
    assert DecisionTree("k0", 1).fit(source).root_.split.key == 1


@pytest.mark.sampled
def test_reports_are_counted_for_every_mechanism():
    """The number of reports about keys is not 0 if there are some; else their law counts for nothing."""
    population = of_keys(np.full(4, 0.3), np.zeros(4), uniform_values)
    for mechanism in ("pairs", "triples", "ioh", "split", "coefficients", "pair_collision"):
        plan = Plan.of(population.schema, mechanism, 2)
        released = Released(Conditionals(plan, simulate(plan, population, 4000, Coins.stated("count"))))
        for keys in ((0,), (1, 2)):
            assert 0 < released.reports(keys) <= 4000, mechanism
            score = np.ones((3,) * len(keys))
            score[0] = 0.0
            assert score_sum(released.evidence, keys, score, released.law(keys).law) is not None
