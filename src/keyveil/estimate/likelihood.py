"""Maximum likelihood by expectation-maximisation, where the tally keeps the exact likelihood.

The log-likelihood is concave in the law of the states. For a law with output law p and counts n_y
the score of state x is ``s_x = sum_y (n_y / n) C[x, y] / p_y``, and no law is better by more than
``n (max_x s_x - 1)``. **Stopping rule**: stop when that bound is at most ``SLACK`` nats, or after
``MOST_STEPS`` steps, or when a law moves by no more than the smallest share it may have: doubles can
tell it no better then. In the last two cases the result says so. Steps are Newton's on the simplex or,
where states are many, EM's with squared extrapolation; either falls back to plain EM wherever it would
lose likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..channel import Channel
from ..foundation.arrays import Floats, Integers
from ..foundation.errors import PlanError
from .answer import KeyBands
from .caution import law_with_one_more
from .estimator import on_arrays
from .linear import Moments, key_bands, key_weights, single_keys, view_counts
from .projection import onto_simplex

if TYPE_CHECKING:
    from ..plan.plan import Plan

SLACK = 1e-3
MOST_STEPS = 20_000
MOST_NEWTON = 64
"""States up to which Newton's steps are taken: each solves a system of so many equations."""
_FLOOR = 1e-12


@dataclass(frozen=True)
class Fit:
    """Laws of the states, one row per row of counts, and how far each may be from the best."""

    laws: Floats
    gap: Floats
    """Nats of log-likelihood that the best law has more, at the most."""
    steps: int

    @property
    def converged(self) -> bool:
        """Whether the stopping rule was met before the steps ran out."""
        return bool((self.gap <= SLACK).all())


def fit(channel: Channel, counts: Floats) -> Fit:
    """The most likely law of the states for each row of counts of a one-cell channel."""
    if not channel.one_cell:
        raise PlanError("the tally does not keep the likelihood of this channel")
    counts = np.atleast_2d(np.asarray(counts, np.float64))
    total = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    laws = _start(channel, shares)
    gap = np.full(len(counts), np.inf)
    steps, left = 0, np.arange(len(counts))
    while steps < MOST_STEPS:
        now, some = laws[left], shares[left]
        once, score = _step(channel, now, some)
        gap[left] = total[left, 0] * np.maximum(score.max(axis=1) - 1.0, 0.0)
        far = gap[left] > SLACK
        if not far.any():
            break
        left, now, some, once, score = left[far], now[far], some[far], once[far], score[far]
        if channel.states <= MOST_NEWTON:
            laws[left] = _better(channel, some, _newton(channel, now, some, score), once)
            steps += 1
        else:
            twice, _ = _step(channel, once, some)
            laws[left] = _better(channel, some, _leap(now, once, twice), twice)
            steps += 2
        left = left[np.abs(laws[left] - now).max(axis=1) > 10 * _FLOOR]
        if not len(left):
            break
    return Fit(laws, gap, steps)


def _start(channel: Channel, shares: Floats) -> Floats:
    """The least-squares law, moved inside the simplex; uniform where that is not to be had."""
    uniform = np.full((len(shares), channel.states), 1.0 / channel.states)
    if channel.states > 1024:
        return uniform
    decoder = channel.decoder(np.eye(channel.states))
    if np.isnan(decoder).any():
        return uniform
    return 0.999 * onto_simplex(shares @ decoder) + 0.001 * uniform


