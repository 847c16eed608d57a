"""Checks of a tally: valid by enumeration, honest in simulation, and able to find what is planted."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import cache
from itertools import product
from math import comb

import numpy as np
import pytest
from scipy import stats

from keyveil import REGISTRY, Coins, People, Plan, PlanError, ReportError, Schema, Tally
from keyveil.channel import CoCo, Collision, Subset, Symbols
from keyveil.channel.shapes.seed_pool import numbered_sets
from keyveil.cli.command import run
from keyveil.foundation.arrays import WORD
from keyveil.foundation.tails import above, below, entropy_above
from keyveil.people.views import Views
from keyveil.simulate.tallies import Population, simulate
from keyveil.testing import record_law
from keyveil.trust.health import (
    check_agreement,
    check_change,
    check_dummies,
    check_marks,
    check_mixture,
    check_rare,
    check_seeds,
    check_shares,
    check_views,
    drawn_evenly,
    health,
    holm,
)
from keyveil.trust.health.change import law_p_value
from keyveil.trust.health.collision_limits import members
from keyveil.trust.health.mixture import nats_lacking
from keyveil.trust.health.occurrences import FLOORS, key_occurrences, many_below
from keyveil.trust.health.pool_limits import either_sign
from keyveil.trust.health.shares import chernoff
from keyveil.trust.poison import repair
from keyveil.trust.poison.fakes import fake_tally

COINS = Coins.stated("health")
TWIN_ALARM = 1e-4
"""How often a sampled check of the false-alarm rate may itself fail."""


def plan_of(name: str, keys: int = 6, epsilon: float = 1, **parameters: object) -> Plan:
    schema = Schema.of(keys)
    return Plan.of(schema, name, epsilon, **{**REGISTRY[name].example(schema), **parameters})


@cache
def people_of(schema: Schema, count: int, share: float = 0.4) -> People:
    draw = np.random.default_rng(7)
    held = draw.random((count, len(schema.keys))) < share
    values = np.clip(draw.normal(0.3, 0.5, held.shape), -1, 1)
    records = [
        {schema.keys[k]: float(values[i, k]) for k in np.flatnonzero(held[i])} for i in range(count)
    ]
    return People.of_records(schema, records)


def honest_tally(plan: Plan, count: int = 20_000, run: int = 0, share: float = 0.4) -> Tally:
    people = people_of(plan.schema, min(count, 2000), share)
    rows = COINS.generator(run).integers(0, len(people), count)
    chosen = people.chosen(rows, np.arange(count, dtype=np.int64))
    return Tally(plan).add(plan.privatise(chosen, COINS.under(f"run {run}")))


# -- valid, by enumeration ---------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [0.5, 0.2, 0.02])
def test_the_oddest_count_is_an_exact_binomial(weight):
    """Two views: over all counts of 30 reports the chance of a p-value below any rate is below it."""
    n, weights = 30, np.array([weight, 1 - weight])
    pairs = []
    for count in range(n + 1):
        each = drawn_evenly(np.array([count, n - count]), weights)[2]
        pairs.append((min(1.0, 2 * each.min()), stats.binom.pmf(count, n, weight)))
    for rate in (0.001, 0.01, 0.05, 0.2):
        assert sum(chance for p, chance in pairs if p < rate) <= rate


@pytest.mark.parametrize("law", [(1, 0, 0), (0.3, 0.3, 0.4), (0.6, 0.1, 0.3), (0, 0, 1)])
@pytest.mark.parametrize("name", ["kvue", "f2m"])
def test_mixture_is_valid_for_every_honest_law(name, law):
    channel = plan_of(name).channels[0]
    n, cells = 9, channel.cells
    every = np.array([c for c in product(range(n + 1), repeat=cells) if sum(c) == n], np.float64)
    chance = stats.multinomial.pmf(every, n, channel.mix(np.array(law, float)))
    p_values = np.array([entropy_above(nats, cells) for nats in nats_lacking(channel, every)])
    for rate in (0.01, 0.1, 0.5):
        assert chance[p_values < rate].sum() <= rate


def test_mixture_holds_for_people_who_are_not_alike():
    """A fixed crowd of two kinds: the exact law of their counts, not that of a mixture."""
    channel = plan_of("kvue").channels[0]
    rows = channel.expected()
    law = {(0, 0, 0): 1.0}
    for state in (0, 0, 0, 0, 2, 2, 2, 2):
        after: dict = {}
        for counts, p in law.items():
            for output in range(3):
                more = tuple(c + (i == output) for i, c in enumerate(counts))
                after[more] = after.get(more, 0.0) + p * rows[state, output]
        law = after
    nats = nats_lacking(channel, np.array(list(law), np.float64))
    p_values = np.array([entropy_above(x, 3) for x in nats])
    for rate in (0.01, 0.1, 0.5):
        assert np.array(list(law.values()))[p_values < rate].sum() <= rate


def test_shares_hold_for_people_who_are_not_alike():
    """A count of unlike coins is no higher than the binomial of the most likely one."""
    chances = [0.2] * 6 + [0.5] * 6
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    for count in range(13):
        assert law[count:].sum() <= float(above(count, 12, 0.5)) + 1e-12
        assert law[: count + 1].sum() <= float(below(count, 12, 0.2)) + 1e-12


SMALL_POOLS = [
    Collision.of(8, 2, Decimal(1), 16, 7),
    Collision.of(8, 3, Decimal(2), 8, 3),
    Collision.of(6, 1, Decimal(3), 16, 7),
    CoCo.of(8, 2, Decimal(1), 16, 5),
    CoCo.of(6, 3, Decimal(2), 8, 5),
]


@pytest.mark.parametrize("channel", SMALL_POOLS, ids=lambda c: f"{c.shape}-{c.items}-{c.held}")
def test_no_record_meets_a_key_more_or_less_often_than_is_allowed(channel):
    """Every record of few keys through a small pool: the exact chance that either sign is named."""
    keys, law = channel.items // 2, channel.expected()

    def both(counts):
        return either_sign(channel, keys, channel.held, counts)

    names = np.array([both(row).counts for row in np.eye(channel.cells)])
    assert set(np.unique(names)) == {0.0, 1.0}  # a report meets a key or does not
    limits = both(np.zeros(channel.cells))
    least, most = limits.least, limits.most
    sets = numbered_sets(np.arange(channel.states), channel.items, channel.held)
    held_by = [items[items >= 0] // 2 for items in sets]
    honest = [row for row, held in enumerate(held_by) if len(set(held)) == len(held)]
    chance = law[honest] @ names
    assert (chance >= least - 1e-12).all()
    assert (chance <= most + 1e-12).all()
    holds = np.array([[key in held_by[row] for key in range(keys)] for row in honest])
    holding = np.where(holds, chance, 0.0).max(axis=0)
    assert (most <= holding + (0.04 if isinstance(channel, Collision) else 1e-6)).all()  # nor far above


@pytest.mark.parametrize("name", ["pckv_grr", "pckv_ue", "signed_ue"])
def test_no_padded_record_meets_a_key_more_often_than_is_allowed(name):
    """One person, one key in a record: the exact chance, and where all are held, none is above it."""
    plan = plan_of(name, 3, 2, length=2)
    met = key_occurrences(plan, Tally(plan, np.eye(1, plan.layout.cells, dtype=np.int64)[0]))
    for record in ({"0": 1.0}, {"0": -1.0, "1": 1.0}, {"0": 0.5, "1": 1.0, "2": -1.0}, {}):
        law = padded_law(plan, record) @ plan.channels[0].expected()
        if isinstance(plan.channels[0], Symbols):
            shown = law @ plan.channels[0].shown if plan.channels[0].one_cell else law
            chance = shown.reshape(-1, 2)[:3].sum(axis=1)
        else:
            chance = law.reshape(-1, 2)[:3].sum(axis=1)
            chance = np.append(chance, chance.sum())
        assert (chance >= met.least - 1e-9).all()
        assert (chance <= met.most + 1e-9).all()
        if record == {"0": 1.0}:
            assert chance[0] == pytest.approx(met.most[0], abs=1e-8)


def padded_law(plan: Plan, record: dict[str, float]) -> np.ndarray:
    held = {plan.schema.place(key): value for key, value in record.items()}
    return record_law(plan, held)


def test_marks_are_bounded_from_both_sides():
    """Three reports of four positions: the exact law of their marks, whatever the states are."""
    back, own = 0.3, 0.6
    law = np.ones(1)
    for _ in range(3):
        for chance in (back, back, back, own):
            law = np.convolve(law, [1 - chance, chance])
    for total in range(13):
        assert law[total:].sum() <= chernoff(total, 3, 3, back, own, up=True) + 1e-12
        assert law[: total + 1].sum() <= chernoff(total, 3, 3, back, own, up=False) + 1e-12


@pytest.mark.parametrize("start", FLOORS)
def test_many_counts_below_their_least_are_bounded(start):
    """Nine people who each are in any of three states, k-RR: over all counts, never more alarms."""
    n, keep, lie = 9, 0.6, 0.2
    for people in ([0] * 9, [0] * 5 + [1] * 4, [0, 1, 2] * 3):
        law = {(0, 0, 0): 1.0}
        for state in people:
            grown: dict[tuple[int, ...], float] = {}
            for counts, chance in law.items():
                for cell in range(3):
                    after = tuple(c + (i == cell) for i, c in enumerate(counts))
                    grown[after] = grown.get(after, 0.0) + chance * (keep if cell == state else lie)
            law = grown
        pairs = [(many_below(np.array(c, float), n, lie, start), p) for c, p in law.items()]
        for bound in sorted({value for value, _ in pairs}):
            assert sum(p for value, p in pairs if value <= bound) <= bound + 1e-12


@pytest.mark.parametrize("name", ["pairs", "several", "workload"])
def test_words_of_views_agree_for_every_record(name):
    """The mean of what agreement sums up is zero for every record, and its square within the bound."""
    queries = {"queries": "mean(0 | 1); frequency(1 | 2)"} if name == "workload" else {}
    plan = plan_of(name, 3, **queries)
    for levels in product(range(plan.schema.levels + 1), repeat=3):
        tally = Tally(plan)
        counts = tally.counts.astype(np.float64)
        for view, keys in enumerate(plan.views.keys):
            channel, own = plan.view_channels[view], plan.layout.own[view]
            state = 0
            for key in keys:
                state = state * (plan.schema.levels + 1) + levels[key]
            law = channel.expected()[state] * plan.views.shares[view]
            counts[own + 1 : own + 1 + channel.cells] = np.rint(law * 1e12)
            counts[own] = np.rint(law * 1e12).sum()
        tally = Tally(plan, counts.astype(np.int64))
        finding = check_agreement(plan, tally)
        assert (finding.verdict, finding.p_value) == ("fine", 1.0)


def test_holm_rejects_step_by_step():
    p_values = np.array([0.001, 0.4, 0.02, 0.015])
    assert holm(p_values, 0.05).tolist() == [True, False, True, True]
    assert holm(p_values, 0.03).tolist() == [True, False, False, False]


@pytest.mark.parametrize(("n", "m"), [(40, 40), (12, 60)])
def test_two_rows_of_one_law_are_found_alike(n, m):
    """Every pair of counts of two coins: chi-square and its exact stand-in keep their rate."""
    rate = 0.05
    odd = np.array(
        [
            [
                law_p_value(np.array([a, n - a], float), np.array([b, m - b], float)) < rate
                for b in range(m + 1)
            ]
            for a in range(n + 1)
        ]
    )
    for chance in (0.5, 0.1, 0.02):
        first_law, second_law = (stats.binom.pmf(np.arange(k + 1), k, chance) for k in (n, m))
        assert (
            first_law @ odd @ second_law <= 1.35 * rate
        )  # chi-square with ten expected is nearly, not exactly, right


POOLS = ("collision", "coco", "pair_collision")

# -- honest, in simulation ---------------------------------------------------------------------------


def alarms(plan: Plan, check, runs: int, people: int, rate: float) -> int:
    population = Population(plan.schema, people_of(plan.schema, 500), plan.schema.levels)
    count = 0
    for number in range(runs):
        if plan.encode == "views":
            tally = simulate(plan, population, people, COINS, number)
        else:
            tally = honest_tally(plan, people, number)
        count += check(plan, tally, rate).suspicious
    return count


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("kvue", check_views),
        ("pairs", check_views),
        ("kvue", check_mixture),
        ("kvoh", check_mixture),
        ("f2m", check_mixture),
        ("pairs", check_shares),
        ("pairs", check_agreement),
        ("several", check_agreement),
        ("ioh", check_marks),
        ("ioh", check_shares),
    ],
)
def test_honest_tallies_are_found_fine(name, check):
    """400 honest tallies: no more alarms than the rate allows, but for a chance of 1e-4."""
    rate, runs = 0.05, 400
    plan = plan_of(name, 5 if name == "ioh" else 6)
    count = alarms(plan, check, runs, 4000, rate)
    assert count <= stats.binom.ppf(1 - TWIN_ALARM, runs, rate)
    if check is check_views:
        assert count >= stats.binom.ppf(TWIN_ALARM, runs, rate / 5)  # and not for want of looking


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("collision", check_seeds),
        ("shist", check_seeds),
        ("collision", check_shares),
        ("coco", check_shares),
        ("pair_collision", check_shares),
        ("grr", check_shares),
        ("rappor", check_marks),
        ("pckv_ue", check_marks),
        ("pckv_ue", check_shares),
        ("pckv_grr", check_shares),
        ("pckv_grr", check_dummies),
        ("pckv_grr", check_rare),
        ("grr", check_rare),
        ("meanest", check_shares),
    ],
)
def test_honest_tallies_of_whole_records_are_found_fine(name, check):
    """50 honest tallies, each person through the line."""
    rate, runs = 0.1, 50
    plan = plan_of(name, 20, **({"pool": 64} if name in POOLS else {}))
    count = alarms(plan, check, runs, 1500, rate)
    assert count <= stats.binom.ppf(1 - TWIN_ALARM, runs, rate)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["kvue", "ioh"])
def test_two_honest_days_are_found_alike(name):
    plan = plan_of(name, 5)
    population = Population(plan.schema, people_of(plan.schema, 500))
    rate, runs, count = 0.05, 150, 0
    for number in range(0, 2 * runs, 2):
        days = [simulate(plan, population, n, COINS, number + i) for i, n in enumerate((3000, 1000))]
        count += check_change(plan, *days, rate).suspicious
    assert count <= stats.binom.ppf(1 - TWIN_ALARM, runs, 1.3 * rate)  # nearly: chi-square


@pytest.mark.sampled
def test_a_check_that_halves_its_p_values_is_caught():
    """The broken twin of the false-alarm test: it must see a rate that is twice what is stated."""
    plan = plan_of("kvue", 6)
    count = alarms(plan, lambda p, t, rate: check_views(p, t, 4 * rate), 400, 4000, 0.05)
    assert count > stats.binom.ppf(1 - TWIN_ALARM, 400, 0.05)


# -- what is planted ---------------------------------------------------------------------------------

PLANTED = [
    ("kvue", 20, "views", "chosen"),
    ("graded", 20, "views", "chosen"),
    ("optimal", 20, "views", "chosen"),
    ("pairs", 8, "views", "chosen"),
    ("privkv", 20, "shares", "chosen"),
    ("kvoh", 20, "mixture", "chosen"),
    ("f2m", 20, "mixture", "chosen"),
    ("bisample", 20, "mixture", "chosen"),
    ("workload", 6, "mixture", "drawn"),
    ("ioh", 5, "marks", "drawn"),
    ("ioh_optimal", 5, "marks", "drawn"),
    ("signed_ue", 20, "shares", "drawn"),
    ("grr", 200, "shares", "drawn"),
    ("pckv_grr", 200, "shares", "drawn"),
    ("collision", 50, "seeds", "chosen"),
    ("collision", 12, "shares", "assigned"),
    ("coco", 50, "seeds", "chosen"),
    ("shist", 50, "seeds", "chosen"),
    ("pair_collision", 20, "shares", "assigned"),
]


@pytest.mark.parametrize(("name", "keys", "check", "how"), PLANTED)
def test_crafted_fakes_of_five_per_cent_are_flagged(name, keys, check, how):
    plan = plan_of(name, keys)
    honest = honest_tally(plan)
    assert not health(plan, honest).suspicious
    choice = {"views": "chosen" if how == "chosen" else "drawn"}
    choice["seeds"] = "chosen" if how == "chosen" else "assigned"
    planted = fake_tally(plan, 1053, ["0"], coins=COINS, **choice)
    findings = {f.check: f for f in health(plan, honest + planted).findings}
    assert findings[check].suspicious
    assert findings[check].p_value < 1e-6
    if check in ("views", "shares", "mixture") and keys != 5:
        assert any(name.split(" + ")[0] == "0" or "0" in name for name in findings[check].where)


IMPOSSIBLE = [
    ("pckv_grr", {"length": 1}, 1000),
    ("pckv_grr", {"length": 4}, 1000),
    ("pckv_grr", {"length": 8}, 1000),
    ("pckv_ue", {"length": 12}, 1000),
    ("coco", {"cap": 8}, 1000),
    ("collision", {"cap": 4}, 3000),
    ("collision", {"cap": 8}, 1500),
    ("pair_collision", {"cap": 4}, 1500),
]


@pytest.mark.parametrize(("name", "parameters", "fakes"), IMPOSSIBLE)
def test_a_frequency_above_one_is_flagged_where_each_sign_is_possible(name, parameters, fakes):
    """Fakes beside 20,000 people who hold 3 of 100 keys: a frequency of 1.25 to 2.2."""
    plan = plan_of(name, 100, 2, **parameters)
    honest = honest_tally(plan, share=0.03)
    assert not health(plan, honest).suspicious
    planted = fake_tally(plan, fakes, ["7"], coins=COINS, seeds="assigned", views="drawn")
    tally = honest + planted
    moments = plan.mechanism.moments(plan, tally.counts)
    assert moments.values[7, 0] > 1 + 4 * np.sqrt(moments.covariance[7, 0, 0])
    finding = check_shares(plan, tally)
    assert finding.suspicious
    assert "7" in finding.where


@pytest.mark.parametrize("name", ["pckv_grr", "pckv_ue"])
def test_a_mass_above_its_frequency_is_flagged(name):
    """A key that is met by its high sign as if half held it, and by its low one less than by none."""
    plan = plan_of(name, 100, 2, length=2)
    tally = honest_tally(plan, share=0.03)
    n, cells = tally.view_counts(0)
    signs = cells[14:16].astype(float)
    tally.counts[1 + 14] = round(signs[0] - 0.04 * n if name == "pckv_ue" else signs[0] * 0.4)
    tally.counts[1 + 15] = round(signs[1] + 0.04 * n if name == "pckv_ue" else signs[1])
    if name == "pckv_grr":
        tally.counts[0] -= round(signs[0] * 0.6)
    finding = check_mixture(plan, tally)
    assert finding.suspicious
    assert finding.where == ("7",)


@pytest.mark.parametrize("name", ["collision", "coco"])
def test_a_mass_above_its_frequency_is_flagged_in_a_pool(name):
    """Seven in ten reports that name a key's low cell, moved to its high one, seed by seed."""
    plan = plan_of(name, 100, 2, cap=4)
    tally = honest_tally(plan, share=0.03)
    assert not health(plan, tally).suspicious
    channel = plan.channels[0]
    grid = tally.view_counts(0)[1].reshape(channel.pool, -1)
    low, high = channel.item_cells(np.array([14, 15])).T
    draw = COINS.generator(1)
    for seed in range(channel.pool):
        if low[seed] != high[seed]:
            moved = draw.binomial(grid[seed, low[seed]], 0.7)
            grid[seed, low[seed]] -= moved
            grid[seed, high[seed]] += moved
    finding = check_shares(plan, tally)
    moments = plan.mechanism.moments(plan, tally.counts)
    assert moments.values[7, 1] > moments.values[7, 0] + 4 * np.sqrt(moments.covariance[7].trace())
    assert 0 < moments.values[7, 0] < 1
    assert finding.suspicious
    assert "7" in finding.where


