"""The batch path: the one-person line run over many people at once, with the identical result."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channel import Channel
from ..foundation.arrays import Integers, Words
from ..foundation.coins import WORDS_PER_BLOCK, Coins, Stream
from ..foundation.compiled import compiled
from ..people.people import People
from ..people.views import Views
from .packing import pack_bits
from .plan_parts import WORDS_BEFORE, PlanPart, first_views, pick_parts, some_people
from .report import Reports

if TYPE_CHECKING:
    from .plan import Plan

CHUNK = 1 << 14
"""People at a time: their words and rows stay in the cache."""

BLOCKS = 1 << 16
"""Blocks of words at a time in compiled loops, which make no wide arrays."""

MOST_SLICES = 16


def privatise(plan: Plan, people: People, coins: Coins) -> Reports:
    """Everyone's report as one batch."""
    if plan.parts is not None:
        return _of_parts(plan, plan.parts, people, coins)
    loops: Any = compiled()
    if loops is not None:
        if _singles(plan) and _few_slices(plan):
            return Reports(plan.hash, codes=_sliced_keys(plan, people, coins, loops))
        if plan.encoding.draws_held_key and plan.channels[0].circle is not None:
            return Reports(plan.hash, codes=_walked_items(plan, people, coins, loops))
        if _one_hot(plan) and (_singles(plan) or plan.encoding.draws_held_key or _whole(plan)):
            return _flipped_bits(plan, people, coins, loops)
    if not plan.layout.one_cell:
        return _many_marks(plan, people, coins)
    codes = np.empty(len(people), plan.layout.code_type)
    for first in range(0, len(people), CHUNK):
        views, outputs = _perturb(plan, people[first : first + CHUNK], coins)
        codes[first : first + CHUNK] = plan.packing.codes(views, outputs)
    return Reports(plan.hash, codes=codes)


