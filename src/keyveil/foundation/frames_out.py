"""Columns as a frame of another library: pandas, Polars or Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .errors import TableError

KINDS = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}
"""The module of each kind of frame."""
MISSING = "a frame needs pandas, Polars or Arrow: pip install pandas, or 'keyveil[data]' for to_arrow()"


def frame_of(columns: Mapping[str, Sequence[Any]], kind: str | None = None) -> Any:
    """The columns as a frame of a kind; None takes pandas if it is installed, else Polars."""
    if kind is None:
        kind = next((name for name in ("pandas", "polars") if find_spec(name)), None)
        if kind is None:
            raise TableError(MISSING)
    if kind not in KINDS:
        raise TableError(f"unknown kind of frame {kind!r}; known: {', '.join(KINDS)}")
    try:
        module = import_module(KINDS[kind])
    except ImportError:
        raise TableError(MISSING) from None
    listed = {name: list(column) for name, column in columns.items()}
    return module.table(listed) if kind == "arrow" else module.DataFrame(listed)
