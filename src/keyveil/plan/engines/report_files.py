"""Count reports in files on any engine: the counts of each segment, and their sum."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from ...foundation.arrays import Integers
from ...foundation.errors import ReportError
from ...people.tables.frames import of_file
from ..plan import Plan
from ..tally import MAGIC, Tally
from .engine import Engine, Progress
from .local_pool import LocalPool
from .report_segments import ReportSegment, beginning, files_in, segments_of
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


@dataclass(frozen=True)
class FileCounts:
    """The counts of files by cell, and what is wrong with those that are not in them."""

    counts: Integers
    refused: dict[str, str]

    def __add__(self, other: FileCounts) -> FileCounts:
        return FileCounts(self.counts + other.counts, {**self.refused, **other.refused})


@dataclass(frozen=True)
class CountFile:
    """Counts all reports of a file, or none if something is wrong with its content."""

    plan: str
    in_threads = True

    def __call__(self, segments: Sequence[ReportSegment]) -> FileCounts:
        none, count = Tally(unship(self.plan)).counts, CountReports(self.plan)
        try:
            return FileCounts(sum(map(count, segments), start=none), {})
        except ReportError as error:
            return FileCounts(none, {segments[0].path: str(error)})


class ReportFiles:
    """Files of reports as segments, and the sum of tallies among them."""

    def __init__(self, sources: Iterable[str | Path] | str | Path, plan: Plan) -> None:
        self.tally, self.segments = Tally(plan), list[ReportSegment]()
        self.files, self.empty = list[str](), list[str]()
        """Files with reports, and files without."""
        for path in files_in([sources] if isinstance(sources, str | Path) else sources):
            self.add(path)

    def add(self, path: str) -> None:
        """Add a file, whole or not at all."""
        if beginning(path).startswith(MAGIC):
            tally = Tally.load(self.tally.plan, path)
            self.tally = self.tally + tally
            has_reports = tally.reports > 0
        else:
            segments = list(segments_of(self.tally.plan, path))
            self.segments += segments
            has_reports = bool(segments)
        (self.files if has_reports else self.empty).append(path)

    def counted(self, engine: Engine | None = None, progress: Progress | None = None) -> Tally:
        """The tally of all."""
        engine, work = engine or LocalPool(), CountReports(ship(self.tally.plan))
        counts = engine.sum(work, self._segments_for(engine), progress)
        return self.tally if counts is None else self.tally + Tally(self.tally.plan, counts)

    def counted_by_file(self, engine: Engine) -> tuple[Tally, dict[str, str]]:
        """The tally of all files whose content is sound, and what is wrong with each other one.

        A file is one piece of work. What fails for another reason than a file's content is raised.
        """
        segments = groupby(self._segments_for(engine), lambda segment: segment.path)
        files = [tuple(own) for _, own in segments]
        total = engine.sum(CountFile(ship(self.tally.plan)), files)
        if total is None:
            return self.tally, {}
        return self.tally + Tally(self.tally.plan, total.counts), total.refused

    def _segments_for(self, engine: Engine) -> list[ReportSegment]:
        """The segments, with paths that all workers of an engine find."""
        if engine.on_one_machine:
            return self.segments
        return [replace(segment, path=os.path.abspath(segment.path)) for segment in self.segments]


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
