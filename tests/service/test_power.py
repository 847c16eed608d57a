"""Power is lost at any moment, whatever the disk had not yet been told to keep: nothing acknowledged is
lost, nothing is corrupt, nothing counts twice. The same harness must see what would be wrong."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import apsw
import numpy as np
import pytest
from desk import NOW, PLAN, Desk, fresh
from faults import LONG
from faults.disk import Disk, Event
from faults.power import DECEIVED, ForgetfulStore, StaleStore, lose, work
from faults.wal import check, deceived, frames, written

from keyveil.service.collector.engine import admin
from keyveil.service.collector.operations.backup import backup
from keyveil.service.collector.operations.restore import restore
from keyveil.service.collector.operations.verify import verify
from keyveil.service.collector.store import Parcel, StoreBroken
from keyveil.service.collector.store.sqlite import SqliteStore

POINTS = 10_000 if LONG else 300
HISTORIES = 25 if LONG else 3


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_nothing_acknowledged_is_lost(tmp_path, seed):
    history = work(tmp_path, seed, 45)
    losses = lose(history, POINTS // HISTORIES, seed, tmp_path / "found")
    assert losses.pop(DECEIVED, 0) <= 1
    assert losses == {}


@pytest.mark.parametrize(("synchronous", "seed"), [("NORMAL", 0), ("OFF", 1)])
def test_a_store_that_syncs_less_is_caught(tmp_path, synchronous, seed):
    losses = lose(work(tmp_path, seed, 45, synchronous), 60, 0, tmp_path / "found")
    assert losses["acknowledged reports are lost"] > 0
    corrupt = [text for text in losses if "corrupt" in text.lower()]
    assert bool(corrupt) == (synchronous == "OFF"), "the log alone protects from the one, not the other"


@pytest.mark.parametrize("twin", [ForgetfulStore, StaleStore])
def test_a_store_that_forgets_ids_is_caught(tmp_path, twin):
    losses = lose(work(tmp_path, 0, 45), 60, 0, tmp_path / "found", twin)
    assert losses["sent again, a report counts twice or not at all"] > 0
    assert "acknowledged reports are lost" not in losses


# -- SQLite's log ----------------------------------------------------------------------------------


def test_a_frame_that_was_never_written_passes_only_where_sqlite_s_check_is_blind(tmp_path):
    """Found by the above in ten thousand: a list of free pages, two shorter, over its older self."""
    page = lambda *words: struct.pack(">1024I", *words, *[0] * (1024 - len(words)))  # noqa: E731
    old, new, other = page(0, 4, 24, 23), page(0, 2, 26, 25), page(0, 2, 26, 24)
    assert check(old) == check(new)
    assert check(old) != check(other)
    head = b"\x37\x7f\x06\x82" + struct.pack(">5I", 3_007_000, 4096, 1, 7, 8)
    log = head + struct.pack(">2I", *check(head))
    begin = struct.pack(">4I", 29, 29, 7, 8)
    begin += struct.pack(">2I", *check(new, *check(begin[:8], *check(head))))
    frame_names = written([Event("write", 0, 32, begin), Event("write", 0, 56, new)])
    assert [*frames(log + begin + new)] == [begin + new]
    assert not deceived(log + begin + new, frame_names)
    assert deceived(log + begin + old, frame_names)
    assert [*frames(log + begin + other)] == []


def test_what_sqlite_recovers_is_what_is_read_here(tmp_path):
    """The frames of a real log, and none after a page that was changed."""
    connection = apsw.Connection(str(tmp_path / "a.sqlite"))
    connection.pragma("journal_mode", "wal")
    for number in range(5):
        connection.execute("create table if not exists t (x)")
        connection.execute("insert into t values (?)", (bytes(3000 * number),))
    log = (tmp_path / "a.sqlite-wal").read_bytes()
    every = [*frames(log)]
    assert len(every) == (len(log) - 32) // 4120 > 6
    torn = bytearray(log)
    torn[32 + 3 * 4120 + 24 + 100] ^= 1
    assert [*frames(bytes(torn))] == every[:3]
    (tmp_path / "b.sqlite").write_bytes((tmp_path / "a.sqlite").read_bytes())
    (tmp_path / "b.sqlite-wal").write_bytes(torn)
    again = apsw.Connection(str(tmp_path / "b.sqlite"))
    assert again.execute("pragma integrity_check").fetchall() == [("ok",)]
    pages = {int.from_bytes(frame[:4], "big") for frame in every[:3]}
    assert again.execute("pragma page_count").fetchall()[0][0] <= max(pages)
    again.close()
    connection.close()


# -- the disk itself -------------------------------------------------------------------------------


def states(events, times=300):
    disk = Disk()
    for event in events:
        disk.play(event)
    return [disk.lose_power(random.Random(number)) for number in range(times)]


def test_what_is_synced_is_there_and_what_is_not_may_be_in_any_order():
    start = [Event("make", 0, name="a"), Event("folder")]
    sector = 512
    writes = [Event("write", 0, place * sector, bytes([65 + place]) * sector) for place in range(3)]
    assert {state["a"] for state in states([*start, *writes, Event("sync", 0)])} == {
        b"A" * sector + b"B" * sector + b"C" * sector
    }
    before = [*start, Event("write", 0, 0, b"." * 3 * sector), Event("sync", 0)]
    contents = {f["a"] for f in states([*before, *writes])}
    whole = {tuple(content[place * sector] for place in range(3)) for content in contents}
    assert (46, 46, 46) in whole, "all dropped"
    assert (46, 66, 67) in whole, "the first dropped, later ones kept"
    assert len(whole) == 8
    for content in contents:
        assert all(len(set(content[at : at + sector])) == 1 for at in range(0, len(content), sector))


def test_one_write_is_torn_between_sectors_only():
    events = [
        Event("make", 0, name="a"),
        Event("folder"),
        Event("write", 0, 0, bytes(2048)),
        Event("sync", 0),
    ]
    contents = {f["a"] for f in states([*events, Event("write", 0, 0, b"x" * 2048)])}
    torn = [content for content in contents if 0 < content.count(b"x") < 2048]
    assert torn
    assert all(content.count(b"x") % 512 == 0 for content in torn)


def test_a_name_is_safe_with_its_folder_only():
    events = [Event("make", 0, name="a"), Event("write", 0, 0, b"x"), Event("sync", 0)]
    assert {("a" in state) for state in states(events)} == {True, False}
    assert all("a" in state for state in states([*events, Event("folder")]))
    gone = [*events, Event("folder"), Event("remove", name="a")]
    assert {("a" in state) for state in states(gone)} == {True, False}


# -- syncs that fail, and files beside the database ------------------------------------------------


class _Failing(apsw.VFSFile):
    where = ""

    def __init__(self, name, flags):
        super().__init__("unix", name, flags)
        self._name = str(name.filename() if isinstance(name, apsw.URIFilename) else name)

    def xSync(self, flags):  # noqa: N802
        if _Failing.where and self._name.endswith(_Failing.where):
            raise apsw.IOError("sync")
        super().xSync(flags)


class _FailingDisk(apsw.VFS):
    def __init__(self):
        super().__init__("failing-file", "unix")

    def xOpen(self, name, flags):  # noqa: N802
        return _Failing(name, flags)


@pytest.fixture
def failing():
    disk = _FailingDisk()
    _Failing.where = ""
    yield _Failing
    _Failing.where = ""
    disk.unregister()


def test_a_sync_that_fails_when_the_log_is_moved_into_the_file_stops_the_store(tmp_path, failing):
    """SQLite keeps such an error to itself, if it moves its log on its own."""
    store = SqliteStore(tmp_path / "store.sqlite", vfs="failing-file")
    store.checkpoint_pages = 3
    store.open()
    collection = admin.create(store, "menu", PLAN.dumps(), {}, NOW)
    ids = [os.urandom(16) for _ in range(100)]
    rows = np.zeros(100, PLAN.layout.code_type).tobytes()
    failing.where = "store.sqlite"
    parcel = Parcel(collection.id, collection.round.id, int(NOW) // 86_400, ids, rows)
    store.append([parcel], NOW)  # its own sync, of the log, succeeded: it is durable
    failing.where = ""
    with pytest.raises(StoreBroken):
        store.append([Parcel(parcel.collection, parcel.round, parcel.epoch, ids, rows)], NOW)
    store.close()
    again = SqliteStore(tmp_path / "store.sqlite")
    again.open()
    (verdict,) = verify(again, again.segments_folder)
    again.close()
    assert (verdict.findings, verdict.reports) == ([], 100)


class Folders:
    """Which files and folders were synced."""

    def __init__(self, monkeypatch) -> None:
        self.synced: set[str] = set()
        real = os.fsync

        def fsync(handle):
            self.synced.add(os.readlink(f"/proc/self/fd/{handle}"))
            real(handle)

        monkeypatch.setattr(os, "fsync", fsync)

    def unsafe(self, root: Path, files: bool = False) -> set[str]:
        """What lies below a folder and has no safe name, or, of ``files``, no safe content."""
        every = [root, *root.rglob("*")]
        wrong = {str(path) for path in every if str(path.parent) not in self.synced}
        if files:
            wrong |= {str(path) for path in every if path.is_file()} - self.synced
        return wrong


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of open files are read from /proc")
def test_sealed_epochs_and_backups_are_on_disk_with_all_their_folders(tmp_path, monkeypatch):
    """A seal deletes the log: the files that replace it must have their names on disk before."""
    folders = Folders(monkeypatch)
    desk = Desk(str(tmp_path / "store.sqlite"), tmp_path)
    desk.create(epoch=100, grace=50)
    desk.send(fresh(4), epoch=int(desk.clock.now()) // 100)
    desk.clock.advance(150)
    results = []
    seal = desk.store.seal

    def watched(*more):
        results.append(folders.unsafe(tmp_path / "segments"))
        return seal(*more)

    monkeypatch.setattr(desk.store, "seal", watched)
    desk.keep()
    assert results == [set()]
    desk.close()
    backup(tmp_path / "store.sqlite", tmp_path / "segments", tmp_path / "copy")
    new = tmp_path / "new"
    new.mkdir()
    folders.synced.clear()
    restore(tmp_path / "copy", new / "store.sqlite", new / "segments")
    assert folders.unsafe(new / "segments", files=True) == set()
    assert str(new) in folders.synced
