"""Pairs that go together unlike all others: their covariances are those of their own law."""

from __future__ import annotations

import numpy as np
import pytest

from keyveil import Coins, People, Plan, Query, Schema
from keyveil.estimate import bands
from keyveil.estimate.together import key_sums
from keyveil.estimate.together.joint import evidence
from keyveil.estimate.together.key_sums import steady_laws, without_noise
from keyveil.estimate.together.pair_associations import PairAssociations
from keyveil.estimate.together.pair_moments import BOTH, FIRST_GIVEN
from keyveil.estimate.together.shrunk_conditionals import ShrunkConditionals
from keyveil.foundation.coins import address
from keyveil.simulate.conditional_questions import true_value
from keyveil.simulate.tallies import Population, simulate

KEYS, COUPLES, REPORTS, TALLIES = 30, 2, 200, 150


@pytest.fixture(scope="module")
def couples() -> Population:
    """Independent keys, but for couples of which mostly both are held or none, with opposite values."""
    draw, size = np.random.default_rng(2), 20_000
    held, high = draw.random((size, KEYS)) < 0.2, draw.random((size, KEYS)) < 0.5
    for first in range(0, 2 * COUPLES, 2):
        same, opposite = draw.random((2, size)) < 0.9
        held[:, first + 1] = np.where(same, held[:, first], held[:, first + 1])
        high[:, first + 1] = np.where(opposite, ~high[:, first], high[:, first + 1])
    who, places = np.nonzero(held)
    schema, values = Schema.of(KEYS), np.where(high[held], 1.0, -1.0)
    return Population(schema, People.of_places(schema, address(np.arange(size)), who, places, values))


def share_of_own_law(laws: np.ndarray, reports: np.ndarray, independent: np.ndarray) -> np.ndarray:
    """How far the law of the covariance lies between that of independent keys (0) and its own (1)."""
    variance = (1 - (laws**2).sum(axis=1)) / reports
    steady = steady_laws(laws, variance, reports, independent)
    without_one_more = (steady * (reports[:, None] + 1.0) - 1.0 / laws.shape[1]) / reports[:, None]
    apart, own = without_one_more - independent, laws - independent
    return (apart * own).sum(axis=1) / np.maximum((own**2).sum(axis=1), 1e-300)


def test_one_odd_view_of_many_has_the_covariance_of_its_own_law():
    key = np.array([0.7, 0.15, 0.15])
    independent = np.tile(np.outer(key, key).reshape(-1), (400, 1))
    laws = independent.copy()
    laws[0] = np.diag(key).reshape(-1)
    shares = share_of_own_law(laws, np.full(400, REPORTS), independent)
    assert shares[0] > 0.9
    assert shares[1:] == pytest.approx(0, abs=1e-9), "one odd view does not change the others"


def test_states_within_a_standard_error_of_nobody_are_empty():
    laws = np.array([[0.9, 0.06, 0.04, 0.0], [1.2, -0.3, 0.05, 0.05], [0.25, 0.25, 0.25, 0.25]])
    proper = without_noise(laws, 4 * np.array([0.05, 0.06, 1.0]) ** 2)
    assert proper == pytest.approx(
        np.array([[0.9 / 0.96, 0.06 / 0.96, 0, 0], [1, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]])
    )


@pytest.mark.sampled
def test_noise_alone_makes_no_view_odd():
    """Fixed draws of 5,000 views: of 20 reports, 1.8 % are three times as far as expected."""
    draw, key = np.random.default_rng(5), np.array([0.7, 0.15, 0.15])
    independent = np.tile(np.outer(key, key).reshape(-1), (5000, 1))
    for reports in (20, REPORTS):
        laws = draw.multinomial(reports, independent[0], 5000) / reports
        shares = share_of_own_law(laws, np.full(5000, reports), independent)
        assert (shares > 0.1).mean() < 0.025


def scores_of_couples(population: Population) -> np.ndarray:
    """Errors of the couples' means in standard errors, ``(tallies, ordered couples)``."""
    plan = Plan.of(population.schema, "pairs", 4)
    people, names = REPORTS * len(plan.views.keys), population.schema.keys
    scores = []
    for run in range(TALLIES):
        tally = simulate(plan, population, people, Coins.stated("odd pairs"), run)
        singles = bands(plan, tally.counts, "best")
        pairs = ShrunkConditionals(plan.schema, evidence(plan, tally), singles, 0.95).pairs
        assert isinstance(pairs, PairAssociations)
        scores.append([])
        for first in range(0, 2 * COUPLES, 2):
            for target, given in ((first, first + 1), (first + 1, first)):
                row, query = (
                    pairs.rows[target, given],
                    Query("mean", names[target], ((names[given], True),)),
                )
                slope = np.zeros(7)
                slope[FIRST_GIVEN], slope[BOTH] = 1.0, -true_value(population, query)
                variance = slope @ pairs.covariance[row] @ slope
                scores[-1].append(slope @ pairs.values[row] / np.sqrt(variance))
    return np.array(scores)


@pytest.mark.sampled
def test_the_standard_error_of_an_odd_pair_is_its_own(couples, monkeypatch):
    """150 tallies of two couples: the variance of the scores has a standard error of about 0.08.

    The bounds are three of them from 1. With the common covariance it is 1.6.
    """
    assert 0.76 < scores_of_couples(couples).var() < 1.24
    monkeypatch.setattr(key_sums, "FAR", np.inf)
    assert scores_of_couples(couples).var() > 1.24, "the broken twin"
