"""The style of all pictures: colours and axes; and how a picture is begun and saved."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..foundation.errors import TableError, installation
from ..foundation.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
else:
    Axes = Any

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#767676"
"""From Okabe and Ito's colours, which everyone can tell apart."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#3E9BD0", "#767676")
"""Colours of thin lines and their names on white, none too pale to read."""
MARKS = "os^Dv<>Pd*X"
LEAST_PLAIN = 0.9e-5
"""Numbers above it are written without an exponent."""


def check_picture(path: str | Path | None) -> None:
    """Refuse a picture that cannot be drawn or written, without loading matplotlib."""
    if find_spec("matplotlib") is None:
        raise TableError(f"a picture needs matplotlib: {installation('plot')}")
    if path is not None and Path(path).suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise TableError(f"{path}: a picture's name ends in .png, .svg or .pdf")


def given_axes(ax: Any) -> Axes:
    """The axes that a caller passed; the error for anything else, like a kind that is not named."""
    if not hasattr(ax, "get_xlim"):
        raise TableError("ax is the axes of matplotlib to draw on; name other arguments: kind='lift'")
    return ax


def grid_of(
    path: str | Path | None, columns: int, width: float, height: float, rows: int = 1, **more: Any
) -> tuple[Any, Any]:
    """A figure and its grid of panels; sizes in inches.

    With a file's name it is drawn without a screen; a name that matplotlib cannot write is refused.
    Without one it is a figure of pyplot, which a notebook or window shows. The backend stays as it is.
    """
    check_picture(path)
    if path is None:
        from matplotlib import pyplot

        return pyplot.subplots(rows, columns, figsize=(width, height), squeeze=False, **more)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    return figure, figure.subplots(rows, columns, squeeze=False, **more)


def put_away(figure: Any, path: str | Path | None) -> Axes:
    """Write the picture completely or not at all, if it has a file; its first panel is returned."""
    if path is not None:
        with whole_file(Path(path)) as file:
            figure.savefig(file, dpi=150, format=Path(path).suffix[1:].lower())
    return figure.axes[0]


def put_away_with(
    figure: Any, path: str | Path | None, heading: str, columns: int, top: float = 1.0
) -> Axes:
    """Write the picture with a heading and, if it has columns, one legend for all of its panels.

    Panels reach up to ``top``, a share of the figure's height.
    """
    figure.suptitle(heading, x=0.01, ha="left", fontsize=11)
    if columns:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper right", ncols=columns, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, top))
    return put_away(figure, path)


def line_look(number: int) -> dict[str, str]:
    """Colour and mark of a line by its number."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKS[number % 7]}


def lightly(panel: Any, grid: str = "both") -> None:
    """Draw a pale grid in the background, and no frame besides the axes."""
    panel.grid(axis=grid, color="#dddddd", lw=0.6)
    panel.set_axisbelow(True)
    for side in ("top", "right", "left") if grid == "x" else ("top", "right"):
        panel.spines[side].set_visible(False)
    if grid == "x":
        panel.tick_params(axis="y", length=0)


def log_axis(panel: Any, which: str) -> None:
    """A logarithmic axis over at least a factor of ten, with enough ticks to read it."""
    getattr(panel, f"set_{which}scale")("log")
    low, high = getattr(panel, f"get_{which}lim")()
    if high < 10 * low:
        middle = (low * high) ** 0.5
        low, high = middle / 10**0.5, middle * 10**0.5
    getattr(panel, f"set_{which}lim")(low, high)
    room = 1000 if which == "y" else 100  # numbers below each other need less room than side by side
    axis, digits = getattr(panel, f"{which}axis"), (1, 2, 5) if high < room * low else (1,)
    marks = [digit * 10.0**power for power in range(-30, 31) for digit in digits]
    ticks = [mark for mark in marks if low <= mark <= high]
    plain = not ticks or ticks[0] > LEAST_PLAIN
    axis.set_ticks(ticks, labels=[plain_number(m) if plain else f"{m:.0e}" for m in ticks])
    axis.set_ticks([], minor=True)


def plain_ticks(axis: Any, digits: tuple[int, ...]) -> None:
    """Numbers as people write them on a logarithmic axis: 0.05, 2, 100 k; fewer over many decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    shown = (1,) if high > 1e4 * low else digits if high > 8 * low else range(1, 10)
    axis.set_major_locator(LogLocator(subs=shown, numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value)))
    axis.set_minor_formatter(NullFormatter())


def plain_number(value: float) -> str:
    """As people write it: 0.00005, 2, 100 k."""
    for size, name in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{name}"
    small = LEAST_PLAIN < value < 1e-4
    return np.format_float_positional(float(f"{value:g}"), trim="-") if small else f"{value:g}"


def as_words(text: str) -> str:
    """Text that is drawn as it is; matplotlib takes what stands between dollar signs for a formula."""
    return text.replace(r"\$", "$").replace("$", r"\$")


def short(key: str, most: int = 28) -> str:
    """A key, shortened in its middle to fit next to a row: names often differ at their end."""
    return as_words(key if len(key) <= most else f"{key[: most - 12]}…{key[-11:]}")


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a figure that pyplot does not know completely or not at all."""
    with whole_file(Path(path)) as file:
        figure.savefig(file, dpi=150, format=Path(path).suffix[1:].lower())
