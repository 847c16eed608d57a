"""The name of a key: plans, documents and answers name keys by text."""

from __future__ import annotations

from datetime import date, time, timedelta
from enum import Enum
from numbers import Integral, Real
from typing import Any

import numpy as np


def key_name(key: Any) -> str | None:
    """The text that names a key; None for what has no name of its own.

    Whole numbers are written without a point, NumPy's too. Dates are written as ISO 8601, durations as
    Python writes them. A member of an enumeration has its name. Any other hashable value is named by its
    own text.
    """
    if isinstance(key, str):
        return key.name if isinstance(key, Enum) else str(key)
    if key is None or (isinstance(key, Real) and key != key):
        return None
    if isinstance(key, Enum):
        return key.name
    if isinstance(key, bool):
        return str(key)
    if isinstance(key, np.datetime64 | np.timedelta64):
        return _name_of_numpy_moment(key)
    if isinstance(key, Integral):
        return str(int(key))
    if isinstance(key, Real):
        number = float(key)
        return str(int(number)) if number.is_integer() else str(key)
    if isinstance(key, date | time | timedelta):
        return _name_of_moment(key)
    kind: Any = type(key)
    has_text = kind.__str__ is not object.__str__ or kind.__repr__ is not object.__repr__
    return str(key) if has_text and kind.__hash__ is not None else None


def _name_of_moment(moment: date | time | timedelta) -> str | None:
    """The text of a date, a time of day or a duration; None for pandas' NaT."""
    if moment != moment:
        return None
    if isinstance(moment, timedelta):  # pandas writes its own in another way
        return str(timedelta(moment.days, moment.seconds, moment.microseconds))
    return moment.isoformat()


def _name_of_numpy_moment(moment: np.datetime64 | np.timedelta64) -> str | None:
    """The text of NumPy's dates and durations, which is that of Python's."""
    if np.isnat(moment):
        return None
    fine = np.datetime_data(moment.dtype)[0] in ("ns", "ps", "fs", "as")
    plain = (moment.astype(f"{moment.dtype.kind}8[us]") if fine else moment).item()
    return _name_of_moment(plain) if isinstance(plain, date | timedelta) else str(moment)
