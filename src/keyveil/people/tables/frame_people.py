"""People and schemas from a frame, as an analyst has it: long or wide, with keys of any kind.

What breaks a rule is mapped as the plan states for clients: a key outside of the schema is ignored, a
value outside its range is clipped, what is no number counts as not held, and the first of repeated rows
stands. A line says how many rows were changed, never which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from numbers import Integral
from typing import Any, SupportsIndex

import numpy as np

from ...foundation.errors import TableError
from ...foundation.frame_output import library_of
from ...foundation.notices import notice
from ..frame_columns import FrameColumns
from ..people import People
from ..schema import Schema
from .everyone import who_takes_part, with_everyone
from .frames import Columns
from .sources import open_source
from .table_reader import key_counts, people_of
from .top_keys import FAR, most_held_keys
from .wide_tables import wide_keys, wide_people

Number = Any
"""A number, NumPy's too, or decimal text."""
NO_ROWS = "the table has no rows"
MANY_OUTSIDE = 0.2
"""Share of clipped values from which a line asks whether the range is right."""
SHORT_END = 10
"""Characters of an end that is written as it is, in single precision, too."""


def schema_of_frame(
    frame: Any, columns: FrameColumns, top: SupportsIndex | None, low: Number | None, high: Number | None
) -> Schema:
    """The keys of a frame that most people hold, with the range that is stated or that values have."""
    columns = replace(columns, library=library_of(frame), top=top is not None)
    most = _count(top)
    if columns.wide:
        keys = wide_keys(frame, person=columns.person, top=most)
        if not keys:
            raise TableError("the frame has no column with a key")
        people = wide_people(
            _wide_open(keys), frame, person=columns.person, valued=columns.value is not None
        )
    else:
        _check_columns(frame, columns)
        rows = key_counts(frame, person=str(columns.person), key=columns.key)
        if not rows:
            empty = not len(_long_people(_wide_open(["key"]), frame, columns))
            raise TableError(NO_ROWS if empty else f"column {columns.key!r} names no key")

        def read(names: list[str]) -> People:
            return _long_people(_wide_open(names), frame, columns)

        keys, people = most_held_keys(
            rows, len(rows) if most is None else most, read, lambda result: result
        )
    ends = (-1, 1) if columns.value is None else _ends(people, low, high)
    return replace(Schema.of(keys, *ends), frame=columns)


def _wide_open(keys: list[str]) -> Schema:
    """A schema of these keys that takes every finite value."""
    return Schema.of(keys, -FAR, FAR)


def _count(top: Any) -> int | None:
    if top is None:
        return None
    if isinstance(top, bool) or not isinstance(top, Integral) or top < 1:
        raise TableError("top is the number of keys to take, a whole number of at least 1")
    return int(top)


def _ends(people: People, low: Number | None, high: Number | None) -> tuple[Number, Number]:
    """The stated ends of the range; an end that is not stated is that of the values."""
    if low is not None and high is not None:
        return low, high
    values = people.values
    if not len(values):
        raise TableError("no key of the frame has a number as value; pass low= and high=")
    least, most = float(values.min()), float(values.max())
    if max(-least, most) >= FAR:
        raise TableError("a value of the frame is infinite; pass low= and high=, and it is clipped")
    ends = (
        _short(least, ROUND_FLOOR) if low is None else low,
        _short(most, ROUND_CEILING) if high is None else high,
    )
    if least == most and None in (low, high):
        raise TableError(
            "all values of the frame are equal, so it shows no range; pass low= and high=, or "
            "value=None if values do not matter"
        )
    _tell_range(low is None, high is None)
    return ends


def _tell_range(low: bool, high: bool) -> None:
    """Say that the low end of the range, the high end or both are someone's values; never which."""
    ends = " and ".join(word for word, taken in (("lowest", low), ("highest", high)) if taken)
    stated = " and ".join(word for word, taken in (("low=", low), ("high=", high)) if taken)
    notice(
        f"the range is taken from the data, so a plan shows everyone the {ends} value; pass {stated} "
        "to Schema.from_frame, as far as the scale is known without the data"
    )


def _short(end: float, rounding: str) -> float:
    """The end of a range; a number in single precision has seven digits, rounded outwards: 9.9."""
    if end.is_integer() or float(np.float32(end)) != end or len(repr(end)) <= SHORT_END:
        return end
    return float(Context(prec=7, rounding=rounding).create_decimal(Decimal(end)))


# -- people ------------------------------------------------------------------------------------------


