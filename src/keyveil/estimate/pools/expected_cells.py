"""What reports about sets of keys look like under a hypothesis: the law of the cells that they name.

A test asks how large a statistic is by chance. The statistic is a sum over reports, and a report adds
the weight of the cell that it names. Under a hypothesis about two keys the cells of their own items have
known chances, for any number of reports. All other cells have small weights, from undoing collisions;
their part is normal.

The other keys are taken to be independent with their estimated frequencies. They change the chances of
the cells only by collisions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...channel import Collision
from ...foundation.arrays import WORD, Floats, Integers
from ...plan.encoding import pair_item

MOST_HASHED = 1 << 27
"""Largest number of hashes of pairs; beyond it, pairs of rare keys count as held by nobody."""
_BLOCK = 1 << 22
_STEPS = 40
"""Steps of a search by halving."""


class OwnCells(NamedTuple):
    """The cells of some items under all seeds, sorted by which of the items fall into them."""

    marks: Floats
    """1 for each item of a kind of cell, ``(kinds, items)``; the last kind are cells of no item."""
    chances: Floats
    """Probability that a report names a cell of each kind, ``(kinds,)``."""
    seeds: Floats
    """Share of seeds that have a cell of each kind, ``(kinds,)``."""

    def chances_with(self, more: Floats, gain: float) -> Floats:
        """The probabilities if the frequency of each item is larger by ``more``."""
        added = self.seeds * (self.marks @ more) * gain
        chances = np.maximum(self.chances + added, 1e-3 * self.chances)
        chances[-1] = max(1.0 - float(chances[:-1].sum()), 0.0)
        return np.asarray(chances / chances.sum())


def independent_cells(channel: Collision, laws: Floats) -> Floats:
    """The law of seed and cell ``(pool, small)`` if keys with these laws ``(keys, 3)`` are independent.

    Linear in the frequencies of items, as decoding is; sets whose items collide are not distinguished.
    """
    keys, held = len(laws), laws[:, 1:]
    first, second = np.triu_indices(keys, 1)
    both = (held[first, :, None] * held[second, None, :]).reshape(-1)
    numbers = (pair_item(keys, first, second)[:, None] + np.arange(4)).reshape(-1)
    most = MOST_HASHED // channel.pool
    if len(both) > most:
        common = np.argpartition(both, -most)[-most:]
        both, numbers = both[common], numbers[common]
    items = np.concatenate([np.arange(2 * keys), numbers])
    shares = np.concatenate([held.reshape(-1), both])
    cells = np.zeros(channel.cells)
    step = max(1, _BLOCK // channel.pool)
    for start in range(0, len(items), step):
        part = slice(start, start + step)
        named = _flat(channel, items[part])
        cells += np.bincount(named.ravel(), np.tile(shares[part], channel.pool), channel.cells)
    even = 1.0 / channel.small
    law = even + channel.gain / (1.0 - even) * (cells.reshape(channel.pool, -1) - shares.sum() * even)
    least = min(channel.low(0)[0], channel.low(channel.held)[0]) / WORD
    law = np.maximum(law, least)  # the linear law may leave what a channel can do
    return np.asarray(law / law.sum())


def own_cells(channel: Collision, law: Floats, items: Integers) -> OwnCells:
    """The cells of some items if reports follow a law of seed and cell ``(pool, small)``."""
    places, at = np.unique(_flat(channel, items), return_inverse=True)
    bit = np.tile(1 << np.arange(len(items)), channel.pool)
    kinds, kind = np.unique(
        np.bincount(at.reshape(-1), bit, len(places)).astype(np.int64), return_inverse=True
    )
    marks = (kinds[:, None] >> np.arange(len(items))) & 1
    chances = np.bincount(kind, law.reshape(-1)[places], len(kinds))
    return OwnCells(
        np.vstack([marks, np.zeros(len(items))]).astype(np.float64),
        np.append(chances, 1.0 - chances.sum()),
        np.append(np.bincount(kind, minlength=len(kinds)), 0.0) / channel.pool,
    )


def kept_together(frequencies: Floats, cap: int) -> float:
    """How often two independent keys are kept together, over the product of their kept frequencies.

    ``frequencies`` are those of kept keys. 1 if nobody holds more keys than the cap; below 1 otherwise,
    because a key that is kept takes the place of another. Average over pairs of keys.
    """
    expected = float(frequencies.sum())
    by_chance = expected**2 - float((frequencies**2).sum())
    if len(frequencies) <= cap or by_chance <= 0:
        return 1.0
    kept = np.minimum(np.arange(len(frequencies) + 1), cap)
    low, high = 0.0, 30.0  # logarithm of the odds ratio of a key held and a key kept
    law = np.zeros(0)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        odds = np.exp(middle) * frequencies
        law = _size_law(odds / (1.0 - frequencies + odds))
        low, high = (middle, high) if law @ kept < expected else (low, middle)
    return min(float(law @ (kept * (kept - 1))) / by_chance, 1.0)


def _size_law(held: Floats) -> Floats:
    """The law of the number of keys that a person holds if keys are independent."""
    law = np.ones(1)
    for chance in held:
        law = np.append(law * (1 - chance), 0.0) + np.append(0.0, law * chance)
    return law


def _flat(channel: Collision, items: Integers) -> Integers:
    """The numbers of the cells of items among all cells, ``(pool, items)``."""
    return np.asarray(np.arange(channel.pool)[:, None] * channel.small + channel.hashes(items))
