"""Tables for the terminal and for the docs, and the result of a benchmark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs" / "benchmarks.md"


@dataclass(frozen=True)
class Table:
    """Rows of text under a title; the first column is left-aligned, the others right-aligned."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def __str__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        shown = []
        for line in lines:
            first, *others = (
                cell.rjust(width) if i else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            shown.append("  ".join([first, *others]).rstrip())
        rule = "-" * max(len(line) for line in shown)
        note = [self.note] if self.note else []
        return "\n".join([self.title, rule, shown[0], rule, *shown[1:], *note])

    def markdown(self) -> str:
        """The same table for the docs."""
        sides = ["---"] + ["---:"] * (len(self.columns) - 1)
        lines = ["| " + " | ".join(line) + " |" for line in (self.columns, sides, *self.rows)]
        note = ["", self.note] if self.note else []
        return "\n".join([f"**{self.title}**", "", *lines, *note])


@dataclass(frozen=True)
class Outcome:
    """Result of one benchmark: tables for people, figures for programs, missed aims."""

    name: str
    tables: tuple[Table, ...]
    figures: dict[str, Any]
    missed: tuple[str, ...] = field(default=())

    def write(self, command: str, machine: str) -> None:
        """Put the tables in their place in the docs, with the command that made them."""
        parts = [f"```\n{command}\n```", *(t.markdown() for t in self.tables), f"Machine: {machine}."]
        body = "\n\n".join(parts)
        page = DOCS.read_text(encoding="utf-8")
        place = re.compile(rf"(<!-- bench:{self.name} -->).*?(<!-- /bench -->)", re.DOTALL)
        page, places = place.subn(lambda m: f"{m[1]}\n\n{body}\n\n{m[2]}", page)
        if not places:
            raise SystemExit(f"{DOCS} has no place for the tables of {self.name!r}")
        DOCS.write_text(page, encoding="utf-8")


def times(ratio: float) -> str:
    """A ratio as text, with a decimal below 20."""
    return f"{ratio:.1f} x" if ratio < 20 else f"{ratio:.0f} x"


def rows(lines: Iterable[Iterable[object]]) -> tuple[tuple[str, ...], ...]:
    """Lines of any values as lines of text."""
    return tuple(tuple(str(cell) for cell in line) for line in lines)
