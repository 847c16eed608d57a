"""Collision: hash the whole set of held signed keys, and name a cell that one of them falls into.

Wang et al., "Differentially Private Numerical Vector Analyses in the Local and Shuffle Model", arXiv
2304.04410 (IJCAI 2021 for the precursor). Its error grows with the number of keys of a person. The error
of padding and sampling grows with the square of that number, and the error of drawing one key grows with
the number of all keys. Paper letters: s = held, t = cells, Omega = s e^epsilon + t - s,
high = e^epsilon / Omega.

We differ from the paper in two points. Seeds come from a public pool, so that a report is one cell of
the tally, and decoding uses the actual collisions of the pool. A person with fewer than s items needs no
dummies, because the weight of an item does not depend on the size of the set; a person with more keeps s
random ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import ceil
from typing import Any, ClassVar

import numpy as np

from ..channel import CoCo, Collision
from ..channel.shapes.collision_channel import best_small
from ..channel.shapes.hash import MOST_CELLS
from ..foundation.arrays import Floats
from ..foundation.errors import PlanError
from ..people.schema import Schema
from ..people.views import Views
from ..plan.encoding import MOST_CAP as MOST_CAP
from .encodings.item_set import ItemSet
from .mechanism import Draft, Mechanism, NamedEstimators, Parameter

SALT = 0x5EED0002
"""Salt of the hashes."""

LEAST_POOL = 16
"""Smallest pool after halving for more cells; beyond it there are fewer cells than would be best."""


UNDONE = 2048
"""Number of keys up to which the default pool is the same for all plans."""

MADE_FOR = 1_000_000
"""Number of people for whom a plan's default pool is large enough if nothing is known of them."""

MOST_ADDED = 0.04
"""What a pool is expected to add to the standard error of frequencies, relative to it, at most.

What the plan's own seeds add differs a little from that, and is below 5 %."""


def fitting(pool: int, cells: int) -> tuple[int, int]:
    """Pool and cells, reduced so that their product fits a tally.

    The error of a pool falls with pool times cells, so few seeds with many cells are as good as many
    seeds with few cells. The pool is halved until the cells fit, down to ``LEAST_POOL``.
    """
    while pool > LEAST_POOL and pool * cells > MOST_CELLS:
        pool //= 2
    return pool, min(cells, MOST_CELLS // pool)


class Sets(Mechanism):
    """A collision over the items of a record."""

    encoding: ClassVar[ItemSet]
    estimators = NamedEstimators("least_squares")
    bits = "log2 pool + log2 cells"

    def best(self, held: int, epsilon: Decimal) -> int:
        """The best number of cells for ``held`` items."""
        return best_small(held, epsilon)

    def channel(
        self, items: int, held: int, epsilon: Decimal, pool: int, cells: int
    ) -> Collision | CoCo:
        """The channel with ``pool`` seeds and ``cells`` cells."""
        return Collision.of(items, held, epsilon, pool, SALT, cells)

    def least(self, held: int) -> int:
        """The smallest possible number of cells for ``held`` items."""
        return held + 1

    def drafted(self, keys: int, epsilon: Decimal, chosen: Mapping[str, Any]) -> Collision | CoCo:
        """The channel of a plan over so many keys."""
        held = self.encoding.most_held(min(int(chosen["cap"]), keys))
        wanted, least = int(chosen["cells"]), self.least(held)
        if wanted and wanted < least:
            raise PlanError(f"cells must be at least {least} for this cap, or 0 for the best number")
        pool = int(chosen["pool"])
        if pool & (pool - 1):
            raise PlanError("pool must be a power of two")
        pool, cells = fitting(pool, wanted or self.best(held, epsilon))
        return self.channel(self.encoding.items(keys), held, epsilon, pool, max(cells, least))

    def seeds_for(
        self, channel: Collision | CoCo, keys: int, people: float, shares: Floats, count: Floats
    ) -> int | None:
        """The smallest pool that adds at most ``MOST_ADDED``; None if the estimator undoes collisions.

        ``shares`` are frequencies, and ``count`` is the number of keys that have each.
        """
        from ..estimate.pools.collision_matrix import MOST_CORE

        if min(items for _, items in channel.cores(keys)) <= MOST_CORE:
            return None
        squares = np.stack([shares**2, np.zeros(len(shares))], axis=1)
        energy = float(count @ channel.key_energy(squares))
        added = people * channel.pool_variance(energy)[0] / channel.key_noise[0] * channel.pool
        least = min(ceil(added / ((1 + MOST_ADDED) ** 2 - 1)), MOST_POOL)
        return max(POOL_DEFAULT, 1 << max(least - 1, 0).bit_length())

    def own_defaults(
        self, keys: int, epsilon: Decimal, chosen: Mapping[str, Any]
    ) -> Mapping[str, int | str]:
        """A larger pool if collisions are not undone: for people whose keys follow Zipf's law."""
        if keys <= UNDONE:
            return {}
        channel = self.drafted(keys, epsilon, chosen)
        ranks = 1.0 / np.arange(1, keys + 1)
        shares = np.minimum(int(chosen["cap"]) * ranks / ranks.sum(), 1.0)
        pool = self.seeds_for(channel, keys, MADE_FOR, shares, np.ones(keys))
        return {} if pool is None else {"pool": pool}

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        keys = len(schema.keys)
        channel = self.drafted(keys, epsilon, chosen)
        return Draft(schema.at(2), Views.whole(keys), self.encoding.name, (channel,), epsilon)


CELLS = Parameter(0, 0, 1 << 21, "cells that items are hashed to; 0 means the best number")
POOL_DEFAULT, MOST_POOL = 1024, 1 << 20
POOL = Parameter(
    POOL_DEFAULT,
    1,
    MOST_POOL,
    "seeds of the public pool, a power of two; fewer if there are many cells, more by default if the "
    "collisions of so many keys cannot be undone",
)


class CollisionSingles(Sets):
    """pool x cells outputs; the states are the sets of signed keys."""

    name = "collision"
    paper_name = "Collision"
    source = "Wang et al., arXiv 2304.04410"
    speaks_of = "all held keys with their signs, at most cap of them: a cell that one of them falls into"
    note = (
        "a person with more keys than the cap reports a random part of them: frequencies are biased "
        "downwards by the rest, and means are those of the reported keys"
    )
    encoding = ItemSet()
    parameters = {
        "cap": Parameter(8, 1, MOST_CAP, "most keys per person; of more, a random part is reported"),
        "pool": POOL,
        "cells": CELLS,
    }


def pool_for(people: float, gain: float, energy: float, share: float = 0.05) -> int:
    """The smallest pool whose uncorrected collisions add at most ``share`` to the variance.

    ``gain`` is that of the channel, ``energy`` the sum of the squared frequencies of all items.
    """
    least = max(1, ceil(people * gain**2 * energy / share))
    return 1 << (least - 1).bit_length()
