"""Sealing: epochs that have ended are closed, their keys destroyed, their reports written as files.

A closed epoch keeps its ids for a while, so that it can be reopened. After that its rows leave the
report log. Files older than the collection keeps are deleted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from ..process.clock import Clock
from ..process.logs import Log
from ..process.metrics import Metrics
from ..process.problems import Problem
from ..process.settings import Settings
from ..store import Session, Store, StoreUnready
from ..store.collection import Collection, Control, Round
from ..store.segments import folder_of, remove, write_epoch
from .writer import Writer

At = tuple[int, int]
"""A round and an epoch, both by number."""


@dataclass
class _Due:
    """What is to be done for one collection."""

    collection: Collection
    over: list[tuple[Round, int]] = field(default_factory=list)
    """Epochs in the log that have ended or are closed."""
    expired: list[tuple[Round, int, bool]] = field(default_factory=list)
    """Sealed epochs whose files are to be deleted, and whether that was noted before."""


class EpochSealer:
    """Seals epochs of all collections. It changes the store only through the writer."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        clock: Clock,
        settings: Settings,
        log: Log,
        root: Path,
        metrics: Metrics,
    ) -> None:
        self._store, self._writer, self._clock = store, writer, clock
        self._settings, self._log, self._root, self._metrics = settings, log, root, metrics
        self._closed_since: dict[At, float] = {}
        """When this process first saw that an epoch was closed, in elapsed seconds."""
        self._waiting_since: dict[At, float] = {}
        """When it first saw that an epoch is to be sealed."""
        self._looked = False
        self._keys: dict[At, str] = {}
        """The names of the keys of epochs, as of the last look."""
        self.mismatched: set[At] = set()
        """Epochs left unsealed because their reports do not match their counts."""
        self.open = self.closed = 0
        """Number of open epochs, and of closed ones that can be reopened, as of the last look."""

    @property
    def failures(self) -> int:
        """Number of epochs left unsealed because their reports do not match their counts."""
        return len(self.mismatched)

    @property
    def waiting(self) -> int:
        """Number of epochs that are to be sealed."""
        return len(self._waiting_since)

    @property
    def behind(self) -> float:
        """Seconds that the oldest of them has waited."""
        since = min(self._waiting_since.values(), default=self._clock.elapsed())
        return self._clock.elapsed() - since

    async def run(self) -> None:
        """Seal what is due at regular intervals, until cancelled."""
        while True:
            await asyncio.sleep(self._settings.seal_seconds)
            try:
                await self.seal_due()
            except (Problem, StoreUnready) as error:
                self._metrics.seal_errors += 1
                self._log.say_seldom("sealing_waits", error=str(error))
            except Exception as error:
                self._metrics.seal_errors += 1
                self._log.error("sealing_failed", error)

    async def seal_due(self) -> None:
        """Seal every epoch that is due. An error in one collection is raised after all of them."""
        now = self._clock.now()
        failed: list[Exception] = []
        every = await asyncio.to_thread(self._due, now)
        for due in every:
            try:
                await self._seal_collection(due, now)
            except Exception as error:
                failed.append(error)
        await self._writer.call(lambda store: store.drop_spent_keys())
        await self._writer.call(self.look_for_keys)
        while await self._writer.call(lambda store: store.sweep_dropped()):
            pass
        if failed:
            raise failed[0]

    def read_keys(self) -> None:
        """Read which key each epoch has."""
        with self._store.reading() as session:
            self._keys = self._store.named_keys(session)

    def look_for_keys(self, store: Store) -> None:
        """Look whether every open epoch has the key of its ids, and log what is newly missing.

        The names are those that were read last, so a database that hangs does not hold up the writer.
        """
        missing, before = store.keys_not_there(self._keys), store.missing_keys
        if missing - before:
            store.refresh()  # a key is gone, too, if another process has closed its epoch since
            missing = store.keys_not_there(self._keys)
        store.missing_keys = missing
        for round_id, epoch in sorted(missing - before):
            round_ = store.control.round_by_id(round_id)
            collection = None if round_ is None else store.control.by_id(round_.collection)
            if collection is not None:
                self._log.say("key_missing", "error", collection=collection.name, epoch=epoch)

    async def _seal_collection(self, due: _Due, now: float) -> None:
        if self._writer.doubtful:
            return
        collection = due.collection
        if due.over:
            before = max(epoch for _, epoch in due.over) + 1
            if before > collection.closed_before:
                await self._close(collection, before, now)
            for round_, epoch in due.over:
                if self._held(round_, epoch):
                    await self._seal(collection, round_, epoch)
        for round_, epoch, noted in due.expired:
            if not noted:
                await self._writer.call(partial(Store.expire, round_=round_, epoch=epoch))
                self._log.say("segments_expired", collection=collection.name, epoch=epoch)
            await asyncio.to_thread(remove, folder_of(self._root, collection, round_, epoch))

    async def _close(self, collection: Collection, before: int, now: float) -> None:
        await self._writer.call(lambda store: close_epochs(store, collection, before, now))
        self._metrics.epochs_closed += 1
        self._log.say(
            "epoch_closed",
            collection=collection.name,
            epoch=before - 1,
            was_closed_before=collection.closed_before,
            clock="database" if self._store.clock is not None else "machine",
            reopen_seconds=self._settings.reopen_seconds,
        )

    def _held(self, round_: Round, epoch: int) -> bool:
        """Whether a closed epoch has kept its ids long enough."""
        at, now = (round_.id, epoch), self._clock.elapsed()
        if now - self._closed_since.setdefault(at, now) < self._settings.reopen_seconds:
            return False
        self._waiting_since.setdefault(at, now)
        return True

    def _due(self, now: float) -> list[_Due]:
        """What is to be done, for each collection that has something."""
        control, due = self._store.control, dict[int, _Due]()
        with self._store.reading() as session:
            for number, oldest in self._store.oldest(session).items():
                round_ = control.round_by_id(number)
                collection = None if round_ is None else control.by_id(round_.collection)
                if round_ is None or collection is None or not _ended(collection, oldest, now):
                    continue
                work = due.setdefault(collection.id, _Due(collection))
                epochs = self._store.epochs(session, round_)
                work.over += [(round_, e) for e in epochs if _ended(collection, e, now)]
            self._due_files(session, control, due, now)
            self._keys = self._store.named_keys(session)
        self.closed = sum(control.over(at) for at in self._keys)
        self.open = len(self._keys) - self.closed
        over = {(round_.id, epoch) for work in due.values() for round_, epoch in work.over}
        for known in (self._closed_since, self._waiting_since):
            for at in set(known) - over:  # sealed by another process, reopened or deleted
                del known[at]
        self.mismatched &= over
        return list(due.values())

    def _due_files(self, session: Session, control: Control, due: dict[int, _Due], now: float) -> None:
        """Sealed epochs whose files are to be deleted; those noted before only at the first look."""
        if not any(collection.terms.keep for collection in control.collections.values()):
            return
        sql = "select round, epoch, sealed, expired from sealed"
        for number, epoch, at, expired in session.rows(
            sql if not self._looked else f"{sql} where expired = 0"
        ):
            round_ = control.round_by_id(number)
            collection = None if round_ is None else control.by_id(round_.collection)
            days = None if collection is None else collection.terms.keep
            if round_ is None or collection is None or days is None or at + days * 86_400 > now:
                continue
            work = due.setdefault(collection.id, _Due(collection))
            work.expired.append((round_, epoch, bool(expired)))
        self._looked = True

    async def _seal(self, collection: Collection, round_: Round, epoch: int) -> None:
        await self._writer.call(lambda store: store.drop_spent_keys(round_, epoch))
        written = await asyncio.to_thread(self._write, collection, round_, epoch)
        if written is None:
            return
        manifest, tally = written
        now = int(self._clock.now())
        sealed = False
        if manifest:
            sealed = await self._writer.call(
                lambda store: store.seal(round_, epoch, manifest, tally, now)
            )
        if sealed:
            self._log.say(
                "epoch_sealed",
                collection=collection.name,
                round=round_.number,
                epoch=epoch,
                reports=manifest["reports"],
            )
        while await self._writer.call(lambda store: store.sweep(round_, epoch)):
            pass
        self._waiting_since.pop((round_.id, epoch), None)
        self._closed_since.pop((round_.id, epoch), None)

    def _write(
        self, collection: Collection, round_: Round, epoch: int
    ) -> tuple[dict[str, object], bytes] | None:
        """Write an epoch to files: its manifest and tally.

        The manifest is empty if the epoch is sealed already; None if it cannot be sealed now.
        """
        store = self._store
        plan = store.book(round_).plan
        with store.reading() as session, store.sealing(session, collection) as mine:
            if not mine:
                return None
            if session.rows("select 1 from sealed where round = ? and epoch = ?", (round_.id, epoch)):
                return {}, b""
            facts = {"collection": collection.name, "round": round_.number, "epoch": epoch}
            payloads = (segment.payload for segment in store.segments(session, round_, epoch))
            folder = folder_of(self._root, collection, round_, epoch)
            manifest, tally = write_epoch(folder, facts, plan, payloads)
            if not np.array_equal(tally.counts, store.sum_counts(session, round_, epoch)):
                self.mismatched.add((round_.id, epoch))
                self._log.say("epoch_does_not_add_up", "error", collection=collection.name, epoch=epoch)
                return None
        return manifest, tally.dumps()


def _ended(collection: Collection, epoch: int, now: float) -> bool:
    """Whether an epoch is closed, or is to be closed."""
    return epoch < collection.closed_before or collection.terms.over(epoch, now)


def close_epochs(store: Store, collection: Collection, before: int, now: float) -> None:
    """Close all epochs below ``before``, if the clock that the fleet agrees on says so."""

    def work(session: Session, control: Control) -> None:
        if not collection.terms.over(before - 1, store.agreed_time(session, now)):
            raise Problem("clock", "by the database's clock the epoch has not ended")
        session.run(
            "update collections set closed_before = ? where id = ? and closed_before < ?",
            (before, collection.id, before),
        )

    store.change(work, collection.name)
