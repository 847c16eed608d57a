"""Lanes: threads that make groups of reports durable at the same time, each through a store of its own.

A transaction of PostgreSQL is mostly the database's work. With two lanes, requests are read and the next
group is formed while the database writes the one before. A store with one lane needs no thread for it.

A lane whose store fails is out: it gets no groups until it has worked again. The last lane is never out.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Generic, TypeVar

from ..process.clock import Clock
from ..store import Store

SLOW_SECONDS = 1.0
"""Time after which other work no longer waits for a lane."""

G = TypeVar("G")
"""A group of requests."""
Work = Callable[[Store], None]
"""What a lane does with its store. It never raises."""


class WriterLanes(Generic[G]):
    """The lanes of one writer. Groups go to the first lane that is free and not out.

    ``write`` makes a group durable through a store. It is called in the lane's thread and never raises.
    """

    def __init__(self, stores: Sequence[Store], write: Callable[[Store, G], None], clock: Clock) -> None:
        self.stores, self._write, self._clock = tuple(stores), write, clock
        self._changed = threading.Condition()
        self._since: dict[int, float] = {}
        """When each busy lane began its present work, by its number."""
        self._given = [0] * len(self.stores)
        """Number of works that each lane has not finished."""
        self._works: list[queue.SimpleQueue[Work | None]] = [queue.SimpleQueue() for _ in self.stores]
        self._asked: set[int] = set()
        """Lanes that have not finished what they were asked to do last."""
        self._out: set[int] = set()

    @property
    def alone(self) -> bool:
        """Whether there is one lane, so that no thread is needed."""
        return len(self.stores) == 1

    def start(self) -> None:
        """Start the threads, if there are several lanes."""
        for number in range(0 if self.alone else len(self.stores)):
            name = f"keyveil-lane-{number}"
            threading.Thread(target=self._work, args=(number,), name=name, daemon=True).start()

    # -- work --------------------------------------------------------------------------------------

    def write(self, group: G) -> None:
        """Hand a group to a free lane, and wait for one if none is. A single lane writes it at once."""
        if self.alone:
            self._write(self.stores[0], group)
            return
        with self._changed:
            while (number := self._free()) is None:
                self._changed.wait()
            self._give(number, lambda store: self._write(store, group))

    def call(self, work: Work) -> None:
        """Let the first lane work after all groups that were handed over; it waits for no slow lane."""
        if self.alone:
            work(self.stores[0])
            return
        with self._changed:
            while (patience := self._patience()) > 0:
                self._changed.wait(patience)
            self._give(0, work)

    def ask(self, number: int, work: Work) -> None:
        """Let a lane work as soon as it can, unless it has not finished what it was asked before."""
        if self.alone:
            work(self.stores[number])
            return
        with self._changed:
            if number not in self._asked:
                self._asked.add(number)
                self._give(number, partial(self._answer, number, work))

    def _answer(self, number: int, work: Work, store: Store) -> None:
        try:
            work(store)
        finally:
            with self._changed:
                self._asked.discard(number)

    @contextmanager
    def idle(self) -> Iterator[Sequence[Store]]:
        """Wait until no lane works. The stores may be used as long as no work is given to a lane."""
        with self._changed:
            while any(self._given):
                self._changed.wait()
        yield self.stores

    @property
    def busy_since(self) -> float | None:
        """When the lane that has been busy for longest began; None if none is."""
        return min(list(self._since.values()), default=None)

    @property
    def all_busy_since(self) -> float | None:
        """Since when all lanes that are not out have been busy; None if one is free."""
        with self._changed:
            working = [number for number in range(len(self.stores)) if number not in self._out]
            if not all(self._given[number] for number in working):
                return None
            return max(self._since[number] for number in working)

    def stop(self) -> None:
        """Finish all work that was given, and end the threads."""
        with self.idle():
            for works in self._works:
                works.put(None)

    # -- lanes that fail ---------------------------------------------------------------------------

    def fail(self, store: Store) -> bool:
        """Note that a lane failed; whether another lane takes groups in its place."""
        number = self.stores.index(store)
        with self._changed:
            if len(self._out | {number}) == len(self.stores):
                return False
            self._out.add(number)
            return True

    def restore(self, store: Store) -> None:
        """Note that a lane works."""
        with self._changed:
            self._out.discard(self.stores.index(store))
            self._changed.notify_all()

    @property
    def out(self) -> frozenset[int]:
        """The numbers of lanes that get no groups."""
        return frozenset(self._out)

    # -- the threads -------------------------------------------------------------------------------

    def _free(self) -> int | None:
        lanes = range(len(self.stores))
        return next((n for n in lanes if not self._given[n] and n not in self._out), None)

    def _patience(self) -> float:
        """Seconds until no other lane than the first works, or those that do are slow."""
        began = [since for number, since in self._since.items() if number]
        return SLOW_SECONDS - (self._clock.elapsed() - max(began)) if began else 0.0

    def _give(self, number: int, work: Work) -> None:
        if not self._given[number]:
            self._since[number] = self._clock.elapsed()
        self._given[number] += 1
        self._works[number].put(work)

    def _work(self, number: int) -> None:
        while (work := self._works[number].get()) is not None:
            try:
                work(self.stores[number])
            finally:
                with self._changed:
                    self._given[number] -= 1
                    del self._since[number]
                    if self._given[number]:
                        self._since[number] = self._clock.elapsed()
                    self._changed.notify_all()
