"""``keyveil compare``: what local privacy would cost on a table of one's own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from ..coins import Coins
from ..comparison import Row as ConditionalRow
from ..comparison import compare_conditionals
from ..errors import PlanError, TableError
from ..exact import epsilon_of, text
from ..files import write_whole
from ..measure import Contest, Row, everything, measure
from ..mechanism import CALIBRATIONS
from ..mechanisms import mechanism_named
from ..people import People
from ..prior import Prior
from ..schema import Schema
from ..simulate import Population
from .make import read_count, read_range
from .show import print_table, progress

POPULATIONS = {
    "gaussian": "gaussian",
    "uniform": "uniform",
    "pckv-uu": "pckv_uniform",
    "pckv-gg": "pckv_gaussian",
}
"""Stated populations by name, and what makes them."""


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
@click.option(
    "--range", "ends", default="-1,1", show_default=True, help="LOW,HIGH; values outside are clipped."
)
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
    default="tight",
    show_default=True,
    help="tight: equal true epsilon; paper: as published, which may prove less.",
)
@click.option("--estimator", help="Only these estimators, with commas between.")
@click.option(
    "--prior",
    type=click.Choice(["table", "default"]),
    default="table",
    show_default=True,
    help="What the planner believes: the table itself, or nothing of it.",
)
@click.option("--processes", type=int, help="Processes to use.  [default: one for each core]")
@click.option("--coins", "stated", metavar="KEY", help="Repeat a run: coins from a stated key.")
@click.option("--plot", type=click.Path(), help="Also draw error against epsilon.")
@click.option("--json", "output", type=click.Path(), help="Also write the rows as JSON.")
def compare(
    data: str | None,
    made_up: str | None,
    person: str,
    key: str,
    value: str,
    ends: str,
    top: int | None,
    people: str,
    mechanism: str | None,
    epsilon: str,
    repeat: int,
    order: int | None,
    calibrate: str,
    estimator: str | None,
    prior: str,
    processes: int | None,
    stated: str | None,
    plot: str | None,
    output: str | None,
) -> None:
    """Error and interval coverage of mechanisms, side by side, on your own table.

    Frequency and mean of every key; with --conditional, of every key given others.
    """
    low, high = read_range(ends)
    if low >= high:
        raise PlanError("a range is LOW,HIGH with LOW below HIGH")
    if (data is None) == (made_up is None):
        raise click.UsageError("compare needs --data TABLE or --population NAME")
    number, most = read_count(people, "people"), top if top is not None else (8 if order else 100)
    if repeat < 1 or most < 1 or (processes is not None and processes < 1):
        raise PlanError("repeat, top and processes must be at least 1")
    words = mechanism or ("ioh,auto" if order else "kvue,pckv_ue,auto")
    epsilons = read_epsilons(epsilon)
    if words.strip() == "all" and order:
        raise PlanError("--mechanism all is for single keys; name mechanisms for conditionals")
    names = [] if words.strip() == "all" else read_mechanisms(words)
    read = None
    if data is not None:
        read = read_top(data, person, key, value, (float(low), float(high)), most)
        population = Population(Schema.of(read.keys, low, high), read.people).on_unit_scale()
    else:
        population = stated_population(str(made_up), most)
    coins = Coins.secure() if stated is None else Coins.stated(stated)
    keys = len(population.schema.keys)
    rows: Sequence[Any]
    with progress("comparing") as moved:
        if order:
            schema = Schema.of(list(population.schema.keys))
            rows = list(
                compare_conditionals(
                    schema, population, names, epsilons, number, repeat, order, coins, moved
                )
            )
            skipped: dict[tuple[str, str], str] = {}
        else:
            contest = Contest(
                population,
                number,
                repeat,
                coins,
                calibrate,
                None if estimator is None else tuple(e.strip() for e in estimator.split(",")),
                None if prior == "table" else Prior.of(keys),
            )
            found = measure(
                contest,
                names or everything(keys),
                epsilons,
                lenient=not names,
                processes=processes,
                moved=moved,
            )
            rows, skipped = found.rows, found.skipped
    if read is not None:
        _tell(read, ends)
    for name in sorted({name for name, _ in skipped}):
        click.echo(
            f"{name} is left out: {next(v for k, v in skipped.items() if k[0] == name)}", err=True
        )
    if output:
        write_whole(Path(output), json.dumps([row.document() for row in rows], indent=2).encode())
    if plot:
        from ..plot import plot_rows

        plot_rows([row.document() for row in rows], plot)
    print_table(
        [
            *("mechanism", "estimator", "epsilon", "true", "MSE frequency", "predicted"),
            *("MSE mean", "predicted", "coverage f, m"),
        ],
        [_cells(row) for row in rows],
        f"{keys} keys, {number:,} people, {repeat} repetitions, on the [-1, 1] scale",
    )


def stated_population(name: str, keys: int) -> Population:
    """One of the populations that are stated by their laws, as a table of people."""
    from .. import populations

    made = getattr(populations, POPULATIONS[name])(keys)
    return Population(made.schema, made.people)


def _tell(read: Read, ends: str) -> None:
    """What was done to the table's rows, on the error stream: how many, never which."""
    held = len(read.people.values)
    if read.outside:
        said = f"{read.outside:,} of {held:,} values lay outside {ends} and were clipped to it"
        click.echo(said, err=True)
    if read.unknown:
        said = f"{read.unknown:,} rows had no number as value and count as not held"
        click.echo(said, err=True)


