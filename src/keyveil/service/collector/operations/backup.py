"""Backup of a store and its sealed epochs while it is served.

A backup is a folder with a SQLite file of all tables, the files of sealed epochs, the keys of open
epochs, and a manifest. The rows are copied as of one time, from either kind of store, and ``restore``
makes either kind from them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from ....foundation.files import write_whole
from ..store import Session, Store, StoreError, StoreUnready, store_at
from ..store.collection import Control
from ..store.epoch_keys import FOLDER as KEYS
from ..store.epoch_keys import KeyFolder
from ..store.migrations import MIGRATIONS, SQLITE
from ..store.segments import MANIFEST as MANIFEST_FILE
from ..store.segments import check_files, files_of, folder_of, hash_of, make_folder, sync
from ..store.sqlite import SqliteStore
from ..store.sqlite_files import SqliteSession

FORMAT = "keyveil/backup/1"
DATABASE, SEGMENTS, MANIFEST = "store.sqlite", "segments", "backup.json"
ROWS = 100
"""Number of rows copied at a time; a row of the log may have a hundred thousand bytes."""
TRIES = 3
"""Number of attempts.

Between the copy of the store and that of the files an epoch may expire or a collection be deleted.
"""


def _make_work(work: Path, target: Path) -> None:
    try:
        work.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise StoreError(f"cannot write the backup {target}: {error.strerror}") from None


def backup(source: str | Path, segments: Path, target: Path) -> dict[str, Any]:
    """Copy a store as of one time, with the files of its sealed epochs; the facts of the copy.

    The folder appears only when it is complete. It does not contain reports that arrive meanwhile.
    """
    store = store_at(str(source))
    if isinstance(store, SqliteStore) and not store.path.is_file():
        raise StoreError(f"there is no store at {store.path}")
    if target.exists():
        raise StoreError(f"{target} exists already: name a new folder")
    work = target.with_name(f".{target.name}.part")
    try:
        for left in reversed(range(TRIES)):
            shutil.rmtree(work, ignore_errors=True)
            _make_work(work, target)
            _copy_store(store, work / DATABASE)
            try:
                files = copy_segments(work / DATABASE, segments, work / SEGMENTS)
                _copy_keys(work / DATABASE, segments, work / SEGMENTS, must=left > 0)
                break
            except FileNotFoundError:
                if not left:
                    raise StoreError("a segment is missing: run 'keyveil verify'") from None
        facts = {"format": FORMAT, "sha256": hash_of(work / DATABASE), "files": files}
        write_whole(work / MANIFEST, json.dumps(facts, indent=1).encode(), private=True)
        os.replace(work, target)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    sync(target.parent)
    return facts


def _copy_store(store: Store, target: Path) -> None:
    """Copy all rows of our tables in one read transaction, while others write."""
    with opened(store), store.reading() as source:
        _copy_rows(source, store.kind, target)
    try:
        copy = apsw.Connection(str(target))
        copy.pragma("journal_mode", "delete")
        verdict = copy.execute("pragma integrity_check").fetchall()
        copy.close()
    except apsw.Error as error:
        raise StoreError(f"the store cannot be copied: {type(error).__name__}") from None
    if verdict != [("ok",)]:
        raise StoreError("the copy failed its integrity check: the disk may be damaged")
    os.chmod(target, 0o600)
    sync(target)


def _copy_rows(source: Session, kind: str, target: Path) -> None:
    copy = SqliteStore(target)

    def fill(session: Session, control: Control) -> None:
        for table in own_tables().values():
            copy_table(source, session, table)
        set_last_ids(session, last_ids(source, kind))

    with opened(copy):
        copy.change(fill)


def copy_segments(database: Path, segments: Path, target: Path) -> int:
    """Copy every file that the copied store names; their number. These files never change."""
    store = SqliteStore(database)
    number = 0
    try:
        with opened(store), store.reading() as session:
            for collection in store.control.collections.values():
                for round_ in collection.rounds:
                    for sealed in store.sealed(session, round_):
                        if sealed.expired:
                            continue
                        here = folder_of(segments, collection, round_, sealed.epoch)
                        there = folder_of(target, collection, round_, sealed.epoch)
                        make_folder(there)
                        for name in [MANIFEST_FILE, *names_of(sealed.manifest)]:
                            copy_file(here / name, there / name)
                            number += 1
                        sync(there)
                        if check_files(there, sealed.manifest):
                            raise StoreError("a segment does not match its check: run 'keyveil verify'")
    finally:
        for left in database.parent.glob(f"{DATABASE}-*"):
            left.unlink(missing_ok=True)
    make_folder(target)
    return number


def _copy_keys(database: Path, segments: Path, target: Path, must: bool) -> None:
    """Copy the keys of open epochs. A missing key is an error if ``must`` is true."""
    reader = open_copy(database)
    try:
        names = [row[0] for row in SqliteSession(reader).rows("select name from id_keys")]
    finally:
        reader.close()
    here, there = KeyFolder(segments / KEYS), KeyFolder(target / KEYS)
    if names:
        make_folder(there.folder)
    for name in names:
        if here.read(name) is not None:
            copy_file(here.path(name), there.path(name))
        elif must:  # its epoch may have been closed since
            raise FileNotFoundError
    if names:
        sync(there.folder)


# -- rows ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BackupTable:
    """A table of the store in SQLite."""

    name: str
    sql: str
    columns: dict[str, tuple[str, bool]]
    """For each column the type of its values, and whether they may be null."""

    @property
    def counted(self) -> bool:
        """Whether the database numbers its rows."""
        return "autoincrement" in self.sql


def own_tables(version: int | None = None) -> dict[str, BackupTable]:
    """The tables of a store of this or an older version, by name."""
    connection = apsw.Connection(":memory:")
    make_tables(connection, version)
    sql = "select name, sql from sqlite_master where type = 'table' and name not like 'sqlite_%'"
    columns = 'select name, lower(type), "notnull" or pk from pragma_table_info(?)'
    tables = {}
    session = SqliteSession(connection)
    for name, text in session.rows(sql):
        types = {row[0]: (row[1], not row[2]) for row in session.rows(columns, (name,))}
        tables[name] = BackupTable(name, text, types)
    connection.close()
    return tables


def make_tables(connection: apsw.Connection, version: int | None = None) -> None:
    """Create the tables of a version in an empty file."""
    steps = MIGRATIONS[:version]
    for step in steps:
        for statement in step:
            connection.execute(statement.format(**SQLITE))
    connection.execute(f"pragma user_version = {len(steps)}")


def copy_table(source: Session, target: Session, table: BackupTable) -> None:
    """Copy all rows of a table, a few at a time."""
    names = ", ".join(table.columns)
    marks = ", ".join("?" * len(table.columns))
    sql = f"insert into {table.name} ({names}) values ({marks})"
    for rows in _batches(source.stream(f"select {names} from {table.name}")):
        target.many(sql, rows)


def last_ids(source: Session, kind: str, version: int | None = None) -> dict[str, int]:
    """The highest row number that each numbered table has used, deleted rows included."""
    numbers = {}
    for table in own_tables(version).values():
        if table.counted:
            if kind == "sqlite":
                sql = "select seq from sqlite_sequence where name = ? and typeof(seq) = 'integer'"
            else:
                sql = "select pg_sequence_last_value(pg_get_serial_sequence(?, 'id')::regclass)"
            rows = [row[0] for row in source.rows(sql, (table.name,)) if row[0] is not None]
            rows += [row[0] for row in source.rows(f"select max(id) from {table.name}") if row[0]]
            numbers[table.name] = max(rows, default=0)
    return numbers


def set_last_ids(target: Session, last: dict[str, int]) -> None:
    """Set the numbers from which a SQLite file continues."""
    target.run("delete from sqlite_sequence")
    rows = [(name, number) for name, number in last.items() if number > 0]
    target.many("insert into sqlite_sequence (name, seq) values (?, ?)", rows)


def open_copy(database: Path) -> apsw.Connection:
    """Open a copy read-only, so that it does not change by a single byte."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"file:{quote(str(database.resolve()))}?immutable=1", flags=flags)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    return connection


def _batches(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    left = iter(rows)
    while batch := list(islice(left, ROWS)):
        yield batch


@contextmanager
def opened(store: Store) -> Iterator[None]:
    """Open a store for a while. A store that cannot be reached raises a one-line error."""
    try:
        store.open(serving=False)
        yield
    except StoreUnready as error:
        raise StoreError(f"the store cannot be used now: {error}") from None
    finally:
        store.close()


# -- files -----------------------------------------------------------------------------------------


def copy_file(source: Path, target: Path) -> None:
    """Copy a file durably, readable by its owner only."""
    shutil.copyfile(source, target)
    os.chmod(target, 0o600)
    sync(target)


def names_of(manifest: dict[str, Any]) -> list[str]:
    """The files of a sealed epoch without its manifest."""
    return [file["name"] for file in files_of(manifest)]
