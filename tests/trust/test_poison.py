"""Gains against the closed forms, against the estimator itself, and against planted fakes."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import cache
from math import inf, isnan

import matplotlib
import numpy as np
import pytest

from keyveil import REGISTRY, Coins, People, Plan, PlanError, QueryError, Schema, Tally
from keyveil.channel import Collision, Subset, Symbols
from keyveil.cli.command import run
from keyveil.estimate.forecast.query_forecast import MANY, expected_tally
from keyveil.estimate.linear import key_weights
from keyveil.estimate.together.conditional import Conditionals
from keyveil.estimate.together.joint import lifted
from keyveil.estimate.together.query import Query
from keyveil.foundation.arrays import WORD
from keyveil.people.prior import Prior
from keyveil.people.prior_laws import independent_law
from keyveil.people.views import Views
from keyveil.trust.poison import (
    ATTACKS,
    GOALS,
    average_key,
    compare_gains,
    fakes_needed,
    gain,
    line,
    raised_conditional,
    reach,
    standard_error,
)
from keyveil.trust.poison.attack import Attack, attacked
from keyveil.trust.poison.averaged_attack import is_pooled
from keyveil.trust.poison.conditional_attack import largest_ratio
from keyveil.trust.poison.fakes import fake_tally
from keyveil.trust.poison.influence import PossibleReports, core_of, possible_cores

COINS = Coins.stated("poison")
SMALL = {
    "triples": {"channel": "grr"},
    "collision": {"pool": 16, "cap": 2},
    "coco": {"pool": 16, "cap": 2},
    "shist": {"rows": 16},
}
SMALL["pair_collision"] = {"pool": 128, "cap": 2}
NOT_OFFERED = ("sized", "size", "sign", "parts")


def plan_of(name: str, keys: int = 4, epsilon: float = 1, **parameters: object) -> Plan:
    schema = Schema.of(keys)
    return Plan.of(schema, name, epsilon, **{**REGISTRY[name].example(schema), **parameters})


def people_of(schema: Schema, count: int, share: float = 0.4) -> People:
    """People who hold each key with chance ``share``, values above the middle."""
    draw = np.random.default_rng(5)
    held = draw.random((count, len(schema.keys))) < share
    values = np.clip(draw.normal(0.3, 0.4, held.shape), -1, 1)
    records = [
        {schema.keys[k]: float(values[i, k]) for k in np.flatnonzero(held[i])} for i in range(count)
    ]
    return People.of_records(schema, records)


def honest_tally(plan: Plan, count: int = 20_000) -> Tally:
    return Tally(plan).add(plan.privatise(people_of(plan.schema, count), COINS))


def shares(law: tuple[int, ...]) -> np.ndarray:
    return np.array(law) / WORD


# -- closed forms ------------------------------------------------------------------------------------


def test_kvue_drawn_is_the_closed_form():
    """dF = share ((1 - b) / (a - b) - f), a and b the chance of saying "held" when one does, or not."""
    plan = plan_of("kvue", 100)
    lie = plan.channels[0].lie / WORD
    a, b = 1 - lie, 2 * lie
    shift = gain(plan, 0.01, ["7"], views="drawn", frequency=0.2).shifts[0]
    assert shift.frequency.shift == pytest.approx(0.01 * ((1 - b) / (a - b) - 0.2), rel=1e-8)
    assert shift.mean.shift == pytest.approx(0, abs=1e-9)  # low and high serve alike: half of each


def test_kvue_chosen_views_are_one_view_full_of_fakes():
    plan = plan_of("kvue", 100)
    lie = plan.channels[0].lie / WORD
    worth = (1 - 2 * lie) / (1 - 3 * lie)
    part = 0.01 / (0.01 + 0.99 / 100)
    whole = gain(plan, 0.01, ["7"], frequency=0.2).shifts[0]
    assert whole.frequency.after == pytest.approx((1 - part) * 0.2 + part * worth, rel=1e-8)
    split = gain(plan, 0.01, ["7", "8"], frequency=0.2).shifts  # one key in a message: half of them each
    half = 0.005 / (0.005 + 0.99 / 100)
    for shift in split:
        assert shift.frequency.after == pytest.approx((1 - half) * 0.2 + half * worth, rel=1e-8)


@pytest.mark.parametrize("targets", [1, 3])
def test_grr_names_one_target_and_rappor_all_at_once(targets):
    keys = [str(k) for k in range(targets)]
    plan = plan_of("grr", 600)
    a, b = plan.channels[0].keep / WORD, plan.channels[0].lie / WORD
    for shift in gain(plan, 0.05, keys, frequency=0.01).shifts:
        assert shift.frequency.shift == pytest.approx(
            0.05 * ((1 / targets - b) / (a - b) - 0.01), rel=1e-5
        )
    plan = plan_of("rappor", 600)
    (_, b), (_, a) = (shares(law) for law in plan.channels[0].laws)
    for shift in gain(plan, 0.05, keys, frequency=0.01).shifts:
        assert shift.frequency.shift == pytest.approx(0.05 * ((1 - b) / (a - b) - 0.01), rel=1e-8)


def test_pckv_grr_has_the_length_in_its_gain():
    plan = plan_of("pckv_grr", 300, length=4)
    keep, lie = plan.channels[0].keep / WORD, plan.channels[0].lie / WORD
    a, b = keep + lie, 2 * lie
    shift = gain(plan, 0.01, ["0"], frequency=0.1).shifts[0]
    assert shift.frequency.shift == pytest.approx(0.01 * (4 * (1 - b) / (a - b) - 0.1), rel=1e-4)
    high = gain(plan, 0.01, ["0"], "raise-mean", frequency=0.1).shifts[0]
    mass = 0.01 * 4 / (keep - lie)
    assert high.mean.after == pytest.approx(min(1, mass / high.frequency.after), rel=1e-4)


def test_harmony_moves_the_mass():
    plan = plan_of("harmony", 10)
    keep = plan.channels[0].expected()[2, 1]
    shift = gain(plan, 0.02, ["0"], "raise-mean", views="drawn", frequency=0.5, mean=0.2).shifts[0]
    assert shift.mass.shift == pytest.approx(0.02 * (1 / (2 * keep - 1) - 0.1), rel=1e-6)
    with pytest.raises(PlanError, match="answers mass alone"):
        gain(plan, 0.02, ["0"])


def test_collision_names_a_cell():
    """Seeds assigned: one of the key's two items is named; chosen: a seed on which they share a cell."""
    plan = plan_of("collision", 200, pool=512)
    channel = plan.channels[0]
    part, worth = 1 / channel.small, (1 - 1 / channel.small) / channel.gain
    hashes = channel.hashes(np.array([6, 7]))
    both = float((hashes[:, 0] == hashes[:, 1]).mean())
    options, before = PossibleReports.of(plan, [3], core=0), np.array([[0.1, 0.0]])

    def shift(seeds: str) -> float:
        return (
            attacked(plan, options, before, Attack(0.01, seeds=seeds, views="drawn")).values[0, 0] - 0.1
        )

    assert shift("assigned") == pytest.approx(
        0.01 * ((1 + both) * worth - (1 - both) * part / channel.gain - 0.1), rel=1e-6
    )
    assert both > 0
    assert shift("chosen") == pytest.approx(0.01 * (2 * worth - 0.1), rel=1e-6)
    for seeds in ("assigned", "chosen"):  # a tally may also lead to collisions being undone
        assert gain(plan, 0.01, ["3"], seeds=seeds, frequency=0.1).shifts[0].frequency.shift > shift(
            seeds
        )


