"""The store for several collector processes at once: PostgreSQL.

Each process has a shard of the counts, held by a session lock, so each count has one writer. Ids are
unique in the database. Accepting reports takes a shared lock; changing collections and sealing take the
exclusive one. So a pause or a closed epoch takes effect in all processes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from typing import Any

import psycopg
from psycopg import errors

from ....foundation.arrays import Integers
from .collection import Round
from .control import add_chunk
from .migrations import MIGRATIONS, POSTGRES, POSTGRES_ONLY
from .store_base import Store
from .store_interface import Parcel, Session, StoreError, StoreUnready, chunk_counts

LOCKS, CONTROL, MIGRATING, SEALING, SHARDS = 0x6B65, 1, 2, 3, 1000
"""Class and numbers of our advisory locks; shard n has number SHARDS + n."""
MOST_SHARDS = 64
NEAR = MOST_SHARDS * 20_000
"""Distance from a cap, in reports, from which transactions run one at a time.

No more reports than this can be in progress at once, so the cap is exact.
"""


class _Alone(Exception):
    """The transaction must run again, alone."""


class PostgresSession:
    """One connection, with ``?`` for parameters."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.connection.execute(_sql(sql), parameters).fetchall()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self.connection.execute(_sql(sql), parameters)

    def many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> None:
        if parameters:
            with self.connection.cursor() as cursor:
                cursor.executemany(_sql(sql), parameters)

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        name = f"keyveil_{next(_cursors)}"
        with self.connection.cursor(name=name, withhold=True) as cursor:
            cursor.itersize = 200
            cursor.execute(_sql(sql), parameters)
            yield from cursor


