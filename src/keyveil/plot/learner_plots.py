"""Pictures of what is learned: rules, trees, cubes, naive Bayes and Chow-Liu trees, on axes."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from .graph_places import forest_places
from .style import (
    BLUE,
    GREY,
    ORANGE,
    Axes,
    as_words,
    check_picture,
    given_axes,
    lightly,
    plain_ticks,
    save_figure,
    short,
)

Learned = Any
"""What is drawn: rules, a tree, naive Bayes, a Chow-Liu tree or a cube. Rooms below make them."""
MOST_ROWS = 40
"""Largest number of rows in a picture."""


def save_plot(learned: Any, path: str | Path, width: float, height: float) -> None:
    """Draws what was learned into a file, on a figure of its own; sizes in inches."""
    check_picture(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    learned.plot(figure.add_subplot())
    save_figure(figure, path)


def picture_size(learned: Any) -> tuple[float, float]:
    """Width and height in inches that what was learned needs."""
    name = type(learned).__name__
    if name == "Rules":
        return 8.0, 1.5 + 0.3 * max(min(len(learned), MOST_ROWS), 3)
    if name == "NaiveBayes":
        return 9.0, 1.5 + 0.3 * max(min(learned.n_features_in_, MOST_ROWS), 3)
    if name == "DecisionTree":
        leaves = len(list(learned.root_.leaves()))
        return max(5.0, 2.1 * leaves), 1.6 + 1.4 * _depth(learned.root_)
    if name == "Cube" and len(learned.keys) != 2:
        return 8.0, 1.5 + 0.3 * max(min(len(list(learned.cells())), MOST_ROWS), 3)
    if name == "Cube":
        rows, columns = (len(parts) for parts in learned.parts().values())
        return 2.0 + 1.4 * columns, 1.6 + 0.8 * rows
    rows = len(learned.edges_) + 2
    return 8.0, max(2.2, 1.3 + 0.36 * rows)


def _axes(ax: Axes | None, learned: Any) -> Any:
    """The axes that were given, or those of a new figure of pyplot; the backend stays as it is."""
    if ax is not None:
        return given_axes(ax)
    from matplotlib import pyplot

    return pyplot.subplots(figsize=picture_size(learned), layout="constrained")[1]


def _heading(ax: Any, words: str, origin: str) -> None:
    """Titles say what is shown and, on a line of its own, what it rests on."""
    ax.set_title(as_words("\n".join(filter(None, (words, origin)))), loc="left", fontsize=11)


def _intervals(ax: Any, estimates: list[Any], names: list[str]) -> None:
    """A row for each estimate, the first on top: its interval as a line and its value as a point."""
    rows = np.arange(len(estimates))[::-1]
    for row, estimate in zip(rows, estimates, strict=True):
        if estimate.bounded:
            ax.hlines(row, estimate.low, estimate.high, color=BLUE, lw=2.2, alpha=0.65)
        else:
            place = {"transform": ax.get_yaxis_transform(), "color": GREY, "fontsize": 8}
            ax.text(0.98, row, "not bounded", ha="right", va="center", **place)
        if isfinite(estimate.value):
            ax.plot(estimate.value, row, "o", color=BLUE, ms=4.5)
    ax.set_yticks(rows, names, fontsize=9)
    ax.set_ylim(-0.7, len(estimates) - 0.3)
    lightly(ax, "x")


def draw_rules(rules: Learned, ax: Axes | None = None) -> Axes:
    """The lift of each rule with its interval, sorted; 1 is no relation."""
    ax = _axes(ax, rules)
    shown = list(rules)[:MOST_ROWS]
    if not shown:
        return _nothing(ax, "no rule is above noise")
    names = []
    for rule in shown:
        arrow = "↔" if len(rule.antecedent) == 1 and rule.antecedent[0][1] else "→"
        who = " and ".join(("" if held else "no ") + short(key) for key, held in rule.antecedent)
        names.append(f"{who} {arrow} {short(rule.consequent)}")
    _intervals(ax, [rule.lift for rule in shown], names)
    ax.axvline(1.0, color=ORANGE, lw=1.2)
    ax.set_xlabel("lift: times as often together as by chance; at the line there is no connection")
    more = f" (first {len(shown)} of {len(rules)})" if len(rules) > len(shown) else ""
    _heading(ax, f"Rules above noise{more}", rules.origin)
    return ax


def _nothing(ax: Any, words: str) -> Any:
    ax.text(0.5, 0.5, words, ha="center", va="center", color=GREY, transform=ax.transAxes)
    ax.set_axis_off()
    return ax


# -- trees -------------------------------------------------------------------------------------------


def draw_tree(tree: Learned, ax: Axes | None = None) -> Axes:
    """Questions as boxes, leaves with the share of each class, its interval and the share of people."""
    ax = _axes(ax, tree)
    leaves, depth = list(tree.root_.leaves()), _depth(tree.root_)
    _branch(ax, tree, tree.root_, 0.0, float(len(leaves)), 0, _scale(ax, *picture_size(tree)))
    ax.set_xlim(0, len(leaves))
    ax.set_ylim(-depth - 0.55, 0.45)
    ax.set_axis_off()
    guess = "" if tree.how_ == "view" else "\nBelow the first question a guess (maximum entropy)"
    _heading(ax, f"Who has {short(tree._classes.target)}?{guess}", tree.released_.interval_origin)
    return ax


def _depth(node: Learned) -> int:
    if node.yes is None or node.no is None:
        return 0
    return 1 + max(_depth(node.yes), _depth(node.no))


def _scale(ax: Any, width: float, height: float) -> float:
    """The size of letters on axes that may be smaller than a picture of its own, in inches."""
    box = ax.get_window_extent()
    inches = (box.width / ax.figure.dpi, box.height / ax.figure.dpi)
    return float(np.clip(min(1.5 * inches[0] / width, 1.35 * inches[1] / height), 0.3, 1.0))


def _branch(
    ax: Any, tree: Learned, node: Learned, left: float, right: float, level: int, scale: float
) -> float:
    """Draws a subtree between two places, and returns the place of its top."""
    if node.split is None or node.yes is None or node.no is None:
        _leaf(ax, tree, node, (left + right) / 2, -level, scale)
        return (left + right) / 2
    middle = left + len(list(node.yes.leaves()))
    children = [
        (_branch(ax, tree, node.yes, left, middle, level + 1, scale), "yes"),
        (_branch(ax, tree, node.no, middle, right, level + 1, scale), "no"),
    ]
    here = (children[0][0] + children[1][0]) / 2
    for place, answer in children:
        ax.plot([here, place], [-level, -level - 1], color=GREY, lw=1.2, zorder=1)
        box = {"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none"}
        middle_place = (here + place) / 2
        words = {"ha": "center", "va": "center", "fontsize": 8 * scale, "bbox": box}
        ax.text(middle_place, -level - 0.5, answer, **words)
    frame: dict[str, Any] = {"boxstyle": "round,pad=0.4", "fc": "white", "ec": BLUE, "lw": 1.4}
    question = f"{short(tree.released_.schema.keys[node.split.key])}\nis {node.split.words}?"
    middle_of = {"ha": "center", "va": "center", "fontsize": 9.5 * scale}
    ax.text(here, -level, question, bbox=frame, zorder=3, **middle_of)
    return here


def _leaf(ax: Any, tree: Learned, node: Learned, place: float, height: float, scale: float) -> None:
    lines = []
    for number, name in tree.told_classes():
        estimate = node.estimates[number]
        ends = f"\n[{estimate.low:.2f}, {estimate.high:.2f}]" if estimate.bounded else "\nnot bounded"
        lines.append(f"{name} {estimate.value:.2f}{ends}")
    lines.append(f"{100 * node.share:.0f} % of people")
    shade = _shade(node.law[-1] if len(node.law) == 2 else max(node.law))
    box = {"boxstyle": "round,pad=0.4", "fc": shade, "ec": GREY, "lw": 0.8}
    middle = {"ha": "center", "va": "center", "fontsize": 9 * scale}
    ax.text(place, height, "\n".join(lines), bbox=box, zorder=3, **middle)


def _shade(share: float) -> tuple[float, float, float]:
    """White for 0 to a pale blue for 1."""
    return 1.0 - 0.45 * share, 1.0 - 0.25 * share, 1.0 - 0.1 * share


# -- Bayes and Chow-Liu ------------------------------------------------------------------------------


def draw_bayes(bayes: Learned, ax: Axes | None = None) -> Axes:
    """For every key, how much each of its states changes the odds of the target's last class."""
    ax = _axes(ax, bayes)
    names = bayes.released_.names
    others = [key for key in bayes.by_strength() if key != bayes._classes.place]
    keys = others[:MOST_ROWS]
    rows = np.arange(len(keys))[::-1]
    votes = bayes.votes_[keys]
    # Odds of the last class against all others, whose factor follows from the prior.
    prior = bayes.class_prior_
    rest = (votes[:, :, :-1] @ prior[:-1]) / max(float(prior[:-1].sum()), 1e-12)
    odds = np.clip(votes[:, :, -1] / np.maximum(rest, 1e-12), 1e-2, 1e2)
    marks, colours = "osD^v<>P", (GREY, ORANGE, BLUE, "#009E73", "#CC79A7", "#E69F00")
    ax.hlines(rows, odds.min(axis=1), odds.max(axis=1), color="#cccccc", lw=2)
    for digit, name in enumerate(names):
        mark, colour = marks[digit % 8], colours[digit % 6]
        ax.plot(odds[:, digit], rows, label=name, marker=mark, color=colour, ms=6, ls="")
    ax.set_xscale("log")
    ax.set_xlim(min(0.5, float(odds.min()) / 1.2), max(2.0, float(odds.max()) * 1.2))
    plain_ticks(ax.xaxis, (1, 2, 5))
    ax.axvline(1.0, color=GREY, lw=1)
    keys_of = bayes.released_.schema.keys
    ax.set_yticks(rows, [short(keys_of[key]) for key in keys], fontsize=9)
    ax.set_ylim(-0.7, len(keys) - 0.3)
    lightly(ax, "x")
    target, state = short(bayes._classes.target), bayes._classes.names[-1]
    ax.set_xlabel(f"the odds that {target} is {state} are multiplied by")
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    ax.legend(title="if the key is", frameon=False, fontsize=8, title_fontsize=8, **place)
    more = f" (first {len(keys)} of {len(others)} keys)" if len(others) > len(keys) else ""
    _heading(ax, f"What each key says about {target}{more}", bayes.released_.origin)
    return ax


