"""Sets of items: which are kept, and the cell of a seed that is named for them.

The cells that items occupy are bits of a few words. Bits are cheaper to keep in order than numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import U, jit, lowest_bit, set_bits

W = np.uint32


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
    chosen, own, as_first, as_second = np.empty((4, cap), np.uint64)
    most, d = U(cap), U(len(low))
    earlier, later = np.empty((2, cap * (cap - 1) // 2), np.uint64)
    for i in range(cap):
        for j in range(i):
            earlier[i * (i - 1) // 2 + j], later[i * (i - 1) // 2 + j] = j, i
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
                taken = U(0)
                if held <= U(64):
                    taken = (seen >> number) & U(1)
                else:
                    for j in range(i):
                        taken |= U(chosen[j] == number)
                number += taken * (last - number)  # a branch would be guessed wrong too often
                seen |= U(1) << (number & U(63))
            chosen[i] = number
            key = U(keys[first + number])
            up = np.floor((values[first + number] - low[key]) / (high[key] - low[key]) * 4294967296.0)
            own[i] = U(2) * key + U(np.float64(words[p, U(1) + most + i]) < up)
            items[p, i] = own[i]
        count = kept
        if U(items.shape[1]) > most:
            for i in range(kept):  # what the lower and the higher key of a pair add to its item
                key, sign = own[i] >> U(1), own[i] & U(1)
                rank = ((key * (U(2) * d - key - U(1))) >> U(1)) - key - U(1)
                as_first[i] = U(2) * d + U(4) * rank + U(2) * sign
                as_second[i] = U(4) * key + sign
            both = (kept * (kept - U(1))) >> U(1)
            for k in range(both):
                i, j = later[k], earlier[k]
                forward, back = as_first[i] + as_second[j], as_first[j] + as_second[i]
                items[p, count + k] = forward if own[i] < own[j] else back
            count += both
        counts[p] = count


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
def _bit_of(bits: Any, number: Any) -> Any:
    """The position of the set bit with this number in a word."""
    at = U(0)
    for width in (U(32), U(16), U(8), U(4), U(2), U(1)):  # in the lower half, or beyond it?
        count = set_bits(bits & ((U(1) << width) - U(1)))
        beyond = U(number >= count)
        number -= beyond * count
        at += beyond * width
        bits >>= beyond * width
    return at


@jit
def _bit_of_two(first: Any, second: Any, number: Any) -> Any:
    """The position of the set bit with this number in two words. A branch would be guessed wrong."""
    count = set_bits(first)
    beyond = U(number >= count)
    bits = first ^ ((first ^ second) & (U(0) - beyond))
    return U(64) * beyond + _bit_of(bits, number - beyond * count)


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
    return U(64) * at + _bit_of(bits, number)


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
    own_words = np.empty(items.shape[1], np.uint32)
    none, all_ = U(0), ~U(0)
    for p in range(U(words.shape[0])):
        seed = (U(words[p, U(column)]) * U(pool)) >> U(32)
        base = _mixed(W(seed ^ U(salt)))
        for i in range(U(counts[p])):
            own_words[i] = _word(base, items[p, i])
        word, own = U(words[p, U(column + 1)]), U(0)
        if small <= 128:  # two words in registers: marks in memory would wait for each other
            first, second = U(0), U(0)
            for i in range(U(counts[p])):
                cell = (U(own_words[i]) * U(small)) >> U(32)
                bit, beyond = U(1) << (cell & U(63)), none - (cell >> U(6))
                first |= bit & ~beyond
                second |= bit & beyond
            count = set_bits(first) + set_bits(second)
            own = count * U(high)
            free = none - U(word >= own)  # all ones if the cell is one of the others
            other = _number((word - own) & free, U(lows[count, U(0)]), U(lows[count, U(1)]))
            number = word // U(high)
            number ^= (number ^ other) & free
            cell = _bit_of_two(first ^ free, second ^ free, number)
            out[p] = seed * U(small) + cell
            continue
        for i in range(U(counts[p])):
            cell = (U(own_words[i]) * U(small)) >> U(32)
            marks[cell >> U(6)] |= U(1) << (cell & U(63))
        count = U(0)
        for j in range(U(len(marks))):
            count += set_bits(marks[j])
        own = count * U(high)
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
    claimed, taken = np.zeros((small + 63) // 64, np.uint64), np.zeros((small + 127) // 128, np.uint64)
    best = np.full(small // 2, ~U(0), np.uint64)
    own_words, ups = np.empty((2, items.shape[1]), np.uint32)
    none, all_ = U(0), ~U(0)
    for p in range(U(words.shape[0])):
        seed = (U(words[p, U(column)]) * U(pool)) >> U(32)
        base = _mixed(W(seed ^ U(salt)))
        for i in range(U(counts[p])):
            own_words[i], ups[i] = _word(base, W(items[p, i] >> W(1))), items[p, i] & W(1)
        for i in range(U(counts[p]), held):
            own_words[i], ups[i] = words[p, U(column + 2) + i], W(1)
        for i in range(held):
            scaled = U(own_words[i]) * U(small)
            cell = scaled >> U(32)
            upper = U(cell >= half)
            pair = cell - upper * half
            claim = ((scaled & U(0xFFFFFFFF)) << U(2)) | (upper << U(1)) | U(ups[i])
            best[pair] = min(best[pair], claim)
            taken[pair >> U(6)] |= U(1) << (pair & U(63))
        count = U(0)
        for j in range(U(len(taken))):
            bits = taken[j]
            count += set_bits(bits)
            while bits:
                pair = j * U(64) + lowest_bit(bits)
                bits &= bits - U(1)
                claim = best[pair]
                best[pair] = all_
                cell = pair + half * (((claim >> U(1)) & U(1)) ^ (U(1) - (claim & U(1))))
                claimed[cell >> U(6)] |= U(1) << (cell & U(63))
        word, own, both = U(words[p, U(column + 1)]), count * U(high), count * U(high + low)
        if word < own:
            cell = _bit(claimed, word // U(high), none)
        elif word < both:
            cell = _bit(claimed, (word - own) // U(low), none)
            cell = cell + half if cell < half else cell - half
        else:
            number = _number(word - both, U(lefts[count, U(0)]), U(lefts[count, U(1)]))
            upper = U(number >= half - count)
            cell = upper * half + _bit(taken, number - upper * (half - count), all_)
        for j in range(U(len(claimed))):
            claimed[j] = U(0)
        for j in range(U(len(taken))):
            taken[j] = U(0)
        out[p] = seed * U(small) + cell
