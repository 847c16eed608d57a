"""Scale: the numbers that users see and type for values, means and their errors.

The library computes means on [-1, 1], whose ends are those of each key's range. Commands, pictures and
JSON show and read them on the range itself if all keys share one. If ranges differ, they are in half
ranges: -1 is the low end of each key's own range, and 1 the high end.

A plan's document holds the parameters of its mechanism on [-1, 1], too. ``ExactScale`` converts them
from and to what is typed and shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ..foundation.exact import own_context, text

if TYPE_CHECKING:
    from .schema import Schema


ALL = "all keys"
DIFFERENT = "keys have different ranges, so -1 is the low end of each key's range and 1 the high end"
HALF_RANGES = "in half ranges"

PLACES = 18
"""Decimal places on [-1, 1] that a parameter is rounded to, if its range is another one."""


@dataclass(frozen=True)
class Scale:
    """The range that values are stated on."""

    low: float = -1.0
    high: float = 1.0
    shared: bool = True
    """Whether it is the range of all keys; if not, low and high stand for the ends of each key's own."""

    @classmethod
    def of(cls, schema: Schema) -> Scale:
        """The scale of a schema's values."""
        ends = schema.shared_range
        return cls(shared=False) if ends is None else cls(float(ends[0]), float(ends[1]))

    @classmethod
    def parse(cls, document: Mapping[str, Any] | None) -> Scale:
        """The scale of a document; [-1, 1] if there is none."""
        if document is None:
            return cls()
        return cls(document["low"], document["high"], document["of"] == ALL)

    @property
    def half(self) -> float:
        """Half of the range: what an error or spread of 1 on [-1, 1] is on this scale."""
        return (self.high - self.low) / 2

    def value(self, unit: float) -> float:
        """A value on [-1, 1], on this scale."""
        return (self.low + self.high) / 2 + unit * self.half

    def unit(self, value: float) -> float:
        """A value on this scale, on [-1, 1]."""
        return (value - (self.low + self.high) / 2) / self.half

    def __str__(self) -> str:
        return f"on [{self.low:g}, {self.high:g}]" if self.shared else HALF_RANGES

    @property
    def note(self) -> str:
        """What half ranges are; empty for a range that all keys share."""
        return "" if self.shared else DIFFERENT

    def document(self) -> dict[str, Any]:
        """As JSON."""
        of = ALL if self.shared else "each key's own range"
        return {"low": self.low, "high": self.high, "of": of}


class Quantity(Enum):
    """What a parameter of a mechanism measures, which says how it changes with the range of values."""

    NUMBER = "a number without a unit"
    VALUE = "a value in the range"
    SPREAD = "a distance between values"


@dataclass(frozen=True)
class ExactScale:
    """The range that parameters are typed and shown on, in decimals: plans depend on every digit."""

    low: Decimal = Decimal(-1)
    high: Decimal = Decimal(1)
    words: str = ", in a plan's document"
    """What follows the bounds of a parameter in a refusal."""
    note: str = ""
    """What half ranges are; empty for a range that all keys share."""

    @classmethod
    def of(cls, schema: Schema) -> ExactScale:
        """The scale of a schema's values; [-1, 1] if keys have different ranges."""
        ends = schema.shared_range
        if ends is None:
            return cls(words=f" {HALF_RANGES}", note=f" ({DIFFERENT})")
        return cls(*ends, words=f", for values on [{text(ends[0])}, {text(ends[1])}]")

    @property
    def is_unit(self) -> bool:
        """Whether it is [-1, 1], so that numbers stay as they are."""
        return self.low == -1 and self.high == 1

    def unit(self, number: Decimal, quantity: Quantity) -> Decimal:
        """A number on this scale, on [-1, 1] and rounded to ``PLACES`` places."""
        if quantity is Quantity.NUMBER or self.is_unit:
            return number
        low, high = Fraction(self.low), Fraction(self.high)
        middle = (low + high) / 2 if quantity is Quantity.VALUE else Fraction(0)
        exact = (Fraction(number) - middle) * 2 / (high - low)
        return Decimal(f"{round(exact * 10**PLACES)}E-{PLACES}")

    def shown(self, unit: Decimal, quantity: Quantity) -> Decimal:
        """A number on [-1, 1], on this scale: the shortest decimal that ``unit`` converts back to it."""
        if quantity is Quantity.NUMBER or self.is_unit:
            return unit
        with own_context(2000):
            half = (self.high - self.low) / 2
            exact = unit * half + ((self.low + self.high) / 2 if quantity is Quantity.VALUE else 0)
            first = -half.adjusted()
            for places in range(first, first + PLACES + 2):
                rounded = exact.quantize(Decimal(f"1E{-places}"))
                if self.unit(rounded, quantity) == unit:
                    return rounded
        return exact


DOCUMENT = ExactScale()
"""The scale of parameters in a plan's document."""
