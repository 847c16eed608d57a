"""People: a checked, sparse table of records, addressed for the coins; the batch form of a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..foundation.arrays import Floats, Integers, Words
from ..foundation.coins import Person, address
from ..foundation.errors import RecordError, TableError
from .schema import Record, Schema

if TYPE_CHECKING:
    from .frame_columns import Stated

TWICE = "a key appears twice; a record has each key at most once"


@dataclass(frozen=True)
class People:
    """A checked table of records; ``of_records`` and ``of_rows`` make one.

    Rows ``starts[i] .. starts[i + 1]`` are person i's keys (by place, ascending) and values.
    """

    addresses: Words
    starts: Integers
    keys: np.ndarray
    values: Floats

    def __len__(self) -> int:
        return len(self.addresses)

    def __repr__(self) -> str:
        return f"People({len(self)})"

    @property
    def number_empty(self) -> int:
        """The number of people who hold nothing."""
        return int((np.diff(self.starts) == 0).sum())

    @property
    def row_owners(self) -> Integers:
        """The person of each row, by number."""
        if len(self) == 1:  # on a device, where each call of NumPy counts
            return np.zeros(len(self.keys), np.int64)
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def __getitem__(self, rows: slice) -> People:
        first, last, step = rows.indices(len(self))
        if step != 1:
            raise TableError("people are cut into runs, with a step of one")
        starts = self.starts[first : last + 1]
        inside = slice(int(starts[0]), int(starts[-1])) if len(starts) else slice(0, 0)
        return People(
            self.addresses[first:last],
            starts - starts[0] if len(starts) else np.zeros(1, np.int64),
            self.keys[inside],
            self.values[inside],
        )

    def chosen(self, rows: Integers, numbers: Integers) -> People:
        """The records at some rows, in that order and as often as named, of people so numbered."""
        return self.at_rows(rows, address(numbers))

    def at_rows(self, rows: Integers, addresses: Words) -> People:
        """The records at some rows, in that order, of people at these addresses."""
        counts = np.diff(self.starts)[rows]
        starts = starts_of(counts)
        at = np.repeat(self.starts[rows] - starts[:-1], counts) + np.arange(starts[-1])
        return People(addresses, starts, self.keys[at], self.values[at])

    def chunks(self, size: int) -> Iterator[People]:
        """Runs of at most ``size`` people, in order."""
        for first in range(0, len(self), size):
            yield self[first : first + size]

    def records(self, schema: Schema) -> Iterator[dict[str, float]]:
        """Each person's record, as a device would hold it; for tests and small tables."""
        for first, last in zip(self.starts[:-1], self.starts[1:], strict=True):
            keys = self.keys[first:last].tolist()
            values = self.values[first:last].tolist()
            yield {schema.keys[key]: value for key, value in zip(keys, values, strict=True)}

    @classmethod
    def one(cls, held: dict[int, float], addresses: Words) -> People:
        """A single person from a checked record."""
        places = sorted(held)
        return cls(
            addresses,
            np.array([0, len(places)], np.int64),
            np.array(places, np.int64),
            np.array([held[p] for p in places], np.float64),
        )

    @classmethod
    def of_records(cls, schema: Schema, records: Iterable[Record], first: int = 0) -> People:
        """People numbered from ``first`` on, one for each record, each checked."""
        held = [schema.checked(record) for record in records]
        rows = [(p, h[p]) for h in held for p in sorted(h)]
        return cls(
            address(np.arange(first, first + len(held))),
            starts_of([len(h) for h in held]),
            np.array([p for p, _ in rows], place_type(schema)),
            np.array([v for _, v in rows], np.float64),
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        schema: Schema,
        person: Stated = ...,
        key: str | None = None,
        value: Stated = ...,
        *,
        wide: bool | None = None,
        everyone: Any = None,
    ) -> People:
        """Everyone in a pandas, Polars or Arrow frame, with the keys of the schema.

        The columns are those that ``Schema.from_frame`` was given, unless others are stated;
        ``person=None`` if the rows of a wide frame name no one, ``value=None`` if values do not matter.
        ``everyone`` names or counts all people, also those without a row, who hold nothing; "frame" says
        that the frame has them all. Rows that break a rule are mapped as the plan states for clients:
        other keys are ignored, values outside the range are clipped.
        """
        from .tables.frame_people import people_of_frame

        columns = schema.columns_of(person, key, value, wide)
        return people_of_frame(schema, frame, columns, everyone, values=columns.value is not None)

    @classmethod
    def of_rows(
        cls,
        schema: Schema,
        persons: np.ndarray | list[Person],
        keys: np.ndarray,
        values: Any,
        *,
        lenient: bool = False,
    ) -> People:
        """From a long table: one row a pair, rows of a person anywhere, ``keys`` by place.

        A key place of -1 stands for a key the schema does not list; with key -2 a row says only
        that the person is there. ``lenient`` maps what breaks a rule as the plan states for
        clients (ignore, clip); otherwise the first broken rule is an error.
        """
        names, who = _numbered(persons)
        if not len(who) == len(keys) == len(values):
            raise TableError("the columns of persons, keys and values must be of one length")
        return cls.of_places(schema, address(names), who, keys, values, lenient=lenient)

    @classmethod
    def of_places(
        cls,
        schema: Schema,
        addresses: Words,
        who: Integers,
        keys: np.ndarray,
        values: Any,
        *,
        lenient: bool = False,
    ) -> People:
        """The people at these addresses; ``who`` is the number of each row's person among them.

        Keys, values and ``lenient`` are those of ``of_rows``. Who has no row holds nothing.
        """
        places = np.asarray(keys, np.int64)
        numbers = np.where(places == -2, 0.0, np.asarray(values, np.float64))
        keep, numbers = _ruled(schema, places, numbers, lenient)
        if not keep.all():
            who, places, numbers = who[keep], places[keep], numbers[keep]
        rank = who * len(schema.keys) + places
        if (rank[1:] < rank[:-1]).any():
            order = np.argsort(rank, kind="stable")
            who, places, numbers, rank = who[order], places[order], numbers[order], rank[order]
        twice = rank[1:] == rank[:-1]
        if twice.any():
            if not lenient:
                raise RecordError(TWICE)
            first = np.concatenate([[True], ~twice])
            who, places, numbers = who[first], places[first], numbers[first]
        counts = np.bincount(who, minlength=len(addresses))
        return cls(addresses, starts_of(counts), places.astype(place_type(schema)), numbers)

    @classmethod
    def of_sparse(cls, schema: Schema, matrix: Any, *, first: int = 0, lenient: bool = False) -> People:
        """From a SciPy sparse matrix, a row a person: every stored entry is a held key."""
        if matrix.shape[1] != len(schema.keys):
            raise TableError(f"the matrix needs a column for each of {len(schema.keys)} keys")
        if matrix.format == "coo":
            cells = matrix.row.astype(np.int64) * matrix.shape[1] + matrix.col
            if len(np.unique(cells)) < matrix.nnz:
                raise RecordError(TWICE)
        rows = matrix.tocsr()
        numbers, held = np.arange(rows.shape[0]), (rows.indices, rows.data)
        who = np.repeat(numbers, np.diff(rows.indptr))
        return cls.of_places(schema, address(first + numbers), who, *held, lenient=lenient)


