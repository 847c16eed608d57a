"""Fake clients: nothing they send does more than `poison` says, and no range forgets chance."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

from keyveil import REGISTRY, Coins, People, Plan, Schema, Tally
from keyveil.channel import Halfspace, Symbols
from keyveil.estimate import KeyBands, bands, first_estimator
from keyveil.trust.health import check_views
from keyveil.trust.poison import GOALS, gain, reach, repair
from keyveil.trust.poison.averaged_attack import is_pooled
from keyveil.trust.poison.fakes import fake_tally
from keyveil.trust.poison.influence import possible_cores
from keyveil.trust.poison.reach import ShiftSource

COINS = Coins.stated("attacks of fakes")
NOT_OFFERED = ("sized", "size", "sign", "parts")
SMALL = {
    "triples": {"channel": "grr"},
    "collision": {"pool": 16, "cap": 2},
    "coco": {"pool": 16, "cap": 2},
    "pair_collision": {"pool": 16, "cap": 2},
    "shist": {"rows": 16},
}


def plan_of(name: str, keys: int, epsilon: float, **parameters: object) -> Plan:
    schema = Schema.of(keys)
    return Plan.of(schema, name, epsilon, **{**REGISTRY[name].example(schema), **parameters})


@cache
def people_of(keys: int, count: int, share: float = 0.4) -> People:
    draw = np.random.default_rng(5)
    held = draw.random((count, keys)) < share
    values = np.clip(draw.normal(0.3, 0.4, held.shape), -1, 1)
    records = [{str(k): float(values[i, k]) for k in np.flatnonzero(held[i])} for i in range(count)]
    return People.of_records(Schema.of(keys), records)


@cache
def honest_tally(plan: Plan, count: int, times: int = 1) -> Tally:
    """A tally of so many people, each of them ``times`` over."""
    tally = Tally(plan).add(plan.privatise(people_of(len(plan.schema.keys), count), COINS))
    return Tally(plan, tally.counts * times)


# -- the worst case --------------------------------------------------------------------------------


def every_report(plan: Plan) -> np.ndarray:
    """The cells of every report that a collector takes, a row of marks each."""
    layout, rows = plan.layout, []
    for view, own in enumerate(layout.own):
        channel = layout.channels[view]
        if channel.one_cell:
            marks = [[cell] for cell in np.flatnonzero(channel.possible)]
        else:
            assert isinstance(channel, Symbols | Halfspace)
            places = channel.positions if isinstance(channel, Symbols) else channel.cells
            shown = channel.alphabet if isinstance(channel, Symbols) else 2
            symbols = np.indices((shown,) * places).reshape(places, -1).T
            marks = [np.flatnonzero(s) * (shown - 1) + s[s > 0] - 1 for s in symbols]
        for each in marks:
            row = np.zeros(layout.cells, np.int64)
            row[own] = 1
            row[own + 1 + np.array(each, np.int64)] = 1
            rows.append(row)
    return np.array(rows)


def best_of(plan: Plan, goal: str, counts: np.ndarray) -> float:
    """The best that any of these tallies does for a goal on key 0, by the plan's own estimator."""
    return best_in(plan, goal, bands(plan, counts, first_estimator(plan)))


def best_in(plan: Plan, goal: str, estimates: KeyBands) -> float:
    part = "frequency" if goal.endswith("frequency") else "mean"
    part = part if part in plan.mechanism.answers else "mass"
    values = np.clip(getattr(estimates, part).value[..., 0], *((-1, 1) if part == "mean" else (-9, 9)))
    return float(np.nanmax(values if goal.startswith("raise") else -values))


def claimed(plan: Plan, goal: str, base: Tally, share: float, views: str = "chosen") -> float:
    shift = gain(plan, share, ["0"], goal, tally=base, views=views).shifts[0]
    change = shift.frequency if goal.endswith("frequency") else shift.mean or shift.mass
    return change.after if goal.startswith("raise") else -change.after


def goals_of(name: str) -> list[str]:
    answers = REGISTRY[name].answers
    goals = [goal for goal in GOALS[:2] if "frequency" in answers]
    return goals + [goal for goal in GOALS[2:] if {"mean", "mass"} & set(answers)]


