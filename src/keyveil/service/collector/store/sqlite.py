"""The embedded store: one SQLite file in WAL mode, every commit on disk before it is acknowledged.

One process serves a file at a time (a lock beside it sees to that); the CLI may change collections
and tokens meanwhile. A disk that is full refuses reports until it has room. Any other error of
input or output leaves it unknown what is on disk: the store stops for good, and nothing is retried.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from ....foundation.files import open_lock, take_lock
from .collection import Control, Round
from .migrations import MIGRATIONS, SQLITE
from .scratch import FolderScratch
from .seen_ids import HELD, IdSet, Scratch, Spoiled
from .store_base import Store
from .store_interface import Session, StoreBroken, StoreError, StoreUnready

BUSY = 10_000
"""Milliseconds for which a connection waits for another."""
NEEDED = (3, 51, 3)
"""Before this version two connections could corrupt the log when it was reset."""


def make_private(path: Path) -> None:
    """A new file is its owner's alone from the beginning; one that is there stays as it is."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def connected(
    path: Path, flags: int | None = None, vfs: str | None = None, synchronous: str = "FULL"
) -> apsw.Connection:
    """A connection whose commits are on disk, and which overwrites what it deletes."""
    flags = flags or apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
    connection.set_busy_timeout(BUSY)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", synchronous)
    connection.pragma("secure_delete", 1)
    return connection


def lock_beside(path: Path) -> int | None:
    """The lock that one process has of a file, until the handle is closed; None if another has it."""
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


