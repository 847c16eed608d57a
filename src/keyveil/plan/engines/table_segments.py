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
from typing import Any

from ...foundation.errors import TableError
from ...people.tables.frames import Columns, arrow, of_file
from ...people.tables.spill import order_by_part, person_parts
from .report_segments import parquet_file, row_group_runs

SEGMENT_ROWS = 1 << 21
"""Approximate number of rows in a segment."""
READ_ROWS = 1 << 17
"""Number of rows that a worker sorts into parts at a time."""


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of a Parquet file."""

    path: str
    first: int
    count: int

    def table(self, columns: Columns) -> Any:
        """The rows."""
        with of_file(self.path), parquet_file(self.path) as file:
            groups = list(range(self.first, self.first + self.count))
            return file.read_row_groups(groups, columns=columns.names)

    def batches(self, columns: Columns) -> Iterator[Any]:
        """The rows, some at a time."""
        with of_file(self.path), parquet_file(self.path) as file:
            groups = list(range(self.first, self.first + self.count))
            yield from file.iter_batches(READ_ROWS, row_groups=groups, columns=columns.names)


@dataclass(frozen=True)
class PersonRange:
    """The rows of the people above ``after``, up to and including ``last``, in order of people."""

    groups: RowGroups
    after: Any
    """The last person of the segment before; None in the first segment."""
    last: Any

    def table(self, columns: Columns) -> Any:
        """All rows of these people."""
        compute, table = arrow("compute"), self.groups.table(columns)
        person = table.column(columns.person)
        inside = compute.less_equal(person, self.last)
        if self.after is not None:
            inside = compute.and_(inside, compute.greater(person, self.after))
        return table.filter(inside)


@dataclass(frozen=True)
class SortedPart:
    """One part of every file that ``SortRows`` wrote."""

    paths: tuple[str, ...]
    part: int

    def table(self, columns: Columns) -> Any:
        """All rows of the people in this part."""
        pa = arrow()
        batches = []
        for path in self.paths:
            with pa.OSFile(path) as source, pa.ipc.open_file(source) as file:
                places = file.schema.metadata[b"parts"].decode().split(",")
                batches += [
                    file.get_batch(place) for place, part in enumerate(places) if int(part) == self.part
                ]
        if not batches:
            with pa.OSFile(self.paths[0]) as source, pa.ipc.open_file(source) as file:
                return pa.Table.from_batches([], file.schema)
        return pa.Table.from_batches(batches)


@dataclass(frozen=True)
class SortRows:
    """Sorts the rows of a segment into parts by person, and writes them as one file."""

    folder: str
    columns: Columns
    parts: int

    def __call__(self, numbered: tuple[int, RowGroups]) -> str:
        pa = arrow()
        number, groups = numbered
        path = Path(self.folder) / f"rows-{number:06d}.arrow"
        pieces: list[list[Any]] = [[] for _ in range(self.parts)]
        for batch in groups.batches(self.columns):
            order, ends = order_by_part(
                person_parts(_whole_or_text(batch.column(self.columns.person)), self.parts), self.parts
            )
            rows = batch.take(pa.array(order))
            for part in range(self.parts):
                if ends[part + 1] > ends[part]:
                    pieces[part].append(rows.slice(int(ends[part]), int(ends[part + 1] - ends[part])))
        listed = [part for part, rows in enumerate(pieces) for _ in rows]
        schema = next(rows[0].schema for rows in pieces if rows)
        schema = schema.with_metadata({"parts": ",".join(map(str, listed))})
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as file:
            for rows in pieces:
                for batch in rows:
                    file.write_batch(batch.cast(schema) if batch.schema != schema else batch)
        return str(path)


def _whole_or_text(persons: Any) -> Any:
    """Names of people as integers or text, as the hash of a part needs them."""
    types = arrow().types
    if types.is_dictionary(persons.type):
        persons = persons.dictionary_decode()
    if persons.null_count:
        raise TableError("the column of people has an empty cell; every row must name its person")
    if types.is_integer(persons.type):
        return persons.cast(arrow().int64())
    if types.is_floating(persons.type):
        return persons.cast(arrow().int64(), safe=True)
    return persons.cast(arrow().large_string())


class ParquetTable:
    """Parquet files with the same three columns."""

    def __init__(self, paths: list[str], columns: Columns) -> None:
        self.paths, self.columns = paths, columns
        self.rows = 0
        kinds = {}
        for path in paths:
            with of_file(path), parquet_file(path) as file:
                columns.check(file.schema_arrow.names)
                kinds[path] = file.schema_arrow.field(columns.person).type
                self.rows += file.metadata.num_rows
        if len(set(kinds.values())) > 1:
            raise TableError(
                f"the column {columns.person!r} has other types in some of the files; "
                "a person must be named in one way"
            )

    @cached_property
    def row_groups(self) -> list[RowGroups]:
        """The table as runs of row groups."""
        runs = []
        for path in self.paths:
            with parquet_file(path) as file:
                runs += [RowGroups(path, *run) for run in row_group_runs(file.metadata, SEGMENT_ROWS)]
        return runs

    def ranges(self) -> list[PersonRange] | None:
        """The table cut between people; None if its row groups are not in order of people."""
        if len(self.paths) != 1:
            return None
        path = self.paths[0]
        with parquet_file(path) as file:
            bounds = _bounds(file, self.columns.person)
        if bounds is None or any(b[0] < a[1] for a, b in pairwise(bounds)):
            return None
        ranges: list[PersonRange] = []
        after = None
        for groups in self.row_groups:
            last = bounds[groups.first + groups.count - 1][1]
            if ranges and last == after:  # one person's rows fill all of these groups
                continue
            first = groups.first
            while after is not None and first and bounds[first - 1][1] > after:
                first -= 1
            stop = groups.first + groups.count
            while stop < len(bounds) and bounds[stop][0] <= last:
                stop += 1
            ranges.append(PersonRange(RowGroups(path, first, stop - first), after, last))
            after = last
        return ranges

    def sorted_parts(self, processes: int) -> int:
        """The number of parts into which unordered rows are sorted."""
        return max(processes, -(-self.rows // SEGMENT_ROWS))


def _bounds(file: Any, person: str) -> list[tuple[Any, Any]] | None:
    """The first and the last person of each row group; None if the file does not say."""
    place = file.schema_arrow.get_field_index(person)
    if not arrow().types.is_integer(file.schema_arrow.field(person).type):
        return None  # bounds of text may be cut short
    bounds = []
    for group in range(file.metadata.num_row_groups):
        statistics = file.metadata.row_group(group).column(place).statistics
        if statistics is None or not statistics.has_min_max or statistics.null_count:
            return None
        bounds.append((statistics.min, statistics.max))
    return bounds
