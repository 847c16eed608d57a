"""``keyveil verify``: recount all reports. The counts in the store must match exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir

import numpy as np

from ....foundation.errors import ReportError
from ....plan.tally import Tally, total_of
from ..store import Session, Store, StoreUnready
from ..store.collection import Collection, Round
from ..store.control import add_chunk
from ..store.epoch_keys import FOLDER as KEYS
from ..store.epoch_keys import KeyFolder
from ..store.packed_ids import split
from ..store.report_log import crc_of
from ..store.seen_ids import FolderScratch, IdSet, Spoiled
from ..store.segments import ManifestError, check_files, files_of, folder_of, read_part
from ..store.sqlite import SqliteStore
from ..store.store_interface import BROUGHT_IN, SEALED, chunk_counts

AT_ONCE = 1 << 15
"""Number of ids looked up at a time."""


@dataclass
class Verification:
    """The result of recounting one round."""

    collection: str
    round: int
    reports: int = 0
    open_epochs: int = 0
    sealed_epochs: int = 0
    expired_epochs: int = 0
    """Epochs whose files were deleted by the collection's terms. Their counts cannot be checked."""
    findings: list[str] = field(default_factory=list)


def verify(store: Store, root: Path) -> list[Verification]:
    """Recount every round of every collection as of one time, also while it is served."""
    with store.reading() as session:
        control = store.reload(session)
        return [
            _round(store, session, root, collection, round_)
            for collection in control.collections.values()
            for round_ in collection.rounds
        ]


def key_warnings(store: Store, root: Path) -> list[str]:
    """Warnings about an open store whose keys of open epochs are not those of its folder of segments."""
    keys = KeyFolder(root / KEYS)
    present = keys.names()  # first: a collector that serves the store may be adding one
    with store.reading() as session:
        control, named = store.control, store.named_keys(session)
    missing = [name for at, name in named.items() if not control.over(at) and keys.read(name) is None]
    unnamed = len(present - set(named.values()))
    warnings = []
    if missing:
        epochs = "an open epoch" if len(missing) == 1 else f"{len(missing)} open epochs"
        warnings.append(
            f"{keys.folder} lacks the key of {epochs}: the reports are refused until the key is back; "
            "restore the folder from a backup"
        )
    if unnamed:
        number = "a key" if unnamed == 1 else f"{unnamed} keys"
        warnings.append(
            f"{keys.folder} has {number} that {store.place} does not name: if the store was copied "
            "while it was served, it lacks reports; use 'keyveil backup' to copy it"
        )
    return warnings


def _round(
    store: Store, session: Session, root: Path, collection: Collection, round_: Round
) -> Verification:
    plan = store.book(round_).plan
    verdict = Verification(collection.name, round_.number)
    stored = _stored(session, round_, plan.layout.cells)
    sealed = _sealed(store, session, root, collection, round_, verdict)
    swept = {s.epoch for s in store.sealed(session, round_)}
    brought = _brought_in(session, round_, verdict, store)
    total = sealed + brought
    _compare(verdict, "the sealed epochs", stored.pop(SEALED, None), sealed)
    _compare(verdict, "the tallies brought in", stored.pop(BROUGHT_IN, None), brought)
    for epoch in store.epochs(session, round_):
        if epoch in swept:
            continue  # its log is being deleted
        verdict.open_epochs += 1
        if epoch >= collection.closed_before and not _has_key(session, root, round_, epoch):
            verdict.findings.append(f"the key of the ids of epoch {epoch} is missing")
        if not store.is_ordered(session, round_, epoch):
            verdict.findings.append(f"the log of epoch {epoch} has rows without a place, or lacks some")
        counted = _log(store, session, round_, epoch, verdict)
        _compare(verdict, f"epoch {epoch}", stored.pop(epoch, None), counted)
        total += counted
    for epoch, counts in stored.items():
        if counts.any():
            verdict.findings.append(f"epoch {epoch} has counts but no segments")
    verdict.reports = total_of(total[plan.layout.own])
    if store.reports(session, round_) != verdict.reports:
        verdict.findings.append("the number of reports differs from that of the segments")
    return verdict


def _stored(session: Session, round_: Round, cells: int) -> dict[int, np.ndarray]:
    stored: dict[int, np.ndarray] = {}
    sql = "select epoch, chunk, counts from counts where round = ?"
    for epoch, chunk, counts in session.rows(sql, (round_.id,)):
        total = stored.setdefault(epoch, np.zeros(cells, np.int64))
        add_chunk(total, chunk, chunk_counts(counts))
    return stored


