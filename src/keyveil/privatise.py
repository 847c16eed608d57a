"""The batch path: the one-person line run over many people at once, with the identical result."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .channel import Channel, Symmetric, Table
from .coins import Coins, Stream
from .fast import compiled
from .people import People
from .report import Reports
from .views import Views

if TYPE_CHECKING:
    from .plan import Plan

CHUNK = 1 << 14
"""People at a time: their words and rows stay in the cache."""

MOST_SLICES = 16


def privatise(plan: Plan, people: People, coins: Coins) -> Reports:
    """Everyone's report as one batch."""
    if not plan.layout.one_cell:
        return _many_marks(plan, people, coins)
    codes = np.empty(len(people), plan.layout.code_type)
    loops: Any = compiled()
    run = _Singles(plan, loops) if loops is not None and _singles(plan) else None
    for first in range(0, len(people), CHUNK):
        some = people[first : first + CHUNK]
        if run is not None:
            run(some, coins, codes[first : first + CHUNK])
            continue
        views, outputs = _perturb(plan, some, coins)
        codes[first : first + CHUNK] = plan.layout.first_code[views] + outputs
    return Reports(plan.hash, codes=codes)


def _perturb(plan: Plan, people: People, coins: Coins) -> tuple[np.ndarray, np.ndarray]:
    stream = Stream(coins, people.addresses)
    stream.prefetch(max(plan.words_of(view) for view in _kinds(plan)))
    return plan.perturb(people, stream)


def _kinds(plan: Plan) -> list[int]:
    """One view for each channel."""
    return [0] if plan.channel_of is None else [plan.channel_of.index(c) for c in set(plan.channel_of)]


def _many_marks(plan: Plan, people: People, coins: Coins) -> Reports:
    """Reports of many marks, packed to bits chunk by chunk."""
    widest = int(plan.layout.sizes.max())
    chunk = max(1, min(CHUNK, (1 << 24) // (32 * widest)))
    bits = np.empty((len(people), -(-widest // 8)), np.uint8)
    views = np.empty(len(people), np.int64)
    for first in range(0, len(people), chunk):
        stop = min(first + chunk, len(people))
        views[first:stop], marks = _perturb(plan, people[first:stop], coins)
        bits[first:stop] = np.packbits(marks, axis=1, bitorder="little")
    return Reports(plan.hash, views=views, bits=bits)


# -- single keys, compiled -------------------------------------------------------------------------


def _singles(plan: Plan) -> bool:
    """Whether the plan picks one key evenly and draws it with few slices of one word."""
    return (
        plan.encode == "views"
        and plan.views == Views.singles(len(plan.schema.keys))
        and plan.channel_of is None
        and isinstance(plan.channels[0], Table | Symmetric)
        and plan.channels[0].cells <= MOST_SLICES
        and plan.schema.levels > 1
    )


@cache
def _sliced(channel: Channel) -> tuple[np.ndarray, np.ndarray]:
    """Each state's slice ends, and the output that each slice stands for."""
    if isinstance(channel, Table):
        ends = channel.thresholds
        order = np.tile(np.arange(channel.cells), (channel.states, 1))
        return ends, order.astype(np.uint64)
    assert isinstance(channel, Symmetric)
    steps = np.array(
        [channel.keep] + [channel.lie + (i < channel.rest) for i in range(channel.states - 1)]
    )
    ends = np.tile(np.cumsum(steps)[:-1].astype(np.uint64), (channel.states, 1))
    offset = np.arange(channel.states)
    return ends, ((offset[:, None] + offset[None, :]) % channel.states).astype(np.uint64)


class _Singles:
    """Compiled encode and draw for single-key plans, with its work arrays."""

    def __init__(self, plan: Plan, loops: Any) -> None:
        self.plan, self.loops = plan, loops
        self.ends, self.order = _sliced(plan.channels[0])
        self.column = plan.channel_start(0)
        self.blocks = -(-plan.words_of(0) // 4)
        self.picked = np.empty(CHUNK, np.uint16 if len(plan.schema.keys) <= 1 << 16 else np.uint32)
        self.states = np.empty(CHUNK, np.uint8)
        self.who = np.empty(CHUNK + 1, np.uint64)
        self.row = np.empty(CHUNK + 1, np.uint64)

    def __call__(self, people: People, coins: Coins, codes: np.ndarray) -> None:
        plan, loops, schema = self.plan, self.loops, self.plan.schema
        words = coins.blocks(people.addresses, 0, self.blocks)
        picked, states = self.picked[: len(people)], self.states[: len(people)]
        found = loops.find_singles(
            words, people.starts, people.keys, len(plan.views), picked, self.who, self.row
        )
        states[:] = 0
        loops.round_singles(
            words,
            people.keys,
            people.values,
            schema.low,
            schema.high,
            schema.levels,
            found,
            self.who,
            self.row,
            states,
        )
        loops.slices(words, self.column, self.ends, self.order, picked, states, codes)
