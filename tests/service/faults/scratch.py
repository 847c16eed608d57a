"""Sets of ids so small that a handful of reports goes through all that millions do; files that fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from keyveil.service.collector.store import seen_ids as ids
from keyveil.service.collector.store.open_ids import EpochIds
from keyveil.service.collector.store.seen_ids import FolderScratch

SMALL = {"RECENT": 3, "FAN": 2, "HELD": 6, "BUCKET": 2, "PART": 3, "WORDS": 8, "LOOKED": 2}


def make_small(times: int = 1) -> Callable[[], None]:
    """Let sets be small, or so many times as large as that; what is returned undoes it."""
    before = {name: getattr(ids, name) for name in SMALL}
    for name, value in SMALL.items():
        setattr(ids, name, value * times if name in ("RECENT", "HELD", "PART") else value)

    def undo() -> None:
        for name, value in before.items():
            setattr(ids, name, value)

    return undo


@contextmanager
def small_sets() -> Iterator[None]:
    """Sets are small meanwhile."""
    undo = make_small()
    try:
        yield
    finally:
        undo()


class WatchedScratch(FolderScratch):
    """Keeps another handle of every file, and asks before each write; an answer is an error's number."""

    def __init__(self, folder: Path, ask: Callable[[], int] = lambda: 0) -> None:
        super().__init__(folder)
        self._ask = ask
        self.handles: list[int] = []

    def new(self) -> FileIO:
        self._fail()
        with super().new() as file:
            handle = FileIO(os.dup(file.fileno()), "r+")
        self.handles.append(os.dup(handle.fileno()))
        handle.write = self._write(handle.write)  # type: ignore[method-assign]
        return handle

    def _write(self, real: Callable[..., int | None]) -> Callable[..., int | None]:
        def write(data: bytes) -> int | None:
            self._fail()
            return real(data[: max(16, len(data) // 2)])  # never all at once

        return write

    def _fail(self) -> None:
        number = self._ask()
        if number:
            raise OSError(number, errno.errorcode[number])

    def contents(self) -> list[bytes]:
        """What all files hold that were ever made."""
        return [os.pread(handle, os.fstat(handle).st_size, 0) for handle in self.handles]

    def change(self, handle: int, at: int) -> None:
        """Turn one bit of a file."""
        old = os.pread(handle, 1, at)
        os.pwrite(handle, bytes([old[0] ^ 1]), at)

    def close(self) -> None:
        for handle in self.handles:
            os.close(handle)
        self.handles = []


# -- broken twins: what to put in the place of SqliteStore._epoch_ids ------------------------------


def forgetful(store: Any, session: Any, at: tuple[int, int]) -> EpochIds:
    """The ids of before a restart are not read anew."""
    epoch_ids = store.open_ids.get(at)
    return EpochIds() if epoch_ids is None else epoch_ids


def stale(store: Any, session: Any, at: tuple[int, int]) -> EpochIds:
    """After a restart, an index that was written before the log's last segment came."""
    epoch_ids = store.open_ids.get(at)
    if epoch_ids is None:
        sql = "select ids from segments where round = ? and epoch = ? order by id"
        every = [bytes(row[0]) for row in session.rows(sql, at)]
        epoch_ids = EpochIds(ids=ids.IdSet.of(every[:-1], store.open_ids.scratch))
        store.open_ids.keep(at, epoch_ids)
    return epoch_ids
