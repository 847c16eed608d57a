"""The common part of ``collision`` and ``coco``: states are sets, outputs are a seed and a cell."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np

from ...foundation.arrays import WORD, Floats, Integers
from ...foundation.errors import ChannelError
from ..honest_limits import HonestLimits
from ..law import Channel, IntegerChannel
from .hash import MOST_CELLS, MOST_HASHED, named_counts

MOST_ITEMS = 1 << 31
_MOST_NUMBER = 1 << 62
_DENSE = 1 << 26
"""Maximum number of entries of a law that is written out."""
_MOST_MARKED = 1 << 15
"""Maximum number of cells of a seed that compiled loops mark."""
ENTRIES_AT_ONCE = 1 << 20
"""Maximum number of entries of a block of rows that is computed at once."""
BOUNDS = {
    "items": (1, MOST_ITEMS),
    "held": (1, MOST_CELLS),
    "cells": (2, MOST_CELLS),
    "pool": (1, MOST_CELLS),
    "salt": (0, WORD - 1),
}
"""The bounds of a pool's fields. In documents "cells" are those of one seed."""

SumsOfSquares = Callable[[Floats, Floats], Floats]
"""For each key the sum over other keys of the squared share of people with both of two marks."""


class PairSquares(NamedTuple):
    """Each key's sum of squares over pairs with other keys: both held, and with one of them signed."""

    own: Floats
    signed: Floats | None


@dataclass(frozen=True)
class SeedPool(IntegerChannel):
    """Output ``seed * small + cell``. States are an ``(n, held)`` array of items, filled up with -1.

    For tests on few items, states also have numbers: sets by size, and in lexicographic order within a
    size. ``states`` is their number (at most 2^62), and ``draw`` takes either form.
    """

    sends_all = True  # every weight has at least one unit

    items: int
    held: int
    small: int
    pool: int
    salt: int

    def __post_init__(self) -> None:
        if self.pool < 1 or self.pool & (self.pool - 1) or self.pool * self.small > MOST_CELLS:
            raise ChannelError(f"a pool is a power of two with at most {MOST_CELLS} cells in all")
        states = sets_up_to(self.items, self.held)
        self._derive(states=states, cells=self.pool * self.small, seeds=self.pool)

    @property
    def draw_room(self) -> str:
        """Cells are bits of a few words in compiled loops, so only if a seed has not too many."""
        return "set_cells" if self.small <= _MOST_MARKED else ""

    def law_of(self, members: np.ndarray) -> Floats:
        """Pr[output] for one set."""
        members = np.asarray(members, np.int64) if len(members) else np.full(1, -1)
        return self.mixture(members[None, :], np.ones(1))

    @abstractmethod
    def mixture(self, sets: Integers, shares: Floats) -> Floats:
        """Pr[output] if people hold these sets (rows, filled up with -1) with these shares.

        Exact up to 2^-32 for each cell.
        """

    @property
    @abstractmethod
    def gains(self) -> tuple[float, float]:
        """What a holder adds to the share of a key's cells, and to the difference of its two signs."""

    @property
    @abstractmethod
    def places(self) -> int:
        """Number of places for an item under a seed: cells, or mirrored pairs of cells."""

    @property
    @abstractmethod
    def noise(self) -> Floats:
        """One report's variance of frequency and mass if no one holds anything, ``(2,)``.

        It is for the unknowns of the decoder: keys, or items, of which a key has two.
        """

    @property
    @abstractmethod
    def key_noise(self) -> Floats:
        """The same for a key."""

    @abstractmethod
    def pool_variance(self, of_frequency: float, of_mass: float = 0.0) -> Floats:
        """The variance over pools of a key's frequency and mass if collisions are not undone, ``(2,)``.

        The arguments are sums of squares as in ``energies``.
        """

    @abstractmethod
    def key_energy(self, squares: Floats) -> Floats:
        """Each key's part of the first sum of ``energies``, from its squared frequency and mass."""

    @abstractmethod
    def named_shares(self, values: Floats) -> tuple[Floats, Floats]:
        """The expected share of reports in each key's low and high cell, and in a cell that is both.

        ``values`` are frequencies and masses, ``(keys, 2)``.
        """

    @abstractmethod
    def cell_weights(self, values: Floats) -> Floats:
        """What each key adds to its low and high cell under a seed, ``(seeds or 1, keys, 2)``.

        The law of a report is uniform plus the sum over keys of these terms, each minus its mean over
        cells. A key enters with its frequency and mass.
        """

    @abstractmethod
    def pair_squares(self, squared: SumsOfSquares, low: Floats, high: Floats) -> PairSquares:
        """Sums of squares over pairs of keys, from the people who hold each key low and high."""

    @abstractmethod
    def second_order(self, squares: PairSquares, count: Floats) -> Floats:
        """The covariance over pools that pairs of held keys leave after collisions are undone.

        ``count`` is the number of keys that each entry stands for. The result is ``(..., keys, 2, 2)``.
        """

    @abstractmethod
    def key_cells(self, keys: Integers) -> Integers:
        """The cells of each key's low and high sign under every seed, ``(seeds, keys, 2)``."""

    @abstractmethod
    def energies(self, grid: Floats) -> tuple[float, float]:
        """Estimated sums over items of squared frequencies, and over keys of squared masses.

        ``grid`` holds the counts of a tally, ``(seeds, cells)``. The sums follow from how much more
        often than by chance two reports of one seed agree. The second sum is 0 if the shape has no
        estimate.
        """

    @abstractmethod
    def cores(self, keys: int) -> list[tuple[int, int]]:
        """The numbers of items whose collisions may be undone, largest first, for ``keys`` keys.

        Each comes with the size of the linear system that undoes them.
        """

    @abstractmethod
    def table_draw(self, loops: Any, keys: int, pairs: bool) -> tuple[Any, tuple[Any, ...]]:
        """What draws reports of people from a table of signed keys, and its constant arguments.

        ``loops`` are the compiled ones or ``table_draws``, which has their plain form. ``pairs`` says
        whether pairs of keys are items too.
        """

    @abstractmethod
    def weight_variance(self, held: float) -> float:
        """The variance of a cell's weight between people who hold ``held`` items.

        It is relative to the variance of whether the cell is reported.
        """

    @abstractmethod
    def item_cells(self, items: Integers) -> Integers:
        """The cell of each item under every seed of the pool, a row for each seed."""

    def limits(self, counts: Floats, share: float = 1.0) -> HonestLimits | None:
        """How often the cell of each item is named, summed over seeds, with its limits."""
        if self.items * self.pool > MOST_HASHED:
            return None
        return self.item_limits(counts, np.arange(self.items))

    def item_limits(self, counts: Floats, items: Integers) -> HonestLimits | None:
        """``limits`` of the given items; None if they are too many."""
        named = named_counts(self.item_cells, items, counts.reshape(self.pool, -1))
        if named is None:
            return None
        proof = self.proof()
        return HonestLimits.of(named, proof.denominator / WORD, proof.numerator / WORD)

    def sets(self, numbers: np.ndarray) -> Integers:
        """The sets of these numbers, a row each, filled up with -1."""
        return numbered_sets(numbers, self.items, self.held)

    def expected(self) -> Floats:
        """Pr[output | set], a row for every set; dense, so only for few items."""
        if self.states * self.cells > _DENSE:
            raise ChannelError(f"a {self.shape} over so many items is not written out set by set")
        sets = chain.from_iterable(combinations(range(self.items), j) for j in range(self.held + 1))
        return np.array([self.law_of(np.array(members, np.int64)) for members in sets])


