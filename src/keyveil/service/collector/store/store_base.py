"""The store: sealing epochs, importing tallies, deleting collections."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....foundation.arrays import Integers
from ....plan.tally import MOST_REPORTS, Tally, total_of
from ..process.problems import Problem
from .collection import Collection, Control, Round
from .report_log import LogStore
from .store_interface import BROUGHT_IN, COMMON, SEALED, Segment, Session


@dataclass(frozen=True)
class Sealed:
    """A sealed epoch."""

    epoch: int
    reports: int
    at: int
    expired: bool
    manifest: dict[str, Any]


class Store(LogStore):
    """Everything that a store does, in SQL that both databases understand."""

    def lanes(self) -> Sequence[Store]:
        """More stores on the same database, which count reports at the same time as this one.

        They are opened by the first call, and closed with this store.
        """
        return ()

    # -- sealing -----------------------------------------------------------------------------------

    def epochs(self, session: Session, round_: Round) -> dict[int, int]:
        """The epochs in the log with their numbers of reports."""
        sql = "select epoch, sum(reports) from segments where round = ? group by epoch order by epoch"
        return {int(row[0]): int(row[1]) for row in session.rows(sql, (round_.id,))}

    def oldest(self, session: Session) -> dict[int, int]:
        """The oldest epoch in the log of each round that has one, by the round's number."""
        oldest = "(select min(epoch) from segments where segments.round = rounds.id)"
        rows = session.rows(f"select id, {oldest} from rounds")
        return {int(number): int(epoch) for number, epoch in rows if epoch is not None}

    def segments(self, session: Session, round_: Round, epoch: int) -> Iterator[Segment]:
        """The log of one epoch."""
        sql = "select reports, crc, ids, payload from segments where round = ? and epoch = ? order by id"
        for reports, crc, ids, payload in session.stream(sql, (round_.id, epoch)):
            yield Segment(reports, crc, bytes(ids), bytes(payload))

    def sealed_tally(self, session: Session, round_: Round, epoch: int) -> Tally:
        """The tally of one sealed epoch."""
        sql = "select tally from sealed where round = ? and epoch = ?"
        content = bytes(session.rows(sql, (round_.id, epoch))[0][0])
        return Tally.parse(self.book(round_).plan, content, stored=True)

    def split_counts(self, round_: Round) -> tuple[int, Integers, Integers] | None:
        """The latest epoch with reports, its counts, and those of all others; None if it is alone."""
        with self.reading() as session:
            sealed = [epoch_sealed.epoch for epoch_sealed in self.sealed(session, round_)]
            epoch = max((*sealed, *self.epochs(session, round_)), default=None)
            if epoch is None:
                return None
            if epoch in sealed:
                latest = self.sealed_tally(session, round_, epoch).counts
            else:
                latest = self.sum_counts(session, round_, epoch)
            before = self.sum_counts(session, round_) - latest
        return (epoch, latest, before) if before.any() else None

    def seal(
        self, round_: Round, epoch: int, manifest: Mapping[str, Any], tally: bytes, now: int
    ) -> bool:
        """Move an epoch's counts to the sealed ones; False if that was done before.

        The files of the manifest are on disk, and their counts must equal the epoch's. The log is
        deleted afterwards with ``sweep``.
        """
        plan, at = self.book(round_).plan, (round_.id, epoch)

        def work(session: Session, control: Control) -> bool:
            collection = control.by_id(round_.collection)
            if collection is None or epoch >= collection.closed_before:
                return False
            if session.rows("select 1 from sealed where round = ? and epoch = ?", at):
                return False
            counts = self.sum_counts(session, round_, epoch)
            reports = total_of(counts[plan.layout.own])
            if reports != manifest["reports"]:
                raise Problem("state", "the epoch's counts differ from those of its segments")
            cells = np.flatnonzero(counts)
            if len(cells):
                self._count(session, round_.id, SEALED, COMMON, cells, counts[cells], 0)
            session.run("delete from counts where round = ? and epoch = ?", at)
            session.run(
                "insert into sealed (round, epoch, reports, sealed, expired, manifest, tally) "
                "values (?, ?, ?, ?, 0, ?, ?)",
                (*at, reports, now, json.dumps(manifest, sort_keys=True), tally),
            )
            return True

        named = self.control.by_id(round_.collection)
        return named is not None and self.change(work, named.name)  # the same sums from other rows

    def sweep(self, round_: Round, epoch: int, most: int = 200) -> int:
        """Delete up to ``most`` rows of a sealed epoch's log, then ids; the number deleted."""
        at = (round_.id, epoch)
        with self._writing([round_.collection]) as session:
            if not session.rows("select 1 from sealed where round = ? and epoch = ?", at):
                return 0
            dropped = session.rows(
                "delete from segments where id in (select id from segments "
                "where round = ? and epoch = ? order by id limit ?) returning 1",
                (*at, most),
            )
            ids = 0 if dropped else self._drop_ids(session, round_.id, epoch)
        if dropped and len(dropped) < most:
            self._swept()
        return len(dropped) + ids

    def _swept(self) -> None:
        """Called after the last row of an epoch's log was deleted."""

    def sealed(self, session: Session, round_: Round) -> list[Sealed]:
        """The sealed epochs of a round, in order."""
        columns = "epoch, reports, sealed, expired, manifest"
        sql = f"select {columns} from sealed where round = ? order by epoch"
        return [
            Sealed(epoch, reports, at, bool(expired), json.loads(manifest))
            for epoch, reports, at, expired, manifest in session.rows(sql, (round_.id,))
        ]

    def expire(self, round_: Round, epoch: int) -> None:
        """Note that the files of a sealed epoch are deleted. Its counts stay."""
        with self._writing() as session:
            sql = "update sealed set expired = 1 where round = ? and epoch = ?"
            session.run(sql, (round_.id, epoch))

    @contextmanager
    def sealing(self, session: Session, collection: Collection) -> Iterator[bool]:
        """Whether this process may seal a collection now."""
        yield True

    # -- tallies made elsewhere --------------------------------------------------------------------

    def bring_in(self, round_: Round, counts: Integers, digest: str, tally: bytes) -> bool:
        """Import a tally; False if it was imported before."""
        reports = total_of(counts[self.book(round_).plan.layout.own])

        def work(session: Session, control: Control) -> bool:
            if session.rows("select 1 from imports where round = ? and digest = ?", (round_.id, digest)):
                return False
            collection = control.by_id(round_.collection)
            if collection is None or collection.state == "closed":
                raise Problem("closed_collection")
            if collection.round.id != round_.id or collection.round.closed:
                raise Problem("closed_round", "the next plan was already made from this round")
            self.return_shares(session, collection)
            most = MOST_REPORTS if collection.terms.people is None else collection.terms.people
            if self.reports(session, round_) + reports > most:
                raise Problem("full", "the tally has more reports than the collection accepts")
            cells = np.flatnonzero(counts)
            self._count(session, round_.id, BROUGHT_IN, COMMON, cells, counts[cells], reports)
            session.run(
                "insert into imports (round, digest, reports, tally) values (?, ?, ?, ?)",
                (round_.id, digest, reports, tally),
            )
            return True

        named = self.control.by_id(round_.collection)
        if named is None:
            raise Problem("closed_collection")
        return self.change(work, named.name)

    def delete(self, collection: Collection) -> None:
        """Delete a collection and all its data."""

        def work(session: Session, control: Control) -> None:
            for round_ in collection.rounds:
                self._drop_rows(session, round_)
                for table in ("counts", "heads", "sealed", "imports"):
                    session.run(f"delete from {table} where round = ?", (round_.id,))
            for table in ("rounds", "refusals", "tokens"):
                session.run(f"delete from {table} where collection = ?", (collection.id,))
            session.run("delete from collections where id = ?", (collection.id,))

        self.change(work, collection.name)
        while self.sweep_dropped():
            pass
        self._swept()
        if self.segments_folder is not None:
            self.drop_spent_keys()

    def _drop_rows(self, session: Session, round_: Round) -> None:
        """Delete the log and the ids of a round whose collection is deleted, now or later."""
        session.run("delete from segments where round = ?", (round_.id,))

    def sweep_dropped(self) -> int:
        """Delete some rows of deleted collections; their number."""
        return 0
