"""Compiled loops send the reports of the plain path, word for word."""

from __future__ import annotations

import os
import subprocess
import sys
from decimal import Decimal
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from compared_loops import crowd_of, loops_of, near, same, stream_of

from keyveil import Coins, People, Plan, Reports, Schema, Tally
from keyveil.channel import Subset, Symbols, Table
from keyveil.channel.shapes.symbols import unplane
from keyveil.foundation.arrays import WORD
from keyveil.foundation.block_source import BlockSource
from keyveil.foundation.coins import address
from keyveil.foundation.compiled import KnownLength, compiled, worthwhile
from keyveil.foundation.errors import ReportError
from keyveil.people.tables import read_people
from keyveil.people.views import Views
from keyveil.plan.fast_symbols import Planes, Tiles

NAMES = (
    "pairs",
    "triples",
    "several",
    "several_rr",
    "optimal",
    "coefficients",
    "collision",
    "coco",
    "pair_collision",
    "pckv_ue",
    "pckv_grr",
    "signed_ue",
    "rappor",
    "grr",
    "ioh",
    "ioh_optimal",
    "kvoh",
    "sign",
    "size",
)


@pytest.mark.parametrize("epsilon", ["0.5", "4"])
@pytest.mark.parametrize("keys", [3, 8, 90])
@pytest.mark.parametrize("name", NAMES)
def test_fast_reports_are_the_plain_ones(name, keys, epsilon, monkeypatch):
    if keys > 8 and name.startswith("ioh"):
        keys = 4
    if name in ("pckv_ue", "signed_ue"):
        keys += 8  # else a report is one cell, which has no loop
    schema = Schema.of(keys, "-0.3", "4.7")
    people = crowd_of(schema, 200 if name.startswith("ioh") else 1100)
    same(Plan.of(schema, name, epsilon), people, monkeypatch)


@pytest.mark.parametrize("channel", ["best", "grr", "optimal"])
def test_views_of_several_sizes_and_weights_have_channels_of_their_own(channel, monkeypatch):
    schema = Schema.of(6, "-0.3", "4.7")
    queries = "mean(0 | 1); frequency(2 | !3); mean(0 | 2, 3); frequency(5 | 4)"
    plan = Plan.of(schema, "workload", 1, queries=queries, channel=channel)
    assert len(plan.channels) > 1
    assert plan.views.weights is not None
    same(plan, crowd_of(schema, 900), monkeypatch)


def test_one_view_that_names_its_channel(monkeypatch):
    schema = Schema.of(4)
    plan = Plan.of(schema, "workload", 1, queries="mean(0 | 1)")
    assert plan.channel_of == (0,)
    same(plan, crowd_of(schema, 300), monkeypatch)


def test_keys_are_found_wherever_they_stand_in_a_long_record(monkeypatch):
    """More keys than are compared at once, and than Floyd's method keeps in one word."""
    schema = Schema.of(200)
    for name, given in (("pairs", {}), ("collision", {"cap": 40}), ("coco", {"cap": 9})):
        same(Plan.of(schema, name, 2, **given), crowd_of(schema, 300), monkeypatch)


def test_a_seed_of_many_cells_takes_the_plain_path_or_gives_the_same(monkeypatch):
    schema = Schema.of(12)
    for small in (1 << 6, (1 << 6) + 2, 1 << 7, (1 << 7) + 2, 1 << 12):
        for name in ("collision", "coco"):
            plan = Plan.of(schema, name, 8, cap=3, cells=small, pool=4)
            same(plan, crowd_of(schema, 300), monkeypatch)


def test_people_of_other_types_and_none_at_all(monkeypatch):
    schema = Schema.of(9)
    people = crowd_of(schema, 40)
    wide = People(people.addresses, people.starts, people.keys.astype(np.int64), people.values)
    for name in ("pairs", "collision", "pckv_ue"):
        plan = Plan.of(schema, name, 1)
        same(plan, wide, monkeypatch)
        same(plan, people[:1], monkeypatch)
        same(plan, people[7:20], monkeypatch)
        same(plan, people[:0], monkeypatch)


# -- at every threshold ----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 4, 5, 31, 32, 33])
def test_weighted_views_are_picked_at_every_threshold(count):
    loops, draw = compiled(), np.random.default_rng(count)
    assert loops is not None
    ends = np.sort(draw.choice(WORD - 1, count - 1, replace=False) + 1).tolist()
    views = Views(((0,),) * count, tuple(np.diff([0, *ends, WORD]).tolist()))
    words = near(ends)[:, None]
    picked = np.empty(len(words), np.uint32)
    loops.pick_weighted(words, *views.guide, picked)
    assert np.array_equal(picked, views.pick(words[:, 0]))


