"""The store for several collector processes at once: PostgreSQL.

Each process has a shard of the counts, so each count has one writer. Ids are unique in the database.
Reports of a collection share a lock that a change of that collection takes alone, so a pause or a closed
epoch takes effect in all processes at once. All locks end with their transaction, and each transaction
has limits of time, so a process that stands still cannot hold up the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection as Some
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic

import psycopg

from ....foundation.arrays import Integers
from ..process.clock import FleetClock
from .cap_shares import Alone, asked_shares, room_in_share
from .collection import Collection, Round
from .log_statement import LOG, replacing, replacing_text
from .migrations import MIGRATIONS, POSTGRES, POSTGRES_ONLY
from .postgres_connection import PostgresSession, fault_of, said_by
from .postgres_ids import CAREFUL, PostgresIds, RunAgain, is_conflict
from .report_log import CountsRow, Group, SegmentRow, added_to
from .shard_lease import CHANGING, LEASE, LOCKS, MIGRATING, NOW, PROCESS, SHARDS, ShardLease
from .store_base import Store
from .store_interface import (
    HELD,
    Parcel,
    Session,
    StoreBroken,
    StoreError,
    StoreUnready,
    VersionError,
    by_chunk,
    chunk_counts,
)

COLLECTIONS, SEALING = 0x6B66, 0x6B67
"""Classes of our advisory locks: reports and changes of a collection, its sealing."""
KEPT_CHANGES = 10_000
"""Number of changes that are listed; a process that missed more reads all collections."""
AT_COMMIT = 1 << 16
"""Bytes of counts up to which they are written in one message with the commit."""


class PostgresStore(PostgresIds):
    """The PostgreSQL store."""

    kind = "postgresql"

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address
        self._own: PostgresSession | None = None
        self._serving = False
        self._lease = ShardLease()
        self._alone: set[int] = set()
        """Collections whose next transaction must exclude the reports of other processes."""
        self._single: set[int] = set()
        """Collections that the current transaction has locked for itself."""
        self._lanes: list[PostgresStore] = []

    @property
    def place(self) -> str:
        without = re.sub(r"(://[^/@:]*):[^/@]*@", r"\1@", self._address)
        return re.sub(r"(?<=[?&])password=[^&]*&?", "", without).rstrip("?&")

    # -- opening -----------------------------------------------------------------------------------

    def open(self, serving: bool = True) -> None:
        """Connect. ``serving`` also reserves a shard."""
        self._serving, self._lease.shard = serving, None
        self._own = PostgresSession(self._address, self.settings)
        try:
            ran = self.version()
            if ran < len(MIGRATIONS):
                raise VersionError("the database lacks some tables: run 'keyveil migrate'")
            if ran > len(MIGRATIONS):
                raise VersionError("the database is of a newer version than this keyveil")
            if serving:
                with self._transaction(self._own):
                    self.shard = self._lease.take(self._own)
            self._forget_counts()
            with self._transaction(self._own, "isolation level repeatable read read only"):
                self._generation = self._read_generation(self._own)
                self.reload(self._own)
                if serving and not self.reconnects:
                    self._learn_large(self._own)
        except BaseException as error:
            self._cut()
            if isinstance(error, psycopg.Error):
                raise fault_of(error) or error from None
            raise

    def _another(self, limited: bool = True) -> PostgresSession:
        """Open another connection while the store is in use."""
        try:
            return PostgresSession(self._address, self.settings, limited)
        except StoreError as error:
            raise StoreUnready(str(error), "connect") from None

    def lanes(self) -> list[Store]:
        """The other lanes, each with a connection and a shard of its own, as many as can be had."""
        with suppress(StoreError, StoreUnready):
            for number in range(1 + len(self._lanes), int(self.settings.lanes)):
                self._lanes.append(self._lane(number))
        return list(self._lanes)

    def _lane(self, number: int) -> PostgresStore:
        lane = PostgresStore(self._address)
        lane.settings, lane.clock = self.settings, self.clock
        lane.segments_folder, lane._books = self.segments_folder, self._books
        lane.open_ids = self.open_ids
        lane._lease = self._lease.of_lane(number)
        lane.open()
        return lane

    def close(self) -> None:
        while self._lanes:
            self._lanes.pop().close()
        if self._own is not None and self._serving and not self._own.closed:
            with suppress(psycopg.Error, StoreUnready), self._transaction(self._own):
                self._lease.leave(self._own)
        self._cut()
        self.open_ids.forget([*self.open_ids])

    def _cut(self) -> None:
        """End the connection as it is."""
        if self._own is not None:
            self._own.close()
            self._own = None

    # -- migrations --------------------------------------------------------------------------------

    def version(self) -> int:
        session = self._session()
        if session.rows("select to_regclass('keyveil_version')")[0][0] is None:
            return 0
        return int(session.rows("select coalesce(max(version), 0) from keyveil_version")[0][0])

    def migrate_alone(self) -> int:
        """Run alone: one process at a time, and no reports meanwhile."""
        self._own = self._own or PostgresSession(self._address, self.settings, limited=False)
        session = self._session()
        session.begin("", 0, 0, "set local lock_timeout = 60000")
        try:
            session.rows("select pg_advisory_xact_lock(?, ?)", (LOCKS, MIGRATING))
            session.run("create table if not exists keyveil_version (version bigint primary key)")
            first = self.version()
            for number in range(first, len(MIGRATIONS)):
                for statement in (*MIGRATIONS[number], *POSTGRES_ONLY.get(number, ())):
                    session.run(statement.format(**POSTGRES))
                session.run("insert into keyveil_version values (?)", (number + 1,))
            session.commit()
        finally:
            session.roll_back()
        return len(MIGRATIONS) - first

    # -- transactions ------------------------------------------------------------------------------

    def _session(self) -> PostgresSession:
        if self._own is None:
            raise StoreError("the store is not open")
        return self._own

    @contextmanager
    def _transaction(
        self, session: PostgresSession, mode: str = "", *locks: str, capped: Some[int] = ()
    ) -> Iterator[PostgresSession]:
        """A transaction of this process, within its limits, after it has its locks.

        Its shares of capped rounds are read in the same round trip.
        """
        shares = asked_shares(capped, self.shard)
        asked = f"select generation, {NOW}, {self._lease.still_mine}, {shares} from control"
        limits = (self.settings.statement_seconds, self.settings.transaction_seconds)
        begun = monotonic()
        try:
            session.generation, time_of_day, mine, granted = session.begin(mode, *limits, *locks, asked)
            session.shares = dict.fromkeys(capped, (0, 0))
            session.shares.update(
                (int(number), tuple(share)) for number, share in (granted or {}).items()
            )
            self.lock_wait = monotonic() - begun
            if self.clock is not None:
                self.clock.heard(time_of_day)
            if self._serving and not mine:
                raise StoreUnready("another process has taken over this one's shard", "lease")
            yield session
            session.commit()
        except psycopg.Error as error:
            if is_conflict(error):
                raise RunAgain from None
            fault = fault_of(error)
            if fault is not None and fault.kind == HELD:  # the database did not come to the commit
                self.lock_wait = monotonic() - begun
            else:
                # whether the commit happened may be unknown: acknowledge nothing, read everything again
                self._cut()
            if fault is None:
                raise
            raise fault from None
        except StoreUnready:
            self._cut()
            raise
        finally:
            session.generation = None
            session.shares.clear()
            session.roll_back()

    @contextmanager
    def _writing(
        self, collections: Some[int] = (), change: bool = False, alone: Some[int] = ()
    ) -> Iterator[Session]:
        self._ready()
        self._single = single = {*alone, *self._alone}
        locks = [_lock(LOCKS, MIGRATING, shared=True)]
        if self.patience is not None:
            locks.insert(0, f"set local lock_timeout = {round(1000 * self.patience)}")
        if self._serving:
            locks.append(_lock(LOCKS, SHARDS + self.shard))  # also keeps out a lost connection's work
        if change:
            locks.append(_lock(LOCKS, CHANGING))
        for number in sorted({*collections, *single}):  # in the same order everywhere: no deadlock
            locks.append(_lock(COLLECTIONS, number, shared=number not in single))
        # one statement for each: what is read after them is not older than they are
        capped = self._capped(collections) if self._serving else ()
        with self._transaction(self._session(), "", *locks, capped=capped) as session:
            yield session

    def _ready(self) -> None:
        if self._own is None or self._own.closed:
            self._own = None
            try:
                self.open(self._serving)
            except VersionError as error:
                raise StoreBroken(str(error), "version") from None
            except StoreError as error:
                raise StoreUnready(str(error), "connect") from None
            self.reconnects += 1

    @contextmanager
    def reading(self) -> Iterator[Session]:
        session = self._another()
        session.limit = self.settings.reading_seconds + 1
        try:
            limits = (self.settings.reading_seconds, self.settings.reading_seconds)
            session.begin("isolation level repeatable read read only", *limits)
            yield session
        except psycopg.Error as error:
            raise StoreUnready(said_by(error), error.sqlstate or "lost") from None
        finally:
            session.close()

    @contextmanager
    def sealing(self, session: Session, collection: Collection) -> Iterator[bool]:
        """The lock ends with the transaction of ``session``."""
        sql = "select pg_try_advisory_xact_lock(?, ?)"
        yield bool(session.rows(sql, (SEALING, collection.id))[0][0])

    def append(self, parcels: Sequence[Parcel], now: float, trusted: bool = True) -> None:
        try:
            while True:
                try:
                    return super().append(parcels, now, trusted)
                except Alone as needed:
                    self._alone.add(needed.collection)
                except RunAgain:
                    self._careful = CAREFUL
                finally:
                    self._end_turns()
        finally:
            self._alone.clear()
            self._careful = max(0, self._careful - 1)

    def probe(self) -> None:
        with self._writing() as session:
            self._catch_up(session)
            if self._serving:
                self._lease.renew(self._session())
            self._note_caps(session)

    def collectors(self, session: Session) -> int:
        sql = f"select count(distinct {PROCESS}) from shards where seen > {NOW} - {LEASE}"
        return int(session.rows(sql)[0][0])

    def size(self, session: Session) -> int:
        return int(session.rows("select pg_database_size(current_database())")[0][0])

    # -- the clock ---------------------------------------------------------------------------------

    def hear(self, clock: FleetClock) -> None:
        self.clock = clock
        self._ready()
        with self._transaction(self._session()):
            pass

    def agreed_time(self, session: Session, now: float) -> float:
        return now if self.clock is None else float(session.rows(f"select {NOW}")[0][0])

    # -- caps --------------------------------------------------------------------------------------

    def _room_left(self, session: Session, round_: Round, cap: int, asked: int) -> int:
        """Count within this process's share of the cap; if none is left, alone."""
        assert isinstance(session, PostgresSession)
        alone = round_.collection in self._single
        room = room_in_share(session, round_.id, self.shard, cap, asked, alone)
        if room is None:
            raise Alone(round_.collection)
        return room

    def _capped(self, collections: Some[int]) -> list[int]:
        """The numbers of the current rounds of those collections that have a cap."""
        known = (self.control.by_id(number) for number in collections)
        return [
            entry.round.id for entry in known if entry is not None and entry.terms.people is not None
        ]

    def return_shares(self, session: Session, collection: Collection) -> None:
        for round_ in collection.rounds:
            session.run("update heads set reserved = 0 where round = ?", (round_.id,))

    # -- other processes ---------------------------------------------------------------------------

    def _read_generation(self, session: Session) -> int:
        known = session.generation if isinstance(session, PostgresSession) else None
        return int(session.rows("select generation from control")[0][0]) if known is None else known

    def _mark_changed(self, session: Session, collection: int) -> None:
        sql = "update control set generation = generation + 1 returning generation"
        self._generation = int(session.rows(sql)[0][0])
        session.run("insert into changes values (?, ?)", (self._generation, collection))
        old = self._generation - KEPT_CHANGES
        session.run("delete from changes where generation <= ?", (old,))

    def _changed_since(self, session: Session, before: int, now: int) -> set[int] | None:
        sql = "select collection from changes where generation > ? and generation <= ?"
        rows = session.rows(sql, (before, now))
        return {int(row[0]) for row in rows} if len(rows) == now - before else None

    def refresh(self) -> None:
        """Read changes, and the counts of other processes."""
        self._ready()
        # one snapshot: sealing moves counts from shard to shard
        mode = "isolation level repeatable read read only"
        with self._transaction(self._session(), mode) as session:
            self._catch_up(session)
            self._follow(session)
        if [*self.open_ids]:
            # each look sees what is committed; what is wrong is told to the report that needs it
            with suppress(StoreBroken), self._transaction(self._session()) as session:
                self._follow_ids(session)

    def load(self, round_: Round) -> None:
        if round_.id not in self._live:
            self._ready()
            mode = "isolation level repeatable read read only"
            with self._transaction(self._session(), mode) as session:
                self._load(session, round_)

    def _reload_changed(self, number: int) -> None:
        mode = "isolation level repeatable read read only"
        with self._transaction(self._session(), mode) as session:
            self._reload_some(session, [number])
            self._reload_live(session, [number])

    def _record(
        self, session: Session, group: Group, segment: SegmentRow, cells: Integers, often: Integers
    ) -> None:
        """Log and head in one round trip; the counts in another, which commits them all."""
        assert isinstance(session, PostgresSession)
        (round_id, epoch, reports), parts = segment[:3], list(by_chunk(cells, often))
        at = (round_id, epoch, self.shard)
        given = (round_id, self.shard, reports, *segment, *at, [part[0] for part in parts])
        rows = session.rows(LOG, given)
        version, group.row = rows[0][:2]
        old = {chunk: chunk_counts(counts) for *_, chunk, counts in rows if chunk is not None}
        added = added_to(old, parts, at, version)
        if sum(len(row[-1]) for row in added) > AT_COMMIT:
            self._write_counts(session, added)
        else:
            session.run_at_commit(replacing_text(added))

    def _write_counts(self, session: Session, rows: list[CountsRow]) -> None:
        if rows:
            session.run(*replacing(rows))


def _lock(kind: int, number: int, shared: bool = False) -> str:
    """The statement that takes an advisory lock until the transaction ends."""
    return f"select pg_advisory_xact_lock{'_shared' if shared else ''}({kind}, {number})"
