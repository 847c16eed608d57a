"""Maximum likelihood by expectation-maximisation, where the tally keeps the exact likelihood.

The log-likelihood is concave in the law of the states. For a law with output law p and counts n_y
the score of state x is ``s_x = sum_y (n_y / n) C[x, y] / p_y``, and no law is better by more than
``n (max_x s_x - 1)``. **Stopping rule**: stop when that bound is at most ``SLACK`` nats, or after
``MOST_STEPS`` steps, or when a law changes by less than doubles can resolve. In the last two cases
``Fit.converged`` is false. Steps are Newton steps on the simplex. With many states they are EM steps
with squared extrapolation. A step that would lose likelihood is replaced by a plain EM step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..channel import Channel
from ..foundation.arrays import Floats, Integers
from ..foundation.errors import PlanError
from .answer import KeyBands
from .caution import key_law_with_more
from .estimator import on_arrays
from .linear import Moments, key_bands, key_weights, single_keys, view_counts
from .projection import onto_simplex

if TYPE_CHECKING:
    from ..plan.plan import Plan

SLACK = 1e-3
"""Largest gap to the best log-likelihood at which a fit has converged, in nats."""
MOST_STEPS = 20_000
"""Largest number of steps."""
MOST_NEWTON = 64
"""Largest number of states for Newton steps, which solve a system with one equation per state."""
_FLOOR = 1e-12
"""Smallest share of a state in a law."""


@dataclass(frozen=True)
class Fit:
    """Laws of the states, one row per row of counts, and their distances from the best laws."""

    laws: Floats
    gap: Floats
    """Upper bound of the log-likelihood that the best law has more, in nats, ``(rows,)``."""
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
    steps, active = 0, np.arange(len(counts))
    while steps < MOST_STEPS:
        current, observed = laws[active], shares[active]
        em_law, score = _step(channel, current, observed)
        gap[active] = total[active, 0] * np.maximum(score.max(axis=1) - 1.0, 0.0)
        open_rows = gap[active] > SLACK
        if not open_rows.any():
            break
        active, current, observed, em_law, score = (
            active[open_rows],
            current[open_rows],
            observed[open_rows],
            em_law[open_rows],
            score[open_rows],
        )
        if channel.states <= MOST_NEWTON:
            laws[active] = likelier_laws(
                channel, observed, _newton(channel, current, observed, score), em_law
            )
            steps += 1
        else:
            second_em_law, _ = _step(channel, em_law, observed)
            laws[active] = likelier_laws(
                channel, observed, _leap(current, em_law, second_em_law), second_em_law
            )
            steps += 2
        active = active[np.abs(laws[active] - current).max(axis=1) > 10 * _FLOOR]
        if not len(active):
            break
    return Fit(laws, gap, steps)


def _start(channel: Channel, shares: Floats) -> Floats:
    """The least-squares laws, moved inside the simplex; uniform laws if there is no decoder."""
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
    """The laws after a Newton step; states that would fall below zero stop at zero."""
    rows, size = channel.expected(), channel.states
    seen = channel.mix(laws)
    bend = np.divide(shares, seen**2, out=np.zeros_like(shares), where=shares > 0)
    system = np.zeros((len(laws), size + 1, size + 1))
    system[:, :size, :size] = np.einsum("xy,ry,zy->rxz", rows, bend, rows, optimize=True)
    system[:, range(size), range(size)] += 1e-12  # keeps the system regular
    stopped = (laws <= 10 * _FLOOR) & (score < 1.0)
    after = laws
    for _ in range(size):
        equations = system.copy()
        equations[:, :size, size] = equations[:, size, :size] = 1.0
        right_side = np.concatenate([score, np.zeros((len(laws), 1))], axis=1)
        row, state = np.nonzero(stopped)
        equations[row, state] = 0.0
        equations[row, state, state] = 1.0
        right_side[row, state] = -laws[row, state]
        after = laws + np.linalg.solve(equations, right_side[:, :, None])[:, :size, 0]
        below = (after < 0.0) & ~stopped
        if not below.any():
            break
        stopped |= below
    after = np.maximum(after, _FLOOR)
    return after / after.sum(axis=1, keepdims=True)


def _leap(start: Floats, first_step: Floats, second_step: Floats) -> Floats:
    """Squared extrapolation along two EM steps, kept inside the simplex."""
    first = first_step - start
    bend = second_step - first_step - first
    size = np.linalg.norm(bend, axis=1, keepdims=True)
    length = np.linalg.norm(first, axis=1, keepdims=True)
    stride = np.maximum(np.divide(length, size, out=np.ones_like(size), where=size > 0), 1.0)
    after = np.maximum(start + 2 * stride * first + stride**2 * bend, _FLOOR)
    return after / after.sum(axis=1, keepdims=True)


def likelier_laws(channel: Channel, shares: Floats, bold: Floats, safe: Floats) -> Floats:
    """For each row, the law with the higher likelihood."""
    keep = _log_likelihood(channel, bold, shares) >= _log_likelihood(channel, safe, shares)
    return np.where(keep[:, None], bold, safe)


def _log_likelihood(channel: Channel, laws: Floats, shares: Floats) -> Floats:
    seen = np.maximum(channel.mix(laws), 1e-300)
    return np.asarray((shares * np.log(seen)).sum(axis=1))


def covariance(channel: Channel, law: Floats, weights: Floats) -> Floats:
    """Asymptotic covariance of ``weights`` on the states for one report: the inverse information.

    Leading axes of ``law`` become leading axes of the covariance.
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
    """Frequency and mean by maximum likelihood: within their bounds, and biased only near them.

    Standard errors come from the inverse information. Near a bound the estimate moves towards the
    truth, so intervals cover at least at their level.
    """
    return key_bands(plan, likely_moments(plan, counts), level)


def likely_moments(plan: Plan, counts: Integers) -> Moments:
    """Frequency and mass of every key at the most likely law, from counts ``(..., cells)``."""
    if not single_keys(plan):
        raise PlanError("maximum likelihood is for plans that ask about one key at a time")
    weights = key_weights(plan.schema)
    weights = weights[:, : 1 if np.isnan(weights).any() else 2]
    width = weights.shape[1]
    shape = np.shape(counts)[:-1]
    moments = Moments.unknown(shape, len(plan.schema.keys))
    for number, channel in enumerate(plan.channels):
        places, key_counts = view_counts(plan, counts, number)
        rows = key_counts.reshape(-1, channel.cells)
        n = rows.sum(axis=1)
        laws = fit(channel, rows).laws
        likely = key_law_with_more(laws, n[:, None])
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = covariance(channel, likely, weights) / n[:, None, None]
        values = np.where(n[:, None] > 0, laws @ weights, np.nan)
        lead = (*shape, len(places))
        moments.reports[..., places] = n.astype(np.int64).reshape(lead)
        moments.values[..., places, :width] = values.reshape(*lead, width)
        moments.covariance[..., places, :width, :width] = spread.reshape(*lead, width, width)
    return moments
