"""People, words and comparisons for tests of compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from keyveil import Coins, People, Plan, Schema
from keyveil.foundation.arrays import WORD
from keyveil.foundation.coins import address
from keyveil.foundation.compiled import compiled
from keyveil.foundation.stream import Stream
from keyveil.plan.device_side import DeviceSide


def crowd_of(schema: Schema, count: int) -> People:
    """Records of all sizes, from nothing to every key, with values at and between the levels."""
    keys, draw = len(schema.keys), np.random.Generator(np.random.PCG64(7))
    held = draw.random((count, keys)) < np.linspace(0, 1, count)[:, None]
    counts = held.sum(axis=1)
    places = np.nonzero(held)[1]
    low, high = schema.low[places], schema.high[places]
    values = low + (high - low) * draw.choice([0, 0.25, 0.5, 1, 0.123456789], len(places))
    starts = np.concatenate([[0], np.cumsum(counts)])
    return People(address(np.arange(count)), starts, places.astype(np.uint16), values)


def same(
    plan: Plan, people: People, monkeypatch: pytest.MonkeyPatch, coins: Coins | None = None
) -> None:
    """The fast path is taken, and sends what the plain one sends, whoever makes the words."""
    coins = coins or Coins.stated("fast")
    with monkeypatch.context() as here:
        here.setenv("KEYVEIL_FAST", "0")
        plain = plan.packing.packed(plan.privatise(people, coins))
    for fast_aes in {loops_of().FAST_AES, False}:
        with monkeypatch.context() as here:
            here.setenv("KEYVEIL_FAST", "1")
            here.setattr(DeviceSide, "perturb", None)  # only the plain path calls it
            here.setattr(loops_of(), "FAST_AES", fast_aes)
            fast = plan.privatise(people, coins)
        assert np.array_equal(plan.packing.packed(fast), plain)


def loops_of() -> Any:
    loops = compiled()
    assert loops is not None
    return loops


def near(ends: list[int]) -> np.ndarray:
    """The first and last word, and those one below, at and one above each end."""
    words = {0, WORD - 1, *(end + step for end in ends for step in (-1, 0, 1))}
    return np.array(sorted(w for w in words if 0 <= w < WORD), np.uint32)


def stream_of(words: np.ndarray) -> Stream:
    return Stream(Coins.stated("unused"), np.zeros((len(words), 4), np.uint32), ready=words)
