"""Caution: covariances are computed as if there had been one more report, or a few.

The empirical variance of one report alone is zero, which would claim certainty. One more report, spread
evenly over what could have been sent, prevents that and vanishes as reports grow. Laws of a key's states
get one for each state, up to five. Estimates themselves do not use them.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from ..foundation.arrays import Floats, Integers

MOST_MORE = 5
"""The most reports that are added to the law of a key."""

Number = TypeVar("Number", float, Floats)
"""A number or an array of them."""


def with_one_more(counts: Floats | Integers, even: Floats | float, reports: Floats | float) -> Floats:
    """Shares of all reports, from counts, with one more report that counts ``even``."""
    return with_more(counts, even, reports, 1)


def with_more(
    counts: Floats | Integers, even: Floats | float, reports: Floats | float, more: int
) -> Floats:
    """The same with several more reports that each count ``even``."""
    return np.asarray((counts + more * even) / (reports + more))


def law_with_one_more(laws: Floats, reports: Floats, states: int) -> Floats:
    """Laws of the states ``(..., states)`` with one more report from each state."""
    return with_more(reports * laws, 1.0 / states, reports, states)


def even_key_law(states: int) -> Floats:
    """The law of one key's states of which half is that it is not held, and the levels share the rest.

    Evenly spread states would say that nearly everyone holds a key with many levels, and so claim too
    small a variance of its frequency.
    """
    return np.concatenate([[0.5], np.full(states - 1, 0.5 / (states - 1))])


def key_law_with_more(laws: Floats, reports: Floats) -> Floats:
    """Laws of one key's states ``(..., states)`` with a few more reports, see ``added_reports``."""
    states = np.shape(laws)[-1]
    return with_more(reports * laws, even_key_law(states), reports, added_reports(states))


def added_reports(states: int) -> int:
    """How many reports are added to the law of a key: one for each state, at most ``MOST_MORE``."""
    return min(states, MOST_MORE)


def mean_with_one_more(mean: Number, reports: Number) -> Number:
    """The mean of signs with one more fair report, whose expectation is 0."""
    return mean * reports / (reports + 1)
