"""The batch path: the one-person line run over many people at once, with the identical result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..foundation.arrays import Integers
from ..foundation.coins import WORDS_PER_BLOCK, Coins
from ..foundation.stream import Stream
from ..people.people import People
from .fast_batch import BLOCKS, fast_reports
from .packing import pack_bits
from .plan_parts import WORDS_BEFORE, PlanPart, first_views, pick_parts, some_people
from .report import Reports

if TYPE_CHECKING:
    from .plan import Plan

CHUNK = 1 << 14
"""People at a time: their words and rows stay in the cache."""


def privatise(plan: Plan, people: People, coins: Coins) -> Reports:
    """Everyone's report as one batch."""
    if plan.parts is not None:
        return _of_parts(plan, plan.parts, people, coins)
    fast = fast_reports(plan, people, coins)
    if fast is not None:
        return fast
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
        for number in range(len(parts)):
            rows = np.flatnonzero(numbers == number)
            if not len(rows):
                continue
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
    stream.prefetch(plan.most_words)
    return plan.perturb(people, stream)


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
