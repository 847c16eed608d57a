"""Parquet tables of (person, key, value) as segments in which all rows of a person are together.

A table whose row groups are in order of people is cut between people by the statistics that Parquet
keeps. The rows of any other table are first sorted into parts by person, on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...foundation.arrays import Integers
from ...foundation.errors import TableError
from ...foundation.files import whole_file
from ...people.tables.frames import BATCH, Columns, Frame, Source, arrow, of_file, readable
from ...people.tables.spill import joined, order_by_part, person_parts
from .report_segments import row_group_runs

SEGMENT_ROWS = 1 << 21
"""Approximate number of rows in a segment."""
LARGEST_GROUP = 4 * SEGMENT_ROWS
"""Number of rows of a row group up to which it is read at once."""
READ_ROWS = 1 << 17
"""Number of rows that a worker sorts into parts at a time."""
SORTED_BYTES = 1 << 25
"""Number of bytes of sorted rows that a worker collects before it writes them."""


def opened(path: str) -> Any:
    """An open Parquet file of a table, of which a few pages are read at a time."""
    with readable(Path(path)):
        return arrow("parquet").ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of a Parquet file."""

    path: str
    first: int
    count: int

    def batches(self, names: list[str]) -> Iterator[Any]:
        """The rows of some columns, some rows at a time."""
        groups = list(range(self.first, self.first + self.count))
        with of_file(self.path), readable(Path(self.path)), opened(self.path) as file:
            yield from file.iter_batches(READ_ROWS, row_groups=groups, columns=names, use_threads=False)


@dataclass(frozen=True)
class PersonRange:
    """The rows of the people above ``after``, up to and including ``last``."""

    groups: tuple[RowGroups, ...]
    after: int | None
    """The last person of the segment before; None in the first segment."""
    last: int

    def batches(self, columns: Columns, names: list[str]) -> Iterator[Any]:
        """The rows of these people, some at a time."""
        pa, compute = arrow(), arrow("compute")
        for groups in self.groups:
            for batch in groups.batches(names):
                person = batch.column(columns.person)
                inside = compute.less_equal(person, pa.scalar(self.last, person.type))
                if self.after is not None:
                    after = compute.greater(person, pa.scalar(self.after, person.type))
                    inside = compute.and_(inside, after)
                yield batch.filter(inside)


@dataclass(frozen=True)
class SortedPart:
    """One part of every file that ``SortRows`` wrote. It is small, however many files there are."""

    folder: str
    counts: tuple[int, ...]
    """The number of files of each segment that was sorted."""
    part: int

    def batches(self, columns: Columns, names: list[str]) -> Iterator[Any]:
        """All rows of the people in this part, in their order."""
        pa, wanted = arrow(), str(self.part)
        for path in self._paths():
            with pa.memory_map(path) as source, pa.ipc.open_file(source) as file:
                listed = file.schema.metadata[b"parts"].decode().split(",")
                if wanted in listed:
                    yield file.get_batch(listed.index(wanted)).select(names)

    def _paths(self) -> Iterator[str]:
        for segment, count in enumerate(self.counts):
            for number in range(count):
                yield _sorted_path(self.folder, segment, number)


def _sorted_path(folder: str, segment: int, number: int) -> str:
    """The name of a file of sorted rows."""
    return str(Path(folder) / f"rows-{segment:06d}-{number:04d}.arrow")


class SegmentRows(Source):
    """The rows of a segment, read from disk a few at a time, as often as they are asked for."""

    held = True  # few enough to be

    def __init__(self, segment: PersonRange | SortedPart, columns: Columns) -> None:
        self._segment, self._columns = segment, columns

    def batches(self, *, persons_only: bool = False) -> Iterator[Any]:
        names = self._columns.read(persons_only)
        for batch in self._segment.batches(self._columns, names):
            table = arrow().Table.from_batches([batch])
            if persons_only:
                yield from table.to_batches(max_chunksize=BATCH)
            else:
                yield from Frame(table, self._columns).batches()


class _Sorted(NamedTuple):
    """Rows by part, and where each part ends."""

    rows: Any
    ends: Integers

    def of(self, part: int) -> Any:
        """The rows of a part."""
        first, last = self.ends[part : part + 2].tolist()
        return self.rows.slice(first, last - first)


@dataclass(frozen=True)
class SortRows:
    """Sorts the rows of a segment into parts by person, and writes them to files in a folder.

    It returns the number of these files.
    """

    folder: str
    columns: Columns
    parts: int

    def __call__(self, numbered: tuple[int, RowGroups]) -> int:
        segment, groups = numbered
        count, waiting, size = 0, list[_Sorted](), 0
        with of_file(groups.path):
            for batch in groups.batches(self.columns.names):
                waiting.append(self._sorted(_plain(batch, self.columns)))
                size += waiting[-1].rows.nbytes
                if size >= SORTED_BYTES:
                    self._write(_sorted_path(self.folder, segment, count), waiting)
                    count, waiting, size = count + 1, [], 0
            if waiting:
                self._write(_sorted_path(self.folder, segment, count), waiting)
                count += 1
        return count

    def _sorted(self, rows: Any) -> _Sorted:
        """Rows by part, stable."""
        persons = rows.column(self.columns.person)
        order, ends = order_by_part(person_parts(persons, self.parts), self.parts)
        return _Sorted(rows.take(arrow().array(order)), ends)

    def _write(self, path: str, waiting: list[_Sorted]) -> None:
        """Write sorted rows as one file, a part after the other; its metadata says which is which."""
        there = np.flatnonzero(np.sum([np.diff(rows.ends) for rows in waiting], axis=0)).tolist()
        schema = waiting[0].rows.schema.with_metadata({"parts": ",".join(map(str, there))})
        with whole_file(Path(path), private=True) as sink, arrow().ipc.new_file(sink, schema) as file:
            for part in there:
                file.write_batch(joined([rows.of(part) for rows in waiting]))


