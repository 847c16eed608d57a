"""Rounding to levels: one rule for words, and one law, which is that rule's."""

from __future__ import annotations

import numpy as np
import pytest

from keyveil import People, Schema
from keyveil.foundation.arrays import WORD
from keyveil.people.population import Population
from keyveil.people.prior_laws import GRID
from keyveil.people.rounding import rounding

LEVELS = range(1, 10)


@pytest.mark.parametrize("levels", LEVELS)
def test_the_law_keeps_means_and_weighs_only_the_levels_beside_a_point(levels):
    law = rounding(GRID, levels)
    assert np.allclose(law.sum(axis=1), 1.0, rtol=0, atol=1e-15)
    if levels == 1:
        return
    assert np.allclose(law @ np.linspace(-1, 1, levels), GRID, rtol=0, atol=1e-15)
    distance = np.abs((GRID[:, None] + 1) / 2 * (levels - 1) - np.arange(levels))
    assert np.allclose(law, np.maximum(0.0, 1.0 - distance), rtol=0, atol=1e-12)


@pytest.mark.parametrize("levels", LEVELS)
def test_the_law_is_the_share_of_words_that_round_there(levels):
    """The word at which ``Schema.rounded`` turns from up to down is found by bisection."""
    schema = Schema.of(1).at(levels)
    points = GRID[::7]
    places, low, high = (
        np.zeros(len(points), np.int64),
        np.zeros(len(points)),
        np.full(len(points), WORD),
    )
    below = schema.rounded(places, points, np.full(len(points), WORD - 1, np.uint32))
    for _ in range(33):
        middle = np.floor((low + high) / 2)
        up = schema.rounded(places, points, np.minimum(middle, WORD - 1).astype(np.uint32)) > below
        low, high = np.where(up & (middle < high), middle + 1, low), np.where(up, high, middle)
    law = rounding(points, levels)
    ups = np.where(below < levels, law[np.arange(len(points)), np.minimum(below, levels - 1)], 0.0)
    assert np.abs(ups - low / WORD).max() <= 1.0 / WORD


@pytest.mark.parametrize("levels", LEVELS)
def test_a_table_on_its_own_scale_and_on_the_unit_scale_has_one_law(levels):
    schema = Schema.of(["a"], 1, 5)
    table = People.of_records(schema, [{"a": value} for value in (1, 1.5, 2.25, 4, 5)] + [{}])
    people = Population(schema, table, levels)
    points = (table.values - 3) / 2
    expected = rounding(points, levels).sum(axis=0) / len(table)
    assert np.allclose(people.law((0,))[1:], expected, rtol=0, atol=1e-15)
    assert np.allclose(people.on_unit_scale().law((0,)), people.law((0,)), rtol=0, atol=1e-15)
