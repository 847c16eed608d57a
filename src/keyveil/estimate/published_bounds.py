"""The paper's probabilistic error bounds, corrected (docs/errata.md, 5, 7, 17, 18).

``reports`` is the number of reports for one key, ``miss`` the paper's delta. The bound of a mean is on
the mean after rounding to two levels. It is infinite if there are too few reports for it to hold.
"""

from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import NamedTuple


class Bound(NamedTuple):
    """A bound of the absolute error, and a probability with which it holds."""

    error: float
    probability: float


def _reach(gain: float, reports: float, miss: float) -> float:
    """Hoeffding: bound of the error of a sum of bits times ``gain``, exceeded with chance ``miss``."""
    return gain * sqrt(reports / 2 * log(2 / miss))


def kvue_frequency(epsilon: float, reports: float, miss: float) -> Bound:
    """|f* - f| for KVUE. It depends on one count, the absent people; half the paper's bound."""
    gain = (exp(epsilon) + 2) / (exp(epsilon) - 1)
    return Bound(_reach(gain, reports, miss) / reports, 1 - miss)


def kvue_mean(epsilon: float, frequency: float, reports: float, miss: float) -> Bound:
    """|m* - m| for KVUE. The two counts are dependent, so their chances of a miss add up."""
    gain = (exp(epsilon) + 2) / (exp(epsilon) - 1)
    return Bound(_two_counts(gain, frequency, reports, miss), 1 - 2 * miss)


def kvoh_frequency(epsilon: float, reports: float, miss: float) -> Bound:
    """|f* - f| for KVOH's per-bit estimator: two independent bits."""
    gain = (exp(epsilon / 2) + 1) / (exp(epsilon / 2) - 1)
    return Bound(2 * _reach(gain, reports, miss) / reports, (1 - miss) ** 2)


def kvoh_mean(epsilon: float, frequency: float, reports: float, miss: float) -> Bound:
    """|m* - m| for KVOH's per-bit estimator."""
    gain = (exp(epsilon / 2) + 1) / (exp(epsilon / 2) - 1)
    return Bound(_two_counts(gain, frequency, reports, miss), (1 - miss) ** 2)


def _two_counts(gain: float, frequency: float, reports: float, miss: float) -> float:
    reach = _reach(gain, reports, miss)
    left = frequency * reports - 2 * reach
    return 2 * reach / left if left > 0 else inf


def f2m_frequency(key_epsilon: float, reports: float, miss: float) -> Bound:
    """|f* - f| for F2M: the key's bit, at the key's share of epsilon."""
    gain = (exp(key_epsilon) + 1) / (exp(key_epsilon) - 1)
    return Bound(_reach(gain, reports, miss) / reports, 1 - miss)


def f2m_mean(
    key_epsilon: float,
    value_epsilon: float,
    frequency: float,
    reports: float,
    miss: float,
    *,
    default: float = 1.0,
    mean: float | None = None,
) -> Bound:
    """|m* - m| for F2M with default value v-bar; ``mean`` sharpens the worst case |m - v-bar|.

    m* - v-bar = (m_all* - v-bar) / f*, with m_all off by at most ``a`` and f* by at most ``b``:
    the ratio is off by at most (a + |m - v-bar| b) / (f - b).
    """
    a = (
        _reach((exp(value_epsilon) + 1) / (exp(value_epsilon) - 1), reports, miss) * 2 / reports
    )  # a sum of -1 and +1 moves twice as far as a count
    b = f2m_frequency(key_epsilon, reports, miss).error
    distance = 1 + abs(default) if mean is None else abs(mean - default)
    error = (a + distance * b) / (frequency - b) if frequency > b else inf
    return Bound(error, (1 - miss) ** 2)
