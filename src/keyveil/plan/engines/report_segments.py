"""Files of reports as segments: parts of a file that a worker reads by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...foundation.errors import ReportError
from ...foundation.files import named
from ...people.tables.frames import arrow
from ..plan import Plan
from ..report import Reports, check_plan_name
from ..report_file import block_places, is_packed, read_blocks, reading
from .report_columns import column_names, from_batch

SEGMENT_REPORTS = 1 << 22
"""Approximate number of reports in a segment."""
READ_REPORTS = 1 << 20
"""Number of reports that a worker holds at a time."""
PARQUET = b"PAR1"


@dataclass(frozen=True)
class ReportSegment:
    """Some blocks of a packed file, some row groups of a Parquet file, or all lines of a text file."""

    path: str
    form: str
    """``packed``, ``parquet`` or ``lines``."""
    first: int = 0
    """Where the first block begins, or the number of the first row group."""
    count: int = 0
    """Number of blocks or row groups."""

    def reports(self, plan: Plan) -> Iterator[Reports]:
        """The reports of this segment, a batch at a time."""
        if self.form == "packed":
            return read_blocks(plan, self.path, self.first, self.count)
        return reading(plan, self.path) if self.form == "lines" else self._columns(plan)

    def _columns(self, plan: Plan) -> Iterator[Reports]:
        with named(self.path), parquet_file(self.path) as file:
            groups = list(range(self.first, self.first + self.count))
            names = column_names(plan.packing)
            for batch in file.iter_batches(READ_REPORTS, row_groups=groups, columns=names):
                yield from_batch(batch, plan.packing)


def report_segments(plan: Plan, sources: Iterable[str | Path]) -> list[ReportSegment]:
    """The segments of files and folders; what is wrong with a file is said before any work begins."""
    return [segment for path in files_in(sources) for segment in _of_file(plan, path)]


def files_in(sources: Iterable[str | Path]) -> list[str]:
    """The files that sources name. A folder stands for the files in it and below, in order of names.

    Names that begin with a dot or an underscore are notes of engines, such as ``_SUCCESS``, and
    ``manifest.json`` is that of a sealed epoch.
    """
    files = []
    for source in map(Path, sources):
        if not source.is_dir():
            files.append(str(source))
            continue
        inside = sorted(path for path in source.rglob("*") if path.is_file() and _is_data(path, source))
        if not inside:
            raise ReportError(f"the folder {source} has no files of data")
        files += map(str, inside)
    return files


def _is_data(path: Path, folder: Path) -> bool:
    own = path.relative_to(folder).parts
    return not any(part.startswith((".", "_")) for part in own) and path.name != "manifest.json"


def _of_file(plan: Plan, path: str) -> Iterator[ReportSegment]:
    if is_packed(path):
        run: list[tuple[int, int]] = []
        for place in block_places(plan, path):
            run.append(place)
            if sum(count for _, count in run) >= SEGMENT_REPORTS:
                yield ReportSegment(path, "packed", run[0][0], len(run))
                run = []
        if run:
            yield ReportSegment(path, "packed", run[0][0], len(run))
    elif is_parquet(path):
        with named(path), parquet_file(path) as file:
            _check_parquet(plan, file)
            for first, count in row_group_runs(file.metadata, SEGMENT_REPORTS):
                yield ReportSegment(path, "parquet", first, count)
    else:
        yield ReportSegment(path, "lines")


def _check_parquet(plan: Plan, file: Any) -> None:
    """Refuse a file without the columns of reports, or one that names another plan."""
    there = file.schema_arrow.names
    lacking = [name for name in column_names(plan.packing) if name not in there]
    if lacking:
        raise ReportError(
            f"reports of this plan have the columns {', '.join(column_names(plan.packing))}; "
            f"{lacking[0]!r} is missing"
        )
    plan_name = (file.schema_arrow.metadata or {}).get(b"plan")
    if plan_name is not None:
        check_plan_name(plan_name.decode("ascii", "replace"), plan.hash, "the reports belong")


def is_parquet(path: str | Path) -> bool:
    """Whether a file is a Parquet file, by its first bytes."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(PARQUET)) == PARQUET
    except OSError as error:
        raise ReportError(f"cannot read {path}: {error.strerror}") from None


def parquet_file(path: str | Path) -> Any:
    """An open Parquet file; one clear line if it is damaged."""
    try:
        return arrow("parquet").ParquetFile(path)
    except arrow().ArrowException:
        raise ReportError("the Parquet file is damaged or cut short") from None


def row_group_runs(metadata: Any, rows: int) -> Iterator[tuple[int, int]]:
    """Runs of row groups of about ``rows`` rows: the first of each, and how many."""
    first, held = 0, 0
    for group in range(metadata.num_row_groups):
        held += metadata.row_group(group).num_rows
        if held >= rows:
            yield first, group + 1 - first
            first, held = group + 1, 0
    if held:
        yield first, metadata.num_row_groups - first
