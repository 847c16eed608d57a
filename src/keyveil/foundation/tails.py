"""Chances of rare counts: tails of binomials and of the statistics that tests are made of.

A binomial tail is its first term times an integral that falls steeply and smoothly:

    Pr[X >= k] = Pr[X = k] * k * integral over y in [0, 1] of (1 - y)^(k - 1) (1 + y p / (1 - p))^(n - k)

which Gauss's rule gives to about twelve digits, for a dozen trials as for a thousand billion. Single
terms are taken by Loader's way (Stirling's error and deviance), which loses no digits either.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import exp, inf, lgamma, log, pi
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Floats

_NODES = 64
_DEPTH = 40.0
"""Nats by which an integrand falls before the rest is below the last digit."""


def log_binomial(count: ArrayLike, trials: ArrayLike, chance: ArrayLike) -> Floats:
    """ln Pr[X = count] for a binomial, element by element; -inf where it is impossible."""
    k, n, p = np.broadcast_arrays(*(np.asarray(a, np.float64) for a in (count, trials, chance)))
    inside = (k > 0) & (k < n) & (p > 0) & (p < 1)
    at, of, by = np.where(inside, k, 1.0), np.where(inside, n, 2.0), np.where(inside, p, 0.5)
    rest = of - at
    log_term = _stirling(of) - _stirling(at) - _stirling(rest)
    log_term -= _deviance(at, of * by) + _deviance(rest, of * (1 - by))
    log_term += 0.5 * np.log(of / (2 * pi * at * rest))
    with np.errstate(divide="ignore", invalid="ignore"):
        none = np.where(n == 0, 0.0, n * np.log1p(-p))
        every = np.where(n == 0, 0.0, n * np.log(p))
    edge = np.where(k == 0, none, np.where(k == n, every, -inf))
    return np.asarray(np.where(inside, log_term, edge))


def above(count: ArrayLike, trials: ArrayLike, chance: ArrayLike) -> Floats:
    """Pr[X >= count] for binomials, element by element."""
    far, tail = shorter_tail(count, trials, chance)
    return np.where(far, tail, 1.0 - tail)


def shorter_tail(count: ArrayLike, trials: ArrayLike, chance: ArrayLike) -> tuple[np.ndarray, Floats]:
    """Whether the count lies above the mean; then Pr[X >= count], and Pr[X < count] otherwise."""
    k, n, p = np.broadcast_arrays(*(np.asarray(a, np.float64) for a in (count, trials, chance)))
    k = np.clip(np.ceil(k), 0.0, n + 1)
    far = k > n * p
    at, by = np.where(far, k, n - k + 1), np.where(far, p, 1 - p)
    return far, np.asarray(np.minimum(np.exp(_log_far(at, n, by)), 1.0))


def below(count: ArrayLike, trials: ArrayLike, chance: ArrayLike) -> Floats:
    """Pr[X <= count] for binomials, element by element."""
    k, n, p = (np.asarray(a, np.float64) for a in (count, trials, chance))
    return above(n - np.floor(k), n, 1.0 - p)


def tail_over_term(count: Floats, trials: Floats, chance: Floats | float) -> Floats:
    """Pr[X >= count] / Pr[X = count] for counts above the mean; an upper bound up to rounding."""
    k, n, p = np.broadcast_arrays(*(np.asarray(a, np.float64) for a in (count, trials, chance)))
    odds = p / (1.0 - p)

    def height(y: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.where(k[..., None] > 1, (k[..., None] - 1) * np.log1p(-y), 0.0)
        return np.asarray(left + (n - k)[..., None] * np.log1p(odds[..., None] * y))

    # Where it has fallen far enough: surely at the root of its parabola, then nearer by halves.
    bend, slope = np.maximum(k - 1, 1e-300), (k - 1) - (n - k) * odds
    low = np.zeros(k.shape)
    high = np.minimum((np.sqrt(slope**2 + 2 * _DEPTH * bend) - slope) / bend, 1.0)
    for _ in range(10):
        middle = (low + high) / 2
        deep = height(middle[..., None])[..., 0] < -_DEPTH
        low, high = np.where(deep, low, middle), np.where(deep, middle, high)
    nodes, weights = _gauss()
    return np.asarray(k * high * (np.exp(height(high[..., None] * nodes)) @ weights))


def _log_far(k: Floats, n: Floats, p: Floats) -> Floats:
    """ln Pr[X >= k] for counts above the mean."""
    usable = (k >= 1) & (k <= n) & (p > 0) & (p < 1)
    at, of, by = np.where(usable, k, 1.0), np.where(usable, n, 1.0), np.where(usable, p, 0.5)
    logs = log_binomial(at, of, by) + np.log(tail_over_term(at, of, by))
    return np.where(usable, logs, -inf)


@cache
def _gauss() -> tuple[Floats, Floats]:
    """Gauss's nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


