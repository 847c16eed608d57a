"""The predicted errors of plans that could be taken."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from .style import (
    BLUE,
    GREY,
    ORANGE,
    Axes,
    given_axes,
    grid_of,
    lightly,
    line_look,
    log_axis,
    plain_ticks,
    short,
)

MOST_OPTIONS = 12
"""Number of plans in a picture."""
LONGEST = 28
"""Number of characters up to which a plan is named with its parameters."""


def plot_options(
    columns: Mapping[str, Sequence[Any]], setting: str, scale: str, ask: str, ax: Axes | None = None
) -> Axes:
    """Predicted errors of the best plans, a row each, the chosen one on top and filled.

    ``setting`` says for what they are predicted: "100 keys, 60,000 people, epsilon 2".
    """
    errors = {"frequency": "frequency_error", "mean": "mean_error"}
    known = {name: columns[c] for name, c in errors.items() if any(map(isfinite, columns[c]))}
    parts = [name for name in known if ask not in errors or name == ask] or list(known)
    names = [_label(name) for name in columns["name"][:MOST_OPTIONS]]
    if ax is not None:
        panels = [given_axes(ax)]
    else:
        size = 3.0 + 3.4 * len(parts), 1.3 + 0.28 * max(len(names), 3)
        figure, grid = grid_of(None, len(parts), *size, sharey=True)
        panels = list(grid[0])
    rows = np.arange(len(names))[::-1]
    for panel, part in zip(panels, parts, strict=False):
        values = np.array(known[part][:MOST_OPTIONS], float)
        able = np.array(columns["answers"][:MOST_OPTIONS], bool)
        for row, value, answers in zip(rows, values, able, strict=True):
            first, shown = row == rows[0], isfinite(value)
            colour = ORANGE if first else BLUE if answers else GREY
            mark: dict[str, Any] = {"marker": "D" if first else "o", "ms": 7 if first else 5}
            if shown:
                panel.plot(
                    [value], [row], color=colour, ls="", mfc=colour if answers else "white", **mark
                )
        log_axis(panel, "x")
        lightly(panel, "x")
        of = "a conditional " if ask == "conditional" else "a key's "
        panel.set_xlabel(f"{of}{part} is off by" + (f", {scale}" if part == "mean" else ""), fontsize=9)
    panels[0].set_yticks(rows, names, fontsize=8)
    panels[0].get_yticklabels()[0].set_fontweight("bold")
    panels[0].set_ylim(-0.7, len(names) - 0.3)
    hollow = "; hollow: cannot answer" if not all(columns["answers"][:MOST_OPTIONS]) else ""
    taken = ", the first is taken" if columns["answers"][0] else ""
    heading = f"Predicted error of the best plans{taken}{hollow}\n{setting}"
    if ax is None:
        figure.suptitle(heading, x=0.01, ha="left", fontsize=10)
        figure.tight_layout()
    else:
        ax.set_title(heading, loc="left", fontsize=10)
    return panels[0]


def _label(name: str) -> str:
    """A plan's name; without its parameters, which the table has, if they are long."""
    return short(name if len(name) <= LONGEST else re.sub(r" \([^)]*\)", "", name))


def draw_lines(curves: Any, setting: str, against: str, here: float, ax: Axes | None = None) -> Axes:
    """Predicted errors as lines against epsilon or people; a dotted line marks what was asked."""
    parts = (curves.ask,) if curves.ask in ("frequency", "mean") else ("frequency", "mean")
    if ax is not None:
        panels = [given_axes(ax)]
    else:
        figure, grid = grid_of(None, len(parts), 1.2 + 4.2 * len(parts), 3.8)
        panels = list(grid[0])
    places = curves.epsilons if against == "epsilon" else curves.people
    errors = curves.by_epsilon if against == "epsilon" else curves.by_people
    for panel, part in zip(panels, parts, strict=False):
        for number, (name, curve) in enumerate(errors.items()):
            style: dict[str, Any] = {"lw": 1.2 if number else 2.6, "ms": 4, **line_look(number)}
            label = name if number else f"{name}, {curves.first}"
            panel.plot(places, np.sqrt(curve[part]), label=label, **style)
        panel.axvline(here, color=GREY, lw=1.0, ls=":")
        panel.set(
            xscale="log", yscale="log", xlabel={"people": "people who answer"}.get(against, against)
        )
        of = "a conditional " if curves.ask == "conditional" else "a key's "
        on = f", {curves.scale}" if part == "mean" else ""
        panel.set_title(f"{of}{part} is off by about{on}\n{setting}", loc="left", fontsize=10)
        lightly(panel)
        plain_ticks(panel.xaxis, (1, 2, 5) if against == "epsilon" else (1,))
        plain_ticks(panel.yaxis, (1, 2, 5))
    panels[0].legend(frameon=False, fontsize=8)
    if ax is None:
        figure.tight_layout()
    return panels[0]
