"""The writer: one thread that owns the store and commits all waiting reports in one transaction.

While a commit is on its way to the disk, requests pile up; the next commit takes them all. So the group
grows with the load. Under load it also waits for a moment before it begins, so that fewer and larger
transactions leave more of the processor to requests; a request that comes alone never waits.

A store with several lanes has one transaction in each. A lane that fails hands its group on. All other
work is the first lane's.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from ..process.clock import Clock
from ..process.logs import Log
from ..process.metrics import Metrics
from ..process.problems import Problem
from ..process.settings import Settings
from ..store import Parcel, Store, StoreBroken, StoreUnready
from ..store.store_interface import HELD
from .group_commit import APART_SECONDS, GroupCommit, StoreCall, Waiting
from .writer_lanes import WriterLanes

GATHER_SECONDS = 0.002
"""Time that a busy writer leaves to requests before it begins a transaction."""
BUSY_REQUESTS = 8
"""Number of requests in the last transaction from which the writer is busy."""

T = TypeVar("T")


class Writer(GroupCommit):
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
        super().__init__(store, clock, settings, metrics, log, threaded)
        self._waiting: dict[asyncio.Future[None], tuple[float, int]] = {}
        """When each waiting request arrived and how many reports it has; the oldest first."""
        self._busy_since: float | None = None
        self._thread: threading.Thread | None = None
        self._draining = False
        self._refused: dict[tuple[int, str], int] = {}
        self._counting = threading.Lock()
        self._last_tick = self._last_probe = clock.elapsed()
        self._last_requests = 0
        """Number of requests in the last transaction."""

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
            self._flush_refusals(self.store)

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
    def lanes_out(self) -> int:
        """Number of lanes that get no reports because they cannot write."""
        return len(self._lanes.out)

    @property
    def stalled(self) -> float:
        """Seconds for which the store has not answered; 0 if nothing is asked of it."""
        busy = [since for since in (self._busy_since, self._lanes.busy_since) if since is not None]
        return max(0.0, self._clock.elapsed() - min(busy)) if busy else 0.0

    @property
    def hung(self) -> float:
        """Seconds for which no lane that should write has answered; 0 if one is free."""
        if self._lanes.alone:
            return self.stalled
        since = self._lanes.all_busy_since
        return 0.0 if since is None else max(0.0, self._clock.elapsed() - since)

    @property
    def idle(self) -> float:
        """Seconds since the store was last written. Without a thread nothing writes by itself: 0."""
        return self._clock.elapsed() - self.last_write if self._threaded else 0.0

    async def call(self, work: Callable[[Store], T]) -> T:
        """Run work on the first lane's store, after the reports that came before it."""
        if self.broken:
            raise Problem("unhealthy")
        future: Future[T] = Future()
        self._queue.put(StoreCall(work, future))
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
        self._finish()
        self._lanes.stop()
        self._flush_refusals(self.store)

    def _finish(self) -> None:
        """Commit what lanes have handed on meanwhile."""
        while True:
            with self._lanes.idle():
                if self._queue.empty():
                    return
            try:
                self._take(self._queue.get())
            except Exception as error:
                self._break(error)

    def _step(self) -> bool:
        """Process the next item; False when asked to end."""
        self._busy_since = None
        first: Waiting | StoreCall | None
        try:
            first = self._queue.get(timeout=self.settings.tick_seconds)
        except queue.Empty:
            self._busy_since = self._clock.elapsed()
            self.tick()
            return True
        self._busy_since = self._clock.elapsed()
        if self._last_requests >= BUSY_REQUESTS:
            time.sleep(GATHER_SECONDS)
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

    def _take(self, first: Waiting | StoreCall | None) -> bool:
        """Process a call, or commit all waiting parcels; False when asked to end."""
        group: list[Waiting] = []
        size = 0
        item: Waiting | StoreCall | None = first
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
            self._dispatch(group)
        if isinstance(item, StoreCall):
            self._lanes.call(partial(self._run, item))
        if self.store.broken and not self.broken:  # it failed after the work was durable
            self._break(StoreBroken())
        return item is not None

    def _dispatch(self, group: list[Waiting]) -> None:
        """Hand a group to the lanes, without the requests that are kept apart; then those."""
        apart = self._apart
        kept = [request for request in group if request.parcel.collection in apart] if apart else []
        if kept:
            group = [request for request in group if request.parcel.collection not in apart]
        for part in filter(None, (group, kept)):
            self._lanes.write(part)

    def _run(self, call: StoreCall, store: Store) -> None:
        if not call.future.set_running_or_notify_cancel():
            return  # the caller is gone
        if self.broken:
            call.future.set_exception(Problem("unhealthy"))
            return
        store.lock_wait = 0.0
        try:
            result = call.work(store)
        except StoreUnready as error:
            self._failed(store, error, reports=error.kind == HELD)
            call.future.set_exception(Problem("storage"))
        except StoreBroken as error:
            self._break(error)
            call.future.set_exception(Problem("unhealthy"))
        except Exception as error:
            call.future.set_exception(error)
        else:
            call.future.set_result(result)

    def tick(self) -> None:
        """Between groups: write refusals, read changes by other processes, see that all is well.

        Each lane does its part when it is free; a lane that is out tries whether it works.
        """
        now = self._last_tick = self._clock.elapsed()
        if self.broken:
            return
        due = self.unready or now - self._last_probe >= self.settings.probe_seconds
        if due:
            self._last_probe = now
        out = self._lanes.out
        for number in range(len(self._lanes.stores)):
            probing = due or number in out
            if number == 0 or probing:
                self._lanes.ask(number, partial(self._look_after, number == 0, probing))
        with self._noting:
            self._trusted()
        if self.store.broken and not self.broken:  # it failed after the refusals were durable
            self._break(StoreBroken())

    def _look_after(self, first: bool, probing: bool, store: Store) -> None:
        """A lane's part of a tick."""
        store.lock_wait = 0.0
        try:
            if first:
                store.patience = APART_SECONDS
                self._flush_refusals(store)
                store.patience = None
                store.refresh()
            if probing:
                store.probe()  # under load, too: it renews the lease of the lane's shard
                with self._noting:
                    self._wrote(store, probe=True)
        except StoreUnready as error:
            self._failed(store, error)
        except Exception as error:
            self._break(error)

    def _flush_refusals(self, store: Store) -> None:
        with self._counting:
            refused, self._refused = self._refused, {}
        if not refused or self.broken:
            return
        try:
            store.add_refusals(refused)
        except StoreUnready as error:
            self._failed(store, error, reports=error.kind == HELD)
            for (collection, reason), number in refused.items():
                self.refused(collection, reason, number)
        except Exception as error:
            self._break(error)
