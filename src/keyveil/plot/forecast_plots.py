"""Plots of computed numbers: predicted errors, the error limit, and the gains of fakes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..people.scale import Scale
from .style import BLUE, COLOURS, GREY, MARKS, ORANGE, lightly, plain_ticks, put_away, pyplot_for


def plot_curves(curves: Any, path: str | Path, epsilon: float, people: int) -> None:
    """Predicted errors of a few mechanisms: against epsilon above, against people below.

    Errors are roots of mean squared ones, as in the planner's table; a dotted line stands where the
    plan was asked for.
    """
    pyplot = pyplot_for(path)
    parts = (curves.ask,) if curves.ask in ("frequency", "mean") else ("frequency", "mean")
    figure, panels = pyplot.subplots(
        2, len(parts), figsize=(2.0 + 4.4 * len(parts), 7.4), squeeze=False, sharey="col"
    )
    rows = (
        (panels[0], curves.epsilons, curves.by_epsilon, epsilon, "epsilon"),
        (panels[1], curves.people, curves.by_people, people, "people who answer"),
    )
    for line, places, errors, here, label in rows:
        for panel, part in zip(line, parts, strict=True):
            for number, (name, curve) in enumerate(errors.items()):
                panel.plot(
                    places,
                    np.sqrt(curve[part]),
                    color=COLOURS[number % len(COLOURS)],
                    marker=MARKS[number % 7],
                    lw=2.8 if number == 0 else 1.2,
                    ms=5 if number == 0 else 4,
                    zorder=3 if number == 0 else 2,
                    label=f"{name}, {curves.first}" if number == 0 else name,
                )
            panel.axvline(here, color=GREY, lw=1.0, ls=":")
            panel.set(xscale="log", yscale="log", xlabel=label)
            panel.set_ylabel(_asked_of(part, curves.ask, curves.scale), fontsize=9)
            lightly(panel)
            plain_ticks(panel.xaxis, (1, 2, 5) if label == "epsilon" else (1,))
    for panel in panels.ravel():
        plain_ticks(panel.yaxis, (1, 2, 5))
    who = f"{people:,} people" if people > 1 else "1 person"
    above = f"{who}; at each epsilon the best parameters"
    below = f"epsilon {epsilon:g}; parameters for {who}"
    for line, words in zip(panels, (above, below), strict=True):
        line[0].set_title(words, loc="left", fontsize=10)
    heading = "predicted error" + (", before shrinkage" if curves.ask != "conditional" else "")
    figure.suptitle(heading, x=0.01, ha="left", fontsize=11)
    handles, labels = panels[0][0].get_legend_handles_labels()
    if len(parts) == 1:
        panels[0][0].legend(frameon=False, fontsize=8, loc="lower left")
    else:
        figure.legend(handles, labels, loc="upper right", ncols=len(labels), frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    put_away(pyplot, figure, path)


def _asked_of(part: str, ask: str, scale: Scale) -> str:
    of = f"a conditional {part}" if ask == "conditional" else f"a key's {part}"
    return f"root mean squared error\nof {of}" + (f", {scale}" if part == "mean" else "")


def plot_limit(
    panels: Mapping[str, Mapping[str, list[float]]], epsilons: list[float], path: str | Path
) -> None:
    """Errors of a few mechanisms over the least there can be, against epsilon; a panel for each law."""
    pyplot = pyplot_for(path)
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(1 + 3.9 * len(panels), 3.8), squeeze=False, sharey=True
    )
    for panel, (title, lines) in zip(axes[0], panels.items(), strict=True):
        panel.axhline(1.0, color=GREY, lw=1.0, ls=":")
        for number, (name, ratios) in enumerate(lines.items()):
            colour, mark = COLOURS[number % len(COLOURS)], MARKS[number % 7]
            panel.plot(epsilons, ratios, color=colour, marker=mark, ms=4, lw=1.4, label=name)
        panel.set_xscale("log")
        ticks = [e for e in epsilons if e in (0.1, 0.2, 0.5, 1, 2, 4, 6)]
        panel.set_xticks(ticks, [f"{e:g}" for e in ticks])
        panel.minorticks_off()
        panel.set_xlabel("epsilon")
        panel.set_title(title, loc="left", fontsize=10)
        lightly(panel)
    axes[0][0].set_ylim(0.97, 1.75)  # what is further off is off the picture
    axes[0][0].set_ylabel("error over the limit")
    axes[0][0].legend(frameon=False, fontsize=8, loc="upper left")
    figure.tight_layout()
    put_away(pyplot, figure, path)


def plot_gains(rows: list[dict[str, Any]], path: str | Path, share: float, epsilon: float) -> None:
    """The shift that fakes cause under each mechanism, of frequency and mean."""
    pyplot = pyplot_for(path)
    parts = [p for p in ("frequency", "mean") if any(row[p] is not None for row in rows)]
    shown = [row for row in rows if not row["reason"]]
    height = 1.6 + 0.26 * len(shown)
    figure, panels = pyplot.subplots(
        1, len(parts), figsize=(2.2 + 4.4 * len(parts), height), squeeze=False, sharey=True
    )
    at = np.arange(len(shown))[::-1]
    for panel, part in zip(panels[0], parts, strict=True):
        for name, shift, colour, words in (
            (part, 0.18, ORANGE, "view and seed chosen"),
            (f"{part}_drawn", -0.18, BLUE, "drawn or assigned"),
        ):
            lengths = [np.nan if row[name] is None else max(row[name], 1e-6) for row in shown]
            panel.barh(at + shift, lengths, 0.34, color=colour, label=words)
        panel.set_xscale("log")
        panel.set_xlim(left=max(share, 1e-5) / 2)
        scale = f", {Scale.parse(rows[0].get('mean_scale'))}" if part == "mean" else ""
        panel.set_xlabel(f"what is added to the {part}{scale}")
        lightly(panel, "x")
    panels[0][0].set_yticks(at, [row["mechanism"] for row in shown])
    panels[0][0].set_ylim(-0.7, len(shown) - 0.3)
    heading = f"crafted reports of {share:.3g} of all clients, one key, epsilon {epsilon:g}"
    figure.suptitle(heading, x=0.01, ha="left", fontsize=11)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper right", ncols=2, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.25 / height))
    put_away(pyplot, figure, path)
