"""Collision: hash the whole set of held signed keys, and name a cell that one of them falls into.

Wang et al., "Differentially Private Numerical Vector Analyses in the Local and Shuffle Model", arXiv
2304.04410 (IJCAI 2021 for the precursor). Its error grows with the number of keys a person holds,
not with its square as padding and sampling does, and not with the number of all keys as drawing
one key does. Paper letters: s = held, t = cells, Omega = s e^epsilon + t - s, high = e^epsilon / Omega.

Where we differ: seeds come from a public pool, so that a report is one tally cell, and decoding uses
the pool's own collisions; who holds fewer than s items needs no dummies, because an item's weight is
the same whatever the size of the set; who holds more keeps s drawn at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

from ..channel import CoCo, Collision
from ..channel.collision_channel import best_small
from ..channel.hash import MOST_CELLS
from ..estimate.linear import Moments, least_squares
from ..estimate.pools.pool_decoder import pool_forecast, pool_moments
from ..foundation.arrays import Integers
from ..foundation.errors import PlanError
from ..people.schema import Schema
from ..people.views import Views
from ..plan.encoding import MOST_CAP as MOST_CAP
from ..plan.encoding import items_of, most_held
from .mechanism import Draft, Mechanism, Parameter

if TYPE_CHECKING:
    from ..estimate.forecast.result import Forecast
    from ..people.prior import Prior
    from ..plan.plan import Plan

SALT = 0x5EED0002

LEAST_POOL = 16
"""A pool shrinks no further to make room for cells; then the cells are fewer than would be best."""


def fitting(pool: int, cells: int) -> tuple[int, int]:
    """The pool and cells nearest to what was asked for whose product fits a tally.

    What a pool leaves behind falls with pool times cells, so few seeds with many cells are as good as
    many with few: the pool is halved until the cells fit, down to ``LEAST_POOL``.
    """
    while pool > LEAST_POOL and pool * cells > MOST_CELLS:
        pool //= 2
    return pool, min(cells, MOST_CELLS // pool)


class Sets(Mechanism):
    """A collision over the items that an encoding makes of a record."""

    encode: ClassVar[str]
    estimators = {"least_squares": least_squares}
    bits = "log2 pool + log2 cells"

    def best(self, held: int, epsilon: Decimal) -> int:
        """The number of cells for so many items, if they fit."""
        return best_small(held, epsilon)

    def channel(
        self, items: int, held: int, epsilon: Decimal, pool: int, cells: int
    ) -> Collision | CoCo:
        """The channel, with as many seeds and cells."""
        return Collision.of(items, held, epsilon, pool, SALT, cells)

    def least(self, held: int) -> int:
        """The fewest cells that so many items can have."""
        return held + 1

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        keys, pool = len(schema.keys), int(chosen["pool"])
        cap = min(int(chosen["cap"]), keys)
        held = most_held(self.encode, cap)
        if pool & (pool - 1):
            raise PlanError("pool must be a power of two")
        asked, least = int(chosen["cells"]), self.least(held)
        if asked and asked < least:
            raise PlanError(f"cells must be at least {least} for this cap, or 0 for the best number")
        pool, cells = fitting(pool, asked or self.best(held, epsilon))
        channel = self.channel(items_of(self.encode, keys), held, epsilon, pool, max(cells, least))
        return Draft(schema.at(2), Views.whole(keys), self.encode, (channel,), epsilon)

    def moments(self, plan: Plan, counts: Integers) -> Moments:
        return pool_moments(plan, counts)

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        return pool_forecast(plan, people, prior)


CELLS = Parameter(0, 0, 1 << 21, "cells that items are hashed to; 0 takes the best number")
POOL = Parameter(
    1024, 1, 1 << 16, "seeds of the public pool, a power of two; fewer where cells are many"
)


class CollisionSingles(Sets):
    """pool x cells outputs; the states are the sets of signed keys."""

    name = "collision"
    source = "Wang et al., arXiv 2304.04410"
    speaks_of = "all held keys with their signs, at most cap of them: a cell that one of them falls into"
    note = (
        "of people who hold more keys than the cap, only so many drawn at random count: the frequencies "
        "lie below the truth by what was left out, and the means are those of the keys that were kept"
    )
    encode = "items"
    parameters = {
        "cap": Parameter(8, 1, MOST_CAP, "keys of a person that count; who holds more keeps so many"),
        "pool": POOL,
        "cells": CELLS,
    }


def pool_for(people: float, gain: float, energy: float, share: float = 0.05) -> int:
    """The least pool whose collisions, left uncorrected, add at most ``share`` to the variance.

    ``gain`` is the channel's, ``energy`` the sum over items of their squared frequencies.
    """
    least = max(1, ceil(people * gain**2 * energy / share))
    return 1 << (least - 1).bit_length()
