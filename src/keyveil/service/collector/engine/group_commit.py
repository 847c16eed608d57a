"""Making groups of reports durable, and what happens to a group whose transaction fails.

A lane that fails hands its group on to one that works. A collection whose lock another transaction
holds for long is kept apart: its reports get transactions of their own, which hardly wait, so that they
hold up no others.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ..process.clock import Clock, Trust, offset_of
from ..process.logs import Log
from ..process.metrics import Metrics
from ..process.problems import Problem
from ..process.settings import Settings
from ..store import Parcel, Store, StoreBroken, StoreUnready
from ..store.store_interface import HELD, StoreFault
from .outage import Outages
from .writer_lanes import WriterLanes

APART_SECONDS = 0.05
"""Time that the reports of a collection that is kept apart wait for its lock."""
TOGETHER = 1 / 3
"""Share of ``lock_seconds`` that reports of several collections wait for a lock.

They hold the locks of all their collections meanwhile. A transaction may wait for two locks in turn, and
a change of one of these collections waits for ``lock_seconds``: it must not be refused before.
"""


@dataclass(slots=True)
class Waiting:
    """A request that waits for its reports to become durable."""

    parcel: Parcel
    future: asyncio.Future[None]
    handed: int = 0
    """How often a lane that failed has handed it on."""


@dataclass(slots=True)
class StoreCall:
    """Work on the store between two transactions of reports."""

    work: Callable[[Store], Any]
    future: Future[Any]


class GroupCommit:
    """The part of a writer that commits groups, in the threads of its lanes."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        metrics: Metrics,
        log: Log,
        threaded: bool,
    ) -> None:
        self.store, self.settings, self.metrics, self.log = store, settings, metrics, log
        self._clock, self._trust = clock, Trust(clock, settings.clock_seconds)
        self.outages = Outages(clock, log, metrics)
        self.last_write = clock.elapsed()
        """When the store was last written, in elapsed seconds."""
        self._threaded = threaded
        self._queue: queue.SimpleQueue[Waiting | StoreCall | None] = queue.SimpleQueue()
        self._lanes = WriterLanes([store], self._write, clock)
        self._noting = threading.Lock()
        """Held by the lane that notes how its transaction ended."""
        self._apart: frozenset[int] = frozenset()
        """Collections that are kept apart, by number."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self.broken = False
        """Set for good when the store may have lost data."""
        self.doubtful = False
        """Set while the clock is in doubt."""

    def _write(self, store: Store, group: list[Waiting]) -> None:
        """Make a group durable through one lane's store, and tell its requests."""
        try:
            if self._apart.isdisjoint(request.parcel.collection for request in group):
                self._commit(store, group)
            else:
                self._commit_apart(store, group)
        except Exception as error:  # unforeseen: refuse everything from now on, but keep answering
            self._break(error)

    def _commit(self, store: Store, group: list[Waiting]) -> None:
        begun = self._clock.elapsed()
        if len({request.parcel.collection for request in group}) > 1:
            store.patience = TOGETHER * self.settings.lock_seconds
        try:
            reason = self._append(store, group)
        finally:
            store.patience = None
        if reason == "internal" and len(group) > 1:  # one causes the error: commit them one by one
            for request in group:
                self._commit(store, [request])
        elif reason == "held":
            self._commit_apart(store, group)
        elif reason == "failed":
            self._hand_on(group)
        else:
            self._tell(group, reason, begun)

    def _commit_apart(self, store: Store, group: list[Waiting]) -> None:
        """Commit each collection of a group by itself, without waiting long for any lock."""
        begun = self._clock.elapsed()
        parts: dict[int, list[Waiting]] = {}
        for request in group:
            parts.setdefault(request.parcel.collection, []).append(request)
        store.patience = APART_SECONDS
        try:
            for number, part in parts.items():
                if self._clock.elapsed() - begun > self.settings.lock_seconds:
                    self._tell(part, "storage", begun)  # too many are held
                    continue
                reason = self._append(store, part)
                self._keep_apart(store, number, reason == "held")
                if reason == "failed":
                    self._hand_on(part)
                elif reason == "internal":
                    self._commit(store, part)
                else:
                    self._tell(part, "storage" if reason == "held" else reason, begun)
        finally:
            store.patience = None

    def _keep_apart(self, store: Store, number: int, held: bool) -> None:
        """Note whether a collection's lock is held by a transaction that takes long."""
        with self._noting:
            if held == (number in self._apart):
                return
            self._apart = self._apart | {number} if held else self._apart - {number}
        collection = store.control.by_id(number)
        if collection is not None:
            self.log.say_seldom(
                "collection_held" if held else "collection_free", collection=collection.name
            )

    def _hand_on(self, group: list[Waiting]) -> None:
        """Leave a group to the lanes that work; refuse requests that all lanes have had."""
        over = [request for request in group if request.handed == len(self._lanes.stores)]
        self._tell(over, "storage", 0.0)
        for request in group:
            if request.handed < len(self._lanes.stores):
                request.handed += 1
                self._queue.put(request)

    def _tell(self, group: list[Waiting], reason: str | None, begun: float) -> None:
        """Tell the requests of a group how their transaction ended."""
        if reason is None:
            size = sum(len(request.parcel.ids) for request in group)
            with self._noting:
                self.metrics.committed(len(group), size, self._clock.elapsed() - begun)
        problem = None if reason is None else Problem(reason)
        assert self._loop is not None
        if self._threaded:
            self._loop.call_soon_threadsafe(_settle, group, problem)
        else:
            _settle(group, problem)

    def _append(self, store: Store, group: list[Waiting]) -> str | None:
        """Make a group durable; the reason if it failed.

        ``held`` means that a lock was not to be had, ``failed`` that another lane may do it.
        """
        if self.broken:
            return "unhealthy"
        store.lock_wait = 0.0
        try:
            with self._noting:
                trusted = self._trusted()
            store.append([request.parcel for request in group], self._clock.now(), trusted)
        except StoreUnready as error:
            if self._failed(store, error, reports=True):
                return "held" if error.kind == HELD else "failed"
            return "storage"
        except StoreBroken as error:
            self._break(error)
            return "unhealthy"
        except Exception as error:  # before the commit, so nothing was written
            self.log.error("group_failed", error)
            return "internal"
        with self._noting:
            self._wrote(store)
        return None

    # -- how transactions end ----------------------------------------------------------------------

    def _failed(self, store: Store, error: StoreUnready, reports: bool = False) -> bool:
        """Note that a lane could not do something; whether its ``reports`` have another way.

        A lock that another transaction holds is no failure of the lane.
        """
        with self._noting:
            if store.lock_wait:
                self.metrics.lock_waits.add(store.lock_wait)
            if error.kind == HELD and reports:
                self.metrics.store_errors[HELD] += 1
                return True
            others = self._lanes.fail(store)
            if others:
                number = self._lanes.stores.index(store)
                self.outages.lane_failed(number, error, self.last_write)
            else:
                self.outages.failed(error)
            return others

    def _wrote(self, store: Store, probe: bool = False) -> None:
        """Note that a lane's store was written."""
        self.last_write = self._clock.elapsed()
        self.metrics.lock_waits.add(store.lock_wait)
        self.metrics.reconnects = sum(lane.reconnects for lane in self._lanes.stores)
        self._lanes.restore(store)
        self.outages.lane_worked(self._lanes.stores.index(store))
        self.outages.worked(probe)

    def _trusted(self) -> bool:
        trusted = self._trust.ask()
        if trusted == self.doubtful:
            self.doubtful = not trusted
            event = "clock_doubted" if self.doubtful else "clock_trusted"
            self.log.say(event, "warning", offset=round(offset_of(self._clock), 3))
        return trusted

    def _break(self, error: Exception) -> None:
        """Stop acknowledging for good: the state of the disk is unknown, or the store needs a person.

        The process then ends, so that a supervisor starts it again.
        """
        self.broken = True
        kind = error.kind if isinstance(error, StoreFault) else type(error).__name__
        self.metrics.store_errors[kind] += 1
        self.log.error("store_broken", error, kind=kind)


def _settle(group: list[Waiting], problem: Problem | None) -> None:
    for request in group:
        if request.future.done():
            continue  # the request is gone
        if problem is None:
            request.future.set_result(None)
        else:
            request.future.set_exception(Problem(problem.reason))
