"""Structured logs. They say what happened, never who sent something or what was sent."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Hashable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

from .clock import Clock

SAME = 60.0
"""Seconds during which a repeated event is logged once."""
MOST = 100
"""Maximum number of events remembered as logged."""


class Seldom:
    """Events that were logged recently, and how often each was suppressed since."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._said: dict[Hashable, tuple[float, int]] = {}

    def __len__(self) -> int:
        return len(self._said)

    def times(self, what: Hashable) -> int | None:
        """How often it was suppressed since it was last logged; None if it is suppressed again."""
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
    """A log with one JSON object per line.

    Fields are facts about the service, never addresses, headers or bodies.
    """

    def __init__(self, clock: Clock, stream: TextIO | None = None) -> None:
        self._clock, self._stream = clock, stream or sys.stderr
        self._seldom = Seldom(clock.elapsed)

    def say_seldom(self, event: str, **facts: Any) -> None:
        """Log an event that may repeat: at most once a minute, with the number of suppressed ones."""
        times = self._seldom.times((event, *sorted(facts.items())))
        if times is not None:
            self.say(event, "warning", **facts, **({"left_out": times} if times else {}))

    def say(self, event: str, level: str = "info", /, **facts: Any) -> None:
        """Log an event with its facts. The level is ``info``, ``warning`` or ``error``."""
        head = {"at": time_text(self._clock.now()), "level": level, "process": os.getpid()}
        line = json.dumps({**head, "event": event, **facts}, default=str) + "\n"
        with suppress(OSError, ValueError):  # a full disk or a closed stream must not stop reports
            self._stream.write(line)
            self._stream.flush()

    def error(self, event: str, error: BaseException, **facts: Any) -> None:
        """Log an error by its type and place.

        Its text is left out, because it may quote what was sent.
        """
        frames = traceback.extract_tb(error.__traceback__)
        where = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in frames[-6:]]
        self.say(event, "error", error=type(error).__name__, where=where, **facts)


def time_text(time: float) -> str:
    """A time in seconds since 1970 as text, in UTC."""
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