def test_more_keys_than_anyone_may_hold_are_flagged():
    """Fakes who name the cell where most keys meet raise all a little: no key is odd, their sum is."""
    plan = plan_of("collision", 40, 2, cap=2)
    honest = honest_tally(plan)  # 16 keys each, of which two count
    assert not health(plan, honest).suspicious
    channel = plan.channels[0]
    crowded = members(channel, channel.hashes(np.arange(80))).argmax(axis=1)
    planted = Tally(plan)
    seeds = COINS.generator(3).integers(0, channel.pool, 1500)
    np.add.at(planted.counts, 1 + seeds * channel.small + crowded[seeds], 1)
    planted.counts[0] = len(seeds)
    tally = honest + planted
    assert plan.mechanism.moments(plan, tally.counts).values[:, 0].sum() > 2.5
    finding = check_shares(plan, tally)
    assert finding.where == ("all keys",)


@pytest.mark.parametrize("name", ["pckv_grr", "pckv_ue", *POOLS])
def test_keys_that_everyone_holds_are_found_fine(name):
    """The limit itself, f = 1 and means at an end: 60 tallies, no more alarms than the rate allows."""
    rate, runs = 0.1, 60
    parameters = {"length": 2} if name.startswith("pckv") else {"pool": 64, "cap": 2}
    plan = plan_of(name, 6, 2, **parameters)
    everyone = People.of_records(plan.schema, [{"0": 1.0, "1": -1.0}] * 1500)
    counts = dict.fromkeys((check_shares, check_mixture), 0)
    for number in range(runs):
        tally = Tally(plan).add(plan.privatise(everyone, COINS.under(f"all {number}")))
        for check in counts:
            counts[check] += check(plan, tally, rate).suspicious
    assert max(counts.values()) <= stats.binom.ppf(1 - TWIN_ALARM, runs, rate)


