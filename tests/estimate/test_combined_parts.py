"""Answers of plans of parts: combined estimates, side questions, conditionals, forecasts, simulation."""

from __future__ import annotations

import numpy as np
import pytest

from keyveil import Coins, People, Plan, PlanError, Schema, Tally, estimate
from keyveil.estimate import bands, estimators_of
from keyveil.estimate.combined_parts import combined
from keyveil.estimate.decoding import moments_of
from keyveil.estimate.forecast.key_forecast import forecast
from keyveil.estimate.forecast.pair_forecast import forecast_pairs
from keyveil.estimate.linear import Moments
from keyveil.estimate.side import side_information
from keyveil.estimate.together.conditional import Conditionals
from keyveil.people.population import Population
from keyveil.people.prior import Prior
from keyveil.people.size_buckets import bucket_shares
from keyveil.plan.plan_parts import part_counts
from keyveil.planner.outlook import outlook
from keyveil.simulate import simulate, simulate_runs
from keyveil.testing import ideal_tally, report_law

SCHEMA = Schema.of(6)
LISTS = {
    "side": "collision:pool=64+cap=3/sign@0.2/size@0.2",
    "mixed": "kvue/graded@0.3/rr@0.3",
    "pairs": "pairs/sign@0.25",
    "mass": "harmony/rr@0.5",
    "bits": "pckv_ue:length=3/sign@0.25/kvue@0.25",
}
PLANS = {name: Plan.of(SCHEMA, "parts", 1, parts=listed) for name, listed in LISTS.items()}


def population(most: int = 3) -> Population:
    """Few records, of at most ``most`` keys, with values in all of [-1, 1]."""
    draw = np.random.default_rng(5)
    records = [
        {str(k): float(draw.uniform(-1, 1)) for k in draw.permutation(6)[: draw.integers(0, most + 1)]}
        for _ in range(40)
    ]
    return Population(SCHEMA, People.of_records(SCHEMA, records))


def truth(people: Population) -> np.ndarray:
    """Frequency and mass of every key, ``(keys, 2)``."""
    laws = np.array([people.at(2).law((key,)) for key in range(6)])
    return np.stack([laws[:, 1] + laws[:, 2], laws[:, 2] - laws[:, 1]], axis=1)


@pytest.mark.sampled
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_estimates_are_unbiased_and_state_their_variance(plan):
    """4 sigma for the mean of 400 tallies, and 30 % for the variance, over all keys."""
    runs, people = 400, population()
    counts = simulate_runs(plan, people, 20_000, Coins.stated("combined"), runs)
    moments, goal = moments_of(plan, counts), truth(people)
    for part in range(2):
        values, stated = moments.values[..., part], moments.covariance[..., part, part]
        if np.isnan(values).all():
            assert "mean" not in plan.mechanism.answers
            continue
        apart = (values.mean(axis=0) - goal[:, part]) / np.sqrt(stated.mean(axis=0) / runs)
        assert np.abs(apart).max() < 4.5
        assert abs(values.var(axis=0).sum() / stated.mean(axis=0).sum() - 1) < 0.15


def test_a_combination_is_better_than_its_best_part():
    plan = PLANS["mixed"]
    tally, _ = ideal_tally(plan, np.full(6, 0.3), np.zeros(6))
    whole = moments_of(plan, tally.counts).covariance
    for own, counts in zip(plan.part_plans, part_counts(plan, tally.counts), strict=True):
        assert (whole[:, 0, 0] < moments_of(own, counts).covariance[:, 0, 0]).all()


def test_the_combination_is_generalised_least_squares_when_keys_are_alike():
    draw = np.random.default_rng(1)
    spreads = [np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[1.0, -0.2], [-0.2, 3.0]])]
    reports = np.full(4, 100)
    values = [draw.normal(size=(4, 2)) for _ in spreads]
    parts = [Moments(reports, v, np.tile(c, (4, 1, 1))) for v, c in zip(values, spreads, strict=True)]
    precision = [np.linalg.inv(c) for c in spreads]
    goal = np.linalg.inv(sum(precision))
    joined = combined(parts)
    assert np.allclose(joined.covariance, goal)
    expected = [goal @ sum(p @ v[k] for p, v in zip(precision, values, strict=True)) for k in range(4)]
    assert np.allclose(joined.values, expected)
    assert joined.reports.tolist() == [200] * 4
    assert joined.together is None


