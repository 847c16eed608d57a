"""The same tasks in vectorised NumPy with PCG64: as one writes them without keyveil, and tuned.

The tuned forms have narrow types, take words as the generator makes them, and draw bits by their first
eight digits. The generator is good for simulation and protects nobody.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...channel import Symmetric
from ...channel.law_arrays import random_stream
from ...people.people import People
from ...plan.plan import Plan

PlainForm = Callable[[People, np.random.Generator], object]
"""Privatises people with words from a generator."""


def batch_form(plan: Plan) -> PlainForm:
    """keyveil's own form without compiled loops."""
    words = plan.most_words

    def draw(people: People, generator: np.random.Generator) -> object:
        return plan.packing.batch(*plan.perturb(people, random_stream(len(people), words, generator)))

    return draw


def k_rr_form(plan: Plan, states: int) -> PlainForm:
    """k-RR by one uniform number and one other state for each person."""
    circle = plan.channels[0].circle
    assert circle is not None
    keep = circle[1] / 2**32

    def draw(people: People, generator: np.random.Generator) -> object:
        own = people.keys + np.uint16(1)
        lie = generator.integers(0, states - 1, len(own))
        lie += lie >= own
        return np.where(generator.random(len(own)) < keep, own, lie)

    return draw


def unary_form(plan: Plan, bits: int) -> PlainForm:
    """Unary encoding by a uniform number for each bit."""
    law = plan.channels[0].one_hot_bits
    assert law is not None
    fake, show = law.fake / 2**32, law.show / 2**32

    def draw(people: People, generator: np.random.Generator) -> object:
        marks = generator.random((len(people), bits)) < fake
        marks[np.arange(len(people)), people.keys] = generator.random(len(people)) < show
        return np.packbits(marks, axis=1, bitorder="little")

    return draw


Codes = NDArray[np.unsignedinteger]


def _kvue_codes(channel: Symmetric, sampled: Codes, states: Codes, words: Codes) -> Codes:
    """Codes of reports about the sampled keys; the words perturb the states in place."""
    states += (words >= np.uint32(channel.keep)).view(np.uint8)
    states += (words >= np.uint32(channel.keep + channel.lie + (channel.rest > 0))).view(np.uint8)
    states -= (states > 2).view(np.uint8) * np.uint8(3)
    return sampled * np.uint16(3) + states


def kvue_form(plan: Plan) -> PlainForm:
    """KVUE by a mask of the held keys that were sampled; everyone holds as many keys."""
    channel = plan.channels[0]
    assert isinstance(channel, Symmetric)
    keys = len(plan.schema.keys)

    def draw(people: People, generator: np.random.Generator) -> object:
        count = len(people)
        table, values = people.keys.reshape(count, -1), people.values.reshape(count, -1)
        sampled = generator.integers(0, keys, (count,), dtype=np.uint16)
        who, column = np.nonzero(table == sampled[:, None])
        up = generator.random(len(who)) < (values[who, column] + 1) / 2
        states = np.zeros(count, np.uint8)
        states[who] = up.view(np.uint8) + np.uint8(1)
        words = generator.integers(0, 1 << 32, (count,), dtype=np.uint32)
        return _kvue_codes(channel, sampled, states, words)

    return draw


def tuned_k_rr(plan: Plan, states: int) -> PlainForm:
    """k-RR by one word for each person: above the words that keep, it says how far round to walk."""
    circle = plan.channels[0].circle
    assert circle is not None
    keep = circle[1]
    step = -(-((1 << 32) - keep) // (states - 1))
    kept, width, size = np.uint32(keep), np.uint32(step), np.uint16(states)

    def draw(people: People, generator: np.random.Generator) -> object:
        words = _words(generator, len(people))
        walked = ((words - kept) // width).astype(np.uint16)
        walked += np.uint16(1)
        walked *= words >= kept
        walked += people.keys
        walked += np.uint16(1)
        walked -= (walked >= size) * size
        return walked

    return draw


def tuned_unary(plan: Plan, bits: int) -> PlainForm:
    """Unary encoding by a byte for each bit, and 24 bits more where the byte leaves it open."""
    law = plan.channels[0].one_hot_bits
    assert law is not None
    first, rest, show = np.uint8(law.fake >> 24), law.fake & 0xFFFFFF, np.uint32(law.show)

    def draw(people: People, generator: np.random.Generator) -> object:
        count = len(people)
        bytes_ = _words(generator, -(-count * bits // 4)).view(np.uint8)[: count * bits]
        marks = bytes_ < first
        ties = np.flatnonzero(bytes_ == first)
        marks[ties] = _words(generator, len(ties)) >> np.uint32(8) < rest
        marks = marks.reshape(count, bits)
        marks[np.arange(count), people.keys] = _words(generator, count) < show
        return np.packbits(marks, axis=1, bitorder="little")

    return draw


def tuned_kvue(plan: Plan) -> PlainForm:
    """KVUE by the mask as one long row, which NumPy searches much faster."""
    channel = plan.channels[0]
    assert isinstance(channel, Symmetric)
    keys = len(plan.schema.keys)

    def draw(people: People, generator: np.random.Generator) -> object:
        count = len(people)
        table = people.keys.reshape(count, -1)
        sampled = generator.integers(0, keys, (count,), dtype=np.uint16)
        held = np.flatnonzero(table == sampled[:, None])
        up = generator.random(len(held), np.float32) < (people.values[held] + 1) / 2
        states = np.zeros(count, np.uint8)
        states[held // table.shape[1]] = up.view(np.uint8) + np.uint8(1)
        return _kvue_codes(channel, sampled, states, _words(generator, count))

    return draw


def _words(generator: np.random.Generator, count: int) -> np.ndarray:
    """Words of 32 bits, as the generator makes them, two at a time."""
    return generator.bit_generator.random_raw(-(-count // 2)).view(np.uint32)[:count]


def sums_of_bytes(marks: np.ndarray) -> np.ndarray:
    """Sums of rows of zeros and ones, as many at a time as fit into a byte."""
    sums = np.zeros(marks.shape[1], np.int64)
    for first in range(0, len(marks), 255):
        sums += np.add.reduce(marks[first : first + 255], axis=0, dtype=np.uint8)
    return sums


def supports_of_hashes(seeds: np.ndarray, cells: np.ndarray, items: int, width: int) -> np.ndarray:
    """How many reports of local hashing support each item: every item is hashed for every report."""
    matches = np.zeros(items, np.int64)
    item = np.arange(items, dtype=np.uint32)
    for first in range(0, len(seeds), 64):
        mixed = (item ^ seeds[first : first + 64, None]) * np.uint32(2654435761)
        mixed ^= mixed >> np.uint32(15)
        matches += (mixed % np.uint32(width) == cells[first : first + 64, None]).sum(axis=0)
    return matches
