"""MeanEst: Duchi's vector of signs, all keys at once; an absent key counts as 0.

Duchi, Jordan, Wainwright, "Privacy aware learning", JACM 2014. Every value is rounded to a sign, an
absent one by a fair coin, and a random vector on (mostly) the same side is sent. It estimates frequency
times mean, not the mean. For an even number of keys, an orthogonal vector is sent as drawn and not
counted on both sides, which is exactly uniform without rejection.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..channel import Halfspace
from ..people.schema import Schema
from ..people.views import Views
from .mechanism import Draft, Mechanism, NamedEstimators


class MeanEst(Mechanism):
    """2^d states, d bits sent."""

    name = "meanest"
    paper_name = "MeanEst"
    source = "Duchi, Jordan, Wainwright, JACM 2014"
    speaks_of = "the whole record as a vector of signs, absent counting as 0"
    answers = ("mass",)
    note = "frequency times mean (an absent key counts as 0), not the mean among holders"
    bits = "d"
    estimators = NamedEstimators("least_squares")

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        keys = len(schema.keys)
        channel = Halfspace.of(keys, epsilon)
        return Draft(schema.at(2), Views.whole(keys), "signs", (channel,), epsilon)
