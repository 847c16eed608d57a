"""One look for all figures: colours that everyone can tell apart, and marks and dashes as well.

The only file of this package that knows matplotlib.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any, TypeVar

import numpy as np

from ...foundation.errors import TableError, installation
from .experiment import Figure, Row

X = TypeVar("X")
Y = TypeVar("Y")

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
def look() -> Iterator[None]:
    """The settings of all figures, which are drawn without a screen."""
    try:
        import matplotlib
    except ImportError:
        raise TableError(f"figures need matplotlib: {installation('plot')}") from None
    with matplotlib.rc_context(SETTINGS):
        yield


def panels(
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

    Margins are stated rather than fitted, which would draw every figure three times. To be called
    within ``look``.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    grid = figure.subplots(rows, columns, squeeze=False, **more)
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


def cells(grid: Any, down: Iterable[Y], across: Iterable[X]) -> Iterator[tuple[Any, Y, X]]:
    """Every panel of a grid, with the item of its row and the item of its column."""
    for panel, (row, column) in zip(np.ravel(grid), product(down, across), strict=True):
        yield panel, row, column


def style_of(label: str) -> dict[str, Any]:
    """How a line looks."""
    colour, mark, dash = LOOK[label]
    ours = label in ("auto, shrunk across keys", "pairs")
    return {
        "color": colour,
        "marker": mark,
        "linestyle": dash,
        "linewidth": 2.0 if ours else 1.3,
        "markersize": 8 if mark == "*" else 4.5,
        "zorder": 4 if ours else 3,
    }


def curve(panel: Any, rows: Sequence[Row], x: str, y: str, label: str, shown: str = "") -> None:
    """One line of a panel, in the order of x; what is not positive has no place on a log scale.

    ``shown`` is its name in the legend, if that is another one.
    """
    points = sorted((row[x], row[y]) for row in rows)
    places, heights = [p[0] for p in points], [p[1] for p in points]
    panel.plot(places, heights, label=shown or label, **style_of(label))


def noise_bars(panel: Any, rows: Sequence[Row], x: str, y: str, label: str) -> None:
    """Two standard errors to either side of each point; a bar ends above 0."""
    points = sorted((row[x], row[y], 2 * row[f"se_{y}"]) for row in rows)
    places, heights, sides = np.array(points).T
    lower = np.maximum(heights - sides, 0.02 * heights)
    panel.vlines(places, lower, heights + sides, color=style_of(label)["color"], lw=1.1, zorder=2)


def clipped_marks(panel: Any, lines: Mapping[str, Sequence[Row]], x: str, y: str, top: float) -> None:
    """An arrowhead at the upper edge for each point above it; those of other lines stand beside it."""
    from matplotlib.transforms import ScaledTranslation

    clipped = {label: [row[x] for row in rows if row[y] > top] for label, rows in lines.items()}
    for number, label in enumerate(label for label, places in clipped.items() if places):
        offset = ScaledTranslation(0.1 * number, 0, panel.figure.dpi_scale_trans)
        look = {"color": style_of(label)["color"], "marker": "^", "ls": "", "ms": 6, "clip_on": False}
        heights = [top] * len(clipped[label])
        panel.plot(clipped[label], heights, **look, zorder=5, transform=panel.transData + offset)


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


def level(panel: Any, height: float, left: bool) -> None:
    """A thin horizontal line with its height at the right end, or below it at the left one."""
    panel.axhline(height, color="#555555", lw=0.9, ls=(0, (4, 3)), zorder=1)
    panel.annotate(
        f"{height}",
        (0.02 if left else 1.0, height),
        xycoords=("axes fraction", "data"),
        xytext=(0, -2 if left else 2),
        textcoords="offset points",
        ha="left" if left else "right",
        va="top" if left else "bottom",
        fontsize=7.5,
        color="#444444",
    )


def finished(
    name: str,
    caption: str,
    figure: Any,
    grid: Any,
    *,
    values: Sequence[float] = (),
    columns: int = 0,
    note: str = "",
) -> Figure:
    """The figure with its axes of epsilon (if it has ``values``), a legend above and a note below.

    The legend, in so many ``columns``, serves all panels. The lines of the note are the caller's.
    """
    for panel in grid[-1] if values else ():
        epsilons(panel, values)
    if columns:
        handles: dict[str, Any] = {}
        for panel in np.ravel(grid):
            for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, 1.0), "borderaxespad": 0.3}
        figure.legend(list(handles.values()), list(handles), ncols=columns, **place)
    if note:
        figure.text(0.01, 0.01, note, fontsize=8, color="#444444", va="bottom")
    return Figure(name, caption, figure)


def boxes(panel: Any, rows: Sequence[Row], labels: Sequence[str], groups: Mapping[str, Any]) -> None:
    """Box plots in groups: five quantiles of each row, one box for each label in each group.

    ``groups`` names the x positions' groups and gives the value of ``mean`` that rows must have.
    """
    from matplotlib.collections import PolyCollection

    width = 0.8 / len(labels)
    half = width * 0.39
    for number, label in enumerate(labels):
        colour = style_of(label)["color"]
        places = {value: place for place, value in enumerate(groups.values())}
        own = sorted((row for row in rows if row["line"] == label), key=lambda row: places[row["mean"]])
        at = np.array([places[row["mean"]] for row in own]) + (number - (len(labels) - 1) / 2) * width
        low, first, middle, third, high = (
            np.array([row[name] for row in own]) for name in ("q05", "q25", "q50", "q75", "q95")
        )
        # A few collections for all boxes of a label: single artists would take most of the time.
        corners = [
            [(x - half, y), (x + half, y), (x + half, z), (x - half, z)]
            for x, y, z in zip(at, first, third, strict=True)
        ]
        fill = {"facecolor": colour, "edgecolor": colour, "alpha": 0.55, "linewidth": 0.8}
        panel.add_collection(PolyCollection(corners, **fill, zorder=2))
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
