"""Search by halving: the largest or smallest number that fits, where fitting changes only once."""

from __future__ import annotations

from collections.abc import Callable


def largest_fitting(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The largest whole number from ``low`` to ``high`` that fits, if all below it fit and none above.

    ``low`` is taken to fit and is not tried.
    """
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def smallest_fitting(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The smallest whole number from ``low`` to ``high`` that fits; ``high`` is taken to fit."""
    return -largest_fitting(-high, -low, lambda number: fits(-number))


def largest_fitting_real(low: float, high: float, fits: Callable[[float], bool]) -> float:
    """The largest number from ``low`` to ``high`` that fits, to 60 binary digits of their distance."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
