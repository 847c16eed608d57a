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

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...channel import CoCo, Collision
from ...foundation.arrays import Floats, Integers
from ...foundation.errors import PlanError
from ...plan.encoding import SETS
from ..caution import with_one_more
from ..forecast.result import Forecast, StatedTruth
from ..linear import Moments
from .collision_matrix import (
    blocks,
    core_share,
    core_size,
    gains_of,
    noise_of,
    other_cells,
    pool_variance,
    solves,
    undoing,
)
from .padded_items import ENDS, TURN
from .pool_error import MOST_KEYS, beyond, paired, pool_error, second_order, undo_collisions

if TYPE_CHECKING:
    from ...people.prior import Prior
    from ...plan.plan import Plan

LITTLE = 0.02
"""The share of the variance up to which the error of a pool is taken from its closed form."""

# -- of a tally ------------------------------------------------------------------------------------


def energy_of(channel: Collision | CoCo, grid: Floats) -> tuple[float, float]:
    """The sums over all items of squared frequencies, and for CoCo over keys of squared masses.

    ``grid`` has the counts of a tally, seed by cell: reports of one seed agree more for them.
    """
    each = grid.sum(axis=1)
    pairs = float((each * (each - 1)).sum())
    if pairs <= 0:
        return 0.0, 0.0
    if isinstance(channel, CoCo):
        half = channel.small // 2
        low, high = grid[:, half:], grid[:, :half]
        both, apart, part = low + high, high - low, 1.0 / half
        met, told = channel.gains
        of_mass = float((apart**2 - both).sum()) / pairs / told**2
    else:
        both, part, met, of_mass = grid, 1.0 / channel.small, channel.gain, 0.0
    agree = float((both * (both - 1)).sum()) / pairs
    return (agree - part) * (1.0 - part) / met**2, of_mass


def pool_moments(plan: Plan, counts: Integers) -> Moments:
    """Frequency and mass of every key, of ``cap`` keys a person at the most, from ``(..., cells)``."""
    channel, keys = plan.channels[0], len(plan.schema.keys)
    if plan.encode not in SETS or not isinstance(channel, Collision | CoCo):
        raise PlanError("this estimator is for plans that speak of sets of items")
    rows = np.asarray(counts).reshape(-1, plan.layout.cells)
    named, same = np.empty((len(rows), keys, 2)), np.zeros((len(rows), keys))
    meetings = np.zeros(keys)
    for of, cells, (cell, key) in blocks(channel, keys):
        meetings[of] = np.bincount(key, minlength=of.stop - of.start)
        for number, row in enumerate(rows[:, 1:]):
            named[number, of] = row[cells].sum(axis=0)
            same[number, of] = np.bincount(key, row[cell], of.stop - of.start)
    n = rows[:, 0].astype(np.float64)
    values, spread = _raw(channel, named, same, meetings, n)
    both = np.arange(2)
    for number, row in enumerate(rows):
        if not n[number]:
            continue
        values[number], spread[number], undone = _corrected(
            channel, keys, row, values[number], spread[number]
        )
        if plan.encode != "items":
            continue
        if undone:
            more = beyond(channel, row, values[number], spread[number])
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
    channel: Collision | CoCo, named: Floats, same: Floats, meetings: Floats, reports: Floats
) -> tuple[Floats, Floats]:
    """Scores of frequency and mass, and their covariance, from how often low and high are named."""
    part, gains = 1.0 / channel.small, np.array(gains_of(channel))
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
    made = np.empty((*named.shape, 2))
    made[..., 0, 0] = both + 2 * same - both**2
    made[..., 1, 1] = both - 2 * same - apart**2
    made[..., 0, 1] = made[..., 1, 0] = apart - both * apart
    return made / (gains[:, None] * gains[None, :])


def _corrected(
    channel: Collision | CoCo, keys: int, row: Integers, values: Floats, spread: Floats
) -> tuple[Floats, Floats, bool]:
    """Values and covariance of one tally without the core's collisions, and whether any were undone.

    The covariance includes what items outside the core do.
    """

    @cache
    def energies() -> tuple[float, float]:
        grid = row[1:].astype(np.float64).reshape(channel.pool, channel.small)
        return energy_of(channel, grid)

    if isinstance(channel, CoCo):
        return _corrected_coco(channel, keys, float(row[0]), values, spread, energies)
    return _corrected_collision(channel, keys, row, values, spread, energies)


Energies = Callable[[], tuple[float, float]]
"""Returns the result of ``energy_of`` for a tally, computed at most once."""


def _corrected_coco(
    channel: CoCo, keys: int, n: float, values: Floats, spread: Floats, energies: Energies
) -> tuple[Floats, Floats, bool]:
    """All keys are in the core, or none is."""
    if solves(channel, keys, lambda: n * channel.gains[0] ** 2 * energies()[0]):
        _, more = undoing(channel, 2 * keys)
        noise = more * np.diag(noise_of(channel)) / n
        return undo_collisions(channel, values), spread + noise, True
    of_frequency, of_mass = (max(0.0, energy) for energy in energies())
    half = channel.small // 2
    left = [of_frequency / ((half - 1) * channel.pool), of_mass / (half * channel.pool)]
    return values, spread + np.diag(left), False


