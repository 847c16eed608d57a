"""What is believed before anyone has answered."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil import People, PlanError, Schema
from keyveil.people.prior import Prior
from keyveil.people.prior_laws import GRID, value_law


@given(st.floats(-0.95, 0.95), st.floats(0.03, 0.9))
def test_a_value_law_has_its_mean_and_spread(mean, share):
    spread = share * np.sqrt(1 - mean**2)
    law = value_law(mean, max(spread, 0.02))
    assert law.min() >= 0
    assert law.sum() == pytest.approx(1)
    assert law @ GRID == pytest.approx(mean, abs=1e-6)
    assert np.sqrt(law @ GRID**2 - (law @ GRID) ** 2) == pytest.approx(max(spread, 0.02), abs=1e-5)


@given(st.integers(1, 300), st.floats(0.01, 1))
def test_a_stated_prior_holds_what_it_was_told(keys, share):
    prior = Prior.of(keys, held=share * keys)
    assert prior.keys == keys
    assert prior.held == pytest.approx(share * keys, rel=1e-6)
    assert prior.weight @ prior.frequency * keys == pytest.approx(share * keys, rel=1e-2)
    for levels in (1, 2, 3, 5, 9):
        law = prior.states(levels)
        assert law.sum(axis=1) == pytest.approx(np.ones(len(law)))
        assert law[:, 0] == pytest.approx(1 - prior.frequency)


@pytest.mark.parametrize("levels", range(2, 10))
def test_rounding_to_levels_keeps_every_mean(levels):
    prior = Prior.of(10, mean=0.3, spread=0.4)
    values = prior.states(levels)[:, 1:] @ np.linspace(-1, 1, levels)
    assert values == pytest.approx(prior.frequency * prior.mean, abs=1e-12)


def test_a_table_is_a_prior():
    schema = Schema.of(["a", "b", "c"], 1, 5)
    people = People.of_records(schema, [{"a": 5, "b": 3}, {"a": 1}, {}, {"a": 2.2}])
    prior = Prior.of_people(schema, people)
    assert prior.frequency == pytest.approx([0.75, 0.25, 0])
    assert prior.mean[:2] == pytest.approx([(1 - 1 - 0.4) / 3, 0])
    assert prior.sizes == pytest.approx([0.25, 0.5, 0.25])
    assert prior.kept(1) == pytest.approx(3 / 4)
    assert (prior.quantile(0.5), prior.quantile(0.9)) == (1, 2)


def test_one_key_each_is_said_with_sizes():
    prior = Prior.of(100, sizes=[0, 1])
    assert prior.held == 1
    assert prior.kept(1) == 1
    assert prior.quantile(0.5) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"keys": 0}, "at least 1"),
        ({"keys": "many"}, "whole number of keys"),
        ({"keys": 5, "held": "most"}, "held must be a number"),
        ({"keys": 5, "held": 6}, "at most 5"),
        ({"keys": 5, "held": 0}, "above 0"),
        ({"keys": 5, "mean": 1}, "above -1 and below 1"),
        ({"keys": 5, "spread": -0.1}, "spread lies between 0 and 1"),
        ({"keys": 5, "spread": 3}, "spread lies between 0 and 1"),
        ({"keys": 5, "spread": float("nan")}, "spread lies between 0 and 1"),
        ({"keys": 5, "between": 1.5}, "between lies between 0 and 1"),
        ({"keys": 5, "sizes": [0.5, -0.5, 1]}, "shares of people"),
        ({"keys": 1, "sizes": [0.5, 0.2, 0.3]}, "more keys than"),
    ],
)
def test_what_cannot_be_believed_is_refused(given, said):
    with pytest.raises(PlanError, match=said):
        Prior.of(**given)


def test_a_prior_says_once_how_many_keys_are_held():
    for prior in (Prior.of(6, held=4), Prior.of(6)):
        assert repr(prior).count("held on average") == 1