def test_many_targets_at_once_mark_too_many_positions():
    plan = plan_of("pckv_ue", 60)
    targets = [str(k) for k in range(40)]
    planted = fake_tally(plan, 1053, targets, coins=COINS)
    finding = check_marks(plan, honest_tally(plan) + planted)
    assert finding.suspicious
    assert finding.p_value < 1e-6


def test_fakes_that_take_from_all_rare_keys_are_flagged():
    """Each of 190 keys that nobody holds is named a little too seldom; none of them stands out."""
    plan = plan_of("pckv_grr", 200, 2, length=4)
    draw = np.random.default_rng(3)
    held = draw.random((500, 10)) < 0.2
    crowd = People.of_records(plan.schema, [{str(k): 0.5 for k in np.flatnonzero(row)} for row in held])
    people = crowd.chosen(draw.integers(0, 500, 80_000), np.arange(80_000, dtype=np.int64))
    honest = Tally(plan).add(plan.privatise(people, COINS))
    assert not health(plan, honest).suspicious
    fakes = fake_tally(plan, 2_000, ["6", "7", "8", "9"], coins=COINS)
    odd = [finding.check for finding in health(plan, honest + fakes).findings if finding.suspicious]
    assert odd == ["rare"]


def test_dummies_that_someone_chose_are_flagged():
    plan = plan_of("pckv_grr", 10, 1, length=3)
    tally = honest_tally(plan, 20_000)
    assert not check_dummies(plan, tally).suspicious
    tally.counts[[0, 1 + 2 * 10]] += 600  # all of them the first dummy's low sign
    assert check_dummies(plan, tally).suspicious


