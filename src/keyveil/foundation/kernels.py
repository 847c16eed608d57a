"""Compiled loops over arrays; only ``compiled`` imports them.

Indices are unsigned, so that the compiler leaves out the check for negative ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

__all__ = [
    "LANES",
    "collide",
    "collide_signed",
    "count",
    "draw_bits",
    "draw_coco",
    "draw_collision",
    "find_held",
    "find_rest",
    "pick_and_draw",
    "pick_items",
    "redraw_held",
    "round_held",
    "walk",
]

_jit: Any = njit(cache=True, nogil=True)
_inline: Any = intrinsic
U = np.uint64

LANES = 16
"""Keys of a person that are compared at once."""


@_jit
def count(codes: Any, seen: Any) -> bool:
    """Count codes in ``seen``; returns False if a code is outside.

    There are four tables, so that runs of equal codes do not wait for each other's stores.
    """
    size = U(len(seen))
    parts = np.zeros((4, len(seen)), np.int64)
    whole = U(len(codes)) & ~U(3)
    for i in range(U(0), whole, U(4)):
        a, b, c, d = U(codes[i]), U(codes[i + U(1)]), U(codes[i + U(2)]), U(codes[i + U(3)])
        if a >= size or b >= size or c >= size or d >= size:
            return False
        parts[U(0), a] += 1
        parts[U(1), b] += 1
        parts[U(2), c] += 1
        parts[U(3), d] += 1
    for i in range(whole, U(len(codes))):
        a = U(codes[i])
        if a >= size:
            return False
        parts[U(0), a] += 1
    for j in range(size):
        seen[j] += parts[U(0), j] + parts[U(1), j] + parts[U(2), j] + parts[U(3), j]
    return True


@_inline
def _equal_lanes(typing: Any, keys: Any, first: Any, key: Any) -> Any:
    """Bit j is set if ``keys[first + j] == key``, for LANES keys of a contiguous array."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, values[0])
        lane, index = context.get_value_type(signature.args[2]), ir.IntType(32)
        lanes = ir.VectorType(lane, LANES)
        start = builder.gep(array.data, [values[1]])
        loaded = builder.load(builder.bitcast(start, lanes.as_pointer()), align=1)
        blank = ir.Constant(lanes, ir.Undefined)
        first_lane = builder.insert_element(blank, values[2], ir.Constant(index, 0))
        every_lane = ir.Constant(ir.VectorType(index, LANES), [0] * LANES)
        wanted = builder.shuffle_vector(first_lane, blank, every_lane)
        equal = builder.icmp_unsigned("==", loaded, wanted)
        return builder.zext(builder.bitcast(equal, ir.IntType(LANES)), ir.IntType(64))

    return types.uint64(keys, types.uint64, keys.dtype), build


