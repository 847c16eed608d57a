"""Errors of mechanisms side by side, as ``compare`` measured them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..people.scale import Scale
from .style import BLUE, LINES, MARKS, ORANGE, lightly, log_axis, put_away, pyplot_for


def plot_rows(
    rows: list[dict[str, Any]],
    path: str | Path,
    error: str = "squared",
    by_estimator: bool = False,
) -> None:
    """Draw the errors of mechanisms, one panel for each statistic, the planner's choice in bold.

    Errors are lines against epsilon, or dots for a single epsilon. Each mechanism is drawn with the
    estimator of ``auto`` at that epsilon, or else with its own first. The legend names the estimator.
    ``by_estimator`` draws every estimator separately.
    """
    pyplot = pyplot_for(path)
    name = {"squared": "mse", "absolute": "mae"}[error]
    conditional = "mse_conditional_frequency" in rows[0]
    middle = "conditional_" if conditional else ""
    series = all_series(rows, by_estimator)
    parts = [f"{name}_{middle}{of}" for of in ("frequency", "mean")]
    parts = [p for p in parts if any(row[p] is not None for row in rows)]
    epsilons = sorted({row["epsilon"] for row in rows})
    draw = _lines if len(epsilons) > 1 else _dots
    figure = draw(pyplot, series, parts, epsilons)
    for panel, part in zip(figure.axes, parts, strict=False):
        of = part.removeprefix(f"{name}_").replace("_", " ")
        panel.set_title(f"mean {error} error of the {of}", loc="left", fontsize=10)
    first = rows[0]
    people = f"{first['n']:,} {'person' if first['n'] == 1 else 'people'}"
    repetitions = f"{first['repetitions']} repetition{'' if first['repetitions'] == 1 else 's'}"
    scale = Scale.parse(first.get("mean_scale"))
    words = [f"{first['d']} keys, {people}, {repetitions}, means {scale}"]
    if len(epsilons) == 1:
        words.insert(0, f"epsilon {epsilons[0]:g}")
    if first["repetitions"] > 1:
        words.append("bars: two standard errors")
    if not by_estimator:
        words.append("each with the estimator beside its name")
    if len(epsilons) > 1 and any(o.dashes != "-" and not o.planner for o in series):
        words.append("dashed: keyveil's own")
    caption = textwrap.fill("; ".join(words), int(13.5 * figure.get_size_inches()[0]))
    inch = 1 / figure.get_size_inches()[1]
    figure.suptitle(
        caption, x=0.012, y=1 - 0.06 * inch, ha="left", va="top", fontsize=8.5, color="#444444"
    )
    put_away(pyplot, figure, path)


class Series(NamedTuple):
    """One mechanism in the picture: its rows by epsilon, and its style."""

    label: str
    rows: list[dict[str, Any]]
    colour: str
    mark: str
    dashes: Any
    planner: bool

    def at(self, part: str) -> tuple[list[float], list[float], list[float]]:
        """Epsilons, errors and two standard errors, where there are errors above 0."""
        positive = [row for row in self.rows if row[part]]
        spread = [2 * (row[f"{part}_se"] or 0.0) for row in positive]
        return [row["epsilon"] for row in positive], [row[part] for row in positive], spread


def all_series(rows: list[dict[str, Any]], by_estimator: bool) -> list[Series]:
    """One series for each mechanism, or mechanism and estimator, the planner's choice last."""
    from ..mechanisms import REGISTRY

    shown = _shown_estimators(rows)
    lines: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if by_estimator or row["estimator"] == shown[row["mechanism"], row["epsilon"]]:
            named = row["estimator"] if by_estimator else ""
            lines.setdefault((row["mechanism"], named), []).append(row)
    planners = {estimator for (mechanism, _), estimator in shown.items() if mechanism == "auto"}
    series = []
    number = 0
    for (mechanism, estimator), own in lines.items():
        own = sorted(own, key=lambda row: row["epsilon"])
        names = dict.fromkeys(row["estimator"] for row in own)
        label = f"{mechanism}, {'/'.join(names)}"
        if mechanism == "auto":
            best = not by_estimator or estimator in planners
            series.append(Series(label, own, "#000000", *(("o", "-") if best else ("s", ":")), True))
            continue
        kind = REGISTRY.get(mechanism.partition(":")[0])
        source = "" if kind is None else kind.source
        ours = source.startswith("keyveil") or source.endswith(("ours", "our own"))
        dashes = (0, (4, 1.5)) if ours else "-"
        mark, colour = MARKS[number % len(MARKS)], LINES[number % len(LINES)]
        series.append(Series(label, own, colour, mark, dashes, False))
        number += 1
    return sorted(series, key=lambda line: line.planner)


