"""``keyveil compare``: what local privacy would cost on a table of one's own."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..foundation.coins import Coins
from ..foundation.errors import PlanError
from ..foundation.exact import epsilon_of, text
from ..foundation.files import write_whole
from ..mechanisms.mechanism import CALIBRATIONS
from ..people.population import Population
from ..people.scale import ExactScale, Scale
from ..people.schema import Schema
from ..simulate.comparison import ALL, MOST_PILOTS, check_mechanisms, competitors_of
from ..simulate.comparison_table import SHORT, cells, footnotes, headings, row_name
from ..simulate.contest import Contest
from ..simulate.contest_row import on_scale
from ..simulate.parallel import ContestResult, measure
from ..simulate.planner_ways import WAYS, prior_if_held
from .arguments import (
    NO_RANGE,
    RANGE,
    Given,
    everyone_option,
    read_count,
    read_everyone,
    read_names,
    read_numbers,
    read_range,
    tell_who_takes_part,
)
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
"""Synthetic populations: the name of each, and the function that makes it."""
MANY_OUTSIDE = 0.2
"""Share of clipped values from which a note asks whether the range is right."""


@click.command()
@click.option("--data", type=click.Path(), help="A table of people, keys and values.")
@click.option(
    "--population",
    "synthetic",
    type=click.Choice(POPULATIONS),
    help="Without a table: the paper's populations, or PCKV's.",
)
@click.option("--person", default="person")
@click.option("--key", default="key")
@click.option("--value", default="value")
@everyone_option
@click.option("--range", "ends", help=f"LOW,HIGH; values outside are clipped.  [default: {RANGE}]")
@click.option(
    "--top", type=int, help="Only the keys with the most holders.  [default: 100; conditional: 8]"
)
@click.option("--people", default="100000", help="People to simulate, like 1e6.")
@click.option(
    "--mechanism",
    help="Names separated by commas, or all; graded:levels=5 sets a parameter, pairs:grr names the "
    "channel.  [default: kvue,pckv_ue,auto; conditional: ioh,auto]",
)
@click.option("--epsilon", default="1", help="Epsilons separated by commas.")
@click.option("--repeat", default=20, help="Repetitions.")
@click.option(
    "--conditional",
    "keys_together",
    type=int,
    help="Conditionals of this many keys, target included: 2 asks for k given c.",
)
@click.option(
    "--calibrate",
    type=click.Choice(CALIBRATIONS),
    help="tight: equal true epsilon; paper: as published, which may prove less.  [default: tight; "
    "conditional: paper]",
)
@click.option("--estimator", help="Only these estimators, separated by commas.")
@click.option(
    "--error",
    type=click.Choice(list(SHORT)),
    default="squared",
    help="The error in the table and the picture; --json has both.",
)
@click.option(
    "--told",
    type=click.Choice(list(WAYS)),
    help="What the planner is told. table: the table itself. nothing: nothing, and it first asks a few "
    "people how many keys they hold where that pays. one_round: nothing, and it never does. pilot: "
    "nothing, and it always does. Without it auto has rows for table, one_round and pilot; each can be "
    "named: auto:table, auto:nothing, auto:one_round, auto:pilot.",
)
@click.option(
    "--held", help="In place of --told: how many keys people hold on average is all it is told."
)
@click.option("--processes", type=int, help="Processes to use.  [default: one for each core]")
@click.option("--coins", "stated", metavar="KEY", help="Coins from a stated key, to repeat a run.")
@click.option("--plot", type=PICTURE, help="Also draw error against epsilon.")
@click.option("--json", "output", type=OUTPUT, help="Also write the rows as JSON.")
@writes_files
def compare(**options: Any) -> None:
    """Error and interval coverage of mechanisms, side by side, on your own table.

    Frequency and mean of every key; with --conditional, of every key given others.
    """
    given = CompareOptions(**options)
    names, epsilons, contest = read_contest(given)
    competitors = competitors_of(names, contest, given.told is None and given.held is None)
    with progress("comparing", "plans") as on_progress:
        result = measure(
            contest,
            competitors.names,
            epsilons,
            lenient=ALL in names,
            optional=competitors.optional,
            processes=given.processes,
            on_progress=on_progress,
        )
        _tell_skipped(result)
    if given.data is not None and given.everyone is None:
        people = contest.population.people
        tell_who_takes_part(len(people), people.number_empty, len(contest.schema.keys))
    show_rows(given, contest, result)


class CompareOptions(Given):
    """The options of ``compare``, as they are typed."""

    @property
    def range(self) -> tuple[Decimal, Decimal]:
        """The lowest and the highest value."""
        return read_range(self.ends or RANGE)

    @property
    def most_keys(self) -> int:
        """The number of keys that are compared at most."""
        if self.top is not None:
            return self.top
        return 8 if self.keys_together else 100

    @property
    def scale(self) -> Scale:
        """The scale of the values: the range of a table, or that of every synthetic population."""
        low, high = self.range
        return Scale() if self.data is None else Scale(float(low), float(high))


def read_contest(given: CompareOptions) -> tuple[list[str], list[str], Contest]:
    """Check the options and read the people; the error stream says what was assumed.

    Returns the mechanisms as they are typed (``all`` stands for every one), the epsilons, the contest.
    """
    _check_options(given)
    usual, calibration = ("ioh,auto", "paper") if given.keys_together else ("kvue,pckv_ue,auto", "tight")
    competitors = read_mechanisms(given.mechanism or usual)
    estimators, epsilons = read_estimators(given.estimator), read_epsilons(given.epsilon)
    if given.keys_together and ALL in competitors:
        raise PlanError("--mechanism all is for single keys; name mechanisms for conditionals")
    if given.keys_together and given.told == "pilot":
        raise PlanError("--told pilot is for single keys; a pilot does not tell what goes together")
    population = _population(given)
    values = Schema.of(1) if given.data is None else Schema.of(1, *given.range)
    if given.repeat == 1:
        _note("one repetition has no standard error; --repeat 20 shows how precise the errors are")
    contest = Contest(
        population,
        read_count(given.people, "people"),
        given.repeat,
        Coins.secure() if given.stated is None else Coins.stated(given.stated),
        given.calibrate or calibration,
        estimators,
        pilots=MOST_PILOTS if given.told is None else None,
        keys_together=given.keys_together or None,
        named_on=ExactScale.of(values),
        prior=prior_if_held(population.schema, read_numbers(given, "held").get("held"), given.told),
        **WAYS[given.told or "table"],  # type: ignore[arg-type]
    )
    return competitors, epsilons, contest


def _check_options(given: CompareOptions) -> None:
    read_range(given.ends or RANGE)
    if given.data is None and given.synthetic is None:
        raise click.UsageError("compare needs --data TABLE or --population NAME")
    if given.data is None and given.everyone is not None:
        raise click.UsageError("--everyone is for --data; a population has everyone")
    if given.data is not None and given.synthetic is not None:
        raise click.UsageError("compare takes --data or --population, not both")
    read_count(given.people, "people")
    if given.held is not None and given.told is not None:
        raise click.UsageError("compare takes --held or --told, not both")
    numbers = {"repeat": given.repeat, "top": given.most_keys, "processes": given.processes}
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise PlanError(f"--{name} must be at least 1, not {number}")


def show_rows(given: CompareOptions, contest: Contest, result: ContestResult) -> None:
    """Write the rows as JSON, draw them and print the table, as the options say."""
    rows = [on_scale(row.document(), given.scale) for row in result.rows]
    if given.output:
        body = json.dumps(rows, indent=2, ensure_ascii=False, allow_nan=False)
        write_whole(Path(given.output), body.encode())
    if given.plot:
        from ..plot import plot_rows

        several = contest.estimators is not None and len(contest.estimators) > 1
        plot_rows(rows, given.plot, given.error, bool(contest.keys_together) or several)
    print_table(
        headings(given.error),
        [cells(row, given.error) for row in rows],
        f"{counted(len(contest.schema.keys), 'key')}, {counted(contest.people, 'person', 'people')}, "
        f"{counted(contest.repetitions, 'repetition')}, means {given.scale}",
    )
    for line in footnotes(rows):
        click.echo(line)


def _population(given: CompareOptions) -> Population:
    """The people of the table or of the stated population, with values on [-1, 1]."""
    if given.data is None:
        from ..people import synthetic

        known = getattr(synthetic, POPULATIONS[given.synthetic])(given.most_keys)
        return Population(known.schema, known.people)
    from ..people.tables.everyone import with_everyone
    from ..people.tables.top_keys import read_top

    low, high = given.range
    ends = (float(low), float(high))
    table = read_top(given.data, given.person, given.key, given.value, ends, given.most_keys)
    _tell_changes(table, given.ends)
    people, everyone = table.people, read_everyone(given.everyone)
    if everyone is not None:
        people = with_everyone(people, everyone)
    return Population(Schema.of(table.keys, low, high), people).on_unit_scale()


def _note(words: str) -> None:
    """One line on the error stream."""
    click.echo(words, err=True)


def _tell_changes(read: Read, ends: str | None) -> None:
    """Say what was assumed and how many rows of the table were changed, never which."""
    if ends is None:
        _note(NO_RANGE)
    held = len(read.people.values) + read.twice
    if read.outside:
        words = f"{read.outside:,} of {held:,} values lay outside {ends or RANGE} and were clipped to it"
        if read.outside > MANY_OUTSIDE * held:
            words += f", {read.outside / held:.0%} of all: is this the range (--range) that they are on?"
        _note(words)
    if read.unknown:
        count = "counts" if read.unknown == 1 else "count"
        _note(f"{counted(read.unknown, 'row')} had no number as value and {count} as not held")
    if read.twice:
        words = "named a key that the person already had; the first of them counts"
        _note(f"{counted(read.twice, 'row')} {words}")


def _tell_skipped(result: ContestResult) -> None:
    """Say which requested mechanisms and estimators are missing, and why."""
    for name in dict.fromkeys(name for name, _ in result.skipped):
        reasons = {epsilon: why for (other, epsilon), why in result.skipped.items() if other == name}
        measured = any(row.mechanism == name for row in result.rows)
        where = f" at epsilon {', '.join(reasons)}" if measured else ""
        _note(f"{name} is left out{where}: {next(iter(reasons.values()))}")
    for estimator in dict.fromkeys(e for row in result.rows for e in row.skipped):
        without = dict.fromkeys(row_name(r.document()) for r in result.rows if estimator in r.skipped)
        _note(f"estimator {estimator} is left out where there is none: {', '.join(without)}")


def read_mechanisms(words: str) -> list[str]:
    """Mechanisms from a list with commas; unknown names are refused."""
    names = read_names(words)
    if not names:
        raise PlanError("name at least one mechanism, like --mechanism kvue,auto")
    check_mechanisms(names)
    return names


def read_estimators(words: str | None) -> tuple[str, ...] | None:
    """Estimators from a list with commas; None if there is no list."""
    if words is None:
        return None
    names = read_names(words)
    if not names:
        raise PlanError("name at least one estimator, like --estimator shrunk")
    return tuple(names)


def read_epsilons(words: str) -> list[str]:
    """Epsilons from a list with commas."""
    parts = [part.strip() for part in words.split(",")]
    if not any(parts):
        raise PlanError("give at least one epsilon, like --epsilon 0.5,1,2")
    if not all(parts):
        raise PlanError("an epsilon is missing next to a comma; write them like --epsilon 0.5,1,2")
    return [text(epsilon_of(part)) for part in parts]