def test_what_one_part_does_not_know_comes_from_the_others():
    reports = np.full(2, 50)
    both = Moments(reports, np.ones((2, 2)), np.tile(np.eye(2), (2, 1, 1)))
    values, spread = np.full((2, 2), np.nan), np.full((2, 2, 2), np.nan)
    values[:, 0], spread[:, 0, 0] = 3.0, 1.0
    joined = combined([both, Moments(reports, values, spread)])
    assert np.allclose(joined.values, [[2.0, 1.0]] * 2)
    assert np.allclose(joined.covariance, np.diag([0.5, 1.0]))
    none = Moments.unknown((), 2)
    assert np.isnan(combined([none, none]).values).all()
    assert np.allclose(combined([both, none]).covariance, both.covariance)


def test_correlated_errors_keep_their_weight():
    reports = np.full(3, 10)
    parts = [
        Moments(reports, np.zeros((3, 2)), np.tile(np.eye(2), (3, 1, 1)), ratio)
        for ratio in (np.array(3.0), None)
    ]
    assert float(combined(parts).together) == pytest.approx(2.0)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["side", "mixed"])
def test_all_general_estimators_answer(name):
    plan = PLANS[name]
    tally = simulate(plan, population(), 50_000, Coins.stated("general"))
    assert {"least_squares", "shrunk", "corrected"} <= set(estimators_of(plan))
    for estimator in estimators_of(plan):
        answers = estimate(plan, tally, estimator)
        assert np.isfinite([answer.frequency.value for answer in answers]).all()
        assert bands(plan, tally.counts[None], estimator).frequency.value.shape == (1, 6)


@pytest.mark.sampled
def test_a_plan_of_side_questions_alone_answers_no_key():
    plan = Plan.of(SCHEMA, "parts", 1, parts="size/sign@0.5")
    tally = simulate(plan, population(), 1000, Coins.stated("alone"))
    assert plan.mechanism.answers == ()
    with pytest.raises(PlanError, match="no part of this plan answers single keys"):
        estimate(plan, tally)
    assert side_information(plan, tally.counts).size.reports > 0


# -- side questions --------------------------------------------------------------------------------


@pytest.mark.sampled
def test_side_questions_are_unbiased_and_state_their_covariance():
    plan, people, runs = PLANS["side"], population(6), 400
    counts = simulate_runs(plan, people, 20_000, Coins.stated("side"), runs)
    side = side_information(plan, counts)
    sizes = bucket_shares(people.sizes, side.size.shares.shape[-1])
    law = people.at(2).drawn(1).sum(axis=0)
    for answer, values, goal in (
        (side.size, side.size.shares, sizes),
        (side.value, side.value.values, np.array([law.sum(), law[1] - law[0]])),
    ):
        noise = answer.covariance.mean(axis=0)
        assert np.abs((values.mean(axis=0) - goal) / np.sqrt(np.diag(noise) / runs)).max() < 4.5
        covariance = np.cov(values.T)
        assert np.abs(covariance - noise).max() < 0.25 * noise.max()
    errors = (side.value.mean - (law[1] - law[0]) / law.sum()) / side.value.stderr
    assert abs(errors.std() - 1) < 0.2
    assert side.size.least.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert np.allclose(side.size.law.sum(axis=-1), 1.0)
    assert side.size.stderr.shape == side.size.shares.shape


def test_a_plan_without_side_questions_has_no_side_information():
    for plan in (PLANS["mixed"], Plan.of(SCHEMA, "kvue", 1)):
        side = side_information(plan, Tally(plan).counts)
        assert side.size is None
        assert side.value is None
    empty = side_information(PLANS["side"], Tally(PLANS["side"]).counts)
    assert np.isnan(empty.value.values).all()
    assert np.isnan(empty.size.shares).all()


@pytest.mark.sampled
def test_side_plans_stand_alone_too():
    plan = Plan.of(SCHEMA, "sized", 1)
    tally = simulate(plan, population(), 5000, Coins.stated("sized"))
    assert side_information(plan, tally.counts).size.shares.sum() == pytest.approx(1.0)


