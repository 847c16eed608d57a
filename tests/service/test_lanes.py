"""Lanes: a collector's transactions of reports in PostgreSQL that run at the same time."""

from __future__ import annotations

import asyncio
import io
import json
import os
import threading
import time
from contextlib import contextmanager

import numpy as np
import psycopg
import pytest
from desk import PLAN

from keyveil.service.collector.engine import admin
from keyveil.service.collector.engine.group_commit import TOGETHER
from keyveil.service.collector.engine.service import Service
from keyveil.service.collector.engine.writer_lanes import SLOW_SECONDS, WriterLanes
from keyveil.service.collector.process.clock import FleetClock, SystemClock
from keyveil.service.collector.process.problems import Problem
from keyveil.service.collector.process.settings import Settings
from keyveil.service.collector.store import Parcel, StoreUnready, store_at
from keyveil.service.collector.store.postgres import COLLECTIONS, PostgresStore
from keyveil.service.collector.store.postgres_ids import ORDER
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
        self.collection = self.create("menu")

    def create(self, name):
        """A new collection."""
        return self.call(lambda store: admin.create(store, name, PLAN.dumps(), {}, time.time()))

    def refresh(self):
        self.call(lambda store: store.refresh())

    def call(self, work):
        """Work on the store, in the thread that owns it."""

        async def ask():
            return await self.service.writer.call(work)

        return self.loop.run_until_complete(ask())

    def send(self, *parcels):
        """Send them all at once; what each raised, if anything."""

        async def work():
            tasks = [self.service.writer.submit(parcel) for parcel in parcels]
            return await asyncio.gather(*tasks, return_exceptions=True)

        return self.loop.run_until_complete(work())

    def later(self, parcel):
        """Send one and do not wait for it."""

        async def work():
            return self.service.writer.submit(parcel)

        return self.loop.run_until_complete(work())

    def events(self, *names):
        """The lines of these kinds in the log."""
        lines = [json.loads(line) for line in self.service.log._stream.getvalue().splitlines()]
        return [line for line in lines if line["event"] in names]

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
def log_held_elsewhere(address, collection):
    """Another transaction adds to a collection's log and does not end, so whoever adds to it waits."""
    with psycopg.connect(address) as other:
        other.execute("select pg_advisory_xact_lock(%s, %s)", (ORDER, collection.round.id))
        yield other
        other.rollback()


@pytest.mark.parametrize("lanes", [1, 2])
def test_reports_are_counted_while_another_lane_waits(database, tmp_path, lanes):
    """With one lane they wait: the test notices a collector without lanes."""
    limits = {"lanes": lanes, "lock_seconds": 30, "statement_seconds": 30}
    with running(database, tmp_path, **limits) as collector:
        beside = collector.create("other")
        assert collector.send(parcel(beside, [os.urandom(16)])) == [None]
        with log_held_elsewhere(database, collector.collection) as other:
            held = collector.later(parcel(collector.collection, [os.urandom(16)]))
            time.sleep(0.2)
            free = collector.later(parcel(beside, [os.urandom(16) for _ in range(5)]))
            collector.loop.run_until_complete(asyncio.wait([free], timeout=1 if lanes == 1 else 20))
            assert free.done() == (lanes == 2)
            assert not held.done()
            assert collector.service.writer.stalled > 0.1, "the waiting lane shows"
            other.rollback()
        collector.loop.run_until_complete(asyncio.wait([held, free], timeout=20))
        assert (held.exception(), free.exception()) == (None, None)
        assert collector.reports() == 1
        assert int(collector.store.counts_stored(beside.round)[PLAN.layout.own].sum()) == 6


def test_the_same_reports_in_all_lanes_count_once(database, tmp_path):
    """Groups of one request each, so that repeated ids meet in different lanes."""
    with running(database, tmp_path, lanes=3, group_reports=1) as collector:
        groups = [[os.urandom(16) for _ in range(20)] for _ in range(15)]
        rng = np.random.default_rng(5)
        parcels = [parcel(collector.collection, shuffled(group, rng)) for group in groups * 4]
        order = rng.permutation(len(parcels))
        assert set(collector.send(*[parcels[place] for place in order])) == {None}
        assert not any(parcel.refused for parcel in parcels)
        assert collector.reports() == 15 * 20
        with collector.store.reading() as session:
            shards = session.rows("select count(distinct shard) from heads where reports > 0")[0][0]
            logged = list(
                collector.store.segments(session, collector.collection.round, parcels[0].epoch)
            )
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
        parcels = [parcel(collector.collection, [os.urandom(16) for _ in range(7)]) for _ in range(30)]
        assert set(collector.send(*parcels)) == {None}
        assert collector.reports() == 100
        refused = [reason for parcel in parcels for reason in parcel.refused.values()]
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
        assert all(set(parcel.refused.values()) == {"paused"} for parcel in late)
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


# -- lanes that fail ---------------------------------------------------------------------------------


