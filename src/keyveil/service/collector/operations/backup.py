"""Backup of a store and its segments while it is served.

A backup is a folder: a SQLite file with every table, the segments that it names, the keys of its open
epochs, and a manifest. Rows are copied as of one moment, of either kind of store; ``restore`` makes
either kind of them.
"""

from __future__ import annotations

import hashlib
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
from ..store.segments import check_files, files_of, folder_of, make_folder, sync
from ..store.sqlite import SqliteSession, SqliteStore

FORMAT = "keyveil/backup/1"
DATABASE, SEGMENTS, MANIFEST = "store.sqlite", "segments", "backup.json"
ROWS = 100
"""Copied at once; a row of the log may have a hundred thousand bytes."""
TRIES = 3
"""Copies that are begun: an epoch may expire, or a collection be deleted, between store and segments."""


def backup(source: str | Path, segments: Path, target: Path) -> dict[str, Any]:
    """Copy a store as of one moment, with the segments it names; the facts of what was copied.

    The folder appears only when it is complete. Reports that come meanwhile are not in it.
    """
    store = store_at(str(source))
    if isinstance(store, SqliteStore) and not store.path.is_file():
        raise StoreError(f"there is no store at {store.path}")
    if target.exists():
        raise StoreError(f"{target} is there already: name a new folder")
    work = target.with_name(f".{target.name}.part")
    try:
        for left in reversed(range(TRIES)):
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(mode=0o700, parents=True)
            _copy_store(store, work / DATABASE)
            try:
                files = _copy_segments(work / DATABASE, segments, work / SEGMENTS)
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
    """All rows of our own tables, under one read transaction; writers go on meanwhile."""
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
        raise StoreError("the copy is not sound: the disk may be damaged")
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


def _copy_segments(database: Path, segments: Path, target: Path) -> int:
    """Copy every file that the copied store names; they never change once they are written."""
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
    """Copy the keys of open epochs; one that is missing is an error if it ``must`` be there."""
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
        elif must:  # its epoch may have been closed meanwhile
            raise FileNotFoundError
    if names:
        sync(there.folder)


# -- rows ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BackupTable:
    """A table of ours, as SQLite has it."""

    name: str
    sql: str
    columns: dict[str, tuple[str, bool]]
    """Of each column the type of its values, and whether they may be null."""

    @property
    def counted(self) -> bool:
        """Whether the database numbers its rows."""
        return "autoincrement" in self.sql


def own_tables(version: int | None = None) -> dict[str, BackupTable]:
    """The tables of a store of this version, or of an older one, by name; every store has them."""
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
    """Make the tables of a version in an empty file."""
    steps = MIGRATIONS[:version]
    for step in steps:
        for statement in step:
            connection.execute(statement.format(**SQLITE))
    connection.execute(f"pragma user_version = {len(steps)}")


def copy_table(source: Session, target: Session, table: BackupTable) -> None:
    """Copy all rows of a table, few in memory at a time."""
    names = ", ".join(table.columns)
    marks = ", ".join("?" * len(table.columns))
    sql = f"insert into {table.name} ({names}) values ({marks})"
    for rows in _batches(source.stream(f"select {names} from {table.name}")):
        target.many(sql, rows)


def last_ids(source: Session, kind: str, version: int | None = None) -> dict[str, int]:
    """The last number that each counted table gave to a row, deleted ones included."""
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
    """Let a SQLite file go on counting from there."""
    target.run("delete from sqlite_sequence")
    rows = [(name, number) for name, number in last.items() if number > 0]
    target.many("insert into sqlite_sequence (name, seq) values (?, ?)", rows)


def open_copy(database: Path) -> apsw.Connection:
    """A copy, for reading alone: immutable, so that it stays as it is, to the last byte."""
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
    """A store for a while; one that cannot be reached is said in a line."""
    try:
        store.open(serving=False)
        yield
    except StoreUnready as error:
        raise StoreError(f"the store cannot be used now: {error}") from None
    finally:
        store.close()


# -- files -----------------------------------------------------------------------------------------


def copy_file(source: Path, target: Path) -> None:
    """A copy that is its owner's alone, and on disk."""
    shutil.copyfile(source, target)
    os.chmod(target, 0o600)
    sync(target)


def hash_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def names_of(manifest: dict[str, Any]) -> list[str]:
    """The files of a sealed epoch beside its manifest."""
    return [file["name"] for file in files_of(manifest)]
