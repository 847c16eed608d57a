"""The writer: one thread that owns the store and commits all waiting reports in one transaction.

While a commit is on its way to the disk, requests pile up; the next commit takes them all. So the group
grows with the load. Under load it also waits for a moment before it begins, so that fewer and larger
transactions leave more of the processor to requests; a request that comes alone never waits.

A store with several lanes has one transaction in each. All other work waits until no lane writes.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from ..process.clock import Clock, Trust, offset_of
from ..process.logs import Log
from ..process.metrics import Metrics
from ..process.problems import Problem
from ..process.settings import Settings
from ..store import Parcel, Store, StoreBroken, StoreUnready
from ..store.store_interface import StoreFault
from .outage import Outages
from .writer_lanes import WriterLanes

GATHER_SECONDS = 0.002
"""Time that a busy writer leaves to requests before it begins a transaction."""
GATHER_AMONG_LANES = 0.0005
"""The same with several lanes: requests also gather while the other lanes write."""
BUSY_REQUESTS = 8
"""Number of requests in the last transaction from which the writer is busy."""

T = TypeVar("T")


@dataclass(slots=True)
class Waiting:
    """A request that waits for its reports to become durable."""

    parcel: Parcel
    future: asyncio.Future[None]


@dataclass(slots=True)
class _Call:
    """Work on the store between two transactions of reports."""

    work: Callable[[Store], Any]
    future: Future[Any]


class Writer:
    """Takes parcels from the event loop and completes each when it is durable or refused.

    With ``threaded=False`` everything runs step by step in the event loop's thread, for repeatable
    tests.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        metrics: Metrics,
        log: Log,
        threaded: bool = True,
    ) -> None:
        self.store, self.settings, self.metrics, self.log = store, settings, metrics, log
        self._clock, self._trust = clock, Trust(clock, settings.clock_seconds)
        self.outages = Outages(clock, log, metrics)
        self._waiting: dict[asyncio.Future[None], tuple[float, int]] = {}
        """When each waiting request arrived and how many reports it has; the oldest first."""
        self._busy_since: float | None = None
        self.last_write = clock.elapsed()
        """When the store was last written, in elapsed seconds."""
        self._threaded = threaded
        self._queue: queue.SimpleQueue[Waiting | _Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lanes = WriterLanes([store], self._write, clock)
        self._noting = threading.Lock()
        """Held by the lane that notes how its transaction ended."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining = False
        self._refused: dict[tuple[int, str], int] = {}
        self._counting = threading.Lock()
        self._last_tick = self._last_probe = clock.elapsed()
        self._last_requests = 0
        """Number of requests in the last transaction."""
        self.broken = False
        """Set for good when the store may have lost data."""
        self.doubtful = False
        """Set while the clock is in doubt."""

    # -- from the event loop -----------------------------------------------------------------------

    def start(self) -> None:
        """Start; call it in the running event loop."""
        self._loop = asyncio.get_running_loop()
        if self._threaded:
            self._lanes = WriterLanes([self.store, *self.store.lanes()], self._write, self._clock)
            self._lanes.start()
            self._thread = threading.Thread(target=self._work, name="keyveil-writer", daemon=True)
            self._thread.start()

    async def stop(self) -> None:
        """Finish waiting requests, then stop."""
        if self._thread is not None:
            self._queue.put(None)
            while self._thread.is_alive():  # no thread of the pool waits for it: it may never end
                await asyncio.sleep(0.02)
            self._thread = None
        else:
            self._drain()
            self._flush_refusals()

    def submit(self, parcel: Parcel) -> asyncio.Future[None]:
        """Make reports durable; the future completes when they are."""
        assert self._loop is not None
        future = self._loop.create_future()
        if self.broken:
            future.set_exception(Problem("unhealthy"))
            return future
        self._waiting[future] = self._clock.elapsed(), len(parcel.ids)
        future.add_done_callback(self._waiting.pop)
        self._queue.put(Waiting(parcel, future))
        self._nudge()
        return future

    def give_up(self) -> None:
        """Refuse all waiting requests. They may be counted, so clients send them again."""
        for future in list(self._waiting):
            if not future.done():
                future.set_exception(Problem("storage"))

    def queue(self) -> tuple[int, int, float]:
        """The waiting requests, their reports, and the seconds that the oldest of them has waited."""
        waiting = list(self._waiting.values())
        if not waiting:
            return 0, 0, 0.0
        oldest = self._clock.elapsed() - waiting[0][0]
        return len(waiting), sum(size for _, size in waiting), max(0.0, oldest)

    @property
    def unready(self) -> bool:
        """Whether the store cannot accept reports."""
        return self.outages.now

    @property
    def stalled(self) -> float:
        """Seconds for which the store has not answered; 0 if nothing is asked of it."""
        busy = [since for since in (self._busy_since, self._lanes.busy_since) if since is not None]
        return max(0.0, self._clock.elapsed() - min(busy)) if busy else 0.0

    @property
    def idle(self) -> float:
        """Seconds since the store was last written. Without a thread nothing writes by itself: 0."""
        return self._clock.elapsed() - self.last_write if self._threaded else 0.0

    async def call(self, work: Callable[[Store], T]) -> T:
        """Run work on the store while no reports are being committed."""
        if self.broken:
            raise Problem("unhealthy")
        future: Future[T] = Future()
        self._queue.put(_Call(work, future))
        self._nudge()
        return await asyncio.wrap_future(future)

    def refused(self, collection: int, reason: str, number: int = 1) -> None:
        """Count refusals. They are written within a tick, in a transaction of their own."""
        key = (collection, reason)
        with self._counting:
            self._refused[key] = self._refused.get(key, 0) + number

    def _nudge(self) -> None:
        if not self._threaded and not self._draining:
            self._draining = True
            assert self._loop is not None
            self._loop.call_soon(self._drain)

    # -- the writer's thread -----------------------------------------------------------------------

    def _work(self) -> None:
        going = True
        while going:
            try:
                going = self._step()
            except Exception as error:  # unforeseen: refuse everything from now on, but keep answering
                self._break(error)
        self._lanes.stop()
        self._flush_refusals()

    def _step(self) -> bool:
        """Process the next item; False when asked to end."""
        self._busy_since = None
        first: Waiting | _Call | None
        try:
            first = self._queue.get(timeout=self.settings.tick_seconds)
        except queue.Empty:
            self._busy_since = self._clock.elapsed()
            self.tick()
            return True
        self._busy_since = self._clock.elapsed()
        if self._last_requests >= BUSY_REQUESTS:
            time.sleep(GATHER_SECONDS if self._lanes.alone else GATHER_AMONG_LANES)
        going = self._take(first)
        if self._clock.elapsed() - self._last_tick >= self.settings.tick_seconds:
            self._busy_since = self._clock.elapsed()
            self.tick()
        return going

    def _drain(self) -> None:
        self._draining = False
        while True:
            try:
                first = self._queue.get_nowait()
            except queue.Empty:
                return
            self._take(first)

    def _take(self, first: Waiting | _Call | None) -> bool:
        """Process a call, or commit all waiting parcels; False when asked to end."""
        group: list[Waiting] = []
        size = 0
        item: Waiting | _Call | None = first
        while isinstance(item, Waiting):
            group.append(item)
            size += len(item.parcel.ids)
            if size >= self.settings.group_reports:
                break
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
        if group:
            self._last_requests = len(group)
            self._lanes.write(group)
        if isinstance(item, _Call):
            with self._lanes.idle():
                self._run(item)
        if self.store.broken and not self.broken:  # it failed after the work was durable
            self._break(StoreBroken())
        return item is not None

    def _write(self, store: Store, group: list[Waiting]) -> None:
        """Make a group durable through one lane's store, and tell its requests."""
        try:
            self._commit(store, group)
        except Exception as error:  # unforeseen: refuse everything from now on, but keep answering
            self._break(error)

    def _commit(self, store: Store, group: list[Waiting]) -> None:
        begun = self._clock.elapsed()
        reason = self._append(store, group)
        if reason == "internal" and len(group) > 1:  # one causes the error: commit them one by one
            for request in group:
                self._commit(store, [request])
            return
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
        """Make a group durable; the reason if it failed."""
        if self.broken:
            return "unhealthy"
        try:
            with self._noting:
                trusted = self._trusted()
            store.append([request.parcel for request in group], self._clock.now(), trusted)
        except StoreUnready as error:
            with self._noting:
                self.outages.failed(error)
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

    def _wrote(self, store: Store, probe: bool = False) -> None:
        """Note that a lane's store was written."""
        self.last_write = self._clock.elapsed()
        self.metrics.lock_waits.add(store.lock_wait)
        self.metrics.reconnects = sum(lane.reconnects for lane in self._lanes.stores)
        self.outages.worked(probe)

    def _trusted(self) -> bool:
        trusted = self._trust.ask()
        if trusted == self.doubtful:
            self.doubtful = not trusted
            event = "clock_doubted" if self.doubtful else "clock_trusted"
            self.log.say(event, "warning", offset=round(offset_of(self._clock), 3))
        return trusted

    def _run(self, call: _Call) -> None:
        if not call.future.set_running_or_notify_cancel():
            return  # the caller is gone
        if self.broken:
            call.future.set_exception(Problem("unhealthy"))
            return
        try:
            result = call.work(self.store)
        except StoreUnready as error:
            self.outages.failed(error)
            call.future.set_exception(Problem("storage"))
        except StoreBroken as error:
            self._break(error)
            call.future.set_exception(Problem("unhealthy"))
        except Exception as error:
            call.future.set_exception(error)
        else:
            call.future.set_result(result)

    def _break(self, error: Exception) -> None:
        """Stop acknowledging for good: the state of the disk is unknown, or the store needs a person.

        The process then ends, so that a supervisor starts it again.
        """
        self.broken = True
        kind = error.kind if isinstance(error, StoreFault) else type(error).__name__
        self.metrics.store_errors[kind] += 1
        self.log.error("store_broken", error, kind=kind)

    def tick(self) -> None:
        """Between groups: write refusals, read changes by other processes, see that all is well."""
        self._last_tick = self._clock.elapsed()
        if self.broken:
            return
        with self._lanes.idle() as stores:
            self._flush_refusals()
            try:
                self.store.refresh()
                if (
                    self.unready
                    or self._clock.elapsed() - self._last_probe >= self.settings.probe_seconds
                ):
                    for store in stores:
                        store.probe()  # under load, too: it renews the lease of the lane's shard
                    self._last_probe = self._clock.elapsed()
                    self._wrote(self.store, probe=True)
            except StoreUnready as error:
                self.outages.failed(error)
            except Exception as error:
                self._break(error)
        self._trusted()
        if self.store.broken and not self.broken:  # it failed after the refusals were durable
            self._break(StoreBroken())

    def _flush_refusals(self) -> None:
        with self._counting:
            refused, self._refused = self._refused, {}
        if not refused or self.broken:
            return
        try:
            self.store.add_refusals(refused)
        except StoreUnready as error:
            self.outages.failed(error)
            for (collection, reason), number in refused.items():
                self.refused(collection, reason, number)
        except Exception as error:
            self._break(error)


def _settle(group: list[Waiting], problem: Problem | None) -> None:
    for request in group:
        if request.future.done():
            continue  # the request is gone
        if problem is None:
            request.future.set_result(None)
        else:
            request.future.set_exception(Problem(problem.reason))