def _corrected_collision(
    channel: Collision, keys: int, row: Integers, values: Floats, spread: Floats, energies: Energies
) -> tuple[Floats, Floats, bool]:
    """The core holds the keys' items first, then other items (pairs of keys)."""
    n = float(row[0])
    core = core_size(channel, 2 * keys, lambda: n * channel.gain**2 * energies()[0])
    inside = 0.0
    if core:
        undo, more = undoing(channel, core)
        scores = (values @ ENDS).reshape(-1)
        if core > 2 * keys:
            named = row[1:][other_cells(channel, 2 * keys, core)].sum(axis=0)
            rest = (named / n - 1.0 / channel.small) / channel.gain
            scores = np.concatenate([scores, rest])
        solved = undo @ scores
        values = solved[: 2 * keys].reshape(-1, 2) @ TURN.T
        noise = noise_of(channel)[0]
        spread = spread + more[:keys] * noise / n
        inside = float((solved**2).sum() - np.trace(undo) * noise / n)
    if core < channel.items:
        left = max(0.0, energies()[0] - inside)
        spread = spread + 2 * np.eye(2) * pool_variance(channel, left)
    return values, spread, bool(core)


# -- before anyone has answered --------------------------------------------------------------------


class _Shares(NamedTuple):
    """What a prior says of the counts of each representative key."""

    named: Floats
    """The shares of reports that name the low and the high cell."""
    same: Floats
    """The share of reports that name both at once."""
    core: float
    """The part of noise that undoing the core's collisions adds, of the whole; 0 without a core."""
    left: Floats
    """The variances of frequency and mass that items outside the core leave."""


def pool_forecast(plan: Plan, people: float, prior: Prior) -> Forecast:
    """The error of ``least_squares``, with the bias of a cap and the error of the pool."""
    channel = plan.channels[0]
    if isinstance(channel, CoCo):
        shares = _coco_shares(channel, plan, people, prior)
        noise = noise_of(channel)
    elif isinstance(channel, Collision):
        shares = _collision_shares(channel, plan, people, prior)
        noise = noise_of(channel) * 2.0
    else:
        raise PlanError("this forecast is for plans that speak of sets of items")
    keys, kept = len(plan.schema.keys), prior.capped(plan.cap)
    spread = _of_shares(shares.named, shares.same, np.array(gains_of(channel))) / people
    spread += np.diag(noise * shares.core / (1 - shares.core) / people)
    bias = kept - np.stack([prior.frequency, prior.frequency * prior.mean], axis=1)
    left = np.broadcast_to(np.diag(shares.left), spread.shape)
    if plan.encode != "items":
        return Forecast(prior, bias, spread + left)
    claimed = left + second_order(channel, kept**2, prior.count)
    # Two keys are held together at most as often as the root of f_i f_j says.
    most = left + second_order(channel, kept[:, :1].repeat(2, axis=1), prior.count)
    if prior.sample is None or most.sum() <= LITTLE * spread.sum():
        return Forecast(prior, bias, spread + claimed)
    known = pool_error(channel, keys, prior.sample, bool(shares.core))
    fixed, variance = known or (np.zeros((keys, 2)), claimed)
    if shares.core and keys <= MOST_KEYS:
        claimed = paired(channel, keys, prior.sample)  # the estimator learns its size over seeds
    return Forecast(prior, bias + fixed, spread + variance, claimed=spread + claimed, fixed=fixed)


def _coco_shares(channel: CoCo, plan: Plan, people: float, prior: Prior) -> _Shares:
    """The shares for CoCo: a report names one of a key's two cells, never both."""
    keys, (f, mass) = len(plan.schema.keys), prior.capped(plan.cap).T
    gains = np.array(gains_of(channel))
    both, difference = 2 * (1.0 / channel.small) + gains[0] * f, gains[1] * mass
    named = np.stack([(both - difference) / 2, (both + difference) / 2], axis=1)
    energy, half = float(prior.count @ f**2), channel.small // 2
    if solves(channel, keys, lambda: people * float(gains[0]) ** 2 * energy):
        return _Shares(named, np.zeros(len(f)), core_share(channel, keys), np.zeros(2))
    left = np.array([energy / (half - 1), float(prior.count @ mass**2) / half])
    return _Shares(named, np.zeros(len(f)), 0.0, left / channel.pool)


def _collision_shares(channel: Collision, plan: Plan, people: float, prior: Prior) -> _Shares:
    """The shares for collision: a key's two items collide under one seed in t."""
    keys, ends = len(plan.schema.keys), prior.capped(plan.cap) @ ENDS
    part, squares = 1.0 / channel.small, (ends**2).sum(axis=1)
    named = part + channel.gain * ends
    same = part * (part + channel.gain * ends.sum(axis=1))
    inside = float(prior.count @ squares)
    energy = inside
    if plan.encode == "pair_items":  # pairs as if keys were independent
        energy += (inside**2 - float(prior.count @ squares**2)) / 2
    core = core_size(channel, 2 * keys, people * channel.gain**2 * energy)
    outside = 0.0 if core == channel.items else energy - (inside if core else 0.0)
    left = np.full(2, 2 * pool_variance(channel, max(0.0, outside)))
    return _Shares(named, same, core_share(channel, core) if core else 0.0, left)


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
    pool = 2 * pool_variance(channel, energy) * np.eye(2)
    covariance = _of_shares(shares, same, np.array(gains_of(channel))) / people + pool
    return Forecast(StatedTruth.of_key(frequency, mean), np.zeros(2), covariance)