def draw_chow_liu(model: Learned, ax: Axes | None = None) -> Axes:
    """The keys below each other and lines between neighbours, as wide as their information."""
    ax = _axes(ax, model)
    names = model.released_.schema.keys
    if not model.edges_:
        return _nothing(ax, "no two keys are dependent beyond noise")
    placed = forest_places(len(names), model._places)
    where = {place.key: (place.column, -place.row) for place in placed}
    most = max(edge.information for edge in model.edges_)
    edges = {frozenset(p): edge for p, edge in zip(model._places, model.edges_, strict=True)}
    for place in placed:
        x, y = where[place.key]
        if place.parent >= 0:
            above = where[place.parent]
            edge = edges[frozenset((place.key, place.parent))]
            colour = BLUE if edge.lift >= 1 else ORANGE
            width = 1.0 + 6.0 * (edge.information / most) ** 0.5
            line = [above[0], above[0], x], [above[1], y, y]
            ax.plot(*line, lw=width, color=colour, alpha=0.55, zorder=1)
            box = {"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none"}
            words = f"{edge.information:.3f}"
            ax.text(x - 0.5, y, words, fontsize=7.5, ha="center", va="center", bbox=box)
        held = 1.0 - float(model.singles_[place.key][0])
        ax.scatter([x], [y], s=40 + 300 * held, color="white", edgecolor=GREY, lw=1.5, zorder=2)
        shift = (7 + 8 * held**0.5, 0)
        ax.annotate(short(names[place.key]), (x, y), shift, textcoords="offset points", va="center")
    lone = [short(name) for key, name in enumerate(names) if key not in where]
    if lone:
        more = f" and {len(lone) - 8} more" if len(lone) > 8 else ""
        words = f"without an edge: {', '.join(lone[:8])}{more}"
        ax.text(0, -len(placed), words, color=GREY, fontsize=8.5, va="center", wrap=True)
    ax.set_xlim(-0.3, max(column for column, _ in where.values()) + 2.2)
    ax.set_ylim(-len(placed) - 0.5, 0.6)
    ax.set_axis_off()
    against = any(edge.lift < 1 for edge in model.edges_)
    note = "; orange: less often together than by chance" if against else ""
    how = f"mutual information in nats; a larger circle has more holders{note}"
    _heading(ax, f"Which keys depend on each other\n{how}", model.released_.origin)
    return ax


