"""Wide tables: a row for each person, a column for each key. An empty cell is a key not held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.coins import address
from ...foundation.errors import TableError, nearest
from ...foundation.key_names import key_name
from ..people import People
from ..schema import Schema
from .frames import arrow, flat_frame, numbers_of, readable, unbroken
from .text_tables import delimiter_in


def wide_keys(source: Any, *, person: str | None = None, top: int | None = None) -> list[str]:
    """The key columns by their number of filled cells, in descending order; the first ``top``.

    A cell that is empty or False is not filled.
    """
    table = wide_table(source, person=person)
    held = {}
    for name in table.column_names:
        if name != person:
            column, compute = table.column(name), arrow("compute")
            filled = column if arrow().types.is_boolean(column.type) else column.is_valid()
            if arrow().types.is_floating(column.type):
                filled = compute.invert(column.is_null(nan_is_null=True))
            held[name] = compute.sum(filled).as_py() or 0
    order = sorted(held, key=lambda name: (-held[name], table.column_names.index(name)))
    return order if top is None else order[:top]


def wide_people(
    schema: Schema,
    source: Any,
    *,
    person: str | None = None,
    lenient: bool = False,
    valued: bool = True,
    mapped: Counter[str] | None = None,
) -> People:
    """Everyone in a wide table, given as a path (.csv, .tsv, .parquet) or a frame.

    The column ``person`` names people; without it they are numbered in order. Columns that the schema
    does not list are ignored; a key of the schema without a column is an error. ``lenient`` clips
    values, and ``mapped`` counts them. If values do not matter (``valued``), a column may hold True and
    False.
    """
    table = wide_table(source, schema.keys, person=person)
    lacking = [key for key in schema.keys if key not in table.column_names]
    if lacking:
        near = nearest(lacking[0], table.column_names)
        hint = "" if near is None else f"did you mean {near!r}? "
        raise TableError(
            f"column {lacking[0]!r} is not in the table; {hint}a wide table has one for each key"
        )
    if valued:
        columns = [_numbers(table.column(key), key) for key in schema.keys]
    else:
        ends = zip(schema.keys, schema.low, strict=True)
        columns = [np.where(_held(table.column(key), key), low, np.nan) for key, low in ends]
    values = np.stack(columns, axis=1)
    who, places = np.nonzero(~np.isnan(values))
    cells = values[who, places]
    if mapped is not None:
        outside = (cells < schema.low[places]) | (cells > schema.high[places])
        mapped["outside_range"] += int(outside.sum())
    people = People.of_places(
        schema, address(np.arange(len(values))), who, places, cells, lenient=lenient
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


def wide_table(source: Any, wanted: Collection[str] = (), *, person: str | None = None) -> Any:
    """A wide table as an Arrow table, from a path or a frame; checked to have its columns once."""
    table = _arrow_table(source, wanted, person)
    names = table.column_names
    if len(set(names)) < len(names):
        raise TableError("a column is in the table twice; name each column once")
    if person is not None and person not in names:
        near = nearest(person, names)
        hint = "" if near is None else f"did you mean {near!r}? "
        raise TableError(
            f"column {person!r} is not in the table; {hint}pass person=, the column that names people, "
            "or person=None if rows name no one"
        )
    return table


def _arrow_table(source: Any, wanted: Collection[str], person: str | None) -> Any:
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
    if hasattr(source, "collect_schema") and hasattr(source, "collect"):  # a Polars LazyFrame
        with unbroken("the lazy frame cannot be collected"):
            source = source.collect()
    if not hasattr(source, "__arrow_c_stream__"):
        raise TableError(f"cannot read a {type(source).__name__} as a table; give a path or a frame")
    _check_labels(source)
    with unbroken("the frame cannot be turned into Arrow columns"):
        return pa.RecordBatchReader.from_stream(flat_frame(source, [person])).read_all()


def _check_labels(frame: Any) -> None:
    """Refuse columns without a name of their own; pandas allows them, Arrow does not."""
    labels = [key_name(label) for label in getattr(frame, "columns", ()) if hasattr(frame, "iloc")]
    if None in labels:
        raise TableError("a column of the frame has no name; name it, or leave it out")
    if twice := [name for name, times in Counter(labels).items() if times > 1]:
        raise TableError(f"column {twice[0]!r} is in the frame twice; name each column once")


def _numbers(column: Any, key: str) -> Floats:
    """The values of a column; NaN for empty cells."""
    numbers = numbers_of(column)
    if numbers is None and arrow().types.is_boolean(column.type):
        raise TableError(
            f"column {key!r} holds True and False; pass value=None if the values of keys do not matter"
        )
    if numbers is None:
        raise TableError(
            f"column {key!r} must hold numbers, or nothing where the key is not held; a frame with a "
            "row for each pair is not wide"
        )
    return numbers


def _held(column: Any, key: str) -> np.ndarray:
    """Who holds a key whose value does not matter: every cell but False and empty ones."""
    if arrow().types.is_boolean(column.type):
        return np.asarray(column.fill_null(False).to_numpy(), bool)
    numbers = _numbers(column, key)
    if set(numbers[~np.isnan(numbers)].tolist()) == {0.0, 1.0}:
        raise TableError(
            f"column {key!r} holds 0 and 1; if 0 means not held, make it True and False (frame == 1), "
            "and otherwise leave out value=None"
        )
    return ~np.isnan(numbers)
