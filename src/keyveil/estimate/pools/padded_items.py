"""Decoding padding and sampling: one signed key of each person, real or dummy, through a channel.

A person who holds h keys draws each of them with probability 1 / max(h, length). So the share of reports
about a key, times the length, counts every holder with at most ``length`` keys once, and a holder with
more keys length / h times.

The symbols of a position, or the counts of an item under k-RR, give the shares of the key's two signs.
``least_squares`` also uses that the shares of all positions, dummies included, sum to one.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...channel import Channel
from ...foundation.arrays import Floats, Integers
from ...foundation.errors import PlanError
from ..answer import Band, KeyBands
from ..caution import with_one_more
from ..estimator import on_arrays
from ..forecast.normal_law import NODES, REACH, WEIGHTS, density
from ..forecast.predicted_error import Forecast
from ..linear import Moments, key_bands

if TYPE_CHECKING:
    from ...people.prior import Prior
    from ...plan.plan import Plan

TURN = np.array([[1.0, 1.0], [-1.0, 1.0]])
"""Frequency and mass from the shares of low and high."""
ENDS = np.linalg.inv(TURN).T
"""Shares of low and high, in rows, from frequency and mass."""


def marks_of(plan: Plan, counts: Integers) -> tuple[Floats, Floats]:
    """Reports ``(...,)``, and counts of the symbols of each position, ``(..., positions, symbols)``.

    For k-RR an item is a symbol of its key's position: low, then high.
    """
    counts = np.asarray(counts)
    reports, cells = counts[..., 0].astype(np.float64), counts[..., 1:].astype(np.float64)
    marks = plan.channels[0].group_counts(cells, 2) if plan.encoding.dummies(plan.cap) else None
    if marks is None:
        raise PlanError("this estimator is for plans that pad and sample")
    return reports, marks


# -- shares of the two signs -----------------------------------------------------------------------


def _seen(channel: Channel, states: Floats) -> Floats:
    """The law of the symbols of positions whose low and high have these shares, ``(..., 2)``."""
    law = channel.group_law(2)[:, 1:]
    return np.asarray(law[0] + states @ (law[1:] - law[0]))


def _spread(channel: Channel, seen: Floats) -> Floats:
    """Covariance of one report's (low, high), from the law of the symbols."""
    undo = channel.group_decoder(2)
    decoded = seen @ undo
    square = np.einsum("...s,si,sj->...ij", seen, undo, undo)
    return np.asarray(square - decoded[..., :, None] * decoded[..., None, :])


class _Parts(NamedTuple):
    """Shares of frequency and mass of every position, and their covariance for one report."""

    values: Floats
    covariance: Floats


def _plain(values: Floats, spread: Floats) -> _Parts:
    return _Parts(values @ TURN.T, TURN @ spread @ TURN.T)


def _summed(parts: _Parts, many: Floats) -> _Parts:
    """The same after the shares are moved by equal parts, so that they sum to one.

    ``many`` is the number of positions that each row stands for.
    """
    values, covariance = parts.values.copy(), parts.covariance.copy()
    size = many.sum()
    of_one = np.clip(values[..., 0], 0.0, 1.0)
    # Two positions share a report only by the state, which is at one of them: covariance - x y.
    shared = covariance[..., 0] - np.clip(values, -1.0, 1.0) * (1.0 - of_one)[..., None]
    whole = (shared[..., 0] @ many)[..., None]  # the variance of the sum
    values[..., 0] += (1.0 - (values[..., 0] @ many)[..., None]) / size
    covariance[..., 0, 0] += whole / size**2 - 2 * shared[..., 0] / size
    covariance[..., 0, 1] -= shared[..., 1] / size
    covariance[..., 1, 0] -= shared[..., 1] / size
    return _Parts(values, covariance)


# -- moments ---------------------------------------------------------------------------------------


