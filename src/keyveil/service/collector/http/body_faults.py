"""What is wrong with a JSON body, in a sentence that names the member and says what it must be.

The decoder only says that a body is refused; this looks for the first fault. It never quotes a value.
It quotes an unknown name only if ``quoting``: a name in a report could tell what somebody holds.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import inspect

from ....foundation.errors import choices, nearest

_MOST_NAME = 40
"""Maximum length of an unknown name that is quoted."""


def fault_in(body: bytes, kind: type[msgspec.Struct], quoting: bool = False) -> str:
    """The first fault of a body that is to be of a type; empty if there is none."""
    try:
        document = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return "the body is not JSON"
    information = inspect.type_info(kind)
    assert isinstance(information, inspect.StructType)
    return _in_struct(document, information, "", quoting)


def _in_struct(document: object, kind: inspect.StructType, place: str, quoting: bool) -> str:
    if not isinstance(document, dict):
        return f"{place or 'the body'} must be an object"
    of = f" of {place}" if place else ""
    known = {field.encode_name: field for field in kind.fields}
    for name in document:
        if name not in known and kind.forbid_unknown_fields:
            if not quoting:
                return f"a member{of} is not known; known: {', '.join(known)}"
            return f"{name[:_MOST_NAME]!r}{of} is not known; {choices(name, known)}"
    for name, field in known.items():
        if name not in document:
            if field.required:
                return f"'{name}'{of} is missing"
        elif fault := _in_value(document[name], field.type, f"'{name}'{of}", quoting):
            return fault
    return ""


def _in_value(value: object, kind: inspect.Type, place: str, quoting: bool) -> str:
    if isinstance(kind, inspect.StructType):
        return _in_struct(value, kind, place, quoting)
    if isinstance(kind, inspect.ListType) and isinstance(kind.item_type, inspect.StructType):
        if not isinstance(value, list) or not value:
            return f"{place} must be {_described(kind)}"
        member = f"a {place[1:-2]}"  # of 'reports'
        return next(
            filter(None, (_in_struct(item, kind.item_type, member, quoting) for item in value)), ""
        )
    if _fits(value, kind):
        return ""
    text = f"{place} must be {_described(kind)}"
    if quoting and isinstance(kind, inspect.LiteralType) and isinstance(value, str):
        near = nearest(value[:_MOST_NAME], map(str, kind.values))
        text += "" if near is None else f"; did you mean {near}?"
    return text


def _fits(value: object, kind: inspect.Type) -> bool:
    """Whether a value is of a type that is no object."""
    match kind:
        case inspect.UnionType():
            return any(_fits(value, part) for part in kind.types)
        case inspect.NoneType():
            return value is None
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.LiteralType():
            return value in kind.values
        case inspect.IntType():
            whole = isinstance(value, int) and not isinstance(value, bool)
            return whole and _within(value, kind.ge, kind.le)
        case inspect.StrType():
            if not isinstance(value, str) or not _within(len(value), kind.min_length, kind.max_length):
                return False
            return kind.pattern is None or re.search(kind.pattern, value) is not None
        case inspect.ListType():
            if not isinstance(value, list) or not _within(len(value), kind.min_length, kind.max_length):
                return False
            return all(_fits(item, kind.item_type) for item in value)
        case inspect.DictType():
            return isinstance(value, dict)
    return False


def _within(number: Any, low: float | None, high: float | None) -> bool:
    return (low is None or number >= low) and (high is None or number <= high)


def _described(kind: inspect.Type) -> str:
    """A type in words."""
    match kind:
        case inspect.UnionType():
            return " or ".join(map(_described, kind.types))
        case inspect.NoneType():
            return "null"
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType():
            values = ", ".join(map(str, kind.values))
            return values if len(kind.values) == 1 else f"one of {values}"
        case inspect.IntType():
            limits = (("from", kind.ge), ("to", kind.le))
            return " ".join(["a whole number", *(f"{w} {n}" for w, n in limits if n is not None)])
        case inspect.StrType(pattern=str(pattern)):
            if "[0-9a-f]" in pattern:
                return f"{kind.max_length} hexadecimal digits in lower case"
            return f"a name of 1 to {kind.max_length} lower-case letters, digits and hyphens"
        case inspect.StrType():
            return "a text" + (f" of at most {kind.max_length} characters" if kind.max_length else "")
        case inspect.ListType():
            items = {inspect.StrType: "texts", inspect.IntType: "whole numbers"}
            several = items.get(type(kind.item_type), "objects")
            return f"a list of {several}" + (f", at least {kind.min_length}" if kind.min_length else "")
        case inspect.DictType():
            return "an object"
    return "of another type"
