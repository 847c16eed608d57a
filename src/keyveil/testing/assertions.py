"""What the checks of this folder share: one-line failures, and plans of parts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..foundation.arrays import Floats, Integers
from ..plan.plan import Plan


def require(true: bool, message: str) -> None:
    if not true:
        raise AssertionError(message)


def require_same(values: Floats, goal: Floats, size: float, what: str) -> None:
    """Check that arrays are equal up to the cancellation of numbers of that size."""
    difference = float(np.abs(values - goal).max(initial=0.0))
    require(difference <= 1e-9 * (1.0 + size), f"{what}: off by {difference}")


def output_counts(outputs: np.ndarray, size: int) -> Integers:
    outside = outputs[(outputs < 0) | (outputs >= size)]
    require(not len(outside), f"output {outside[:1]} does not exist and was drawn")
    return np.bincount(outputs, minlength=size)


def evenly_spaced(count: int, most: int) -> list[int]:
    """At most ``most`` numbers below ``count``, evenly spaced, with the first and the last."""
    if count <= most:
        return list(range(count))
    return sorted({i * (count - 1) // (most - 1) for i in range(most)})


def check_each_part(plan: Plan, check: Callable[[Plan], None]) -> None:
    for own in plan.part_plans:
        check(own)
