"""How what is learned shows itself: columns with intervals, tables, text in HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ...foundation.result_table import ResultTable
from ..answer import Estimate


def interval_columns(name: str, estimates: Sequence[Estimate]) -> dict[str, list[float]]:
    """Three columns: the value, and both ends of the interval with _low and _high after the name."""
    return {
        name: [estimate.value for estimate in estimates],
        f"{name}_low": [estimate.low for estimate in estimates],
        f"{name}_high": [estimate.high for estimate in estimates],
    }


def chance(value: float) -> str:
    """A probability that may be tiny, as text."""
    return f"{value:.1e}" if value >= 1e-99 else "< 1e-99"


def table_of(
    headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "", notes: Sequence[str] = ()
) -> ResultTable:
    """A table of all rows, with lines above and below."""
    return ResultTable(tuple(headings), tuple(map(tuple, rows)), title, tuple(notes))


def html_text(text: str) -> str:
    """Text in a fixed font for notebooks, escaped."""
    return f'<pre style="line-height:1.2">{escape(text)}</pre>'