def read_mechanisms(words: str) -> list[str]:
    """Mechanisms with commas between, each known before the first is run."""
    names = [name.strip() for name in words.split(",") if name.strip()]
    if not names:
        raise PlanError("name at least one mechanism, like --mechanism kvue,auto")
    for name in names:
        if name != "auto":
            mechanism_named(name.partition(":")[0])
    return names


def read_epsilons(words: str) -> list[str]:
    """Epsilons with commas between."""
    made = [text(epsilon_of(part.strip())) for part in words.split(",") if part.strip()]
    if not made:
        raise PlanError("give at least one epsilon, like --epsilon 0.5,1,2")
    return made


def _cells(row: ConditionalRow | Row) -> list[str]:
    shown = ", ".join(
        "-" if c is None else f"{c:.1%}" for c in (row.coverage_frequency, row.coverage_mean)
    )
    name = row.mechanism if row.mechanism == row.chosen else f"{row.mechanism} ({row.chosen})"
    part = "conditional_" if isinstance(row, ConditionalRow) else ""
    errors = [
        getattr(row, f"{what}_{part}{of}")
        for of in ("frequency", "mean")
        for what in ("mse", "predicted")
    ]
    return [
        name,
        row.estimator,
        f"{row.epsilon:g}",
        f"{row.true_epsilon:.4f}",
        *("-" if error is None else f"{error:.3e}" for error in errors),
        shown,
    ]


class Read(NamedTuple):
    """The keys that most people hold, everyone's records cut down to them, and values moved."""

    keys: list[str]
    people: People
    outside: int
    """How many values lay outside the range, and are now at its nearer end."""
    unknown: int
    """How many rows have no number as value, and count as not held."""


def read_top(data: str, person: str, key: str, value: str, ends: tuple[float, float], top: int) -> Read:
    """The ``top`` keys that most people hold, from a table."""
    from ..tables import key_counts, people_of

    counts: dict[str, int] = key_counts(data, person=person, key=key)
    if not counts:
        raise TableError(f"the table {data} has no keys")
    keys = sorted(counts, key=lambda name: (-counts[name], name))[:top]
    schema, mapped = Schema.of(keys, *map(repr, ends)), Counter[str]()
    everyone: People = people_of(
        schema, data, person=person, key=key, value=value, lenient=True, mapped=mapped
    )
    if not len(everyone.values):
        raise TableError(f"the table {data} has no number in column {value!r}")
    return Read(keys, everyone, mapped["outside_range"], mapped["no_number"])


def top_people(
    data: str, person: str, key: str, value: str, ends: tuple[float, float], top: int
) -> tuple[list[str], People]:
    """As ``read_top``, the keys and the people alone."""
    read = read_top(data, person, key, value, ends, top)
    return read.keys, read.people
