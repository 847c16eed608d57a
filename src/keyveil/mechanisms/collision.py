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
from typing import Any, ClassVar

from ..channel import Collision
from ..channel.hash import MOST_CELLS
from ..encode import items_of, most_held
from ..errors import PlanError
from ..estimate.collisions import least_squares
from ..mechanism import Draft, Mechanism, Parameter
from ..schema import Schema
from ..views import Views

SALT = 0x5EED0002

MOST_CAP = 64


class Sets(Mechanism):
    """A collision over the items that an encoding makes of a record."""

    encode: ClassVar[str]
    estimators = {"least_squares": least_squares}
    bits = "log2 pool + log2 cells"

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        keys, pool = len(schema.keys), int(chosen["pool"])
        cap = min(int(chosen["cap"]), keys)
        held = most_held(self.encode, cap)
        if pool & (pool - 1):
            raise PlanError("pool must be a power of two")
        if pool * (held + 1) > MOST_CELLS:
            raise PlanError(f"pool times cells is at most {MOST_CELLS}; take a smaller pool or cap")
        small = int(chosen["cells"]) or None
        if small is not None and not held < small <= MOST_CELLS // pool:
            raise PlanError(
                f"cells must lie between {held + 1} and {MOST_CELLS // pool} for this cap and pool"
            )
        items = items_of(self.encode, keys)
        channel = Collision.of(items, held, epsilon, pool, SALT, small)
        return Draft(schema.at(2), Views.whole(keys), self.encode, (channel,), epsilon)


CELLS = Parameter(0, 0, 1 << 21, "cells that items are hashed to; 0 takes the authors' number")


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
        "pool": Parameter(1024, 1, 1 << 16, "seeds of the public pool, a power of two"),
        "cells": CELLS,
    }


def pool_for(people: float, gain: float, energy: float, share: float = 0.05) -> int:
    """The least pool whose collisions, left uncorrected, add at most ``share`` to the variance.

    ``gain`` is the channel's, ``energy`` the sum over items of their squared frequencies.
    """
    least = max(1, ceil(people * gain**2 * energy / share))
    return 1 << (least - 1).bit_length()
