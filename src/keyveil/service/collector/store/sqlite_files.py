"""Files of SQLite: private, connected, locked; a session, and the library's version."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from ....foundation.files import open_lock, take_lock
from .store_interface import StoreError

BUSY = 10_000
"""Milliseconds that a connection waits for another."""
NEEDED = (3, 51, 3)
"""Older versions could corrupt the log when two connections reset it."""


def make_private(path: Path) -> None:
    """Create a file that only its owner can read; an existing file stays as it is."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def connected(
    path: Path, flags: int | None = None, vfs: str | None = None, synchronous: str = "FULL"
) -> apsw.Connection:
    """A connection whose commits are on disk, and which overwrites deleted data."""
    flags = flags or apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
    connection.set_busy_timeout(BUSY)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", synchronous)
    connection.pragma("secure_delete", 1)
    return connection


def lock_beside(path: Path) -> int | None:
    """The handle of an exclusive lock on a file; None if another process holds it."""
    handle = open_lock(path)
    if take_lock(handle, wait=False):
        return handle
    os.close(handle)
    return None


class SqliteSession:
    """One connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, parameters).fetchall()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self.connection.execute(sql, parameters)

    def many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> None:
        self.connection.executemany(sql, parameters)

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        yield from self.connection.execute(sql, parameters)


def check_library() -> None:
    """Refuse a SQLite version with a known fault."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < NEEDED:
        needed = ".".join(map(str, NEEDED))
        raise StoreError(f"SQLite {apsw.sqlite_lib_version()} can corrupt its log; {needed} or newer")
