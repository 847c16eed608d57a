"""Graded: k-RR over "not held" and a few levels of value.

KVUE rounds a value to one of two ends, and from epsilon 2 on that rounding is most of the error. More
levels mean less rounding and more noise. For common keys three levels are best at epsilon 2 and five at
4; for rare keys fewer. ``optimal`` is better still, but needs a design.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..channel import Symmetric
from ..people.schema import Schema
from ..people.views import Views
from .mechanism import Draft, Mechanism, NamedEstimators, Parameter


class Graded(Mechanism):
    """Report the true state (not held, or one of the levels), or any other one."""

    name = "graded"
    source = "KVUE with more levels, ours"
    speaks_of = "one key, drawn at random: not held, or its value's level"
    bits = "log2 d + log2 (levels + 1)"
    parameters = {"levels": Parameter(3, 2, 9, "number of levels that values are rounded to; 2 is kvue")}
    estimators = NamedEstimators("least_squares", "likelihood")

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        levels, views = chosen["levels"], Views.singles(len(schema.keys))
        channel = Symmetric.of(levels + 1, epsilon)
        return Draft(schema.at(levels), views, "views", (channel,), epsilon)
