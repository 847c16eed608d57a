"""The shape ``product``: every digit of the state through the same small channel, each on its own.

Its epsilon is that of the small channel times the number of digits: the naive report on many keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np

from ...foundation.arrays import Bits, Floats, Integers
from ...foundation.errors import ChannelError
from ...foundation.stream import Stream
from ..document_fields import Document, integer
from ..honest_limits import HonestLimits
from ..law import Channel
from ..law_arrays import as_states, nan_where_biased
from ..proof import Proof
from .symmetric import Symmetric
from .table import Table

MOST_OUTPUTS = 1 << 16
MOST_STATES = 1 << 62
"""Maximum number of states; more do not fit into a machine integer."""


@dataclass(frozen=True)
class Product(Channel):
    """``digits`` digits, the first the most significant, each drawn from ``inner``."""

    shape: ClassVar[str] = "product"

    digits: int
    inner: Table | Symmetric

    def __post_init__(self) -> None:
        if not 1 <= self.digits <= 64 or self.inner.cells**self.digits > MOST_OUTPUTS:
            raise ChannelError(f"a product has at most {MOST_OUTPUTS} outputs")
        if self.inner.states**self.digits > MOST_STATES:
            raise ChannelError(f"a product has at most {MOST_STATES} states")
        states, cells = self.inner.states**self.digits, self.inner.cells**self.digits
        self._derive(states=states, cells=cells, words=self.digits * self.inner.words)

    def proof(self) -> Proof:
        digit = self.inner.proof()
        first, second = (self._all(state) for state in digit.states)
        return Proof(
            digit.numerator**self.digits,
            digit.denominator**self.digits,
            (first, second),
            f"{digit.output} in every place",
        )

    def _all(self, digit: int) -> int:
        return sum(digit * self.inner.states**place for place in range(self.digits))

    def document(self) -> dict[str, Any]:
        return {"shape": self.shape, "digits": self.digits, "inner": self.inner.document()}

    @classmethod
    def parse(cls, document: Document) -> Product:
        inner = document.get("inner")
        shapes: dict[Any, type[Table] | type[Symmetric]] = {"table": Table, "symmetric": Symmetric}
        if not isinstance(inner, dict) or inner.get("shape") not in ("table", "symmetric"):
            raise ChannelError("the 'inner' of a product is a table or symmetric")
        return cls(integer(document, "digits", 1, 64), shapes[inner["shape"]].parse(inner))

    def draw(self, states: np.ndarray, stream: Stream) -> Integers:
        """Digits from the most significant on, each with words of its own."""
        states = as_states(states)
        outputs = np.zeros(len(states), np.int64)
        for place in range(self.digits):
            place_value = self.inner.states ** (self.digits - 1 - place)
            digit = states // place_value % self.inner.states
            drawn = self.inner.draw(digit, stream.skip(place * self.inner.words))
            outputs = outputs * self.inner.cells + drawn
        return outputs

    @cached_property
    def possible(self) -> Bits:
        inner = self.inner.possible
        return np.asarray(reduce(np.kron, [inner] * self.digits), np.uint8)

    def _along(self, values: Floats, matrix: Floats) -> Floats:
        """``values`` with a matrix applied to every digit of the last axis."""
        lead = values.shape[:-1]
        values = values.reshape(*lead, *(matrix.shape[0],) * self.digits)
        for _ in range(self.digits):  # each pass removes the first digit and appends a new last one
            values = np.tensordot(values, matrix, axes=([len(lead)], [0]))
        return values.reshape(*lead, -1)

    def mix(self, states: Floats) -> Floats:
        return self._along(states, self.inner.expected())

    def back(self, weights: Floats) -> Floats:
        return self._along(weights, self.inner.expected().T)

    def expected(self) -> Floats:
        if self.states * self.cells > 1 << 22:
            raise ChannelError("the law of a large product is not written out")
        return self.mix(np.eye(self.states))

    def unmixed(self, shares: Floats) -> Floats:
        return self._along(shares, inverted(self.inner.expected()))

    def decoder(self, weights: Floats) -> Floats:
        inverse = inverted(self.inner.expected())
        solved = self._along(weights.T, inverse.T).T
        if self.states * self.cells <= 1 << 20:
            return nan_where_biased(self.expected(), solved, weights)
        return solved

    def limits(self, counts: Floats, share: float = 1.0) -> HonestLimits | None:
        return None  # the limits of its digits are used instead

    def digit_counts(self, counts: Floats) -> tuple[Channel, Floats] | None:
        grid, places = counts.reshape((self.inner.cells,) * self.digits), range(self.digits)
        rows = [grid.sum(axis=tuple(i for i in places if i != place)) for place in places]
        return self.inner, np.array(rows)

    def few_digits(self, count: int) -> Channel | None:
        """A circular inner law preserves constants, so counts may be summed over other digits."""
        return None if self.inner.circle is None else Product(count, self.inner)

    def total_variation(self) -> Fraction:
        """Two states that differ in every digit have the largest distance."""
        return self.inner.product_variation(self.digits)

    def blanket(self) -> Fraction:
        return self.inner.blanket() ** self.digits


def inverted(law: Floats) -> Floats:
    """The pseudo-inverse of a law."""
    return np.asarray(np.linalg.pinv(law), np.float64)
