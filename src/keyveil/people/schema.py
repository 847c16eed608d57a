"""Schema: the public keys, each with its range of values, and the levels a value is rounded to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from math import isfinite
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from ..foundation.arrays import WORD, Floats, Integers, Words
from ..foundation.errors import RecordError, SchemaError, UnknownKeyError, nearest
from ..foundation.exact import Number, decimal, text
from ..foundation.key_names import key_name
from .key_list import check_listed, check_name, name_of
from .rounding import between_levels

if TYPE_CHECKING:
    from .frame_columns import FrameColumns, Stated

MOST_KEYS = 1 << 20
MOST_HINTS = 3
"""The most keys that an error about an unknown one suggests by a part of their names."""
MOST_LEVELS = 64

Record = Mapping[str, float] | Iterable[tuple[str, float]]
"""One person's keys and values. It never leaves the device, nor enters an error, log or repr."""


@dataclass(frozen=True)
class Schema:
    """Named keys, a range of values for each, and how many levels a value is rounded to.

    ``of`` makes one from names, and ``from_frame`` from a table.

    Ranges are decimals, written in the plan as they were given; arithmetic on values is IEEE
    double in the order stated at ``rounded``. One level means that values are not looked at.
    """

    keys: tuple[str, ...]
    ranges: tuple[tuple[Decimal, Decimal], ...]
    levels: int = 2
    frame: FrameColumns | None = field(default=None, compare=False, repr=False)
    """The columns of the frame that it was made from; not part of its document."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.keys) <= MOST_KEYS:
            raise SchemaError(f"a schema has 1 to {MOST_KEYS} keys")
        for key in self.keys:
            check_name(key)
        if len(set(self.keys)) != len(self.keys):
            twice = next(key for key, times in Counter(self.keys).items() if times > 1)
            raise SchemaError(f"key {twice!r} is listed twice; list each key once")
        if len(self.ranges) != len(self.keys):
            raise SchemaError("give one range of values for each key")
        for key, (low, high) in zip(self.keys, self.ranges, strict=True):
            if not (low < high and float(low) < float(high)):
                of_key = "" if self.shared_range is not None else f"the range of key {key!r}: "
                raise SchemaError(f"{of_key}low {text(low)} is not below high {text(high)}")
            if not isfinite(float(high) - float(low)):
                raise SchemaError(f"the range of key {key!r} is too wide for double arithmetic")
        self._check_levels()

    def __repr__(self) -> str:
        keys, ranges = len(self.keys), set(self.ranges)
        ends = ", ".join(map(text, self.ranges[0]))
        values = "of several ranges" if len(ranges) > 1 else f"in [{ends}]"
        return f"Schema({keys} {'key' if keys == 1 else 'keys'}, values {values})"

    def _check_levels(self) -> None:
        if not 1 <= self.levels <= MOST_LEVELS:
            raise SchemaError(f"levels must be from 1 to {MOST_LEVELS}")

    @classmethod
    def of(
        cls,
        keys: Iterable[Hashable] | int,
        low: Number = -1,
        high: Number = 1,
        *,
        ranges: Mapping[Any, tuple[Any, Any]] | None = None,
    ) -> Schema:
        """Keys by name (or that many keys named "0", "1", ...) with one range, or one for each.

        ``low`` and ``high`` are the ends of the range of all keys; ``ranges`` has a pair of ends by key.
        A key that is no text, such as a whole number, is named by its text: 7 is "7".
        """
        if isinstance(keys, str | bytes):
            raise SchemaError("keys are a list of names, also for one key, or a number of keys")
        listed: Iterable[Any] = range(int(keys)) if isinstance(keys, Integral) else keys  # type: ignore[assignment]
        names = tuple(map(name_of, listed))
        shared = (decimal(low, "low"), decimal(high, "high"))
        own = {name_of(key): ends for key, ends in (ranges or {}).items()}
        if own:
            check_listed(own, names)
        return cls(
            names,
            tuple(
                (decimal(own[k][0], "low"), decimal(own[k][1], "high")) if k in own else shared
                for k in names
            ),
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        person: str | None = "person",
        key: str = "key",
        value: str | None = "value",
        *,
        top: SupportsIndex | None = None,
        low: Number | None = None,
        high: Number | None = None,
        wide: bool = False,
    ) -> Schema:
        """The keys of a pandas, Polars or Arrow frame, those with the most holders first.

        A long frame has a row for each pair, in the columns ``person``, ``key`` and ``value``;
        ``value=None`` if values do not matter. A ``wide`` one has a row for each person and a column for
        each key; with ``value=None`` it may hold True and False. ``top`` keeps only so many keys.
        ``low`` and ``high`` are the ends of the range; an end that is not stated is that of the values,
        and a warning says so. Keys and ranges become public: state them if they must not follow from
        the data.

        The schema remembers the columns, so that ``plan.collect(frame)`` needs no names.
        """
        from .frame_columns import FrameColumns
        from .tables.frame_people import schema_of_frame

        return schema_of_frame(frame, FrameColumns(person, key, value, wide), top, low, high)

    def columns_of(
        self, person: Stated, key: str | None, value: Stated, wide: bool | None
    ) -> FrameColumns:
        """The columns of a frame: as stated, or as remembered, or called person, key and value."""
        from .frame_columns import UNSTATED

        return (self.frame or UNSTATED).changed(person, key, value, wide)

    def at(self, levels: int) -> Schema:
        """The same keys with another number of levels; names and ranges are not checked again."""
        schema = object.__new__(Schema)
        facts = {"keys": self.keys, "ranges": self.ranges, "levels": levels, "frame": self.frame}
        for name, value in facts.items():
            object.__setattr__(schema, name, value)
        schema._check_levels()
        return schema

    @cached_property
    def index(self) -> dict[str, int]:
        """Each key's place in the schema."""
        return {key: place for place, key in enumerate(self.keys)}

    def place(self, key: Hashable) -> int:
        """A key's place by its name; an unknown name gets the nearest one for a hint."""
        place = self._place(key)
        if place is None:
            raise unknown_key(key, self.keys)
        return place

    def _place(self, key: Any) -> int | None:
        """A key's place; None if the schema does not list it."""
        name = key if type(key) is str else _name_or_none(key)
        return None if name is None else self.index.get(name)

    @cached_property
    def shared_range(self) -> tuple[Decimal, Decimal] | None:
        """The range of all keys; None if keys have different ranges."""
        first = self.ranges[0]
        return first if all(ends == first for ends in self.ranges) else None

    def range_words(self, place: int | None = None) -> str:
        """The range of the key at a place, or of all keys, for a message: "1 to 5".

        Without a place no key is given away: the words are general if keys have different ranges.
        """
        ends = self.shared_range if place is None else self.ranges[place]
        return "the range of its key" if ends is None else f"{text(ends[0])} to {text(ends[1])}"

    def outside(self, place: int | None = None) -> str:
        """What is wrong with a value that is too low or too high."""
        return f"a value lies outside {self.range_words(place)}"

    @cached_property
    def low(self) -> Floats:
        """Lower end of each key's range."""
        return np.array([float(low) for low, _ in self.ranges])

    @cached_property
    def high(self) -> Floats:
        """Upper end of each key's range."""
        return np.array([float(high) for _, high in self.ranges])

    @cached_property
    def _ends(self) -> list[tuple[float, float]]:
        """The range of each key in Python's own numbers, which are compared faster one by one."""
        return list(zip(self.low.tolist(), self.high.tolist(), strict=True))

    @cached_property
    def values(self) -> Floats:
        """The levels on the [-1, 1] scale, lowest first; none if values are not looked at."""
        return np.linspace(-1.0, 1.0, self.levels) if self.levels > 1 else np.empty(0)

    def scaled(self, means: Floats) -> Floats:
        """Means on [-1, 1], one per key, on each key's own scale."""
        return self.low + (np.asarray(means) + 1.0) / 2.0 * (self.high - self.low)

    # -- records ---------------------------------------------------------------------------------

    def checked(self, record: Record) -> dict[int, float]:
        """The record by key place, or one error that names the rule it breaks, never its content."""
        held: dict[int, float] = {}
        for key, value in _pairs(record):
            place = self._place(key)
            if place is None:
                raise RecordError(
                    "a key is not in the plan; the plan lists every key one may hold "
                    "(for developers: plan.check(record) names it)"
                )
            if place in held:
                raise RecordError("a key appears twice; a record has each key at most once")
            if type(value) is not float and (isinstance(value, bool) or not isinstance(value, Real)):
                raise RecordError("a value is not a number")
            try:
                number = float(value)
            except OverflowError:  # too large for a double
                raise RecordError(self.outside()) from None
            if not isfinite(number):
                raise RecordError("a value is NaN or infinite")
            low, high = self._ends[place]
            if not low <= number <= high:
                raise RecordError(self.outside())
            held[place] = number
        return held

    def check(self, record: Record) -> list[str]:
        """What is wrong with a record, a line each, with the key's name; never with a value.

        For developers, with records that they made up: a client is silent about what a person holds,
        and drops a misspelt key without a word. The lines name keys that the record holds, so do not
        log or send them for a person's record.
        """
        lines, seen = [], set()
        try:
            pairs = _pairs(record)
        except RecordError as error:
            return [str(error)]
        for key, value in pairs:
            place = self._place(key)
            if place is None:
                name = _name_or_none(key)
                near = None if name is None else nearest(name, self.keys)
                hint = "" if near is None else f"; did you mean {near!r}?"
                lines.append(f"key {key!r} is not in the plan{hint}")
                continue
            if place in seen:
                lines.append(f"key {key!r}: appears twice; a record has each key at most once")
            seen.add(place)
            try:
                self.checked({key: value})
            except RecordError as error:
                fault = str(error).replace(self.outside(), self.outside(place))
                lines.append(f"key {key!r}: {fault}")
        return lines

    def mapped(self, record: object) -> dict[int, float]:
        """The record as a client maps it: taking part never depends on what a person holds.

        Unknown keys are ignored. Values outside their range are clipped. A key counts as not held if
        its value is NaN or no number. If a key is given twice, the first one counts. Nothing is refused.
        """
        held: dict[int, float] = {}
        try:
            pairs = list(_pairs(record))
        except Exception:
            return held  # no mapping at all: a person who holds nothing
        for key, value in pairs:
            place = self._place(key)
            if place is None or place in held:
                continue
            try:
                number = float("nan") if isinstance(value, bool | str | bytes) else float(value)
            except OverflowError:  # a whole number too large for a double: clipped like infinity
                number = float("inf") if value > 0 else float("-inf")
            except Exception:
                continue
            if number == number:
                held[place] = min(max(number, float(self.low[place])), float(self.high[place]))
        return held

    # -- levels ----------------------------------------------------------------------------------

    def rounded(self, places: Integers, values: Floats, words: Words) -> Integers:
        """Digits 1..levels of values of the keys at ``places``, rounded without bias by ``words``.

        In IEEE doubles and this order: t = (value - low) / (high - low) * (levels - 1);
        below = min(floor(t), levels - 2); up if word < floor((t - below) * 2^32).
        """
        below, up = self.between_levels(places, values)
        return below + 1 + (words < np.floor(up * WORD))

    def between_levels(self, places: Integers, values: Floats) -> tuple[Integers, Floats]:
        """The level below each value, counted from 0, and the chance of being rounded up."""
        if self.levels == 1:
            return np.zeros(np.shape(values), np.int64), np.zeros(np.shape(values))
        return between_levels(self._shares(places, values) * (self.levels - 1), self.levels)

    def unit_interval(self, places: Integers, values: Floats) -> Floats:
        """Values of the keys at ``places`` on [0, 1], the ends of each key's range; clipped to it."""
        return np.clip(self._shares(places, values), 0.0, 1.0)

    def _shares(self, places: Integers, values: Floats) -> Floats:
        low = self.low[places]
        return (values - low) / (self.high[places] - low)

    # -- documents -------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """The schema as JSON; one range if all keys share it."""
        ranges = [[text(low), text(high)] for low, high in self.ranges]
        same = all(r == ranges[0] for r in ranges)
        return {
            "keys": list(self.keys),
            "ranges": ranges[:1] if same else ranges,
            "levels": self.levels,
        }

    @classmethod
    def parse(cls, document: object) -> Schema:
        """The schema of a document, through the same checks as any other."""
        if not isinstance(document, dict):
            raise SchemaError("a plan's schema is an object")
        keys, ranges, levels = (document.get(n) for n in ("keys", "ranges", "levels"))
        if not isinstance(keys, list) or not isinstance(ranges, list) or not ranges:
            raise SchemaError("a schema has a list of keys and a list of ranges")
        if isinstance(levels, bool) or not isinstance(levels, int):
            raise SchemaError("a schema's levels is a whole number")
        pairs = []
        for pair in ranges:
            if (
                not isinstance(pair, list)
                or len(pair) != 2
                or not all(isinstance(end, str) for end in pair)
            ):
                raise SchemaError("a range is a list of two decimal strings")
            pairs.append((decimal(pair[0], "low"), decimal(pair[1], "high")))
        if len(pairs) == 1:
            pairs *= len(keys)
        return cls(tuple(keys), tuple(pairs), levels)


