"""Intervals assisted by a prior that still cover every key at their level, whatever the prior.

A ratio t = N / D is tested by T = N - t D, whose expectation is zero if t is the truth. The usual test
accepts the middle of its law, which gives Fieller's interval. Any other region with the same probability
gives an interval with the same coverage. Here the region for each t is the one that a prior for t makes
least likely to be hit by chance, so intervals are shorter if the prior is right (Pratt 1961; Yu and Hoff
2018, "FAB" intervals). The prior of a key comes from the other keys, so it is independent of T. It is a
mixture of a narrow and of wide normal laws. Far from the other keys the wide laws dominate, and the
interval is close to the plain one (Cortinovis and Caron 2024).

The region is an interval for every prior, because the logarithm of the density of T at t over its
predicted density is concave.
Frequencies are ratios with D = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..foundation.arrays import Flags, Floats
from .side_mean import CommonMean

POINTS = 48
"""Number of values of t that are tested, evenly spaced over the possible range."""
REACH = 6.5
"""Distance from the estimate, in standard errors, within which values of t are tested."""
_SPLITS = 257
"""Number of tabulated ways to split the chance of error between both ends of the region."""
_SMALLEST_SPLIT = 1e-4
"""Smallest part of the chance of error at either end: keeps the region finite."""
_BLOCK = 1 << 16
"""Number of intervals computed at once."""


class Mixture(NamedTuple):
    """A prior for each ratio: normal laws with a common centre, heaviest first.

    ``centre`` has the shape of the ratios; ``scales`` has one more axis, the standard deviations of the
    laws; ``weights`` are their shares. If the centre was estimated from the same reports, ``with_above``
    and ``with_below`` are its covariances with numerator and denominator.
    """

    centre: Floats
    scales: Floats
    weights: Floats
    with_above: Floats | float = 0.0
    with_below: Floats | float = 0.0


class RatioEstimates(NamedTuple):
    """Estimates of numerators and denominators with their covariance, each of one shape."""

    above: Floats
    below: Floats
    var_above: Floats
    covariance: Floats
    var_below: Floats


Spread = Callable[[Floats], tuple[Floats, Floats, Floats]]
"""Variance of N, covariance, and variance of D at ratios ``(..., points)`` that are taken as true."""


@lru_cache(maxsize=8)
def regions(level: float) -> tuple[Floats, Floats]:
    """Lower and upper ends of regions with probability ``level``, from all error below to all above."""
    wrong = 1.0 - level
    ladder = np.linspace(np.log(_SMALLEST_SPLIT), -np.log(_SMALLEST_SPLIT), _SPLITS)
    below = 1.0 / (1.0 + np.exp(-ladder))
    inverse = NormalDist().inv_cdf
    low = np.array([inverse(wrong * share) for share in below])
    high = np.array([inverse(1.0 - wrong * (1.0 - share)) for share in below])
    return low, high


def assisted_interval(
    tested: RatioEstimates,
    prior: Mixture,
    limits: tuple[float, float],
    level: float,
    spread: Spread | None = None,
) -> tuple[Floats, Floats]:
    """Both ends of the interval of each ratio, within ``limits``.

    An interval that contains all of the limits is unbounded: minus and plus infinity. An interval with
    no possible value in it is the nearest limit, half a plain interval wide. ``spread`` gives the
    covariance at a hypothetical ratio; without it the estimated covariance is used. It is called with
    an array of all ratios, so it cannot be used for more than one block.
    """
    shape = np.shape(tested.above)
    if spread is not None or int(np.prod(shape)) <= _BLOCK:
        return _ends(tested, prior, limits, level, spread)
    flat = RatioEstimates(*(np.broadcast_to(part, shape).reshape(-1) for part in tested))
    centre, with_above, with_below = (
        np.broadcast_to(part, shape).reshape(-1)
        for part in (prior.centre, prior.with_above, prior.with_below)
    )
    scales = np.broadcast_to(prior.scales, (*shape, prior.scales.shape[-1]))
    scales = scales.reshape(-1, prior.scales.shape[-1])
    low, high = np.empty(len(centre)), np.empty(len(centre))
    for first in range(0, len(centre), _BLOCK):
        rows = slice(first, first + _BLOCK)
        low[rows], high[rows] = _ends(
            RatioEstimates(*(part[rows] for part in flat)),
            Mixture(centre[rows], scales[rows], prior.weights, with_above[rows], with_below[rows]),
            limits,
            level,
            None,
        )
    return low.reshape(shape), high.reshape(shape)


def _ends(
    tested: RatioEstimates,
    prior: Mixture,
    limits: tuple[float, float],
    level: float,
    spread: Spread | None,
) -> tuple[Floats, Floats]:
    unknown = ~np.isfinite(sum(tested))
    tested = RatioEstimates(
        *(
            np.where(unknown, fill, part)
            for part, fill in zip(tested, (0.0, 1.0, 1.0, 0.0, 0.0), strict=True)
        )
    )
    ratios = _tested_ratios(tested, limits)
    margin = _margin(tested, prior, ratios, level, spread)
    accepted = margin >= 0
    any_accepted = accepted.any(axis=-1)
    first = accepted.argmax(axis=-1)
    last = POINTS - 1 - accepted[..., ::-1].argmax(axis=-1)
    low = _crossing(ratios, margin, first, first - 1)
    high = _crossing(ratios, margin, last, last + 1)
    everything = (
        any_accepted
        & (first == 0)
        & (last == POINTS - 1)
        & (ratios[..., 0] <= limits[0])
        & (ratios[..., -1] >= limits[1])
    )
    low, high = np.where(everything, -np.inf, low), np.where(everything, np.inf, high)
    outside_low, outside_high = _outside(tested, limits, level)
    low, high = np.where(any_accepted, low, outside_low), np.where(any_accepted, high, outside_high)
    return np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)


def _tested_ratios(tested: RatioEstimates, limits: tuple[float, float]) -> Floats:
    """The ratios that are tested: near the estimate if it is precise, else all that are possible."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = tested.above / tested.below
        variance = tested.var_above - 2 * value * tested.covariance + value**2 * tested.var_below
        stderr = np.sqrt(np.maximum(variance, 0.0)) / tested.below
        # The denominator may be smaller than estimated, which widens the upper end most.
        doubt = np.sqrt(np.maximum(tested.var_below, 0.0)) / tested.below
        reach = REACH * stderr / np.maximum(1.0 - REACH * doubt, 0.0)
        clear = np.isfinite(reach) & (tested.below > 0)
        low = np.clip(np.where(clear, value - reach, limits[0]), *limits)
        high = np.clip(np.where(clear, value + reach, limits[1]), *limits)
    low, high = np.nan_to_num(low, nan=limits[0]), np.nan_to_num(high, nan=limits[1])
    return np.asarray(low[..., None] + (high - low)[..., None] * np.linspace(0.0, 1.0, POINTS))


