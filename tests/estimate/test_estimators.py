"""Estimators: intervals against brute force, likelihood against an optimiser, projection against one."""

from __future__ import annotations

from decimal import Decimal
from math import inf, isnan, nan
from statistics import NormalDist

import numpy as np
import pytest
from scipy import optimize

from keyveil import REGISTRY, Plan, PlanError, QueryError, ReportError, Schema, Tally, estimate
from keyveil.channel import Halfspace, Symmetric, Table
from keyveil.estimate import likelihood as by_likelihood
from keyveil.estimate.answer import Estimate, biased, plain, quantile, ratio, shifted
from keyveil.estimate.forecast.few_reports import effective_reports
from keyveil.estimate.forecast.key_forecast import forecast_key, state_law
from keyveil.estimate.likelihood import SLACK, covariance, fit, likelier_laws
from keyveil.estimate.linear import by_least_squares, key_weights, single_moments
from keyveil.estimate.projection import onto_simplex
from keyveil.mechanisms.kvoh import by_bits
from keyveil.people.views import Views
from keyveil.testing import example_plan, ideal_tally, speaks_singly

ONE = Schema.of(["a"], -1, 1)
WIDE = Schema.of(["a", "b"], ranges={"a": ("0", "10"), "b": ("-3", "-1")})
LIKELY = [name for name, kind in REGISTRY.items() if "likelihood" in kind.estimators]


def coins(key: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(key))


def tally_of(plan: Plan, *counts) -> Tally:
    return Tally(plan, np.concatenate([[sum(row), *row] for row in counts]).astype(np.int64))


# -- estimates and intervals -----------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_a_plain_interval_is_the_normal_one(level):
    answer = plain(0.3, 0.04, 100, level)
    reach = NormalDist().inv_cdf((1 + level) / 2) * 0.2
    assert (answer.value, answer.stderr, answer.reports) == (0.3, 0.2, 100)
    assert (answer.low, answer.high) == pytest.approx((0.3 - reach, 0.3 + reach))  # doubles
    assert answer.bounded


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, nan])
def test_a_level_lies_between_zero_and_one(level):
    with pytest.raises(PlanError, match="level"):
        quantile(level)


FIELLER = [
    (0.2, 0.5, [[0.01, 0.002], [0.002, 0.01]]),
    (-0.3, 0.4, [[0.01, -0.004], [-0.004, 0.01]]),
    (0.0, 0.3, [[0.02, 0.0], [0.0, 0.005]]),
    (0.6, 0.6, [[0.003, 0.0029], [0.0029, 0.003]]),
    (1.0, 0.21, [[0.05, 0.01], [0.01, 0.0099]]),
]


@pytest.mark.parametrize(("above", "below", "spread"), FIELLER)
def test_fiellers_interval_is_the_set_of_ratios_that_a_test_does_not_reject(above, below, spread):
    """By brute force: r is inside where |above - r below| is within its own standard errors."""
    answer = ratio(above, below, np.array(spread), 50, 0.95)
    reach = quantile(0.95)
    grid = np.linspace(answer.low - 1, answer.high + 1, 2_000_001)
    (va, cov), (_, vb) = spread
    inside = (above - grid * below) ** 2 <= reach**2 * (va - 2 * grid * cov + grid**2 * vb)
    points = grid[inside]
    step = grid[1] - grid[0]
    assert (answer.low, answer.high) == pytest.approx((points[0], points[-1]), abs=2 * step)
    assert inside[np.searchsorted(grid, points[0]) : np.searchsorted(grid, points[-1])].all()
    assert answer.low <= answer.value <= answer.high
    assert answer.value == above / below
    delta = np.sqrt(va - 2 * answer.value * cov + answer.value**2 * vb) / below
    assert answer.stderr == pytest.approx(delta)  # the delta method, in doubles


def test_an_interval_is_unbounded_just_where_zero_is_a_possible_denominator():
    reach = quantile(0.95)
    for below, bounded in ((reach * 0.1 * 1.001, True), (reach * 0.1 * 0.999, False)):
        answer = ratio(0.05, below, np.diag([0.01, 0.01]), 50, 0.95)
        assert answer.bounded is bounded
        assert answer.value == pytest.approx(0.05 / below)
    assert (answer.low, answer.high, answer.stderr) == (-inf, inf, inf)


