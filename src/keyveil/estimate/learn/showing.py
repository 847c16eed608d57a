"""How what is learned shows itself: columns with intervals, tables as text and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ...foundation.shown_result import MOST_SHOWN
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


def text_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns below their headings."""
    lines = [list(headings), *(list(row) for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(headings))]
    padded = ([cell.ljust(w) for cell, w in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def html_table(headings: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """An HTML table of the first rows, for notebooks; all cells are escaped."""
    head = "".join(f'<th style="text-align:left">{escape(cell)}</th>' for cell in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{escape(cell)}</td>' for cell in row) + "</tr>"
        for row in rows[:MOST_SHOWN]
    )
    more = len(rows) - MOST_SHOWN
    notes = [note, f"and {more:,} more rows; print or to_frame() shows them all" if more > 0 else ""]
    below = "".join(f"<p>{escape(line)}</p>" for line in notes if line)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def html_text(text: str) -> str:
    """Text in a fixed font for notebooks, escaped."""
    return f'<pre style="line-height:1.2">{escape(text)}</pre>'
