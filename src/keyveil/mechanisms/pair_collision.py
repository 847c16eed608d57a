"""Pair collision: Collision over the held signed keys of a person and all signed pairs of them.

It is for conditional analysis of sparse records over many keys. A report is about every pair that the
person holds. Pair views ask about one random pair, which hardly anyone holds. The items are the 2 d
signed keys and 4 d (d - 1) / 2 signed pairs; a person with c keys has c + c (c - 1) / 2 of them. For
dense records over few keys, pair views are better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..estimate.pools.pair_evidence import PairEvidence
from ..estimate.together.joint import Evidence, HeldEvidence
from .collision import CELLS, POOL, Sets
from .encodings.item_set import PairItemSet
from .mechanism import Parameter

if TYPE_CHECKING:
    from ..plan.plan import Plan
    from ..plan.tally import Tally

MOST_KEPT = 32
"""The largest cap on the keys of a person: 496 pairs."""


class PairCollision(Sets):
    """pool x cells outputs; the states are the sets of signed keys with all their pairs."""

    name = "pair_collision"
    source = "keyveil; Collision of Wang et al., arXiv 2304.04410, over pairs"
    speaks_of = "all held keys and pairs of keys with their signs: a cell that one of them falls into"
    note = (
        "a person with more keys than the cap reports a random part of them: frequencies of keys, and "
        "more so of pairs, are biased downwards by the rest"
    )
    encoding = PairItemSet()
    parameters = {
        "cap": Parameter(6, 1, MOST_KEPT, "most keys per person; of more, a random part is reported"),
        "pool": POOL,
        "cells": CELLS,
    }

    def evidence(self, plan: Plan, tally: Tally) -> Evidence | None:
        return HeldEvidence(plan, PairEvidence(plan, tally))