@_inline
def _lowest_bit(typing: Any, bits: Any) -> Any:
    """The position of the lowest set bit; 64 if there is none."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.cttz(values[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), build


@_jit
def pick_and_draw(words: Any, column: int, views: int, ends: Any, out: Any) -> None:
    """Pick each person's key, all equally likely, and draw its code as if the key were not held.

    ``ends`` is a tuple of the slice ends of state 0. Its slices are in the order of outputs.
    """
    width = U(len(ends) + 1)
    for p in range(U(words.shape[0])):
        word = words[p, U(column)]
        slot = U(0)
        for end in ends:
            slot += U(word >= end)
        out[p] = ((U(words[p, U(0)]) * U(views)) >> U(32)) * width + slot


@_jit
def find_held(words: Any, starts: Any, keys: Any, views: int, inside: int, who: Any, row: Any) -> Any:
    """Write down who of the first ``inside`` people holds the picked key, and its row of the table.

    The first LANES keys of each record are compared at once, so the table must have as many more rows.
    Returns the number of holders, and the length of the longest record. Every person is written down,
    and the next one overwrites a person who does not hold the key, which saves a branch.
    """
    holders, most = U(0), U(0)
    for p in range(U(inside)):
        key = (U(words[p, U(0)]) * U(views)) >> U(32)
        first = U(starts[p])
        size = U(starts[p + U(1)]) - first
        most = max(most, size)
        own = (U(1) << min(size, U(LANES))) - U(1)
        bits = _equal_lanes(keys, first, keys.dtype.type(key)) & own
        who[holders] = p
        row[holders] = first + _lowest_bit(bits)
        holders += U(bits != U(0))
    return holders, most


@_jit
def find_rest(
    words: Any,
    starts: Any,
    keys: Any,
    views: int,
    begin: int,
    inside: int,
    holders: int,
    who: Any,
    row: Any,
) -> Any:
    """The rest of ``find_held``: long records, from person ``begin`` on, and people not inside."""
    held = U(holders)
    for p in range(U(begin), U(words.shape[0])):
        key = (U(words[p, U(0)]) * U(views)) >> U(32)
        first = U(starts[p]) + (U(LANES) if p < U(inside) else U(0))
        hit = U(0)
        for r in range(first, U(starts[p + U(1)])):  # no early exit: a branch costs more
            hit |= U(keys[r] == keys.dtype.type(key)) * (r + U(1) - first)
        who[held] = p
        row[held] = first + hit - U(1)
        held += U(hit != U(0))
    return held


@_jit
def round_held(
    words: Any,
    keys: Any,
    values: Any,
    low: Any,
    high: Any,
    levels: int,
    holders: int,
    who: Any,
    row: Any,
    room: Any,
    states: Any,
) -> None:
    """The state of each holder, with the operations of ``Schema.rounded`` in the same order."""
    for i in range(U(holders)):  # a loop of its own, so that many reads from memory overlap
        room[i] = values[row[i]]
    steps, top = np.float64(levels - 1), np.float64(max(levels - 2, 0))
    for i in range(U(holders)):
        key = U(keys[row[i]])
        at = (room[i] - low[key]) / (high[key] - low[key]) * steps
        below = min(np.floor(at), top)
        up = np.float64(words[who[i], U(1)]) < np.floor((at - below) * 4294967296.0)
        states[i] = U(np.int64(below)) + U(1) + U(up)


@_jit
def redraw_held(
    words: Any,
    column: int,
    views: int,
    ends: Any,
    order: Any,
    holders: int,
    who: Any,
    states: Any,
    out: Any,
) -> None:
    """Redraw for the people who hold their key, from their state and the same word.

    ``ends[state]`` are the slice ends of a state, ``order[state]`` the outputs of its slices.
    """
    slots, width = U(ends.shape[1]), U(order.shape[1])
    for i in range(U(holders)):
        p, state = U(who[i]), U(states[i])
        word = U(words[p, U(column)])
        slot = U(0)
        for j in range(slots):
            slot += U(word >= ends[state, j])
        key = (U(words[p, U(0)]) * U(views)) >> U(32)
        out[p] = key * width + order[state, slot]


@_jit
def pick_items(words: Any, starts: Any, keys: Any, states: Any) -> None:
    """One held key of each person, all equally likely: 1 + its place, or 0 if none is held."""
    for p in range(U(words.shape[0])):
        first = U(starts[p])
        held = U(starts[p + U(1)]) - first
        if held:
            states[p] = U(1) + U(keys[first + ((U(words[p, U(1)]) * held) >> U(32))])
        else:
            states[p] = U(0)


@_jit
def walk(
    words: Any, column: int, states: Any, count: int, keep: int, lie: int, rest: int, out: Any
) -> None:
    """``Symmetric.draw``: below ``keep`` the state itself, above it a walk around the circle."""
    heavy = U(rest) * U(lie + 1)
    for p in range(U(words.shape[0])):
        word = U(words[p, U(column)])
        to = U(states[p])
        if word >= U(keep):
            over = word - U(keep)
            if over < heavy:
                to += over // U(lie + 1) + U(1)
            else:
                to += U(rest) + (over - heavy) // U(lie) + U(1)
            to -= U(count) if to >= U(count) else U(0)
        out[p] = to


@_jit
def _below(words: Any, p: Any, column: Any, size: Any, end: Any) -> Any:
    """Bit i is set if the number of a group's position i, which is in bit planes, is below ``end``."""
    less, same = U(0), (U(1) << size) - U(1)
    for j in range(U(32)):  # from the most significant plane on, until every position is decided
        at = j * size
        word, shift = column + (at >> U(5)), at & U(31)
        plane = U(words[p, word]) >> shift
        if shift + size > U(32):
            plane |= U(words[p, word + U(1)]) << (U(32) - shift)
        if (end >> (U(31) - j)) & U(1):
            less |= same & ~plane
            same &= plane
        else:
            same &= ~plane
        if same == U(0):
            break
    return less


