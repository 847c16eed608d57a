"""One address opens as many connections as it can, and is silent: everyone else is served."""

from __future__ import annotations

import dataclasses
import json
import socket
import time

import pytest
from desk import PLAN, Desk, fresh
from faults.kill import Server
from process import keyveil

from keyveil.service.collector.engine import admin
from keyveil.service.collector.http.server import Connections, network_of
from keyveil.service.collector.process.settings import Settings
from keyveil.service.collector.store import store_at

HELLO = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"


@dataclasses.dataclass(eq=False)
class Line:
    """A connection as the register sees it."""

    idle: bool = True
    ended: bool = False

    def give_up(self) -> None:
        self.ended = True


def test_an_address_has_its_own_bound():
    register = Connections(most=10, most_each=3)
    busy = [Line(idle=False) for _ in range(6)]
    assert [register.add(connection, "a") for connection in busy] == [True] * 3 + [False] * 3
    assert register.add(Line(), "b"), "another has room"
    register.remove(busy[0])
    register.remove(busy[0])
    register.remove(Line())
    assert register.add(silent := Line(), "a"), "one that ends makes room"
    assert register.add(Line(), "a"), "and so does one that waits for nothing"
    assert silent.ended
    assert len(register) == 4
    assert not any(connection.ended for connection in busy)


def test_whoever_has_the_most_makes_room():
    register = Connections(most=6, most_each=6)
    many = [Line(idle=number > 0) for number in range(4)]
    few = [Line(), Line()]
    assert all(register.add(connection, "many") for connection in many)
    assert all(register.add(connection, "few") for connection in few)
    assert register.add(Line(), "new")
    assert [connection.ended for connection in many] == [False, True, False, False], (
        "the oldest that waits for nothing"
    )
    assert not any(connection.ended for connection in few)
    assert len(register) == 6


def test_no_answer_is_cut_off_to_make_room():
    register = Connections(most=3, most_each=3)
    busy = [Line(idle=False) for _ in range(3)]
    assert all(register.add(connection, "a") for connection in busy)
    assert not register.add(Line(), "b")
    assert not any(connection.ended for connection in busy)


def test_a_network_of_ipv6_is_one_address():
    assert network_of(("2001:db8::1", 1, 0, 0)) == network_of(("2001:db8::ffff:2", 2, 0, 0))
    assert network_of(("2001:db8::1", 1, 0, 0)) != network_of(("2001:db8:0:1::1", 1, 0, 0))
    assert network_of(("::ffff:192.0.2.1", 1, 0, 0)) == network_of(("192.0.2.1", 1)) == "192.0.2.1"
    assert network_of(("fe80::1%eth0", 1, 0, 2)) == network_of(("fe80::2", 1, 0, 2))
    assert network_of(None) == network_of("") == ""


# -- a real process --------------------------------------------------------------------------------


@pytest.fixture
def serving(tmp_path):
    """Start a collector with some settings."""
    started = []

    def start(*settings: str) -> Server:
        address = str(tmp_path / "store.sqlite")
        store = store_at(address)
        store.open()
        admin.create(store, "menu", PLAN.dumps(), {}, 0.0)
        store.close()
        server = Server(address, tmp_path, *settings)
        server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.end()


def silent(server: Server, source: str, number: int) -> list[socket.socket]:
    """Connections from an address of this machine that say nothing."""
    return [
        socket.create_connection(("127.0.0.1", server.port), 20, source_address=(source, 0))
        for _ in range(number)
    ]


def is_open(connection: socket.socket) -> bool:
    connection.settimeout(0.05)
    try:
        return connection.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def number_open(connections: list[socket.socket], expected: int) -> int:
    """How many are open once the server has accepted all of them, which takes a while under load."""
    until = time.monotonic() + 10
    while sum(map(is_open, connections)) > expected and time.monotonic() < until:
        pass
    return sum(map(is_open, connections))


def is_served(server: Server, source: str) -> bool:
    (line,) = silent(server, source, 1)
    try:
        line.sendall(HELLO)
        return line.recv(100).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False
    finally:
        line.close()


def close(lines: list[socket.socket]) -> None:
    for line in lines:
        line.close()


def test_silence_from_one_address_keeps_nobody_out(serving):
    server = serving(
        "connections=40", "address_connections=12", "silent_seconds=60", "request_seconds=60"
    )
    held = silent(server, "127.0.0.2", 60)
    assert is_served(server, "127.0.0.3")
    assert number_open(held, 12) == 12
    assert is_served(server, "127.0.0.2"), "not even those who share its address"
    close(held)


def test_silence_from_many_addresses_keeps_nobody_out(serving):
    """More than there are places, with no more than its bound from each."""
    server = serving(
        "connections=24", "address_connections=12", "silent_seconds=60", "request_seconds=60"
    )
    held = [connection for host in range(2, 7) for connection in silent(server, f"127.0.0.{host}", 12)]
    assert number_open(held, 24) == 24
    assert [is_served(server, "127.0.0.9") for _ in range(3)] == [True] * 3
    close(held)


def test_a_proxy_may_have_all_connections(serving):
    """Where all come from one address by design, the bound is set to all of them."""
    server = serving("connections=40", "address_connections=40", "silent_seconds=60")
    held = silent(server, "127.0.0.2", 40)
    assert number_open(held, 40) == 40
    assert is_served(server, "127.0.0.2"), "one that waits for nothing makes room"
    close(held)


def test_who_says_nothing_is_let_go_before_who_is_slow(serving):
    server = serving("silent_seconds=0.3", "request_seconds=60", "idle_seconds=60")
    (nothing,), (slow,) = silent(server, "127.0.0.2", 1), silent(server, "127.0.0.2", 1)
    slow.sendall(HELLO[:20])
    nothing.settimeout(20)
    assert nothing.recv(1) == b""
    time.sleep(0.5)
    slow.sendall(HELLO[20:])
    slow.settimeout(20)
    assert slow.recv(100).startswith(b"HTTP/1.1 200 ")
    close([nothing, slow])


def test_the_bounds_can_be_set_at_the_terminal():
    text = keyveil("serve", "--help").stdout
    assert "--max-connections" in text
    assert "--max-per-address" in text
    assert Settings().address_connections < Settings().connections


# -- a full disk -----------------------------------------------------------------------------------


def test_a_full_disk_is_one_line_and_not_one_for_each_commit(file_desk: Desk):
    file_desk.create()
    assert file_desk.send(fresh(1)).status_code == 200
    pages = file_desk.store._session().rows("pragma page_count")[0][0]
    file_desk.store._session().run(f"pragma max_page_count = {pages}")
    many = fresh(3000)
    for _ in range(30):
        assert file_desk.send(many).json()["reason"] == "storage"
        file_desk.service.writer.tick()
    assert said(file_desk, "store_unready") == [None]
    file_desk.clock.advance(61)
    file_desk.send(many)
    assert said(file_desk, "store_unready") == [None], "one line for each outage"
    file_desk.store._session().run("pragma max_page_count = 1000000")
    assert file_desk.send(many).status_code == 200
    assert said(file_desk, "store_ready")
    assert len(file_desk.log.getvalue().splitlines()) < 10


def said(desk: Desk, event: str) -> list[int | None]:
    """How many were left out before each line of an event."""
    lines = [json.loads(text) for text in desk.log.getvalue().splitlines()]
    return [line.get("left_out") for line in lines if line["event"] == event]
