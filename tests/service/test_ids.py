"""The set of ids: exact, whatever comes in whatever order, wherever it lies; and small in memory."""

from __future__ import annotations

import errno
import os
import random
import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from faults.scratch import WatchedScratch, small_sets
from hypothesis import given
from hypothesis import strategies as st

from keyveil.service.collector.store import seen_ids as module
from keyveil.service.collector.store.packed_ids import PackedIds
from keyveil.service.collector.store.seen_ids import FolderScratch, IdSet, Spoiled, split

small = st.integers(0, 40).map(lambda n: n.to_bytes(16, "big"))
halves = st.sampled_from([bytes(8), b"\xff" * 8, b"\0" * 7 + b"\1", b"\x80" + bytes(7)])
twins = st.tuples(halves, halves).map(b"".join)
wide = st.integers(0, 2**128 - 1).map(lambda n: n.to_bytes(16, "little"))
batches = st.lists(st.lists(st.one_of(small, twins, wide), max_size=8), max_size=14)


class Plain:
    """No cipher: ids are their own images, so that those that share halves stay together."""

    def __init__(self, key: bytes) -> None:
        pass

    def update(self, packed: bytes) -> bytes:
        return packed


def stated(key):
    """A cipher that is the same in every run."""
    return real_cipher(b"0123456789abcdef")


real_cipher = module.id_cipher


@pytest.fixture
def small_ones():
    with small_sets():
        yield


@pytest.fixture
def scratch(tmp_path):
    scratch = WatchedScratch(tmp_path)
    yield scratch
    scratch.close()


@given(batches, st.booleans(), st.booleans(), st.integers(0, 2**16 - 1), st.integers(0, 13))
def test_it_is_a_set(batches, plain, spills, failures, reopened):
    """Against a plain set: in memory and in files, while writing fails now and then, made anew once."""
    counter = iter(range(10**6))
    ask = lambda: errno.ENOSPC if failures >> next(counter) % 16 & 1 else 0  # noqa: E731
    with tempfile.TemporaryDirectory() as folder, small_sets(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "id_cipher", Plain if plain else stated)
        scratch = WatchedScratch(Path(folder), ask)
        ids, truth = IdSet(scratch if spills else None), set()
        for number, batch in enumerate(batches):
            once = list(dict.fromkeys(batch))
            assert ids.known(once) == {i for i, name in enumerate(once) if name in truth}
            new = [name for name in once if name not in truth]
            ids.add(new)
            truth.update(new)
            assert len(ids) == len(truth)
            if number == reopened:
                ids.close()
                packed = b"".join(truth)
                parts = (packed[at : at + 32] for at in range(0, len(packed), 32))
                ids = IdSet.of(parts, scratch if spills else None)
        every = sorted(truth)
        assert ids.known(every) == set(range(len(every)))
        assert all(name in ids for name in every)
        ids.close()
        scratch.close()
        assert os.listdir(folder) == []


def test_a_merge_that_loses_an_id_is_told_to_whoever_asks_next(small_ones, scratch, monkeypatch):
    """The broken twin: without the count at the end of a merge, the property above would see it."""
    whole = module.IdRun.part

    def losing(self, number, bits):
        rows = whole(self, number, bits)
        return rows[1:] if bits and len(rows) > 1 else rows

    monkeypatch.setattr(module.IdRun, "part", losing)
    ids = IdSet(scratch)
    names = [os.urandom(16) for _ in range(60)]
    for name in names:
        ids.add([name])
    with pytest.raises(Spoiled):
        ids.known(names)
    ids.close()


def test_it_is_made_anew_from_packed_ids(scratch):
    names = [os.urandom(16) for _ in range(5000)]
    packed = b"".join(names)
    assert split(packed) == names
    for parts in (
        [packed],
        [packed[:160], packed[160:]],
        (packed[a : a + 16] for a in range(0, 80_000, 16)),
    ):
        ids = IdSet.of(parts, scratch)
        assert ids.known(names) == set(range(5000))
        assert not ids.known([os.urandom(16) for _ in range(5000)])


