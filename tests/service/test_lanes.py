"""Lanes: a collector's transactions of reports in PostgreSQL that run at the same time."""

from __future__ import annotations

import asyncio
import io
import os
import threading
import time
from contextlib import contextmanager

import numpy as np
import psycopg
import pytest
from desk import PLAN

from keyveil.service.collector.engine import admin
from keyveil.service.collector.engine.service import Service
from keyveil.service.collector.engine.writer_lanes import WriterLanes
from keyveil.service.collector.process.clock import FleetClock, SystemClock
from keyveil.service.collector.process.settings import Settings
from keyveil.service.collector.store import Parcel, StoreUnready, store_at
from keyveil.service.collector.store.postgres import PostgresStore
from keyveil.service.collector.store.report_log import crc_of


def parcel(collection, ids):
    rows = (np.arange(len(ids)) % 9).astype(PLAN.layout.code_type).tobytes()
    return Parcel(collection.id, collection.round.id, int(time.time()) // 86_400, list(ids), rows)


def shuffled(names, rng):
    return [names[place] for place in rng.permutation(len(names))]


class Running:
    """A collector without HTTP on a database, with its threads."""

    def __init__(self, address, folder, **limits):
        self.store = store_at(address)
        self.store.settings = Settings(**limits)
        self.store.open()
        self.loop = asyncio.new_event_loop()
        log, clock = io.StringIO(), FleetClock()
        self.service = Service(self.store, folder / "segments", clock, self.store.settings, log)
        self.loop.run_until_complete(self.service.start(seal=False))
        self.collection = admin.create(self.store, "menu", PLAN.dumps(), {}, time.time())

    def send(self, *parcels):
        """Send them all at once; what each raised, if anything."""

        async def work():
            sent = [self.service.writer.submit(parcel) for parcel in parcels]
            return await asyncio.gather(*sent, return_exceptions=True)

        return self.loop.run_until_complete(work())

    def later(self, parcel):
        """Send one and do not wait for it."""

        async def work():
            return self.service.writer.submit(parcel)

        return self.loop.run_until_complete(work())

    def reports(self):
        return int(self.store.counts_stored(self.collection.round)[PLAN.layout.own].sum())

    def close(self):
        self.loop.run_until_complete(self.service.stop())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.store.close()


@contextmanager
def running(address, folder, **limits):
    collector = Running(address, folder, **limits)
    try:
        yield collector
    finally:
        collector.close()


@contextmanager
def claimed_elsewhere(address, collector, name):
    """Another transaction claims an id and does not end, so whoever claims it waits."""
    collector.send(parcel(collector.collection, [os.urandom(16)]))  # now the epoch has its key
    sent = parcel(collector.collection, [name])
    at = (sent.round, sent.epoch)
    with collector.store.reading() as session:
        images = collector.store._stored(session, collector.collection.round, sent.epoch, make=False)
    (image,) = images.of([name])
    with psycopg.connect(address) as other:
        other.execute("insert into ids (round, epoch, id) values (%s, %s, %s)", (*at, image.hex()))
        yield other
        other.rollback()


@pytest.mark.parametrize("lanes", [1, 2])
def test_reports_are_counted_while_another_lane_waits(database, tmp_path, lanes):
    """With one lane they wait: the test notices a collector without lanes."""
    limits = {"lanes": lanes, "lock_seconds": 30, "statement_seconds": 30}
    with running(database, tmp_path, **limits) as collector:
        name = os.urandom(16)
        with claimed_elsewhere(database, collector, name) as other:
            held = collector.later(parcel(collector.collection, [name]))
            time.sleep(0.2)
            free = collector.later(parcel(collector.collection, [os.urandom(16) for _ in range(5)]))
            collector.loop.run_until_complete(asyncio.wait([free], timeout=1 if lanes == 1 else 20))
            assert free.done() == (lanes == 2)
            assert not held.done()
            assert collector.service.writer.stalled > 0.1, "the waiting lane shows"
            other.rollback()
        collector.loop.run_until_complete(asyncio.wait([held, free], timeout=20))
        assert (held.exception(), free.exception()) == (None, None)
        assert collector.reports() == 7


def test_the_same_reports_in_all_lanes_count_once(database, tmp_path):
    """Groups of one request each, so that repeated ids meet in different lanes."""
    with running(database, tmp_path, lanes=3, group_reports=1) as collector:
        groups = [[os.urandom(16) for _ in range(20)] for _ in range(15)]
        rng = np.random.default_rng(5)
        sent = [parcel(collector.collection, shuffled(group, rng)) for group in groups * 4]
        order = rng.permutation(len(sent))
        assert set(collector.send(*[sent[place] for place in order])) == {None}
        assert not any(one.refused for one in sent)
        assert collector.reports() == 15 * 20
        with collector.store.reading() as session:
            shards = session.rows("select count(distinct shard) from heads where reports > 0")[0][0]
            logged = list(collector.store.segments(session, collector.collection.round, sent[0].epoch))
        assert shards > 1, "more than one lane took part"
        assert sum(segment.reports for segment in logged) == 300
        assert all(crc_of(segment.ids, segment.payload) == segment.crc for segment in logged)


def test_a_cap_is_exact_over_all_lanes(database, tmp_path):
    with running(database, tmp_path, lanes=3, group_reports=1) as collector:
        writer = collector.service.writer

        async def cap():
            terms = {"people": 100}
            return await writer.call(lambda store: admin.set_terms(store, "menu", terms))

        collector.loop.run_until_complete(cap())
        sent = [parcel(collector.collection, [os.urandom(16) for _ in range(7)]) for _ in range(30)]
        assert set(collector.send(*sent)) == {None}
        assert collector.reports() == 100
        refused = [reason for one in sent for reason in one.refused.values()]
        assert refused == ["full"] * (30 * 7 - 100)


def test_lanes_of_a_process_are_one_collector_and_leave_with_it(database, tmp_path):
    with running(database, tmp_path, lanes=2) as collector:
        with collector.store.reading() as session:
            assert session.rows("select count(*) from shards")[0][0] == 2
            assert collector.store.collectors(session) == 1
        assert collector.send(parcel(collector.collection, [os.urandom(16)])) == [None]
        session.close()
    with psycopg.connect(database) as connection:
        assert connection.execute("select count(*) from shards").fetchone() == (0,)


def test_a_change_waits_for_all_lanes_and_holds_in_all(database, tmp_path):
    """After a pause is acknowledged, no lane counts a report of the collection."""
    with running(database, tmp_path, lanes=2, group_reports=1) as collector:
        ids = [[os.urandom(16)] for _ in range(40)]
        early = [collector.later(parcel(collector.collection, names)) for names in ids[:20]]

        async def pause():
            return await collector.service.writer.call(
                lambda store: admin.set_state(store, "menu", "paused")
            )

        collector.loop.run_until_complete(pause())
        collector.loop.run_until_complete(asyncio.wait(early))
        counted = collector.reports()
        late = [parcel(collector.collection, names) for names in ids[20:]]
        assert set(collector.send(*late)) == {None}
        assert all(set(one.refused.values()) == {"paused"} for one in late)
        assert collector.reports() == counted == 20


def test_all_leases_are_renewed_and_lost_lanes_come_back(database, tmp_path):
    with running(database, tmp_path, lanes=2, probe_seconds=0.1, tick_seconds=0.1) as collector:
        ends = "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
        before = "select min(seen) from shards"
        with psycopg.connect(database, autocommit=True) as other:
            first = other.execute(before).fetchone()[0]
            time.sleep(1)
            assert other.execute(before).fetchone()[0] > first + 0.5
            other.execute(f"{ends} and datname = current_database()")
            deadline = time.monotonic() + 20
            while collector.send(parcel(collector.collection, [os.urandom(16)])) != [None]:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            time.sleep(1)
            assert other.execute("select count(*) from shards where seen > %s", (first,)).fetchone() == (
                2,
            )
        assert collector.service.unready() == []


def test_a_collector_that_gets_no_second_connection_has_one_lane(database, monkeypatch):
    store = store_at(database)
    store.open()
    opened = PostgresStore.open

    def refuse(self, serving=True):
        raise StoreUnready("too many connections", "53300")

    monkeypatch.setattr(PostgresStore, "open", refuse)
    assert list(store.lanes()) == []
    monkeypatch.setattr(PostgresStore, "open", opened)
    assert len(store.lanes()) == 1
    assert store.lanes() == store.lanes(), "they are opened once"
    store.close()


# -- the threads by themselves ----------------------------------------------------------------------


def test_groups_go_to_free_lanes_and_all_else_waits():
    inside, most, done, gate = [], [], [], threading.Semaphore(0)

    def write(store, group):
        inside.append(group)
        most.append(len(inside))
        gate.acquire()
        inside.remove(group)
        done.append((store, group))

    lanes = WriterLanes(["first", "second"], write, SystemClock())
    lanes.start()
    for group in range(2):
        lanes.write(group)
    third = threading.Thread(target=lanes.write, args=(2,))
    third.start()
    third.join(0.2)
    assert third.is_alive(), "both are busy"
    assert lanes.busy_since is not None
    gate.release(3)
    third.join(20)
    with lanes.idle() as stores:
        assert stores == ("first", "second")
        assert (sorted(group for _, group in done), max(most), inside) == ([0, 1, 2], 2, [])
        assert lanes.busy_since is None
    assert {store for store, _ in done} == {"first", "second"}
    lanes.stop()


def test_a_single_lane_writes_in_the_thread_that_asks():
    asked = []
    lanes = WriterLanes(
        ["only"], lambda *given: asked.append((threading.get_ident(), *given)), SystemClock()
    )
    lanes.start()
    lanes.write("group")
    assert asked == [(threading.get_ident(), "only", "group")]
    with lanes.idle() as stores:
        assert stores == ("only",)
    lanes.stop()
