"""Split: every key through KVUE with epsilon / d, all in one report; the naive method for conditionals.

Sun et al. 2019 name it in Sec. V as the baseline of IOH. A report holds a symbol for every key.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..channel import Product, Symmetric
from ..estimate.together.averaged_views import pooled_answers
from ..people.schema import Schema
from ..people.views import Views
from .mechanism import Draft, Mechanism


class Split(Mechanism):
    """3^d outputs, d symbols."""

    name = "split"
    source = "Sun et al. 2019, Sec. V (the naive way)"
    speaks_of = "all keys, each on its own with a share of epsilon"
    bits = "d log2 3"
    most_keys = 10
    estimators = {"least_squares": pooled_answers}

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        keys = len(schema.keys)
        share = epsilon / keys
        channel = Product(keys, Symmetric.of(3, share))
        while not channel.proof().keeps(epsilon):  # the share is rounded in the 28th digit
            share -= Decimal("1e-12")
            channel = Product(keys, Symmetric.of(3, share))
        return Draft(schema.at(2), Views.whole(keys), "views", (channel,), epsilon)
