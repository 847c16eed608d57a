"""Populations that are stated by their laws: the paper's Gaussian and Uniform, and PCKV's UU and GG.
``orders`` is a made-up table to try things on.

People belong to hidden kinds; within a kind they hold each key on their own, with the kind's chance,
and value it by the key's law. One kind means independent keys; two kinds tie keys together; a kind
for each key is people who hold exactly one.

The paper says only that "the frequency and mean for different keys follow the uniform distribution and
Gaussian distribution", 100 keys, 100,000 records. **What we chose where it is silent**, all on [-1, 1]:

====================  =====================================  ======================================
                      ``gaussian``                           ``uniform``
====================  =====================================  ======================================
frequency of a key    N(0.5, 0.15) within [0.05, 0.95]       U(0.05, 0.95)
mean of a key         N(0, 0.3) within [-0.9, 0.9]           U(-0.9, 0.9)
values of a key       normal around the mean, cut at the     uniform around the mean, at most 0.5
                      ends, standard deviation 0.25          to either side and never past the ends
====================  =====================================  ======================================

Frequencies stay within the paper's own extremes (its "extreme low" is 0.05); a draw outside is drawn
again. Keys are independent. Values spread so that mechanisms with more than two levels can show what
they gain; the paper's own mechanisms see the mean alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from ..foundation.arrays import Floats
from ..foundation.coins import Coins, address
from ..foundation.errors import PlanError
from .example_orders import orders as orders
from .people import People, place_type, starts_of
from .population import Population, on_unit_scale
from .prior import Prior
from .prior_laws import GRID, value_law
from .rounding import rounding
from .schema import Schema
from .step_search import steps_up_to

TABLE = 100_000
"""Number of people in the table that represents a stated population."""

LEAST, MOST = 0.05, 0.95
GAUSSIAN_FREQUENCY, GAUSSIAN_MEAN, GAUSSIAN_SPREAD = (0.5, 0.15), (0.0, 0.3), 0.25
UNIFORM_WIDTH = 0.5
FURTHEST = 0.9


class StatedPopulation(Population):
    """Hidden kinds of people: the share of each, its chance of each key, and the laws of values.

    ``points`` are the values that occur, on [-1, 1]; ``values[kind, key]`` is the law over them among
    the kind's holders of the key (one row of kinds stands for all).
    """

    def __init__(
        self,
        shares: Floats,
        frequency: Floats,
        values: Floats,
        points: Floats = GRID,
        *,
        levels: int = 2,
        coins: Coins | None = None,
    ) -> None:
        kinds, keys = frequency.shape
        if shares.shape != (kinds,) or abs(float(shares.sum()) - 1) > 1e-9 or (shares < 0).any():
            raise PlanError("the shares of the kinds of people sum to one")
        if (frequency < 0).any() or (frequency > 1).any():
            raise PlanError("the chance of a key lies between 0 and 1")
        if values.shape[1:] != (keys, len(points)) or len(values) not in (1, kinds):
            raise PlanError("a population has a law of values for each key")
        if np.abs(values.sum(axis=2) - 1).max() > 1e-6 or (values < 0).any():
            raise PlanError("a law of values sums to one")
        self.shares, self.chance, self.values, self.points = shares, frequency, values, points
        self.schema, self.levels = Schema.of(keys).at(levels), levels
        self._laws: dict[tuple[int, ...], Floats] = {}
        self._at: dict[int, Population] = {levels: self}
        self._drawn_at: dict[int, Floats] = {}
        self._coins = coins or Coins.stated("a stated population")

    # -- facts -----------------------------------------------------------------------------------

    @cached_property
    def frequency(self) -> Floats:
        """The share of people who hold each key."""
        return self.shares @ self.chance

    @cached_property
    def mean(self) -> Floats:
        """The mean value of each key among those who hold it."""
        worth = self.shares @ (self.chance * (self.values @ self.points))
        return np.asarray(worth / self.frequency)

    @cached_property
    def _states(self) -> Floats:
        """The law ``(kinds, keys, states)`` of each key's state after rounding."""
        kinds, keys = self.chance.shape
        law = np.zeros((kinds, keys, self.levels + 1))
        law[:, :, 0] = 1.0 - self.chance
        law[:, :, 1:] = self.chance[:, :, None] * (self.values @ rounding(self.points, self.levels))
        return law

    def _law(self, keys: tuple[int, ...]) -> Floats:
        joint = self._states[:, keys[0]]
        for key in keys[1:]:
            joint = (joint[:, :, None] * self._states[:, key, None, :]).reshape(len(joint), -1)
        return np.asarray(self.shares @ joint)

    def _rounded_to(self, levels: int) -> Population:
        law = (self.shares, self.chance, self.values, self.points)
        return StatedPopulation(*law, levels=levels, coins=self._coins)

    def on_unit_scale(self) -> StatedPopulation:
        """Itself: its values are stated on [-1, 1]."""
        return self

    @cached_property
    def sizes(self) -> Floats:
        """The share of people who hold 0, 1, 2, ... keys."""
        return np.asarray(self.shares @ np.array([_how_many(row[None, :])[0] for row in self.chance]))

    def drawn(self, length: int) -> Floats:
        """The chance ``(keys, levels)`` of each item, if who holds h keys draws 1 of max(h, length)."""
        if length not in self._drawn_at:
            drawn = np.zeros((len(self.frequency), self.levels))
            for share, chances, states in zip(self.shares, self.chance, self._states, strict=True):
                held = np.flatnonzero(chances)
                # For each key, how many of the others are held: with that key's own chance put to 0.
                others = np.where(np.eye(len(held), dtype=bool), 0.0, chances[held])
                worth = _how_many(others)[:, :-1] @ (1.0 / np.maximum(np.arange(len(held)) + 1, length))
                drawn[held] += share * worth[:, None] * states[held, 1:]
            self._drawn_at[length] = drawn
        return self._drawn_at[length]

    def prior(self) -> Prior:
        """What a planner would believe if it knew this population."""
        return self._prior

    @cached_property
    def _prior(self) -> Prior:
        worth = self.shares[:, None] * self.chance / self.frequency
        laws = np.einsum(
            "ck,ckp->kp", worth, np.broadcast_to(self.values, (*worth.shape, len(self.points)))
        )
        values = laws @ rounding(self.points, len(GRID))
        return Prior(np.ones(len(laws)), self.frequency, values, self.sizes, "the population itself")

    # -- people ----------------------------------------------------------------------------------

    def draw(self, people: int, draw: np.random.Generator, first: int = 0) -> People:
        """``people`` independent people with their records, numbered from ``first`` on."""
        kinds, keys = self.chance.shape
        kind = draw.choice(kinds, people, p=self.shares) if kinds > 1 else np.zeros(people, np.int64)
        chance = self.chance[kind] if kinds > 1 else self.chance
        held = draw.random((people, keys), np.float32) < chance
        who, places = np.nonzero(held)
        laws = self.values.reshape(-1, len(self.points))
        law = places + (kind[who] * keys if len(self.values) > 1 else 0)
        heights = np.cumsum(laws, axis=1)
        heights /= heights[:, -1:]
        # All laws in one ascending row: the first of law j reach from j to j + 1.
        ladder = (heights + np.arange(len(laws))[:, None]).ravel()
        at = steps_up_to(ladder, law + draw.random(len(who))) - law * len(self.points)
        values = self.points[np.minimum(at, len(self.points) - 1)]
        starts, numbers = starts_of(held.sum(axis=1)), np.arange(first, first + people, dtype=np.int64)
        return People(address(numbers), starts, places.astype(place_type(self.schema)), values)

    @cached_property
    def people(self) -> People:  # type: ignore[override]
        """A table of people drawn from the population; cached."""
        return self.draw(TABLE, self._coins.generator())


