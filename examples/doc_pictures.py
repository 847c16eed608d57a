"""Pictures of README and docs that are no screenshots: ``python examples/doc_pictures.py [NAME ...]``.

Without a name it draws all of them into docs/images: ``line``, ``odds``, ``gain``, and ``gallery``,
which runs the code of the gallery's pages and keeps its pictures. It needs ``keyveil[all]``; ``gain``
simulates for about ten minutes of processor time.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import sys
import tempfile
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.ticker import LogLocator, NullFormatter

from keyveil import Coins, MechanismComparison, People, Schema, compare, synthetic
from keyveil.cli.command import run

FOLDER = Path(__file__).parents[1] / "docs" / "images"
BLUE, ORANGE, GREEN, PINK, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#767676"
STEPS = (
    ("record", "Hamburger: 4 stars\nPepsi: 5 stars", "what a person\nordered", "encode"),
    ("state", "Pepsi: held, high", "one small part,\npicked by chance", "perturb"),
    ("report", "“Pepsi: not held”", "true or not:\nnobody can tell", "add"),
    ("tally", "5,235 not held\n3,567 low, 6,028 high", "counts of many\nreports", "estimate"),
    ("answers", "61 % hold Pepsi,\n[59 %, 63 %]", "shares and means\nwith intervals", ""),
)
"""Name, example and meaning of each thing on the line, and the step to the next; as in docs/tour.md."""
EPSILONS = ("0.5", "1", "2", "4")
GALLERY = {"data-scientist": ("cost", "answers", "matrix"), "privacy-engineer": ("beliefs",)}
"""The gallery's pages that make pictures, and the names of these."""
PEOPLE, KEYS, REPETITIONS = 100_000, 100, 40


def line() -> Figure:
    """The line from a record to answers, with one person's Pepsi as the example."""
    figure = Figure(figsize=(11, 2.9))
    panel = figure.add_axes((0, 0, 1, 1))
    panel.set(xlim=(0, 11), ylim=(0, 2.9))
    panel.axis("off")
    grounds = (
        (0.1, 6.35, "#E8F1F8", "on the person's device"),
        (6.55, 4.35, "#F3F3F3", "at the collector"),
    )
    for start, width, colour, words in grounds:
        panel.add_patch(Rectangle((start, 0.12), width, 2.66, color=colour, lw=0))
        panel.text(start + 0.12, 2.53, words, fontsize=10, color="#333333", va="center")
    for place, (name, example, meaning, step) in enumerate(STEPS):
        left = 0.25 + 2.16 * place
        ours = place < 3
        edge = BLUE if ours else GREY
        box = FancyBboxPatch(
            (left, 1.05), 1.66, 0.95, boxstyle="round,pad=0.03", fc="white", ec=edge, lw=1.6
        )
        panel.add_patch(box)
        panel.text(left + 0.83, 1.8, name, ha="center", va="center", fontsize=11, weight="bold")
        panel.text(left + 0.83, 1.38, example, ha="center", va="center", fontsize=8.5)
        panel.text(left + 0.83, 0.55, meaning, ha="center", va="center", fontsize=9, color="#333333")
        if step:
            ends = (left + 1.7, 1.52), (left + 2.13, 1.52)
            panel.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=12, color="#333333"))
            panel.text(left + 1.91, 2.2, step, ha="center", fontsize=8.5, style="italic")
    return figure


def odds() -> Figure:
    """What one report can do to a belief: before and after, for four epsilons."""
    figure = Figure(figsize=(7.2, 4.4))
    panel = figure.add_subplot()
    before = np.linspace(0, 1, 401)
    for epsilon, colour in ((0.5, GREEN), (1, BLUE), (2, ORANGE), (4, PINK)):
        after = before * exp(epsilon) / (before * exp(epsilon) + 1 - before)
        panel.plot(before, after, color=colour, lw=2, label=f"epsilon {epsilon:g}")
        half = exp(epsilon) / (exp(epsilon) + 1)
        panel.plot(0.5, half, "o", color=colour, ms=5)
        panel.annotate(f"{half:.0%}", (0.5, half), (8, -11), textcoords="offset points")
    panel.plot([0, 1], [0, 1], color=GREY, ls=":", label="nothing learned")
    panel.set(xlim=(0, 1), ylim=(0, 1), xlabel="belief before the report: “she ordered Pepsi”")
    panel.set_ylabel("the highest belief possible after it")
    panel.set_title(
        "What one report can do to a belief about the person who sent it", loc="left", fontsize=11
    )
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(lambda share, _: f"{share:.0%}")
    _finish(panel)
    panel.legend(frameon=False, loc="lower right")
    figure.tight_layout()
    return figure


def crowd() -> tuple[Schema, People]:
    """20,000 people and 100 keys whose frequencies fall from 45 % to 2 %; values are 1 to 5."""
    draw = Coins.stated("pictures of the docs").generator()
    share = 0.45 * (1 + np.arange(KEYS)) ** -0.7
    who, key = np.nonzero(draw.random((20_000, KEYS)) < share)
    liking = draw.uniform(1.8, 4.4, KEYS)[key] + draw.normal(0, 0.8, len(key))
    schema = Schema.of(KEYS, 1, 5)
    return schema, People.of_rows(schema, who, key, np.clip(liking, 1, 5))


