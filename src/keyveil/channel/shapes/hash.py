"""The shape ``hash``: a seed from a fixed public pool, then a small channel on the hashed item.

The device draws the seed independently of what it holds, so epsilon is that of the small channel. Output
``seed * cells + cell`` is one tally cell, and decoding uses the pool's own collision matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ...foundation.arrays import WORD, Bits, Floats, Integers, Words
from ...foundation.errors import ChannelError
from ...foundation.stream import Stream
from ..document_fields import Document, integer
from ..honest_limits import HonestLimits
from ..law import Channel
from ..law_arrays import as_states, nan_where_biased
from ..proof import Proof
from .table import Table

MOST_CELLS = 1 << 22
MOST_ITEMS = 1 << 20
MOST_HASHED = 1 << 26
"""Maximum of items times seeds for sums over seeds, item by item."""
_SINGULAR = 1e6
"""A solution larger than this, relative to the right-hand side, means a singular matrix."""


def mixed(number: np.ndarray) -> Words:
    """A fixed bijection of 32-bit words that looks random (xor-shifts and odd multipliers)."""
    word = np.array(number, np.uint32)
    word ^= word >> np.uint32(16)
    word *= np.uint32(0x7FEB352D)
    word ^= word >> np.uint32(15)
    word *= np.uint32(0x846CA68B)
    word ^= word >> np.uint32(16)
    return word


def words_of(salt: int, seeds: np.ndarray, items: np.ndarray) -> np.ndarray:
    """The word of each item under each seed, in 64 bits; broadcasts."""
    seed = mixed(np.asarray(seeds, np.uint32) ^ np.uint32(salt))
    return mixed(np.bitwise_xor(seed, item_words(items))).astype(np.uint64)


def item_words(items: np.ndarray) -> Words:
    """The part of an item's word that does not depend on the seed."""
    return mixed(np.asarray(items, np.uint32) + np.uint32(0x9E3779B9))


def hashed(salt: int, seeds: np.ndarray, items: np.ndarray, cells: int) -> Integers:
    """The cell of each item under each seed; broadcasts."""
    return ((words_of(salt, seeds, items) * np.uint64(cells)) >> np.uint64(32)).astype(np.int64)


