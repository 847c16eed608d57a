"""Structured logs: what happened, never who sent it nor what."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Hashable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

from .clock import Clock

SAME = 60.0
"""Seconds in which the same thing is said once, where it may happen any number of times."""
MOST = 100
"""Things that are remembered as said."""


class Seldom:
    """Which things were said lately, and how often each was left out since."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._said: dict[Hashable, tuple[float, int]] = {}

    def __len__(self) -> int:
        return len(self._said)

    def times(self, what: Hashable) -> int | None:
        """How often it was left out since it was said last; None if it is to be left out now, too."""
        now = self._elapsed()
        at, times = self._said.get(what, (now - SAME, 0))
        if now - at < SAME:
            self._said[what] = at, times + 1
            return None
        if len(self._said) >= MOST:
            self._said.clear()
        self._said[what] = now, 0
        return times


class Log:
    """One JSON object a line. Fields are facts of the service: never an address, a header, a body."""

    def __init__(self, clock: Clock, stream: TextIO | None = None) -> None:
        self._clock, self._stream = clock, stream or sys.stderr
        self._seldom = Seldom(clock.elapsed)

    def say_seldom(self, event: str, **facts: Any) -> None:
        """An event that may come again and again: once a minute, with how many were left out."""
        times = self._seldom.times((event, *sorted(facts.items())))
        if times is not None:
            self.say(event, **facts, **({"left_out": times} if times else {}))

    def say(self, event: str, **facts: Any) -> None:
        """An event with its facts."""
        at = datetime.fromtimestamp(self._clock.now(), UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"at": at, "event": event, **facts}, default=str) + "\n"
        with suppress(OSError, ValueError):  # a full disk, or a stream that is gone, stops no report
            self._stream.write(line)
            self._stream.flush()

    def error(self, event: str, error: BaseException) -> None:
        """An error by its kind and place; its text may quote what was sent, so it is left out."""
        frames = traceback.extract_tb(error.__traceback__)
        where = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in frames[-6:]]
        self.say(event, error=type(error).__name__, where=where)
