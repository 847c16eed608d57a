"""``keyveil compare``: what local privacy would cost on a table of one's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..foundation.coins import Coins
from ..foundation.errors import PlanError
from ..foundation.exact import epsilon_of, text
from ..foundation.files import write_whole
from ..mechanisms import mechanism_named
from ..mechanisms.mechanism import CALIBRATIONS
from ..people.population import Population
from ..people.prior import Prior
from ..people.scale import Scale
from ..people.schema import Schema
from ..planner.competitor import parse_competitor
from ..simulate.contest import AUTO, Contest, all_competitors
from ..simulate.contest_row import on_scale
from ..simulate.parallel import ContestResult, measure
from .arguments import NO_RANGE, RANGE, read_count, read_range
from .output import counted, print_table, progress
from .output_files import OUTPUT, PICTURE, writes_files

if TYPE_CHECKING:
    from ..people.tables.top_keys import Read

POPULATIONS = {
    "gaussian": "gaussian",
    "uniform": "uniform",
    "pckv-uu": "pckv_uniform",
    "pckv-gg": "pckv_gaussian",
}
"""Stated populations by name, and what makes them."""
ALL = "all"
PARTS = ("frequency", "mean")
SHORT = {"squared": "MSE", "absolute": "MAE"}
"""Errors that can be shown, and what they are called in tables and JSON."""
MANY_OUTSIDE = 0.2
"""From this share of clipped values on, the range itself is doubted."""


@click.command()
@click.option("--data", type=click.Path(), help="A table of people, keys and values.")
@click.option(
    "--population",
    "made_up",
    type=click.Choice(POPULATIONS),
    help="Without a table: the paper's populations, or PCKV's.",
)
@click.option("--person", default="person", show_default=True)
@click.option("--key", default="key", show_default=True)
@click.option("--value", default="value", show_default=True)
@click.option("--range", "ends", help=f"LOW,HIGH; values outside are clipped.  [default: {RANGE}]")
@click.option(
    "--top", type=int, help="Only the keys that most people hold.  [default: 100; conditional: 8]"
)
@click.option("--people", default="100000", show_default=True, help="People to simulate, like 1e6.")
@click.option(
    "--mechanism",
    help="Names with commas between, or all; graded:levels=5 sets a parameter, pairs:grr names the "
    "channel.  [default: kvue,pckv_ue,auto; conditional: ioh,auto]",
)
@click.option("--epsilon", default="1", show_default=True, help="Epsilons with commas between.")
@click.option("--repeat", default=20, show_default=True, help="Repetitions.")
@click.option("--conditional", "order", type=int, help="Keys together: 2 asks k given c.")
@click.option(
    "--calibrate",
    type=click.Choice(CALIBRATIONS),
    help="tight: equal true epsilon; paper: as published, which may prove less.  [default: tight; "
    "conditional: paper]",
)
@click.option("--estimator", help="Only these estimators, with commas between.")
@click.option(
    "--error",
    type=click.Choice(list(SHORT)),
    default="squared",
    show_default=True,
    help="The error that the table and the picture show; --json has both.",
)
@click.option(
    "--prior",
    type=click.Choice(["table", "default", "pilot"]),
    default="table",
    show_default=True,
    help="What the planner believes: the table itself, nothing of it, or how many keys are held as a "
    "pilot of a few of the people tells, one in each repetition.",
)
@click.option("--processes", type=int, help="Processes to use.  [default: one for each core]")
@click.option("--coins", "stated", metavar="KEY", help="Repeat a run: coins from a stated key.")
@click.option("--plot", type=PICTURE, help="Also draw error against epsilon.")
@click.option("--json", "output", type=OUTPUT, help="Also write the rows as JSON.")
@writes_files
def compare(
    data: str | None,
    made_up: str | None,
    person: str,
    key: str,
    value: str,
    ends: str | None,
    top: int | None,
    people: str,
    mechanism: str | None,
    epsilon: str,
    repeat: int,
    order: int | None,
    calibrate: str | None,
    estimator: str | None,
    error: str,
    prior: str,
    processes: int | None,
    stated: str | None,
    plot: str | None,
    output: str | None,
) -> None:
    """Error and interval coverage of mechanisms, side by side, on your own table.

    Frequency and mean of every key; with --conditional, of every key given others.
    """
    low, high = read_range(ends or RANGE)
    if low >= high:
        raise PlanError("a range is LOW,HIGH with LOW below HIGH")
    if data is None and made_up is None:
        raise click.UsageError("compare needs --data TABLE or --population NAME")
    if data is not None and made_up is not None:
        raise click.UsageError("compare takes --data or --population, not both")
    number, most = read_count(people, "people"), top if top is not None else (8 if order else 100)
    for name, given in (("repeat", repeat), ("top", most), ("processes", processes)):
        if given is not None and given < 1:
            raise PlanError(f"--{name} must be at least 1, not {given}")
    names = read_mechanisms(mechanism or ("ioh,auto" if order else "kvue,pckv_ue,auto"))
    asked, epsilons = read_estimators(estimator), read_epsilons(epsilon)
    if order and ALL in names:
        raise PlanError("--mechanism all is for single keys; name mechanisms for conditionals")
    if order and prior == "pilot":
        raise PlanError("--prior pilot is for single keys; a pilot does not tell what goes together")
    if data is not None:
        from ..people.tables.top_keys import read_top

        read = read_top(data, person, key, value, (float(low), float(high)), most)
        _tell(read, ends)
        population = Population(Schema.of(read.keys, low, high), read.people).on_unit_scale()
    else:
        population = stated_population(str(made_up), most)
    if repeat == 1:
        _note("one repetition has no standard error; --repeat 20 tells how far figures can be trusted")
    coins = Coins.secure() if stated is None else Coins.stated(stated)
    keys = len(population.schema.keys)
    believed = Prior.of(keys) if prior == "default" else None
    with progress("comparing") as moved:
        contest = Contest(
            population,
            number,
            repeat,
            coins,
            calibrate or ("paper" if order else "tight"),
            asked,
            believed,
            pilot=prior == "pilot",
            keys_together=order or None,
        )
        found = measure(
            contest,
            expanded(names, keys),
            epsilons,
            lenient=ALL in names,
            processes=processes,
            on_progress=moved,
        )
        _tell_skipped(found)
    scale = Scale(float(low), float(high)) if data is not None else Scale()
    documents = [on_scale(row.document(), scale) for row in found.rows]
    if output:
        body = json.dumps(documents, indent=2, ensure_ascii=False, allow_nan=False)
        write_whole(Path(output), body.encode())
    if plot:
        from ..plot import plot_rows

        plot_rows(documents, plot, error, bool(order) or (asked is not None and len(asked) > 1))
    print_table(
        _headings(error),
        [_cells(row, error) for row in documents],
        f"{counted(keys, 'key')}, {counted(number, 'person', 'people')}, "
        f"{counted(repeat, 'repetition')}, means {scale}",
    )
    for line in footnotes(documents):
        click.echo(line)


def stated_population(name: str, keys: int) -> Population:
    """One of the populations that are stated by their laws, as a table of people."""
    from ..people import synthetic as populations

    made = getattr(populations, POPULATIONS[name])(keys)
    return Population(made.schema, made.people)


def _note(words: str) -> None:
    """One line on the error stream."""
    click.echo(words, err=True)


def _tell(read: Read, ends: str | None) -> None:
    """What was assumed and done to the table's rows, on the error stream: how many, never which."""
    if ends is None:
        _note(NO_RANGE)
    held = len(read.people.values) + read.twice
    if read.outside:
        said = f"{read.outside:,} of {held:,} values lay outside {ends or RANGE} and were clipped to it"
        if read.outside > MANY_OUTSIDE * held:
            said += f", {read.outside / held:.0%} of all: is this the range (--range) that they are on?"
        _note(said)
    if read.unknown:
        count = "counts" if read.unknown == 1 else "count"
        _note(f"{counted(read.unknown, 'row')} had no number as value and {count} as not held")
    if read.twice:
        said = "named a key that the person already had; the first of them counts"
        _note(f"{counted(read.twice, 'row')} {said}")


