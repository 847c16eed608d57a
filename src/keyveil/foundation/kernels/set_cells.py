"""The cell of a seed that is named for a set of items, a run of people at a time.

The cells that items occupy are bits of two words for each person. Each step is a loop over the people of
a run, so that many people are done in one instruction. Seeds of more than 128 cells are done one person
at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import ABOVE, U, alone, bit_place, jit, set_bits
from .set_items import NONE, RUN

W = np.uint32
FEW = 128
"""Cells whose marks are two words."""
MOST_COMPARED = 12
"""Claims that are compared with each other; of more, the best of each pair of cells is written down."""
ROW = RUN + 8
"""The distance of rows for a run of people: a power of two would put all into one part of the cache."""


@jit
def _mixed(number: Any) -> Any:
    """``hash.mixed`` of one word, in 32 bits throughout, so that several are mixed at once."""
    word = W(number ^ (number >> W(16)))
    word = W(word * W(0x7FEB352D))
    word = W(word ^ (word >> W(15)))
    word = W(word * W(0x846CA68B))
    return W(word ^ (word >> W(16)))


@jit
def _word(base: Any, item: Any) -> Any:
    """The word of an item under a seed whose mixed number is ``base``."""
    return _mixed(W(base ^ _mixed(W(item + W(0x9E3779B9)))))


@jit
def _bit_of_two(first: Any, second: Any, number: Any) -> Any:
    """Whether the set bit with this number in two words is in the second, and its place there."""
    count = set_bits(first)
    beyond = U(number >= count)  # a branch would be guessed wrong
    bits = first ^ ((first ^ second) & (U(0) - beyond))
    return beyond, bit_place(bits, number - beyond * count)


@jit
def _bit(marks: Any, number: Any, flip: Any) -> Any:
    """The position of the bit with this number among the set bits (``flip`` 0) or the others."""
    at = U(0)
    while True:
        bits = marks[at] ^ flip
        count = set_bits(bits)
        if number < count:
            break
        number -= count
        at += U(1)
    return U(64) * at + bit_place(bits, number)


@jit
def _inverses(laws: Any) -> Any:
    """For ``_number``: inverses of weight + 1 and of weight, and the rest, a row each."""
    more, less = ABOVE / (laws[:, 0] + 1.0), ABOVE / laws[:, 0].astype(np.float64)
    return more, less, laws[:, 1].astype(np.float64)


@jit
def _number(over: Any, law: Any, count: Any) -> Any:
    """The slice that holds ``over``. The first ``rest`` have ``weight + 1`` words, others ``weight``."""
    more, less, rest = law
    wide = np.float64(np.int64(over))
    return U(np.int64(max(wide * more[count], (wide - rest[count]) * less[count])))


@jit
def _seeds(
    words: Any, column: Any, at: Any, size: Any, salt: Any, pool: Any, seeds: Any, bases: Any
) -> None:
    """Each person's seed, and its mixed number."""
    alone()
    for p in range(size):
        seeds[p] = W((U(words[at + p, column]) * pool) >> U(32))
        bases[p] = _mixed(W(seeds[p] ^ W(salt)))


@jit
def _mark(
    items: Any, i: Any, at: Any, size: Any, bases: Any, small: Any, first: Any, second: Any
) -> None:
    """Mark the cell of everyone's i-th item in two words."""
    alone()
    for p in range(size):
        item = items[i, at + p]
        cell = (U(_word(bases[p], item)) * small) >> U(32)
        bit, beyond = U(item != NONE) << (cell & U(63)), U(0) - (cell >> U(6))
        first[p] |= bit & ~beyond
        second[p] |= bit & beyond


