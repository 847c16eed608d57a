"""The clock that a collector reads; tests pass in one of their own."""

from __future__ import annotations

import time
from typing import Protocol

JUMP = 300.0
"""Seconds by which the time of day may differ from elapsed time before the clock is doubted."""


class Clock(Protocol):
    """The time of day, which may jump, and elapsed time, which never does."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""

    def elapsed(self) -> float:
        """Seconds since an arbitrary start, including the time the machine sleeps."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def elapsed(self) -> float:
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Trust:
    """Whether the time of day can be trusted. It can while it keeps pace with elapsed time.

    A wrong clock would close epochs for good, and devices would drop their reports. So nothing final
    happens while the clock is in doubt. The doubt ends when the clock is right again or the process
    restarts.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = clock.now() - clock.elapsed()

    def ask(self) -> bool:
        """Whether the clock can be trusted now. Small corrections are accepted."""
        offset = self._clock.now() - self._clock.elapsed()
        if abs(offset - self._offset) > JUMP:
            return False
        self._offset = offset
        return True
