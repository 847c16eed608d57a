"""The default pool of seeds: large enough where the collisions of many keys are not undone."""

from __future__ import annotations

from decimal import Decimal
from math import sqrt

import numpy as np
import pytest

from keyveil import Plan, Schema
from keyveil.channel.shapes.hash import hashed
from keyveil.channel.shapes.seed_pool import pool_of
from keyveil.mechanisms.collision import MADE_FOR, MOST_ADDED
from keyveil.people.prior import Prior
from keyveil.planner.options import candidates

SETS = ("collision", "coco", "pair_collision")
WIDE = 2100


def zipf(keys: int) -> np.ndarray:
    """Frequencies if everyone holds one key."""
    shares = 1.0 / np.arange(1, keys + 1)
    return shares / shares.sum()


def added_error(plan: Plan, frequencies: np.ndarray, people: float) -> float:
    """What the pool's own error adds to the standard error, exactly: from the law of a report.

    Everyone holds one key, with the value 0. Frequencies are read without undoing collisions.
    """
    channel, keys = pool_of(plan.channels[0]), len(frequencies)
    held, values = np.repeat(frequencies / 2, 2), np.zeros(keys)
    weight = channel.keep - (1.0 - channel.keep) / (channel.small - 1)
    for first in range(0, channel.pool, 512):
        seeds = np.arange(first, min(first + 512, channel.pool))[:, None]
        cells = hashed(channel.salt, seeds, np.arange(2 * keys)[None, :], channel.small)
        at = (seeds - first) * channel.small + cells
        grid = np.bincount(at.ravel(), np.broadcast_to(held, at.shape).ravel(), at.max() + 1)
        law = (1.0 - channel.keep) / (channel.small - 1) + weight * grid
        values += law[at].sum(axis=0).reshape(keys, 2).sum(axis=1) / channel.pool
    excess = (values - 2.0 / channel.small) / channel.gains[0] - frequencies
    return sqrt(1.0 + float((excess**2).mean() * people / channel.key_noise[0])) - 1.0


def test_the_default_adds_little_to_the_error_of_a_million_people():
    frequencies = zipf(WIDE)
    plan = Plan.of(Schema.of(WIDE), "collision", 1, cap=1)
    assert added_error(plan, frequencies, MADE_FOR) < 0.05
    small = Plan.of(Schema.of(WIDE), "collision", 1, cap=1, pool=1024)
    assert added_error(small, frequencies, MADE_FOR) > 0.3  # the broken twin


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("keys", [1, 100, 2048])
def test_plans_of_up_to_2048_keys_keep_their_pool(name, keys):
    plan = Plan.of(Schema.of(keys), name, 1)
    assert plan.parameters["pool"] == pool_of(plan.channels[0]).pool == 1024


@pytest.mark.parametrize("name", SETS)
def test_a_stated_pool_stays_and_wide_plans_read_back(name):
    schema = Schema.of(5000)
    assert Plan.of(schema, name, 1, pool=64).parameters["pool"] == 64
    plan = Plan.of(schema, name, 1)
    assert Plan.parse(plan.dumps()) == plan
    again = Plan.of(schema, name, 1, **plan.parameters)
    assert again.hash == plan.hash


def test_a_pool_that_undoes_collisions_stays_small():
    """Of coco, 4,096 keys are solved for; a larger pool would be too large for that."""
    assert Plan.of(Schema.of(4000), "coco", 1).parameters["pool"] == 1024
    assert Plan.of(Schema.of(5000), "coco", 1).parameters["pool"] > 1024


@pytest.mark.parametrize(("people", "at_least"), [(1_000, 1024), (1_000_000, 1024), (10**8, 1 << 14)])
def test_the_planner_takes_a_pool_for_its_people(people, at_least):
    """The smallest that adds little, as the forecast of the plan says, too."""
    prior = Prior.of(WIDE, held=4)
    tried = [
        given for name, given in candidates(Decimal(1), "both", prior, people) if name == "collision"
    ]
    assert tried
    assert len({given["cap"] for given in tried}) == len(tried)  # one pool for each cap
    assert max(given["pool"] for given in tried) >= at_least
    for given in tried:
        plan = Plan.of(Schema.of(WIDE), "collision", 1, **given)
        channel = pool_of(plan.channels[0])
        shares = prior.capped(given["cap"])[:, :1] ** [2, 2] * [1, 0]
        energy = float(prior.count @ channel.key_energy(shares))
        added = sqrt(1.0 + people * channel.pool_variance(energy)[0] / channel.key_noise[0]) - 1.0
        assert added < MOST_ADDED
        if given["pool"] > 1024:
            half = sqrt(1.0 + 2 * ((1.0 + added) ** 2 - 1.0)) - 1.0
            assert half > MOST_ADDED
