"""Blend: a family of channels between KVUE and BiSample.

Below epsilon 0.7 the variance of BiSample's mean is below KVUE's, and that of its frequency is about
twice KVUE's. Both are mixtures of five patterns, {absent}, {low}, {high}, {absent, low} and
{absent, high}, which favour the states they name. KVUE sends the first three equally often, BiSample the
last four. With weights 1 - s for {absent}, 1 for {low} and {high} and s for the last two, every state is
favoured equally often. So every ``share`` s from 0 to 1 gives a tight channel. A larger s favours the
mean over the frequency.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..channel import Channel, Symmetric
from ..channel.design.patterns import table_of
from ..channel.design.value_channels import LARGEST
from ..people.schema import Schema
from ..people.views import Views
from .mechanism import Draft, Mechanism, NamedEstimators, Parameter

ABSENT, LOW, HIGH = 1, 2, 4
"""Patterns of a single state, as sets of bits."""


class Blend(Mechanism):
    """Outputs: the patterns in the order absent, low, absent or low, high, absent or high; a blank."""

    name = "blend"
    source = "KVUE and BiSample in one family, ours"
    speaks_of = "one key, drawn at random: absent, low or high"
    bits = "log2 d + log2 6"
    parameters = {"share": Parameter("0.5", "0", "1", "0 is kvue, 1 is bisample")}
    estimators = NamedEstimators("least_squares", "likelihood")

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        views = Views.singles(len(schema.keys))
        return Draft(schema.at(2), views, "views", (blended(chosen["share"], epsilon),), epsilon)


def blended(share: Decimal, epsilon: Decimal) -> Channel:
    """The channel for a share; KVUE's if 2^32 is too coarse for five patterns."""
    denominator = 10 ** max(0, -int(share.normalize().as_tuple().exponent))
    numerator = int(share * denominator)
    if numerator == 0 or epsilon > LARGEST:
        return Symmetric.of(3, epsilon)
    weights = {
        ABSENT: denominator - numerator,
        LOW: denominator,
        HIGH: denominator,
        ABSENT | LOW: numerator,
        ABSENT | HIGH: numerator,
    }
    return table_of({pattern: weight for pattern, weight in weights.items() if weight}, 3, epsilon)
