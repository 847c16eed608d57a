"""Backup of a store and its segments while it is served, and the way back.

A backup is a folder: a SQLite file with every table, the segments that it names, and a manifest. A file
is copied page by page, a database row by row as of one moment; either can be restored as either.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import apsw

from ..files import write_whole
from .collections import Collection, Control, Round, Terms
from .ids import split
from .segments import MANIFEST as MANIFEST_FILE
from .segments import check_files, folder_of, make_folder, sync
from .store import Session, Store, StoreError, StoreUnready, store_at
from .store.migrations import MIGRATIONS
from .store.sqlite import SqliteSession, SqliteStore

FORMAT = "keyveil/backup/1"
DATABASE, SEGMENTS, MANIFEST = "store.sqlite", "segments", "backup.json"
DAMAGED = "the backup does not match its check: it is damaged or not complete"
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
                break
            except FileNotFoundError:
                if not left:
                    raise StoreError("a segment is missing: run 'keyveil verify'") from None
        facts = {"format": FORMAT, "sha256": _hash(work / DATABASE), "files": files}
        write_whole(work / MANIFEST, json.dumps(facts, indent=1).encode(), private=True)
        os.replace(work, target)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    sync(target.parent)
    return facts


def _copy_store(store: Store, target: Path) -> None:
    """A whole copy under one read transaction; writers go on meanwhile."""
    if isinstance(store, SqliteStore):
        _copy_pages(store.path, target)
    else:
        with _opened(store), store.reading() as source:
            _copy_rows(source, target)
    try:
        copy = apsw.Connection(str(target))
        copy.pragma("journal_mode", "delete")
        found = copy.execute("pragma integrity_check").fetchall()
        copy.close()
    except apsw.Error as error:
        raise StoreError(f"the store cannot be copied: {type(error).__name__}") from None
    if found != [("ok",)]:
        raise StoreError("the copy is not sound: the store may be damaged")
    os.chmod(target, 0o600)
    sync(target)


def _copy_pages(source: Path, target: Path) -> None:
    try:
        reader = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
        reader.set_busy_timeout(10_000)
        writer = apsw.Connection(str(target))
        with writer.backup("main", reader, "main") as copying:
            copying.step(-1)
        writer.close()
        reader.close()
    except apsw.Error as error:
        raise StoreError(f"the store cannot be copied: {type(error).__name__}") from None


def _copy_rows(source: Session, target: Path) -> None:
    made = SqliteStore(target)

    def fill(session: Session, control: Control) -> None:
        for table, columns in tables(session).items():
            copy_table(source, session, table, columns)

    with _opened(made):
        made.change(fill)


def _copy_segments(database: Path, segments: Path, target: Path) -> int:
    """Copy every file that the copied store names; they never change once they are written."""
    store = SqliteStore(database)
    number = 0
    try:
        with _opened(store), store.reading() as session:
            for collection in store.control.collections.values():
                for one in collection.rounds:
                    for sealed in store.sealed(session, one):
                        if sealed.expired:
                            continue
                        here = folder_of(segments, collection, one, sealed.epoch)
                        there = folder_of(target, collection, one, sealed.epoch)
                        make_folder(there)
                        for name in files_of(sealed.manifest):
                            _copy_file(here / name, there / name)
                            number += 1
                        sync(there)
                        if check_files(there, sealed.manifest):
                            raise StoreError("a segment does not match its check: run 'keyveil verify'")
    finally:
        for left in database.parent.glob(f"{DATABASE}-*"):
            left.unlink(missing_ok=True)
    make_folder(target)
    return number


# -- the way back ------------------------------------------------------------------------------------


def restore(source: Path, target: str | Path, segments: Path) -> None:
    """Put a backup where a store shall be; never over one that is there."""
    try:
        facts = json.loads((source / MANIFEST).read_bytes())
    except (OSError, ValueError):
        raise StoreError(f"{source} is no backup: it has no readable {MANIFEST}") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise StoreError(f"{source} is no backup of this version")
    store = store_at(str(target))
    for place in (segments, *([store.path] if isinstance(store, SqliteStore) else ())):
        if place.exists() and (place.is_file() or any(place.iterdir())):
            raise StoreError(f"{place} is there already: a restore never writes over a store")
    try:
        sound = _hash(source / DATABASE) == facts["sha256"]
    except OSError:
        sound = False
    if not sound:
        raise StoreError(DAMAGED)
    named = _check_segments(source / DATABASE, source / SEGMENTS)
    if isinstance(store, SqliteStore):
        _restore_segments(source / SEGMENTS, segments, named)  # before the store that names them
        part = store.path.with_name(f".{store.path.name}.part")
        _copy_file(source / DATABASE, part)
        os.replace(part, store.path)
        sync(store.path.parent)
    else:
        before = partial(_restore_segments, source / SEGMENTS, segments, named)
        _restore_rows(source / DATABASE, store, before)


def _check_segments(database: Path, segments: Path) -> list[Path]:
    """The files that a backup's store names, each as its manifest says; refused whole otherwise."""
    reader = _reader(database)
    session = SqliteSession(reader)
    sql = (
        "select collections.name, collections.id, rounds.number, sealed.epoch, sealed.manifest "
        "from sealed join rounds on rounds.id = sealed.round "
        "join collections on collections.id = rounds.collection where sealed.expired = 0"
    )
    named = []
    try:
        for name, number, one, epoch, text in session.rows(sql):
            manifest = json.loads(text)
            collection = Collection(number, name, "", Terms(), 0)
            folder = folder_of(segments, collection, Round(0, number, one, ""), epoch)
            if check_files(folder, manifest) or not _is_manifest(folder / MANIFEST_FILE, manifest):
                raise StoreError(f"{DAMAGED}: a segment of {name!r}, epoch {epoch}")
            named += [(folder / file).relative_to(segments) for file in files_of(manifest)]
    except apsw.Error as error:
        raise StoreError(f"{DAMAGED}: {type(error).__name__}") from None
    finally:
        reader.close()
    return named