def _of_parts(plan: Plan, parts: tuple[PlanPart, ...], people: People, coins: Coins) -> Reports:
    """Everyone's report to the part that their first word picks."""
    packing, first = plan.packing, first_views(parts)
    later = coins.later(WORDS_BEFORE // WORDS_PER_BLOCK)
    codes = np.empty(len(people) if packing.one_cell else 0, plan.layout.code_type)
    bits = np.zeros((0 if packing.one_cell else len(people), packing.bits_width), np.uint8)
    views = np.empty(len(bits), np.int64)
    for start in range(0, len(people), BLOCKS):
        run = people[start : start + BLOCKS]
        numbers = pick_parts(parts, coins.blocks(run.addresses, 0, 1)[:, 0])
        for number in np.unique(numbers):
            rows = np.flatnonzero(numbers == number)
            own, at = parts[number].plan, start + rows
            batch = _of_some(own, run, rows, later)
            if batch.codes is None:
                assert batch.views is not None
                assert batch.bits is not None
                views[at] = first[number] + batch.views
                bits[at, : batch.bits.shape[1]] = batch.bits
            elif packing.one_cell:
                before = int(plan.layout.first_code[first[number]])
                codes[at] = batch.codes.astype(np.int64) + before
            else:
                picked, outputs = own.packing.outputs(batch)
                views[at] = first[number] + picked
                bits[at, outputs >> 3] = 1 << (outputs & 7)
    if packing.one_cell:
        return Reports(plan.hash, codes=codes)
    return Reports(plan.hash, views=views, bits=bits)


def _of_some(plan: Plan, people: People, rows: Integers, coins: Coins) -> Reports:
    """The reports of the people at some rows. To draw most people, draw all: that copies no records."""
    if 2 * len(rows) < len(people):
        return privatise(plan, some_people(people, rows), coins)
    batch = privatise(plan, people, coins)
    if batch.codes is not None:
        return Reports(plan.hash, codes=batch.codes[rows])
    assert batch.views is not None
    assert batch.bits is not None
    return Reports(plan.hash, views=batch.views[rows], bits=batch.bits[rows])


def _perturb(plan: Plan, people: People, coins: Coins) -> tuple[np.ndarray, np.ndarray]:
    stream = Stream(coins, people.addresses)
    stream.prefetch(_words(plan))
    return plan.perturb(people, stream)


def _words(plan: Plan) -> int:
    """How many words a report takes, whatever its view."""
    of = plan.channel_of
    kinds = [0] if of is None else [of.index(c) for c in set(of)]
    return max(plan.words_of(view) for view in kinds)


def _many_marks(plan: Plan, people: People, coins: Coins) -> Reports:
    """Reports of many marks, packed to bits chunk by chunk."""
    packing = plan.packing
    chunk = max(1, min(CHUNK, (1 << 24) // (32 * packing.widest)))
    bits = np.empty((len(people), packing.bits_width), np.uint8)
    views = np.empty(len(people), np.int64)
    for first in range(0, len(people), chunk):
        stop = min(first + chunk, len(people))
        views[first:stop], marks = _perturb(plan, people[first:stop], coins)
        bits[first:stop] = pack_bits(marks)
    return Reports(plan.hash, views=views, bits=bits)


# -- compiled --------------------------------------------------------------------------------------


def _singles(plan: Plan) -> bool:
    """Whether the plan picks one key evenly, and all keys share a channel."""
    return (
        plan.encoding.speaks_of_views
        and plan.views == Views.singles(len(plan.schema.keys))
        and plan.channel_of is None
    )


def _few_slices(plan: Plan) -> bool:
    """Whether an output is drawn with few slices of one word, all words in the first block."""
    channel = plan.channels[0]
    if not 2 <= channel.cells <= MOST_SLICES or plan.words_of(0) > WORDS_PER_BLOCK:
        return False
    return _sliced(channel) is not None


def _whole(plan: Plan) -> bool:
    """Whether the plan speaks of all keys in one view."""
    return plan.encoding.speaks_of_views and len(plan.views) == 1


def _one_hot(plan: Plan) -> bool:
    """Whether the channel flips bits, of which a state sets at most one."""
    return plan.channels[0].one_hot_bits is not None


@cache
def _sliced(channel: Channel) -> tuple[np.ndarray, np.ndarray] | None:
    return channel.slices()


def _chunks(plan: Plan, people: People, coins: Coins) -> Iterator[tuple[slice, Words]]:
    """Runs of people with all words of their reports, in memory that is used again."""
    count = -(-_words(plan) // WORDS_PER_BLOCK)
    size = max(1, min(len(people), BLOCKS // count))
    plain = np.empty((size if count > 1 else 0, count, WORDS_PER_BLOCK), np.uint32)
    room = np.empty(size * count * 4 * WORDS_PER_BLOCK + 15, np.uint8)
    for first in range(0, len(people), size):
        rows = slice(first, min(first + size, len(people)))
        yield rows, coins.fill(people.addresses[rows], count, plain, room)


class _Held:
    """Who holds the key they pick, and in which state: ``found`` people ``who``, with ``states``."""

    def __init__(self, plan: Plan, people: People, loops: Any) -> None:
        self.plan, self.people, self.loops = plan, people, loops
        self.keys = np.ascontiguousarray(people.keys)
        size = min(len(people), BLOCKS) + 1
        self.who, self.row = np.empty(size, np.uint32), np.empty(size, np.uint64)
        self.states, self.values = np.empty(size, np.uint16), np.empty(size)
        self.found = 0

    def find(self, rows: slice, words: Words) -> None:
        """Look at the people of ``rows``; ``who`` counts from the first of them."""
        loops, schema, keys = self.loops, self.plan.schema, self.keys
        views, lanes, who, row = len(self.plan.views), self.loops.LANES, self.who, self.row
        starts = self.people.starts[rows.start : rows.stop + 1]
        inside = int(np.searchsorted(starts[:-1], len(keys) - lanes, side="right"))
        found, most = loops.find_held(words, starts, keys, views, inside, who, row)
        if inside < len(words) or most > lanes:
            begin = 0 if most > lanes else inside
            found = loops.find_rest(words, starts, keys, views, begin, inside, found, who, row)
        loops.round_held(
            words,
            keys,
            self.people.values,
            schema.low,
            schema.high,
            schema.levels,
            found,
            who,
            row,
            self.values,
            self.states,
        )
        self.found = found


def _sliced_keys(plan: Plan, people: People, coins: Coins, loops: Any) -> np.ndarray:
    """Most people do not hold the key they pick, so all are drawn as if they did not, and those who
    do are drawn again from the same words."""
    slices = _sliced(plan.channels[0])
    assert slices is not None
    ends, order = slices
    column, views, absent = plan.channel_start(0), len(plan.views), tuple(ends[0])
    held = _Held(plan, people, loops)
    codes = np.empty(len(people), plan.layout.code_type)
    for rows, words in _chunks(plan, people, coins):
        out = codes[rows]
        loops.pick_and_draw(words, column, views, absent, out)
        held.find(rows, words)
        found, who, states = held.found, held.who, held.states
        loops.redraw_held(words, column, views, ends, order, found, who, states, out)
    return codes


def _walked_items(plan: Plan, people: People, coins: Coins, loops: Any) -> np.ndarray:
    """k-RR on one held key."""
    column, circle = plan.channel_start(0), plan.channels[0].circle
    assert circle is not None
    codes = np.empty(len(people), plan.layout.code_type)
    for rows, words in _chunks(plan, people, coins):
        states = np.empty(len(words), np.uint32)
        loops.pick_items(words, people.starts[rows.start :], people.keys, states)
        loops.walk(words, column, states, *circle, codes[rows])
    return codes


def _flipped_bits(plan: Plan, people: People, coins: Coins, loops: Any) -> Reports:
    """One-hot bits of one key, of one held key or of all keys at once, 32 at a time."""
    kind, one_cell = plan.channels[0].one_hot_bits, plan.channels[0].one_cell
    assert kind is not None
    column, layout = plan.channel_start(0), plan.layout
    held = None if _whole(plan) else _Held(plan, people, loops)
    codes = np.empty(len(people) if one_cell else 0, layout.code_type)
    bits = np.empty((0 if one_cell else len(people), plan.packing.bits_width), np.uint8)
    for rows, words in _chunks(plan, people, coins):
        states = np.zeros(len(words), np.uint32)
        if plan.encoding.draws_held_key:
            loops.pick_items(words, people.starts[rows.start :], people.keys, states)
        elif held is None:
            some = people[rows]
            stream = Stream(coins, some.addresses, ready=words).skip(1)
            picked = np.zeros(len(some), np.int64)
            states[:] = plan.encoding.encode(plan.schema, plan.views, some, picked, stream)
        else:
            held.find(rows, words)
            states[held.who[: held.found]] = held.states[: held.found]
        marks = np.empty((len(words), -(-kind.positions // 32)), "<u4")
        loops.draw_bits(words, column, *kind, states, marks)
        if one_cell:
            codes[rows] = plan.packing.codes(plan.views.pick(words[:, 0]), marks[:, 0])
        else:
            bits[rows] = marks.view(np.uint8)[:, : bits.shape[1]]
    if one_cell:
        return Reports(plan.hash, codes=codes)
    return Reports(plan.hash, views=np.zeros(len(people), np.int64), bits=bits)
