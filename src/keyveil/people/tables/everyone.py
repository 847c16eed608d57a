"""Everyone who takes part: the people of a table, and those who have no row in it."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from numbers import Integral, Real
from typing import Any

import numpy as np

from ...foundation.arrays import Words
from ...foundation.coins import Person, address
from ...foundation.errors import CoinsError, TableError
from ..people import People

FRAME = "frame"
"""What ``everyone`` is if the table has them all."""
NO_PEOPLE = f"everyone is a collection of names, a whole number, or {FRAME!r}"


def with_everyone(people: People, everyone: Any) -> People:
    """The people of a table, and those of ``everyone`` who have no row in it and so hold nothing.

    ``everyone`` is a collection of names, the number of all people, or "frame".
    """
    if isinstance(everyone, str):
        if everyone != FRAME:
            raise TableError(NO_PEOPLE)
        return people
    if isinstance(everyone, Real) and not isinstance(everyone, bool) and float(everyone).is_integer():
        number = int(float(everyone))
        missing = number - len(people)
        if missing < 0:
            raise TableError(f"everyone is {number:,}, but the table names {len(people):,} people")
        return _joined(people, address([f"\0without rows {number}" for number in range(missing)]))
    addresses = _addresses(everyone)
    known, named = _one_each(people.addresses), _one_each(addresses)
    strangers = int((~np.isin(known, named)).sum())
    if strangers:
        raise TableError(
            f"{strangers:,} of the {len(people):,} people of the table are not in everyone; name them "
            "in the same way, numbers as numbers and text as text"
        )
    return _joined(people, addresses[~np.isin(named, known)])


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
    if person is None or (isinstance(person, Real) and isnan(person)):
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
