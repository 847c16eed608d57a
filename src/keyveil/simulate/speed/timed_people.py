"""People for measurements: ten of a hundred keys each, one key each, or many keys."""

from __future__ import annotations

import numpy as np

from ...foundation.coins import Coins, address
from ...people.people import People

KEYS, HELD = 100, 10


def ten_held(people: int) -> tuple[People, np.ndarray, np.ndarray]:
    """People who hold 10 of 100 keys; also their keys and their values, ``(people, 10)`` each."""
    draw = Coins.stated("speed").generator()
    table = np.empty((people, HELD), np.uint16)
    for first in range(0, people, 20_000):
        chance = draw.random((min(20_000, people - first), KEYS), np.float32)
        chosen = np.argpartition(chance, HELD, axis=1)[:, :HELD]
        table[first : first + len(chosen)] = np.sort(chosen, axis=1)
    values, starts = draw.uniform(-1, 1, (people, HELD)), np.arange(0, people * HELD + 1, HELD)
    return People(address(np.arange(people)), starts, table.ravel(), values.ravel()), table, values


def one_each(people: int, keys: int) -> People:
    """People who hold one of the keys each."""
    held = Coins.stated("one each").generator().integers(0, keys, people).astype(np.uint16)
    starts = np.arange(people + 1)
    return People(address(starts[:-1]), starts, held, np.zeros(people))


def many_held(people: int, keys: int) -> People:
    """People who hold each key with probability 0.4."""
    draw = Coins.stated("many held").generator()
    held = draw.random((people, keys)) < 0.4
    starts = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
    key = np.nonzero(held)[1].astype(np.uint16)
    return People(address(np.arange(people)), starts, key, draw.uniform(-1, 1, len(key)))