def _step(channel: Channel, laws: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """One step of EM, and the scores before it."""
    seen = channel.mix(laws)
    score = channel.back(np.divide(shares, seen, out=np.zeros_like(shares), where=seen > 0))
    after = np.maximum(laws * score, _FLOOR)
    return after / after.sum(axis=1, keepdims=True), score


def _newton(channel: Channel, laws: Floats, shares: Floats, score: Floats) -> Floats:
    """Newton's step for each row: states that it would take below zero stop there, the others go on."""
    rows, size = channel.expected(), channel.states
    seen = channel.mix(laws)
    bend = np.divide(shares, seen**2, out=np.zeros_like(shares), where=shares > 0)
    system = np.zeros((len(laws), size + 1, size + 1))
    system[:, :size, :size] = np.einsum("xy,ry,zy->rxz", rows, bend, rows, optimize=True)
    system[:, range(size), range(size)] += 1e-12  # a law that the counts leave open
    stopped = (laws <= 10 * _FLOOR) & (score < 1.0)
    after = laws
    for _ in range(size):
        equations = system.copy()
        equations[:, :size, size] = equations[:, size, :size] = 1.0
        wanted = np.concatenate([score, np.zeros((len(laws), 1))], axis=1)
        row, state = np.nonzero(stopped)
        equations[row, state] = 0.0
        equations[row, state, state] = 1.0
        wanted[row, state] = -laws[row, state]
        after = laws + np.linalg.solve(equations, wanted[:, :, None])[:, :size, 0]
        below = (after < 0.0) & ~stopped
        if not below.any():
            break
        stopped |= below
    after = np.maximum(after, _FLOOR)
    return after / after.sum(axis=1, keepdims=True)


def _leap(start: Floats, once: Floats, twice: Floats) -> Floats:
    """Squared extrapolation along two EM steps, kept inside the simplex."""
    first = once - start
    bend = twice - once - first
    size = np.linalg.norm(bend, axis=1, keepdims=True)
    length = np.linalg.norm(first, axis=1, keepdims=True)
    stride = np.maximum(np.divide(length, size, out=np.ones_like(size), where=size > 0), 1.0)
    after = np.maximum(start + 2 * stride * first + stride**2 * bend, _FLOOR)
    return after / after.sum(axis=1, keepdims=True)


def _better(channel: Channel, shares: Floats, bold: Floats, safe: Floats) -> Floats:
    """Row by row the law with the higher likelihood."""
    keep = _log_likelihood(channel, bold, shares) >= _log_likelihood(channel, safe, shares)
    return np.where(keep[:, None], bold, safe)


def _log_likelihood(channel: Channel, laws: Floats, shares: Floats) -> Floats:
    seen = np.maximum(channel.mix(laws), 1e-300)
    return np.asarray((shares * np.log(seen)).sum(axis=1))


def covariance(channel: Channel, law: Floats, weights: Floats) -> Floats:
    """Asymptotic covariance of ``weights`` on the states for one report (inverse information).

    ``law`` may have leading axes; so has the covariance then.
    """
    rows = channel.expected()
    seen = np.maximum(law @ rows, 1e-300)
    information = np.einsum("xy,...y,zy->...xz", rows, 1.0 / seen, rows, optimize=True)
    tangent = np.linalg.svd(np.ones((1, channel.states)))[2][1:].T
    inner = np.linalg.pinv(tangent.T @ information @ tangent)
    side = tangent.T @ weights
    return np.asarray(side.T @ inner @ side)


@on_arrays("likelihood")
def likelihood(plan: Plan, counts: Integers, level: float) -> KeyBands:
    """Frequency and mean by maximum likelihood: within bounds, biased only near them.

    Standard errors are those of the inverse information; near the boundary the estimate moves
    towards the truth, so intervals cover at least as often as they say.
    """
    return key_bands(plan, likely_moments(plan, counts), level)


def likely_moments(plan: Plan, counts: Integers) -> Moments:
    """Frequency and mass of every key at the most likely law, from counts ``(..., cells)``."""
    if not single_keys(plan):
        raise PlanError("maximum likelihood is offered for plans that speak of one key at a time")
    weights = key_weights(plan.schema)
    weights = weights[:, : 1 if np.isnan(weights).any() else 2]
    width = weights.shape[1]
    shape = np.shape(counts)[:-1]
    made = Moments.unknown(shape, len(plan.schema.keys))
    for number, channel in enumerate(plan.channels):
        places, held = view_counts(plan, counts, number)
        rows = held.reshape(-1, channel.cells)
        n = rows.sum(axis=1)
        laws = fit(channel, rows).laws
        likely = law_with_one_more(laws, n[:, None], channel.states)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = covariance(channel, likely, weights) / n[:, None, None]
        values = np.where(n[:, None] > 0, laws @ weights, np.nan)
        lead = (*shape, len(places))
        made.reports[..., places] = n.astype(np.int64).reshape(lead)
        made.values[..., places, :width] = values.reshape(*lead, width)
        made.covariance[..., places, :width, :width] = spread.reshape(*lead, width, width)
    return made
