"""Text files as Arrow batches: delimited cells, and JSON lines."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import islice, product
from pathlib import Path
from typing import Any

from ...foundation.errors import TableError
from .delimiters import delimiter_of, is_number
from .frames import BATCH, NOT_UTF_8, Batch, Columns, Source, arrow, readable

BLOCK = 1 << 22
"""Number of bytes of a text file parsed at a time; no line may be longer."""

SHARE = 8
"""Into how many parts a block is cut for a file of cells: Arrow reads 32 of them ahead."""


class Separated(Source):
    """A text file of cells. The first line names the columns; an empty cell is a missing value."""

    untyped = True

    def __init__(self, path: Path, columns: Columns) -> None:
        self._path, self._columns = path, columns
        self._delimiter = delimiter_in(path, columns.names)
        rows = (row for _, row in self._walk())
        self._names: list[str] = next(rows, [])
        columns.check(self._names, text=True)
        self._empty = next(rows, None) is None

    def _walk(self, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Each row with the number of its first line; ``strict`` refuses a quote that stays open.

        Slow: only for the first line and to find an error.
        """
        with readable(self._path), _text(self._path) as lines:
            reader = csv.reader(lines, delimiter=self._delimiter, strict=strict)
            line = 1
            try:
                for row in reader:
                    if row:
                        yield line, row
                    line = reader.line_num + 1
            except csv.Error:
                raise TableError(
                    f"line {line} of {self._path} cannot be read; is a quote open?"
                ) from None

    def batches(self, *, persons_only: bool = False) -> Iterator[Batch]:
        if self._empty:
            return
        pa, columns, given = arrow(), self._columns, 0
        lenient = columns.lenient and not persons_only and columns.value is not None
        with readable(self._path):
            for block in (BLOCK // SHARE, BLOCK):
                seen = 0
                try:
                    for batch in self._parsed(persons_only, block):
                        new = batch.slice(max(0, given - seen))
                        seen += batch.num_rows
                        given += new.num_rows
                        yield self._numbered(new) if lenient else new
                    return
                except pa.ArrowInvalid:  # also if a line is longer than a share of a block
                    if block == BLOCK:
                        raise TableError(self._trouble()) from None

    def _parsed(self, persons_only: bool, block: int) -> Iterator[Batch]:
        """The rows as Arrow reads them, in blocks of so many bytes."""
        pa, reading, columns = arrow(), arrow("csv"), self._columns
        types = {columns.person: pa.string()}
        if not persons_only:
            types[columns.key] = pa.dictionary(pa.int32(), pa.string())
            if columns.value is not None:
                types[columns.value] = pa.string() if columns.lenient else pa.float64()
        return iter(
            reading.open_csv(
                str(self._path),
                reading.ReadOptions(block_size=block),
                reading.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                reading.ConvertOptions(
                    include_columns=list(types),
                    column_types=types,
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
        )

    def _numbered(self, batch: Batch) -> Batch:
        """The batch with values that are not numbers replaced by missing ones."""
        pa, place = arrow(), batch.schema.get_field_index(self._columns.value)
        cells = batch.column(place)
        try:
            values = cells.cast(pa.float64())
        except pa.ArrowInvalid:
            listed = [None if c is None or not is_number(c) else float(c) for c in cells.to_pylist()]
            values = pa.array(listed, pa.float64())
        return batch.set_column(place, self._columns.value, values)

    def line_without(self, column: str, present: str | None = None) -> int | None:
        places = [self._names.index(name) for name in (column, present) if name is not None]
        for line, row in islice(self._walk(), 1, None):
            if not row[places[0]] and all(row[place] for place in places[1:]):
                return line
        return None

    def _trouble(self) -> str:
        """Why Arrow refused the file, without quoting it."""
        value = self._columns.value
        for line, row in islice(self._walk(strict=True), 1, None):
            if len(row) != len(self._names):
                return (
                    f"line {line} of {self._path} has {len(row)} cells, but the first line names "
                    f"{len(self._names)} columns"
                )
            if value is not None:
                cell = row[self._names.index(value)]
                if cell and is_number(cell.replace(",", ".", 1)) and not is_number(cell):
                    return f"line {line} has a number with a decimal comma; write a point, as in 0.5"
                if cell and not is_number(cell):
                    return _not_numbers(value, line)
        return f"{self._path} cannot be read: a line is too long, or a cell is not a plain number"


class JsonLines(Source):
    """A text file with a JSON object on each line; an absent member is a missing value."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._path, self._columns = path, columns
        names: dict[str, None] = {}
        for block in self._blocks():
            for _, row in self._rows(block, 1):
                names.update(dict.fromkeys(row))
                if names.keys() >= set(columns.names):
                    return
            break
        columns.check(list(names), text=True)

    def _blocks(self) -> Iterator[bytes]:
        """Blocks of whole lines."""
        rest, mark = b"", codecs.BOM_UTF8
        with readable(self._path), arrow().input_stream(str(self._path)) as file:
            while read := file.read(BLOCK):
                read, mark = read.removeprefix(mark), b""
                end = read.rfind(b"\n") + 1
                if end:
                    yield rest + read[:end]
                    rest = b""
                rest += read[end:]
                if len(rest) > BLOCK:
                    raise TableError(f"a line of {self._path} is too long; each row has its own line")
        if rest.strip():
            yield rest

    def _rows(self, block: bytes, first: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each object with its line number. Slow: only for the first lines and to find an error."""
        for line, text in enumerate(block.split(b"\n"), first):
            if not text.strip():
                continue
            try:
                row = json.loads(text.decode())
            except UnicodeDecodeError:
                raise TableError(NOT_UTF_8.format(self._path)) from None
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise TableError(f"line {line} of {self._path} is not a JSON object")
            yield line, row

    def batches(self, *, persons_only: bool = False) -> Iterator[Batch]:
        pa, columns, first = arrow(), self._columns, 1
        persons = [pa.int64(), pa.string(), pa.float64()]
        others = [{}] if persons_only else [{columns.key: k} for k in (pa.string(), pa.int64())]
        for block in self._blocks():
            table = self._read(block, persons, others, persons_only)
            if table is None and columns.lenient and not persons_only:
                table = self._read(self._numbered(block, first), persons, others, persons_only)
            if table is None:
                raise TableError(self._trouble(block, first))
            persons = [table.schema.field(columns.person).type]  # the same type in the whole file
            first += block.count(b"\n")
            yield from table.to_batches(max_chunksize=BATCH)

    def _read(
        self, block: bytes, persons: list[Any], others: list[dict[str, Any]], persons_only: bool
    ) -> Any:
        """The block's columns in the first types that fit; None if none do."""
        pa, reading = arrow(), arrow("json")
        options = reading.ReadOptions(block_size=len(block) + 1, use_threads=False)
        value = None if persons_only else self._columns.value
        values = {} if value is None else {value: pa.float64()}
        for person, other in product(persons, others):
            schema = pa.schema({self._columns.person: person, **other, **values})
            form = reading.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
            with suppress(pa.ArrowInvalid):
                return reading.read_json(pa.BufferReader(block), options, form)
        return None

    def _numbered(self, block: bytes, first: int) -> bytes:
        """The block without values that are not numbers."""
        lines = []
        for _, row in self._rows(block, first):
            cells = {name: row[name] for name in self._columns.names if name in row}
            if not _number(cells.get(str(self._columns.value))):
                cells.pop(str(self._columns.value), None)
            lines.append(json.dumps(cells))
        return "\n".join(lines).encode() + b"\n"

    def line_without(self, column: str, present: str | None = None) -> int | None:
        first = 1
        for block in self._blocks():
            for line, row in self._rows(block, first):
                if row.get(column) is None and (present is None or row.get(present) is not None):
                    return line
            first += block.count(b"\n")
        return None

    def _trouble(self, block: bytes, first: int) -> str:
        """Why Arrow refused a block, without quoting it."""
        columns = self._columns
        for line, row in self._rows(block, first):
            value = None if columns.value is None else row.get(columns.value)
            if not _number(value):
                return _not_numbers(str(columns.value), line)
        return (
            f"columns {columns.person!r} and {columns.key!r} of {self._path} must each hold only text "
            "or only whole numbers"
        )


def delimiter_in(path: Path, wanted: Collection[str]) -> str:
    """The delimiter of a text file by its first line; a .tsv usually has tabs."""
    usual = "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","
    with readable(path), _text(path) as lines:
        return delimiter_of(lines.readline(BLOCK), wanted, usual)


@contextmanager
def _text(path: Path) -> Iterator[io.TextIOWrapper]:
    with path.open("rb") as file:
        inner = gzip.GzipFile(fileobj=file) if path.suffix.lower() == ".gz" else file
        with io.TextIOWrapper(inner, "utf-8-sig", newline="") as text:
            yield text


def _number(value: object) -> bool:
    """Whether a JSON value is a number or null."""
    return not isinstance(value, bool) and isinstance(value, int | float | None)


def _not_numbers(column: str, line: int) -> str:
    return (
        f"column {column!r} must hold numbers, or nothing where there is none; line {line} has neither "
        "(lenient reading counts it as not held)"
    )
