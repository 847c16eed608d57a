"""Packed reports: each is a row of bytes of one width, and what a plan admits is decided here.

Where every report marks one cell besides its view's, the row is the report's code; otherwise it is
the view's number in four bytes and the bits of its channel's cells. All numbers are little-endian.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ..foundation.arrays import Bits, Integers
from .plan import Plan
from .report import Reports
from .tally import Tally

DENSE = 1 << 16
"""Up to so many codes, counting goes through an array of all of them."""


class Packing:
    """How one plan's reports are checked, packed, unpacked and counted."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.layout = plan.layout
        self.one_cell = self.layout.one_cell
        self.bits_width = 0 if self.one_cell else -(-int(self.layout.sizes.max()) // 8)
        self.width = self.layout.code_type.itemsize if self.one_cell else 4 + self.bits_width
        self.most_cells = 2 if self.one_cell else 1 + int(self.layout.sizes.max())
        self._view_at = {int(own): view for view, own in enumerate(self.layout.own)}
        self._sizes = self.layout.sizes.tolist()
        self._possible = self.layout.possible.tobytes() if self.one_cell else b""

    @cached_property
    def kind(self) -> str:
        """``codes`` or ``bits``, as in files of reports."""
        return "codes" if self.one_cell else "bits"

    # -- cells in ----------------------------------------------------------------------------------

    def row(self, cells: Sequence[int]) -> bytes | None:
        """One report's row; None if no honest client could mark these cells."""
        if not cells:
            return None
        view = self._view_at.get(cells[0])
        if view is None:
            return None
        return self._code(view, cells) if self.one_cell else self._bits(view, cells)

    def _code(self, view: int, cells: Sequence[int]) -> bytes | None:
        if len(cells) != 2:
            return None
        own, cell = cells
        if not own < cell <= own + self._sizes[view]:
            return None
        code = cell - view - 1
        return code.to_bytes(self.width, "little") if self._possible[code] else None

    def _bits(self, view: int, cells: Sequence[int]) -> bytes | None:
        first = cells[0] + 1
        marks = tuple(cell - first for cell in cells[1:])
        if not self.layout.channels[view].admits(marks):
            return None
        bits = 0
        for mark in marks:
            bits |= 1 << mark
        return view.to_bytes(4, "little") + bits.to_bytes(self.bits_width, "little")

    # -- rows in -----------------------------------------------------------------------------------

    def admitted(self, rows: Bits) -> np.ndarray:
        """Which rows ``(n, width)`` an honest client could send."""
        if self.one_cell:
            codes = self._codes(rows)
            inside = codes < self.layout.codes
            return inside & self.layout.possible[np.where(inside, codes, 0)]
        views = np.ascontiguousarray(rows[:, :4]).view("<u4")[:, 0].astype(np.int64)
        good = views < len(self.layout.channels)
        for view in np.unique(views[good]):
            where = np.flatnonzero(views == view)
            marks = np.unpackbits(rows[where, 4:], axis=1, bitorder="little")
            size = self._sizes[view]
            good[where] &= ~marks[:, size:].any(axis=1)
            good[where] &= self.layout.channels[view].admits_rows(marks[:, :size])
        return good

    def _codes(self, rows: Bits) -> np.ndarray:
        return np.ascontiguousarray(rows).view(self.layout.code_type)[:, 0]

    # -- counting ----------------------------------------------------------------------------------

    def marks(self, rows: Bits) -> tuple[Integers, Integers]:
        """The cells that admitted rows mark, each once and in order, and how often."""
        layout = self.layout
        if self.one_cell:
            codes = self._codes(rows)
            if layout.codes <= DENSE:
                seen = np.bincount(codes, minlength=0)
                used = np.flatnonzero(seen)
                often = seen[used]
            else:
                used, often = np.unique(codes, return_counts=True)
            views = np.searchsorted(layout.first_code, used, side="right") - 1
            cells = used.astype(np.int64) + views + 1
            owns, at = np.unique(layout.own[views], return_inverse=True)
            of_view = np.zeros(len(owns), np.int64)
            np.add.at(of_view, at, often)
            both = np.concatenate([cells, owns])
            order = np.argsort(both)
            return both[order], np.concatenate([often, of_view])[order].astype(np.int64)
        counts = Tally(self.plan).add(self.reports(rows)).counts
        cells = np.flatnonzero(counts)
        return cells, counts[cells]

    # -- rows out ----------------------------------------------------------------------------------

    def rows(self, packed: bytes) -> Bits:
        """Packed rows as an array ``(n, width)``."""
        return np.frombuffer(packed, np.uint8).reshape(-1, self.width)

    def reports(self, rows: Bits) -> Reports:
        """Rows as a batch that the library understands."""
        if self.one_cell:
            return Reports(self.plan.hash, codes=self._codes(rows))
        views = np.ascontiguousarray(rows[:, :4]).view("<u4")[:, 0].astype(np.int64)
        return Reports(self.plan.hash, views=views, bits=np.ascontiguousarray(rows[:, 4:]))

    def packed(self, batch: Reports) -> Bits:
        """A batch of the library as rows."""
        if batch.codes is not None:
            codes = batch.codes.astype(self.layout.code_type)
            return codes.view(np.uint8).reshape(-1, self.width)
        assert batch.views is not None
        assert batch.bits is not None
        views = batch.views.astype("<u4").view(np.uint8).reshape(-1, 4)
        return np.concatenate([views, batch.bits], axis=1)
