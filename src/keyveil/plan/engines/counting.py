"""Count reports on any engine: one tally per segment, and the sum of all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..plan import Plan
from ..tally import Tally
from .engine import Engine, Progress
from .local_pool import LocalPool
from .report_segments import ReportSegment, report_segments


@lru_cache(maxsize=4)
def plan_of(text: str) -> Plan:
    """A plan from its text; a worker audits it once."""
    return Plan.parse(text)


@dataclass(frozen=True)
class CountReports:
    """Counts the reports of a segment. It is pickled to workers with the plan's text."""

    plan: str

    def __call__(self, segment: ReportSegment) -> Tally:
        tally = Tally(plan_of(self.plan))
        for batch in segment.reports(tally.plan):
            tally.add(batch)
        return tally


def count_reports(
    plan: Plan,
    sources: Iterable[str | Path],
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Tally:
    """The tally of all reports in files and folders: packed, Parquet or JSON lines."""
    segments = report_segments(plan, sources)
    total = (engine or LocalPool()).sum(CountReports(plan.dumps()), segments, progress)
    return Tally(plan) if total is None else Tally(plan, total.counts)
