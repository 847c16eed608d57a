"""What a relay keeps on disk: the reports that have left it, and the crowds being sent.

The collector may know a report that has left, so it never counts towards a crowd again. This is on disk
before the first byte is forwarded, and stays there until the epoch is closed. A closed epoch is never
opened again, whatever the collector says about its length. So neither a crash of the relay, nor a full
file, nor a collector that asks again leads to a crowd of fewer than k new reports.

For each report the file holds a keyed hash of its id and its fate. For a crowd being sent it also holds
the shuffled reports, so that the next process can continue. Nothing in it says who sent what, or when.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from ....foundation.coins import fresh_bytes
from ....foundation.errors import KeyveilError
from ..store.sqlite_files import check_library, connected, lock_beside, make_private

FORMAT = 0x6B760001
"""Version mark of the file; no other kind of file has it."""
MOST_IDS = 50_000_000
"""Maximum number of reports of open epochs; each takes about 50 bytes of disk."""
STEP = 10_000
"""Number of rows deleted at a time."""

_TABLES = """
create table if not exists facts (name text primary key, value blob not null) without rowid;
create table if not exists gone (
    collection integer not null, epoch integer not null, id blob not null, fate text not null,
    primary key (collection, epoch, id)) without rowid;
create table if not exists collections (
    id integer primary key, name text not null unique, closed_before integer not null);
create table if not exists epochs (
    collection integer not null, epoch integer not null, ends real not null,
    primary key (collection, epoch)) without rowid;
create table if not exists parts (
    id integer primary key autoincrement, collection integer not null, plan text not null,
    epoch integer not null, ids blob not null, rows blob not null);
