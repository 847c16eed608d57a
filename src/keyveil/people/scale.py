"""Scale: the numbers that users see and type for values, means and their errors.

The library computes means on [-1, 1], whose ends are those of each key's range. Commands, pictures and
JSON show and read them on the range itself if all keys share one. If ranges differ, they are in half
ranges: -1 is the low end of each key's own range, and 1 the high end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .schema import Schema


ALL = "all keys"


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
        low, high = schema.ranges[0]
        if all(ends == (low, high) for ends in schema.ranges):
            return cls(float(low), float(high))
        return cls(shared=False)

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
        return f"on [{self.low:g}, {self.high:g}]" if self.shared else "in half ranges"

    @property
    def note(self) -> str:
        """What half ranges are; empty for a range that all keys share."""
        if self.shared:
            return ""
        return "keys have different ranges, so -1 is the low end of each key's range and 1 the high end"

    def document(self) -> dict[str, Any]:
        """As JSON."""
        of = ALL if self.shared else "each key's own range"
        return {"low": self.low, "high": self.high, "of": of}
