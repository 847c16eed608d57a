"""The keeper: closes epochs that are over, destroys their keys, seals them, sweeps their log, lets
segments expire."""

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


class Keeper:
    """Looks at every collection now and then; all that it writes goes through the writer."""

    def __init__(
        self, store: Store, writer: Writer, clock: Clock, settings: Settings, log: Log, root: Path
    ) -> None:
        self._store, self._writer, self._clock = store, writer, clock
        self._settings, self._log, self._root = settings, log, root
        self.failures = 0
        """Epochs whose segments did not add up to their counts, and were left as they are."""

    async def run(self) -> None:
        """For as long as the service lives."""
        while True:
            await asyncio.sleep(self._settings.keep_seconds)
            try:
                await self.keep()
            except (Problem, StoreUnready) as error:
                self._log.say_seldom("keeper_waits", error=str(error))
            except Exception as error:
                self.failures += 1
                self._log.error("keeper_failed", error)

    async def keep(self) -> None:
        """Once: whatever is due. What fails for one round holds up no other, and is raised after."""
        now = self._clock.now()
        failed: list[Exception] = []
        for collection, one, over, kept in await asyncio.to_thread(self._look, now):
            try:
                await self._keep_round(collection, one, now, over, kept)
            except Exception as error:
                failed.append(error)
        await self._writer.call(lambda store: store.drop_spent_keys())
        if failed:
            raise failed[0]

    async def _keep_round(
        self, collection: Collection, one: Round, now: float, over: list[int], kept: list[Sealed]
    ) -> None:
        if over and not self._writer.doubtful:
            before = max(over) + 1
            if before > collection.closed_before:
                await self._writer.call(lambda store: close_epochs(store, collection, before))
            for epoch in over:
                await self._seal(collection, one, epoch)
        days = collection.terms.keep
        for sealed in kept:
            epoch = sealed.epoch
            if days is not None and not self._writer.doubtful and sealed.at + days * 86_400 <= now:
                if not sealed.expired:
                    await self._writer.call(partial(_expire, one, epoch))
                    self._log.say("segments_expired", collection=collection.name, epoch=epoch)
                await asyncio.to_thread(remove, folder_of(self._root, collection, one, epoch))

    def _look(self, now: float) -> list[tuple[Collection, Round, list[int], list[Sealed]]]:
        """For every round, the epochs in the log that are over, and what was sealed before."""
        store = self._store
        found = []
        with store.reading() as session:
            for collection in list(store.control.collections.values()):
                terms = collection.terms
                for one in collection.rounds:
                    oldest = store.oldest(session, one)
                    over: list[int] = []
                    if oldest is not None and terms.over(oldest, now):
                        over = [e for e in store.epochs(session, one) if terms.over(e, now)]
                    kept = store.sealed(session, one) if terms.keep is not None else []
                    found.append((collection, one, over, kept))
        return found

    async def _seal(self, collection: Collection, one: Round, epoch: int) -> None:
        made = await asyncio.to_thread(self._write, collection, one, epoch)
        if made is None:
            return
        manifest, tally = made
        now = int(self._clock.now())
        sealed = False
        if manifest:
            sealed = await self._writer.call(lambda store: store.seal(one, epoch, manifest, tally, now))
        if sealed:
            self._log.say(
                "epoch_sealed",
                collection=collection.name,
                round=one.number,
                epoch=epoch,
                reports=manifest["reports"],
            )
        while await self._writer.call(lambda store: store.sweep(one, epoch)):
            pass

    def _write(
        self, collection: Collection, one: Round, epoch: int
    ) -> tuple[dict[str, object], bytes] | None:
        """The epoch as files; an empty manifest if it is sealed already, None if it cannot be now."""
        store = self._store
        packing = store.book(one).packing
        with store.sealing() as mine, store.reading() as session:
            if not mine:
                return None
            if any(sealed.epoch == epoch for sealed in store.sealed(session, one)):
                return {}, b""
            facts = {"collection": collection.name, "round": one.number, "epoch": epoch}
            payloads = (segment.payload for segment in store.segments(session, one, epoch))
            folder = folder_of(self._root, collection, one, epoch)
            manifest, tally = write_epoch(folder, facts, packing, payloads)
            if not np.array_equal(tally.counts, store.epoch_counts(session, one, epoch)):
                self.failures += 1
                self._log.say("epoch_does_not_add_up", collection=collection.name, epoch=epoch)
                return None
        return manifest, tally.dumps()


def _expire(one: Round, epoch: int, store: Store) -> None:
    store.expire(one, epoch)


def close_epochs(store: Store, collection: Collection, before: int) -> None:
    """Close every epoch below ``before`` for good."""

    def work(session: Session, control: Control) -> None:
        session.run(
            "update collections set closed_before = ? where id = ? and closed_before < ?",
            (before, collection.id, before),
        )

    store.change(work)
    store.drop_spent_keys()
