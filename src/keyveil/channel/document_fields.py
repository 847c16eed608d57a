"""Fields of a channel's document: whole numbers and rows of weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..foundation.arrays import WORD
from ..foundation.errors import ChannelError

Document = Mapping[str, Any]


def integer(document: Document, name: str, low: int, high: int) -> int:
    """The integer ``name`` of a document. Raises ``ChannelError`` if it is not from low to high."""
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ChannelError(f"a channel's {name!r} must be a whole number from {low} to {high}")
    return value


def weights_of(row: object, length: int | None = None) -> tuple[int, ...]:
    """The row as integers. Raises ``ChannelError`` unless they are weights that sum to 2^32."""
    if (
        not isinstance(row, list | tuple)
        or any(isinstance(w, bool) or not isinstance(w, int) or w < 0 for w in row)
        or sum(row) != WORD
        or (length is not None and len(row) != length)
    ):
        raise ChannelError("a row of a channel holds whole weights that sum to 2^32")
    return tuple(row)
