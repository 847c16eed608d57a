"""The default estimator: shrunk answers where the tally shows that shrinkage pays, else raw ones.

Whether it pays is decided for each statistic by Stein's unbiased estimate of the squared error (1981),
from the tally alone. For an answer d(x) from a normal estimate x with variance V it is
(d - x)^2 + 2 V d'(x) - V. The slope d' of a posterior mean is its posterior variance divided by V. The
slope of a clipped value is 1 inside the range and 0 outside.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...foundation.arrays import Flags, Floats, Integers
from ..answer import Answers, Band, KeyBands
from ..cap_correction import cap_note
from ..estimator import ArrayEstimator, answers_from, answers_of
from ..linear import Moments, key_bands
from ..ratio_bias import corrected_bands
from ..side import moments_with_side
from .common_law import Posterior
from .shrinkage import LOWEST, clipped_band, learn, shrunk_where

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...plan.tally import Tally

CLEAR = 4.0
"""Standard errors that a frequency lies above zero if the error of its raw mean can be estimated."""
FEWEST_CLEAR = 5
"""Smallest number of clear keys for raw means."""
ALONE = "each key is estimated by itself, within its range, because shrinkage would not reduce the error"
"""The note on answers that are not shrunk."""
FEWEST_REPORTS, WIDEST = 10, 0.5
"""A frequency or a mass is compared from this number of reports on, if its standard error is below this.

Most others are clipped to either end, where the slope of zero makes raw answers look free of error.
"""
SURE = 1.0
"""Standard errors by which raw answers must have less estimated error than shrunk ones to be used."""


def best_bands(
    raw: KeyBands, moments: Moments, level: float | None
) -> tuple[KeyBands, dict[str, Flags]]:
    """Bands from raw ones, and by statistic which answers are shrunk, ``(..., keys)``."""
    posteriors = learn(raw, moments)
    plain = raw if raw.mean is None else corrected_bands(raw, moments)
    pays = {
        name: _pays(name, posterior, getattr(plain, name), moments)
        for name, posterior in posteriors.items()
    }
    return shrunk_where(plain, posteriors, moments, level, pays), pays


def _pays(name: str, posterior: Posterior, plain: Band, moments: Moments) -> Flags:
    """Which answers are shrunk, ``(..., keys)``: all, none, or all but the clear means."""
    learned = np.isfinite(posterior.mean)
    value = clipped_band(plain, LOWEST[name]).value
    seen, variance, clear = _normal_estimate(name, value, moments)
    compared = learned & np.isfinite(value) & clear
    inside = (seen > LOWEST[name]) & (seen < 1.0)
    plain_slope = np.where(inside, variance, 0.0)
    gain = _risk(posterior.mean, seen, np.minimum(posterior.variance, variance), variance)
    gain = np.where(compared, gain - _risk(value, seen, plain_slope, variance), 0.0)
    enough = compared.sum(axis=-1) >= FEWEST_CLEAR
    raw_wins = enough & (gain.sum(axis=-1) > SURE * np.sqrt((gain**2).sum(axis=-1)))
    return np.asarray(learned & ~(raw_wins[..., None] & compared))


def _normal_estimate(name: str, value: Floats, moments: Moments) -> tuple[Floats, Floats, Flags]:
    """The unclipped estimate of a statistic, its variance, and for which keys it is nearly normal."""
    f, s, spread = moments.values[..., 0], moments.values[..., 1], moments.covariance
    if name != "mean":
        place = 0 if name == "frequency" else 1
        seen, variance = moments.values[..., place], spread[..., place, place]
        known = np.isfinite(seen) & (moments.reports >= FEWEST_REPORTS)
        return seen, variance, known & (variance < WIDEST**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = spread[..., 1, 1] - 2 * value * spread[..., 0, 1] + value**2 * spread[..., 0, 0]
        return s / f, np.maximum(variance, 0.0) / f**2, f > CLEAR * np.sqrt(spread[..., 0, 0])


def _risk(value: Floats, seen: Floats, slope: Floats, variance: Floats) -> Floats:
    """Stein's estimate of each squared error; ``slope`` is already multiplied by the variance."""
    with np.errstate(invalid="ignore"):
        return np.asarray((value - seen) ** 2 + 2 * slope - variance)


def _best(plan: Plan, counts: Integers, level: float) -> KeyBands:
    moments = moments_with_side(plan, counts)
    return best_bands(key_bands(plan, moments, level), moments, level)[0]


class Best(ArrayEstimator):
    """The default estimator; its note says which statistics are shrunk."""

    def __call__(self, plan: Plan, tally: Tally, level: float) -> Answers:
        """The answers from one tally, with the raw ones."""
        moments = moments_with_side(plan, tally.counts)
        raw = key_bands(plan, moments, level)
        bands, pays = best_bands(raw, moments, level)
        pairs = zip(answers_from(plan, bands, level), answers_from(plan, raw), strict=True)
        keys = tuple(replace(answer, raw=own) for answer, own in pairs)
        shrunk = " and ".join(name for name, flags in pays.items() if flags.any())
        note = f"shrunk towards what all keys have in common: {shrunk}" if shrunk else ALONE
        notes = "; ".join(part for part in (note, cap_note(plan, moments.caps)) if part)
        return answers_of(plan, keys, self.name, level, notes, moments.caps)


best = Best("best", _best)
