"""A small table that shows itself as text and as HTML, and how its cells are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, isnan


@dataclass(frozen=True, repr=False)
class ResultTable:
    """Cells under headings, with a line above and notes below; shows itself as text and as HTML."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    notes: tuple[str, ...] = ()

    def first(self, most: int | None, noun: str) -> ResultTable:
        """The first rows; a note counts the others, which are called by the plural ``noun``."""
        if most is None or len(self.rows) <= most:
            return self
        more = f"and {len(self.rows) - most:,} more {noun}; table(most=None) shows them"
        return replace(self, rows=self.rows[:most], notes=(more, *self.notes))

    def __str__(self) -> str:
        widths = [max(map(_width, column)) for column in zip(self.headings, *self.rows, strict=True)]
        right = self._right()
        lines = [
            "  ".join(
                _filled(cell, width, to_right)
                for cell, width, to_right in zip(row, widths, right, strict=True)
            ).rstrip()
            for row in (self.headings, *self.rows)
        ]
        return "\n".join(filter(None, [self.title, *lines, *self.notes]))

    __repr__ = __str__

    def _right(self) -> list[bool]:
        """Whether each column is aligned to the right: numbers are."""
        columns = list(zip(*self.rows, strict=True)) or [()] * len(self.headings)
        return [bool(column) and all(map(_is_number, column)) for column in columns]

    def _repr_html_(self) -> str:
        from html import escape

        aligned = [f' style="text-align: {"right" if right else "left"}"' for right in self._right()]

        def row(cells: Sequence[str], tag: str) -> str:
            inner = (f"<{tag}{a}>{escape(c)}</{tag}>" for c, a in zip(cells, aligned, strict=True))
            return f"<tr>{''.join(inner)}</tr>"

        head = row(self.headings, "th")
        body = "".join(row(cells, "td") for cells in self.rows)
        title = f"<div>{escape(self.title)}</div>" if self.title else ""
        notes = "".join(f"<div><small>{escape(note)}</small></div>" for note in self.notes)
        table = f'<table class="dataframe"><thead>{head}</thead><tbody>{body}</tbody></table>'
        return f"<div>{title}{table}{notes}</div>"


def _width(text: str) -> int:
    """The number of columns that a text takes in a terminal: wide letters take two, accents none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _filled(cell: str, width: int, to_right: bool) -> str:
    """A cell with spaces up to a width, before it or after it."""
    spaces = " " * (width - _width(cell))
    return spaces + cell if to_right else cell + spaces


def figure(value: float) -> str:
    """A number in about four digits, never -0; a question mark if it is unknown."""
    if isnan(value):
        return "?"
    if not isfinite(value):
        return "∞" if value > 0 else "-∞"
    form = "z.4f" if abs(value) < 10 else "z.2f" if abs(value) < 1000 else "z,.0f"
    return f"{value:{form}}"


def interval_cell(low: float, high: float) -> str:
    """An interval in brackets, or words if it has no finite end or was not given."""
    if isnan(low) or isnan(high):
        return "none"
    if low == -inf and high == inf:
        return "unbounded"
    return f"[{figure(low)}, {figure(high)}]"


def _is_number(cell: str) -> bool:
    return not cell or cell[0] in "-+.0123456789[?∞±<" or cell in ("unbounded", "none")
