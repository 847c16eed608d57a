"""The people of the demos: who orders what, and how they rate it."""

from __future__ import annotations

import numpy as np

from ..foundation.coins import Coins

FOODS = {  # share of people who order it, mean rating on 1..5 among them
    "Hamburger": (0.62, 3.9),
    "Fries": (0.48, 2.6),
    "Pepsi": (0.55, 4.4),
    "Salad": (0.30, 3.1),
    "Ice cream": (0.12, 4.7),
}


def population(people: int) -> tuple[np.ndarray, np.ndarray]:
    """Who orders what, and their ratings, both (people, foods); a taste for fast food moves all."""
    draw = Coins.stated("demo population").generator()
    taste = draw.normal(size=people)
    held, ratings = [], []
    for food, (share, mean) in FOODS.items():
        pull = (-1.2 if food == "Salad" else 1.2) * taste + draw.normal(size=people)
        held.append(pull > np.quantile(pull, 1 - share))
        liked = mean + (-0.3 if food == "Salad" else 0.3) * taste + draw.normal(0, 0.8, size=people)
        ratings.append(np.clip(np.round(liked * 2) / 2, 1, 5))
    return np.column_stack(held), np.column_stack(ratings)


def record(held: np.ndarray, ratings: np.ndarray, person: int) -> dict[str, float]:
    """One person's record."""
    foods = list(FOODS)
    return {foods[place]: float(ratings[person, place]) for place in np.flatnonzero(held[person])}
