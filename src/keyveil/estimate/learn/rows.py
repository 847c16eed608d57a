"""People to predict for, in whatever form they come, as probabilities of digits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.coins import address
from ...foundation.errors import RecordError, TableError, nearest
from ...people.people import People
from ...people.population import Population
from ...people.schema import Record
from ...people.tables.frames import numbers_of
from ...people.tables.wide_tables import wide_table
from .released import Released

Rows = People | Iterable[Record] | Any
"""People, records, a frame with a row for each person and a column for each key, or an array."""
CHUNK = 1 << 14
"""Number of people classified at a time."""


def digit_chances(
    released: Released, people: Rows, columns: Sequence[str], not_needed: str | None
) -> Iterator[Floats]:
    """Probabilities of digits after rounding, ``(people, keys, digits)``, in chunks of people.

    ``columns`` are those of an array. A frame may lack the column of the key ``not_needed``.
    """
    if isinstance(people, Mapping):
        raise RecordError("give a list of records, one for each person")
    if hasattr(people, "tocsr"):
        raise TableError("give a sparse matrix as an array, with NaN where a key is not held")
    flat = hasattr(people, "shape") and len(people.shape) != 2
    known = isinstance(people, People | Iterable) or hasattr(people, "__arrow_c_stream__")
    if flat or isinstance(people, str) or not known:
        raise TableError(
            "give people as a list of records, a frame with a column for each key, or an array with a "
            "row for each person"
        )
    presence: dict[int, np.ndarray] = {}
    if isinstance(people, np.ndarray):
        table = _of_array(released, people, columns)
    elif hasattr(people, "__arrow_c_stream__"):
        table, presence = _of_frame(released, people, not_needed)
    else:
        table = people if isinstance(people, People) else People.of_records(released.schema, people)
    first = 0
    for part in table.chunks(CHUNK):
        chances = Population(released.schema, part, released.schema.levels).chances
        for key, held in presence.items():
            chances = chances.copy() if not chances.flags.writeable else chances
            chances[:, key] = _held_at_some_level(released, key, held[first : first + len(part)])
        first += len(part)
        yield chances


def _held_at_some_level(released: Released, key: int, held: np.ndarray) -> Floats:
    """Probabilities of digits if only presence is known: the levels follow the law of the key."""
    law = released.single(key)
    levels = np.concatenate([[0.0], law[1:]])
    levels = levels / levels.sum() if levels.sum() > 0 else np.full(len(law), 1 / (len(law) - 1))
    levels[0] = 0.0
    return np.where(held[:, None], levels, np.eye(len(law))[0])


def _of_array(released: Released, rows: np.ndarray, columns: Sequence[str]) -> People:
    if rows.ndim != 2 or rows.shape[1] != len(columns):
        raise TableError(
            f"an array has a row for each person and {len(columns)} columns, in the order of "
            "feature_names_in_; reshape your data, or give a frame with names"
        )
    try:
        values = rows.astype(np.float64)
    except (TypeError, ValueError):
        raise TableError("an array must hold numbers, NaN where a key is not held") from None
    who, places = np.nonzero(~np.isnan(values))
    keys = np.array([released.place(name) for name in columns], np.int64)[places]
    return People.of_places(
        released.schema, address(np.arange(len(values))), who, keys, values[who, places]
    )


def _of_frame(
    released: Released, frame: Any, not_needed: str | None
) -> tuple[People, dict[int, np.ndarray]]:
    """People of a wide frame, and who holds the keys whose columns are True and False."""
    table, schema = wide_table(frame), released.schema
    names = table.column_names
    values = np.full((table.num_rows, len(schema.keys)), np.nan)
    presence: dict[int, np.ndarray] = {}
    for place, key in enumerate(schema.keys):
        if key not in names:
            if key == not_needed:
                continue
            near = nearest(key, names)
            hint = f"; did you mean {near!r}?" if near else "; a wide frame has one for each key"
            raise TableError(f"column {key!r} is not in the frame{hint}")
        column = table.column(key)
        if str(column.type) == "bool":
            presence[place] = column.fill_null(False).to_numpy().astype(bool)
            continue
        numbers = numbers_of(column)
        if numbers is None:
            raise TableError(f"column {key!r} must hold numbers, True and False, or nothing")
        values[:, place] = numbers
    who, places = np.nonzero(~np.isnan(values))
    people = People.of_places(schema, address(np.arange(len(values))), who, places, values[who, places])
    return people, presence
