"""Simulation without people: laws of several keys, chains at once, sets that take too long."""

from __future__ import annotations

from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyveil import Coins, People, Plan, PlanError, Schema
from keyveil.channel import Subset
from keyveil.estimate import bands
from keyveil.people import population
from keyveil.simulate.chains import chain_bands, followed
from keyveil.simulate.tallies import Population, simulate_runs

records = st.lists(
    st.dictionaries(st.sampled_from(["0", "1", "2", "3"]), st.floats(-1, 1), max_size=4),
    min_size=1,
    max_size=12,
)


def by_hand(population: Population, keys: tuple[int, ...]) -> np.ndarray:
    """The law of some keys person by person, from the dense array of everyone's chances."""
    total = 0.0
    for person in population.chances:
        joint = np.ones(1)
        for key in keys:
            joint = np.kron(joint, person[key])
        total = total + joint
    return total / len(population.people)


@settings(max_examples=40, deadline=None)
@given(records, st.sampled_from([1, 2, 3, 5]), st.permutations(range(4)), st.integers(2, 4))
def test_laws_of_several_keys_are_those_of_everyones_chances(made, levels, order, number):
    schema = Schema.of(4)
    population = Population(schema, People.of_records(schema, made)).at(levels)
    keys = tuple(order[:number])
    assert population.law(keys) == pytest.approx(by_hand(population, keys), abs=1e-12)


def test_all_pairs_at_once_are_the_pairs_looked_up_by_their_holders(monkeypatch):
    schema = Schema.of(6)
    draw = np.random.default_rng(3)
    records = [{str(k): draw.uniform(-1, 1) for k in range(6) if draw.random() < 0.4} for _ in range(50)]
    people = People.of_records(schema, records)
    pairs = [(a, b) for a, b in product(range(6), repeat=2) if a != b]
    monkeypatch.setattr(population, "COST_OF_HOLDER", 0)
    slow = Population(schema, people, 3)
    looked_up = [slow.law(pair) for pair in pairs]
    assert "_two" not in slow.__dict__
    monkeypatch.setattr(population, "COST_OF_HOLDER", 1e12)
    fast = Population(schema, people, 3)
    assert np.array([fast.law(pair) for pair in pairs]) == pytest.approx(np.array(looked_up), abs=1e-12)
    assert "_two" in fast.__dict__


def test_subsets_are_drawn_by_the_samplers_law():
    """Means of every mark over 4000 draws lie within 5 standard errors (odds 6e-7 each, 12 of them)."""
    channel = Subset(12, 4, 3 << 30)
    counts = np.zeros((4000, 12), np.int64)
    counts[:, 3], counts[:, 11] = 30, 10
    marks = channel.counts_of_states(counts, Coins.stated("subsets").generator())
    assert (marks.sum(axis=1) == 40 * 4).all()

    def apart(states: np.ndarray) -> float:
        expected = states @ np.array(
            [[s / 2**32 for s in np.where(np.arange(12) == x, 3 << 30, 0)] for x in range(12)]
        )
        rest = (4 - 0.75) / 11
        expected = expected + rest * (40 - states)
        return float(np.abs((marks.mean(axis=0) - expected) / (marks.std(axis=0) / sqrt(4000))).max())

    assert apart(counts[0]) < 5
    assert apart(counts[0][::-1]) > 5  # the broken twin


def small() -> Population:
    schema = Schema.of(3)
    draw = Coins.stated("small").generator()
    records = []
    for _ in range(400):
        records.append(
            {str(k): float(np.clip(draw.normal(0.5 - 0.5 * k, 0.3), -1, 1)) for k in range(3)
             if draw.random() < (0.3, 0.6, 0.8)[k]}
        )  # fmt: skip
    return Population(schema, People.of_records(schema, records))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("privkvm", {"rounds": 3}), ("privkvm_plus", {"rounds": 4, "cost": "0.3"}), ("sized", {})],
)
def test_chains_drawn_together_have_the_law_of_the_chain_of_plans(name, parameters):
    """Means and spreads of every estimate, run both ways; z below 5.5 is 1e-6 for 30 of them."""
    population, people, runs = small(), 4000, 120 if name != "sized" else 50
    plan = Plan.of(population.schema, name, 4, **parameters)
    estimators = tuple(plan.mechanism.estimators)
    coins = Coins.stated("both")
    long: dict[str, list] = {e: [] for e in estimators}
    for run in range(runs):
        last, counts = followed(plan, population, people, coins, run)
        for e in estimators:
            estimates = bands(last, counts[None, :], e)
            long[e].append(
                [estimates.frequency.value[0], estimates.mean.value[0], estimates.mean.low[0]]
            )

    def apart(other: Plan) -> float:
        worst = 0.0
        groups = [group for _, group in chain_bands(other, population, people, coins, runs, estimators)]
        assert sum(len(group[estimators[0]].reports) for group in groups) == runs
        for e in estimators:
            parts = [
                np.stack([g[e].frequency.value, g[e].mean.value, g[e].mean.low], axis=1) for g in groups
            ]
            fast, slow = np.concatenate(parts), np.array(long[e])
            known = np.isfinite(slow).all(axis=0)
            if (known != np.isfinite(fast).all(axis=0)).any():
                return np.inf
            spread = np.sqrt((slow.var(axis=0) + fast.var(axis=0)) / runs)
            centre = np.abs(slow.mean(axis=0) - fast.mean(axis=0))[known] / spread[known]
            width = np.abs(np.log(slow.var(axis=0)[known] / fast.var(axis=0)[known]))
            worst = max(worst, float(centre.max()), float(width.max()) / sqrt(4 / (runs - 1)))
        return worst

    assert apart(plan) < 5.5
    broken = Plan.of(population.schema, name, 1, **parameters)
    assert apart(broken) > 5.5, "a chain of another epsilon is told apart"


@pytest.mark.sampled
def test_sets_that_take_too_long_to_draw_are_refused_in_one_line():
    population = small()
    plan = Plan.of(population.schema, "collision", 1, cap=3)
    with pytest.raises(PlanError, match="simulate at most"):
        simulate_runs(plan, population, 10**15, Coins.stated("x"), 2)
