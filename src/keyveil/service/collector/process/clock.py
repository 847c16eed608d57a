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


class FleetClock:
    """The time that all collectors of a store agree on.

    With PostgreSQL it is the database's: its last reading and the time elapsed since. Without a reading
    it is this machine's.
    """

    def __init__(self, local: Clock | None = None) -> None:
        self.local = local or SystemClock()
        self._ahead: float | None = None
        """The database's time of day minus elapsed time."""

    def heard(self, time_of_day: float) -> None:
        """Take the database's time of day, which was read just now."""
        self._ahead = time_of_day - self.local.elapsed()

    def now(self) -> float:
        return self.local.now() if self._ahead is None else self._ahead + self.local.elapsed()

    def elapsed(self) -> float:
        return self.local.elapsed()

    @property
    def offset(self) -> float:
        """Seconds by which this machine's clock is ahead of the database's; 0 without a database."""
        return self.local.now() - self.now()


def offset_of(clock: Clock) -> float:
    """Seconds by which this machine's clock is ahead of the clock that the fleet agrees on."""
    return clock.offset if isinstance(clock, FleetClock) else 0.0


class Trust:
    """Whether the time of day can be trusted.

    It can while it keeps pace with elapsed time and agrees with the database's.

    A wrong clock would close epochs for good, and devices would drop their reports. So nothing final
    happens while the clock is in doubt. The doubt ends when the clock is right again or the process
    restarts.
    """

    def __init__(self, clock: Clock, tolerance: float = JUMP) -> None:
        self._clock, self._tolerance = clock, tolerance
        self._offset = clock.now() - clock.elapsed()

    def ask(self) -> bool:
        """Whether the clock can be trusted now. Small corrections are accepted."""
        if abs(offset_of(self._clock)) > self._tolerance:
            return False
        offset = self._clock.now() - self._clock.elapsed()
        if abs(offset - self._offset) > JUMP:
            return False
        self._offset = offset
        return True
