"""Reads rows of numbers, compares their errors, and judges claims by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import hypot
from typing import Any, NamedTuple

import numpy as np

from ...foundation.arrays import Floats
from .experiment import CONFIRMED, ONLY_IF, REFUTED, Row

CLEAR = 4.0
"""Number of standard errors beyond which a difference is clear. Chance exceeds it once in 30,000."""
NOISE = (
    f"No verdict rests on noise: one error counts as below another only if the difference is more than "
    f"{CLEAR:g} of its standard errors (the columns se_... of the numbers)."
)


def select_rows(rows: Sequence[Row], **wanted: object) -> list[Row]:
    """The rows with these entries, in their order."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def only_row(rows: Sequence[Row], **wanted: object) -> Row:
    """The only row with these entries."""
    matches = select_rows(rows, **wanted)
    if len(matches) != 1:
        raise LookupError(f"{len(matches)} rows with {wanted}")
    return matches[0]


def other_line(rows: Sequence[Row], row: Row, line: str, *same: str) -> Row:
    """The row of another line that has the same entries under these names."""
    return only_row(rows, line=line, **{name: row[name] for name in same})


def verdict(holds: bool, condition: str | None = None) -> str:
    """Confirmed if the claim holds. Otherwise true only under the condition, or refuted without one."""
    if holds:
        return CONFIRMED
    return REFUTED if condition is None else f"{ONLY_IF} {condition}"


def listed(values: Mapping[Any, Any], form: Callable[[Any], str], between: str = ", ") -> str:
    """Names and values in words, like "KVUE 0.12, KVOH 0.2"."""
    return between.join(f"{name} {form(value)}" for name, value in values.items())


def number(value: float) -> str:
    """A number in three digits, without an exponent if possible."""
    if value != 0 and (abs(value) < 1e-3 or abs(value) >= 1e5):
        return f"{value:.2e}"
    return f"{value:.3g}"


def averages(name: str, off: Floats, *, by_run: bool = False) -> Row:
    """Mean absolute and squared error over repetitions and keys, each with its standard error.

    Errors of different keys are taken to be independent, and what differs from key to key counts as
    noise, so the standard errors are rather too large. ``by_run`` compares whole repetitions instead,
    for errors that are not independent within one.
    """
    row: Row = {}
    for kind, errors in (("mae", np.abs(off)), ("mse", off**2)):
        units = errors.mean(axis=1) if by_run else errors.ravel()
        noise = units.std(ddof=1) / np.sqrt(len(units)) if len(units) > 1 else np.inf
        row |= {f"{kind}_{name}": float(errors.mean()), f"se_{kind}_{name}": float(noise)}
    return row


def below(lower: Row, upper: Row, part: str, times: float = 1.0) -> bool:
    """Whether one row's error is below so many times another's, and clearly so."""
    noise = hypot(lower.get(f"se_{part}", 0.0), times * upper.get(f"se_{part}", 0.0))
    return bool(times * upper[part] - lower[part] > CLEAR * noise)


class Duel(NamedTuple):
    """The errors of rows over those of others in the same settings."""

    ratios: list[float]
    wins: int
    """The number of settings with a clearly smaller error."""
    losses: int


def duel(pairs: Sequence[tuple[Row, Row]], part: str) -> Duel:
    """The first row of each pair against the second."""
    return Duel(
        [row[part] / other[part] for row, other in pairs],
        sum(below(row, other, part) for row, other in pairs),
        sum(below(other, row, part) for row, other in pairs),
    )


def mean_duel(rows: Sequence[Row]) -> Duel:
    """The mean's absolute error against the frequency's in the same rows."""

    def error(row: Row, part: str) -> Row:
        return {"mae": row[f"mae_{part}"], "se_mae": row.get(f"se_mae_{part}", 0.0)}

    return duel([(error(row, "mean"), error(row, "frequency")) for row in rows], "mae")


def pooled(rows: Sequence[Row], part: str) -> Row:
    """The average of an error over some rows, with its standard error."""
    noise = np.sqrt(np.sum([row.get(f"se_{part}", 0.0) ** 2 for row in rows])) / len(rows)
    return {part: float(np.mean([row[part] for row in rows])), f"se_{part}": float(noise)}
