"""Populations that are stated by their laws: how their values are looked up."""

from __future__ import annotations

import numpy as np
import pytest

import keyveil.people.synthetic as laws
from keyveil import Coins, synthetic
from keyveil.people.step_search import steps_up_to


@pytest.mark.parametrize("count", [1, 3])
def test_many_heights_find_the_steps_that_a_search_finds(count):
    """Heights at, just below and above every step, and at the guide's marks; some steps are alike."""
    draw = np.random.default_rng(count)
    rise = draw.random((count, 900)) ** 9 * (draw.random((count, 900)) < 0.7)  # crowded and level places
    rise[:, :400] *= 1e-7
    heights = np.cumsum(rise, axis=1)
    ladder = (heights / heights[:, -1:] + np.arange(count)[:, None]).ravel()
    marks = np.arange(1, count * 1024 + 1) / 1024
    near = [np.nextafter(edge, at) for edge in (ladder, marks) for at in (-1, 9)]
    points = np.concatenate([ladder, marks, *near, draw.random(20_000 * count) * count])
    points = draw.permutation(points[(points > 0) & (points <= count)])
    assert len(points) > 4 * (count * 1024 + 2)  # else no guide is made
    assert np.array_equal(steps_up_to(ladder, points), np.searchsorted(ladder, points, "right"))


def test_people_do_not_depend_on_how_their_values_are_looked_up(monkeypatch):
    world = synthetic.gaussian(5, Coins.stated("a"))
    guided = world.draw(30_000, Coins.stated("b").generator())
    monkeypatch.setattr(
        laws, "steps_up_to", lambda ladder, points: np.searchsorted(ladder, points, "right")
    )
    searched = world.draw(30_000, Coins.stated("b").generator())
    assert np.array_equal(guided.values, searched.values)
    assert np.array_equal(guided.keys, searched.keys)
