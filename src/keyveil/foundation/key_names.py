"""The name of a key: plans, documents and answers name keys by text."""

from __future__ import annotations

from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from numbers import Integral, Real
from typing import Any

import numpy as np


def key_name(key: Any) -> str | None:
    """The text that names a key; None for what has no name of its own.

    Whole numbers are written without a point, NumPy's too, and decimals without zeros at the end. Dates
    are written as ISO 8601, durations as Python writes them. A member of an enumeration has its name; if
    it is a text or a number, too, it has the name of that. Sets are written in the order of their
    members' text. Any other hashable value is named by its own text.
    """
    if isinstance(key, str):
        return str.__str__(key)
    if key is None or (isinstance(key, Real) and key != key):
        return None
    if isinstance(key, Enum) and not isinstance(key, Integral | Real):
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
    if isinstance(key, Decimal):
        return _name_of_decimal(key)
    if isinstance(key, date | time | timedelta):
        return _name_of_moment(key)
    if type(key) in (frozenset, tuple):
        return _text_of_members(key)
    kind: Any = type(key)
    has_text = kind.__str__ is not object.__str__ or kind.__repr__ is not object.__repr__
    return str(key) if has_text and kind.__hash__ is not None else None


def _name_of_decimal(number: Decimal) -> str | None:
    """The text of a decimal: equal numbers have one name, whatever zeros they end with."""
    if number.is_nan():
        return None
    if not number.is_finite():
        return str(number)
    digits = f"{number:f}"
    short = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "0" if short == "-0" else short


def _text_of_members(value: Any) -> str:
    """Python's own text of a value, but with the members of sets in an order that every process has."""
    if type(value) is tuple:
        members = [_text_of_members(member) for member in value]
        return f"({', '.join(members)}{',' if len(members) == 1 else ''})"
    if type(value) is frozenset and value:
        return f"frozenset({{{', '.join(sorted(map(_text_of_members, value)))}}})"
    return repr(value)


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