def _is_manifest(path: Path, manifest: dict[str, Any]) -> bool:
    try:
        return bool(json.loads(path.read_bytes()) == manifest)
    except (OSError, ValueError):
        return False


def files_of(manifest: dict[str, Any]) -> list[str]:
    """The files of a sealed epoch."""
    return [MANIFEST_FILE, *(file["name"] for file in manifest["files"])]


def _reader(database: Path) -> apsw.Connection:
    """immutable: reading leaves the backup as it is, to the last byte."""
    return apsw.Connection(
        f"file:{database.resolve()}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    )


def _restore_segments(source: Path, target: Path, named: list[Path]) -> None:
    make_folder(target)
    for path in named:
        make_folder((target / path).parent)
        _copy_file(source / path, target / path)
    for path in (target, *target.rglob("*")):
        sync(path)


def _restore_rows(database: Path, store: Store, before: Callable[[], None]) -> None:
    """Fill an empty database in one transaction; ``before`` runs when nothing is in the way."""
    try:
        store.migrate_alone()
    finally:
        store.close()
    reader = _reader(database)
    source = SqliteSession(reader)
    if source.rows("pragma user_version") != [(len(MIGRATIONS),)]:
        raise StoreError("the backup is of another version: restore it as a file, and migrate that")

    def fill(session: Session, control: Control) -> None:
        known = tables(source)
        if any(session.rows(f"select 1 from {table} limit 1") for table in known):
            raise StoreError("the database has a store already: a restore never writes over one")
        before()
        for table, columns in known.items():
            copy_table(source, session, table, columns)
        for table, last in source.rows("select name, seq from sqlite_sequence"):
            session.rows("select setval(pg_get_serial_sequence(?, 'id'), ?)", (table, max(last, 1)))
        sql = (
            "select round, epoch, ids from segments where not exists (select 1 from sealed "
            "where sealed.round = segments.round and sealed.epoch = segments.epoch)"
        )
        for number, epoch, ids in source.stream(sql):
            store._claim(session, Round(number, 0, 0, ""), epoch, split(ids))

    try:
        with _opened(store):
            store.change(fill)
    finally:
        reader.close()


# -- rows ------------------------------------------------------------------------------------------


def tables(session: Session) -> dict[str, list[str]]:
    """The tables of a SQLite store, which every store has, and their columns."""
    sql = "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"
    columns = "select name from pragma_table_info(?)"
    return {name: [row[0] for row in session.rows(columns, (name,))] for (name,) in session.rows(sql)}


def copy_table(source: Session, target: Session, table: str, columns: list[str]) -> None:
    """Copy all rows of a table, few in memory at a time."""
    names = ", ".join(columns)
    sql = f"insert into {table} ({names}) values ({', '.join('?' * len(columns))})"
    for rows in _batches(source.stream(f"select {names} from {table}")):
        target.many(sql, rows)


def _batches(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    left = iter(rows)
    while batch := list(islice(left, ROWS)):
        yield batch


@contextmanager
def _opened(store: Store) -> Iterator[None]:
    """A store for a while; one that cannot be reached is said in a line."""
    try:
        store.open(serving=False)
        yield
    except StoreUnready as error:
        raise StoreError(f"the store cannot be used now: {error}") from None
    finally:
        store.close()


# -- files -----------------------------------------------------------------------------------------


def _copy_file(source: Path, target: Path) -> None:
    """A copy that is its owner's alone, and on disk."""
    shutil.copyfile(source, target)
    os.chmod(target, 0o600)
    sync(target)


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
