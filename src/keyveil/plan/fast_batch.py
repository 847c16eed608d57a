"""The batch path in compiled loops: the same reports as from the plain one, faster.

A plan has a fast path if its encoding and its channels have compiled loops. Single keys have one of
their own, because most people do not hold the key they pick.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channel import Channel
from ..foundation.arrays import Integers, Words
from ..foundation.block_source import BlockSource
from ..foundation.coins import WORDS_PER_BLOCK, Coins
from ..foundation.compiled import worthwhile
from ..people.people import People
from .fast_symbols import Tiles, drawn_symbols
from .report import Reports

if TYPE_CHECKING:
    from .plan import Plan

BLOCKS = 1 << 16
"""Blocks of words at a time in compiled loops, which make no wide arrays."""
MOST_SLICES = 16
_A_PERSON, _A_WORD = 6e-8, 1.5e-8
"""Seconds that the plain path takes for a person, and for each word more, at least."""


def fast_reports(plan: Plan, people: People, coins: Coins) -> Reports | None:
    """Everyone's report as one batch; None if the plain path does it, or does it sooner."""
    rooms = _rooms(plan)
    if rooms is None:
        return None
    seconds = len(people) * (_A_PERSON + _A_WORD * plan.most_words)
    loops: Any = worthwhile(seconds, *rooms, "vector_aes")
    if loops is None:
        return None
    source = BlockSource(coins, loops)
    if _sliced(plan):
        return Reports(plan.hash, codes=_sliced_keys(plan, people, source, loops))
    if not plan.layout.one_cell:
        return drawn_symbols(plan, people, coins, source, loops)
    if _flipped(plan):
        return Reports(plan.hash, codes=_flipped_keys(plan, people, source, loops))
    if (
        plan.channels[0].one_hot_bits is not None
        and len(plan.views) == 1
        and source.schedule is not None
    ):
        return Reports(plan.hash, codes=_flipped_item(plan, people, source, loops))
    if source.schedule is not None and source.first == 0 and _walked(plan):
        return Reports(plan.hash, codes=_walked_items(plan, people, source, loops))
    return Reports(plan.hash, codes=_drawn_codes(plan, people, coins, source, loops))


def _rooms(plan: Plan) -> tuple[str, ...] | None:
    """The rooms of compiled loops that draw the reports of a plan; None if some loop is missing."""
    if _sliced(plan):
        return ("single_keys",)
    if _flipped(plan):
        return "single_keys", "bit_planes"
    if not plan.layout.one_cell and len(plan.views) > 1:
        return None
    rooms = plan.encoding.loop_room, *(channel.draw_room for channel in plan.channels)
    return rooms if all(rooms) else None


def _singles(plan: Plan) -> bool:
    """Whether the plan picks one key evenly, and all keys share a channel."""
    return (
        plan.encoding.speaks_of_views
        and plan.channel_of is None
        and plan.views.singles_of == len(plan.schema.keys)
    )


def _sliced(plan: Plan) -> bool:
    """Whether one key is drawn with few slices of one word, all words in the first block."""
    channel = plan.channels[0]
    few = 2 <= channel.cells <= MOST_SLICES and plan.words_of(0) <= WORDS_PER_BLOCK
    return few and _singles(plan) and _slices(channel) is not None


def _flipped(plan: Plan) -> bool:
    """Whether the bits of one key are flipped, and its report is one cell."""
    return plan.layout.one_cell and plan.channels[0].one_hot_bits is not None and _singles(plan)


@cache
def _slices(channel: Channel) -> tuple[np.ndarray, np.ndarray] | None:
    return channel.slices()


def _walked(plan: Plan) -> bool:
    """Whether one held key is drawn with word 1, and k-RR with word 2."""
    walks = plan.channel_of is None and plan.channels[0].circle is not None
    return walks and plan.encoding.draws_held_key and plan.channel_start(0) == 2