def _has_key(session: Session, root: Path, round_: Round, epoch: int) -> bool:
    """Whether the ids of an open epoch can be looked up. Old stores need no key."""
    sql = "select name from id_keys where round = ? and epoch = ?"
    names = [str(row[0]) for row in session.rows(sql, (round_.id, epoch))]
    return all(KeyFolder(root / KEYS).read(name) is not None for name in names)


def _log(store: Store, session: Session, round_: Round, epoch: int, verdict: Verification) -> np.ndarray:
    plan = store.book(round_).plan
    packing, tally = plan.packing, Tally(plan)
    seen = RepeatedIds(store)
    for segment in store.segments(session, round_, epoch):
        if crc_of(segment.ids, segment.payload) != segment.crc:
            verdict.findings.append(f"a segment of epoch {epoch} does not match its check")
            continue
        if len(segment.payload) != segment.reports * packing.width:
            verdict.findings.append(f"a segment of epoch {epoch} has the wrong length")
            continue
        tally.add(packing.reports(packing.rows(segment.payload)))
        seen.add(segment.ids)
    if twice := seen.close():
        verdict.findings.append(f"epoch {epoch} holds {twice} reports twice")
    return tally.counts


class RepeatedIds:
    """The ids of an epoch, for any number of them; counts those that occur again."""

    def __init__(self, store: Store) -> None:
        folder = store.path.parent if isinstance(store, SqliteStore) else Path(gettempdir())
        self._ids = IdSet(FolderScratch(folder))
        self._waiting: list[bytes] = []
        self._twice = 0

    def add(self, packed: bytes) -> None:
        """Add packed ids."""
        self._waiting += split(packed)
        if len(self._waiting) >= AT_ONCE:
            self._look()

    def _look(self) -> None:
        once = list(set(self._waiting))
        try:
            known = self._ids.known(once)
        except Spoiled:
            raise StoreUnready("the index of ids next to the store is damaged") from None
        self._twice += len(self._waiting) - len(once) + len(known)
        self._ids.add([report_id for place, report_id in enumerate(once) if place not in known])
        self._waiting = []

    def close(self) -> int:
        """Number of ids that occurred again."""
        self._look()
        self._ids.close()
        return self._twice


def _sealed(
    store: Store,
    session: Session,
    root: Path,
    collection: Collection,
    round_: Round,
    verdict: Verification,
) -> np.ndarray:
    plan = store.book(round_).plan
    total = Tally(plan)
    for sealed in store.sealed(session, round_):
        recorded = store.sealed_tally(session, round_, sealed.epoch)
        total = total + recorded
        if sealed.expired:
            verdict.expired_epochs += 1
            continue
        verdict.sealed_epochs += 1
        folder = folder_of(root, collection, round_, sealed.epoch)
        try:
            wrong = check_files(folder, sealed.manifest)
        except ManifestError as error:
            wrong = [str(error)]
        if wrong:
            verdict.findings += [f"epoch {sealed.epoch}: {text}" for text in wrong]
            continue
        tally = Tally(plan)
        try:
            for file in files_of(sealed.manifest):
                for part in read_part(folder / file["name"], plan.packing, file.get("reports")):
                    tally.add(part)
        except ReportError as error:
            verdict.findings.append(f"epoch {sealed.epoch}: {error}")
            continue
        _compare(verdict, f"sealed epoch {sealed.epoch}", recorded.counts, tally.counts)
    return total.counts


def _brought_in(session: Session, round_: Round, verdict: Verification, store: Store) -> np.ndarray:
    total = Tally(store.book(round_).plan)
    for row in session.rows("select tally from imports where round = ?", (round_.id,)):
        try:
            total = total + Tally.parse(total.plan, bytes(row[0]), stored=True)
        except ReportError as error:
            verdict.findings.append(f"a tally brought in: {error}")
    return total.counts


def _compare(verdict: Verification, what: str, stored: np.ndarray | None, counted: np.ndarray) -> None:
    if stored is None:
        stored = np.zeros_like(counted)
    off = int((stored != counted).sum())
    if off:
        verdict.findings.append(f"{off} counts of {what} differ from those of its segments")
