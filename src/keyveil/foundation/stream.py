"""Streams of words for the steps of a plan: of many people at once, or of one person."""

from __future__ import annotations

import numpy as np

from .arrays import Words
from .coins import WORDS_PER_BLOCK, Coins, Person

_NOBODY = np.zeros((1, WORDS_PER_BLOCK), np.uint32)
"""The address of a stream that is asked for by the name of its person."""


class Stream:
    """The words of a step for some people: the plan says where the step begins.

    ``words(first, count, rows)`` may be asked in any order and for any subset of the people, so
    that a sampler can stop early for most of them; only what is asked for is ever computed.
    """

    def __init__(
        self,
        coins: Coins,
        addresses: Words,
        person: Person | None = None,
        ready: Words | None = None,
    ) -> None:
        """``ready`` are words that were computed already, from the first on."""
        self._coins = coins
        self._addresses = addresses
        self._person = person
        self._ready = np.empty((len(addresses), 0), np.uint32) if ready is None else ready
        self._start = 0

    @classmethod
    def of(cls, coins: Coins, person: Person, count: int = 0) -> Stream:
        """One person's stream; the way recorded words are played back.

        The first ``count`` words are computed at once, unless they are recorded.
        """
        ready = coins.words(person, 0, count).reshape(1, -1) if count and coins.has_spare_words else None
        return cls(coins, _NOBODY, person, ready)

    def _like(self) -> Stream:
        """The same stream as another object, which ``copy`` would make more slowly."""
        other = Stream.__new__(Stream)
        other._coins, other._addresses, other._person = self._coins, self._addresses, self._person
        other._ready, other._start = self._ready, self._start
        return other

    def __len__(self) -> int:
        return len(self._addresses)

    def skip(self, count: int) -> Stream:
        """The same streams, from ``count`` words further on."""
        later = self._like()
        later._start += count
        return later

    def only(self, rows: np.ndarray) -> Stream:
        """The streams of some of the people."""
        chosen = self._like()
        if self._person is None:
            chosen._addresses = self._addresses[rows]
            chosen._ready = self._ready[rows]
        return chosen

    def prefetch(self, count: int) -> None:
        """Compute the first ``count`` words of every stream in one go."""
        if self._person is None:
            self._ready = self._coins.blocks(self._addresses, 0, -(-count // WORDS_PER_BLOCK))

    def words(self, first: int, count: int, rows: np.ndarray | None = None) -> Words:
        """Words ``first .. first + count`` of the step, for all people or for ``rows`` of them."""
        first += self._start
        if first + count <= self._ready.shape[1]:
            ready = self._ready[:, first : first + count]
            return ready if rows is None else ready[rows]
        if self._person is not None:
            return self._coins.words(self._person, first, count).reshape(1, -1)
        start = first // WORDS_PER_BLOCK
        stop = -(-(first + count) // WORDS_PER_BLOCK)
        chosen = self._addresses if rows is None else self._addresses[rows]
        offset = first - start * WORDS_PER_BLOCK
        return self._coins.blocks(chosen, start, stop - start)[:, offset : offset + count]