def people_of_frame(
    schema: Schema, source: Any, columns: FrameColumns, everyone: Any = None, *, values: bool = True
) -> People:
    """Everyone in a frame, a file, a sparse matrix or a list of records, and those without rows.

    ``everyone`` names all people, counts them, or is "frame" if the frame has them all. Without it, a
    line says how many people hold none of the keys. ``values`` says whether values matter.
    """
    if isinstance(source, People):
        return source if everyone is None else with_everyone(source, everyone)
    if isinstance(source, list | tuple) and all(isinstance(record, Mapping) for record in source):
        people = People.of_records(schema, source)
        return people if everyone is None else with_everyone(people, everyone)
    if columns.value is None and values and schema.levels != 1:
        raise TableError(
            "this plan asks for values; pass value=, the column that holds them; if values do not "
            "matter, take a plan that asks for none, like Plan.choose(..., ask='frequency'), or give "
            "every row the same one, like frame.assign(value=1) with low=0 and high=1"
        )
    people = _read(schema, source, columns)
    if everyone is None:
        _tell_absent(schema, people)
        return people
    return with_everyone(people, everyone)


def _read(schema: Schema, source: Any, columns: FrameColumns) -> People:
    """The people of a table; a line says how many of its rows were changed."""
    mapped: Counter[str] = Counter()
    if columns.wide:
        valued = columns.value is not None
        people = wide_people(
            schema, source, person=columns.person, lenient=True, valued=valued, mapped=mapped
        )
        _tell_changes(schema, mapped, people, columns)
        return people
    _check_columns(source, columns)
    people = _long_people(schema, source, columns, mapped)
    if not len(people):
        notice(NO_ROWS)
        return people
    _tell_changes(schema, mapped, people, columns)
    _tell_unnamed(schema, mapped, people)
    return people


def _long_people(
    schema: Schema, source: Any, columns: FrameColumns, mapped: Counter[str] | None = None
) -> People:
    own = schema if columns.value is not None else schema.at(1)
    names: dict[str, Any] = {"person": columns.person, "key": columns.key, "value": columns.value}
    return people_of(own, source, **names, lenient=True, mapped=mapped)


def _check_columns(frame: Any, columns: FrameColumns) -> None:
    """Refuse a frame without the columns, and say which arguments name them."""
    if hasattr(frame, "tocsr"):
        return
    if columns.person is None:
        raise TableError("pass person=, the column that names people; only a wide frame may have none")
    try:
        open_source(frame, Columns(columns.person, columns.key, columns.value))
    except TableError as error:
        if "is not in the table" not in str(error):
            raise
        raise TableError(
            f"{error}; pass person=, key= and value= (or wide=True, if each key has a column)"
        ) from None


def _said(count: int, of_one: str, of_many: str) -> str:
    return f"{count:,} {of_one if count == 1 else of_many}"


def _tell_unnamed(schema: Schema, mapped: Counter[str], people: People) -> None:
    """Say if rows name other keys while keys of the plan have no row: they may be misspelt."""
    rows = np.bincount(people.keys, minlength=len(schema.keys))
    absent = [key for key, number in zip(schema.keys, rows, strict=True) if not number]
    if not absent:
        return
    if len(absent) == len(schema.keys):
        notice("no row of the table names a key of the plan, so everyone holds nothing")
    elif mapped["unknown_key"]:
        named = ", ".join(map(repr, absent[:3])) + (" and others" if len(absent) > 3 else "")
        notice(f"no row names {named}, and other keys are ignored: is a key misspelt?")


def _tell_changes(schema: Schema, mapped: Counter[str], people: People, columns: FrameColumns) -> None:
    """Say how many rows were changed or ignored."""
    lines = []
    if mapped["unknown_key"] and not columns.top:
        lines.append(
            _said(
                mapped["unknown_key"],
                "row names a key that is not in the plan, and is ignored",
                "rows name a key that is not in the plan, and are ignored",
            )
        )
    if mapped["no_number"]:
        lines.append(
            _said(
                mapped["no_number"],
                "row has no number as value and counts as not held",
                "rows have no number as value and count as not held",
            )
        )
    if mapped["no_key"]:
        lines.append(
            _said(
                mapped["no_key"],
                "row has a value and no key, and is ignored",
                "rows have a value and no key, and are ignored",
            )
        )
    if mapped["repeated"]:
        lines.append(
            _said(
                mapped["repeated"],
                "row repeats a key of its person; the first one counts",
                "rows repeat a key of their person; the first of them counts",
            )
        )
    if mapped["outside_range"]:
        lines.append(_outside(schema, mapped["outside_range"], len(people.values) + mapped["repeated"]))
    if lines:
        notice("; ".join(lines))


def _outside(schema: Schema, count: int, held: int) -> str:
    """How many of the values were clipped; with their share if it is large."""
    words = schema.range_words()
    line = _said(
        count,
        f"value lies outside {words} and is clipped to it",
        f"values lie outside {words} and are clipped to it",
    )
    if count > MANY_OUTSIDE * held:
        line += f", {count / held:.0%} of all: is this the range (low=, high=) that they are on?"
    return line


def _tell_absent(schema: Schema, people: People) -> None:
    """Say how many people hold none of the keys, and that others may be missing."""
    if not len(people):
        return
    remedy = "pass everyone= (their names or number), or everyone='frame' if it has them all"
    notice(who_takes_part(len(people), people.number_empty, len(schema.keys), "frame", remedy))
