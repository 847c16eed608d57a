"""The server: uvicorn with limits on slow clients and a graceful end."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address, ip_address
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ....foundation.errors import KeyveilError
from ..process.logs import Log, Seldom
from .web import Host


class ServerLog(logging.Handler):
    """Logs uvicorn's warnings: the message template, never the values that fill it."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._log, self._said = log, Seldom(clock)

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        what = str(record.msg)[:200], kind
        times = self._said.times(what)  # anyone can cause a warning
        if times is not None:
            more = {"left_out": times} if times else {}
            self._log.say("server", "warning", text=what[0], error=kind, **more)


class ServeError(KeyveilError):
    """The collector cannot listen as requested."""


_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)


GRACE = 2.0
"""Seconds after a body's time limit in which the refusal can be sent."""
SPARE_FILES = 256
"""Number of open files that connections leave to the store and everything else."""
MOST_PIPELINED = 64
"""Maximum number of requests that one connection may send ahead of their answers."""


class Connections:
    """All open connections by address, so that one address cannot take all places.

    A new connection replaces one that waits for no answer: one of its own address if that address is at
    its limit, otherwise one of the address with the most connections.
    """

    def __init__(self, most: int, most_each: int) -> None:
        self._most, self._most_each = most, most_each
        self._places: dict[HttpConnection, str] = {}
        self._by_address: dict[str, dict[HttpConnection, None]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def add(self, connection: HttpConnection, address: str) -> bool:
        """Add a connection, if there is room or room can be made."""
        mine = self._by_address.get(address, {})
        if len(mine) >= self._most_each:
            if not self._make_room(mine):
                return False
        elif len(self) >= self._most and not self._make_room(max(self._by_address.values(), key=len)):
            return False
        self._places[connection] = address
        self._by_address.setdefault(address, {})[connection] = None
        return True

    def remove(self, connection: HttpConnection) -> None:
        """Remove a connection that has ended."""
        address = self._places.pop(connection, None)
        if address is not None:
            mine = self._by_address[address]
            del mine[connection]
            if not mine:
                del self._by_address[address]

    def _make_room(self, among: dict[HttpConnection, None]) -> bool:
        for connection in among:  # the oldest first
            if connection.idle:
                self.remove(connection)
                connection.give_up()
                return True
        return False


def network_of(peer: object) -> str:
    """The address whose limit applies: an IPv4 address, or the /64 network of an IPv6 address."""
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
    """One connection with limits on time and size.

    It ends if a request head is late or too large, if nothing is ever sent, or if too many requests wait
    for their answers. A body has its own time limit plus a little more, so that the refusal can still be
    sent. uvicorn itself only limits the idle time between two requests.
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
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def give_up(self) -> None:
        """Close the connection to make room for another."""
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
            self.transport.abort()  # uvicorn reads on while they wait, and would keep them all in memory
        elif self._head > self.head_bytes:
            if idle:
                self.transport.write(_HEAD_TOO_LARGE)
                self.transport.close()
            else:
                self.transport.abort()
        elif idle and self._deadline is None:
            self._watch()  # empty lines start no request, and must not keep it open

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
        super().pause_writing()  # the client does not read what is sent
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
    """Sets ``draining`` as soon as the process is asked to end, so that streams finish."""

    def __init__(self, config: uvicorn.Config, host: Host) -> None:
        super().__init__(config)
        self._host = host
        self._timer: threading.Timer | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._host.draining.set()
        self._end_in_time()
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """End the process if it cannot recover by itself; a supervisor starts it again."""
        if self._host.failed:
            self._host.draining.set()
            self._end_in_time()
            return True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End, and answer requests that still wait before their connections are cut."""
        seconds = 0.4 * self._host.settings.shutdown_seconds
        asyncio.get_running_loop().call_later(seconds, self._host.give_up)
        await super().shutdown(sockets)

    def _end_in_time(self) -> None:
        """End the process at the stated time, even if a thread waits for the store for ever."""
        if self._timer is None:
            seconds = self._host.settings.shutdown_seconds
            self._timer = threading.Timer(seconds, _end_now, (self._host.log, seconds))
            self._timer.daemon = True
            self._timer.start()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Return instead of dying by the signal: the store is closed, and the exit code is ours."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        handlers = [signal.signal(number, self.handle_exit) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, handlers, strict=True):
                signal.signal(number, handler)


def _end_now(log: Log, seconds: float) -> None:
    log.say("shutdown_forced", "error", seconds=seconds, why="the store or a request did not finish")
    os._exit(1)


def listening(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(2048)
    except (OSError, OverflowError) as error:
        listener.close()
        if isinstance(error, OverflowError):
            raise ServeError("a port must be a whole number from 0 to 65535") from None
        raise ServeError(f"cannot listen at {host}, port {port}: {error.strerror}") from None
    listener.setblocking(False)
    return listener


def address_of(listener: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def room_for(connections: int, log: Log) -> int:
    """Number of connections that the system allows, after raising the limit on open files."""
    need = connections + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    if soft == endless or soft >= need:
        return connections
    with suppress(OSError, ValueError):  # some systems have a lower limit than they report
        resource.setrlimit(resource.RLIMIT_NOFILE, (need if hard == endless else min(need, hard), hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == endless or soft >= need:
        return connections
    fewer = max(soft - SPARE_FILES, soft // 4, 1)
    log.say("few_files", open_files=soft, connections=fewer, asked=connections)
    return fewer


def run(host: Host, application: Any, listener: socket.socket) -> None:
    """Serve an application at a socket until the process is asked to end."""
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
        timeout_graceful_shutdown=max(1, int(0.6 * bounds.shutdown_seconds)),
    )
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [ServerLog(host.log)], False
    Server(config, host).run([listener])
