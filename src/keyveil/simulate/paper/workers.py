"""Runs calls in processes, or one after the other.

Only the first process handles Ctrl-C. It ends the others at once, without waiting for a setting to
finish. If the first process is killed, the others end too.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Any

from ...foundation.errors import KeyveilError
from .experiment import Setup

_SHARED: list[Setup] = []
"""The setup that forked processes inherit, so that populations are not sent to them."""


def shared() -> Setup:
    """The setup of the run, in this process and in every worker."""
    return _SHARED[-1]


class Workers:
    """Calls whose results arrive as they finish; further calls may be added."""

    def __init__(self, setup: Setup, processes: int | None) -> None:
        self._setup = setup
        self._count = processes or os.cpu_count() or 1
        self._pool: ProcessPoolExecutor | None = None
        self._others: set[BaseProcess] = set()
        self._waiting: dict[Future[Any], Any] = {}
        self._queue: list[tuple[Callable[..., Any], tuple[Any, ...], Any]] = []

    def __enter__(self) -> Workers:
        _SHARED.append(self._setup)
        if self._count > 1:
            self._others = set(active_children())
            self._pool = ProcessPoolExecutor(self._count, get_context("fork"), _settle)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        _SHARED.pop()
        if self._pool is None:
            return
        if kind is None:
            self._pool.shutdown()
            return
        here = threading.current_thread() is threading.main_thread()
        usual = signal.signal(signal.SIGINT, signal.SIG_IGN) if here else None
        try:  # a second Ctrl-C must not leave processes behind
            for worker in set(active_children()) - self._others:
                worker.terminate()
            self._pool.shutdown(cancel_futures=True)
        finally:
            if here:
                signal.signal(signal.SIGINT, usual)

    def submit(self, call: Callable[..., Any], arguments: tuple[Any, ...], about: Any) -> None:
        """Add a call, with a label for its result."""
        if self._pool is None:
            self._queue.append((call, arguments, about))
        else:
            self._waiting[self._pool.submit(call, *arguments)] = about

    def results(self) -> Iterator[tuple[Any, Any]]:
        """The label and the result of every call."""
        while self._queue:
            call, arguments, about = self._queue.pop(0)
            yield about, call(*arguments)
        while self._waiting:
            finished, _ = wait(self._waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                about = self._waiting.pop(future)
                try:
                    result = future.result()
                except BrokenProcessPool:
                    raise KeyveilError(
                        "a process was ended from outside, perhaps for want of memory; what is "
                        "finished is kept: run again, with --processes 1 if it happens twice"
                    ) from None
                yield about, result


def _settle() -> None:
    """Prepare a worker: it ignores Ctrl-C, and ends when the first process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, daemon=True).start()


def _follow() -> None:
    first = parent_process()
    if first is not None:
        first.join()
        os._exit(1)
