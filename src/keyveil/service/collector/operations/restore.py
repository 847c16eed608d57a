"""Restore a backup as a store of either kind, or refuse it as a whole.

A backup may come from anywhere, so nothing in it is trusted. Its names must be names that keyveil uses,
its files regular files inside it, its tables ours. All of that is checked before anything is written.
Then only the rows of our tables and the files that they name are copied.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from ....foundation.errors import KeyveilError
from ....plan.plan import Plan
from ....plan.report import is_hex
from ..store import Session, Store, StoreError, store_at
from ..store.collection import MOST_EPOCH, STATES, Collection, Control, Round, Terms, checked_name
from ..store.epoch_keys import FOLDER as KEYS
from ..store.epoch_keys import KeyFolder
from ..store.migrations import MIGRATIONS
from ..store.segments import MANIFEST as MANIFEST_FILE
from ..store.segments import check_files, folder_of, hash_of, make_folder, sync
from ..store.sqlite import SqliteStore
from ..store.sqlite_files import SqliteSession, make_private
from .backup import (
    DATABASE,
    FORMAT,
    MANIFEST,
    SEGMENTS,
    BackupTable,
    copy_file,
    copy_table,
    last_ids,
    make_tables,
    names_of,
    open_copy,
    opened,
    own_tables,
    set_last_ids,
)

DAMAGED = "the backup does not match its check: it is damaged or not complete"
FOREIGN = "the backup is refused, because keyveil did not write it"


def restore(source: Path, target: str | Path, segments: Path) -> None:
    """Restore a backup as a new store. An existing store is never overwritten."""
    facts = _facts(source)
    store = store_at(str(target))
    for place in (segments, *([store.path] if isinstance(store, SqliteStore) else ())):
        if place.exists() and (place.is_file() or any(place.iterdir())):
            raise StoreError(f"{place} exists already: a restore never overwrites a store")
    database = _plain(source, Path(DATABASE))
    if hash_of(database) != facts["sha256"]:
        raise StoreError(DAMAGED)
    with _reading(database) as session:
        version = _check_tables(session)
        files = _check_rows(session, version, source)
        with _staged(source / SEGMENTS, segments, files) as place:
            if isinstance(store, SqliteStore):
                _restore_file(session, version, store.path, place)
            else:
                _restore_rows(session, version, store, place)


@contextmanager
def _reading(database: Path) -> Iterator[SqliteSession]:
    """The backup's rows. Unreadable rows raise a one-line error."""
    try:
        connection = open_copy(database)
        try:
            yield SqliteSession(connection)
        finally:
            connection.close()
    except (apsw.Error, UnicodeDecodeError) as error:
        raise StoreError(f"{DAMAGED}: {type(error).__name__}") from None


# -- what is checked before anything is written -----------------------------------------------------


def _facts(source: Path) -> dict[str, Any]:
    """The manifest of a backup."""
    try:
        facts = json.loads(_plain(source, Path(MANIFEST)).read_bytes())
    except (OSError, ValueError, RecursionError, StoreError):
        raise StoreError(f"{source} is not a backup: it has no readable {MANIFEST}") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise StoreError(f"{source} is not a backup of this version")
    if not is_hex(facts.get("sha256"), 64):
        raise StoreError(f"{source} is not a backup: its {MANIFEST} has no SHA-256 of the store")
    return facts


def _plain(root: Path, path: Path) -> Path:
    """A regular file inside a folder; no part of its path may be a symbolic link."""
    place = root
    for part in path.parts:
        place = place / part
        try:
            mode = place.lstat().st_mode
        except OSError:
            raise StoreError(f"{DAMAGED}: {path} is missing") from None
        if stat.S_ISLNK(mode):
            raise StoreError(f"{FOREIGN}: {path} is, or lies behind, a symbolic link")
    if not stat.S_ISREG(mode) or not place.resolve().is_relative_to(root.resolve()):
        raise StoreError(f"{FOREIGN}: {path} is not a file inside it")
    return place


