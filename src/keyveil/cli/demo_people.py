"""The people of the demos: who orders what, and how they rate it."""

from __future__ import annotations

import numpy as np

from ..foundation.coins import Coins
from ..people.example_orders import DISHES

FOODS = dict(
    zip(
        DISHES,
        ((0.62, 3.9, 1), (0.48, 2.6, 1), (0.55, 4.4, 1), (0.30, 3.1, -1), (0.20, 4.0, 0)),
        strict=True,
    )
)
"""Of each dish: the share of people who order it, its mean rating on 1..5 among them, and whether a
taste for fast food raises both (1), lowers them (-1) or has nothing to do with them (0)."""


def population(people: int) -> tuple[np.ndarray, np.ndarray]:
    """Who orders what, and their ratings, both (people, foods); a taste for fast food moves all."""
    draw = Coins.stated("demo population").generator()
    taste = draw.normal(size=people)
    held, ratings = [], []
    for share, mean, fast in FOODS.values():
        pull = 1.2 * fast * taste + draw.normal(size=people)
        held.append(pull > np.quantile(pull, 1 - share))
        liked = mean + 0.3 * fast * taste + draw.normal(0, 0.8, size=people)
        ratings.append(np.clip(np.round(liked * 2) / 2, 1, 5))
    return np.column_stack(held), np.column_stack(ratings)


def record(held: np.ndarray, ratings: np.ndarray, person: int) -> dict[str, float]:
    """One person's record."""
    foods = list(FOODS)
    return {foods[place]: float(ratings[person, place]) for place in np.flatnonzero(held[person])}