# -- cubes -------------------------------------------------------------------------------------------


def draw_cube(cube: Learned, ax: Axes | None = None) -> Axes:
    """Two keys as a heat map with intervals; one key or several as intervals of all cells."""
    ax = _axes(ax, cube)
    cells = list(cube.cells())
    if len(cube.keys) == 2:
        return _heat_map(cube, cells, ax)
    shown = cells[:MOST_ROWS]
    single_key = len(cube.keys) == 1
    names = [
        ", ".join(f"{short(key)} {part}" if single_key else part for key, part in words.items())
        for words, _ in shown
    ]
    _intervals(ax, [share for _, share in shown], [name or "all" for name in names])
    if cube.how == "range":
        rows = np.arange(len(shown))[::-1]
        guesses = [cube.guess(words) for words, _ in shown]
        ax.plot(guesses, rows, "d", color=GREY, ms=4, label="guess (maximum entropy)")
        ax.legend(frameon=False, fontsize=8, loc="lower right")
    ax.set_xlim(left=0)
    ax.set_xlabel("share of all people")
    more = f" (first {len(shown)} of {len(cells)} cells)" if len(cells) > len(shown) else ""
    by = "" if single_key or not cube.keys else f"by {', '.join(map(short, cube.keys))}"
    _heading(ax, "\n".join([*wrap(_where(cube) + more, 72), *wrap(by, 72)]), cube.origin)
    return ax


