"""``keyveil collection export``: sealed epochs to a folder from which an engine reads them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ....foundation.errors import KeyveilError
from ....foundation.files import whole_folder, write_whole
from ..store import Store
from ..store.collection import Collection, Round
from ..store.segments import MANIFEST, check_files, files_of, folder_of
from ..store.store_base import Sealed

PLAN = "_plan.json"
"""The plan of a round; engines ignore names that begin with an underscore."""


@dataclass(frozen=True)
class Exported:
    """How many epochs and reports were sent now; and how many epochs were not, each with its reason."""

    epochs: int = 0
    reports: int = 0
    before: int = 0
    expired: int = 0
    waiting: int = 0
    """Epochs that are not sealed yet."""

    def __add__(self, other: Exported) -> Exported:
        return Exported(
            self.epochs + other.epochs,
            self.reports + other.reports,
            self.before + other.before,
            self.expired + other.expired,
            self.waiting + other.waiting,
        )


def export(store: Store, root: Path, name: str, target: Path) -> Exported:
    """Copy the sealed epochs of all rounds that ``target`` lacks, each whole or not at all.

    A round has a folder, because it has a plan of its own. Each epoch's files are compared with their
    hashes after they were copied. An engine that reads the folder meanwhile sees whole epochs alone.
    """
    if target.exists() and not target.is_dir():
        raise KeyveilError(f"{target} is a file: name a folder")
    with store.reading() as session:
        collection = store.reload(session).named(name)
        rounds = [(round_, store.sealed(session, round_)) for round_ in collection.rounds]
        waiting = 0
        for round_, epochs in rounds:
            waiting += len(set(store.epochs(session, round_)) - {sealed.epoch for sealed in epochs})
    return sum(_sent(store, root, collection, rounds, target), Exported(waiting=waiting))


def _sent(
    store: Store,
    root: Path,
    collection: Collection,
    rounds: list[tuple[Round, list[Sealed]]],
    target: Path,
) -> Iterator[Exported]:
    for round_, epochs in rounds:
        folder = target / f"round-{round_.number:04d}"
        for sealed in epochs:
            source = folder_of(root, collection, round_, sealed.epoch)
            yield _send_epoch(sealed, source, folder / f"epoch-{sealed.epoch:010d}")
        if folder.is_dir():
            write_whole(folder / PLAN, store.book(round_).plan.dumps().encode() + b"\n")


def _send_epoch(sealed: Sealed, source: Path, target: Path) -> Exported:
    if sealed.expired:
        return Exported(expired=1)
    if (target / MANIFEST).is_file():
        if json.loads((target / MANIFEST).read_bytes()) != sealed.manifest:
            raise KeyveilError(f"{target} has an epoch of another collection; name another folder")
        return Exported(before=1)
    with whole_folder(target) as waiting:
        for file in files_of(sealed.manifest):
            if not (source / file["name"]).is_file():
                raise KeyveilError(f"the file {source / file['name']} is missing; see 'keyveil verify'")
            shutil.copyfile(source / file["name"], waiting / file["name"])
        wrong = check_files(waiting, sealed.manifest)
        if wrong:
            raise KeyveilError(f"epoch {sealed.epoch}: {wrong[0]}; see 'keyveil verify'")
        content = json.dumps(sealed.manifest, indent=1, sort_keys=True).encode()
        write_whole(waiting / MANIFEST, content)
    return Exported(1, sealed.reports)
