"""Means without the ratio's bias: to second order by the moments, or by leaving out each report in turn.

A mean is mass over frequency, two unbiased estimates; their ratio is not unbiased. To second order

    E[S / f] = m + (m Var f - Cov(S, f)) / f^2 + ...

``corrected`` takes that out in the form (S f + Cov) / (f^2 + Var f) (Beale 1962), which is the same to
second order and cannot run away where the frequency is small. ``jackknife`` needs no formula: n times
the ratio, less n - 1 times its average with one report left out (Quenouille 1956), exactly, since
reports with the same output leave the same ratio. Frequencies are unbiased already and stay as they
are, and so do intervals: Fieller's makes no use of the ratio's own value.
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
    """Means corrected to second order, from the moments of any mechanism."""
    moments = moments_of(plan, counts)
    return corrected_bands(key_bands(plan, moments, level), moments)


def corrected_bands(raw: KeyBands, moments: Moments) -> KeyBands:
    """The corrected form of raw bands, from the moments that they were made of."""
    f, s = moments.values[..., 0], moments.values[..., 1]
    spread = moments.covariance
    with np.errstate(divide="ignore", invalid="ignore"):
        means = (s * f + spread[..., 0, 1]) / (f * f + spread[..., 0, 0])
    return _with_means(raw, means)


@on_arrays("jackknife", NOTE)
def jackknife(plan: Plan, counts: Integers, level: float) -> KeyBands:
    """Means corrected by leaving out each report in turn, for plans that speak of one key at a time."""
    if not single_keys(plan) or not plan.layout.one_cell:
        raise PlanError("the jackknife is for plans that speak of one key at a time, a cell a report")
    raw = key_bands(plan, moments_of(plan, counts), level)
    means = np.full(raw.reports.shape, np.nan)
    for number, channel in enumerate(plan.channels):
        places, held = view_counts(plan, counts, number)
        below, above = by_least_squares(channel, key_weights(plan.schema)).T
        means[..., places] = _left_out(held, above, below)
    if raw.mean is not None:  # a frequency that may be zero can be left out altogether
        means = np.where(np.isfinite(raw.mean.low), means, raw.mean.value)
    return _with_means(raw, means)


def _left_out(counts: Floats, above: Floats, below: Floats) -> Floats:
    """The jackknife of a ratio of two sums of weights on cells, over the last axis of ``counts``."""
    n = counts.sum(axis=-1)
    top, bottom = counts @ above, counts @ below
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = top / bottom
        less = bottom[..., None] - below
        each = (top[..., None] - above) / less
        average = (np.where(counts > 0, each, 0.0) * counts).sum(axis=-1) / n
        made = n * whole - (n - 1) * average
    # Where leaving out one report turns the frequency negative, there is no correction to speak of.
    return np.where(((less > 0) | (counts == 0)).all(axis=-1) & (n > 1), made, whole)


def _with_means(raw: KeyBands, means: Floats) -> KeyBands:
    """Other values for the means; their intervals hold the new values too."""
    if raw.mean is None:
        raise PlanError("this estimator is for means; the mechanism has none")
    old = raw.mean
    known = np.isfinite(old.value) & np.isfinite(means)
    value = np.where(known, means, old.value)
    low, high = np.fmin(old.low, value), np.fmax(old.high, value)
    return replace(raw, mean=Band(value, old.stderr, low, high))
