"""The reports that a device, honest or not, can send."""

from __future__ import annotations

from dataclasses import dataclass

from ..foundation.arrays import Floats


@dataclass(frozen=True)
class ReportChoices:
    """The reports that a device can send: one possible output, or at most one cell of each position."""

    outputs: Floats | None
    """(seeds, outputs): 1 if the output can be sent, else 0. None if reports mark positions."""
    positions: int = 0
    marks: int = 1
    """Number of cells of a position; they are adjacent."""
    size: int | None = None
    """Number of positions that a report marks; None if it may mark any number."""
