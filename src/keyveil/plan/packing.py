"""Packing: how cells become codes, rows and bits, and which reports an honest device could send.

A row is one report in bytes, of one width for all reports of a plan. Where every report marks one cell
besides its view's own, the row is the report's code. Otherwise it is the view's number in four bytes,
followed by the bits of its channel's cells; a part that marks one cell sets one bit. All numbers are
little-endian.

Single reports, files, tallies, batches, the collector's log and its segments all use this class. So
they agree on the bytes of a report and on what is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..channel import Channel
from ..channel.layout import Layout
from ..foundation.arrays import Bits, Flags, Integers
from ..foundation.compiled import column_sums, histogram
from ..foundation.errors import ReportError
from .report import Report, Reports, check_plan_name

DENSE = 1 << 16
"""Number of codes up to which ``marks`` counts in an array of all codes."""
OVERFLOWS = float(1 << 62)
"""Sums from here on may be wrong in 64 bits; no tally has so many reports."""
IMPOSSIBLE = "no honest device could send such a report"

_Tables = tuple[dict[int, int], list[int], bytes]
"""Views by their own cell, the number of cells of each view, and which codes are possible."""


class Packing:
    """Checks, packs, unpacks and counts the reports of one layout."""

    def __init__(self, plan_hash: str, layout: Layout) -> None:
        self.plan_hash, self.layout = plan_hash, layout
        self.one_cell = layout.one_cell
        self.kind = "codes" if self.one_cell else "bits"
        """What a batch holds, as headers of files name it."""
        self.widest = int(layout.sizes.max())
        """The largest number of cells of a channel."""
        self.bits_width = 0 if self.one_cell else -(-self.widest // 8)
        """Bytes of the bits in a row."""
        self.width = layout.code_type.itemsize if self.one_cell else 4 + self.bits_width
        """Bytes of a row."""
        self._tables: _Tables | None = None

    # -- outputs of channels -----------------------------------------------------------------------

    def cells(self, view: int, output: int | Bits) -> tuple[int, ...]:
        """The cells of one report: its view's own cell, then those that the output marks."""
        own = int(self.layout.own[view])
        marks = [int(output)] if self.one_cell else np.flatnonzero(output).tolist()
        return own, *(own + 1 + mark for mark in marks)

    def codes(self, views: Integers, outputs: Integers) -> np.ndarray:
        """The codes ``(n,)`` of outputs of one-cell channels."""
        return (self.layout.first_code[views] + outputs).astype(self.layout.code_type)

    def batch(self, views: Integers, outputs: np.ndarray) -> Reports:
        """Views and outputs, as ``Plan.perturb`` returns them, as a batch."""
        if self.one_cell:
            return Reports(self.plan_hash, codes=self.codes(views, outputs))
        return Reports(self.plan_hash, views=views, bits=pack_bits(outputs))

    def outputs(self, batch: Reports) -> tuple[Integers, np.ndarray]:
        """Views and outputs of a batch of possible reports: the inverse of ``batch``."""
        if self.one_cell:
            codes = self._codes_of(batch).astype(np.int64)
            views = self._code_views(codes)
            return views, codes - self.layout.first_code[views]
        views, bits = self._bits_of(batch)
        return views, np.unpackbits(bits, axis=1, count=self.widest, bitorder="little")

    # -- cells of single reports -------------------------------------------------------------------

    def admits(self, cells: Sequence[int]) -> bool:
        """Whether an honest device could mark these cells, its view's own cell first."""
        if self.one_cell:
            return self._code(cells) is not None
        return self._marks(cells) is not None

    def row(self, cells: Sequence[int]) -> bytes | None:
        """The row of one report; None if no honest device could mark these cells."""
        if self.one_cell:
            return self._code(cells)
        marks = self._marks(cells)
        if marks is None:
            return None
        bits = 0
        for mark in marks:
            bits |= 1 << mark
        view = (self._tables or self._filled_tables())[0][cells[0]]
        return view.to_bytes(4, "little") + bits.to_bytes(self.bits_width, "little")

    def _code(self, cells: Sequence[int]) -> bytes | None:
        if len(cells) != 2:
            return None
        own, cell = cells
        view_at, sizes, possible = self._tables or self._filled_tables()
        view = view_at.get(own)
        if view is None or not own < cell <= own + sizes[view]:
            return None
        code = cell - view - 1
        return code.to_bytes(self.width, "little") if possible[code] else None

    def _marks(self, cells: Sequence[int]) -> tuple[int, ...] | None:
        view = (self._tables or self._filled_tables())[0].get(cells[0]) if cells else None
        if view is None:
            return None
        first = cells[0] + 1
        marks = tuple([cell - first for cell in cells[1:]])
        return marks if self.layout.channels[view].admits(marks) else None

    def _filled_tables(self) -> _Tables:
        """The tables for single reports; made when first asked for, because a device needs none.

        A plain attribute: after the first use of a ``cached_property``, every other attribute of the
        object is read more slowly, which single reports at the collector would notice.
        """
        layout = self.layout
        views = {own: view for view, own in enumerate(layout.own.tolist())}
        possible = layout.possible.tobytes() if self.one_cell else b""
        self._tables = views, layout.sizes.tolist(), possible
        return self._tables

    def check(self, report: Report) -> None:
        """Refuse a report of another plan, and a report that no honest device could send."""
        check_plan_name(report.plan, self.plan_hash, "the report belongs")
        if not self.admits(report.cells):
            raise ReportError(IMPOSSIBLE)

    def batch_of(self, reports: Iterable[Sequence[int]]) -> Reports:
        """Reports, given by their cells, as one batch; refused if one of them is impossible."""
        rows = [self.row(cells) for cells in reports]
        if None in rows:
            raise ReportError(IMPOSSIBLE)
        return self.reports(self.rows(b"".join(rows)))  # type: ignore[arg-type]

    def cells_of(self, batch: Reports) -> list[tuple[int, ...]]:
        """The cells of each report of a batch; refused if one of them is impossible."""
        if not self.admitted(self.packed(batch)).all():
            raise ReportError(IMPOSSIBLE)
        return [self.cells(int(v), output) for v, output in zip(*self.outputs(batch), strict=True)]

    # -- batches -----------------------------------------------------------------------------------

    def _codes_of(self, batch: Reports) -> np.ndarray:
        if batch.codes is None or batch.codes.dtype.kind not in "ui":
            raise ReportError("reports of this plan are codes, whole numbers, not bits")
        return batch.codes

    def narrow_codes(self, batch: Reports) -> np.ndarray:
        """A batch's codes in the type that the plan's codes have; refused if one does not fit."""
        codes = self._codes_of(batch)
        if codes.dtype != self.layout.code_type:
            if len(codes) and not 0 <= codes.min() <= codes.max() < self.layout.codes:
                raise ReportError(IMPOSSIBLE)
            codes = codes.astype(self.layout.code_type)
        return codes

    def _bits_of(self, batch: Reports) -> tuple[Integers, Bits]:
        views, bits = batch.views, batch.bits
        if views is None or bits is None or len(views) != len(bits):
            raise ReportError("reports of this plan are bits, a row for each")
        if bits.shape[1] != self.bits_width:
            raise ReportError("reports of this plan have another number of bits")
        if len(views) and not 0 <= views.min() <= views.max() < len(self.layout.channels):
            raise ReportError(IMPOSSIBLE)
        return views, bits

    def count(self, batch: Reports, counts: Integers) -> None:
        """Add the marks of a batch to the counts of all cells; refused whole if one is impossible."""
        layout = self.layout
        if self.one_cell:
            seen = histogram(self._codes_of(batch), layout.codes)
            if seen is None or seen[~layout.possible].any():
                raise ReportError(IMPOSSIBLE)
            counts[layout.code_cells] += seen
            counts[layout.own] += np.add.reduceat(seen, layout.first_code)
            return
        seen, (views, bits) = np.zeros(layout.cells, np.int64), self._bits_of(batch)
        cells = layout.channels[0].position_cells if len(layout.channels) == 1 else 0
        if cells:
            sums = column_sums(bits, cells)
            if sums is None or sums[self.widest :].any():
                raise ReportError(IMPOSSIBLE)
            counts[0] += len(bits)
            counts[1:] += sums[: self.widest]
            return
        for view, _, marks, good in self._by_view(views, bits):
            if not good.all():
                raise ReportError(IMPOSSIBLE)
            own = int(layout.own[view])
            seen[own] += len(marks)
            seen[own + 1 : own + 1 + marks.shape[1]] += marks.sum(axis=0, dtype=np.int64)
        counts += seen

    def _by_view(
        self, views: Integers, bits: Bits
    ) -> Iterator[tuple[int, Integers | slice, Bits, Flags]]:
        """For each view: its number, the places of its reports, their marks, and which are possible."""
        present = np.unique(views).tolist()
        for view in present:
            rows = slice(None) if len(present) == 1 else np.flatnonzero(views == view)
            marks = np.unpackbits(bits[rows], axis=1, bitorder="little")
            own, beyond = np.split(marks, [int(self.layout.sizes[view])], axis=1)
            channel = self.layout.channels[view]
            possible = _one_mark(channel, own) if channel.one_cell else channel.admits_rows(own)
            if beyond.any():
                possible &= ~beyond.any(axis=1)
            yield view, rows, own, possible

    def adds_up(self, counts: Integers) -> bool:
        """Whether a set of possible reports could have these counts; necessary, not sufficient."""
        layout = self.layout
        seen, reports = counts[layout.code_cells], counts[layout.own]
        if not self.one_cell:
            single = [view for view, channel in enumerate(layout.channels) if channel.one_cell]
            parted = np.split(seen, layout.first_code[1:]) if single else []
            if any(not _one_each(layout.channels[v], parted[v], reports[v]) for v in single):
                return False
            return bool((seen <= np.repeat(reports, layout.sizes)).all())
        if (np.add.reduceat(seen.astype(np.float64), layout.first_code) >= OVERFLOWS).any():
            return False
        totals = np.add.reduceat(seen, layout.first_code)
        return bool((totals == reports).all() and not seen[~layout.possible].any())

    # -- rows --------------------------------------------------------------------------------------

    def rows(self, packed: bytes) -> Bits:
        """Packed rows as an array ``(n, width)``."""
        return np.frombuffer(packed, np.uint8).reshape(-1, self.width)

    def admitted(self, rows: Bits) -> Flags:
        """Which rows ``(n, width)`` an honest device could send."""
        if self.one_cell:
            codes = self._row_codes(rows)
            inside = codes < self.layout.codes
            return inside & self.layout.possible[np.where(inside, codes, 0)]
        views = self._row_views(rows)
        possible = views < len(self.layout.channels)
        if not possible.all():
            possible[possible] = self.admitted(rows[possible])
            return possible
        for _, places, _, good in self._by_view(views, rows[:, 4:]):
            possible[places] = good
        return possible

    def marks(self, rows: Bits) -> tuple[Integers, Integers]:
        """The cells that possible rows mark, each once and in order, and how often."""
        layout = self.layout
        if not self.one_cell:
            counts = np.zeros(layout.cells, np.int64)
            self.count(self.reports(rows), counts)
            cells = np.flatnonzero(counts)
            return cells, counts[cells]
        codes = self._row_codes(rows)
        if layout.codes <= DENSE:
            seen = np.bincount(codes, minlength=0)
            used = np.flatnonzero(seen)
            often = seen[used]
        else:
            used, often = np.unique(codes, return_counts=True)
        views = self._code_views(used)
        cells = used.astype(np.int64) + views + 1
        owns, at = np.unique(layout.own[views], return_inverse=True)
        of_view = np.zeros(len(owns), np.int64)
        np.add.at(of_view, at, often)
        both = np.concatenate([cells, owns])
        order = np.argsort(both)
        return both[order], np.concatenate([often, of_view])[order].astype(np.int64)

    def reports(self, rows: Bits) -> Reports:
        """Rows as a batch."""
        if self.one_cell:
            return Reports(self.plan_hash, codes=self._row_codes(rows))
        bits = np.ascontiguousarray(rows[:, 4:])
        return Reports(self.plan_hash, views=self._row_views(rows), bits=bits)

    def packed(self, batch: Reports) -> Bits:
        """A batch as rows ``(n, width)``."""
        if self.one_cell:
            return self.narrow_codes(batch).view(np.uint8).reshape(-1, self.width)
        views, bits = self._bits_of(batch)
        return np.concatenate([views.astype("<u4").view(np.uint8).reshape(-1, 4), bits], axis=1)

    def _row_codes(self, rows: Bits) -> np.ndarray:
        return np.ascontiguousarray(rows).view(self.layout.code_type)[:, 0]

    def _row_views(self, rows: Bits) -> Integers:
        return np.ascontiguousarray(rows[:, :4]).view("<u4")[:, 0].astype(np.int64)

    def _code_views(self, codes: Integers) -> Integers:
        return np.searchsorted(self.layout.first_code, codes, side="right") - 1

    # -- blocks of files ---------------------------------------------------------------------------

    def block(self, batch: Reports) -> bytes:
        """A batch as a block of a file: codes, or all views and then all bits."""
        if self.one_cell:
            return self.narrow_codes(batch).tobytes()
        views, bits = self._bits_of(batch)
        return views.astype("<u4").tobytes() + bits.tobytes()

    def from_block(self, block: bytes) -> Reports:
        """The batch of a block, whose length is a multiple of ``width``."""
        if self.one_cell:
            return Reports(self.plan_hash, codes=np.frombuffer(block, self.layout.code_type))
        count = len(block) // self.width
        views = np.frombuffer(block, "<u4", count).astype(np.int64)
        bits = np.frombuffer(block, np.uint8, offset=4 * count).reshape(count, self.bits_width)
        return Reports(self.plan_hash, views=views, bits=bits)


def _one_mark(channel: Channel, marks: Bits) -> Flags:
    """Which rows of marks have exactly one, of a possible output of a one-cell channel."""
    return np.asarray((marks.sum(axis=1) == 1) & (marks @ channel.possible == 1))


def _one_each(channel: Channel, counts: Integers, reports: int) -> bool:
    """Whether so many reports that mark one possible output each could have these counts."""
    if counts.sum(dtype=np.float64) >= OVERFLOWS:
        return False
    return bool(counts.sum() == reports and not counts[channel.possible == 0].any())


def pack_bits(marks: Bits) -> Bits:
    """Rows of 0 and 1 as packed bits, the first cell in the lowest bit."""
    return np.packbits(marks, axis=1, bitorder="little")
