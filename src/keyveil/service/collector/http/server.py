"""The server: uvicorn over an application, with bounds on slow clients, ended gracefully."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address, ip_address
from types import FrameType
from typing import Any, Protocol

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ....foundation.errors import KeyveilError
from ..process.logs import Log, Seldom
from .web import Host


class ServerLog(logging.Handler):
    """The server's own warnings as events: the words of the message, never what fills them in."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._log, self._said = log, Seldom(clock)

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        what = str(record.msg)[:200], kind
        times = self._said.times(what)  # anyone can bring a warning about
        if times is not None:
            self._log.say("server", text=what[0], error=kind, **({"left_out": times} if times else {}))


class ServeError(KeyveilError):
    """Nothing can be served like this."""


_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)


GRACE = 2.0
"""Seconds in which it can be said that a body was too slow."""
SPARE_FILES = 256
"""Open files that connections leave to the store and to everything else."""
MOST_PIPELINED = 64
"""Requests that one connection may send ahead of their answers."""


class Connection(Protocol):
    """What is asked of a connection when there are too many."""

    @property
    def idle(self) -> bool:
        """Whether nothing is being answered."""

    def give_up(self) -> None:
        """End it."""


class Connections:
    """All open connections by where they come from, so that nobody can hold the place of everyone.

    A new connection takes the place of one that waits for no answer: of its own address, if that has
    all that it may have; of the address that has the most, if all places are taken.
    """

    def __init__(self, most: int, most_each: int) -> None:
        self._most, self._most_each = most, most_each
        self._places: dict[Connection, str] = {}
        self._by_address: dict[str, dict[Connection, None]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def add(self, connection: Connection, address: str) -> bool:
        """Take a connection in, if there is room for it or can be made."""
        mine = self._by_address.get(address, {})
        if len(mine) >= self._most_each:
            if not self._make_room(mine):
                return False
        elif len(self) >= self._most and not self._make_room(max(self._by_address.values(), key=len)):
            return False
        self._places[connection] = address
        self._by_address.setdefault(address, {})[connection] = None
        return True

    def remove(self, connection: Connection) -> None:
        """A connection has ended."""
        address = self._places.pop(connection, None)
        if address is not None:
            mine = self._by_address[address]
            del mine[connection]
            if not mine:
                del self._by_address[address]

    def _make_room(self, among: dict[Connection, None]) -> bool:
        for connection in among:  # the oldest first
            if connection.idle:
                self.remove(connection)
                connection.give_up()
                return True
        return False


def network_of(peer: object) -> str:
    """Whose connection it is: an IPv4 address, or the network of an IPv6 address."""
    host = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(int(address) >> 64)
    return host


class HttpConnection(HttpToolsProtocol):
    """One connection. A head that does not arrive whole in time ends it, and so does silence, and
    so do a head without end and requests without end that wait for no answer. A body has its own time,
    and a little more: whoever reads it says that it was too slow, before the connection ends.

    The server itself only bounds the silence between two requests.
    """

    seconds = 20.0
    silent_seconds = 5.0
    send_seconds = 30.0
    head_bytes = 1 << 16
    open: Connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None
        self._head = 0
        self._silent = True
        if not self.open.add(self, network_of(transport.get_extra_info("peername"))):
            transport.abort()
            return
        self._watch(min(self.silent_seconds, self.seconds) - self.seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        self._taken()
        self.open.remove(self)
        super().connection_lost(exc)

    @property
    def idle(self) -> bool:
        """Whether nothing is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def give_up(self) -> None:
        """End the connection for another's sake."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._silent:
            self._silent = False
            self._unwatch()
            self._watch()
        self._head += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        idle = self.idle
        if len(self.pipeline) > MOST_PIPELINED:
            self.transport.abort()  # the server reads on while they wait, and would keep them all
        elif self._head > self.head_bytes:
            if idle:
                self.transport.write(_HEAD_TOO_LARGE)
                self.transport.close()
            else:
                self.transport.abort()
        elif idle and self._deadline is None:
            self._watch()  # empty lines between two requests begin none, and must not hold it

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._deadline is None:
            self._watch()

    def on_headers_complete(self) -> None:
        self._head = 0
        self._unwatch()
        self._watch(GRACE)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head = 0
        super().on_message_complete()
        self._unwatch()

    def pause_writing(self) -> None:
        super().pause_writing()  # the client does not take what is sent
        self._taken()
        self._taking = self.loop.call_later(self.send_seconds, self._expire)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._taken()

    def _taken(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _watch(self, more: float = 0.0) -> None:
        self._deadline = self.loop.call_later(self.seconds + more, self._expire)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        self._deadline = self._taking = None
        self.transport.abort()


class Server(uvicorn.Server):
    """Tells whoever is behind it at once when the process is told to end, so that streams finish."""

    def __init__(self, config: uvicorn.Config, host: Host) -> None:
        super().__init__(config)
        self._host = host

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._host.draining.set()
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End by returning, not by the signal: the store is closed, and the exit code is ours."""
        before = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def listening(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(2048)
    except (OSError, OverflowError) as error:
        listener.close()
        if isinstance(error, OverflowError):
            raise ServeError("a port is a whole number from 0 to 65535") from None
        raise ServeError(f"cannot listen at {host}, port {port}: {error.strerror}") from None
    listener.setblocking(False)
    return listener


def address_of(listener: socket.socket) -> str:
    """The address of a listening socket as people write it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def room_for(connections: int, log: Log) -> int:
    """How many connections the system lets be open, after the process's limit was raised for them."""
    need = connections + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    if soft == endless or soft >= need:
        return connections
    with suppress(OSError, ValueError):  # some systems have a lower limit than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (need if hard == endless else min(need, hard), hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == endless or soft >= need:
        return connections
    fewer = max(soft - SPARE_FILES, soft // 4, 1)
    log.say("few_files", open_files=soft, connections=fewer, asked=connections)
    return fewer


def run(host: Host, application: Any, listener: socket.socket) -> None:
    """Serve an application at a socket until told to end."""
    bounds = host.settings
    limits = {
        "seconds": bounds.request_seconds,
        "silent_seconds": bounds.silent_seconds,
        "send_seconds": bounds.send_seconds,
        "head_bytes": bounds.head_bytes,
        "open": Connections(room_for(bounds.connections, host.log), bounds.address_connections),
    }
    config = uvicorn.Config(
        application,
        http=type("BoundConnection", (HttpConnection,), limits),
        loop="uvloop",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=max(1, int(bounds.idle_seconds)),
        timeout_graceful_shutdown=max(1, int(bounds.shutdown_seconds)),
    )
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [ServerLog(host.log)], False
    Server(config, host).run([listener])