@pytest.mark.parametrize("below", [0.0, -0.1, nan])
def test_a_ratio_without_a_positive_denominator_is_unknown(below):
    answer = ratio(0.1, below, np.diag([0.01, 0.01]), 50, 0.95)
    assert isnan(answer.value)
    assert (answer.low, answer.high) == (-inf, inf)


@pytest.mark.parametrize(
    "estimator", [None, "likelihood", "published", "virtual", "per_bit", "constrained"]
)
@pytest.mark.parametrize("name", REGISTRY)
def test_without_reports_nothing_is_known(name, estimator):
    plan = example_plan(Schema.of(4, 1, 5), name)
    if estimator is not None and estimator not in plan.mechanism.estimators:
        with pytest.raises(PlanError, match="known: "):
            estimate(plan, Tally(plan), estimator)
        return
    for answer in estimate(plan, Tally(plan), estimator):
        for statistic in (answer.frequency, answer.mean, answer.mass):
            if statistic is not None:
                assert isnan(statistic.value)
                assert statistic.reports == 0
                assert not statistic.bounded
                assert statistic.document()["value"] is None


def test_a_rare_key_has_a_value_for_its_mean_and_no_bounded_interval():
    plan = Plan.of(ONE, "kvue", 1)
    lie = plan.channels[0].lie / 2**32
    few = tally_of(plan, [1000 - 2 * round(1000 * lie) - 4, round(1000 * lie) + 4, round(1000 * lie)])
    raw, answer = (estimate(plan, few, name)["a"] for name in ("least_squares", None))
    assert raw.frequency.value > 0
    assert raw.frequency.low < 0
    assert answer.frequency.low == 0
    assert not raw.mean.bounded
    assert not answer.mean.bounded
    assert np.isfinite(answer.mean.value)
    assert answer.document()["mean"]["interval"] == "unbounded"


def test_means_and_intervals_are_on_the_keys_own_scale():
    plan, plain_plan = Plan.of(WIDE, "kvue", 2), Plan.of(Schema.of(["a", "b"]), "kvue", 2)
    rows = ([300, 200, 500], [100, 500, 400])
    for answer, unit, (low, high) in zip(
        estimate(plan, tally_of(plan, *rows)),
        estimate(plain_plan, tally_of(plain_plan, *rows)),
        ((0, 10), (-3, -1)),
        strict=True,
    ):
        assert answer.frequency == unit.frequency
        for name in ("value", "low", "high"):
            scaled = low + (getattr(unit.mean, name) + 1) / 2 * (high - low)
            assert getattr(answer.mean, name) == pytest.approx(scaled)  # doubles
        assert answer.mean.stderr == pytest.approx(unit.mean.stderr * (high - low) / 2)


def test_an_estimate_says_what_it_claims():
    assert plain(0.5, 0.01, 10, 0.95).document()["interval"] == "bounded"
    assert biased(0.5, 10).document()["interval"] == "none"
    assert plain(0.5, 0.01, 0, 0.95).document() == {
        "value": None,
        "stderr": None,
        "low": None,
        "high": None,
        "interval": "unbounded",
        "reports": 0,
    }
    moved = shifted(Estimate(nan, inf, -inf, inf, 3), 1, 5)
    assert isnan(moved.value)
    assert (moved.low, moved.high) == (-inf, inf)


def test_unknown_names_are_refused_with_the_known_ones():
    plan = Plan.of(ONE, "kvue", 1)
    with pytest.raises(PlanError, match="known: least_squares, likelihood"):
        estimate(plan, Tally(plan), "magic")
    with pytest.raises(PlanError, match="known: clip, simplex"):
        estimate(plan, Tally(plan), after=["magic"])
    with pytest.raises(ReportError, match="another plan"):
        estimate(plan, Tally(Plan.of(ONE, "kvue", 2)))


SINGLY = [
    name
    for name, plan in ((n, example_plan(Schema.of(4), n)) for n in REGISTRY)
    if speaks_singly(plan) and plan.encode in ("views", "item", "signs") and name != "optimal"
]
"""Mechanisms whose answers come from one law each, by the generic decoder; optimal has its own test."""


