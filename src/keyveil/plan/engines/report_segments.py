"""Files of reports as segments: parts of a file that a worker reads by itself."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ...foundation.errors import KeyveilError, ReportError
from ...foundation.files import named
from ...people.tables.frames import arrow, of_file
from ..plan import Plan
from ..report import Reports, check_plan_name
from ..report_file import MAGIC, block_places, read_blocks, reading
from .report_columns import check_columns, column_names, from_batch

SEGMENT_REPORTS = 1 << 22
"""Approximate number of reports in a segment."""
READ_REPORTS = 1 << 18
"""Maximum number of reports that a worker holds at a time."""
READ_BYTES = 1 << 20
"""Approximate number of their bytes; Arrow takes several times as many while it reads them."""
PARQUET = b"PAR1"
ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:/")
"""How the address of a place in a network begins; one letter is a drive of Windows."""
SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
"""The member of a Parquet file in which Spark keeps the metadata of columns."""


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
        with of_file(self.path), _sound():
            if self.form == "packed":
                yield from read_blocks(plan, self.path, self.first, self.count)
            elif self.form == "lines":
                yield from reading(plan, self.path)
            else:
                yield from self._columns(plan)

    def _columns(self, plan: Plan) -> Iterator[Reports]:
        with parquet_file(self.path) as file:
            groups = list(range(self.first, self.first + self.count))
            names = column_names(plan.packing)
            size = max(1, min(READ_REPORTS, READ_BYTES // plan.packing.width))
            for batch in file.iter_batches(size, row_groups=groups, columns=names, use_threads=False):
                yield from_batch(batch, plan.packing)


def files_in(sources: Iterable[str | Path]) -> list[str]:
    """The files that sources name. A folder stands for the files in it and below, in order of names.

    Names that begin with a dot or an underscore are notes of engines, such as ``_SUCCESS``, and
    ``manifest.json`` is that of a sealed epoch.
    """
    files = []
    for name in sources:
        check_path(name)
        source = Path(name)
        if not source.is_dir():
            files.append(str(source))
            continue
        inside = sorted(path for path in source.rglob("*") if path.is_file() and is_data(path, source))
        if not inside:
            raise ReportError(f"the folder {source} has no files of data")
        files += map(str, inside)
    return files


def check_path(place: str | Path) -> None:
    """Refuse the address of storage that Spark reads and an open file does not, such as s3a://."""
    if ADDRESS.match(str(place)) and not Path(place).exists():
        raise KeyveilError(
            f"{place} is an address, not a path: mount this storage on all machines, or let Spark read "
            "and write it as DataFrames for kv.spark.privatise and kv.spark.tally"
        )


def is_data(path: Path, folder: Path) -> bool:
    """Whether a file in a folder holds data, by its name."""
    own = path.relative_to(folder).parts
    return not any(part.startswith((".", "_")) for part in own) and path.name != "manifest.json"


def segments_of(plan: Plan, path: str) -> Iterator[ReportSegment]:
    """The segments of a file; what is wrong with its columns or its plan is said at once."""
    start = beginning(path)
    if start.startswith(MAGIC):
        run: list[tuple[int, int]] = []
        for place in block_places(plan, path):
            run.append(place)
            if sum(count for _, count in run) >= SEGMENT_REPORTS:
                yield ReportSegment(path, "packed", run[0][0], len(run))
                run = []
        if run:
            yield ReportSegment(path, "packed", run[0][0], len(run))
    elif start.startswith(PARQUET):
        with named(path), _sound(), parquet_file(path) as file:
            check_columns(file.schema_arrow.names, plan.packing)
            _check_plan(plan, file.schema_arrow.metadata or {})
            for first, count in row_group_runs(file.metadata, SEGMENT_REPORTS):
                yield ReportSegment(path, "parquet", first, count)
    elif _has_lines(path):
        yield ReportSegment(path, "lines")


def beginning(path: str | Path) -> bytes:
    """The first bytes of a file of reports, which say what form it has."""
    with _opened(path) as file:
        return file.read(8)


def _has_lines(path: str) -> bool:
    """Whether a text file has a line that is not blank."""
    with _opened(path) as file:
        return any(line.strip() for line in file)


@contextmanager
def _opened(path: str | Path) -> Iterator[BinaryIO]:
    """A file that is read; nothing is said of its content if that fails."""
    try:
        with Path(path).open("rb") as file:
            yield file
    except OSError as error:
        raise KeyveilError(f"cannot read the reports {path}: {error.strerror}") from None


def _check_plan(plan: Plan, metadata: dict[bytes, bytes]) -> None:
    """Refuse a Parquet file that names another plan. One that names none is read by its columns."""
    stated = [metadata[b"plan"].decode("ascii", "replace")] if b"plan" in metadata else []
    with suppress(ValueError, KeyError, TypeError):
        fields = json.loads(metadata.get(SPARK_SCHEMA, b"{}"))["fields"]
        stated += [field["metadata"]["plan"] for field in fields if "plan" in field["metadata"]]
    for name in stated:
        check_plan_name(name, plan.hash, "the reports belong")


def parquet_file(path: str | Path) -> Any:
    """An open Parquet file; one clear line if it is damaged."""
    with _sound():
        return arrow("parquet").ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)


@contextmanager
def _sound() -> Iterator[None]:
    """Turn errors of reading a file into one line, which a cluster sends to its driver.

    A ReportError says what is wrong with the content; if the system cannot read it, it is none.
    """
    try:
        yield
    except MemoryError:  # Arrow's is an ArrowException, too
        raise
    except (arrow().ArrowException, UnicodeDecodeError):
        raise ReportError("the Parquet file is damaged or cut short") from None
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # Arrow found damage, or was led to no place of the file
            raise ReportError("cannot read the file: it is damaged") from None
        raise KeyveilError(f"cannot read the file: {error.strerror}") from None


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
