"""An outage of the store: one line in the log when it begins and one when it ends."""

from __future__ import annotations

from dataclasses import dataclass

from ..process.clock import Clock
from ..process.logs import Log, time_text
from ..process.metrics import Metrics
from ..store.store_interface import StoreFault

QUIET = 1.0
"""Seconds without an error after which a successful write of any kind ends an outage."""


@dataclass
class _LaneOutage:
    """One lane that cannot write while another one can."""

    since: float
    """When it failed, in elapsed seconds."""
    began: float
    """The same as time of day."""
    error: StoreFault
    logged: bool = False
    """Whether it was logged."""

    def facts(self, number: int) -> dict[str, object]:
        """What the log says about it."""
        cause = {"kind": self.error.kind, "cause": str(self.error)}
        return {"lane": number, **cause, "began": time_text(self.began)}


class Outages:
    """Follows the errors of one store and of its lanes."""

    def __init__(self, clock: Clock, log: Log, metrics: Metrics) -> None:
        self._clock, self._log, self._metrics = clock, log, metrics
        self._began = 0.0
        self._last = 0.0
        self._cause: dict[str, str] = {}
        self._errors = 0
        self.now = False
        """Whether the store cannot be written."""
        self._lanes: dict[int, _LaneOutage] = {}
        """Lanes that failed while another one worked, by number."""

    def failed(self, error: StoreFault) -> None:
        """Note an error that leaves no lane to write. The first one begins an outage."""
        self._metrics.store_errors[error.kind] += 1
        self._last = self._clock.elapsed()
        self._errors += 1
        if not self.now:
            self.now, self._began, self._errors = True, self._clock.now(), 1
            self._cause = {"kind": error.kind, "cause": str(error)}
            self._metrics.outages += 1
            self._log.say("store_unready", "error", **self._cause, began=time_text(self._began))

    def lane_failed(self, number: int, error: StoreFault, last_write: float) -> None:
        """Note an error of one lane while another takes its groups.

        It is logged once another lane has written since, so that an outage of all lanes is two lines.
        """
        self._metrics.store_errors[error.kind] += 1
        now = self._clock.elapsed()
        self._last = now
        lane = self._lanes.setdefault(number, _LaneOutage(now, self._clock.now(), error))
        if not lane.logged and last_write > lane.since:
            lane.logged = True
            self._log.say("lane_unready", "error", **lane.facts(number))

    def lane_worked(self, number: int) -> None:
        """Note that a lane writes again."""
        lane = self._lanes.pop(number, None)
        if lane is not None and lane.logged:
            ended = time_text(self._clock.now())
            self._log.say("lane_ready", "warning", **lane.facts(number), ended=ended)

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
