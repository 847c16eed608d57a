"""The processors of this machine as an engine: the default, and the fastest while data is here."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...foundation.errors import KeyveilError
from ..registry import MECHANISMS
from .engine import Engine, Progress, S

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

AHEAD = 2
"""Number of segments per worker that are worked on or wait for their turn, so memory stays flat."""
PRELOADED = ["keyveil.plan.engines.privatising", MECHANISMS, "keyveil.foundation.kernels"]
"""Modules that every process needs. They are imported once and inherited."""


class LocalPool(Engine):
    """A pool of processes, or of threads for work that runs outside of Python's lock.

    With one process the work runs in this one. ``workers`` is the number of processors unless it is
    stated.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise KeyveilError("a pool has at least one process")
        self._workers = workers or _processors()

    @property
    def workers(self) -> int:
        return self._workers

    def each(
        self, work: Callable[[S], Any], segments: Sequence[S], progress: Progress | None = None
    ) -> Iterator[Any]:
        for done, result in enumerate(self._results(work, segments), 1):
            yield result
            if progress is not None:
                progress(done, len(segments))

    def _results(self, work: Callable[[S], Any], segments: Sequence[S]) -> Iterator[Any]:
        workers = min(self.workers, len(segments))
        if workers <= 1:
            yield from map(work, segments)
            return
        from concurrent.futures.process import BrokenProcessPool

        with _pool(work, workers) as pool:
            waiting: deque[Future[Any]] = deque()
            try:
                for segment in segments:
                    with _without_main():
                        waiting.append(pool.submit(work, segment))
                    if len(waiting) >= AHEAD * workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            except BrokenProcessPool:
                raise KeyveilError(
                    "a process of the pool was ended from outside, most often for lack of memory; "
                    "take fewer processes"
                ) from None
            except MemoryError:
                raise KeyveilError(
                    f"memory is too short for {workers} processes at once; take fewer processes"
                ) from None
            finally:
                pool.shutdown(cancel_futures=True)


def _processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pool(work: object, workers: int) -> Executor:
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
    from multiprocessing import get_context

    if getattr(work, "in_threads", False):
        return ThreadPoolExecutor(workers)
    if sys.platform == "win32":
        return ProcessPoolExecutor(workers)
    # a fork of this process could inherit a lock that a thread of Arrow or of the linear algebra holds
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return ProcessPoolExecutor(workers, mp_context=context)


@contextmanager
def _without_main() -> Iterator[None]:
    """New processes do not run the caller's script again: all work is in the package."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
