"""Count reports in files on any engine: the counts of each segment, and their sum."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ...foundation.arrays import Integers
from ...foundation.files import starts_with
from ...people.tables.frames import of_file
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
        with of_file(segment.path):
            for batch in segment.reports(tally.plan):
                tally.add(batch)
        return tally.counts


class ReportFiles:
    """Files of reports as segments, and the sum of tallies among them."""

    def __init__(self, sources: Iterable[str | Path] | str | Path, plan: Plan) -> None:
        self.tally, self.segments = Tally(plan), list[ReportSegment]()
        self.files, self.empty = list[str](), list[str]()
        """Files with reports, and files without."""
        for path in files_in([sources] if isinstance(sources, str | Path) else sources):
            if starts_with(path, MAGIC):
                tally = Tally.load(plan, path)
                self.tally = self.tally + tally
                has_reports = tally.reports > 0
            else:
                segments = list(segments_of(plan, path))
                self.segments += segments
                has_reports = bool(segments)
            (self.files if has_reports else self.empty).append(path)

    def counted(self, engine: Engine | None = None, progress: Progress | None = None) -> Tally:
        """The tally of all."""
        work, segments = CountReports(ship(self.tally.plan)), self.segments
        engine = engine or LocalPool()
        if not engine.on_one_machine:
            segments = [replace(segment, path=os.path.abspath(segment.path)) for segment in segments]
        counts = engine.sum(work, segments, progress)
        return self.tally if counts is None else self.tally + Tally(self.tally.plan, counts)


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
    return ReportFiles(sources, plan).counted(engine, progress)
