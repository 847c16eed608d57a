"""What the hatching of a heat map says is true of every hatched cell, and of no other."""

from __future__ import annotations

import pandas as pd
import pytest
from matplotlib.figure import Figure

import keyveil as kv
from keyveil.estimate.answer import Estimate
from keyveil.estimate.together.query import Query
from keyveil.estimate.together.query_answer import ConditionalMatrix, QueryAnswer

KEYS = ("Fries", "Pepsi", "Tea")
NO_SIGN = "lines: no sign that the two go together"
WIDE = "dots: the interval is wider than half of the colour bar"


def cell(row: int, column: int, value: float, half: float, shown: bool | None) -> QueryAnswer:
    query = Query.parse(f"frequency({KEYS[row]} | {KEYS[column]})")
    estimate = Estimate(value, half / 2, max(value - half, 0.0), min(value + half, 1.0), 100)
    return QueryAnswer(query, estimate, "view", shown=shown)


def drawn(panel: object) -> dict[str, set[tuple[int, int]]]:
    """The cells with lines and those with dots, as row and column."""
    hatches: dict[str, set[tuple[int, int]]] = {"//": set(), "..": set()}
    for patch in panel.patches:
        if patch.get_hatch():
            left, top = patch.get_xy()
            hatches[patch.get_hatch()].add((round(top + 0.5), round(left + 0.5)))
    return hatches


def heat_map(cells: dict[tuple[int, int], tuple[float, float, bool | None]]) -> object:
    places = range(len(KEYS))
    rows = [[None if i == j else cell(i, j, *cells[i, j]) for j in places] for i in places]
    return ConditionalMatrix(KEYS, "frequency", rows, 0.95).plot(Figure().subplots())


def test_lines_and_dots_say_two_things_that_may_both_hold():
    panel = heat_map(
        {
            (0, 1): (0.8, 0.1, True),  # certain
            (0, 2): (0.4, 0.1, False),  # no sign
            (1, 0): (0.6, 0.3, True),  # a sign, and a wide interval
            (1, 2): (0.5, 0.3, False),  # neither a sign nor a narrow interval
            (2, 0): (0.4, 0.19, True),
            (2, 1): (0.4, 0.21, True),  # the colours go from 0 to 0.8, and half of them is 0.4
        }
    )
    assert drawn(panel) == {"//": {(0, 2), (1, 2)}, "..": {(1, 0), (1, 2), (2, 1)}}
    assert {NO_SIGN, WIDE} <= set(panel.get_title(loc="left").splitlines())


@pytest.mark.parametrize("half", [0.05, 0.3])
def test_without_a_test_no_cell_is_said_to_have_no_sign(half):
    places = [(i, j) for i in range(3) for j in range(3) if i != j]
    panel = heat_map(dict.fromkeys(places, (0.7, half, None)))
    wide = half > 0.2
    assert drawn(panel) == {"//": set(), "..": set(places) if wide else set()}
    lines = panel.get_title(loc="left").splitlines()
    assert (WIDE in lines, NO_SIGN in lines) == (wide, False)


@pytest.mark.parametrize("estimator", ["best", "least_squares", "pooled", "likelihood"])
def test_every_estimator_shows_which_answers_of_few_people_are_uncertain(estimator):
    orders = pd.DataFrame(kv.synthetic.orders(1_500))
    schema = kv.Schema.from_frame(orders, person="guest", key="dish", value="rating", low=1, high=5)
    plan = kv.Plan.of(schema, "pairs", epsilon=2)
    tally = plan.collect(orders, everyone=1_500, coins=kv.Coins.stated("few"))
    matrix = tally.conditionals(estimator).matrix()
    panel = matrix.plot(ax=Figure().subplots())
    colours = panel.images[0].norm
    half = (colours.vmax - colours.vmin) / 2
    cells = [(i, j, c) for i, row in enumerate(matrix) for j, c in enumerate(row) if c is not None]
    bounded_cells = [(i, j, c) for i, j, c in cells if c.estimate.bounded]
    hatches = drawn(panel)
    assert hatches[".."] == {
        (i, j) for i, j, c in bounded_cells if c.estimate.high - c.estimate.low > half
    }
    assert hatches["//"] == {(i, j) for i, j, c in bounded_cells if c.shown is False}
    assert hatches[".."], "with so few people some intervals are wide"
    assert (NO_SIGN in panel.get_title(loc="left")) == bool(hatches["//"])
