"""Decoding hash pools: how often the two cells of each key are reported, less the pool's collisions.

Under a seed every key has a low and a high cell: with ``collision`` the cells of its two items, with
``coco`` two mirrored ones. The share of reports that name either, less what chance gives, divided by
what a holder adds, is the key's frequency; their difference is its mass. Both are unbiased over all
hashes. Over the fixed seeds of a pool, items collide more or less often than by chance, which
``collision_matrix`` undoes for the most important items, the core.

What that leaves (``pool_error``) is a fixed error that falls with the pool and not with reports. It
counts in every covariance and forecast. With millions of reports it matters, and a larger pool pays.
The effect of items outside the core is estimated from the tally (two reports with one seed agree more
often than 1/t) and added to the variance.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...channel.shapes.collision_channel import Collision
from ...channel.shapes.seed_pool import SeedPool, pool_of
from ...foundation.arrays import Floats, Integers
from ...foundation.errors import PlanError
from ..caution import with_one_more
from ..forecast.predicted_error import Forecast, StatedTruth
from ..linear import Moments
from .collision_matrix import (
    core_share,
    core_size,
    other_cells,
    undoing,
)
from .named_keys import named_cells
from .padded_items import ENDS, TURN
from .pool_error import MOST_KEYS, pair_variance, paired, pool_error, second_order, undo_collisions

if TYPE_CHECKING:
    from ...people.prior import Prior
    from ...plan.plan import Plan

LITTLE = 0.02
"""The share of the variance up to which the error of a pool is taken from its closed form."""

# -- of a tally ------------------------------------------------------------------------------------


def pool_moments(plan: Plan, counts: Integers) -> Moments:
    """Frequency and mass of every key, of ``cap`` keys a person at the most, from ``(..., cells)``."""
    if not plan.encoding.speaks_of_sets:
        raise PlanError("this estimator is for plans that speak of sets of items")
    channel, keys = pool_of(plan.channels[0]), len(plan.schema.keys)
    rows = np.asarray(counts).reshape(-1, plan.layout.cells)
    named, same, meetings = named_cells(channel, keys, rows)
    n = rows[:, 0].astype(np.float64)
    values, spread = _raw(channel, named, same, meetings, n)
    both = np.arange(2)
    for number, row in enumerate(rows):
        if not n[number]:
            continue
        values[number], spread[number], undone = _corrected(
            channel, keys, row, values[number], spread[number]
        )
        if plan.encoding.item_width > 1:
            continue
        if undone:
            more = pair_variance(channel, row, values[number], spread[number])
            spread[number][:, both, both] += more
        else:
            square = np.maximum(values[number] ** 2 - spread[number][:, both, both], 0.0)
            spread[number] += second_order(channel, square, np.ones(keys))
    shape = np.shape(counts)[:-1]
    reports = np.broadcast_to(rows[:, :1], (len(rows), keys))
    return Moments(
        reports.reshape(*shape, keys).astype(np.int64),
        values.reshape(*shape, keys, 2),
        spread.reshape(*shape, keys, 2, 2),
    )


def _raw(
    channel: SeedPool, named: Floats, same: Floats, meetings: Floats, reports: Floats
) -> tuple[Floats, Floats]:
    """Scores of frequency and mass, and their covariance, from how often low and high are named."""
    part, gains = 1.0 / channel.small, np.array(channel.gains)
    n = reports[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        values = ((named / n[..., None] - part) @ TURN.T) / gains
        shares = with_one_more(named, part, n[..., None])
        meet = with_one_more(same, meetings / channel.cells, n)
        spread = _of_shares(shares, meet, gains) / n[..., None, None]
    return values, spread


def _of_shares(named: Floats, same: Floats, gains: Floats) -> Floats:
    """One report's covariance of frequency and mass, from the shares of low and high, and of both."""
    low, high = named[..., 0], named[..., 1]
    both, apart = low + high, high - low
    covariance = np.empty((*named.shape, 2))
    covariance[..., 0, 0] = both + 2 * same - both**2
    covariance[..., 1, 1] = both - 2 * same - apart**2
    covariance[..., 0, 1] = covariance[..., 1, 0] = apart - both * apart
    return covariance / (gains[:, None] * gains[None, :])


def _corrected(
    channel: SeedPool, keys: int, row: Integers, values: Floats, spread: Floats
) -> tuple[Floats, Floats, bool]:
    """Values and covariance of one tally without the core's collisions, and whether any were undone.

    The covariance includes what items outside the core do.
    """

    @cache
    def energies() -> tuple[float, float]:
        return channel.energies(row[1:].astype(np.float64).reshape(channel.pool, channel.small))

    n = float(row[0])
    core = core_size(channel, keys, lambda: n * channel.gains[0] ** 2 * energies()[0])
    inside = 0.0
    if core:
        undo, more = undoing(channel, core)
        noise = np.sqrt(np.outer(channel.noise, channel.noise))
        values, inside = _solved(channel, undo, row, values)
        spread = spread + more[:keys] * noise / n
    if core < channel.items:
        of_frequency, of_mass = energies()
        left = channel.pool_variance(max(0.0, of_frequency - inside), max(0.0, of_mass))
        spread = spread + np.diag(left)
    return values, spread, bool(core)


