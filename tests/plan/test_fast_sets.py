"""Compiled loops over runs of people: sets, their cells, and views are those of the plain forms."""

from __future__ import annotations

from decimal import Decimal
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from compared_loops import crowd_of, loops_of, near, same, stream_of

from keyveil import People, Plan, Schema
from keyveil.channel import CoCo, Collision
from keyveil.foundation.arrays import WORD
from keyveil.foundation.coins import address
from keyveil.people.size_buckets import bucket_of

SETS = ("collision", "coco", "pair_collision")


@pytest.mark.parametrize("people", [1, 15, 255, 256, 257, 513])
@pytest.mark.parametrize("name", [*SETS, "pairs", "triples"])
def test_reports_are_the_plain_ones_whatever_ends_a_run(name, people, monkeypatch):
    schema = Schema.of(20, "-0.3", "4.7")
    plan, crowd = Plan.of(schema, name, 1), crowd_of(schema, people)
    same(plan, crowd, monkeypatch)
    same(plan, crowd[people // 3 :], monkeypatch)


@pytest.mark.parametrize("name", SETS)
def test_people_who_hold_nothing_have_no_items(name, monkeypatch):
    """Nobody holds a key, and then the first and last alone do."""
    plan, counts = Plan.of(Schema.of(9), name, 1), np.zeros(300, np.int64)
    for held in (0, 2):
        counts[[0, -1]] = held
        starts, keys = np.concatenate([[0], np.cumsum(counts)]), np.tile(np.arange(held), 2)
        people = People(address(np.arange(300)), starts, keys.astype(np.uint16), np.zeros(2 * held))
        same(plan, people, monkeypatch)


@pytest.mark.parametrize("held", [63, 64, 65, 130])
def test_more_keys_than_a_word_has_bits_are_chosen_as_in_the_plain_form(held, monkeypatch):
    """One person of the second run holds so many, the others up to ten."""
    schema, draw = Schema.of(130), np.random.default_rng(held)
    counts = draw.integers(0, 11, 600)
    counts[400] = held
    keys = np.concatenate([np.sort(draw.choice(130, count, replace=False)) for count in counts])
    starts = np.concatenate([[0], np.cumsum(counts)])
    people = People(
        address(np.arange(600)), starts, keys.astype(np.uint16), draw.uniform(-1, 1, len(keys))
    )
    for name in SETS:
        same(Plan.of(schema, name, 1), people, monkeypatch)


@pytest.mark.parametrize("cap", [11, 12, 13, 20])
def test_few_and_many_claims_are_settled_alike(cap, monkeypatch):
    """Few are compared with each other; of many the best of each pair of cells is written down."""
    schema = Schema.of(40)
    plan = Plan.of(schema, "coco", 1, cap=cap)
    same(plan, crowd_of(schema, 600), monkeypatch)


@pytest.mark.parametrize("blocks", [1 << 7, 1 << 9])
@pytest.mark.parametrize("name", SETS)
def test_reports_are_the_same_in_many_chunks(name, blocks, monkeypatch):
    """Chunks of people whose words lie in rows, and a last one that is shorter."""
    monkeypatch.setattr("keyveil.plan.fast_batch.BLOCKS", blocks)
    schema = Schema.of(20)
    same(Plan.of(schema, name, 1), crowd_of(schema, 500), monkeypatch)


def cells_of(channel: Any, sets: np.ndarray, words: np.ndarray) -> np.ndarray:
    """What the loops name for sets of items, which are rows filled up with -1."""
    out, items = np.empty(len(words), np.uint32), np.where(sets < 0, WORD - 1, sets)
    channel.fast_draw(loops_of())(words, 0, np.ascontiguousarray(items.T, np.uint32), out)
    return out


@pytest.mark.parametrize("small", [10, 64, 66, 128, 130, 200])
@pytest.mark.parametrize("kind", [Collision, CoCo])
def test_cells_of_sets_are_the_plain_ones_at_every_threshold(kind, small):
    """Words one below, at and one above the ends of all slices, for sets of each number of cells."""
    channel = kind.of(40, 4, Decimal(1), 8, 7, small)
    own = [channel.high] if kind is Collision else [channel.high, channel.low]
    left = channel.low if kind is Collision else channel.left
    ends = {0}
    for count in range(5):
        end = 0
        for weight in own:
            ends |= {end + place * weight for place in range(count + 1)}
            end += count * weight
        weight, rest = left(count)
        ends |= {end + place * weight + min(place, rest) for place in range(small)}
    draw, naming = np.random.default_rng(small), near(sorted(ends))
    words = draw.integers(0, WORD, (6 * len(naming), 8), np.uint32)
    words[:, 1] = np.tile(naming, 6)
    words[::5, 3] = words[::5, 2]  # two dummies in one cell
    sets = np.stack([draw.choice(20, 4, replace=False) for _ in words]) * 2
    sets += draw.integers(0, 2, sets.shape)
    sets[np.arange(4) >= draw.integers(0, 5, len(sets))[:, None]] = -1
    assert np.array_equal(cells_of(channel, sets, words), channel.draw(sets, stream_of(words)))


def test_the_place_of_a_bit_is_the_same_in_both_ways():
    lanes = import_module("keyveil.foundation.kernels.lanes")
    draw = np.random.default_rng(3)
    words = [1, 1 << 63, (1 << 64) - 1, *map(int, draw.integers(1, 1 << 63, 50, np.uint64))]
    for word in words:
        places = [place for place in range(64) if word >> place & 1]
        for number, place in enumerate(places):
            for way in (lanes.bit_place, lanes.bit_place_by_halves):
                assert way(np.uint64(word), np.uint64(number)) == place


def test_a_view_without_a_key_there_does_not_speak_of_the_last_key():
    """-1 in the type of keys is the largest key that it can name."""
    loops, held = loops_of(), np.array([[0, 65535]] * 20)
    keys = np.concatenate([held.ravel(), np.zeros(loops.LANES)]).astype(np.uint16)
    table = np.arange(0, 41, 2), keys, np.ones(len(keys))
    view_keys = np.array([[0, -1], [0, 65535], [65535, 0], [65535, -1]], np.int32)
    picked = np.tile(np.arange(4, dtype=np.uint32), 5)
    ranges, states = (np.zeros(1 << 16), np.ones(1 << 16), 2), np.empty(20, np.uint64)
    words = np.zeros((20, 4), np.uint32)
    for inside in (20, 7):  # all keys at once, and one by one
        loops.encode_views(words, picked, view_keys, inside, table, ranges, states)
        assert states.tolist() == [2, 2 * 3 + 2, 2 * 3 + 2, 2] * 5


ENCODED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("grr", {}),
    ("pairs", {}),
    ("triples", {}),
    ("workload", {"queries": "mean(0 | 1, 2)"}),
    ("pckv_grr", {"length": 4}),
    ("pckv_ue", {"length": 4}),
    ("collision", {"cap": 4}),
    ("pair_collision", {"cap": 4}),
    ("sign", {}),
    ("size", {}),
)
"""Every encoding that has loops: an item, views, one view, padded records, sets, a value, sizes."""


@pytest.mark.parametrize(("name", "given"), ENCODED)
def test_states_of_records_are_the_plain_ones_at_every_threshold(name, given):
    """Words one below, at and one above all ends of picks, of rounded values and of fair coins."""
    plan = Plan.of(Schema.of(8, "-0.3", "4.7"), name, 1, **given)
    schema, count, draw = plan.schema, 3000, np.random.default_rng(8)
    held = draw.random((count, 8)) < draw.random(count)[:, None]
    starts, places = np.concatenate([[0], np.cumsum(held.sum(axis=1))]), np.nonzero(held)[1]
    values = draw.choice([-0.3, 4.7, 2.2, 1.2, 0.123456789], len(places))
    people = People(address(np.arange(count)), starts, places.astype(np.uint16), values)
    ends = {-(-place * WORD // size) for size in range(1, 9) for place in range(size)}
    ends |= {int(np.floor((value + 0.3) / 5.0 * WORD)) for value in set(values.tolist())}
    columns = -(-(1 + plan.encoding.words(schema, 8, plan.cap)) // 4) * 4
    words = draw.choice(near(sorted(ends)), (count, columns))
    picked = draw.integers(0, len(plan.views), count, np.uint32)
    rest = people, picked, stream_of(words).skip(1), plan.cap
    plain = plan.encoding.encode(schema, plan.views, *rest)
    ready = np.asfortranarray(words) if plan.encoding.by_rows else words
    encode = plan.encoding.fast_encode(schema, plan.views, people, plan.cap, loops_of())
    fast = encode(slice(0, count), ready, picked)
    plain = np.where(plain < 0, WORD - 1, plain)
    if plain.ndim > 1:  # the items of a set have no order
        plain, fast = np.sort(plain, axis=1), np.sort(fast, axis=0).T
    assert np.array_equal(plain, fast)
    assert len(np.unique(fast)) > 2


def test_sizes_up_to_every_key_have_the_buckets_of_the_plain_form():
    """Every number of keys below 4,200, with and without a last bucket."""
    loops, held = loops_of(), np.arange(4200)
    starts, plain = np.concatenate([[0], np.cumsum(held)]), bucket_of(held)
    for last in (0, 5, 30, 60):
        states = np.empty(len(held), np.uint64)
        loops.encode_sizes(starts, last, states)
        assert np.array_equal(states, np.minimum(plain, last))
