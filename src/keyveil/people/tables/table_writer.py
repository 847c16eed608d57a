"""Write rows as Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .frames import arrow


def parquet_bytes(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows (name to value) as a Parquet file. A column with both text and numbers becomes text."""
    pa = arrow()
    columns: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        if len({isinstance(value, str) for value in values if value is not None}) > 1:
            values = [None if value is None else str(value) for value in values]
        columns[name] = values
    sink = pa.BufferOutputStream()
    arrow("parquet").write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())