def _solved(channel: SeedPool, undo: Floats, row: Integers, values: Floats) -> tuple[Floats, float]:
    """Keys' frequencies and masses without collisions, and the energy of the items solved for.

    The energy is not needed, and 0, where ``undo`` is about keys: then all of them are solved for.
    """
    keys, core, n = len(values), undo.shape[-1], float(row[0])
    if undo.ndim == 3:
        return undo_collisions(channel, values), 0.0
    scores = (values @ ENDS).reshape(-1)
    if core > 2 * keys:
        named = row[1:][other_cells(channel, 2 * keys, core)].sum(axis=0)
        scores = np.concatenate([scores, (named / n - 1.0 / channel.small) / channel.gains[0]])
    items = undo @ scores
    energy = float((items**2).sum() - np.trace(undo) * channel.noise[0] / n)
    return items[: 2 * keys].reshape(-1, 2) @ TURN.T, energy


# -- before anyone has answered --------------------------------------------------------------------


class _Core(NamedTuple):
    """The expected noise of undoing the core's collisions, and the variance that remains."""

    share: float
    """The part of noise that undoing them adds, of the whole; 0 without a core."""
    left: Floats
    """The variances of frequency and mass that items outside the core leave."""


def pool_forecast(plan: Plan, people: float, prior: Prior) -> Forecast:
    """The error of ``least_squares``, with the bias of a cap and the error of the pool."""
    if not plan.encoding.speaks_of_sets:
        raise PlanError("this forecast is for plans that speak of sets of items")
    channel, keys = pool_of(plan.channels[0]), len(plan.schema.keys)
    kept, gains = prior.capped(plan.cap), np.array(channel.gains)
    core = _forecast_core(channel, plan, people, prior)
    spread = _of_shares(*channel.named_shares(kept), gains) / people
    spread += np.diag(channel.key_noise * core.share / (1 - core.share) / people)
    bias = kept - np.stack([prior.frequency, prior.frequency * prior.mean], axis=1)
    left = np.broadcast_to(np.diag(core.left), spread.shape)
    if plan.encoding.item_width > 1:
        return Forecast(prior, bias, spread + left)
    claimed = left + second_order(channel, kept**2, prior.count)
    # Two keys are held together at most as often as the root of f_i f_j says.
    most = left + second_order(channel, kept[:, :1].repeat(2, axis=1), prior.count)
    if prior.sample is None or most.sum() <= LITTLE * spread.sum():
        return Forecast(prior, bias, spread + claimed)
    known = pool_error(channel, keys, prior.sample, bool(core.share))
    fixed, variance = known or (np.zeros((keys, 2)), claimed)
    if core.share and keys <= MOST_KEYS:
        claimed = paired(channel, keys, prior.sample)  # the estimator learns its size over seeds
    return Forecast(prior, bias + fixed, spread + variance, claimed=spread + claimed, fixed=fixed)


def _forecast_core(channel: SeedPool, plan: Plan, people: float, prior: Prior) -> _Core:
    """The core that the decoder would choose if counts were as the prior says."""
    keys, kept = len(plan.schema.keys), prior.capped(plan.cap)
    key_energy = channel.key_energy(kept**2)
    inside = energy = float(prior.count @ key_energy)
    if plan.encoding.item_width > 1:  # pairs as if keys were independent
        energy += (inside**2 - float(prior.count @ key_energy**2)) / 2
    core = core_size(channel, keys, people * channel.gains[0] ** 2 * energy)
    share = core_share(channel, dict(channel.cores(keys))[core]) if core else 0.0
    if core >= channel.items:
        return _Core(share, np.zeros(2))
    of_mass = float(prior.count @ kept[:, 1] ** 2)
    outside = max(0.0, energy - (inside if core else 0.0))
    return _Core(share, channel.pool_variance(outside, of_mass))


def forecast_pool_key(
    channel: Collision, people: float, frequency: float, mean: float, energy: float = 0.0
) -> Forecast:
    """The forecast of one key with a stated frequency and mean, without a row axis.

    ``energy`` is the sum of squared frequencies of items that decoding does not correct for. A pair of
    keys has the same form.
    """
    part, gain = 1.0 / channel.small, channel.gain
    shares = part + gain * (np.array([frequency, frequency * mean]) @ ENDS)
    same = np.asarray(part * (part + gain * frequency))  # the two ends collide under one seed in t
    pool = 2 * channel.item_pool_variance(energy) * np.eye(2)
    covariance = _of_shares(shares, same, np.array(channel.gains)) / people + pool
    return Forecast(StatedTruth.of_key(frequency, mean), np.zeros(2), covariance)
