"""Estimators from moments: arrays of tallies, corrected means, and shrinkage across keys."""

from __future__ import annotations

from itertools import product
from math import inf, isnan, lgamma, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil import (
    REGISTRY,
    Coins,
    KeyveilError,
    People,
    Plan,
    PlanError,
    Prior,
    ReportError,
    Schema,
    Tally,
    estimate,
    synthetic,
)
from keyveil.estimate import assisted, bands, estimators_of
from keyveil.estimate.answer import Band, quantile
from keyveil.estimate.linear import by_least_squares, key_bands, key_weights, single_keys
from keyveil.estimate.shrink import common_law as common
from keyveil.estimate.shrink import shrinkage as shrink
from keyveil.estimate.shrink.noise_line import Noise
from keyveil.estimate.shrink.shrinkage import shrunk_bands
from keyveil.simulate.tallies import Population, simulate_runs
from keyveil.testing import ideal_tally

KEYS = 6
SCHEMA = Schema.of(KEYS, 1, 5)


def coins(key: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(key))


def made(name: str, schema: Schema = SCHEMA, epsilon="1") -> Plan | None:
    try:
        return Plan.of(schema, name, epsilon)
    except KeyveilError:
        return None  # it needs to be told more, such as which pairs


ONES = np.ones((1, 9), bool)
PLANS = {name: plan for name in REGISTRY if (plan := made(name)) is not None}


def some_counts(plan: Plan, key: int, shape: tuple[int, ...] = ()) -> np.ndarray:
    """Counts that honest reports could add up to, with no law behind them."""
    layout, draw = plan.layout, coins(key)
    counts = np.zeros((*shape, layout.cells), np.int64)
    if layout.one_cell:
        cell_counts = draw.integers(20, 90, (*shape, layout.codes)) * layout.possible
        counts[..., layout.code_cells] = cell_counts
        counts[..., layout.own] = np.add.reduceat(cell_counts, layout.first_code, axis=-1)
    else:
        counts[..., layout.own] = 900
        counts[..., layout.code_cells] = draw.integers(200, 400, (*shape, layout.codes))
    return counts


def drawn(plan: Plan, frequency, mean, people: int, runs: int, key: int) -> np.ndarray:
    """Counts of so many runs of people who hold keys as stated, values at the two ends."""
    f, m = np.asarray(frequency), np.asarray(mean)
    law = np.stack([1 - f, f * (1 - m) / 2, f * (1 + m) / 2], axis=1) @ plan.channels[0].expected()
    draw = coins(key)
    reports = draw.multinomial(people, np.full(len(f), 1 / len(f)), runs)
    counts = np.zeros((runs, plan.layout.cells), np.int64)
    own = plan.layout.own
    counts[:, own] = reports
    cells = own[:, None] + 1 + np.arange(plan.channels[0].cells)
    counts[:, cells] = draw.multinomial(reports, law / law.sum(axis=1, keepdims=True))
    return counts


# -- arrays of tallies -----------------------------------------------------------------------------


def fieller(above, below, va, cov, vb, reports, level):
    """The ratio's estimate as it is written for one pair of numbers."""
    if reports == 0 or not below > 0:
        return nan, inf, -inf, inf
    reach = quantile(level)
    square = below**2 - reach**2 * vb
    if square <= 0:
        return above / below, inf, -inf, inf
    middle = above * below - reach**2 * cov
    half = max(middle**2 - square * (above**2 - reach**2 * va), 0.0) ** 0.5
    value = above / below
    error = max(va - 2 * value * cov + value**2 * vb, 0.0) ** 0.5 / below
    return value, error, (middle - half) / square, (middle + half) / square