def _tell_skipped(found: ContestResult) -> None:
    """Which mechanisms and estimators were asked for and are not there."""
    for name in dict.fromkeys(name for name, _ in found.skipped):
        reason = next(why for (each, _), why in found.skipped.items() if each == name)
        epsilons = [epsilon for each, epsilon in found.skipped if each == name]
        there = any(row.mechanism == name for row in found.rows)
        where = f" at epsilon {', '.join(epsilons)}" if there else ""
        _note(f"{name} is left out{where}: {reason}")
    for estimator in dict.fromkeys(e for row in found.rows for e in row.skipped):
        without = dict.fromkeys(_named(r.document()) for r in found.rows if estimator in r.skipped)
        _note(f"estimator {estimator} is left out where there is none: {', '.join(without)}")


def read_mechanisms(words: str) -> list[str]:
    """Mechanisms with commas between, each once and known before the first is run."""
    names = list(dict.fromkeys(name.strip() for name in words.split(",") if name.strip()))
    if not names:
        raise PlanError("name at least one mechanism, like --mechanism kvue,auto")
    for name in names:
        own = name.partition(":")[0]
        if name not in ("auto", ALL):
            mechanism_named(own, "auto", ALL)
    return names


def expanded(names: list[str], keys: int) -> list[str]:
    """The names with every mechanism in the place of ``all``; the planner's choice last."""
    made = dict.fromkeys(n for name in names for n in (all_competitors(keys) if name == ALL else [name]))
    if ALL in names:
        del made["auto"]
        made["auto"] = None
    return list(made)


