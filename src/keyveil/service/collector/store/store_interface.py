"""What a store accepts and returns, independent of the database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ....foundation.arrays import Integers
from ....foundation.errors import KeyveilError

CHUNK = 256
"""Number of cells whose counts form one row."""
SEALED, BROUGHT_IN = -1, -2
"""Epoch numbers of counts that belong to no open epoch."""
COMMON = -1
"""The shard of counts that no process owns."""

HELD = "55P03"
"""The kind of a ``StoreUnready`` if a lock that another transaction holds was not to be had in time."""


class StoreError(KeyveilError):
    """The store cannot be opened or used."""


class VersionError(StoreError):
    """The store's tables are of another version."""


class StoreFault(Exception):
    """The store could not do what it was asked to do."""

    def __init__(self, text: str = "", kind: str = "store") -> None:
        super().__init__(text)
        self.kind = kind
        """The SQLSTATE of the database's error, or a word if it has none."""


class StoreBroken(StoreFault):
    """The store may have lost data, or will not recover by itself. Nothing more is acknowledged."""


class StoreUnready(StoreFault):
    """The store cannot accept this now: the disk is full or the database unreachable.

    Clients send again.
    """


@dataclass(slots=True)
class Parcel:
    """Checked reports of one request for the store."""

    collection: int
    round: int
    epoch: int
    ids: Sequence[bytes]
    """Best packed: then they are never taken apart."""
    rows: bytes
    """Packed rows of the reports, concatenated."""
    refused: dict[int, str] = field(default_factory=dict)
    """Filled by the store: the places of refused reports and the reasons."""


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
    """The counts of one round as of the last commit that this process knows."""

    def __init__(self, cells: int, version: int) -> None:
        self.counts: Integers = np.zeros(cells, np.int64)
        self.version = version
        """Changes whenever the counts change."""


def chunk_counts(blob: bytes) -> Integers:
    """A row of the store as counts."""
    return np.frombuffer(blob, "<i8").astype(np.int64)


def chunk_blob(counts: Integers) -> bytes:
    """Counts as a row of the store."""
    return counts.astype("<i8").tobytes()


def by_chunk(cells: Integers, often: Integers) -> Iterator[tuple[int, Integers, Integers]]:
    """Marks grouped by chunk, with their places in it. ``cells`` must be sorted."""
    chunks = cells // CHUNK
    used, first = np.unique(chunks, return_index=True)
    ends = np.append(first[1:], len(cells))
    for chunk, start, end in zip(used.tolist(), first.tolist(), ends.tolist(), strict=True):
        yield chunk, cells[start:end] - chunk * CHUNK, often[start:end]