def test_a_view_that_tells_other_things_than_the_rest_is_flagged():
    """Fakes who draw their views like everyone, and cheat in one of them."""
    plan = plan_of("pairs", 5, 1)
    tally = honest_tally(plan, 40_000)
    assert not check_agreement(plan, tally).suspicious
    view, own = 3, int(plan.layout.own[3])
    cells = tally.counts[own + 1 : own + 1 + plan.view_channels[view].cells]
    cell = int(np.argmax(cells))
    moved = cells // 5  # a fifth of its reports become one output
    cells -= moved
    cells[cell] += moved.sum()
    findings = health(plan, tally).findings
    assert not next(f for f in findings if f.check == "views").suspicious
    assert "0 + 4" in next(f for f in findings if f.check == "agreement").where


def test_a_day_with_fakes_is_not_like_the_day_before():
    plan = plan_of("kvue", 10)
    before, after = honest_tally(plan, run=1), honest_tally(plan, run=2)
    assert not check_change(plan, before, after).suspicious
    planted = fake_tally(plan, 4000, ["3"], coins=COINS, views="drawn")
    finding = check_change(plan, before, after + planted)
    assert finding.suspicious
    assert finding.where == ("3",)
    assert not health(plan, after + planted).suspicious  # alone it looks like more people who hold it


