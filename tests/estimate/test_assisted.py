"""Assisted intervals: coverage by quadrature over all estimates, not by drawing."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from keyveil.estimate import assisted
from keyveil.estimate.answer import Band, quantile
from keyveil.estimate.assisted import Mixture, RatioEstimates, assisted_interval, prior_from_others

NORMAL = NormalDist()
Z = np.array([NORMAL.inv_cdf((i + 0.5) / 2000) for i in range(2000)])
"""Standard normal errors, all equally likely."""
HEAVY = assisted.WEIGHTS


def mixture(centre: float, scales: tuple[float, ...], shape: tuple[int, ...], weights=None) -> Mixture:
    weights = np.full(len(scales), 1 / len(scales)) if weights is None else weights
    return Mixture(np.full(shape, centre), np.broadcast_to(scales, (*shape, len(scales))), weights)


def frequencies(truth: float, stderr: float) -> RatioEstimates:
    estimate, zero = truth + stderr * Z, np.zeros_like(Z)
    return RatioEstimates(estimate, zero + 1, zero + stderr**2, zero, zero)


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("truth", [0.02, 0.3, 0.5, 0.62, 0.99])
@pytest.mark.parametrize("scales", [(0.001,), (0.02, 0.06, 0.5), (0.5,)])
def test_every_truth_is_covered_at_the_level_whatever_the_prior_is(truth, scales, level):
    """The error of the quadrature and of interpolation is below half a percent.

    Coverage is larger only near an end of the range, and if a prior is a point and the truth is on it.
    """
    prior = mixture(0.5, scales, Z.shape)
    low, high = assisted_interval(frequencies(truth, 0.04), prior, (0.0, 1.0), level)
    covered = ((low <= truth) & (truth <= high)).mean()
    assert covered > level - 0.005
    if truth in (0.3, 0.62):
        assert covered == pytest.approx(level, abs=0.005)


def test_an_interval_of_the_posterior_does_not_cover_a_truth_far_from_the_prior():
    """The broken twin: the same prior and estimates, by Bayes' rule."""
    stderr, scale, truth = 0.04, 0.02, 0.62
    weight = scale**2 / (scale**2 + stderr**2)
    middle = 0.5 + weight * (truth + stderr * Z - 0.5)
    reach = quantile(0.95) * stderr * np.sqrt(weight)
    assert ((middle - reach <= truth) & (truth <= middle + reach)).mean() < 0.3


def test_the_interval_is_shorter_where_the_prior_is_right_and_plain_where_it_says_nothing():
    stderr, plain = 0.04, 2 * quantile(0.95) * 0.04
    low, high = assisted_interval(
        frequencies(0.5, stderr), mixture(0.5, (0.01,), Z.shape), (0.0, 1.0), 0.95
    )
    assert (high - low).mean() < 0.87 * plain
    low, high = assisted_interval(
        frequencies(0.5, stderr), mixture(0.5, (50.0,), Z.shape), (0.0, 1.0), 0.95
    )
    np.testing.assert_allclose(high - low, plain, rtol=2e-3)


def test_far_from_the_other_keys_a_heavy_prior_gives_the_plain_interval():
    stderr, plain = 0.02, 2 * quantile(0.95) * 0.02
    heavy = mixture(0.2, (0.01, 0.03, 0.5), Z.shape, HEAVY)
    low, high = assisted_interval(frequencies(0.7, stderr), heavy, (0.0, 1.0), 0.95)
    assert (high - low).mean() < 1.05 * plain
    narrow = mixture(0.2, (0.01,), Z.shape)
    low, high = assisted_interval(frequencies(0.7, stderr), narrow, (0.0, 1.0), 0.95)
    assert (high - low).mean() > 1.3 * plain, "the broken twin: a normal prior alone"


def ratios(
    truth: float, below: float, errors: tuple[float, float], correlation: float
) -> RatioEstimates:
    """Estimates of a ratio on a grid of both errors, all equally likely."""
    z = np.array([NORMAL.inv_cdf((i + 0.5) / 120) for i in range(120)])
    z = z / z.std()
    first, second = (part.ravel() for part in np.meshgrid(z, z))
    second = correlation * first + np.sqrt(1 - correlation**2) * second
    full = np.ones_like(first)
    return RatioEstimates(
        truth * below + errors[0] * first,
        below + errors[1] * second,
        errors[0] ** 2 * full,
        correlation * errors[0] * errors[1] * full,
        errors[1] ** 2 * full,
    )


@pytest.mark.parametrize("below", [0.05, 0.2, 0.6])
@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.7])
def test_ratios_are_covered_even_if_the_denominator_may_be_zero(below, correlation):
    """Centre and denominator do not depend on the tested statistic, so the level is exact."""
    tested = ratios(-0.4, below, (0.05, 0.06), correlation)
    prior = mixture(0.5, (0.05, 0.15, 1.0), tested.above.shape, HEAVY)
    low, high = assisted_interval(tested, prior, (-1.0, 1.0), 0.95)
    covered = ((low <= -0.4) & (high >= -0.4)).mean()
    assert 0.94 < covered < 0.975  # above the level only by the hull of a set with a gap


