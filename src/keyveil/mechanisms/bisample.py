"""BiSample: a fair coin asks for the positive or the negative side, and one bit answers.

Sun, Ye, Zhao, Lu, Yang, "BiSample: Bidirectional sampling for handling missing data with LDP", DASFAA
2020. Tight. Below epsilon 0.7, or for very dense keys, the variance of its mean is below KVUE's; that of
its frequency is about twice KVUE's. We decode by least squares over the four outputs, not by the shares
within each direction. The expectation is the same, without division by a random count.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..channel import Table
from ..foundation.arrays import WORD
from ..foundation.exact import most_lies
from ..people.schema import Schema
from ..people.views import Views
from .mechanism import Draft, Mechanism, NamedEstimators


class BiSample(Mechanism):
    """Outputs: no and yes for the positive side, then no and yes for the negative side."""

    name = "bisample"
    paper_name = "BiSample"
    source = "Sun et al., DASFAA 2020"
    speaks_of = "one key, drawn at random: absent, low or high"
    bits = "log2 d + 2"
    estimators = NamedEstimators("least_squares", "likelihood")

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        half = WORD // 2
        lie = most_lies(1, epsilon, half)
        table = _bisample(half - lie, lie)
        if not table.proof().keeps(epsilon):
            table = _bisample(half - lie - 1, lie + 1)
        views = Views.singles(len(schema.keys))
        return Draft(schema.at(2), views, "views", (table,), epsilon)


def _bisample(keep: int, lie: int) -> Table:
    absent, low, high = (keep, lie, keep, lie), (keep, lie, lie, keep), (lie, keep, keep, lie)
    return Table((absent, low, high))
