"""KVUE: report the true state of a key (absent, low or high), or one of the two others.

Sun et al., "Conditional Analysis for Key-Value Data with LDP", 2019, Sec. IV-B. In spite of its name
it is not unary encoding but 3-ary randomised response. It is tight: all of epsilon is used.
Paper letters: p = keep, (1 - p) / 2 = lie, M_i counts, N_i* the estimate of a state's count.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..channel import Symmetric
from ..people.schema import Schema
from ..people.views import Views
from .mechanism import Draft, Mechanism, NamedEstimators


class KVUE(Mechanism):
    """Three states, three outputs, one keep and one lie."""

    name = "kvue"
    paper_name = "KVUE"
    source = "Sun et al. 2019, Sec. IV-B"
    speaks_of = "one key, drawn at random: absent, low or high"
    bits = "log2 d + log2 3"
    estimators = NamedEstimators("least_squares", "likelihood")

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        views = Views.singles(len(schema.keys))
        return Draft(schema.at(2), views, "views", (Symmetric.of(3, epsilon),), epsilon)
