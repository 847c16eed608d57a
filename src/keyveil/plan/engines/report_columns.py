"""Reports as columns of Arrow, Parquet and Spark: a code each, or a view and packed bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...foundation.errors import ReportError
from ...people.tables.frames import arrow
from ..packing import Packing
from ..report import Reports

CODE, VIEW, BITS = "code", "view", "bits"


def column_names(packing: Packing) -> list[str]:
    """The columns that the reports of a plan have."""
    return [CODE] if packing.one_cell else [VIEW, BITS]


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
    for name in column_names(packing):
        if name not in columns.schema.names:
            raise ReportError(
                f"reports of this plan have the columns {', '.join(column_names(packing))}; "
                f"{name!r} is missing"
            )
        if columns.column(name).null_count:
            raise ReportError(f"the column {name!r} of reports has an empty cell")
    if packing.one_cell:
        return Reports(packing.plan_hash, codes=_whole(columns.column(CODE), CODE))
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


def _signed(kind: np.dtype[Any]) -> type[np.signedinteger[Any]]:
    """The narrowest signed type that holds an unsigned type and that Spark has."""
    return {1: np.int16, 2: np.int32}.get(kind.itemsize, np.int64)
