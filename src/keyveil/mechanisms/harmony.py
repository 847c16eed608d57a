"""Harmony: the flipped sign of the value of a random key; an absent key counts as 0.

Nguyên, Xiao, Yang, Hui, Shin, Shin, "Collecting and analyzing data from smart device users with LDP",
2016. It estimates frequency times mean, not the mean, because it does not ask who holds the key.
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


class Harmony(Mechanism):
    """Three states, two outputs: an absent key is a fair coin."""

    name = "harmony"
    paper_name = "Harmony"
    source = "Nguyên et al. 2016"
    speaks_of = "one key, drawn at random: its value, absent counting as 0"
    answers = ("mass",)
    note = "frequency times mean (an absent key counts as 0), not the mean among holders"
    bits = "log2 d + 1"
    estimators = NamedEstimators("least_squares")

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        lie = most_lies(1, epsilon)
        table = _harmony(lie)
        if not table.proof().keeps(epsilon):
            table = _harmony(lie + 1)
        views = Views.singles(len(schema.keys))
        return Draft(schema.at(2), views, "views", (table,), epsilon)


def _harmony(lie: int) -> Table:
    half = WORD // 2
    return Table(((half, half), (WORD - lie, lie), (lie, WORD - lie)))
