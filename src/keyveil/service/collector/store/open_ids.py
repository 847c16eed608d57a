"""The ids of open epochs in the memory of this process: an index of the log.

An epoch's ids are read from the log when they are first needed. If there are many, a thread reads them,
and the epoch takes no reports meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from .packed_ids import PackedIds
from .seen_ids import IdSet, Scratch, Spoiled
from .store_interface import StoreBroken, StoreUnready

Epoch = tuple[int, int]
"""The number of a round, and one of its epochs."""


class LogIds(NamedTuple):
    """The ids of one row of the log."""

    ids: bytes
    number: int = 0
    """Place of the row in the order of its epoch, if several processes write to it; from 1."""
    mark: int = 0
    """Drawn for the row, so that no other row that could have its number passes for it."""


class EpochIds:
    """The ids of one epoch up to a row of the log; for several threads."""

    def __init__(self, scratch: Scratch | None = None, ids: IdSet | None = None) -> None:
        self._ids = IdSet(scratch) if ids is None else ids
        self._place = (0, 0)
        self._lock = threading.Lock()
        self.closed = False
        self.turn = threading.Lock()
        """Held by the lane of this process that writes the next row of the epoch."""

    @classmethod
    def read(cls, rows: Iterable[LogIds], scratch: Scratch | None) -> EpochIds:
        """The ids of these rows, a part at a time."""
        place = [(0, 0)]

        def packed() -> Iterator[bytes]:
            for row in rows:
                place[0] = (row.number, row.mark)
                yield row.ids

        read = cls(ids=IdSet.of(packed(), scratch))
        read._place = place[0]
        return read

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def place(self) -> tuple[int, int]:
        """The number and the mark of the last row."""
        return self._place

    def known(self, ids: Sequence[bytes]) -> tuple[set[int], int]:
        """The places of ids that are in the log, up to the row with the returned number."""
        with self._lock:
            if self.closed:
                raise Spoiled
            return self._ids.known(ids), self._place[0]

    def add(self, row: LogIds) -> None:
        """Add the next row; one that is here already changes nothing."""
        with self._lock:
            if not row.number or row.number == self._place[0] + 1:
                self._ids.add(PackedIds(row.ids))
                self._place = (row.number, row.mark)

    def close(self) -> None:
        """Release memory and files. Whoever asks for ids later is told to read them again."""
        with self._lock:
            self.closed = True
            self._ids.close()


class _Learner:
    """Reads the ids of one epoch in a thread."""

    def __init__(self, rows: Iterable[LogIds], scratch: Scratch) -> None:
        self._rows, self._scratch = rows, scratch
        self.found: EpochIds | None = None
        self.broken: StoreBroken | None = None
        self.done = threading.Event()
        self._unwanted = False
        self._thread = threading.Thread(target=self._work, name="keyveil-ids", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self.found = EpochIds.read(self._wanted(), self._scratch)
        except StoreBroken as error:
            self.broken = error
        except (StoreUnready, OSError):
            pass
        finally:
            self.done.set()
            if self._unwanted:
                self._close()

    def _wanted(self) -> Iterator[LogIds]:
        for row in self._rows:
            if self._unwanted:
                raise StoreUnready("nobody waits for these ids")
            yield row

    def end(self, seconds: float | None) -> None:
        """Stop reading and discard the ids; wait for the thread, but not longer than that."""
        self._unwanted = True
        self._thread.join(seconds)
        self._close()

    def _close(self) -> None:
        if self.found is not None:
            self.found.close()


class OpenIds:
    """The ids of all open epochs that this process has needed; for several threads."""

    def __init__(self, scratch: Scratch, end_seconds: float | None = None) -> None:
        self.scratch = scratch
        self._end_seconds = end_seconds
        """Seconds to wait for a thread that reads ids and is no longer wanted; None for no limit."""
        self._epochs: dict[Epoch, EpochIds] = {}
        self._learners: dict[Epoch, _Learner] = {}
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Epoch]:
        """The epochs that are here, or are being read."""
        with self._lock:
            return iter([*self._epochs, *self._learners])

    def get(self, at: Epoch) -> EpochIds | None:
        """The ids of an epoch, if they are here."""
        return self._epochs.get(at)

    def keep(self, at: Epoch, ids: EpochIds) -> None:
        """Remember the ids of an epoch.

        Empty ones are not remembered, so requests for random epochs take no memory.
        """
        with self._lock:
            if len(ids) and not ids.closed:
                self._epochs.setdefault(at, ids)

    def learn(self, at: Epoch, read: Callable[[], Iterable[LogIds]]) -> None:
        """Begin to read an epoch's ids in a thread."""
        with self._lock:
            if at not in self._learners and at not in self._epochs:
                self._learners[at] = _Learner(read(), self.scratch)

    def learning(self, at: Epoch) -> bool:
        """Whether an epoch's ids are being read."""
        with self._lock:
            learner = self._learners.get(at)
            if learner is None:
                return False
            if not learner.done.is_set():
                return True
            del self._learners[at]
            if learner.broken is not None:
                raise learner.broken
            if learner.found is not None:  # otherwise the next lookup reads the ids, or tries to
                self._epochs[at] = learner.found
            return False

    @property
    def busy(self) -> bool:
        """Whether the ids of some epoch are being read."""
        with self._lock:
            return any(not learner.done.is_set() for learner in self._learners.values())

    def forget(self, epochs: Iterable[Epoch]) -> None:
        """Release the ids of some epochs, and their files."""
        with self._lock:
            ids = [self._epochs.pop(at) for at in epochs if at in self._epochs]
            learners = [self._learners.pop(at) for at in epochs if at in self._learners]
        for each in ids:
            each.close()
        for learner in learners:
            learner.end(self._end_seconds)