# -- keys together, forecasts, simulation ----------------------------------------------------------


@pytest.mark.sampled
def test_conditionals_come_from_the_part_that_asks_about_pairs():
    plan = PLANS["pairs"]
    tally = simulate(plan, population(), 50_000, Coins.stated("pairs"))
    own, counts = plan.part_plans[0], plan.part_tallies(tally)[0]
    for query in ("frequency(0 | 1)", "mean(2 | 3)"):
        assert Conditionals(plan, tally).answer(query) == Conditionals(own, counts).answer(query)
    with pytest.raises(PlanError, match="does not ask about keys together"):
        Conditionals(PLANS["side"], Tally(PLANS["side"])).answer("frequency(0 | 1)")


def test_conditionals_are_forecast_for_the_people_who_answer_that_part():
    prior, own = Prior.of(6), PLANS["pairs"].part_plans[0]
    whole = forecast_pairs(PLANS["pairs"], 20_000, prior)
    assert np.allclose(whole.covariance[:, 0, 0], forecast_pairs(own, 15_000, prior).covariance[:, 0, 0])
    assert outlook(PLANS["pairs"], 20_000).stderr == pytest.approx(outlook(own, 15_000).stderr)
    assert outlook(PLANS["side"], 20_000) is None
    with pytest.raises(PlanError, match="does not ask about keys together"):
        forecast_pairs(PLANS["side"], 20_000, prior)


def test_the_forecast_is_the_error_of_the_estimates():
    plan, prior = PLANS["mixed"], Prior.of(6)
    predicted = forecast(plan, 10_000, prior)
    parts = [forecast(part.plan, 10_000 * part.share, prior) for part in plan.parts]
    assert all((predicted.frequency <= part.frequency).all() for part in parts)
    alone = Plan.of(SCHEMA, "parts", 1, parts="kvue/sign@0.5")
    half = forecast(alone, 10_000, prior)
    assert np.allclose(half.frequency, forecast(alone.part_plans[0], 5000, prior).frequency)
    shares, means = np.full(6, 0.3), np.full(6, 0.2)
    tally, _ = ideal_tally(plan, shares, means)
    stated = moments_of(plan, tally.counts).covariance[:, 0, 0] * tally.reports / 10_000
    same = Prior.of(6, held=1.8)
    assert np.allclose(
        stated.mean(), float(same.weight @ forecast(plan, 10_000, same).frequency), rtol=0.1
    )


@pytest.mark.sampled
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_simulated_counts_have_the_law_of_the_people(plan):
    """Expected counts of 300 tallies of 2,000 people, 5 sigma a cell; reports of parts vary as drawn."""
    people, runs, many = population(), 300, 2000
    counts = simulate_runs(plan, people, many, Coins.stated("law"), runs)
    law = np.mean([report_law(plan, r) for r in people.people.records(SCHEMA)], axis=0)
    totals = counts[:, plan.layout.code_cells].sum(axis=0)
    sigma = np.sqrt(np.maximum(many * runs * law * (1 - law), 1.0))
    assert np.abs((totals - many * runs * law) / sigma).max() < 5.5
    reports = counts[:, plan.layout.own]
    assert (reports.sum(axis=1) == many).all()
    first = reports[:, : len(plan.part_plans[0].views)].sum(axis=1)
    share = plan.parts[0].share
    assert abs(first.var() / (many * share * (1 - share)) - 1) < 0.4
    single = simulate(plan, people, many, Coins.stated("law"), 1)
    assert single.reports == many
    assert plan.packing.adds_up(single.counts)


def test_weights_do_not_depend_on_the_noise_of_a_key():
    """A key whose variance is estimated too low in one part does not lean to that part."""
    reports, even = np.full(1000, 50), np.tile(np.eye(2), (1000, 1, 1))
    low = even.copy()
    low[0] /= 4
    values = np.ones((1000, 2))
    joined = combined([Moments(reports, 2 * values, low), Moments(reports, 0 * values, even)])
    assert np.allclose(joined.values, 1.0, atol=1e-3)
    assert joined.covariance[0, 0, 0] == pytest.approx((1 / 4 + 1) / 4, rel=1e-2)
