"""Sample: some people of a table, kept beside a prior to tell how keys go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..foundation.arrays import Floats, Integers
from ..foundation.coins import Coins
from .rounding import between_levels

if TYPE_CHECKING:
    from .people import People

MOST_SAMPLED = 1 << 13
"""People of a table, evenly spaced, who are kept."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Some people of a table: for every key that one of them holds, who, which, and where it lies."""

    people: int
    who: Integers
    place: Integers
    at: Floats
    """The value on [0, 1]."""

    @classmethod
    def of(cls, people: People, at: Floats) -> Sample:
        """Some people of a table, evenly spaced; ``at`` says where each of its values lies on [0, 1]."""
        some, number = evenly(len(people), MOST_SAMPLED), np.diff(people.starts)
        number = number[some]
        rows = np.repeat(people.starts[some] - np.cumsum(number) + number, number)
        rows += np.arange(len(rows))
        who = np.repeat(np.arange(len(some)), number)
        return cls(len(some), who, people.keys[rows].astype(np.int64), at[rows])

    def fewer(self, people: int) -> Sample:
        """So many of them, evenly spaced."""
        if people >= self.people:
            return self
        chosen = evenly(self.people, people)
        here = np.searchsorted(chosen, self.who)
        kept = chosen[np.minimum(here, people - 1)] == self.who
        return Sample(people, here[kept], self.place[kept], self.at[kept])

    def states(self, levels: int, keys: Integers) -> Integers:
        """``(keys, people)``: the state of each, values rounded to levels by fixed draws."""
        number = np.full(int(max(keys.max(initial=0), self.place.max(initial=0))) + 1, -1)
        number[keys] = np.arange(len(keys))
        place = number[self.place]
        kept = place >= 0
        made = np.zeros((len(keys), self.people), np.int64)
        draw = Coins.stated("rounding of a sample").generator(levels)
        below, up = between_levels(self.at[kept] * (levels - 1), levels)
        made[place[kept], self.who[kept]] = below + 1 + (1.0 - draw.random(len(below)) <= up)
        return made

    def sets(self, cap: int, times: int | None = None) -> Integers:
        """``(draws, cap)``: the items that people would name, -1 where there is none, by fixed draws.

        Of more keys than ``cap`` any so many; item 2 key + 1 is a value rounded up, 2 key one down.
        Everyone is drawn so many ``times``; unless given, few people several times.
        """
        times = max(1, MOST_SAMPLED // self.people) if times is None else times
        draw = Coins.stated("sets of a sample").generator(cap)
        first = np.searchsorted(self.who, self.who)
        made = np.full((times, self.people, cap), -1, np.int64)
        for again in made:
            order = np.lexsort((draw.random(len(self.who)), self.who))
            rank = np.arange(len(order)) - first
            kept, rank = order[rank < cap], rank[rank < cap]
            up = draw.random(len(kept)) < self.at[kept]
            again[self.who[kept], rank] = 2 * self.place[kept] + up
        return np.sort(made.reshape(-1, cap), axis=1)

    def together(self, keys: int, levels: int, views: Sequence[tuple[int, ...]]) -> Floats:
        """``(keys, states, other keys' states)``: how many have each, summed over a key's views."""
        size, states = len(views[0]), levels + 1
        asked, where = np.unique(np.array(views), return_inverse=True)
        digits, where = self.states(levels, asked), where.reshape(-1, size)
        cells = states**size
        code = np.arange(len(views), dtype=np.int64)[:, None].repeat(self.people, axis=1)
        for place in range(size):
            code *= states
            code += digits[where[:, place]]
        found = np.bincount(code.ravel(), minlength=len(views) * cells).reshape((-1, *(states,) * size))
        made = np.zeros((len(asked), states, cells // states))
        for place in range(size):
            order = np.argsort(where[:, place], kind="stable")
            there, first = np.unique(where[order, place], return_index=True)
            turned = np.moveaxis(found, 1 + place, 1)[order].reshape(-1, *made.shape[1:])
            made[there] += np.add.reduceat(turned, first)
        every = np.zeros((keys, *made.shape[1:]))
        every[asked] = made
        return every


def evenly(count: int, some: int) -> Integers:
    """Some of so many places, evenly spaced."""
    return np.arange(some, dtype=np.int64) * count // some if some < count else np.arange(count)