def test_a_client_that_draws_its_view_wrongly_is_found():
    """The broken twin: a client that picks a view by its person's number."""
    plan = plan_of("kvue", 10)
    tally = honest_tally(plan, 5000)
    counts = tally.counts.reshape(10, 4)
    counts[::2] *= 2
    assert check_views(plan, Tally(plan, counts.ravel())).suspicious


def test_a_client_that_lies_too_seldom_is_found():
    """The broken twin of the sampler: everyone holds the key and says so more often than ``keep``."""
    plan = plan_of("kvue", 1, 1)
    keep = plan.channels[0].keep / WORD
    n = 20_000
    for share, odd in ((keep, False), (keep + 0.05, True)):
        high = round(n * share)
        rest = (n - high) // 2
        tally = Tally(plan, np.array([high + 2 * rest, rest, rest, high]))
        assert check_mixture(plan, tally).suspicious is odd
        assert check_shares(plan, tally).suspicious is odd


def test_bits_set_more_often_than_shown_are_found():
    plan = plan_of("ioh", 5)
    channel = plan.channels[0]
    assert isinstance(channel, Symbols)
    show, n = channel.laws[1][1] / WORD, 20_000
    tally = honest_tally(plan, n)
    tally.counts[1 + 17] = round(n * (show + 0.03))
    finding = check_shares(plan, tally)
    assert finding.suspicious
    assert finding.statistic == pytest.approx(0.03, abs=1e-3)