@pytest.mark.parametrize("name", SINGLY)
def test_the_stated_standard_error_is_that_of_the_exact_law(name):
    """Plug-in at a tally without noise against the covariance of all outputs, key by key."""
    plan = Plan.of(WIDE, name, 1)
    tally, truth = ideal_tally(plan, [0.4, 0.7], [0.5, -0.2])
    answers = estimate(plan, tally)
    for place, answer in enumerate(answers):
        channel = plan.view_channels[min(place, len(plan.views) - 1)]
        n = tally.view_counts(min(place, len(plan.views) - 1))[0]
        if plan.encode == "views":
            law = state_law(plan, 0.4 if place == 0 else 0.7, 0.5 if place == 0 else -0.2)
            weights = np.nan_to_num(key_weights(plan.schema))
        elif plan.encode == "item":
            law = np.array([1 - truth[:, 0].sum(), *truth[:, 0]])
            weights = np.eye(3)[:, [1 + place]]
        else:
            mass = answer.mass
            exact = (1 / channel.pull**2 - truth[place, 1] ** 2) / n
            assert mass.stderr == pytest.approx(np.sqrt(exact), rel=1e-6)  # whole counts
            continue
        decoder = by_least_squares(channel, weights)
        spread = np.full((weights.shape[1],) * 2, nan)
        known = ~np.isnan(decoder).any(axis=0)
        spread[np.ix_(known, known)] = channel.covariance(decoder[:, known], law)
        if answer.frequency is not None:
            assert answer.frequency.stderr == pytest.approx(np.sqrt(spread[0, 0] / n), rel=1e-6)
        if answer.mass is not None:
            assert answer.mass.stderr == pytest.approx(np.sqrt(spread[1, 1] / n), rel=1e-6)
        if answer.mean is not None:
            f, s = truth[place]
            m = s / f
            delta = (spread[1, 1] - 2 * m * spread[0, 1] + m**2 * spread[0, 0]) / f**2 / n
            width = float(plan.schema.high[place] - plan.schema.low[place])
            assert answer.mean.stderr == pytest.approx(np.sqrt(delta) * width / 2, rel=1e-6)


# -- predicted error -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rr", "privkv", "kvue", "kvoh", "bisample", "f2m", "harmony"])
@pytest.mark.parametrize(("f", "m"), [(0.1, 0.0), (0.5, 0.8), (0.9, -0.3)])
def test_forecast_of_a_key_is_that_of_all_outputs_written_out(name, f, m):
    plan = Plan.of(WIDE, name, 1)
    channel = plan.channels[0]
    law = state_law(plan, f, m)
    prediction = forecast_key(plan, 1000, f, m)
    weights = np.nan_to_num(key_weights(plan.schema))
    cells = by_least_squares(channel, key_weights(plan.schema))
    chances = law @ channel.expected()
    reports = effective_reports(1000, 0.5)  # two keys share the people
    for column, value in ((0, prediction.frequency), (1, prediction.mass)):
        if np.isnan(cells[:, column]).any():
            assert isnan(value)
            continue
        mean = law @ weights[:, column]
        exact = sum(p * (w - mean) ** 2 for p, w in zip(chances, cells[:, column], strict=True))
        assert value == pytest.approx(exact / reports, rel=1e-9)
    if not isnan(prediction.mean):
        scores = (cells[:, 1] - m * cells[:, 0]) / f
        assert prediction.mean == pytest.approx(float(chances @ scores**2) / reports, rel=1e-9)


def test_forecast_of_a_key_takes_another_decoder_and_law():
    plan = Plan.of(ONE, "kvoh", 1)
    per_bit = forecast_key(plan, 1000, 0.5, 0, decode=by_bits)
    assert per_bit.frequency > forecast_key(plan, 1000, 0.5, 0).frequency
    same = forecast_key(plan, 1000, 0.3, 0.3, law=state_law(plan, 0.5, 0))
    other = forecast_key(plan, 1000, 0.5, 0)
    assert (same.covariance == other.covariance).all()
    assert same.mean == other.mean