class PostgresStore(Store):
    """The PostgreSQL store."""

    kind = "postgresql"

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address
        self._connection: psycopg.Connection[Any] | None = None
        self._alone = False
        self._heads: dict[tuple[int, int], int] = {}
        self._seen: dict[tuple[int, int, int, int], Integers] = {}
        """Counts of other processes that the live counts include."""

    # -- opening -----------------------------------------------------------------------------------

    def open(self, serving: bool = True) -> None:
        """Connect. ``serving`` also reserves a shard."""
        self._connection = self._connect()
        try:
            ran = self.version()
            if ran < len(MIGRATIONS):
                raise StoreError("the database lacks some tables: run 'keyveil migrate'")
            if ran > len(MIGRATIONS):
                raise StoreError("the database is of a newer version than this keyveil")
            if serving:
                self._take_shard()
            self._forget()
            self._changed(self._session())
            self.reload()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> psycopg.Connection[Any]:
        try:
            return psycopg.connect(self._address, autocommit=True, connect_timeout=10)
        except psycopg.Error as error:
            raise StoreError(f"cannot reach the database: {type(error).__name__}") from None

    def _connect_again(self) -> psycopg.Connection[Any]:
        """Open another connection while the store is in use."""
        try:
            return self._connect()
        except StoreError as error:
            raise StoreUnready(str(error)) from None

    def _take_shard(self) -> None:
        session = self._session()
        for shard in range(MOST_SHARDS):
            sql = "select pg_try_advisory_lock(?, ?)"
            if session.rows(sql, (LOCKS, SHARDS + shard))[0][0]:
                self.shard = shard
                return
        raise StoreError(f"at most {MOST_SHARDS} collectors serve one database")

    def _forget(self) -> None:
        self._forget_live()
        self._heads.clear()
        self._seen.clear()

    def close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    # -- migrations --------------------------------------------------------------------------------

    def version(self) -> int:
        session = self._session()
        if session.rows("select to_regclass('keyveil_version')")[0][0] is None:
            return 0
        return int(session.rows("select coalesce(max(version), 0) from keyveil_version")[0][0])

    def migrate_alone(self) -> int:
        """Run alone: one process at a time, and no reports meanwhile."""
        self._connection = self._connection or self._connect()
        session = self._session()
        with self._connection.transaction():
            session.rows("select pg_advisory_xact_lock(?, ?)", (LOCKS, MIGRATING))
            session.rows("select pg_advisory_xact_lock(?, ?)", (LOCKS, CONTROL))
            session.run("create table if not exists keyveil_version (version bigint primary key)")
            first = self.version()
            for number in range(first, len(MIGRATIONS)):
                for statement in (*MIGRATIONS[number], *POSTGRES_ONLY.get(number, ())):
                    session.run(statement.format(**POSTGRES))
                session.run("insert into keyveil_version values (?)", (number + 1,))
        return len(MIGRATIONS) - first

    # -- transactions ------------------------------------------------------------------------------

    def _session(self) -> PostgresSession:
        if self._connection is None:
            raise StoreError("the store is not open")
        return PostgresSession(self._connection)

    @contextmanager
    def _writing(self, exclusive: bool = False) -> Iterator[Session]:
        self._ready()
        connection = self._connection
        assert connection is not None
        session = PostgresSession(connection)
        self._alone = exclusive or self._alone
        lock = "pg_advisory_xact_lock" if self._alone else "pg_advisory_xact_lock_shared"
        try:
            with connection.transaction():
                session.rows(f"select {lock}(?, ?)", (LOCKS, CONTROL))
                yield session
        except (errors.DiskFull, errors.SerializationFailure, errors.DeadlockDetected) as error:
            self._forget()
            raise StoreUnready(type(error).__name__) from None
        except psycopg.OperationalError as error:
            # whether the commit happened is unknown: acknowledge nothing, and read everything again
            self.close()
            raise StoreUnready(type(error).__name__) from None
        finally:
            self._alone = False

    def _ready(self) -> None:
        if self._connection is None or self._connection.closed:
            self._connection = None
            try:
                self.open()
            except (StoreError, psycopg.Error) as error:
                raise StoreUnready(type(error).__name__) from None

    @contextmanager
    def reading(self) -> Iterator[Session]:
        connection = self._connect_again()
        try:
            connection.execute("begin isolation level repeatable read read only")
            yield PostgresSession(connection)
        except psycopg.OperationalError as error:
            raise StoreUnready(type(error).__name__) from None
        finally:
            with suppress(psycopg.Error):
                connection.close()

    @contextmanager
    def sealing(self) -> Iterator[bool]:
        connection = self._connect_again()
        try:
            sql = "select pg_try_advisory_lock(?, ?)"
            yield bool(PostgresSession(connection).rows(sql, (LOCKS, SEALING))[0][0])
        finally:
            with suppress(psycopg.Error):
                connection.close()

    def append(self, parcels: Sequence[Parcel], now: float, trusted: bool = True) -> None:
        try:
            super().append(parcels, now, trusted)
        except _Alone:
            self._alone = True
            super().append(parcels, now, trusted)

    def _near_cap(self, room: int) -> None:
        if room < NEAR and not self._alone:
            raise _Alone

    # -- other processes ---------------------------------------------------------------------------

    def _read_generation(self, session: Session) -> int:
        return int(session.rows("select generation from control")[0][0])

    def _mark_changed(self, session: Session) -> None:
        sql = "update control set generation = generation + 1 returning generation"
        self._generation = int(session.rows(sql)[0][0])

    def refresh(self) -> None:
        """Read changes, and the counts of other processes."""
        self._ready()
        connection = self._connection
        assert connection is not None
        session = PostgresSession(connection)
        try:
            with connection.transaction():  # one snapshot: sealing moves counts from shard to shard
                session.run("set transaction isolation level repeatable read, read only")
                if self._changed(session):
                    self.reload(session)
                    self._reload_live(session)
                self._follow(session)
        except psycopg.Error as error:
            self.close()
            raise StoreUnready(type(error).__name__) from None

    def _follow(self, session: Session) -> None:
        """Add the counts of other shards since the last call."""
        for round_id, shard, version in session.rows("select round, shard, version from heads"):
            before = self._heads.get((round_id, shard), 0)
            live = self._live.get(round_id)
            if shard == self.shard or live is None or version == before:
                continue
            sql = (
                "select epoch, chunk, counts, version from counts "
                "where round = ? and shard = ? and version > ?"
            )
            for epoch, chunk, counts, at in session.rows(sql, (round_id, shard, before)):
                new = chunk_counts(counts)
                old = self._seen.get((round_id, epoch, shard, chunk))
                with self._lock:
                    add_chunk(live.counts, chunk, new if old is None else new - old)
                    live.version = next(self._versions)
                self._seen[round_id, epoch, shard, chunk] = new
                before = max(before, at)
            self._heads[round_id, shard] = before

    def _load(self, session: Session, round_: Round) -> None:
        self._seen = {at: counts for at, counts in self._seen.items() if at[0] != round_.id}
        self._heads = {at: version for at, version in self._heads.items() if at[0] != round_.id}
        super()._load(session, round_)

    def _saw(self, round_id: int, epoch: int, shard: int, chunk: int, counts: bytes) -> None:
        if shard != self.shard:
            self._seen[round_id, epoch, shard, chunk] = chunk_counts(counts)

    def _reload_changed(self, live: bool = False) -> None:
        try:
            super()._reload_changed(live)
        except psycopg.Error as error:  # the next transaction connects and reads everything again
            self.close()
            raise StoreUnready(type(error).__name__) from None

    # -- ids ---------------------------------------------------------------------------------------

    def _known(self, session: Session, round_: Round, epoch: int, ids: list[bytes]) -> set[int]:
        sql = "select id from ids where round = ? and epoch = ? and id = any(?::uuid[])"
        names = [name.hex() for name in ids]
        known = {row[0].hex for row in session.rows(sql, (round_.id, epoch, names))}
        return {place for place, name in enumerate(names) if name in known}

    def claim_ids(self, session: Session, round_: Round, epoch: int, ids: list[bytes]) -> set[int]:
        # in the same order everywhere, so that two processes never wait for each other
        names = [name.hex() for name in ids]
        sql = (
            "insert into ids (round, epoch, id) select ?, ?, name from unnest(?::uuid[]) as name "
            "on conflict do nothing returning id"
        )
        taken = session.rows(sql, (round_.id, epoch, sorted(names)))
        if len(taken) == len(names):
            return set()
        new = {row[0].hex for row in taken}
        return {place for place, name in enumerate(names) if name not in new}

    def _drop_ids(self, session: Session, round_: Round, epoch: int | None) -> None:
        if epoch is None:
            session.run("delete from ids where round = ?", (round_.id,))
        else:
            session.run("delete from ids where round = ? and epoch = ?", (round_.id, epoch))


_cursors = count(1)


@cache
def _sql(text: str) -> Any:
    return text.replace("?", "%s")