def _heat_map(cube: Learned, cells: list[Any], ax: Any) -> Any:
    rows, columns = cube.keys
    row_parts = list(dict.fromkeys(words[rows] for words, _ in cells))
    column_parts = list(dict.fromkeys(words[columns] for words, _ in cells))
    values = np.full((len(row_parts), len(column_parts)), np.nan)
    for words, share in cells:
        place = row_parts.index(words[rows]), column_parts.index(words[columns])
        values[place] = share.value if isfinite(share.value) else cube.guess(words)
    image = ax.imshow(values, cmap="Blues", vmin=0.0, aspect="auto")
    for words, share in cells:
        i, j = row_parts.index(words[rows]), column_parts.index(words[columns])
        ends = f"\n[{share.low:.3f}, {share.high:.3f}]" if share.bounded else "\nnot bounded"
        value = f"{share.value:.3f}" if isfinite(share.value) else f"guess {values[i, j]:.3f}"
        colour = "white" if float(image.norm(values[i, j])) > 0.55 else "black"
        ax.text(j, i, value + ends, ha="center", va="center", fontsize=9, color=colour)
    ax.set_xticks(range(len(column_parts)), column_parts)
    ax.set_yticks(range(len(row_parts)), row_parts)
    ax.set_xlabel(short(columns))
    ax.set_ylabel(short(rows))
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    _heading(ax, _where(cube), cube.origin)
    return ax


def _where(cube: Learned) -> str:
    parts = [f"{short(key)} {part}" for key, part in cube.where.items()]
    return "Shares of all people" + (f", {', '.join(parts)}" if parts else "")
