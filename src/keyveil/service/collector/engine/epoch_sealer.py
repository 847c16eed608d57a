"""Sealing: epochs that have ended are closed, their keys destroyed, their reports written as files.

After that the epoch's rows leave the report log. Files older than the collection keeps are deleted.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import numpy as np

from ..process.clock import Clock
from ..process.logs import Log
from ..process.problems import Problem
from ..process.settings import Settings
from ..store import Sealed, Session, Store, StoreUnready
from ..store.collection import Collection, Control, Round
from ..store.segments import folder_of, remove, write_epoch
from .writer import Writer


class EpochSealer:
    """Seals epochs of all collections. It changes the store only through the writer."""

    def __init__(
        self, store: Store, writer: Writer, clock: Clock, settings: Settings, log: Log, root: Path
    ) -> None:
        self._store, self._writer, self._clock = store, writer, clock
        self._settings, self._log, self._root = settings, log, root
        self.failures = 0
        """Number of epochs left unsealed because their reports do not match their counts."""

    async def run(self) -> None:
        """Seal what is due at regular intervals, until cancelled."""
        while True:
            await asyncio.sleep(self._settings.seal_seconds)
            try:
                await self.seal_due()
            except (Problem, StoreUnready) as error:
                self._log.say_seldom("sealing_waits", error=str(error))
            except Exception as error:
                self.failures += 1
                self._log.error("sealing_failed", error)

    async def seal_due(self) -> None:
        """Seal every epoch that is due. An error in one round is raised after all rounds."""
        now = self._clock.now()
        failed: list[Exception] = []
        for collection, round_, over, sealed in await asyncio.to_thread(self._due, now):
            try:
                await self._seal_round(collection, round_, now, over, sealed)
            except Exception as error:
                failed.append(error)
        await self._writer.call(lambda store: store.drop_spent_keys())
        if failed:
            raise failed[0]

    async def _seal_round(
        self,
        collection: Collection,
        round_: Round,
        now: float,
        over: list[int],
        sealed_epochs: list[Sealed],
    ) -> None:
        if over and not self._writer.doubtful:
            before = max(over) + 1
            if before > collection.closed_before:
                await self._writer.call(lambda store: close_epochs(store, collection, before))
            for epoch in over:
                await self._seal(collection, round_, epoch)
        days = collection.terms.keep
        for sealed in sealed_epochs:
            epoch = sealed.epoch
            if days is not None and not self._writer.doubtful and sealed.at + days * 86_400 <= now:
                if not sealed.expired:
                    await self._writer.call(partial(Store.expire, round_=round_, epoch=epoch))
                    self._log.say("segments_expired", collection=collection.name, epoch=epoch)
                await asyncio.to_thread(remove, folder_of(self._root, collection, round_, epoch))

    def _due(self, now: float) -> list[tuple[Collection, Round, list[int], list[Sealed]]]:
        """For every round, the ended epochs in its log and its sealed epochs."""
        store = self._store
        due = []
        with store.reading() as session:
            for collection in list(store.control.collections.values()):
                terms = collection.terms
                for round_ in collection.rounds:
                    oldest = store.oldest(session, round_)
                    over: list[int] = []
                    if oldest is not None and terms.over(oldest, now):
                        over = [e for e in store.epochs(session, round_) if terms.over(e, now)]
                    sealed = store.sealed(session, round_) if terms.keep is not None else []
                    due.append((collection, round_, over, sealed))
        return due

    async def _seal(self, collection: Collection, round_: Round, epoch: int) -> None:
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

    def _write(
        self, collection: Collection, round_: Round, epoch: int
    ) -> tuple[dict[str, object], bytes] | None:
        """Write an epoch to files: its manifest and tally.

        The manifest is empty if the epoch is sealed already; None if it cannot be sealed now.
        """
        store = self._store
        plan = store.book(round_).plan
        with store.sealing() as mine, store.reading() as session:
            if not mine:
                return None
            if any(sealed.epoch == epoch for sealed in store.sealed(session, round_)):
                return {}, b""
            facts = {"collection": collection.name, "round": round_.number, "epoch": epoch}
            payloads = (segment.payload for segment in store.segments(session, round_, epoch))
            folder = folder_of(self._root, collection, round_, epoch)
            manifest, tally = write_epoch(folder, facts, plan, payloads)
            if not np.array_equal(tally.counts, store.sum_counts(session, round_, epoch)):
                self.failures += 1
                self._log.say("epoch_does_not_add_up", collection=collection.name, epoch=epoch)
                return None
        return manifest, tally.dumps()


def close_epochs(store: Store, collection: Collection, before: int) -> None:
    """Close all epochs below ``before`` for good."""

    def work(session: Session, control: Control) -> None:
        session.run(
            "update collections set closed_before = ? where id = ? and closed_before < ?",
            (before, collection.id, before),
        )

    store.change(work)
    store.drop_spent_keys()
