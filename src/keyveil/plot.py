"""Pictures of answers; needs matplotlib (``keyveil[plot]``)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .errors import TableError
from .estimate import Answers

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#767676"
"""From Okabe and Ito's colours, which everyone can tell apart."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
LINES = (*("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#3E9BD0", "#767676"),)
"""Colours of thin lines and their names on white, none too pale to read."""
MARKS = "os^Dv<>Pd*X"
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


def plot_rows(
    rows: list[dict[str, Any]],
    path: str | Path,
    error: str = "squared",
    by_estimator: bool = False,
) -> None:
    """Errors of mechanisms, a panel for each answer, the planner's choice bold and on top.

    Lines against epsilon, or dots where there is one epsilon. Each mechanism has one, by its own first
    estimator (``auto``: the planner's); ``by_estimator`` draws every estimator apart.
    """
    pyplot = _pyplot(path)
    name = {"squared": "mse", "absolute": "mae"}[error]
    conditional = "mse_conditional_frequency" in rows[0]
    middle = "conditional_" if conditional else ""
    series = _series(rows, by_estimator)
    parts = [f"{name}_{middle}{of}" for of in ("frequency", "mean")]
    parts = [p for p in parts if any(row[p] is not None for row in rows)]
    epsilons = sorted({row["epsilon"] for row in rows})
    draw = _lines if len(epsilons) > 1 else _dots
    figure = draw(pyplot, series, parts, epsilons)
    for panel, part in zip(figure.axes, parts, strict=False):
        of = part.removeprefix(f"{name}_").replace("_", " ")
        panel.set_title(f"mean {error} error of the {of}", loc="left", fontsize=10)
    one = rows[0]
    people = f"{one['n']:,} {'person' if one['n'] == 1 else 'people'}"
    repetitions = f"{one['repetitions']} repetition{'' if one['repetitions'] == 1 else 's'}"
    said = [f"{one['d']} keys, {people}, {repetitions}, errors on the [-1, 1] scale"]
    if len(epsilons) == 1:
        said.insert(0, f"epsilon {epsilons[0]:g}")
    if one["repetitions"] > 1:
        said.append("bars: two standard errors")
    if not by_estimator:
        said.append("each with its own first estimator")
    if len(epsilons) > 1 and any(o.dashes != "-" and not o.planner for o in series):
        said.append("dashed: keyveil's own")
    caption = textwrap.fill("; ".join(said), int(13.5 * figure.get_size_inches()[0]))
    inch = 1 / figure.get_size_inches()[1]
    figure.suptitle(
        caption, x=0.012, y=1 - 0.06 * inch, ha="left", va="top", fontsize=8.5, color="#444444"
    )
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


class _One(NamedTuple):
    """What is drawn of one mechanism: its rows by epsilon, and how it looks."""

    label: str
    rows: list[dict[str, Any]]
    colour: str
    mark: str
    dashes: Any
    planner: bool

    def at(self, part: str) -> tuple[list[float], list[float], list[float]]:
        """Epsilons, errors and two standard errors, where there are errors above 0."""
        some = [row for row in self.rows if row[part]]
        spread = [2 * (row[f"{part}_se"] or 0.0) for row in some]
        return [row["epsilon"] for row in some], [row[part] for row in some], spread


def _series(rows: list[dict[str, Any]], by_estimator: bool) -> list[_One]:
    """One for each mechanism, or mechanism and estimator, in their order; the planner's last."""
    from .mechanisms import REGISTRY

    lines: dict[tuple[str, str], list[dict[str, Any]]] = {}
    first: dict[tuple[str, float], str] = {}
    for row in rows:
        own = first.setdefault((row["mechanism"], row["epsilon"]), row["estimator"])
        if by_estimator or row["estimator"] == own:
            named = row["estimator"] if by_estimator else ""
            lines.setdefault((row["mechanism"], named), []).append(row)
    planners = {estimator for (mechanism, _), estimator in first.items() if mechanism == "auto"}
    made = []
    number = 0
    for (mechanism, estimator), some in lines.items():
        label = f"{mechanism}, {estimator}" if by_estimator else mechanism
        some = sorted(some, key=lambda row: row["epsilon"])
        if mechanism == "auto":
            best = not by_estimator or estimator in planners
            made.append(_One(label, some, "#000000", *(("o", "-") if best else ("s", ":")), True))
            continue
        kind = REGISTRY.get(mechanism.partition(":")[0])
        source = "" if kind is None else kind.source
        ours = source.startswith("keyveil") or source.endswith(("ours", "our own"))
        dashes = (0, (4, 1.5)) if ours else "-"
        mark, colour = MARKS[number % len(MARKS)], LINES[number % len(LINES)]
        made.append(_One(label, some, colour, mark, dashes, False))
        number += 1
    return sorted(made, key=lambda one: one.planner)


