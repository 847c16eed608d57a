"""The name of a key: plans, documents and answers name keys by text."""

from __future__ import annotations

from datetime import date, time
from enum import Enum
from numbers import Integral, Real
from typing import Any


def key_name(key: Any) -> str | None:
    """The text that names a key; None for what has no name of its own.

    Whole numbers are written without a point, NumPy's too. Dates are written as ISO 8601. A member of an
    enumeration has its name. Any other hashable value is named by its own text.
    """
    if isinstance(key, str):
        return key.name if isinstance(key, Enum) else str(key)
    if key is None or (isinstance(key, Real) and key != key):
        return None
    if isinstance(key, Enum):
        return key.name
    if isinstance(key, bool):
        return str(key)
    if isinstance(key, Integral):
        return str(int(key))
    if isinstance(key, Real):
        number = float(key)
        return str(int(number)) if number.is_integer() else str(key)
    if isinstance(key, date | time):
        return key.isoformat()
    kind: Any = type(key)
    has_text = kind.__str__ is not object.__str__ or kind.__repr__ is not object.__repr__
    return str(key) if has_text and kind.__hash__ is not None else None
