"""What a pool of seeds leaves: the law of mixtures of sets, and the pool's own error, exactly."""

from __future__ import annotations

import sys
from decimal import Decimal
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil import Coins, People, Plan, Schema
from keyveil.channel import CoCo, Collision
from keyveil.estimate.forecast.key_forecast import forecast
from keyveil.estimate.pools import pool_error as poolerror
from keyveil.estimate.pools.padded_items import TURN
from keyveil.estimate.pools.pool_decoder import pool_moments
from keyveil.estimate.pools.pool_error import pair_variance, paired, pool_error, second_order
from keyveil.people.prior import Prior
from keyveil.people.table_sample import MOST_SAMPLED, Sample
from keyveil.simulate.tallies import Population, simulate_runs

KEYS = 4
SCHEMA = Schema.of(list("abcd"), -1, 1)
NAMES = ("collision", "coco")


def sets() -> st.SearchStrategy[list[int]]:
    """At most three signed keys, each key once."""
    signs = st.dictionaries(st.integers(0, KEYS - 1), st.integers(0, 1), max_size=3)
    return signs.map(lambda sign_of: sorted(2 * key + sign for key, sign in sign_of.items()))


def rows(members: list[list[int]]) -> np.ndarray:
    return np.array([sorted([*each, *[-1] * (3 - len(each))]) for each in members])


@pytest.mark.parametrize("kind", [Collision, CoCo])
@given(members=st.lists(sets(), min_size=1, max_size=6), epsilon=st.sampled_from(["0.5", "2", "5"]))
def test_the_law_of_a_mixture_is_the_mixture_of_laws(kind, members, epsilon):
    channel = kind.of(2 * KEYS, 3, Decimal(epsilon), 16, 7)
    shares = np.arange(1.0, len(members) + 1) / sum(range(len(members) + 1))
    laws = [
        share * channel.law_of(np.array(each, int)) for share, each in zip(shares, members, strict=True)
    ]
    mixture = channel.mixture(rows(members), shares)
    assert mixture.sum() == pytest.approx(1)
    # A collision's law has units that remain, each 2^-32 of a seed's words.
    assert np.abs(mixture - sum(laws)).max() <= 2.0**-32


@pytest.mark.parametrize("kind", [Collision, CoCo])
def test_the_law_of_a_mixture_is_the_same_in_many_runs(kind, monkeypatch):
    channel = kind.of(2 * KEYS, 3, Decimal(2), 16, 7)
    every = rows([sorted(2 * k + s for k, s in enumerate(signs)) for signs in product((0, 1), repeat=3)])
    shares = np.full(len(every), 1 / len(every))
    whole = channel.mixture(every, shares)
    monkeypatch.setattr("keyveil.channel.shapes.seed_pool.ENTRIES_AT_ONCE", 3 * 16)
    assert channel.mixture(every, shares) == pytest.approx(whole)


def prior_of(records: list[dict[str, float]]) -> Prior:
    return Prior.of_people(SCHEMA, People.of_records(SCHEMA, records))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pool", [16, 256])
def test_the_pools_own_error_is_what_decoding_an_endless_tally_leaves(name, pool):
    """Values at the ends, so that nothing is rounded: the sample is the population."""
    records = [{"a": 1, "b": -1, "c": 1}, {"a": -1, "d": 1}, {"b": 1}, {}]
    plan = Plan.of(SCHEMA, name, 2, pool=pool, cap=3)
    channel, sample = plan.channels[0], prior_of(records).sample
    bias, more = pool_error(channel, KEYS, sample, undoes=True)
    law = np.mean([channel.law_of(np.array(each)) for each in ([1, 2, 5], [0, 7], [3], [])], axis=0)
    reports = 10**14
    counts = np.concatenate([[reports], np.round(law * reports)]).astype(np.int64)
    truth = np.array([[0.5, 0], [0.5, 0], [0.25, 0.25], [0.25, 0.25]])
    assert bias == pytest.approx(pool_moments(plan, counts).values - truth, abs=1e-7)
    assert not more.any()
    assert np.abs(bias).max() > 1e-3, "this pool does leave something"


@pytest.mark.parametrize("name", NAMES)
def test_what_single_keys_explain_is_the_law_of_people_who_hold_one_each(name):
    plan = Plan.of(SCHEMA, name, 2, pool=64, cap=1)
    channel, members = plan.channels[0], [[0], [3], [5], []]
    values = np.array([[0.4, -0.4], [0.1, 0.1], [0.2, 0.2], [0.0, 0.0]])
    law = channel.mixture(np.array([each or [-1] for each in members]), np.array([0.4, 0.1, 0.2, 0.3]))
    assert poolerror.law_of_single_keys(channel, values) == pytest.approx(law, abs=1e-9 / channel.cells)


