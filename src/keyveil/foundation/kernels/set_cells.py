"""Sets of items: which are kept, and the cell of a seed that is named for them.

The cells that items occupy are bits of a few words. Bits are cheaper to keep in order than numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import U, jit, lowest_bit, set_bits


@jit
def encode_items(
    words: Any,
    cap: int,
    starts: Any,
    keys: Any,
    values: Any,
    low: Any,
    high: Any,
    items: Any,
    counts: Any,
) -> None:
    """Up to ``cap`` signed keys of each person, by Floyd's method: ``counts[p]`` items in row p.

    If rows have more than ``cap`` columns, each pair of kept keys follows as one more item.
    """
    chosen = np.empty(cap, np.uint64)
    most, d = U(cap), U(len(low))
    for p in range(U(words.shape[0])):
        first = U(starts[p])
        held = U(starts[p + U(1)]) - first
        kept = min(held, most)
        seen = U(0)
        for i in range(kept):
            last = held - kept + i
            number: Any = i
            if held > most:
                number = (U(words[p, U(1) + i]) * (last + U(1))) >> U(32)
                taken = False
                if held <= U(64):
                    taken = (seen >> number) & U(1) != U(0)
                else:
                    for j in range(i):
                        taken |= chosen[j] == number
                number = last if taken else number
                seen |= U(1) << (number & U(63))
            chosen[i] = number
            key = U(keys[first + number])
            up = np.floor((values[first + number] - low[key]) / (high[key] - low[key]) * 4294967296.0)
            items[p, i] = U(2) * key + U(np.float64(words[p, U(1) + most + i]) < up)
        count = kept
        if U(items.shape[1]) > most:
            for i in range(kept):
                for j in range(i):
                    a = min(U(items[p, i]), U(items[p, j]))
                    b = max(U(items[p, i]), U(items[p, j]))
                    key, other = a >> U(1), b >> U(1)
                    rank = key * (U(2) * d - key - U(1)) // U(2) + other - key - U(1)
                    items[p, count] = U(2) * d + U(4) * rank + U(2) * (a & U(1)) + (b & U(1))
                    count += U(1)
        counts[p] = count


@jit
def _mixed(number: Any) -> Any:
    """``hash.mixed`` of one 32-bit word."""
    ones = U(0xFFFFFFFF)
    word = number ^ (number >> U(16))
    word = (word * U(0x7FEB352D)) & ones
    word ^= word >> U(15)
    word = (word * U(0x846CA68B)) & ones
    return word ^ (word >> U(16))


@jit
def _word(base: Any, item: Any) -> Any:
    """The word of an item under a seed whose mixed number is ``base``."""
    return _mixed(base ^ _mixed((U(item) + U(0x9E3779B9)) & U(0xFFFFFFFF)))


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
    for _ in range(number):
        bits &= bits - U(1)
    return at * U(64) + lowest_bit(bits)


@jit
def _number(over: Any, weight: Any, rest: Any) -> Any:
    """The slice that holds ``over``. The first ``rest`` have ``weight + 1`` words, others ``weight``."""
    heavy = rest * (weight + U(1))
    return over // (weight + U(1)) if over < heavy else rest + (over - heavy) // weight


@jit
def name_collision(
    words: Any,
    column: int,
    items: Any,
    counts: Any,
    salt: int,
    pool: int,
    small: int,
    high: int,
    lows: Any,
    out: Any,
) -> None:
    """``Collision.draw``: a seed, and a cell of it; ``lows[j]``: weight and rest of the empty cells."""
    marks = np.zeros((small + 63) // 64, np.uint64)
    cells = np.empty(items.shape[1], np.uint64)
    none, all_ = U(0), ~U(0)
    for p in range(U(words.shape[0])):
        seed = (U(words[p, U(column)]) * U(pool)) >> U(32)
        base = _mixed(seed ^ U(salt))
        for i in range(U(counts[p])):
            cells[i] = (_word(base, items[p, i]) * U(small)) >> U(32)
        for i in range(U(counts[p])):
            marks[cells[i] >> U(6)] |= U(1) << (cells[i] & U(63))
        count = U(0)
        for j in range(U(len(marks))):
            count += set_bits(marks[j])
        word, own = U(words[p, U(column + 1)]), count * U(high)
        if word < own:
            cell = _bit(marks, word // U(high), none)
        else:
            number = _number(word - own, U(lows[count, U(0)]), U(lows[count, U(1)]))
            cell = _bit(marks, number, all_)
        for j in range(U(len(marks))):
            marks[j] = U(0)
        out[p] = seed * U(small) + cell


@jit
def name_coco(
    words: Any,
    column: int,
    items: Any,
    counts: Any,
    salt: int,
    pool: int,
    small: int,
    high: int,
    low: int,
    lefts: Any,
    out: Any,
) -> None:
    """``CoCo.draw``: of several claims to a pair the one with the lowest rank stands."""
    held, half = U(items.shape[1]), U(small // 2)
    claimed, taken = np.zeros((2, (small + 63) // 64), np.uint64)
    whose, best = np.zeros(small // 2, np.int64), np.empty(small // 2, np.uint64)
    pairs = np.empty(items.shape[1], np.uint64)
    none, all_ = U(0), ~U(0)
    for p in range(U(words.shape[0])):
        seed = (U(words[p, U(column)]) * U(pool)) >> U(32)
        base = _mixed(seed ^ U(salt))
        count = U(0)
        for i in range(held):
            up, own = U(1), U(words[p, U(column + 2) + i])
            if i < U(counts[p]):
                up, own = U(items[p, i]) & U(1), _word(base, U(items[p, i]) >> U(1))
            own *= U(small)
            cell = own >> U(32)
            upper = U(cell >= half)
            pair = cell - upper * half
            claim = ((own & U(0xFFFFFFFF)) << U(2)) | (upper << U(1)) | up
            if whose[pair] != p + U(1):
                whose[pair] = p + U(1)
                pairs[count] = pair
                count += U(1)
                best[pair] = claim
            elif claim < best[pair]:
                best[pair] = claim
        for j in range(count):
            pair = pairs[j]
            claim = best[pair]
            cell = pair + half * (((claim >> U(1)) & U(1)) ^ (U(1) - (claim & U(1))))
            claimed[cell >> U(6)] |= U(1) << (cell & U(63))
            taken[pair >> U(6)] |= U(1) << (pair & U(63))
            taken[(pair + half) >> U(6)] |= U(1) << ((pair + half) & U(63))
        word, own, both = U(words[p, U(column + 1)]), count * U(high), count * U(high + low)
        if word < own:
            cell = _bit(claimed, word // U(high), none)
        elif word < both:
            cell = _bit(claimed, (word - own) // U(low), none)
            cell = cell + half if cell < half else cell - half
        else:
            number = _number(word - both, U(lefts[count, U(0)]), U(lefts[count, U(1)]))
            cell = _bit(taken, number, all_)
        for j in range(U(len(claimed))):
            claimed[j] = U(0)
            taken[j] = U(0)
        out[p] = seed * U(small) + cell
