"""Answers with their intervals, and every key given every other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from ..foundation.errors import QueryError
from .interval_plots import draw_intervals
from .style import GREY, Axes, as_words, given_axes, grid_of, put_away, short

MOST_ROWS = 60
"""Number of keys in a picture; more are not legible."""
WORDS = {
    "frequency": "share of people who have the key",
    "mean": "mean value among those who have it",
    "mass": "frequency times mean, on [-1, 1]",
}
"""The statistics of a key, as axes name them."""
TITLES = {
    "frequency": "How many people have each key",
    "mean": "How people value each key that they have",
    "mass": "Frequency times mean of each key",
}
GUESS = "guess; all of the interval is possible"
"""A value of a query whose keys no view holds together, in a legend."""
MOST_LETTERS = 40
"""Characters in a line of a query."""
MATRIX_WORDS = {
    "frequency": "Share of people with the row's key,\namong people with the column's",
    "mean": "Mean value of the row's key,\namong people with both keys",
    "lift": "How many times as often people have the row's key\nif they have the column's",
}
NO_SIGN_MARK = ("//", "lines: no sign that the two go together")
WIDE_MARK = ("..", "dots: the interval is wider than half of the colour bar")
"""How uncertain cells of a matrix are hatched, and what that means."""


def plot_answers(
    answers: Any,
    path: str | Path | None = None,
    truth: Mapping[str, Mapping[str, float]] | None = None,
    title: str = "",
    ax: Axes | None = None,
    of: str | None = None,
) -> Axes:
    """Draw values with intervals: a panel for each statistic, or the one that is named on ``ax``."""
    parts = [p for p in WORDS if any(getattr(answer, p) is not None for answer in answers)]
    if of is not None and of not in parts:
        raise QueryError(f"these answers have no {of!r}; they have: {', '.join(parts)}")
    parts = [of] if of is not None else parts if ax is None else parts[:1]
    shown = answers.keys[:MOST_ROWS]
    what = "Who has what, and how they value it" if len(parts) > 1 else TITLES[parts[0]]
    heading = (
        as_words(title)
        or f"{what}\n{answers.origin or answers.mechanism}, {answers.level:.0%} intervals"
    )
    if len(shown) < len(answers):
        heading += f" (first {len(shown)} of {len(answers)} keys)"
    if ax is not None:
        _panel(given_axes(ax), parts[0], shown, answers.value_range, truth)
        ax.set_title(heading, loc="left", fontsize=11)
        return ax
    height = 1.55 + 0.28 * max(len(shown), 3)
    figure, panels = grid_of(path, len(parts), 1.5 + 4.2 * len(parts), height, sharey=True)
    for panel, part in zip(panels[0], parts, strict=True):
        _panel(panel, part, shown, answers.value_range, truth)
    _head(figure, heading, height)
    return put_away(figure, path)


def _head(figure: Any, heading: str, height: float) -> None:
    """A heading above a legend of all panels, each in as many inches as it takes."""
    lines = 0.12 + 0.185 * (heading.count("\n") + 1)
    title = figure.suptitle(heading, x=0.01, y=1 - 0.1 / height, ha="left", va="top", fontsize=11)
    title.set_in_layout(False)
    handles: dict[str, Any] = {}
    for panel in figure.axes:
        handles |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    place = {"loc": "upper left", "bbox_to_anchor": (0.005, 1 - lines / height), "ncols": 5}
    figure.legend(list(handles.values()), list(handles), **place, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 1 - (lines + 0.3) / height))
    title.set_in_layout(True)  # a notebook cuts off what is not


def _panel(
    panel: Axes,
    part: str,
    shown: Sequence[Any],
    ends: tuple[float, float] | None,
    truth: Mapping[str, Mapping[str, float]] | None,
) -> None:
    possible = {"frequency": (0.0, 1.0), "mass": (-1.0, 1.0)}.get(part, ends or (-inf, inf))
    true = None
    if truth is not None:
        true = [truth.get(answer.key, {}).get(part, np.nan) for answer in shown]
    names = [answer.key for answer in shown]
    draw_intervals(panel, names, [getattr(answer, part) for answer in shown], possible, true)
    panel.set_xlabel(WORDS[part])


def plot_queries(
    answers: Sequence[Any], possible: Mapping[str, tuple[float, float]], ax: Axes | None = None
) -> Axes:
    """Answers to queries with their intervals, a panel for each statistic; on ``ax`` the first alone."""
    kinds = list(dict.fromkeys(answer.query.kind for answer in answers))
    groups = {kind: [a for a in answers if a.query.kind == kind] for kind in kinds}
    if ax is not None:
        _queries(given_axes(ax), kinds[0], groups[kinds[0]], possible)
        if others := kinds[1:]:
            ax.set_title(f"{kinds[0]} alone; of= draws {' or '.join(others)}", loc="left", fontsize=9)
        return ax
    lines = {kind: sum(_wrapped(a).count("\n") + 1 for a in group) for kind, group in groups.items()}
    ratios = [0.75 + 0.27 * lines[kind] for kind in kinds]
    height = 0.75 + sum(ratios)
    figure, panels = grid_of(None, 1, 8.5, height, len(kinds), height_ratios=ratios)
    for panel, kind in zip(panels[:, 0], kinds, strict=True):
        _queries(panel, kind, groups[kind], possible)
    _head(figure, "Answers to queries" if len(answers) > 1 else "The answer to a query", height)
    return figure.axes[0]


def _wrapped(answer: Any) -> str:
    """A query in lines that fit next to a row: what is asked, and each condition."""
    text = str(answer.query)
    asked, bar, given = text.partition(" | ")
    if len(text) <= MOST_LETTERS:
        return text
    return "\n".join([*wrap(asked, MOST_LETTERS), *wrap(f"| {given}" if bar else "", MOST_LETTERS)])


def _queries(
    panel: Axes, kind: str, answers: Sequence[Any], possible: Mapping[str, tuple[float, float]]
) -> None:
    raw = [answer.raw for answer in answers]
    labels = [as_words(_wrapped(answer)) for answer in answers]
    draw_intervals(panel, labels, [a.estimate for a in answers], possible[kind], None, raw, whole=True)
    panel.set_yticks(panel.get_yticks(), labels)
    guesses = [(a.guess, len(answers) - 1 - row) for row, a in enumerate(answers) if a.guess is not None]
    if guesses:
        places, rows = zip(*guesses, strict=True)
        panel.plot(places, rows, "d", color=GREY, ms=5, ls="", label=GUESS)
    words = {"frequency": "share of people", "lift": "lift; 1 is no relation"}
    panel.set_xlabel(words.get(kind, "mean value"))
    if kind == "lift":
        panel.axvline(1.0, color=GREY, lw=1.0, ls=":")


# -- every key given every other ---------------------------------------------------------------------


def plot_matrix(
    keys: tuple[str, ...],
    matrix: Any,
    path: str | Path | None,
    kind: str = "frequency",
    numbers: int = 16,
    ends: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A heat map of one statistic of every key given every other.

    Colours of shares begin at 0; those of lifts are white at 1, no relation; means have the range
    ``ends``. A cell with lines or dots is uncertain: no sign, or a wide interval. A grey one has no
    value; it shows its range if that is known.
    """
    size = len(keys)
    values = np.full((size, size), np.nan)
    known = [(i, j, c) for i, row in enumerate(matrix) for j, c in enumerate(row) if c is not None]
    for i, j, cell in known:
        if cell.estimate.bounded:
            values[i, j] = cell.estimate.value  # NaN for a range
    inches = min(3.3 + 0.45 * size, 11.5)
    if ax is None:
        figure, ((panel,),) = grid_of(path, 1, inches + 1.0, inches)
    else:
        figure, panel = given_axes(ax).figure, ax
    panel.set_facecolor("#dddddd")
    image = panel.imshow(values, interpolation="nearest", **_colours(kind, values, ends))
    hatched = _hatch(panel, image, known)
    _diagonal(panel, size)
    for i, j, cell in known if size <= numbers else ():
        panel.text(
            j, i, _cell(cell), ha="center", va="center", fontsize=7, color=_ink(image, values[i, j])
        )
    _name_keys(panel, keys)
    lines = [MATRIX_WORDS[kind], getattr(matrix, "origin", "")]
    if size <= numbers:
        lines.append(f"±: half the {getattr(matrix, 'level', 0.95):.0%} interval")
    unknown = size * (size - 1) > np.isfinite(values).sum()
    grey = "grey: the reports do not bound the answer" if unknown else ""
    title = panel.set_title("\n".join(filter(None, [*lines, *hatched, grey])), loc="left", fontsize=9)
    figure.colorbar(image, ax=panel, fraction=0.046, pad=0.03)
    if ax is not None:
        return panel
    figure.tight_layout()
    panel.apply_aspect()
    place = panel.get_position()
    title.set_x((0.01 - place.x0) / place.width)  # from the left edge of the picture, so it is whole
    return put_away(figure, path)


