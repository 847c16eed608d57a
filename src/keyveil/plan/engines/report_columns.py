"""Reports as columns of Arrow, Parquet and Spark: a code each, or a view and packed bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...foundation.errors import ReportError
from ...people.tables.arrow_library import arrow
from ..packing import Packing
from ..report import Reports

CODE, VIEW, BITS = "code", "view", "bits"


def column_names(packing: Packing) -> list[str]:
    """The columns that the reports of a plan have."""
    return [CODE] if packing.one_cell else [VIEW, BITS]


def check_columns(there: Sequence[str], packing: Packing) -> None:
    """Refuse a table that lacks a column of reports."""
    names = column_names(packing)
    for name in names:
        if name not in there:
            raise ReportError(
                f"reports of this plan have the columns {' and '.join(names)}; {name!r} is missing"
            )


def to_batch(batch: Reports, packing: Packing, signed: bool = False) -> Any:
    """A batch of reports as a record batch; ``signed`` for engines without unsigned numbers."""
    pa = arrow()
    if packing.one_cell:
        codes = packing.narrow_codes(batch)
        kind = _signed(codes.dtype) if signed else codes.dtype
        return pa.RecordBatch.from_arrays([pa.array(codes.astype(kind, copy=False))], names=[CODE])
    rows = packing.packed(batch)
    views = np.ascontiguousarray(rows[:, :4]).view("<u4")[:, 0].astype(np.int64 if signed else np.uint32)
    content = pa.py_buffer(np.ascontiguousarray(rows[:, 4:]).tobytes())
    bits = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(packing.bits_width), len(rows), [None, content]
    )
    return pa.RecordBatch.from_arrays(
        [pa.array(views), bits.cast(pa.binary()) if signed else bits], names=[VIEW, BITS]
    )


def from_batch(columns: Any, packing: Packing) -> Reports:
    """The reports of a record batch or a table; refused if a cell is empty or of another type."""
    pa = arrow()
    check_columns(columns.schema.names, packing)
    for name in column_names(packing):
        if columns.column(name).null_count:
            raise ReportError(f"the column {name!r} of reports has an empty cell")
    if packing.one_cell:
        return Reports(packing.plan_hash, codes=_unsigned(_whole(columns.column(CODE), CODE), packing))
    bits = columns.column(BITS)
    bits = bits.combine_chunks() if isinstance(bits, pa.ChunkedArray) else bits
    try:
        bits = bits.cast(pa.binary(packing.bits_width))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ReportError("reports of this plan have another number of bits") from None
    start = bits.offset * packing.bits_width
    content = np.frombuffer(bits.buffers()[1] or b"", np.uint8)
    rows = content[start : start + len(bits) * packing.bits_width].reshape(-1, packing.bits_width)
    views = _whole(columns.column(VIEW), VIEW).astype(np.int64)
    return Reports(packing.plan_hash, views=views, bits=rows)


def _whole(column: Any, name: str) -> np.ndarray:
    if not arrow().types.is_integer(column.type):
        raise ReportError(
            f"the column {name!r} of reports holds {column.type}; it must be whole numbers"
        )
    return np.asarray(column.to_numpy())


def _unsigned(codes: np.ndarray, packing: Packing) -> np.ndarray:
    """Signed codes as unsigned ones, which are counted faster; a negative one is then out of range."""
    if codes.dtype.kind == "i" and packing.layout.codes <= 1 << (8 * codes.itemsize - 1):
        return codes.view(f"u{codes.itemsize}")
    return codes


def _signed(kind: np.dtype[Any]) -> str:
    """The narrowest signed type that holds an unsigned type and that Spark has."""
    return {1: "i2", 2: "i4"}.get(kind.itemsize, "i8")


def split_batch(columns: Any, packing: Packing) -> tuple[Reports, int, int]:
    """The possible reports of a record batch; the number of empty ones, and of impossible ones."""
    compute = arrow("compute")
    full = np.ones(columns.num_rows, np.bool_)
    for name in column_names(packing):
        full &= compute.is_valid(columns.column(name)).to_numpy(zero_copy_only=False)
    if not packing.one_cell:
        sized = compute.equal(compute.binary_length(columns.column(BITS)), packing.bits_width)
        sized = sized.fill_null(False).to_numpy(zero_copy_only=False)
    else:
        sized = full
    kept = columns.filter(arrow().array(full & sized))
    if packing.one_cell:
        codes = _whole(kept.column(CODE), CODE)
        inside = (codes >= 0) & (codes < packing.layout.codes)
        rows = Reports(packing.plan_hash, codes=codes[inside])
    else:
        batch = from_batch(kept, packing)
        assert batch.views is not None
        assert batch.bits is not None
        inside = (batch.views >= 0) & (batch.views < len(packing.layout.channels))
        rows = Reports(packing.plan_hash, views=batch.views[inside], bits=batch.bits[inside])
    packed = packing.packed(rows)
    good = packing.reports(packed[packing.admitted(packed)])
    return good, int((~full).sum()), int(full.sum()) - len(good)