class _Learner:
    """Reads the ids of one epoch in a thread of its own.

    The store takes no reports of that epoch meanwhile, so what is read is all there is.
    """

    def __init__(self, store: SqliteStore, round_id: int, epoch: int) -> None:
        self._store, self._one, self._epoch = store, round_id, epoch
        self.found: IdSet | None = None
        self.done = threading.Event()
        self._unwanted = False
        self._thread = threading.Thread(target=self._work, name="keyveil-ids", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            with self._store.reading() as session:
                self.found = IdSet.of(self._read(session), self._store._scratch)
        except (StoreUnready, apsw.Error, OSError, _Unwanted):
            pass
        finally:
            self.done.set()

    def _read(self, session: Session) -> Iterator[bytes]:
        for packed in self._store._read_ids(session, self._one, self._epoch):
            if self._unwanted:
                raise _Unwanted
            yield packed

    def end(self) -> None:
        """It is not needed any more."""
        self._unwanted = True
        self._thread.join()
        if self.found is not None:
            self.found.close()


class _Unwanted(Exception):
    pass


class SqliteStore(Store):
    """A file, nothing else to start. ``vfs`` and ``synchronous`` are for tests of lost power."""

    kind = "sqlite"

    learn_from = HELD
    """An epoch with so many ids is read apart when the store is opened; a smaller one at once."""
    checkpoint_pages = 4000
    """Pages of the log after which they are moved into the file."""

    def __init__(self, path: str | Path, vfs: str | None = None, synchronous: str = "FULL") -> None:
        super().__init__()
        self.path = Path(path)
        self._vfs, self._synchronous = vfs, synchronous
        self._connection: apsw.Connection | None = None
        self._lock_file: int | None = None
        self._data_version = -1
        self._ids: dict[tuple[int, int], IdSet] = {}
        self._learners: dict[tuple[int, int], _Learner] = {}
        self._scratch: Scratch = FolderScratch(self.path.parent)
        self.segments_folder = self.path.with_name(self.path.name + ".segments")
        self._unswept = False

    # -- opening -----------------------------------------------------------------------------------

    def open(self, serving: bool = True) -> None:
        """Connect; ``serving`` also takes the file for this process alone. A new file is made."""
        check_library()
        if serving:
            self._take_lock()
        try:
            self._connection = self._connect()
            self._connection.set_wal_hook(self._committed)
            self._ready_tables()
            self.reload()
            self._data_version = self._read_data_version()
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
            connection.pragma("wal_autocheckpoint", 0)  # its errors would go unnoticed: see _checkpoint
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
        self._forget(lambda round_id, epoch: True)
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    # -- migrations --------------------------------------------------------------------------------

    def version(self) -> int:
        return int(self._session().rows("pragma user_version")[0][0])

    def migrate_alone(self) -> int:
        check_library()
        if self.path.is_file():  # where nothing is to do, it may be served
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
    def _writing(self, exclusive: bool = False) -> Iterator[Session]:
        if self.broken:
            raise StoreBroken("the store has stopped")
        session = self._session()
        try:
            session.run("begin immediate")
            yield session
            session.run("commit")
        except apsw.FullError:
            self._roll_back()
            raise StoreUnready("the disk is full") from None
        except (apsw.BusyError, apsw.LockedError):
            self._roll_back()
            raise StoreUnready("another process holds the store") from None
        except apsw.Error as error:
            self.broken = True
            self._roll_back()
            raise StoreBroken(f"the store failed: {_plain(error)}") from None
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
        """A commit is durable; now and then the log is moved into the file."""
        if pages >= self.checkpoint_pages:
            self._checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)
        return apsw.SQLITE_OK

    def _checkpoint(self, mode: int) -> bool:
        """Move the log into the file, and say whether that was done. What is acknowledged is on disk
        either way, but after an error of a sync nothing more may be."""
        try:
            assert self._connection is not None
            self._connection.wal_checkpoint(mode=mode)
        except (apsw.BusyError, apsw.LockedError, apsw.FullError):
            return False  # the next one will do
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

    def _read_data_version(self) -> int:
        return int(self._session().rows("pragma data_version")[0][0])

    def _changed(self, session: Session) -> bool:
        version = self._read_data_version()
        changed = version != self._data_version
        self._data_version = version
        return changed

    def _mark_changed(self, session: Session) -> None:
        """SQLite counts changes itself."""

    def reload(self, session: Session | None = None) -> Control:
        """Read collections and tokens anew; ids of what is closed or gone are let go."""
        control = super().reload(session)
        every = control.collections.values()
        open_from = {
            round_.id: collection.closed_before for collection in every for round_ in collection.rounds
        }
        self._forget(lambda round_id, epoch: round_id not in open_from or epoch < open_from[round_id])
        return control

    def refresh(self) -> None:
        """See what the CLI has changed since."""
        try:
            super().refresh()
            if self._unswept and not self.broken:
                self._swept()
        except apsw.Error as error:
            self._data_version = -1
            raise StoreUnready(f"the store cannot be read: {_plain(error)}") from None

    def _reload_changed(self, live: bool = False) -> None:
        try:
            super()._reload_changed(live)
        except apsw.Error as error:  # what is in memory is older than what is stored
            self.broken = True
            raise StoreBroken(f"the store failed: {_plain(error)}") from None

    # -- ids ---------------------------------------------------------------------------------------

    def _learn_large(self) -> None:
        """Begin to read the ids of large epochs, so that no report has to wait for all of them."""
        session = self._session()
        sql = "select epoch, sum(reports) from segments where round = ? and epoch >= ? group by epoch"
        for collection in self.control.collections.values():
            for round_ in collection.rounds:
                for epoch, reports in session.rows(sql, (round_.id, collection.closed_before)):
                    if reports >= self.learn_from:
                        self._learn(round_.id, epoch)

    def _learn(self, round_id: int, epoch: int) -> None:
        if (round_id, epoch) not in self._learners:
            self._learners[round_id, epoch] = _Learner(self, round_id, epoch)

    def _learning(self, round_: Round, epoch: int) -> bool:
        learner = self._learners.get((round_.id, epoch))
        if learner is None:
            return False
        if not learner.done.is_set():
            return True
        del self._learners[round_.id, epoch]
        if learner.found is not None:  # else it is read when it is asked for, and fails as that does
            self._ids[round_.id, epoch] = learner.found
        return False

    def _read_ids(self, session: Session, round_id: int, epoch: int) -> Iterator[bytes]:
        sql = "select ids from segments where round = ? and epoch = ?"
        for row in session.stream(sql, (round_id, epoch)):
            yield row[0]

    def _set(self, session: Session, round_: Round, epoch: int) -> IdSet:
        """The ids of an epoch, rebuilt from the log when first asked for.

        An epoch without any is not remembered: whoever names epochs at random fills no memory.
        """
        ids = self._ids.get((round_.id, epoch))
        if ids is None:
            ids = IdSet.of(self._read_ids(session, round_.id, epoch), self._scratch)
            if len(ids):
                self._ids[round_.id, epoch] = ids
        return ids

    def _known(self, session: Session, round_: Round, epoch: int, ids: list[bytes]) -> set[int]:
        try:
            return self._set(session, round_, epoch).known(ids)
        except Spoiled:  # it is only an index: the log has it all
            self._forget(lambda *key: key == (round_.id, epoch))
        try:
            return self._set(session, round_, epoch).known(ids)
        except Spoiled:
            self._forget(lambda *key: key == (round_.id, epoch))
            raise StoreUnready("what was written beside the store is read otherwise") from None

    def claim_ids(self, session: Session, round_: Round, epoch: int, ids: list[bytes]) -> set[int]:
        return self._known(session, round_, epoch, ids)

    def _claimed(self, round_: Round, epoch: int, ids: list[bytes]) -> None:
        # only now: ids of a transaction that failed must not be taken for counted ones
        known = self._ids.get((round_.id, epoch))
        if known is None:
            known = self._ids[round_.id, epoch] = IdSet(self._scratch)
        known.add(ids)

    def _forget(self, which: Callable[[int, int], bool]) -> None:
        """Let go of the ids of some rounds and epochs, and of their files."""
        for key in list(self._ids):
            if which(*key):
                self._ids.pop(key).close()
        for key in list(self._learners):
            if which(*key):
                self._learners.pop(key).end()

    def _drop_ids(self, session: Session, round_: Round, epoch: int | None) -> Callable[[], None]:
        return lambda: self._forget(lambda round_id, at: round_id == round_.id and epoch in (None, at))

    def _swept(self) -> None:
        """What was dropped also leaves the log; at the next look, if someone still reads from it."""
        connection = self._connection
        assert connection is not None
        connection.set_busy_timeout(0)  # reports do not wait for a reader
        try:
            self._unswept = not self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            connection.set_busy_timeout(BUSY)


def check_library() -> None:
    """Refuse a library with the known fault."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < NEEDED:
        needed = ".".join(map(str, NEEDED))
        raise StoreError(f"SQLite {apsw.sqlite_lib_version()} can corrupt its log; {needed} or newer")


def _plain(error: Exception) -> str:
    """An error without what a statement carried."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
