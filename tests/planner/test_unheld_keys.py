"""Keys that nobody holds: they have no mean, so no predicted error of means counts them."""

from __future__ import annotations

from decimal import Decimal
from math import sqrt

import numpy as np
import pytest

from keyveil import Coins, People, Plan, PlanError, Schema
from keyveil.cli.plan_expectation import expect
from keyveil.estimate import estimators_of
from keyveil.estimate.forecast.key_forecast import forecast
from keyveil.people.population import Population
from keyveil.people.prior import Prior
from keyveil.planner.error_curve import error_curve
from keyveil.planner.key_scores import key_scores
from keyveil.planner.options import options_for
from keyveil.simulate.key_questions import KeyQuestions

PEOPLE = 10_000
SCHEMA = Schema.of(["a", "b", "c", "d"], 1, 5)
RECORDS = [{"a": 4.0, "b": 2.0} if place % 3 else {"a": 5.0} for place in range(3000)]
"""Nobody holds c or d."""
TABLE = People.of_records(SCHEMA, RECORDS)
PRIOR = Prior.of_people(SCHEMA, TABLE)
PLAN = Plan.of(SCHEMA, "kvue", 2)


def test_the_planner_averages_errors_of_means_over_the_keys_that_someone_holds():
    predicted = forecast(PLAN, PEOPLE, PRIOR)
    held = PRIOR.frequency > 0
    assert np.round(PRIOR.count @ ~held) == 2
    raw = key_scores(PLAN, PEOPLE, PRIOR).raw
    assert raw.mean == pytest.approx(np.average(predicted.clipped_mean[held], weights=PRIOR.count[held]))
    assert raw.frequency == pytest.approx(np.average(predicted.clipped_frequency, weights=PRIOR.count))
    assert raw == predicted.errors()


def test_advice_curves_and_commands_state_the_error_that_a_comparison_predicts():
    questions = KeyQuestions(Population(SCHEMA, TABLE), Coins.stated("unheld"))
    compared = questions.predicted(PLAN, PEOPLE, ("least_squares",))["least_squares"]
    for option in options_for(SCHEMA, Decimal(2), PEOPLE, "both", (), PRIOR)[:5]:
        (first, *_) = estimators_of(option.plan)
        alike = questions.predicted(option.plan, PEOPLE, (first,))[first]
        assert option.mean == pytest.approx(alike["mean"])
        assert option.frequency == pytest.approx(alike["frequency"])
    (row,) = [row for row in error_curve(PLAN, PEOPLE, PRIOR) if row["people"] == PEOPLE]
    assert row["raw"]["mean"] == pytest.approx(2 * sqrt(compared["mean"])), "values lie from 1 to 5"
    stated = expect(PLAN, PEOPLE, PRIOR).facts["expected"]
    assert stated["mean_error"] == pytest.approx(2 * sqrt(compared["mean"]))


def test_shrinkage_does_not_raise_the_error_of_means_that_exist():
    """Unheld keys once took the shrunk error of the mean to that of a guess."""
    scores = key_scores(PLAN, PEOPLE, PRIOR)
    assert scores.shrunk.mean < 1.01 * scores.raw.mean


def test_a_prior_without_any_holder_is_refused():
    nobody = Prior.of_people(SCHEMA, People.of_records(SCHEMA, [{}, {}]))
    with pytest.raises(PlanError, match="nobody holds a key"):
        Plan.advise(SCHEMA, 2, PEOPLE, prior=nobody)