def test_sets_have_exactly_so_many_members():
    channel = Subset.of(27, Decimal(1), 8)
    plan = Plan(Schema.of(3).at(2), Views.whole(3), "views", (channel,), Decimal(1), "triples")
    tally = honest_tally(plan, 2000)
    assert not health(plan, tally).suspicious
    tally.counts[5] += 1
    assert check_marks(plan, tally).suspicious
    tally.counts[5] = 2000
    assert check_shares(plan, tally).suspicious


# -- saying so ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(REGISTRY))
def test_every_mechanism_is_checked_or_says_why_not(name):
    plan = plan_of(name, 5)
    tally = honest_tally(plan, 3000)
    result = health(plan, tally, tally)
    assert [f.check for f in result.findings] == [
        "views",
        "seeds",
        "mixture",
        "shares",
        "marks",
        "rare",
        "dummies",
        "agreement",
        "change",
    ]
    assert not result.suspicious
    assert any(f.verdict == "fine" for f in result.findings[:5])
    for finding in result.findings:
        assert finding.meaning
        assert finding.verdict in ("fine", "not checked")
        assert 0 <= finding.p_value <= 1
    json.dumps(result.document(), allow_nan=False)
    assert result.false_alarm == pytest.approx(1e-3 * sum(f.verdict == "fine" for f in result.findings))


