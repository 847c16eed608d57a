"""What the commands print: JSON for machines, tables for people, progress to the error stream."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any

import click

STDERR_NOTE = (
    "± stderr: one standard error, the typical distance of the value to its left from the truth"
)
"""What the column of standard errors says, below a table that has one."""

as_json = click.option("--json", "machine", is_flag=True, help="Print JSON.")


def whole_number(
    option: str, name: str, least: int, default: int, says: str, most: int | None = None, **more: Any
) -> Callable[[Any], Any]:
    """An option for a whole number within limits; ``name`` is the parameter of the command."""
    kind = click.IntRange(least, most)
    return click.option(option, name, type=kind, default=default, help=says, **more)


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def counted(number: float, singular: str, plural: str = "") -> str:
    """A number with its noun: 1 key, 2 keys, 1,000 people."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def figure(value: float, form: str = ".4f", otherwise: str = "unknown") -> str:
    """A number in a format, never -0; ``otherwise`` if it is not finite."""
    sign = "+" if form.startswith("+") else ""
    return f"{value:{sign}z{form.removeprefix('+')}}" if isfinite(value) else otherwise


def interval(low: float, high: float, form: str = ".4f") -> str:
    """The ends of an interval in brackets."""
    return f"[{figure(low, form)}, {figure(high, form)}]"


def print_rows(headings: Sequence[str], rows: Sequence[Sequence[Any]], machine: bool) -> None:
    """Print rows as a table, or as JSON objects whose members are called like the headings."""
    if machine:
        print_json([dict(zip(headings, row, strict=True)) for row in rows])
    else:
        print_table(headings, [[str(cell) for cell in row] for row in rows])


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table under a title; columns of numbers are right-aligned."""
    from rich.console import Console
    from rich.table import Table

    if title:
        click.echo(title)
    table = Table(box=None, pad_edge=False)
    for place, heading in enumerate(headings):
        figures = all(_figure(row[place]) for row in rows) and bool(rows)
        table.add_column(heading, justify="right" if figures else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell.replace("[", "\\[") for cell in row))
    width = None if sys.stdout.isatty() else 160
    console = Console(width=width, highlight=False, emoji=False)
    if console.measure(table, options=console.options.update(width=1000)).maximum > console.width:
        table.padding = (0, 1, 0, 0)  # one space between columns instead of two
    if sys.stdout.isatty():
        console.print(table)
        return
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().splitlines():
        click.echo(line.rstrip())


def plain_only(encoding: str | None, environment: Mapping[str, str]) -> bool:
    """Whether only ASCII can be shown: the encoding has no braille, or the locale is C.

    Python itself may have set ``LC_CTYPE`` to ``C.UTF-8``, so that value is ignored.
    """
    try:
        "±│⣿".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    kind = environment.get("LC_CTYPE", "")
    words = (environment.get("LC_ALL"), "" if kind.startswith("C.") else kind, environment.get("LANG"))
    return next(filter(None, words), "") in ("C", "POSIX")


def _figure(cell: str) -> bool:
    return not cell or cell[:1] in "-+.0123456789[?" or cell in ("unbounded", "unknown")


def duration(seconds: float) -> str:
    """A rounded length of time: "12 s", "3 min", "2 h"."""
    for length, unit in ((3600, "h"), (60, "min")):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


@contextmanager
def progress(label: str, unit: str = "") -> Iterator[Any]:
    """A progress bar on the error stream of a terminal; a callback with (done, total or None).

    ``unit`` names what is counted. The bar is gone when all is done.
    """
    if not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    from .terminal_progress import terminal_progress

    with terminal_progress(label, unit) as on_progress:
        yield on_progress