@given(st.integers(0, 2**32), st.sampled_from([0.5, 0.9, 0.95]))
def test_bands_are_their_estimates_written_out(key, level):
    draw = coins(key)
    above, below = draw.normal(0, 0.3, 8), draw.normal(0.2, 0.2, 8)
    root = draw.normal(0, 0.1, (8, 2, 2))
    spread = root @ np.swapaxes(root, 1, 2)
    reports = draw.integers(0, 3, 8)
    band = Band.ratio(above, below, spread, reports, level)
    plain = Band.plain(above, spread[:, 0, 0], reports, level)
    for i in range(8):
        entries = (spread[i, 0, 0], spread[i, 0, 1], spread[i, 1, 1])
        expected = fieller(above[i], below[i], *entries, reports[i], level)
        got = (band.value[i], band.stderr[i], band.low[i], band.high[i])
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)  # doubles
        point = plain.estimate(i, int(reports[i]))
        if reports[i] == 0:
            assert (isnan(point.value), point.stderr, point.low, point.high) == (True, inf, -inf, inf)
        else:
            assert point.high - point.value == pytest.approx(quantile(level) * spread[i, 0, 0] ** 0.5)


@pytest.mark.parametrize("name", PLANS)
def test_bands_of_many_tallies_are_the_answers_of_each(name):
    plan = PLANS[name]
    counts = some_counts(plan, 5, (2, 2))
    for estimator in estimators_of(plan):
        whole = bands(plan, counts, estimator, 0.9)
        assert whole.reports.shape == (2, 2, KEYS)
        for place in product(range(2), repeat=2):
            answers = estimate(plan, Tally(plan, counts[place]), estimator, 0.9)
            for part in ("frequency", "mean", "mass"):
                band = getattr(whole, part)
                ends = [getattr(answer, part) for answer in answers]
                if band is None:
                    assert ends == [None] * KEYS
                    continue
                low, high = (1.0, 5.0) if part == "mean" else (-1.0, 1.0)
                half = (high - low) / 2
                for what in ("value", "low", "high"):
                    expected = np.array([getattr(e, what) for e in ends])
                    unit = (expected - low) / half - 1 if part == "mean" else expected
                    values = getattr(band, what)[place]
                    # Sums in another order.
                    np.testing.assert_allclose(values, unit, rtol=1e-7, atol=1e-9)
                expected = np.array([e.stderr for e in ends]) / half
                own = band.stderr[place]
                if estimator in ("best", "shrunk"):  # answers agree with their intervals, too
                    width = (band.high - band.low)[place] / (2 * quantile(0.9))
                    own = np.where(np.isfinite(width), np.fmax(own, width), own)
                np.testing.assert_allclose(own, expected, rtol=1e-6, atol=1e-9)


def test_moments_are_unknown_where_a_mechanism_lacks_them():
    for name, lacks in (("grr", 1), ("rappor", 1), ("harmony", 0), ("meanest", 0), ("rr", 1)):
        plan = PLANS[name]
        moments = plan.mechanism.moments(plan, some_counts(plan, 1, (3,)))
        assert moments.reports.shape == (3, KEYS)
        assert np.isnan(moments.values[..., lacks]).all()
        assert np.isnan(moments.covariance[..., lacks, lacks]).all()
        assert np.isfinite(moments.values[..., 1 - lacks]).all()
        assert (moments.covariance[..., 1 - lacks, 1 - lacks] > 0).all()


def test_counts_of_another_width_are_refused():
    plan = PLANS["kvue"]
    with pytest.raises(ReportError, match="24 cells along their last axis"):
        bands(plan, np.zeros((2, 23), np.int64))


def test_estimators_are_listed_own_ones_first():
    assert list(estimators_of(PLANS["kvue"])) == [
        *("least_squares", "likelihood", "best", "shrunk", "corrected", "jackknife")
    ]
    assert list(estimators_of(PLANS["grr"])) == ["least_squares", "best", "shrunk"]
    assert "jackknife" not in estimators_of(PLANS["pairs"])
    assert list(estimators_of(PLANS["privkvm"])) == ["debiased", "published"], "a chain's round"
    with pytest.raises(
        PlanError, match="known: least_squares, likelihood, best, shrunk, corrected, jackknife"
    ):
        estimate(PLANS["kvue"], Tally(PLANS["kvue"]), "magic")


# -- means without the ratio's bias ----------------------------------------------------------------


