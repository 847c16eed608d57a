"""Size: how many keys a person holds, in buckets, without the keys.

keyveil; subset selection of Ye, Barg, ISIT 2017. A side question: it answers no single key. Other parts
of a plan of parts learn from it how many keys a cap leaves out; ``estimate.side.side_information`` reads
it. The first plan of ``sized`` asks the same question of people who answer nothing else. Here the subset
is one that has at most 4,096 outputs, so that a report marks one cell and fits next to any other part.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import comb
from typing import Any

from ..channel import Channel, Subset, Symmetric
from ..channel.law import MOST_OUTPUTS
from ..people.schema import Schema
from ..people.size_buckets import bucket_of
from ..people.views import Views
from .collision import MOST_CAP
from .encodings.set_size import SetSize
from .mechanism import Draft, Mechanism, NamedEstimators


class Size(Mechanism):
    """One state for each bucket."""

    name = "size"
    source = "keyveil; subset selection of Ye, Barg, ISIT 2017"
    speaks_of = "how many keys are held, in buckets"
    answers = ()
    note = "a side question: it answers no single key; side_information reads it"
    bits = "log2 of the sets of buckets"
    estimators = NamedEstimators("least_squares")

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        keys = len(schema.keys)
        buckets = int(bucket_of(min(keys, MOST_CAP))) + 1
        channel = _best_subset(buckets, epsilon)
        return Draft(schema.at(1), Views.whole(keys), SetSize.name, (channel,), epsilon)


def _best_subset(states: int, epsilon: Decimal) -> Channel:
    """Subset selection of one cell with the most information when all states are equally likely."""
    odds = float(epsilon.exp())
    sizes = [size for size in range(1, states) if comb(states, size) <= MOST_OUTPUTS]
    best = max(sizes, key=lambda w: w * (states - w) / (w * odds + states - w) ** 2)
    return Symmetric.of(states, epsilon) if best == 1 else Subset.of(states, epsilon, best)
