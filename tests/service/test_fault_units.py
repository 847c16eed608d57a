"""Faults that one process shows: sums that overflow, epochs closed in error, files from elsewhere."""

from __future__ import annotations

import io
import json
import socket
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from desk import NOW, PLAN, Desk, fresh, plan_of
from process import keyveil
from stated_clock import StatedClock

from keyveil import Tally
from keyveil.foundation.errors import ReportError
from keyveil.service.collector.engine import admin
from keyveil.service.collector.http.app import check_clock
from keyveil.service.collector.http.routes import TALLY
from keyveil.service.collector.http.server import ServeError
from keyveil.service.collector.operations.verify import verify
from keyveil.service.collector.process.clock import FleetClock, Trust
from keyveil.service.collector.process.settings import Settings
from keyveil.service.collector.store import StoreError, StoreUnready, store_at
from keyveil.service.collector.store.collection import MOST_EPOCH
from keyveil.service.collector.store.migrations import MIGRATIONS
from keyveil.service.collector.store.postgres_connection import WATCH, PostgresSession, fault_of
from keyveil.service.collector.store.segments import read_part
from keyveil.service.collector.store.sqlite_files import SqliteSession

DAY = 86_400


# -- sums ------------------------------------------------------------------------------------------


def tally_with(plan, each):
    """A tally with so many reports of each view, all with its first output."""
    counts = np.zeros(plan.layout.cells, np.int64)
    counts[plan.layout.own] = each
    counts[plan.layout.own + 1] = each
    return Tally(plan, counts)


