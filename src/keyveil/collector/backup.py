"""Backup of a SQLite store and its segments while it is served, and the way back."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import apsw

from ..files import write_whole
from .segments import check_files, folder_of, make_folder, sync
from .store import StoreError
from .store.sqlite import SqliteStore

FORMAT = "keyveil/backup/1"
DATABASE, SEGMENTS, MANIFEST = "store.sqlite", "segments", "backup.json"


def backup(source: Path, segments: Path, target: Path) -> dict[str, Any]:
    """Copy a store as of one moment, with the segments it names; the facts of what was copied.

    The folder appears only when it is complete. Reports that come meanwhile are not in it.
    """
    if not source.is_file():
        raise StoreError(f"there is no store at {source}")
    if target.exists():
        raise StoreError(f"{target} is there already: name a new folder")
    work = target.with_name(f".{target.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o700, parents=True)
    try:
        _copy_database(source, work / DATABASE)
        files = _copy_segments(work / DATABASE, segments, work / SEGMENTS)
        facts = {
            "format": FORMAT,
            "sha256": _hash(work / DATABASE),
            "files": files,
        }
        write_whole(work / MANIFEST, json.dumps(facts, indent=1).encode(), private=True)
        os.replace(work, target)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    sync(target.parent)
    return facts


def _copy_database(source: Path, target: Path) -> None:
    """A whole copy under one read transaction; writers go on meanwhile."""
    try:
        reader = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
        reader.set_busy_timeout(10_000)
        writer = apsw.Connection(str(target))
        with writer.backup("main", reader, "main") as copying:
            copying.step(-1)
        writer.pragma("journal_mode", "delete")
        found = writer.execute("pragma integrity_check").fetchall()
        writer.close()
        reader.close()
    except apsw.Error as error:
        raise StoreError(f"the store cannot be copied: {type(error).__name__}") from None
    if found != [("ok",)]:
        raise StoreError("the copy is not sound: the store may be damaged")
    os.chmod(target, 0o600)
    sync(target)


def _copy_segments(database: Path, segments: Path, target: Path) -> int:
    """Copy every file that the copied store names; they never change once they are written."""
    store = SqliteStore(database)
    store.open(serving=False)
    number = 0
    try:
        with store.reading() as session:
            for collection in store.control.collections.values():
                for one in collection.rounds:
                    for sealed in store.sealed(session, one):
                        if sealed.expired:
                            continue
                        here = folder_of(segments, collection, one, sealed.epoch)
                        there = folder_of(target, collection, one, sealed.epoch)
                        make_folder(there)
                        for name in ("manifest.json", *(f["name"] for f in sealed.manifest["files"])):
                            shutil.copyfile(here / name, there / name)
                            sync(there / name)
                            number += 1
                        sync(there)
                        if check_files(there, sealed.manifest):
                            raise StoreError("a segment does not match its check: run 'keyveil verify'")
    except FileNotFoundError:
        raise StoreError("a segment is missing: run 'keyveil verify'") from None
    finally:
        store.close()
        for left in database.parent.glob(f"{DATABASE}-*"):
            left.unlink(missing_ok=True)
    make_folder(target)
    return number


def restore(source: Path, target: Path, segments: Path) -> None:
    """Put a backup where a store shall be; never over one that is there."""
    try:
        facts = json.loads((source / MANIFEST).read_bytes())
    except (OSError, ValueError):
        raise StoreError(f"{source} is no backup: it has no readable {MANIFEST}") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise StoreError(f"{source} is no backup of this version")
    for place in (target, segments):
        if place.exists() and (place.is_file() or any(place.iterdir())):
            raise StoreError(f"{place} is there already: a restore never writes over a store")
    try:
        sound = _hash(source / DATABASE) == facts["sha256"]
    except OSError:
        sound = False
    if not sound:
        raise StoreError("the backup does not match its check: it is damaged or not complete")
    shutil.copytree(source / SEGMENTS, segments, dirs_exist_ok=True)
    for path in (segments.parent, segments, *segments.rglob("*")):  # before the store that names them
        sync(path)
    part = target.with_name(f".{target.name}.part")
    shutil.copyfile(source / DATABASE, part)
    os.chmod(part, 0o600)
    sync(part)
    os.replace(part, target)
    sync(target.parent)


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