def _numbered(persons: np.ndarray | list[Person]) -> tuple[np.ndarray | list[Person], Integers]:
    """Each person once, and which of them every row belongs to."""
    if isinstance(persons, np.ndarray) and persons.dtype.kind in "iu":
        names, who = np.unique(persons, return_inverse=True)
        return names, who.astype(np.int64, copy=False)
    listed = persons.tolist() if isinstance(persons, np.ndarray) else list(persons)
    numbers: dict[Person, int] = {}
    who = np.array([numbers.setdefault(person, len(numbers)) for person in listed], np.int64)
    return list(numbers), who


def starts_of(counts: Any) -> Integers:
    """Where each person's rows start, from the number of rows of each; the end of all comes last."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def place_type(schema: Schema) -> type[np.unsignedinteger[Any]]:
    """The narrowest type that holds every key's place."""
    return np.uint16 if len(schema.keys) <= 1 << 16 else np.uint32


def _ruled(
    schema: Schema, places: Integers, numbers: Floats, lenient: bool
) -> tuple[np.ndarray, Floats]:
    """Which rows stand, and their values within range; or the rule that a row breaks."""
    present = places != -2
    known = (places >= 0) & (places < len(schema.keys))
    safe = np.where(known, places, 0)
    low, high = schema.low[safe], schema.high[safe]
    if lenient:
        usable = known & ~np.isnan(numbers)
        return usable, np.where(usable, np.clip(numbers, low, high), 0.0)
    if not known[present].all():
        raise RecordError("a key is not in the plan; the plan lists every key one may hold")
    if not np.isfinite(numbers[present]).all():
        raise RecordError("a value is missing, NaN or infinite")
    if not ((numbers >= low) & (numbers <= high))[present].all():
        raise RecordError(schema.outside())
    return known, numbers
