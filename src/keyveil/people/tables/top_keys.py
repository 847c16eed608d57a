"""The most common keys of a table, and everyone's records restricted to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from ...foundation.errors import TableError
from ..people import People
from ..schema import Schema
from .table_reader import key_counts, people_of

KEYS_AT_ONCE = 1 << 16
"""Number of further keys read at a time."""

FAR = 1e300
"""Only infinite values lie outside this range."""


Result = TypeVar("Result")


class Read(NamedTuple):
    """The most common keys, and everyone's records restricted to them."""

    keys: list[str]
    people: People
    outside: int
    """Number of values outside the range; they were clipped to it."""
    unknown: int
    """Number of rows whose value is not a number; they count as not held."""
    twice: int
    """Number of rows that repeat a key of their person."""


def read_top(data: str, person: str, key: str, value: str, ends: tuple[float, float], top: int) -> Read:
    """The ``top`` keys that most people hold, from a table; values are clipped to the range ``ends``.

    A key has at least as many rows as holders. So the keys with the most rows are read first. Further
    keys are read only if some of those rows do not count: a repeated key, or a value that is no number.
    """
    rows: dict[str, int] = key_counts(data, person=person, key=key)
    if not rows:
        raise TableError(f"the table {data} has no keys")

    def read(keys: list[str], ends: tuple[float, float] = ends) -> tuple[People, Counter[str]]:
        schema, mapped = Schema.of(keys, *map(repr, ends)), Counter[str]()
        columns = {"person": person, "key": key, "value": value}
        return people_of(schema, data, **columns, lenient=True, mapped=mapped), mapped

    keys, (people, mapped) = most_held_keys(rows, top, read, lambda result: result[0])
    held = len(people.values)
    if not held:
        raise TableError(f"the table {data} has no number in column {value!r}")
    numbers = sum(rows[name] for name in keys) - mapped["no_number"]
    if mapped["outside_range"] == numbers:
        if read(keys, (-FAR, FAR))[1]["outside_range"] == numbers:
            raise TableError(f"the table {data} has no finite number in column {value!r}")
        raise TableError(
            f"every value of the table lies outside {ends[0]:g},{ends[1]:g}; give the range that they "
            "are on: --range LOW,HIGH"
        )
    return Read(keys, people, mapped["outside_range"], mapped["no_number"], numbers - held)


def most_held_keys(
    rows: dict[str, int],
    top: int,
    read: Callable[[list[str]], Result],
    people: Callable[[Result], People],
) -> tuple[list[str], Result]:
    """The ``top`` keys that most people hold, and what ``read`` returns for them.

    ``rows`` has the number of rows of each key, and ``people`` takes the people from a result.
    """
    keys = _ranked(rows)[:top]
    result = read(keys)
    if len(people(result).values) < sum(rows[name] for name in keys):
        held = _holders(keys, people(result))
        most_held = _most_held(rows, held, top, lambda names: people(read(names)))
        if most_held != keys:
            return most_held, read(most_held)
    return keys, result


def _most_held(
    rows: dict[str, int], held: dict[str, int], top: int, read: Callable[[list[str]], People]
) -> list[str]:
    """The ``top`` keys by holders. ``held`` has the holders of the keys with the most rows."""
    order = _ranked(rows)
    for first in range(top, len(order), KEYS_AT_ONCE):
        least = sorted(held.values())[-top]
        near = [name for name in order[first : first + KEYS_AT_ONCE] if rows[name] >= least]
        if not near:
            break
        held = held | _holders(near, read(near))
    return _ranked(held)[:top]


def _ranked(counts: dict[str, int]) -> list[str]:
    """Keys by their counts in descending order; equal counts in the order of names."""
    return sorted(counts, key=lambda name: (-counts[name], name))


def _holders(keys: list[str], people: People) -> dict[str, int]:
    """Number of people who hold each key."""
    holders = np.bincount(people.keys, minlength=len(keys)).tolist()
    return dict(zip(keys, holders, strict=True))
