"""The ids of an open epoch: exact membership in sixteen bytes of memory each.

New ids go into a plain set; when it is full they become a sorted run, and runs of similar size are
merged, so that few runs are ever searched.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Integers

SIZE = 16
RECENT = 1 << 14
"""Ids that the plain set holds at the most."""
FANOUT = 4
"""A run is merged with those before it that are at most so many times larger."""

_PARTS = np.dtype([("high", ">u8"), ("low", ">u8")])


class _Run:
    """Ids in order, as two columns of numbers."""

    def __init__(self, high: np.ndarray, low: np.ndarray) -> None:
        """From columns that are in order of ``high``."""
        same = np.flatnonzero(high[1:] == high[:-1])
        if len(same):  # only ids made on purpose share their first half: those alone are sorted anew
            places = np.union1d(same, same + 1)
            order = np.lexsort((low[places], high[places]))
            low[places] = low[places][order]
        self.high, self.low = high, low

    @classmethod
    def of(cls, packed: bytes) -> _Run:
        """From ids that lie end to end, in any order."""
        high, low = _columns(packed)
        order = np.argsort(high)
        return cls(high[order], low[order])

    def joined(self, other: _Run) -> _Run:
        """With the ids of a smaller run in their places: one pass, no sorting."""
        at = np.searchsorted(self.high, other.high) + np.arange(len(other))
        mine = np.ones(len(self) + len(other), bool)
        mine[at] = False
        columns = []
        for own, new in ((self.high, other.high), (self.low, other.low)):
            column = np.empty(len(mine), np.uint64)
            column[at], column[mine] = new, own
            columns.append(column)
        return _Run(*columns)

    def __len__(self) -> int:
        return len(self.high)

    def find(self, high: np.ndarray, low: np.ndarray) -> Integers:
        """The places, among the ids asked for, of those that are here."""
        first = np.searchsorted(self.high, high)
        inside = np.minimum(first, len(self.high) - 1)
        maybe = np.flatnonzero(self.high[inside] == high)
        found = []
        for place in maybe:
            last = int(np.searchsorted(self.high, high[place], side="right"))
            same = self.low[first[place] : last]
            at = int(np.searchsorted(same, low[place]))
            if at < len(same) and same[at] == low[place]:
                found.append(place)
        return np.array(found, np.int64)


class IdSet:
    """A set of sixteen-byte ids that only grows."""

    def __init__(self, packed: bytes = b"") -> None:
        self._recent: set[bytes] = set()
        self._runs: list[_Run] = []
        if packed:
            self._push(_Run.of(packed))

    def __len__(self) -> int:
        return len(self._recent) + sum(len(run) for run in self._runs)

    def __contains__(self, one: bytes) -> bool:
        return bool(self.known([one]))

    def known(self, ids: Sequence[bytes]) -> set[int]:
        """The places of those ids that are in the set."""
        recent = self._recent
        found = {place for place, one in enumerate(ids) if one in recent} if recent else set()
        if self._runs and ids:
            high, low = _columns(b"".join(ids))
            order = np.argsort(high)  # neighbours are looked for one after the other
            high, low = high[order], low[order]
            for run in self._runs:
                found.update(order[run.find(high, low)].tolist())
        return found

    def add(self, ids: Sequence[bytes]) -> None:
        """Put in ids that are not in it yet."""
        self._recent.update(ids)
        if len(self._recent) >= RECENT:
            packed = b"".join(self._recent)
            self._recent = set()
            self._push(_Run.of(packed))

    def _push(self, run: _Run) -> None:
        while self._runs and len(self._runs[-1]) <= FANOUT * len(run):
            last = self._runs.pop()
            run = last.joined(run) if len(last) >= len(run) else run.joined(last)
        self._runs.append(run)


def split(packed: bytes) -> list[bytes]:
    """Ids that lie end to end, one by one."""
    return [packed[at : at + SIZE] for at in range(0, len(packed), SIZE)]


def _columns(packed: bytes) -> tuple[np.ndarray, np.ndarray]:
    parts = np.frombuffer(packed, _PARTS)
    return parts["high"].astype(np.uint64), parts["low"].astype(np.uint64)
