"""Means without the bias of a ratio: corrected to second order, or by the jackknife.

A mean is mass over frequency. Both estimates are unbiased, but their ratio is not. To second order

    E[S / f] = m + (m Var f - Cov(S, f)) / f^2 + ...

``corrected`` removes this bias in the form (S f + Cov) / (f^2 + Var f) (Beale 1962), which is the same
to second order and stays bounded if the frequency is small. ``jackknife`` is n times the ratio minus
n - 1 times its average with one report left out (Quenouille 1956). The average is exact, because reports
with the same output leave the same ratio. Frequencies are unbiased and do not change. Intervals do not
change either: Fieller's interval does not use the value of the ratio.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..foundation.arrays import Floats, Integers
from ..foundation.errors import PlanError
from .answer import Band, KeyBands
from .decoding import moments_of
from .estimator import on_arrays
from .linear import Moments, by_least_squares, key_bands, key_weights, single_keys, view_counts

if TYPE_CHECKING:
    from ..plan.plan import Plan


NOTE = "means are corrected for the ratio's bias; their intervals are the plain ratio's"


@on_arrays("corrected", NOTE)
def corrected(plan: Plan, counts: Integers, level: float) -> KeyBands:
    """Bands with means corrected to second order, from the moments of any mechanism."""
    moments = moments_of(plan, counts)
    return corrected_bands(key_bands(plan, moments, level), moments)


def corrected_bands(raw: KeyBands, moments: Moments) -> KeyBands:
    """Bands with corrected means, from raw bands and the moments that gave them."""
    f, s = moments.values[..., 0], moments.values[..., 1]
    spread = moments.covariance
    with np.errstate(divide="ignore", invalid="ignore"):
        means = (s * f + spread[..., 0, 1]) / (f * f + spread[..., 0, 0])
    return _with_means(raw, means)


@on_arrays("jackknife", NOTE)
def jackknife(plan: Plan, counts: Integers, level: float) -> KeyBands:
    """Bands with jackknifed means, for plans that ask about one key at a time."""
    if not single_keys(plan) or not plan.layout.one_cell:
        raise PlanError(
            "the jackknife is for plans that ask about one key at a time and mark one cell per report"
        )
    raw = key_bands(plan, moments_of(plan, counts), level)
    means = np.full(raw.reports.shape, np.nan)
    for number, channel in enumerate(plan.channels):
        places, key_counts = view_counts(plan, counts, number)
        below, above = by_least_squares(channel, key_weights(plan.schema)).T
        means[..., places] = _left_out(key_counts, above, below)
    if raw.mean is not None:  # without one report, a frequency near zero may be zero
        means = np.where(np.isfinite(raw.mean.low), means, raw.mean.value)
    return _with_means(raw, means)


def _left_out(counts: Floats, above: Floats, below: Floats) -> Floats:
    """The jackknife of a ratio of two sums of weights on cells, over the last axis of ``counts``."""
    n = counts.sum(axis=-1)
    top, bottom = counts @ above, counts @ below
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = top / bottom
        rest = bottom[..., None] - below
        without_report = (top[..., None] - above) / rest
        mean = (np.where(counts > 0, without_report, 0.0) * counts).sum(axis=-1) / n
        jackknifed = n * ratio - (n - 1) * mean
    # No correction if leaving out one report makes the frequency negative.
    return np.where(((rest > 0) | (counts == 0)).all(axis=-1) & (n > 1), jackknifed, ratio)


def _with_means(raw: KeyBands, means: Floats) -> KeyBands:
    """Bands with other means, their intervals widened to contain them."""
    if raw.mean is None:
        raise PlanError("this estimator is for means; the mechanism has none")
    old = raw.mean
    known = np.isfinite(old.value) & np.isfinite(means)
    value = np.where(known, means, old.value)
    low, high = np.fmin(old.low, value), np.fmax(old.high, value)
    return replace(raw, mean=Band(value, old.stderr, low, high))
