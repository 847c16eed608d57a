"""What options say in words: a schema's keys, a range, a count."""

from __future__ import annotations

import csv
from decimal import Decimal
from math import isfinite
from pathlib import Path

from ..errors import PlanError, SchemaError
from ..exact import decimal
from ..schema import Schema

MOST = 10**15
"""People, or keys, beyond which no one means it."""


def read_schema(keys: str, ends: str) -> Schema:
    """Keys from a file or a number, with one range or one for each."""
    low, high = read_range(ends)
    if _is_number(keys):
        return Schema.of(read_count(keys, "the number of keys"), low, high)
    path = Path(keys)
    try:
        content = path.read_text("utf-8-sig")
    except OSError as error:
        raise SchemaError(f"cannot read the keys {keys}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SchemaError(f"the keys {keys} are not UTF-8 text") from None
    if path.suffix.lower() != ".csv":
        names = [line.strip() for line in content.splitlines() if line.strip()]
        return Schema.of(names, low, high)
    rows = list(csv.DictReader(content.splitlines()))
    if not rows or "key" not in rows[0]:
        raise SchemaError(f"the CSV {keys} needs a first line key,low,high and a line for each key")
    ranges = {}
    for row in rows:
        one, two = (row.get("low") or "").strip(), (row.get("high") or "").strip()
        if bool(one) != bool(two):
            raise SchemaError(f"a key of {keys} has only one end of its range; give low and high")
        if one:
            ranges[(row["key"] or "").strip()] = (one, two)
    return Schema.of([(row["key"] or "").strip() for row in rows], low, high, ranges=ranges)


def _is_number(words: str) -> bool:
    try:
        return isfinite(float(words))
    except ValueError:
        return False


def read_range(ends: str) -> tuple[Decimal, Decimal]:
    """LOW,HIGH as two decimals."""
    parts = ends.split(",")
    if len(parts) != 2:
        raise PlanError("a range is LOW,HIGH, like --range 1,5")
    return decimal(parts[0].strip(), "LOW"), decimal(parts[1].strip(), "HIGH")


def read_count(words: str, name: str) -> int:
    """A whole number of at least 1, as it is or like 1e6."""
    wrong = f"{name} must be a whole number of at least 1 and at most 1e15, like 100000 or 1e6"
    try:
        number = decimal(words, name)
    except PlanError:
        raise PlanError(wrong) from None
    if not 1 <= number <= MOST or number != int(number):
        raise PlanError(wrong)
    return int(number)