def test_random_and_paired_fakes():
    plan = plan_of("kvue", 10)
    lie = plan.channels[0].lie / WORD
    a, b = 1 - lie, 2 * lie
    any_report = gain(plan, 0.1, ["0"], attack="random", frequency=0.2).shifts[0]
    assert any_report.frequency.shift == pytest.approx(0.1 * ((2 / 3 - b) / (a - b) - 0.2), rel=1e-8)
    for targets in (["0"], ["0", "1", "2", "3"]):
        for shift in gain(plan, 0.1, targets, attack="pairs", frequency=0.2).shifts:
            assert shift.frequency.shift == pytest.approx(0.1 * (1 / len(targets) - 0.2))


# -- the estimator itself ----------------------------------------------------------------------------


def brute_force(plan: Plan, base: Tally, fakes: int) -> np.ndarray:
    """Key 0's frequency and mass after so many copies of each report that a device could send."""
    layout = plan.layout
    if layout.one_cell:
        rows = []
        for view, own in enumerate(layout.own):
            for cell in np.flatnonzero(layout.channels[view].possible):
                counts = base.counts.copy()
                counts[[own, own + 1 + cell]] += fakes
                rows.append(counts)
    else:
        draw = np.random.default_rng(1)
        rows = []
        for _ in range(300):  # reports of random symbols, and every one that marks a single cell
            counts = base.counts.copy()
            counts[0] += fakes
            channel = plan.channels[0]
            assert isinstance(channel, Symbols)
            symbols = draw.integers(0, channel.alphabet, channel.positions)
            marks = np.flatnonzero(symbols) * (channel.alphabet - 1) + symbols[symbols > 0] - 1
            counts[1 + marks] += fakes
            rows.append(counts)
    return plan.mechanism.moments(plan, np.array(rows)).values[:, 0]


