"""Plots of computed numbers: predicted errors, the error limit, and the gains of fakes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..foundation.percentages import percent
from ..people.scale import Scale
from .style import (
    BLUE,
    GREY,
    ORANGE,
    Axes,
    grid_of,
    lightly,
    line_look,
    plain_ticks,
    put_away_with,
)


def plot_curves(curves: Any, path: str | Path | None, epsilon: float, people: int) -> Axes:
    """Predicted errors of a few mechanisms: against epsilon above, against people below.

    Errors are roots of mean squared ones, as in the planner's table. A dotted line marks the epsilon
    and the number of people of the plan.
    """
    parts = (curves.ask,) if curves.ask in ("frequency", "mean") else ("frequency", "mean")
    figure, panels = grid_of(path, len(parts), 2.0 + 4.4 * len(parts), 7.4, rows=2, sharey="col")
    who = f"{people:,} people" if people > 1 else "1 person"
    above = f"{who}; at each epsilon the best parameters"
    below = f"epsilon {epsilon:g}; parameters for {who}"
    rows = (
        (above, curves.epsilons, curves.by_epsilon, epsilon, "epsilon"),
        (below, curves.people, curves.by_people, people, "people who answer"),
    )
    for line, (title, places, errors, here, label) in zip(panels, rows, strict=True):
        line[0].set_title(title, loc="left", fontsize=10)
        for panel, part in zip(line, parts, strict=True):
            for number, (name, curve) in enumerate(errors.items()):
                first = number == 0
                panel.plot(
                    places,
                    np.sqrt(curve[part]),
                    **line_look(number),
                    lw=2.8 if first else 1.2,
                    ms=5 if first else 4,
                    zorder=3 if first else 2,
                    label=f"{name}, {curves.first}" if first else name,
                )
            panel.axvline(here, color=GREY, lw=1.0, ls=":")
            panel.set(xscale="log", yscale="log", xlabel=label)
            panel.set_ylabel(_asked_of(part, curves.ask, curves.scale), fontsize=9)
            lightly(panel)
            plain_ticks(panel.xaxis, (1, 2, 5) if label == "epsilon" else (1,))
    for panel in panels.ravel():
        plain_ticks(panel.yaxis, (1, 2, 5))
    if len(parts) == 1:
        panels[0][0].legend(frameon=False, fontsize=8, loc="lower left")
    heading = "Predicted error" + (", before shrinkage" if curves.ask != "conditional" else "")
    return put_away_with(figure, path, heading, len(curves.by_epsilon) if len(parts) > 1 else 0, 0.985)


def _asked_of(part: str, ask: str, scale: Scale) -> str:
    of = f"a conditional {part}" if ask == "conditional" else f"a key's {part}"
    return f"root mean squared error\nof {of}" + (f", {scale}" if part == "mean" else "")


MOST_RATIO = 1.75
"""The largest error over the limit that is shown."""


def leaving(places: list[float], values: list[float], most: float) -> list[float]:
    """Where a line between points crosses ``most`` upwards, on a logarithmic axis of places."""
    crossings = []
    for (x, low), (further, high) in pairwise(zip(places, values, strict=True)):
        if low <= most < high:
            crossings.append(x * (further / x) ** ((most - low) / (high - low)))
    return crossings


def plot_limit(
    panels: Mapping[str, Mapping[str, list[float]]], epsilons: list[float], path: str | Path
) -> Axes:
    """Errors of a few mechanisms over the least there can be, against epsilon; a panel for each law.

    A line that leaves the picture has an arrow at its edge.
    """
    figure, axes = grid_of(path, len(panels), 1 + 3.9 * len(panels), 3.8, sharey=True)
    ticks = [e for e in epsilons if e in (0.1, 0.2, 0.5, 1, 2, 4, 6)]
    cut = False
    for panel, (title, lines) in zip(axes[0], panels.items(), strict=True):
        panel.axhline(1.0, color=GREY, lw=1.0, ls=":")
        for number, (name, ratios) in enumerate(lines.items()):
            panel.plot(epsilons, ratios, **line_look(number), ms=4, lw=1.4, label=name)
            for place in leaving(epsilons, ratios, MOST_RATIO):
                arrow = {"marker": "^", "ms": 9, "ls": "", "clip_on": False, "zorder": 5}
                panel.plot(place, MOST_RATIO, color=line_look(number)["color"], **arrow)
                cut = True
        panel.set_xscale("log")
        panel.set_xticks(ticks, [f"{e:g}" for e in ticks])
        panel.minorticks_off()
        panel.set_xlabel("epsilon")
        panel.set_title(title, loc="left", fontsize=10)
        lightly(panel)
    axes[0][0].set_ylim(0.97, MOST_RATIO)
    axes[0][0].set_ylabel("error, divided by the least possible")
    axes[0][0].legend(frameon=False, fontsize=8, loc="upper left")
    heading = (
        "Error of frequency and mean together beside the least possible one, which is 1: "
        "exact, for any number of people"
    )
    arrows = f"\narrow: the line goes on above {MOST_RATIO:g}" if cut else ""
    return put_away_with(figure, path, heading + arrows, 0)


def plot_gains(
    rows: list[dict[str, Any]], path: str | Path, share: float, keys: int, epsilon: float
) -> None:
    """The shift that fakes cause under each mechanism, of the frequency and mean of one of the keys."""
    parts = [p for p in ("frequency", "mean") if any(row[p] is not None for row in rows)]
    shown = [row for row in rows if not row["reason"]]
    height = 1.6 + 0.26 * len(shown)
    figure, panels = grid_of(path, len(parts), 2.2 + 4.4 * len(parts), height, sharey=True)
    at = np.arange(len(shown))[::-1]
    for panel, part in zip(panels[0], parts, strict=True):
        for name, shift, colour, words in (
            (part, 0.18, ORANGE, "fakes choose view and seed"),
            (f"{part}_drawn", -0.18, BLUE, "they do not"),
        ):
            lengths = [np.nan if row[name] is None else max(row[name], 1e-6) for row in shown]
            panel.barh(at + shift, lengths, 0.34, color=colour, label=words)
        panel.set_xscale("log")
        panel.set_xlim(left=max(share, 1e-5) / 2)
        plain_ticks(panel.xaxis, (1, 2, 5))
        scale = f", {Scale.parse(rows[0].get('mean_scale'))}" if part == "mean" else ""
        panel.set_xlabel(f"added to the {part}{scale}")
        lightly(panel, "x")
    panels[0][0].set_yticks(at, [row["mechanism"] for row in shown])
    panels[0][0].set_ylim(-0.7, len(shown) - 0.3)
    among = f"one of {keys:,} keys" if keys > 1 else "the key"
    heading = (
        f"What {percent(share)} of all clients add to {among} if they are fake, epsilon {epsilon:g}"
    )
    put_away_with(figure, path, heading, 2, 1 - 0.25 / height)
