"""Cost curves: time and memory against people, keys, views and epsilon; and what whole commands cost.

Each point is a fresh process of one thread. Times are processor time, memory is the peak of the process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from keyveil import Coins, Plan, Schema, Tally, synthetic
from keyveil.plot.style import LINES, MARKS, grid_of, lightly, log_axis, save_figure
from keyveil.simulate.speed.stopwatch import PEAK, process_cost, python
from keyveil.simulate.speed.timed_people import one_each
from keyveil.simulate.tallies import simulate

from .table import DOCS, Outcome, Table, rows

PICTURE = DOCS.parent / "images" / "cost.png"
CHUNK = 100_000
Point = dict[str, Any]

PEOPLE = {"kvue": (4, 5, 6, 7, 8), "collision": (4, 5, 6, 7), "rappor": (4, 5, 6, 7)}
"""Powers of ten by mechanism: those that take long end earlier."""
KEYS = (10, 100, 1_000, 10_000, 100_000)
VIEWS = (10, 32, 100, 200)
EPSILONS = (0.1, 0.5, 1, 2, 5)
COMMANDS = {
    "plan --mechanism auto, 10 keys": "plan --keys 10 {auto}",
    "plan --mechanism auto, 100 keys": "plan --keys 100 {auto}",
    "plan --mechanism auto, 1,000 keys": "plan --keys 1000 {auto}",
    "the same, told --held 10": "plan --keys 1000 --held 10 {auto}",
    "compare, 1e5 people": "compare --people 1e5 {compare}",
    "compare, 1e8 people": "compare --people 1e8 {compare}",
    "compare with collision and the planner": "compare --people 1e6 {compare},collision,auto",
    "reproduce --quick": "reproduce --quick --output {folder}/quick",
    "reproduce": "reproduce --output {folder}/whole",
}
WORDS = {
    "auto": "--range 1,5 --epsilon 1 --mechanism auto --people 1e6 --anyway "
    "-o {folder}/plan.json --force",
    "compare": "--population gaussian --repeat 20 --epsilon 1 --mechanism privkv,kvue",
}
WHY = {
    "plan": "It forecasts some thirty plans in closed form under each belief about how many keys people "
    "hold, and simulates the best of them with the default estimator; both take about as long. Told "
    "`--held` it takes as long.",
    "compare": "A repetition is a few draws from the law of the counts, so people cost nothing. Reports "
    "about whole sets have no such law, so people are drawn and averaged into one; and `auto` plans for "
    "the table, for one round and for a pilot.",
    "reproduce": "About two thirds of it are one line of Fig. 1, by a sample of its settings: the "
    "planner chooses a plan for each of 66, which takes 1 to 4 s with its errors, and they differ in "
    "what is known, so they share little. The conditionals of Fig. 6 take about a fifth. `--quick` has "
    "few of both.",
}


# -- in the fresh process ----------------------------------------------------------------------------


def _taken(work: Callable[[], Any]) -> tuple[float, Any]:
    began = process_time()
    result = work()
    return process_time() - began, result


def by_people(name: str, people: int) -> Point:
    """Seconds to privatise and tally people in chunks, and to simulate as many."""
    plan, coins = Plan.of(Schema.of(100), name, 1), Coins.secure()
    crowd, tally = one_each(min(people, CHUNK), 100), Tally(plan)
    plan.privatise(crowd[:2_000], coins)

    def add() -> None:
        for _ in range(0, people, CHUNK):
            tally.add(plan.privatise(crowd, coins))

    seconds, _ = _taken(add)
    world = synthetic.gaussian(100, Coins.stated("curves"))
    simulated = (
        _taken(lambda: simulate(plan, world, people, Coins.stated("x")))[0] if name == "kvue" else 0
    )
    return {"privatise": seconds, "simulate": simulated}


def by_keys(name: str, keys: int) -> Point:
    """Seconds to make a plan, of a person, and of an estimate."""
    making, plan = _taken(lambda: Plan.of(Schema.of(keys), name, 1))
    crowd, coins = one_each(CHUNK, min(keys, 60_000)), Coins.secure()
    plan.privatise(crowd[:2_000], coins)
    seconds, reports = _taken(lambda: plan.privatise(crowd, coins))
    tally = Tally(plan).add(reports)
    return {"plan": making, "person": seconds / CHUNK, "estimate": _taken(tally.estimate)[0]}


def by_views(name: str, keys: int) -> Point:
    """Seconds to make a plan of all pairs, of a person, and of the matrix."""
    making, plan = _taken(lambda: Plan.of(Schema.of(keys), name, 1))
    crowd, coins = one_each(CHUNK, keys), Coins.secure()
    plan.privatise(crowd[:2_000], coins)
    seconds, reports = _taken(lambda: plan.privatise(crowd, coins))
    tally = Tally(plan).add(reports)
    matrix = _taken(lambda: tally.conditionals().matrix("frequency"))[0]
    facts = {"views": len(plan.views), "plan": making, "person": seconds / CHUNK}
    return {**facts, "estimate": _taken(tally.estimate)[0], "matrix": matrix}


def by_epsilon(name: str, epsilon: float) -> Point:
    """Seconds of a person."""
    plan, coins = Plan.of(Schema.of(100), name, str(epsilon)), Coins.secure()
    crowd = one_each(CHUNK, 100)
    plan.privatise(crowd[:2_000], coins)
    return {"person": min(_taken(lambda: plan.privatise(crowd, coins))[0] for _ in range(3)) / CHUNK}


CURVES: dict[str, Callable[[str, Any], Point]] = {
    "people": by_people,
    "keys": by_keys,
    "views": by_views,
    "epsilon": by_epsilon,
}


# -- all points --------------------------------------------------------------------------------------


def _points(quick: bool) -> Iterator[tuple[str, str, float]]:
    """Curve, mechanism and place of every point."""
    for name, powers in PEOPLE.items():
        yield from (("people", name, 10**power) for power in powers if power < 7 or not quick)
    for name in ("kvue", "rappor"):
        most = 1_000 if quick else 100_000 if name == "kvue" else 10_000
        yield from (("keys", name, keys) for keys in KEYS if keys <= most)
    yield from (("views", "pairs", keys) for keys in VIEWS if keys <= (32 if quick else 200))
    for name in ("kvue", "rappor", "collision"):
        yield from (("epsilon", name, epsilon) for epsilon in EPSILONS)


def run(quick: bool) -> Outcome:
    """The tables of cost; a whole run also draws its picture."""
    figures: dict[str, list[Point]] = {curve: [] for curve in CURVES}
    for curve, name, place in _points(quick):
        code = f"from bench.curves import child\nchild({curve!r}, {name!r}, {place!r})\n" + PEAK
        _, output = process_cost(python(code))
        result, peak = output.splitlines()[-2:]
        figures[curve].append(
            {"mechanism": name, "at": place, **json.loads(result), "MiB": int(peak) / 1024}
        )
        print(f"{curve} {name} {place}", file=sys.stderr)
    costs = list(_commands(quick))
    if not quick:
        draw(figures)
    tables = (*_tables(figures), _command_table(costs))
    return Outcome("curves", tables, {**figures, "commands": costs})


def child(curve: str, name: str, place: float) -> None:
    """Print a point as JSON; called in a fresh process. Compiled loops are used from the beginning."""
    os.environ["KEYVEIL_FAST"] = "1"
    print(json.dumps(CURVES[curve](name, place)))


def _commands(quick: bool) -> Iterator[Point]:
    """Processor time of whole commands."""
    with TemporaryDirectory() as folder:
        for title, line in COMMANDS.items():
            if quick and ("1,000" in title or "told" in title or title == "reproduce"):
                continue
            words = line.format(**WORDS, folder=folder).format(folder=folder).split()
            seconds, _ = process_cost([str(Path(sys.executable).parent / "keyveil"), *words])
            print(title, f"{seconds:.1f} s", file=sys.stderr)
            yield {"command": title, "seconds": seconds}


# -- tables and the picture --------------------------------------------------------------------------


def _tables(figures: dict[str, list[Point]]) -> Iterator[Table]:
    lines = [
        (
            f"{p['at']:,.0f}",
            p["mechanism"],
            _short(p["privatise"]),
            _short(p["simulate"]),
            f"{p['MiB']:.0f}",
        )
        for p in figures["people"]
    ]
    heads = ("people", "mechanism", "privatise and tally", "simulate", "peak MiB")
    yield Table("Against people, 100 keys, epsilon 1", heads, rows(lines))
    lines = [
        (f"{p['at']:,}", p["mechanism"], *_cells(p, "plan", "person", "estimate"))
        for p in figures["keys"]
    ]
    heads = ("keys", "mechanism", "make the plan", "a person", "estimate", "peak MiB")
    yield Table("Against keys, 100,000 people who hold one, epsilon 1", heads, rows(lines))
    lines = [
        (f"{p['views']:,} of {p['at']} keys", *_cells(p, "plan", "person", "estimate", "matrix"))
        for p in figures["views"]
    ]
    heads = ("views", "make the plan", "a person", "estimate", "conditional matrix", "peak MiB")
    yield Table("Against views: all pairs of keys, 100,000 people", heads, rows(lines))
    names = list(dict.fromkeys(p["mechanism"] for p in figures["epsilon"]))
    by_place = {(p["at"], p["mechanism"]): _short(p["person"]) for p in figures["epsilon"]}
    lines = [(f"{e:g}", *(by_place[e, name] for name in names)) for e in EPSILONS]
    yield Table("A person against epsilon, 100 keys", ("epsilon", *names), rows(lines))


def _command_table(costs: list[Point]) -> Table:
    lines = [(p["command"], _short(p["seconds"])) for p in costs]
    return Table(
        "Whole commands, processor time of all their processes",
        ("command", "time"),
        rows(lines),
        " ".join(f"`{name}`: {why}" for name, why in WHY.items()),
    )


def _cells(point: Point, *names: str) -> list[str]:
    """Times of a point, and its memory."""
    return [*(_short(point[name]) for name in names), f"{point['MiB']:.0f}"]


def _short(seconds: float) -> str:
    if not seconds:
        return ""
    for size, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def draw(figures: dict[str, list[Point]]) -> None:
    """Four panels: time on the left, memory as dashed lines on an axis of its own."""
    figure, panels = grid_of(PICTURE, 2, 11, 8, 2)
    shown = {
        "people": ("privatise", "seconds to privatise and tally"),
        "keys": ("estimate", "seconds for an estimate"),
        "views": ("matrix", "seconds for the conditional matrix"),
        "epsilon": ("person", "nanoseconds to privatise one person"),
    }
    for panel, (curve, (what, title)) in zip(panels.flat, shown.items(), strict=True):
        other = panel.twinx() if curve != "epsilon" else None
        for number, name in enumerate(dict.fromkeys(p["mechanism"] for p in figures[curve])):
            own = [p for p in figures[curve] if p["mechanism"] == name]
            at = [p["views"] if curve == "views" else p["at"] for p in own]
            look = {"color": LINES[number], "marker": MARKS[number], "ms": 5}
            scale = 1e9 if what == "person" else 1
            panel.plot(at, [scale * p[what] for p in own], label=name, **look)
            if other is not None:
                other.plot(at, [p["MiB"] for p in own], ls="--", lw=1, **look, mfc="white")
        log_axis(panel, "x")
        log_axis(panel, "y")
        panel.set_xlabel(curve)
        panel.set_title(title, loc="left", fontsize=10)
        lightly(panel)
        panel.legend(frameon=False, fontsize=8, loc="lower right" if other else (0.02, 0.42))
        if other is not None:
            other.set_ylim(0, 1.15 * max(p["MiB"] for p in figures[curve]))
            other.set_ylabel("peak MiB (dashed)", fontsize=8)
            other.spines["top"].set_visible(False)
    figure.suptitle(
        "What it costs: one core, one process for each point", x=0.01, ha="left", fontsize=12
    )
    figure.tight_layout(rect=(0, 0, 1, 0.98))
    save_figure(figure, PICTURE)