def _lines(pyplot: Any, series: list[_One], parts: list[str], epsilons: list[float]) -> Any:
    """Errors against epsilon on two logarithmic axes, each line named at its end."""
    height = max(3.6, 1.5 + 0.19 * len(series))
    longest = max(len(one.label) for one in series)
    figure, panels = pyplot.subplots(
        1, len(parts), figsize=((3.7 + 0.078 * longest) * len(parts) + 0.5, height), squeeze=False
    )
    for panel, part in zip(panels[0], parts, strict=True):
        for one in series:
            places, values, spread = one.at(part)
            if not places:
                continue
            panel.errorbar(
                places,
                values,
                yerr=[np.minimum(spread, 0.9 * np.array(values)), spread],
                color=one.colour,
                ls=one.dashes,
                marker=one.mark,
                mfc=one.colour if one.planner else "white",
                lw=2.6 if one.planner else 1.2,
                elinewidth=0.8,
                ms=5.5 if one.planner else 4.5,
                zorder=5 if one.planner else 3,
            )
        panel.set_xscale("log")
        _log_axis(panel, "y")
        panel.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        panel.minorticks_off()
        panel.set_xlabel("epsilon")
        panel.grid(color="#dddddd", lw=0.6)
        panel.set_axisbelow(True)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
        panel.set_xlim(epsilons[0] / 1.08, epsilons[-1] * 1.08)
    room = 0.078 * longest + 0.35  # inches to the right of each panel
    wide, high = figure.get_size_inches()
    own = (wide - 0.35) / len(parts)
    figure.subplots_adjust(
        left=0.75 / wide,
        right=1 - room / wide,
        top=1 - 0.72 / high,
        bottom=0.5 / high,
        wspace=(room + 0.75) / max(own - room - 0.75, 0.5),
    )
    for panel, part in zip(panels[0], parts, strict=True):
        _named_at_ends(panel, [(one, *one.at(part)) for one in series], high)
    return figure


def _log_axis(panel: Any, which: str) -> None:
    """A logarithmic axis of at least a factor of ten, with ticks enough to read it by."""
    getattr(panel, f"set_{which}scale")("log")
    low, high = getattr(panel, f"get_{which}lim")()
    if high < 10 * low:
        middle = (low * high) ** 0.5
        low, high = middle / 10**0.5, middle * 10**0.5
    getattr(panel, f"set_{which}lim")(low, high)
    axis, digits = getattr(panel, f"{which}axis"), (1, 2, 5) if high < 100 * low else (1,)
    marks = [digit * 10.0**power for power in range(-30, 3) for digit in digits]
    ticks = [mark for mark in marks if low <= mark <= high]
    axis.set_ticks(ticks, labels=[plain_number(mark) for mark in ticks])
    axis.set_ticks([], minor=True)


