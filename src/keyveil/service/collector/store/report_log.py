"""Accepting reports: one transaction for all that wait, with the log, the counts and the ids."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ....foundation.arrays import Integers
from .collection import Collection, Round
from .control import ControlStore
from .epoch_keys import FOLDER, Images, KeyFolder
from .packed_ids import PackedIds
from .store_interface import (
    CHUNK,
    Parcel,
    Session,
    StoreBroken,
    StoreUnready,
    by_chunk,
    chunk_blob,
    chunk_counts,
)


@dataclass
class Group:
    """The parcels of one round and epoch within a transaction."""

    collection: Collection | None
    round: Round | None
    epoch: int
    parcels: list[Parcel] = field(default_factory=list)
    claimed: Sequence[bytes] = ()
    cells: Integers | None = None
    often: Integers | None = None
    row: int = 0
    """The number of the segment in the log, where several processes write to it."""


CountsRow = tuple[int, int, int, int, int, bytes]
"""Round, epoch, shard, chunk, version and counts."""
SegmentRow = tuple[int, int, int, int, bytes, bytes]
"""Round, epoch, number of reports, checksum, ids and packed reports."""
REPLACED = (
    "on conflict (round, epoch, shard, chunk) do update set "
    "version = excluded.version, counts = excluded.counts"
)
_KEY_AND_LOG = (
    "select (select name from id_keys where round = ? and epoch = ?), "
    "exists (select 1 from segments where round = ? and epoch = ?)"
)
"""The name of an epoch's key, and whether it has segments.

One statement sees both as of one time: another process commits an epoch's key and its first segment
together, and a key looked up before and a segment after that would look like a store without keys.
"""


class KeyMissing(Exception):
    """The key of an epoch's ids is missing, so no id can be looked up."""


