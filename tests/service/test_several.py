"""Several collector processes on one database: once in all, exact caps, exact pauses."""

from __future__ import annotations

import os
import threading

import numpy as np
import psycopg
import pytest
from desk import NOW, PLAN

from keyveil.service.collector.engine import admin
from keyveil.service.collector.operations.verify import verify
from keyveil.service.collector.store import Parcel, Store, StoreUnready, store_at
from keyveil.service.collector.store.postgres import PostgresStore
from keyveil.service.collector.store.postgres_connection import PostgresSession

EPOCH = int(NOW) // 86_400


@pytest.fixture
def stores(database):
    stores = [store_at(database) for _ in range(3)]
    for store in stores:
        store.open()
    yield stores
    for store in stores:
        store.close()


def at_once(works):
    """Run each in a thread of its own; what they raised."""
    raised = []

    def run(work):
        try:
            work()
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return raised


def parcel(collection, ids):
    rows = (np.arange(len(ids)) % 9).astype(PLAN.layout.code_type).tobytes()
    return Parcel(collection.id, collection.round.id, EPOCH, list(ids), rows)


def total(store, collection):
    return int(store.counts_stored(collection.round)[PLAN.layout.own].sum())


def test_the_same_reports_sent_to_all_at_once_count_once(stores, tmp_path):
    collection = admin.create(stores[0], "menu", PLAN.dumps(), {}, NOW)
    groups = [[os.urandom(16) for _ in range(40)] for _ in range(12)]

    def send(store, order):
        for number in order:
            names = list(groups[number])
            np.random.default_rng(number + order[0]).shuffle(names)
            batch = parcel(collection, names)
            store.append([batch], NOW)
            assert not batch.refused

    orders = [list(range(12)), list(range(11, -1, -1)), [*range(6, 12), *range(6)]]
    pairs = zip(stores, orders, strict=True)
    raised = at_once([lambda s=store, o=order: send(s, o) for store, order in pairs])
    assert raised == []
    assert total(stores[0], collection) == 12 * 40
    (verdict,) = verify(stores[1], stores[1].segments_folder)
    assert (verdict.findings, verdict.reports) == ([], 480)


def test_two_processes_that_begin_an_epoch_use_one_key(stores, monkeypatch):
    """One commits the epoch's first reports before each statement of the other up to its first write."""
    first, second, _ = stores
    real, steps = PostgresSession.rows, []

    def begin(collection, early, late, step):
        """Send early reports before that statement of the late ones' transaction; the statement."""
        statements = []

        def rows(self, sql, parameters=()):
            if self is second._session():
                statements.append(sql)
                if len(statements) == step:
                    first.append([parcel(collection, early)], NOW)
            return real(self, sql, parameters)

        with monkeypatch.context() as patch:
            patch.setattr(PostgresSession, "rows", rows)
            second.append([parcel(collection, late)], NOW)
        return statements[step - 1]

    while not steps or not steps[-1].startswith("insert"):
        collection = admin.create(first, f"menu-{len(steps)}", PLAN.dumps(), {}, NOW)
        first.refresh(), second.refresh()
        early, late = [os.urandom(16) for _ in range(5)], [os.urandom(16) for _ in range(5)]
        steps.append(begin(collection, early, late, len(steps) + 1))
        for store in (first, second):
            store.append([parcel(collection, early), parcel(collection, late)], NOW)
        assert total(first, collection) == 10
        with first.reading() as session:
            logged = b"".join(bytes(row[0]) for row in session.rows("select ids from segments"))
        assert not [name for name in early + late if name in logged], "stored by the key, not as it is"
    assert "insert into id_keys" in steps[-1]


def test_the_cap_is_exact_over_all_processes(stores):
    collection = admin.create(stores[0], "menu", PLAN.dumps(), {"people": 100}, NOW)
    taken = []

    def send(store):
        for _ in range(10):
            batch = parcel(collection, [os.urandom(16) for _ in range(7)])
            store.append([batch], NOW)
            taken.append(7 - len(batch.refused))

    assert at_once([lambda s=store: send(s) for store in stores]) == []
    assert sum(taken) == 100
    assert total(stores[0], collection) == 100


def test_without_shares_of_the_cap_it_would_not_be(stores, monkeypatch):
    """The broken twin: the check above can see the fault."""
    collection = admin.create(stores[0], "menu", PLAN.dumps(), {"people": 100}, NOW)
    stores[0].append([parcel(collection, [os.urandom(16)])], NOW)  # the epoch has its key from now on
    monkeypatch.setattr(PostgresStore, "_room_left", Store._room_left)
    both = threading.Barrier(2)
    original = PostgresStore._room

    def slow(self, *more):
        room = original(self, *more)
        both.wait(10)
        return room

    monkeypatch.setattr(PostgresStore, "_room", slow)
    parcels = [parcel(collection, [os.urandom(16) for _ in range(80)]) for _ in range(2)]
    parcels[1].epoch -= 1  # in one epoch, one of them would run again and see the reports of the other
    pairs = zip(stores, parcels, strict=False)
    assert at_once([lambda s=store, p=batch: s.append([p], NOW) for store, batch in pairs]) == []
    assert total(stores[0], collection) == 161