@pytest.mark.parametrize("name", [n for n in REGISTRY if n not in NOT_OFFERED])
def test_no_report_that_can_be_sent_goes_beyond_the_worst_that_is_claimed(name):
    """Every report there is, 5 % of all, beside people without noise; by the plan's first estimator."""
    keys = 2 if name in ("ioh", "ioh_optimal", "signed_ue") else 3
    plan = plan_of(name, keys, 1, **SMALL.get(name, {}))
    base = honest_tally(plan, 2000, 1000)
    fakes = round(base.reports * 0.05 / 0.95)
    estimates = bands(plan, base.counts + fakes * every_report(plan), first_estimator(plan))
    exact = not is_pooled(plan) and len(possible_cores(plan)) == 1
    for goal in goals_of(name):
        worst, most = claimed(plan, goal, base, 0.05), best_in(plan, goal, estimates)
        assert most <= worst + 1e-6, goal
        if exact:
            assert worst <= most + 1e-5, goal


def test_mixtures_of_reports_do_no_better_among_pooled_views():
    """Pooled answers are not linear: mixtures of reports over views and outputs, many of them drawn."""
    plan = plan_of("pairs", 3, 1)
    base = honest_tally(plan, 2000, 1000)
    reports, draw = every_report(plan), np.random.default_rng(3)
    fakes = base.reports * 0.05 / 0.95
    single = [base.counts + round(fakes) * row for row in reports]
    alone = bands(plan, np.array(single), first_estimator(plan)).frequency.value[:, 0]
    for goal, sign in zip(GOALS[:2], (1, -1), strict=True):
        worst = claimed(plan, goal, base, 0.05)
        order = np.argsort(sign * alone)[-8:]
        laws = [draw.dirichlet(np.full(8, size), 30) for size in (0.1, 0.3, 1.0)]
        numbers = np.floor(fakes * np.concatenate(laws)).astype(np.int64)  # whole reports, none too many
        mixed = base.counts + numbers @ reports[order].astype(np.int64)
        assert best_of(plan, goal, mixed) <= worst + 1e-6


def test_the_worst_of_pooled_views_is_reached_by_what_is_sent():
    """The claim is no larger than what the estimator makes of the very fakes that are sent."""
    plan = plan_of("pairs", 4, 1)
    base = honest_tally(plan, 2000, 1000)
    fakes = round(base.reports * 0.05 / 0.95)
    for views in ("chosen", "drawn"):
        for goal in GOALS[:2]:
            extra = fake_tally(plan, fakes, ["0"], goal, coins=COINS, tally=base, views=views)
            reached = best_of(plan, goal, (base + extra).counts[None])
            assert reached == pytest.approx(claimed(plan, goal, base, 0.05, views), abs=0.01)


# -- the range of honest answers -------------------------------------------------------------------

RUNS, PEOPLE = 60, 10_000
ALARM = 1e-4
"""How often a test of coverage may fail although every range covers at its level."""


@cache
def covered(name: str, share: float, level: float, tilt: int = 0) -> tuple[int, int]:
    """Of how many ranges, and in how many of them the truth lies, with fakes that aim at key 0.

    So many of the fakes as ``tilt`` says choose their view, the others draw it.
    """
    plan = plan_of(name, 8, 1, **({"pool": 128} if name == "collision" else {}))
    crowd = people_of(8, 2000, 0.15)
    held = np.bincount(crowd.keys, minlength=8) / len(crowd)
    means = np.bincount(crowd.keys, crowd.values, 8) / np.bincount(crowd.keys, minlength=8)
    draw, inside, fakes = np.random.default_rng(11), 0, round(share * PEOPLE)
    extras = [
        fake_tally(plan, count, ["0"], goal, coins=COINS, frequency=0.15, mean=0.3, views=views)
        for goal in (GOALS[0], GOALS[2])
        for count, views in ((fakes - tilt, "drawn"), (tilt, "chosen"))
    ]
    for run in range(RUNS):
        rows = draw.integers(0, len(crowd), PEOPLE - fakes)
        people = crowd.chosen(rows, np.arange(len(rows), dtype=np.int64))
        tally = Tally(plan).add(plan.privatise(people, COINS.under(f"{name} {run}")))
        first = 2 * (run % 2)
        tally = tally + extras[first] + extras[first + 1]
        views = "chosen" if check_views(plan, tally).suspicious else "drawn"
        limits = reach(plan, tally, share, ["0"], views=views, level=level)[0]
        parts = zip((limits.frequency, limits.mean), (held[0], means[0]), strict=True)
        inside += sum(low - 1e-9 <= truth <= high + 1e-9 for (low, high), truth in parts)
    return 2 * RUNS, inside


@pytest.mark.parametrize("share", [0.0, 0.05])
@pytest.mark.parametrize("name", ["kvue", "pairs", "pckv_grr", "collision"])
def test_the_range_holds_the_truth_at_its_level(name, share):
    """Adaptive fakes or none: at 95 % no fewer than chance leaves, once in 10,000 tests."""
    many, inside = covered(name, share, 0.95)
    assert inside >= stats.binom.ppf(ALARM, many, 0.95)


