"""Population: the law of a table's records, from which simulated people are drawn."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import product

import numpy as np

from ..foundation.arrays import WORD, Floats, Integers
from ..foundation.errors import PlanError
from .people import People
from .schema import Schema

COST_OF_HOLDER = 1000
"""Cost of looking up one holder of a pair of keys, in multiplications of a matrix product."""
LEAST_SHARE = 1e-13
"""Shares below this are rounding errors and count as 0."""


def on_unit_scale(schema: Schema, people: People) -> tuple[Schema, People]:
    """A table with every key's values on [-1, 1]."""
    values = schema.unit_interval(people.keys.astype(np.int64), people.values) * 2 - 1
    return Schema.of(list(schema.keys)), replace(people, values=values)


class Population:
    """The law of the records of ``people``: the share of every joint state of any keys of ``schema``."""

    people: People

    def __init__(self, schema: Schema, people: People, levels: int = 2) -> None:
        if not len(people):
            raise PlanError("a population needs at least one person")
        self.schema, self.people, self.levels = schema.at(levels), people, levels
        self._laws: dict[tuple[int, ...], Floats] = {}
        self._at: dict[int, Population] = {levels: self}
        self._looked_up = 0.0

    def at(self, levels: int) -> Population:
        """The same people with values rounded to other levels; cached."""
        if levels not in self._at:
            self._at[levels] = self._rounded_to(levels)
            self._at[levels]._at = self._at
        return self._at[levels]

    def _rounded_to(self, levels: int) -> Population:
        return Population(self.schema, self.people, levels)

    def on_unit_scale(self) -> Population:
        """The same population with every key's values on [-1, 1]."""
        schema, people = self.schema, self.people
        if bool((schema.low == -1).all() and (schema.high == 1).all()):
            return self
        return Population(*on_unit_scale(schema, people), self.levels)

    def draw(self, people: int, draw: np.random.Generator, first: int = 0) -> People:
        """``people`` independent draws of a person, numbered from ``first`` on."""
        rows = draw.integers(0, len(self.people), people)
        return self.people.chosen(rows, np.arange(first, first + people, dtype=np.int64))

    # -- the laws of single keys, from the rows that there are -------------------------------------

    @cached_property
    def _digits(self) -> tuple[Integers, Integers, Floats]:
        """The key of every row, the level below its value, and the chance of the level above."""
        keys = self.people.keys.astype(np.int64)
        return keys, *self.schema.between_levels(keys, self.people.values)

    def _counted(self, weights: Floats) -> Floats:
        """The weight of every key's levels, from a weight for each row."""
        keys, below, up = self._digits
        size, cells = len(self.schema.keys) * self.levels, keys * self.levels + below
        weight = np.bincount(cells, weights * (1.0 - up), size)
        if self.levels > 1:
            weight += np.bincount(cells + 1, weights * up, size)
        return weight.reshape(-1, self.levels) / len(self.people)

    @cached_property
    def _one(self) -> Floats:
        """The law ``(key, state)`` of every single key."""
        held = self._counted(np.ones(len(self.people.keys)))
        return np.concatenate([1.0 - held.sum(axis=1, keepdims=True), held], axis=1)

    def drawn(self, length: int) -> Floats:
        """The chance ``(keys, levels)`` of each item, if who holds h keys draws 1 of max(h, length)."""
        held = np.diff(self.people.starts)
        return self._counted(np.repeat(1.0 / np.maximum(held, length), held))

    @cached_property
    def sizes(self) -> Floats:
        """The share of people who hold 0, 1, 2, ... keys."""
        return np.bincount(np.diff(self.people.starts)) / len(self.people)

    # -- of several keys ---------------------------------------------------------------------------

    @property
    def chances(self) -> Floats:
        """The chance ``(people, keys, states)`` of each state of a key after rounding; dense."""
        return self._dense(0, len(self.people))

    def _dense(self, first: int, last: int) -> Floats:
        people, (keys, below, up) = self.people, self._digits
        rows = slice(int(people.starts[first]), int(people.starts[last]))
        chances = np.zeros((last - first, len(self.schema.keys), self.levels + 1))
        chances[:, :, 0] = 1.0
        who = np.repeat(np.arange(last - first), np.diff(people.starts[first : last + 1]))
        chances[who, keys[rows], 0] = 0.0
        chances[who, keys[rows], below[rows] + 1] = 1.0 - up[rows]
        if self.levels > 1:
            chances[who, keys[rows], below[rows] + 2] = up[rows]
        return chances

    @cached_property
    def _two(self) -> Floats:
        """The joint law ``(key, state, key, state)`` of every two different keys."""
        keys, levels = len(self.schema.keys), self.levels
        both = np.zeros((keys * levels, keys * levels))
        step = max(1, (1 << 21) // (keys * levels))
        for first in range(0, len(self.people), step):
            held = self._dense(first, min(first + step, len(self.people)))[:, :, 1:]
            flat = held.reshape(-1, keys * levels)
            both += flat.T @ flat
        law = np.zeros((keys, levels + 1, keys, levels + 1))
        law[:, 1:, :, 1:] = both.reshape(keys, levels, keys, levels) / len(self.people)
        single = self._one[:, 1:]
        law[:, 1:, :, 0] = single[:, :, None] - law[:, 1:, :, 1:].sum(axis=3)
        law[:, 0, :, 1:] = single[None, :, :] - law[:, 1:, :, 1:].sum(axis=1)
        law[:, 0, :, 0] = 1.0 - single.sum(axis=1)[:, None] - law[:, 0, :, 1:].sum(axis=2)
        return law

    @cached_property
    def _by_key(self) -> tuple[Integers, Integers, Integers]:
        """The rows sorted by key, where each key begins among them, and the person of each row."""
        keys = self._digits[0]
        order = np.argsort(keys, kind="stable")
        starts = np.searchsorted(keys[order], np.arange(len(self.schema.keys) + 1))
        who = np.repeat(np.arange(len(self.people)), np.diff(self.people.starts))
        return order, starts, who[order]

    def law(self, keys: tuple[int, ...]) -> Floats:
        """The share of every joint state of the keys, the first key the most significant digit."""
        if keys not in self._laws:
            self._laws[keys] = self._law(keys)
        return self._laws[keys]

    def _law(self, keys: tuple[int, ...]) -> Floats:
        if len(keys) == 1:
            return np.asarray(self._one[keys[0]])
        if len(keys) == 2 and self._all_pairs_pay(keys):
            return np.asarray(self._two[keys[0], :, keys[1], :].reshape(-1))
        size = self.levels + 1
        law = np.zeros((size,) * len(keys))
        # First with a key's state 0 for "held or not", from those who hold the other keys.
        for asked in product((False, True), repeat=len(keys)):
            chosen = tuple(key for key, is_asked in zip(keys, asked, strict=True) if is_asked)
            part = law[(..., *(slice(1, None) if is_asked else 0 for is_asked in asked))]
            part[...] = self._held(chosen, len(keys)) if chosen else 1.0
        for axis in range(len(keys)):
            turned = np.moveaxis(law, axis, 0)
            turned[0] -= turned[1:].sum(axis=0)
        law[np.abs(law) < LEAST_SHARE] = 0.0
        return law.reshape(-1)

    def _held(self, keys: tuple[int, ...], whole: int) -> Floats:
        """The share of people who hold all of the keys, by their levels; for a law of ``whole`` keys."""
        if len(keys) == 1:
            return np.asarray(self._one[keys[0], 1:])
        if len(keys) == 2 < whole:
            return self.law(keys).reshape(self.levels + 1, -1)[1:, 1:]
        order, starts, whose = self._by_key
        first = slice(starts[keys[0]], starts[keys[0] + 1])
        who, rows = whose[first], [order[first]]
        for key in keys[1:]:
            own = slice(starts[key], starts[key + 1])
            place = np.full(len(self.people), -1)
            place[whose[own]] = order[own]
            row = place[who]
            here = row >= 0
            who, rows = who[here], [*(places[here] for places in rows), row[here]]
        _, below, up = self._digits
        levels, ups = [below[places] for places in rows], [up[places] for places in rows]
        size = self.levels ** len(keys)
        shares = np.zeros(size)
        for rounded in product((0, 1) if self.levels > 1 else (0,), repeat=len(keys)):
            cells, share = np.zeros(len(who), np.int64), np.ones(len(who))
            for level, chance, is_up in zip(levels, ups, rounded, strict=True):
                cells *= self.levels
                cells += level + is_up
                share *= chance if is_up else 1.0 - chance
            shares += np.bincount(cells, share, size)
        return (shares / len(self.people)).reshape((self.levels,) * len(keys))

    def _all_pairs_pay(self, keys: tuple[int, ...]) -> bool:
        """Whether all pairs at once would have been quicker than the lookups by holders so far."""
        held = np.diff(self._by_key[1])
        self._looked_up += float(held[list(keys)].sum()) + 1000.0
        every = len(self.people) * (len(held) * self.levels) ** 2
        return self._looked_up * COST_OF_HOLDER > every

    # -- for compiled loops ------------------------------------------------------------------------

    @cached_property
    def ups(self) -> np.ndarray:
        """For every row the word below which its value is rounded up to the higher of two levels."""
        return np.floor(self.at(2)._digits[2] * WORD).astype(np.uint64)
