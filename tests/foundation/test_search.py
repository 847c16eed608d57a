"""Searches by halving: the same as trying every number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keyveil.foundation.search import largest_fitting, largest_fitting_real, smallest_fitting


@given(st.integers(-50, 50), st.integers(0, 100), st.integers(-60, 160))
def test_the_last_and_the_first_that_fit_are_those_of_trying_all(low, size, border):
    high, numbers = low + size, range(low, low + size + 1)
    assert largest_fitting(low, high, lambda n: n <= border) == max(
        (n for n in numbers if n <= border), default=low
    )
    assert smallest_fitting(low, high, lambda n: n >= border) == min(
        (n for n in numbers if n >= border), default=high
    )


@given(st.floats(-5, 5), st.floats(0.1, 10), st.floats(0, 1))
def test_the_largest_real_that_fits_is_its_border(low, size, share):
    border = low + share * size
    assert abs(largest_fitting_real(low, low + size, lambda x: x <= border) - border) < 1e-14


def test_the_end_that_is_taken_to_fit_is_not_tried():
    tried: list[int] = []

    def never(number: int) -> bool:
        tried.append(number)
        return False

    assert largest_fitting(3, 10, never) == 3
    assert 3 not in tried
    tried.clear()
    assert smallest_fitting(3, 10, never) == 10
    assert 10 not in tried
    assert largest_fitting(7, 7, never) == 7
    assert 7 not in tried[3:]
