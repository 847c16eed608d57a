"""Limits of hash pools: every record of few keys through a small pool, by its exact law."""

from __future__ import annotations

from decimal import Decimal
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from keyveil.channel import CoCo, Collision
from keyveil.foundation.arrays import WORD
from keyveil.mechanisms.encodings import ENCODINGS
from keyveil.plan.encoding import pair_item
from keyveil.trust.health.coco_limits import coco_limits, one_sided
from keyveil.trust.health.collision_limits import (
    PairItems,
    collision_limits,
    members,
    most_grown,
    too_many,
)


def records(keys: int, cap: int) -> list[list[int]]:
    """Signed keys, at most ``cap`` of them."""
    return [
        [2 * key + sign for key, sign in zip(members, signs, strict=True)]
        for count in range(cap + 1)
        for members in combinations(range(keys), count)
        for signs in product((0, 1), repeat=count)
    ]


def with_pairs(items: list[int], keys: int) -> list[int]:
    return items + [
        int(pair_item(keys, first // 2, second // 2)) + 2 * (first % 2) + second % 2
        for first, second in combinations(items, 2)
    ]


def laws(channel, encode: str, keys: int, cap: int) -> list[tuple[list[int], np.ndarray]]:
    """Every record with its law, seed by cell."""
    pairs = []
    for items in records(keys, cap):
        whole = items if encode == "items" else with_pairs(items, keys)
        law = channel.law_of(np.array(whole, np.int64)).reshape(channel.pool, -1)
        pairs.append((items, law))
    return pairs


def chances(channel, keys: int, law: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """That each item's cell is named, and that either of a key's is."""
    at = channel.item_cells(np.arange(2 * keys))
    each = law[np.arange(channel.pool)[:, None], at]
    same = at[:, ::2] == at[:, 1::2]
    return each.sum(axis=0), (each[:, ::2] + np.where(same, 0.0, each[:, 1::2])).sum(axis=0)


COLLISIONS = [
    ("items", 5, 2, 1, 64),
    ("items", 5, 3, 2, 32),
    ("items", 6, 1, 3, 16),
    ("items", 4, 4, 1, 16),
    ("items", 4, 2, 1, 1),
    ("pair_items", 4, 2, 1, 64),
    ("pair_items", 4, 3, 1, 32),
    ("pair_items", 3, 2, 3, 8),
]


def collision(encode: str, keys: int, cap: int, epsilon: int, pool: int) -> Collision:
    sets = ENCODINGS[encode]
    return Collision.of(sets.items(keys), sets.most_held(cap), Decimal(epsilon), pool, 11)


@pytest.mark.parametrize(("encode", "keys", "cap", "epsilon", "pool"), COLLISIONS)
def test_no_record_names_a_cell_less_or_more_often(encode, keys, cap, epsilon, pool):
    channel = collision(encode, keys, cap, epsilon, pool)
    limits = collision_limits(channel, keys, cap)
    below, above = np.full(2 * keys, np.inf), np.zeros(keys)
    for _, law in laws(channel, encode, keys, cap):
        items, either = chances(channel, keys, law)
        assert (items >= limits.item - 1e-12).all()
        assert (either >= limits.least - 1e-12).all()
        assert (either <= limits.most + 1e-12).all()
        below, above = np.minimum(below, items), np.maximum(above, either)
    if encode == "items" and pool >= 32:  # nor are the limits far from what some record does
        assert (below - limits.item <= 0.1 * channel.gain).all()
        assert (limits.most - above <= 0.1 * channel.gain).all()


@pytest.mark.parametrize("limit", ["item", "most"])
def test_limits_that_forget_other_keys_are_too_narrow(limit):
    """The broken twin: what is named where nothing else is held does not bound what is."""
    channel = collision("items", 5, 3, 2, 32)
    alone = Collision(channel.items, 1, channel.small, channel.pool, channel.salt, channel.high)
    limits = collision_limits(alone, 5, 1)
    broken = False
    for _, law in laws(channel, "items", 5, 3):
        items, either = chances(channel, 5, law)
        outside = items < limits.item - 1e-12 if limit == "item" else either > limits.most + 1e-12
        broken = broken or bool(outside.any())
    assert broken


def test_where_items_are_too_many_to_compare_the_limits_only_widen(monkeypatch):
    channel = collision("pair_items", 4, 3, 1, 32)
    narrow = collision_limits(channel, 4, 3)
    monkeypatch.setattr("keyveil.trust.health.collision_limits.MOST_PAIRED", 8)
    wide = collision_limits.__wrapped__(channel, 4, 3)
    assert (wide.most > narrow.most).all()
    channel = collision("items", 5, 2, 1, 64)
    exact = collision_limits(channel, 5, 2).item
    monkeypatch.setattr("keyveil.trust.health.collision_limits.MOST_TRIPLED", 1)
    assert (collision_limits.__wrapped__(channel, 5, 2).item < exact).all()
    monkeypatch.setattr("keyveil.trust.health.collision_limits.MOST_FOLLOWED", 1)
    assert collision_limits.__wrapped__(channel, 5, 2) is None


def test_pairs_that_meet_a_cell_are_counted():
    channel = collision("pair_items", 4, 2, 1, 16)
    cells = channel.hashes(np.arange(channel.items)).T
    shares = PairItems(cells[8:], channel.small).meeting(cells[3])
    assert shares == pytest.approx((cells[8:] == cells[3]).mean(axis=1))


@pytest.mark.parametrize(
    ("keys", "cap", "epsilon", "pool"), [(5, 2, 1, 64), (5, 3, 2, 32), (4, 4, 1, 16)]
)
def test_no_record_grows_more_than_is_allowed(keys, cap, epsilon, pool):
    """The expectation of exp(tilt x items met): the bound holds, and is not far above the largest."""
    channel = collision("items", keys, cap, epsilon, pool)
    limits = collision_limits(channel, keys, cap)
    at = channel.hashes(np.arange(2 * keys))
    worth = members(channel, at) - 2 * keys / channel.small
    every = laws(channel, "items", keys, cap)
    for tilt in (0.01, 0.1, 0.5, 1.0):
        bound = most_grown(channel, at, tilt * worth, limits)
        each = [float((law * np.exp(tilt * worth)).sum()) for _, law in every]
        assert max(each) <= bound + 1e-12
        assert bound - 1 <= 1.6 * (max(each) - 1)


def test_sums_up_to_the_cap_are_likely_and_beyond_are_not():
    channel = collision("items", 6, 2, 2, 64)
    limits = collision_limits(channel, 6, 2)
    law = channel.law_of(np.array([1, 4])).reshape(channel.pool, -1)
    assert too_many(channel, 6, 1e5 * law, limits) > 0.1
    crowded = members(channel, channel.hashes(np.arange(12)))
    planted = np.zeros_like(law)
    planted[np.arange(channel.pool), crowded.argmax(axis=1)] = 1 / channel.pool
    assert too_many(channel, 6, 9e4 * law + 1e4 * planted, limits) < 1e-6


COCOS = [(5, 2, 1, 64), (5, 3, 2, 32), (4, 4, 1, 16), (6, 1, 3, 16), (4, 2, 1, 1)]


@pytest.mark.parametrize(("keys", "cap", "epsilon", "pool"), COCOS)
def test_no_record_leaves_the_corners_of_coco(keys, cap, epsilon, pool):
    channel = CoCo.of(2 * keys, cap, Decimal(epsilon), pool, 5)
    limits = coco_limits(channel, keys)
    claimed, apart = (channel.high + channel.low) / WORD, (channel.high - channel.low) / WORD
    for items, law in laws(channel, "items", keys, cap):
        low, high = chances(channel, keys, law)[0].reshape(-1, 2).T
        both, unlike = low + high, np.abs(high - low)
        mine = np.isin(np.arange(keys), np.array(items, int) // 2)
        assert (both <= claimed + 1e-9).all()
        assert both[mine] == pytest.approx(claimed, abs=1e-9)
        assert (unlike <= np.where(mine, apart + 1e-9, limits.apart)).all()
        assert (both[~mine] >= limits.least[~mine]).all()
        sure = one_sided(channel, limits, 1e6, 1e6 * np.stack([low, high], axis=1))
        assert (sure > 0.9).all()  # a law that some record has is no surprise


def test_one_side_is_an_upper_bound_of_the_exact_chance():
    """Few reports, three outcomes of a key: the law of counts at each corner, by enumeration."""
    channel = CoCo.of(10, 2, Decimal(2), 64, 5)
    limits, n = coco_limits(channel, 5), 20
    claimed, apart = (channel.high + channel.low) / WORD, (channel.high - channel.low) / WORD
    counts = np.array([(low, high) for low in range(n + 1) for high in range(n + 1 - low)], float)
    p_values = np.array([one_sided(channel, limits, n, np.tile(row, (5, 1)))[0] for row in counts])
    least, unlike = limits.least[0], limits.apart[0]
    for total, diff in ((least, unlike), (least, -unlike), (claimed, apart), (claimed, -apart)):
        law = [1 - total, (total - diff) / 2, (total + diff) / 2]
        chance = stats.multinomial.pmf(np.column_stack([n - counts.sum(axis=1), counts]), n, law)
        for rate in (0.001, 0.01, 0.1, 0.5):
            assert (chance[:, None] * (p_values < rate)).sum(axis=0).max() <= rate