def _plain(batch: Any, columns: Columns) -> Any:
    """Rows whose people are integers or text, and without dictionaries, which differ by batch."""
    pa, types = arrow(), arrow().types
    arrays = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        if name == columns.person:
            if array.null_count:
                raise TableError(f"column {name!r} has an empty cell; every row must name its person")
            array = _whole_or_text(array, name)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _whole_or_text(persons: Any, column: str) -> Any:
    pa, types = arrow(), arrow().types
    if types.is_integer(persons.type) or types.is_floating(persons.type):
        try:
            return persons.cast(pa.int64())
        except pa.ArrowInvalid:
            raise TableError(
                f"column {column!r} holds fractions, NaN or too large numbers; a person is named by a "
                "whole number or by text"
            ) from None
    try:
        return persons.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise TableError(
            f"column {column!r} holds {persons.type}; a person is named by a whole number or by text"
        ) from None


class _Group(NamedTuple):
    """A row group with its number of rows, and its first and last person."""

    path: str
    number: int
    rows: int
    first: int
    last: int


class ParquetTable:
    """Parquet files with the same three columns."""

    def __init__(self, paths: list[str], columns: Columns) -> None:
        self.paths, self.columns = paths, columns
        self.rows = 0
        kinds = set()
        for path in paths:
            with of_file(path), opened(path) as file:
                columns.check(file.schema_arrow.names)
                kinds.add(_kind(file.schema_arrow.field(columns.person).type))
                self.rows += file.metadata.num_rows
        if len(kinds) > 1:
            raise TableError(
                f"column {columns.person!r} holds numbers in some files and text in others; a person "
                "must be named in one way"
            )

    @cached_property
    def row_groups(self) -> list[RowGroups]:
        """The table as runs of row groups."""
        runs = []
        for path in self.paths:
            with opened(path) as file:
                runs += [RowGroups(path, *run) for run in row_group_runs(file.metadata, SEGMENT_ROWS)]
        return runs

    def ranges(self) -> list[PersonRange] | None:
        """The table cut between people; None if its row groups are not in order of people."""
        groups = self._ordered_groups()
        if groups is None:
            return None
        ranges: list[PersonRange] = []
        first, after = 0, None
        while first < len(groups):
            rows, stop = 0, first
            while stop < len(groups) and rows < SEGMENT_ROWS:
                rows += groups[stop].rows
                stop += 1
            last = groups[stop - 1].last
            while stop < len(groups) and groups[stop].first == last:
                stop += 1  # the last person's rows go on there
            own = tuple(RowGroups(g.path, g.number, 1) for g in groups[first:stop])
            ranges.append(PersonRange(own, after, last))
            first, after = stop - (groups[stop - 1].last > last), last
        return ranges

    def _ordered_groups(self) -> list[_Group] | None:
        """All row groups in order of people; None if people of two of them are mixed."""
        groups: list[_Group] = []
        for path in self.paths:
            with opened(path) as file:
                own = _bounds(path, file, self.columns.person)
            if own is None:
                return None
            groups += own
        groups = sorted(groups, key=lambda g: (g.first, g.last)) if len(self.paths) > 1 else groups
        if any(g.rows > LARGEST_GROUP for g in groups):
            return None
        return None if any(b.first < a.last for a, b in pairwise(groups)) else groups

    def sorted_parts(self, workers: int) -> int:
        """The number of parts into which unordered rows are sorted."""
        return min(1 << 16, max(workers, -(-self.rows // SEGMENT_ROWS)))


def _kind(kind: Any) -> str:
    """How people are named in a column of this type."""
    types = arrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return (
        "number" if types.is_integer(kind) or types.is_floating(kind) else str(types.is_temporal(kind))
    )


def _bounds(path: str, file: Any, person: str) -> list[_Group] | None:
    """Each row group with its first and last person; None if the file does not say."""
    place = file.schema_arrow.get_field_index(person)
    kind = file.schema_arrow.field(person).type
    if not arrow().types.is_integer(kind) or file.schema_arrow.names.count(person) > 1:
        return None  # bounds of text may be cut short
    groups = []
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        column = group.column(place)
        statistics = column.statistics if column.path_in_schema == person else None
        if statistics is None or not statistics.has_min_max or statistics.null_count:
            return None
        if group.num_rows:
            groups.append(_Group(path, number, group.num_rows, statistics.min, statistics.max))
    return groups
