"""Answers with their intervals, and every key given every other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..estimate import Answers
from .style import BLUE, GREY, ORANGE, grid_of, lightly, put_away, put_away_with, short

MOST_ROWS = 60


def plot_answers(
    answers: Answers,
    path: str | Path,
    truth: Mapping[str, Mapping[str, float]] | None = None,
    title: str = "",
) -> None:
    """Draw one panel for each statistic: values with intervals, and the truth if it is given."""
    names = ("frequency", "mean", "mass")
    parts = [p for p in names if any(getattr(a, p) is not None for a in answers)]
    shown = answers.keys[:MOST_ROWS]
    height = 1.4 + 0.28 * max(len(shown), 3)
    figure, panels = grid_of(path, len(parts), 1.5 + 4.2 * len(parts), height, sharey=True)
    rows = np.arange(len(shown))[::-1]
    for panel, part in zip(panels[0], parts, strict=True):
        _panel(panel, part, shown, rows, truth)
    panels[0][0].set_yticks(rows, [short(a.key) for a in shown])
    panels[0][0].set_ylim(-0.7, len(shown) - 0.3)
    heading = title or f"{answers.mechanism}, {answers.estimator}"
    if len(shown) < len(answers):
        heading += f" (first {len(shown)} of {len(answers)} keys)"
    put_away_with(figure, path, heading, 3, 1 - 0.25 / height)


def _panel(
    panel: Any, part: str, shown: Any, rows: Any, truth: Mapping[str, Mapping[str, float]] | None
) -> None:
    estimates = [getattr(answer, part) for answer in shown]
    values = np.array([np.nan if e is None else e.value for e in estimates])
    ends = np.array(
        [[np.nan, np.nan] if e is None or not e.bounded else [e.low, e.high] for e in estimates]
    )
    panel.hlines(rows, ends[:, 0], ends[:, 1], color=BLUE, lw=2.2, alpha=0.65, label="interval")
    # A value whose interval is unbounded says nothing, and is not drawn as if it did.
    bounded = np.where(np.isnan(ends[:, 0]), np.nan, values)
    panel.plot(bounded, rows, "o", color=BLUE, ms=4, label="estimate")
    text = {"transform": panel.get_yaxis_transform(), "color": GREY, "fontsize": 8}
    for row, estimate in zip(rows, estimates, strict=True):
        if estimate is not None and not estimate.bounded:
            panel.text(0.5, row, "unbounded", ha="center", va="center", **text)
    if truth is not None:
        true = [truth.get(answer.key, {}).get(part, np.nan) for answer in shown]
        panel.plot(true, rows, "|", color=ORANGE, ms=11, mew=2, label="truth")
    panel.set_xlabel(part)
    lightly(panel, "x")


def plot_matrix(
    keys: tuple[str, ...], matrix: Any, path: str | Path, title: str, numbers: int = 16
) -> None:
    """A heat map of one statistic of every key given every other; grey where there is no value.

    A grey cell shows its range if it is known, and otherwise a question mark.
    """
    size = len(keys)
    values = np.full((size, size), np.nan)
    known = [(i, j, c) for i, row in enumerate(matrix) for j, c in enumerate(row) if c is not None]
    for i, j, cell in known:
        if cell.estimate.bounded:
            values[i, j] = cell.estimate.value  # NaN for a range
    inches = min(4.0 + 0.42 * size, 16.0)
    figure, ((panel,),) = grid_of(path, 1, inches + 1.2, inches)
    panel.set_facecolor("#eeeeee")
    image = panel.imshow(values, cmap="viridis", interpolation="nearest")
    for i, j, cell in known if size <= numbers else ():
        dark = not np.isnan(values[i, j]) and float(image.norm(values[i, j])) < 0.6
        colour = "white" if dark else "black"
        panel.text(j, i, _cell(cell), ha="center", va="center", fontsize=7, color=colour)
    ticks = np.arange(0, size, max(1, size // 40))
    names = [short(keys[i]) for i in ticks]
    panel.set_xticks(ticks, names, rotation=60, ha="right", fontsize=8)
    panel.set_yticks(ticks, names, fontsize=8)
    panel.set_xlabel("given that one holds")
    panel.set_title(title, loc="left", fontsize=11)
    figure.colorbar(image, ax=panel, fraction=0.046, pad=0.03)
    figure.tight_layout()
    put_away(figure, path)


def _cell(answer: Any) -> str:
    """A value with half its interval, a range, or a question mark."""
    estimate = answer.estimate
    if not estimate.bounded:
        return "?"
    if np.isnan(estimate.value):
        return f"{estimate.low:.2f} to\n{estimate.high:.2f}"
    return f"{estimate.value:.2f}\n±{(estimate.high - estimate.low) / 2:.2f}"
