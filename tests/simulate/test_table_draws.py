"""Simulated people of a table: loops and plain form draw the same, and few people are drawn plainly."""

from __future__ import annotations

import numpy as np
import pytest

from keyveil import Coins, People, Plan, Schema
from keyveil.foundation.compiled import compiled
from keyveil.simulate import tallies
from keyveil.simulate.tallies import Population, simulate, simulate_runs

pytestmark = pytest.mark.skipif(compiled() is None, reason="numba is not installed")
KEYS = 9
SETS = [
    (name, given)
    for name in ("collision", "coco", "pair_collision")
    for given in ({}, {"cap": 1}, {"cap": 2, "pool": 4}, {"cap": KEYS, "pool": 1})
]


def crowd(kind: type[Population] = Population) -> Population:
    """Records of all sizes, from nothing to every key, with values at and between the ends."""
    schema, draw = Schema.of(KEYS, "-0.3", "4.7"), np.random.default_rng(1)
    held = [draw.choice(KEYS, count, replace=False) for count in draw.integers(0, KEYS + 1, 301)]
    records = [{str(key): draw.choice([-0.3, 1.1, 4.7]) for key in keys} for keys in held]
    return kind(schema, People.of_records(schema, records))


class Made(Population):
    """People who are made as they are drawn, as those of a stated population are."""

    def draw(self, people, draw, first=0):
        return super().draw(people, draw, first)


def in_both_forms(monkeypatch, function):
    """What the function returns without compiled loops, and with them from the first person on."""
    results = []
    for stated in ("0", "1"):
        monkeypatch.setenv("KEYVEIL_FAST", stated)
        results.append(function())
    return results


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "given"), SETS, ids=str)
def test_drawn_people_name_the_same_cells_in_both_forms(name, given, monkeypatch):
    population, coins = crowd(), Coins.stated("both forms")
    plan = Plan.of(population.schema, name, 2, **given)
    monkeypatch.setattr("keyveil.channel.shapes.table_draws.ENTRIES", 1 << 9)  # runs of people end
    plain, loops = in_both_forms(monkeypatch, lambda: simulate(plan, population, 2_001, coins).counts)
    assert np.array_equal(plain, loops)
    other = simulate(plan, population, 2_001, Coins.stated("others")).counts
    assert not np.array_equal(loops, other)  # the broken twin


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "given"), SETS, ids=str)
def test_people_who_are_made_name_the_same_cells_in_both_forms(name, given, monkeypatch):
    population, coins = crowd(Made), Coins.stated("made")
    plan = Plan.of(population.schema, name, 2, **given)
    plain, loops = in_both_forms(monkeypatch, lambda: simulate(plan, population, 1_500, coins).counts)
    assert np.array_equal(plain, loops)


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "given"), SETS, ids=str)
def test_averaged_laws_are_the_same_in_both_forms(name, given, monkeypatch):
    population, coins = crowd(), Coins.stated("averaged")
    plan = Plan.of(population.schema, name, 2, **given)
    monkeypatch.setattr(tallies, "LEAST", 1 << 10)
    monkeypatch.setattr(tallies, "SLACK", 100.0)
    plain, loops = in_both_forms(monkeypatch, lambda: simulate_runs(plan, population, 5_000, coins, 3))
    assert np.array_equal(plain, loops)
    monkeypatch.setattr(tallies, "LEAST", 1 << 20)
    drawn = simulate_runs(plan, population, 5_000, coins, 3)
    assert not np.array_equal(loops, drawn)  # the broken twin: people are drawn again for every run


@pytest.mark.sampled
@pytest.mark.parametrize("held", [0, 1])
@pytest.mark.sampled
@pytest.mark.parametrize("name", ["collision", "coco", "pair_collision"])
def test_people_who_hold_nothing_or_one_key_are_the_same_in_both_forms(name, held, monkeypatch):
    schema, coins = Schema.of(KEYS), Coins.stated("few")
    population = Population(schema, People.of_records(schema, [{"3": 0.5}] * held + [{}]))
    plan = Plan.of(schema, name, 1, cap=3)
    plain, loops = in_both_forms(monkeypatch, lambda: simulate(plan, population, 500, coins).counts)
    assert plain.sum() == 1_000  # the number of reports, and one cell each
    assert np.array_equal(plain, loops)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["collision", "coco", "pair_collision"])
def test_loops_are_asked_for_as_much_work_as_there_is(name, monkeypatch):
    """3,000 people take less time than Numba to load, 30 million more than loops to compile."""
    calls = []
    monkeypatch.setattr(tallies, "worthwhile", lambda seconds, *rooms: calls.append((seconds, rooms)))
    population = crowd()
    plan = Plan.of(population.schema, name, 2)
    simulate_runs(plan, population, 3_000, Coins.stated("x"), 2)
    assert calls[-1][1] == ("drawn_people",)
    assert 0.001 < calls[-1][0] < 0.05
    sets = tallies.SetCounts(plan)
    sets.choose_form(30_000_000)
    assert calls[-1][0] > 10