@pytest.mark.parametrize("name", ["ioh", "pckv_ue", "rappor"])
def test_plans_without_a_drawn_view_or_seed_say_so(name):
    plan = plan_of(name, 5)
    views, seeds = health(plan, honest_tally(plan, 100)).findings[:2]
    assert views.verdict == seeds.verdict == "not checked"
    assert "one view" in views.meaning
    assert "no seed" in seeds.meaning
    assert views.document()["p_value"] is None


def test_many_sparse_views_are_put_together():
    """4950 views and 3000 reports: the chi-square is over runs of views that expect ten each."""
    weights = np.full(4950, 1 / 4950)
    draw = np.random.default_rng(3)
    low = 0
    for _ in range(100):
        low += drawn_evenly(draw.multinomial(3000, weights), weights)[1] < 0.05
    assert low <= stats.binom.ppf(1 - TWIN_ALARM, 100, 0.05)
    tilted = np.where(np.arange(4950) < 99, 3.0, 1.0)
    counts = draw.multinomial(3000, tilted / tilted.sum())
    assert drawn_evenly(counts, weights)[1] < 1e-6


def test_bad_input_is_one_line():
    plan = plan_of("kvue", 3)
    for wrong in (
        lambda: health(plan, Tally(plan)),
        lambda: health(plan, honest_tally(plan, 10), false_alarm=0),
    ):
        with pytest.raises(PlanError) as caught:
            wrong()
        assert "\n" not in str(caught.value)
    with pytest.raises(ReportError, match="another plan"):
        health(plan, Tally(plan_of("kvue", 4)))