@contextmanager
def few_connections(postgres, address):
    """The address for a role of its own, and how many connections it may have."""
    role, schema = f"serve_{os.urandom(4).hex()}", address.rsplit("%3D", 1)[1]
    postgres.ask(f"create role {role} login connection limit 20")
    for kind in ("tables", "sequences"):
        postgres.ask(f"grant all on all {kind} in schema {schema} to {role}")
    postgres.ask(f"grant usage on schema {schema} to {role}")
    try:
        yield (
            address.replace("keyveil@", f"{role}@"),
            lambda most: postgres.ask(f"alter role {role} connection limit {most}"),
        )
    finally:
        postgres.ask(f"drop owned by {role}")
        postgres.ask(f"drop role {role}")


def ended(postgres, store):
    """End the connection of a lane."""
    postgres.ask(f"select pg_terminate_backend({store._own.connection.info.backend_pid})")


QUICK = {"lanes": 2, "group_reports": 1, "tick_seconds": 0.1, "probe_seconds": 0.3, "lock_seconds": 0.5}


def eventually(holds, seconds=20):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("lane", [0, 1])
def test_a_lane_that_cannot_connect_again_hands_its_groups_on(postgres, database, tmp_path, lane):
    """No report is refused, none counts twice, the collector stays ready, and the log has two lines."""
    with (
        few_connections(postgres, database) as (address, allow),
        running(address, tmp_path, **QUICK) as collector,
    ):
        writer = collector.service.writer
        assert set(collector.send(*[parcel(collector.collection, [os.urandom(16)])] * 10)) == {None}
        count = 1  # the same one ten times
        allow(1)
        ended(postgres, writer._lanes.stores[lane])
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            ids = [[os.urandom(16)] for _ in range(10)]
            assert collector.send(*[parcel(collector.collection, names) for names in ids]) == [None] * 10
            assert collector.service.unready() == []
            count += 10
        assert writer.lanes_out == 1
        assert collector.service._gauges()["lanes_unready"][1] == 1
        allow(20)
        eventually(lambda: writer.lanes_out == 0)
        assert collector.send(*[parcel(collector.collection, [os.urandom(16)]) for _ in range(10)]) == (
            [None] * 10
        )
        began, back = collector.events("lane_unready", "lane_ready", "store_unready", "store_ready")
        assert (began["event"], back["event"]) == ("lane_unready", "lane_ready")
        assert (began["lane"], began["began"], began["kind"]) == (lane, back["began"], back["kind"])
        assert collector.service.metrics.outages == 0
        assert sum(collector.service.metrics.store_errors.values()) > 0
        collector.refresh()
        assert collector.reports() == count + 10


def test_an_outage_of_all_lanes_is_two_lines(postgres, database, tmp_path):
    with (
        few_connections(postgres, database) as (address, allow),
        running(address, tmp_path, **QUICK) as collector,
    ):
        writer = collector.service.writer
        assert collector.send(parcel(collector.collection, [os.urandom(16)])) == [None]
        allow(0)
        for store in writer._lanes.stores:
            ended(postgres, store)
        refused = 0
        for _ in range(15):
            answers = collector.send(*[parcel(collector.collection, [os.urandom(16)]) for _ in range(5)])
            refused += sum(isinstance(answer, Problem) for answer in answers)
            time.sleep(0.1)
        assert refused == 75, "one lane keeps trying, and no group goes round"
        assert collector.service.unready() == ["the store cannot take reports"]
        allow(20)
        eventually(lambda: collector.service.unready() == [] and not writer.lanes_out)
        lines = collector.events("lane_unready", "lane_ready", "store_unready", "store_ready")
        assert [line["event"] for line in lines] == ["store_unready", "store_ready"]
        assert lines[1]["errors"] >= 15
        assert collector.service.metrics.outages == 1


def test_groups_that_a_lane_hands_on_are_finished_before_the_end(database, tmp_path, monkeypatch):
    with running(database, tmp_path, **QUICK) as collector:
        late = collector.service.writer._lanes.stores[1]

        def fail(*_):
            time.sleep(0.2)
            raise StoreUnready("too many connections", "connect")

        monkeypatch.setattr(late, "append", fail)
        futures = [collector.later(parcel(collector.collection, [os.urandom(16)])) for _ in range(20)]
        collector.loop.run_until_complete(collector.service.stop())
        collector.loop.run_until_complete(asyncio.gather(*futures))
        assert collector.service.writer.lanes_out == 1, "it has failed"
        assert collector.reports() == 20


# -- a collection whose lock is held ------------------------------------------------------------------


