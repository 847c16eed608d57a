"""Errors of mechanisms side by side, as ``compare`` measured them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..foundation.errors import PlanError
from ..people.scale import Scale
from .style import BLUE, LINES, MARKS, ORANGE, Axes, given_axes, grid_of, lightly, log_axis, put_away

ERRORS = {"squared": "mse", "absolute": "mae"}
"""Errors that can be drawn, and their names in rows."""

CAPTION_LINES = 2
"""Lines above the panels for which there is room; with more the picture is taller."""

WAY_STYLES = (("o", "-"), ("^", (0, (5, 1.5))), ("v", (0, (1.5, 1))), ("P", (0, (6, 1.5, 1.5, 1.5))))
"""Marks and dashes of the planner's lines, in the order in which the rows have them."""


def _is_planner(mechanism: str) -> bool:
    """Whether rows are those of the planner's choice, whatever it was told: auto, auto:pilot."""
    return mechanism.partition(":")[0] == "auto"


def plot_rows(
    rows: Sequence[Mapping[str, Any]],
    path: str | Path | None = None,
    error: str = "squared",
    by_estimator: bool = False,
    ax: Axes | None = None,
    of: str | None = None,
) -> Axes:
    """Draw the errors of mechanisms, one panel for each statistic, the planner's choice in bold.

    Errors are lines against epsilon, or dots for a single epsilon. Each mechanism is drawn with the
    estimator of ``auto`` at that epsilon, or else with its own first. The legend names the estimator.
    ``by_estimator`` draws every estimator separately. With ``ax``, one statistic is drawn there.
    """
    if error not in ERRORS:
        raise PlanError(f"unknown error {error!r}; known: {', '.join(ERRORS)}")
    series = all_series(rows, by_estimator)
    parts = {_words(part, error): part for part in _parts(rows, error, of)}
    epsilons = sorted({row["epsilon"] for row in rows})
    if ax is not None:
        title, part = next(iter(parts.items()))
        _alone(given_axes(ax), series, part, epsilons)
        ax.set_title(title, loc="left", fontsize=10)
        return ax
    names = list(parts.values())
    figure = _lines(path, series, names, epsilons) if len(epsilons) > 1 else _dots(path, series, names)
    for panel, title in zip(figure.axes, parts, strict=False):
        panel.set_title(title, loc="left", fontsize=10)
    words = _setting(rows[0], epsilons)
    if not by_estimator:
        words.append("each with the estimator beside its name")
    if len(epsilons) > 1 and any(o.dashes != "-" and not o.planner for o in series):
        words.append("dashed: keyveil's own")
    wide, high = figure.get_size_inches()
    caption = textwrap.wrap("; ".join(words), int(13.5 * wide))
    taller = 0.15 * max(len(caption) - CAPTION_LINES, 0)
    edges, ratio = figure.subplotpars, high / (high + taller)
    figure.set_size_inches(wide, high + taller)
    figure.subplots_adjust(top=edges.top * ratio, bottom=edges.bottom * ratio)
    place = {"x": 0.012, "y": 1 - 0.06 / (high + taller), "ha": "left", "va": "top"}
    figure.suptitle("\n".join(caption), **place, fontsize=8.5, color="#444444")
    return put_away(figure, path)


def _parts(rows: Sequence[Mapping[str, Any]], error: str, of: str | None) -> list[str]:
    """The members of rows that are drawn."""
    middle = "conditional_" if "mse_conditional_frequency" in rows[0] else ""
    known = {s: f"{ERRORS[error]}_{middle}{s}" for s in ("frequency", "mean")}
    known = {s: part for s, part in known.items() if any(row[part] is not None for row in rows)}
    if of is not None and of not in known:
        raise PlanError(f"there are no errors of {of!r}; known: {', '.join(known)}")
    return [part for statistic, part in known.items() if of in (None, statistic)]


def _words(part: str, error: str) -> str:
    return f"Mean {error} error of the {part.removeprefix(ERRORS[error] + '_').replace('_', ' ')}"


def _alone(panel: Axes, series: list[Series], part: str, epsilons: list[float]) -> None:
    """One statistic on a panel of the caller's, with a legend."""
    if len(epsilons) > 1:
        _line_panel(panel, series, part, epsilons)
        panel.legend(frameon=False, fontsize=8)
    else:
        ordered = _ordered(series, [part])
        _dot_panel(panel, ordered, part)
        _name_rows(panel, ordered)


def _setting(row: Mapping[str, Any], epsilons: list[float]) -> list[str]:
    """What was measured, in words."""
    people = f"{row['n']:,} {'person' if row['n'] == 1 else 'people'}"
    repetitions = f"{row['repetitions']} repetition{'' if row['repetitions'] == 1 else 's'}"
    scale = Scale.parse(row.get("mean_scale"))
    words = ["How far answers are from the truth, lower is better"]
    words += [f"epsilon {epsilons[0]:g}"] if len(epsilons) == 1 else []
    words.append(f"{row['d']} keys, {people}, {repetitions}, means {scale}")
    if row["repetitions"] > 1:
        words.append("bars: two standard errors")
    return words