def _check_tables(session: Session) -> int:
    """The version of a backup. Its tables must be ours, with values of the declared types."""
    version = int(session.rows("pragma user_version")[0][0])
    if not 1 <= version <= len(MIGRATIONS):
        raise StoreError("the backup is of a newer version than this keyveil, or of none")
    objects = session.rows("select type, name, sql from sqlite_master")
    for kind, name, _ in objects:
        if kind in ("trigger", "view"):
            raise StoreError(f"{FOREIGN}: its store has the {kind} {name!r}")
    texts = {name: sql for kind, name, sql in objects if kind == "table"}
    for table in own_tables(version).values():
        if texts.get(table.name) != table.sql:
            raise StoreError(f"{FOREIGN}: its table {table.name!r} is missing, or is not ours")
        _check_types(session, table)
    _check_indexes(session)
    return version


def _check_indexes(session: Session) -> None:
    """Check that indexes match their tables: other checks read by an index what is copied by row."""
    if session.rows("pragma integrity_check(1)") != [("ok",)]:
        raise StoreError(f"{DAMAGED}: an index does not match its table")


def _check_types(session: Session, table: BackupTable) -> None:
    wrong = " or ".join(
        f"typeof({name}) not in ('{kind}'{', ' + repr('null') if null else ''})"
        for name, (kind, null) in table.columns.items()
    )
    if session.rows(f"select 1 from {table.name} where {wrong} limit 1"):
        raise StoreError(f"{FOREIGN}: its table {table.name!r} has values of another type")


def _check_rows(session: Session, version: int, source: Path) -> list[Path]:
    """The files that the backup's store names, relative to its folder of segments, each checked."""
    try:
        collections = _collections(session)
        rounds = _rounds(session, collections)
        files = _segments(session, rounds, source)
    except StoreError:
        raise
    except (KeyveilError, ValueError, TypeError, RecursionError) as error:
        what = error if isinstance(error, KeyveilError) else type(error).__name__
        raise StoreError(f"{FOREIGN}: {what}") from None
    return files + (_keys(session, source) if version > 1 else [])


def _collections(session: Session) -> dict[int, Collection]:
    collections = {}
    for number, name, state, terms, before in session.rows(
        "select id, name, state, terms, closed_before from collections"
    ):
        if state not in STATES:
            raise StoreError(f"{FOREIGN}: a collection has an unknown state")
        collections[number] = Collection(
            number, checked_name(name), state, Terms.of(json.loads(terms)), before
        )
    return collections


def _rounds(session: Session, collections: dict[int, Collection]) -> dict[int, tuple[Collection, Round]]:
    rounds = {}
    sql = "select id, collection, number, plan, document from rounds order by collection, number"
    for round_id, collection, number, plan, document in session.rows(sql):
        if collection not in collections or Plan.parse(document).hash != plan:
            raise StoreError(f"{FOREIGN}: a round belongs to no collection, or not to its plan")
        rounds[round_id] = collections[collection], Round(round_id, collection, number, plan)
    for number in collections:
        numbers = [round_.number for collection, round_ in rounds.values() if collection.id == number]
        if not numbers or numbers != list(range(1, len(numbers) + 1)):
            raise StoreError(f"{FOREIGN}: a collection has no rounds, or not all of them")
    return rounds


def _segments(session: Session, rounds: dict[int, tuple[Collection, Round]], source: Path) -> list[Path]:
    """The files of sealed epochs, each checked against its manifest."""
    files = []
    for number, epoch, expired, text in session.rows(
        "select round, epoch, expired, manifest from sealed"
    ):
        if number not in rounds or not 0 <= epoch <= MOST_EPOCH:
            raise StoreError(f"{FOREIGN}: a sealed epoch belongs to no round")
        collection, round_ = rounds[number]
        manifest = json.loads(text)
        names = [MANIFEST_FILE, *names_of(manifest)]
        if expired:
            continue
        below = folder_of(Path(SEGMENTS), collection, round_, epoch)
        paths = [_plain(source, below / name) for name in names]
        if check_files(source / below, manifest) or not _is_manifest(paths[0], manifest):
            raise StoreError(f"{DAMAGED}: a segment of {collection.name!r}, epoch {epoch}")
        files += [path.relative_to(source / SEGMENTS) for path in paths]
    return files


