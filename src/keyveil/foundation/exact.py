"""Epsilon as exact arithmetic: integers in, decimals rounded to the safe side out."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from decimal import (
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DecimalException,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
    localcontext,
)
from functools import lru_cache
from math import inf
from numbers import Integral, Rational, Real
from typing import SupportsFloat

from .errors import PlanError


def _context(digits: int, *traps: type[DecimalException], rounding: str = ROUND_HALF_EVEN) -> Context:
    """A context that depends neither on the caller's context nor on changed defaults."""
    signals: list[type[DecimalException]] = [InvalidOperation, DivisionByZero, Overflow, *traps]
    return Context(digits, rounding, -999_999, 999_999, 1, 0, [], signals)


_EXACT = _context(2_000, Inexact)
_WIDE = _context(60)
_UP, _DOWN = _context(60, rounding=ROUND_CEILING), _context(60, rounding=ROUND_FLOOR)
_PLACES = Decimal("1e-18")

Number = SupportsFloat | str
"""A number, also NumPy's or a Decimal, or decimal text."""

SMALLEST, LARGEST = Decimal("0.001"), Decimal("20")
"""The epsilons we can promise: below, 32-bit words are too coarse; above, it protects no one."""

MOST_PLACES = 400
"""Largest exponent of a number, either way."""


def rounded_up(epsilon: Decimal) -> str:
    """An epsilon for people: three decimals, more if it is below 0.1, never less than it is."""
    places = Decimal(1).scaleb(-max(3, 2 - epsilon.adjusted()), _WIDE)
    return str(epsilon.quantize(places, ROUND_CEILING, _WIDE))


def rounded_down(epsilon: Decimal) -> str:
    """An amount of epsilon that is left, for people: three decimals, never more than it is."""
    places = Decimal(1).scaleb(-max(3, 2 - epsilon.adjusted()), _WIDE)
    return str(epsilon.quantize(places, ROUND_FLOOR, _WIDE))


def decimal(number: object, name: str) -> Decimal:
    """A finite decimal from a number or text; a float by its shortest form, NumPy's numbers too."""
    if isinstance(number, bool) or not isinstance(number, Integral | Real | Decimal | str):
        raise PlanError(f"{name} must be a number")
    try:
        value = Decimal(_written(number))
    except InvalidOperation:
        raise PlanError(f"{name} must be a number, like 1 or 0.5") from None
    except Inexact:
        rounded = f"{float(number):.4g}"
        raise PlanError(f"{name} {number} has no end as a decimal; round it, like {rounded}") from None
    if not value.is_finite():
        raise PlanError(f"{name} must be finite")
    _, digits, exponent = value.as_tuple()
    if len(digits) > 60 or abs(int(exponent)) > MOST_PLACES:  # of a zero, too: it is written as long
        raise PlanError(f"{name} has too many digits")
    return value


def count_of(number: object, name: str, example: str, below: float = inf) -> int:
    """A number of people or the like: at least 1, without its fraction; also NumPy's or a Decimal."""
    count = 0.0
    if isinstance(number, Real | Decimal) and not isinstance(number, bool):
        count = float(number)
    if not 1 <= count < below:
        limit = "" if below == inf else f" and below {below:g}"
        raise PlanError(
            f"{name} must be a number of at least 1{limit}, like {example}{text_hint(number)}"
        )
    return int(count)


def text_hint(number: object) -> str:
    """For an error about something that is no number: that it is a number in a text, if it is."""
    if not (isinstance(number, str) and any(map(str.isdigit, number))):
        return ""
    return "; this is text, so leave out the quotation marks, and commas, too"


def _written(number: Real | Decimal | str) -> int | Decimal | str:
    """A number as ``Decimal`` takes it."""
    if isinstance(number, Decimal | str):
        return number
    if isinstance(number, Integral):
        return int(number)
    if isinstance(number, Rational):
        return _EXACT.divide(Decimal(int(number.numerator)), Decimal(int(number.denominator)))
    return float.__repr__(number) if isinstance(number, float) else str(number)  # NumPy's narrow floats


def own_context(digits: int = 28) -> AbstractContextManager[Context]:
    """A decimal context of ``digits`` digits of our own, so that plans are the same everywhere."""
    return localcontext(_context(digits))


def total(values: Iterable[Decimal]) -> Decimal:
    """The exact sum, whatever the caller's context is."""
    with localcontext(_EXACT):
        return sum(values, Decimal(0))


def difference(value: Decimal, less: Decimal) -> Decimal:
    """``value - less`` exactly, whatever the caller's context is."""
    with localcontext(_EXACT):
        return value - less


def epsilon_of(number: object) -> Decimal:
    """A promise of privacy that can be kept with 32-bit words."""
    value = decimal(number, "epsilon")
    if not SMALLEST <= value <= LARGEST:
        raise PlanError(f"epsilon must lie between {SMALLEST} and {LARGEST}")
    return value


def text(value: Decimal) -> str:
    """The one way a decimal is written: no exponent, no trailing zeros."""
    plain = format(value, "f")
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return "0" if plain in ("", "-0") else plain


@lru_cache(maxsize=1024)
def _power(epsilon: Decimal, digits: int) -> Decimal:
    """``e^epsilon`` to this number of digits. A search for a channel asks for it thousands of times."""
    return epsilon.exp(_context(digits))


def at_most(weight: int, epsilon: Decimal) -> int:
    """The largest integer not above ``weight * e^epsilon``."""
    digits = 60 + weight.bit_length() // 3
    with localcontext(_context(digits)):
        return int((weight * _power(epsilon, digits)).to_integral_value(ROUND_FLOOR))


def keeps(numerator: int, denominator: int, epsilon: Decimal) -> bool:
    """Whether ``numerator / denominator <= e^epsilon``, exactly, for an epsilon of 0 or more.

    Sixty digits decide, unless the two are nearer than that; then as many digits as it takes.
    """
    if numerator <= denominator:
        return True
    top, bottom, near = Decimal(numerator), Decimal(denominator), _power(epsilon, 60)
    if _UP.divide(top, bottom) <= near.next_minus(_WIDE):
        return True
    if _DOWN.divide(top, bottom) >= near.next_plus(_WIDE):
        return False
    return numerator <= at_most(denominator, epsilon)


def log_up(numerator: int, denominator: int) -> Decimal:
    """``ln(numerator / denominator)`` rounded up: never claims less than the truth."""
    with localcontext(_WIDE):
        value = (Decimal(numerator) / Decimal(denominator)).ln()
        return value.quantize(_PLACES, ROUND_CEILING)


def most_lies(others: int, epsilon: Decimal, whole: int = 1 << 32) -> int:
    """The largest weight w with ``w * (e^epsilon + others) <= whole``."""
    with localcontext(_WIDE):
        return int((whole / (_power(epsilon, 60) + others)).to_integral_value(ROUND_FLOOR))
