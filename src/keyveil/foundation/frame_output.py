"""Columns as a pandas, Polars or Arrow frame; the only file that makes frames."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from math import isnan
from typing import Any

from .errors import TableError, nearest

LIBRARIES = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}
"""Names of the kinds of frames, and the package that makes each."""

Columns = Mapping[str, Sequence[Any]]
"""Columns by name, all of one length; None stands for what is unknown."""

Kinds = Mapping[str, type]
"""By column: the type of its values, which is str, bool, int or float."""
NO_KINDS: Kinds = {}


def library_of(source: object) -> str | None:
    """The kind of frame that a source is; None if it is none of those known."""
    package = type(source).__module__.partition(".")[0]
    return next((name for name, known in LIBRARIES.items() if known == package), None)


def frame_of(columns: Columns, library: str | None = None, kinds: Kinds = NO_KINDS) -> Any:
    """The columns as a frame of a library: "pandas", "polars" or "arrow".

    Without a name it is pandas or Polars: the one that is imported already, or else installed.
    ``kinds`` has the types of columns in which no value may be known: text, for example, if no row shows
    it. The others hold numbers then.
    """
    name = _usual() if library is None else library
    if name not in LIBRARIES:
        near = nearest(str(name), LIBRARIES)
        hint = "" if near is None else f"did you mean {near!r}? "
        raise TableError(f"unknown kind of frame {name!r}; {hint}known: {', '.join(LIBRARIES)}")
    package = _imported(name)
    plain = {column: _plain(values) for column, values in columns.items()}
    types = {column: _kind(values, kinds.get(column, float)) for column, values in plain.items()}
    if name == "pandas":
        return package.DataFrame(
            {c: package.Series(v, dtype=_pandas_type(types[c])) for c, v in plain.items()}
        )
    if name == "polars":
        own = {str: package.String, bool: package.Boolean, int: package.Int64, float: package.Float64}
        return package.DataFrame(
            [package.Series(c, v, own[types[c]], strict=False) for c, v in plain.items()]
        )
    arrow = {str: package.string, bool: package.bool_, int: package.int64, float: package.float64}
    return package.table({c: package.array(v, arrow[types[c]]()) for c, v in plain.items()})


def _usual() -> str:
    """The library of frames if none is named."""
    both = ("pandas", "polars")
    for name in both:
        if name in sys.modules:
            return name
    for name in both:
        if find_spec(name) is not None:
            return name
    raise TableError("a frame needs pandas or Polars: pip install pandas; to_arrow() needs pyarrow")


def _imported(name: str) -> Any:
    try:
        return import_module(LIBRARIES[name])
    except ImportError:
        raise TableError(f"this frame needs {LIBRARIES[name]}: pip install {LIBRARIES[name]}") from None


def _plain(values: Sequence[Any]) -> list[Any]:
    """Values with None instead of NaN, and whole numbers as doubles if one of them is a double."""
    plain = [None if isinstance(value, float) and isnan(value) else value for value in values]
    if any(isinstance(value, float) for value in plain):
        return [None if value is None else float(value) for value in plain]
    return plain


def _kind(values: Sequence[Any], unknown: type) -> type:
    """The type of a column; ``unknown`` if no value shows it."""
    known = {type(value) for value in values if value is not None}
    return next((kind for kind in (str, bool, float, int) if kind in known), unknown)


def _pandas_type(kind: type) -> Any:
    """The dtype that can hold unknown values, too."""
    return {str: "str", bool: "boolean", int: "Int64", float: "float64"}[kind]