def dishes() -> tuple[Schema, People]:
    """The orders of ``keyveil.synthetic``."""
    table = synthetic.orders(20_000)
    keys = sorted(set(table["dish"].tolist()))
    places = np.searchsorted(keys, table["dish"])
    none = np.setdiff1d(np.arange(20_000), table["guest"])
    schema = Schema.of(keys, 1, 5)
    return schema, People.of_rows(
        schema,
        np.concatenate([table["guest"], none]),
        np.concatenate([places, np.full(len(none), -2)]),
        np.concatenate([table["rating"], np.zeros(len(none))]).astype(float),
    )


def gain() -> Figure:
    """Measured error of published mechanisms and of what keyveil takes, at equal true epsilon."""
    common: dict[str, Any] = {
        "epsilon": EPSILONS,
        "people": PEOPLE,
        "repeat": REPETITIONS,
        "progress": False,
        "calibrate": "tight",
        "coins": Coins.stated("gain"),
    }
    schema, people = crowd()
    published = {"privkv": "PrivKV", "kvue": "KVUE", "pckv_ue": "PCKV-UE", "pckv_grr": "PCKV-GRR"}
    keys = compare(people, schema=schema, mechanisms=[*published, "auto"], told="nothing", **common)
    schema, people = dishes()
    pairs = compare(
        people, schema=schema, mechanisms=["ioh", "auto"], conditional=2, told="nothing", **common
    )
    figure = Figure(figsize=(11, 3.9))
    panels = figure.subplots(1, 3)
    _curves(panels[0], keys, "frequency", published, "Share of people who hold a key\n(100 keys)")
    _curves(panels[1], keys, "mean", published, "Mean of a key's values, 1 to 5\n(100 keys)")
    _curves(
        panels[2],
        pairs,
        "conditional_frequency",
        {"ioh": "IOH"},
        "Share of a dish given another\n(5 dishes)",
    )
    panels[0].set_ylabel("root mean squared error")
    title = (
        f"{PEOPLE:,} people, equal true epsilon; average of {REPETITIONS} runs, bars: two standard "
        "errors; lower is better"
    )
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    figure.tight_layout()
    return figure


def _curves(
    panel: Any, result: MechanismComparison, statistic: str, published: dict[str, str], title: str
) -> None:
    """The error of each mechanism with the best of its estimators, against epsilon."""
    colours = dict(
        zip([*published, "auto"], (GREEN, ORANGE, PINK, GREY, BLUE)[-len(published) - 1 :], strict=True)
    )
    for name, colour in colours.items():
        errors, bars = zip(
            *(_root_error(result, name, epsilon, statistic) for epsilon in EPSILONS), strict=True
        )
        look = {"lw": 2.4, "marker": "o"} if name == "auto" else {"lw": 1.4, "marker": "s", "ms": 4}
        panel.errorbar(
            [float(e) for e in EPSILONS],
            errors,
            yerr=bars,
            elinewidth=1.2,
            color=colour,
            label=published.get(name, "keyveil"),
            **look,
        )
    panel.set(xscale="log", yscale="log", xlabel="epsilon")
    panel.set_xticks([float(e) for e in EPSILONS], labels=EPSILONS)
    panel.set_xticks([], minor=True)
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_title(title, loc="left", fontsize=10)
    panel.legend(frameon=False, fontsize=8)
    _finish(panel)


def _root_error(
    result: MechanismComparison, name: str, epsilon: str, statistic: str
) -> tuple[float, float]:
    """Root mean squared error of a mechanism's best estimator, and two standard errors of it."""
    member, found = f"mse_{statistic}", []
    for row in result.rows:
        of = row["mechanism"].split(":")[0] == name and float(row["epsilon"]) == float(epsilon)
        if of and row[member] is not None:
            found.append((row[member], row[f"{member}_se"]))
    if not found:
        return np.nan, np.nan
    squared, error = min(found)
    return squared**0.5, error / squared**0.5


def _finish(panel: Any) -> None:
    panel.grid(color="#dddddd", lw=0.6)
    panel.spines[["top", "right"]].set_visible(False)


def gallery() -> None:
    """Run the commands and calls of the gallery's pages, and keep the pictures that they make."""
    for reader, pictures in GALLERY.items():
        page = (FOLDER.parent / f"{reader}.md").read_text()
        names: dict[str, Any] = {}
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for language, code in re.findall(r"^```(console|python)\n(.*?)^```$", page, re.M | re.S):
                if language == "python":
                    exec(code, names)
                else:
                    for line in code.splitlines():
                        assert run(shlex.split(line.removeprefix("$ keyveil "))) == 0, line
            for name in pictures:
                shutil.copy(f"{name}.png", FOLDER / f"gallery-{name}.png")


def main() -> None:
    """Draw the named pictures, or all."""
    pictures = {"line": line, "odds": odds, "gain": gain}
    for name in sys.argv[1:] or [*pictures, "gallery"]:
        if name == "gallery":
            gallery()
            continue
        pictures[name]().savefig(FOLDER / f"{name}.png", dpi=130, metadata={"Software": None})
        print(FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