def _is_manifest(path: Path, manifest: dict[str, Any]) -> bool:
    try:
        return bool(json.loads(path.read_bytes()) == manifest)
    except (OSError, ValueError, RecursionError):
        return False


def _keys(session: Session, source: Path) -> list[Path]:
    """The keys of open epochs. A key that the backup lacks stays missing."""
    files = []
    for (name,) in session.rows("select name from id_keys"):
        if not is_hex(name, 32):
            raise StoreError(f"{FOREIGN}: a key has an invalid name")
        keys = KeyFolder(source / SEGMENTS / KEYS)
        path = keys.path(name)
        if not path.exists() and not path.is_symlink():
            continue
        _plain(source, path.relative_to(source))
        if keys.read(name) is None:
            raise StoreError(f"{DAMAGED}: a key does not match its name")
        files.append(path.relative_to(source / SEGMENTS))
    return files


# -- writing -----------------------------------------------------------------------------------------


class _Place:
    """Copied segments that are not yet at their final place."""

    def __init__(self, work: Path, target: Path) -> None:
        self._work, self._target = work, target
        self.at = work
        """The folder where they are now."""

    def put(self) -> None:
        """Move them to their final place, atomically and durably."""
        os.replace(self._work, self._target)
        self.at = self._target
        for path in (self._target.parent, self._target, *self._target.rglob("*")):
            sync(path)


@contextmanager
def _staged(source: Path, target: Path, files: list[Path]) -> Iterator[_Place]:
    """The segments under a temporary name until the store is ready; deleted if that fails."""
    work = target.with_name(f".{target.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    place = _Place(work, target)
    try:
        make_folder(work)
        for path in files:
            make_folder((work / path).parent)
            copy_file(source / path, work / path)
        yield place
    except BaseException:
        shutil.rmtree(place.at, ignore_errors=True)
        raise


def _restore_file(session: Session, version: int, path: Path, segments: _Place) -> None:
    """Write a new SQLite file of our tables with the backup's rows."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        make_private(part)
        connection = apsw.Connection(str(part))
        connection.pragma("journal_mode", "off")
        connection.pragma("synchronous", "off")  # the file is synced as a whole before it gets its name
        make_tables(connection, version)
        connection.execute("begin")
        for table in own_tables(version).values():
            copy_table(session, SqliteSession(connection), table)
        set_last_ids(SqliteSession(connection), last_ids(session, "sqlite", version))
        connection.execute("commit")
        connection.close()
        sync(part)
        segments.put()  # before the store that names them
        os.replace(part, path)
        sync(path.parent)
    except (apsw.FullError, apsw.IOError, apsw.CantOpenError) as error:
        raise StoreError(f"{path} cannot be written: {type(error).__name__}") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _restore_rows(source: Session, version: int, store: Store, segments: _Place) -> None:
    """Fill an empty database in one transaction."""
    if version != len(MIGRATIONS):
        raise StoreError("the backup has another version: restore it as a file, and migrate that")
    try:
        store.migrate_alone()
    finally:
        store.close()
    tables = own_tables()

    def fill(session: Session, control: Control) -> None:
        if any(session.rows(f"select 1 from {table} limit 1") for table in tables):
            raise StoreError("the database has a store already: a restore never overwrites one")
        for table in tables.values():
            copy_table(source, session, table)
        for name, last in last_ids(source, "sqlite").items():
            session.rows("select setval(pg_get_serial_sequence(?, 'id'), ?)", (name, max(last, 1)))
        store.order_log(session)
        segments.put()

    with opened(store):
        store.change(fill)
