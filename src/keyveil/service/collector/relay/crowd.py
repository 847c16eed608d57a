"""Crowds: reports that wait for others of their plan and epoch, and reports being sent.

All of it is in memory, within limits. ``sent_ids`` remembers what has left.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import numpy as np

from ....foundation.coins import Coins
from ..process.problems import Problem

OVERHEAD = 200
"""Bytes of memory that a held report takes besides its row."""
AGAIN = 60
"""Seconds after which a device asks again for the fate of its report."""

Spot = tuple[str, str, int]
"""Collection, plan hash and epoch. Reports with the same spot are forwarded together."""


@dataclass
class Pool:
    """Reports of one plan and epoch that wait for others, and those being sent."""

    rows: dict[bytes, bytes] = field(default_factory=dict)
    away: set[bytes] = field(default_factory=set)
    sending: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self.rows) + len(self.away)


class Crowds:
    """All pools of a relay."""

    def __init__(self, hold_bytes: int) -> None:
        self.pools: dict[Spot, Pool] = {}
        self.held_bytes = 0
        self.hold_bytes = hold_bytes

    def __len__(self) -> int:
        """Number of reports held."""
        return sum(len(pool) for pool in self.pools.values())

    def held(self, name: str, epoch: int, ids: list[bytes]) -> set[bytes]:
        """Those ids of an epoch that wait or are being sent, under any plan."""
        pools = [pool for spot, pool in self.pools.items() if (spot[0], spot[2]) == (name, epoch)]
        return {
            report_id
            for report_id in ids
            if any(report_id in pool.rows or report_id in pool.away for pool in pools)
        }

    def hold(self, spot: Spot, rows: dict[bytes, bytes]) -> None:
        """Hold new reports, all of them or none."""
        size = sum(len(row) + OVERHEAD for row in rows.values())
        if self.held_bytes + size > self.hold_bytes:
            raise Problem("overload", after=AGAIN, number=len(rows))
        self.pools.setdefault(spot, Pool()).rows.update(rows)
        self.held_bytes += size

    def leave(self, spot: Spot, at_least: int) -> list[tuple[bytes, bytes]]:
        """The waiting reports, shuffled. Empty if they are too few or others are being sent."""
        pool = self.pools.get(spot)
        if pool is None or pool.sending is not None or len(pool.rows) < at_least:
            return []
        rows, pool.rows = pool.rows, {}
        pool.away = set(rows)
        return shuffled(rows)

    def resume(self, spot: Spot, rows: list[tuple[bytes, bytes]]) -> Pool:
        """Hold a crowd that an earlier process had started to send."""
        pool = self.pools.setdefault(spot, Pool())
        pool.away.update(report_id for report_id, _ in rows)
        self.held_bytes += sum(len(row) + OVERHEAD for _, row in rows)
        return pool

    def gone(self, spot: Spot, rows: list[tuple[bytes, bytes]]) -> None:
        """Release a crowd that is no longer being sent."""
        pool = self.pools[spot]
        pool.sending = None
        for report_id, row in rows:
            self.held_bytes -= len(row) + OVERHEAD
            pool.away.discard(report_id)
        if not pool.rows:
            del self.pools[spot]

    def forget(self, spot: Spot) -> int:
        """Drop the waiting reports of a pool; their number."""
        pool = self.pools.pop(spot)
        self.held_bytes -= sum(len(row) + OVERHEAD for row in pool.rows.values())
        return len(pool.rows)


def shuffled(rows: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """Reports in random order: sorted by sixteen secure random bytes each."""
    pairs = list(rows.items())
    addresses = np.zeros((len(pairs), 4), np.uint32)
    addresses[:, 0] = np.arange(len(pairs))
    order = np.lexsort(Coins.secure().blocks(addresses, 0, 1).T)
    return [pairs[place] for place in order.tolist()]
