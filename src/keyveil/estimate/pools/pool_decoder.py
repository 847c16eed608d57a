"""Decoding hash pools: frequency and mass of every key from the counts of its two cells.

Under a seed every key has a low and a high cell: with ``collision`` the cells of its two items, with
``coco`` two mirrored cells. The frequency of a key is the share of reports in either cell, minus the
share expected by chance, divided by what a holder adds. The mass is the difference of the two cells,
scaled likewise. Both are unbiased over all hashes. Over the fixed seeds of a pool, items collide more or
less often than by chance, which ``collision_matrix`` undoes.

The remaining error (``pool_error``) is fixed: it falls with the size of the pool, not with the number of
reports. Every covariance and forecast includes it. It matters at millions of reports; a larger pool
reduces it. The effect of items outside the core is estimated from the tally (two reports of one seed
agree more often than 1/t) and added to the variance.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...channel import CoCo, Collision
from ...foundation.arrays import Floats, Integers
from ...foundation.errors import PlanError
from ..forecast.key_forecast import Forecast
from ..forecast.variance import Predicted
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
from .pool_error import MOST_KEYS, pair_variance, paired, pool_error, second_order, undo_collisions

if TYPE_CHECKING:
    from ...people.prior import Prior
    from ...plan.plan import Plan

LITTLE = 0.02
"""Share of the variance up to which the error of a pool is not computed from a sample."""

Energies = Callable[[], tuple[float, float]]
"""The sums of squares of ``energy_of``, computed when needed."""

# -- of a tally ------------------------------------------------------------------------------------


def energy_of(channel: Collision | CoCo, grid: Floats) -> tuple[float, float]:
    """Sum of squared frequencies over all items, and for CoCo sum of squared masses over keys.

    ``grid`` holds the counts of a tally, (seeds, cells). The sums follow from how often two reports of
    one seed agree.
    """
    seed_reports = grid.sum(axis=1)
    pairs = float((seed_reports * (seed_reports - 1)).sum())
    if pairs <= 0:
        return 0.0, 0.0
    if isinstance(channel, CoCo):
        half = channel.small // 2
        low, high = grid[:, half:], grid[:, :half]
        both, difference, part = low + high, high - low, 1.0 / half
        key_gain, sign_gain = channel.gains
        of_mass = float((difference**2 - both).sum()) / pairs / sign_gain**2
    else:
        both, part, key_gain, of_mass = grid, 1.0 / channel.small, channel.gain, 0.0
    agree = float((both * (both - 1)).sum()) / pairs
    return (agree - part) * (1.0 - part) / key_gain**2, of_mass


def pool_moments(plan: Plan, counts: Integers) -> Moments:
    """Frequency and mass of every key, at most ``cap`` keys per person, from counts ``(..., cells)``."""
    channel, keys = plan.channels[0], len(plan.schema.keys)
    if not isinstance(channel, Collision | CoCo):
        raise PlanError("this estimator is for plans whose reports are about sets of items")
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
        inverted = _corrected(channel, row, values[number], spread[number])
        if plan.encoding.item_width > 1:
            continue
        if inverted:
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
    channel: Collision | CoCo, named: Floats, same: Floats, meetings: Floats, reports: Floats
) -> tuple[Floats, Floats]:
    """Scores of frequency and mass and their covariance, from counts of the low and high cells."""
    part, gains = 1.0 / channel.small, np.array(gains_of(channel))
    n = reports[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        values = ((named / n[..., None] - part) @ TURN.T) / gains
        # One report, spread evenly, is added, because a single report has no spread.
        shares = (named + part) / (n[..., None] + 1)
        meet = (same + meetings / channel.cells) / (n + 1)
        spread = _of_shares(shares, meet, gains) / n[..., None, None]
    return values, spread


def _of_shares(named: Floats, same: Floats, gains: Floats) -> Floats:
    """Covariance of frequency and mass for one report, from the shares of low, of high and of both."""
    low, high = named[..., 0], named[..., 1]
    both, difference = low + high, high - low
    covariance = np.empty((*named.shape, 2))
    covariance[..., 0, 0] = both + 2 * same - both**2
    covariance[..., 1, 1] = both - 2 * same - difference**2
    covariance[..., 0, 1] = covariance[..., 1, 0] = difference - both * difference
    return covariance / (gains[:, None] * gains[None, :])


def _corrected(channel: Collision | CoCo, row: Integers, values: Floats, spread: Floats) -> bool:
    """Undoes the collisions of the core and adds the variance from other items, in place, for one tally.

    Returns whether any collisions were undone.
    """

    @cache
    def energies() -> tuple[float, float]:
        grid = row[1:].astype(np.float64).reshape(channel.pool, channel.small)
        return energy_of(channel, grid)

    if isinstance(channel, CoCo):
        return _corrected_keys(channel, float(row[0]), energies, values, spread)
    return _corrected_items(channel, row, energies, values, spread)


def _corrected_keys(channel: CoCo, n: float, energies: Energies, values: Floats, spread: Floats) -> bool:
    """``_corrected`` for CoCo, whose core is all keys or none."""
    keys = len(values)
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


def _corrected_items(
    channel: Collision, row: Integers, energies: Energies, values: Floats, spread: Floats
) -> bool:
    """``_corrected`` for a collision, whose core may be all items, single keys or none."""
    n, keys = float(row[0]), len(values)
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
    """The error of ``least_squares``, with the bias of the cap and the error of the pool."""
    channel = plan.channels[0]
    if not isinstance(channel, Collision | CoCo):
        raise PlanError("this forecast is for plans whose reports are about sets of items")
    keys, capped = len(plan.schema.keys), prior.capped(plan.cap)
    truth = np.stack([prior.frequency, prior.frequency * prior.mean], axis=1)
    if isinstance(channel, CoCo):
        expected = _expected_keys(channel, keys, people, prior, capped)
    else:
        expected = _expected_items(channel, plan, people, prior, capped)
    named, same, share, added = expected
    spread = _of_shares(named, same, np.array(gains_of(channel))) / people
    noise = noise_of(channel) * (1.0 if isinstance(channel, CoCo) else 2.0)
    spread += np.diag(noise * share / (1 - share) / people)
    bias, outside = capped - truth, np.broadcast_to(np.diag(added), spread.shape)
    if plan.encoding.item_width > 1:
        return Forecast(bias, spread + outside)
    claimed = outside + second_order(channel, capped**2, prior.count)
    # Two keys are held together by at most the root of f_i f_j.
    most = outside + second_order(channel, capped[:, :1].repeat(2, axis=1), prior.count)
    if prior.sample is None or most.sum() <= LITTLE * spread.sum():
        return Forecast(bias, spread + claimed)
    fixed, about = pool_error(channel, keys, prior.sample, bool(share)) or (np.zeros((keys, 2)), claimed)
    if share and keys <= MOST_KEYS:
        claimed = paired(channel, keys, prior.sample)  # a tally shows its size over seeds
    return Forecast(bias + fixed, spread + about, claimed=spread + claimed, fixed=fixed)


class _Expected(NamedTuple):
    """What a forecast expects of a tally."""

    named: Floats
    """Shares of reports in the low and high cells of each key, ``(keys, 2)``."""
    same: Floats
    """Shares of reports in cells that are both low and high of a key, ``(keys,)``."""
    share: float
    """Share of variance that the inversion for the core adds; 0 without a core."""
    added: Floats
    """Variances of frequency and mass from collisions outside the core, ``(2,)``."""


def _expected_keys(channel: CoCo, keys: int, people: float, prior: Prior, capped: Floats) -> _Expected:
    """What a forecast expects of a tally of CoCo; ``capped`` holds frequencies and masses."""
    gains, part, half = np.array(gains_of(channel)), 1.0 / channel.small, channel.small // 2
    f, mass = capped.T
    both, difference = 2 * part + gains[0] * f, gains[1] * mass
    named = np.stack([(both - difference) / 2, (both + difference) / 2], axis=1)
    energy = float(prior.count @ f**2)
    solved = solves(channel, keys, lambda: people * float(gains[0]) ** 2 * energy)
    share = core_share(channel, keys) if solved else 0.0
    outside = np.array([energy / (half - 1), float(prior.count @ mass**2) / half])
    return _Expected(named, np.zeros(len(f)), share, outside * (not solved) / channel.pool)


def _expected_items(
    channel: Collision, plan: Plan, people: float, prior: Prior, capped: Floats
) -> _Expected:
    """What a forecast expects of a tally of items; ``capped`` holds frequencies and masses."""
    part, ends = 1.0 / channel.small, capped @ ENDS
    named = part + channel.gain * ends
    same = part * (part + channel.gain * ends.sum(axis=1))  # collide under one seed in t
    squares = (ends**2).sum(axis=1)
    inside = float(prior.count @ squares)
    energy = inside
    if plan.encoding.item_width > 1:  # pairs as if keys were independent
        energy += (inside**2 - float(prior.count @ squares**2)) / 2
    core = core_size(channel, 2 * len(plan.schema.keys), people * channel.gain**2 * energy)
    share = core_share(channel, core) if core else 0.0
    outside = 0.0 if core == channel.items else energy - (inside if core else 0.0)
    added = np.full(2, 2 * max(0.0, outside) / ((channel.small - 1) * channel.pool))
    return _Expected(named, same, share, added)


def predicted_variance(
    channel: Collision, people: float, frequency: float, mean: float, energy: float = 0.0
) -> Predicted:
    """Variances of the answers of a key, or of a pair, from ``people`` reports.

    ``energy`` is the sum of squared frequencies of items outside the core.
    """
    part, gain = 1.0 / channel.small, channel.gain
    low, high = (part + gain * frequency * (1 + sign * mean) / 2 for sign in (-1, 1))
    both = part * (part + gain * frequency)  # the two ends collide under one seed in t
    pool = energy / ((channel.small - 1) * channel.pool)
    scale = gain**2 * people
    of_frequency = (low + high + 2 * both - (low + high) ** 2) / scale + 2 * pool
    of_mass = (low + high - 2 * both - (high - low) ** 2) / scale + 2 * pool
    shared = (high - low - (high**2 - low**2)) / scale
    if frequency <= 0:
        return Predicted(of_frequency, float("nan"), of_mass)
    of_mean = (of_mass - 2 * mean * shared + mean**2 * of_frequency) / frequency**2
    return Predicted(of_frequency, of_mean, of_mass)
