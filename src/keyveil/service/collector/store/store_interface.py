"""What a store is asked and answers; nothing here knows which database it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ....foundation.arrays import Integers
from ....foundation.errors import KeyveilError

CHUNK = 256
"""Cells whose counts are one row."""
SEALED, BROUGHT_IN = -1, -2
"""Epochs of counts that belong to no open epoch."""
COMMON = -1
"""The shard of counts that no process owns."""


class StoreError(KeyveilError):
    """A store that cannot be opened."""


class StoreBroken(Exception):
    """The store may have lost something: nothing is acknowledged any more, and nothing retried."""


class StoreUnready(Exception):
    """The store cannot take this now (disk full, database away); what was sent is sent again."""


@dataclass(slots=True)
class Parcel:
    """Checked reports of one request on their way into the store."""

    collection: int
    round: int
    epoch: int
    ids: list[bytes]
    rows: bytes
    """Packed rows, one after the other."""
    refused: dict[int, str] = field(default_factory=dict)
    """Filled by the store: places of reports that were not taken, and why."""


@dataclass(frozen=True)
class Segment:
    """One row of the log."""

    reports: int
    crc: int
    ids: bytes
    payload: bytes


class Session(Protocol):
    """A connection: SQL with ``?`` for parameters."""

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query."""

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """A statement without rows."""

    def many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> None:
        """A statement many times."""

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, few in memory at a time."""


class Live:
    """The counts of one round as of the last commit that this process knows of."""

    def __init__(self, cells: int, version: int) -> None:
        self.counts: Integers = np.zeros(cells, np.int64)
        self.version = version
        """Another number whenever the counts are others."""


def chunk_counts(blob: bytes) -> Integers:
    """A row of counts."""
    return np.frombuffer(blob, "<i8").astype(np.int64)


def chunk_blob(counts: Integers) -> bytes:
    """Counts as a row."""
    return counts.astype("<i8").tobytes()


def by_chunk(cells: Integers, often: Integers) -> Iterator[tuple[int, Integers, Integers]]:
    """Marks by the chunk they fall into, with their places in it; cells are in order."""
    chunks = cells // CHUNK
    used, first = np.unique(chunks, return_index=True)
    ends = np.append(first[1:], len(cells))
    for chunk, start, end in zip(used.tolist(), first.tolist(), ends.tolist(), strict=True):
        yield chunk, cells[start:end] - chunk * CHUNK, often[start:end]