@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMES)
def test_intervals_cover_whatever_keys_are_held_together(name, monkeypatch):
    """All or nothing, ten million people: over 12 pools most frequencies.

    Sampled, fixed coins: intervals of one pool are alike, so that of 12 one or two may miss. By
    independence, as if keys were held together a third as often, many do.
    """
    schema, draw = Schema.of(list("ab"), -1, 1), np.random.default_rng(12)
    sets, shares = np.array([[1, 3], [-1, -1]]), np.array([1 / 3, 2 / 3])

    tallies = []
    for cells in range(6, 54, 4):
        plan = Plan.of(schema, name, 2, cap=2, cells=cells)
        drawn = draw.multinomial(10**7, plan.channels[0].mixture(sets, shares), size=2)
        tallies.append((plan, np.concatenate([np.full((2, 1), 10**7), drawn], axis=1)))

    def covered() -> float:
        inside = []
        for plan, counts in tallies:
            moments = plan.mechanism.moments(plan, counts)
            off = moments.values[..., 0] - 1 / 3
            inside.append(np.abs(off) < 1.96 * np.sqrt(moments.covariance[..., 0, 0]))
        return float(np.mean(inside))

    assert covered() > 0.84

    def independent(channel, row, values, spread):
        covariance = second_order(channel, values**2, np.ones(2))
        return np.diagonal(covariance, axis1=1, axis2=2)

    monkeypatch.setattr(sys.modules["keyveil.estimate.pools.pool_decoder"], "pair_variance", independent)
    assert covered() < 0.75, "the broken twin"


@pytest.mark.parametrize("name", NAMES)
def test_what_tallies_say_of_pools_is_on_average_what_pools_do(name):
    """Three of six keys each, 40 pools, endless tallies: the errors' own average errs by a tenth."""
    schema = Schema.of(list("abcdef"), -1, 1)
    records = [dict.fromkeys(three, 0.5) for three in combinations("abcdef", 3)]
    sample = Prior.of_people(schema, People.of_records(schema, records)).sample
    own = Plan.of(schema, name, 2, "tight", cap=3).channels[0]
    sets, shares, _ = poolerror.sampled_sets(sample, 3)
    weights = np.broadcast_to(shares[:, None], sets.shape)
    truth = np.bincount(sets.ravel(), weights.ravel(), 12).reshape(-1, 2) @ TURN.T
    error, variance = [], []
    for salt in range(77, 77 + (40 << 11), 1 << 11):
        channel = type(own).of(12, 3, Decimal(2), 1024, salt, own.small)
        bias, _ = pool_error(channel, 6, sample, undoes=True)
        error.append((bias**2).mean(axis=0))
        row = 1e12 * np.append(1.0, channel.mixture(sets, shares))
        variance.append(pair_variance(channel, row, truth + bias, np.zeros((6, 2, 2))).mean(axis=0))
    mean_error, variance = np.mean(error, axis=0), np.mean(variance, axis=0)
    assert (mean_error / variance < 1.5).all()
    assert (mean_error / variance > 1 / 1.5).all()
    assert variance == pytest.approx(np.diagonal(paired(own, 6, sample).mean(axis=0)), rel=0.15)


@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMES)
def test_chance_alone_adds_next_to_nothing(name):
    """One key each, so that seeds differ by chance: a quarter of a standard error of the variance."""
    plan = Plan.of(SCHEMA, name, 2, cap=2)
    records = [{"a": 1.0}, {"b": -1.0}, {"c": 0.0}, {}]
    population = Population(SCHEMA, People.of_records(SCHEMA, records))
    counts = simulate_runs(plan, population, 10**6, Coins.stated("chance"), 10)
    moments = plan.mechanism.moments(plan, counts)
    alone = forecast(plan, 1e6, Prior.of_people(SCHEMA, population.people)).covariance
    both = [0, 1]
    ratio = moments.covariance.mean(axis=0)[:, both, both] / alone[:, both, both]
    # 0.4 of sqrt(2 / 1024) on average, and ten runs.
    assert (np.abs(ratio - 1.018) < 0.06).all()


@pytest.mark.parametrize("name", NAMES)
def test_who_holds_one_key_leaves_no_error(name):
    plan = Plan.of(SCHEMA, name, 2, pool=64, cap=3)
    prior = prior_of([{"a": 1}, {"b": -1}, {"c": 1}, {"d": 1}])
    bias, more = pool_error(plan.channels[0], KEYS, prior.sample, undoes=True)
    assert np.abs(bias).max() < 1e-8  # units that remain
    assert not more.any()
    prediction = forecast(plan, 1e7, prior)
    alone = second_order(plan.channels[0], np.full((4, 2), 0.25**2), np.ones(4))[0, 0, 0]
    assert prediction.claimed == pytest.approx(prediction.covariance), "nothing is left to claim"
    assert prediction.covariance[:, 0, 0].max() < 2 * alone, "by independence it would be much"


