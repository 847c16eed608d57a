"""Files of keys: one key on each line, or the columns key, low and high."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

from ..foundation.errors import SchemaError
from ..foundation.exact import decimal
from ..foundation.files import named, named_content
from ..people.schema import Schema
from ..people.tables.delimiters import DELIMITERS, cells_of, delimiter_of, is_number

COLUMNS = ("key", "low", "high")
PEOPLE = ("person", "value")
"""Columns that only a table of people has; no key of theirs may become public by mistake."""
TABLES = (".csv", ".tsv")
"""Endings of files that have columns, even if there is only one."""

Range = tuple[Decimal, Decimal]


def schema_of_file(keys: str, usual: Range, notes: list[str]) -> tuple[Schema, bool]:
    """The schema of a file, and whether one of its keys has the ``usual`` range.

    One line for each assumption is appended to ``notes``.
    """
    lines = _lines(keys)
    first = next(iter(lines.values()))
    delimiter = delimiter_of(first, COLUMNS)
    header = [cell.strip().casefold() for cell in cells_of(first, delimiter)]
    table = Path(keys).suffix.lower() in TABLES
    if "key" in header and (of_people := [name for name in PEOPLE if name in header]):
        raise SchemaError(
            f"{keys} has a column {of_people[0]!r}: it is a table of people, and a plan is public; "
            "write the keys to ask about to a text file, one a line"
        )
    if "key" in header and (len(header) > 1 or table):
        with named(keys):
            ranges = _ranges(lines, header, delimiter)
            schema = Schema.of(ranges, *usual, ranges={k: r for k, r in ranges.items() if r})
        _note_columns(keys, header, notes)
        return schema, not all(ranges.values())
    if table:
        raise SchemaError(
            f"the CSV {keys} needs a first line key,low,high and a line for each key; if it is a table "
            "of people, write the names of its keys to a text file, one a line"
        )
    _check_no_columns(keys, lines)
    names = [line.strip() for line in lines.values()]
    _note_names(keys, names, notes)
    with named(keys):
        return Schema.of(names, *usual), True


def _lines(keys: str) -> dict[int, str]:
    """The lines that are not blank, by their number."""
    try:
        content = Path(keys).read_bytes()
    except OSError as error:
        raise SchemaError(f"cannot read the keys {keys}: {error.strerror}") from None
    _check_keys(keys, content)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SchemaError(f"the keys {keys} are not UTF-8 text") from None
    return {number: line for number, line in enumerate(text.splitlines(), 1) if line.strip()}


def _check_keys(keys: str, content: bytes) -> None:
    """Refuse other kinds of files, which could be read as strange keys."""
    if not content.removeprefix(codecs.BOM_UTF8).strip():
        raise SchemaError(f"{keys} is empty; a file of keys has one key a line")
    what = "no text" if b"\0" in content else None
    what = named_content(content) or what
    if what is None and content.lstrip().startswith((b"[", b"{")):
        with suppress(ValueError, RecursionError):
            json.loads(content.lstrip().partition(b"\n")[0])
            what = "JSON"
    if what is not None:
        raise SchemaError(f"{keys} is {what}; a file of keys has one key a line, or key,low,high")


def _ranges(lines: dict[int, str], header: list[str], delimiter: str) -> dict[str, Range | None]:
    """The range of each key; None if both ends are empty."""
    for name in COLUMNS:
        if header.count(name) > 1:
            raise SchemaError(f"column {name!r} is there twice; name each column once")
    if ("low" in header) != ("high" in header):
        lacking = "low" if "high" in header else "high"
        raise SchemaError(f"there is no column {lacking!r}; the first line is key,low,high")
    ranges: dict[str, Range | None] = {}
    for number, cells in _rows(lines, delimiter):
        if len(cells) > len(header):
            raise SchemaError(
                f"line {number} has {len(cells)} cells, but the first line names {len(header)} columns; "
                "put a key that contains the delimiter in double quotes"
            )
        row = dict(zip(header, (cell.strip() for cell in cells), strict=False))
        key, low, high = (row.get(name, "") for name in COLUMNS)
        if key in ranges:
            raise SchemaError(f"line {number}: the key is listed twice; list each key once")
        if bool(low) != bool(high):
            raise SchemaError(f"line {number} has only one end of a range; give low and high")
        with named(f"line {number}"):
            ranges[key] = (decimal(low, "low"), decimal(high, "high")) if low else None
    return ranges


def _rows(lines: dict[int, str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of every line after the first."""
    numbers = list(lines)
    try:
        rows = csv.reader(lines.values(), delimiter=delimiter, strict=True)
        for number, row in zip(numbers, rows, strict=False):
            if number != numbers[0]:
                yield number, row
    except csv.Error:
        raise SchemaError("a line cannot be read; is a quote open?") from None


def _check_no_columns(keys: str, lines: dict[int, str]) -> None:
    """Refuse a file whose lines all end in two numbers: the names of its columns are missing."""
    for delimiter, name in DELIMITERS.items():
        rows = [cells_of(line, delimiter) for line in lines.values()]
        if all(len(row) == 3 and is_number(row[1]) and is_number(row[2]) for row in rows):
            raise SchemaError(
                f"every line of {keys} ends in two numbers between {name}; add a first line "
                f"{delimiter.join(COLUMNS)!r} if these are ranges"
            )


def _note_columns(keys: str, header: list[str], notes: list[str]) -> None:
    others = [name for name in header if name not in COLUMNS]
    if others:
        notes.append(f"{keys}: columns other than key, low and high are not used ({', '.join(others)})")


def _note_names(keys: str, names: list[str], notes: list[str]) -> None:
    if names[0].casefold() == "key":
        notes.append(f"{keys}: the first line is taken as a key called {names[0]!r}")
    for delimiter, name in DELIMITERS.items():
        count = sum(delimiter in name for name in names)
        if count:
            notes.append(
                f"{keys}: no first line key,low,high, so each line is one key; {count:,} of "
                f"{len(names):,} keys contain {name}"
            )
            return