def pool_of(channel: Channel) -> SeedPool:
    """The channel. Raises ``ChannelError`` unless it is a ``SeedPool``."""
    if not isinstance(channel, SeedPool):
        raise ChannelError("this is for channels that speak of sets of items")
    return channel


def pairs_of_reports(grid: Floats) -> float:
    """The number of ordered pairs of reports with the same seed. ``grid`` is ``(seeds, places)``."""
    reports = grid.sum(axis=1)
    return float((reports * (reports - 1)).sum())


def agreement(grid: Floats, places: int) -> float:
    """The excess over chance of the rate at which two reports of one seed name the same place.

    It is scaled to estimate the sum of squared frequencies times the squared gain. It is 0 if no two
    reports have the same seed.
    """
    pairs, part = pairs_of_reports(grid), 1.0 / places
    if pairs <= 0:
        return 0.0
    agree = float((grid * (grid - 1)).sum()) / pairs
    return (agree - part) * (1.0 - part)


def runs_of(count: int, size: int) -> Iterator[slice]:
    """Slices of ``count`` rows, each of ``size`` numbers, that fit into memory."""
    step = max(1, ENTRIES_AT_ONCE // max(size, 1))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def sets_up_to(items: int, held: int) -> int:
    """The number of sets of at most ``held`` items, but at most 2^62."""
    sets = 0
    for size in range(held + 1):
        sets = min(sets + comb(items, size), _MOST_NUMBER)
        if sets == _MOST_NUMBER:
            break
    return sets


def numbered_sets(numbers: np.ndarray, items: int, held: int) -> Integers:
    """The sets of these numbers, a row each, filled up with -1: by size, then in lexicographic order."""
    rows = np.full((len(numbers), held), -1, np.int64)
    for row, number in zip(rows, np.asarray(numbers).tolist(), strict=True):
        size = 0
        while number >= comb(items, size):
            number -= comb(items, size)
            size += 1
        item = 0
        for place in range(size):
            while number >= (block := comb(items - 1 - item, size - 1 - place)):
                number -= block
                item += 1
            row[place] = item
            item += 1
    return rows