def expectation(epsilon: str, reports: int, f: float, m: float) -> dict[str, tuple[float, float]]:
    """Each estimator's exact bias and error over all counts that a key of KVUE can have."""
    plan = Plan.of(Schema.of(1), "kvue", epsilon)
    law = np.array([1 - f, f * (1 - m) / 2, f * (1 + m) / 2]) @ plan.channels[0].expected()
    number = np.arange(reports + 1)
    low, high = np.nonzero(np.add.outer(number, number) <= reports)
    cells = np.stack([reports - low - high, low, high], axis=1)
    logs = np.array([lgamma(i + 1) for i in range(reports + 1)])
    chance = np.exp(logs[reports] - logs[cells].sum(axis=1) + cells @ np.log(law))
    assert chance.sum() == pytest.approx(1)
    counts = np.concatenate([np.full((len(cells), 1), reports), cells], axis=1)
    weights = chance * (bands(plan, counts, "least_squares").mean.low[:, 0] > -inf)
    results = {}
    for name in ("least_squares", "corrected", "jackknife"):
        off = np.where(weights > 0, bands(plan, counts, name).mean.value[:, 0] - m, 0.0)
        results[name] = (weights @ off / weights.sum(), weights @ off**2 / weights.sum())
    return results


@pytest.mark.parametrize(
    ("epsilon", "reports", "f", "m"), [("1", 300, 0.6, 0.5), ("2", 200, 0.4, -0.7), ("1", 300, 0.9, 0.9)]
)
def test_corrected_means_have_a_tenth_of_the_bias_and_no_more_error(epsilon, reports, f, m):
    """Exactly, over all outcomes; given that the interval is bounded."""
    results = expectation(epsilon, reports, f, m)
    bias, error = results["least_squares"]
    assert abs(bias) > 2e-3
    for name in ("corrected", "jackknife"):
        assert abs(results[name][0]) < abs(bias) / 10
        assert results[name][1] < error


def test_the_jackknife_leaves_out_each_report_in_turn():
    plan = Plan.of(Schema.of(["a"]), "f2m", 2)
    cells = np.array([9, 4, 11, 17])
    channel = plan.channels[0]
    below, above = by_least_squares(channel, key_weights(plan.schema)).T

    def ratio(counts):
        return (counts @ above) / (counts @ below)

    n = cells.sum()
    without = [ratio(cells - np.eye(4, dtype=int)[y]) for y in range(4) for _ in range(cells[y])]
    jackknife = n * ratio(cells) - (n - 1) * np.mean(without)
    answer = estimate(plan, Tally(plan, np.array([n, *cells])), "jackknife")["a"]
    assert answer.mean.value == pytest.approx(jackknife)
    assert answer.mean.low <= answer.mean.value <= answer.mean.high


@pytest.mark.parametrize("name", ["corrected", "jackknife"])
def test_corrections_vanish_with_noise_and_are_not_made_up_without_reports(name):
    plan = Plan.of(Schema.of(["a", "b"], 0, 10), "kvue", 1)
    tally, _ = ideal_tally(plan, [0.4, 0.7], [0.5, -0.2])
    raw, answers = estimate(plan, tally, "least_squares"), estimate(plan, tally, name)
    for key in ("a", "b"):
        assert answers[key].mean.value == pytest.approx(raw[key].mean.value, abs=1e-6)  # 2^36 reports
        assert answers[key].frequency == raw[key].frequency
    assert answers.estimator == name
    assert "corrected for the ratio's bias" in answers.note
    assert isnan(estimate(plan, Tally(plan), name)["a"].mean.value)
    single = Tally(plan, np.array([1, 0, 0, 1, 0, 0, 0, 0]))
    assert np.isfinite(estimate(plan, single, name)["a"].mean.value)


def test_corrected_is_beales_ratio():
    plan = PLANS["privkv"]
    counts = some_counts(plan, 3)
    moments = plan.mechanism.moments(plan, counts)
    f, s = moments.values.T
    means = (s * f + moments.covariance[:, 0, 1]) / (f**2 + moments.covariance[:, 0, 0])
    np.testing.assert_allclose(bands(plan, counts, "corrected").mean.value[f > 0], means[f > 0])


# -- what keys have in common ----------------------------------------------------------------------


