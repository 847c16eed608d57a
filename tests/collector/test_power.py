"""Power is lost at any moment, whatever the disk had not yet been told to keep: nothing acknowledged is
lost, nothing is corrupt, nothing counts twice. The same harness must see what would be wrong."""

from __future__ import annotations

import os
import random
from pathlib import Path

import apsw
import numpy as np
import pytest
from desk import NOW, PLAN, Desk, fresh
from faults import LONG
from faults.disk import Disk, Event
from faults.power import ForgetfulStore, lose, work

from keyveil.collector import admin
from keyveil.collector.backup import backup, restore
from keyveil.collector.store import Parcel, StoreBroken
from keyveil.collector.store.sqlite import SqliteStore
from keyveil.collector.verify import verify

POINTS = 10_000 if LONG else 300
HISTORIES = 25 if LONG else 3


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_nothing_acknowledged_is_lost(tmp_path, seed):
    history = work(tmp_path, seed, 45)
    assert lose(history, POINTS // HISTORIES, seed, tmp_path / "found") == {}


@pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
def test_a_store_that_syncs_less_is_caught(tmp_path, synchronous):
    found = lose(work(tmp_path, 0, 45, synchronous), 60, 0, tmp_path / "found")
    assert found["acknowledged reports are lost"] > 0
    corrupt = [text for text in found if "corrupt" in text.lower()]
    assert bool(corrupt) == (synchronous == "OFF"), "the log alone protects from the one, not the other"


def test_a_store_that_forgets_its_ids_is_caught(tmp_path):
    found = lose(work(tmp_path, 0, 45), 60, 0, tmp_path / "found", ForgetfulStore)
    assert found["sent again, a report counts twice or not at all"] > 0
    assert "acknowledged reports are lost" not in found


# -- the disk itself -------------------------------------------------------------------------------


def states(events, times=300):
    disk = Disk()
    for event in events:
        disk.play(event)
    return [disk.lose_power(random.Random(number)) for number in range(times)]


def test_what_is_synced_is_there_and_what_is_not_may_be_in_any_order():
    made = [Event("make", 0, name="a"), Event("folder")]
    sector = 512
    writes = [Event("write", 0, place * sector, bytes([65 + place]) * sector) for place in range(3)]
    assert {found["a"] for found in states([*made, *writes, Event("sync", 0)])} == {
        b"A" * sector + b"B" * sector + b"C" * sector
    }
    before = [*made, Event("write", 0, 0, b"." * 3 * sector), Event("sync", 0)]
    found = {f["a"] for f in states([*before, *writes])}
    whole = {tuple(one[place * sector] for place in range(3)) for one in found}
    assert (46, 46, 46) in whole, "all dropped"
    assert (46, 66, 67) in whole, "the first dropped, later ones kept"
    assert len(whole) == 8
    for one in found:
        assert all(len(set(one[at : at + sector])) == 1 for at in range(0, len(one), sector))


def test_one_write_is_torn_between_sectors_only():
    events = [
        Event("make", 0, name="a"),
        Event("folder"),
        Event("write", 0, 0, bytes(2048)),
        Event("sync", 0),
    ]
    found = {f["a"] for f in states([*events, Event("write", 0, 0, b"x" * 2048)])}
    torn = [one for one in found if 0 < one.count(b"x") < 2048]
    assert torn
    assert all(one.count(b"x") % 512 == 0 for one in torn)


def test_a_name_is_safe_with_its_folder_only():
    events = [Event("make", 0, name="a"), Event("write", 0, 0, b"x"), Event("sync", 0)]
    assert {("a" in found) for found in states(events)} == {True, False}
    assert all("a" in found for found in states([*events, Event("folder")]))
    gone = [*events, Event("folder"), Event("remove", name="a")]
    assert {("a" in found) for found in states(gone)} == {True, False}


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
    one = Parcel(collection.id, collection.round.id, int(NOW) // 86_400, ids, rows)
    store.append([one], NOW)  # its own sync, of the log, succeeded: it is durable
    failing.where = ""
    with pytest.raises(StoreBroken):
        store.append([Parcel(one.collection, one.round, one.epoch, ids, rows)], NOW)
    store.close()
    again = SqliteStore(tmp_path / "store.sqlite")
    again.open()
    (verdict,) = verify(again, tmp_path)
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
    seen = []
    seal = desk.store.seal

    def watched(*more):
        seen.append(folders.unsafe(tmp_path / "segments"))
        return seal(*more)

    monkeypatch.setattr(desk.store, "seal", watched)
    desk.keep()
    assert seen == [set()]
    desk.close()
    backup(tmp_path / "store.sqlite", tmp_path / "segments", tmp_path / "copy")
    new = tmp_path / "new"
    new.mkdir()
    folders.synced.clear()
    restore(tmp_path / "copy", new / "store.sqlite", new / "segments")
    assert folders.unsafe(new / "segments", files=True) == set()
    assert str(new) in folders.synced