def objective(plan: Plan, goal: str, values: np.ndarray) -> np.ndarray:
    sign = 1 if goal.startswith("raise") else -1
    if goal.endswith("frequency"):
        return sign * values[:, 0]
    if "mean" not in plan.mechanism.answers:
        return sign * values[:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.clip(sign * values[:, 1] / np.where(values[:, 0] > 0, values[:, 0], np.nan), -1, 1)


@cache
def every_report(name: str) -> tuple[Plan, Tally, np.ndarray]:
    """A plan, an honest tally of 4,000 people, and ``brute_force`` of 40 fakes, for all goals."""
    keys = 3 if REGISTRY[name].most_keys <= 10 or name in ("pairs", "triples", "workload") else 4
    plan = plan_of(name, keys, 2, **SMALL.get(name, {}))
    base = honest_tally(plan, 4000)
    return plan, base, brute_force(plan, base, 40)


@pytest.mark.parametrize("goal", ["raise-frequency", "lower-frequency", "raise-mean", "lower-mean"])
@pytest.mark.parametrize("name", [n for n in REGISTRY if n not in NOT_OFFERED])
def test_no_report_does_better_than_the_crafted_one(name, goal):
    """Every valid report, added to an honest tally and decoded by the mechanism's own estimator."""
    answers = REGISTRY[name].answers
    if goal.endswith("frequency") and "frequency" not in answers:
        return
    if goal.endswith("mean") and not {"mean", "mass"} & set(answers):
        return
    plan, base, values = every_report(name)
    shift = gain(plan, 40 / 4040, ["0"], goal, tally=base).shifts[0]
    change = shift.frequency if goal.endswith("frequency") else shift.mean or shift.mass
    tried = objective(plan, goal, values)
    best = (1 if goal.startswith("raise") else -1) * change.after
    one_cell = plan.layout.one_cell
    assert np.nanmax(tried) <= best + 1e-6
    if one_cell and len(possible_cores(plan)) == 1 and not is_pooled(plan):
        assert best <= np.nanmax(tried) + 1e-6


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(
    "name",
    ["kvue", "kvoh", "graded", "optimal", "pairs", "grr", "rappor", "collision", "coco", "pckv_ue"],
)
def test_planted_fakes_move_the_answers_as_said(name, attack):
    """Honest people and drawn fakes, tallied together: within the fakes' own noise (5 sigma)."""
    plan = plan_of(name, 4, 2, **SMALL.get(name, {}))
    base, fakes, goal = honest_tally(plan), 2000, GOALS[0]
    shift = gain(plan, fakes / 22_000, ["1"], goal, attack, tally=base).shifts[0]
    planted = fake_tally(plan, fakes, ["1"], goal, attack, coins=COINS, tally=base)
    assert planted.reports == fakes
    after = plan.mechanism.moments(plan, (base + planted).counts)
    spread = np.sqrt(after.covariance[1, 0, 0] * fakes / 22_000)
    assert after.values[1, 0] == pytest.approx(shift.frequency.after, abs=5 * spread + 0.01)
    assert abs(shift.frequency.shift) > 5 * spread or attack != "crafted"


def test_planted_fakes_raise_a_mean():
    plan = plan_of("graded", 5, 2)
    base = honest_tally(plan)
    shift = gain(plan, 0.05, ["2"], "lower-mean", tally=base, views="drawn").shifts[0]
    planted = fake_tally(plan, 1053, ["2"], "lower-mean", coins=COINS, tally=base, views="drawn")
    frequency, mass = plan.mechanism.moments(plan, (base + planted).counts).values[2]
    assert shift.mean.shift < -0.05
    assert mass / frequency == pytest.approx(shift.mean.after, abs=0.03)


def test_a_subset_marks_exactly_so_many_positions():
    """Sets of 8 of 27 states: no random set does better than the crafted one."""
    channel = Subset.of(27, Decimal(1), 8)
    assert not channel.one_cell
    schema = Schema.of(3).at(2)
    plan = Plan(schema, Views.whole(3), "views", (channel,), Decimal(1), "triples")
    draw = np.random.default_rng(2)
    rows = []
    for _ in range(300):
        counts = np.zeros(28, np.int64)
        counts[0] = 1
        counts[1 + draw.choice(27, 8, replace=False)] = 1
        rows.append(counts)
    decoder = channel.decoder(lifted(key_weights(schema), (1,), (0, 1, 2), 2))[:, 0]
    tried = np.roll(np.array(rows), -1, axis=1) @ decoder  # marks first, then the report itself
    best = gain(plan, 0.01, ["1"], frequency=0.0).shifts[0].frequency.shift
    assert 0.01 * tried.max() <= best + 1e-9
    even = gain(plan, 0.01, ["1"], attack="random", frequency=0.0).shifts[0].frequency.shift
    assert even == pytest.approx(0.01 * tried.mean(), abs=0.01 * 4 * tried.std() / 17)
    planted = fake_tally(plan, 50, ["1"], coins=COINS)
    assert planted.counts[1:].sum() == 8 * 50
    assert np.roll(planted.counts, -1) @ decoder / 50 == pytest.approx(best / 0.01)


# -- properties --------------------------------------------------------------------------------------


def test_more_fakes_move_more_and_none_move_nothing():
    plan = plan_of("kvoh", 6)
    moved = [gain(plan, share, ["0"]).shifts[0].frequency.shift for share in (0, 0.001, 0.01, 0.1)]
    assert moved[0] == 0
    assert moved == sorted(moved)
    up, down = (gain(plan, 0.01, ["0"], goal).shifts[0].mean for goal in ("raise-mean", "lower-mean"))
    assert up.shift == pytest.approx(-down.shift)  # the stated mean is in the middle


def test_seeds_that_are_assigned_leave_less():
    plan = plan_of("collision", 50, pool=256)
    free, given = (gain(plan, 0.01, ["0", "1", "2"], seeds=s).shifts for s in ("chosen", "assigned"))
    assert sum(s.frequency.shift for s in free) > 1.5 * sum(s.frequency.shift for s in given)


def test_means_are_on_the_key_s_own_scale():
    schema = Schema.of(["Pepsi", "Fries"], 1, 5)
    shift = gain(Plan.of(schema, "kvue", 1), 0.01, ["Fries"], "raise-mean", views="drawn").shifts[0]
    unit = gain(
        Plan.of(Schema.of(["Pepsi", "Fries"]), "kvue", 1), 0.01, ["Fries"], "raise-mean", views="drawn"
    ).shifts[0]
    assert shift.mean.before == 3
    assert shift.mean.shift == pytest.approx(2 * unit.mean.shift)


def test_fakes_needed_is_the_inverse_of_gain():
    plan = plan_of("kvue", 20)
    needed = fakes_needed(plan, "3", by=0.05, people=1e5, views="drawn")
    assert gain(plan, needed.share, ["3"], views="drawn").shifts[0].frequency.shift == pytest.approx(
        0.05, rel=1e-4
    )
    assert needed.fakes == pytest.approx(1e5 * needed.share / (1 - needed.share))
    assert fakes_needed(plan, "3", by=9.0, views="drawn").share == inf
    need = fakes_needed(plan, "3", people=1e5, views="drawn")
    assert need.by == pytest.approx(standard_error(plan, 3, GOALS[0], 1e5))
    tally = honest_tally(plan)
    by_tally = fakes_needed(plan, "3", "raise-mean", tally=tally, views="drawn")
    assert by_tally.by == pytest.approx(standard_error(plan, 3, "raise-mean", 0, tally))
    assert 0 < by_tally.share < 0.2


def test_reach_undoes_what_gain_does():
    """Honest answers, then fakes: the honest ones lie at the end of the range, chance left out."""
    plan = plan_of("kvue", 5, 2)
    base = honest_tally(plan)
    planted = fake_tally(plan, 2222, ["0"], coins=COINS, tally=base, views="drawn")
    honest = plan.mechanism.moments(plan, base.counts).values[0, 0]
    limits = reach(plan, base + planted, 0.1, ["0"], level=1e-6)[0]
    assert limits.frequency[0] == pytest.approx(honest, abs=0.02)
    wide = reach(plan, base + planted, 0.1, ["0"])[0]
    assert wide.frequency[0] < limits.frequency[0] < limits.frequency[1] < wide.frequency[1]
    assert limits.frequency[1] > plan.mechanism.moments(plan, (base + planted).counts).values[0, 0]
    assert -1 <= limits.mean[0] < limits.mean[1] <= 1
    free = reach(plan, base + planted, 0.3, ["0"], views="chosen")[0]
    assert free.frequency == (-inf, inf)  # a fifth of the reports speak of the key: all may be fake
    assert free.document()["frequency"] == [None, None]
    assert len(reach(plan, base, 0.01)) == 5


def test_every_mechanism_is_compared_or_says_why_not():
    names = [name for name in REGISTRY if name != "triples"]  # its channel takes seconds to choose
    rows = {row.mechanism: row for row in compare_gains(Schema.of(4), 1, 0.01, names)}
    assert list(rows) == names
    for name, row in rows.items():
        if row.reason:
            assert name in NOT_OFFERED
            continue
        shift = row.frequency if row.frequency is not None else row.mean
        assert shift > 0
        assert row.fakes > 0
        assert row.document()["mechanism"] == name


def test_later_rounds_of_a_chain_are_not_offered():
    plan = Plan.of(Schema.of(3), "privkvm", 1, rounds=3)
    after = plan.next(honest_tally(plan))
    assert gain(plan, 0.01, ["0"]).shifts[0].frequency.shift > 0
    with pytest.raises(PlanError, match="not offered"):
        gain(after, 0.01, ["0"])


def test_the_line_is_one_sentence():
    sentence = line(plan_of("kvue", 100), 0.01)
    assert sentence.startswith(
        "if 1 % of all clients are fake, they can raise a key's frequency from 0.3 to 0.944"
    )
    assert (
        " or its mean from 0 to 1; if they draw view and seed as honest clients do, to 0.313 or 0.0878 "
        in sentence
    )
    assert "mass" in line(plan_of("meanest", 5))
    assert "\n" not in line(plan_of("sized", 5))


def test_the_line_speaks_of_keys_as_they_are_expected():
    prior = Prior.of(100, held=3, mean=0.4)
    frequency, mean = average_key(prior)
    assert (frequency, mean) == (pytest.approx(0.03), pytest.approx(0.4, abs=1e-3))
    plan = plan_of("kvue", 100)
    shift = gain(plan, 0.01, ["0"], frequency=frequency, mean=mean).shifts[0].frequency
    sentence = line(plan, 0.01, "both", prior)
    assert f"frequency from 0.03 to {shift.after:.3g} or its mean from 0.4 to 1" in sentence
    assert "from 0.03 to" in line(plan_of("pairs", 10), 0.01, "conditional", Prior.of(10, held=0.3))


def test_the_line_ends_where_answers_end():
    """What the tally would say of the frequency is far above 1."""
    plan = Plan.of(Schema.of(100, 1, 5), "kvue", "0.2")
    assert gain(plan, 0.01, ["0"]).shifts[0].frequency.after > 2
    assert "frequency from 0.3 to 1;" in line(plan, 0.01, "frequency")
    assert "mean from 3 to 5;" in line(plan, 0.01, "mean")


@pytest.mark.parametrize("ask", ["frequency", "mean"])
def test_the_line_speaks_of_what_is_asked(ask):
    sentence = line(plan_of("kvue"), 0.01, ask)
    assert f"a key's {ask} from" in sentence
    assert ("mean" in sentence) == (ask == "mean")


def test_the_line_speaks_of_conditionals():
    assert "a conditional frequency from 0.3 to" in line(plan_of("pairs"), 0.01, "conditional")
    plan = plan_of("workload", 6, queries="frequency(5); mean(3 | 4, !5)")
    assert "raise mean(3 | 4, !5) from 0 to" in line(plan, 0.01, "conditional")
    lift = plan_of("workload", 6, queries="lift(3 | 4)")
    assert "raise frequency(3 | 4) from 0.3 to" in line(lift, 0.01, "conditional")
    sentence = line(plan_of("pair_collision", 6), 0.01, "conditional")
    assert "not offered: it leans on" in sentence
    assert "\n" not in sentence


def test_mixtures_of_reports_bring_a_denominator_to_nothing():
    points = np.array([[0.5, 0.2], [0.1, 0.05], [-0.3, 0.4]])
    assert largest_ratio(points[:2]) == 0.5
    assert largest_ratio(points) > 1e6, "two reports in turn leave a numerator over nothing"
    assert largest_ratio(np.array([[0.5, 0.2], [-0.5, -0.4]])) == 0.4, (
        "there the numerator is below zero"
    )


@pytest.mark.parametrize("views", ["chosen", "drawn"])
@pytest.mark.parametrize(
    ("name", "words", "parameters"),
    [
        ("pairs", "frequency(0 | 1)", {}),
        ("pairs", "mean(2 | 1)", {"channel": "grr"}),
        ("workload", "mean(0 | 1, !2)", {"queries": "mean(0 | 1, !2)", "channel": "grr"}),
        ("split", "frequency(0 | !1)", {}),
    ],
)
def test_a_conditional_is_raised_by_the_best_of_all_reports(name, words, parameters, views):
    """Every output in turn, added to a tally without noise and decoded by the estimator itself."""
    plan = Plan.of(Schema.of(3, 1, 5), name, 2, **parameters)
    query, share = Query.parse(words), 0.01
    honest = expected_tally(plan, lambda keys: independent_law(plan.schema.levels, len(keys)))
    target, given = query.places(plan.schema)
    held = {target, *(place for place, _ in given)}
    view = next(v for v, keys in enumerate(plan.views.keys) if held <= set(keys))
    part = 1.0 if views == "chosen" else float(plan.views.shares[view])
    fakes, channel = int(MANY * share / (1 - share) * part), plan.view_channels[view]
    reached = []
    for cell in np.flatnonzero(channel.possible):
        tally = Tally(plan, honest.counts.copy())
        own = int(plan.layout.own[view])
        tally.counts[[own, own + 1 + cell]] += fakes
        reached.append(Conditionals(plan, tally, "single_view").answer(query).estimate.value)
    change = raised_conditional(plan, share, query, views=views)
    ends = (1.0, 5.0) if query.kind == "mean" else (0.0, 1.0)
    assert change.after == pytest.approx(min(max(reached), ends[1]), rel=1e-6)
    plain = Conditionals(plan, honest, "single_view").answer(query).estimate.value
    assert change.before == pytest.approx(plain, rel=1e-6)
    assert change.after > change.before


def test_documents_have_no_nan():
    plan = plan_of("kvue", 3)
    result = gain(plan, 0.01, ["0"], "raise-mean", frequency=0.0)
    assert isnan(result.shifts[0].mean.before)
    assert result.document()["shifts"][0]["mean"]["before"] is None
    assert fakes_needed(plan, "0", by=9.0, views="drawn").document()["share"] is None


def test_collision_worths_are_those_of_its_estimator():
    """Seed by seed and cell by cell: what one report alone is decoded to."""
    plan = plan_of("collision", 3, 2, pool=16, cap=2)
    channel = plan.channels[0]
    assert isinstance(channel, Collision)
    counts = np.zeros((channel.cells, channel.cells + 1), np.int64)
    counts[:, 0] = 1
    counts[np.arange(channel.cells), 1 + np.arange(channel.cells)] = 1
    decoded = plan.mechanism.moments(plan, counts).values[:, 1, 0]
    assert core_of(plan, Tally(plan, counts[0])) == 0  # one report alone has its collisions left in
    options, before = PossibleReports.of(plan, [1], core=0), np.zeros((1, 2))
    for seeds, most in (
        ("chosen", decoded.max()),
        ("assigned", decoded.reshape(16, -1).max(axis=1).mean()),
    ):
        values = attacked(plan, options, before, Attack(0.01, seeds=seeds)).values
        assert values[0, 0] == pytest.approx(0.01 * most, rel=1e-9)


@pytest.fixture
def files(tmp_path):
    plan = Plan.of(Schema.of(["Pepsi", "Fries", "Salad"], 1, 5), "kvue", 1)
    plan.save(tmp_path / "plan.json")
    people = People.of_records(plan.schema, [{"Pepsi": 4.0}, {"Fries": 2.0, "Salad": 5.0}] * 2000)
    tally = Tally(plan).add(plan.privatise(people, COINS))
    tally.save(tmp_path / "tally.kv")
    return plan, tally, str(tmp_path / "plan.json"), str(tmp_path / "tally.kv")


def test_the_command_says_the_same(files, capsys):
    plan, tally, plan_path, tally_path = files
    words = ["poison", plan_path, tally_path, "--target", "Pepsi", "--fakes", "0.02", "--views", "drawn"]
    assert run([*words, "--goal", "raise-mean", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    result = gain(plan, 0.02, ["Pepsi"], "raise-mean", tally=tally, views="drawn")
    assert document["gains"] == [result.document()]
    needed = fakes_needed(plan, "Pepsi", "raise-mean", tally=tally, views="drawn")
    assert document["one_standard_error"] == [needed.document()]
    assert run(["poison", plan_path]) == 0
    out = capsys.readouterr().out
    assert "each key alone" in out
    assert all(key in out for key in plan.schema.keys)
    assert run([*words, "--attack", "random"]) == 0
    assert "random" in capsys.readouterr().out


def test_the_command_compares_and_draws(files, capsys, tmp_path, monkeypatch):
    """A few mechanisms are enough."""
    monkeypatch.setattr(
        "keyveil.trust.poison.attack_summary.REGISTRY",
        {n: REGISTRY[n] for n in ("kvue", "harmony", "sized")},
    )
    picture = tmp_path / "gains.svg"
    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    assert run(["poison", files[2], "--compare", "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "kvue" in out
    assert "sized: what fakes could do to sized is not offered" in out
    drawn = re.findall(r"<text[^>]*>([^<]+)</text>", picture.read_text())
    keys = len(Plan.load(files[2]).schema.keys)
    assert f"What 1 % of all clients add to one of {keys} keys if they are fake, epsilon 1" in drawn
    assert {"0.01", "0.1"} <= set(drawn), "numbers as people write them"
    assert run(["poison", files[2], "--compare", "--json"]) == 0
    assert [row["mechanism"] for row in json.loads(capsys.readouterr().out)] == [
        "kvue",
        "harmony",
        "sized",
    ]


@pytest.mark.parametrize(
    "wrong",
    [["--fakes", "1"], ["--fakes", "x"], ["--target", "Cola"], ["--plot", "a.png"], ["--mean", "6"]],
)
def test_the_command_refuses_in_one_line(files, capsys, wrong):
    assert run(["poison", files[2], *wrong]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"share": 1.0},
        {"share": -0.1},
        {"goal": "destroy"},
        {"attack": "clever"},
        {"targets": []},
        {"targets": ["0", "0"]},
        {"frequency": 2.0},
        {"seeds": "none"},
        {"views": "all"},
    ],
)
def test_bad_input_is_one_line(wrong):
    given = {"share": 0.01, "targets": ["0"], **wrong}
    with pytest.raises(PlanError) as caught:
        gain(plan_of("kvue"), **given)
    assert "\n" not in str(caught.value)


def test_an_unknown_target_is_named_with_a_hint():
    with pytest.raises(QueryError, match="did you mean"):
        gain(Plan.of(Schema.of(["Pepsi", "Fries"]), "kvue", 1), 0.01, ["Pepsy"])


def test_a_key_without_reports_may_be_anywhere():
    plan = Plan.of(Schema.of(3, 1, 5), "kvue", 1)
    tally = Tally(plan)
    counts = tally.counts.copy()
    counts[: 2 * len(counts) // 3] = 10  # of two keys alone
    limits = reach(plan, Tally(plan, counts), 0.01)
    assert limits[2].frequency == limits[2].mean == (-np.inf, np.inf)
    assert np.isfinite(limits[0].frequency).all()
