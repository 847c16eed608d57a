"""SHist: a random row of a public matrix of signs, and the flipped sign of the held key in it.

Bassily, Smith, "Local, private, efficient protocols for succinct histograms", STOC 2015, the basic
randomiser and frequency oracle. Row j of the matrix is the hash with seed j onto two cells. The matrix
is public and fixed by the plan. Decoding uses its actual inner products, not their average over random
matrices. A person without keys sends a fair coin. The share of drawn keys is the frequency only if
everyone holds at most one key.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..channel import Hash, Table
from ..foundation.arrays import WORD
from ..foundation.errors import PlanError
from ..foundation.exact import most_lies
from ..people.schema import Schema
from ..people.views import Views
from .mechanism import Draft, Mechanism, NamedEstimators, Parameter

SALT = 0x5EED0001
"""Salt of the hashes."""


class SHist(Mechanism):
    """rows x 2 outputs; d + 1 states."""

    name = "shist"
    paper_name = "SHist"
    source = "Bassily, Smith, STOC 2015"
    speaks_of = "one held key drawn uniformly, or none"
    answers = ("frequency",)
    note = "the share of drawn keys: the frequency only where everyone holds at most one key"
    bits = "log2 rows + 1"
    parameters = {
        "rows": Parameter(0, 0, 1 << 21, "rows of the public matrix, a power of two; 0 means enough")
    }
    estimators = NamedEstimators("least_squares")

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        keys = len(schema.keys)
        rows = int(chosen["rows"]) or max(1024, 1 << (2 * keys - 1).bit_length())
        if rows & (rows - 1) or rows < keys:
            raise PlanError("rows must be a power of two, at least the number of keys")
        lie = most_lies(1, epsilon)
        table = _signs(lie)
        if not table.proof().keeps(epsilon):
            table = _signs(lie + 1)
        channel = Hash(keys, rows, SALT, table)
        return Draft(schema, Views.whole(keys), "item", (channel,), epsilon)


def _signs(lie: int) -> Table:
    half = WORD // 2
    return Table(((WORD - lie, lie), (lie, WORD - lie), (half, half)))