def summed_up(likelihood: np.ndarray, laws: common.Laws, at: np.ndarray) -> np.ndarray:
    """Each key's mean by loops over laws, strays and keys."""
    total, mean = 0.0, np.zeros(len(likelihood))
    for strays, believed in ((0.0, 1.0), (0.1, 0.5), (0.3, 0.5)):
        for law, weight in zip(laws.masses[0, 0], laws.weight[0], strict=True):
            prior = (1 - strays) * law + strays / len(at)
            explained = likelihood @ prior
            chance = believed * np.exp(weight) * explained.prod()
            total += chance
            mean += chance * (likelihood * prior) @ at / explained
    return mean / total


def near_two_fifths(widths):
    return np.full((1, len(widths)), 0.4), np.full((1, len(widths)), 0.1)


def test_the_posterior_is_that_of_every_law_and_share_of_strays_summed_up():
    """By loops over laws, strays and keys, against sums of arrays."""
    at = common.points(20)
    likelihood = np.exp(-((coins(3).uniform(0.1, 0.7, (9, 1)) - at) ** 2) / 0.02)
    laws = common.beta_laws(near_two_fifths, np.zeros((1, 1)), 20)
    prior = common.learn_prior(likelihood[None, None], laws, np.ones((1, 1, 9)))
    posterior = common.posterior(likelihood[None, None], prior, at)
    # Doubles.
    np.testing.assert_allclose(posterior.mean[0, 0], summed_up(likelihood, laws, at), rtol=1e-9)


@pytest.mark.parametrize("telling", [2, 3, 4, 9])
def test_where_hardly_any_key_tells_of_itself_the_others_may_lie_anywhere(monkeypatch, telling):
    at = common.points(40)
    widths = np.where(np.arange(9) < telling, 0.02, 30.0)[:, None]
    likelihood = np.exp(-((0.4 - at) ** 2) / (2 * widths**2))
    laws = common.beta_laws(near_two_fifths, np.zeros((1, 1)), 40)

    def settled():
        return common.learn_prior(likelihood[None, None], laws, np.ones((1, 1, 9)))

    prior = settled()
    law = likelihood / likelihood.sum(axis=1, keepdims=True)
    weights = [1 / (sum(p * (at - p @ at) ** 2) + 0.002) for p in law]
    alike = sum(weights) ** 2 / sum(weight**2 for weight in weights)
    trust = min(max((alike - 2.5) / 2.5, 0.0), 1.0)
    assert (trust == 0, trust == 1) == (telling == 2, telling == 9)
    monkeypatch.setattr(common, "FEW", -1.0)
    monkeypatch.setattr(common, "ENOUGH", 0.0)  # trusts whatever any keys show
    for mixed, learned in zip(prior, settled(), strict=True):
        np.testing.assert_allclose(mixed, trust * learned + (1 - trust) / 40, rtol=1e-9)
        assert np.abs(learned[0, 0, -1] - 1 / 40).max() > 0.01


def test_a_posterior_has_the_moments_of_its_law():
    """Written out point by point."""
    at, draw = common.points(30), coins(11)
    likelihood, prior = draw.random((2, 1, 1, 4, 30))
    posterior = common.posterior(likelihood, prior, at)
    for key in range(4):
        law = likelihood[0, 0, key] * prior[0, 0, key]
        law = law / law.sum()
        mean = sum(law * at)
        moments = [part[0, 0, key] for part in posterior]
        np.testing.assert_allclose(moments, [mean, sum(law * (at - mean) ** 2)], rtol=1e-9)


def test_rare_keys_errors_leave_open_that_they_differ_from_those_that_many_hold(monkeypatch):
    from keyveil.estimate.shrink import mean_by_frequency as sloped

    plan = Plan.of(Schema.of(40), "kvue", "2")
    counts = drawn(plan, np.r_[np.full(8, 0.8), np.full(32, 0.02)], np.full(40, 0.6), 100_000, 1, 3)
    here = bands(plan, counts, "shrunk").mean
    monkeypatch.setattr(sloped, "APART", 0.0)
    without = bands(plan, counts, "shrunk").mean
    np.testing.assert_array_equal(here.value, without.value)
    wider = (here.stderr / without.stderr)[0]
    assert wider.min() >= 1
    assert wider[8:].mean() > 1.5 * wider[:8].mean()


CAMPS = np.array([0.95, 0.9, *[0.03] * 6]), np.array([0.9, 0.8, *[-0.9] * 6])