def _how_many(chances: Floats) -> Floats:
    """The law of the number of successes for each row of independent chances (Poisson-binomial)."""
    rows, keys = chances.shape
    law = np.zeros((rows, keys + 1))
    law[:, 0] = 1.0
    for key in range(keys):
        chance = chances[:, key, None]
        law[:, 1:] = law[:, 1:] * (1 - chance) + law[:, :-1] * chance
        law[:, :1] *= 1 - chance
    return law


class TablePopulation(Population):
    """A table's people, each equally likely; values on [-1, 1]."""

    @cached_property
    def frequency(self) -> Floats:
        """The share of people who hold each key."""
        return np.asarray(self._one[:, 1:].sum(axis=1))

    @cached_property
    def mean(self) -> Floats:
        """The mean value of each key among those who hold it."""
        keys = self.people.keys.astype(np.int64)
        total = np.bincount(keys, self.people.values, len(self.schema.keys))
        return np.asarray(total / len(self.people) / self.frequency)

    def prior(self) -> Prior:
        """What a planner would believe if it knew this table."""
        return Prior.of_people(self.schema, self.people)


KnownPopulation = StatedPopulation | TablePopulation
"""A population whose true frequencies and means are known."""


# -- the paper's ------------------------------------------------------------------------------------


def gaussian(keys: int = 100, coins: Coins | None = None) -> StatedPopulation:
    """Frequencies, means and values all normal; the table above has the parameters."""
    draw = (coins or Coins.stated("paper")).under("gaussian").generator()
    frequency = _within(lambda n: draw.normal(*GAUSSIAN_FREQUENCY, n), keys, LEAST, MOST)
    means = _within(lambda n: draw.normal(*GAUSSIAN_MEAN, n), keys, -FURTHEST, FURTHEST)
    return of_keys(frequency, means, normal_values)