@pytest.mark.parametrize(("name", "tilt"), [("kvue", 80), ("kvue", 110), ("pairs", 60)])
def test_the_range_holds_where_fakes_choose_their_view_and_no_check_sees_it(name, tilt):
    """A few more than drawn in one view are below the alarm of ``views``, and many among its reports."""
    many, inside = covered(name, 0.05, 0.95, tilt)
    assert inside >= stats.binom.ppf(ALARM, many, 0.95)


def test_fakes_are_no_more_than_their_views_leave_room_for():
    """With all people of the world the room is the share itself; with few it is wider."""
    plan = plan_of("kvue", 8, 1)
    widths = []
    for times in (1, 100, 1_000_000):
        first = honest_tally(plan, 2000, times).counts[:4]
        base = Tally(plan, np.tile(first, 8))  # every view alike
        low, high = reach(plan, base, 0.05, ["0"])[0].frequency
        widths.append(high - low)
    source = ShiftSource.of(plan, base, 0, plan.mechanism.moments(plan, base.counts))
    low, high = source.ranges(plan, 0, source.drawn(0.05), 0.95)["frequency"]
    assert widths[0] > 1.5 * widths[1] > 1.5 * widths[2]
    assert widths[2] == pytest.approx(high - low, rel=0.02)


def test_a_range_without_chance_is_caught():
    """The broken twin: the same ranges with no room for sampling error."""
    many, inside = covered("kvue", 0.0, 1e-6)
    assert inside < stats.binom.ppf(ALARM, many, 0.95)
    many, inside = covered("kvue", 0.05, 1e-6)
    assert inside < stats.binom.ppf(ALARM, many, 0.95)


# -- repair ----------------------------------------------------------------------------------------


@cache
def repaired(name: str, runs: int) -> tuple[int, int, list[float], list[float]]:
    """How many ranges hold the truth, how many the share of fakes, and errors after and before.

    One client in twenty is fake, and all of these choose the view or seed that serves them best.
    """
    plan = plan_of(name, 8, 1, **({"pool": 128} if name == "collision" else {}))
    crowd = people_of(8, 2000, 0.15)
    truth = float(np.bincount(crowd.keys, minlength=8)[0] / len(crowd))
    draw, inside, shares, off, before = np.random.default_rng(12), 0, 0, [], []
    fakes = fake_tally(plan, 2000, ["0"], coins=COINS, frequency=0.15)
    for run in range(runs):
        rows = draw.integers(0, len(crowd), 38_000)
        people = crowd.chosen(rows, np.arange(len(rows), dtype=np.int64))
        tally = fakes + Tally(plan).add(plan.privatise(people, COINS.under(f"{name} {run}")))
        result = repair(plan, tally, ["0"])
        assert result.left_out
        shares += result.fakes[1] <= 0.05 <= result.fakes[2]
        value, low, high = result.keys[0].frequency
        inside += low <= truth <= high
        off.append(value - truth)
        before.append(plan.mechanism.moments(plan, tally.counts).values[0, 0] - truth)
    return int(inside), int(shares), off, before


@pytest.mark.parametrize("name", ["pairs", "collision", "kvue"])
def test_answers_are_repaired_where_fakes_chose(name):
    """Without the views or seeds that are met too often the truth lies in its range again."""
    runs = 40
    inside, shares, off, before = repaired(name, runs)
    assert min(inside, shares) >= stats.binom.ppf(ALARM, runs, 0.95)
    if name == "kvue":  # no other view speaks of the key: a range is all that can be known
        assert np.isnan(off).all()
    else:
        assert abs(np.mean(off)) < 0.2 * abs(np.mean(before))
        assert abs(np.mean(off)) < 5 * np.std(off) / np.sqrt(runs), "and without bias"


@pytest.mark.parametrize("name", ["kvue", "pairs", "collision", "grr"])
def test_honest_tallies_need_no_repair(name):
    plan = plan_of(name, 6, 1, **({"pool": 128} if name == "collision" else {}))
    result = repair(plan, honest_tally(plan, 2000))
    assert result.left_out == ()
    assert result.fakes == (0.0, 0.0, 0.0)
    ranges = reach(plan, honest_tally(plan, 2000), 0.0)
    for key, plain in zip(result.keys, ranges, strict=True):
        assert key.kept == 1.0
        assert key.frequency[1:] == pytest.approx(plain.frequency)
