"""The error that is forecast: keys of a view that go together, chains, published and shrunk answers."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyveil import Coins, People, Plan, Schema, Tally
from keyveil.estimate import bands
from keyveil.estimate.forecast.by_draws import forecast_by_draws
from keyveil.estimate.forecast.few_reports import effective_reports
from keyveil.estimate.forecast.key_forecast import forecast
from keyveil.estimate.forecast.predicted_error import Forecast, Mixed
from keyveil.estimate.forecast.round_forecast import POINTS, FeedbackForecast, FeedbackRound
from keyveil.mechanisms.designed import cyclic_views
from keyveil.mechanisms.privkv import asked_once
from keyveil.people.prior import Prior
from keyveil.people.synthetic import gaussian, normal_values, of_keys
from keyveil.people.table_sample import MOST_SAMPLED, evenly
from keyveil.simulate.contest import Contest
from keyveil.simulate.parallel import measure
from keyveil.simulate.planner_ways import all_competitors
from keyveil.simulate.tallies import Population, simulate_runs

SHRINK = import_module("keyveil.estimate.shrink.shrinkage")

# -- keys of a view that go together ---------------------------------------------------------------


def friends(people=600, keys=5, levels=4):
    """People who hold most keys or hardly any, all at one end or all at the other."""
    draw = np.random.default_rng(3)
    eager, side = draw.random(people) < 0.4, draw.random(people) < 0.5
    held = draw.random((people, keys)) < np.where(eager, 0.9, 0.1)[:, None]
    places = np.nonzero(held)[1]
    who = np.nonzero(held)[0]
    level = np.where(side[who], levels - 1, 0)
    level = np.where(draw.random(len(who)) < 0.3, draw.integers(0, levels, len(who)), level)
    starts = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
    values = level / (levels - 1) * 2.0 - 1.0
    schema = Schema.of(keys)
    return schema, People(np.arange(people), starts, places.astype(np.uint16), values)


def estimates_of_one_report(plan):
    """What the plan's own estimator says of the first view's keys, for each output of one report alone.

    An array (outputs, places of the view, frequency and mass).
    """
    own, outputs = plan.layout.own[0], plan.channels[0].cells
    counts = np.zeros((outputs, plan.layout.cells), np.int64)
    counts[:, own] = 1
    counts[np.arange(outputs), own + 1 + np.arange(outputs)] = 1
    return plan.mechanism.moments(plan, counts).values[:, list(plan.views.keys[0])]


@pytest.mark.parametrize(
    ("name", "size", "levels", "epsilon"),
    [("several", 2, 4, 5), ("several", 2, 4, 3), ("several_rr", 2, 1, 3), ("several_rr", 3, 1, 5)],
)
def test_views_of_a_table_are_forecast_at_the_law_that_the_table_has(name, size, levels, epsilon):
    """Every output of every view, with its chance counted from the table and the estimate it gives."""
    schema, people = friends()
    prior = Prior.of_people(schema, people)
    plan = Plan.of(schema, name, epsilon, keys=size)
    crowd, channel = Population(schema, people, levels), plan.channels[0]
    width = 1 if levels == 1 else 2
    estimates = estimates_of_one_report(plan)[..., :width]
    truth = np.stack([prior.frequency, prior.frequency * prior.mean], axis=1)[:, :width]
    square, count = np.zeros((5, width, width)), np.zeros(5)
    for view in plan.views.keys:
        chances = crowd.law(view) @ channel.expected()
        for place, key in enumerate(view):
            assert chances @ estimates[:, place] == pytest.approx(truth[key], abs=1e-9), "unbiased"
            square[key] += np.einsum("c,ci,cj->ij", chances, estimates[:, place], estimates[:, place])
            count[key] += 1
    by_hand = square / count[:, None, None] - truth[:, :, None] * truth[:, None, :]
    covariance = forecast(plan, 5000, prior).covariance[:, :width, :width]
    assert covariance == pytest.approx(by_hand / effective_reports(5000, size / 5), rel=1e-6)
    if name == "several":  # what one tells of presence alone does not depend on the others
        apart = forecast(plan, 5000, replace(prior, sample=None)).covariance
        assert not np.allclose(apart, covariance, rtol=0.01, atol=0), "the broken twin"


def all_or_nothing(keys=20, people=1000, share=0.5):
    """People of whom so many hold all keys, and the others none."""
    draw, schema = np.random.default_rng(5), Schema.of(keys)
    held = np.where(draw.random(people) < share, keys, 0)
    places = np.tile(np.arange(keys), held.sum() // keys).astype(np.uint16)
    values = np.clip(draw.normal(0.2, 0.5, len(places)), -1, 1)
    starts = np.concatenate([[0], np.cumsum(held)])
    return schema, People(np.arange(people), starts, places, values)


@pytest.mark.sampled
@pytest.mark.parametrize(("size", "levels"), [(2, 4), (4, 2)])
def test_keys_of_one_report_err_together_where_people_hold_all_or_nothing(size, levels):
    """By hand from the law of every view; and 300 tallies, whose average frequency varies as it says.

    False alarm: the sum of squares is chi-square with 300 degrees of freedom, and lies beyond these
    ends with chance 1e-5.
    """
    schema, people = all_or_nothing()
    plan = Plan.of(schema, "several", 5, keys=size, levels=levels)
    crowd, channel = Population(schema, people, levels), plan.channels[0]
    cells = estimates_of_one_report(plan)[:, :, 0].T
    of_sum = alone = 0.0
    for view in plan.views.keys:
        chances = crowd.law(view) @ channel.expected()
        spread = np.einsum("c,ic,jc->ij", chances, cells, cells)
        spread -= np.outer(cells @ chances, cells @ chances)
        of_sum, alone = of_sum + spread.sum(), alone + np.trace(spread)
    by_hand = of_sum / alone
    assert by_hand > 0.65 * size
    prior = Prior.of_people(schema, people)
    assert forecast(plan, 1e5, prior).together == pytest.approx(by_hand, rel=1e-6)
    assert forecast(plan, 1e5, Prior.of(20)).together < 0.75 * by_hand, "nothing is said of people"
    counts = simulate_runs(plan, crowd, 100_000, Coins.stated("together"), 300)
    moments = plan.mechanism.moments(plan, counts)
    assert moments.together == pytest.approx(by_hand, rel=0.05)
    off = (moments.values[..., 0] - prior.frequency).mean(axis=1)
    apart = moments.covariance[..., 0, 0].sum(axis=1) / 20**2
    ratio = (off**2 / (apart * moments.together)).mean()
    assert 0.70 < ratio < 1.40
    assert (off**2 / apart).mean() > 1.40, "the broken twin: as if keys erred each for itself"


@pytest.mark.sampled
def test_shrunk_frequencies_leave_open_what_keys_err_by_together(monkeypatch):
    """The average of all keys is off by as much as its error says, though all are drawn to it."""
    schema, people = all_or_nothing()
    crowd = Population(schema, people)
    contest = Contest(crowd, 100_000, 200, Coins.stated("open"), estimators=("shrunk",))
    plan = contest.plan("several:keys=4+levels=2", "5")
    counts = simulate_runs(plan, crowd.at(2), contest.people, contest.coins, contest.repetitions)
    truth = contest.questions.truth["frequency"]

    band = bands(plan, counts, "shrunk").frequency
    assert 0.93 < ((band.low <= truth) & (truth <= band.high)).mean() < 0.97
    monkeypatch.setattr(SHRINK, "_with_shared", lambda found, *_: found)
    alone = bands(plan, counts, "shrunk").frequency
    assert (band.stderr > alone.stderr).mean() > 0.9, "the error that all keys share is in theirs"
    row = contest.rows("several:keys=4+levels=2", "5")[0]
    assert 0.8 < row.predicted_frequency / row.mse_frequency < 1.25


def test_one_drawn_item_is_forecast_for_each_key_from_who_holds_it_beside_how_many():
    """People with a rare key hold many others, so it is drawn less often than the average key."""
    schema = Schema.of(4)
    records = [{"0": 0.5}] * 60 + [{"0": 0.5, "1": 0.5, "2": 0.5, "3": 0.5}] * 40
    prior = Prior.of_people(schema, People.of_records(schema, records))
    for name in ("grr", "shist"):
        prediction = forecast(Plan.of(schema, name, 1), 10_000, prior)
        assert prediction.bias[:, 0] == pytest.approx([-0.3, -0.3, -0.3, -0.3])
        average = prior.frequency * (prior.kept(1) - 1)
        assert not np.allclose(prediction.bias[:, 0], average, atol=0.05), "the broken twin"


@pytest.mark.sampled
def test_pairs_are_forecast_at_the_law_that_the_table_has():
    schema, people = friends(levels=2)
    prior, plan = Prior.of_people(schema, people), Plan.of(schema, "pairs", 2)
    prediction, apart = (forecast(plan, 1e5, each) for each in (prior, replace(prior, sample=None)))
    assert not np.allclose(prediction.covariance, apart.covariance, rtol=1e-3)
    counts = simulate_runs(plan, Population(schema, people), 10**5, Coins.stated("pairs"), 100)
    frequencies = bands(plan, counts, "least_squares").frequency.value
    # 500 squares: their mean has a standard error of 6.3 %, more than four of it 1 in 10,000 times.
    ratio = prediction.frequency.mean() / ((frequencies - prior.frequency) ** 2).mean()
    assert 0.75 < ratio < 1.3
    assert not 0.75 < 2 * ratio < 1.3


@pytest.mark.parametrize("levels", [1, 2, 3, 9])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_laws_of_views_keep_every_keys_own_law(levels, size):
    schema, people = friends()
    views = cyclic_views(5, size).keys
    for prior in (Prior.of_people(schema, people), Prior.of(5)):
        states = prior.states(levels)
        law = prior.view_laws(levels, views).reshape(len(states), levels + 1, -1)
        assert law.sum(axis=2) == pytest.approx(states)
        assert law.min() >= 0
        assert prior.view_laws(levels, views) is prior.view_laws(levels, views), "found once"


def test_a_large_table_is_sampled_and_says_nearly_the_same():
    population = gaussian(10)
    people = population.people
    assert len(people) > MOST_SAMPLED
    prior = Prior.of_people(population.schema, people)
    assert prior.sample.people == MOST_SAMPLED
    views = cyclic_views(10, 2).keys
    law = prior.view_laws(2, views).reshape(10, 3, 3)
    crowd = Population(population.schema, people)
    whole = np.zeros((10, 3, 3))
    for first, second in views:
        both = crowd.law((first, second)).reshape(3, 3)
        whole[first] += both
        whole[second] += both.T
    whole /= whole.sum(axis=(1, 2), keepdims=True)
    # At least 8,192 people for each view: a share's standard error is below 0.0056, six of it 0.033.
    assert law == pytest.approx(whole, abs=0.033)


@given(st.integers(1, 50), st.integers(1, 50))
def test_evenly_spaced_places_differ_and_lie_inside(count, some):
    places = evenly(count, some)
    assert len(places) == min(count, some)
    assert len(set(places.tolist())) == len(places)
    assert places.min() >= 0
    assert places.max() < count


# -- rounds with feedback --------------------------------------------------------------------------

_FINE = np.linspace(-9, 9, 4001)
_FINE_WEIGHT = np.exp(-(_FINE**2) / 2) / np.exp(-(_FINE**2) / 2).sum()


@given(st.floats(0.05, 1), st.floats(-1, 1), st.floats(-1, 1), st.floats(0.02, 3))
@settings(max_examples=40, deadline=None)
def test_one_round_by_summing_over_a_fine_grid(f, mean, told, noise):
    start = FeedbackRound.of(
        FeedbackForecast.surely(np.array([told])),
        np.array([f]),
        np.array([mean]),
        np.array([1 / noise**2]),
        1.0,
    )
    start = replace(start, variance=np.full((1, 1), noise**2))
    middle = f * mean + (1 - f) * told
    drawn = np.clip(middle + noise * _FINE, -1, 1)
    law = start.next()
    assert law.chance.sum() == pytest.approx(1)
    assert law.expect(law.at)[0] == pytest.approx(_FINE_WEIGHT @ drawn, abs=1e-4)
    step = law.at[0, 1] - law.at[0, 0]
    # Splitting a point between two adds at most a quarter of the step's square.
    assert 0 <= law.expect(law.at**2)[0] - _FINE_WEIGHT @ drawn**2 + 1e-4 <= step**2 / 4 + 2e-4
    assert start.change()[0] == pytest.approx(_FINE_WEIGHT @ np.abs(drawn - told), abs=1e-3)
    assert start.error(np.array([mean]))[0] == pytest.approx(
        _FINE_WEIGHT @ (drawn - mean) ** 2, abs=2e-3
    )


def keys_of(frequencies, means):
    population = of_keys(np.array(frequencies), np.array(means), normal_values)
    return Population(population.schema, population.people)


CHAIN_RUNS = 1500


@pytest.mark.parametrize(
    ("name", "epsilon", "given_"),
    [
        ("privkvm", 2, {"rounds": 2}),
        ("privkvm", 5, {"rounds": 4}),
        ("privkvm", 1, {}),
        ("privkvm_plus", 4, {}),
        ("privkvm_plus", 5, {"cost": "0.3"}),
    ],
)
def test_chains_are_forecast_as_measured(name, epsilon, given_):
    """1,500 chains over 6 keys; more than five standard errors off in one of 1.7 million runs each."""
    from keyveil.simulate.chains import chain_bands

    crowd, people = keys_of([0.15, 0.3, 0.5, 0.7, 0.85, 0.95], [0.6, -0.4, 0.1, 0.5, -0.2, 0.8]), 6000
    prior = Prior.of_people(crowd.schema, crowd.people)
    plan = Plan.of(crowd.schema, name, epsilon, "tight", **given_)
    prediction = forecast(plan, people, prior)
    runs = list(
        chain_bands(plan, crowd, people, Coins.stated("chain"), CHAIN_RUNS, ["debiased", "published"])
    )
    for estimator, errors in (("debiased", prediction), ("published", prediction.published)):
        for part, low, truth, expected in (
            ("frequency", 0.0, prior.frequency, errors.clipped_frequency),
            ("mean", -1.0, prior.mean, errors.clipped_mean),
        ):
            values = np.concatenate([getattr(group[estimator], part).value for _, group in runs])
            values = np.nan_to_num(values, nan=(low + 1) / 2)
            squares = ((np.clip(values, low, 1) - truth) ** 2).mean(axis=1)
            error = squares.std() / np.sqrt(len(squares)) + 0.01 * squares.mean()
            assert abs(expected.mean() - squares.mean()) < 5 * error, (estimator, part)
            assert abs(1.5 * expected.mean() - squares.mean()) > 5 * error, "the broken twin"


def test_where_a_chain_may_end_its_forecast_is_a_mixture():
    prior, schema = Prior.of(100, held=50, between=0.2), Schema.of(100)
    at_once = forecast(Plan.of(schema, "privkvm_plus", 4, cost="2"), 1e5, prior)
    raw = asked_once(Plan.of(schema, "privkvm_plus", 4), 1e5, prior, np.ones(1)).error(prior.mean)
    assert at_once.published.clipped_mean == pytest.approx(raw)
    never = forecast(Plan.of(schema, "privkvm_plus", 4, cost="0"), 1e5, prior)
    assert not isinstance(never, Mixed)
    last = never.last  # of ten rounds
    assert last.feedback.at.shape == (15, POINTS)
    # Half of all chains end with the first round if that changes means by the cost on average.
    start = asked_once(Plan.of(schema, "privkvm_plus", 4), 1e5, prior, np.ones(1))
    cost = f"{start.change()[0]:.9f}"
    between = forecast(Plan.of(schema, "privkvm_plus", 4, cost=cost), 1e5, prior)
    assert isinstance(between, Mixed)
    assert between.parts[0][0] == pytest.approx(0.5, abs=1e-3)
    assert sum(chance for chance, _ in between.parts) == pytest.approx(1)


def test_a_mixture_is_the_average_of_its_parts():
    prior = Prior.of(5)
    narrow, wide = (
        Forecast(prior, np.zeros((15, 2)), np.tile(v * np.eye(2), (15, 1, 1))) for v in (0.01, 0.04)
    )
    mixed = Mixed.of([(0.25, narrow), (0.75, wide)])
    assert mixed.covariance is wide.covariance
    for part in ("clipped_frequency", "clipped_mean"):
        by_hand = 0.25 * getattr(narrow, part) + 0.75 * getattr(wide, part)
        assert getattr(mixed, part) == pytest.approx(by_hand)
    assert mixed.published is None
    assert Mixed.of([(1.0, narrow)]) is narrow


@pytest.mark.sampled
def test_a_later_round_is_forecast_from_what_its_plan_says():
    crowd = keys_of([0.3, 0.6, 0.9], [0.5, -0.5, 0.0])
    prior = Prior.of_people(crowd.schema, crowd.people)
    plan = Plan.of(crowd.schema, "privkvm", 4, rounds=2)
    counts = simulate_runs(plan, crowd, 30_000, Coins.stated("later"), 1)[0]
    second = plan.next(Tally(plan, counts))
    prediction = forecast(second, 30_000, prior)
    stated = [float(row[1]) ** 2 for row in second.chain["frequency"]]
    assert prediction.covariance[:, 0, 0] == pytest.approx(stated)
    assert np.isfinite(prediction.clipped_mean).all()


# -- published -------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["privkv", "f2m", "pckv_ue", "pckv_grr"])
def test_published_answers_are_forecast_as_measured(name):
    """300 tallies of 12 keys; more than five standard errors off in one of 1.7 million runs."""
    population = gaussian(12)
    crowd = Population(population.schema, population.people.chosen(np.arange(4000), np.arange(4000)))
    prior = Prior.of_people(crowd.schema, crowd.people)
    given_ = {"length": 12} if name.startswith("pckv") else {}
    plan = Plan.of(crowd.schema, name, 1, "tight", **given_)
    counts = simulate_runs(plan, crowd, 20_000, Coins.stated("published"), 300)
    estimates = bands(plan, counts, "published")
    prediction = forecast(plan, 20_000, prior).published
    for value, low, truth, expected in (
        (estimates.frequency.value, 0.0, prior.frequency, prediction.clipped_frequency),
        (estimates.mean.value, -1.0, prior.mean, prediction.clipped_mean),
    ):
        squares = ((np.clip(value, low, 1) - truth) ** 2).mean(axis=1)
        error = squares.std() / np.sqrt(len(squares)) + 0.01 * squares.mean()
        assert abs(expected.mean() - squares.mean()) < 5 * error
        assert abs(1.5 * expected.mean() - squares.mean()) > 5 * error, "the broken twin"


def test_mechanisms_without_a_published_estimator_forecast_none():
    prior = Prior.of(4)
    assert forecast(Plan.of(Schema.of(4), "kvue", 1), 1e5, prior).published is None
    assert forecast(Plan.of(Schema.of(4), "signed_ue", 1), 1e5, prior).published is None


# -- a cap that is found first ---------------------------------------------------------------------


@pytest.mark.sampled
def test_with_many_people_the_cap_is_the_one_that_follows_from_the_sizes():
    crowd = keys_of(np.full(8, 0.3), np.zeros(8))
    prior = Prior.of_people(crowd.schema, crowd.people)
    plan = Plan.of(crowd.schema, "sized", 4)
    counts = simulate_runs(plan, crowd, 10**9, Coins.stated("sizes"), 1)[0]
    second = plan.next(Tally(plan, counts))
    prediction = forecast(plan, 1e10, prior)
    assert not isinstance(prediction, Mixed)
    assert prediction.covariance == pytest.approx(forecast(second, 9e9, prior).covariance)
    few = forecast(plan, 300, prior)
    assert isinstance(few, Mixed), "few people find now this cap, now that"
    assert sum(chance for chance, _ in few.parts) == pytest.approx(1)


# -- shrunk ----------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["kvue", "rr", "pckv_grr", "several"])
def test_shrunk_answers_are_forecast_as_measured(name):
    """60 tallies of 40 keys: a standard error of about 3 % here and as much there; four are 17 %."""
    population = gaussian(40)
    crowd = Population(population.schema, population.people)
    contest = Contest(crowd, 40_000, 60, Coins.stated("shrunk"), estimators=("shrunk", "least_squares"))
    rows = {row.estimator: row for row in measure(contest, [name], ["1"], processes=1).rows}
    row = rows["shrunk"]
    parts = ["frequency"] if name == "rr" else ["frequency", "mean"]
    for part in parts:
        assert 0.83 < getattr(row, f"predicted_{part}") / getattr(row, f"mse_{part}") < 1.2
    if name == "kvue":
        raw = rows["least_squares"].predicted_mean
        assert raw / row.mse_mean > 1.2, "the broken twin: as if nothing were shrunk"


def test_shrunk_errors_are_the_same_every_time_and_near_the_raw_ones_with_many_people():
    prior, plan = Prior.of(30), Plan.of(Schema.of(30), "kvue", 2)
    prediction = forecast(plan, 1e8, prior)
    errors = forecast_by_draws(plan, prediction, 1e8, ["shrunk"])["shrunk"]
    assert errors == forecast_by_draws(plan, prediction, 1e8, ["shrunk"])["shrunk"]
    raw = prior.weight @ prediction.clipped_frequency, prior.weight @ prediction.clipped_mean
    assert errors == pytest.approx(raw, rel=0.02)


# -- in tables -------------------------------------------------------------------------------------


@pytest.mark.sampled
def test_every_mechanism_has_a_prediction_for_its_first_estimator():
    population = gaussian(12)
    crowd = Population(population.schema, population.people.chosen(np.arange(3000), np.arange(3000)))
    contest = Contest(crowd, 20_000, 3, Coins.stated("every"))
    for name in all_competitors(12):
        plan = contest.plan(name, "1")
        prediction = forecast(plan, 20_000, contest.table_prior)
        for part in set(plan.mechanism.answers) & {"frequency", "mean"}:
            assert np.isfinite(getattr(prediction, f"clipped_{part}")).all(), name


@pytest.mark.sampled
def test_rows_have_predictions_for_first_published_and_shrunk_answers():
    population = gaussian(12)
    crowd = Population(population.schema, population.people.chosen(np.arange(3000), np.arange(3000)))
    contest = Contest(crowd, 20_000, 3, Coins.stated("rows"))
    names = ["privkv", "privkvm", "privkvm_plus", "sized:then=pckv_grr", "pckv_ue", "auto"]
    for row in measure(contest, names, ["1"], processes=1).rows:
        has_prediction = row.estimator != "likelihood"
        assert (row.predicted_frequency is not None) == has_prediction, (row.mechanism, row.estimator)
        assert (row.predicted_mean is not None) == has_prediction
