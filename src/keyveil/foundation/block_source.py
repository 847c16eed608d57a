"""The words of coins for compiled loops: made inside them where the processor can, else by OpenSSL."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Bits, Words
from .coins import WORDS_PER_BLOCK, Coins, address

_CHECKED = address(np.arange(17))
"""Addresses whose words are compared before a schedule is used."""


class BlockSource:
    """Everyone's blocks of words under one key.

    ``schedule`` are the 60 words of the round keys, and None if loops cannot make the words: the
    processor has no instructions for it, or the coins are no AES. ``first`` is the number of the first
    block of every stream.
    """

    def __init__(self, coins: Coins, loops: Any) -> None:
        self._coins, self._loops = coins, loops
        self.schedule: Words | None = None
        self.first = 0
        source = coins.stream_key()
        if source is None or not loops.FAST_AES:
            return
        key, self.first = source
        schedule = np.empty(60, np.uint32)
        loops.expand_key(np.frombuffer(key, np.uint32), schedule)
        blocks = np.empty(len(_CHECKED) * WORDS_PER_BLOCK, np.uint32)
        loops.encrypt_streams(_CHECKED, self.first, 1, schedule, blocks)
        if np.array_equal(blocks, coins.blocks(_CHECKED, 0, 1).ravel()):
            self.schedule = schedule

    def fill(
        self, addresses: Words, count: int, plain: Words, room: Bits, by_rows: bool = False
    ) -> Words:
        """``Coins.fill``: the first ``count`` blocks of many people's streams, without new memory.

        ``by_rows``: the words of a column lie side by side if loops make them.
        """
        if self.schedule is None:
            return self._coins.fill(addresses, count, plain, room)
        words = room[: len(addresses) * count * 4 * WORDS_PER_BLOCK].view(np.uint32)
        own = np.ascontiguousarray(addresses, np.uint32)
        if by_rows:
            self._loops.encrypt_rows(own, self.first, count, self.schedule, words)
            return words.reshape(count * WORDS_PER_BLOCK, len(addresses)).T
        self._loops.encrypt_streams(own, self.first, count, self.schedule, words)
        return words.reshape(len(addresses), count * WORDS_PER_BLOCK)