"""


class SentIdsFailed(Exception):
    """The disk cannot be written. Nothing leaves until it can."""


@dataclass(frozen=True)
class Part:
    """The reports of one request to the collector."""

    id: int
    rows: list[tuple[bytes, bytes]]


class SentIds:
    """The file of one relay. The event loop reads it; another thread may write."""

    def __init__(self, path: str | Path, to: str, most: int = MOST_IDS) -> None:
        check_library()
        self.path, self.most, self.broken = Path(path), most, False
        self._writing = threading.Lock()
        self._lock = self._take_lock()
        try:
            self._writer, self._reader = self._connect(), self._connect()
            self._prepare(to)
        except apsw.Error as error:
            self.close()
            raise KeyveilError(
                f"cannot use the relay's file {self.path}: {type(error).__name__}"
            ) from None
        except BaseException:
            self.close()
            raise
        self.number = int(str(self._value("select count(*) from gone")))
        """Number of reports in the file."""

    def _take_lock(self) -> int:
        try:
            handle = lock_beside(self.path)
        except OSError as error:
            raise KeyveilError(f"cannot use the relay's file {self.path}: {error.strerror}") from None
        if handle is None:
            raise KeyveilError(f"another relay uses {self.path}")
        return handle

    def _connect(self) -> apsw.Connection:
        make_private(self.path)
        return connected(self.path)

    def _prepare(self, to: str) -> None:
        if int(self._writer.pragma("user_version")) not in (0, FORMAT):
            raise KeyveilError(f"--memory {self.path} is not a file of a relay of this version")
        if self._writer.pragma("user_version") == 0:
            if self._writer.execute("select 1 from sqlite_master limit 1").fetchall():
                raise KeyveilError(f"--memory {self.path} is not a relay's file: name another")
            with self._writer:
                self._writer.execute(_TABLES)
                sql = "insert into facts values (?, ?)"
                self._writer.executemany(sql, [("key", fresh_bytes(32)), ("to", to.encode())])
                self._writer.pragma("user_version", FORMAT)
        facts = {name: bytes(value) for name, value in self._writer.execute("select * from facts")}
        if facts["to"] != to.encode():
            raise KeyveilError(
                "this file belongs to a relay to another collector: name another --memory"
            )
        self._key = facts["key"]
        self._closed: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        for number, name, before in self._writer.execute("select * from collections"):
            self._numbers[name], self._closed[name] = number, before

    def _value(self, sql: str, values: Sequence[object] = ()) -> object:
        rows = self._reader.execute(sql, values).fetchall()
        return rows[0][0] if rows else None

    def _digest(self, report_id: bytes) -> bytes:
        return hashlib.blake2b(report_id, digest_size=16, key=self._key).digest()

    # -- reading -----------------------------------------------------------------------------------

    def closed(self, name: str, epoch: int) -> bool:
        """Whether an epoch is closed for good."""
        return epoch < self._closed.get(name, 0)

    def fates(self, name: str, epoch: int, ids: Iterable[bytes]) -> dict[bytes, str]:
        """The ids that have left, with their fates: empty if the collector has the report."""
        number = self._numbers.get(name)
        if number is None:
            return {}
        sql, fates = "select fate from gone where collection = ? and epoch = ? and id = ?", {}
        try:
            for report_id in ids:
                for (fate,) in self._reader.execute(sql, (number, epoch, self._digest(report_id))):
                    fates[report_id] = fate
        except apsw.Error as error:
            raise SentIdsFailed(type(error).__name__) from None
        return fates

    def parts(self) -> list[tuple[str, str, int, Part]]:
        """What was being sent when the last process ended: collection, plan, epoch and part."""
        sql = (
            "select name, plan, epoch, parts.id, ids, rows from parts "
            "join collections on collections.id = parts.collection order by parts.id"
        )
        return [
            (name, plan, epoch, Part(number, _pairs(bytes(ids), bytes(rows))))
            for name, plan, epoch, number, ids, rows in self._reader.execute(sql)
        ]

    # -- writing: each is on disk when it returns --------------------------------------------------

    def leave(
        self, name: str, plan: str, epoch: int, ends: float, parts: list[list[tuple[bytes, bytes]]]
    ) -> list[Part]:
        """Record a crowd before it leaves."""
        written = []
        with self._change() as writer:
            writer.execute(
                "insert into collections (name, closed_before) values (?, 0) on conflict do nothing",
                (name,),
            )
            numbers = writer.execute("select id from collections where name = ?", (name,)).fetchall()
            number = int(str(numbers[0][0]))
            writer.execute(
                "insert into epochs values (?, ?, ?) on conflict do nothing", (number, epoch, ends)
            )
            for rows in parts:
                names = b"".join(report_id for report_id, _ in rows)
                packed = b"".join(row for _, row in rows)
                writer.executemany(
                    "insert into gone values (?, ?, ?, '') on conflict do nothing",
                    sorted((number, epoch, self._digest(report_id)) for report_id, _ in rows),
                )
                writer.execute(
                    "insert into parts (collection, plan, epoch, ids, rows) values (?, ?, ?, ?, ?)",
                    (number, plan, epoch, names, packed),
                )
                written.append(Part(writer.last_insert_rowid(), rows))
        with self._writing:
            self._numbers[name] = number
            self.number += sum(map(len, parts))
        return written

    def decide(self, name: str, epoch: int, part: Part, failed: dict[bytes, str]) -> None:
        """Record that a part is decided: the collector has all of it, except what failed for good."""
        with self._change() as writer:
            writer.executemany(
                "update gone set fate = ? where collection = ? and epoch = ? and id = ?",
                [
                    (why, self._numbers.get(name), epoch, self._digest(report_id))
                    for report_id, why in failed.items()
                ],
            )
            writer.execute("delete from parts where id = ?", (part.id,))

    def ends(self, name: str, epoch: int) -> float:
        """The end of an epoch, as stated when its first reports left; 0 if none has left."""
        sql = "select ends from epochs where collection = ? and epoch = ?"
        ends = self._value(sql, (self._numbers.get(name), epoch))
        return 0.0 if ends is None else float(str(ends))

    def over(self, now: float) -> list[tuple[str, int]]:
        """Epochs that have ended by now, according to what was stated when their first reports left."""
        sql = (
            "select name, epoch from epochs join collections on collections.id = epochs.collection "
            "where ends <= ? order by epoch"
        )
        return [(str(name), int(epoch)) for name, epoch in self._reader.execute(sql, (now,))]

    def close_epoch(self, name: str, epoch: int) -> None:
        """Close an epoch and all earlier ones for good, and delete their ids."""
        number = self._numbers.get(name)
        with self._change() as writer:
            sql = "update collections set closed_before = max(closed_before, ?) where id = ?"
            writer.execute(sql, (epoch + 1, number))
        self._closed[name] = max(self._closed.get(name, 0), epoch + 1)
        gone = STEP
        while gone == STEP:
            with self._change() as writer:
                before = writer.total_changes()
                writer.execute(
                    "delete from gone where collection = ?1 and (epoch, id) in (select epoch, id "
                    "from gone where collection = ?1 and epoch <= ?2 limit ?3)",
                    (number, epoch, STEP),
                )
                gone = writer.total_changes() - before
            with self._writing:
                self.number -= gone
        with self._change() as writer:
            writer.execute("delete from epochs where collection = ? and epoch <= ?", (number, epoch))
        with self._writing, suppress(apsw.Error):
            # they leave the log as well
            self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    @contextmanager
    def _change(self) -> Iterator[apsw.Connection]:
        """One durable transaction.

        After an error other than a full or busy disk, no further one is tried.
        """
        with self._writing:
            if self.broken:
                raise SentIdsFailed("stopped")
            try:
                self._writer.execute("begin immediate")
                yield self._writer
                self._writer.execute("commit")
            except apsw.Error as error:
                if not isinstance(error, apsw.FullError | apsw.BusyError | apsw.LockedError):
                    self.broken = True
                raise SentIdsFailed(type(error).__name__) from None
            finally:
                with suppress(apsw.Error):
                    if self._writer.in_transaction:
                        self._writer.execute("rollback")

    def close(self) -> None:
        """Close the file, after the current write."""
        with self._writing:
            for connection in (getattr(self, "_writer", None), getattr(self, "_reader", None)):
                if connection is not None:
                    with suppress(apsw.Error):
                        connection.close()
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1


def _pairs(ids: bytes, rows: bytes) -> list[tuple[bytes, bytes]]:
    number = len(ids) // 16
    width = len(rows) // number
    return [(ids[16 * n : 16 * n + 16], rows[width * n : width * n + width]) for n in range(number)]