@_jit
def draw_bits(
    words: Any, column: int, positions: int, silent: int, fake: int, show: int, states: Any, out: Any
) -> None:
    """``Symbols.draw`` for one-hot bits, 32 of them in a word of ``out``."""
    for p in range(U(words.shape[0])):
        marked = np.int64(states[p]) - silent
        for first in range(0, positions, 32):
            size, at = U(min(32, positions - first)), U(column + first)
            bits = _below(words, p, at, size, U(fake))
            if first <= marked < first + 32:
                own = U(1) << U(marked - first)
                bits = (bits & ~own) | (_below(words, p, at, size, U(show)) & own)
            out[p, first // 32] = bits


@_jit
def collide(hashes: Any, cells: int, total: Any) -> None:
    """Count for every two items, the later first, the rows in which they have the same cell."""
    newest, before = np.empty(cells, np.int64), np.empty(hashes.shape[1], np.int64)
    for seed in range(hashes.shape[0]):
        newest[:] = -1
        for item in range(hashes.shape[1]):
            cell = hashes[seed, item]
            other = newest[cell]
            while other >= 0:
                total[item, other] += 1.0
                other = before[other]
            before[item] = newest[cell]
            newest[cell] = item


@_jit
def collide_signed(cells: Any, half: int, survival: Any, together: Any, agree: Any, lent: Any) -> None:
    """Sum for every two keys over the rows in which their cells are the same or ``half`` apart.

    A row adds 1 to ``together``, +1 or -1 to ``agree`` (the later key first), and the same sign times
    the second key's entry of ``survival`` to ``lent``.
    """
    newest, before = np.empty(half, np.int64), np.empty(cells.shape[1], np.int64)
    for seed in range(cells.shape[0]):
        newest[:] = -1
        for key in range(cells.shape[1]):
            cell = cells[seed, key]
            pair = cell - half if cell >= half else cell
            other = newest[pair]
            while other >= 0:
                sign = 1.0 if cells[seed, other] == cell else -1.0
                together[key, other] += 1.0
                agree[key, other] += sign
                lent[key, other] += sign * survival[seed, other]
                lent[other, key] += sign * survival[seed, key]
                other = before[other]
            before[key] = newest[pair]
            newest[pair] = key


# -- simulation: people drawn from a table, with a generator of their own, for sets ------------------


@_jit
def _random(state: Any) -> Any:
    """64 random bits: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    state[0] += U(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> U(30))) * U(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> U(27))) * U(0x94D049BB133111EB)
    return z ^ (z >> U(31))


@_jit
def _mixed(number: Any) -> Any:
    """``hash.mixed`` of one 32-bit word."""
    ones = U(0xFFFFFFFF)
    word = number ^ (number >> U(16))
    word = (word * U(0x7FEB352D)) & ones
    word ^= word >> U(15)
    word = (word * U(0x846CA68B)) & ones
    return word ^ (word >> U(16))


@_jit
def _row(state: Any, person: Any, people: Any, once: bool, rows: Any, laws: int) -> Any:
    """The turn of a person's rounding, 0 without laws, and the person's row among ``rows``."""
    if laws:
        return (person // rows) * ((rows << U(32)) // people), person % rows
    if once:
        return U(0), person
    return U(0), U(np.float64(_random(state) >> U(11)) * (np.float64(rows) / 9007199254740992.0))


@_jit
def _number(over: Any, weight: Any, rest: Any) -> Any:
    """The slice that holds ``over``. The first ``rest`` have ``weight + 1`` words, others ``weight``."""
    heavy = rest * (weight + U(1))
    return over // (weight + U(1)) if over < heavy else rest + (over - heavy) // weight


@_jit
def _keep(state: Any, first: Any, held: Any, cap: Any, chosen: Any) -> Any:
    """Choose up to ``cap`` of a record's rows, all choices equally likely; returns their number."""
    kept = min(held, cap)
    if held <= cap:
        for i in range(kept):
            chosen[i] = first + i
        return kept
    for i in range(kept):  # Floyd's algorithm
        last = held - kept + i
        number = first + (((_random(state) >> U(32)) * (last + U(1))) >> U(32))
        for j in range(i):
            if chosen[j] == number:
                number = first + last
                break
        chosen[i] = number
    return kept


@_jit
def _other(number: Any, taken: Any, count: Any) -> Any:
    """The cell with this number among the cells that are not taken, in ascending order."""
    cell = number
    while True:
        below = U(0)
        for j in range(count):
            below += U(taken[j] <= cell)
        if number + below == cell:
            return cell
        cell = number + below


@_jit
def draw_collision(
    people: int,
    once: bool,
    starts: Any,
    keys: Any,
    ups: Any,
    cap: int,
    pairs: int,
    words: Any,
    salt: int,
    pool: int,
    small: int,
    high: int,
    lows: Any,
    seed: int,
    counts: Any,
    law: Any,
) -> None:
    """Draw reports of people from a table through ``Collision``, like the encoder and the sampler.

    Each person is drawn from all rows of the table, or the rows are taken ``once`` each, in order. If
    ``law`` is not empty, its shape is (pool, 1 + small) and no reports are drawn. The whole law of each
    person is added to the row of the seed: the weight of an empty cell to column 0, and what the
    person's own cells have in addition to theirs. Then the table is read several times, and a value is
    rounded up in its share of these times. ``ups`` are the thresholds below which a row's value is
    rounded up. ``words[item]`` are the mixed numbers of single items. ``pairs`` is the number of keys if
    pairs of them are items too, else 0. ``lows[j]`` are weight and rest of the empty cells if j cells
    have items.
    """
    state, most = np.array([seed], np.uint64), U(cap)
    chosen, items = np.empty(cap, np.uint64), np.empty(cap, np.uint64)
    taken = np.empty(cap * (cap + 1) // 2 if pairs else cap, np.uint64)
    marked = np.zeros(small, np.int64)
    d = U(pairs)
    for p in range(1, people + 1):
        turn, row = _row(state, U(p - 1), U(people), once, U(len(starts) - 1), len(law))
        first = U(starts[row])
        kept = _keep(state, first, U(starts[row + U(1)]) - first, most, chosen)
        base = _random(state)
        cell_word = base >> U(32)
        at = ((base & U(0xFFFFFFFF)) * U(pool)) >> U(32)
        base = _mixed(at ^ U(salt))
        count = U(0)
        bits = U(0)
        for i in range(kept):
            if i & U(1):
                bits >>= U(32)
            else:
                bits = _random(state)
            if len(law):
                bits = (_mixed(chosen[i] ^ U(salt)) + turn) & U(0xFFFFFFFF)
            up = U((bits & U(0xFFFFFFFF)) < ups[chosen[i]])
            items[i] = U(2) * U(keys[chosen[i]]) + up
            cell = (_mixed(base ^ U(words[items[i]])) * U(small)) >> U(32)
            taken[count] = cell
            count += U(marked[cell] != p)
            marked[cell] = p
        if pairs:
            for i in range(kept):
                for j in range(i):
                    a, b = min(items[i], items[j]), max(items[i], items[j])
                    key, other = a >> U(1), b >> U(1)
                    rank = key * (U(2) * d - key - U(1)) // U(2) + other - key - U(1)
                    item = U(2) * d + U(4) * rank + U(2) * (a & U(1)) + (b & U(1))
                    word = _mixed((item + U(0x9E3779B9)) & U(0xFFFFFFFF))
                    cell = (_mixed(base ^ word) * U(small)) >> U(32)
                    taken[count] = cell
                    count += U(marked[cell] != p)
                    marked[cell] = p
        if len(law):
            law[at, 0] += lows[count, 0]
            for j in range(count):
                law[at, U(1) + taken[j]] += high - lows[count, 0]
            continue
        own = count * U(high)
        if cell_word < own:
            cell = taken[cell_word // U(high)]
        else:
            number = _number(cell_word - own, U(lows[count, 0]), U(lows[count, 1]))
            cell = _other(number, taken, count)
        counts[at * U(small) + cell] += 1


@_jit
def draw_coco(
    people: int,
    once: bool,
    starts: Any,
    keys: Any,
    ups: Any,
    cap: int,
    words: Any,
    salt: int,
    pool: int,
    small: int,
    high: int,
    low: int,
    lefts: Any,
    seed: int,
    counts: Any,
    law: Any,
) -> None:
    """The same through ``CoCo``; ``words[key]`` are the mixed numbers of keys."""
    state, most, half = np.array([seed], np.uint64), U(cap), U(small // 2)
    chosen, taken = np.empty(cap, np.uint64), np.empty(2 * cap, np.uint64)
    claimed = np.empty(cap, np.uint64)
    marked, best = np.zeros(small // 2, np.int64), np.zeros(small // 2, np.uint64)
    place = np.zeros(small // 2, np.uint64)
    for p in range(1, people + 1):
        turn, row = _row(state, U(p - 1), U(people), once, U(len(starts) - 1), len(law))
        first = U(starts[row])
        kept = _keep(state, first, U(starts[row + U(1)]) - first, most, chosen)
        base = _random(state)
        word = base >> U(32)
        at = ((base & U(0xFFFFFFFF)) * U(pool)) >> U(32)
        base = _mixed(at ^ U(salt))
        count = U(0)
        for i in range(most):
            bits = _random(state)
            up = U(1)
            own = bits & U(0xFFFFFFFF)
            if i < kept:
                if len(law):
                    bits = ((_mixed(chosen[i] ^ U(salt)) + turn) & U(0xFFFFFFFF)) << U(32)
                up = U((bits >> U(32)) < ups[chosen[i]])
                own = _mixed(base ^ U(words[keys[chosen[i]]]))
            own *= U(small)
            cell, rank = own >> U(32), own & U(0xFFFFFFFF)
            upper = U(cell >= half)
            pair = cell - upper * half
            rank = (rank << U(1)) | upper
            if marked[pair] != p:
                marked[pair] = p
                place[pair] = count
                count += U(1)
            elif rank >= best[pair]:
                continue
            best[pair] = rank
            claimed[place[pair]] = pair + half * (upper ^ (U(1) - up))
        if len(law):
            law[at, 0] += lefts[count, 0]
            for j in range(count):
                cell = claimed[j]
                law[at, U(1) + cell] += high - lefts[count, 0]
                cell = cell + half if cell < half else cell - half
                law[at, U(1) + cell] += low - lefts[count, 0]
            continue
        own = count * U(high)
        both = count * U(high + low)
        if word < own:
            cell = claimed[word // U(high)]
        elif word < both:
            cell = claimed[(word - own) // U(low)]
            cell = cell + half if cell < half else cell - half
        else:
            number = _number(word - both, U(lefts[count, 0]), U(lefts[count, 1]))
            for j in range(count):
                taken[U(2) * j] = claimed[j]
                taken[U(2) * j + U(1)] = claimed[j] + half if claimed[j] < half else claimed[j] - half
            cell = _other(number, taken, U(2) * count)
        counts[at * U(small) + cell] += 1
