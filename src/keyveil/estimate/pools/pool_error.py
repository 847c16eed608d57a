"""What a hash pool leaves after collisions are undone: of second order, two items held at a time.

Who holds both of two keys that collide names their cell once, not twice, which no sum over single keys
knows. It is a fixed error, of the pool's own seeds: it falls with the pool and not with reports.

* ``pair_variance``: how far counts lie from what single keys explain, seed by seed, from a tally.
* ``second_order``: its size on average over pools, keys being held independently.
* ``pool_error``: what it is under these seeds and for these people, where a table says what sets they
  hold: by the channel's own law where keys are few; otherwise the luck of the seeds averages out, and
  its size is told, from how often every two keys are held together.
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
"""With more keys the luck of the seeds is left out."""
MOST_LOOKED = 1 << 22
"""Seeds times items of all sets that are looked at one by one; of more a part."""
MOST_KEYS = 1 << 8
"""Of so many keys every two are looked at in a sample."""


def undo_collisions(channel: SeedPool, values: Floats) -> Floats:
    """Frequencies and masses ``(keys, 2)`` without what keys do to each other."""
    undo, _ = undoing(channel, 2 * len(values))
    if undo.ndim == 3:
        return np.stack([undo[0] @ values[:, 0], undo[1] @ values[:, 1]], axis=1)
    return np.asarray((undo @ (values @ ENDS).reshape(-1)).reshape(-1, 2) @ TURN.T)


# -- of a tally ------------------------------------------------------------------------------------


def pair_variance(channel: SeedPool, row: Integers, values: Floats, spread: Floats) -> Floats:
    """What is to be added to frequencies' and masses' variances ``(keys, 2)``, of one tally.

    Every seed tells of a key by itself. Once what all keys explain is taken from the counts, what seeds
    tell differs by chance, which is in ``spread``, and by what pairs of keys do under each: so the sum
    of its squares over seeds is the variance, whatever keys are held together.
    """
    keys, reports = len(values), float(row[0])
    grid = row[1:].reshape(channel.pool, channel.small)
    under = grid.sum(axis=1, keepdims=True) * channel.pool  # chance also gives seeds unlike numbers
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

    ``square`` are the squared frequencies and masses of keys, each standing for ``count``. Over pools
    it is a random error of x_ij^2 / t / G for every pair i, j of a key's own, and of x_jk^2 / t^2 / G
    for every other pair. (CoCo: of t / 2 pairs of cells for frequencies; of two that collide one lends
    its sign, so masses have half.)
    """

    def beside(first: Floats, second: Floats) -> Floats:
        return first * np.maximum((second * count).sum(axis=-1, keepdims=True) - second, 0.0)

    f, mass, energy = square[..., 0], square[..., 1], channel.key_energy(square)
    squares = PairSquares(beside(energy, energy), beside(mass, f) + beside(f, mass))
    return channel.second_order(squares, count)


# -- of this pool ----------------------------------------------------------------------------------


def pool_error(
    channel: SeedPool, keys: int, sample: Sample, undoes: bool
) -> tuple[Floats, Floats] | None:
    """Its part of the bias ``(keys, 2)``, and of the covariance ``(keys, 2, 2)``.

    ``undoes`` says whether collisions are undone; one of both is zero. None where keys are too many.
    """
    sets, _, _ = sampled_sets(sample, channel.held)
    if keys <= FEW_KEYS or channel.pool * sets.size <= MOST_LOOKED:
        return error_of_one_pool(channel, keys, sample, undoes), np.zeros((keys, 2, 2))
    if keys > MOST_KEYS or not undoes:
        return None
    return np.zeros((keys, 2)), paired(channel, keys, sample)


@lru_cache(maxsize=32)
def sampled_sets(sample: Sample, cap: int, times: int | None = None) -> tuple[Integers, Floats, int]:
    """The sets that people name, the share that does, and how many were drawn."""
    drawn = sample.sets(cap, times)
    sets, number = np.unique(drawn, axis=0, return_counts=True)
    return sets, number / len(drawn), len(drawn)


@lru_cache(maxsize=64)
def error_of_one_pool(channel: SeedPool, keys: int, sample: Sample, undoes: bool) -> Floats:
    """What all reports say on average, less what is true; of some of the people if sets are many."""
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
        """For each key the sum over others of x^2, less what chance adds to it."""
        share = first.T @ (second * shares[:, None])
        chance = np.abs(first).T @ (np.abs(second) * shares[:, None]) / drawn
        squares = np.maximum(share**2 - chance, 0.0)
        np.fill_diagonal(squares, 0.0)
        return np.asarray(squares.sum(axis=1))

    return channel.second_order(channel.pair_squares(squared, low, high), np.ones(keys))