def _chunks(
    people: People, source: BlockSource, words: int, by_rows: bool = False
) -> Iterator[tuple[slice, Words]]:
    """Runs of people with the first words of their streams, in memory that is used again."""
    count = -(-words // WORDS_PER_BLOCK)
    size = max(1, min(len(people), BLOCKS // count))
    if by_rows and 32 < size < len(people):  # rows do not share a part of the cache: no power of two
        size = (size & ~31) - 16
    plain = np.empty((size if count > 1 else 0, count, WORDS_PER_BLOCK), np.uint32)
    room = np.empty(size * count * 4 * WORDS_PER_BLOCK + 15, np.uint8)
    for first in range(0, len(people), size):
        rows = slice(first, min(first + size, len(people)))
        yield rows, source.fill(people.addresses[rows], count, plain, room, by_rows)


# -- any encoding, and channels whose report is one cell -------------------------------------------


def _walked_items(plan: Plan, people: People, source: BlockSource, loops: Any) -> np.ndarray:
    """k-RR on one held key, from words that the loop makes itself."""
    codes = np.empty(len(people), plan.layout.code_type)
    addresses = np.ascontiguousarray(people.addresses, np.uint32)
    circle = plan.channels[0].circle
    assert circle is not None
    loops.report_items(addresses, source.schedule, people.starts, people.keys, *circle, codes)
    return codes


def _drawn_codes(
    plan: Plan, people: People, coins: Coins, source: BlockSource, loops: Any
) -> np.ndarray:
    """The codes of all people: pick, encode and draw, a run of people at a time."""
    views = plan.views
    encode = plan.encoding.fast_encode(plan.schema, views, people, plan.cap, loops)
    single = plan.channel_of is None or len(set(plan.channel_of)) == 1
    draw = _OneChannel(plan, loops) if single else _Channels(plan, coins, loops)
    codes = np.empty(len(people), plan.layout.code_type)
    for rows, words in _chunks(people, source, draw.words, plan.encoding.by_rows):
        if len(views) == 1:
            states = encode(rows, words, _NO_VIEWS)
            draw(people.addresses[rows], words, _NO_VIEWS, states, codes[rows])
            continue
        picked = np.empty(len(words), np.uint32)
        if views.weights is None:
            loops.pick_views(words, len(views), picked)
        else:
            loops.pick_weighted(words, *views.guide, picked)
        states, outputs = encode(rows, words, picked), np.empty(len(words), np.uint32)
        draw(people.addresses[rows], words, picked, states, outputs)
        if single:
            loops.join_codes(plan.view_channels[0].cells, picked, outputs, codes[rows])
        else:
            codes[rows] = plan.layout.first_code[picked] + outputs
    return codes


_NO_VIEWS = np.zeros(0, np.uint32)


class _OneChannel:
    """Draws from the channel that all views share."""

    def __init__(self, plan: Plan, loops: Any) -> None:
        self.words = plan.words_of(0)
        self._draw, self._column = plan.view_channels[0].fast_draw(loops), plan.channel_start(0)

    def __call__(
        self, addresses: Words, words: Words, picked: np.ndarray, states: Any, out: np.ndarray
    ) -> None:
        self._draw(words, self._column, states, out)


class _Channels:
    """Draws from the channel of each view, with more words where a channel takes more."""

    def __init__(self, plan: Plan, coins: Coins, loops: Any) -> None:
        assert plan.channel_of is not None
        used = sorted(set(plan.channel_of))
        views = [plan.channel_of.index(number) for number in used]
        self._taken = [plan.words_of(view) for view in views]
        self._columns = [plan.channel_start(view) for view in views]
        self._draws = [plan.channels[number].fast_draw(loops) for number in used]
        self._channel_of, self._coins = np.searchsorted(used, plan.channel_of), coins
        self.words = max(min(self._taken), 1 + int(plan.views.sizes.max()))

    def __call__(
        self, addresses: Words, words: Words, picked: np.ndarray, states: Any, out: np.ndarray
    ) -> None:
        used = self._channel_of[picked]
        for number, (draw, column) in enumerate(zip(self._draws, self._columns, strict=True)):
            rows = np.flatnonzero(used == number)
            if self._taken[number] <= words.shape[1]:
                own = words[rows]
            else:
                own = self._coins.blocks(addresses[rows], 0, -(-self._taken[number] // WORDS_PER_BLOCK))
            drawn = np.empty(len(rows), out.dtype)
            draw(own, column, states[rows], drawn)
            out[rows] = drawn


# -- one key ---------------------------------------------------------------------------------------


def _held_facts(plan: Plan, people: People, loops: Any) -> tuple[Any, ...]:
    """What loops need: the numbers of views and of people far from the end, the table, the ranges."""
    schema, keys = plan.schema, np.ascontiguousarray(people.keys)
    starts = np.ascontiguousarray(people.starts, np.int64)
    inside = int(np.searchsorted(starts[:-1], len(keys) - loops.LANES, side="right"))
    table = starts, keys, np.ascontiguousarray(people.values, np.float64)
    return len(plan.views), inside, table, (schema.low, schema.high, schema.levels)


def _sliced_keys(plan: Plan, people: People, source: BlockSource, loops: Any) -> np.ndarray:
    """One key each, from words that the loop makes itself, if it can."""
    slices = _slices(plan.channels[0])
    assert slices is not None
    ends, order = slices
    column, (views, inside, table, ranges) = plan.channel_start(0), _held_facts(plan, people, loops)
    codes = np.empty(len(people), plan.layout.code_type)
    law = tuple(ends[0]), ends, order
    if source.schedule is not None:
        own = np.ascontiguousarray(people.addresses, np.uint32)
        keyed = source.schedule, source.first, column
        loops.report_keys(own, *keyed, views, inside, table, ranges, *law, codes)
        return codes
    starts, keys, values = table
    for rows, words in _chunks(people, source, WORDS_PER_BLOCK):
        run = starts[rows.start : rows.stop + 1], keys, values
        left = max(0, inside - rows.start)
        loops.report_keys(words, None, 0, column, views, left, run, ranges, *law, codes[rows])
    return codes


def _flipped_keys(plan: Plan, people: People, source: BlockSource, loops: Any) -> Integers:
    """One-hot bits of one key."""
    draw, (views, inside, table, ranges) = _Flips(plan, source, loops), _held_facts(plan, people, loops)
    codes = np.empty(len(people), plan.layout.code_type)
    starts, keys, values = table
    for rows, words in _chunks(people, source, draw.words):
        picked, states = np.empty(len(words), np.int64), np.empty(len(words), np.uint32)
        run = starts[rows.start : rows.stop + 1], keys, values
        loops.hold_keys(words, views, max(0, inside - rows.start), run, ranges, picked, states)
        codes[rows] = plan.packing.codes(picked, draw(people.addresses[rows], words, states))
    return codes


def _flipped_item(plan: Plan, people: People, source: BlockSource, loops: Any) -> Integers:
    """One-hot bits of one view that everyone answers."""
    encode = plan.encoding.fast_encode(plan.schema, plan.views, people, plan.cap, loops)
    codes, draw = np.empty(len(people), plan.layout.code_type), _Flips(plan, source, loops)
    for rows, words in _chunks(people, source, draw.words):
        codes[rows] = draw(people.addresses[rows], words, encode(rows, words, _NO_VIEWS))
    return codes


class _Flips:
    """Draws one-hot bits whose report is one cell: from words that the loop makes, if it can."""

    def __init__(self, plan: Plan, source: BlockSource, loops: Any) -> None:
        channel: Any = plan.channels[0]
        column, self._tiles = plan.channel_start(0), None
        self.words = plan.most_words
        if source.schedule is not None:
            self.words = column
            self._tiles = Tiles(channel, column // WORDS_PER_BLOCK, source, loops)
            return
        self._facts, self._loops = (column, *channel.one_hot_bits), loops

    def __call__(self, addresses: Words, words: Words, states: np.ndarray) -> np.ndarray:
        """The bits of people in these states, as one number each."""
        marks = np.empty((len(words), 1), "<u4")
        if self._tiles is not None:
            self._tiles(addresses, states, marks.view(np.uint8))
        else:
            self._loops.draw_bits(words, *self._facts, states, marks)
        return marks[:, 0]
