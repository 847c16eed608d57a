"""An outage of the store: one line in the log when it begins and one when it ends."""

from __future__ import annotations

from ..process.clock import Clock
from ..process.logs import Log, time_text
from ..process.metrics import Metrics
from ..store.store_interface import StoreFault

QUIET = 1.0
"""Seconds without an error after which a successful write of any kind ends an outage."""


class Outages:
    """Follows the errors of one store."""

    def __init__(self, clock: Clock, log: Log, metrics: Metrics) -> None:
        self._clock, self._log, self._metrics = clock, log, metrics
        self._began = 0.0
        self._last = 0.0
        self._cause: dict[str, str] = {}
        self._errors = 0
        self.now = False
        """Whether the store cannot be written."""

    def failed(self, error: StoreFault) -> None:
        """Note an error. The first one begins an outage."""
        self._metrics.store_errors[error.kind] += 1
        self._last = self._clock.elapsed()
        self._errors += 1
        if not self.now:
            self.now, self._began, self._errors = True, self._clock.now(), 1
            self._cause = {"kind": error.kind, "cause": str(error)}
            self._metrics.outages += 1
            self._log.say("store_unready", "error", **self._cause, began=time_text(self._began))

    def worked(self, probe: bool = False) -> None:
        """Note a successful write. A probe alone ends an outage only if no error came with it."""
        if not self.now or (probe and self._clock.elapsed() - self._last < QUIET):
            return
        self.now = False
        self._log.say(
            "store_ready",
            "warning",
            **self._cause,
            began=time_text(self._began),
            ended=time_text(self._clock.now()),
            seconds=round(self._clock.now() - self._began, 3),
            errors=self._errors,
        )