def test_no_report_is_taken_after_a_pause_has_been_answered(stores):
    collection = admin.create(stores[0], "menu", PLAN.dumps(), {}, NOW)
    going = threading.Event()
    after = []

    def send(store):
        while not going.is_set():
            store.append([parcel(collection, [os.urandom(16)])], NOW)
        late = parcel(collection, [os.urandom(16)])
        store.append([late], NOW)
        after.append(late.refused)

    def pause():
        admin.set_state(stores[2], "menu", "paused")
        before = total(stores[2], collection)
        going.set()
        counts.append(before)

    counts: list[int] = []
    assert at_once([lambda: send(stores[0]), lambda: send(stores[1]), pause]) == []
    assert after == [{0: "paused"}, {0: "paused"}]
    assert total(stores[2], collection) == counts[0]


def test_each_process_has_a_shard_of_its_own_and_leaves_it(stores, database):
    assert sorted(store.shard for store in stores) == [0, 1, 2]
    stores[1].close()
    again = store_at(database)
    again.open()
    assert again.shard == 1
    again.close()


def test_a_shard_that_was_lost_is_not_written_to(stores, database):
    """A process whose connection ends loses its shard with it, and comes back under a free one."""
    collection = admin.create(stores[0], "menu", PLAN.dumps(), {}, NOW)
    first = [os.urandom(16) for _ in range(5)]
    stores[1].append([parcel(collection, first)], NOW)
    pid = stores[1]._own.connection.info.backend_pid
    stores[0]._session().rows("select pg_terminate_backend(?)", (pid,))
    raised = at_once([lambda: stores[1].append([parcel(collection, first)], NOW)] * 1)
    assert [type(error) for error in raised] == [StoreUnready]
    stores[1].append([parcel(collection, [*first, os.urandom(16)])], NOW)
    assert total(stores[0], collection) == 6
    assert len({store.shard for store in stores}) == 3


def test_two_migrations_at_once_do_not_collide(postgres):
    address = postgres.database()
    stores = [store_at(address) for _ in range(2)]
    assert at_once([store.migrate_alone for store in stores]) == []
    for store in stores:
        store.close()
    store = store_at(address)
    store.open()
    store.close()


# -- round trips -----------------------------------------------------------------------------------


@pytest.fixture
def trips(monkeypatch):
    """Each time a session waits for the database, from now on."""
    calls, real = [], PostgresSession._timed

    def timed(self):
        calls.append(self)
        return real(self)

    monkeypatch.setattr(PostgresSession, "_timed", timed)
    return calls


def trips_of(trips, store, *parcels):
    trips.clear()
    store.append(parcels, NOW)
    return len(trips)


def test_a_group_of_reports_takes_three_round_trips(stores, trips):
    """Begin; log and head; counts, place in the log and commit."""
    store = stores[0]
    collection = admin.create(store, "menu", PLAN.dumps(), {}, NOW)
    ids = [os.urandom(16) for _ in range(40)]
    store.append([parcel(collection, ids[:10])], NOW)  # makes the key of the epoch
    store.append([parcel(collection, ids[10:20])], NOW)  # reads it
    assert trips_of(trips, store, parcel(collection, ids[20:21])) == 3
    assert trips_of(trips, store, *(parcel(collection, [name]) for name in ids[21:])) == 3
    again = trips_of(trips, store, parcel(collection, ids))
    assert again == 3, "begin; see that the log is the one that was read; end"
    assert total(store, collection) == 40


def test_a_cap_takes_no_round_trip_of_its_own(stores, trips):
    store = stores[0]
    collection = admin.create(store, "menu", PLAN.dumps(), {"people": 1000}, NOW)
    ids = [os.urandom(16) for _ in range(1100)]
    store.append([parcel(collection, ids[:10])], NOW)  # makes the key of the epoch, reserves a share
    store.append([parcel(collection, ids[10:20])], NOW)  # reads the key
    assert trips_of(trips, store, parcel(collection, ids[20:40])) == 3
    yesterday = parcel(collection, ids[40:60])
    yesterday.epoch -= 1
    store.append([parcel(collection, ids[60:90]), yesterday], NOW)  # twice of one share
    for first in range(90, 1100, 10):
        store.append([parcel(collection, ids[first : first + 10])], NOW)
    assert total(store, collection) == 1000


def test_what_fails_with_the_commit_leaves_nothing_behind(stores, monkeypatch):
    store = stores[0]
    collection = admin.create(store, "menu", PLAN.dumps(), {}, NOW)
    ids = [os.urandom(16) for _ in range(8)]
    store.append([parcel(collection, ids[:3])], NOW)
    real = PostgresSession.run_at_commit
    wrong = "insert into counts select 1, 1, 1, 1, 1, null"

    def failing(self, *statements):
        real(self, *statements, wrong)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresSession, "run_at_commit", failing)
        with pytest.raises(psycopg.errors.NotNullViolation):
            store.append([parcel(collection, ids)], NOW)
    with store.reading() as session:
        for table in ("segments", "log_order"):
            assert session.rows(f"select count(*) from {table}") == [(1,)]
    store.append([parcel(collection, ids)], NOW)
    assert total(store, collection) == 8
