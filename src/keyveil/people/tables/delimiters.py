"""Cells of a text file, and its delimiter by its first line."""

from __future__ import annotations

import csv
from collections.abc import Collection

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""Each delimiter with its name in the plural."""


def is_number(cell: str) -> bool:
    """Whether a text cell is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def cells_of(line: str, delimiter: str) -> list[str]:
    """The cells of one line; none if it cannot be parsed."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def delimiter_of(line: str, wanted: Collection[str], usual: str = ",") -> str:
    """The delimiter under which a first line names the most ``wanted`` columns, then the most columns.

    Case is ignored. The ``usual`` delimiter wins a tie.
    """
    names = {name.casefold() for name in wanted}

    def columns(delimiter: str) -> tuple[int, int, bool]:
        cells = {cell.strip().casefold() for cell in cells_of(line, delimiter)}
        return len(cells & names), len(cells), delimiter == usual

    return max(DELIMITERS, key=columns)