def _margin(
    tested: RatioEstimates, prior: Mixture, ratios: Floats, level: float, spread: Spread | None
) -> Floats:
    """Distance of T from the nearer end of the region for each ratio; below zero it is rejected."""
    if spread is None:
        va, cov, vb = (part[..., None] for part in tested[2:])
    else:
        va, cov, vb = spread(ratios)
    above, below = tested.above[..., None], tested.below[..., None]
    variance = np.maximum(va - 2 * ratios * cov + ratios**2 * vb, 1e-30)
    scale = np.sqrt(variance)
    score = (above - ratios * below) / scale
    # Denominator and centre without their parts that depend on T, so that the region does not, either.
    with_t = cov - ratios * vb
    free = np.maximum(below - with_t / scale * score, 0.0)
    with_above, with_below = (np.asarray(p)[..., None] for p in (prior.with_above, prior.with_below))
    centre = prior.centre[..., None] - (with_above - ratios * with_below) / scale * score
    shift = free * (centre - ratios) / scale
    widths = [
        1.0 + (free * prior.scales[..., number, None] / scale) ** 2
        for number in range(prior.scales.shape[-1])
    ]
    low, high = regions(level)
    split = _split(shift, widths, prior.weights, low, high)
    return np.minimum(score - _at(low, split), _at(high, split) - score)