def test_forecast_of_a_key_is_refused_where_it_means_nothing():
    with pytest.raises(PlanError, match="one key at a time"):
        forecast_key(Plan.of(WIDE, "grr", 1), 100, 0.5, 0)
    with pytest.raises(PlanError, match=r"in \[0, 1\]"):
        forecast_key(Plan.of(WIDE, "kvue", 1), 100, 1.5, 0)
    assert forecast_key(Plan.of(WIDE, "kvue", 1), 100, 0.0, 0).mean == inf, "no one holds it"


# -- maximum likelihood ----------------------------------------------------------------------------


def best_law(channel, counts) -> tuple[np.ndarray, float]:
    """The most likely law by SciPy, from several starts."""
    rows, best = channel.expected(), None
    for start in (np.full(channel.states, 1 / channel.states), *np.eye(channel.states) * 0.8 + 0.1):
        solution = optimize.minimize(
            lambda law: -counts @ np.log(np.maximum(law @ rows, 1e-300)) / counts.sum(),
            start / start.sum(),
            jac=lambda law: -(counts / np.maximum(law @ rows, 1e-300)) @ rows.T / counts.sum(),
            bounds=[(0, 1)] * channel.states,
            constraints={"type": "eq", "fun": lambda law: law.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 500},
        )
        if best is None or solution.fun < best.fun:
            best = solution
    return best.x, -best.fun * counts.sum()


@pytest.mark.parametrize("epsilon", ["0.5", "1", "3"])
@pytest.mark.parametrize("name", LIKELY)
def test_no_optimiser_finds_a_likelier_law(name, epsilon):
    channel = Plan.of(ONE, name, epsilon).channels[0]
    rows = channel.expected()
    for key in range(6):
        law = coins(key).dirichlet(np.full(channel.states, 0.4))
        counts = coins(key + 100).multinomial(500, law @ rows / (law @ rows).sum()).astype(float)
        result = fit(channel, counts)
        assert result.converged
        mine = float(counts @ np.log(result.laws[0] @ rows))
        _, theirs = best_law(channel, counts)
        assert mine >= theirs - SLACK, "the stopping rule's bound holds"
        assert result.gap[0] >= theirs - mine - 1e-6  # SLSQP stops 1e-15 of a few hundred nats away
        assert result.laws[0].sum() == pytest.approx(1)
        assert (result.laws[0] >= 0).all()


@pytest.mark.parametrize("name", ["rr", "kvue", "privkv"])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "3"])
def test_likelihood_is_least_squares_inside_where_the_channel_is_square(name, epsilon):
    plan = Plan.of(ONE, name, epsilon)
    tally, _ = ideal_tally(plan, [0.6], [0.2])
    counts = coins(4).multinomial(10**7, tally.counts[1:] / tally.counts[1:].sum())
    noisy = tally_of(plan, counts)
    linear, likely = (estimate(plan, noisy, e)["a"] for e in (None, "likelihood"))
    # Within SLACK nats of the best, that is within sqrt(2 SLACK) standard errors of it.
    assert likely.frequency.value == pytest.approx(
        linear.frequency.value, abs=np.sqrt(2 * SLACK) * linear.frequency.stderr
    )
    assert likely.frequency.stderr == pytest.approx(linear.frequency.stderr, rel=1e-3)
    if likely.mean is not None:
        gap = np.sqrt(2 * SLACK) * linear.mean.stderr
        assert likely.mean.value == pytest.approx(linear.mean.value, abs=gap)
        assert likely.mean.stderr == pytest.approx(linear.mean.stderr, rel=1e-3)


@pytest.mark.parametrize("name", LIKELY)
def test_likelihood_stays_within_bounds_where_least_squares_leaves_them(name):
    plan = Plan.of(ONE, name, "0.1")
    channel = plan.channels[0]
    counts = np.ones(channel.cells, np.int64)
    counts[np.argmax(channel.expected()[1])] = 30
    answer = estimate(plan, tally_of(plan, counts), "likelihood")["a"]
    assert 0 <= answer.frequency.value <= 1
    if answer.mean is not None and not isnan(answer.mean.value):
        assert -1 <= answer.mean.value <= 1


