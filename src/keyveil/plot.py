"""Pictures of answers; needs matplotlib (``keyveil[plot]``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .errors import TableError
from .estimate import Answers

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#767676"
"""From Okabe and Ito's colours, which everyone can tell apart."""

MOST_ROWS = 60


def plot_answers(
    answers: Answers,
    path: str | Path,
    truth: Mapping[str, Mapping[str, float]] | None = None,
    title: str = "",
) -> None:
    """A panel for each part of the answers: values with intervals, and the truth where given."""
    try:
        import matplotlib
    except ImportError:
        raise TableError("a picture needs matplotlib: pip install 'keyveil[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    suffix = Path(path).suffix.lower()
    if suffix not in {".png", ".svg", ".pdf"}:
        raise TableError("a picture's name ends in .png, .svg or .pdf")
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
    panels[0][0].set_yticks(rows, [_short(a.key) for a in shown])
    panels[0][0].set_ylim(-0.7, len(shown) - 0.3)
    left_out = len(answers) - len(shown)
    heading = title or f"{answers.mechanism}, {answers.estimator}"
    if left_out:
        heading += f" (first {len(shown)} of {len(answers)} keys)"
    figure.suptitle(heading, x=0.01, ha="left", fontsize=11)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper right", ncols=3, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.25 / height))
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _panel(
    panel: Any, part: str, shown: Any, rows: Any, truth: Mapping[str, Mapping[str, float]] | None
) -> None:
    made = [getattr(answer, part) for answer in shown]
    values = np.array([np.nan if e is None else e.value for e in made])
    ends = np.array([[np.nan, np.nan] if e is None or not e.bounded else [e.low, e.high] for e in made])
    panel.hlines(rows, ends[:, 0], ends[:, 1], color=BLUE, lw=2.2, alpha=0.65, label="interval")
    # A value whose interval is unbounded says nothing, and is not drawn as if it did.
    panel.plot(
        np.where(np.isnan(ends[:, 0]), np.nan, values), rows, "o", color=BLUE, ms=4, label="estimate"
    )
    for row, estimate in zip(rows, made, strict=True):
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
    panel.grid(axis="x", color="#dddddd", lw=0.6)
    panel.set_axisbelow(True)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
    panel.tick_params(axis="y", length=0)


def _short(key: str) -> str:
    return key if len(key) <= 28 else key[:27] + "…"
