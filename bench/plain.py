"""KVUE over a table of people in plain NumPy with PCG64: what one would write without keyveil.

Each form gets its arrays ready made and gives codes ``key * 3 + output`` as uint16. They are written
as well as we can: narrow types, whole words compared with whole thresholds, no temporary that could
be left out. ``table`` has a row of ten keys for each person, which people who hold different numbers
of keys do not fit into; keyveil and ``by_search`` take any number of keys.
"""

from __future__ import annotations

import numpy as np

from keyveil import Plan
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

    def by_mask(self, rng: np.random.Generator) -> np.ndarray:
        """A mask of the held keys that were sampled, and its rows and columns."""
        sampled = self._sampled(rng)
        who, column = np.nonzero(self.table == sampled[:, None])
        return self._codes(sampled, who, self.values[who, column], rng)

    def by_flat_mask(self, rng: np.random.Generator) -> np.ndarray:
        """The same mask searched as one long row, for which NumPy has a much faster loop."""
        sampled = self._sampled(rng)
        at = np.flatnonzero(self.table == sampled[:, None])
        return self._codes(sampled, at // self.held, self.values.reshape(-1)[at], rng)

    def by_search(self, rng: np.random.Generator) -> np.ndarray:
        """A binary search for each person's sampled key among all numbers person * keys + key."""
        sampled = self._sampled(rng)
        wanted = self.offsets + sampled
        at = np.minimum(np.searchsorted(self.places, wanted), len(self.places) - 1)
        who = np.flatnonzero(self.places[at] == wanted)
        return self._codes(sampled, who, self.values.reshape(-1)[at[who]], rng)

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
