"""The embedded store: one SQLite file in WAL mode. Every commit is on disk before it is acknowledged.

A lock file makes sure that one process serves a file at a time; the command line may change collections
and tokens meanwhile. While the disk is full, reports are refused. After any other input or output error
the state of the disk is unknown: the store stops for good, and nothing is retried.
"""

from __future__ import annotations

import os
from collections.abc import Collection as Some
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import apsw

from .collection import Round
from .id_store import IdStore
from .migrations import MIGRATIONS, SQLITE
from .open_ids import Epoch, EpochIds, LogIds, OpenIds
from .packed_ids import PackedIds
from .seen_ids import HELD, FolderScratch, Spoiled
from .sqlite_files import BUSY, SqliteSession, check_library, connected, lock_beside, make_private
from .store_interface import Session, StoreBroken, StoreError, StoreUnready


class SqliteStore(IdStore):
    """The SQLite store. ``vfs`` and ``synchronous`` are for tests of power loss."""

    kind = "sqlite"

    learn_from = HELD
    """Number of ids from which an epoch is read in a separate thread when the store is opened."""
    checkpoint_pages = 4000
    """Number of pages in the log after which they are moved into the database file."""

    def __init__(self, path: str | Path, vfs: str | None = None, synchronous: str = "FULL") -> None:
        super().__init__()
        self.path = Path(path)
        self._vfs, self._synchronous = vfs, synchronous
        self._connection: apsw.Connection | None = None
        self._lock_file: int | None = None
        self.open_ids = OpenIds(FolderScratch(self.path.parent))
        self.segments_folder = self.path.with_name(self.path.name + ".segments")
        self._unswept = False

    @property
    def place(self) -> str:
        return str(self.path)

    # -- opening -----------------------------------------------------------------------------------

    def open(self, serving: bool = True) -> None:
        """Connect, and create the file if it is missing. ``serving`` also locks it for this process."""
        check_library()
        if not self._vfs and not self.path.parent.is_dir():
            raise StoreError(f"the folder {self.path.parent} does not exist: create it for the store")
        if serving:
            self._take_lock()
        try:
            self._connection = self._connect()
            self._connection.set_wal_hook(self._committed)
            self._ready_tables()
            self.reload()
            self._generation = self._read_generation(self._session())
            if serving:
                self._learn_large()
        except BaseException:
            self.close()
            raise

    def _connect(self, flags: int | None = None) -> apsw.Connection:
        try:
            if flags is None and not self._vfs:
                make_private(self.path)
            connection = connected(self.path, flags, self._vfs, self._synchronous)
            # automatic checkpoints hide their errors: see _checkpoint
            connection.pragma("wal_autocheckpoint", 0)
            connection.pragma("mmap_size", 0)
        except (apsw.Error, OSError) as error:
            raise StoreError(f"cannot open the store {self.path}: {_plain(error)}") from None
        return connection

    def _ready_tables(self) -> None:
        ran = self.version()
        if ran == 0 and not self._session().rows("select 1 from sqlite_master limit 1"):
            self._migrate()
        elif ran < len(MIGRATIONS):
            raise StoreError(f"the store {self.path} is of an older version: run 'keyveil migrate'")
        elif ran > len(MIGRATIONS):
            raise StoreError(f"the store {self.path} is of a newer version than this keyveil")

    def _take_lock(self) -> None:
        try:
            self._lock_file = lock_beside(self.path)
        except OSError as error:
            raise StoreError(f"cannot open the store {self.path}: {error.strerror}") from None
        if self._lock_file is None:
            raise StoreError(f"the store {self.path} is being served by another process")

    def close(self) -> None:
        if self._connection is not None:
            with suppress(apsw.Error):
                self._connection.close()
            self._connection = None
        self.open_ids.forget([*self.open_ids])
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    # -- migrations --------------------------------------------------------------------------------

    def version(self) -> int:
        return int(self._session().rows("pragma user_version")[0][0])

    def migrate_alone(self) -> int:
        check_library()
        if self.path.is_file():  # if nothing is to do, another process may be serving the store
            self._connection = self._connect(apsw.SQLITE_OPEN_READWRITE)
            if self.version() == len(MIGRATIONS):
                return 0
            self.close()
        self._take_lock()
        self._connection = self._connect()
        self._connection.set_wal_hook(self._committed)
        return self._migrate()

    def _migrate(self) -> int:
        session = self._session()
        session.run("begin exclusive")
        try:
            first = self.version()
            for number in range(first, len(MIGRATIONS)):
                for statement in MIGRATIONS[number]:
                    session.run(statement.format(**SQLITE))
            session.run(f"pragma user_version = {len(MIGRATIONS)}")
            session.run("commit")
        except BaseException:
            self._roll_back()
            raise
        return len(MIGRATIONS) - first

    # -- transactions ------------------------------------------------------------------------------

    def _session(self) -> SqliteSession:
        if self._connection is None:
            raise StoreError("the store is not open")
        return SqliteSession(self._connection)

    @contextmanager
    def _writing(
        self, collections: Some[int] = (), change: bool = False, alone: Some[int] = ()
    ) -> Iterator[Session]:
        if self.broken:
            raise StoreBroken("the store has stopped")
        session = self._session()
        try:
            session.run("begin immediate")
            yield session
            session.run("commit")
        except apsw.FullError:
            self._roll_back()
            raise StoreUnready("the disk is full", "full") from None
        except (apsw.BusyError, apsw.LockedError):
            self._roll_back()
            raise StoreUnready("another process holds the store", "busy") from None
        except apsw.Error as error:
            self.broken = True
            self._roll_back()
            raise StoreBroken(f"the store failed: {_plain(error)}", "disk") from None
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            if connection.in_transaction:
                connection.execute("rollback")
        except apsw.Error:
            self.broken = True

    def _committed(self, connection: apsw.Connection, name: str, pages: int) -> int:
        """Called after each durable commit; moves a long log into the database file."""
        if pages >= self.checkpoint_pages:
            self._checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)
        return apsw.SQLITE_OK

    def _checkpoint(self, mode: int) -> bool:
        """Move the log into the database file; whether that succeeded.

        Acknowledged reports are on disk in any case. After a failed sync nothing more may be
        acknowledged.
        """
        try:
            assert self._connection is not None
            self._connection.wal_checkpoint(mode=mode)
        except (apsw.BusyError, apsw.LockedError, apsw.FullError):
            return False  # try again at the next checkpoint
        except apsw.Error:
            self.broken = True
            return False
        return True

    @contextmanager
    def reading(self) -> Iterator[Session]:
        try:
            connection = self._connect(apsw.SQLITE_OPEN_READWRITE)
        except StoreError as error:
            raise StoreUnready(str(error)) from None
        try:
            connection.execute("begin")
            yield SqliteSession(connection)
        except apsw.Error as error:
            raise StoreUnready(f"the store cannot be read: {_plain(error)}") from None
        finally:
            with suppress(apsw.Error):
                connection.close()

    # -- other processes ---------------------------------------------------------------------------

    def _read_generation(self, session: Session) -> int:
        return int(self._session().rows("pragma data_version")[0][0])

    def size(self, session: Session) -> int:
        paths = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(path.stat().st_size for path in paths if path.exists())

    def probe(self) -> None:
        """Write what the file holds already; the commit is synced like any other."""
        with self._writing() as session:
            session.run(f"pragma user_version = {len(MIGRATIONS)}")
            self._note_caps(session)

    def refresh(self) -> None:
        """Read the changes made by the command line."""
        try:
            super().refresh()
            if self._unswept and not self.broken:
                self._swept()
        except apsw.Error as error:
            self._generation = -1
            raise StoreUnready(f"the store cannot be read: {_plain(error)}") from None

    def _reload_changed(self, number: int) -> None:
        try:
            super()._reload_changed(number)
        except apsw.Error as error:  # memory is now older than the store
            self.broken = True
            raise StoreBroken(f"the store failed: {_plain(error)}") from None

    # -- ids ---------------------------------------------------------------------------------------

    def _learn_large(self) -> None:
        """Start reading the ids of large epochs, so that no report waits for all of them."""
        session = self._session()
        sql = "select epoch, sum(reports) from segments where round = ? and epoch >= ? group by epoch"
        for collection in self.control.collections.values():
            for round_ in collection.rounds:
                for epoch, reports in session.rows(sql, (round_.id, collection.closed_before)):
                    if reports >= self.learn_from:
                        at = (round_.id, epoch)
                        self.open_ids.learn(at, partial(self._read_apart, at))

    def _learning(self, session: Session, round_: Round, epoch: int) -> bool:
        return self.open_ids.learning((round_.id, epoch))

    def _read_ids(self, session: Session, at: Epoch) -> Iterator[LogIds]:
        for row in session.stream("select ids from segments where round = ? and epoch = ?", at):
            yield LogIds(row[0])

    def _known(
        self, session: Session, round_: Round, epoch: int, ids: Sequence[bytes], sure: bool = True
    ) -> set[int]:
        at = (round_.id, epoch)
        for _ in range(2):  # the set is only an index: the log has all ids, and it is read again
            try:
                return self._epoch_ids(session, at).known(ids)[0]
            except Spoiled:
                self.open_ids.forget([at])
        raise StoreUnready("the index of ids next to the store is damaged")

    def _counted(self, round_: Round, epoch: int, ids: Sequence[bytes]) -> None:
        # only now: ids of a failed transaction must not be taken for counted ones
        at = (round_.id, epoch)
        known = self.open_ids.get(at)
        if known is None:
            known = EpochIds(self.open_ids.scratch)
        known.add(LogIds(PackedIds.of(ids).packed))
        self.open_ids.keep(at, known)

    def _swept(self) -> None:
        """Remove deleted rows from the log as well; tried again later if someone still reads from it."""
        connection = self._connection
        assert connection is not None
        connection.set_busy_timeout(0)  # reports must not wait for a reader
        try:
            self._unswept = not self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            connection.set_busy_timeout(BUSY)


def _plain(error: Exception) -> str:
    """An error without the values of its statement."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
