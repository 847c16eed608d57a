"""The clock of a test."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class StatedClock:
    """A clock that moves only when a test moves it."""

    time: float = 1_800_000_000.0
    passed: float = 0.0

    def now(self) -> float:
        return self.time

    def elapsed(self) -> float:
        return self.passed

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.time += seconds
        self.passed += seconds

    def jump(self, seconds: float) -> None:
        """Set the time of day without letting time pass."""
        self.time += seconds
