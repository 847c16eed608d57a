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

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
MOST_ROWS = 60


def plot_answers(
    answers: Answers,
    path: str | Path,
    truth: Mapping[str, Mapping[str, float]] | None = None,
    title: str = "",
) -> None:
    """A panel for each part of the answers: values with intervals, and the truth where given."""
    pyplot = _pyplot(path)
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


def _pyplot(path: str | Path) -> Any:
    """Matplotlib without a screen, once the picture's name is one it can write."""
    try:
        import matplotlib
    except ImportError:
        raise TableError("a picture needs matplotlib: pip install 'keyveil[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    if Path(path).suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise TableError("a picture's name ends in .png, .svg or .pdf")
    return pyplot


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


def plot_matrix(
    keys: tuple[str, ...], matrix: Any, path: str | Path, title: str, numbers: int = 16
) -> None:
    """A heat map of one statistic of every key given every other; hatched where it is unknown."""
    pyplot = _pyplot(path)
    size = len(keys)
    values = np.full((size, size), np.nan)
    for i, row in enumerate(matrix):
        for j, cell in enumerate(row):
            if cell is not None and cell.estimate.bounded:
                values[i, j] = cell.estimate.value
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
                made = cell.estimate
                text = f"{made.value:.2f}\n±{(made.high - made.low) / 2:.2f}" if made.bounded else "?"
                level = 0.0 if np.isnan(values[i, j]) else float(image.norm(values[i, j]))
                colour = "white" if made.bounded and level < 0.6 else "black"
                panel.text(j, i, text, ha="center", va="center", fontsize=7, color=colour)
    step = max(1, size // 40)
    ticks = np.arange(0, size, step)
    panel.set_xticks(ticks, [_short(keys[i]) for i in ticks], rotation=60, ha="right", fontsize=8)
    panel.set_yticks(ticks, [_short(keys[i]) for i in ticks], fontsize=8)
    panel.set_xlabel("given that one holds")
    panel.set_title(title, loc="left", fontsize=11)
    figure.colorbar(image, ax=panel, fraction=0.046, pad=0.03)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def plot_rows(rows: list[dict[str, Any]], path: str | Path) -> None:
    """Error against epsilon, a line for each mechanism and estimator, a panel for each answer."""
    pyplot = _pyplot(path)
    parts = [name for name in rows[0] if name.startswith("mse_")]
    figure, panels = pyplot.subplots(1, len(parts), figsize=(1 + 4.6 * len(parts), 4), squeeze=False)
    lines = sorted({(row["mechanism"], row["estimator"]) for row in rows})
    marks = "os^Dv<>Pd*X"
    for panel, part in zip(panels[0], parts, strict=True):
        for number, line in enumerate(lines):
            some = [r for r in rows if (r["mechanism"], r["estimator"]) == line]
            panel.plot(
                [r["epsilon"] for r in some],
                [r[part] for r in some],
                marker=marks[number % len(marks)],
                color=COLOURS[number % len(COLOURS)],
                lw=2.5 if line[0] == "auto" else 1.2,
                ms=5,
                label=f"{line[0]}, {line[1]}",
            )
        panel.set_yscale("log")
        panel.set_xlabel("epsilon")
        panel.set_title(part.replace("mse_", "MSE of ").replace("_", " "), loc="left", fontsize=10)
        panel.grid(color="#dddddd", lw=0.6)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    panels[0][-1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def plot_curves(curves: Any, path: str | Path, epsilon: float, people: int) -> None:
    """Predicted errors of a few mechanisms: against epsilon above, against people below."""
    pyplot = _pyplot(path)
    both = curves.ask != "frequency"
    parts = ("frequency", "mean") if both else ("frequency",)
    figure, panels = pyplot.subplots(
        2, len(parts), figsize=(1.8 + 4.4 * len(parts), 7), squeeze=False, sharey="col"
    )
    rows = (
        (panels[0], curves.epsilons, curves.by_epsilon, epsilon, "epsilon"),
        (panels[1], curves.people, curves.by_people, people, "people"),
    )
    for line, places, errors, here, label in rows:
        for panel, part in zip(line, parts, strict=True):
            for number, (name, found) in enumerate(errors.items()):
                panel.plot(
                    places,
                    np.sqrt(found[part]),
                    color=COLOURS[number % len(COLOURS)],
                    marker="os^Dv<>"[number % 7],
                    lw=2.4 if number == 0 else 1.2,
                    ms=4,
                    label=name,
                )
            panel.axvline(here, color=GREY, lw=0.8, ls=":")
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.set_xlabel(label)
            panel.set_title(f"predicted error of {_asked_of(part, curves.ask)}", loc="left", fontsize=10)
            panel.grid(color="#dddddd", lw=0.6)
            for side in ("top", "right"):
                panel.spines[side].set_visible(False)
    panels[0][0].legend(frameon=False, fontsize=8, loc="lower left")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _asked_of(part: str, ask: str) -> str:
    return f"a conditional {part}" if ask == "conditional" else f"a {part}"


def plot_limit(
    panels: Mapping[str, Mapping[str, list[float]]], epsilons: list[float], path: str | Path
) -> None:
    """Errors of a few mechanisms over the least there can be, against epsilon; a panel for each law."""
    pyplot = _pyplot(path)
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(1 + 3.9 * len(panels), 3.8), squeeze=False, sharey=True
    )
    for panel, (title, lines) in zip(axes[0], panels.items(), strict=True):
        panel.axhline(1.0, color=GREY, lw=1.0, ls=":")
        for number, (name, ratios) in enumerate(lines.items()):
            colour, mark = COLOURS[number % len(COLOURS)], "os^Dv<>"[number % 7]
            panel.plot(epsilons, ratios, color=colour, marker=mark, ms=4, lw=1.4, label=name)
        panel.set_xscale("log")
        ticks = [e for e in epsilons if e in (0.1, 0.2, 0.5, 1, 2, 4, 6)]
        panel.set_xticks(ticks, [f"{e:g}" for e in ticks])
        panel.minorticks_off()
        panel.set_xlabel("epsilon")
        panel.set_title(title, loc="left", fontsize=10)
        panel.grid(color="#dddddd", lw=0.6)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    axes[0][0].set_ylim(0.97, 1.75)  # what is further off is off the picture
    axes[0][0].set_ylabel("error over the limit")
    axes[0][0].legend(frameon=False, fontsize=8, loc="upper left")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def plot_gains(rows: list[dict[str, Any]], path: str | Path, share: float, epsilon: float) -> None:
    """What fakes add to a frequency under each mechanism: chosen and drawn reports, and the mean's."""
    pyplot = _pyplot(path)
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
        panel.set_xlabel(f"what is added to the {part}")
        panel.grid(axis="x", color="#dddddd", lw=0.6)
        panel.set_axisbelow(True)
        for side in ("top", "right", "left"):
            panel.spines[side].set_visible(False)
        panel.tick_params(axis="y", length=0)
    panels[0][0].set_yticks(at, [row["mechanism"] for row in shown])
    panels[0][0].set_ylim(-0.7, len(shown) - 0.3)
    heading = f"crafted reports of {share:.3g} of all clients, one key, epsilon {epsilon:g}"
    figure.suptitle(heading, x=0.01, ha="left", fontsize=11)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper right", ncols=2, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.25 / height))
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
