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
"""Maximum number of people in a sample."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample of a table's people: person, key and value of every pair that they hold."""

    people: int
    who: Integers
    place: Integers
    at: Floats
    """The value on [0, 1]."""

    @classmethod
    def of(cls, people: People, at: Floats) -> Sample:
        """A sample of evenly spaced people; ``at`` are the table's values on [0, 1]."""
        chosen = evenly(len(people), MOST_SAMPLED)
        number = np.diff(people.starts)[chosen]
        rows = np.repeat(people.starts[chosen] - np.cumsum(number) + number, number)
        rows += np.arange(len(rows))
        who = np.repeat(np.arange(len(chosen)), number)
        return cls(len(chosen), who, people.keys[rows].astype(np.int64), at[rows])

    def fewer(self, people: int) -> Sample:
        """A smaller sample of ``people`` people, evenly spaced."""
        if people >= self.people:
            return self
        chosen = evenly(self.people, people)
        here = np.searchsorted(chosen, self.who)
        chosen_rows = chosen[np.minimum(here, people - 1)] == self.who
        return Sample(people, here[chosen_rows], self.place[chosen_rows], self.at[chosen_rows])

    def states(self, levels: int, keys: Integers) -> Integers:
        """The state ``(keys, people)`` of each key; values are rounded to levels by fixed draws."""
        number = np.full(int(max(keys.max(initial=0), self.place.max(initial=0))) + 1, -1)
        number[keys] = np.arange(len(keys))
        place = number[self.place]
        asked = place >= 0
        states = np.zeros((len(keys), self.people), np.int64)
        draw = Coins.stated("rounding of a sample").generator(levels)
        below, up = between_levels(self.at[asked] * (levels - 1), levels)
        states[place[asked], self.who[asked]] = below + 1 + (1.0 - draw.random(len(below)) <= up)
        return states

    def sets(self, cap: int, times: int | None = None) -> Integers:
        """The items ``(draws, cap)`` that people would report, by fixed draws; -1 fills empty places.

        A person with more than ``cap`` keys reports a random choice of them. Item 2 key + 1 is a value
        rounded up, item 2 key a value rounded down. Each person is drawn ``times`` times; the default
        repeats small samples.
        """
        times = max(1, MOST_SAMPLED // self.people) if times is None else times
        draw = Coins.stated("sets of a sample").generator(cap)
        first = np.searchsorted(self.who, self.who)
        items = np.full((times, self.people, cap), -1, np.int64)
        for round_items in items:
            order = np.lexsort((draw.random(len(self.who)), self.who))
            rank = np.arange(len(order)) - first
            kept_rows, rank = order[rank < cap], rank[rank < cap]
            up = draw.random(len(kept_rows)) < self.at[kept_rows]
            round_items[self.who[kept_rows], rank] = 2 * self.place[kept_rows] + up
        return np.sort(items.reshape(-1, cap), axis=1)

    def together(self, keys: int, levels: int, views: Sequence[tuple[int, ...]]) -> Floats:
        """Counts ``(keys, states, states of the other keys)``, summed over the views of each key."""
        size, states = len(views[0]), levels + 1
        asked, where = np.unique(np.array(views), return_inverse=True)
        digits, where = self.states(levels, asked), where.reshape(-1, size)
        cells = states**size
        code = np.arange(len(views), dtype=np.int64)[:, None].repeat(self.people, axis=1)
        for place in range(size):
            code *= states
            code += digits[where[:, place]]
        counts = np.bincount(code.ravel(), minlength=len(views) * cells).reshape((-1, *(states,) * size))
        sums = np.zeros((len(asked), states, cells // states))
        for place in range(size):
            order = np.argsort(where[:, place], kind="stable")
            there, first = np.unique(where[order, place], return_index=True)
            turned = np.moveaxis(counts, 1 + place, 1)[order].reshape(-1, *sums.shape[1:])
            sums[there] += np.add.reduceat(turned, first)
        every = np.zeros((keys, *sums.shape[1:]))
        every[asked] = sums
        return every


def evenly(count: int, chosen: int) -> Integers:
    """``chosen`` evenly spaced places of ``count``; all places if there are fewer."""
    return np.arange(chosen, dtype=np.int64) * count // chosen if chosen < count else np.arange(count)
