"""Decoding padding and sampling: one signed key of each person, real or dummy, through a channel.

A person who holds h keys draws each of them with chance 1 / max(h, length). So the share of reports
about a key, times the length, estimates its frequency. It is unbiased if nobody holds more keys than the
length; a person with h > length keys counts as length / h.

The symbols of a position, or the counts of an item (k-RR), give the shares of the two signs of the key.
``least_squares`` also uses that the shares of all positions, dummies included, sum to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...channel import Channel, Symbols, Symmetric
from ...foundation.arrays import WORD, Floats, Integers
from ...foundation.errors import PlanError
from ..answer import Band, KeyBands
from ..estimator import on_arrays
from ..forecast.key_forecast import NODES, REACH, WEIGHTS, Forecast, height
from ..linear import Moments, key_bands

if TYPE_CHECKING:
    from ...people.prior import Prior
    from ...plan.plan import Plan

TURN = np.array([[1.0, 1.0], [-1.0, 1.0]])
"""Frequency and mass from the shares of low and high."""
ENDS = np.linalg.inv(TURN).T
"""Shares of low and high, in rows, from frequency and mass."""


def marks_of(plan: Plan, counts: Integers) -> tuple[Floats, Floats]:
    """Reports ``(...,)``, and counts of each symbol at each position ``(..., positions, symbols)``.

    For k-RR the two items of a key are the symbols of its position: low, then high.
    """
    channel = plan.channels[0]
    if not plan.encoding.dummies(plan.cap):
        raise PlanError("this estimator is for plans that pad and sample")
    counts = np.asarray(counts)
    reports, cells = counts[..., 0].astype(np.float64), counts[..., 1:].astype(np.float64)
    positions = len(plan.schema.keys) + plan.cap
    if isinstance(channel, Symbols) and channel.one_cell:
        cells = cells @ channel.shown
    return reports, cells.reshape(*reports.shape, positions, -1)


# -- shares of the two signs -----------------------------------------------------------------------


def _symbol_shares(channel: Channel, states: Floats) -> Floats:
    """Expected shares of symbols when low and high have these shares, ``(..., positions, 2)``."""
    if isinstance(channel, Symmetric):
        keep, lie = channel.keep / WORD, (WORD - channel.keep) / (channel.states - 1) / WORD
        return np.asarray(lie + (keep - lie) * states)
    assert isinstance(channel, Symbols)
    law = np.array(channel.laws, np.float64) / WORD
    return np.asarray(law[0, 1:] + states @ (law[1:, 1:] - law[0, 1:]))


def _sign_shares(channel: Channel, seen: Floats) -> Floats:
    """Unbiased shares of low and high at each position, from the shares of symbols."""
    if isinstance(channel, Symmetric):
        flat = seen.reshape(*seen.shape[:-2], -1)
        return np.asarray(channel.unmixed_rows(flat).reshape(seen.shape))
    assert isinstance(channel, Symbols)
    back = np.array(channel.laws[0][1:], np.float64) / WORD
    return np.asarray((seen - back) @ channel.undo)


def _spread(channel: Channel, seen: Floats) -> Floats:
    """Covariance of (low, high) of one report at each position, from the shares of symbols."""
    if isinstance(channel, Symmetric):
        gain = (channel.keep - (WORD - channel.keep) / (channel.states - 1)) / WORD
        undo = np.eye(2) / gain
    else:
        assert isinstance(channel, Symbols)
        undo = channel.undo
    decoded = seen @ undo
    square = np.einsum("...s,si,sj->...ij", seen, undo, undo)
    return np.asarray(square - decoded[..., :, None] * decoded[..., None, :])


class _Parts(NamedTuple):
    """Shares of frequency and mass of every position, and their covariance for one report."""

    values: Floats
    covariance: Floats


def _plain(values: Floats, spread: Floats) -> _Parts:
    """Shares of low and high and their covariance, as frequency and mass."""
    return _Parts(values @ TURN.T, TURN @ spread @ TURN.T)


def _summed(parts: _Parts, counts: Floats) -> _Parts:
    """The same after the shares are made to sum to one by an equal correction of all positions.

    ``many`` is the number of positions that each row stands for.
    """
    values, covariance = parts.values.copy(), parts.covariance.copy()
    size = counts.sum()
    inside = np.clip(values[..., 0], 0.0, 1.0)
    # A report has its state at one position only, so two positions have covariance - x y.
    with_sum = covariance[..., 0] - np.clip(values, -1.0, 1.0) * (1.0 - inside)[..., None]
    sum_variance = (with_sum[..., 0] @ counts)[..., None]  # variance of the sum
    values[..., 0] += (1.0 - (values[..., 0] @ counts)[..., None]) / size
    covariance[..., 0, 0] += sum_variance / size**2 - 2 * with_sum[..., 0] / size
    covariance[..., 0, 1] -= with_sum[..., 1] / size
    covariance[..., 1, 0] -= with_sum[..., 1] / size
    return _Parts(values, covariance)


# -- moments ---------------------------------------------------------------------------------------


def padded_moments(plan: Plan, counts: Integers, summed: bool = True) -> Moments:
    """Frequency and mass of every key, from counts ``(..., cells)``."""
    channel, keys, length = plan.channels[0], len(plan.schema.keys), plan.cap
    reports, marks = marks_of(plan, counts)
    n = reports[..., None, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = marks / n
        # One report without a key is added, because a single report has no spread.
        careful = (marks + _symbol_shares(channel, np.zeros(2))) / (n + 1.0)
        parts = _plain(_sign_shares(channel, observed), _spread(channel, careful))
        if summed and isinstance(channel, Symbols):  # k-RR's shares sum to one already
            parts = _summed(parts, np.ones(keys + length))
        values = length * parts.values[..., :keys, :]
        covariance = length**2 * parts.covariance[..., :keys, :, :] / n[..., None]
    key_reports = np.broadcast_to(reports[..., None], values.shape[:-1]).astype(np.int64)
    return Moments(key_reports, values, covariance)


def padded_forecast(plan: Plan, people: float, prior: Prior, summed: bool = True) -> Forecast:
    """The error of ``least_squares``, with the bias from keys beyond the padding length.

    Without ``summed``, the error of ``baseline``.
    """
    channel, length = plan.channels[0], plan.cap
    capped = prior.capped(length)
    states = capped @ ENDS / length
    dummy = max(0.0, 1.0 - float(prior.count @ states.sum(axis=1))) / (2 * length)
    all_states = np.concatenate([states, np.full((1, 2), dummy)])
    counts = np.concatenate([prior.count, [length]])
    parts = _plain(all_states, _spread(channel, _symbol_shares(channel, all_states)))
    if summed and isinstance(channel, Symbols):
        parts = _summed(parts, counts)
    truth = np.stack([prior.frequency, prior.frequency * prior.mean], axis=1)
    return Forecast(capped - truth, length**2 * parts.covariance[:-1] / people)


# -- as published ----------------------------------------------------------------------------------


class Published(Forecast):
    """The error of ``published``, from the moments of ``baseline``.

    A count of one sign that is clipped to zero, or to all holders, is the same as a mean clipped to an
    end of its range, unless the frequency is clipped to 1. Then the counts of both signs are clipped to
    all people, and the mean is their difference.
    """

    def clipped_mean(self, prior: Prior) -> Floats:
        """The mean squared error of each mean, which the estimator clips."""
        c, size = self.covariance, np.sqrt(np.maximum(self.covariance[:, 0, 0], 1e-300))
        middle = prior.frequency + self.bias[:, 0]
        first = np.clip((1.0 - middle) / size, -REACH, REACH)  # above this the frequency is above 1
        half = (REACH - first)[:, None] / 2
        z = first[:, None] + half * (1.0 + NODES)
        f = (middle[:, None] + size[:, None] * z)[..., None]
        mass = (prior.frequency * prior.mean + self.bias[:, 1])[:, None]
        mass = mass + (c[:, 0, 1] / size)[:, None] * z
        rest = np.sqrt(np.maximum(c[:, 1, 1] - (c[:, 0, 1] / size) ** 2, 0.0))
        mass = mass[..., None] + rest[:, None, None] * REACH * NODES
        both = np.clip((f + mass) / 2, 0.0, 1.0) - np.clip((f - mass) / 2, 0.0, 1.0)
        truth = prior.mean[:, None, None]
        more = (both - truth) ** 2 - (np.clip(mass / f, -1.0, 1.0) - truth) ** 2
        inner = more @ (WEIGHTS * REACH * height(REACH * NODES))
        return np.asarray(super().clipped_mean(prior) + (inner * height(z) * half) @ WEIGHTS)


def _published_parameters(channel: Channel) -> tuple[float, float, float]:
    """The paper's a, b and p: the chances to show the key, to fake another, and to keep the sign."""
    if isinstance(channel, Symmetric):
        keep, flip, fake = channel.keep, channel.lie, channel.lie
    else:
        assert isinstance(channel, Symbols)
        if channel.alphabet != 3:
            raise PlanError("the published estimator is for keys that show low, high or nothing")
        (_, fake, _), (_, flip, keep) = channel.laws[0], channel.laws[2]
    return (keep + flip) / WORD, 2 * fake / WORD, keep / (keep + flip)