class Series(NamedTuple):
    """One mechanism in the picture: its rows by epsilon, and its style."""

    label: str
    rows: list[Mapping[str, Any]]
    colour: str
    mark: str
    dashes: Any
    planner: bool

    def at(self, part: str) -> tuple[list[float], list[float], list[Any]]:
        """Epsilons, errors and the ends of two standard errors, where there are errors above 0."""
        positive = [row for row in self.rows if row[part]]
        values = [row[part] for row in positive]
        spread = [2 * (row[f"{part}_se"] or 0.0) for row in positive]
        bars = [np.minimum(spread, 0.9 * np.array(values)), spread]
        return [row["epsilon"] for row in positive], values, bars


def all_series(rows: Sequence[Mapping[str, Any]], by_estimator: bool) -> list[Series]:
    """One series for each mechanism, or mechanism and estimator, the planner's choice last."""
    from ..plan.registry import REGISTRY

    shown = _shown_estimators(rows)
    lines: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        if by_estimator or row["estimator"] == shown[row["mechanism"], row["epsilon"]]:
            named = row["estimator"] if by_estimator else ""
            lines.setdefault((row["mechanism"], named), []).append(row)
    planners = {estimator for (mechanism, _), estimator in shown.items() if _is_planner(mechanism)}
    ways = [*dict.fromkeys(mechanism for mechanism, _ in lines if _is_planner(mechanism))]
    series = []
    number = 0
    for (mechanism, estimator), own in lines.items():
        own = sorted(own, key=lambda row: row["epsilon"])
        names = dict.fromkeys(row["estimator"] for row in own)
        label = f"{mechanism}, {'/'.join(names)}"
        if _is_planner(mechanism):
            best = not by_estimator or estimator in planners
            mark, dashes = WAY_STYLES[ways.index(mechanism) % len(WAY_STYLES)] if best else ("s", ":")
            series.append(Series(label, own, "#000000", mark, dashes, True))
            continue
        kind = REGISTRY.get(mechanism.partition(":")[0])
        if kind is not None and kind.paper_name:
            label = f"{mechanism} ({kind.paper_name}), {'/'.join(names)}"
        source = "" if kind is None else kind.source
        ours = source.startswith("keyveil") or source.endswith(("ours", "our own"))
        dashes = (0, (4, 1.5)) if ours else "-"
        mark, colour = MARKS[number % len(MARKS)], LINES[number % len(LINES)]
        series.append(Series(label, own, colour, mark, dashes, False))
        number += 1
    return sorted(series, key=lambda line: line.planner)


def _shown_estimators(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, float], str]:
    """By mechanism and epsilon: the estimator that is drawn.

    It is the estimator of ``auto`` if the mechanism has it, and its own first otherwise.
    """
    known: dict[tuple[str, float], list[str]] = {}
    for row in rows:
        known.setdefault((row["mechanism"], row["epsilon"]), []).append(row["estimator"])
    planners: dict[float, str] = {}
    for (mechanism, epsilon), names in known.items():
        if _is_planner(mechanism):
            planners.setdefault(epsilon, names[0])
    return {
        (mechanism, epsilon): planners[epsilon] if planners.get(epsilon) in names else names[0]
        for (mechanism, epsilon), names in known.items()
    }


def _lines(
    path: str | Path | None, series: list[Series], parts: list[str], epsilons: list[float]
) -> Any:
    """Errors against epsilon on two logarithmic axes, each line named at its end."""
    high = max(3.6, 1.5 + 0.19 * len(series))
    longest = max(len(line.label) for line in series)
    wide = (3.7 + 0.078 * longest) * len(parts) + 0.5
    figure, panels = grid_of(path, len(parts), wide, high)
    for panel, part in zip(panels[0], parts, strict=True):
        _line_panel(panel, series, part, epsilons)
    room = 0.078 * longest + 0.35  # inches to the right of each panel
    gap = (room + 0.75) / max((wide - 0.35) / len(parts) - room - 0.75, 0.5)
    edges = {"left": 0.75 / wide, "right": 1 - room / wide, "top": 1 - 0.72 / high}
    figure.subplots_adjust(**edges, bottom=0.5 / high, wspace=gap)
    for panel, part in zip(panels[0], parts, strict=True):
        _name_at_ends(panel, [(line, *line.at(part)) for line in series], high)
    return figure


