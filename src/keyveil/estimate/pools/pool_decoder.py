"""Decoding hash pools: how often each key's two cells are named, and what the pool's collisions explain.

Under a seed every key has a low and a high cell: with ``collision`` the cells of its two items, with
``coco`` two mirrored ones. The share of reports that name either, less what chance gives, by what a
holder adds, is the key's frequency; their difference is its mass. Over all hashes both are unbiased;
over the fixed seeds of a pool items collide more or less often than by chance, which ``cores`` undoes.
What it leaves (``poolerror``) is a fixed error that falls with the pool and not with reports. It counts
in every covariance and forecast; where it matters, at millions of reports, a larger pool is worth its
while. What items
outside the core do is estimated from the tally (two reports with one seed agree more often than 1/t)
and added to the variance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...channel.collision_channel import Collision
from ...channel.seed_pool import SeedPool, pool_of
from ...foundation.arrays import Floats, Integers
from ...foundation.errors import PlanError
from ..forecast.key_forecast import Forecast
from ..forecast.variance import Predicted
from ..linear import Moments
from .collision_matrix import (
    blocks,
    core_share,
    core_size,
    other_cells,
    undoing,
)
from .padded_items import ENDS, TURN
from .pool_error import MOST_KEYS, beyond, paired, pool_error, second_order, undo_collisions

if TYPE_CHECKING:
    from ...people.prior import Prior
    from ...plan.plan import Plan

LITTLE = 0.02
"""What a pool leaves is not looked at more closely where it adds no more than this to the variance."""

# -- of a tally ------------------------------------------------------------------------------------


def pool_moments(plan: Plan, counts: Integers) -> Moments:
    """Frequency and mass of every key, of ``cap`` keys a person at the most, from ``(..., cells)``."""
    if not plan.encoding.speaks_of_sets:
        raise PlanError("this estimator is for plans that speak of sets of items")
    channel, keys = pool_of(plan.channels[0]), len(plan.schema.keys)
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
        undone = _corrected(channel, keys, row, values[number], spread[number])
        if plan.encoding.item_width > 1:
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
    channel: SeedPool, named: Floats, same: Floats, meetings: Floats, reports: Floats
) -> tuple[Floats, Floats]:
    """Scores of frequency and mass, and their covariance, from how often low and high are named."""
    part, gains = 1.0 / channel.small, np.array(channel.gains)
    n = reports[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        values = ((named / n[..., None] - part) @ TURN.T) / gains
        # One more report, spread evenly, for caution: one report alone has no spread.
        shares = (named + part) / (n[..., None] + 1)
        meet = (same + meetings / channel.cells) / (n + 1)
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


def _corrected(channel: SeedPool, keys: int, row: Integers, values: Floats, spread: Floats) -> bool:
    """Undo the collisions of the core, and add what the others do: in place, for one tally.

    Whether any were undone.
    """
    n = float(row[0])
    known: list[tuple[float, float]] = []

    def energies() -> tuple[float, float]:
        if not known:
            grid = row[1:].astype(np.float64).reshape(channel.pool, channel.small)
            known.append(channel.energies(grid))
        return known[0]

    core = core_size(channel, keys, lambda: n * channel.gains[0] ** 2 * energies()[0])
    inside = 0.0
    if core:
        undo, more = undoing(channel, core)
        noise = np.sqrt(np.outer(channel.noise, channel.noise))
        values[:], inside = _solved(channel, undo, row, values)
        spread += more[:keys] * noise / n
    if core < channel.items:
        of_frequency, of_mass = energies()
        left = channel.pool_variance(max(0.0, of_frequency - inside), max(0.0, of_mass))
        spread += np.diag(left)
    return bool(core)


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


def pool_forecast(plan: Plan, people: float, prior: Prior) -> Forecast:
    """The error of ``least_squares``, with what the cap leaves out and what the pool adds."""
    if not plan.encoding.speaks_of_sets:
        raise PlanError("this forecast is for plans that speak of sets of items")
    channel, keys = pool_of(plan.channels[0]), len(plan.schema.keys)
    kept, gains = prior.capped(plan.cap), np.array(channel.gains)
    truth = np.stack([prior.frequency, prior.frequency * prior.mean], axis=1)
    each = channel.key_energy(kept**2)
    inside = energy = float(prior.count @ each)
    if plan.encoding.item_width > 1:  # pairs as if keys were independent
        energy += (inside**2 - float(prior.count @ each**2)) / 2
    core = core_size(channel, keys, people * channel.gains[0] ** 2 * energy)
    share = core_share(channel, dict(channel.cores(keys))[core]) if core else 0.0
    added = np.zeros(2)
    if core < channel.items:
        of_mass = float(prior.count @ kept[:, 1] ** 2)
        added = channel.pool_variance(max(0.0, energy - (inside if core else 0.0)), of_mass)
    spread = _of_shares(*channel.named_shares(kept), gains) / people
    spread += np.diag(channel.key_noise * share / (1 - share) / people)
    bias, left = kept - truth, np.broadcast_to(np.diag(added), spread.shape)
    if plan.encoding.item_width > 1:
        return Forecast(bias, spread + left)
    claimed = left + second_order(channel, kept**2, prior.count)
    # Two keys are held together at most as often as the root of f_i f_j says.
    most = left + second_order(channel, kept[:, :1].repeat(2, axis=1), prior.count)
    if prior.sample is None or most.sum() <= LITTLE * spread.sum():
        return Forecast(bias, spread + claimed)
    fixed, about = pool_error(channel, keys, prior.sample, bool(share)) or (np.zeros((keys, 2)), claimed)
    if share and keys <= MOST_KEYS:
        claimed = paired(channel, keys, prior.sample)  # a tally tells how large it is over seeds
    return Forecast(bias + fixed, spread + about, claimed=spread + claimed, fixed=fixed)


def predicted_variance(
    channel: Collision, people: float, frequency: float, mean: float, energy: float = 0.0
) -> Predicted:
    """Variances of a key's answers when ``people`` answer; those of a pair are of the same form.

    ``energy`` is the sum of squared frequencies of items that decoding does not correct for.
    """
    part, gain = 1.0 / channel.small, channel.gain
    low, high = (part + gain * frequency * (1 + sign * mean) / 2 for sign in (-1, 1))
    both = part * (part + gain * frequency)  # the two ends collide under one seed in t
    pool = channel.item_pool_variance(energy)
    scale = gain**2 * people
    of_frequency = (low + high + 2 * both - (low + high) ** 2) / scale + 2 * pool
    of_mass = (low + high - 2 * both - (high - low) ** 2) / scale + 2 * pool
    shared = (high - low - (high**2 - low**2)) / scale
    if frequency <= 0:
        return Predicted(of_frequency, float("nan"), of_mass)
    of_mean = (of_mass - 2 * mean * shared + mean**2 * of_frequency) / frequency**2
    return Predicted(of_frequency, of_mean, of_mass)