def _shown_estimators(rows: list[dict[str, Any]]) -> dict[tuple[str, float], str]:
    """By mechanism and epsilon: the estimator that is drawn.

    It is the estimator of ``auto`` if the mechanism has it, and its own first otherwise.
    """
    known: dict[tuple[str, float], list[str]] = {}
    for row in rows:
        known.setdefault((row["mechanism"], row["epsilon"]), []).append(row["estimator"])
    planners = {
        epsilon: names[0] for (mechanism, epsilon), names in known.items() if mechanism == "auto"
    }
    return {
        (mechanism, epsilon): planners[epsilon] if planners.get(epsilon) in names else names[0]
        for (mechanism, epsilon), names in known.items()
    }


def _lines(pyplot: Any, series: list[Series], parts: list[str], epsilons: list[float]) -> Any:
    """Errors against epsilon on two logarithmic axes, each line named at its end."""
    height = max(3.6, 1.5 + 0.19 * len(series))
    longest = max(len(line.label) for line in series)
    figure, panels = pyplot.subplots(
        1, len(parts), figsize=((3.7 + 0.078 * longest) * len(parts) + 0.5, height), squeeze=False
    )
    for panel, part in zip(panels[0], parts, strict=True):
        for line in series:
            places, values, spread = line.at(part)
            if not places:
                continue
            panel.errorbar(
                places,
                values,
                yerr=[np.minimum(spread, 0.9 * np.array(values)), spread],
                color=line.colour,
                ls=line.dashes,
                marker=line.mark,
                mfc=line.colour if line.planner else "white",
                lw=2.6 if line.planner else 1.2,
                elinewidth=0.8,
                ms=5.5 if line.planner else 4.5,
                zorder=5 if line.planner else 3,
            )
        panel.set_xscale("log")
        log_axis(panel, "y")
        panel.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        panel.minorticks_off()
        panel.set_xlabel("epsilon")
        lightly(panel)
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
        _named_at_ends(panel, [(line, *line.at(part)) for line in series], high)
    return figure


def _named_at_ends(panel: Any, lines: list[Any], high: float) -> None:
    """Write the name of every line to its right, as close to its end as there is room."""
    ends = [(line, places[-1], values[-1]) for line, places, values, _ in lines if places]
    if not ends:
        return
    step = 0.148 / (panel.get_position().height * high)
    to_axes = panel.transData + panel.transAxes.inverted()
    at = [to_axes.transform((x, y)) for _, x, y in ends]
    order = sorted(range(len(ends)), key=lambda i: at[i][1])
    places = spread_out([float(at[i][1]) for i in order], step, 0.0, 1.0)
    for i, place in zip(order, places, strict=True):
        line = ends[i][0]
        panel.annotate(
            line.label,
            xy=(at[i][0], at[i][1]),
            xytext=(1.07, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            color=line.colour,
            fontweight="bold" if line.planner else "normal",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": line.colour,
                "lw": 0.5,
                "shrinkA": 1,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
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


def _dots(pyplot: Any, series: list[Series], parts: list[str], epsilons: list[float]) -> Any:
    """Errors at one epsilon, a row for each mechanism, the smallest error on top."""

    def errors(line: Series) -> list[float]:
        values = [line.rows[0][part] for part in reversed(parts)]
        return [np.inf if error is None else error for error in values]

    ordered = sorted(series, key=errors, reverse=True)
    labels = [
        line.label.replace("auto", f"auto ({line.rows[0]['chosen']})", 1) if line.planner else line.label
        for line in ordered
    ]
    height = 1.25 + 0.235 * max(len(ordered), 3)
    margin = 0.35 + 0.072 * max(map(len, labels))
    wide = margin + 3.4 * len(parts)
    figure, panels = pyplot.subplots(1, len(parts), figsize=(wide, height), squeeze=False, sharey=True)
    for panel, part in zip(panels[0], parts, strict=True):
        for place, line in enumerate(ordered):
            _, values, spread = line.at(part)
            if not values:
                continue
            colour = ORANGE if line.planner else BLUE
            panel.errorbar(
                values,
                [place],
                xerr=[np.minimum(spread, 0.9 * np.array(values)), spread],
                fmt="D" if line.planner else "o",
                color=colour,
                ms=7 if line.planner else 5,
                elinewidth=1.2,
            )
            panel.axhline(place, color="#eeeeee", lw=0.8, zorder=0)
        log_axis(panel, "x")
        lightly(panel, "x")
    first = panels[0][0]
    first.set_yticks(range(len(ordered)), labels, fontsize=8)
    first.set_ylim(-0.6, len(ordered) - 0.4)
    for line, tick in zip(ordered, first.get_yticklabels(), strict=True):
        tick.set_fontweight("bold" if line.planner else "normal")
    figure.subplots_adjust(
        left=margin / wide, right=1 - 0.15 / wide, top=1 - 0.7 / height, bottom=0.4 / height, wspace=0.08
    )
    return figure
