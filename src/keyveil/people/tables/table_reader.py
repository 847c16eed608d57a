"""Read a table of (person, key, value) as people, a chunk at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.coins import address
from ...foundation.compiled import KnownLength
from ...foundation.errors import TableError
from ...foundation.key_names import key_name
from ..people import People
from ..schema import Schema
from .frames import Batch, Columns, arrow, numbers_of, of_file
from .row_order import Ascent, changed, cut
from .sources import open_source
from .spill import SORTED, joined, parted, together

CHUNK = 1 << 16
"""Number of rows in a chunk."""

ABSENT, UNKNOWN = -2, -1
"""Places of a row without a key, and of a key that the schema does not list."""

EXACT = 1 << 53
"""Below this, every whole number is exact as a double."""

Progress = Callable[[int, int | None], object]
"""Called with the number of rows done, and the number of all rows if it is known."""


def read_people(
    schema: Schema,
    source: Any,
    *,
    person: str = "person",
    key: str = "key",
    value: str | None = "value",
    lenient: bool = False,
    chunk: int = CHUNK,
    progress: Progress | None = None,
    mapped: Counter[str] | None = None,
) -> Iterator[People]:
    """Everyone in a table, in chunks of about ``chunk`` rows; memory does not grow with the table.

    ``source`` is a path (.csv, .tsv, .jsonl, .ndjson, also with .gz; .parquet, .arrow, .feather), an
    Arrow, pandas or Polars frame, an Arrow stream, or a SciPy sparse matrix with a row for each person.
    The rows of a person may be anywhere in the table; they come in one chunk. People are named by whole
    numbers or by text. In a .csv or .tsv they are numbers if every cell of the column is one.
    ``value=None`` is for schemas of one level, which ignore values. ``lenient`` maps invalid rows as the
    plan states for clients, and ``mapped`` counts them by rule: unknown_key, no_key, no_number,
    outside_range, repeated.
    """
    if chunk < 1:
        raise TableError("a chunk must have at least one row")
    if hasattr(source, "tocsr"):
        return _of_sparse(schema, source.tocsr(), lenient, chunk, progress)
    table = _Table(schema, source, Columns(person, key, value, lenient), mapped)
    return _of_table(table, lenient, chunk, progress)


def people_of(
    schema: Schema,
    source: Any,
    *,
    person: str = "person",
    key: str = "key",
    value: str | None = "value",
    lenient: bool = False,
    mapped: Counter[str] | None = None,
) -> People:
    """Everyone in a table at once, for tables that fit in memory. Arguments as for ``read_people``."""
    if hasattr(source, "tocsr"):
        return People.of_sparse(schema, source.tocsr(), lenient=lenient)
    table = _Table(schema, source, Columns(person, key, value, lenient), mapped)
    with table.named():
        batches = list(table.everything())
        if not batches:
            return People.of_records(schema, [])
        return table.people(joined(batches), lenient)


def key_counts(source: Any, *, person: str = "person", key: str = "key") -> dict[str, int]:
    """Number of rows of each key, by name."""
    counts: dict[str, int] = {}
    for batch in open_source(source, Columns(person, key, None)).batches():
        array = batch.column(key)
        if arrow().types.is_null(_key_type(array, key)):
            continue
        array = _decoded(array)
        for entry in array.drop_null().value_counts().to_pylist():
            name = _key_name(entry["values"], key)
            if name is not None:
                counts[name] = counts.get(name, 0) + int(entry["counts"])
    return counts


def _of_table(table: _Table, lenient: bool, chunk: int, progress: Progress | None) -> Iterator[People]:
    done = 0
    with table.named(), KnownLength() as length:
        for rows in table.groups(chunk):
            done += rows.num_rows
            if table.total is not None:
                length.see(rows.num_rows, done, table.total)
            yield table.people(rows, lenient)
            if progress is not None:
                progress(done, table.total)


# -- matrices ----------------------------------------------------------------------------------------


def _of_sparse(
    schema: Schema, matrix: Any, lenient: bool, chunk: int, progress: Progress | None
) -> Iterator[People]:
    for first in range(0, matrix.shape[0], chunk):
        yield People.of_sparse(schema, matrix[first : first + chunk], first=first, lenient=lenient)
        if progress is not None:
            progress(int(matrix.indptr[min(first + chunk, matrix.shape[0])]), int(matrix.nnz))


# -- columns -----------------------------------------------------------------------------------------


class _Table:
    """The rows of a source as (person, place of the key, value)."""

    def __init__(
        self, schema: Schema, source: Any, columns: Columns, mapped: Counter[str] | None = None
    ) -> None:
        self._mapped = mapped
        if columns.value is None and schema.levels != 1:
            raise TableError("name the column of values; only a schema of one level needs none")
        self.total: int | None = None
        self._schema, self._columns = schema, columns
        self._path = source if isinstance(source, str | Path) else None
        self._source = open_source(source, columns)
        self._numbered = False
        """Whether people of an untyped source are named by numbers."""
        self._names: Any = None
        self._name_places = np.empty(0, np.int32)

    def named(self) -> AbstractContextManager[None]:
        """Errors inside name the file, if the table is one."""
        return nullcontext() if self._path is None else of_file(self._path)

    def learn_names(self) -> bool:
        """A first pass: whether people are named by numbers, and whether they are in ascending order."""
        numbers, texts = Ascent(), Ascent()
        self._numbered, self.total = False, 0
        numbered = self._source.untyped
        for batch in self._source.batches(persons_only=True):
            persons = self._persons(batch.column(self._columns.person))
            self.total += len(persons)
            texts.see(persons)
            if numbered:
                whole = _whole_numbers(persons)
                numbered = whole is not None
                if numbered:
                    numbers.see(whole)
        self._numbered = numbered
        return (numbers if numbered else texts).holds

    def groups(self, chunk: int) -> Iterator[Batch]:
        """The rows in batches of about ``chunk``.

        All rows of a person are in one batch, in their order.
        """
        if self._source.once:
            return together(self.rows(), None, chunk)
        if self.learn_names():
            return cut(self.rows(), chunk)
        if self._source.held:
            return parted(joined(list(self.rows())), chunk, SORTED)
        return together(self.rows(), self.total, chunk)

    def everything(self) -> Iterator[Batch]:
        """All rows in their order. A first pass is made only to tell numbers from text."""
        if self._source.untyped:
            self.learn_names()
        return self.rows()

    def rows(self) -> Iterator[Batch]:
        """Batches of three columns: person, place, value."""
        pa, columns = arrow(), self._columns
        for batch in self._source.batches():
            if not batch.num_rows:
                continue
            persons = self._persons(batch.column(columns.person))
            places = self._places(batch.column(columns.key))
            if columns.value is None:
                values = self._schema.low[np.maximum(places, 0)]
            else:
                values = self._values(batch.column(columns.value))
            yield pa.RecordBatch.from_arrays(
                [persons, pa.array(places), pa.array(values)], names=["person", "place", "value"]
            )

    def people(self, rows: Batch, lenient: bool) -> People:
        """The people of a batch of rows, each with its address."""
        persons = rows.column("person")
        places, values = rows.column("place").to_numpy(), rows.column("value").to_numpy()
        without_key = 0
        if self._columns.value is not None:
            without_key = int(((places == ABSENT) & ~np.isnan(values)).sum())
        if without_key and not lenient:
            line = self._line_without(self._columns.key, self._columns.value)
            raise TableError(
                f"a row{line} has a value and no key in column {self._columns.key!r}; the row of a "
                "person who holds nothing leaves both empty"
            )
        people = self._people(persons, places, values, lenient)
        if self._mapped is not None:
            self._mapped.update(_broken(self._schema, places, values))
            self._mapped["no_key"] += without_key
            with_number = int(((places >= 0) & ~np.isnan(values)).sum())
            self._mapped["repeated"] += with_number - len(people.values)
        return people

    def _people(self, persons: Any, places: np.ndarray, values: Floats, lenient: bool) -> People:
        if arrow().types.is_integer(persons.type):
            return People.of_rows(self._schema, persons.to_numpy(), places, values, lenient=lenient)
        coded = persons.dictionary_encode()
        addresses = address(_listed(coded.dictionary, self._columns.person))
        who = coded.indices.to_numpy().astype(np.int64)
        return People.of_places(self._schema, addresses, who, places, values, lenient=lenient)

    def _persons(self, array: Any) -> Any:
        """The names of people as 64-bit integers or as text."""
        pa, types, column = arrow(), arrow().types, self._columns.person
        array = _decoded(array)
        if array.null_count:
            line = self._line_without(column)
            raise TableError(
                f"column {column!r} has an empty cell{line}; every row must name its person"
            )
        if types.is_floating(array.type):
            numbers = array.to_numpy().astype(np.float64)
            if not (np.abs(numbers) < EXACT).all() or (numbers % 1 != 0).any():
                raise TableError(
                    f"column {column!r} holds fractions, NaN or too large numbers; a person is named "
                    "by a whole number or by text"
                )
            return pa.array(numbers.astype(np.int64))
        if types.is_integer(array.type):
            try:
                return array.cast(pa.int64())
            except pa.ArrowInvalid:
                raise TableError(
                    f"a number in column {column!r} is too large; it must fit in 64 bits with its sign"
                ) from None
        if not _is_text(array.type):
            raise TableError(
                f"column {column!r} holds {_kind(array.type)}; a person is named by a whole number or "
                "by text"
            )
        if self._numbered:
            array = _whole_numbers(array)
            if array is None:
                raise changed()
            return array
        return array.cast(pa.large_string())

    def _line_without(self, column: str, present: str | None = None) -> str:
        """The line of the first row that has nothing in a column, for an error about a text file."""
        line = self._source.line_without(column, present)
        return "" if line is None else f" (line {line})"

    def _places(self, array: Any) -> np.ndarray:
        """The place of each row's key in the schema."""
        types, column = arrow().types, self._columns.key
        if types.is_null(_key_type(array, column)):
            return np.full(len(array), ABSENT, np.int32)
        coded = array if types.is_dictionary(array.type) else array.dictionary_encode()
        if self._names is None or not coded.dictionary.equals(self._names):
            self._names = coded.dictionary
            names = (_key_name(name, column) for name in (*_listed(self._names, column), None))
            index = self._schema.index
            places = [ABSENT if name is None else index.get(name, UNKNOWN) for name in names]
            self._name_places = np.array(places, np.int32)
        indices = coded.indices.cast(arrow().int64())
        return self._name_places[indices.fill_null(len(self._names)).to_numpy()]

    def _values(self, array: Any) -> Floats:
        """The value of each row; NaN if it is missing."""
        array = _decoded(array)
        values = numbers_of(array)
        if values is None:
            raise TableError(
                f"column {self._columns.value!r} holds {_kind(array.type)}; values must be numbers"
            )
        return values


