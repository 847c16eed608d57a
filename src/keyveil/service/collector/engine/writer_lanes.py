"""Lanes: threads that make groups of reports durable at the same time, each through a store of its own.

A transaction of PostgreSQL is mostly the database's work. With two lanes, requests are read and the next
group is formed while the database writes the one before. A store with one lane needs no thread for it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from ..process.clock import Clock
from ..store import Store

G = TypeVar("G")
"""A group of requests."""


class WriterLanes(Generic[G]):
    """The lanes of one writer. Groups go to the first lane that is free.

    ``write`` makes a group durable through a store. It is called in the lane's thread and never raises.
    """

    def __init__(self, stores: Sequence[Store], write: Callable[[Store, G], None], clock: Clock) -> None:
        self.stores, self._write, self._clock = tuple(stores), write, clock
        self._since: dict[int, float] = {}
        """When each busy lane began, by its number."""
        self._free: queue.PriorityQueue[int] = queue.PriorityQueue()
        self._groups: list[queue.SimpleQueue[G | None]] = []
        for number in range(len(self.stores)):
            self._free.put(number)
            self._groups.append(queue.SimpleQueue())

    @property
    def alone(self) -> bool:
        """Whether there is one lane, so that no thread is needed."""
        return len(self.stores) == 1

    def start(self) -> None:
        """Start the threads, if there are several lanes."""
        for number in range(0 if self.alone else len(self.stores)):
            name = f"keyveil-lane-{number}"
            threading.Thread(target=self._work, args=(number,), name=name, daemon=True).start()

    def write(self, group: G) -> None:
        """Hand a group to a free lane, and wait for one if none is. A single lane writes it at once."""
        if self.alone:
            self._write(self.stores[0], group)
            return
        number = self._free.get()
        self._since[number] = self._clock.elapsed()
        self._groups[number].put(group)

    @contextmanager
    def idle(self) -> Iterator[Sequence[Store]]:
        """Wait until no lane writes, and keep it so. The stores of all lanes may be used meanwhile."""
        numbers = [self._free.get() for _ in self.stores]
        try:
            yield self.stores
        finally:
            for number in numbers:
                self._free.put(number)

    @property
    def busy_since(self) -> float | None:
        """When the lane that has been busy for longest began; None if none is."""
        return min(list(self._since.values()), default=None)

    def stop(self) -> None:
        """Finish the groups that were handed over, and end the threads."""
        with self.idle():
            for groups in self._groups:
                groups.put(None)

    def _work(self, number: int) -> None:
        while (group := self._groups[number].get()) is not None:
            try:
                self._write(self.stores[number], group)
            finally:
                del self._since[number]
                self._free.put(number)
