"""The plain form of the loops that draw reports of people from a table: the same words, the same counts.

A person takes the next words of one counter-based generator, as many as the record needs. Where each
person's words begin follows from the sizes of the records before, so that many people are drawn at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Floats, Integers
from .hash import item_words, mixed

ENTRIES = 1 << 18
"""Number of items of people who are drawn at a time."""
_U = np.uint64
_HALF, _ONES = _U(32), _U(0xFFFFFFFF)


class _Table(NamedTuple):
    """Where each record's rows begin, the key of each row and when its value is rounded up."""

    starts: Integers
    keys: np.ndarray
    ups: np.ndarray


class _Run(NamedTuple):
    """Some people: their rows of the table, the places of their words, the turns of their rounding."""

    rows: Integers
    places: Integers
    turns: np.ndarray


class _Names(NamedTuple):
    """What people draw first: the number of a seed, the word that names a cell, the mixed seed."""

    seeds: Integers
    words: Integers
    mixed: np.ndarray


# -- the same words as in the loops ----------------------------------------------------------------


def _bits(seed: int, places: Integers) -> np.ndarray:
    """64 random bits at each place: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    z = _U(seed) + (places.astype(_U) + _U(1)) * _U(0x9E3779B97F4A7C15)
    z = (z ^ (z >> _U(30))) * _U(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> _U(27))) * _U(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> _U(31)))


def _runs(people: int, once: bool, needs: Integers, seed: int, law: bool, size: int) -> Iterator[_Run]:
    """Everyone, ``size`` at a time; ``needs`` are the words for the record in each row of the table."""
    rows, place = len(needs), 0
    for first in range(0, people, size):
        own = np.arange(first, min(first + size, people))
        turns = np.zeros(len(own), _U)
        if not (once or law):
            chosen, places, place = _drawn_rows(seed, place, len(own), needs)
            yield _Run(chosen, places, turns)
            continue
        if law:
            turns = (own // rows * ((rows << 32) // people)).astype(_U)
        chosen = own % rows
        ends = place + np.cumsum(needs[chosen])
        yield _Run(chosen, ends - needs[chosen], turns)
        place = int(ends[-1])


def _drawn_rows(seed: int, place: int, people: int, needs: Integers) -> tuple[Integers, Integers, int]:
    """The rows that people draw with their first words, the places after these, the next one's place."""
    rows, places, left = [], [], people
    steps, scale = 1 + needs, len(needs) / 2.0**53
    while left:
        span = int(left * steps.mean()) + 1
        bits = _bits(seed, np.arange(place, place + span))
        drawn = ((bits >> _U(11)).astype(np.float64) * scale).astype(np.int64)
        positions: list[int] = []
        at, step = 0, steps[drawn].tolist()
        while at < span and len(positions) < left:
            positions.append(at)
            at += step[at]
        rows.append(drawn[positions])
        places.append(place + 1 + np.array(positions))
        place, left = place + at, left - len(positions)
    return np.concatenate(rows), np.concatenate(places), place


def _kept(table: _Table, run: _Run, cap: int, seed: int) -> tuple[Integers, Integers, Integers]:
    """Up to ``cap`` rows of each record, how many, and the place of the next word.

    All choices are equally likely. What a row has beyond its number is 0.
    """
    first, places = table.starts[run.rows], run.places.copy()
    held = table.starts[run.rows + 1] - first
    kept = np.minimum(held, cap)
    columns = np.arange(kept.max(initial=0))
    chosen = np.where(columns < kept[:, None], first[:, None] + columns, 0)
    many = np.flatnonzero(held > cap)
    first, own = first[many], np.empty((len(many), cap), np.int64)
    for i in range(cap if len(many) else 0):  # Floyd's algorithm
        last = held[many] - cap + i
        high = _bits(seed, places[many] + i) >> _HALF
        number = first + ((high * (last + 1).astype(_U)) >> _HALF).astype(np.int64)
        repeated = (own[:, :i] == number[:, None]).any(axis=1)
        own[:, i] = np.where(repeated, first + last, number)
    if len(many):
        chosen[many] = own
    places[many] += cap
    return chosen, kept, places


def _names(seed: int, places: Integers, pool: int, salt: int) -> _Names:
    bits = _bits(seed, places)
    seeds = ((bits & _ONES) * _U(pool)) >> _HALF
    words = (bits >> _HALF).astype(np.int64)
    return _Names(seeds.astype(np.int64), words, mixed(seeds.astype(np.uint32) ^ np.uint32(salt)))


