"""Plain randomised response on a key drawn at random: held or not.

Warner, "Randomized response", JASA 1965. Values are not asked, so the whole budget goes to the
frequency: at epsilon 1 its variance is about half of KVUE's.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..channel import Symmetric
from ..people.schema import Schema
from ..people.views import Views
from .mechanism import Draft, Mechanism, NamedEstimators


class RR(Mechanism):
    """Keep or flip one bit: two states, two outputs."""

    name = "rr"
    paper_name = "randomized response"
    source = "Warner, JASA 1965"
    speaks_of = "one key, drawn at random: held or not"
    answers = ("frequency",)
    note = "frequency only: values are not asked"
    bits = "log2 d + 1"
    estimators = NamedEstimators("least_squares", "likelihood")

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        views = Views.singles(len(schema.keys))
        return Draft(schema.at(1), views, "views", (Symmetric.of(2, epsilon),), epsilon)
