"""The names of a schema's keys, and the rules for them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from ..foundation.errors import SchemaError, nearest
from ..foundation.key_names import key_name

MOST_LETTERS = 256
"""Characters of a key's name."""


def name_of(key: object) -> str:
    """The name of a key; the error for what has none."""
    name = key_name(key)
    if name is None:
        raise SchemaError(f"a key's name is text of 1 to {MOST_LETTERS} characters")
    return name


def check_listed(keys: Iterable[str], names: Iterable[str]) -> None:
    """Refuse ranges of keys that are not listed."""
    listed = set(names)
    for key in keys:
        if key not in listed:
            near = nearest(key, listed)
            hint = "" if near is None else f"; did you mean {near!r}?"
            raise SchemaError(f"a range is given for key {key!r}, which is not listed{hint}")


def check_name(key: object) -> None:
    if not isinstance(key, str) or not key or len(key) > MOST_LETTERS:
        raise SchemaError(f"a key's name is text of 1 to {MOST_LETTERS} characters")
    if key != key.strip() or any(unicodedata.category(c) in ("Cc", "Cs") for c in key):
        raise SchemaError(
            f"key {key!r} has outer spaces, control characters or broken text; remove them"
        )