def _line_panel(panel: Axes, series: list[Series], part: str, epsilons: list[float]) -> None:
    """The lines of one statistic."""
    for line in series:
        places, values, bars = line.at(part)
        if not places:
            continue
        panel.errorbar(
            places,
            values,
            yerr=bars,
            color=line.colour,
            ls=line.dashes,
            marker=line.mark,
            mfc=line.colour if line.planner else "white",
            lw=(2.6 if line.dashes == "-" else 1.8) if line.planner else 1.2,
            elinewidth=0.8,
            ms=5.5 if line.planner else 4.5,
            zorder=5 if line.planner else 3,
            label=line.label,
        )
    panel.set_xscale("log")
    log_axis(panel, "y")
    panel.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    panel.minorticks_off()
    panel.set_xlabel("epsilon")
    lightly(panel)
    panel.set_xlim(epsilons[0] / 1.08, epsilons[-1] * 1.08)


def _name_at_ends(panel: Any, lines: list[Any], high: float) -> None:
    """Write the name of every line to its right, as close to its end as there is room."""
    to_axes = panel.transData + panel.transAxes.inverted()
    ends = [(to_axes.transform((x[-1], y[-1])), line) for line, x, y, _ in lines if x]
    ends.sort(key=lambda end: end[0][1])
    step = 0.148 / (panel.get_position().height * high)
    places = spread_out([float(at[1]) for at, _ in ends], step, 0.0, 1.0)
    for (at, line), place in zip(ends, places, strict=True):
        arrow = {"arrowstyle": "-", "lw": 0.5, "shrinkA": 1, "shrinkB": 3, "relpos": (0, 0.5)}
        panel.annotate(
            line.label,
            xy=at,
            xytext=(1.07, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            color=line.colour,
            fontweight="bold" if line.planner else "normal",
            annotation_clip=False,
            arrowprops={**arrow, "color": line.colour},
        )


def spread_out(wanted: list[float], step: float, low: float, high: float) -> list[float]:
    """Increasing places at least ``step`` apart, as close as possible to those wanted.

    This is isotonic least squares: groups that touch are placed together. All places lie between
    ``low`` and ``high`` if there is room.
    """
    groups: list[tuple[float, int]] = []  # the sum of their first places, and members
    for place in wanted:
        groups.append((place, 1))
        while len(groups) > 1:
            (below, many), (above, more) = groups[-2:]
            if below / many + step * many <= above / more:
                break
            groups[-2:] = [(below + above - step * many * more, many + more)]
    places = [total / many + step * i for total, many in groups for i in range(many)]
    last = len(places) - 1
    places = [min(place, high - step * (last - i)) for i, place in enumerate(places)]
    return [max(place, low + step * i) for i, place in enumerate(places)]


def _dots(path: str | Path | None, series: list[Series], parts: list[str]) -> Any:
    """Errors at one epsilon, a row for each mechanism, the smallest error on top."""
    ordered = _ordered(series, parts)
    high = 1.25 + 0.235 * max(len(ordered), 3)
    margin = 0.35 + 0.072 * max(map(len, map(_row_label, ordered)))
    wide = margin + 3.4 * len(parts)
    figure, panels = grid_of(path, len(parts), wide, high, sharey=True)
    for panel, part in zip(panels[0], parts, strict=True):
        _dot_panel(panel, ordered, part)
    _name_rows(panels[0][0], ordered)
    edges = {"left": margin / wide, "right": 1 - 0.15 / wide, "top": 1 - 0.7 / high}
    figure.subplots_adjust(**edges, bottom=0.4 / high, wspace=0.08)
    return figure


def _ordered(series: list[Series], parts: list[str]) -> list[Series]:
    """The series by their errors, the largest first."""

    def errors(line: Series) -> list[float]:
        values = [line.rows[0][part] for part in reversed(parts)]
        return [np.inf if error is None else error for error in values]

    return sorted(series, key=errors, reverse=True)


def _dot_panel(panel: Axes, ordered: list[Series], part: str) -> None:
    """The dots of one statistic, a row for each mechanism."""
    for place, line in enumerate(ordered):
        _, values, bars = line.at(part)
        if not values:
            continue
        mark, colour, size = ("D", ORANGE, 7) if line.planner else ("o", BLUE, 5)
        panel.errorbar(values, [place], xerr=bars, fmt=mark, color=colour, ms=size, elinewidth=1.2)
        panel.axhline(place, color="#eeeeee", lw=0.8, zorder=0)
    log_axis(panel, "x")
    lightly(panel, "x")


def _name_rows(panel: Axes, ordered: list[Series]) -> None:
    """Write the name of every mechanism beside its row, the planner's choice in bold."""
    panel.set_yticks(range(len(ordered)), [_row_label(line) for line in ordered], fontsize=8)
    panel.set_ylim(-0.6, len(ordered) - 0.4)
    for line, tick in zip(ordered, panel.get_yticklabels(), strict=True):
        tick.set_fontweight("bold" if line.planner else "normal")


def _row_label(line: Series) -> str:
    """The name of a row; that of the planner with its choice."""
    if not line.planner:
        return line.label
    name, _, estimator = line.label.partition(", ")
    return f"{name} ({line.rows[0]['chosen']}), {estimator}"