def camps_over_raw() -> float:
    """Shrunk over raw squared error: two keys that all hold lie at one end, rare ones at the other."""
    plan = Plan.of(Schema.of(8), "kvue", "1")
    counts = drawn(plan, *CAMPS, 10_000, 40, 5)
    error = {}
    for name in ("least_squares", "shrunk"):
        value = np.clip(np.nan_to_num(bands(plan, counts, name).mean.value), -1, 1)
        error[name] = ((value - CAMPS[1]) ** 2).mean()
    return error["shrunk"] / error["least_squares"]


def test_two_keys_that_agree_do_not_draw_the_rare_ones_to_their_end(monkeypatch):
    """The ratio is 0.89 and the twin's 2.1, each to about 0.05 (40 runs of eight keys)."""
    assert camps_over_raw() < 1
    monkeypatch.setattr(common, "FEW", -1.0)  # the twin trusts whatever any keys show
    monkeypatch.setattr(common, "ENOUGH", 0.0)
    assert camps_over_raw() > 1.4


def test_laws_have_the_means_and_widths_that_they_are_named_by():
    laws = common.beta_laws(
        lambda widths: (np.full((1, len(widths)), 0.5), np.full((1, len(widths)), 0.01)),
        np.zeros((1, 1)),
        400,
    )
    at = common.points(400)
    means = laws.masses[0, 0] @ at
    assert means == pytest.approx(0.5, abs=0.031)
    spread = np.sqrt(laws.masses[0, 0] @ at**2 - means**2).reshape(-1, common.MEANS)[:, 3]
    # The narrowest are as wide as the points are apart.
    np.testing.assert_allclose(spread[3:], 0.5 * common.WIDTHS[3:], rtol=0.02)


@pytest.mark.parametrize("name", ["kvue", "f2m", "bisample"])
def test_noise_at_any_truth_is_read_off_the_keys_own(name):
    """Exact for one-key channels of two levels: their covariance is a line less a product."""
    plan = Plan.of(Schema.of(9), name, 1)
    shares, means = np.linspace(0.1, 0.9, 9), np.tile([-0.7, 0.2, 0.9], 3)
    tally, _ = ideal_tally(plan, shares, means)
    moments = plan.mechanism.moments(plan, tally.counts[None])
    law_of = Noise.of(*(getattr(moments, n) for n in ("values", "covariance", "reports")), ONES)
    assert law_of.fits.all()
    decoder = by_least_squares(plan.channels[0], key_weights(plan.schema))
    for f, m in ((0.3, -0.5), (0.75, 0.6)):
        law = np.array([1 - f, f * (1 - m) / 2, f * (1 + m) / 2])
        exact = plan.channels[0].covariance(decoder, law)
        at = (np.full((1, 9, 1), f), np.full((1, 9, 1), f * m))
        for i, j in ((0, 0), (0, 1), (1, 1)):
            noise = law_of.entry(i, j, *at)[0, :, 0] * moments.reports[0]
            np.testing.assert_allclose(noise, exact[i, j], rtol=1e-6, atol=1e-6)  # whole counts


# -- shrinkage -------------------------------------------------------------------------------------


def test_shrinkage_vanishes_with_noise():
    plan = Plan.of(Schema.of(8, 0, 10), "kvue", 1)
    shares, means = np.linspace(0.05, 0.9, 8), np.linspace(-0.9, 0.8, 8)
    tally, _ = ideal_tally(plan, shares, means)
    raw, shrunk = estimate(plan, tally), estimate(plan, tally, "shrunk")
    for raw_answer, shrunk_answer in zip(raw, shrunk, strict=True):
        for part in ("frequency", "mean"):
            before, after = getattr(raw_answer, part), getattr(shrunk_answer, part)
            assert after.value == pytest.approx(before.value, abs=0.01 * before.stderr)
            assert after.stderr == pytest.approx(before.stderr, rel=0.05)


