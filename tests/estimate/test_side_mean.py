"""The side mean: what one held value of each person tells about the means of all keys."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from keyveil import Coins, Plan
from keyveil.estimate import bands
from keyveil.estimate.assisted import prior_from_others
from keyveil.estimate.decoding import moments_of
from keyveil.estimate.forecast.by_draws import side_draws
from keyveil.estimate.forecast.key_forecast import forecast
from keyveil.estimate.linear import key_bands
from keyveil.estimate.shrink.best import best_bands
from keyveil.estimate.shrink.common_law import MEANS, WIDTHS, beta_laws, points
from keyveil.estimate.side import ValueAnswer, moments_with_side, side_information
from keyveil.estimate.side_mean import CommonMean, SideMean
from keyveil.people.synthetic import of_keys, uniform_values
from keyveil.simulate import simulate_runs
from keyveil.simulate.contest import Contest

KEYS = 12
MEANS_OF_KEYS = np.array([-0.7, *np.linspace(0.4, 0.6, KEYS - 1)])
CROWD = of_keys(np.full(KEYS, 0.08), MEANS_OF_KEYS, uniform_values)
PARTS = Plan.of(CROWD.schema, "parts", 1, "tight", parts="kvue/sign@0.1")


def tallies(runs: int, plan: Plan = PARTS, people: int = 20_000) -> np.ndarray:
    return simulate_runs(plan, CROWD, people, Coins.stated("side mean"), runs)


# -- where it comes from ---------------------------------------------------------------------------


@pytest.mark.sampled
def test_moments_have_a_side_mean_if_the_plan_asks_for_it():
    counts = tallies(3)
    moments, answer = moments_with_side(PARTS, counts), side_information(PARTS, counts).value
    assert answer is not None
    assert moments.side is not None
    assert np.array_equal(moments.side.value, answer.mean)
    assert np.allclose(moments.side.variance, answer.stderr**2)
    assert np.array_equal(moments.values, moments_of(PARTS, counts).values)
    for plan in (
        Plan.of(CROWD.schema, "kvue", 1),
        Plan.of(CROWD.schema, "parts", 1, parts="kvue/graded@0.2"),
    ):
        assert moments_with_side(plan, tallies(2, plan)).side is None


def test_an_unclear_share_of_holders_tells_nothing():
    values = np.array([[0.5, 0.2], [0.01, 0.2], [np.nan, np.nan]])
    spread = np.tile(np.diag([1e-4, 1e-4]), (3, 1, 1))
    side = SideMean.of(ValueAnswer(np.array([9, 9, 0]), values, spread))
    assert side.value[0] == pytest.approx(0.4)
    assert side.variance[0] == pytest.approx((1e-4 + 0.4**2 * 1e-4) / 0.5**2)
    assert side.value[1:].tolist() == [0, 0]
    assert np.isinf(side.variance[1:]).all()


@pytest.mark.parametrize("share", [0.25, 0.35, 0.95, 1.2])
def test_near_an_end_the_share_of_holders_is_cut_to_what_is_possible(share):
    """The same law by numeric integration: the share on [0, 1], and the mass given the share."""
    noise = np.array([[0.01, 0.004], [0.004, 0.009]])
    side = SideMean.of(ValueAnswer(np.array([9]), np.array([[share, 0.2]]), noise[None]))
    at = (np.arange(200_000) + 0.5) / 200_000
    law = np.exp(-((at - share) ** 2) / (2 * noise[0, 0]))
    law /= law.sum()
    holders = law @ at
    slope = noise[0, 1] / noise[0, 0]
    mean = (0.2 - slope * (share - holders)) / holders
    rest = noise[1, 1] - slope * noise[0, 1]
    unsure = law @ (at - holders) ** 2
    assert side.value[0] == pytest.approx(mean, rel=1e-4)
    assert side.variance[0] == pytest.approx(
        (rest + unsure * (slope - mean) ** 2) / holders**2, rel=1e-4
    )


def test_a_share_that_becomes_clear_tells_no_less_at_once():
    """Where the two formulas meet, they agree within a thousandth."""
    for share in (4.0 * 0.1, 1.0 - 4.0 * 0.1):
        values = np.array([[share - 1e-9, 0.2], [share + 1e-9, 0.2]])
        spread = np.tile(np.diag([0.01, 0.01]), (2, 1, 1))
        side = SideMean.of(ValueAnswer(np.array([9, 9]), values, spread))
        assert side.value[0] == pytest.approx(side.value[1], rel=1e-3)
        assert side.variance[0] == pytest.approx(side.variance[1], rel=1e-2)


@pytest.mark.sampled
def test_a_side_mean_that_tells_nothing_changes_nothing():
    moments = moments_of(PARTS, tallies(4))
    raw = key_bands(PARTS, moments, 0.95)
    nothing = replace(moments, side=SideMean(np.zeros(4), np.full(4, np.inf)))
    before, after = (best_bands(raw, part, 0.95)[0] for part in (moments, nothing))
    for name in ("frequency", "mean"):
        for end in ("value", "stderr", "low", "high"):
            assert np.array_equal(
                getattr(getattr(before, name), end), getattr(getattr(after, name), end)
            )


# -- the prior -------------------------------------------------------------------------------------


def test_the_observation_is_the_average_of_means_weighted_by_frequency():
    """Over draws of the means of keys, it varies by the variance across keys times its concentration."""
    draw = np.random.default_rng(2)
    frequency = np.array([[0.5, 0.2, 0.1, 0.1]])
    offset = np.array([[0.3, -0.1, 0.0, 0.2]])
    side = SideMean(np.array([0.4]), np.array([0.01]))
    common = side.of_keys(frequency, offset, np.array([[True, True, True, False]]))
    weight = np.array([5, 2, 1]) / 8
    assert common.value[0] == pytest.approx(0.4 - weight @ offset[0, :3])
    averages = draw.normal(0.0, 0.3, (200_000, 3)) @ weight
    assert float(common.spread(np.array(0.09))[0]) == pytest.approx(0.01 + averages.var(), rel=0.02)
    others = side.of_other_keys(frequency, np.ones((1, 4), bool))
    assert others.concentration[0, 0] == pytest.approx((4 + 1 + 1) / 4**2)


def test_laws_are_weighted_by_the_likelihood_of_the_side_mean():
    """The weights are those of a normal density at the mean of each law, up to one factor."""

    def centre(widths):
        return np.full((1, len(widths)), 0.6), np.full((1, len(widths)), 0.05)

    common = CommonMean(np.array([0.3]), np.array([0.004]), np.array([0.1]))
    plain, weighted = (beta_laws(centre, np.zeros((1, 1)), 400, part) for part in (None, common))
    assert np.array_equal(plain.masses, weighted.masses)
    means = 2 * (0.45 + 0.3 * (np.arange(MEANS) + 0.5) / MEANS) - 1
    assert means == pytest.approx(2 * (plain.masses[0, 0, :MEANS] @ points(400)) - 1, abs=4e-3)
    spread = 0.004 + 0.1 * WIDTHS[:, None] ** 2 * (1 - means**2)
    expected = -((0.3 - means) ** 2) / (2 * spread) - 0.5 * np.log(spread)
    assert np.allclose(weighted.weight - plain.weight, expected.reshape(1, -1))


@pytest.mark.sampled
def test_keys_that_tell_nothing_get_the_side_mean():
    """Within a fifth: the prior leaves open that keys are spread widely, or that some are outliers."""
    moments = moments_of(PARTS, tallies(1))
    faint = replace(moments, covariance=moments.covariance * 1e4)
    raw = key_bands(PARTS, faint, 0.95)
    for value in (-0.6, 0.0, 0.6):
        side = SideMean(np.array([value]), np.array([1e-4]))
        means = best_bands(raw, replace(faint, side=side), 0.95)[0].mean.value
        assert np.abs(means - value).max() < 0.12
    spread = np.abs(best_bands(raw, faint, 0.95)[0].mean.value - 0.6).max()
    assert spread > 0.2, "the broken twin: without the side mean"


def test_the_prior_of_others_is_combined_by_precision():
    """The centre is the inverse-variance average; the variance of the narrow law follows from it."""
    values, variances = np.array([[0.1, 0.1, 0.1, 0.1]]), np.full((1, 4), 0.03)
    known = np.ones((1, 4), bool)
    alone = prior_from_others(values, variances, known, 1.0)
    common = CommonMean(np.array([[0.5]]), np.array([[0.02]]), np.full((1, 4), 0.4))
    both = prior_from_others(values, variances, known, 1.0, common=common)
    assert alone.scales[..., 0] == pytest.approx(np.sqrt(0.01))  # three others, no spread
    assert both.centre == pytest.approx(
        np.full((1, 4), (0.1 / 0.01 + 0.5 / 0.02) / (1 / 0.01 + 1 / 0.02))
    )
    assert both.scales[..., 0] == pytest.approx(np.sqrt(1 / (1 / 0.01 + 1 / 0.02)))
    single = prior_from_others(
        values[:, :1],
        variances[:, :1],
        known[:, :1],
        1.0,
        common=CommonMean(*(part[:, :1] for part in common)),
    )
    assert single.centre == 0.5
    assert single.scales[0, 0, 0] == 1.0


# -- error and coverage, sampled -------------------------------------------------------------------


@pytest.mark.sampled
def test_intervals_cover_every_key_with_a_side_mean():
    """Also the key that is far from the side mean.

    False alarms: 4.5 standard errors of 1,500 tallies for 12 keys, less than 1e-4.
    """
    runs = 1_500
    mean = bands(PARTS, tallies(runs), "best").mean
    assert mean is not None
    low = 0.95 - 4.5 * np.sqrt(0.05 * 0.95 / runs)
    assert (((mean.low <= MEANS_OF_KEYS) & (mean.high >= MEANS_OF_KEYS)).mean(axis=0) > low).all()
    apart = np.abs(mean.value - MEANS_OF_KEYS)[:, 0]
    assert (apart <= 1.96 * mean.stderr[:, 0]).mean() < low, "the broken twin: by Bayes' rule"


@pytest.mark.sampled
def test_the_side_answer_is_forecast_as_it_comes():
    """4 standard errors of 400 tallies for the mean, and 25 % for the variance."""
    runs, people = 400, 20_000
    answer = side_information(PARTS, tallies(runs)).value
    predicted = forecast(PARTS, people, CROWD.prior()).side
    assert answer is not None
    assert predicted is not None
    apart = answer.values.mean(axis=0) - predicted.values
    assert (np.abs(apart) < 4 * np.sqrt(np.diagonal(predicted.covariance) / runs)).all()
    assert np.diagonal(predicted.covariance) == pytest.approx(answer.values.var(axis=0), rel=0.25)
    drawn = side_draws(predicted, 64)
    assert drawn.variance.mean() == pytest.approx(np.var(drawn.value), rel=0.3)
    assert forecast(Plan.of(CROWD.schema, "kvue", 1), people, CROWD.prior()).side is None


SPARSE = {
    "skewed": of_keys(
        np.minimum(0.5, 0.24 * np.arange(1, 61) ** -0.9),
        np.clip(0.4 + 0.15 * np.random.default_rng(3).normal(size=60), -0.95, 0.95),
        uniform_values,
    ),
    "even": of_keys(
        np.full(60, 0.04),
        np.clip(-0.3 + 0.2 * np.random.default_rng(4).normal(size=60), -0.95, 0.95),
        uniform_values,
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", SPARSE)
def test_predicted_errors_include_the_side_mean(name):
    """Within 15 %, which is three standard errors of 60 tallies; without the side mean far off."""
    contest = Contest(SPARSE[name], 100_000, 60, Coins.stated("predicted"), estimators=("best",))
    plan = "parts:parts=kvue/sign@0.1"
    row = contest.rows(plan, "0.5")[0]
    assert 0.85 < row.predicted_mean / row.mse_mean < 1.15
    alone = contest.rows("kvue", "0.5")[0]
    assert alone.mse_mean > 1.2 * row.mse_mean
    assert row.mse_frequency < 1.25 * alone.mse_frequency
