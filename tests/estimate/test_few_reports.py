"""Few reports about a key: how many there are is random, and what they say of the noise is uncertain."""

from __future__ import annotations

from math import comb, exp, log

import numpy as np
import pytest

from keyveil import Coins, Plan
from keyveil.estimate import bands, linear
from keyveil.estimate.caution import law_with_one_more
from keyveil.estimate.forecast.few_reports import effective_reports
from keyveil.estimate.forecast.key_forecast import forecast
from keyveil.estimate.linear import by_least_squares, key_weights
from keyveil.estimate.projection import onto_simplex
from keyveil.estimate.shrink import best as best_module
from keyveil.estimate.together.conditional import Conditionals
from keyveil.estimate.together.pair_associations import PairAssociations
from keyveil.estimate.together.query import Query
from keyveil.people.prior import Prior
from keyveil.people.synthetic import gaussian, tied
from keyveil.simulate.conditional_questions import true_value
from keyveil.simulate.tallies import simulate, simulate_runs


@pytest.mark.parametrize(("people", "share"), [(40, 0.25), (12, 0.5), (300, 0.1), (2000, 0.05)])
def test_effective_reports_are_one_over_the_expectation_of_one_over_n(people, share):
    chances = [
        exp(log(comb(people, n)) + n * log(share) + (people - n) * log(1 - share))
        for n in range(people + 1)
    ]
    inverse = sum(chance / n for n, chance in enumerate(chances) if n) / sum(chances[1:])
    assert effective_reports(people, share) == pytest.approx(1 / inverse, rel=1e-6)


def test_effective_reports_are_never_more_than_expected():
    assert effective_reports(10, 0.01) == 0.1, (
        "hardly anyone: at least one report would be ten times more"
    )
    assert effective_reports(7, 1.0) == 7, "everyone tells of the only view"
    for expected in (3, 10, 50, 199.99, 200.01, 1000, 1e6):
        effective = effective_reports(1e9, expected / 1e9)
        assert expected - 1.2 < effective < expected
        if expected > 40:
            assert effective == pytest.approx(expected - 1, rel=1e-3)


@pytest.mark.sampled
def test_the_forecast_of_few_reports_is_what_is_measured():
    """Ten reports a key. With their expected number in the divisor it would be 11 % too low."""
    population, people = gaussian(60).on_unit_scale(), 600
    plan = Plan.of(population.schema, "kvue", 2, "tight")
    truth = np.array([population.law((key,))[1:].sum() for key in range(60)])
    runs = np.array(list(simulate_runs(plan, population, people, Coins.stated("few reports"), 400)))
    answers = bands(plan, runs, "least_squares").frequency
    assert answers is not None
    measured = np.nanmean((answers.value - truth) ** 2)
    predicted = forecast(plan, people, Prior.of_people(plan.schema, population.people))
    ratio = float(predicted.truth.weight @ predicted.covariance[:, 0, 0]) / measured
    assert ratio == pytest.approx(1.0, abs=0.03)
    assert ratio * effective_reports(people, 1 / 60) / 10 < 0.92, "the broken twin"


def claimed(channel, reports, law, cells):
    """The average claimed variance of a frequency over the true one, for fixed draws of counts."""
    outputs = channel.mix(law[None, :])[0]
    draw = np.random.Generator(np.random.Philox(7))
    counts = draw.multinomial(reports, outputs[: channel.cells], size=2000)
    shares, n = counts / reports, np.full(len(counts), float(reports))
    true = channel.covariance(cells, law)[0, 0]
    return linear.spread_of_report(channel, shares, n, cells)[:, 0, 0].mean() / true


@pytest.mark.parametrize("reports", [50, 200])
@pytest.mark.parametrize("frequency", [0.1, 0.5, 0.9])
def test_the_variance_of_a_key_with_many_levels_is_not_understated(frequency, reports, monkeypatch):
    """A twin takes it at the nearest law with a report for each level: too small for frequent keys."""
    plan = Plan.of(gaussian(2).schema, "optimal", 3, "tight", frequency="0.7", spread="0.6")
    channel = plan.channels[0]
    law = np.zeros(channel.states)
    law[0], law[1], law[-1] = 1 - frequency, frequency / 2, frequency / 2
    cells = by_least_squares(channel, key_weights(plan.schema))
    assert 0.93 < claimed(channel, reports, law, cells) < 1.45

    def twin(channel, shares, reports, cells):
        nearest = onto_simplex(shares @ np.linalg.pinv(channel.expected()))
        outputs = law_with_one_more(nearest, reports[:, None], channel.states) @ channel.expected()
        middle = outputs @ cells
        square = np.einsum("vc,cij->vij", outputs, cells[:, :, None] * cells[:, None, :])
        return square - middle[:, :, None] * middle[:, None, :]

    monkeypatch.setattr(linear, "spread_of_report", twin)
    if frequency == 0.9:
        assert claimed(channel, reports, law, cells) < 0.8


@pytest.mark.sampled
def test_raw_frequencies_of_two_reports_a_key_do_not_look_free_of_error(monkeypatch):
    """Most are clipped to either end. The twin compares them with shrunk ones all the same."""
    population = gaussian(200).on_unit_scale()
    plan = Plan.of(population.schema, "kvue", 1, "tight")
    truth = np.array([population.law((key,))[1:].sum() for key in range(200)])
    runs = np.array(list(simulate_runs(plan, population, 400, Coins.stated("two reports"), 20)))

    def error(name):
        answers = bands(plan, runs, name).frequency
        assert answers is not None
        return np.mean((np.clip(np.nan_to_num(answers.value, nan=0.5), 0, 1) - truth) ** 2)

    assert error("best") < 1.05 * error("shrunk")
    monkeypatch.setattr(best_module, "FEWEST_REPORTS", 0)
    monkeypatch.setattr(best_module, "WIDEST", np.inf)
    assert error("best") > 2 * error("shrunk")


@pytest.mark.sampled
def test_answers_without_a_key_are_covered_at_their_level(monkeypatch):
    """Three keys that go together, 5,000 people, fixed draws of 90 tallies.

    A twin takes priors from single answers as if they came from other reports.
    """
    population = tied(3, frequency=0.5, mean=0.2, apart=0.3)
    plan = Plan.of(population.schema, "pairs", 1, "tight")
    texts = [f"{kind}({k} | !{(k + 1) % 3})" for kind in ("frequency", "mean") for k in range(3)]
    truth = [true_value(population, Query.parse(text)) for text in texts]
    coins = Coins.stated("without a key")
    tallies = [simulate(plan, population, 5000, coins, run) for run in range(90)]

    def covered():
        inside = []
        for tally in tallies:
            estimates = (answer.estimate for answer in Conditionals(plan, tally).answers(texts))
            inside.append([e.low <= t <= e.high for e, t in zip(estimates, truth, strict=True)])
        return np.mean(inside)

    right = covered()
    assert right == pytest.approx(0.95, abs=0.02)
    for name in ("absent_frequency_prior", "absent_mean_prior"):
        prior = getattr(PairAssociations, name)

        def alone(pairs, prior=prior):
            return prior.func(pairs)._replace(with_above=np.zeros(6), with_below=np.zeros(6))

        monkeypatch.setattr(PairAssociations, name, property(alone))
    twin = covered()
    assert twin < right - 0.01
