"""Arguments that commands share, and how they are read: the keys of a schema, a range, a count."""

from __future__ import annotations

import sys
from decimal import Decimal
from math import isfinite
from pathlib import Path
from types import SimpleNamespace

import click

from ..foundation.errors import KeyveilError, PlanError
from ..foundation.exact import decimal, text
from ..people.schema import Schema

MOST = 10**15
"""Largest accepted number of people or keys."""

RANGE = "-1,1"
"""The default range of values."""
NO_RANGE = "no --range given: values are taken to be in [-1, 1]"

plan_argument = click.argument("plan_path", metavar="PLAN", type=click.Path())
tally_argument = click.argument("tally_path", metavar="TALLY", type=click.Path())
level_option = click.option("--level", default=0.95, help="Level of the intervals.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


everyone_option = click.option(
    "--everyone",
    metavar="N",
    help="The number of all people, if some have no row in the table and so hold nothing.",
)


def read_everyone(words: str | None) -> int | None:
    """The number of all people; None if it is not stated."""
    return None if words is None else read_count(words, "--everyone")


def tell_who_takes_part(people: int, holding_nothing: int, keys: int) -> None:
    """Say on the error stream how many people a table names, and that others do not take part."""
    from ..people.tables.everyone import who_takes_part

    remedy = "--everyone N adds them, N is the number of all people"
    if people:
        click.echo(who_takes_part(people, holding_nothing, keys, "table", remedy), err=True)


def confirm(question: str, yes: bool) -> None:
    """Ask before what cannot be undone. Without anyone to answer it needs ``--yes``."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise KeyveilError(f"{question} Nobody can answer here: give --yes")
    click.confirm(question, abort=True)


class Given(SimpleNamespace):
    """The options of a command as they are typed, each an attribute with the name of its parameter."""


def read_schema(keys: str, ends: str | None, notes: list[str]) -> Schema:
    """The schema of keys from a file or of a number of keys, with one range or one for each key.

    One line for each assumption is appended to ``notes``.
    """
    from ..people.tables.delimiters import is_number

    usual = read_range(RANGE if ends is None else ends)
    if is_number(keys) and isfinite(float(keys)):
        schema, takes_usual = Schema.of(read_count(keys, "the number of keys"), *usual), True
    else:
        from .key_files import schema_of_file

        schema, takes_usual = schema_of_file(keys, usual, notes)
    if ends is None and takes_usual:
        notes.append(NO_RANGE)
    if ends is not None and not takes_usual:
        notes.append(f"{keys}: every key has its own range, so --range is not used")
    return schema


def read_plan(path: str) -> bytes:
    """The content of a plan's file, not yet parsed."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise PlanError(f"cannot read the plan {path}: {error.strerror}") from None


def read_range(ends: str) -> tuple[Decimal, Decimal]:
    """LOW,HIGH as two decimals."""
    parts = ends.split(",")
    if len(parts) != 2:
        raise PlanError("a range is LOW,HIGH, like --range 1,5")
    low, high = decimal(parts[0].strip(), "LOW"), decimal(parts[1].strip(), "HIGH")
    if low >= high:
        raise PlanError(f"--range {ends}: LOW {text(low)} is not below HIGH {text(high)}")
    return low, high


def read_numbers(given: Given, *names: str) -> dict[str, float]:
    """The options of these names as numbers, without those that are not given."""
    typed = {name: getattr(given, name) for name in names}
    return {n: float(decimal(word, f"--{n}")) for n, word in typed.items() if word is not None}


def read_names(words: str) -> list[str]:
    """Names from a list with commas, each once."""
    return list(dict.fromkeys(name.strip() for name in words.split(",") if name.strip()))


def read_count(words: str, name: str) -> int:
    """A whole number of at least 1, written like 1000000 or 1e6."""
    wrong = f"{name} must be a whole number of at least 1 and at most 1e15, like 100000 or 1e6"
    try:
        number = decimal(words, name)
    except PlanError:
        raise PlanError(wrong) from None
    if not 1 <= number <= MOST or number != int(number):
        raise PlanError(wrong)
    return int(number)
