"""Speed beside other forms: how many times as long they take, and the share of what is possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .style import COLOURS, Axes, grid_of, lightly, plain_ticks, put_away

LIMIT, FASTEST = "limit", "packages"
NUMPY = ("NumPy", "tuned NumPy")
LIMIT_WORDS = (
    "percent of the limit:\nwords from AES, memory read, or imports\n"
    "above 100: the command does without NumPy"
)
"""What the right panel shows, and how a bar can be longer than the whole."""
_LEFT_OUT = {LIMIT, "KVUE"}
"""Ratios that are no bars of the left panel."""
_HEIGHT = 0.16
"""Inches of a bar."""


def draw_speed(rows: Sequence[Mapping[str, Any]], path: str | Path | None, machine: str) -> Axes:
    """Draw rows of a speed table (``SpeedRow.document``): ratios as bars, with their aims."""
    left = [row for row in rows if set(row["ratios"]) - _LEFT_OUT]
    right = [row for row in rows if LIMIT in row["ratios"]]
    names = [*dict.fromkeys(n for row in left for n in row["ratios"] if n not in _LEFT_OUT)]
    bars = sum(len(_others(row)) for row in left) + 0.8 * len(left)
    high = 1.5 + _HEIGHT * max(bars, 1.8 * len(right), 8)
    figure, panels = grid_of(path, 2, 12.5, high)
    _bars(panels[0][0], left, names)
    _shares(panels[0][1], right)
    figure.suptitle("keyveil on one core", x=0.01, ha="left", fontsize=12)
    figure.text(0.01, 0.008, machine, fontsize=7, color="#555555")
    figure.tight_layout(rect=(0, 0.02 + 0.05 / high, 1, 1))
    return put_away(figure, path)


def _others(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: ratio for name, ratio in row["ratios"].items() if name not in _LEFT_OUT}


def _bars(panel: Any, rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    """A group of bars for each task, the first task on top."""
    place, ticks, colours = 0.0, [], dict(zip(names, COLOURS, strict=False))
    for row in rows:
        others = _others(row)
        fastest = min((r for n, r in others.items() if n not in NUMPY), default=None)
        ticks.append(place - (len(others) - 1) / 2)
        for name, ratio in others.items():
            panel.barh(place, ratio - 1, 0.9, left=1, color=colours[name])
            aim = row["aims"].get(name)
            if aim is None and ratio == fastest and name not in NUMPY:
                aim = row["aims"].get(FASTEST)
            if aim is not None:
                panel.plot([aim, aim], [place - 0.55, place + 0.55], color="black", lw=2, zorder=4)
            place -= 1
        place -= 0.8
    panel.set_xscale("log")
    panel.axvline(1, color="black", lw=0.8)
    if rows:
        plain_ticks(panel.xaxis, (1,))
    panel.set_yticks(ticks, [row["task"] for row in rows], fontsize=8)
    panel.set_ylim(place + 0.5, 1)
    lightly(panel, "x")
    panel.set_xlabel("times as long as keyveil takes; left of 1 keyveil is slower")
    _legend(panel, colours)


def _legend(panel: Any, colours: Mapping[str, str]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(color=colour, label=name) for name, colour in colours.items()]
    handles.append(Line2D([], [], color="black", lw=2, label="aim"))
    panel.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=len(handles),
        frameon=False,
        fontsize=8,
        columnspacing=1.2,
        handlelength=1.2,
    )


def _shares(panel: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """The share of what the machine allows, with its aim."""
    for number, row in enumerate(rows):
        share, aim = row["ratios"][LIMIT], row["aims"].get(LIMIT)
        panel.barh(-number, 100 * share, 0.75, color=COLOURS[0])
        panel.text(100 * share + 1, -number, f"{share:.0%}", va="center", fontsize=7)
        if aim is not None:
            panel.plot([100 * aim] * 2, [-number - 0.45, -number + 0.45], color="black", lw=2, zorder=4)
    panel.set_yticks([-n for n in range(len(rows))], [row["task"] for row in rows], fontsize=8)
    panel.set_ylim(-len(rows) + 0.4, 0.6)
    most = max((row["ratios"][LIMIT] for row in rows), default=1)
    panel.set_xlim(0, 100 * max(1.0, most) * 1.08)
    lightly(panel, "x")
    panel.set_xlabel(LIMIT_WORDS)