@pytest.mark.parametrize("states", [2, 30, 3000])
def test_slices_with_a_guide_are_the_plain_ones(states):
    """Few and many states have fine and coarse guides."""
    draw = np.random.default_rng(states)
    rows = [np.sort(draw.integers(0, WORD, 20)).tolist() for _ in range(states)]
    rows[0] = [0, 0, 0, 1, 1, 1 << 24, 1 << 24, *range(3, 13), WORD - 1, WORD - 1, WORD - 1]
    rows = [sorted(row) for row in rows]
    table = Table(tuple(tuple(np.diff([0, *row, WORD]).tolist()) for row in rows))
    loops = compiled()
    assert loops is not None
    for state in {0, 1, states - 1}:
        words = near([*rows[state], *(run << 24 for run in range(256))])[:, None]
        own, out = np.full(len(words), state, np.uint64), np.empty(len(words), np.uint32)
        table.fast_draw(loops)(words, 0, own, out)
        assert np.array_equal(out, np.searchsorted(rows[state], words[:, 0], side="right"))
        assert np.array_equal(out, table.draw(own, stream_of(words)))


@pytest.mark.parametrize(("states", "size"), [(2, 1), (5, 2), (9, 4), (27, 2)])
def test_subsets_are_the_plain_ones(states, size):
    channel, draw, loops = Subset.of(states, Decimal(1), size), np.random.default_rng(1), compiled()
    assert loops is not None
    ends = [(need << 32) // rest for rest in range(1, states) for need in range(size + 1)]
    words = draw.choice(near([channel.show, *ends]), (4000, states))
    own, out = draw.integers(0, states, 4000), np.empty(4000, np.uint32)
    channel.fast_draw(loops)(words, 0, own.astype(np.uint64), out)
    assert np.array_equal(out, channel.draw(own, stream_of(words)))


class Written(Coins):
    """Coins whose words are given: person i's are row i."""

    def __init__(self, words: np.ndarray) -> None:
        self.rows = np.ascontiguousarray(words, np.uint32).reshape(len(words), -1, 4)

    def for_reports(self, plan_hash: str) -> Coins:
        return self

    def stream_key(self):
        return None

    def fill(self, addresses, count, plain, room):
        return self.rows[addresses[:, 0], :count].reshape(len(addresses), -1)

    def fill_at(self, addresses, numbers, plain, room):
        if addresses is not None:
            plain[:] = addresses
        addresses = plain
        return np.ascontiguousarray(
            self.rows[np.broadcast_to(addresses[..., 0], plain.shape[:-1]), numbers]
        )


@pytest.mark.parametrize("positions", [13, 32, 40, 300])
@pytest.mark.parametrize("alphabet", [2, 3, 4])
def test_symbols_by_planes_are_those_of_their_numbers(positions, alphabet):
    """Every number one below, at and one above an end of a slice, where most planes leave it open."""
    loops, draw = compiled(), np.random.default_rng(positions)
    assert loops is not None
    cuts = np.array([[0x80000000, 0x12345678, 0xABC00000], [0x80000001, 0xFFFFFFFF, 0x00000001]])
    cuts = np.sort(cuts[:, : alphabet - 1], axis=1)
    weights = [np.diff([0, *row, WORD]).tolist() for row in cuts.tolist()]
    laws = tuple((row[-1], *row[:-1]) for row in weights)
    channel = Symbols(positions, laws)
    numbers = draw.choice(near(cuts.ravel().tolist()), (60, positions))
    states = np.arange(60, dtype=np.uint32) % positions
    words = np.zeros((60, 4 * (8 * -(-positions // 32) + 2)), np.uint32)
    words[:, 8 : 8 + positions] = planes_of(numbers)
    packed = np.empty((60, -(-channel.cells // 8)), np.uint8)
    Planes(channel, 2, Written(words), loops)(address(np.arange(60)), states, packed)
    bits = np.unpackbits(packed, axis=1, count=channel.cells, bitorder="little")
    for person in range(60):
        ends = np.tile(cuts[0], (positions, 1))
        ends[states[person]] = cuts[1]
        below = numbers[person][:, None] < ends
        goal = below & ~np.pad(below, ((0, 0), (1, 0)))[:, :-1]
        assert np.array_equal(bits[person], goal.ravel())
    if channel.one_cell:
        return
    assert np.array_equal(bits, channel.draw(states, stream_of(words).skip(8)))


@pytest.mark.parametrize("positions", [13, 32, 40, 128, 300, 1100])
@pytest.mark.parametrize("alphabet", [2, 3, 4])
@pytest.mark.parametrize("laws", [1, 2])
def test_symbols_by_tiles_are_those_of_their_numbers(positions, alphabet, laws):
    """Ends of slices at numbers that occur and one above, where all planes leave them open."""
    loops, coins, people = loops_of(), Coins.stated("tiles"), 40
    words = coins.blocks(address(np.arange(people)), 0, 2 + -(-positions // 4))[:, 8:]
    numbers = np.concatenate(
        [
            unplane(words[:, first : min(first + 32, positions)], min(32, positions - first))
            for first in range(0, positions, 32)
        ],
        axis=1,
    )
    states = np.arange(people, dtype=np.uint32) % (positions * laws)
    own = numbers[np.arange(people), states // laws]
    cuts = np.array([numbers[3, [0, 5, 9]] + 1, own[[7, 16, 21]], own[[8, 17, 30]] + 1], np.uint64)
    cuts = np.sort(cuts[: 1 + laws, : alphabet - 1], axis=1).astype(np.int64)
    rows = [np.diff([0, *row, WORD]).tolist() for row in cuts.tolist()]
    channel = Symbols(positions, tuple((row[-1], *row[:-1]) for row in rows))
    packed = np.empty((people, -(-positions * (alphabet - 1) // 8)), np.uint8)
    source = BlockSource(coins, loops)
    draw: Any = Tiles if loops.FAST_AES else Planes
    draw(channel, 2, source if loops.FAST_AES else coins, loops)(
        address(np.arange(people)), states + channel.silent, packed
    )
    bits = np.unpackbits(packed, axis=1, count=positions * (alphabet - 1), bitorder="little")
    for person in range(people):
        ends = np.tile(cuts[0], (positions, 1))
        ends[states[person] // laws] = cuts[1 + states[person] % laws]
        below = numbers[person][:, None].astype(np.int64) < ends
        goal = below & ~np.pad(below, ((0, 0), (1, 0)))[:, :-1]
        assert np.array_equal(bits[person], goal.ravel())


@pytest.mark.parametrize("people", [1, 15, 16, 17, 255, 256, 257, 600])
@pytest.mark.parametrize("keys", [9, 17, 31, 33, 130, 250])
def test_rows_of_bits_end_where_they_should(people, keys, monkeypatch):
    """Rows are written four groups at a time, beyond their ends; the last ones byte by byte."""
    schema = Schema.of(keys)
    same(Plan.of(schema, "rappor", 1), crowd_of(schema, people), monkeypatch)


@pytest.mark.parametrize("people", [1, 16, 255, 256, 257, 700])
def test_items_of_people_with_one_key_and_with_others(people, monkeypatch):
    """Runs of people who hold one key each are read at once."""
    schema = Schema.of(300)
    keys = np.arange(people, dtype=np.uint16) % 300
    starts = np.arange(people + 1)
    alone = People(address(starts[:-1]), starts, keys, np.zeros(people))
    plan = Plan.of(schema, "grr", 1)
    same(plan, alone, monkeypatch)
    same(plan, alone[people // 3 :], monkeypatch)
    starts[people // 2 + 1 :] -= 1  # one person holds nothing
    same(plan, People(alone.addresses, starts, keys[:-1], np.zeros(people - 1)), monkeypatch)


KEYED = ("kvue", "f2m", "kvoh")
"""One key each by k-RR, by another table and by bits."""


@pytest.mark.parametrize("people", [1, 15, 16, 17, 511, 512, 513, 1100])
@pytest.mark.parametrize("name", KEYED)
def test_one_key_each_whatever_ends_a_run(name, people, monkeypatch):
    """Runs and tiles of people that are not full, and records of any length: none, few, and long."""
    schema = Schema.of(40, "-0.3", "4.7")
    plan, crowd = Plan.of(schema, name, 1), crowd_of(schema, people)
    same(plan, crowd, monkeypatch)
    same(plan, crowd[people // 3 :], monkeypatch)


@pytest.mark.parametrize("name", KEYED)
def test_one_key_each_of_short_records_with_a_long_one(name, monkeypatch):
    """Records of one to LANES keys, where one longer record or none stands in the second run.

    Loops are compiled for each type of keys, so the wider ones are tried with one mechanism.
    """
    schema, lanes, draw = Schema.of(50), loops_of().LANES, np.random.default_rng(5)
    plan = Plan.of(schema, name, 1)
    for longest in (lanes, lanes + 1, 50):
        counts = draw.integers(0, lanes + 1, 1300)
        counts[700] = longest
        held = [np.sort(draw.choice(50, count, replace=False)) for count in counts.tolist()]
        starts, keys = np.concatenate([[0], np.cumsum(counts)]), np.concatenate(held)
        values = draw.uniform(-1, 1, len(keys))
        for kind in (np.uint16, np.uint32, np.int64) if name == KEYED[0] else (np.uint16,):
            crowd = People(address(np.arange(1300)), starts, keys.astype(kind), values)
            same(plan, crowd, monkeypatch)
        same(plan, crowd, monkeypatch, Coins.stated("later").later(3))


def planes_of(numbers: np.ndarray) -> np.ndarray:
    """Words in which each position has its number, group by group in bit planes."""
    words = []
    for first in range(0, numbers.shape[1], 32):
        group = numbers[:, first : first + 32].astype(np.uint64)
        planes = (group[:, None, :] >> np.arange(31, -1, -1, dtype=np.uint64)[:, None]) & np.uint64(1)
        raw = np.packbits(planes.reshape(len(group), -1).astype(np.uint8), axis=1, bitorder="little")
        words.append(np.ascontiguousarray(raw).view("<u4"))
    return np.concatenate(words, axis=1)


# -- tallies of bits -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 254, 255, 256, 600])
@pytest.mark.parametrize("name", ["rappor", "pckv_ue", "signed_ue"])
def test_sums_of_bits_are_the_sums_of_marks(name, count, monkeypatch):
    schema = Schema.of(30)
    plan = Plan.of(schema, name, 1)
    reports = plan.privatise(crowd_of(schema, count), Coins.stated("bits"))
    _, marks = plan.packing.outputs(reports)
    for setting in ("0", "1"):
        monkeypatch.setenv("KEYVEIL_FAST", setting)
        tally = Tally(plan).add(reports)
        assert tally.reports == count
        assert np.array_equal(tally.counts[1:], marks.sum(axis=0, dtype=np.int64))


@pytest.mark.parametrize("name", ["rappor", "pckv_ue", "signed_ue"])
def test_impossible_bits_are_refused_wherever_they_stand(name, monkeypatch):
    """A bit beyond the last cell, and two of a position's cells, in every place of the last row."""
    schema = Schema.of(29)
    plan = Plan.of(schema, name, 1)
    cells, width = plan.channels[0].cells, plan.packing.bits_width
    per = plan.channels[0].position_cells
    both = [
        (first + a, first + b) for first in range(0, cells, per) for b in range(per) for a in range(b)
    ]
    both += [(cell,) for cell in range(cells, 8 * width)]
    assert both
    for setting in ("0", "1"):
        monkeypatch.setenv("KEYVEIL_FAST", setting)
        for wrong in both:
            marks = np.zeros((3, 8 * width), np.uint8)
            marks[2, list(wrong)] = 1
            bits = np.packbits(marks, axis=1, bitorder="little")
            tally = Tally(plan)
            with pytest.raises(ReportError):
                tally.add(Reports(plan.hash, views=np.zeros(3, np.int64), bits=bits))
            assert not tally.counts.any()


# -- words and blocks ------------------------------------------------------------------------------


def test_chosen_blocks_are_those_of_the_streams():
    coins, people = Coins.stated("blocks"), address(np.arange(5))
    room, plain = np.empty(5 * 3 * 16 + 15, np.uint8), np.empty((3, 5, 4), np.uint32)
    numbers = np.array([7, 0, 300], np.uint32)
    for own in (coins, coins.later(2)):
        words = own.fill_at(people, numbers[:, None], plain, room)
        for at, number in enumerate(numbers.tolist()):
            assert np.array_equal(words[at], own.blocks(people, number, 1))
        several = np.empty((5, 3, 4), np.uint32)
        assert np.array_equal(own.fill(people, 3, several, room), own.blocks(people, 0, 3))


# -- when loops are worth loading ------------------------------------------------------------------

SMALL = """
import sys
import numpy as np
from keyveil import People, Plan, Schema, Tally
from keyveil.foundation.coins import address
people = People(address(np.arange(3000)), np.arange(3001), np.zeros(3000, np.uint16), np.zeros(3000))
for name in sys.argv[1:]:
    plan = Plan.of(Schema.of(5), name, 1)
    Tally(plan).add(plan.privatise(people))
    print("numba" in sys.modules)
"""
FEW_OF = ("kvue", "pairs", "collision", "pckv_ue")


@pytest.mark.parametrize(
    ("setting", "names", "loaded"),
    [(None, FEW_OF, False), ("0", FEW_OF, False), *(("1", (name,), True) for name in FEW_OF)],
)
def test_few_people_do_not_wait_for_numba(setting, names, loaded, monkeypatch):
    monkeypatch.delenv("KEYVEIL_FAST")
    if setting is not None:
        monkeypatch.setenv("KEYVEIL_FAST", setting)
    command = [sys.executable, "-c", SMALL, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(loaded)] * len(names)


def test_loops_are_loaded_when_the_plain_form_has_worked_as_long(monkeypatch):
    monkeypatch.delenv("KEYVEIL_FAST")
    code = (
        "from keyveil.foundation.compiled import worthwhile\n"
        "print([worthwhile(seconds, 'counting') is not None for seconds in (0.3, 0, 0.1, 60, 0)])\n"
        "print(worthwhile(0, 'single_keys') is not None, worthwhile(1e9, 'single_keys') is not None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "[False, False, False, True, False]"
    assert done.stdout.split("\n")[1] == "False True"


def test_loops_are_ready_if_another_room_does_their_work(monkeypatch):
    """Where tiles draw the bits, nothing ever loads the planes; small batches still use the tiles."""
    monkeypatch.delenv("KEYVEIL_FAST")
    monkeypatch.delitem(sys.modules, "keyveil.foundation.kernels.bit_planes", raising=False)
    monkeypatch.delitem(sys.modules, "keyveil.foundation.kernels.plane_tiles", raising=False)
    assert worthwhile(0.0, "bit_planes") is None
    import_module("keyveil.foundation.kernels.plane_tiles")
    assert worthwhile(0.0, "bit_planes") is not None


REST = """
from keyveil.foundation.compiled import KnownLength, worthwhile

def loaded(room, chunks, seconds, tables=None):
    with KnownLength(tables) as table:
        for done in range(1, chunks + 1):
            table.see(10, 10 * done, 10 * chunks)
            yield worthwhile(seconds, room) is not None

print([*loaded("counting", 10, 0.3)] == [False] * 10)
print([*loaded("counting", 4, 0.45)] == [True, False, False, False])  # 3 s were done on the table before
print(next(loaded("bit_columns", 16, 0.3)))
print(not next(loaded("single_keys", 8, 0.3)))
print(next(loaded("single_keys", 8, 0.3, tables=1.0)))
print([worthwhile(3, "held_keys") is not None for _ in range(2)] == [False, True])  # not known
"""


def test_the_rest_of_a_table_decides_and_not_what_was_done(monkeypatch, tmp_path):
    """Loops that take 4.5 s to compile and load: a table of less plain work never waits for them."""
    monkeypatch.delenv("KEYVEIL_FAST")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # nothing is compiled yet
    done = subprocess.run([sys.executable, "-c", REST], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 6


def test_a_reader_of_tables_says_how_many_chunks_are_to_come():
    schema = Schema.of(3)
    frame = pa.table({"person": range(1000), "key": ["1"] * 1000, "value": [0.0] * 1000})

    def to_come():
        for _ in read_people(schema, frame, chunk=100):
            table = KnownLength.at_hand()
            assert table is not None
            yield table.to_come

    assert KnownLength.at_hand() is None
    assert list(to_come()) == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    with KnownLength(tables=2.0):
        assert list(to_come()) == list(range(29, 19, -1))
    assert KnownLength.at_hand() is None


UNKEPT = """
import numpy as np
from keyveil.foundation.compiled import histogram
print(histogram(np.array([3, 0, 3], np.uint16), 4).tolist())
from keyveil.foundation.kernels.counting import count
print(type(count._cache).__name__)
"""


def test_loops_are_compiled_where_no_folder_can_be_written(tmp_path):
    """A service without a home and with a package that belongs to root; nothing is kept then."""
    (tmp_path / "file").touch()
    environment = {
        "NUMBA_CACHE_DIR": str(tmp_path / "file" / "none"),
        "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator",
        "KEYVEIL_FAST": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", UNKEPT],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["[1, 0, 0, 2]", "NullCache"]
