"""KVUE over a table of people in plain NumPy with PCG64, as one would write it without keyveil.

Each form gets prepared arrays and returns codes ``key * 3 + output`` as uint16. The forms are as fast
as we can write them: narrow types, integer comparisons, no needless temporaries. ``table`` has a row of
ten keys for each person, so everyone must hold the same number of keys; keyveil, ``by_search`` and
``by_repeats`` take any number of keys.
"""

from __future__ import annotations

import numpy as np

from keyveil import People, Plan
from keyveil.channel import Symmetric


class Plain:
    """The plan's law and the people, as arrays."""

    def __init__(self, plan: Plan, table: np.ndarray, values: np.ndarray) -> None:
        channel = plan.channels[0]
        assert isinstance(channel, Symmetric)
        self.keys = len(plan.schema.keys)
        self.keep = np.uint32(channel.keep)
        self.second = np.uint32(channel.keep + channel.lie + (channel.rest > 0))
        self.people, self.held = table.shape
        self.table, self.values = table, values
        persons = np.arange(self.people, dtype=np.int64)
        self.places = (persons[:, None] * self.keys + table).ravel()
        self.offsets = persons * self.keys
        self.counts = np.full(self.people, self.held)
        self.owners = np.repeat(persons, self.counts)

    def by_mask(self, rng: np.random.Generator) -> np.ndarray:
        """Codes by a mask of the held keys that were sampled."""
        sampled = self._sampled(rng)
        who, column = np.nonzero(self.table == sampled[:, None])
        return self._codes(sampled, who, self.values[who, column], rng)

    def by_search(self, rng: np.random.Generator) -> np.ndarray:
        """Codes by a binary search for each person's sampled key among all person * keys + key."""
        sampled = self._sampled(rng)
        wanted = self.offsets + sampled
        at = np.minimum(np.searchsorted(self.places, wanted), len(self.places) - 1)
        who = np.flatnonzero(self.places[at] == wanted)
        return self._codes(sampled, who, self.values.reshape(-1)[at[who]], rng)

    def by_repeats(self, people: People, rng: np.random.Generator) -> np.ndarray:
        """Codes by comparing all held keys, one after the other, with their owner's sampled key."""
        sampled = self._sampled(rng)
        at = np.flatnonzero(people.keys == np.repeat(sampled, self.counts))
        return self._codes(sampled, self.owners[at], people.values[at], rng)

    def _sampled(self, rng: np.random.Generator) -> np.ndarray:
        """One key for each person, all equally likely."""
        return rng.integers(0, self.keys, (self.people,), dtype=np.uint16)

    def _codes(
        self, sampled: np.ndarray, who: np.ndarray, values: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Round the values of those who hold the sampled key, and perturb everyone's state."""
        states = np.zeros(self.people, np.uint8)
        states[who] = (rng.random(len(who)) < (values + 1) / 2).view(np.uint8) + np.uint8(1)
        words = rng.integers(0, 1 << 32, (self.people,), dtype=np.uint32)
        states += (words >= self.keep).view(np.uint8)
        states += (words >= self.second).view(np.uint8)
        states -= (states > 2).view(np.uint8) * np.uint8(3)
        return sampled * np.uint16(3) + states
