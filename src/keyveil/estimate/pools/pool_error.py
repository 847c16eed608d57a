"""The error of a hash pool that remains after collisions of single items are undone.

A person who holds two keys that collide names their cell once, not twice. Sums over single keys do not
know this, so an error of second order remains, in pairs of items that one person holds. The pool's seeds
fix it: it falls with the size of the pool, and not with the number of reports.

* ``pair_variance``: its variance from a tally, by how far each seed's counts are from the prediction of
  single keys.
* ``second_order``: its variance over pools if keys are held independently.
* ``pool_error``: its value under the pool's own seeds, if a table says which sets people hold. With few
  keys, the channel's law gives the bias. With many keys, the seeds' chance averages out, and the shares
  of people who hold two keys together give the variance.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...channel.shapes.seed_pool import PairSquares, SeedPool
from ...foundation.arrays import Floats, Integers
from ...people.table_sample import Sample
from .collision_matrix import blocks, undoing
from .padded_items import ENDS, TURN

FEW_KEYS = 32
"""Largest number of keys for which the bias under the pool's own seeds is always computed."""
MOST_LOOKED = 1 << 22
"""Maximum number of seeds times items of all sets. If there are more, a part of the sets is used."""
MOST_KEYS = 1 << 8
"""Largest number of keys for which every pair is counted in a sample."""


def undo_collisions(channel: SeedPool, values: Floats) -> Floats:
    """Frequencies and masses ``(keys, 2)`` without the effect of collisions between keys."""
    undo, _ = undoing(channel, 2 * len(values))
    if undo.ndim == 3:
        return np.stack([undo[0] @ values[:, 0], undo[1] @ values[:, 1]], axis=1)
    return np.asarray((undo @ (values @ ENDS).reshape(-1)).reshape(-1, 2) @ TURN.T)


# -- of a tally ------------------------------------------------------------------------------------


def pair_variance(channel: SeedPool, row: Integers, values: Floats, spread: Floats) -> Floats:
    """The variance that pairs of keys add to frequencies and masses ``(keys, 2)``, from one tally.

    Every seed gives its own estimate of a key. After the prediction of single keys is subtracted from
    the counts, the estimates of the seeds differ by chance, which is in ``spread``, and by collisions of
    pairs. So the sum of their squares over the seeds, less ``spread``, is the variance that pairs add,
    whichever keys are held together.
    """
    keys, reports = len(values), float(row[0])
    grid = row[1:].reshape(channel.pool, channel.small)
    under = grid.sum(axis=1, keepdims=True) * channel.pool  # seeds have different numbers of reports
    left = (grid - under * law_of_single_keys(channel, values).reshape(grid.shape)).ravel()
    squares = np.empty((keys, 2))
    for of, cells, _ in blocks(channel, keys):
        residuals = (left[cells] @ TURN.T) / (np.array(channel.gains) * reports)
        squares[of] = np.einsum("skp,skp->kp", residuals, residuals)
    return np.maximum(squares - np.diagonal(spread, axis1=1, axis2=2), 0.0)


def law_of_single_keys(channel: SeedPool, values: Floats) -> Floats:
    """Pr[output] as a sum over single keys, with these frequencies and masses."""
    weights = channel.cell_weights(values)
    law = np.full(channel.cells, (1.0 - weights[0].sum()) / channel.small)
    for of, cells, _ in blocks(channel, len(values)):
        cell_weights = np.broadcast_to(weights[:, of], cells.shape)
        law += np.bincount(cells.ravel(), cell_weights.ravel(), channel.cells)
    return law / channel.pool


# -- over pools ------------------------------------------------------------------------------------