def read_estimators(words: str | None) -> tuple[str, ...] | None:
    """Estimators with commas between; None where none is named."""
    if words is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in words.split(",") if name.strip()))
    if not names:
        raise PlanError("name at least one estimator, like --estimator shrunk")
    return names


def read_epsilons(words: str) -> list[str]:
    """Epsilons with commas between."""
    parts = [part.strip() for part in words.split(",")]
    if not any(parts):
        raise PlanError("give at least one epsilon, like --epsilon 0.5,1,2")
    if not all(parts):
        raise PlanError("an epsilon is missing beside a comma; write them like --epsilon 0.5,1,2")
    return [text(epsilon_of(part)) for part in parts]


def _headings(error: str) -> list[str]:
    short = SHORT[error]
    each = [[f"{short} {of}", *(["predicted"] if short == "MSE" else [])] for of in PARTS]
    return ["mechanism", "estimator", "epsilon", "true", *each[0], *each[1], "coverage f, m"]


def _named(row: dict[str, Any]) -> str:
    """A mechanism with its parameters; ``auto`` with the mechanism that it stood for."""
    name, chosen = row["mechanism"], row["chosen"]
    taken, parameters = parse_competitor(chosen)
    if name == AUTO:
        return f"{name} ({taken})"
    return str(chosen if len(parameters) > len(parse_competitor(name)[1]) else name)


def _cells(row: dict[str, Any], error: str) -> list[str]:
    part = "conditional_" if "mse_conditional_frequency" in row else ""
    name, cells = SHORT[error].lower(), []
    for of in PARTS:
        cells.append(_with_error(row[f"{name}_{part}{of}"], row[f"{name}_{part}{of}_se"]))
        if name == "mse":
            cells.append(_with_error(row[f"predicted_{part}{of}"], None))
    coverage = [_coverage(row[f"coverage_{of}"], row[f"bounded_{of}"]) for of in PARTS]
    if row.get("bias_from_cap") and any(row[f"coverage_{of}"] is not None for of in PARTS):
        coverage[-1] += " *"
    return [
        _named(row),
        row["estimator"],
        f"{row['epsilon']:g}",
        f"{row['true_epsilon']:.4f}",
        *cells,
        ", ".join(coverage),
    ]