def _split(shift: Floats, widths: list[Floats], weights: Floats, low: Floats, high: Floats) -> Floats:
    """Where in the table of regions both ends are equally likely relative to the prediction."""

    def excess(place: np.ndarray) -> Floats:
        return _relative(low[place], shift, widths, weights) - _relative(
            high[place], shift, widths, weights
        )

    at_most, at_least = np.zeros(shift.shape, np.intp), np.full(shift.shape, _SPLITS - 1, np.intp)
    for _ in range((_SPLITS - 1).bit_length() - 1):
        middle = (at_most + at_least) // 2
        negative = excess(middle) < 0
        at_most = np.where(negative, middle, at_most)
        at_least = np.where(negative, at_least, middle)
    below, above = excess(at_most), excess(at_least)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(above > below, -below / (above - below), 0.5)
    return np.asarray(at_most + (at_least - at_most) * np.clip(part, 0.0, 1.0))


def _relative(z: Floats, shift: Floats, widths: list[Floats], weights: Floats) -> Floats:
    """Logarithm of the density of a standard normal law over the predicted density, up to a constant."""
    square = (z - shift) ** 2
    predicted = sum(
        (weight / np.sqrt(width)) * np.exp(-square / (2 * width))
        for weight, width in zip(weights, widths, strict=True)
    )
    return np.asarray(-z * z / 2 - np.log(np.asarray(predicted) + 1e-300))


def _at(table: Floats, place: Floats) -> Floats:
    """The table at fractional places."""
    below = np.minimum(place.astype(np.intp), len(table) - 2)
    return np.asarray(table[below] + (place - below) * (table[below + 1] - table[below]))