def _name_or_none(key: Any) -> str | None:
    """The name of a key; None for an object whose text cannot be made, too."""
    try:
        return key_name(key)
    except Exception:
        return None


def unknown_key(key: object, names: Iterable[str]) -> UnknownKeyError:
    """The error for a name that is not among ``names``, with the nearest one for a hint."""
    listed = list(names)
    near = nearest(str(key), listed)
    parts = [] if near is not None else [name for name in listed if _holds(name, str(key))]
    likely = [near] if near is not None else parts[:MOST_HINTS]
    hint = "" if not likely else f"; did you mean {' or '.join(map(repr, likely))}?"
    return UnknownKeyError(f"the plan has no key {key!r}{hint}")


def _holds(name: str, part: str) -> bool:
    """Whether a key's name has this part, whatever its case; single letters are in too many names."""
    return len(part) > 1 and part.casefold() in name.casefold()


def _pairs(record: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(record, Mapping):
        return record.items()
    try:
        pairs = None if isinstance(record, str | bytes) else [tuple(pair) for pair in record]
    except TypeError:
        pairs = None
    if pairs is None or any(len(pair) != 2 for pair in pairs):
        hint = "; this is a function that returns one: call it" if callable(record) else ""
        raise RecordError(f"a record is a mapping of keys to values, or a list of such pairs{hint}")
    return pairs
