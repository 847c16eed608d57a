"""Coefficients: one bit about one product of {x, |x|} over at most ``order`` keys.

Cormode, Kulkarni, Srivastava, "Marginal release under LDP", SIGMOD 2018 (InpHT), which Sun et al. name
as future work, extended from two to three states per key. x is -1, 0 or +1 (absent counts as 0), and |x|
says whether the key is held. All of epsilon goes to one bit about one of T products. A conditional is a
ratio of sums of products. If an x in a product is 0, the bit is a fair coin.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channel import Table
from ..estimate.together.averaged_views import pooled_answers
from ..estimate.together.joint import Evidence
from ..estimate.together.monomials import SumEvidence
from ..foundation.arrays import WORD
from ..foundation.errors import PlanError
from ..foundation.exact import most_lies
from ..people.schema import Schema
from ..people.views import Views, digits
from .mechanism import Draft, Mechanism, Parameter

if TYPE_CHECKING:
    from ..plan.plan import Plan
    from ..plan.tally import Tally


class Coefficients(Mechanism):
    """T views, two outputs each; T is the number of products."""

    name = "coefficients"
    source = "after Cormode, Kulkarni, Srivastava, SIGMOD 2018"
    speaks_of = "one product of signs and presences of a few keys"
    bits = "log2 T + 1"
    most_keys = 500
    parameters = {"order": Parameter(2, 1, 4, "largest number of keys of a product")}
    estimators = {"least_squares": pooled_answers}

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        order, keys = min(int(chosen["order"]), len(schema.keys)), len(schema.keys)
        lie = most_lies(1, epsilon)
        if not _bit_law((2,), lie).proof().keeps(epsilon):
            lie += 1
        channels: list[Table] = []
        numbers: dict[tuple[int, ...], int] = {}
        views: list[tuple[int, ...]] = []
        channel_of: list[int] = []
        for size in range(1, order + 1):
            for powers in product((1, 2), repeat=size):
                numbers[powers] = len(channels)
                channels.append(_bit_law(powers, lie))
            for view in combinations(range(keys), size):
                for powers in product((1, 2), repeat=size):
                    views.append(view)
                    channel_of.append(numbers[powers])
        if len(views) > 1 << 20:
            raise PlanError(f"{len(views)} products are too many; take fewer keys or a lower order")
        return Draft(
            schema.at(2), Views(tuple(views)), "views", tuple(channels), epsilon, tuple(channel_of)
        )

    def evidence(self, plan: Plan, tally: Tally) -> Evidence | None:
        return SumEvidence(plan, tally)


def _bit_law(powers: tuple[int, ...], lie: int) -> Table:
    """The law of the bit: for -1, 0 and +1, or for 0 and 1 if all powers are presences."""
    rows = digits(2, len(powers))
    sign, held = np.array([0, -1, 1])[rows], (rows > 0).astype(int)
    values = np.prod(np.where(np.array(powers) == 1, sign, held), axis=1)
    half = WORD // 2
    yes, no, coin = (lie, WORD - lie), (WORD - lie, lie), (half, half)
    if set(powers) == {2}:
        return Table(tuple(yes if w else no for w in values))
    return Table(tuple(yes if w > 0 else no if w < 0 else coin for w in values))