@pytest.mark.parametrize("name", ["kvue", "privkv", "rr", "grr", "harmony"])
def test_the_order_of_keys_does_not_matter(name):
    plan = Plan.of(Schema.of(9), name, "0.5")
    moments = plan.mechanism.moments(plan, some_counts(plan, 8))
    order = coins(1).permutation(9)
    turned = type(moments)(moments.reports[order], moments.values[order], moments.covariance[order])
    raw = bands(plan, some_counts(plan, 8))
    here = shrink.shrunk_bands(raw, moments, 0.95)
    there = shrink.shrunk_bands(raw, turned, 0.95)
    for part in ("frequency", "mean", "mass"):
        if getattr(here, part) is not None:
            left, right = getattr(here, part), getattr(there, part)
            np.testing.assert_allclose(left.value[order], right.value, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(left.stderr[order], right.stderr, rtol=1e-8)


def test_turning_the_scale_round_turns_the_means_round():
    plan = Plan.of(Schema.of(20), "kvue", "0.7")
    counts = drawn(plan, np.linspace(0.1, 0.8, 20), np.linspace(-0.2, 0.9, 20), 30_000, 1, 4)
    turned = counts.copy()
    for own in plan.layout.own:
        turned[:, [own + 2, own + 3]] = counts[:, [own + 3, own + 2]]
    here, there = (bands(plan, numbers, "shrunk") for numbers in (counts, turned))
    np.testing.assert_allclose(here.mean.value, -there.mean.value, atol=1e-8)
    np.testing.assert_allclose(here.mean.low, -there.mean.high, atol=1e-8)
    np.testing.assert_allclose(here.frequency.value, there.frequency.value, atol=1e-8)


def test_keys_that_are_alike_are_drawn_together():
    plan = Plan.of(Schema.of(60), "kvue", "0.5")
    counts = drawn(plan, np.full(60, 0.2), np.full(60, 0.7), 60_000, 1, 2)
    raw, shrunk = bands(plan, counts, "least_squares"), bands(plan, counts, "shrunk")
    assert shrunk.frequency.value.std() < raw.frequency.value.std() / 4
    clipped = np.clip(np.nan_to_num(raw.mean.value), -1, 1)
    assert shrunk.mean.value.std() < clipped.std() / 3
    assert shrunk.mean.value.mean() == pytest.approx(0.7, abs=0.25)


def test_a_key_far_from_all_others_stays_where_it_is():
    plan = Plan.of(Schema.of(60), "kvue", 2)
    shares = np.r_[0.9, np.full(59, 0.02)]
    counts = drawn(plan, shares, np.r_[-0.8, np.full(59, 0.7)], 60_000, 1, 2)
    raw, shrunk = bands(plan, counts, "least_squares"), bands(plan, counts, "shrunk")
    for part in ("frequency", "mean"):
        before, after = getattr(raw, part), getattr(shrunk, part)
        assert abs(after.value - before.value)[0, 0] < before.stderr[0, 0]


def test_a_key_without_reports_gets_what_all_have_in_common():
    plan = Plan.of(Schema.of(12), "kvue", 1)
    counts = drawn(plan, np.full(12, 0.4), np.full(12, 0.5), 200_000, 1, 7)[0]
    counts[:4] = 0
    shrunk = bands(plan, counts, "shrunk")
    assert shrunk.reports[0] == 0
    assert shrunk.frequency.value[0] == pytest.approx(0.4, abs=0.05)
    assert shrunk.mean.value[0] == pytest.approx(0.5, abs=0.1)
    assert shrunk.frequency.low[0] < shrunk.frequency.low[1:].min()
    others = bands(Plan.of(Schema.of(11), "kvue", 1), counts[4:], "shrunk")
    np.testing.assert_allclose(shrunk.frequency.value[1:], others.frequency.value, atol=1e-3)


@pytest.mark.parametrize("keys", [1, 2, 4])
def test_few_keys_have_nothing_in_common_and_stay_as_they_are_but_clipped(keys):
    plan = Plan.of(Schema.of(keys, 0, 10), "kvue", "0.5")
    rows = [10, 5, 85] + [50, 30, 20] * (keys - 1)
    counts = np.concatenate([[100, *rows[3 * i : 3 * i + 3]] for i in range(keys)])
    raw, shrunk = bands(plan, counts, "least_squares"), bands(plan, counts, "shrunk")
    np.testing.assert_array_equal(shrunk.frequency.value, np.clip(raw.frequency.value, 0, 1))
    np.testing.assert_array_equal(shrunk.mean.value, np.clip(raw.mean.value, -1, 1))
    widths = shrunk.frequency.high - shrunk.frequency.low
    assert (widths < 1.2 * np.clip(raw.frequency.high - raw.frequency.low, 0, 1)).all()
    assert shrunk.frequency.value[0] == 1


@given(st.sampled_from(sorted(PLANS)), st.integers(0, 2**32), st.floats(0, 1))
def test_shrunk_answers_are_always_known_and_within_range(name, key, empty):
    plan = PLANS[name]
    if "shrunk" not in estimators_of(plan):
        return
    counts = some_counts(plan, key % 1000)
    if single_keys(plan):  # keys without reports
        for view in np.flatnonzero(coins(key).random(KEYS) < empty):
            own, size = plan.layout.own[view], plan.layout.sizes[view]
            counts[own : own + 1 + size] = 0
    shrunk = bands(plan, counts, "shrunk")
    for part, low in (("frequency", 0), ("mean", -1), ("mass", -1)):
        band = getattr(shrunk, part)
        if band is None or (shrunk.reports > 0).sum() < shrink.FEWEST:
            continue
        bounded = np.isfinite(band.low)
        assert (band.low[bounded] >= low).all()
        assert (band.high[bounded] <= 1).all()
        assert (bounded == np.isfinite(band.high)).all()
        assert ((band.value >= low) & (band.value <= 1)).all()
        assert ((band.low <= band.value) & (band.value <= band.high)).all()
        assert (band.stderr > 0).all()


def test_nothing_is_known_without_any_reports():
    plan = PLANS["kvue"]
    shrunk = bands(plan, np.zeros((2, plan.layout.cells), np.int64), "shrunk")
    assert np.isnan(shrunk.frequency.value).all()
    assert (shrunk.mean.low == -inf).all()
    assert (shrunk.mean.high == inf).all()


def test_thousands_of_keys_are_shrunk_in_groups_that_agree(monkeypatch):
    plan = Plan.of(Schema.of(600), "kvue", 1)
    counts = drawn(plan, coins(1).beta(2, 20, 600), np.full(600, 0.6), 600_000, 1, 3)
    whole = bands(plan, counts, "shrunk")
    monkeypatch.setattr(shrink, "MOST", 250)
    parts = bands(plan, counts, "shrunk")
    assert not np.array_equal(whole.frequency.value, parts.frequency.value)
    gap = np.abs(whole.frequency.value - parts.frequency.value)
    assert (gap / whole.frequency.stderr).mean() < 0.2


def test_shrunk_answers_say_so():
    plan = PLANS["collision"]
    answers = estimate(plan, Tally(plan, some_counts(plan, 1)), "shrunk")
    assert answers.estimator == "shrunk"
    assert "shrunk towards what all keys have in common" in answers.note
    assert "each interval covers its own key" in answers.note
    assert plan.mechanism.note in answers.note, "beside the mechanism's own"
    raw = estimate(plan, Tally(plan, some_counts(plan, 1)), "least_squares")
    assert "shrunk" not in raw.note


def test_answers_that_were_not_shrunk_say_that():
    plan = Plan.of(Schema.of(4, 1, 5), "kvue", 1)
    answers = estimate(plan, Tally(plan, some_counts(plan, 1)), "shrunk")
    assert "nothing was shrunk: fewer than 5 keys" in answers.note
    raw = estimate(plan, Tally(plan, some_counts(plan, 1)), "least_squares", after=["clip"])
    for answer, other in zip(answers, raw, strict=True):
        assert answer.frequency.value == pytest.approx(other.frequency.value)
    plan = Plan.of(Schema.of(9, 1, 5), "kvue", 1)
    counts = some_counts(plan, 1).copy()
    assert "shrunk towards" in estimate(plan, Tally(plan, counts), "shrunk").note
    counts[plan.layout.own[4] :] = 0  # four of nine keys have reports
    assert "nothing was shrunk" in estimate(plan, Tally(plan, counts), "shrunk").note


# -- error and coverage, sampled -------------------------------------------------------------------

RUNS = 30
SHARES = np.clip(coins(11).normal(0.5, 0.15, 100), 0.01, 0.99)
MEANS = np.clip(coins(12).normal(0.0, 0.3, 100), -1, 1)


def measured(epsilon: str) -> dict[str, float]:
    """Mean squared error of shrunk over that of clipped raw means, and coverage, 1e5 people."""
    plan = Plan.of(Schema.of(100), "kvue", epsilon)
    counts = drawn(plan, SHARES, MEANS, 100_000, RUNS, 21)
    raw, shrunk = bands(plan, counts, "least_squares"), bands(plan, counts, "shrunk")
    clipped = np.clip(np.nan_to_num(raw.mean.value), -1, 1)
    return {
        "error": ((shrunk.mean.value - MEANS) ** 2).mean() / ((clipped - MEANS) ** 2).mean(),
        "frequency": float(
            ((shrunk.frequency.low <= SHARES) & (shrunk.frequency.high >= SHARES)).mean()
        ),
        "mean": float(((shrunk.mean.low <= MEANS) & (shrunk.mean.high >= MEANS)).mean()),
    }


@pytest.mark.parametrize(("epsilon", "most"), [("0.2", 0.3), ("0.4", 0.4), ("5", 1.02)])
def test_shrinkage_cuts_the_error_and_its_intervals_cover(epsilon, most):
    """100 Gaussian keys. Coverage over 3,000 intervals that share a prior: deviation below 0.8 %, so
    that a true 95 % falls below 93 % less than once in 160 such checks."""
    measures = measured(epsilon)
    assert measures["error"] < most
    assert measures["frequency"] > 0.93
    assert measures["mean"] > 0.93


def test_intervals_at_another_level_do_not_cover(monkeypatch):
    """The broken twin of the check above: regions of 85 % in place of 95 %."""
    usual = assisted.regions
    monkeypatch.setattr(assisted, "regions", lambda level: usual(0.85))
    assert measured("0.4")["mean"] < 0.9


def test_intervals_cover_even_if_the_prior_is_too_narrow(monkeypatch):
    """The prior places the region and does not change its probability."""
    monkeypatch.setattr(assisted, "WEIGHTS", np.array([1.0, 0.0, 0.0]))
    assert measured("0.4")["mean"] > 0.93


@pytest.mark.sampled
def test_intervals_reach_the_end_of_the_range_where_everyone_holds_every_key():
    """Sampled: 40 runs of 5 keys, ten million people; of 200 intervals 20 miss less than once in 500.

    The grids end short of one, so that an interval that is left where they put it misses it.
    """
    schema = Schema.of(list("abcde"), -1, 1)
    people = People.of_records(schema, [dict.fromkeys("abcde", 0.5)] * 50)
    plan = Plan.of(schema, "kvue", 4, "tight")
    counts = simulate_runs(plan, Population(schema, people), 10**7, Coins.stated("all hold all"), 40)
    moments = plan.mechanism.moments(plan, counts)
    band = shrunk_bands(key_bands(plan, moments, 0.95), moments, 0.95).frequency
    assert (band.high < 1).sum() < 20
    assert (band.low > 0.99).all()
    posterior = shrink.learn(key_bands(plan, moments, 0.95), moments)["frequency"]
    upper_end = posterior[0] + 2.3 * np.sqrt(posterior[1])  # wider than any 95 % interval
    assert (upper_end < 1).sum() > 40, "the broken twin"


@pytest.mark.sampled
def test_means_near_an_end_are_covered_with_many_levels_of_values():
    """With more than two levels the noise depends on how values spread; the line of all keys ignores it.

    The odds of a wrong alarm are below 1e-5. With the line alone, 71 % were covered.
    """
    stated = synthetic.gaussian()
    population = Population(stated.schema, stated.people)
    prior = Prior.of_people(stated.schema, stated.people)
    plan = Plan.of(stated.schema, "several", 3, "tight", spread=0.3)
    band = bands(plan, simulate_runs(plan, population, 100_000, Coins.stated("near an end"), 150)).mean
    key = int(np.abs(prior.mean).argmax())
    inside = (band.low[:, key] <= prior.mean[key]) & (prior.mean[key] <= band.high[:, key])
    assert inside.mean() > 0.87
