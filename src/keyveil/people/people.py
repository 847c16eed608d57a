"""People: a checked, sparse table of records, addressed for the coins; the batch form of a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..foundation.arrays import Floats, Integers, Words
from ..foundation.coins import Person, address
from ..foundation.errors import RecordError, TableError
from .schema import Record, Schema


@dataclass(frozen=True)
class People:
    """Rows ``starts[i] .. starts[i + 1]`` are person i's keys (by place, ascending) and values."""

    addresses: Words
    starts: Integers
    keys: np.ndarray
    values: Floats

    def __len__(self) -> int:
        return len(self.addresses)

    def __repr__(self) -> str:
        return f"People({len(self)})"

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
        counts = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        at = np.repeat(self.starts[rows] - starts[:-1], counts) + np.arange(starts[-1])
        return People(address(numbers), starts, self.keys[at], self.values[at])

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
        counts = [len(h) for h in held]
        rows = [(p, h[p]) for h in held for p in sorted(h)]
        return cls(
            address(np.arange(first, first + len(held))),
            np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
            np.array([p for p, _ in rows], place_type(schema)),
            np.array([v for _, v in rows], np.float64),
        )

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
        places = np.asarray(keys, np.int64)
        numbers = np.asarray(values, np.float64)
        if not len(who) == len(places) == len(numbers):
            raise TableError("the columns of persons, keys and values must be of one length")
        numbers = np.where(places == -2, 0.0, numbers)
        keep, numbers = _ruled(schema, places, numbers, lenient)
        who, places, numbers = who[keep], places[keep], numbers[keep]
        rank = who * len(schema.keys) + places
        if (rank[1:] < rank[:-1]).any():
            order = np.argsort(rank, kind="stable")
            who, places, numbers, rank = who[order], places[order], numbers[order], rank[order]
        twice = rank[1:] == rank[:-1]
        if twice.any():
            if not lenient:
                raise RecordError("a key appears twice; a record has each key at most once")
            first = np.concatenate([[True], ~twice])
            who, places, numbers = who[first], places[first], numbers[first]
        counts = np.bincount(who, minlength=len(names))
        return cls(
            address(names),
            np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
            places.astype(place_type(schema)),
            numbers,
        )

    @classmethod
    def of_sparse(cls, schema: Schema, matrix: Any, *, first: int = 0) -> People:
        """From a SciPy sparse matrix, a row a person: every stored entry is a held key."""
        if matrix.shape[1] != len(schema.keys):
            raise TableError(f"the matrix needs a column for each of {len(schema.keys)} keys")
        if matrix.format == "coo" and len(np.unique(_flat(matrix))) < matrix.nnz:
            raise RecordError("a key appears twice; a record has each key at most once")
        rows = matrix.tocsr()
        if not rows.has_sorted_indices:
            rows = rows.sorted_indices()
        if _repeats(rows.indptr, rows.indices):
            raise RecordError("a key appears twice; a record has each key at most once")
        places = rows.indices.astype(np.int64)
        keep, numbers = _ruled(schema, places, rows.data.astype(np.float64), False)
        del keep  # strict: every row was good
        return cls(
            address(np.arange(first, first + rows.shape[0])),
            rows.indptr.astype(np.int64),
            places.astype(place_type(schema)),
            numbers,
        )


def _numbered(persons: np.ndarray | list[Person]) -> tuple[np.ndarray | list[Person], Integers]:
    """Each person once, and which of them every row belongs to."""
    if isinstance(persons, np.ndarray) and persons.dtype.kind in "iu":
        names, who = np.unique(persons, return_inverse=True)
        return names, who.astype(np.int64, copy=False)
    listed = persons.tolist() if isinstance(persons, np.ndarray) else list(persons)
    numbers: dict[Person, int] = {}
    who = np.array([numbers.setdefault(person, len(numbers)) for person in listed], np.int64)
    return list(numbers), who


def _flat(matrix: Any) -> np.ndarray:
    """Row and column of every entry of a coordinate matrix as one number."""
    return matrix.row.astype(np.int64) * matrix.shape[1] + matrix.col


def place_type(schema: Schema) -> type[np.unsignedinteger[Any]]:
    """The narrowest type that holds every key's place."""
    return np.uint16 if len(schema.keys) <= 1 << 16 else np.uint32


def _repeats(starts: np.ndarray, places: np.ndarray) -> bool:
    """Whether a person has a key twice, where rows are sorted by key."""
    if len(places) < 2:
        return False
    same = places[1:] == places[:-1]
    inside = np.ones(len(places) - 1, bool)
    edges = starts[1:-1]
    inside[edges[(edges > 0) & (edges < len(places))] - 1] = False
    return bool((same & inside).any())


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
        raise RecordError("a value lies outside the range of its key")
    return known, numbers
