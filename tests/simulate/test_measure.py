"""Mechanisms side by side: rows that say what was measured."""

from __future__ import annotations

import json

import numpy as np
import pytest

from keyveil import Coins, People, Plan, PlanError, Schema
from keyveil.estimate import bands
from keyveil.people.synthetic import gaussian
from keyveil.planner.competitor import competitor_name, parse_competitor
from keyveil.simulate.contest import Contest, left_out_by
from keyveil.simulate.contest_row import measure_errors
from keyveil.simulate.parallel import measure
from keyveil.simulate.planner_ways import all_competitors
from keyveil.simulate.tallies import Population, SetCounts, simulate_runs

pytestmark = pytest.mark.usefixtures("few_draws")  # rows are checked here, not choices


@pytest.fixture(scope="module")
def crowd():
    population = gaussian(12)
    return Population(population.schema, population.people.chosen(np.arange(5000), np.arange(5000)))


def contest(crowd, repetitions=6, **more):
    return Contest(crowd, 20_000, repetitions, Coins.stated("measure"), **more)


@pytest.mark.sampled
def test_rows_are_the_same_whatever_the_number_of_processes(crowd):
    names, epsilons = ["collision:cap=4", "auto"], ["3"]
    serial = measure(contest(crowd, 2), names, epsilons, processes=1)
    parallel = measure(contest(crowd, 2), names, epsilons, processes=2)
    assert [row.document() for row in serial.rows] == [row.document() for row in parallel.rows]
    assert [row.mechanism for row in serial.rows if row.estimator == "best"] == names


@pytest.mark.sampled
def test_a_row_has_what_people_ask_for(crowd):
    """720 errors, whose mean square lies further than this from its forecast with odds below 1e-4."""
    row = measure(contest(crowd, 60), ["kvue"], ["2"], processes=1).rows[0].document()
    for name in ("mechanism", "estimator", "epsilon", "true_epsilon", "mse_frequency", "mse_mean"):
        assert row[name] is not None
    assert row["true_epsilon"] == pytest.approx(2, rel=1e-3)
    assert 0.92 < row["coverage_frequency"] < 0.98
    assert 0.82 < row["predicted_frequency"] / row["mse_frequency"] < 1.25
    assert row["mae_mean"] ** 2 <= row["mse_mean"]


@pytest.mark.sampled
def test_as_published_may_prove_less(crowd):
    tight = measure(contest(crowd), ["privkv"], ["1"], processes=1).rows[0]
    paper = measure(contest(crowd, calibrate="paper"), ["privkv"], ["1"], processes=1).rows[0]
    assert paper.true_epsilon < 0.8 < tight.true_epsilon
    assert paper.mse_frequency > tight.mse_frequency


@pytest.fixture(scope="module")
def everything(crowd):
    """Every competitor at a small epsilon, where errors are largest."""
    return measure(contest(crowd, 2), all_competitors(12), ["0.01"], lenient=True, processes=1)


@pytest.mark.sampled
def test_all_leaves_out_what_cannot_be_had_and_says_so(everything):
    result = everything
    mechanisms = {row.mechanism for row in result.rows}
    assert {"kvue", "privkvm", "pckv_ue", "auto", "rr"} <= mechanisms
    assert mechanisms | {name for name, _ in result.skipped} == set(all_competitors(12))
    alone = next(row for row in result.rows if row.mechanism == "rr")
    assert alone.mse_mean is None


@pytest.mark.sampled
def test_parameters_are_said_with_the_name(crowd):
    row = measure(contest(crowd, 2), ["graded:levels=5"], ["3"], processes=1).rows[0]
    assert (row.mechanism, row.chosen) == ("graded:levels=5", "graded:levels=5")
    assert parse_competitor("pairs:grr") == ("pairs", {"channel": "grr"})
    plan = contest(crowd).plan("pckv_ue", "1")
    assert competitor_name(plan).startswith("pckv_ue:length=")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "said"),
    [("kvueue", "unknown mechanism"), ("graded:levels=77", "between"), ("kvue:depth=2", "no parameter")],
)
def test_what_is_named_wrongly_is_refused(crowd, name, said):
    with pytest.raises(PlanError, match=said):
        measure(contest(crowd, 1), [name], ["1"], processes=1)


