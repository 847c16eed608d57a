"""The store: exactly once, whatever is sent again; exact counts; and what happens when disks fail."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from pathlib import Path

import apsw
import numpy as np
import pytest
from desk import NOW, PLAN, Desk, fresh, plan_of
from faults.scratch import small_sets
from process import keyveil

from keyveil import Tally
from keyveil.service.collector.engine import admin
from keyveil.service.collector.operations import verify as recount
from keyveil.service.collector.operations.verify import verify
from keyveil.service.collector.store import (
    Parcel,
    StoreBroken,
    StoreError,
    StoreUnready,
    migrations,
    sqlite,
    store_at,
)
from keyveil.service.collector.store.collection import Control
from keyveil.service.collector.store.seen_ids import IdRun, Spoiled
from keyveil.service.collector.store.sqlite import SqliteStore

EPOCH = int(NOW) // 86_400


@pytest.fixture
def learning(monkeypatch):
    """Stores that read the ids of every epoch apart, once the gate is open."""
    gate, real = threading.Event(), SqliteStore._read_ids

    def slow(self, session, at):
        if threading.current_thread() is not threading.main_thread():
            gate.wait(20)
        yield from real(self, session, at)

    monkeypatch.setattr(SqliteStore, "learn_from", 1)
    monkeypatch.setattr(SqliteStore, "_read_ids", slow)
    yield gate
    gate.set()


def learned(store):
    for learner in store.open_ids._learners.values():
        assert learner.done.wait(20)


def test_a_restart_over_many_ids_holds_up_their_epoch_only(tmp_path, learning):
    """Nothing of that epoch is taken for new, or for known, before all its ids are."""
    path, reports = str(tmp_path / "store.sqlite"), fresh(20)
    first = Desk(path, tmp_path)
    first.create()
    first.create("other", plan_of("kvoh"))
    first.send(reports)
    first.die()
    again = Desk(path, tmp_path)
    assert again.get("/ready").status_code == 200
    for batch in (reports, fresh(2), reports[:1] + fresh(1)):
        answer = again.send(batch)
        assert (answer.status_code, answer.json()["reason"]) == (503, "storage")
        assert int(answer.headers["retry-after"]) >= 1
    other = fresh(3, plan_of("kvoh"))
    assert again.send(other, "other", plan=plan_of("kvoh").hash).status_code == 200
    assert again.send(fresh(4), epoch=again.epoch() - 1).status_code == 200
    assert again.send(fresh(1), epoch=again.epoch() - 9).json()["reason"] in ("closed_epoch", "storage")
    learning.set()
    learned(again.store)
    assert again.send(reports + fresh(1)).json() == {"accepted": 21, "failed": []}
    assert again.reports() == 25
    (verdict, _) = verify(again.store, tmp_path / "segments")
    assert verdict.findings == []
    again.close()


@pytest.mark.parametrize("what", ["delete", "seal", "close", "fail"])
def test_an_epoch_may_end_while_its_ids_are_read(tmp_path, learning, monkeypatch, what):
    path, reports = str(tmp_path / "store.sqlite"), fresh(20)
    first = Desk(path, tmp_path)
    first.create()
    first.send(reports)
    first.die()
    if what == "fail":
        store = SqliteStore(path)
        store.segments_folder = tmp_path / "segments"
        with monkeypatch.context() as patch:
            patch.setattr(SqliteStore, "reading", no_reading)
            store.open()
            learning.set()
            learned(store)
        collection = store.control.named("menu")
        again = parcel(collection, 20, ids=[bytes.fromhex(report["id"]) for report in reports])
        store.append([again], NOW)
        assert not again.refused
        assert total(store, collection) == 20, "read when it is asked for"
        store.close()
        return
    again = Desk(path, tmp_path)
    threading.Timer(0.1, learning.set).start()
    if what == "delete":
        again.post("/v1/collections/menu/state", json={"state": "closed"})
        assert again.ask("DELETE", "/v1/collections/menu").status_code in (200, 204)
    elif what == "seal":
        again.clock.advance(3 * 86_400)
        again.keep()
        assert again.send(reports, epoch=EPOCH).json()["reason"] == "closed_epoch"
        assert again.reports() == 20
    assert what == "close" or list(again.store.open_ids) == []
    again.close()
    assert list(again.store.open_ids) == []
    assert not [thread.name for thread in threading.enumerate() if thread.name == "keyveil-ids"]


@contextmanager
def no_reading(self):
    raise StoreUnready("away")
    yield


@pytest.fixture
def store(address):
    store = store_at(address)
    store.open()
    yield store
    store.close()


def begun(store, plan=PLAN, **terms):
    return admin.create(store, "menu", plan.dumps(), terms, NOW)


def parcel(collection, number, epoch=EPOCH, ids=None, plan=PLAN):
    codes = (np.arange(number) % 9).astype(plan.layout.code_type)
    return Parcel(
        collection.id,
        collection.round.id,
        epoch,
        ids or [os.urandom(16) for _ in range(number)],
        codes.tobytes(),
    )


def total(store, collection):
    return int(store.counts_stored(collection.round)[PLAN.layout.own].sum())


def test_reports_count_once_however_often_they_are_sent(store):
    collection = begun(store)
    first, second = parcel(collection, 5), parcel(collection, 3)
    store.append([first], NOW)
    again = Parcel(first.collection, first.round, EPOCH, first.ids, first.rows)
    store.append([again, second, again], NOW)
    assert not again.refused
    assert not second.refused
    assert total(store, collection) == 8


def test_an_id_twice_in_one_request_counts_once(store):
    collection = begun(store)
    name = os.urandom(16)
    store.append([parcel(collection, 4, ids=[name, os.urandom(16), name, name])], NOW)
    assert total(store, collection) == 2


def test_the_same_id_in_another_epoch_is_another_report(store):
    collection = begun(store)
    name = os.urandom(16)
    store.append([parcel(collection, 1, ids=[name])], NOW)
    store.append([parcel(collection, 1, EPOCH - 1, [name])], NOW)
    assert total(store, collection) == 2


def test_live_counts_are_the_stored_ones_and_the_fold_of_the_log(store, tmp_path):
    collection = begun(store)
    store.append([parcel(collection, 7)], NOW)
    store.load(collection.round)
    for number in (1, 30, 400):
        store.append([parcel(collection, number), parcel(collection, 2, EPOCH - 1)], NOW)
        _, live = store.counts_now(collection.round)
        assert np.array_equal(live, store.counts_stored(collection.round))
    (verdict,) = verify(store, store.segments_folder)
    assert verdict.findings == []
    assert verdict.reports == 7 + 431 + 6
    assert verdict.open_epochs == 2


def test_everything_is_known_again_after_a_restart(address):
    store = store_at(address)
    store.open()
    collection = begun(store)
    parcels = [parcel(collection, 50) for _ in range(4)]
    store.append(parcels, NOW)
    store.close()
    store = store_at(address)
    store.open()
    try:
        assert store.control.named("menu").round.plan == PLAN.hash
        store.append([Parcel(p.collection, p.round, p.epoch, p.ids, p.rows) for p in parcels], NOW)
        assert total(store, collection) == 200
    finally:
        store.close()


def test_the_cap_is_exact_and_repetitions_still_succeed(store):
    collection = begun(store, people=10)
    first = parcel(collection, 7)
    store.append([first], NOW)
    second = parcel(collection, 5)
    third = Parcel(first.collection, first.round, EPOCH, first.ids, first.rows)
    store.append([second, third], NOW)
    assert second.refused == {3: "full", 4: "full"}
    assert third.refused == {}
    late = parcel(collection, 2, ids=[second.ids[0], os.urandom(16)])
    store.append([late], NOW)
    assert late.refused == {1: "full"}
    assert total(store, collection) == 10


def test_an_id_twice_beyond_the_cap_is_refused_twice(store):
    collection = begun(store, people=1)
    name = os.urandom(16)
    batch = parcel(collection, 3, ids=[os.urandom(16), name, name])
    store.append([batch], NOW)
    assert batch.refused == {1: "full", 2: "full"}


def test_large_plans_are_counted_by_their_touched_cells(store):
    plan = plan_of("kvue", 2000)
    collection = begun(store, plan)
    codes = np.array([0, 5999, 3000, 0], plan.layout.code_type)
    parcel = Parcel(
        collection.id, collection.round.id, EPOCH, [os.urandom(16) for _ in range(4)], codes.tobytes()
    )
    store.append([parcel], NOW)
    tally = Tally(plan, store.counts_stored(collection.round))
    tally._check_possible()
    assert tally.reports == 4
    assert tally.counts[1] == 2
    assert tally.counts[-1] == 1


def test_another_connection_s_change_is_seen_by_the_next_group(store, address):
    collection = begun(store)
    store.append([parcel(collection, 1)], NOW)
    other = store_at(address)
    other.open(serving=False)
    admin.set_state(other, "menu", "paused")
    other.close()
    late = parcel(collection, 2)
    store.append([late], NOW)
    assert late.refused == {0: "paused", 1: "paused"}
    assert store.control.named("menu").state == "paused"


def test_a_deleted_collection_leaves_nothing(store):
    collection = begun(store)
    store.append([parcel(collection, 3)], NOW)
    with pytest.raises(Exception, match="close it before you delete it"):
        admin.delete(store, "menu")
    admin.set_state(store, "menu", "closed")
    admin.delete(store, "menu")
    with store.reading() as session:
        for table in ("collections", "rounds", "segments", "counts", "heads", "sealed", "refusals"):
            assert session.rows(f"select count(*) from {table}")[0][0] == 0
    late = parcel(collection, 1)
    store.append([late], NOW)
    assert late.refused == {0: "closed_collection"}


def test_a_change_looks_at_the_epochs_of_its_own_collection_alone(store, monkeypatch):
    """So a change costs the same, however many collections there are."""
    for number in range(8):
        collection = admin.create(store, f"other-{number}", PLAN.dumps(), {}, NOW)
        store.append([parcel(collection, 2)], NOW)
    looked: list[tuple[int, int]] = []
    over = Control.over
    monkeypatch.setattr(Control, "over", lambda self, at: looked.append(at) or over(self, at))
    last = admin.create(store, "last", PLAN.dumps(), {}, NOW)
    assert looked == []
    store.append([parcel(last, 2)], NOW)
    admin.set_state(store, "last", "closed")
    admin.delete(store, "last")
    assert {at[0] for at in looked} <= {last.round.id}
    assert store.control.by_id(last.id) is None
    assert store.control.round_by_id(last.round.id) is None
    reopened = Control.of(store.control.collections, {})
    assert reopened.in_order == store.control.in_order
    assert [reopened.by_id(c.id) for c in reopened.in_order] == reopened.in_order


def test_refusals_add_up(store):
    collection = begun(store)
    store.add_refusals({(collection.id, "full"): 2})
    store.add_refusals({(collection.id, "full"): 3, (collection.id, "rate"): 1})
    with store.reading() as session:
        rows = session.rows("select reason, number from refusals order by reason")
    assert [tuple(row) for row in rows] == [("full", 5), ("rate", 1)]


# -- sealing ---------------------------------------------------------------------------------------


def test_a_sealed_epoch_has_its_counts_and_no_ids(desk):
    desk.create()
    reports = fresh(20)
    assert desk.send(reports).status_code == 200
    before = desk.get("/v1/collections/menu/tally").content
    epoch = desk.epoch()
    desk.clock.advance(3 * 86_400)
    desk.keep()
    status = desk.status()["rounds"][0]
    assert status["open_epochs"] == []
    assert status["sealed_epochs"] == [{"epoch": epoch, "reports": 20, "expired": False}]
    assert desk.get("/v1/collections/menu/tally").content == before
    with desk.store.reading() as session:
        assert session.rows("select count(*) from segments")[0][0] == 0
        if desk.store.kind == "postgresql":
            assert session.rows("select count(*) from log_order")[0][0] == 0
    names = [bytes.fromhex(report["id"]) for report in reports]
    for path in (desk.folder / "segments").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(name in content or name.hex().encode() in content for name in names)
    assert desk.send(reports, epoch=epoch).json()["reason"] == "closed_epoch"
    (verdict,) = verify(desk.store, desk.folder / "segments")
    assert verdict.findings == []
    assert (verdict.sealed_epochs, verdict.reports) == (1, 20)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
@pytest.mark.parametrize("how", ["sealed", "deleted", "deleted elsewhere"])
def test_files_with_ids_are_gone_when_ids_expire(file_desk, how):
    ids = file_desk.store.open_ids
    with small_sets():
        file_desk.create()
        for _ in range(8):
            file_desk.send(fresh(9))
        before = open_files()
        assert any(run._checks is not None for at in ids for run in ids.get(at)._ids._runs)
        if how == "sealed":
            file_desk.clock.advance(3 * 86_400)
            file_desk.keep()
        elif how == "deleted":
            file_desk.post("/v1/collections/menu/state", json={"state": "closed"})
            assert file_desk.ask("DELETE", "/v1/collections/menu").status_code < 300
        else:
            other = SqliteStore(file_desk.address)
            other.open(serving=False)
            other.delete(other.control.named("menu"))
            other.close()
            file_desk.service.writer.tick()
        assert list(ids) == []
        assert open_files() < before


def test_plans_that_mark_many_cells_are_sealed_alike(file_desk):
    plan = plan_of("harmony", 20)
    file_desk.create(plan=plan)
    reports = fresh(30, plan, {"k3": 2})
    assert file_desk.send(reports, plan=plan.hash).json()["accepted"] == 30
    file_desk.clock.advance(3 * 86_400)
    file_desk.keep()
    (verdict,) = verify(file_desk.store, file_desk.folder / "segments")
    assert (verdict.findings, verdict.sealed_epochs, verdict.reports) == ([], 1, 30)


def test_an_epoch_that_does_not_add_up_is_left_alone(file_desk):
    file_desk.create()
    file_desk.send(fresh(5))
    session = file_desk.store._session()
    (row,) = session.rows("select counts from counts")
    session.run("update counts set counts = ?", (bytes([row[0][0] + 1]) + row[0][1:],))
    file_desk.clock.advance(3 * 86_400)
    file_desk.keep()
    assert file_desk.service.sealer.failures == 1
    assert file_desk.get("/health").json()["warnings"]
    assert file_desk.status()["rounds"][0]["sealed_epochs"] == []
    with file_desk.store.reading() as reading:
        assert reading.rows("select sum(reports) from segments")[0][0] == 5


def test_segments_expire_and_counts_stay(desk):
    desk.create(keep=2)
    desk.send(fresh(5))
    desk.clock.advance(3 * 86_400)
    desk.keep()
    assert list((desk.folder / "segments").rglob("*.parquet"))
    desk.clock.advance(2 * 86_400 + 1)
    desk.keep()
    assert not list((desk.folder / "segments").rglob("*.parquet"))
    assert desk.reports() == 5
    (verdict,) = verify(desk.store, desk.folder / "segments")
    assert (verdict.findings, verdict.expired_epochs, verdict.reports) == ([], 1, 5)


# -- verify must be able to fail -------------------------------------------------------------------


def damaged(file_desk, *statements):
    file_desk.create()
    file_desk.send(fresh(5))
    for statement in statements:
        file_desk.store._session().run(statement)
    (verdict,) = verify(file_desk.store, file_desk.folder / "segments")
    return verdict.findings


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("update counts set counts = zeroblob(2048)", "counts of epoch"),
        ("delete from counts", "counts of epoch"),
        ("delete from segments", "no segments"),
        ("update segments set crc = crc + 1", "its check"),
        (
            "insert into segments (round, epoch, reports, crc, ids, payload) "
            "select round, epoch, reports, crc, ids, payload from segments",
            "twice",
        ),
        ("update heads set reports = reports + 1", "number of reports"),
    ],
)
def test_verify_finds_what_was_changed(file_desk, statement, finding):
    assert any(finding in text for text in damaged(file_desk, statement))


def test_verify_counts_what_is_twice_in_little_memory(file_desk, monkeypatch, tmp_path):
    """Within one look, between looks, and among ids that lie in files."""
    monkeypatch.setattr(recount, "AT_ONCE", 64)
    with small_sets():
        repeats = recount.RepeatedIds(file_desk.store)
        ids = [os.urandom(16) for _ in range(5000)]
        for at in range(0, 5000, 50):
            repeats.add(b"".join(ids[at : at + 50]))
        assert any(run._checks is not None for run in repeats._ids._runs), "some lie in files"
        repeats.add(ids[0] + ids[4999] + ids[0] + os.urandom(16))
        assert repeats.close() == 3
        assert repeats._ids._runs == []


def test_verify_finds_damaged_segments(file_desk):
    file_desk.create()
    file_desk.send(fresh(5))
    file_desk.clock.advance(3 * 86_400)
    file_desk.keep()
    (part,) = (file_desk.folder / "segments").rglob("*.parquet")
    content = part.read_bytes()
    part.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (verdict,) = verify(file_desk.store, file_desk.folder / "segments")
    assert "does not match its check" in verdict.findings[0]
    part.unlink()
    (verdict,) = verify(file_desk.store, file_desk.folder / "segments")
    assert "is missing" in verdict.findings[0]


# -- failing disks ---------------------------------------------------------------------------------


class FailingFile(apsw.VFSFile):
    """A file whose syncs fail when told to."""

    failing = False

    def xSync(self, flags):  # noqa: N802
        if FailingFile.failing:
            raise apsw.IOError("sync")
        super().xSync(flags)


class FailingDisk(apsw.VFS):
    def __init__(self):
        super().__init__("failing", "unix")

    def xOpen(self, name, flags):  # noqa: N802
        return FailingFile("unix", name, flags)


@pytest.fixture
def failing_disk():
    disk = FailingDisk()
    FailingFile.failing = False
    yield FailingFile
    FailingFile.failing = False
    disk.unregister()


def test_a_failed_sync_stops_the_store_for_good(tmp_path, failing_disk):
    path = tmp_path / "store.sqlite"
    store = SqliteStore(path, vfs="failing")
    store.open()
    collection = begun(store)
    store.append([parcel(collection, 3)], NOW)
    failing_disk.failing = True
    with pytest.raises(StoreBroken):
        store.append([parcel(collection, 4)], NOW)
    failing_disk.failing = False
    with pytest.raises(StoreBroken):
        store.append([parcel(collection, 4)], NOW)
    store.close()
    again = SqliteStore(path)
    again.open()
    assert total(again, collection) in (3, 7), "not acknowledged: either is right, but exactly"
    (verdict,) = verify(again, again.segments_folder)
    assert verdict.findings == []
    again.close()


def test_after_a_failed_sync_nothing_is_acknowledged_and_health_says_so(tmp_path, failing_disk):
    desk = Desk(str(tmp_path / "store.sqlite"), tmp_path)
    desk.store.close()
    desk.store._vfs = "failing"
    desk.store.open()
    desk.create()
    assert desk.send(fresh(2)).status_code == 200
    failing_disk.failing = True
    answer = desk.send(fresh(2))
    assert (answer.status_code, answer.json()["reason"]) == (503, "unhealthy")
    failing_disk.failing = False
    assert desk.send(fresh(2)).status_code == 503
    assert desk.get("/health").status_code == 503
    assert desk.get("/ready").status_code == 503
    assert "store_broken" in desk.log.getvalue()
    desk.close()


def test_a_full_disk_refuses_until_there_is_room(file_desk):
    file_desk.create()
    assert file_desk.send(fresh(5)).status_code == 200
    session = file_desk.store._session()
    pages = session.rows("pragma page_count")[0][0]
    session.run(f"pragma max_page_count = {pages}")
    reports = fresh(4000)
    answer = file_desk.send(reports)
    assert (answer.status_code, answer.json()["reason"]) == (503, "storage")
    assert answer.headers["retry-after"] == "5"
    assert file_desk.get("/ready").status_code == 503
    assert file_desk.get("/health").status_code == 200
    session.run("pragma max_page_count = 1000000")
    assert file_desk.send(reports).json()["accepted"] == 4000
    assert file_desk.get("/ready").status_code == 200
    assert file_desk.reports() == 4005


def test_ids_of_a_failed_transaction_are_not_taken_for_counted(file_desk, monkeypatch):
    """The trap: ids remembered before the commit would turn a failure into an acknowledged loss."""
    file_desk.create()
    reports = fresh(5)
    original = SqliteStore._count

    def fail(*_, **__):
        raise apsw.FullError("full")

    monkeypatch.setattr(SqliteStore, "_count", fail)
    assert file_desk.send(reports).status_code == 503
    monkeypatch.setattr(SqliteStore, "_count", original)
    assert file_desk.send(reports).json()["accepted"] == 5
    assert file_desk.reports() == 5


def test_an_index_that_cannot_be_read_is_made_anew_or_nothing_is_acknowledged(tmp_path, monkeypatch):
    with small_sets():
        store = SqliteStore(tmp_path / "store.sqlite")
        store.open()
        collection = begun(store)
        every = [parcel(collection, 20) for _ in range(4)]
        for batch in every:
            store.append([batch], NOW)
        look, failures = IdRun.look, 0

        def wrong(self, *more):
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise Spoiled
            return look(self, *more)

        monkeypatch.setattr(IdRun, "look", wrong)
        again = [Parcel(p.collection, p.round, EPOCH, p.ids, p.rows) for p in every]
        failures = 1
        store.append(again, NOW)  # it is made anew
        assert failures < 0
        failures = 1000
        with pytest.raises(StoreUnready):
            store.append(again, NOW)
        failures = 0
        store.append([*again, parcel(collection, 5)], NOW)
        assert total(store, collection) == 85
        (verdict,) = verify(store, store.segments_folder)
        assert verdict.findings == []
        store.close()


def test_one_request_at_fault_does_not_take_others_with_it(file_desk, monkeypatch):
    """An error that nobody foresaw, before the commit, fails its own request only."""
    file_desk.create()
    original = SqliteStore._take
    bad = fresh(1)
    name = bytes.fromhex(bad[0]["id"])

    def fail(self, session, group, *more):
        if any(name in parcel.ids for parcel in group.parcels):
            raise RuntimeError("unforeseen")
        original(self, session, group, *more)

    monkeypatch.setattr(SqliteStore, "_take", fail)

    async def both():
        from keyveil.service.collector.store import Parcel

        collection = file_desk.service.control.named("menu")
        futures = [
            file_desk.service.writer.submit(
                Parcel(collection.id, collection.round.id, EPOCH, [report_id], bytes(1))
            )
            for report_id in (os.urandom(16), name, os.urandom(16))
        ]
        return [await _outcome(future) for future in futures]

    assert file_desk.run(both()) == [None, "internal", None]
    assert file_desk.reports() == 2


async def _outcome(future):
    try:
        await future
    except Exception as error:
        return error.reason
    return None


# -- opening ---------------------------------------------------------------------------------------


def test_two_processes_cannot_serve_one_file(tmp_path):
    first = store_at(str(tmp_path / "store.sqlite"))
    first.open()
    with pytest.raises(StoreError, match="served by another"):
        store_at(str(tmp_path / "store.sqlite")).open()
    first.close()
    second = store_at(str(tmp_path / "store.sqlite"))
    second.open()
    second.close()


def test_the_file_is_its_owner_s_alone_and_synced_fully(tmp_path):
    store = store_at(str(tmp_path / "store.sqlite"))
    store.open()
    begun(store)
    session = store._session()
    assert session.rows("pragma journal_mode") == [("wal",)]
    assert session.rows("pragma synchronous") == [(2,)]
    assert session.rows("pragma secure_delete") == [(1,)]
    for path in tmp_path.glob("store.sqlite*"):
        assert path.stat().st_mode & 0o077 == 0, path.name
    store.close()


def test_a_library_with_the_known_fault_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(StoreError, match="corrupt"):
        store_at(str(tmp_path / "store.sqlite")).open()


def test_no_store_is_said_in_one_line(tmp_path):
    with pytest.raises(StoreError, match="nowhere does not exist"):
        store_at(str(tmp_path / "nowhere" / "store.sqlite")).open()
    with pytest.raises(StoreError, match="cannot reach the database"):
        store_at(f"postgresql://nobody@/nothing?host={tmp_path}").open()
    (tmp_path / "text.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match="cannot open"):
        store_at(str(tmp_path / "text.sqlite")).open()


STEP = ["create table added (one {big})"]


def test_migrations_are_a_step_of_their_own(address, monkeypatch):
    old = store_at(address)
    old.open()
    begun(old)
    old.close()
    monkeypatch.setattr(migrations, "MIGRATIONS", [*migrations.MIGRATIONS, STEP])
    for module in ("sqlite", "postgres"):
        monkeypatch.setattr(
            f"keyveil.service.collector.store.{module}.MIGRATIONS", migrations.MIGRATIONS
        )
    with pytest.raises(StoreError, match="keyveil migrate"):
        store_at(address).open()
    new = store_at(address)
    assert new.migrate_alone() == 1
    assert new.migrate_alone() == 0 if new.kind == "postgresql" else True
    new.close()
    new = store_at(address)
    new.open()
    assert new.control.named("menu").round.plan == PLAN.hash
    new.close()


def test_a_newer_store_is_refused(address, monkeypatch):
    old = store_at(address)
    old.open()
    old.close()
    for module in ("sqlite", "postgres"):
        monkeypatch.setattr(f"keyveil.service.collector.store.{module}.MIGRATIONS", [])
    with pytest.raises(StoreError, match="newer"):
        store_at(address).open()


def test_a_migration_waits_for_nobody_it_refuses(tmp_path, monkeypatch):
    path = str(tmp_path / "store.sqlite")
    serving = store_at(path)
    serving.open()
    assert "nothing to do" in keyveil("migrate", "--store", path).stdout, "it is up to date"
    monkeypatch.setattr(sqlite, "MIGRATIONS", [*migrations.MIGRATIONS, ["create table t (x)"]])
    late = store_at(path)
    with pytest.raises(StoreError, match="served by another"):
        late.migrate_alone()
    late.close()
    serving.close()
    assert late.migrate_alone() == 1
    late.close()


def test_an_empty_database_needs_migrate_first(postgres):
    with pytest.raises(StoreError, match="keyveil migrate"):
        store_at(postgres.database()).open()


def test_a_lost_database_is_no_lost_report(database, tmp_path):
    """The connection ends: nothing is acknowledged, and the next try finds the way back."""
    desk = Desk(database, tmp_path)
    desk.create()
    reports = fresh(3)
    assert desk.send(reports).status_code == 200
    desk.store._own.close()
    answers = [desk.send(reports + fresh(1)) for _ in range(2)]
    assert answers[-1].status_code == 200
    assert desk.reports() in (4, 5)
    assert desk.get("/v1/collections/menu/estimates").json()["reports"] == desk.reports()
    desk.close()


def test_unready_is_not_broken(file_desk, monkeypatch):
    file_desk.create()

    def busy(*_, **__):
        raise StoreUnready("busy")

    with monkeypatch.context() as patch:
        patch.setattr(file_desk.store, "append", busy)
        assert file_desk.send(fresh(1)).json()["reason"] == "storage"
    assert file_desk.send(fresh(1)).status_code == 200
    assert Path(file_desk.address).exists()
