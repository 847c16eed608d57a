"""Answers with their intervals, and every key given every other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..estimate import Answers
from .style import BLUE, GREY, ORANGE, lightly, put_away, pyplot_for, short

MOST_ROWS = 60


def plot_answers(
    answers: Answers,
    path: str | Path,
    truth: Mapping[str, Mapping[str, float]] | None = None,
    title: str = "",
) -> None:
    """Draw one panel for each statistic: values with intervals, and the truth if it is given."""
    pyplot = pyplot_for(path)
    names = ("frequency", "mean", "mass")
    parts = [p for p in names if any(getattr(a, p) is not None for a in answers)]
    shown = answers.keys[:MOST_ROWS]
    height = 1.4 + 0.28 * max(len(shown), 3)
    figure, panels = pyplot.subplots(
        1, len(parts), figsize=(1.5 + 4.2 * len(parts), height), squeeze=False, sharey=True
    )
    rows = np.arange(len(shown))[::-1]
    for panel, part in zip(panels[0], parts, strict=True):
        _panel(panel, part, shown, rows, truth)
    panels[0][0].set_yticks(rows, [short(a.key) for a in shown])
    panels[0][0].set_ylim(-0.7, len(shown) - 0.3)
    left_out = len(answers) - len(shown)
    heading = title or f"{answers.mechanism}, {answers.estimator}"
    if left_out:
        heading += f" (first {len(shown)} of {len(answers)} keys)"
    figure.suptitle(heading, x=0.01, ha="left", fontsize=11)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper right", ncols=3, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.25 / height))
    put_away(pyplot, figure, path)


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
    panel.plot(
        np.where(np.isnan(ends[:, 0]), np.nan, values), rows, "o", color=BLUE, ms=4, label="estimate"
    )
    for row, estimate in zip(rows, estimates, strict=True):
        if estimate is not None and not estimate.bounded:
            panel.text(
                0.5,
                row,
                "unbounded",
                transform=panel.get_yaxis_transform(),
                color=GREY,
                ha="center",
                va="center",
                fontsize=8,
            )
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
    pyplot = pyplot_for(path)
    size = len(keys)
    values = np.full((size, size), np.nan)
    for i, row in enumerate(matrix):
        for j, cell in enumerate(row):
            if cell is not None and cell.estimate.bounded:
                values[i, j] = cell.estimate.value  # NaN for a range
    inches = min(4.0 + 0.42 * size, 16.0)
    figure, panel = pyplot.subplots(figsize=(inches + 1.2, inches))
    panel.set_facecolor("#eeeeee")
    image = panel.imshow(values, cmap="viridis", interpolation="nearest")
    if size <= numbers:
        for i in range(size):
            for j in range(size):
                cell = matrix[i][j]
                if cell is None:
                    continue
                known = not np.isnan(values[i, j])
                colour = "white" if known and float(image.norm(values[i, j])) < 0.6 else "black"
                panel.text(j, i, _cell(cell), ha="center", va="center", fontsize=7, color=colour)
    step = max(1, size // 40)
    ticks = np.arange(0, size, step)
    panel.set_xticks(ticks, [short(keys[i]) for i in ticks], rotation=60, ha="right", fontsize=8)
    panel.set_yticks(ticks, [short(keys[i]) for i in ticks], fontsize=8)
    panel.set_xlabel("given that one holds")
    panel.set_title(title, loc="left", fontsize=11)
    figure.colorbar(image, ax=panel, fraction=0.046, pad=0.03)
    figure.tight_layout()
    put_away(pyplot, figure, path)


def _cell(answer: Any) -> str:
    """A value with half its interval, a range, or a question mark."""
    estimate = answer.estimate
    if not estimate.bounded:
        return "?"
    if np.isnan(estimate.value):
        return f"{estimate.low:.2f} to\n{estimate.high:.2f}"
    return f"{estimate.value:.2f}\n±{(estimate.high - estimate.low) / 2:.2f}"
