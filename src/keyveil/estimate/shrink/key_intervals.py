"""Intervals of single keys that use what all other keys have in common and cover each key by itself."""

from __future__ import annotations

import numpy as np

from ...foundation.arrays import Flags, Floats
from ..answer import Band
from ..assisted import Mixture, RatioEstimates, assisted_interval, prior_from_others
from ..linear import Moments
from ..side_mean import SideMean
from .noise_line import Noise

WIDEST = {"frequency": 0.5, "mean": 1.0, "mass": 1.0}
"""Scale of the widest law of a prior: half of the range of the statistic."""
_CELLS = 1 << 14
"""Number of (repetition, key) intervals computed at once."""

Ends = tuple[Floats, Floats]
"""Lower and upper ends of intervals, ``(..., keys)``."""


def key_intervals(moments: Moments, values: dict[str, Floats], level: float) -> dict[str, Ends]:
    """Intervals for each statistic of ``values``, which are the answers on [0, 1] or [-1, 1].

    The noise is that of the whole population of keys at the hypothetical value (``noise_line``).
    """
    shape = moments.reports.shape
    keys = shape[-1]
    rows = moments.shaped((-1,))
    side = None if moments.side is None else moments.side.flat()
    answers = {name: part.reshape(-1, keys) for name, part in values.items()}
    count = len(rows.reports)
    ends = {name: (np.empty((count, keys)), np.empty((count, keys))) for name in values}
    step = max(1, _CELLS // keys)
    for first in range(0, count, step):
        part = slice(first, first + step)
        block = Moments(rows.reports[part], rows.values[part], rows.covariance[part])
        own_side = None if side is None else side.rows(part)
        block_ends = _block_intervals(block, {n: v[part] for n, v in answers.items()}, level, own_side)
        for name, (low, high) in block_ends.items():
            ends[name][0][part], ends[name][1][part] = low, high
    return {name: (low.reshape(shape), high.reshape(shape)) for name, (low, high) in ends.items()}


def _block_intervals(
    moments: Moments, values: dict[str, Floats], level: float, side: SideMean | None
) -> dict[str, Ends]:
    f, s = moments.values[..., 0], moments.values[..., 1]
    intervals: dict[str, Ends] = {}
    if "mean" not in values:
        for name, place, low in (("frequency", 0, 0.0), ("mass", 1, -1.0)):
            if name in values:
                estimates, variances = moments.values[..., place], moments.covariance[..., place, place]
                known = (moments.reports > 0) & np.isfinite(estimates)
                intervals[name] = _plain(estimates, variances, known, (low, 1.0), WIDEST[name], level)
        return intervals
    known = (moments.reports > 0) & np.isfinite(f) & np.isfinite(s)
    noise = Noise.of(moments.values, moments.covariance, moments.reports, known)
    noise = noise.through_own(moments.values, known)
    frequency = np.where(known, np.clip(values["frequency"], 0.0, 1.0), 0.5)
    mean = np.where(known & np.isfinite(values["mean"]), values["mean"], 0.0)
    if "frequency" in values:
        intervals["frequency"] = _frequency(f, mean, noise, known, level)
    intervals["mean"] = _mean(f, s, frequency, mean, noise, known, level, side)
    if "mass" in values:
        variances = moments.covariance[..., 1, 1]
        intervals["mass"] = _plain(s, variances, known, (-1.0, 1.0), WIDEST["mass"], level)
    return intervals


def _plain(
    values: Floats,
    variances: Floats,
    known: Flags,
    limits: tuple[float, float],
    widest: float,
    level: float,
) -> Ends:
    """Intervals of values that are no ratios, with their own variances."""
    seen, spread = np.where(known, values, np.nan), np.where(known, variances, 1.0)
    zero, ones = np.zeros_like(spread), np.ones_like(spread)
    prior = prior_from_others(values, spread, known, widest)
    return assisted_interval(RatioEstimates(seen, ones, spread, zero, zero), prior, limits, level)


def _frequency(f: Floats, mean: Floats, noise: Noise, known: Flags, level: float) -> Ends:
    inside = np.clip(np.where(known, f, 0.5), 0.0, 1.0)[..., None]
    variance = noise.entry(0, 0, inside, inside * mean[..., None])[..., 0]
    zero, ones = np.zeros_like(variance), np.ones_like(variance)
    prior = prior_from_others(f, variance, known, WIDEST["frequency"])

    def spread(ratios: Floats) -> tuple[Floats, Floats, Floats]:
        at = noise.entry(0, 0, ratios, ratios * mean[..., None])
        return at, np.zeros_like(at), np.zeros_like(at)

    tested = RatioEstimates(np.where(known, f, np.nan), ones, variance, zero, zero)
    return assisted_interval(tested, prior, (0.0, 1.0), level, spread)


def _mean(
    f: Floats,
    s: Floats,
    frequency: Floats,
    mean: Floats,
    noise: Noise,
    known: Flags,
    level: float,
    side: SideMean | None,
) -> Ends:
    """Intervals of means: mass minus mean times frequency is tested, as in Fieller's intervals.

    The side mean comes from people who tell nothing else, so a prior that uses it is as independent of
    what is tested as one from the other keys.
    """
    at_f = frequency[..., None]

    def entries(means: Floats) -> tuple[Floats, Floats, Floats]:
        places = np.broadcast_to(at_f, means.shape)
        ss, fs, ff = (noise.entry(i, j, places, places * means) for i, j in ((1, 1), (0, 1), (0, 0)))
        return ss, fs, ff

    ss, fs, ff = (part[..., 0] for part in entries(mean[..., None]))
    variance = np.maximum(ss - 2 * mean * fs + mean**2 * ff, 1e-30)
    common = None if side is None else side.of_other_keys(frequency, known)
    prior = prior_from_others(s, variance, known, WIDEST["mean"], frequency, common=common)
    prior = Mixture(np.clip(prior.centre, -1.0, 1.0), prior.scales, prior.weights)
    tested = RatioEstimates(np.where(known, s, np.nan), np.where(known, f, np.nan), ss, fs, ff)
    return assisted_interval(tested, prior, (-1.0, 1.0), level, entries)


def with_intervals(band: Band, ends: Ends, low: float) -> Band:
    """The band with other ends, which contain its value; unknown values keep their own."""
    known = np.isfinite(band.value)
    below, above = np.fmin(ends[0], band.value), np.fmax(ends[1], band.value)
    return Band(
        band.value,
        band.stderr,
        np.where(known, np.where(np.isfinite(below), np.clip(below, low, 1.0), below), band.low),
        np.where(known, np.where(np.isfinite(above), np.clip(above, low, 1.0), above), band.high),
    )
