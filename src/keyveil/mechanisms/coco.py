"""CoCo: Collision with the two signs of a key in mirrored cells, which says more about values.

Wang et al., "Differentially Private Numerical Vector Analyses in the Local and Shuffle Model", arXiv
2304.04410. Compared with Collision a mean has less variance where few keys are held (a quarter less
with one key at epsilon 1, 5 % with eight), and a frequency more. Paper letters: s = held, t = cells,
Omega = s (e^epsilon + 1) + t - 2 s, high = e^epsilon / Omega, low = 1 / Omega.

Where we differ: seeds come from a public pool; of keys that claim one pair of cells the one with the
lowest rank under the seed gets it, which over seeds is the random order of the paper and takes no
words; dummies are fresh words, so that they leave no trace in the pool's collisions.
"""

from __future__ import annotations

from decimal import Decimal

from ..channel import CoCo
from ..channel.coco_channel import best_cells
from .collision import MOST_CAP, POOL, Sets
from .encodings.item_set import ItemSet
from .mechanism import Parameter

SALT = 0x5EED0003


class CoCoSingles(Sets):
    """pool x cells outputs; the states are the sets of signed keys."""

    name = "coco"
    source = "Wang et al., arXiv 2304.04410"
    speaks_of = "all held keys with their signs, at most cap of them: a cell that favours one of them"
    note = (
        "of people who hold more keys than the cap, only so many drawn at random count: the frequencies "
        "lie below the truth by what was left out, and the means are those of the keys that were kept"
    )
    encoding = ItemSet()
    parameters = {
        "cap": Parameter(8, 1, MOST_CAP, "keys of a person that count; who holds more keeps so many"),
        "pool": POOL,
        "cells": Parameter(
            0, 0, 1 << 21, "cells that keys are hashed to, an even number; 0 takes the best number"
        ),
    }

    def best(self, held: int, epsilon: Decimal) -> int:
        return best_cells(held, epsilon)

    def least(self, held: int) -> int:
        return 2 * held + 2

    def channel(self, items: int, held: int, epsilon: Decimal, pool: int, cells: int) -> CoCo:
        return CoCo.of(items, held, epsilon, pool, SALT, cells)
