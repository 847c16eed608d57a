"""Small charts in the terminal: lines on two logarithmic axes, in braille dots or plain ASCII.

Lines are told apart by their numerals, set along each in turn, so that lines which coincide show one
after the other; colours, where a terminal has them, only help. Charts stand beside each other where
there is room, else one under the other; and prose beside them is broken between words.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from math import isfinite, log10
from typing import NamedTuple

import click

from ..plot import plain_number

BESIDE, WIDEST = 80, 140
"""Minimum columns for charts side by side, and the maximum width."""
NARROWEST = 40
"""Minimum columns of a chart."""
HEIGHT = 7
STEP = 3
"""Columns between numerals, of whichever line."""
COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "red")
DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Bits of a braille character: its left and its right column, from below."""
UNICODE, ASCII = "│┤└┴─┊", "||+'-:"
"""The left side, the same at a tick, the corner, a tick, the lower side, and where one asked."""

Cell = tuple[str, int | None]
"""A character, and the number of the line it belongs to."""


class Panel(NamedTuple):
    """One chart: lines over the same places, and the marked place."""

    title: str
    places: Sequence[float]
    lines: Sequence[Sequence[float]]
    here: float


def fitted(panels: Sequence[Panel], width: int, plain: bool, height: int = HEIGHT) -> list[str]:
    """The rows of charts over one scale, side by side if there is room."""
    if width >= BESIDE:
        return side_by_side(panels, width, plain, height)
    scale = _scale(panels)
    return [row for panel in panels for row in side_by_side([panel], width, plain, height, scale)]


def side_by_side(
    panels: Sequence[Panel],
    width: int,
    plain: bool,
    height: int = HEIGHT,
    scale: tuple[float, float] | None = None,
) -> list[str]:
    """The rows of charts side by side, with their scale on the left."""
    low, high = scale or _scale(panels)
    marks = _by_row(_ticks(low, high), low, high, height)
    margin = max(5, *map(len, marks.values())) + 1
    across = (width - margin - 2 * (len(panels) - 1)) // len(panels) - 1
    sides = [_chart(panel, (low, high), across, height, plain) for panel in panels]
    signs = ASCII if plain else UNICODE
    lines = [" " * margin + "  ".join(f" {panel.title:<{across}}" for panel in panels).rstrip()]
    for row in range(height):
        label = marks.get(row, "")
        side = signs[1] if label else signs[0]
        inside = "  ".join(side + "".join(_coloured(*cell) for cell in chart[row]) for chart in sides)
        lines.append(f"{label:>{margin - 1}} {inside}".rstrip())
    for words in zip(*(_below(panel, across, signs) for panel in panels), strict=True):
        lines.append((" " * margin + "  ".join(words)).rstrip())
    return lines


def legend(names: Sequence[str], width: int = BESIDE, first: str = "chosen") -> str:
    """The legend: the name of each numeral, as many to a row as fit."""
    entries = [f"{n} {name}{'' if n > 1 else f' ({first})'}" for n, name in enumerate(names, 1)]
    text, room = "", 0
    for place, words in enumerate(entries):
        before = "" if not place else "   " if len(words) + 3 <= room else "\n"
        room = (room - 3 if before == "   " else width) - len(words)
        text += before + _coloured(words, place)
    return text


def columns() -> int:
    """The width of the terminal in columns; without a terminal that of two charts."""
    if not sys.stdout.isatty():
        return BESIDE
    return min(shutil.get_terminal_size().columns, WIDEST)


def say(words: str) -> None:
    """Print a sentence; in a terminal it is wrapped between words."""
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        words = textwrap.fill(words, width, break_long_words=False, break_on_hyphens=False)
    click.echo(words)


def _scale(panels: Sequence[Panel]) -> tuple[float, float]:
    """The ends of a logarithmic scale for the positive values, at least a factor of two apart."""
    values = [value for panel in panels for line in panel.lines for value in line]
    positive = [v for v in values if isfinite(v) and v > 0]
    low, high = (min(positive), max(positive)) if positive else (1.0, 1.0)
    if high < 2 * low:
        middle = (low * high) ** 0.5
        low, high = middle / 2**0.5, middle * 2**0.5
    return low, high


