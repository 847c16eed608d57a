"""Everyone who takes part: the people of a table, and those who have no row in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from math import isnan
from numbers import Integral, Real
from typing import Any

import numpy as np

from ...foundation.arrays import Words
from ...foundation.coins import Person, address
from ...foundation.errors import CoinsError, TableError
from ...foundation.exact import text_hint
from ..people import People
from ..schema import Schema

FRAME = "frame"
"""What ``everyone`` is if the table has them all."""
CHUNK = 1 << 16
"""How many people without a row are made at a time."""
NO_PEOPLE = f"everyone is a collection of names, a whole number, or {FRAME!r}"


def with_everyone(people: People, everyone: Any) -> People:
    """The people of a table, and those of ``everyone`` who have no row in it and so hold nothing.

    ``everyone`` is a collection of names, the number of all people, or "frame".
    """
    if isinstance(everyone, str):
        if everyone != FRAME:
            raise TableError(NO_PEOPLE + text_hint(everyone))
        return people
    number = isinstance(everyone, Real | Decimal) and not isinstance(everyone, bool)
    if number and float(everyone).is_integer():
        return _joined(people, _unnamed(range(number_absent(int(float(everyone)), len(people)))))
    addresses = _addresses(everyone)
    known, named = _one_each(people.addresses), _one_each(addresses)
    strangers = int((~np.isin(known, named)).sum())
    if strangers:
        raise TableError(
            f"{strangers:,} of the {len(people):,} people of the table are not in everyone; name them "
            "in the same way, numbers as numbers and text as text"
        )
    return _joined(people, addresses[~np.isin(named, known)])


def number_absent(everyone: int, named: int) -> int:
    """The number of people who have no row in a table that names some."""
    if everyone < named:
        raise TableError(f"everyone is {everyone:,}, but the table names {named:,} people")
    return everyone - named


def absent_people(schema: Schema, absent: int, chunk: int = CHUNK) -> Iterator[People]:
    """The people who have no row in a table, as ``with_everyone`` adds them, some at a time."""
    for first in range(0, absent, chunk):
        addresses = _unnamed(range(first, min(first + chunk, absent)))
        yield _joined(People.of_records(schema, []), addresses)


def who_takes_part(people: int, holding_nothing: int, keys: int, table: str, remedy: str) -> str:
    """Says how many people a table names, and that others do not take part without the remedy."""
    verb = "holds" if holding_nothing == 1 else "hold"
    hold = f"{holding_nothing:,} of them {verb} none of" if holding_nothing else "all of them hold"
    named = f"the {keys:,} keys" if keys > 1 else "the key"
    words = named if holding_nothing else f"at least one of {named}"
    return (
        f"the {table} names {people:,} people; {hold} {words}. People who are not in the {table} do "
        f"not take part: {remedy}"
    )


def _unnamed(numbers: range) -> Words:
    """The addresses of people who are known by their number only."""
    return address([f"\0without rows {number}" for number in numbers])


def _addresses(everyone: Any) -> Words:
    """The addresses of people by name, each once, in their order."""
    if hasattr(everyone, "columns"):
        raise TableError("everyone is a frame; pass its column of names, like everyone=frame['person']")
    listed = everyone.to_list() if hasattr(everyone, "to_list") else everyone
    listed = listed.to_pylist() if hasattr(listed, "to_pylist") else listed
    try:
        names = list(dict.fromkeys(_name(person) for person in listed))
    except TypeError:
        raise TableError(NO_PEOPLE) from None
    if names and all(isinstance(name, int) for name in names):
        return address(np.array(names, np.int64)) if _fit(names) else address(names)
    return address(names)


def _fit(names: list[Any]) -> bool:
    return min(names) >= -(1 << 63) and max(names) < 1 << 63


def _name(person: Any) -> Person:
    """A person's name as a table has it: a whole number or text."""
    if isinstance(person, str):
        return str(person)
    if isinstance(person, Integral) and not isinstance(person, bool):
        return int(person)
    if isinstance(person, float | np.floating) and float(person).is_integer():
        return int(person)
    nothing = person is None or type(person).__name__ == "NAType"  # pandas' own NA
    if nothing or (isinstance(person, Real) and isnan(person)):
        raise TableError("everyone has an empty name; leave it out")
    raise CoinsError("a person is named by a whole number or by text")


def _one_each(addresses: Words) -> np.ndarray:
    """Each address as one item, so that addresses can be compared."""
    rows = np.ascontiguousarray(addresses[:, :3])
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * 3))).ravel()


def _joined(people: People, addresses: Words) -> People:
    """The people, and after them one who holds nothing at each of the addresses."""
    starts = np.concatenate([people.starts, np.full(len(addresses), people.starts[-1])])
    return replace(people, addresses=np.concatenate([people.addresses, addresses]), starts=starts)