def test_the_command_says_the_same(tmp_path, capsys):
    plan = plan_of("kvue", 4)
    plan.save(tmp_path / "plan.json")
    honest = honest_tally(plan, 4000)
    odd = honest + fake_tally(plan, 400, ["2"], coins=COINS)
    honest.save(tmp_path / "honest.kv")
    odd.save(tmp_path / "odd.kv")
    path, first, second = (str(tmp_path / name) for name in ("plan.json", "honest.kv", "odd.kv"))
    assert run(["health", path, second, first, "--fakes", "0.05", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    expected = health(plan, odd, honest).document()
    assert {key: document[key] for key in expected} == expected
    assert (document["views"], document["level"]) == ("chosen", 0.95), "the check of views says so"
    assert [row["key"] for row in document["reach"]] == list(plan.schema.keys)
    assert run(["health", path, first, "--fakes", "0.05"]) == 0
    out = capsys.readouterr().out
    assert "nothing suspicious in 4,000 reports" in out
    assert "honest answers lie at level 0.95 if at most 5 % of the reports are fake and drew" in out
    assert run(["health", path, second]) == 0
    assert "(2)" in capsys.readouterr().out
    assert run(["health", path, second, "--repair", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["repair"]
    assert document == repair(plan, odd).document()
    assert (document["kind"], document["left_out"]) == ("views", [2])
    assert run(["health", path, second, "--repair"]) == 0
    assert "left out, because fakes chose them: 1 view (2)" in capsys.readouterr().out
    assert run(["health", path, first, "--repair"]) == 0
    assert "nothing is left out" in capsys.readouterr().out
    assert run(["health", path, second, "--false-alarm", "7"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_chernoff_is_near_the_exact_tail():
    """A binomial by itself: the bound is above the tail, within the usual factor."""
    exact = sum(comb(400, k) * 0.2**k * 0.8 ** (400 - k) for k in range(110, 401))
    bound = chernoff(110, 400, 0, 0.5, 0.2, up=True)
    assert exact <= bound <= 20 * exact
