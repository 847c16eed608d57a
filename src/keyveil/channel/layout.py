"""Where in the tally a plan's reports leave their marks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..foundation.arrays import Integers
from ..foundation.errors import PlanError
from . import Channel

MOST_CELLS = 1 << 24


@dataclass(frozen=True)
class Layout:
    """Each view has its own cell (reports of that view), followed by the cells of its channel.

    Where every report marks one cell besides its view's, reports are also numbered without gaps:
    ``code = first_code[view] + cell``, which is what batches carry.
    """

    channels: tuple[Channel, ...]
    """The channel of each view."""

    def __post_init__(self) -> None:
        if len({channel.one_cell for channel in self.channels}) > 1:
            raise PlanError("the views of a plan must all mark one cell, or all mark many")
        if self.cells > MOST_CELLS:
            raise PlanError(f"the tally would have {self.cells} cells; at most {MOST_CELLS} fit")

    @property
    def one_cell(self) -> bool:
        """Whether every report marks exactly one cell besides its view's own."""
        return self.channels[0].one_cell

    @cached_property
    def sizes(self) -> Integers:
        """How many cells each view's channel has."""
        return np.array([channel.cells for channel in self.channels], np.int64)

    @cached_property
    def own(self) -> Integers:
        """Each view's own cell."""
        ends = np.cumsum(self.sizes + 1)
        return np.concatenate([[0], ends[:-1]])

    @cached_property
    def cells(self) -> int:
        """How many cells the tally has."""
        return int(self.sizes.sum()) + len(self.channels)

    @cached_property
    def first_code(self) -> Integers:
        """The code of each view's first output."""
        return self.own - np.arange(len(self.channels))

    @property
    def codes(self) -> int:
        """How many codes there are."""
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
        seen: dict[int, np.ndarray] = {}
        for channel in self.channels:
            seen.setdefault(id(channel), channel.possible)
        return np.concatenate([seen[id(channel)] for channel in self.channels]).astype(bool)