def test_a_tally_says_how_many_reports_it_has_or_is_refused():
    plan = plan_of(keys=2048)
    wrapped = tally_with(plan, 1 << 53)
    assert wrapped.reports == 1 << 64, "not 0, as 64 bits would have it"
    with pytest.raises(ReportError, match="at most"):
        Tally.parse(plan, wrapped.dumps())
    most = tally_with(PLAN, (1 << 53) // 3)
    assert Tally.parse(PLAN, most.dumps()).reports == (1 << 53) - 2
    with pytest.raises(ReportError, match="at most"):
        most + most
    report = PLAN.report({})
    most.add(report).add(report)
    with pytest.raises(ReportError, match="at most"):
        most.add(report)
    with pytest.raises(ReportError, match="at most"):
        most.add(PLAN.packing.batch_of([report.cells]))


def test_codes_that_add_up_only_in_64_bits_are_refused():
    """2,049 outputs of one view, 2^53 reports each: 2^53 in 64 bits."""
    plan = plan_of("pckv_grr", 1100, 1)
    size = int(plan.layout.sizes[0])
    counts = np.zeros(plan.layout.cells, np.int64)
    own = int(plan.layout.own[0])
    assert size >= 2049
    counts[own + 1 : own + 2050], counts[own] = 1 << 53, 1 << 53
    with pytest.raises(ReportError, match="no set of honest reports"):
        Tally.parse(plan, Tally(plan, counts).dumps())


def bring(desk, tally, name="site"):
    path = f"/v1/collections/menu/tallies?id={name}"
    return desk.post(path, content=tally.dumps(), headers={"content-type": TALLY})


def test_imports_that_would_overflow_are_refused(desk):
    plan = plan_of(keys=2048)
    desk.create(plan=plan, people=1000)
    answer = bring(desk, tally_with(plan, 1 << 53))
    assert answer.status_code == 400
    assert desk.reports() == 0


def test_imports_add_up_to_2_53_reports_and_no_more(desk):
    desk.create()
    half = tally_with(PLAN, 1 << 51)
    assert bring(desk, half).json()["added"]
    answer = bring(desk, half, "other")
    assert (answer.status_code, answer.json()["reason"]) == (410, "full")
    assert desk.reports() == 3 << 51
    (verdict,) = verify(desk.store, desk.folder / "segments")
    assert (verdict.findings, verdict.reports) == ([], 3 << 51)


def test_the_command_refuses_to_join_too_many(tmp_path):
    PLAN.save(tmp_path / "plan.json")
    for name in ("a", "b"):
        tally_with(PLAN, 1 << 51).save(tmp_path / f"{name}.kv")
    words = [str(tmp_path / name) for name in ("plan.json", "a.kv", "b.kv")]
    done = keyveil("tally", *words, "-o", str(tmp_path / "sum.kv"), check=False)
    assert done.returncode != 0
    assert "at most 9007199254740992" in done.stderr
    assert not (tmp_path / "sum.kv").exists()


# -- epochs closed in error -------------------------------------------------------------------------


def closed_in_error(address, folder):
    """A collector that was started three days ahead, and what it was sent before."""
    right = Desk(address, folder, settings=Settings(reopen_seconds=3600))
    right.create()
    reports = fresh(5)
    assert right.send(reports).status_code == 200
    right.close()
    clock = StatedClock()
    clock.time += 3 * DAY
    wrong = Desk(address, folder, clock, Settings(reopen_seconds=3600))
    wrong.keep()
    line = next(json.loads(text) for text in wrong.log.getvalue().splitlines() if "epoch_closed" in text)
    assert (line["collection"], line["epoch"], line["level"]) == ("menu", int(NOW) // DAY, "info")
    return reports, wrong


def test_an_epoch_closed_in_error_is_reopened_while_its_ids_are_kept(address, tmp_path):
    reports, wrong = closed_in_error(address, tmp_path)
    wrong.clock.advance(3000)
    wrong.keep()
    wrong.close()
    desk = Desk(address, tmp_path, settings=Settings(reopen_seconds=3600))
    assert desk.send(fresh(1)).json()["reason"] == "closed_epoch"
    admin.reopen(desk.store, "menu", desk.epoch(), desk.clock.now())
    assert desk.send([*reports, *fresh(2)]).json()["accepted"] == 7
    assert desk.reports() == 7, "the ids of before are known"
    desk.clock.advance(3 * DAY)
    desk.keep()
    assert "closed" in desk.get("/metrics").text
    with pytest.raises(Exception, match="ended"):
        admin.reopen(desk.store, "menu", int(NOW) // DAY, desk.clock.now())
    desk.clock.advance(3601)
    desk.keep()
    (verdict,) = verify(desk.store, tmp_path / "segments")
    assert (verdict.findings, verdict.sealed_epochs, verdict.reports) == ([], 1, 7)
    desk.close()


def test_a_sealed_epoch_is_not_reopened(address, tmp_path):
    _, wrong = closed_in_error(address, tmp_path)
    wrong.clock.advance(3601)
    wrong.keep()
    wrong.close()
    desk = Desk(address, tmp_path)
    with pytest.raises(Exception, match="ids are gone"):
        admin.reopen(desk.store, "menu", desk.epoch(), desk.clock.now())
    with pytest.raises(Exception, match="not closed"):
        admin.reopen(desk.store, "menu", desk.epoch() + 9, desk.clock.now())
    assert desk.send(fresh(1)).json()["reason"] == "closed_epoch"
    desk.close()


def test_the_command_reopens(tmp_path):
    address = str(tmp_path / "store.sqlite")
    PLAN.save(tmp_path / "plan.json")
    keyveil("collection", "create", "menu", str(tmp_path / "plan.json"), "--store", address)
    store = store_at(address)
    store.open(serving=False)
    first = store.control.named("menu").closed_before
    store.change(lambda session, _: session.run("update collections set closed_before = 99999"), "menu")
    store.close()
    done = keyveil("collection", "reopen", "menu", str(first + 1), "--store", address)
    assert "takes reports again" in done.stdout
    again = keyveil("collection", "reopen", "menu", str(first + 1), "--store", address, check=False)
    assert again.returncode != 0
    assert "is not closed" in again.stderr


def test_a_clock_in_another_year_is_doubted_and_the_databases_time_used():
    local = StatedClock()
    clock = FleetClock(local)
    trust = Trust(clock, 30)
    clock.heard(local.time + 29)
    assert clock.offset == -29
    assert trust.ask()
    assert clock.now() == local.time + 29
    local.advance(100)
    assert clock.now() == local.time + 29
    clock.heard(local.time + 31)
    assert not trust.ask()


def test_the_database_decides_whether_an_epoch_has_ended(database, tmp_path):
    """A process that believes another time is told so in the transaction that would close."""
    from keyveil.service.collector.engine.epoch_sealer import close_epochs

    store = store_at(database)
    store.open()
    clock = FleetClock()
    store.hear(clock)
    collection = admin.create(store, "menu", PLAN.dumps(), {}, clock.now())
    today = int(clock.now()) // DAY
    with pytest.raises(Exception, match="database's clock"):
        close_epochs(store, collection, today + 1, clock.now() + 3 * DAY)
    assert store.control.named("menu").closed_before == collection.closed_before
    store.close()


# -- what integrity is, and what it is not ------------------------------------------------------------


def test_an_error_while_sealing_is_no_alarm_of_integrity(file_desk, monkeypatch):
    file_desk.create()
    file_desk.send(fresh(3))
    file_desk.clock.advance(3 * DAY)

    def failing(*_):
        raise RuntimeError("unforeseen")

    with monkeypatch.context() as patch:
        patch.setattr(type(file_desk.store), "seal", failing)
        with pytest.raises(RuntimeError):
            file_desk.keep()
    assert not [text for text in file_desk.get("/health").json()["warnings"] if "add up" in text]
    assert "keyveil_seal_failures 0" in file_desk.get("/metrics").text
    behind_seconds = file_desk.service.settings.behind_seconds
    file_desk.clock.advance(behind_seconds + 1)
    assert file_desk.get("/ready").json()["why"] == ["sealing is behind"]
    assert 'keyveil_epochs{state="waiting"} 1' in file_desk.get("/metrics").text
    file_desk.keep()
    assert file_desk.get("/ready").status_code == 200


def part(path, codes, **more):
    table = pa.table({"code": codes}).replace_schema_metadata(
        {"format": "keyveil/segments/1", "plan": PLAN.hash, "kind": "codes"}
    )
    pq.write_table(table, path, compression="zstd", **more)
    return path


@pytest.mark.parametrize(
    "codes",
    [
        pa.array([256, 257], pa.uint16()),
        pa.array([0.7, 1.7], pa.float64()),
        pa.array([0, None], pa.uint8()),
        pa.array([-256, 1], pa.int64()),
    ],
    ids=["wider", "fractions", "nothing", "negative"],
)
def test_codes_of_a_file_are_checked_not_cast(tmp_path, codes):
    with pytest.raises(ReportError):
        list(read_part(part(tmp_path / "part-0001.parquet", codes), PLAN.packing))


def test_a_file_that_unpacks_to_more_than_it_says_is_not_unpacked(tmp_path):
    """A few kilobytes that say 2^24 reports in one group; and a manifest that says less."""
    many = pa.array(np.zeros(1 << 22, np.uint8))
    bomb = part(tmp_path / "part-0001.parquet", many, row_group_size=1 << 22)
    assert bomb.stat().st_size < 1 << 16
    before = pa.total_allocated_bytes()
    with pytest.raises(ReportError, match="unpacks to more"):
        list(read_part(bomb, PLAN.packing))
    honest = part(tmp_path / "part-0002.parquet", many, row_group_size=1 << 20)
    with pytest.raises(ReportError, match="another number"):
        list(read_part(honest, PLAN.packing, 5))
    assert pa.total_allocated_bytes() <= before
    assert sum(len(part) for part in read_part(honest, PLAN.packing, 1 << 22)) == 1 << 22


def test_epochs_of_a_second_go_on_after_2038(address, tmp_path):
    clock = StatedClock(time=2.0**31 + 1000)
    desk = Desk(address, tmp_path, clock)
    desk.create(epoch=1, grace=20, early=20)
    assert desk.send(fresh(2), epoch=int(clock.time)).json()["accepted"] == 2
    assert desk.send(fresh(2), epoch=MOST_EPOCH + 1).json()["reason"] == "malformed"
    clock.advance(120)
    desk.keep()
    (verdict,) = verify(desk.store, tmp_path / "segments")
    assert (verdict.findings, verdict.sealed_epochs) == ([], 1)
    desk.close()


def test_refusals_of_deleted_collections_do_not_stay(desk):
    desk.create()
    number = desk.store.control.named("menu").id
    assert desk.send(fresh(1), epoch=1).status_code == 410
    desk.post("/v1/collections/menu/state", json={"state": "closed"})
    assert desk.ask("DELETE", "/v1/collections/menu").status_code == 204
    desk.service.writer.refused(number, "closed_epoch", 3)  # it was on its way
    desk.service.writer.tick()
    with desk.store.reading() as session:
        assert session.rows("select * from refusals") == []


def test_a_store_of_the_version_before_loses_refusals_of_deleted_collections(address, monkeypatch):
    for module in ("sqlite", "postgres"):
        monkeypatch.setattr(f"keyveil.service.collector.store.{module}.MIGRATIONS", MIGRATIONS[:2])
    if address.startswith("postgresql"):
        import psycopg

        with psycopg.connect(address, autocommit=True) as connection:
            for table in ("shards", "changes", "dropped", "log_order"):
                connection.execute(f"drop table {table}")
            connection.execute("create table ids (round bigint, epoch bigint, id uuid)")
            connection.execute("alter table heads drop column reserved")
            connection.execute("delete from keyveil_version where version > 2")
            connection.execute("insert into refusals values (77, 0, 'full', 5)")
    else:
        store = store_at(address)
        store.open()
        store._session().run("insert into refusals values (77, 0, 'full', 5)")
        store.close()
    monkeypatch.undo()
    assert keyveil("migrate", "--store", address).stdout == "2 migrations ran\n"
    store = store_at(address)
    store.open()
    with store.reading() as session:
        assert session.rows("select * from refusals") == []
    store.close()


# -- many collections ---------------------------------------------------------------------------------


@pytest.fixture
def work_done(monkeypatch):
    """The statements that stores ran so far, and the rows that they read."""
    done = np.zeros(2, np.int64)

    def counting(original):
        def ask(self, *given):
            rows = original(self, *given)
            done[:] += 1, len(rows or ())
            return rows

        return ask

    for kind in (SqliteSession, PostgresSession):
        for name in ("rows", "run"):
            monkeypatch.setattr(kind, name, counting(getattr(kind, name)))
    return done


def test_the_cost_of_a_collection_does_not_grow_with_their_number(desk, work_done):
    """Neither statements nor rows: to make it, to take its first report, to seal its epoch."""

    def costs_of(numbers):
        costs = []
        for number in numbers:
            before = work_done.copy()
            desk.create(f"menu-{number}")
            assert desk.send(fresh(1), f"menu-{number}").status_code == 200
            costs.append(tuple(work_done - before))
        return costs

    def sealed():
        before = work_done.copy()
        desk.clock.advance(3 * DAY)
        desk.keep()
        return work_done - before

    _, *costs = costs_of(range(30))  # the first reads the plan, which all have
    sealed()
    assert all(
        v.sealed_epochs == 1 and not v.findings for v in verify(desk.store, desk.folder / "segments")
    )
    ten = []
    for number in (30, 40):
        costs += costs_of(range(number, number + 10))
        ten.append(tuple(sealed() - (0, number + 10)))  # one row for each that there is says what is due
    assert len(set(costs)) == 1
    assert len(set(ten)) == 1


# -- errors of the database -----------------------------------------------------------------------------


def test_errors_are_told_apart_by_their_sqlstate():
    import psycopg

    kinds = {
        psycopg.errors.ReadOnlySqlTransaction: "StoreUnready",
        psycopg.errors.AdminShutdown: "StoreUnready",
        psycopg.errors.CannotConnectNow: "StoreUnready",
        psycopg.errors.LockNotAvailable: "StoreUnready",
        psycopg.errors.QueryCanceled: "StoreUnready",
        psycopg.errors.DeadlockDetected: "StoreUnready",
        psycopg.errors.DiskFull: "StoreUnready",
        psycopg.errors.IdleInTransactionSessionTimeout: "StoreUnready",
        psycopg.errors.ConnectionFailure: "StoreUnready",
        psycopg.OperationalError: "StoreUnready",
        psycopg.errors.UndefinedTable: "StoreBroken",
        psycopg.errors.InsufficientPrivilege: "StoreBroken",
        psycopg.errors.DataCorrupted: "StoreBroken",
        psycopg.errors.NumericValueOutOfRange: "NoneType",
        psycopg.errors.UniqueViolation: "NoneType",
    }
    assert {kind: type(fault_of(kind())).__name__ for kind in kinds} == kinds


def test_a_change_of_one_collection_waits_for_no_other(database, tmp_path):
    """One process stands still within a transaction of one collection; another changes the next one."""
    stores = [store_at(database) for _ in range(2)]
    for store in stores:
        store.settings = Settings(lock_seconds=0.2)
        store.open()
    for name in ("menu", "other"):
        admin.create(stores[0], name, PLAN.dumps(), {}, NOW)
    menu = stores[0].control.named("menu")
    with stores[1]._writing([menu.id]):
        assert admin.set_state(stores[0], "other", "paused").state == "paused"
        with pytest.raises(StoreUnready) as caught:
            admin.set_state(stores[0], "menu", "paused")
    assert caught.value.kind == "55P03"
    assert admin.set_state(stores[0], "menu", "paused").state == "paused"
    for store in stores:
        store.close()


def test_far_from_a_cap_no_process_waits_for_another(database, tmp_path, monkeypatch):
    """Each counts within its share while the other is in the middle of a transaction."""
    from test_several import parcel

    stores = [store_at(database) for _ in range(2)]
    for store in stores:
        store.open()
    collection = admin.create(stores[0], "menu", PLAN.dumps(), {"people": 100_000}, NOW)
    for store in stores:  # each has its share from now on
        store.append([parcel(collection, [bytes([store.shard]) * 16])], NOW)
    both = threading.Barrier(2)
    original, met = type(stores[0])._record, []

    def meeting(self, *more):
        if self not in met:  # the one that comes later runs again, because the other adds to the log
            met.append(self)
            both.wait(10)
        return original(self, *more)

    monkeypatch.setattr(type(stores[0]), "_record", meeting)
    works = [
        threading.Thread(target=store.append, args=([parcel(collection, [bytes([9, at]) * 8])], NOW))
        for at, store in enumerate(stores)
    ]
    for work in works:
        work.start()
    for work in works:
        work.join(30)
    assert set(met) == set(stores)
    with stores[0].reading() as session:
        assert stores[0].reports(session, collection.round) == 4
    for store in stores:
        store.close()


def test_an_outage_is_two_lines_however_many_requests_fail(file_desk, monkeypatch):
    file_desk.create()
    text = io.StringIO()
    file_desk.service.log._stream = text

    def away(*_, **__):
        raise StoreUnready("the disk is full", "full")

    with monkeypatch.context() as patch:
        patch.setattr(file_desk.store, "append", away)
        for _ in range(50):
            assert file_desk.send(fresh(1)).status_code == 503
    assert file_desk.send(fresh(1)).status_code == 200
    lines = [json.loads(line) for line in text.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["store_unready", "store_ready"]
    assert (lines[1]["cause"], lines[1]["kind"], lines[1]["errors"]) == ("the disk is full", "full", 50)
    assert 'keyveil_store_errors_total{kind="full"} 50' in file_desk.get("/metrics").text


# -- limits of time -------------------------------------------------------------------------------------


@pytest.fixture
def quick_store(database):
    store = store_at(database)
    store.settings = Settings(
        statement_seconds=0.3, transaction_seconds=0.3, reading_seconds=0.3, connect_seconds=1
    )
    store.open()
    yield store
    store.close()


def test_a_statement_ends_after_statement_seconds_and_the_next_one_works(quick_store):
    for _ in range(2):
        with pytest.raises(StoreUnready) as caught, quick_store._writing() as session:
            session.rows("select pg_sleep(5)")
        assert caught.value.kind == "57014"
    assert quick_store.reconnects == 1
    quick_store.probe()
    assert quick_store.reconnects == 2


def test_a_transaction_that_stands_still_ends_after_transaction_seconds(quick_store):
    with pytest.raises(StoreUnready) as caught, quick_store._writing() as session:
        _ = time.sleep(1), session.rows("select 1")
    assert caught.value.kind == "25P03"


def test_with_the_usual_limits_a_fault_is_told_in_time():
    """The fault suite has shorter ones, to be quick: ten seconds to tell, fifteen until reports flow."""
    usual = Settings()
    assert usual.ready_seconds / 2 < 10, "a store that does not answer: not ready"
    assert usual.ready_seconds + usual.probe_seconds < 15
    cut = usual.statement_seconds + 1 + 2 * WATCH
    assert cut < 10, "a connection on which nothing comes: cut, and counted as an error"
    assert usual.transaction_seconds + usual.lock_seconds < 10, "a frozen process: others go on"
    assert usual.connect_seconds + usual.tick_seconds + usual.probe_seconds < 15


def test_reading_has_a_limit_of_its_own_reading_seconds(quick_store):
    with pytest.raises(StoreUnready) as caught, quick_store.reading() as session:
        session.rows("select pg_sleep(5)")
    assert caught.value.kind == "57014"


def test_a_connection_that_nobody_answers_is_given_up_after_connect_seconds():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = store_at(f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/none")
        store.settings = Settings(connect_seconds=1)
        begun = time.monotonic()
        with pytest.raises(StoreError, match="cannot reach the database"):
            store.open()
        assert time.monotonic() - begun < 10, "libpq waits for two seconds at least"


def test_a_clock_further_off_than_clock_seconds_is_refused(database):
    store = store_at(database)
    store.open()
    local = StatedClock(time=time.time() + 100)
    with pytest.raises(ServeError, match="100 seconds ahead of the database's; at most 30"):
        check_clock(store, FleetClock(local), Settings())
    check_clock(store, FleetClock(local), Settings(clock_seconds=200))
    check_clock(store, StatedClock(), Settings())
    store.close()


def test_a_collector_probes_and_says_when_it_cannot_write(tmp_path, monkeypatch):
    """Each probe_seconds it writes; after ready_seconds without a write it is not ready."""
    desk = Desk(str(tmp_path / "store.sqlite"), tmp_path)
    writer, probes = desk.service.writer, []
    original = desk.store.probe
    monkeypatch.setattr(desk.store, "probe", lambda: (probes.append(1), original()))
    writer.tick()
    assert probes == [], "it has just started"
    desk.clock.advance(desk.service.settings.probe_seconds)
    desk.create()
    assert desk.send(fresh(1)).status_code == 200
    writer.tick()
    writer.tick()
    assert probes == [1], "with reports as without: it also renews the lease of the shard"
    writer._threaded = True
    desk.clock.advance(desk.service.settings.ready_seconds + 1)
    assert desk.get("/ready").json()["why"] == ["nothing was written lately"]
    writer._busy_since = desk.clock.elapsed() - 1000
    assert "the store does not answer" in desk.get("/ready").json()["why"]
    assert desk.get("/health").json()["warnings"] == ["the writer has hung"]
    assert desk.get("/health").status_code == 503
    writer._threaded, writer._busy_since = False, None
    desk.close()
