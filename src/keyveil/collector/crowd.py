"""Crowds: reports that wait for others of their plan and epoch, and what became of those that left.

All of it is in memory, within bounds, and forgets: nothing here could remember who sent what.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import numpy as np

from ..coins import Coins
from .problems import Problem

OVERHEAD = 200
"""Bytes that a held report takes beside its row, or an id whose fate is remembered."""
AGAIN = 60
"""Seconds after which a device asks again what became of its report."""

Spot = tuple[str, str, int]
"""A collection's name, a plan's hash, an epoch: what may be forwarded together."""


@dataclass
class Pool:
    """Reports of one plan and epoch that wait for others, and those on their way."""

    rows: dict[bytes, bytes] = field(default_factory=dict)
    away: set[bytes] = field(default_factory=set)
    sending: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self.rows) + len(self.away)


class Crowds:
    """All pools of a relay, and the fates of what has left them."""

    def __init__(self, hold_bytes: int) -> None:
        self.pools: dict[Spot, Pool] = {}
        self.fates: dict[tuple[str, int], dict[bytes, str]] = {}
        """What became of an epoch's reports that left: empty if the collector has them, else why not."""
        self.held_bytes = self.fated = 0
        self.hold_bytes = hold_bytes

    def __len__(self) -> int:
        """How many reports are held."""
        return sum(len(pool) for pool in self.pools.values())

    def fates_of(self, name: str, epoch: int) -> dict[bytes, str]:
        """What became of an epoch's reports, by id; empty if nothing is known."""
        return self.fates.get((name, epoch), {})

    def new(self, spot: Spot, ids: list[bytes]) -> list[bytes]:
        """Those ids that are neither held, nor on their way, nor decided; each once."""
        pool, fates = self.pools.get(spot) or Pool(), self.fates_of(spot[0], spot[2])
        return [
            one
            for one in dict.fromkeys(ids)
            if one not in fates and one not in pool.rows and one not in pool.away
        ]

    def hold(self, spot: Spot, rows: dict[bytes, bytes]) -> None:
        """Take in reports that are new, all of them or none."""
        size = sum(len(row) + OVERHEAD for row in rows.values())
        if self.held_bytes + size > self.hold_bytes:
            raise Problem("overload", after=AGAIN, number=len(rows))
        self.pools.setdefault(spot, Pool()).rows.update(rows)
        self.held_bytes += size

    def leave(self, spot: Spot, at_least: int) -> list[tuple[bytes, bytes]]:
        """A crowd in an order that says nothing; empty if it is not one, or one is on its way."""
        pool = self.pools.get(spot)
        if pool is None or pool.sending is not None or len(pool.rows) < at_least:
            return []
        rows, pool.rows = pool.rows, {}
        pool.away = set(rows)
        return shuffled(rows)

    def gone(self, spot: Spot, rows: list[tuple[bytes, bytes]]) -> None:
        """A crowd is on its way no more."""
        pool = self.pools[spot]
        pool.sending = None
        for one, row in rows:
            self.held_bytes -= len(row) + OVERHEAD
            pool.away.discard(one)
        if not pool.rows:
            del self.pools[spot]

    def forget(self, spot: Spot) -> int:
        """Drop what waits in a pool; how many reports that were."""
        pool = self.pools.pop(spot)
        self.held_bytes -= sum(len(row) + OVERHEAD for row in pool.rows.values())
        return len(pool.rows)

    def decide(self, spot: Spot, fates: dict[bytes, str]) -> None:
        """Remember what became of reports that left, within bounds."""
        known = self.fates.setdefault((spot[0], spot[2]), {})
        before = len(known)
        known.update(fates)
        self.fated += len(known) - before
        while self.fated * OVERHEAD > self.hold_bytes:
            # whoever is forgotten and asks again is forwarded again, and counted once all the same
            self.forget_fates(next(iter(self.fates)))

    def forget_fates(self, at: tuple[str, int]) -> None:
        """Forget what became of an epoch's reports."""
        self.fated -= len(self.fates.pop(at))


def shuffled(rows: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """Reports in an order that says nothing: by sixteen secure random bytes each."""
    pairs = list(rows.items())
    addresses = np.zeros((len(pairs), 4), np.uint32)
    addresses[:, 0] = np.arange(len(pairs))
    order = np.lexsort(Coins.secure().blocks(addresses, 0, 1).T)
    return [pairs[place] for place in order.tolist()]