@on_arrays("published", "as published, clipped counts and frequencies: biased, without intervals")
def published(plan: Plan, counts: Integers, level: float) -> KeyBands:
    """PCKV's frequency, clipped to [1 / n, 1], and mean, from counts clipped to [1, n f / l]."""
    show, fake, keep = _published_parameters(plan.channels[0])
    keys, length = len(plan.schema.keys), plan.cap
    reports, marks = marks_of(plan, counts)
    n = reports[..., None]
    low, high = marks[..., :keys, 0], marks[..., :keys, 1]
    undo = np.linalg.inv(
        np.array(
            [
                [show * keep - fake / 2, show * (1 - keep) - fake / 2],
                [show * (1 - keep) - fake / 2, show * keep - fake / 2],
            ]
        )
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        frequency = length * ((low + high) / n - fake) / (show - fake)
        frequency = np.clip(frequency, 1.0 / n, 1.0)
        most = n * frequency / length
        holders = np.stack([low, high], axis=-1) - n[..., None] * fake / 2
        holders = np.minimum(np.maximum(holders @ undo, 1.0), most[..., None])
        mean = (holders[..., 1] - holders[..., 0]) / most
    key_reports = np.broadcast_to(n, frequency.shape).astype(np.int64)
    return KeyBands(key_reports, _without_interval(frequency), _without_interval(mean))


def _without_interval(value: Floats) -> Band:
    """Values without standard errors and intervals."""
    nothing = np.full(value.shape, np.nan)
    return Band(value, nothing, nothing, nothing)


@on_arrays("baseline")
def baseline(plan: Plan, counts: Integers, level: float) -> KeyBands:
    """PCKV's unbiased counts of every key, and their ratio."""
    return key_bands(plan, padded_moments(plan, counts, summed=False), level)
