"""``keyveil compare``: what local privacy would cost on a table of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ..coins import Coins
from ..comparison import Row, compare_conditionals
from ..errors import PlanError, TableError
from ..exact import decimal, epsilon_of, text
from ..files import write_whole
from ..mechanisms import mechanism_named
from ..people import People
from ..schema import Schema
from ..simulate import Population
from .make import read_range
from .show import print_table, progress


@click.command()
@click.option("--data", required=True, type=click.Path(), help="A table of people, keys and values.")
@click.option("--person", default="person", show_default=True)
@click.option("--key", default="key", show_default=True)
@click.option("--value", default="value", show_default=True)
@click.option(
    "--range", "ends", default="-1,1", show_default=True, help="LOW,HIGH; values outside are clipped."
)
@click.option("--top", default=8, show_default=True, help="Only the keys that most people hold.")
@click.option("--people", default="100000", show_default=True, help="People to simulate, like 1e6.")
@click.option(
    "--mechanism",
    default="ioh,auto",
    show_default=True,
    help="Names with commas between; pairs:grr names the channel.",
)
@click.option("--epsilon", default="1", show_default=True, help="Epsilons with commas between.")
@click.option("--repeat", default=20, show_default=True, help="Repetitions.")
@click.option("--conditional", "order", type=int, required=True, help="Keys together: 2 asks k given c.")
@click.option("--coins", "stated", metavar="KEY", help="Repeat a run: coins from a stated key.")
@click.option("--plot", type=click.Path(), help="Also draw error against epsilon.")
@click.option("--json", "output", type=click.Path(), help="Also write the rows as JSON.")
def compare(
    data: str,
    person: str,
    key: str,
    value: str,
    ends: str,
    top: int,
    people: str,
    mechanism: str,
    epsilon: str,
    repeat: int,
    order: int,
    stated: str | None,
    plot: str | None,
    output: str | None,
) -> None:
    """Error and interval coverage of mechanisms, side by side, on your own table."""
    low, high = read_range(ends)
    number = decimal(people, "people")
    if number < 1 or repeat < 1 or top < 1:
        raise PlanError("people, repeat and top must be at least 1")
    names = [name.strip() for name in mechanism.split(",") if name.strip()]
    for name in names:
        if name != "auto":
            mechanism_named(name.partition(":")[0])
    epsilons = [text(epsilon_of(part.strip())) for part in epsilon.split(",") if part.strip()]
    keys, table = top_people(data, person, key, value, (float(low), float(high)), top)
    schema = Schema.of(keys, low, high)
    population = Population(schema, table)
    coins = Coins.secure() if stated is None else Coins.stated(stated)
    with progress("comparing") as moved:
        rows = list(
            compare_conditionals(
                schema, population, names, epsilons, int(number), repeat, order, coins, moved
            )
        )
    if output:
        write_whole(Path(output), json.dumps([row.document() for row in rows], indent=2).encode())
    if plot:
        from ..plot import plot_rows

        plot_rows([row.document() for row in rows], plot)
    print_table(
        ["mechanism", "estimator", "epsilon", "true", "MSE frequency", "MSE mean", "coverage f, m"],
        [_cells(row) for row in rows],
        f"{len(keys)} keys, {int(number):,} people, {repeat} repetitions, on the [-1, 1] scale",
    )


def _cells(row: Row) -> list[str]:
    shown = ", ".join(
        "-" if c is None else f"{c:.1%}" for c in (row.coverage_frequency, row.coverage_mean)
    )
    name = row.mechanism if row.mechanism == row.chosen else f"{row.mechanism} ({row.chosen})"
    return [
        name,
        row.estimator,
        f"{row.epsilon:g}",
        f"{row.true_epsilon:.4f}",
        f"{row.mse_conditional_frequency:.3e}",
        f"{row.mse_conditional_mean:.3e}",
        shown,
    ]


def top_people(
    data: str, person: str, key: str, value: str, ends: tuple[float, float], top: int
) -> tuple[list[str], People]:
    """The ``top`` keys that most people hold, and everyone's records cut down to them."""
    from ..tables import key_counts, people_of

    counts: dict[str, int] = key_counts(data, person=person, key=key)
    if not counts:
        raise TableError(f"the table {data} has no keys")
    keys = sorted(counts, key=lambda name: (-counts[name], name))[:top]
    low, high = ends
    schema = Schema.of(keys, repr(low), repr(high))
    made: Any = people_of(schema, data, person=person, key=key, value=value, lenient=True)
    return keys, made
