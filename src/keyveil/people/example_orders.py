"""Made-up orders in a restaurant: the table of README, the gallery and ``keyveil demo --table``."""

from __future__ import annotations

import numpy as np

from ..foundation.coins import Coins

DISHES = ("Hamburger", "Fries", "Pepsi", "Salad", "Tea")
HAMBURGER = 0.45
"""Share of guests who order a hamburger."""
WITH = (1.0, 0.70, 0.60, 0.10, 0.20)
WITHOUT = (0.0, 0.20, 0.25, 0.35, 0.20)
"""Chance of each dish among guests who order a hamburger, and among all others."""
RATING = (4.0, 3.5, 3.0, 3.5, 4.0)
"""Mean rating of each dish before it is rounded; with a hamburger, Pepsi gets a star more."""
SPREAD = 0.7
"""Standard deviation of ratings before they are rounded."""


def orders(guests: int = 60_000) -> dict[str, np.ndarray]:
    """Made-up orders as the columns ``guest``, ``dish`` and ``rating``, a row for each dish on a bill.

    Guests are numbered from 0, ratings are 1 to 5 stars. About one guest in six orders none of the
    five dishes and has no row. The same number of guests gives the same table.
    """
    draw = Coins.stated("orders").generator()
    burger = draw.random(guests) < HAMBURGER
    chances = np.where(burger[:, None], WITH, WITHOUT)
    guest, dish = np.nonzero(draw.random(chances.shape) < chances)
    liking = np.array(RATING)[dish] + (burger[guest] & (dish == DISHES.index("Pepsi")))
    stars = np.clip(np.round(liking + draw.normal(0, SPREAD, len(guest))), 1, 5)
    return {"guest": guest, "dish": np.array(DISHES)[dish], "rating": stars.astype(np.int64)}
