"""The shape ``collision``: a seed from a public pool, then a cell in which one's own items fall.

Wang et al., "Differentially Private Numerical Vector Analyses in the Local and Shuffle Model", arXiv
2304.04410. A state is a *set* of at most ``held`` items. The device draws a seed, whatever it holds,
hashes its items to ``small`` cells and names one cell. Each cell that holds an item has the weight
``high``, whatever the number of its items, and the others share the remaining weight evenly. So the cell
of a held item is named with weight exactly ``high``, that of another item with 1/small on average.

With j occupied cells the remaining weight is w = 2^32 - j * high. Every other cell has
``w div (small - j)``, and the ``w mod (small - j)`` left-over units go one each to the first of these
cells, in ascending order.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import numpy as np

from ...foundation.arrays import WORD, Floats, Integers, Words
from ...foundation.errors import ChannelError
from ...foundation.exact import at_most, own_context
from ...foundation.search import largest_fitting
from ...foundation.stream import Stream
from ..law import FastDraw
from ..proof import Proof
from .hash import MOST_CELLS, hashed, item_words
from .seed_pool import BOUNDS, MOST_ITEMS, PairSquares, SeedPool, SumsOfSquares, agreement, runs_of


@dataclass(frozen=True)
class Collision(SeedPool):
    """Cells with an item have the weight ``high``, the others share what is left."""

    shape: ClassVar[str] = "collision"
    state_kind: ClassVar[str] = "items"
    words = 2
    bounds = {**BOUNDS, "high": (1, WORD)}

    high: int

    def __post_init__(self) -> None:
        if not 1 <= self.items <= MOST_ITEMS or not 1 <= self.held <= self.items:
            raise ChannelError(f"a collision has 1 to {MOST_ITEMS} items, and one or more are held")
        if self.held >= self.small:
            raise ChannelError("a collision has more cells than one can hold items")
        if self.high < 1 or WORD - self.held * self.high < self.small - self.held:
            raise ChannelError("a collision leaves at least one unit for every cell without an item")
        super().__post_init__()

    @classmethod
    def of(
        cls,
        items: int,
        held: int,
        epsilon: Decimal,
        pool: int,
        salt: int,
        small: int | None = None,
    ) -> Collision:
        """The channel with the largest ``high`` that keeps the promise.

        ``small`` is the number of cells, by default that of the authors if it fits.
        """
        if small is None:
            small = max(held + 1, min(best_small(held, epsilon), MOST_CELLS // max(pool, 1)))
        if held < 1 or held >= small:
            raise ChannelError("a collision has more cells than one can hold items")
        # The least weight falls as high rises, so the largest high that fits is tight.
        high = largest_fitting(
            1,
            (WORD - (small - held)) // held,
            lambda high: high <= at_most((WORD - held * high) // (small - held), epsilon),
        )
        return cls(items, held, small, pool, salt, high)

    # -- the law ---------------------------------------------------------------------------------

    def low(self, occupied: int) -> tuple[int, int]:
        """The weight of an empty cell, and the number of cells with one unit more."""
        return divmod(WORD - occupied * self.high, self.small - occupied)

    def proof(self) -> Proof:
        """Over all sizes of the set of occupied cells; the remainders count as if in the worst cell.

        What is left for one cell, (2^32 - j high) / (small - j), rises with the size j or falls with
        it, so that its ends are at no occupied cell and at ``held`` of them.
        """
        likely, unlikely = (self.high, 1), (self.high, 1)
        for occupied in (0, self.held):
            low, rest = self.low(occupied)
            likely = max(likely, (low + (rest > 0), occupied))
            unlikely = min(unlikely, (low, occupied))
        return Proof(likely[0], unlikely[0], (likely[1], unlikely[1]), "a cell (states: cells occupied)")

    @property
    def keep(self) -> float:
        """The probability of naming the cell of a held item."""
        return self.high / WORD

    @property
    def gain(self) -> float:
        """The probability of a held item's cell minus that of another item's cell."""
        return self.keep - 1.0 / self.small

    @property
    def gains(self) -> tuple[float, float]:
        return self.gain, self.gain

    @property
    def places(self) -> int:
        return self.small

    @property
    def noise(self) -> Floats:
        part = 1.0 / self.small
        return np.full(2, part * (1 - part) / self.gain**2)

    @property
    def key_noise(self) -> Floats:
        return 2.0 * self.noise

    def item_pool_variance(self, energy: float) -> float:
        """The variance over pools of an item's frequency, if collisions are not undone."""
        return energy / ((self.small - 1) * self.pool)

    def pool_variance(self, of_frequency: float, of_mass: float = 0.0) -> Floats:
        return np.full(2, 2 * self.item_pool_variance(of_frequency))

    def key_energy(self, squares: Floats) -> Floats:
        return np.asarray(squares.mean(axis=-1))  # the average of low and high

    def named_shares(self, values: Floats) -> tuple[Floats, Floats]:
        part, ends = 1.0 / self.small, _ends(values)
        return part + self.gain * ends, part * (part + self.gain * ends.sum(axis=1))

    def cell_weights(self, values: Floats) -> Floats:
        return self.gain / (1.0 - 1.0 / self.small) * _ends(values)[None]

    def pair_squares(self, squared: SumsOfSquares, low: Floats, high: Floats) -> PairSquares:
        sums = [squared(first, second) for first, second in product((low, high), (low, high))]
        return PairSquares(np.sum(sums, axis=0), None)

    def second_order(self, squares: PairSquares, count: Floats) -> Floats:
        own = squares.own
        every = (own * count).sum(axis=-1, keepdims=True) / 2
        both = own / self.small + 2 * every / self.small**2
        return np.asarray(both[..., None, None] * np.eye(2) / self.pool)

    def key_cells(self, keys: Integers) -> Integers:
        items = np.stack([2 * keys, 2 * keys + 1], axis=1)
        return self.hashes(items.ravel()).reshape(self.pool, -1, 2)

    def energies(self, grid: Floats) -> tuple[float, float]:
        return agreement(grid, self.small) / self.gain**2, 0.0

    def cores(self, keys: int) -> list[tuple[int, int]]:
        return [(self.items, self.items), (2 * keys, 2 * keys)]

    # -- the sampler -----------------------------------------------------------------------------

    def hashes(self, items: np.ndarray) -> Integers:
        """The cell of each item under every seed of the pool, a row for each seed."""
        return hashed(self.salt, np.arange(self.pool)[:, None], np.asarray(items)[None, :], self.small)

    def item_cells(self, items: Integers) -> Integers:
        return self.hashes(items)

    def fast_draw(self, loops: Any) -> FastDraw:
        """States are a row of items for each place, and 2^32 - 1 where a person has none."""
        lows = np.array([self.low(count) for count in range(self.held + 1)], np.int64)
        facts = self.salt, self.pool, self.small, self.high, lows

        def draw(words: Words, column: int, states: np.ndarray, out: np.ndarray) -> None:
            loops.name_collision(words, column, states, *facts, out)

        return draw

    def draw(self, states: np.ndarray, stream: Stream) -> Integers:
        """Word 0 is the seed; word 1 is sliced: occupied cells first, then the others, ascending."""
        sets = np.asarray(states, np.int64)
        if sets.ndim == 1:
            sets = self.sets(sets)
        words = stream.words(0, 2).astype(np.int64)
        seeds = (words[:, 0] * self.pool) >> 32
        occupied, count = self._occupied(seeds, sets)
        lows = np.array([self.low(j) for j in range(self.held + 1)], np.int64)
        low, rest = lows[count, 0], lows[count, 1]
        over = words[:, 1] - count * self.high
        heavy = rest * (low + 1)
        place = np.where(over < heavy, over // (low + 1), rest + (over - heavy) // low)
        for column in range(occupied.shape[1]):  # step over the occupied cells, which are ascending
            place += place >= occupied[:, column]
        mine = np.clip(words[:, 1] // self.high, 0, occupied.shape[1] - 1)
        own = np.take_along_axis(occupied, mine[:, None], axis=1)[:, 0]
        return seeds * self.small + np.where(over < 0, own, place)

    def _occupied(self, seeds: Integers, sets: Integers) -> tuple[Integers, Integers]:
        """The distinct cells of each set, ascending, filled up with ``small``; their number."""
        cells = hashed(self.salt, seeds[:, None], np.maximum(sets, 0), self.small)
        cells = np.sort(np.where(sets < 0, self.small, cells), axis=1)
        repeated = cells[:, 1:] == cells[:, :-1]
        cells[:, 1:][repeated] = self.small
        cells = np.sort(cells, axis=1)
        return cells, (cells < self.small).sum(axis=1)

    # -- written out, for tests on few items -----------------------------------------------------

    def law_of(self, members: np.ndarray) -> Floats:
        """Pr[output] for one set."""
        own = np.asarray(members, np.int64)
        row = own[None, :] if len(own) else np.full((1, 1), -1, np.int64)
        occupied, count = self._occupied(np.arange(self.pool), np.repeat(row, self.pool, axis=0))
        marked = np.zeros((self.pool, self.small + 1), bool)
        np.put_along_axis(marked, occupied, True, axis=1)
        rank = np.cumsum(~marked[:, :-1], axis=1) - 1
        lows = np.array([self.low(j) for j in range(self.held + 1)], np.int64)
        low, rest = lows[count, 0][:, None], lows[count, 1][:, None]
        law = np.where(marked[:, :-1], self.high, low + (rank < rest)) / WORD / self.pool
        return law.ravel()

    def mixture(self, sets: Integers, shares: Floats) -> Floats:
        items, place = np.unique(sets, return_inverse=True)
        hashes = np.where(items < 0, self.small, self.hashes(np.maximum(items, 0)))
        count = np.arange(self.held + 1)
        lows = (1.0 - count * self.keep) / (self.small - count)
        law, seeds = np.zeros((self.pool, self.small + 1)), np.arange(self.pool)[:, None, None]
        for rows in runs_of(len(sets), self.pool * sets.shape[1]):
            cells = np.sort(hashes[:, place.reshape(sets.shape)[rows]], axis=2)
            cells[:, :, 1:][cells[:, :, 1:] == cells[:, :, :-1]] = self.small
            low = lows[(cells < self.small).sum(axis=2)]
            more = np.broadcast_to((shares[rows] * (self.keep - low))[:, :, None], cells.shape)
            at = seeds * (self.small + 1) + cells
            law += np.bincount(at.ravel(), more.ravel(), law.size).reshape(law.shape)
            law += (low @ shares[rows])[:, None]
        return np.asarray(law[:, :-1].ravel() / self.pool)

    def table_draw(self, loops: Any, keys: int, pairs: bool) -> tuple[Any, tuple[Any, ...]]:
        lows = np.array([self.low(count) for count in range(self.held + 1)], np.int64)
        words = item_words(np.arange(2 * keys))
        fixed = (keys if pairs else 0, words, self.salt, self.pool, self.small, self.high, lows)
        return loops.draw_collision, fixed

    def weight_variance(self, held: float) -> float:
        empty = self.low(min(round(held), self.held))[0]
        return held * (1 - min(held / self.small, 1.0)) * ((self.high - empty) / WORD) ** 2

    # -- what the shuffle model asks -------------------------------------------------------------

    @cached_property
    def _lows(self) -> Integers:
        """The weight of an empty cell, by the number of occupied cells."""
        return np.array([self.low(count)[0] for count in range(self.held + 1)], np.int64)

    def total_variation(self) -> Fraction:
        """The largest distance of two sets that occupy i and j cells with the fewest in common."""
        small, high, low = self.small, self.high, self._lows
        i, j = np.meshgrid(np.arange(self.held + 1), np.arange(self.held + 1), indexing="ij")
        both = np.maximum(0, i + j - small)
        off = (i - both) * np.abs(high - low[j]) + (j - both) * np.abs(high - low[i])
        off += (small - i - j + both) * np.abs(low[i] - low[j])
        return Fraction(int(off.max()) + 2 * small, 2 * WORD)  # plus the units that are left over

    def blanket(self) -> Fraction:
        return Fraction(self.small * min(int(self._lows.min()), self.high), WORD)


def _ends(values: Floats) -> Floats:
    """The shares of low and high, from frequency and mass."""
    frequency, mass = values[..., 0], values[..., 1]
    return np.stack([(frequency - mass) / 2, (frequency + mass) / 2], axis=-1)


def best_small(held: int, epsilon: Decimal) -> int:
    """The authors' number of cells, floor(s E + 2 s - 1), within 1 % of the best in variance."""
    with own_context():
        return int(held * epsilon.exp()) + 2 * held - 1