def test_a_centre_from_the_same_reports_is_freed_of_what_it_shares_with_the_estimate():
    """The centre is half the error of the estimate; without its covariance the interval covers less."""
    stderr, truth = 0.04, 0.5
    tested = frequencies(truth, stderr)
    centre = truth + 0.9 * stderr * Z
    shared = np.full_like(Z, 0.9 * stderr**2)
    scales = np.full((*Z.shape, 1), 0.02)
    covered = {}
    for name, with_above in (("stated", shared), ("ignored", np.zeros_like(Z))):
        prior = Mixture(centre, scales, np.ones(1), with_above)
        low, high = assisted_interval(tested, prior, (0.0, 1.0), 0.95)
        covered[name] = ((low <= truth) & (truth <= high)).mean()
    assert covered["stated"] == pytest.approx(0.95, abs=0.005)
    assert covered["ignored"] < 0.92, "the broken twin"


def test_an_interval_is_unbounded_only_if_nothing_possible_is_excluded():
    full = np.ones(3)
    tested = RatioEstimates(
        np.array([0.01, 0.01, 0.2]), np.array([0.02, 0.3, 0.3]), 0.0025 * full, 0 * full, 0.0025 * full
    )
    prior = mixture(0.0, (1.0,), (3,))
    low, high = assisted_interval(tested, prior, (-1.0, 1.0), 0.95)
    assert (low[0], high[0]) == (-np.inf, np.inf)
    assert np.isfinite([low[1:], high[1:]]).all()
    fieller = Band.ratio(
        tested.above,
        tested.below,
        np.stack([np.stack([full * 0.0025, 0 * full], -1), np.stack([0 * full, full * 0.0025], -1)], -2),
        full,
        0.95,
    )
    np.testing.assert_allclose(low[1], fieller.low[1], atol=0.03)
    unknown = assisted_interval(
        RatioEstimates(*(np.array([np.nan]),) * 5), mixture(0.0, (1.0,), (1,)), (0, 1), 0.9
    )
    assert (unknown[0][0], unknown[1][0]) == (-np.inf, np.inf)


def test_an_estimate_far_outside_its_range_has_an_interval_at_the_nearest_end():
    one, zero = np.ones(1), np.zeros(1)
    low, high = assisted_interval(
        RatioEstimates(one * 1.5, one, one * 0.01**2, zero, zero),
        mixture(0.5, (0.1,), (1,)),
        (0.0, 1.0),
        0.95,
    )
    assert high[0] == 1.0
    assert low[0] == pytest.approx(1 - quantile(0.95) * 0.01)


def test_the_prior_of_a_key_does_not_use_the_key():
    values = np.array([0.2, 0.25, 0.3, 0.22, 0.9])
    variances, known = np.full(5, 0.001), np.ones(5, bool)
    before = prior_from_others(values, variances, known, 0.5)
    after = prior_from_others(np.array([0.2, 0.25, 0.3, 0.22, 0.1]), variances, known, 0.5)
    assert before.centre[4] == pytest.approx(after.centre[4])
    assert before.scales[4] == pytest.approx(after.scales[4])
    assert before.centre[0] > after.centre[0] + 0.1
    others = prior_from_others(values[:4], variances[:4], known[:4], 0.5)
    assert others.centre.mean() == pytest.approx(before.centre[4], abs=0.01)


def test_one_other_key_shows_no_spread():
    """Of one ratio the moment estimate is zero over zero: a quotient of rounding errors."""
    frequency = np.array([0.3, 0.1, 0.0, 0.0])  # nobody holds the last two, so they count for nothing
    values, variances = np.array([0.06, -0.07, 0.002, 0.001]), np.array([3e-4, 7e-4, 1e-4, 1e-4])
    priors = [
        prior_from_others(values * part, variances, np.ones(4, bool), 1.0, frequency)
        for part in (1.0, 1.0 + 1e-15, 1.0 - 1e-15)
    ]
    for prior in priors:
        np.testing.assert_array_equal(prior.scales[:2], 1.0)  # as wide as possible
        np.testing.assert_array_equal(prior.centre[:2], 0.0)
        np.testing.assert_allclose(prior.scales[2:], priors[0].scales[2:], rtol=1e-12)


def test_the_spread_of_keys_is_that_of_dersimonian_and_laird():
    values, variances = np.array([0.1, 0.4, 0.2, 0.7]), np.array([0.01, 0.02, 0.01, 0.03])
    prior = prior_from_others(values, variances, np.ones(4, bool), 9.0)
    for key in range(4):
        x, v = np.delete(values, key), np.delete(variances, key)
        weight = 1 / v
        middle = (weight * x).sum() / weight.sum()
        excess = (weight * (x - middle) ** 2).sum() - 2
        across = max(0.0, excess / (weight.sum() - (weight**2).sum() / weight.sum()))
        weight = 1 / (v + 1 / 16)  # of all four it is 0.036, and 1 / 16 is the nearest power of four
        assert prior.centre[key] == pytest.approx((weight * x).sum() / weight.sum())
        noise = (weight**2 * (v + across)).sum() / weight.sum() ** 2
        assert prior.scales[key, 0] == pytest.approx(np.sqrt(across + noise))
