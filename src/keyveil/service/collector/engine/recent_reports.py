"""What was taken lately: a report sent again is not charged for, and one that was changed is counted."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

import numpy as np

from ....foundation.arrays import Integers
from ..store import Parcel

SLOTS = 1 << 16
"""Reports that are remembered, at most; a power of two."""
_FEW = 8
"""Up to so many reports of a request are looked up one by one, which is faster then."""
_NOWHERE = (1 << 64) - 1


class RecentMatch(NamedTuple):
    """How many reports of a request are known, and how many of those have other cells than before."""

    repeats: int
    changed: int
    new: tuple[Integers, np.ndarray, np.ndarray] | list[tuple[int, int, int, int]]
    """The others: their places, ids and rows."""


class RecentReports:
    """A table of the latest reports that were taken, in memory alone: their ids, and their rows' checks.

    Every id has one place, which a newer one takes over: the table never grows, and forgets what is
    long gone. What it knows is exact, so nobody can pass a new report off as one that was sent before.
    """

    def __init__(self, slots: int = SLOTS) -> None:
        self._ids = np.zeros((slots, 2), np.uint64)
        self._where = np.full(slots, _NOWHERE, np.uint64)
        self._rows = np.zeros(slots, np.uint64)
        self._mask = slots - 1

    def look(self, parcel: Parcel, width: int) -> RecentMatch:
        """What is known of a request's reports."""
        if len(parcel.ids) <= _FEW:
            return self._look_one_by_one(parcel, width)
        words = np.frombuffer(b"".join(parcel.ids), "<u8").reshape(-1, 2)
        places = (words[:, 0] & np.uint64(self._mask)).astype(np.int64)
        rows = _checks(parcel.rows, width)
        known = (self._ids[places] == words).all(axis=1)
        known &= self._where[places] == np.uint64(_where(parcel))
        repeats = int(known.sum())
        if not repeats:
            return RecentMatch(0, 0, (places, words, rows))
        changed = int((known & (self._rows[places] != rows)).sum())
        return RecentMatch(repeats, changed, (places[~known], words[~known], rows[~known]))

    def _look_one_by_one(self, parcel: Parcel, width: int) -> RecentMatch:
        repeats = changed = 0
        new = []
        for number, report_id in enumerate(parcel.ids):
            low, high = int.from_bytes(report_id[:8], "little"), int.from_bytes(report_id[8:], "little")
            at, row = low & self._mask, _check(parcel.rows[number * width : (number + 1) * width])
            if self._ids[at].tolist() != [low, high] or int(self._where[at]) != _where(parcel):
                new.append((at, low, high, row))
            else:
                repeats += 1
                changed += int(self._rows[at]) != row
        return RecentMatch(repeats, changed, new)

    def note(self, parcel: Parcel, match: RecentMatch) -> None:
        """The reports were taken; what is known already stays as it was first."""
        where = _where(parcel)
        if isinstance(match.new, list):
            for at, low, high, row in match.new:
                self._ids[at], self._where[at], self._rows[at] = (low, high), where, row
            return
        places, words, rows = match.new  # of two with one place the last one stays
        self._ids[places], self._where[places], self._rows[places] = words, where, rows


def _where(parcel: Parcel) -> int:
    """An id counts once within a round and an epoch; elsewhere it is another."""
    return parcel.round << 32 | parcel.epoch


def _check(row: bytes) -> int:
    """A row in 64 bits: itself, if it fits."""
    return int.from_bytes(row, "little") if len(row) <= 8 else crc32(row)


def _checks(rows: bytes, width: int) -> np.ndarray:
    if width > 8:
        return np.array([crc32(rows[at : at + width]) for at in range(0, len(rows), width)], np.uint64)
    filled = np.zeros((len(rows) // width, 8), np.uint8)
    filled[:, :width] = np.frombuffer(rows, np.uint8).reshape(-1, width)
    return filled.view("<u8")[:, 0]
