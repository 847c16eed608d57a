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

from ...channel import CoCo, Collision
from ...foundation.arrays import Floats, Integers
from ...foundation.errors import PlanError
from ...plan.encoding import SETS
from ..forecast.result import Forecast, StatedTruth
from ..linear import Moments
from .collision_matrix import (
    blocks,
    core_share,
    core_size,
    gains_of,
    noise_of,
    other_cells,
    solves,
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
        undone = _corrected(channel, keys, row, values[number], spread[number])
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


def _corrected(
    channel: Collision | CoCo, keys: int, row: Integers, values: Floats, spread: Floats
) -> bool:
    """Undo the collisions of the core, and add what the others do: in place, for one tally.

    Whether any were undone.
    """
    n = float(row[0])
    known: list[tuple[float, float]] = []

    def energies() -> tuple[float, float]:
        if not known:
            grid = row[1:].astype(np.float64).reshape(channel.pool, channel.small)
            known.append(energy_of(channel, grid))
        return known[0]

    if isinstance(channel, CoCo):
        solved = solves(channel, keys, lambda: n * channel.gains[0] ** 2 * energies()[0])
        if solved:
            _, more = undoing(channel, 2 * keys)
            values[:] = undo_collisions(channel, values)
            spread += more * np.diag(noise_of(channel)) / n
        else:
            of_frequency, of_mass = (max(0.0, energy) for energy in energies())
            half = channel.small // 2
            spread[:, 0, 0] += of_frequency / ((half - 1) * channel.pool)
            spread[:, 1, 1] += of_mass / (half * channel.pool)
        return solved
    core = core_size(channel, 2 * keys, lambda: n * channel.gain**2 * energies()[0])
    inside = 0.0
    if core:
        undo, more = undoing(channel, core)
        items = values @ ENDS
        scores = items.reshape(-1)
        if core > 2 * keys:
            named = row[1:][other_cells(channel, 2 * keys, core)].sum(axis=0)
            rest = (named / n - 1.0 / channel.small) / channel.gain
            scores = np.concatenate([scores, rest])
        solved_items = undo @ scores
        values[:] = solved_items[: 2 * keys].reshape(-1, 2) @ TURN.T
        spread += more[:keys] * noise_of(channel)[0] / n
        inside = float((solved_items**2).sum() - np.trace(undo) * noise_of(channel)[0] / n)
    if core < channel.items:
        left = max(0.0, energies()[0] - inside)
        spread += 2 * np.eye(2) * left / ((channel.small - 1) * channel.pool)
    return bool(core)


# -- before anyone has answered --------------------------------------------------------------------


def pool_forecast(plan: Plan, people: float, prior: Prior) -> Forecast:
    """The error of ``least_squares``, with what the cap leaves out and what the pool adds."""
    channel = plan.channels[0]
    if not isinstance(channel, Collision | CoCo):
        raise PlanError("this forecast is for plans that speak of sets of items")
    keys, kept = len(plan.schema.keys), prior.capped(plan.cap)
    ends = kept @ ENDS
    gains, part = np.array(gains_of(channel)), 1.0 / channel.small
    truth = np.stack([prior.frequency, prior.frequency * prior.mean], axis=1)
    each = (ends**2).sum(axis=1)
    if isinstance(channel, CoCo):
        f, mass = kept.T
        both, apart = 2 * part + gains[0] * f, gains[1] * mass
        named, same = np.stack([(both - apart) / 2, (both + apart) / 2], axis=1), np.zeros(len(f))
        energy, half = float(prior.count @ f**2), channel.small // 2
        solved = solves(channel, keys, lambda: people * float(gains[0]) ** 2 * energy)
        share = core_share(channel, keys) if solved else 0.0
        left = np.array([energy / (half - 1), float(prior.count @ mass**2) / half])
        added = left * (not solved) / channel.pool
    else:
        named = part + channel.gain * ends
        same = part * (part + channel.gain * ends.sum(axis=1))  # collide under one seed in t
        inside = float(prior.count @ each)
        energy = inside
        if plan.encode == "pair_items":  # pairs as if keys were independent
            energy += (inside**2 - float(prior.count @ each**2)) / 2
        core = core_size(channel, 2 * keys, people * channel.gain**2 * energy)
        share = core_share(channel, core) if core else 0.0
        outside = 0.0 if core == channel.items else energy - (inside if core else 0.0)
        added = np.full(2, 2 * max(0.0, outside) / ((channel.small - 1) * channel.pool))
    spread = _of_shares(named, same, gains) / people
    noise = noise_of(channel) * (1.0 if isinstance(channel, CoCo) else 2.0)
    spread += np.diag(noise * share / (1 - share) / people)
    bias, left = kept - truth, np.broadcast_to(np.diag(added), spread.shape)
    if plan.encode != "items":
        return Forecast(prior, bias, spread + left)
    claimed = left + second_order(channel, kept**2, prior.count)
    # Two keys are held together at most as often as the root of f_i f_j says.
    most = left + second_order(channel, kept[:, :1].repeat(2, axis=1), prior.count)
    if prior.sample is None or most.sum() <= LITTLE * spread.sum():
        return Forecast(prior, bias, spread + claimed)
    fixed, about = pool_error(channel, keys, prior.sample, bool(share)) or (np.zeros((keys, 2)), claimed)
    if share and keys <= MOST_KEYS:
        claimed = paired(channel, keys, prior.sample)  # a tally tells how large it is over seeds
    return Forecast(prior, bias + fixed, spread + about, claimed=spread + claimed, fixed=fixed)


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
    pool = 2 * energy / ((channel.small - 1) * channel.pool)
    covariance = _of_shares(shares, same, np.array(gains_of(channel))) / people + pool * np.eye(2)
    return Forecast(StatedTruth.of_key(frequency, mean), np.zeros(2), covariance)