@pytest.mark.sampled
def test_nobody_is_refused(crowd):
    with pytest.raises(PlanError, match="at least 1"):
        Contest(crowd, 0, 1, Coins.stated("x"))


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["collision", "coco"])
def test_the_average_law_of_one_record_is_that_records_own(name):
    """A pool small enough that everyone's seed is drawn; coco's dummies make its law an average."""
    schema = Schema.of(4)
    people = People.of_records(schema, [{"0": 1, "2": -1}])
    plan = Plan.of(schema, name, 1, cap=2, pool=2)
    channel = plan.channels[0]
    drawer = SetCounts(plan)
    law = drawer.law(Population(schema, people), 1 << 16, np.random.default_rng(1))
    own = channel.law_of(np.array([1, 4]))
    assert law.ravel() / channel.pool == pytest.approx(own, rel=1e-6)
    other = channel.law_of(np.array([0, 4]))
    assert law.ravel() / channel.pool != pytest.approx(other, rel=1e-6)  # the broken twin


@pytest.mark.sampled
def test_sets_drawn_from_their_average_law_are_unbiased(crowd):
    """40 repetitions: the mean over 12 keys lies within 5 of its standard errors (odds 6e-7)."""
    plan = Plan.of(crowd.schema, "collision", 2, cap=12)
    counts = simulate_runs(plan, crowd, 20_000, Coins.stated("law"), 40)
    assert (counts[:, 0] == 20_000).all()
    assert (counts[:, 1:].sum(axis=1) == 20_000).all()
    frequencies = bands(plan, counts).frequency.value.mean(axis=1)
    truth = contest(crowd).questions.truth["frequency"].mean()
    reach = 5 * frequencies.std(ddof=1) / np.sqrt(40)
    assert abs(frequencies.mean() - truth) < reach
    assert abs(frequencies.mean() - 1.1 * truth) > reach  # the broken twin


# -- what rows say of themselves ---------------------------------------------------------------------


def test_errors_and_their_standard_errors_by_hand():
    """Two repetitions of three keys: a truth and a value are unknown, and one value lies outside."""
    value = np.array([[0.5, np.nan, 9.0], [0.1, 2.0, 9.0]])
    low, high = value - 0.2, value + 0.2
    low[1, 1] = -np.inf
    errors = measure_errors(value, low, high, np.array([0.4, 0.9, np.nan]), 0.0)
    off = np.array([[0.1, 0.5 - 0.9], [-0.3, 0.1]])
    runs = (off**2).mean(axis=1)
    assert errors.runs == pytest.approx(runs)
    assert errors.mse == pytest.approx(runs.mean())
    assert errors.mse_se == pytest.approx(abs(runs[0] - runs[1]) / 2)
    assert errors.mae == pytest.approx(np.abs(off).mean())
    assert errors.coverage == pytest.approx(2 / 3)  # of the three that claim an interval
    assert errors.bounded == pytest.approx(2 / 4)


def test_one_repetition_has_no_standard_error_and_no_key_no_error():
    errors = measure_errors(
        np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 2)), np.array([0.5, 0.5]), 0.0
    )
    assert errors.mse == 0.25
    assert errors.mse_se is None
    none = measure_errors(np.zeros((3, 1)), np.zeros((3, 1)), np.ones((3, 1)), np.array([np.nan]), 0.0)
    assert none.mse is None
    assert none.coverage is None