def _crossing(ratios: Floats, margin: Floats, inside: np.ndarray, outside: np.ndarray) -> Floats:
    """The ratio between an accepted and a rejected one at which the margin is zero."""
    beyond = np.clip(outside, 0, POINTS - 1)
    places = (inside[..., None], beyond[..., None])
    (t_in, t_out), (m_in, m_out) = (
        [np.take_along_axis(part, place, axis=-1)[..., 0] for place in places]
        for part in (ratios, margin)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(beyond == outside, m_in / (m_in - m_out), 0.0)
    return np.asarray(t_in + np.clip(part, 0.0, 1.0) * (t_out - t_in))


def _outside(tested: RatioEstimates, limits: tuple[float, float], level: float) -> tuple[Floats, Floats]:
    """The nearest limit, with half a plain interval from it, for estimates far outside the limits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = tested.above / tested.below
        variance = tested.var_above - 2 * value * tested.covariance + value**2 * tested.var_below
        reach = NormalDist().inv_cdf(0.5 + level / 2) * np.sqrt(np.maximum(variance, 0.0)) / tested.below
    reach = np.nan_to_num(np.abs(reach), nan=np.inf)
    end = np.clip(np.nan_to_num(value), *limits)
    return np.maximum(end - reach, limits[0]), np.minimum(end + reach, limits[1])


# -- priors from the other ratios ------------------------------------------------------------------

WEIGHTS = np.array([0.8, 0.15, 0.05])
"""Shares of the narrow, the wider and the widest law of a prior."""
WIDER = 3.0
"""Scale of the wider law, relative to the narrow one."""


def prior_from_others(
    values: Floats,
    variances: Floats,
    known: Flags,
    widest: float,
    loading: Floats | float = 1.0,
    around_zero: float = np.inf,
    common: CommonMean | None = None,
) -> Mixture:
    """The prior of each ratio from all others along the last axis.

    ``values`` are estimates of ``loading`` times the ratio, with these variances. The spread of the
    ratios is the moment estimate of DerSimonian and Laird (1986), without the ratio itself, plus the
    variance of the centre. ``widest`` is the scale of the widest law. ``around_zero`` is the standard
    deviation of the centre around zero, if it is known to be small. ``common`` is an observation of the
    centre from other people, combined by precision.
    """
    x, load, v = _counted(values, variances, known, loading)
    weight = _weights(x, load, v, known)
    total = np.maximum(_without(weight * load**2), 1e-100)
    centre = _without(weight * load * x) / total
    across = _spread(x, load, v, _without)
    noise = _without(weight**2 * load**2 * v) + across * _without(weight**2 * load**4)
    centre_noise = noise / total / total
    shrinkage = 1.0 / (1.0 + centre_noise / around_zero**2)
    centre, centre_noise = centre * shrinkage, centre_noise * shrinkage
    few = _without(_counts(load)) < 1.5  # one other ratio shows no spread
    centre = np.where(few, 0.0, centre)
    if common is not None:
        share = centre_noise / (centre_noise + common.spread(across))
        share = np.where(few, np.isfinite(common.variance), share)
        centre, centre_noise = centre + share * (common.value - centre), (1.0 - share) * centre_noise
    scale = np.sqrt(across + centre_noise)
    scale = np.where(few, widest, np.minimum(scale, widest))
    scales = [scale, np.minimum(WIDER * scale, widest), np.full_like(scale, widest)]
    return Mixture(centre, np.stack(scales, axis=-1), WEIGHTS)


def slopes_of_centre(
    values: Floats, variances: Floats, known: Flags, loading: Floats, around_zero: float = np.inf
) -> tuple[Floats, Floats]:
    """How the centres of ``prior_from_others`` depend on the values.

    The slope of the centre of ratio i in the value of ratio j is the first array at j times the second
    array at i.
    """
    x, load, v = _counted(values, variances, known, loading)
    weight = _weights(x, load, v, known)
    total = np.maximum(_without(weight * load**2), 1e-100)
    across = _spread(x, load, v, _without)
    noise = _without(weight**2 * load**2 * v) + across * _without(weight**2 * load**4)
    return weight * load, 1.0 / total / (1.0 + noise / total / total / around_zero**2)


def _counted(
    values: Floats, variances: Floats, known: Flags, loading: Floats | float
) -> tuple[Floats, Floats, Floats]:
    """Values, loadings and variances, with neutral ones for what is not known."""
    loading = np.broadcast_to(np.asarray(loading, np.float64), np.shape(values))
    x, load = np.where(known, values, 0.0), np.where(known, loading, 0.0)
    return x, load, np.where(known, variances, 1.0)


def _weights(x: Floats, load: Floats, v: Floats, known: Flags) -> Floats:
    """Precision of each value.

    It uses the spread of all ratios, rounded so far that no single one changes it noticeably.
    """
    return np.asarray(known / (v + load**2 * _rounded(_spread(x, load, v, _total))))


def _total(values: Floats) -> Floats:
    """The sum of all along the last axis, which is kept."""
    return np.asarray(values.sum(axis=-1, keepdims=True))


def _without(values: Floats) -> Floats:
    """The sum of all others along the last axis."""
    return np.asarray(_total(values) - values)


def _rounded(variance: Floats) -> Floats:
    """The nearest power of four; zero stays zero."""
    power = np.round(np.log2(np.maximum(variance, 1e-300)) / 2)
    return np.where(variance > 0, 4.0**power, 0.0)


def _counts(load: Floats) -> Floats:
    """1 for ratios that count; one with a loading of zero says nothing."""
    return (load != 0).astype(np.float64)


def _spread(x: Floats, load: Floats, v: Floats, summed: Callable[[Floats], Floats]) -> Floats:
    """Variance of the ratios that ``summed`` adds up, by moments."""
    counted = _counts(load)
    weight = counted / v
    parts = (weight * load**2, weight * load * x, weight * x**2, weight**2 * load**4, counted)
    total, product, squares, quartic, number = map(summed, parts)
    with np.errstate(divide="ignore", invalid="ignore"):
        residual = squares - product**2 / np.maximum(total, 1e-300)
        across = (residual - (number - 1.0)) / (total - quartic / np.maximum(total, 1e-300))
    across = np.where(number > 1.5, across, 0.0)  # of one ratio it is a quotient of rounding errors
    return np.nan_to_num(np.maximum(across, 0.0), nan=0.0, posinf=0.0)
