"""Sign: one held value, drawn at random and rounded to low or high, without its key.

keyveil. A side question: it answers no single key. Its tally gives the share of people who hold anything
and the mean over people of one held value, with all of epsilon on three states. Other parts of a plan
of parts learn from it what values are like in general; ``estimate.side.side_information`` reads it.
A person who holds many keys counts as much as one who holds one.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..channel import Symmetric
from ..people.schema import Schema
from ..people.views import Views
from .encodings.any_value import AnyValue
from .mechanism import Draft, Mechanism, NamedEstimators


class Sign(Mechanism):
    """Three states, three outputs, one keep and one lie."""

    name = "sign"
    source = "keyveil; k-RR of Kairouz, Bonawitz, Ramage, ICML 2016"
    speaks_of = "one held value drawn at random, low or high, without its key; or nothing held"
    answers = ()
    note = "a side question: it answers no single key; side_information reads it"
    bits = "log2 3"
    estimators = NamedEstimators("least_squares")

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        whole = Views.whole(len(schema.keys))
        return Draft(schema.at(2), whole, AnyValue.name, (Symmetric.of(3, epsilon),), epsilon)