@pytest.mark.sampled
def test_rows_have_standard_errors_of_every_error(crowd):
    row = measure(contest(crowd), ["kvue"], ["2"], processes=1).rows[0]
    document = row.document()
    for name in ("mse_frequency", "mse_mean", "mae_frequency", "mae_mean"):
        assert 0 < document[f"{name}_se"] < document[name]
    runs = row.runs["mean"]
    assert document["mse_mean_se"] == pytest.approx(runs.std(ddof=1) / np.sqrt(6))


@pytest.mark.sampled
def test_rows_say_what_the_cap_leaves_out(crowd):
    held = np.diff(crowd.people.starts)
    result = measure(
        contest(crowd, 3), ["collision:cap=2", "grr", "kvue", "pckv_ue:length=12"], ["2"], processes=1
    )
    rows = {row.mechanism: row for row in result.rows if row.estimator == "least_squares"}
    cut = np.maximum(held - 2, 0).sum() / held.sum()
    assert rows["collision:cap=2"].left_out == pytest.approx(cut)
    assert rows["grr"].left_out == pytest.approx(np.maximum(held - 1, 0).sum() / held.sum())
    assert rows["collision:cap=2"].bias_from_cap
    assert rows["collision:cap=2"].coverage_frequency < 0.5
    for name in ("kvue", "pckv_ue:length=12"):
        assert not rows[name].bias_from_cap
        assert rows[name].left_out == 0
        assert rows[name].coverage_frequency > 0.8


@pytest.mark.sampled
def test_a_chain_says_what_its_later_plan_leaves_out(crowd):
    row = measure(contest(crowd, 3), ["sized"], ["1"], processes=1).rows[0]
    assert 0 <= row.left_out < 1
    assert row.bias_from_cap == (row.left_out > 0)
    assert left_out_by(contest(crowd).plan("sized", "1"), contest(crowd).table_prior.sizes) == 0


@pytest.mark.sampled
def test_estimators_that_a_mechanism_lacks_are_said_in_its_rows(crowd):
    setup = contest(crowd, 2, estimators=("jackknife", "corrected", "debiased"))
    result = measure(setup, ["kvue", "privkvm", "rr"], ["1"], processes=2)
    reasons = {(row.mechanism, row.estimator): row.skipped for row in result.rows}
    assert reasons == {
        ("kvue", "jackknife"): ("debiased",),
        ("kvue", "corrected"): ("debiased",),
        ("privkvm", "debiased"): ("jackknife", "corrected"),
    }
    assert "has no estimator" in result.skipped["rr", "1"]
    with pytest.raises(PlanError, match="has no estimator 'virtual'"):
        measure(contest(crowd, 2, estimators=("virtual",)), ["kvue", "rr"], ["1"], processes=1)


@pytest.mark.sampled
def test_rows_are_json_without_bare_words(everything):
    result = everything
    json.dumps([row.document() for row in result.rows], allow_nan=False)
    assert {row.mechanism for row in result.rows} >= {"auto", "kvue"}


def test_a_truth_that_was_summed_up_to_a_little_more_than_one_is_held_by_an_interval_that_ends_there():
    ends = np.array([[1.0, 0.0, 1.0]])
    truth = np.array([1.0 + 2e-16, -2e-16, 1.0 - 1e-6])
    assert measure_errors(ends, ends, ends, truth, 0.0).coverage == pytest.approx(2 / 3)


@pytest.mark.sampled
def test_a_corrected_row_is_predicted_too():
    """200 tallies of 12 keys: a standard error of about 3 %."""
    population = gaussian(12)
    crowd = Population(population.schema, population.people.chosen(np.arange(3000), np.arange(3000)))
    contest = Contest(
        crowd, 100_000, 200, Coins.stated("row"), estimators=("corrected", "least_squares")
    )
    rows = {row.estimator: row for row in measure(contest, ["kvue"], ["0.1"], processes=1).rows}
    row, raw = rows["corrected"], rows["least_squares"]
    assert row.predicted_mean / row.mse_mean == pytest.approx(1, abs=0.12)
    assert row.predicted_mean < 0.9 * raw.predicted_mean, "not merely the raw one's"