def filled(number, scratch, batch=100):
    """A set of so many ids that came in batches, and the ids."""
    ids, names = IdSet(scratch), []
    coins = random.Random(f"ids {number}")
    for _ in range(number // batch):
        new = [coins.randbytes(16) for _ in range(batch)]
        assert ids.known(new) == set()
        ids.add(new)
        names += new
    return ids, names


@pytest.fixture
def middling(monkeypatch):
    """Sizes at which tens of thousands do what millions do."""
    sizes = {"RECENT": 256, "HELD": 4096, "PART": 1024, "WORDS": 1 << 12}
    for name, value in sizes.items():
        monkeypatch.setattr(module, name, value)


def test_few_runs_are_searched_however_many_ids_there_are(middling, tmp_path):
    ids, names = filled(60_000, FolderScratch(tmp_path))
    assert len(ids) == 60_000
    assert len(ids._runs) <= 20
    lookups = [*names[::7], *(os.urandom(16) for _ in range(3000))]
    assert ids.known(lookups) == set(range(len(names[::7])))
    ids.close()


def test_ids_in_files_take_no_memory(middling, tmp_path):
    """Less than a fifth of a byte each: where its bucket begins, and a check of that."""

    def held(number, scratch):
        tracemalloc.start()
        ids, names = filled(number, scratch)
        del names
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        ids.close()
        return size

    few, many = (held(number, FolderScratch(tmp_path)) for number in (16_000, 64_000))
    assert many - few < 48_000
    assert held(64_000, None) - many > 12 * 48_000, "without files they would"


def test_what_is_written_are_no_ids_and_nobody_can_read_it_later(small_ones, tmp_path):
    names = [os.urandom(16) for _ in range(200)]
    contents = []
    for _ in range(2):
        scratch = WatchedScratch(tmp_path)
        ids = IdSet.of([b"".join(names)], scratch)
        for name in (os.urandom(16) for _ in range(60)):
            ids.add([name])
        assert os.listdir(tmp_path) == [], "its files have no names"
        contents.append(b"".join(scratch.contents()))
        assert len(contents[-1]) >= 16 * 200
        ids.close()
        scratch.close()
    assert not any(name in content for name in names for content in contents)
    first, second = (set(split(content)) for content in contents)
    assert not first & second, "each set has a key of its own, in memory only"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
def test_files_are_gone_with_the_set(middling, tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    ids, _ = filled(30_000, FolderScratch(tmp_path))
    assert len(os.listdir("/proc/self/fd")) > before
    ids.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(ids) == 0


def test_images_are_even_whatever_ids_are_made_up(scratch):
    """Or whoever sends ids that share their beginning would fill one bucket, and slow every search."""
    packed = b"".join(bytes(8) + n.to_bytes(8, "big") for n in range(20_000))
    ids = IdSet.of([packed], scratch)
    sizes = np.diff(ids._runs[0]._starts.astype(np.int64))
    assert sizes.max() < 4 * sizes.mean()
    assert ids.known(split(packed[:1600])) == set(range(100))
    assert not ids.known([bytes(8) + n.to_bytes(8, "big") for n in range(20_000, 20_500)])


# -- disks that fail -------------------------------------------------------------------------------


def test_while_there_is_no_room_ids_stay_in_memory_and_move_later(small_ones, tmp_path):
    full = True
    scratch = WatchedScratch(tmp_path, lambda: errno.ENOSPC if full else 0)
    ids = IdSet(scratch)
    names = [os.urandom(16) for _ in range(120)]
    for name in names[:60]:
        ids.add([name])
    assert scratch.handles == []
    assert ids.known(names) == set(range(60))
    full = False
    for name in names[60:]:
        ids.add([name])
    in_files = sum(len(run) for run in ids._runs if run._checks is not None)
    assert in_files > 60
    assert ids.known(names) == set(range(120))
    ids.close()
    scratch.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_bit_that_turns_in_a_file_is_told_and_is_no_miss(small_ones, scratch, seed):
    """Wherever it turns: the right answer, or none."""
    coins = random.Random(f"bits {seed}")
    names = [coins.randbytes(16) for _ in range(40)]
    ids = IdSet.of([b"".join(names)], scratch)
    (handle,) = scratch.handles
    for first in range(0, 16 * 40, 16):
        at = first + coins.randrange(16)
        scratch.change(handle, at)
        answers = Counter(answer(ids, name) for name in names)
        assert answers["told"] >= 1
        assert answers["missed"] == 0
        scratch.change(handle, at)
    assert ids.known(names) == set(range(40))
    ids.close()


def answer(ids, name):
    try:
        return "found" if name in ids else "missed"
    except Spoiled:
        return "told"


def test_without_its_check_a_turned_bit_would_be_a_miss(small_ones, scratch):
    """The broken twin."""
    names = [os.urandom(16) for _ in range(40)]
    ids = IdSet.of([b"".join(names)], scratch)
    ids._runs[0]._checks = None
    scratch.change(scratch.handles[0], 100)
    assert Counter(answer(ids, name) for name in names) == {"found": 39, "missed": 1}
    ids.close()


def test_a_merge_that_meets_a_turned_bit_is_told_to_whoever_asks_next(small_ones, scratch):
    ids = IdSet.of([os.urandom(160)], scratch)
    scratch.change(scratch.handles[0], 50)
    with pytest.raises(Spoiled):  # noqa: PT012
        for _ in range(100):
            ids.add([os.urandom(16)])
            ids.known([])
    ids.close()


def test_an_id_of_another_length_is_refused_before_a_cipher_keeps_a_part_of_it():
    with pytest.raises(ValueError, match="16 bytes"):
        PackedIds.of([bytes(16), bytes(15)])