@pytest.mark.parametrize("what", ["collection", "log"])
@pytest.mark.parametrize("lanes", [1, 2])
def test_a_held_collection_holds_up_no_other(database, tmp_path, lanes, what):
    """Another transaction has it alone, as a change does whose process stands still; or its log."""
    limits = {**QUICK, "lanes": lanes, "group_reports": 10_000}
    with running(database, tmp_path, **limits) as collector:
        menu = collector.collection
        other = collector.create("other")
        waits = collector.service.metrics.lock_waits
        assert collector.send(*[parcel(c, [os.urandom(16)]) for c in (menu, other)]) == [None, None]
        slow = waits.buckets[8:].copy()
        with psycopg.connect(database) as holder:
            lock = (COLLECTIONS, menu.id) if what == "collection" else (ORDER, menu.round.id)
            holder.execute("select pg_advisory_xact_lock(%s, %s)", lock)
            deadline, taken, took = time.monotonic() + 3, 0, []
            while time.monotonic() < deadline:
                begun = time.monotonic()
                held, *free = collector.send(
                    *[parcel(c, [os.urandom(16)]) for c in (menu, other, other)]
                )
                took.append(time.monotonic() - begun)
                assert (held.reason, free) == ("storage", [None, None])
                assert collector.service.unready() == []
                taken += 2
            assert taken > 40
            assert max(took) < limits["lock_seconds"] * 1.5 + 0.5, "the first group waits for the lock"
            assert sorted(took)[len(took) // 2] < 0.3, "the others do not"
        assert collector.send(parcel(menu, [os.urandom(16)])) == [None]
        assert collector.send(parcel(menu, [os.urandom(16)])) == [None]
        lines = collector.events("collection_held", "collection_free", "store_unready", "lane_unready")
        assert [(line["event"], line["collection"]) for line in lines] == [
            ("collection_held", "menu"),
            ("collection_free", "menu"),
        ]
        assert sum(waits.buckets[8:]) > sum(slow), "a wait that ended in a timeout is counted"
        assert waits.bounds[7] < limits["lock_seconds"] * TOGETHER < waits.bounds[8]
        assert collector.service.metrics.store_errors["55P03"] > 1
        collector.refresh()
        with collector.store.reading() as session:
            assert collector.store.reports(session, menu.round) == 3
            assert collector.store.reports(session, other.round) == taken + 1


# -- the threads by themselves ----------------------------------------------------------------------


def test_a_change_waits_for_reports_of_several_collections_less_than_it_may(database, tmp_path):
    """They wait for the log of one and hold the locks of all, but not as long as a change waits."""
    limits = {**QUICK, "lock_seconds": 3, "group_reports": 10_000}
    with running(database, tmp_path, **limits) as collector:
        menu = collector.collection
        other = collector.create("other")
        changing = PostgresStore(database)
        changing.settings = Settings(**limits)
        changing.open()

        async def together():
            return [collector.service.writer.submit(parcel(c, [os.urandom(16)])) for c in (other, menu)]

        with log_held_elsewhere(database, menu):
            waiting = collector.loop.run_until_complete(together())
            with psycopg.connect(database, autocommit=True) as watcher:
                query = (
                    "select count(*) from pg_locks where locktype = 'advisory' and not granted "
                    "and classid = %s"
                )
                eventually(lambda: watcher.execute(query, [ORDER]).fetchone()[0])
            began = time.monotonic()
            admin.set_terms(changing, "other", {"rate": 9_000})
            assert time.monotonic() - began < 0.6 * limits["lock_seconds"]
            collector.loop.run_until_complete(asyncio.wait(waiting))
        assert waiting[0].exception() is None
        assert waiting[1].exception().reason == "storage"
        changing.close()


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
    calls = []
    lanes = WriterLanes(
        ["only"], lambda *given: calls.append((threading.get_ident(), *given)), SystemClock()
    )
    lanes.start()
    lanes.write("group")
    assert calls == [(threading.get_ident(), "only", "group")]
    with lanes.idle() as stores:
        assert stores == ("only",)
    lanes.stop()


def test_no_work_waits_for_a_slow_lane():
    """A call waits for a second at most; what a lane is asked to do waits in its own thread."""
    gate, done = threading.Event(), []
    lanes = WriterLanes(["first", "second"], lambda *_: gate.wait(20), SystemClock())
    lanes.start()
    lanes.ask(0, lambda _: time.sleep(0.2))
    lanes.write("slow")
    with lanes._changed:
        assert (lanes._given, lanes.all_busy_since is None) == ([1, 1], False)
    begun = time.monotonic()
    lanes.call(lambda store: done.append((store, time.monotonic() - begun)))
    lanes.ask(1, lambda store: done.append((store, "asked")))
    lanes.ask(1, lambda store: done.append((store, "asked again")))
    assert time.monotonic() - begun < SLOW_SECONDS + 1
    eventually(lambda: done)
    assert done[0][0] == "first"
    assert lanes.all_busy_since is None, "the first is free"
    assert lanes.busy_since is not None
    gate.set()
    lanes.stop()
    assert done[1:] == [("second", "asked")]


def test_the_last_lane_is_never_out():
    calls = []
    lanes = WriterLanes(["first", "second"], lambda *given: calls.append(given), SystemClock())
    lanes.start()
    assert lanes.fail("first")
    assert lanes.fail("first"), "the second still takes its groups"
    assert not lanes.fail("second")
    assert lanes.out == {0}
    for group in range(3):
        lanes.write(group)
    lanes.restore("first")
    assert lanes.fail("second")
    with lanes.idle():
        lanes.write(3)
    with lanes.idle():
        assert [store for store, _ in calls] == ["second"] * 3 + ["first"]
    lanes.stop()
