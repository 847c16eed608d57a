"""The processors of this machine as an engine: the default, and the fastest while data is here."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from .engine import Engine, Progress, R, S

AHEAD = 2
"""Number of segments per process that are worked on or wait for their turn, so memory stays flat."""


class LocalPool(Engine):
    """A pool of processes. One process works in this one, without a pool."""

    def __init__(self, processes: int | None = None) -> None:
        self.processes = processes or os.cpu_count() or 1

    def sum(
        self, work: Callable[[S], R], segments: Sequence[S], progress: Progress | None = None
    ) -> R | None:
        total: R | None = None
        for result in self.each(work, segments, progress):
            total = result if total is None else total + result
        return total

    def each(
        self, work: Callable[[S], Any], segments: Sequence[S], progress: Progress | None = None
    ) -> Iterator[Any]:
        results = self._results(work, segments)
        for done, result in enumerate(results, 1):
            yield result
            if progress is not None:
                progress(done, len(segments))

    def _results(self, work: Callable[[S], Any], segments: Sequence[S]) -> Iterator[Any]:
        workers = min(self.processes, len(segments))
        if workers <= 1:
            yield from map(work, segments)
            return
        # a fork could inherit a lock that a thread of Arrow or of the linear algebra holds
        with ProcessPoolExecutor(workers, mp_context=get_context("forkserver")) as pool:
            waiting: deque[Future[Any]] = deque()
            try:
                for segment in segments:
                    waiting.append(pool.submit(work, segment))
                    if len(waiting) >= AHEAD * workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(cancel_futures=True)
