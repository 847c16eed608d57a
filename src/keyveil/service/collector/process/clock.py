"""Clock: what time it is, passed in, so that tests may say."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

JUMP = 300.0
"""Seconds by which the time of day may run away from elapsed time before it is doubted."""


class Clock(Protocol):
    """The time of day, which may jump, and elapsed time, which never does."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""

    def elapsed(self) -> float:
        """Seconds since some start, sleep of the machine included."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def elapsed(self) -> float:
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass
class StatedClock:
    """A clock that stands still until it is told to move."""

    time: float = 1_800_000_000.0
    passed: float = 0.0

    def now(self) -> float:
        return self.time

    def elapsed(self) -> float:
        return self.passed

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.time += seconds
        self.passed += seconds

    def jump(self, seconds: float) -> None:
        """The time of day is set anew, though no time passes."""
        self.time += seconds


class Trust:
    """Whether the time of day can be believed: it must keep pace with elapsed time.

    A clock that was set wrong would close epochs for good and make devices drop their reports, so
    what is final waits while the clock is in doubt: until it is right again, or the process is
    started anew under it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = clock.now() - clock.elapsed()

    def ask(self) -> bool:
        """Whether the clock is to be believed now; small corrections are followed."""
        offset = self._clock.now() - self._clock.elapsed()
        if abs(offset - self._offset) > JUMP:
            return False
        self._offset = offset
        return True
