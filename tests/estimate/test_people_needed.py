"""People that a query needs: exact where the law is known, and what cannot be had."""

from __future__ import annotations

import numpy as np
import pytest

from keyveil import Plan, Schema, Tally
from keyveil.estimate.forecast.pair_forecast import HOPELESS
from keyveil.estimate.forecast.query_forecast import MANY, expected_tally
from keyveil.estimate.together.conditional import Conditionals
from keyveil.estimate.together.people_needed import people_needed
from keyveil.estimate.together.query import Query
from keyveil.people.prior_laws import independent_law

PLAN = Plan.of(Schema.of(["a", "b", "c"], 1, 5), "pairs", 1)


def law(keys):
    return independent_law(PLAN.schema.levels, len(keys), 0.4, 0.2)


def tally_of(people, law_of_keys=law):
    """The tally that so many people of a law lead one to expect, in whole counts."""
    counts = expected_tally(PLAN, law_of_keys).counts
    return Tally(PLAN, np.rint(counts * (people / MANY)).astype(np.int64))


def says_something(people, query):
    """Whether the unbiased answer of so many people is bounded and its error useful."""
    answer = Conditionals(PLAN, tally_of(people), "pooled").answer(query).estimate
    quarter = HOPELESS * (4.0 if query.kind == "mean" else 1.0)  # values lie from 1 to 5
    return bool(answer.stderr <= quarter)  # infinite where the interval is unbounded


@pytest.mark.parametrize("people", [10_000, 1_000_000])
@pytest.mark.parametrize("text", ["frequency(a | b)", "frequency(a | !b)", "mean(a | b)", "mean(a)"])
def test_with_as_many_people_the_answer_says_something_and_with_fewer_it_does_not(text, people):
    query = Query.parse(text)
    source = Conditionals(PLAN, tally_of(people), "pooled")
    needed = people_needed(source, people, query).people
    assert says_something(1.3 * needed, query)
    assert not says_something(0.7 * needed, query)


def test_a_lift_needs_as_many_as_its_frequency_and_a_rarer_condition_needs_more():
    few = tally_of(1_000_000)
    source = Conditionals(PLAN, few, "pooled")
    needed = {
        text: people_needed(source, few.reports, Query.parse(text)).people
        for text in ("frequency(a | b)", "lift(a | b)", "frequency(a | !b)", "frequency(a)")
    }
    assert needed["lift(a | b)"] == needed["frequency(a | b)"]
    assert needed["frequency(a | b)"] > needed["frequency(a | !b)"] > needed["frequency(a)"]


def test_what_no_number_of_people_can_give():
    few = tally_of(1_000_000)
    source = Conditionals(PLAN, few, "pooled")
    need = people_needed(source, few.reports, Query.parse("frequency(a | b, c)"))
    assert (need.people, need.why) == (None, "no view")
    need = people_needed(source, 0, Query.parse("frequency(a)"))
    assert need.document() == {"query": "frequency(a)", "people": None, "why": "no reports"}


def test_conditions_that_nobody_meets():
    def nobody(keys):
        return independent_law(PLAN.schema.levels, len(keys), 0.0, 0.0)

    few = tally_of(1_000_000, nobody)
    need = people_needed(Conditionals(PLAN, few), few.reports, Query.parse("mean(a | b)"))
    assert (need.people, need.why) == (None, "nobody")