def _ticks(low: float, high: float) -> list[float]:
    """Ticks of a scale: powers of ten, and more if the scale is short."""
    digits = (1, 5, 2, 3, 4, 6, 7, 8, 9)[: 1 if high >= 1000 * low else 3 if high >= 8 * low else 9]
    powers = range(int(log10(low)) - 2, int(log10(high)) + 2)
    ticks = [float(f"{digit}e{power}") for digit in digits for power in powers]
    return [tick for tick in ticks if low <= tick <= high]


def _level(value: float, low: float, high: float, steps: int) -> int:
    """The step of a value on a logarithmic scale."""
    return round((log10(value) - log10(low)) / (log10(high) - log10(low)) * (steps - 1))


def _by_row(ticks: Sequence[float], low: float, high: float, height: int) -> dict[int, str]:
    """By row, counted from above: the number of its tick."""
    labels: dict[int, str] = {}
    for tick in ticks:
        labels.setdefault(height - 1 - _level(tick, low, high, 4 * height) // 4, plain_number(tick))
    return labels


def _chart(
    panel: Panel, scale: tuple[float, float], width: int, height: int, plain: bool
) -> list[list[Cell]]:
    """The inside of a chart, row by row from above."""
    signs = ASCII if plain else UNICODE
    ends = panel.places[0], panel.places[-1]
    cells: list[list[Cell]] = [[(" ", None)] * width for _ in range(height)]
    here = _level(panel.here, *ends, width)
    for row in cells:
        row[here] = (signs[5], None)
    lines = [_heights(panel, line, scale, 2 * width, 4 * height) for line in panel.lines]
    for (above, column), (bits, number) in _dots(lines, height).items():
        cells[above][column] = ("." if plain else chr(0x2800 + bits), number)
    for column in range(1, width, STEP):
        number = column // STEP % len(lines)
        level = lines[number][2 * column]
        if level is not None:
            cells[height - 1 - level // 4][column] = (str(number + 1), number)
    return cells


def _dots(lines: Sequence[Sequence[int | None]], height: int) -> dict[tuple[int, int], tuple[int, int]]:
    """By row and column of every cell with a line: its dots, and the first line in it."""
    marks: dict[tuple[int, int], tuple[int, int]] = {}
    for number, line in enumerate(lines):
        before: int | None = None
        for place, level in enumerate(line):
            for dot in () if level is None else _joined(before, level):
                cell = height - 1 - dot // 4, place // 2
                bits, first = marks.get(cell, (0, number))
                marks[cell] = bits | DOTS[place % 2][dot % 4], first
            before = level
    return marks


def _joined(before: int | None, level: int) -> range:
    """The dots of one column, which connect it to the column before."""
    if before is None or abs(before - level) <= 1:
        return range(level, level + 1)
    return range(before + 1, level + 1) if level > before else range(level, before)


def _heights(
    panel: Panel, line: Sequence[float], scale: tuple[float, float], steps: int, most: int
) -> list[int | None]:
    """The height of a line in every column of dots; None if it is unknown."""
    heights: list[int | None] = [None] * steps
    at = [_level(place, panel.places[0], panel.places[-1], steps) for place in panel.places]
    known = [isfinite(value) and value > 0 for value in line]
    for i, value in enumerate(line):
        if known[i]:
            heights[at[i]] = _level(value, *scale, most)
        if i and known[i - 1] and known[i]:
            for place in range(at[i - 1] + 1, at[i]):
                share = (place - at[i - 1]) / (at[i] - at[i - 1])
                between = line[i - 1] ** (1 - share) * value**share
                heights[place] = _level(between, *scale, most)
    return heights


def _below(panel: Panel, width: int, signs: str) -> tuple[str, str]:
    """The lower side of a chart with its ticks and their numbers; the marked place has priority."""
    first, last = panel.places[0], panel.places[-1]
    side, words = [signs[4]] * width, [" "] * (width + 1)
    for tick in (panel.here, *_ticks(first, last)):
        column, label = _level(tick, first, last, width), plain_number(float(f"{tick:.3g}"))
        start = min(max(column + 1 - len(label) // 2, 0), width + 1 - len(label))
        if all(sign == " " for sign in words[max(start - 1, 0) : start + len(label) + 1]):
            words[start : start + len(label)] = label
            side[column] = signs[3]
    return signs[2] + "".join(side), "".join(words)


def _coloured(words: str, number: int | None) -> str:
    """Words in the colour of a line, which ``click.echo`` removes outside a terminal."""
    if number is None or "NO_COLOR" in os.environ:
        return words
    return click.style(words, fg=COLOURS[number % len(COLOURS)], bold=number == 0 or None)
