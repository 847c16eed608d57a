"""Exact evidence: the joint laws of a table, for comparison with those of a tally."""

from __future__ import annotations

import numpy as np

from ...foundation.arrays import Floats
from ...people.population import Population
from ..together.joint import JointMoments


class ExactEvidence:
    """The laws of a population, without noise or with the sampling error of ``people`` people.

    ``most`` hides the laws of more keys than that, as a plan of small views does. Then a learner loses
    accuracy only through maximum entropy.
    """

    def __init__(
        self,
        population: Population,
        people: int | None = None,
        most: int | None = None,
        level: float = 0.95,
    ) -> None:
        self.population, self.schema = population, population.schema
        self.people, self.most, self.level = people, most, level

    def moments(self, keys: tuple[int, ...], weights: Floats) -> JointMoments | None:
        """Mean weights over the population, and their covariance over draws of ``people``."""
        law = self.law(keys)
        if law is None:
            return None
        flat = weights.reshape(law.size, -1)
        values = law.reshape(-1) @ flat
        if self.people is None:
            return JointMoments(values, np.zeros((len(values),) * 2), len(self.population.people))
        square = (flat * law.reshape(-1, 1)).T @ flat
        return JointMoments(values, (square - np.outer(values, values)) / self.people, self.people)

    def law(self, keys: tuple[int, ...]) -> Floats | None:
        """The share of every joint state of the keys."""
        if self.most is not None and len(keys) > self.most:
            return None
        return self.population.law(keys).reshape((self.schema.levels + 1,) * len(keys))