@cache
def _small_errors() -> Floats:
    """Stirling's error for 0 .. 15."""
    return np.array(
        [0.0] + [lgamma(n + 1) - (n + 0.5) * log(n) + n - log(2 * pi) / 2 for n in range(1, 16)]
    )


def _stirling(n: Floats) -> Floats:
    """ln n! less Stirling's formula."""
    table = _small_errors()[np.minimum(n, 15).astype(np.int64)]
    m = np.maximum(n, 15.0)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / m**2) / m**2) / m**2) / m
    return np.where(n <= 15, table, series)


def _deviance(seen: Floats, expected: Floats) -> Floats:
    """``seen ln(seen / expected) - seen + expected``, without losing digits where they are near."""
    off = (seen - expected) / expected
    return np.asarray(expected * ((1 + off) * np.log1p(off) - off))


# -- statistics of tests -----------------------------------------------------------------------------


def chi_square_above(statistic: float, freedom: float) -> float:
    """Pr[a chi-square with so many degrees of freedom >= statistic]."""
    a, x = freedom / 2, statistic / 2
    if x <= 0 or a <= 0:
        return 1.0
    scale = a * log(x) - x - lgamma(a)
    if x < a + 1:
        term = total = 1.0 / a
        step = a
        while abs(term) > 1e-17 * abs(total):
            step += 1
            term *= x / step
            total += term
        return min(1.0, max(0.0, 1.0 - total * exp(scale)))
    # Lentz's way through the continued fraction of the upper incomplete gamma function.
    tiny = 1e-300
    b = x + 1 - a
    c, d = 1 / tiny, 1 / b
    fraction = d
    for i in range(1, 100_000):
        numerator = -i * (i - a)
        b += 2
        d = 1 / (d * numerator + b or tiny)
        c = b + numerator / c or tiny
        fraction *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return min(1.0, fraction * exp(scale))


def exponential_bound(
    exponent: Callable[[Any], Any], low: float | Floats, high: float | Floats, steps: int
) -> Any:
    """exp of the least value of ``exponent``, but at most 1: Chernoff's bound.

    The exponent is convex in its argument, the tilt. The range from ``low`` to ``high`` loses a third
    in each step. Ends that are arrays are searched entry by entry.
    """
    for _ in range(steps):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        falls = exponent(left) < exponent(right)
        low, high = np.where(falls, low, left), np.where(falls, right, high)
    return np.exp(np.clip(exponent((low + high) / 2), -700.0, 0.0))


def entropy_above(nats: float, cells: int) -> float:
    """A bound on the chance that n independent draws lie so far from their mean law.

    ``nats`` is n times the relative entropy of the drawn shares to the mean law, over ``cells``
    cells. Its moments are at most those of a gamma with shape cells - 1 (Agrawal, "Finite-sample
    concentration of the multinomial in relative entropy", IEEE Trans. Inf. Theory 2020), for any n and
    any law. The draws need not be alike: a sum of independent draws from different laws is, for
    convex statistics, no further out than as many draws from their mean (Hoeffding 1963, Th. 4).
    """
    shape = cells - 1
    if shape < 1:
        return 1.0 if nats <= 0 else 0.0
    if nats <= shape:
        return 1.0
    return exp(shape - nats + shape * log(nats / shape))
