"""One look for all figures: colours that everyone can tell apart, marks and dashes besides.

The only file of this package that knows matplotlib.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...foundation.errors import TableError
from .experiment import Row

LOOK: dict[str, tuple[str, str, str]] = {
    "PrivKV": ("#E69F00", "o", "-"),
    "PrivKVM": ("#D55E00", "v", "-"),
    "PrivKV-A": ("#CC79A7", "s", "-"),
    "F2M": ("#009E73", "D", "-"),
    "KVUE": ("#0072B2", "^", "-"),
    "KVOH": ("#56B4E9", "P", "-"),
    "PCKV-UE": ("#777777", "X", "--"),
    "PCKV-GRR": ("#882255", "d", "--"),
    "auto, shrunk across keys": ("#000000", "*", "-"),
    "auto, least squares": ("#999933", "p", ":"),
    "PrivKV, tight": ("#E69F00", "o", "--"),
    "PrivKVM, tight": ("#D55E00", "v", "--"),
    "PrivKV-A, tight": ("#CC79A7", "s", "--"),
    "F2M at 0, tight": ("#009E73", "D", "--"),
    "KVOH, least squares": ("#56B4E9", "P", "--"),
    "PrivKV, absent say 1": ("#7A4B00", "o", ":"),
    "PrivKV-A, absent say 1": ("#6B2A50", "s", ":"),
    "RAPPOR": ("#D55E00", "v", "--"),
    "k-RR": ("#56B4E9", "P", "--"),
    "SHist": ("#000000", "X", ":"),
    "Harmony": ("#009E73", "D", "--"),
    "MeanEst": ("#882255", "d", "--"),
    "IOH": ("#D55E00", "v", "-"),
    "split": ("#CC79A7", "s", "-"),
    "pairs": ("#000000", "*", "-"),
}
"""Colour (Okabe and Ito), mark and dash of each line; the same line looks alike everywhere."""

SPARE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#777777")
GRID = "#dddddd"
SETTINGS: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.dpi": 100,
    "svg.hashsalt": "keyveil",
}


@contextmanager
def look() -> Iterator[Any]:
    """Matplotlib's pyplot without a screen, with the settings of all figures."""
    try:
        import matplotlib
    except ImportError:
        raise TableError("figures need matplotlib: pip install 'keyveil[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context(SETTINGS):
        yield pyplot
        pyplot.close("all")


def panels(
    pyplot: Any,
    rows: int,
    columns: int,
    width: float,
    height: float,
    *,
    left: float = 0.75,
    right: float = 0.2,
    top: float = 0.7,
    bottom: float = 0.55,
    across: float = 0.7,
    down: float = 0.45,
    **more: Any,
) -> Any:
    """A figure and its grid of panels, always two-dimensional; margins and gaps in inches.

    Margins are stated rather than fitted, which would draw every figure three times.
    """
    figure, grid = pyplot.subplots(rows, columns, figsize=(width, height), squeeze=False, **more)
    wide = (width - left - right - (columns - 1) * across) / columns
    high = (height - top - bottom - (rows - 1) * down) / rows
    figure.subplots_adjust(
        left=left / width,
        right=1 - right / width,
        top=1 - top / height,
        bottom=bottom / height,
        wspace=across / wide,
        hspace=down / high,
    )
    return figure, grid


def style_of(label: str, number: int = 0) -> dict[str, Any]:
    """How a line looks: by its name, or by its number if it has no look of its own."""
    spare = (SPARE[number % len(SPARE)], "o", "-")
    colour, mark, dash = LOOK.get(label, spare)
    ours = label in ("auto, shrunk across keys", "pairs")
    return {
        "color": colour,
        "marker": mark,
        "linestyle": dash,
        "linewidth": 2.0 if ours else 1.3,
        "markersize": 8 if mark == "*" else 4.5,
        "zorder": 4 if ours else 3,
    }


def curve(panel: Any, rows: Sequence[Row], x: str, y: str, label: str, number: int = 0) -> None:
    """One line of a panel, in the order of x; what is not positive has no place on a log scale."""
    points = sorted((row[x], row[y]) for row in rows)
    panel.plot([p[0] for p in points], [p[1] for p in points], label=label, **style_of(label, number))


def epsilons(panel: Any, values: Sequence[float], label: str = "epsilon") -> None:
    """A logarithmic axis of epsilon with plain numbers."""
    shown = values if len(values) <= 6 else [v for v in (0.1, 0.2, 0.5, 1, 2, 5) if v <= max(values)]
    panel.set_xscale("log")
    _ticks(panel.xaxis, shown)
    panel.set_xlabel(label)


def errors(panel: Any) -> None:
    """A logarithmic axis of errors with plain numbers: decades, or 1, 2, 5 where these are too few."""
    panel.set_yscale("log")
    low, high = panel.get_ylim()
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    decades = [10.0**power for power in powers if low <= 10.0**power <= high]
    fine = [by * 10.0**power for power in powers for by in (1, 2, 5) if low <= by * 10.0**power <= high]
    _ticks(panel.yaxis, decades if len(decades) > 2 else fine)
    panel.set_ylim(low, high)


def _ticks(axis: Any, values: Sequence[float]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(list(values)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def level(panel: Any, height: float, text: str, *, left: bool = False) -> None:
    """A thin horizontal line with its meaning at the right end, or below it at the left one."""
    panel.axhline(height, color="#555555", lw=0.9, ls=(0, (4, 3)), zorder=1)
    panel.annotate(
        text,
        (0.02 if left else 1.0, height),
        xycoords=("axes fraction", "data"),
        xytext=(0, -2 if left else 2),
        textcoords="offset points",
        ha="left" if left else "right",
        va="top" if left else "bottom",
        fontsize=7.5,
        color="#444444",
    )


def note(figure: Any, text: str) -> None:
    """A small text below all panels; its lines are the caller's."""
    figure.text(0.01, 0.01, text, fontsize=8, color="#444444", va="bottom")


def legend(figure: Any, grid: Any, columns: int) -> None:
    """One legend for all panels, above them."""
    seen: dict[str, Any] = {}
    for panel in np.asarray(grid).flat:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            seen.setdefault(label, handle)
    figure.legend(
        list(seen.values()),
        list(seen),
        loc="upper center",
        bbox_to_anchor=(0.5, 1.0),
        borderaxespad=0.3,
        ncols=columns,
    )


def boxes(panel: Any, rows: Sequence[Row], labels: Sequence[str], groups: Mapping[str, Any]) -> None:
    """Box plots in groups: five quantiles of each row, one box for each label in each group.

    ``groups`` names the x positions' groups and gives the value of ``m`` that rows must have.
    """
    from matplotlib.collections import PolyCollection

    width = 0.8 / len(labels)
    for number, label in enumerate(labels):
        colour = style_of(label, number)["color"]
        chosen = [
            (place + (number - (len(labels) - 1) / 2) * width, row)
            for place, wanted in enumerate(groups.values())
            for row in rows
            if row["line"] == label and row["mean"] == wanted
        ]
        if not chosen:
            continue
        at = np.array([place for place, _ in chosen])
        low, first, middle, third, high = (
            np.array([row[name] for _, row in chosen]) for name in ("q05", "q25", "q50", "q75", "q95")
        )
        half = width * 0.39
        # A few collections for all boxes of a label: single artists would take most of the time.
        corners = [
            [(x - half, y), (x + half, y), (x + half, z), (x - half, z)]
            for x, y, z in zip(at, first, third, strict=True)
        ]
        panel.add_collection(
            PolyCollection(
                corners, facecolor=colour, edgecolor=colour, alpha=0.55, linewidth=0.8, zorder=2
            )
        )
        for y, z in ((low, first), (third, high)):
            panel.vlines(at, y, z, color=colour, lw=1.0)
        for y in (low, high):
            panel.hlines(y, at - half / 2, at + half / 2, color=colour, lw=1.0)
        panel.hlines(middle, at - half, at + half, color="black", lw=1.1, zorder=3)
        panel.plot([], [], "s", color=colour, alpha=0.75, ms=8, label=label)
    panel.axhline(0, color="#555555", lw=0.8, zorder=1)
    panel.set_xticks(range(len(groups)), list(groups))
    panel.grid(axis="x", visible=False)
    for edge in range(len(groups) - 1):
        panel.axvline(edge + 0.5, color=GRID, lw=0.8)


def as_bytes(figure: Any, form: str) -> bytes:
    """A figure as SVG or PNG, the same bytes for the same numbers."""
    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None} if form == "svg" else {"Software": None}
    figure.savefig(buffer, format=form, dpi=130, metadata=metadata)
    return buffer.getvalue()