def _with_error(value: float | None, error: float | None) -> str:
    """An error with its own standard error in per cent."""
    if value is None:
        return "-"
    if error is None or not value:
        return f"{value:.2e}"
    share = 100 * error / value
    return f"{value:.2e} ±{share:.{0 if share >= 1 else 1}f}%"


def _coverage(coverage: float | None, bounded: float | None) -> str:
    if coverage is None or bounded is None:
        return "-"
    return f"{coverage:.1%}" + (f" of {_share(bounded)}" if bounded < 1 else "")


def _part(share: float) -> str:
    """A small share in per cent."""
    return f"{share:.2g}" if share < 1e-4 else f"{share:.2%}".replace(".00%", "%")


def _share(share: float) -> str:
    """A share in per cent that says neither none nor all where it is not."""
    if 0 < share < 0.01:
        return "<1%"
    return ">99%" if 0.99 < share < 1 else f"{share:.0%}"


def footnotes(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What a reader of the table must know, of what is in it."""
    lines = []
    took = {f"{row['epsilon']:g}": row["chosen"] for row in rows if row["mechanism"] == "auto"}
    if any(":" in chosen for chosen in took.values()):
        told = "; ".join(f"{chosen} at epsilon {epsilon}" for epsilon, chosen in took.items())
        scaled = any(Scale.parse(row.get("mean_scale")) != Scale() for row in rows)
        of_values = scaled and any(f"{name}=" in told for name in ("spread", "mean"))
        own = " (parameters are the plan's own: spread and mean on [-1, 1])" if of_values else ""
        lines.append(f"auto took {told}{own}.")
    piloted = {row["epsilon"]: row for row in rows if row.get("pilot") is not None}
    if piloted:
        asked = [row["pilot"] for row in piloted.values()]
        least, most = _part(min(asked)), _part(max(asked))
        lines.append(
            f"In each repetition {least if least == most else f'{least} to {most}'} of the people were "
            "asked first how many keys they hold, and auto is what the planner then took for the others"
            + (
                "; where not always the same, what it took most often."
                if any(len(row["choices"]) > 1 for row in piloted.values())
                else "."
            )
        )
    planners: dict[str, list[str]] = {}
    for epsilon, estimator in {
        row["epsilon"]: row["planner_estimator"] for row in rows if row.get("planner_estimator")
    }.items():
        planners.setdefault(estimator, []).append(f"{epsilon:g}")
    if planners:
        named = "; ".join(f"{name} at epsilon {', '.join(at)}" for name, at in planners.items())
        lines.append(
            f"The planner's estimator: {named}. Rows with the same estimator compare mechanisms alone."
        )
    refused = list(dict.fromkeys(f"{row['epsilon']:g}" for row in rows if row.get("refused")))
    if refused:
        lines.append(
            f"At epsilon {', '.join(refused)} the planner would refuse, because no plan can answer: "
            "auto is what keyveil plan --anyway makes."
        )
    if any(row["repetitions"] > 1 for row in rows):
        lines.append("± is the standard error over repetitions.")
    if any((row[f"bounded_{of}"] or 1) < 1 for row in rows for of in PARTS):
        lines.append(
            "Coverage is of bounded intervals; 'of 83%' says how many were, where not all. "
            "An unbounded one says that the data cannot tell."
        )
    left: dict[str, list[float]] = {}
    for row in rows:
        if row.get("bias_from_cap"):
            left.setdefault(row["mechanism"], []).append(row["left_out"])
    if left:
        shares = (
            f"{name} {' to '.join(dict.fromkeys(_share(share) for share in (min(of), max(of))))}"
            for name, of in left.items()
        )
        lines.append(
            "* Some people hold more keys than these count: frequencies lie below the truth, means are "
            "of the keys that are kept, and intervals do not know of it, so that coverage falls. Left "
            "out of all that is held: "
            f"{', '.join(shares)}."
        )
    return lines
