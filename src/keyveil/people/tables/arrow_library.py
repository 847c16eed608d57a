"""Apache Arrow, which is loaded when it is first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...foundation.errors import TableError, installation


def arrow(part: str = "") -> Any:
    """Import pyarrow, or one of its modules, at first use."""
    try:
        return import_module(f"pyarrow.{part}" if part else "pyarrow")
    except ImportError:
        raise TableError(f"reading tables needs pyarrow: {installation('data')}") from None