def _fixed_bits(chosen: Integers, run: _Run, salt: int) -> np.ndarray:
    """The bits that round values where laws are averaged: spread evenly over the turns."""
    words = mixed(chosen.astype(np.uint32) ^ np.uint32(salt)).astype(_U)
    return np.asarray((words + run.turns[:, None]) & _ONES)


def _needs(table: _Table, cap: int, for_values: Integers) -> Integers:
    """The words for each record: a choice if it exceeds the cap, a seed, and ``for_values``."""
    return (np.diff(table.starts) > cap) * cap + 1 + for_values


# -- cells -----------------------------------------------------------------------------------------


def _distinct(cells: Integers, valid: np.ndarray) -> tuple[Integers, Integers]:
    """The distinct cells of each row in the order of their first place, and their number.

    What a row has beyond its number is 2^62.
    """
    none = 1 << 62
    cells = np.where(valid, cells, none)
    order = np.argsort(cells, axis=1, kind="stable")
    ascending = np.take_along_axis(cells, order, axis=1)
    repeated = np.zeros(cells.shape, bool)
    np.put_along_axis(repeated, order[:, 1:], ascending[:, 1:] == ascending[:, :-1], axis=1)
    return _compact(np.where(repeated, none, cells))


def _compact(cells: Integers) -> tuple[Integers, Integers]:
    """The entries below 2^62 first, in their order, and their number."""
    missing = cells >> 62
    order = np.argsort(missing, axis=1, kind="stable")
    return np.take_along_axis(cells, order, axis=1), (1 - missing).sum(axis=1)


def _among(taken: Integers, places: Integers) -> Integers:
    """Each row's entry at a place, which is the last one for larger places."""
    if not taken.shape[1]:
        return np.zeros(len(taken), np.int64)
    own = np.minimum(places, taken.shape[1] - 1)[:, None]
    return np.asarray(np.take_along_axis(taken, own, axis=1)[:, 0])