def padded_moments(plan: Plan, counts: Integers, summed: bool = True) -> Moments:
    """Frequency and mass of every key, from counts ``(..., cells)``."""
    channel, keys, length = plan.channels[0], len(plan.schema.keys), plan.cap
    reports, marks = marks_of(plan, counts)
    n = reports[..., None, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        seen = marks / n
        careful = with_one_more(marks, _seen(channel, np.zeros(2)), n)  # a report without a key
        parts = _plain(channel.group_shares(seen), _spread(channel, careful))
        if summed and not channel.names_states:  # k-RR's shares sum to one already
            parts = _summed(parts, np.ones(keys + length))
        values = length * parts.values[..., :keys, :]
        covariance = length**2 * parts.covariance[..., :keys, :, :] / n[..., None]
    key_reports = np.broadcast_to(reports[..., None], values.shape[:-1]).astype(np.int64)
    return Moments(key_reports, values, covariance)


def padded_forecast(plan: Plan, people: float, prior: Prior, summed: bool = True) -> Forecast:
    """The error of ``least_squares`` at a prior, with the bias of keys that padding leaves out.

    Without ``summed`` it is the error of ``baseline``.
    """
    channel, length = plan.channels[0], plan.cap
    kept = prior.capped(length)
    states = kept @ ENDS / length
    dummy = max(0.0, 1.0 - float(prior.count @ states.sum(axis=1))) / (2 * length)
    every = np.concatenate([states, np.full((1, 2), dummy)])
    many = np.concatenate([prior.count, [length]])
    parts = _plain(every, _spread(channel, _seen(channel, every)))
    if summed and not channel.names_states:
        parts = _summed(parts, many)
    truth = np.stack([prior.frequency, prior.frequency * prior.mean], axis=1)
    return Forecast(prior, kept - truth, length**2 * parts.covariance[:-1] / people)


# -- as published ----------------------------------------------------------------------------------


class Published(Forecast):
    """The error of ``published``, from the moments of ``baseline``.

    Clipping the count of one sign to zero, or to all holders, clips the mean to an end of its range, and
    has no other effect unless the frequency is clipped to 1. Then the counts of both signs are clipped
    to the number of people, and the mean is their difference.
    """

    @cached_property
    def clipped_mean(self) -> Floats:
        """The mean squared error of each mean, which the estimator itself clips."""
        truth = self.truth
        c, size = self.covariance, np.sqrt(np.maximum(self.covariance[:, 0, 0], 1e-300))
        middle = truth.frequency + self.bias[:, 0]
        first = np.clip((1.0 - middle) / size, -REACH, REACH)  # from here on the frequency is above 1
        half = (REACH - first)[:, None] / 2
        z = first[:, None] + half * (1.0 + NODES)
        f = (middle[:, None] + size[:, None] * z)[..., None]
        mass = (truth.frequency * truth.mean + self.bias[:, 1])[:, None]
        mass = mass + (c[:, 0, 1] / size)[:, None] * z
        rest = np.sqrt(np.maximum(c[:, 1, 1] - (c[:, 0, 1] / size) ** 2, 0.0))
        mass = mass[..., None] + rest[:, None, None] * REACH * NODES
        both = np.clip((f + mass) / 2, 0.0, 1.0) - np.clip((f - mass) / 2, 0.0, 1.0)
        mean = truth.mean[:, None, None]
        more = (both - mean) ** 2 - (np.clip(mass / f, -1.0, 1.0) - mean) ** 2
        inner = more @ (WEIGHTS * REACH * density(REACH * NODES))
        return np.asarray(self.clipped_ratio() + (inner * density(z) * half) @ WEIGHTS)


def _letters(channel: Channel) -> tuple[float, float, float]:
    """The paper's a, b and p: show the key, fake another, keep the sign."""
    law = channel.group_law(2)
    if law.shape != (3, 3):
        raise PlanError("the published estimator is for keys that show low, high or nothing")
    fake, (flip, keep) = law[0, 1], law[2, 1:]
    limits = channel.limits(np.zeros(channel.cells)) if channel.names_states else None
    if limits is not None:  # the stated probability of a lie, without the words that are left over
        fake = flip = float(limits.least[0])
    return keep + flip, 2 * fake, keep / (keep + flip)


@on_arrays("published", "as published, clipped counts and frequencies: biased, without intervals")
def published(plan: Plan, counts: Integers, level: float) -> KeyBands:
    """PCKV's frequency, clipped to [1 / n, 1], and improved mean, of counts clipped to [1, n f / l]."""
    show, fake, keep = _letters(plan.channels[0])
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
    return KeyBands(key_reports, _unclaimed(frequency), _unclaimed(mean))


def _unclaimed(value: Floats) -> Band:
    """Values without standard error and interval."""
    nothing = np.full(value.shape, np.nan)
    return Band(value, nothing, nothing, nothing)


@on_arrays("baseline")
def baseline(plan: Plan, counts: Integers, level: float) -> KeyBands:
    """PCKV's unbiased counts of every key by itself, and their ratio."""
    return key_bands(plan, padded_moments(plan, counts, summed=False), level)
