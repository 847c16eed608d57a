"""Faults of a fleet: two collectors on one PostgreSQL.

Each is told by readiness and metrics within ten seconds; reports flow again within fifteen seconds of
its end, without a restart, or the process ends; and every acknowledged report counts exactly once.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from desk import Postgres, postgres_binaries
from faults import LONG
from faults.fleet import QUICK, Fleet, Wire, pooler, prepared, until
from faults.kill import Server

from keyveil.service.collector.store import store_at
from keyveil.service.collector.store.postgres import PostgresStore

TOLD, BACK = 10, 15
"""Seconds within which a fault is told, and within which reports flow after its end."""


ROUNDS = 5 if LONG else 1
"""How often a fault comes and goes."""


@pytest.fixture
def fleets():
    """Makes fleets, and leaves none of their processes behind."""
    fleets = []

    def make(*given):
        fleets.append(Fleet(*given))
        return fleets[-1]

    yield make
    for fleet in fleets:
        fleet.kill()


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """What the tests of this module share: a fleet, once there is one, in a folder of its own."""
    shared = SimpleNamespace(folder=tmp_path_factory.mktemp("fleet"), fleet=None)
    yield shared
    if shared.fleet is not None:
        shared.fleet.end()
        shared.fleet.wire.close()


def set_ahead(file: Path, seconds: int) -> None:
    """Set the clock of a collector; a file that is written in place is empty for a moment."""
    part = file.with_suffix(".part")
    part.write_text(str(seconds))
    part.replace(file)


@pytest.fixture
def fleet(standing, postgres, monkeypatch):
    """A fleet that is used again unless a test fails with it. A wire lies before its database.

    The first collector can have a wrong clock (write to ``ahead``) and stops at a report to ``trap``.
    """
    monkeypatch.setattr(PostgresStore, "segments_folder", standing.folder / "segments")
    if standing.fleet is None:
        address = postgres.database()
        store = store_at(address)
        store.migrate_alone()
        store.close()
        prepared(address)
        wire, ahead = Wire(address), standing.folder / "ahead"
        set_ahead(ahead, 0)
        fleet = Fleet(wire.address, standing.folder, ((f"ahead={ahead}", "trap=trap"), ()))
        fleet.wire, fleet.ahead, fleet.database = wire, ahead, address
    else:
        fleet = standing.fleet
    standing.fleet = None
    try:
        yield fleet
        fleet.settle()
        standing.fleet = fleet
    finally:
        if standing.fleet is None:
            fleet.kill()
            fleet.wire.close()


def faulty(fleet, begin, end, why, *kinds):
    """Let a fault come and go while clients send."""
    for _ in range(ROUNDS):
        come_and_go(fleet, begin, end, why, *kinds)
        fleet.settle()


def errors_of(fleet, number, kinds):
    """How many errors of these kinds a collector has counted."""
    return sum(fleet.metric(number, f'store_errors_total{{kind="{kind}"}}') for kind in kinds)


def come_and_go(fleet, begin, end, why, *kinds):
    """``kinds`` are the errors that the fault may be met as, whichever comes first."""
    before = [errors_of(fleet, number, kinds) for number in (0, 1)]
    outages = [fleet.metric(number, "outages_total") for number in (0, 1)]
    logged = [[len(fleet.events(n, f"store_{name}")) for name in ("unready", "ready")] for n in (0, 1)]
    fleet.load()
    until(lambda: all(len(client.known.counted) > 20 for client in fleet.clients), 20)
    begin()
    for number in (0, 1):
        until(lambda n=number: set(fleet.unready(n)) & why, TOLD)
        until(lambda n=number: fleet.metric(n, "ready") == 0, TOLD)
        until(lambda n=number: errors_of(fleet, n, kinds) > before[n], TOLD)
        assert fleet.get(number, "/health").status_code == 200, "a restart would not help"
    status, body = fleet.send(0)
    assert (status, body["reason"], body["retry"]) == (503, "storage", True)
    assert int(fleet.retry_after) > 0
    end()
    until(fleet.flows, BACK)
    for number in (0, 1):
        until(lambda n=number: fleet.unready(n) == [], BACK)
        (began,) = fleet.events(number, "store_unready")[logged[number][0] :]
        (ended,) = fleet.events(number, "store_ready")[logged[number][1] :]
        assert began["kind"] == ended["kind"]
        assert ended["began"] == began["began"] < ended["ended"]
        assert ended["process"] == fleet.servers[number].pid
        assert fleet.metric(number, "outages_total") == outages[number] + 1


def test_a_database_that_is_read_only_for_a_while(postgres, fleet):
    why = {"the store cannot take reports"}
    try:
        faulty(
            fleet,
            lambda: postgres.set_read_only(True),
            lambda: postgres.set_read_only(False),
            why,
            "25006",
        )
    finally:
        postgres.set_read_only(False)


def test_a_database_that_fails_over(postgres, fleet):
    try:
        faulty(fleet, postgres.down, postgres.up, {"the store cannot take reports"}, "connect")
    finally:
        postgres.up()


def test_a_standby_that_takes_over(fleets, tmp_path, monkeypatch):
    """Replication is synchronous, so what was acknowledged is there; until then it can only be read."""
    monkeypatch.setattr(PostgresStore, "segments_folder", tmp_path / "segments")
    binaries = postgres_binaries()
    servers = [Postgres(binaries)]
    try:
        store = store_at(servers[0].database())
        store.migrate_alone()
        store.close()
        prepared(store._address)
        servers.append(Postgres(binaries, servers[0]))
        primary, standby = servers
        primary.ask("alter system set synchronous_standby_names = '*'")
        primary.ask("select pg_reload_conf()")
        until(lambda: primary.ask("select sync_state from pg_stat_replication") == [("sync",)], 20)
        wire = Wire(store._address)
        fleet = fleets(wire.address, tmp_path)
        fleet.load()
        until(lambda: all(len(client.known.counted) > 20 for client in fleet.clients), 20)
        primary.down()
        wire.lead_to(str(standby.folder))
        for number in (0, 1):
            until(lambda n=number: fleet.metric(n, 'store_errors_total{kind="25006"}') > 0, TOLD)
            until(lambda n=number: fleet.metric(n, "ready") == 0, TOLD)
        standby.promote()
        until(fleet.flows, BACK)
        fleet.end()
        wire.close()
    finally:
        for server in servers:
            server.stop()


def test_a_database_that_hangs(fleet):
    why = {"the store does not answer", "the store cannot take reports"}
    # a statement is cut; or a connection is not made, if one for reading was being opened
    faulty(fleet, fleet.wire.held.set, fleet.wire.held.clear, why, "lost", "connect")


def test_a_hung_database_does_not_keep_a_process_from_ending(database, fleets, tmp_path):
    prepared(database)
    wire = Wire(database)
    fleet = fleets(wire.address, tmp_path)
    assert fleet.flows()
    wire.held.set()
    waiting = threading.Thread(target=fleet.send, args=(0,))
    waiting.start()
    time.sleep(0.5)
    begun = time.monotonic()
    for server in fleet.servers:
        os.kill(server.pid, signal.SIGTERM)
    for server in fleet.servers:
        assert server.wait(20) is not None
    assert time.monotonic() - begun < 4 + 2, "shutdown_seconds, and a little for a busy machine"
    waiting.join(30)
    wire.held.clear()
    wire.close()
    fleet.address = database
    fleet.check()


def test_a_frozen_collector_holds_up_nobody(fleet):
    """It stands still within a transaction, and another changes a collection meanwhile."""
    assert fleet.flows()
    broken = fleet.events(0, "store_broken")
    caught = threading.Thread(target=fleet.send, args=(0, "trap"))
    caught.start()
    state = Path(f"/proc/{fleet.servers[0].pid}/stat")
    until(lambda: state.read_text().rsplit(")", 1)[1].split()[0] == "T", 10)
    frozen = time.monotonic()
    url = f"http://127.0.0.1:{fleet.servers[1].port}/v1/collections"
    answers = {}

    def change(name):
        answers[name] = httpx.patch(f"{url}/{name}", json={"rate": 10_000}, timeout=30).status_code

    changes = [threading.Thread(target=change, args=(name,)) for name in ("menu", "trap")]
    for waiting in changes:
        waiting.start()
    replies = {"menu": [], "trap": []}

    def send(name):
        while time.monotonic() - frozen < 4:
            begun = time.monotonic()
            replies[name].append((fleet.send(1, name)[0], time.monotonic() - begun))

    senders = [threading.Thread(target=send, args=(name,)) for name in ("menu", "menu", "menu", "trap")]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join(30)
    assert {status for status, _ in replies["menu"]} == {200}, "no report of the other collection"
    assert max(took for _, took in replies["menu"]) < 3, "lock_seconds, and a little for a busy machine"
    assert 503 in {status for status, _ in replies["trap"]}, "the change waits, and reports behind it"
    assert fleet.unready(1) == []
    assert fleet.unready(0) == ["no answer"]
    # the database ends the frozen transaction: the other collection can be changed, and takes reports
    until(lambda: httpx.patch(f"{url}/trap", json={"rate": 9_000}, timeout=30).status_code == 200, 10)
    assert fleet.send(1, "trap")[0] == 200
    for waiting in changes:
        waiting.join(30)
    assert answers == {"menu": 200, "trap": 503}
    assert fleet.metric(1, 'store_errors_total{kind="55P03"}') > 0
    os.kill(fleet.servers[0].pid, signal.SIGCONT)
    until(fleet.flows, BACK)
    caught.join(30)
    assert fleet.events(0, "store_broken") == broken


def test_a_collector_whose_clock_is_wrong_does_not_start(fleet, tmp_path):
    ahead = tmp_path / "ahead"
    set_ahead(ahead, 3 * 86_400)
    wrong = Server(fleet.database, fleet.folder, *QUICK, f"ahead={ahead}", "seal_seconds=0.05")
    wrong.begin()
    assert wrong.wait(30) not in (None, 0)
    assert "259200 seconds ahead of the database's" in wrong.log
    assert fleet.flows()
    time.sleep(1)
    assert fleet.flows()


def test_a_clock_that_becomes_wrong_closes_nothing(fleet):
    assert fleet.flows()
    set_ahead(fleet.ahead, 3 * 86_400)
    until(lambda: fleet.unready(0) == ["the clock is in doubt"], TOLD)
    assert fleet.metric(0, "clock_offset_seconds") == pytest.approx(3 * 86_400, abs=5)
    assert fleet.unready(1) == []
    time.sleep(0.5)
    assert fleet.flows(), "the database's clock decides"
    set_ahead(fleet.ahead, 0)
    until(lambda: fleet.unready(0) == [], BACK)
    assert [event["event"] for event in fleet.events(0, "epoch_closed")] == []


def test_two_collectors_through_a_pooler(postgres, fleets, tmp_path):
    """PgBouncer in transaction mode, with fewer sessions than there are connections."""
    name = f"pooled_{time.monotonic_ns()}"
    postgres.ask(f"create database {name}")
    with pooler(postgres.folder, name) as address:
        store = store_at(address)
        store.migrate_alone()
        store.close()
        prepared(address)
        fleet = fleets(address, tmp_path)
        fleet.load()
        until(
            lambda: all(len(client.known.counted) > 200 * ROUNDS for client in fleet.clients),
            30 * ROUNDS,
        )
        assert fleet.metric(0, "collectors") == 2
        assert fleet.metric(1, "store_errors_total") == 0
        fleet.end()
    locks = f"select count(*) from pg_locks join pg_database on oid = database where datname = '{name}'"
    assert postgres.ask(f"{locks} and locktype = 'advisory'") == [(0,)]


def test_a_database_that_needs_a_person_ends_the_process(postgres, fleet):
    assert fleet.flows()
    schema = fleet.database.rsplit("%3D", 1)[1]
    postgres.ask(f"alter table {schema}.segments rename to hidden")
    try:
        assert fleet.send(0)[0] in (0, 503)
        assert fleet.servers[0].wait(TOLD) == 1, "a supervisor starts it again"
    finally:
        postgres.ask(f"alter table {schema}.hidden rename to segments")
    (line,) = fleet.events(0, "store_broken")
    assert (line["kind"], line["level"]) == ("42P01", "error")
    fleet.servers[0].start()
    until(fleet.flows, BACK)


def test_the_cap_is_exact_over_two_collectors(database, fleets, tmp_path):
    cap = 2000 * ROUNDS
    prepared(database, people=cap)
    fleet = fleets(database, tmp_path)
    fleet.load()
    until(lambda: all(client.wrong for client in fleet.clients), 60 * ROUNDS)
    assert {text for client in fleet.clients for text in client.wrong} <= {"full"} | {
        text for client in fleet.clients for text in client.wrong if text.startswith("in part")
    }
    for client in fleet.clients:
        client.going = False
        client.join(60)
    store = store_at(database)
    store.open(serving=False)
    with store.reading() as session:
        assert store.reports(session, store.control.named("menu").round) == cap
    store.close()
    assert sum(fleet.metric(number, "refused_total") for number in (0, 1)) > 0
    assert [server.end() for server in fleet.servers] == [0, 0]
