"""CoCo: Collision with the two signs of a key in mirrored cells, which is better for values.

Wang et al., "Differentially Private Numerical Vector Analyses in the Local and Shuffle Model", arXiv
2304.04410. Compared with Collision, the variance of a mean is lower if people hold few keys (by a
quarter with one key at epsilon 1, by 5 % with eight), and that of a frequency is higher. Paper letters:
s = held, t = cells, Omega = s (e^epsilon + 1) + t - 2 s, high = e^epsilon / Omega, low = 1 / Omega.

We differ from the paper in three points. Seeds come from a public pool. If several keys claim a pair of
cells, the one with the lowest rank under the seed gets it; over seeds this is the random order of the
paper, and it needs no random words. Dummies are fresh words, so they do not affect the collisions of the
pool.
"""

from __future__ import annotations

from decimal import Decimal

from ..channel import CoCo
from ..channel.shapes.coco_channel import best_cells
from .collision import MOST_CAP, POOL, Sets
from .encodings.item_set import ItemSet
from .mechanism import Parameter

SALT = 0x5EED0003
"""Salt of the hashes."""


class CoCoSingles(Sets):
    """pool x cells outputs; the states are the sets of signed keys."""

    name = "coco"
    paper_name = "CoCo"
    source = "Wang et al., arXiv 2304.04410"
    speaks_of = "all held keys with their signs, at most cap of them: a cell that favours one of them"
    note = (
        "a person with more keys than the cap reports a random part of them: frequencies are biased "
        "downwards by the rest, and means are those of the reported keys"
    )
    encoding = ItemSet()
    parameters = {
        "cap": Parameter(8, 1, MOST_CAP, "most keys per person; of more, a random part is reported"),
        "pool": POOL,
        "cells": Parameter(
            0, 0, 1 << 21, "cells that keys are hashed to, an even number; 0 means the best number"
        ),
    }

    def best(self, held: int, epsilon: Decimal) -> int:
        return best_cells(held, epsilon)

    def least(self, held: int) -> int:
        return 2 * held + 2

    def channel(self, items: int, held: int, epsilon: Decimal, pool: int, cells: int) -> CoCo:
        return CoCo.of(items, held, epsilon, pool, SALT, cells)