def uniform(keys: int = 100, coins: Coins | None = None) -> StatedPopulation:
    """Frequencies, means and values all uniform; the table above has the parameters."""
    draw = (coins or Coins.stated("paper")).under("uniform").generator()
    return of_keys(
        draw.uniform(LEAST, MOST, keys), draw.uniform(-FURTHEST, FURTHEST, keys), uniform_values
    )


def of_keys(frequency: Floats, means: Floats, law: Callable[[float], Floats]) -> StatedPopulation:
    """Independent keys with these frequencies, and values around these means."""
    values = np.array([law(float(mean)) for mean in means])
    return StatedPopulation(np.ones(1), np.asarray(frequency, np.float64)[None, :], values[None, :, :])


def normal_values(mean: float) -> Floats:
    """Values around a mean, normal and cut at the ends, over the grid."""
    return value_law(mean, GAUSSIAN_SPREAD)


def uniform_values(mean: float) -> Floats:
    """Values uniform around a mean; each is split between the grid points around it, so means stay."""
    width = min(UNIFORM_WIDTH, 1.0 - abs(mean))
    steps = (len(GRID) - 1) / 2.0
    low, high = ((mean + end + 1.0) * steps for end in (-width, width))
    number = np.arange(len(GRID), dtype=np.float64)
    return np.asarray((_below_hat(high - number) - _below_hat(low - number)) / (high - low))


def _below_hat(at: Floats) -> Floats:
    """The integral of 1 - |x| from -1 up to each place."""
    at = np.clip(at, -1.0, 1.0)
    return np.where(at < 0, (1 + at) ** 2 / 2, 1 - (1 - at) ** 2 / 2)


def tied(keys: int, frequency: float = 0.8, mean: float = -0.8, apart: float = 0.15) -> StatedPopulation:
    """Keys that go together: two equal kinds of people, one that holds more keys and likes them better.

    The kinds hold a key with chance ``frequency`` -+ ``apart``, and their means are twice ``apart``
    from each other (less where the ends do not allow it), ``mean`` over all holders.
    """
    reach = min(apart, 1.0 - frequency)
    chance = np.array([frequency - reach, frequency + reach])
    step = min(2 * apart, (1.0 - abs(mean)) / float(max(chance)) * 2 * frequency)
    means = mean + step / (2 * frequency) * np.array([-chance[1], chance[0]])
    laws = np.array([[uniform_values(float(center))] * keys for center in means])
    return StatedPopulation(np.array([0.5, 0.5]), np.repeat(chance[:, None], keys, axis=1), laws)


def _within(draw: Callable[[int], Floats], count: int, low: float, high: float) -> Floats:
    """``count`` draws within bounds; draws outside are repeated."""
    values = np.empty(0)
    while len(values) < count:
        more = draw(count)
        values = np.append(values, more[(more >= low) & (more <= high)])
    return values[:count]


# -- PCKV's -----------------------------------------------------------------------------------------


def pckv_uniform(keys: int = 100, coins: Coins | None = None) -> StatedPopulation:
    """UU of Gu et al. 2020: everyone holds one key, drawn evenly; a key's value is uniform on
    [-1, 1]."""
    draw = (coins or Coins.stated("pckv")).under("UU").generator()
    return _one_each(np.full(keys, 1.0 / keys), draw.uniform(-1, 1, keys))


def pckv_gaussian(keys: int = 100, coins: Coins | None = None) -> StatedPopulation:
    """GG of Gu et al. 2020: key ceil(|N(0, 50)|) of 1 .. keys, value N(0, 1); draws outside are
    dropped."""
    from statistics import NormalDist

    draw = (coins or Coins.stated("pckv")).under("GG").generator()
    normal = NormalDist(0, 50)
    edges = np.array([normal.cdf(k) for k in range(keys + 1)])
    weights = np.diff(edges)
    return _one_each(weights / weights.sum(), _within(lambda n: draw.normal(0, 1, n), keys, -1, 1))


def _one_each(shares: Floats, means: Floats) -> StatedPopulation:
    """One kind of people for each key, who hold that key alone."""
    values = np.array([_point(float(mean)) for mean in means])
    return StatedPopulation(shares, np.eye(len(shares)), values[None, :, :])


def _point(mean: float) -> Floats:
    """All values alike: split between the two grid points around it."""
    at = (mean + 1.0) / 2.0 * (len(GRID) - 1)
    return np.maximum(1.0 - np.abs(np.arange(len(GRID)) - at), 0.0)


# -- tables -----------------------------------------------------------------------------------------


def of_histograms(frequency: Floats, ratings: Floats, points: Floats) -> StatedPopulation:
    """Independent keys from a summary: each key's frequency, and the shares of values among holders."""
    laws = ratings / ratings.sum(axis=1, keepdims=True)
    return StatedPopulation(np.ones(1), np.asarray(frequency, np.float64)[None, :], laws[None], points)


def of_table(schema: Schema, people: People) -> TablePopulation:
    """The people of a table, with values on [-1, 1]."""
    return TablePopulation(*on_unit_scale(schema, people))
