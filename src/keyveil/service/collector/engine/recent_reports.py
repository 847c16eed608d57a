"""Reports accepted recently.

A repeated report does not count against the rate; a changed one is counted.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

import numpy as np

from ....foundation.arrays import Integers
from ..store import Parcel
from ..store.packed_ids import PackedIds

SLOTS = 1 << 16
"""Maximum number of reports remembered; a power of two."""
_FEW = 8
"""Requests with at most this many reports are looked up one by one, which is faster for them."""
_NOWHERE = (1 << 64) - 1


class RecentMatch(NamedTuple):
    """How many reports of a request are repeated, and how many of those have other cells than before."""

    repeats: int
    changed: int
    new: tuple[Integers, np.ndarray, np.ndarray] | list[tuple[int, int, int, int]]
    """The other reports: their slots, ids and row checksums."""


class RecentReports:
    """A fixed-size table of recently accepted reports, in memory: their ids and row checksums.

    Each id has one slot, and a newer id replaces the older one, so the table never grows. Ids are
    compared in full, so a new report is never taken for a repeated one.
    """

    def __init__(self, slots: int = SLOTS) -> None:
        self._ids = np.zeros((slots, 2), np.uint64)
        self._where = np.full(slots, _NOWHERE, np.uint64)
        self._rows = np.zeros(slots, np.uint64)
        self._mask = slots - 1

    def look(self, parcel: Parcel, width: int) -> RecentMatch:
        """Look up the reports of a request."""
        if len(parcel.ids) <= _FEW:
            return self._look_one_by_one(parcel, width)
        words = np.frombuffer(PackedIds.of(parcel.ids).packed, "<u8").reshape(-1, 2)
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
        """Remember accepted reports. For repeated ids the first report stays."""
        where = _where(parcel)
        if isinstance(match.new, list):
            for at, low, high, row in match.new:
                self._ids[at], self._where[at], self._rows[at] = (low, high), where, row
            return
        places, words, rows = match.new  # if two share a slot, the last one stays
        self._ids[places], self._where[places], self._rows[places] = words, where, rows


def _where(parcel: Parcel) -> int:
    """The round and epoch of a parcel as one number; ids are unique within them."""
    return parcel.round << 32 | parcel.epoch


def _check(row: bytes) -> int:
    """A row as a 64-bit checksum: the row itself if it fits."""
    return int.from_bytes(row, "little") if len(row) <= 8 else crc32(row)


def _checks(rows: bytes, width: int) -> np.ndarray:
    if width > 8:
        return np.array([crc32(rows[at : at + width]) for at in range(0, len(rows), width)], np.uint64)
    filled = np.zeros((len(rows) // width, 8), np.uint8)
    filled[:, :width] = np.frombuffer(rows, np.uint8).reshape(-1, width)
    return filled.view("<u8")[:, 0]