def _named_at_ends(panel: Any, lines: list[Any], high: float) -> None:
    """The name of every line to its right, as near to its end as the other names leave room for."""
    ends = [(one, places[-1], values[-1]) for one, places, values, _ in lines if places]
    if not ends:
        return
    step = 0.148 / (panel.get_position().height * high)
    to_axes = panel.transData + panel.transAxes.inverted()
    at = [to_axes.transform((x, y)) for _, x, y in ends]
    order = sorted(range(len(ends)), key=lambda i: at[i][1])
    places = spread_out([float(at[i][1]) for i in order], step, 0.0, 1.0)
    for i, place in zip(order, places, strict=True):
        one = ends[i][0]
        panel.annotate(
            one.label,
            xy=(at[i][0], at[i][1]),
            xytext=(1.07, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            color=one.colour,
            fontweight="bold" if one.planner else "normal",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": one.colour,
                "lw": 0.5,
                "shrinkA": 1,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
        )


def spread_out(wanted: list[float], step: float, low: float, high: float) -> list[float]:
    """Places from below to above, ``step`` apart at least, as near as can be to those wanted.

    Least squares in order: groups that touch are moved together to where their members want to be.
    All lie between ``low`` and ``high`` if there is room for them.
    """
    groups: list[tuple[float, int]] = []  # the sum of their first places, and members
    for place in wanted:
        groups.append((place, 1))
        while len(groups) > 1:
            (below, many), (above, more) = groups[-2:]
            if below / many + step * many <= above / more:
                break
            groups[-2:] = [(below + above - step * many * more, many + more)]
    made = [total / many + step * i for total, many in groups for i in range(many)]
    last = len(made) - 1
    made = [min(place, high - step * (last - i)) for i, place in enumerate(made)]
    return [max(place, low + step * i) for i, place in enumerate(made)]


def _dots(pyplot: Any, series: list[_One], parts: list[str], epsilons: list[float]) -> Any:
    """One epsilon: a row for each mechanism, the least error of the last answer on top."""

    def errors(one: _One) -> list[float]:
        found = [one.rows[0][part] for part in reversed(parts)]
        return [np.inf if error is None else error for error in found]

    ordered = sorted(series, key=errors, reverse=True)
    labels = [f"{one.label} ({one.rows[0]['chosen']})" if one.planner else one.label for one in ordered]
    height = 1.25 + 0.235 * max(len(ordered), 3)
    margin = 0.35 + 0.072 * max(map(len, labels))
    wide = margin + 3.4 * len(parts)
    figure, panels = pyplot.subplots(1, len(parts), figsize=(wide, height), squeeze=False, sharey=True)
    for panel, part in zip(panels[0], parts, strict=True):
        for place, one in enumerate(ordered):
            _, values, spread = one.at(part)
            if not values:
                continue
            colour = ORANGE if one.planner else BLUE
            panel.errorbar(
                values,
                [place],
                xerr=[np.minimum(spread, 0.9 * np.array(values)), spread],
                fmt="D" if one.planner else "o",
                color=colour,
                ms=7 if one.planner else 5,
                elinewidth=1.2,
            )
            panel.axhline(place, color="#eeeeee", lw=0.8, zorder=0)
        _log_axis(panel, "x")
        panel.grid(axis="x", color="#dddddd", lw=0.6)
        panel.set_axisbelow(True)
        for side in ("top", "right", "left"):
            panel.spines[side].set_visible(False)
        panel.tick_params(axis="y", length=0)
    first = panels[0][0]
    first.set_yticks(range(len(ordered)), labels, fontsize=8)
    first.set_ylim(-0.6, len(ordered) - 0.4)
    for one, tick in zip(ordered, first.get_yticklabels(), strict=True):
        tick.set_fontweight("bold" if one.planner else "normal")
    figure.subplots_adjust(
        left=margin / wide, right=1 - 0.15 / wide, top=1 - 0.7 / height, bottom=0.4 / height, wspace=0.08
    )
    return figure


def plot_curves(curves: Any, path: str | Path, epsilon: float, people: int) -> None:
    """Predicted errors of a few mechanisms: against epsilon above, against people below.

    Errors are roots of mean squared ones, as in the planner's table; a dotted line stands where the
    plan was asked for.
    """
    pyplot = _pyplot(path)
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
            for number, (name, found) in enumerate(errors.items()):
                panel.plot(
                    places,
                    np.sqrt(found[part]),
                    color=COLOURS[number % len(COLOURS)],
                    marker="os^Dv<>"[number % 7],
                    lw=2.8 if number == 0 else 1.2,
                    ms=5 if number == 0 else 4,
                    zorder=3 if number == 0 else 2,
                    label=f"{name}, {curves.first}" if number == 0 else name,
                )
            panel.axvline(here, color=GREY, lw=1.0, ls=":")
            panel.set(xscale="log", yscale="log", xlabel=label)
            panel.set_ylabel(_asked_of(part, curves.ask), fontsize=9)
            panel.grid(color="#dddddd", lw=0.6)
            for side in ("top", "right"):
                panel.spines[side].set_visible(False)
            _plain_ticks(panel.xaxis, (1, 2, 5) if label == "epsilon" else (1,))
    for panel in panels.ravel():
        _plain_ticks(panel.yaxis, (1, 2, 5))
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
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _plain_ticks(axis: Any, digits: tuple[int, ...]) -> None:
    """Numbers as people write them on a logarithmic axis: 0.05, 2, 100 k; fewer over many decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    shown = (1,) if high > 1e4 * low else digits if high > 8 * low else range(1, 10)
    axis.set_major_locator(LogLocator(subs=shown, numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value)))
    axis.set_minor_formatter(NullFormatter())


def plain_number(value: float) -> str:
    """As people write it: 0.05, 2, 100 k."""
    for size, name in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{name}"
    return f"{value:g}"


def _asked_of(part: str, ask: str) -> str:
    of = f"a conditional {part}" if ask == "conditional" else f"a key's {part}"
    return f"root mean squared error\nof {of}" + (", on [-1, 1]" if part == "mean" else "")


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