def test_the_gap_bounds_what_every_other_law_could_gain():
    channel = Plan.of(ONE, "kvoh", 1).channels[0]
    counts = coins(1).integers(1, 200, 8).astype(float)
    result = fit(channel, counts)
    score = result.laws @ channel.expected()
    mine = counts @ np.log(score[0])
    for key in range(50):
        other = coins(key).dirichlet(np.ones(3))
        assert counts @ np.log(other @ channel.expected()) <= mine + result.gap[0] + 1e-9  # doubles


def test_a_leap_that_loses_likelihood_is_not_taken():
    channel = Symmetric.of(3, Decimal(1))
    shares = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    near, far = shares @ channel.decoder(np.eye(3)), np.array([[0.01, 0.01, 0.98], [0.2, 0.3, 0.5]])
    assert np.array_equal(likelier_laws(channel, shares, far, near)[0], near[0])
    assert np.array_equal(likelier_laws(channel, shares, near, far)[0], near[0])


def test_rows_of_counts_are_fitted_apart():
    channel = Symmetric.of(5, Decimal(1))
    rows = coins(2).integers(0, 50, (4, 5)).astype(float)
    rows[2] = 0
    together = fit(channel, rows)
    for row, law in zip(rows, together.laws, strict=True):
        alone = fit(channel, row)
        mine, theirs = (
            row @ np.log(np.maximum(x @ channel.expected(), 1e-300)) for x in (law, alone.laws[0])
        )
        assert mine == pytest.approx(theirs, abs=2 * SLACK)
    assert together.gap[2] == 0


def test_likelihood_is_refused_where_the_tally_does_not_keep_it():
    with pytest.raises(PlanError, match="does not keep the likelihood"):
        fit(Halfspace.of(13, Decimal(1)), np.ones(13))
    pairs = Plan(WIDE, Views(((0, 1),)), "views", (Symmetric.of(9, Decimal(1)),), Decimal(1), "kvue")
    with pytest.raises(PlanError, match="one key at a time"):
        estimate(pairs, Tally(pairs), "likelihood")


def test_the_information_is_the_inverse_covariance_where_the_channel_is_square():
    channel, law = Symmetric.of(3, Decimal(1)), np.array([0.5, 0.3, 0.2])
    weights = np.eye(3)[:, 1:]
    exact = channel.covariance(channel.decoder(weights), law)
    np.testing.assert_allclose(covariance(channel, law, weights), exact, rtol=1e-9)  # doubles
    wide = Table(((1 << 30, 1 << 30, 1 << 31), (1 << 31, 1 << 30, 1 << 30), (1 << 30, 1 << 31, 1 << 30)))
    assert covariance(wide, law, weights)[0, 0] <= wide.covariance(wide.decoder(weights), law)[0, 0] * (
        1 + 1e-9
    )  # Cramer and Rao, but for rounding


def test_likelihood_has_less_variance_than_least_squares_where_outputs_are_more_than_states():
    """At a law far from uniform, for which least squares is not made."""
    channel = Plan.of(ONE, "kvoh", 3).channels[0]
    weights, law = key_weights(ONE), np.array([0.95, 0.04, 0.01])
    linear = np.diag(channel.covariance(channel.decoder(weights), law))
    likely = np.diag(covariance(channel, law, weights))
    assert (likely < linear).all()


def test_a_module_and_a_function_share_no_name():
    """``estimate`` is the function; its package is still reached by a from-import."""
    assert callable(estimate)
    assert by_likelihood.fit is fit


