"""Count reports in files on any engine: the counts of each segment, and their sum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ...foundation.arrays import Integers
from ...foundation.files import starts_with
from ..plan import Plan
from ..tally import MAGIC, Tally
from .engine import Engine, Progress
from .local_pool import LocalPool
from .report_segments import ReportSegment, files_in, segments_of
from .shipped_plan import ship, unship


@dataclass(frozen=True)
class CountReports:
    """Counts the reports of a segment by cell."""

    plan: str
    in_threads = True
    """Parquet is decoded and reports are counted outside of Python's lock."""

    def __call__(self, segment: ReportSegment) -> Integers:
        tally = Tally(unship(self.plan))
        for batch in segment.reports(tally.plan):
            tally.add(batch)
        return tally.counts


def tally_files(
    sources: Iterable[str | Path] | str | Path,
    plan: Plan,
    engine: Engine | None = None,
    *,
    progress: Progress | None = None,
) -> Tally:
    """The tally of all reports in files and folders; tallies made elsewhere are added.

    Files of reports are packed, Parquet or JSON lines; a folder stands for the files in it. A file with
    other columns or of another plan is refused before any work begins. The engine is the processors of
    this machine unless another is given.
    """
    total, segments = Tally(plan), list[ReportSegment]()
    for path in files_in([sources] if isinstance(sources, str | Path) else sources):
        if starts_with(path, MAGIC):
            total = total + Tally.load(plan, path)
        else:
            segments += segments_of(plan, path)
    counts = (engine or LocalPool()).sum(CountReports(ship(plan)), segments, progress)
    return total if counts is None else total + Tally(plan, counts)
