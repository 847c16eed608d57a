"""Simulation: people drawn from a table, with a generator of their own, for sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import U, jit


@jit
def _random(state: Any) -> Any:
    """64 random bits: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    state[0] += U(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> U(30))) * U(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> U(27))) * U(0x94D049BB133111EB)
    return z ^ (z >> U(31))


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
def _row(state: Any, person: Any, people: Any, once: bool, rows: Any, laws: int) -> Any:
    """The turn of a person's rounding, 0 without laws, and the person's row among ``rows``."""
    if laws:
        return (person // rows) * ((rows << U(32)) // people), person % rows
    if once:
        return U(0), person
    return U(0), U(np.float64(_random(state) >> U(11)) * (np.float64(rows) / 9007199254740992.0))


@jit
def _number(over: Any, weight: Any, rest: Any) -> Any:
    """The slice that holds ``over``. The first ``rest`` have ``weight + 1`` words, others ``weight``."""
    heavy = rest * (weight + U(1))
    return over // (weight + U(1)) if over < heavy else rest + (over - heavy) // weight


@jit
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


@jit
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


@jit
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


@jit
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
