"""k-RR, generalised randomised response, over one held key drawn uniformly, or "none".

Kairouz, Oh, Viswanath, "Extremal mechanisms for local differential privacy", NIPS 2014. The state is
one of d + 1 items. It estimates the share of people whose drawn key is k. This is the frequency of k
only if everyone holds at most one key.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..channel import Symmetric
from ..people.schema import Schema
from ..people.views import Views
from .mechanism import Draft, Mechanism, NamedEstimators


class GRR(Mechanism):
    """Report the true item, or any other one."""

    name = "grr"
    paper_name = "GRR (k-RR)"
    source = "Kairouz, Oh, Viswanath, NIPS 2014"
    speaks_of = "one held key drawn uniformly, or none"
    answers = ("frequency",)
    note = "the share of drawn keys: the frequency only where everyone holds at most one key"
    bits = "log2 (d + 1)"
    estimators = NamedEstimators("least_squares")

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        keys = len(schema.keys)
        channel = Symmetric.of(keys + 1, epsilon)
        return Draft(schema, Views.whole(keys), "item", (channel,), epsilon)
