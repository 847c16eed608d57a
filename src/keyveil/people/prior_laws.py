"""Laws that a prior is made of: of values, of the states of keys, and of the number of keys."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..foundation.arrays import Floats
from ..foundation.errors import PlanError

POINTS = 841
"""840 is divided by 1 .. 8, so that 2 to 9 evenly spaced levels all lie on the grid."""
GRID = np.linspace(-1.0, 1.0, POINTS)
HELD = 0.3
"""The default share of people who hold a key; also that of every design and example without a prior."""
SHAPE = 2.0
"""The smaller shape of the default beta-binomial law of how many keys a person holds."""
MOST_HELD = 4096
"""The most keys that a law of held keys speaks of, if nothing else is stated."""
CLASSES = 5
"""The number of representative frequencies; each comes with three means."""


def independent_law(levels: int, keys: int, frequency: float = HELD, mean: float = 0.0) -> Floats:
    """The joint law of independent keys, flat, each held by ``frequency`` with values at the two ends.

    The default is what plans assume when nothing is known: the choice of a channel hardly depends on
    it (a uniform law instead costs a few per cent at most).
    """
    states = np.zeros(levels + 1)
    states[0] = 1 - frequency
    states[1] += frequency * (1 - mean) / 2
    states[-1] += frequency * (1 + mean) / 2
    return product_law(states, keys)


def product_law(states: Floats, keys: int) -> Floats:
    """The joint law of independent keys whose states have the same law, flat."""
    law: Floats = np.ones(1)
    for _ in range(keys):
        law = np.asarray(np.kron(law, states), np.float64)
    return law


@lru_cache(maxsize=512)
def value_law(mean: float, spread: float) -> Floats:
    """The law of most entropy on the grid with this mean and spread: a normal law, cut at the ends.

    A large spread bends it the other way, towards the two ends; more spread than the ends allow is
    cut down to what they do.
    """
    if spread < 0:
        raise PlanError("a spread is not negative")
    spread = float(np.clip(spread, 0.02, 0.98 * np.sqrt(1 - mean**2)))
    wanted = np.array([mean, mean**2 + spread**2])
    powers = np.stack([GRID, GRID**2])
    slope = np.array([mean / spread**2, -0.5 / spread**2]) if spread < 0.4 else np.zeros(2)
    law = _tilted(slope, powers)
    for _ in range(200):
        off = powers @ law - wanted
        if np.abs(off).max() < 1e-12:
            break
        bend = (powers * law) @ powers.T - np.outer(powers @ law, powers @ law)
        step = np.linalg.solve(bend + 1e-12 * np.eye(2), off)
        pace = 1.0
        before = _potential(slope, powers, wanted)
        while _potential(slope - pace * step, powers, wanted) > before and pace > 1e-6:
            pace /= 2
        slope = slope - pace * step
        law = _tilted(slope, powers)
    law.flags.writeable = False  # it is kept, and asked for again
    return law


def _tilted(slope: Floats, powers: Floats) -> Floats:
    heights = slope @ powers
    law = np.exp(heights - heights.max())
    return np.asarray(law / law.sum())


def _potential(slope: Floats, powers: Floats, wanted: Floats) -> float:
    heights = slope @ powers
    return float(np.log(np.exp(heights - heights.max()).sum()) + heights.max() - slope @ wanted)


def class_frequencies(share: float, classes: int) -> Floats:
    """Quantiles of 1 - (1 - u)^(1 / b), whose mean is 1 / (1 + b) = share."""
    if share >= 1:
        return np.ones(classes)
    middle = (np.arange(classes) + 0.5) / classes
    quantiles = 1.0 - (1.0 - middle) ** (share / (1.0 - share))
    return np.clip(quantiles * share / quantiles.mean(), 0.0, 1.0)


def usual_sizes(share: float, keys: int) -> Floats:
    """The default law of how many keys a person holds, cut where next to no one is left."""
    if share >= 1:
        return np.concatenate([np.zeros(keys), [1.0]])
    law = beta_binomial(share, keys, SHAPE, min(keys, MOST_HELD))
    last = int(np.searchsorted(np.cumsum(law), 1 - 1e-9)) + 1
    return np.asarray(law[:last] / law[:last].sum())


def beta_binomial(share: float, keys: int, shape: float, most: int) -> Floats:
    """The beta-binomial law of 0 .. ``most`` held keys whose mean is ``share`` of all keys.

    ``shape`` is the smaller of its two shapes; infinity makes it a binomial.
    """
    number = np.arange(most, dtype=np.float64)
    if np.isinf(shape):
        odds = np.full(most, share / (1.0 - share))
    else:
        larger = shape * max(share, 1.0 - share) / min(share, 1.0 - share)
        first, second = (shape, larger) if share < 0.5 else (larger, shape)
        odds = (first + number) / (keys - 1.0 - number + second)
    steps = np.log((keys - number) / (number + 1.0) * odds)  # p(j + 1) / p(j)
    heights = np.concatenate([[0.0], np.cumsum(steps)])
    law = np.exp(heights - heights.max())
    return np.asarray(law / law.sum())
