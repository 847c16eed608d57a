"""A connection to PostgreSQL on which nothing can take for ever.

All state belongs to a transaction, so a pooler may give every transaction another session of the
database.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from typing import Any
from weakref import WeakSet

import psycopg
from psycopg.pq import TransactionStatus

from ..process.settings import Settings
from .store_interface import StoreBroken, StoreError, StoreFault, StoreUnready

TRANSIENT = ("08", "25006", "25P03", "40", "53", "55006", "55P03", "57", "58", "lost")
"""Beginnings of the SQLSTATEs that pass: a database that is away, read-only, full, busy or too slow."""
REQUEST = ("21", "22", "23")
"""Those that one request's values cause; others need an operator."""
WATCH = 0.25
"""Seconds between two looks at statements that take too long."""

# when a connection is lost within a pipeline, the driver logs what it raises as well: raised is enough
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class PostgresSession:
    """One connection, with ``?`` for parameters."""

    def __init__(self, address: str, settings: Settings, limited: bool = True) -> None:
        self._settings = settings
        self.limit: float | None = settings.statement_seconds + 1 if limited else None
        """Seconds after which a statement's connection is cut; None for no limit."""
        self._since: float | None = None
        self._last: list[str] = []
        """Statements that are run with the commit."""
        self.generation: int | None = None
        """The number of changes to collections and tokens, as this transaction began."""
        self.shares: dict[int, tuple[int, int]] = {}
        """Reports and reserved number of this process in capped rounds, as this transaction began."""
        try:
            self.connection: psycopg.Connection[Any] = psycopg.connect(
                address,
                autocommit=True,
                prepare_threshold=None,
                connect_timeout=max(2, round(settings.connect_seconds)),
                keepalives_idle=5,
                keepalives_interval=2,
                keepalives_count=3,
                tcp_user_timeout=round(1000 * settings.statement_seconds),
            )
            _watcher.watch(self)
            self.pooled = self._is_pooled()
        except psycopg.Error as error:
            raise StoreError(f"cannot reach the database: {said_by(error)}{hint_of(error)}") from None
        if not self.pooled:  # a pooler would look for the prepared statement in another session
            self.connection.prepare_threshold = 5

    def _is_pooled(self) -> bool:
        """Whether a pooler is in between. It tells a process number that is not the database's."""
        return bool(self.rows("select pg_backend_pid()")[0][0] != self.connection.info.backend_pid)

    # -- statements --------------------------------------------------------------------------------

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._timed():
            return self.connection.execute(_sql(sql), parameters or None, binary=True).fetchall()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        with self._timed():
            self.connection.execute(_sql(sql), parameters or None)

    def run_at_commit(self, *statements: str) -> None:
        """Run statements without parameters in one message with the commit. Nothing reads them before.

        The locks that they take are not held while the database waits for this process.
        """
        self._last += statements

    def many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> None:
        # not executemany: after its pipeline the server does not end a transaction that stands still
        for row in parameters:
            self.run(sql, row)

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        name = f"keyveil_{next(_cursors)}"
        with self.connection.transaction(), self.connection.cursor(name=name) as cursor:
            with self._timed():
                cursor.execute(_sql(sql), parameters)
            while True:
                with self._timed():
                    part = cursor.fetchmany(200)
                yield from part
                if len(part) < 200:
                    return

    @contextmanager
    def _timed(self) -> Iterator[None]:
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._since = None

    # -- transactions ------------------------------------------------------------------------------

    def begin(self, mode: str, statement: float, idle: float, *statements: str) -> list[Any]:
        """Begin a transaction with its limits in one round trip; the row of the last statement.

        The statements have no parameters. Each sees what was committed before it began.
        """
        limits = {
            "lock_timeout": self._settings.lock_seconds,
            "statement_timeout": statement,
            "idle_in_transaction_session_timeout": idle,
        }
        words = [f"set local {name} = {round(1000 * value)}" for name, value in limits.items()]
        text = "; ".join([f"begin {mode}", *words, *statements])
        with self._timed():
            cursor = self.connection.execute(text, prepare=False)
            while cursor.nextset():
                pass
            return list(cursor.fetchone() or ()) if cursor.description else []

    def commit(self) -> None:
        """Make the transaction durable. If a statement before it fails, nothing is."""
        last, self._last = self._last, []
        with self._timed():
            self.connection.execute("; ".join([*last, "commit"]), prepare=False)

    def roll_back(self) -> None:
        """End the transaction, if there is one, without a trace."""
        self._last.clear()
        if self.closed:
            return
        try:
            if self.connection.info.transaction_status != TransactionStatus.IDLE:
                with self._timed():
                    self.connection.execute("rollback")
        except psycopg.Error:
            self.close()

    # -- the end -----------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return bool(self.connection.closed)

    def close(self) -> None:
        """End the connection."""
        with suppress(psycopg.Error):
            self.connection.close()

    def cut_if_late(self, now: float) -> None:
        """End the connection from another thread if its statement takes too long.

        The thread that waits for the statement then gets an error.
        """
        since = self._since
        if since is None or self.limit is None or now - since < self.limit:
            return
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self.connection.fileno())) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)


class _Watcher:
    """One thread that cuts the connections of statements that take too long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: WeakSet[PostgresSession] = WeakSet()
        self._thread: threading.Thread | None = None

    def watch(self, session: PostgresSession) -> None:
        """Watch a connection as long as it exists."""
        with self._lock:
            self._sessions.add(session)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="keyveil-watch", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            time.sleep(WATCH)
            with self._lock:
                sessions = [session for session in self._sessions if not session.closed]
            for session in sessions:
                session.cut_if_late(time.monotonic())


_watcher = _Watcher()
_cursors = count(1)


def kind_of(error: psycopg.Error) -> str:
    """The SQLSTATE of an error; ``lost`` if the connection ended without one."""
    if error.sqlstate:
        return error.sqlstate
    return "lost" if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) else "driver"


def said_by(error: psycopg.Error) -> str:
    """An error by its type and SQLSTATE, without the values of its statement."""
    state = f" ({error.sqlstate})" if error.sqlstate else ""
    return type(error).__name__ + state


UNREACHED = {
    "Connection refused": "nobody listens at this address; is the server running?",
    "No such file or directory": "there is no such socket; is the server running?",
    "no password supplied": "it asks for a password, and the address has none",
    "authentication failed": "the user or the password is wrong",
    "does not exist": "there is no such database or user",
    "translate host name": "the name of the host is unknown",
    "resolve host": "the name of the host is unknown",
    "timeout": "there was no answer in time",
}
"""What a database or its library says if it cannot be reached, and what that means."""


def hint_of(error: psycopg.Error) -> str:
    """The likely cause of a failed connection in our own words, so that no secret is repeated."""
    said = str(error)
    return next((f", {hint}" for words, hint in UNREACHED.items() if words in said), "")


def fault_of(error: psycopg.Error) -> StoreFault | None:
    """What an error means for the store; None if the request caused it."""
    kind = kind_of(error)
    if kind.startswith(TRANSIENT):
        return StoreUnready(said_by(error), kind)
    return None if kind.startswith(REQUEST) else StoreBroken(said_by(error), kind)


@cache
def _sql(text: str) -> Any:
    return text.replace("?", "%s")
