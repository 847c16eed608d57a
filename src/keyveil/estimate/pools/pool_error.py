"""The error that a hash pool leaves after collisions are undone: of second order, from pairs of items.

A person who holds two colliding keys names their cell once, not twice. A sum over single keys does not
include this. The error is fixed by the seeds of the pool: it falls with the size of the pool, not with
the number of reports.

* ``pair_variance``: its size in a tally, from the residuals of counts after single keys, seed by seed.
* ``second_order``: its average size over pools, if keys are held independently.
* ``pool_error``: its value for given seeds and people, if a table gives the sets that they hold. With
  few keys it follows from the law of the channel. With more keys only its size is computed, from how
  often every two keys are held together.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...channel import CoCo, Collision
from ...foundation.arrays import Floats, Integers
from ...people.table_sample import Sample
from .collision_matrix import blocks, gains_of, report_chances, undoing
from .padded_items import ENDS, TURN

FEW_KEYS = 32
"""Largest number of keys for which the error of the given seeds is always computed."""
MOST_LOOKED = 1 << 22
"""Largest number of seeds times items of all sets that are enumerated; of more, a sample is taken."""
MOST_KEYS = 1 << 8
"""Largest number of keys for which every pair is counted in a sample."""


def undo_collisions(channel: Collision | CoCo, values: Floats) -> Floats:
    """Frequencies and masses ``(keys, 2)`` without the collisions of keys."""
    undo, _ = undoing(channel, 2 * len(values))
    if isinstance(channel, CoCo):
        return np.stack([undo[0] @ values[:, 0], undo[1] @ values[:, 1]], axis=1)
    return np.asarray((undo @ (values @ ENDS).reshape(-1)).reshape(-1, 2) @ TURN.T)


# -- of a tally ------------------------------------------------------------------------------------


def pair_variance(channel: Collision | CoCo, row: Integers, values: Floats, spread: Floats) -> Floats:
    """Additional variance of frequencies and masses ``(keys, 2)`` from pairs of keys, for one tally.

    Every seed gives its own estimate of a key. After subtraction of the part that single keys explain,
    the estimates differ by chance, which ``spread`` includes, and by pairs of keys. So the sum of their
    squares over seeds is the variance, whatever keys are held together.
    """
    keys, reports = len(values), float(row[0])
    grid = row[1:].reshape(channel.pool, channel.small)
    under = grid.sum(axis=1, keepdims=True) * channel.pool  # seeds have different numbers of reports
    residual = (grid - under * _explained(channel, values).reshape(grid.shape)).ravel()
    variance = np.empty((keys, 2))
    for of, cells, _ in blocks(channel, keys):
        by_seed = (residual[cells] @ TURN.T) / (np.array(gains_of(channel)) * reports)
        variance[of] = np.einsum("skp,skp->kp", by_seed, by_seed)
    return np.maximum(variance - np.diagonal(spread, axis1=1, axis2=2), 0.0)


def _explained(channel: Collision | CoCo, values: Floats) -> Floats:
    """Probabilities of the outputs as a sum over single keys, with these frequencies and masses."""
    keys, small = len(values), channel.small
    if isinstance(channel, CoCo):
        key_gain, sign_gain = channel.gains
        even = key_gain / (1.0 - 2.0 / small) * values[:, 0] / 2  # for either cell of the pair of a key
        odd = sign_gain / 2 * values[:, 1] * _report_chances_by_seed(channel, keys)
        total = 2 * even.sum()
    else:
        weights = channel.gain / (1.0 - 1.0 / small) * (values @ ENDS)
        total = weights.sum()
    law = np.full(channel.cells, (1.0 - total) / small)
    for of, cells, _ in blocks(channel, keys):
        if isinstance(channel, CoCo):
            weight = np.stack([even[of] - odd[:, of], even[of] + odd[:, of]], axis=-1)
        else:
            weight = np.broadcast_to(weights[of], cells.shape)
        law += np.bincount(cells.ravel(), weight.ravel(), channel.cells)
    return law / channel.pool


@lru_cache(maxsize=4)
def _report_chances_by_seed(channel: CoCo, keys: int) -> Floats:
    """``report_chances`` of all keys, a row for every seed."""
    return report_chances(channel, channel.words_under(np.arange(keys)))


# -- over pools ------------------------------------------------------------------------------------


def second_order(channel: Collision | CoCo, square: Floats, count: Floats) -> Floats:
    """Covariance from pairs of held keys after collisions are undone, (..., keys, 2, 2).

    ``square`` holds the squared frequencies and masses of keys; each stands for ``count`` keys. Over
    pools, key i has a random error of x_ij^2 / t / G for every pair i, j that contains it, and of
    x_jk^2 / t^2 / G for every other pair. CoCo has t / 2 pairs of cells for frequencies. Of two
    colliding keys only one gives the sign, so masses have half of the error.
    """

    def with_others(own: Floats, other: Floats) -> Floats:
        return own * np.maximum((other * count).sum(axis=-1, keepdims=True) - other, 0.0)

    if isinstance(channel, CoCo):
        f, mass = square[..., 0], square[..., 1]
        signed: Floats | None = with_others(mass, f) + with_others(f, mass)
        own = with_others(f, f)
    else:
        item_square = square.mean(axis=-1)  # average of low and high
        own, signed = with_others(item_square, item_square), None
    return _pair_covariance(channel, own, signed, count)


# -- of this pool ----------------------------------------------------------------------------------


def pool_error(
    channel: Collision | CoCo, keys: int, sample: Sample, undoes: bool
) -> tuple[Floats, Floats] | None:
    """Bias ``(keys, 2)`` and covariance ``(keys, 2, 2)`` from pairs of keys; one of the two is zero.

    ``undoes`` says whether collisions are undone. None if there are too many keys.
    """
    sets, _, _ = _sampled_sets(sample, channel.held)
    if keys <= FEW_KEYS or channel.pool * sets.size <= MOST_LOOKED:
        return _own_error(channel, keys, sample, undoes), np.zeros((keys, 2, 2))
    if keys > MOST_KEYS or not undoes:
        return None
    return np.zeros((keys, 2)), paired(channel, keys, sample)


@lru_cache(maxsize=32)
def _sampled_sets(sample: Sample, cap: int, times: int | None = None) -> tuple[Integers, Floats, int]:
    """Distinct sets that people name, the share of people for each, and the number of sets drawn."""
    drawn = sample.sets(cap, times)
    sets, number = np.unique(drawn, axis=0, return_counts=True)
    return sets, number / len(drawn), len(drawn)


@lru_cache(maxsize=64)
def _own_error(channel: Collision | CoCo, keys: int, sample: Sample, undoes: bool) -> Floats:
    """Expected answers minus the truth ``(keys, 2)``; from a part of the sample if sets are many."""
    sets, shares, _ = _sampled_sets(sample, channel.held)
    most = max(1, MOST_LOOKED // (channel.pool * channel.held))
    if len(sets) > most:
        sets, shares, _ = _sampled_sets(sample.fewer(most), channel.held, 1)
    law = channel.mixture(sets, shares)
    weights = np.broadcast_to(shares[:, None], sets.shape)[sets >= 0]
    truth = np.bincount(sets[sets >= 0], weights, 2 * keys)
    named = np.concatenate([law[cells].sum(axis=0) for _, cells, _ in blocks(channel, keys)])
    values = ((named - 1.0 / channel.small) @ TURN.T) / np.array(gains_of(channel))
    if undoes:
        values = undo_collisions(channel, values)
    return np.asarray(values - truth.reshape(-1, 2) @ TURN.T)


@lru_cache(maxsize=64)
def paired(channel: Collision | CoCo, keys: int, sample: Sample) -> Floats:
    """``second_order`` with keys held together as in a sample, ``(keys, 2, 2)``."""
    sets, shares, drawn = _sampled_sets(sample, channel.held)
    marks = np.zeros((len(sets), 2 * keys + 1))
    np.put_along_axis(marks, np.where(sets < 0, 2 * keys, sets), 1.0, axis=1)
    low, high = marks[:, 0:-1:2], marks[:, 1:-1:2]

    def squared(first: Floats, second: Floats) -> Floats:
        """For each key, the sum over other keys of x^2, minus its expected sampling error."""
        share = first.T @ (second * shares[:, None])
        chance = np.abs(first).T @ (np.abs(second) * shares[:, None]) / drawn
        squares = np.maximum(share**2 - chance, 0.0)
        np.fill_diagonal(squares, 0.0)
        return np.asarray(squares.sum(axis=1))

    if isinstance(channel, CoCo):
        f, mass = low + high, high - low
        return _pair_covariance(
            channel, squared(f, f), squared(mass, f) + squared(f, mass), np.ones(keys)
        )
    own = squared(low, low) + squared(low, high) + squared(high, low) + squared(high, high)
    return _pair_covariance(channel, own, None, np.ones(keys))


def _pair_covariance(
    channel: Collision | CoCo, own: Floats, signed: Floats | None, count: Floats
) -> Floats:
    """Covariance from the sum of x^2 over the pairs of each key.

    ``signed`` is the sum for CoCo with the sign of one of the two keys.
    """
    covariance = np.zeros((*own.shape, 2, 2))
    every = (own * count).sum(axis=-1, keepdims=True) / 2
    if signed is not None:
        half = channel.small // 2
        covariance[..., 0, 0] = own / half + every / half**2
        covariance[..., 1, 1] = signed / (2 * half)
    else:
        both = own / channel.small + 2 * every / channel.small**2
        covariance[..., 0, 0] = covariance[..., 1, 1] = both
    return covariance / channel.pool
