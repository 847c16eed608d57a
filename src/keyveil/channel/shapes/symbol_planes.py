"""Symbols from random words: by slices of a word, and bit by bit for all people at once."""

from __future__ import annotations

import numpy as np

from ...foundation.arrays import Bits, Words
from ...foundation.stream import Stream

GROUP = 32


def symbols_at(numbers: np.ndarray, slices: np.ndarray) -> Bits:
    """The symbol of the first slice whose end is above the number; 0 if there is none."""
    if len(slices) == 1:
        return (numbers < slices[0]).astype(np.uint8)
    number = np.searchsorted(slices, numbers, side="right") + 1
    return np.where(number > len(slices), 0, number).astype(np.uint8)


def below_by_planes(end: int, stream: Stream, first: int, people: int) -> Words:
    """For each person a word of 32 bits: is the number of each position below ``end``?

    Planes are read eight at a time, and only for people with an undecided position. After eight planes
    one group in eight is left.
    """
    below = np.zeros(people, np.uint32)
    open_ = np.full(people, 0xFFFFFFFF, np.uint32)
    rows = np.arange(people)
    for start in range(0, 32, 8):
        planes = stream.words(first + start, 8, None if start == 0 else rows)
        less, undecided = below[rows], open_[rows]
        for j in range(8):
            if end >> (31 - start - j) & 1:
                less |= undecided & ~planes[:, j]
                undecided &= planes[:, j]
            else:
                undecided &= ~planes[:, j]
        below[rows], open_[rows] = less, undecided
        rows = rows[undecided != 0]
        if not len(rows):
            break
    return below


def unplane(words: Words, size: int) -> np.ndarray:
    """The numbers of ``size`` positions from the bit planes of as many words."""
    raw = np.ascontiguousarray(words).astype("<u4", copy=False).view(np.uint8)
    planes = np.unpackbits(raw, axis=1, bitorder="little").reshape(len(words), 32, size)
    weights = (np.uint64(1) << np.arange(31, -1, -1, dtype=np.uint64))[None, :, None]
    return (planes * weights).sum(axis=1, dtype=np.uint64)
