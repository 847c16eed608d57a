"""Basic one-time RAPPOR: a bit for every key, one of them set, each flipped independently.

Erlingsson, Pihur, Korolova, "RAPPOR", CCS 2014, with one hash, without a Bloom filter and without the
instantaneous response. The set bit is a held key drawn uniformly; a person without keys sets none. As
with k-RR, the share of drawn keys is the frequency only if everyone holds at most one key.
Paper letters: f / 2 = the chance of a flip, 1 / (e^(epsilon / 2) + 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..people.schema import Schema
from ..people.views import Views
from .kvoh import flipped_bits
from .mechanism import Draft, Mechanism, NamedEstimators


class Rappor(Mechanism):
    """d bits; d + 1 states."""

    name = "rappor"
    paper_name = "RAPPOR (SUE)"
    source = "Erlingsson, Pihur, Korolova, CCS 2014"
    speaks_of = "one held key drawn uniformly, or none"
    answers = ("frequency",)
    note = "the share of drawn keys: the frequency only where everyone holds at most one key"
    bits = "d"
    estimators = NamedEstimators("least_squares")

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        keys = len(schema.keys)
        channel = flipped_bits(keys, epsilon, silent=1)
        return Draft(schema, Views.whole(keys), "item", (channel,), epsilon)