@jit
def name_collision(
    words: Any,
    column: int,
    items: Any,
    salt: int,
    pool: int,
    small: int,
    high: int,
    lows: Any,
    out: Any,
) -> None:
    """``Collision.draw``: a seed, and a cell of it; ``lows[j]``: weight and rest of the empty cells."""
    people, cells, weight = U(words.shape[0]), U(small), U(high)
    law, by_high, none, naming = _inverses(lows), ABOVE / np.float64(high), U(0), U(column + 1)
    seeds, bases = np.empty(RUN, np.uint32), np.empty(RUN, np.uint32)
    first, second = np.empty(RUN, np.uint64), np.empty(RUN, np.uint64)
    hashed, marks = np.empty((len(items), ROW), np.uint32), np.zeros((small + 63) // 64, np.uint64)
    for at in range(U(0), people, U(RUN)):
        size = min(U(RUN), people - at)
        _seeds(words, U(column), at, size, salt, U(pool), seeds, bases)
        if small > FEW:
            for i in range(U(items.shape[0])):
                _hash(items, i, at, size, bases, cells, hashed)
            _name_of_many(words[at:, naming], size, seeds, hashed, (cells, weight, law), marks, out[at:])
            continue
        first[:], second[:] = U(0), U(0)
        for i in range(U(items.shape[0])):
            _mark(items, i, at, size, bases, cells, first, second)
        for p in range(size):
            one, two = first[p], second[p]
            count, word = set_bits(one) + set_bits(two), U(words[at + p, naming])
            own = count * weight
            free = none - U(word >= own)  # all ones if the cell is one of the others
            number = U(np.int64(np.float64(np.int64(word)) * by_high))
            number ^= (number ^ _number((word - own) & free, law, count)) & free
            beyond, bit = _bit_of_two(one ^ free, two ^ free, number)
            out[at + p] = U(seeds[p]) * cells + U(64) * beyond + bit


@jit
def _hash(items: Any, i: Any, at: Any, size: Any, bases: Any, small: Any, hashed: Any) -> None:
    """The cell of everyone's i-th item, and ``small`` where there is none."""
    alone()
    for p in range(size):
        item = items[i, at + p]
        cell = (U(_word(bases[p], item)) * small) >> U(32)
        hashed[i, p] = cell if item != NONE else small


@jit
def _name_of_many(
    words: Any, size: Any, seeds: Any, hashed: Any, facts: Any, marks: Any, out: Any
) -> None:
    """Everyone's cell of a seed that has many; ``marks`` are zeros, and are left so."""
    small, high, law = facts
    for p in range(size):
        count, word = U(0), U(words[p])
        for i in range(U(hashed.shape[0])):
            cell = U(hashed[i, p])
            own = U(cell < small)
            marks[(cell >> U(6)) * own] |= own << (cell & U(63))
        for j in range(U(len(marks))):
            count += set_bits(marks[j])
        if word < count * high:
            cell = _bit(marks, word // high, U(0))
        else:
            cell = _bit(marks, _number(word - count * high, law, count), ~U(0))
        for j in range(U(len(marks))):
            marks[j] = U(0)
        out[p] = U(seeds[p]) * small + cell


@jit
def _claim(
    words: Any, column: Any, items: Any, i: Any, run: Any, bases: Any, small: Any, claims: Any
) -> None:
    """Everyone's i-th claim: its pair of cells, rank, whether it is above, and whether it is high."""
    alone()
    at, size = run
    half = small >> U(1)
    for p in range(size):
        item = items[i, at + p]
        own = _word(bases[p], W(item >> W(1)))  # a dummy is a word of its own
        word = own if item != NONE else words[at + p, column + i]
        scaled = U(word) * small
        cell = scaled >> U(32)
        upper = U(cell >= half)
        claim = ((scaled & U(0xFFFFFFFF)) << U(2)) | (upper << U(1)) | U(item & W(1))
        claims[i, p] = ((cell - upper * half) << U(34)) | claim


@jit
def _beat(i: Any, j: Any, size: Any, claims: Any, lost: Any) -> None:
    """Of two claims to one pair of cells the one with the higher rank is lost."""
    alone()
    for p in range(size):
        one, two = claims[i, p], claims[j, p]
        same = U((one ^ two) < U(1 << 34))
        lost[i, p] |= same & U(one > two)
        lost[j, p] |= same & U(two > one)


@jit
def _settle(i: Any, size: Any, claims: Any, lost: Any, lower: Any, upper: Any) -> None:
    """Mark the cell of everyone's i-th claim if it stands, by the number of its pair."""
    alone()
    for p in range(size):
        claim = claims[i, p]
        bit = (U(1) - lost[i, p]) << (claim >> U(34))
        above = U(0) - (((claim >> U(1)) ^ claim ^ U(1)) & U(1))
        upper[p] |= bit & above
        lower[p] |= bit & ~above


@jit
def name_coco(
    words: Any,
    column: int,
    items: Any,
    salt: int,
    pool: int,
    small: int,
    high: int,
    low: int,
    lefts: Any,
    out: Any,
) -> None:
    """``CoCo.draw``: of several claims to a pair the one with the lowest rank stands."""
    people, cells, held, half = U(words.shape[0]), U(small), U(items.shape[0]), U(small // 2)
    law, by_high, by_low = _inverses(lefts), ABOVE / np.float64(high), ABOVE / np.float64(low)
    seeds, bases, naming = np.empty(RUN, np.uint32), np.empty(RUN, np.uint32), U(column + 1)
    claims, lost = np.empty((len(items), ROW), np.uint64), np.empty((len(items), ROW), np.uint64)
    lower, upper = np.empty(RUN, np.uint64), np.empty(RUN, np.uint64)
    claimed, taken = np.zeros((small + 63) // 64, np.uint64), np.zeros((small + 127) // 128, np.uint64)
    best, none, own_high, own_low = np.full(small // 2, ~U(0), np.uint64), U(0), U(high), U(low)
    every = ~none >> (U(64) - min(half, U(64)))
    for at in range(U(0), people, U(RUN)):
        size = min(U(RUN), people - at)
        _seeds(words, U(column), at, size, salt, U(pool), seeds, bases)
        for i in range(held):
            _claim(words, U(column + 2), items, i, (at, size), bases, cells, claims)
        if small > FEW or held > U(MOST_COMPARED):
            facts = cells, own_high, own_low, law
            _name_of_many_pairs(
                words[at:, naming], size, seeds, claims, facts, (best, taken, claimed), out[at:]
            )
            continue
        lost[:], lower[:], upper[:] = none, none, none
        for i in range(held):
            for j in range(i):
                _beat(i, j, size, claims, lost)
        for i in range(held):
            _settle(i, size, claims, lost, lower, upper)
        for p in range(size):
            one, two, word = lower[p], upper[p], U(words[at + p, naming])
            count = set_bits(one | two)
            own, both = count * own_high, count * (own_high + own_low)
            mirrored = none - U(word >= own)  # all ones unless the cell is a claimed one
            free = none - U(word >= both)
            number = U(np.int64(np.float64(np.int64(word)) * by_high))
            other = U(np.int64(np.float64(np.int64((word - own) & mirrored)) * by_low))
            number ^= (number ^ other) & mirrored
            other = _number((word - both) & free, law, count)
            number ^= (number ^ other) & free
            left = every & ~(one | two)
            one ^= (one ^ left) & free
            two ^= (two ^ left) & free
            beyond, bit = _bit_of_two(one, two, number)
            beyond ^= mirrored & ~free & U(1)
            out[at + p] = U(seeds[p]) * cells + half * beyond + bit


@jit
def _name_of_many_pairs(
    words: Any, size: Any, seeds: Any, claims: Any, facts: Any, marks: Any, out: Any
) -> None:
    """Everyone's cell of a seed that has many, or for which many claims are made.

    ``marks`` are the best claim of each pair, all ones, and the pairs that are taken and the cells that
    are claimed, zeros; they are left so.
    """
    small, high, low, law = facts
    best, taken, claimed = marks
    half, none, every, held = small >> U(1), U(0), ~U(0), U(claims.shape[0])
    for p in range(size):
        count, word = none, U(words[p])
        for i in range(held):
            pair = claims[i, p] >> U(34)
            best[pair] = min(best[pair], claims[i, p])
            taken[pair >> U(6)] |= U(1) << (pair & U(63))
        for i in range(held):
            claim = claims[i, p]
            pair = claim >> U(34)
            cell = pair + half * (((claim >> U(1)) ^ claim ^ U(1)) & U(1))
            claimed[cell >> U(6)] |= U(best[pair] == claim) << (cell & U(63))
        for i in range(held):
            best[claims[i, p] >> U(34)] = every
        for j in range(U(len(taken))):
            count += set_bits(taken[j])
        own, both = count * high, count * (high + low)
        if word < own:
            cell = _bit(claimed, word // high, none)
        elif word < both:
            cell = _bit(claimed, (word - own) // low, none)
            cell = cell + half if cell < half else cell - half
        else:
            number = _number(word - both, law, count)
            above = U(number >= half - count)
            cell = above * half + _bit(taken, number - above * (half - count), every)
        for j in range(U(len(claimed))):
            claimed[j] = none
        for j in range(U(len(taken))):
            taken[j] = none
        out[p] = U(seeds[p]) * small + cell
