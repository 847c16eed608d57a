"""The error so far and against people: the planner's own forecast, on the user's scale."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from keyveil import Coins, People, Plan, Schema, Tally, estimate
from keyveil.people.prior import Prior
from keyveil.planner.error_curve import error_curve, error_so_far
from keyveil.planner.key_scores import key_scores


def plan_of(mechanism="kvue", low=1, high=5, **more):
    return Plan.of(Schema.of(["a", "b", "c"], low, high), mechanism, 2, **more)


def test_the_curve_is_the_planner_s_forecast_and_goes_through_the_number_asked_about():
    plan = plan_of()
    rows = {row["people"]: row for row in error_curve(plan, 10_000)}
    assert min(rows) == 100
    assert max(rows) == 1_000_000
    scores = key_scores(plan, 10_000, Prior.of(plan.schema))
    assert rows[10_000]["raw"]["frequency"] == sqrt(scores.raw.frequency)
    assert rows[10_000]["raw"]["mean"] == 2 * sqrt(scores.raw.mean), "values lie from 1 to 5"
    assert rows[10_000]["shrunk"]["frequency"] == sqrt(scores.shrunk.frequency)
    assert rows[10_000]["together"] is None, "a plan of single keys knows nothing of two"


@pytest.mark.parametrize("mechanism", ["kvue", "pairs", "collision", "pckv_ue"])
def test_more_people_have_less_error(mechanism):
    rows = error_curve(plan_of(mechanism), 10_000)
    for step in ("raw", "shrunk", "together"):
        if rows[0][step] is None:
            assert step == "together"
            continue
        for part in ("frequency", "mean"):
            errors = [row[step][part] for row in rows]
            assert errors == sorted(errors, reverse=True)


def test_a_plan_that_asks_no_values_has_no_error_of_means():
    row = error_curve(plan_of("rr"), 1000)[0]
    assert row["raw"]["frequency"] > 0
    assert row["raw"]["mean"] is None


def test_the_error_so_far_is_that_of_the_answers():
    """Many people: the range clips nothing, and the error is the standard errors' root mean square."""
    plan = plan_of()
    people = People.of_records(plan.schema, [{"a": 3}, {"b": 2, "c": 4}, {"a": 4, "c": 2}] * 20_000)
    tally = Tally(plan).add(plan.privatise(people, Coins.stated("error so far")))
    steps = error_so_far(plan, tally)
    for step, estimator in (("raw", "least_squares"), ("best", None)):
        answers = estimate(plan, tally, estimator)
        for part in ("frequency", "mean"):
            errors = [getattr(answer, part).stderr for answer in answers]
            assert steps[step][part] == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-6)


def test_an_answer_without_a_bound_counts_as_drawn_anywhere_and_nobody_has_no_error():
    plan = plan_of()
    assert error_so_far(plan, Tally(plan)) is None
    people = People.of_records(plan.schema, [{}] * 3)
    few = Tally(plan).add(plan.privatise(people, Coins.stated("few")))
    raw = error_so_far(plan, few)["raw"]
    assert 0 < raw["frequency"] <= 1
    assert 0 < raw["mean"] <= 4
