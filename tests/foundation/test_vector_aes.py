"""Blocks that compiled loops make are those of the coins, and loops make none where they differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from keyveil import Coins
from keyveil.foundation.block_source import BlockSource
from keyveil.foundation.coins import address
from keyveil.foundation.compiled import compiled

KEY = bytes(range(32))
PLAIN = bytes.fromhex("00112233445566778899aabbccddeeff")
CODED = bytes.fromhex("8ea2b7ca516745bfeafc49904b496089")
"""The example of AES-256 in FIPS 197, C.3."""


def loops() -> Any:
    loops = compiled()
    assert loops is not None
    return loops


def test_the_key_is_expanded_as_in_the_standard():
    if not loops().FAST_AES:
        assert BlockSource(Coins(KEY), loops()).schedule is None
        return
    schedule = np.empty(60, np.uint32)
    loops().expand_key(np.frombuffer(KEY, np.uint32), schedule)
    assert schedule.tobytes()[:32] == KEY
    assert schedule.tobytes()[-16:] == bytes.fromhex("24fc79ccbf0979e9371ac23c6d68de36")
    words = np.frombuffer(PLAIN, np.uint32).reshape(1, 4)
    block = np.empty(4, np.uint32)
    loops().encrypt_streams(words, 0, 1, schedule, block)
    assert block.tobytes() == CODED


@pytest.mark.parametrize("in_loops", [True, False])
@pytest.mark.parametrize("people", [0, 1, 15, 16, 17, 255, 256, 700])
@pytest.mark.parametrize("count", [1, 2, 5, 300])
def test_blocks_of_loops_are_those_of_the_coins(people, count, in_loops, monkeypatch):
    """Also where a processor lacks the instructions, and OpenSSL makes the words."""
    monkeypatch.setattr(loops(), "FAST_AES", in_loops and loops().FAST_AES)
    named = address([*range(people // 2), *(f"person {i}" for i in range(people // 2, people))])
    room = np.empty(people * count * 16 + 15, np.uint8)
    plain = np.empty((people, count, 4), np.uint32)
    for coins in (Coins.stated("blocks"), Coins.stated("blocks").later(3), Coins.secure()):
        source = BlockSource(coins, loops())
        assert (source.schedule is not None) == loops().FAST_AES
        for by_rows in (False, True):
            blocks = source.fill(named, count, plain, room, by_rows)
            assert np.array_equal(blocks, coins.blocks(named, 0, count))


def test_a_schedule_that_makes_other_words_is_not_used(monkeypatch):
    def wrong(key, schedule):
        schedule[:] = 0

    with monkeypatch.context() as here:
        here.setattr(loops(), "expand_key", wrong)
        assert BlockSource(Coins.stated("wrong"), loops()).schedule is None
    with monkeypatch.context() as here:
        here.setattr(loops(), "FAST_AES", False)
        assert BlockSource(Coins.stated("none"), loops()).schedule is None


def test_recorded_words_are_no_aes():
    coins = Coins.recorded([1, 2, 3, 4])
    assert BlockSource(coins, loops()).schedule is None
    assert BlockSource(coins.later(1), loops()).schedule is None