# -- post-processing -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_projection_is_the_nearest_probability_vector(size):
    for key in range(15):
        point = coins(key).normal(0.3, 0.8, size)
        projection = onto_simplex(point)[0]
        assert projection.sum() == pytest.approx(1)  # doubles
        assert (projection >= 0).all()
        solution = optimize.minimize(
            lambda x, point=point: ((x - point) ** 2).sum(),
            np.full(size, 1 / size),
            bounds=[(0, 1)] * size,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(projection, solution.x, atol=1e-5)  # what SLSQP reaches
        assert ((projection - point) ** 2).sum() <= solution.fun + 1e-9


def test_projection_satisfies_its_own_optimality_conditions():
    """One shift for all that stay positive, and no more than it for those cut at zero."""
    points = coins(9).normal(0, 1, (200, 6))
    for point, projection in zip(points, onto_simplex(points), strict=True):
        shift = (point - projection)[projection > 0]
        assert np.ptp(shift) < 1e-12  # doubles of size one
        assert (point[projection == 0] <= shift[0] + 1e-12).all()


def test_a_probability_vector_is_its_own_projection():
    points = coins(3).dirichlet(np.ones(5), 20)
    np.testing.assert_allclose(onto_simplex(points), points, atol=1e-15 * 8)  # doubles


def test_clipping_moves_value_and_interval_into_the_range_and_drops_the_standard_error():
    plan = Plan.of(WIDE, "kvue", 1)
    tally = tally_of(plan, [10, 5, 85], [70, 20, 10])
    raw = estimate(plan, tally, "least_squares")
    cut = estimate(plan, tally, "least_squares", after=["clip"])
    assert raw["a"].frequency.value > 1
    assert cut["a"].frequency.value == 1
    assert cut["a"].frequency.high == 1
    assert cut["a"].frequency.low == pytest.approx(min(raw["a"].frequency.low, 1))
    assert isnan(cut["a"].frequency.stderr)
    assert raw["a"].mean.value > 10
    assert cut["a"].mean.value == 10
    assert cut.after == ("clip",)
    for answer, (low, high) in zip(cut, ((0, 10), (-3, -1)), strict=True):
        assert 0 <= answer.frequency.low <= answer.frequency.high <= 1
        if not isnan(answer.mean.low):
            assert low <= answer.mean.low <= answer.mean.high <= high


def test_clipping_leaves_a_biased_value_without_an_interval():
    plan = Plan.of(ONE, "privkv", 1)
    answer = estimate(plan, tally_of(plan, [50, 10, 40]), "published", after=["clip"])["a"]
    assert isnan(answer.mean.low)
    assert -1 <= answer.mean.value <= 1


def test_clipping_a_mass_moves_it_into_its_range():
    plan = Plan.of(ONE, "harmony", "0.1")
    mass = estimate(plan, tally_of(plan, [10, 90]), after=["clip"])["a"].mass
    assert mass.value == 1
    assert -1 <= mass.low <= mass.high <= 1


def test_simplex_takes_values_from_the_nearest_law_and_its_interval_holds_them():
    plan = Plan.of(ONE, "kvue", 1)
    counts = np.array([10, 5, 85])
    law = onto_simplex(counts / 100 @ plan.channels[0].decoder(np.eye(3)))[0]
    answer = estimate(plan, tally_of(plan, counts), after=["simplex"])["a"]
    assert answer.frequency.value == pytest.approx(law[1] + law[2])  # doubles
    assert answer.mean.value == pytest.approx((law[2] - law[1]) / (law[1] + law[2]))
    assert answer.frequency.low <= answer.frequency.value <= answer.frequency.high
    assert isnan(answer.frequency.stderr)


@pytest.mark.parametrize("name", ["grr", "rappor", "shist"])
def test_simplex_projects_the_shares_of_drawn_keys(name):
    plan = Plan.of(WIDE, name, 1)
    counts = coins(5).integers(1, 50, plan.layout.codes)
    answers = estimate(plan, tally_of(plan, counts), after=["simplex"])
    total = sum(answer.frequency.value for answer in answers)
    assert total <= 1 + 1e-12  # doubles
    assert all(answer.frequency.value >= 0 for answer in answers)


def test_norm_sub_is_another_name_for_the_projection():
    plan = Plan.of(ONE, "kvue", 1)
    tally = tally_of(plan, [10, 5, 85])
    simplex, norm_sub = (estimate(plan, tally, after=[step]) for step in ("simplex", "norm_sub"))
    assert simplex.keys == norm_sub.keys


def test_simplex_is_refused_where_the_law_of_states_is_not_known():
    for name in ("harmony", "meanest"):
        plan = Plan.of(WIDE, name, 1)
        with pytest.raises(PlanError, match=r"project|simplex"):
            estimate(plan, ideal_tally(plan, [0.5, 0.5], [0, 0])[0], after=["simplex"])


def test_steps_are_applied_in_the_order_they_are_named():
    plan = Plan.of(ONE, "kvue", 1)
    answers = estimate(plan, tally_of(plan, [10, 5, 85]), after=["simplex", "clip"])
    assert answers.after == ("simplex", "clip")
    assert answers.document()["after"] == ["simplex", "clip"]


# -- moments ---------------------------------------------------------------------------------------


def test_moments_come_from_each_keys_own_channel():
    first = Plan.of(WIDE, "privkvm", 4, rounds=2)
    counts = np.array([9000, 0, 4500, 4500, 9900, 0, 4500, 5400])
    second = first.next(Tally(first, counts))
    assert len(second.channels) == 2
    tally, truth = ideal_tally(second, [0.5, 0.3], [0.1, -0.4])
    moments = single_moments(second, tally)
    assert [float(text) for text in second.chain["feedback"]] == pytest.approx([0, 0.197], abs=1e-3)
    # The key carries no information any more; where absent keys say 0, the mass is still known.
    assert np.isnan(moments.values).tolist() == [[True, False], [True, True]]
    assert moments.values[0, 1] == pytest.approx(truth[0, 1], abs=1e-8)  # whole counts of 2^36
    assert moments.reports.sum() == tally.reports


def test_answers_are_found_by_name_and_in_order():
    plan = Plan.of(WIDE, "kvue", 1)
    answers = estimate(plan, tally_of(plan, [5, 3, 2], [6, 3, 1]))
    assert [answer.key for answer in answers] == ["a", "b"]
    assert answers["b"].key == "b"
    assert len(answers) == 2
    with pytest.raises(KeyError):
        answers["c"]


def test_an_answer_by_a_misspelt_key_suggests_the_nearest():
    plan = Plan.of(Schema.of(["Fries", "Pepsi"], 1, 5), "kvue", 1)
    answers = estimate(plan, Tally(plan).add(plan.report({})))
    assert answers["Pepsi"].key == "Pepsi"
    for wrong in ("Pespi", "pepsi", "PEPSI"):
        for ask in (answers.__getitem__, plan.schema.place):
            with pytest.raises(KeyError) as error:
                ask(wrong)
            assert str(error.value) == f"the plan has no key {wrong!r}; did you mean 'Pepsi'?"
            assert isinstance(error.value, QueryError)
    with pytest.raises(KeyError) as error:
        answers["Water"]
    assert str(error.value) == "the plan has no key 'Water'"
    with pytest.raises(QueryError, match="answers are found by key; list"):
        answers[0]  # type: ignore[index]


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.99, 0.999])
@pytest.mark.parametrize(("above", "below", "spread"), FIELLER)
def test_a_ratios_interval_ends_where_its_level_says(above, below, spread, level):
    """At both ends the difference is just as many standard errors from zero as the level has."""
    answer = ratio(above, below, np.array(spread), 50, level)
    reach = NormalDist().inv_cdf(0.5 + level / 2)
    (va, cov), (_, vb) = spread
    assert answer.bounded is bool(below > reach * np.sqrt(vb))
    for end in (answer.low, answer.high) if answer.bounded else ():
        error = np.sqrt(va - 2 * end * cov + end**2 * vb)
        assert abs(above - end * below) / error == pytest.approx(reach, rel=1e-6)


@pytest.mark.parametrize("name", ["kvue", "privkv", "f2m", "graded"])
def test_the_covariance_of_a_view_is_that_of_its_outputs(name):
    """Written out, output by output, for so many reports that one more makes no difference."""
    plan = Plan.of(ONE, name, 1, **({"default": 0} if name == "f2m" else {}))
    channel, states = plan.channels[0], plan.schema.levels + 1
    law = np.arange(1, states + 1) / (states * (states + 1) / 2)
    chances = law @ channel.expected()
    counts = np.round(chances * 1e12).astype(np.int64)
    moments = single_moments(plan, tally_of(plan, counts))
    scores = channel.decoder(key_weights(plan.schema))
    middle = sum(p * score for p, score in zip(chances, scores, strict=True))
    spread = sum(
        p * np.outer(score - middle, score - middle) for p, score in zip(chances, scores, strict=True)
    )
    np.testing.assert_allclose(moments.covariance[0] * counts.sum(), spread, rtol=1e-6)