@pytest.mark.parametrize("name", NAMES)
def test_of_many_sets_the_error_is_known_on_average_over_pools(name, monkeypatch):
    """People who hold all or nothing: independence would say that pairs are a fourth as frequent."""
    records = [dict.fromkeys("abc", 1.0), {}]
    schema, plans = Schema.of(list("abc"), -1, 1), []
    prior = Prior.of_people(schema, People.of_records(schema, records))
    plan = Plan.of(schema, name, 2, pool=64, cap=3)
    channel = plan.channels[0]
    for salt in range(0, 200 << 6, 1 << 6):  # other seeds, not the same ones in another order
        salted_channel = type(channel).of(6, 3, Decimal(2), 64, salt, channel.small)
        plans.append(pool_error(salted_channel, 3, prior.sample, undoes=True)[0])
    squares = (np.array(plans) ** 2).mean(axis=(0, 1))
    monkeypatch.setattr(poolerror, "MOST_LOOKED", 0)
    monkeypatch.setattr(poolerror, "FEW_KEYS", 2)
    bias, more = pool_error(channel, 3, prior.sample, undoes=True)
    variances = np.diagonal(more.mean(axis=0))
    assert not bias.any()
    # 600 squares, three of a pool alike: a standard error of about 10 %; and it is of second order only.
    assert variances == pytest.approx(squares, rel=0.4)
    apart = second_order(channel, np.full((3, 2), 0.25), np.ones(3)).mean(axis=0)
    assert (np.diagonal(apart) < variances / 2.5).all(), "the broken twin"


@pytest.mark.parametrize("name", NAMES)
def test_of_many_sets_some_people_tell_nearly_the_same(name, monkeypatch):
    """Of dense keys 500 people tell it to a twentieth: pairs' shares err by 0.02 of 0.4."""
    schema, draw = Schema.of(list("abcdefgh"), -1, 1), np.random.default_rng(3)
    held = draw.random((4000, 8)) < 0.65
    records = [{key: 0.4 for key, has in zip("abcdefgh", row, strict=True) if has} for row in held]
    plan = Plan.of(schema, name, 2, pool=64, cap=8)
    sample = Prior.of_people(schema, People.of_records(schema, records)).sample
    whole, _ = pool_error(plan.channels[0], 8, sample, undoes=True)
    monkeypatch.setattr(poolerror, "MOST_LOOKED", 500 * 64 * 8)
    poolerror.error_of_one_pool.cache_clear()
    sample_error, _ = pool_error(plan.channels[0], 8, sample, undoes=True)
    poolerror.error_of_one_pool.cache_clear()
    off = np.sqrt(((sample_error - whole) ** 2).mean(axis=0))
    assert (off > 0).all(), "others were asked"
    assert (off < 0.2 * np.sqrt((whole**2).mean(axis=0))).all()


def test_of_too_many_keys_no_two_are_looked_at(monkeypatch):
    plan = Plan.of(SCHEMA, "collision", 2, pool=64, cap=3)
    prior = prior_of([{"a": 1, "b": 1}])
    monkeypatch.setattr(poolerror, "MOST_LOOKED", 0)
    monkeypatch.setattr(poolerror, "FEW_KEYS", 2)
    monkeypatch.setattr(poolerror, "MOST_KEYS", 3)
    assert pool_error(plan.channels[0], KEYS, prior.sample, undoes=True) is None
    assert np.isfinite(forecast(plan, 1e7, prior).covariance).all()


def test_sets_of_a_sample_keep_the_cap_and_round_evenly():
    """Sampled: 8,192 draws of one person; six standard errors, a false alarm in a billion."""
    sample = Sample(1, np.zeros(3, int), np.array([4, 1, 2]), np.array([1.0, 0.0, 0.25]))
    sets = sample.sets(2)
    assert sets.shape == (MOST_SAMPLED, 2)
    assert (np.diff(sets, axis=1) > 0).all()
    shares = np.bincount(sets.ravel(), minlength=10) / MOST_SAMPLED
    goal = np.array([0, 0, 1, 0, 0.75, 0.25, 0, 0, 0, 1]) * 2 / 3
    assert shares == pytest.approx(goal, abs=6 * 0.5 / MOST_SAMPLED**0.5)
    assert np.array_equal(sets, sample.sets(2)), "fixed draws"
    whole = sample.sets(5)
    assert (whole[:, :2] == -1).all()
    assert set(whole[:, 2].tolist()) == {2}
