"""The order of the log in PostgreSQL: an id counts once, whoever else adds reports, and when."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager

import numpy as np
import psycopg
import pytest
from desk import NOW, PLAN
from faults.scratch import small_sets

from keyveil.service.collector.engine import admin
from keyveil.service.collector.operations.verify import verify
from keyveil.service.collector.process.settings import Settings
from keyveil.service.collector.store import Parcel, StoreBroken, StoreUnready, postgres_ids, store_at
from keyveil.service.collector.store.migrations import MIGRATIONS
from keyveil.service.collector.store.postgres import PostgresStore
from keyveil.service.collector.store.postgres_connection import PostgresSession
from keyveil.service.collector.store.seen_ids import IdSet

EPOCH = int(NOW) // 86_400


@pytest.fixture
def stores(database):
    """Two collectors, and a collection whose epoch has its key and ten reports."""
    stores = [store_at(database) for _ in range(2)]
    for store in stores:
        store.settings = Settings(lock_seconds=0.3, transaction_seconds=1)
        store.open()
    admin.create(stores[0], "menu", PLAN.dumps(), {}, NOW)
    for store in stores:
        store.refresh()
        store.append([parcel(store, names(5))], NOW)
    yield stores
    for store in stores:
        store.close()


def names(number):
    return [os.urandom(16) for _ in range(number)]


def parcel(store, ids, name="menu"):
    collection = store.control.named(name)
    rows = (np.arange(len(ids)) % 9).astype(PLAN.layout.code_type).tobytes()
    return Parcel(collection.id, collection.round.id, EPOCH, list(ids), rows)


def total(store):
    return int(store.counts_stored(store.control.named("menu").round)[PLAN.layout.own].sum())


def findings(store):
    (verdict,) = verify(store, store.segments_folder)
    return verdict.findings


@contextmanager
def before(store, name, work):
    """Work is done once, right before that method of a store."""
    real, queue = getattr(store, name), [work]

    def first(*given, **named):
        if queue:
            queue.pop()()
        return real(*given, **named)

    setattr(store, name, first)
    try:
        yield
    finally:
        delattr(store, name)
    assert queue == []


@pytest.mark.parametrize("moment", ["_learning", "_known", "_record", "_settle"])
@pytest.mark.parametrize("careful", [0, 8])
@pytest.mark.parametrize("new", [True, False])
def test_what_another_adds_meanwhile_counts_once(stores, moment, careful, new):
    """Whenever in the transaction that happens, and whether ids meet or not."""
    first, second = stores
    mine = names(4)
    others = names(3) + ([] if new else mine[1:3])
    second._careful = careful
    with before(second, moment, lambda: first.append([parcel(first, others)], NOW)):
        second.append([parcel(second, mine)], NOW)
    assert total(first) == 17
    for store in stores:
        store.append([parcel(store, mine + others)], NOW)
    assert total(first) == 17
    assert findings(first) == []


@pytest.mark.parametrize("how", ["paused", "full"])
def test_what_another_has_counted_is_never_refused(stores, how):
    """No commit would tell that this process has not read it."""
    first, second = stores
    mine, new = names(2), names(1)
    first.append([parcel(first, mine)], NOW)
    if how == "paused":
        admin.set_state(first, "menu", "paused")
    else:
        admin.set_terms(first, "menu", {"people": 12})
    second._careful = 0
    for ids in (mine, mine + new):
        batch = parcel(second, ids)
        second.append([batch], NOW)
        assert batch.refused == dict.fromkeys(range(2, len(ids)), how)
        second.open_ids.forget([*second.open_ids])
    assert total(first) == 12


def test_without_the_order_it_would_count_twice(stores, monkeypatch):
    """The broken twin: a row takes whatever number is free."""
    free = "(select max(number) + 1 from log_order where round = {} and epoch = {})"
    monkeypatch.setattr(
        postgres_ids,
        "next_row",
        lambda at, last, mark, segment: (
            f"insert into log_order values ({at[0]}, {at[1]}, {free.format(*at)}, {mark}, {segment})"
        ),
    )
    first, second = stores
    mine = names(4)
    with before(second, "_settle", lambda: first.append([parcel(first, mine)], NOW)):
        second.append([parcel(second, mine)], NOW)
    assert total(first) == 18
    assert findings(first) == [f"epoch {EPOCH} holds 4 reports twice"]


def test_a_process_that_does_not_look_would_never_add_again(stores, monkeypatch):
    """The broken twin: ids that others have added are not read. The database refuses every row."""
    first, second = stores
    first.append([parcel(first, names(2))], NOW)
    tries = []

    def look(*_):
        tries.append(1)
        if len(tries) > 10:
            raise StoreUnready("never")

    monkeypatch.setattr(second, "_look", look)
    with pytest.raises(StoreUnready, match="never"):
        second.append([parcel(second, names(2))], NOW)
    assert total(first) == 12


def test_a_transaction_runs_again_once_and_then_looks_first(stores, monkeypatch):
    """While others add to the log, no transaction is done in vain."""
    first = stores[0]
    runs, real = [], PostgresStore._record

    def record(self, *given):
        runs.append(self)
        return real(self, *given)

    monkeypatch.setattr(PostgresStore, "_record", record)
    for store in stores:
        store._careful = 0
    for _ in range(5):
        for store in stores:
            store.append([parcel(store, names(2))], NOW)
    assert [runs.count(store) for store in stores] == [6, 6]
    assert total(first) == 30


@pytest.mark.parametrize("together", [True, False])
def test_processes_and_lanes_at_once(database, stores, together):
    """Each sends all groups, in another order, and some of them in one transaction."""
    first, second = stores
    for store in stores:
        store.settings = Settings(lanes=2)
    lanes = [first, *first.lanes(), second, *second.lanes()]
    assert len(lanes) == 4
    groups = [names(20) for _ in range(12)]
    raised = []

    def send(store, seed):
        rng = np.random.default_rng(seed)
        try:
            for number in rng.permutation(12):
                ids = [groups[number][place] for place in rng.permutation(20)]
                parcels = [parcel(store, ids[:7]), parcel(store, ids[7:])]
                parcels[1].epoch -= together and number % 2
                parcels[0].epoch -= together and number % 2
                store.append(parcels, NOW)
                assert not any(parcel.refused for parcel in parcels)
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=send, args=given) for given in zip(lanes, range(4), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert raised == []
    assert total(first) == 250
    (verdict,) = verify(first, first.segments_folder)
    assert (verdict.findings, verdict.reports) == ([], 250)


# -- a database that is not what it was --------------------------------------------------------------


def lose(database, keep):
    """The last rows of the log and all that came with them are gone, as after a failover."""
    with psycopg.connect(database, autocommit=True) as line:
        line.execute(
            "delete from segments where id in (select segment from log_order where number > %s)", (keep,)
        )
        line.execute("delete from log_order where number > %s", (keep,))
        line.execute("delete from counts")
        line.execute("update heads set reports = 0")


def log_of(store):
    with store.reading() as session:
        return [row[0] for row in session.rows("select number from log_order order by number")]


@pytest.mark.parametrize("more", [0, 1, 2])
@pytest.mark.parametrize("careful", [0, 8])
@pytest.mark.parametrize("keep", [0, 2])
def test_ids_that_the_database_has_lost_count_again(database, stores, careful, keep, more):
    """Others may have added as many rows since, or more."""
    first, second = stores
    mine = names(4)
    second.append([parcel(second, mine)], NOW)
    assert log_of(first) == [1, 2, 3]
    lose(database, keep)
    third = store_at(database)
    third.open()
    for _ in range(more):
        third.append([parcel(third, names(1))], NOW)
    third.close()
    second._careful = careful
    second.append([parcel(second, mine)], NOW)
    assert len(log_of(first)) == keep + more + 1, "the reports that were lost are in the log again"
    for store in stores:
        store.append([parcel(store, mine)], NOW)
    new = names(2)
    second.append([parcel(second, new + mine)], NOW)
    assert len(log_of(first)) == keep + more + 2
    with first.reading() as session:
        (sum_,) = session.rows("select sum(reports) from segments")[0]
    assert sum_ == 5 * keep + more + 4 + 2
    (verdict,) = verify(first, first.segments_folder)
    assert not [text for text in verdict.findings if "twice" in text]


def test_without_a_look_at_the_log_they_would_be_lost(database, stores, monkeypatch):
    """The broken twin: what memory knows is taken for what the database has."""
    _, second = stores
    mine = names(4)
    second.append([parcel(second, mine)], NOW)
    lose(database, 2)
    monkeypatch.setattr(second, "_look", lambda *_: None)
    second._careful = 0
    second.append([parcel(second, mine)], NOW)
    assert log_of(second) == [1, 2], "acknowledged, and not there"


@pytest.mark.parametrize("table", ["log_order", "segments"])
def test_verify_finds_a_row_without_a_place(database, stores, table):
    first = stores[0]
    with psycopg.connect(database, autocommit=True) as line:
        lost = "number = 2" if table == "log_order" else "id = (select max(id) from segments)"
        line.execute(f"delete from {table} where {lost}")
    (verdict,) = verify(first, first.segments_folder)
    assert f"the log of epoch {EPOCH} has rows without a place, or lacks some" in verdict.findings


def test_a_log_with_a_gap_is_never_read(database, stores):
    with psycopg.connect(database, autocommit=True) as line:
        line.execute("delete from segments where id = (select segment from log_order where number = 1)")
    late = store_at(database)
    late.open()
    with pytest.raises(StoreBroken, match="gap"):
        late.append([parcel(late, names(1))], NOW)
    late.close()


# -- a process that stands still ---------------------------------------------------------------------


def test_a_process_that_stands_still_before_its_commit_holds_up_nobody(stores):
    """It has written everything but its place in the log."""
    first, second = stores
    took = []

    def send():
        for _ in range(5):
            begun = time.monotonic()
            first.append([parcel(first, names(1))], NOW)
            took.append(time.monotonic() - begun)

    second._careful = 0
    with before(second, "_settle", send):
        second.append([parcel(second, names(1))], NOW)
    assert len(took) == 5
    assert total(first) == 16


def test_a_process_that_stands_still_with_the_lock_of_a_log_is_ended(stores):
    """Others are told in time that they must wait, and go on once the database has ended it."""
    first, second = stores
    still, kinds = threading.Event(), []
    real = second._look

    def look(*given):
        real(*given)
        if second._turns:  # with the lock
            still.set()
            time.sleep(1.8)

    def send():
        try:
            second.append([parcel(second, names(1))], NOW)
        except StoreUnready as error:
            kinds.append(error.kind)

    second._look, second._careful = look, 8
    standing = threading.Thread(target=send)
    standing.start()
    assert still.wait(10)
    begun = time.monotonic()
    with pytest.raises(StoreUnready) as caught:
        first.append([parcel(first, names(1))], NOW)
    assert caught.value.kind == "55P03"
    assert time.monotonic() - begun < 0.8
    own = first._session()
    while True:
        try:
            first.append([parcel(first, names(1))], NOW)
            break
        except StoreUnready:
            assert time.monotonic() - begun < 10
    assert first._session() is own, "waiting for a lock costs no connection"
    standing.join(10)
    assert kinds == ["25P03"]
    del second._look
    second.append([parcel(second, names(1))], NOW)
    assert total(first) == 12
    assert findings(first) == []


# -- memory -------------------------------------------------------------------------------------------


def test_lanes_share_what_they_know_and_processes_do_not(stores):
    first, second = stores
    first.settings = Settings(lanes=2)
    (lane,) = first.lanes()
    assert lane.open_ids is first.open_ids
    assert lane.open_ids is not second.open_ids
    mine = names(3)
    lane.append([parcel(lane, mine)], NOW)
    first.append([parcel(first, mine)], NOW)
    assert total(first) == 13


def test_many_ids_are_read_apart_while_their_epoch_waits(database, stores, monkeypatch):
    """Nothing of that epoch is taken for new, or for known, before all its ids are read."""
    monkeypatch.setattr(PostgresStore, "learn_from", 10)
    gate, real = threading.Event(), PostgresStore._read_apart

    def slow(self, at):
        gate.wait(20)
        yield from real(self, at)

    monkeypatch.setattr(PostgresStore, "_read_apart", slow)
    first, _ = stores
    mine = names(3)
    first.append([parcel(first, mine)], NOW)
    late = store_at(database)
    late.open()
    assert late.learns, "a collector that starts is not ready until its large epochs are read"
    try:
        for ids in (mine, names(2), mine[:1] + names(1)):
            batch = parcel(late, ids)
            late.append([batch], NOW)
            assert set(batch.refused.values()) == {"storage"}
        other = parcel(late, names(2))
        other.epoch -= 1
        late.append([other], NOW)
        assert not other.refused, "other epochs go on"
        first.append([parcel(first, names(1))], NOW)
        gate.set()
        until = time.monotonic() + 20
        batch = parcel(late, mine + names(1))
        late.append([batch], NOW)
        while batch.refused:
            assert time.monotonic() < until
            time.sleep(0.01)
            late.append([batch], NOW)
        assert total(first) == 17
        assert not late.learns
    finally:
        late.close()
    assert not [thread.name for thread in threading.enumerate() if thread.name == "keyveil-ids"]


def test_a_tick_reads_what_others_have_added(stores):
    first, second = stores
    at = first.control.named("menu").round.id, EPOCH
    second.refresh()
    mine = names(500)
    for place in range(0, 500, 2):  # more than are read at a time
        first.append([parcel(first, mine[place : place + 2])], NOW)
    assert len(second.open_ids.get(at)) == 10
    second.refresh()
    assert len(second.open_ids.get(at)) == 510
    assert second._careful == 0, "a tick says nothing of who writes now"


def test_a_tick_asks_once_however_many_epochs_are_open(stores, monkeypatch):
    first, second = stores
    for number in range(30):
        batch = parcel(second, names(1))
        batch.epoch -= number
        second.append([batch], NOW)
    first.append([parcel(first, names(1))], NOW)
    statements, real = [], PostgresSession.rows

    def rows(self, sql, parameters=()):
        statements.append(sql)
        return real(self, sql, parameters)

    second.refresh()
    monkeypatch.setattr(PostgresSession, "rows", rows)
    with second._transaction(second._session()) as session:
        second._follow_ids(session)
    assert len(statements) == 1, "nothing is new"
    first.append([parcel(first, names(1))], NOW)
    del statements[:]
    with second._transaction(second._session()) as session:
        second._follow_ids(session)
    assert len(statements) == 2, "in one epoch something is"


def test_ids_in_files_that_spoil_are_read_again(stores):
    first, _ = stores
    at = first.control.named("menu").round.id, EPOCH
    with small_sets():
        mine = names(40)
        for place in range(0, 40, 4):
            first.append([parcel(first, mine[place : place + 4])], NOW)
        runs = [run for run in first.open_ids.get(at)._ids._runs if run._checks is not None]
        assert runs
        for run in runs:
            run._checks = run._checks + np.uint64(1)
        first.append([parcel(first, mine)], NOW)
        assert total(first) == 50


def test_an_index_that_cannot_be_kept_acknowledges_nothing(stores, monkeypatch):
    first, _ = stores
    at = first.control.named("menu").round.id, EPOCH
    monkeypatch.setattr(IdSet, "_load", lambda self, packed: setattr(self, "_spoiled", True))
    first.open_ids.forget([at])
    with pytest.raises(StoreUnready, match="index of ids"):
        first.append([parcel(first, names(1))], NOW)


# -- older databases ----------------------------------------------------------------------------------


def test_ids_of_an_older_database_are_kept(database, stores):
    """Version 3 had a table of ids; the log has the same ids."""
    second = stores[1]
    mine = names(6)
    for place in range(0, 6, 2):
        second.append([parcel(second, mine[place : place + 2])], NOW)
    for store in stores:
        store.close()
    with psycopg.connect(database, autocommit=True) as line:
        line.execute("drop table log_order")
        line.execute(
            "create table ids (round bigint not null, epoch bigint not null, id uuid not null, "
            "primary key (round, epoch, id))"
        )
        line.execute(
            "insert into ids select round, epoch, "
            "encode(substring(ids from (16 * place + 1)::int for 16), 'hex')::uuid "
            "from segments, generate_series(0, reports - 1) as place"
        )
        ((number,),) = line.execute("select count(*) from ids").fetchall()
        assert number == 16
        line.execute("delete from keyveil_version where version = %s", (len(MIGRATIONS),))
    old = store_at(database)
    assert old.migrate_alone() == 1
    old.close()
    new = store_at(database)
    new.open()
    batch = parcel(new, mine + names(1))
    new.append([batch], NOW)
    assert not batch.refused
    assert total(new) == 17
    assert findings(new) == []
    with new.reading() as session:
        assert session.rows("select to_regclass('ids')") == [(None,)]
    new.close()
