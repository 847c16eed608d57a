"""Leaves of a tree on many tallies: their intervals cover, and their shares are shrunk."""

from __future__ import annotations

import numpy as np
import pytest

import keyveil as kv
from keyveil.estimate.learn import DecisionTree
from keyveil.estimate.learn.leaves import class_estimates
from keyveil.simulate.tallies import simulate

TALLIES = 120
SCHEMA = kv.Schema.of(["Hamburger", "Fries", "Pepsi"], 1, 5)
RECORDS = [
    {"Hamburger": 4, **({"Fries": 5} if fries else {}), **({"Pepsi": 2} if pepsi else {})}
    for fries in (True, True, True, False)
    for pepsi in (True, False)
] + [
    {**({"Fries": 5} if fries else {}), **({"Pepsi": 2} if pepsi else {})}
    for fries in (True, False, False, False)
    for pepsi in (True, False)
]
"""Three of four with a hamburger have fries, and one of four without; Pepsi goes with nothing."""
TRUTH = {True: 0.75, False: 0.25}


@pytest.fixture(scope="module")
def leaves(scale):
    """The leaves of trees with one question, from tallies of 4,000 people; and what is below them."""
    plan = kv.Plan.of(SCHEMA, "pairs", 2)
    population = kv.Population(SCHEMA, kv.People.of_records(SCHEMA, RECORDS))
    grown = []
    for run in range(TALLIES * scale):
        tally = simulate(plan, population, 4_000, kv.Coins.stated("leaves"), run)
        tree = DecisionTree("Fries", 1).fit(tally)
        assert tree.root_.split is not None, "the connection is plain at this size"
        grown += [(tree, leaf) for leaf in tree.root_.leaves()]
    return grown


def coverage(leaves, width=1.0):
    """The share of intervals, widened or narrowed about their middle, that hold the truth."""
    inside = []
    for _, leaf in leaves:
        estimate, truth = leaf.estimates[1], TRUTH[not leaf.path[0][0]]
        middle, half = (estimate.low + estimate.high) / 2, width * (estimate.high - estimate.low) / 2
        inside.append(abs(truth - middle) <= half)
    return float(np.mean(inside))


@pytest.mark.sampled
def test_intervals_of_leaves_cover_at_their_level(leaves):
    """95 % of 240 intervals cover; 4.5 standard errors from it lies one run in 100,000."""
    tolerance = 4.5 * (0.95 * 0.05 / len(leaves)) ** 0.5
    assert abs(coverage(leaves) - 0.95) < tolerance
    assert coverage(leaves, 0.5) < 0.95 - tolerance, "intervals that are too narrow are seen"


@pytest.mark.sampled
def test_shares_of_leaves_are_nearer_to_the_question_before_if_that_lowers_the_error(leaves):
    """Pepsi says nothing of fries, so leaves of a question about it differ by noise alone."""
    errors = {"shrunk": [], "unshrunk": []}
    for tree, _ in leaves[::2]:
        released, classes, whole = tree.released_, tree._classes, np.array(tree.root_.law)
        pepsi, fries = (released.place(key) for key in ("Pepsi", "Fries"))
        law = released.view_law((pepsi, fries))
        held = np.asarray(law).reshape(released.states, -1)[1:].sum(axis=0) @ classes.digits
        digits = np.array([0.0, *np.ones(released.states - 1)])
        for name, before in (("shrunk", whole), ("unshrunk", None)):
            share = class_estimates(released, classes, {pepsi: digits}, held / held.sum(), before)[1]
            errors[name].append((share.value - 0.5) ** 2)
            assert share.low <= share.value <= share.high
    assert np.mean(errors["shrunk"]) < 0.6 * np.mean(errors["unshrunk"])
