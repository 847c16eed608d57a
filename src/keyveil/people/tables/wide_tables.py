"""Wide tables: a row for each person, a column for each key. An empty cell is a key not held."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.coins import address
from ...foundation.errors import TableError
from ..people import People
from ..schema import Schema
from .frames import arrow, numbers_of, readable, unbroken
from .text_tables import delimiter_in


def wide_keys(source: Any, *, person: str | None = None, top: int | None = None) -> list[str]:
    """The key columns by their number of filled cells, in descending order; the first ``top``."""
    table = wide_table(source)
    _check(table, person)
    held = {}
    for name in table.column_names:
        if name != person:
            column = table.column(name)
            gaps = arrow("compute").sum(column.is_null(nan_is_null=True)).as_py()
            held[name] = table.num_rows - (gaps or 0)
    order = sorted(held, key=lambda name: (-held[name], table.column_names.index(name)))
    return order if top is None else order[:top]


def wide_people(
    schema: Schema, source: Any, *, person: str | None = None, lenient: bool = False
) -> People:
    """Everyone in a wide table, given as a path (.csv, .tsv, .parquet) or a frame.

    The column ``person`` names people; without it they are numbered in order. Columns that the schema
    does not list are ignored; a key of the schema without a column is an error. ``lenient`` clips
    values.
    """
    table = wide_table(source, schema.keys)
    _check(table, person)
    lacking = [key for key in schema.keys if key not in table.column_names]
    if lacking:
        raise TableError(f"column {lacking[0]!r} is not in the table; a wide table has one for each key")
    values = np.stack([_numbers(table.column(key), key) for key in schema.keys], axis=1)
    who, places = np.nonzero(~np.isnan(values))
    people = People.of_places(
        schema, address(np.arange(len(values))), who, places, values[who, places], lenient=lenient
    )
    if person is None:
        return people
    named = table.column(person)
    if named.null_count:
        raise TableError(f"column {person!r} has an empty cell; every row must name its person")
    names = named.to_pylist()
    if len(set(names)) < len(names):
        raise TableError(f"column {person!r} names a person twice; a wide table has one row for each")
    return replace(people, addresses=address(names))


def wide_table(source: Any, wanted: Collection[str] = ()) -> Any:
    """A wide table as an Arrow table, from a path or a frame."""
    pa = arrow()
    if isinstance(source, str | Path):
        path = Path(source)
        if path.is_dir():
            raise TableError(f"{path} is a folder; name the file of the table")
        if not path.is_file():
            raise TableError(f"there is no file {path}")
        with readable(path):
            if path.suffix.lower() == ".parquet":
                return arrow("parquet").read_table(path)
            if path.suffix.lower() in (".csv", ".tsv"):
                reading = arrow("csv")
                between = reading.ParseOptions(delimiter=delimiter_in(path, wanted))
                return reading.read_csv(path, parse_options=between)
        raise TableError(f"cannot tell by its ending what {path.name} is; known: .csv, .tsv, .parquet")
    if not hasattr(source, "__arrow_c_stream__"):
        raise TableError(f"cannot read a {type(source).__name__} as a table; give a path or a frame")
    with unbroken("the frame cannot be turned into Arrow columns"):
        return pa.RecordBatchReader.from_stream(source).read_all()


def _check(table: Any, person: str | None) -> None:
    names = table.column_names
    if len(set(names)) < len(names):
        raise TableError("a column is in the table twice; name each column once")
    if person is not None and person not in names:
        raise TableError(f"column {person!r} is not in the table")


def _numbers(column: Any, key: str) -> Floats:
    """The values of a column; NaN for empty cells."""
    numbers = numbers_of(column)
    if numbers is None:
        raise TableError(f"column {key!r} must hold numbers, or nothing where the key is not held")
    return numbers
