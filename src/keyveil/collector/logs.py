"""Structured logs: what happened, never who sent it nor what."""

from __future__ import annotations

import json
import sys
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

from .clock import Clock


class Log:
    """One JSON object a line. Fields are facts of the service: never an address, a header, a body."""

    def __init__(self, clock: Clock, stream: TextIO | None = None) -> None:
        self._clock, self._stream = clock, stream or sys.stderr

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
