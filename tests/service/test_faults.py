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

import httpx
import pytest
from faults.fleet import QUICK, Fleet, Wire, pooler, prepared, until
from faults.kill import Server

from keyveil.service.collector.store import store_at

TOLD, BACK = 10, 15
"""Seconds within which a fault is told, and within which reports flow after its end."""


@pytest.fixture
def fleets():
    """Makes fleets, and leaves none of their processes behind."""
    made = []

    def make(*given):
        made.append(Fleet(*given))
        return made[-1]

    yield make
    for fleet in made:
        for server in fleet.servers:
            if server.wait(0) is None:
                os.kill(server.pid, signal.SIGKILL)
                server.wait(10)


def faulty(fleet, begin, end, why, kind):
    """Let a fault come and go while clients send."""
    fleet.load()
    until(lambda: all(len(client.known.counted) > 20 for client in fleet.clients), 20)
    begin()
    for number in (0, 1):
        until(lambda n=number: set(fleet.unready(n)) & why, TOLD)
        until(lambda n=number: fleet.metric(n, "ready") == 0, TOLD)
        until(lambda n=number: fleet.metric(n, f'store_errors_total{{kind="{kind}"}}') > 0, TOLD)
        assert fleet.get(number, "/health").status_code == 200, "a restart would not help"
    status, body = fleet.send(0)
    assert (status, body["reason"], body["retry"]) == (503, "storage", True)
    end()
    until(fleet.flows, BACK)
    for number in (0, 1):
        until(lambda n=number: fleet.unready(n) == [], BACK)
        (began,) = fleet.events(number, "store_unready")
        (ended,) = fleet.events(number, "store_ready")
        assert began["kind"] == ended["kind"]
        assert ended["began"] == began["began"] < ended["ended"]
        assert ended["process"] == fleet.servers[number].pid
        assert fleet.metric(number, "outages_total") == 1
    fleet.end()


def test_a_database_that_is_read_only_for_a_while(database, postgres, fleets, tmp_path):
    prepared(database)
    fleet = fleets(database, tmp_path)
    try:
        faulty(
            fleet,
            lambda: postgres.set_read_only(True),
            lambda: postgres.set_read_only(False),
            {"the store cannot take reports"},
            "25006",
        )
    finally:
        postgres.set_read_only(False)


def test_a_database_that_fails_over(database, postgres, fleets, tmp_path):
    prepared(database)
    fleet = fleets(database, tmp_path)
    try:
        faulty(fleet, postgres.down, postgres.up, {"the store cannot take reports"}, "connect")
    finally:
        postgres.up()


def test_a_database_that_hangs(database, fleets, tmp_path):
    prepared(database)
    wire = Wire(database)
    fleet = fleets(wire.address, tmp_path)
    why = {"the store does not answer", "the store cannot take reports"}
    faulty(fleet, wire.held.set, wire.held.clear, why, "lost")
    wire.close()


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


def test_a_frozen_collector_holds_up_nobody(database, fleets, tmp_path):
    """It stands still within a transaction, and another changes a collection meanwhile."""
    prepared(database)
    fleet = fleets(database, tmp_path, (("trap=trap",), ()))
    assert fleet.flows()
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
    slowest = 0.0
    while time.monotonic() - frozen < 4:
        begun = time.monotonic()
        assert fleet.send(1)[0] in (200, 503)
        slowest = max(slowest, time.monotonic() - begun)
    assert slowest < 3, "lock_seconds, and a little for a busy machine"
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
    assert not set(fleet.events(0, "store_broken"))
    fleet.end()


def test_a_collector_whose_clock_is_wrong_does_not_start(database, fleets, tmp_path):
    prepared(database)
    fleet = fleets(database, tmp_path)
    ahead = tmp_path / "ahead"
    ahead.write_text(str(3 * 86_400))
    wrong = Server(database, tmp_path, *QUICK, f"ahead={ahead}", "seal_seconds=0.05")
    wrong.begin()
    assert wrong.wait(30) not in (None, 0)
    assert "259200 seconds ahead of the database's" in wrong.log
    assert fleet.flows()
    time.sleep(1)
    assert fleet.flows()
    fleet.end()


def test_a_clock_that_becomes_wrong_closes_nothing(database, fleets, tmp_path):
    prepared(database)
    ahead = tmp_path / "ahead"
    ahead.write_text("0")
    fleet = fleets(database, tmp_path, ((f"ahead={ahead}",), ()))
    assert fleet.flows()
    ahead.write_text(str(3 * 86_400))
    until(lambda: fleet.unready(0) == ["the clock is in doubt"], TOLD)
    assert fleet.metric(0, "clock_offset_seconds") == pytest.approx(3 * 86_400, abs=5)
    assert fleet.unready(1) == []
    time.sleep(0.5)
    assert fleet.flows(), "the database's clock decides"
    ahead.write_text("0")
    until(lambda: fleet.unready(0) == [], BACK)
    assert [event["event"] for event in fleet.events(0, "epoch_closed")] == []
    fleet.end()


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
        until(lambda: all(len(client.known.counted) > 200 for client in fleet.clients), 30)
        assert fleet.metric(0, "collectors") == 2
        assert fleet.metric(1, "store_errors_total") == 0
        fleet.end()
    locks = f"select count(*) from pg_locks join pg_database on oid = database where datname = '{name}'"
    assert postgres.ask(f"{locks} and locktype = 'advisory'") == [(0,)]


def test_a_database_that_needs_a_person_ends_the_process(database, postgres, fleets, tmp_path):
    prepared(database)
    fleet = fleets(database, tmp_path)
    assert fleet.flows()
    schema = database.rsplit("%3D", 1)[1]
    postgres.ask(f"alter table {schema}.segments rename to hidden")
    assert fleet.send(0)[0] in (0, 503)
    assert fleet.servers[0].wait(TOLD) == 1, "a supervisor starts it again"
    (line,) = fleet.events(0, "store_broken")
    assert (line["kind"], line["level"]) == ("42P01", "error")
    postgres.ask(f"alter table {schema}.hidden rename to segments")
    fleet.servers[0].start()
    until(fleet.flows, BACK)
    fleet.end()


def test_the_cap_is_exact_over_two_collectors(database, fleets, tmp_path):
    prepared(database, people=2000)
    fleet = fleets(database, tmp_path)
    fleet.load()
    until(lambda: all(client.wrong for client in fleet.clients), 60)
    assert {text for client in fleet.clients for text in client.wrong} <= {"full"} | {
        text for client in fleet.clients for text in client.wrong if text.startswith("in part")
    }
    for client in fleet.clients:
        client.going = False
        client.join(60)
    store = store_at(database)
    store.open(serving=False)
    with store.reading() as session:
        assert store.reports(session, store.control.named("menu").round) == 2000
    store.close()
    assert sum(fleet.metric(number, "refused_total") for number in (0, 1)) > 0
    assert [server.end() for server in fleet.servers] == [0, 0]
