"""The layout of a tally: which cells the reports of a plan mark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..foundation.arrays import Integers
from ..foundation.errors import PlanError
from . import Channel

MOST_CELLS = 1 << 24
MOST_MIXED = 1 << 12
"""Maximum number of cells of a channel that marks one cell, in a row of bits."""


@dataclass(frozen=True)
class Layout:
    """Each view has its own cell, which counts its reports, followed by the cells of its channel.

    If every report marks one cell besides its view's own, reports also have consecutive numbers,
    ``code = first_code[view] + cell``, and batches carry these.
    """

    channels: tuple[Channel, ...]
    """The channel of each view."""
    mixed: bool = False
    """Whether some views may mark one cell and others many. Then all reports are rows of bits."""

    def __post_init__(self) -> None:
        if len({channel.one_cell for channel in self.channels}) > 1:
            if not self.mixed:
                raise PlanError("the views of a plan must all mark one cell, or all mark many")
            widest = max(channel.cells for channel in self.channels if channel.one_cell)
            if widest > MOST_MIXED:
                raise PlanError(
                    f"a part with {widest} outputs cannot stand next to a part whose reports are bits: "
                    f"at most {MOST_MIXED} outputs fit"
                )
        if self.cells > MOST_CELLS:
            raise PlanError(f"the tally would have {self.cells} cells; at most {MOST_CELLS} fit")

    @cached_property
    def one_cell(self) -> bool:
        """Whether every report marks exactly one cell besides its view's own."""
        return all(channel.one_cell for channel in self.channels)

    @cached_property
    def sizes(self) -> Integers:
        """Number of cells of each view's channel."""
        return np.array([channel.cells for channel in self.channels], np.int64)

    @cached_property
    def own(self) -> Integers:
        """Each view's own cell."""
        ends = np.cumsum(self.sizes + 1)
        return np.concatenate([[0], ends[:-1]])

    @cached_property
    def cells(self) -> int:
        """Number of cells of the tally."""
        return int(self.sizes.sum()) + len(self.channels)

    @cached_property
    def first_code(self) -> Integers:
        """The code of each view's first output."""
        return self.own - np.arange(len(self.channels))

    @property
    def codes(self) -> int:
        """Number of codes."""
        return self.cells - len(self.channels)

    @cached_property
    def code_cells(self) -> Integers:
        """The tally cell of every code."""
        return np.delete(np.arange(self.cells), self.own)

    @cached_property
    def code_type(self) -> np.dtype[Any]:
        """The narrowest unsigned type that holds every code."""
        return np.dtype(np.min_scalar_type(max(self.codes - 1, 0))).newbyteorder("<")

    @cached_property
    def possible(self) -> np.ndarray:
        """Which codes an honest device can send."""
        by_channel: dict[int, np.ndarray] = {}
        for channel in self.channels:
            by_channel.setdefault(id(channel), channel.possible)
        return np.concatenate([by_channel[id(channel)] for channel in self.channels]).astype(bool)