def named_counts(
    item_cells: Callable[[Integers], Integers], items: Integers, grid: Floats
) -> Floats | None:
    """How often the cell of each item is named, summed over seeds; None if that takes too long.

    ``grid`` holds the counts, ``(seeds, cells)``. ``item_cells`` gives the cells of items under every
    seed, ``(seeds, items)``.
    """
    if len(items) * len(grid) > MOST_HASHED:
        return None
    named, seeds = np.zeros(len(items)), np.arange(len(grid))[:, None]
    step = max(1, (1 << 22) // len(grid))
    for first in range(0, len(items), step):
        run = slice(first, first + step)
        named[run] = grid[seeds, item_cells(items[run])].sum(axis=0)
    return named


@dataclass(frozen=True)
class Hash(Channel):
    """States are the items; state 0 is "no item" if ``inner`` has one more row than outputs."""

    shape: ClassVar[str] = "hash"

    items: int
    pool: int
    salt: int
    inner: Table

    def __post_init__(self) -> None:
        if self.pool < 1 or self.pool & (self.pool - 1) or self.pool * self.inner.cells > MOST_CELLS:
            raise ChannelError(f"a pool is a power of two with at most {MOST_CELLS} cells in all")
        if not 0 <= self.inner.states - self.inner.cells <= 1:
            raise ChannelError("the small channel has a row for each cell and maybe one for no item")
        if not 1 <= self.items <= MOST_ITEMS:
            raise ChannelError(f"a hash has 1 to {MOST_ITEMS} items")
        self._derive(states=self.items + self.silent, cells=self.pool * self.inner.cells)
        self._derive(words=1 + self.inner.words, seeds=self.pool)

    @property
    def silent(self) -> int:
        """1 if state 0 means "no item"."""
        return self.inner.states - self.inner.cells

    def proof(self) -> Proof:
        inner = self.inner.proof()
        return Proof(inner.numerator, inner.denominator, inner.states, f"{inner.output} of a seed")

    def document(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "items": self.items,
            "pool": self.pool,
            "salt": self.salt,
            "inner": self.inner.document(),
        }

    @classmethod
    def parse(cls, document: Document) -> Hash:
        inner = document.get("inner")
        if not isinstance(inner, dict) or inner.get("shape") != "table":
            raise ChannelError("the 'inner' of a hash is a table")
        return cls(
            integer(document, "items", 1, MOST_ITEMS),
            integer(document, "pool", 1, MOST_CELLS),
            integer(document, "salt", 0, (1 << 32) - 1),
            Table.parse(inner),
        )

    def draw(self, states: np.ndarray, stream: Stream) -> Integers:
        """Word 0's top bits are the seed; word 1 draws the small channel."""
        states = as_states(states)
        word = stream.words(0, 1)[:, 0].astype(np.uint64)
        seeds = ((word * np.uint64(self.pool)) >> np.uint64(32)).astype(np.int64)
        cells = hashed(self.salt, seeds, states - self.silent, self.inner.cells)
        inner = np.where(states < self.silent, self.inner.cells, cells)
        return seeds * self.inner.cells + self.inner.draw(inner, stream.skip(1))

    @cached_property
    def possible(self) -> Bits:
        return np.tile(self.inner.possible, self.pool)

    @cached_property
    def hashes(self) -> Integers:
        """The cell of every item under every seed, ``(seeds, items)``."""
        seeds, items = np.arange(self.pool), np.arange(self.items)
        return hashed(self.salt, seeds[:, None], items[None, :], self.inner.cells)

    def expected(self) -> Floats:
        """Pr[output | state], dense, so only for small pools and few items."""
        law = self.inner.expected()
        rows = [np.tile(law[self.inner.cells], self.pool)] if self.silent else []
        rows += [law[self.hashes[:, item]].ravel() for item in range(self.items)]
        return np.array(rows) / self.pool

    def mix(self, states: Floats) -> Floats:
        law = self.inner.expected()
        out = np.zeros((*states.shape[:-1], self.pool, self.inner.cells))
        own = states[..., self.silent :]
        for cell in range(self.inner.cells):
            held = (self.hashes == cell).astype(np.float64)
            out += (own @ held.T)[..., None] * law[cell]
        if self.silent:
            out += (states[..., :1] * law[self.inner.cells])[..., None, :]
        return out.reshape(*states.shape[:-1], self.cells) / self.pool

    def back(self, weights: Floats) -> Floats:
        law = self.inner.expected()
        grid = weights.reshape(*weights.shape[:-1], self.pool, self.inner.cells)
        expectations = grid @ law.T  # the expectation under each seed and inner state
        total = np.zeros((*weights.shape[:-1], self.items))
        for cell in range(self.inner.cells):
            total += expectations[..., cell] @ (self.hashes == cell).astype(np.float64)
        total /= self.pool
        if not self.silent:
            return total
        none = expectations[..., self.inner.cells].mean(axis=-1, keepdims=True)
        return np.concatenate([none, total], axis=-1)

    @cached_property
    def collisions(self) -> Floats:
        """``A_ij = (c_ij - 1/t) / (1 - 1/t)``, c_ij the share of seeds on which i and j collide."""
        share = np.zeros((self.items, self.items))
        for cell in range(self.inner.cells):
            held = (self.hashes == cell).astype(np.float32)  # exact: a pool has less than 2^24 seeds
            share += held.T @ held
        part = 1.0 / self.inner.cells
        return (share / self.pool - part) / (1.0 - part)

    @cached_property
    def _even(self) -> bool:
        """Whether the small channel is k-RR and "no item" is uniform, up to rounding."""
        cells = self.inner.cells
        if cells < 2:
            return False
        rows = np.array(self.inner.rows, np.int64)
        plain = np.full_like(rows, rows[1, 0])
        np.fill_diagonal(plain[:cells], rows[0, 0])
        plain[cells:] = WORD // cells
        return bool((np.abs(rows - plain) <= cells).all())

    def decoder(self, weights: Floats) -> Floats:
        """Score each item by the cells that it hashes to, then undo the pool's own collisions."""
        law, part = self.inner.expected(), 1.0 / self.inner.cells
        if not self._even:
            return super().decoder(weights)
        keep, lie = law[0, 0], law[1, 0]
        none = weights[0] if self.silent else np.zeros(weights.shape[1])
        solved = self._solved(weights[self.silent :] - none) / ((keep - lie) * (1.0 - part))
        total = solved.sum(axis=0)
        base = none - part * total
        grid = np.empty((self.pool, self.inner.cells, weights.shape[1]))
        grid[:, -1] = total + base
        for cell in range(self.inner.cells - 1):
            named = (self.hashes == cell).astype(np.float64) @ solved
            grid[:, -1] -= named  # an item that is in no other cell is in the last
            grid[:, cell] = named + base
        flat = grid.reshape(self.cells, -1)
        if self.states * self.cells <= 1 << 20:
            return nan_where_biased(self.expected(), flat, weights)
        return flat

    def _solved(self, wanted: Floats) -> Floats:
        """The solution x of collisions x = wanted; the smallest one if the matrix is singular.

        Elimination is many times faster than least squares, so it is tried first.
        """
        try:
            solved = np.asarray(np.linalg.solve(self.collisions, wanted), np.float64)
        except np.linalg.LinAlgError:
            solved = np.full_like(wanted, np.inf)
        if np.abs(solved).max(initial=0.0) < _SINGULAR * np.abs(wanted).max(initial=1.0):
            return solved
        return np.asarray(np.linalg.lstsq(self.collisions, wanted, rcond=None)[0], np.float64)

    def item_cells(self, items: Integers) -> Integers:
        """The cell of each item under every seed of the pool, a row for each seed."""
        return np.asarray(self.hashes[:, items])

    def limits(self, counts: Floats, share: float = 1.0) -> HonestLimits | None:
        """How often the cell of each item is named, summed over seeds, with its limits."""
        law, items = self.inner.expected(), np.arange(self.items)
        named = named_counts(self.item_cells, items, counts.reshape(self.pool, -1))
        if named is None:
            return None
        return HonestLimits.of(named, float(law.min()), float(law.max()), self.silent + items)

    def total_variation(self) -> Fraction:
        """That of the small channel: under most seeds two items fall into different cells."""
        return self.inner.total_variation()

    def blanket(self) -> Fraction:
        return self.inner.blanket()