def _broken(schema: Schema, places: np.ndarray, values: Floats) -> dict[str, int]:
    """Number of rows that break each rule for clients by itself."""
    known = places >= 0
    low, high = schema.low[np.maximum(places, 0)], schema.high[np.maximum(places, 0)]
    return {
        "unknown_key": int((places == UNKNOWN).sum()),
        "no_number": int((known & np.isnan(values)).sum()),
        "outside_range": int((known & ((values < low) | (values > high))).sum()),
    }


def _key_type(array: Any, column: str) -> Any:
    """The type of a column of keys; the error for one whose cells have no names."""
    pa, types = arrow(), arrow().types
    kind = array.type.value_type if types.is_dictionary(array.type) else array.type
    if types.is_nested(kind) or types.is_boolean(kind) or isinstance(kind, pa.BaseExtensionType):
        raise TableError(f"column {column!r} holds {_kind(kind)}; a key is text or a whole number")
    return kind


def _key_name(name: Any, column: str) -> str | None:
    """A key's name from a cell; None if the cell is empty."""
    if isinstance(name, float) and not (isnan(name) or name.is_integer()):
        raise TableError(f"column {column!r} holds fractions; a key is text or a whole number")
    return key_name(name)


def _is_text(kind: Any) -> bool:
    types = arrow().types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _decoded(array: Any) -> Any:
    """A dictionary array decoded; any other array unchanged."""
    if not arrow().types.is_dictionary(array.type):
        return array
    values = array.dictionary
    if _is_text(values.type):
        values = values.cast(arrow().large_string())  # Arrow 18 cannot take from views
    return values.take(array.indices)


def _kind(kind: Any) -> str:
    """What a column holds, for an error message.

    Nested types are not spelled out: their field names may be data.
    """
    types = arrow().types
    words = {
        "lists or objects": types.is_nested(kind),
        "text": _is_text(kind),
        "True and False": types.is_boolean(kind),
        "dates or times": types.is_temporal(kind),
    }
    return next((word for word, holds in words.items() if holds), f"the type {kind}")


def _listed(array: Any, column: str) -> list[Any]:
    try:
        return array.to_pylist()
    except UnicodeDecodeError:
        raise TableError(f"column {column!r} holds text that is not UTF-8") from None


def _whole_numbers(array: Any) -> Any:
    """Text as integers if every cell is written as one; otherwise None."""
    pa = arrow()
    try:
        numbers = array.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return numbers if numbers.cast(array.type).equals(array) else None