def _free(over: Integers, weight: Integers, rest: Integers, taken: Integers) -> Integers:
    """The cell that a word names among those that are not taken; see ``Collision.draw``."""
    over = np.maximum(over, 0)
    heavy = rest * (weight + 1)
    place = np.where(over < heavy, over // (weight + 1), rest + (over - heavy) // weight)
    ascending = np.sort(taken, axis=1)
    for column in range(taken.shape[1]):
        place += place >= ascending[:, column]
    return np.asarray(place)


def _add_laws(law: Floats, seeds: Integers, base: Integers, cells: Integers, more: Integers) -> None:
    """Add a weight to column 0 of each seed, and ``more`` to each cell below 2^62, person by person."""
    np.add.at(law[:, 0], seeds, base)
    there = cells < 1 << 62
    at = np.broadcast_to(seeds[:, None], cells.shape)[there]
    np.add.at(law, (at, 1 + cells[there]), np.broadcast_to(more, cells.shape)[there])


# -- the two shapes, with the arguments of the loops -----------------------------------------------


def draw_collision(
    people: int,
    once: bool,
    starts: Integers,
    keys: np.ndarray,
    ups: np.ndarray,
    cap: int,
    pairs: int,
    words: np.ndarray,
    salt: int,
    pool: int,
    small: int,
    high: int,
    lows: Integers,
    seed: int,
    counts: Integers,
    law: Floats,
) -> None:
    """Draw reports through ``Collision``; the arguments are those of the loop of the same name."""
    table, averaged = _Table(starts, keys, ups), len(law) > 0
    kept_of = np.minimum(np.diff(starts), cap)
    needs = _needs(table, cap, (kept_of + 1) // 2)
    most = int(kept_of.max(initial=1))
    size = max(1, ENTRIES // max(most * (most + 1) // 2 if pairs else most, 1))
    for run in _runs(people, once, needs, int(seed), averaged, size):
        chosen, kept, places = _kept(table, run, cap, int(seed))
        names, columns = _names(int(seed), places, pool, salt), np.arange(chosen.shape[1])
        valid = columns < kept[:, None]
        halves = _bits(int(seed), places[:, None] + 1 + columns // 2) >> (columns % 2 * 32).astype(_U)
        own = _fixed_bits(chosen, run, salt) if averaged else halves & _ONES
        items = 2 * keys[chosen].astype(np.int64) + (own < ups[chosen])
        hashes = words[items]
        if pairs:
            rank, both = _pair_items(items, pairs), np.tril_indices(len(columns), -1)[0]
            hashes = np.concatenate([hashes, item_words(rank)], axis=1)
            valid = np.concatenate([valid, both < kept[:, None]], axis=1)
        cells = (mixed(names.mixed[:, None] ^ hashes).astype(_U) * _U(small)) >> _HALF
        taken, count = _distinct(cells.astype(np.int64), valid)
        weight, rest = lows[count, 0], lows[count, 1]
        if averaged:
            _add_laws(law, names.seeds, weight, taken, (high - weight)[:, None])
            continue
        over = names.words - count * high
        mine = _among(taken, names.words // high)
        named = np.where(over < 0, mine, _free(over, weight, rest, taken))
        np.add.at(counts, names.seeds * small + named, 1)


def _pair_items(items: Integers, keys: int) -> Integers:
    """The items of every two of a person's signed keys, the later of the two first."""
    later, earlier = np.tril_indices(items.shape[1], -1)
    a = np.minimum(items[:, later], items[:, earlier])
    b = np.maximum(items[:, later], items[:, earlier])
    key, other = a >> 1, b >> 1
    rank = key * (2 * keys - key - 1) // 2 + other - key - 1
    return np.asarray(2 * keys + 4 * rank + 2 * (a & 1) + (b & 1))


def draw_coco(
    people: int,
    once: bool,
    starts: Integers,
    keys: np.ndarray,
    ups: np.ndarray,
    cap: int,
    words: np.ndarray,
    salt: int,
    pool: int,
    small: int,
    high: int,
    low: int,
    lefts: Integers,
    seed: int,
    counts: Integers,
    law: Floats,
) -> None:
    """The same through ``CoCo``."""
    table, averaged, half = _Table(starts, keys, ups), len(law) > 0, small // 2
    needs, columns = _needs(table, cap, np.array(cap)), np.arange(cap)
    for run in _runs(people, once, needs, int(seed), averaged, max(1, ENTRIES // cap)):
        chosen, kept, places = _kept(table, run, cap, int(seed))
        names = _names(int(seed), places, pool, salt)
        bits = _bits(int(seed), places[:, None] + 1 + columns)
        own, signs = bits & _ONES, np.ones(bits.shape, np.int64)
        there = columns[: chosen.shape[1]] < kept[:, None]
        if there.any():
            up = _fixed_bits(chosen, run, salt) if averaged else bits[:, : chosen.shape[1]] >> _HALF
            hashed = mixed(names.mixed[:, None] ^ words[keys[chosen]]).astype(_U)
            view = slice(0, chosen.shape[1])
            own[:, view] = np.where(there, hashed, own[:, view])
            signs[:, view] = np.where(there, up < ups[chosen], 1)
        claimed, count = _claims(own * _U(small), signs, half)
        other = np.where(claimed < half, claimed + half, claimed - half)
        other = np.where(claimed >> 62, claimed, other)
        weight, rest = lefts[count, 0], lefts[count, 1]
        if averaged:
            more = np.stack([high - weight, low - weight], axis=1)
            both = np.stack([claimed, other], axis=2).reshape(len(claimed), -1)
            _add_laws(law, names.seeds, weight, both, np.tile(more, (1, cap)))
            continue
        mine, mirrored = count * high, count * (high + low)
        over = names.words - mirrored
        named = np.where(
            names.words < mine,
            _among(claimed, names.words // high),
            _among(other, np.maximum(names.words - mine, 0) // low),
        )
        free = _free(over, weight, rest, np.concatenate([claimed, other], axis=1))
        np.add.at(counts, names.seeds * small + np.where(over < 0, named, free), 1)


def _claims(own: np.ndarray, signs: Integers, half: int) -> tuple[Integers, Integers]:
    """The signed cell of each claimed pair of cells in the order of first claims, and their number.

    The claim with the least rank wins its pair, the earliest of equal ones.
    """
    cell = (own >> _HALF).astype(np.int64)
    upper = (cell >= half).astype(np.int64)
    pair = cell - upper * half
    rank = (own & _ONES).astype(np.int64) << 1 | upper
    first = np.argsort(pair, axis=1, kind="stable")
    best = np.take_along_axis(rank, first, axis=1)
    by_rank = np.argsort(best, axis=1, kind="stable")
    best = np.take_along_axis(first, by_rank, axis=1)
    by_pair = np.argsort(np.take_along_axis(pair, best, axis=1), axis=1, kind="stable")
    best = np.take_along_axis(best, by_pair, axis=1)  # by pair, then by rank, then by place
    ordered = np.take_along_axis(pair, best, axis=1)
    begins = np.ones(pair.shape, bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    won = pair + half * (upper ^ (1 - signs))
    claims = np.where(begins, np.take_along_axis(won, best, axis=1), 1 << 62)
    placed = np.empty(pair.shape, np.int64)
    np.put_along_axis(placed, first, claims, axis=1)
    return _compact(placed)