def second_order(channel: SeedPool, square: Floats, count: Floats) -> Floats:
    """The covariance that pairs of held keys leave after collisions are undone, (..., keys, 2, 2).

    ``square`` holds the squared frequencies and masses of keys; each row stands for ``count`` keys. Over
    pools the error of key i has the variance x_ij^2 / (t G) for every other key j, plus
    x_jk^2 / (t^2 G) for every pair j, k of other keys. (CoCo has t / 2 pairs of cells for frequencies.
    If two keys collide, one of them lends its sign, so the variance of masses is half.)
    """

    def with_others(first: Floats, second: Floats) -> Floats:
        return first * np.maximum((second * count).sum(axis=-1, keepdims=True) - second, 0.0)

    f, mass, energy = square[..., 0], square[..., 1], channel.key_energy(square)
    squares = PairSquares(with_others(energy, energy), with_others(mass, f) + with_others(f, mass))
    return channel.second_order(squares, count)


# -- of this pool ----------------------------------------------------------------------------------


def pool_error(
    channel: SeedPool, keys: int, sample: Sample, undoes: bool
) -> tuple[Floats, Floats] | None:
    """The bias ``(keys, 2)`` and the covariance ``(keys, 2, 2)`` that the pool adds; one is zero.

    ``undoes`` says whether collisions of single items are undone. None if there are too many keys.
    """
    sets, _, _ = sampled_sets(sample, channel.held)
    if keys <= FEW_KEYS or channel.pool * sets.size <= MOST_LOOKED:
        return error_of_one_pool(channel, keys, sample, undoes), np.zeros((keys, 2, 2))
    if keys > MOST_KEYS or not undoes:
        return None
    return np.zeros((keys, 2)), paired(channel, keys, sample)


@lru_cache(maxsize=32)
def sampled_sets(sample: Sample, cap: int, times: int | None = None) -> tuple[Integers, Floats, int]:
    """The sets that people name, the share of people who name each, and the number of drawn sets."""
    drawn = sample.sets(cap, times)
    sets, number = np.unique(drawn, axis=0, return_counts=True)
    return sets, number / len(drawn), len(drawn)


@lru_cache(maxsize=64)
def error_of_one_pool(channel: SeedPool, keys: int, sample: Sample, undoes: bool) -> Floats:
    """Expected estimate less truth, ``(keys, 2)``; from a part of the people if sets are many."""
    sets, shares, _ = sampled_sets(sample, channel.held)
    most = max(1, MOST_LOOKED // (channel.pool * channel.held))
    if len(sets) > most:
        sets, shares, _ = sampled_sets(sample.fewer(most), channel.held, 1)
    law = channel.mixture(sets, shares)
    weights = np.broadcast_to(shares[:, None], sets.shape)[sets >= 0]
    truth = np.bincount(sets[sets >= 0], weights, 2 * keys)
    named = np.concatenate([law[cells].sum(axis=0) for _, cells, _ in blocks(channel, keys)])
    values = ((named - 1.0 / channel.small) @ TURN.T) / np.array(channel.gains)
    if undoes:
        values = undo_collisions(channel, values)
    return np.asarray(values - truth.reshape(-1, 2) @ TURN.T)


@lru_cache(maxsize=64)
def paired(channel: SeedPool, keys: int, sample: Sample) -> Floats:
    """``second_order`` with keys held together as in a sample."""
    sets, shares, drawn = sampled_sets(sample, channel.held)
    marks = np.zeros((len(sets), 2 * keys + 1))
    np.put_along_axis(marks, np.where(sets < 0, 2 * keys, sets), 1.0, axis=1)
    low, high = marks[:, 0:-1:2], marks[:, 1:-1:2]

    def squared(first: Floats, second: Floats) -> Floats:
        """The sum of x^2 over the other keys, for each key, less the expected share of chance."""
        share = first.T @ (second * shares[:, None])
        chance = np.abs(first).T @ (np.abs(second) * shares[:, None]) / drawn
        squares = np.maximum(share**2 - chance, 0.0)
        np.fill_diagonal(squares, 0.0)
        return np.asarray(squares.sum(axis=1))

    return channel.second_order(channel.pair_squares(squared, low, high), np.ones(keys))