class LogStore(ControlStore):
    """A store that accepts reports."""

    def __init__(self) -> None:
        super().__init__()
        self._images: dict[tuple[int, int], Images | None] = {}
        """The ciphers of epochs whose key the database names; None for epochs with plain ids."""
        self._new_keys: dict[tuple[int, int], tuple[str, bytes]] = {}
        """Keys that are on disk but perhaps not yet in the database."""
        self.missing_keys: set[tuple[int, int]] = set()
        """Rounds and open epochs whose key is missing. Their reports are refused."""
        self._open_keys = 0
        """Number of open epochs whose key the database names, as of the last look."""
        self._full_rounds: frozenset[int] = frozenset()
        """Current rounds that have reached their cap, by number, as of the last look."""

    # -- reports in --------------------------------------------------------------------------------

    def append(self, parcels: Sequence[Parcel], now: float, trusted: bool = True) -> None:
        """Take reports in, in one transaction; what is refused is noted on each parcel.

        When this returns, all that was not refused is durable and counted exactly once, whether it
        was new or had been sent before. If it raises, nothing may be acknowledged.
        """
        for parcel in parcels:
            parcel.refused.clear()
        with self._writing({parcel.collection for parcel in parcels}) as session:
            self._catch_up(session)
            groups = self._grouped(parcels)
            for group in groups:
                self._take(session, group, now, trusted)
            self._settle(session, [group for group in groups if group.cells is not None])
        try:
            for group in groups:
                self._note(group)
        except Exception as error:
            # memory and disk would differ: stop, and let the next process read everything
            raise StoreBroken(f"after a commit: {type(error).__name__}") from error

    def _note(self, group: Group) -> None:
        """A group is durable: remember its ids and counts."""
        if group.round is None or group.cells is None or group.often is None:
            return
        self._counted(group.round, group.epoch, group.claimed)
        live = self._live.get(group.round.id)
        if live is not None:
            self._add_live(live, group.cells, group.often)

    def _grouped(self, parcels: Sequence[Parcel]) -> list[Group]:
        groups: dict[tuple[int, int], Group] = {}
        for parcel in parcels:
            group = groups.get((parcel.round, parcel.epoch))
            if group is None:
                collection = self.control.by_id(parcel.collection)
                rounds = collection.rounds if collection else ()
                round_ = next((r for r in rounds if r.id == parcel.round), None)
                group = groups[parcel.round, parcel.epoch] = Group(collection, round_, parcel.epoch)
            group.parcels.append(parcel)
        return [groups[key] for key in sorted(groups)]  # in the same order everywhere: no deadlock

    def _take(self, session: Session, group: Group, now: float, trusted: bool) -> None:
        if group.collection is None or group.round is None:
            _refuse(group, set(), "closed_collection")
            return
        refusal = group.collection.refusal(group.round, group.epoch, now, trusted)
        ids = PackedIds(b"".join([PackedIds.of(parcel.ids).packed for parcel in group.parcels]))
        gone = group.epoch < group.collection.closed_before
        if not gone and self._learning(session, group.round, group.epoch):
            _refuse(group, set(), "storage")
            return
        room = None
        if refusal is None:
            room = self._room(session, group.collection, group.round, len(ids))
        make = refusal is None and room != 0  # a full round takes no id: it needs no key
        try:
            images = None if gone else self._stored(session, group.round, group.epoch, make)
        except KeyMissing:
            _refuse(group, set(), "key_missing")
            return
        ids = images.of(ids) if images is not None else ids
        if refusal is not None:
            known = set() if gone else self._known(session, group.round, group.epoch, ids)
            _refuse(group, known, refusal)
            return
        if room is None:
            chosen = self._take_new(session, group, ids)
        else:
            chosen = self._take_some(session, group, ids, room)
            if len(chosen) == room:
                self._full_rounds |= {group.round.id}
        if chosen:
            self._log(session, group, ids, chosen)

    # -- keys of ids -------------------------------------------------------------------------------

    def _stored(self, session: Session, round_: Round, epoch: int, make: bool) -> Images | None:
        """How an epoch's ids are stored; None if as they are, or if there are none and none is made."""
        at = (round_.id, epoch)
        if at in self._images:
            return self._images[at]
        ((name, has_segments),) = session.rows(_KEY_AND_LOG, (*at, *at))
        if name is None and has_segments:
            self._images[at] = None  # from a store that predates keys
            return None
        if name is None:
            return self._first(session, at) if make else None
        key = self.keys.read(str(name))
        if key is None:
            self.missing_keys.add(at)
            raise KeyMissing
        self.missing_keys.discard(at)
        self._new_keys.pop(at, None)
        self._images[at] = Images(key)
        return self._images[at]

    def _first(self, session: Session, at: tuple[int, int]) -> Images:
        """Create the key of an epoch that has none.

        It is used as the epoch's key only after a later transaction finds it in the database.
        """
        if at not in self._new_keys:
            try:
                self._new_keys[at] = self.keys.make()
            except OSError as error:
                raise StoreUnready(f"no key can be written to {FOLDER}: {error.strerror}") from None
        name, key = self._new_keys[at]
        sql = "insert into id_keys (round, epoch, name) values (?, ?, ?) on conflict do nothing"
        if session.rows(f"{sql} returning 1", (*at, name)):
            return Images(key)
        self.keys.destroy(self._new_keys.pop(at)[0])  # another process was faster
        (row,) = session.rows("select name from id_keys where round = ? and epoch = ?", at)
        other = self.keys.read(str(row[0]))
        if other is None:
            self.missing_keys.add(at)
            raise KeyMissing
        return Images(other)

    def named_keys(self, session: Session) -> dict[tuple[int, int], str]:
        """The names of the keys that the database knows, by round and epoch."""
        rows = session.rows("select round, epoch, name from id_keys")
        return {(round_id, epoch): str(name) for round_id, epoch, name in rows}

    def keys_not_there(self, named: Mapping[tuple[int, int], str]) -> set[tuple[int, int]]:
        """The rounds and open epochs whose named key is not in the folder, or damaged."""
        present = self.keys.names()
        open_keys = {at: name for at, name in named.items() if not self.control.over(at)}
        self._open_keys = len(open_keys)
        return {
            at
            for at, name in open_keys.items()
            if name not in present or (at not in self._images and self.keys.read(name) is None)
        }

    @property
    def all_keys_missing(self) -> bool:
        """Whether no open epoch has its key, as if the folder were another one."""
        return len(self.missing_keys) >= max(1, self._open_keys)

    @property
    def keys(self) -> KeyFolder:
        """The folder with the keys of open epochs."""
        if self.segments_folder is None:
            raise StoreUnready("there is no folder for the keys")
        return KeyFolder(self.segments_folder / FOLDER)

    def drop_spent_keys(self, round_: Round | None = None, epoch: int = 0) -> None:
        """Destroy the keys of sealed epochs and of deleted rounds; or the key of one closed epoch.

        Without its key an epoch cannot be reopened.
        """
        columns = "select round, epoch, name from id_keys where"
        where: tuple[int, ...] = ()
        if round_ is None:
            spent = (
                f"{columns} exists (select 1 from sealed "
                "where sealed.round = id_keys.round and sealed.epoch = id_keys.epoch) "
                "or not exists (select 1 from rounds where rounds.id = id_keys.round)"
            )
        else:
            where = (round_.id, epoch, round_.collection)
            spent = (
                f"{columns} round = ? and epoch = ? and epoch < "
                "(select closed_before from collections where id = ?)"
            )
        with self._writing([round_.collection] if round_ is not None else ()) as session:
            rows = session.rows(spent, where)
            for _, _, name in rows:  # the files first: without their rows nobody would find them
                self.keys.destroy(str(name))
            if rows:
                at = [row[:2] for row in rows]
                session.many("delete from id_keys where round = ? and epoch = ?", at)

    def _let_go(self, rounds: set[int] | None) -> None:
        super()._let_go(rounds)
        for at in self._over(self._images, rounds):
            del self._images[at]
        self.missing_keys.difference_update(self._over(self.missing_keys, rounds))
        for at in self._over(self._new_keys, rounds):
            self.keys.destroy(self._new_keys.pop(at)[0])

    def _over(self, epochs: Iterable[tuple[int, int]], rounds: set[int] | None) -> list[tuple[int, int]]:
        """Those epochs of the given rounds that are closed for good or deleted."""
        if rounds is not None:
            epochs = [at for at in epochs if at[0] in rounds]
        return [at for at in epochs if self.control.over(at)]

    def _settle(self, session: Session, groups: Sequence[Group]) -> None:
        """Called before the commit with the groups of which reports are counted."""

    def _take_new(self, session: Session, group: Group, ids: PackedIds) -> Sequence[int]:
        """The places of new ids, each once."""
        assert group.round is not None
        if ids.differ():
            known = self._known(session, group.round, group.epoch, ids, sure=False)
            places = range(len(ids))
            return [place for place in places if place not in known] if known else places
        once = dict(zip(list(ids)[::-1], range(len(ids) - 1, -1, -1), strict=True))
        first = sorted(once.values())
        known = self._known(session, group.round, group.epoch, ids.at(first), sure=False)
        return [place for at, place in enumerate(first) if at not in known]

    def _take_some(self, session: Session, group: Group, ids: PackedIds, room: int) -> list[int]:
        """The places of as many new ids as there is room for; the others are refused."""
        assert group.round is not None
        known = self._known(session, group.round, group.epoch, ids)
        chosen: dict[bytes, int] = {}
        fine = set(known)
        for place, report_id in enumerate(ids):
            if place in known:
                continue
            if report_id in chosen or len(chosen) < room:
                chosen.setdefault(report_id, place)
                fine.add(place)
        _refuse(group, fine, "full")
        return sorted(chosen.values())

    def _room(self, session: Session, collection: Collection, round_: Round, asked: int) -> int | None:
        """Number of reports that a round still accepts, if it is below ``asked``; None otherwise."""
        cap = collection.terms.people
        if cap is None:
            return None
        room = max(0, self._room_left(session, round_, cap, asked))
        return room if room < asked else None

    def _room_left(self, session: Session, round_: Round, cap: int, asked: int) -> int:
        """Number of reports that this process may count before a round reaches its cap."""
        return cap - self.reports(session, round_)

    def is_full(self, round_: Round) -> bool:
        """Whether a current round has reached its cap; other processes' reports count within seconds."""
        return round_.id in self._full_rounds

    def _note_caps(self, session: Session) -> None:
        capped = {c.round.id: c for c in self.control.collections.values() if c.terms.people is not None}
        full: set[int] = set()
        if capped:
            sql = "select round, sum(reports) from heads group by round"
            reports = {int(number): int(sum_) for number, sum_ in session.rows(sql)}
            full = {number for number, c in capped.items() if c.is_full(reports.get(number, 0))}
        self._full_rounds = frozenset(full)

    def return_shares(self, session: Session, collection: Collection) -> None:
        """Take back what processes have reserved of a collection's cap, in a change of it."""

    def reports(self, session: Session, round_: Round) -> int:
        """Number of reports of a round."""
        sql = "select coalesce(sum(reports), 0) from heads where round = ?"
        return int(session.rows(sql, (round_.id,))[0][0])

    def _log(self, session: Session, group: Group, ids: PackedIds, chosen: Sequence[int]) -> None:
        assert group.round is not None
        packing = self.book(group.round).plan.packing
        rows = packing.rows(b"".join([parcel.rows for parcel in group.parcels]))
        if len(chosen) < len(ids):
            rows = rows[chosen]
            ids = ids.at(chosen)
        packed, names = rows.tobytes(), ids.packed
        group.cells, group.often = packing.marks(rows)
        group.claimed = ids
        at = (group.round.id, group.epoch)
        segment = (*at, len(ids), crc_of(names, packed), names, packed)
        self._record(session, group, segment, group.cells, group.often)

    def _record(
        self, session: Session, group: Group, segment: SegmentRow, cells: Integers, often: Integers
    ) -> None:
        """Write a segment and count its reports."""
        sql = "insert into segments (round, epoch, reports, crc, ids, payload) values (?, ?, ?, ?, ?, ?)"
        session.run(sql, segment)
        round_id, epoch, reports = segment[:3]
        self._count(session, round_id, epoch, self.shard, cells, often, reports)

    def _count(
        self,
        session: Session,
        round_id: int,
        epoch: int,
        shard: int,
        cells: Integers,
        often: Integers,
        reports: int,
    ) -> None:
        """Add to a shard's counts and to its number of reports."""
        head = session.rows(
            "insert into heads (round, shard, reports, version) values (?, ?, ?, 1) "
            "on conflict (round, shard) do update set "
            "reports = heads.reports + excluded.reports, version = heads.version + 1 "
            "returning version",
            (round_id, shard, reports),
        )
        parts = list(by_chunk(cells, often))
        old = self._chunks(session, round_id, epoch, shard, [part[0] for part in parts])
        self._write_counts(session, added_to(old, parts, (round_id, epoch, shard), head[0][0]))

    def _write_counts(self, session: Session, rows: list[CountsRow]) -> None:
        """Write rows of counts, in place of older ones."""
        values = "insert into counts (round, epoch, shard, chunk, version, counts) values"
        session.many(f"{values} (?, ?, ?, ?, ?, ?) {REPLACED}", rows)

    def _chunks(
        self, session: Session, round_id: int, epoch: int, shard: int, chunks: list[int]
    ) -> dict[int, Integers]:
        """A shard's counts in the given chunks."""
        if not chunks:
            return {}
        where = "round = ? and epoch = ? and shard = ?"
        sql = f"select chunk, counts from counts where {where} and chunk between ? and ?"
        if 4 * len(chunks) < chunks[-1] - chunks[0]:
            rows = [
                row
                for chunk in chunks
                for row in session.rows(sql, (round_id, epoch, shard, chunk, chunk))
            ]
        else:
            rows = session.rows(sql, (round_id, epoch, shard, chunks[0], chunks[-1]))
        return {row[0]: chunk_counts(row[1]) for row in rows}

    # -- refusals: apart from the reports' transaction ----------------------------------------------

    def add_refusals(self, refused: Mapping[tuple[int, str], int]) -> None:
        """Add to the counters of refusals."""
        with self._writing({collection for collection, _ in refused}) as session:
            session.many(
                "insert into refusals (collection, shard, reason, number) "
                "select id, ?, ?, ? from collections where id = ? "  # it may have been deleted since
                "on conflict (collection, shard, reason) do update set "
                "number = refusals.number + excluded.number",
                [(self.shard, reason, n, c) for (c, reason), n in sorted(refused.items())],
            )


def added_to(
    old: Mapping[int, Integers],
    parts: Sequence[tuple[int, Integers, Integers]],
    at: tuple[int, int, int],
    version: int,
) -> list[CountsRow]:
    """The rows of counts after marks, grouped by chunk, are added to a shard's old counts."""
    rows = []
    for chunk, places, more in parts:
        counts = old.get(chunk)
        if counts is None:
            counts = np.zeros(CHUNK, np.int64)
        counts[places] += more
        rows.append((*at, chunk, version, chunk_blob(counts)))
    return rows


def crc_of(ids: bytes, payload: bytes) -> int:
    """The checksum of a segment."""
    return zlib.crc32(payload, zlib.crc32(ids))


def _refuse(group: Group, fine: set[int], reason: str) -> None:
    """Note on each parcel which of its reports are not taken; ``fine`` are places in the group."""
    at = 0
    for parcel in group.parcels:
        for place in range(len(parcel.ids)):
            if at + place not in fine:
                parcel.refused[place] = reason
        at += len(parcel.ids)
