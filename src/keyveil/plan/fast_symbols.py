"""Independent positions in compiled loops: planes of bits for everyone, and more where it takes more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..foundation.arrays import Bits, Words
from ..foundation.block_source import BlockSource
from ..foundation.coins import WORDS_PER_BLOCK, Coins
from ..people.people import People
from .report import Reports

if TYPE_CHECKING:
    from .plan import Plan

PEOPLE = 1 << 10
"""People at a time: their planes stay in the nearest cache."""
TILED_PEOPLE = 1 << 13
"""People at a time if the loop makes their planes tile by tile."""
GROUPS = 8
"""Groups of 32 positions at a time, whose words stay in the next cache."""
_GROUP_BLOCKS = 32 // WORDS_PER_BLOCK
"""Blocks of words that a whole group takes."""


def drawn_symbols(plan: Plan, people: People, coins: Coins, source: BlockSource, loops: Any) -> Reports:
    """Everyone's report to a plan whose only channel has independent positions and many cells."""
    first = -(-plan.channel_start(0) // WORDS_PER_BLOCK)
    channel: Any = plan.channels[0]
    tiled = source.schedule is not None and len(channel.slice_ends) <= 1 + loops.MOST_LAWS
    size = min(TILED_PEOPLE if tiled else PEOPLE, len(people))
    draw: Planes | Tiles
    draw = Tiles(channel, first, source, loops) if tiled else Planes(channel, first, coins, loops)
    encode = plan.encoding.fast_encode(plan.schema, plan.views, people, plan.cap, loops)
    bits = np.empty((len(people), plan.packing.bits_width), np.uint8)
    plain, room = _rooms(first * size)
    picked = np.zeros(size, np.uint32)
    for start in range(0, len(people), max(size, 1)):
        rows = slice(start, min(start + size, len(people)))
        addresses = people.addresses[rows]
        words = source.fill(addresses, first, plain.reshape(-1, first, WORDS_PER_BLOCK), room)
        draw(addresses, encode(rows, words, picked[: len(words)]), bits[rows])
    return Reports(plan.hash, views=np.zeros(len(people), np.int64), bits=bits)


def _rooms(blocks: int) -> tuple[Words, Bits]:
    """Memory for blocks of addresses, and for their words."""
    size = blocks * WORDS_PER_BLOCK
    return np.empty((blocks, WORDS_PER_BLOCK), np.uint32), np.empty(4 * size + 15, np.uint8)


class _Packer:
    """Packs which numbers are below each end: the bits of all cells."""

    def __init__(self, cells: int, loops: Any) -> None:
        self._loops, self._spread = loops, _spread(cells)

    def __call__(self, marks: np.ndarray) -> Bits:
        """The bits of all cells, in rows that have room for whole groups."""
        cells, people, groups = marks.shape
        if cells == 1:
            return marks[0].view(np.uint8)
        if cells == 2:
            pairs = np.empty(people * groups, np.uint64)
            self._loops.pack_two(marks.reshape(2, -1), pairs)
            return pairs.view(np.uint8).reshape(people, -1)
        if cells == 3:
            triples = np.empty((people * groups, 3), np.uint32)
            self._loops.pack_three(marks.reshape(3, -1), triples)
            return triples.view(np.uint8).reshape(people, -1)
        packed = np.empty((people, 4 * groups * cells), np.uint8)
        self._loops.pack_symbols(marks, self._spread, packed)
        return packed


class Tiles:
    """Draws the symbols of all positions, from words that the loop makes itself."""

    def __init__(self, channel: Any, first_block: int, source: BlockSource, loops: Any) -> None:
        self._loops, self._schedule = loops, source.schedule
        self._ends = np.ascontiguousarray(channel.slice_ends, np.uint64)
        self._facts = source.first + first_block, channel.positions, channel.silent, self._ends
        self._groups, self._cells = -(-channel.positions // 32), self._ends.shape[1]
        self._pack = _Packer(self._cells, loops)

    def __call__(self, addresses: Words, states: np.ndarray, out: Bits) -> None:
        """Write the packed cells of people in these states."""
        several = self._cells > 1
        shape = self._cells, len(addresses) if several else 0, self._groups
        marks, own = np.empty(shape, np.uint32), np.ascontiguousarray(addresses, np.uint32)
        self._loops.draw_tiles(own, self._schedule, *self._facts, states, marks, out)
        if several:
            out[:] = self._pack(marks)[:, : out.shape[1]]


class Planes:
    """Draws the symbols of all positions, from the planes that decide them."""

    def __init__(self, channel: Any, first_block: int, coins: Coins, loops: Any) -> None:
        self._loops, self._coins = loops, coins
        self._ends = np.ascontiguousarray(channel.slice_ends, np.uint64)
        self._facts = channel.positions, channel.silent, self._ends
        self._groups = -(-channel.positions // 32)
        self._numbers = first_block + np.arange(self._groups, dtype=np.uint32) * _GROUP_BLOCKS
        last = -(-(channel.positions - 32 * (self._groups - 1)) // WORDS_PER_BLOCK)
        self._last = min(last, loops.AT_FIRST)
        self._pack = _Packer(self._ends.shape[1], loops)
        self._plain, self._room = _rooms(min(GROUPS, self._groups) * loops.AT_FIRST * PEOPLE)

    def __call__(self, addresses: Words, states: np.ndarray, out: Bits) -> None:
        """Write the packed cells of people in these states."""
        count = len(addresses)
        marks = np.empty((self._ends.shape[1], count, self._groups), np.uint32)
        who, where = np.empty((2, count * (self._groups + 1)), np.uint32)
        undecided = 0
        positions, silent, ends = self._facts
        for group in range(0, self._groups, GROUPS):
            words = self._first_words(addresses, group)
            groups, open_places = min(GROUPS, self._groups - group), (who, where)
            whole = min(groups, positions // 32 - group) if len(marks) == 1 else 0
            run = words, group, whole
            undecided = self._loops.draw_one_end(*run, ends[0, 0], marks[0], *open_places, undecided)
            run = words[whole * self._loops.AT_FIRST :], group + whole, groups - whole
            undecided = self._loops.draw_planes(*run, positions, ends[0], marks, *open_places, undecided)
            run = words, group, groups
            facts = positions, silent, ends, states, marks
            undecided = self._loops.mark_own(*run, *facts, *open_places, undecided)
        if undecided:
            self._finish(addresses, states, who[:undecided], where[:undecided], marks)
        out[:] = self._pack(marks)[:, : out.shape[1]]

    def _first_words(self, addresses: Words, group: int) -> Words:
        """The first blocks of some groups for everyone, ``(blocks, people, 4)``."""
        first = self._loops.AT_FIRST
        numbers = self._numbers[group : group + GROUPS, None] + np.arange(first, dtype=np.uint32)
        numbers = numbers.ravel()
        if group + GROUPS >= self._groups:
            numbers = numbers[: len(numbers) - first + self._last]
        size = len(numbers) * len(addresses)
        plain = self._plain[:size].reshape(len(numbers), len(addresses), WORDS_PER_BLOCK)
        first_addresses = None if group else addresses
        return self._coins.fill_at(first_addresses, numbers[:, None], plain, self._room)

    def _finish(
        self, addresses: Words, states: np.ndarray, who: np.ndarray, where: np.ndarray, marks: np.ndarray
    ) -> None:
        """Decide what the first planes left open."""
        plain, room = _rooms(len(who) * _GROUP_BLOCKS)
        plain = plain.reshape(len(who), _GROUP_BLOCKS, WORDS_PER_BLOCK)
        numbers = self._numbers[where][:, None] + np.arange(_GROUP_BLOCKS, dtype=np.uint32)
        words = self._coins.fill_at(addresses[who][:, None, :], numbers, plain, room)
        words = words.reshape(len(who), -1)
        self._loops.finish_planes(words, *self._facts, states, who, where, marks)


def _spread(cells: int) -> np.ndarray:
    """Each byte with its bits ``cells`` places apart."""
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    return (bits.astype(np.uint64) << (np.arange(8, dtype=np.uint64) * np.uint64(cells))).sum(
        axis=1, dtype=np.uint64
    )