def _name_keys(panel: Axes, keys: tuple[str, ...]) -> None:
    """Names along both axes of a matrix, at most 50 of them."""
    size = len(keys)
    ticks = np.arange(0, size, -(-size // 50))
    names = [short(keys[i]) for i in ticks]
    turn: dict[str, Any] = {
        "rotation": 45 if size <= 40 else 90,
        "ha": "right",
        "rotation_mode": "anchor",
    }
    panel.set_xticks(ticks, names, va="center" if size > 40 else "top", **turn, fontsize=8)
    panel.set_yticks(ticks, names, fontsize=8)
    panel.tick_params(length=0)
    panel.set_xlabel("among people who have", fontsize=9)


def _colours(kind: str, values: np.ndarray, ends: tuple[float, float] | None) -> dict[str, Any]:
    """The colour map and its limits."""
    from matplotlib.colors import TwoSlopeNorm

    most = float(np.nanmax(values, initial=0.0))
    if kind == "lift":
        return {"cmap": "PuOr_r", "norm": TwoSlopeNorm(1.0, 0.0, max(most, 2.0))}
    if kind == "mean":
        return {"cmap": "viridis"} | ({} if ends is None else {"vmin": ends[0], "vmax": ends[1]})
    return {"cmap": "viridis", "vmin": 0.0, "vmax": min(most, 1.0) or 1.0}


def _hatch(panel: Axes, image: Any, known: Sequence[tuple[int, int, Any]]) -> list[str]:
    """Hatch the cells that are uncertain; what their lines and dots mean, for the title."""
    from matplotlib.patches import Rectangle

    half = (image.norm.vmax - image.norm.vmin) / 2
    bounded = [(i, j, cell) for i, j, cell in known if cell.estimate.bounded]
    marked = {
        NO_SIGN_MARK: [(i, j) for i, j, cell in bounded if cell.shown is False],
        WIDE_MARK: [(i, j) for i, j, c in bounded if c.estimate.high - c.estimate.low > half],
    }
    for (hatch, _), places in marked.items():
        box: dict[str, Any] = {"fill": False, "hatch": hatch, "linewidth": 0, "alpha": 0.55}
        for i, j in places:
            panel.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, **box, edgecolor="#888888"))
    return [meaning for (_, meaning), places in marked.items() if places]


def _diagonal(panel: Axes, size: int) -> None:
    """A key given itself is no question: its cell is white."""
    from matplotlib.patches import Rectangle

    for i in range(size):
        panel.add_patch(Rectangle((i - 0.5, i - 0.5), 1, 1, facecolor="white", edgecolor="none"))


def _ink(image: Any, value: float) -> str:
    """The colour of text on a cell: white on dark ones."""
    if np.isnan(value):
        return "black"
    red, green, blue, _ = image.cmap(image.norm(value))
    return "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.5 else "black"


def _cell(answer: Any) -> str:
    """A value with half its interval, a range, or a question mark."""
    estimate = answer.estimate
    if not estimate.bounded:
        return "?"
    if np.isnan(estimate.value):
        return f"{estimate.low:.2f} to\n{estimate.high:.2f}"
    return f"{estimate.value:.2f}\n±{(estimate.high - estimate.low) / 2:.2f}"
