"""Beliefs: what the planner holds possible about the number of keys that people hold.

Told nothing, the beliefs reach from one key a person to most keys, and none is likelier than another.
After a pilot they are a few laws that its tally supports, with their probabilities. Keys' means and
values are as stated, or at the defaults of ``Prior``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..foundation.arrays import Floats
from ..foundation.errors import PlanError
from .prior import Prior
from .prior_laws import MOST_HELD, beta_binomial
from .schema import Schema

SOME_TWO = 1.3
"""The average number of keys if most people hold one, and some hold two."""
TWO, FEW = 2.0, 4.0
"""The average numbers of keys of two beliefs about sparse sets."""
TENTH, MOST = 0.1, 0.7
"""The average shares of keys of a belief about denser sets, and of the densest."""
CLEARLY_MORE = 1.5
"""A belief about denser sets has at least this many times the keys of the one before."""


class Belief(NamedTuple):
    """What people may hold, in words, and as a prior."""

    words: str
    """Completes "if people hold ..."."""
    prior: Prior


@dataclass(frozen=True)
class Beliefs:
    """Several beliefs, their probabilities if these are known, and a prior to show numbers for."""

    possible: tuple[Belief, ...]
    """The beliefs, from the fewest keys held to the most."""
    prior: Prior
    """The prior for which single numbers are shown."""
    weights: Floats | None = None
    """The probability of each belief; None if none is likelier than another."""
    mean: float | None = None
    """The stated mean and spread of values, on the schema's scale; None for the defaults."""
    spread: float | None = None

    def __post_init__(self) -> None:
        if not self.possible or len({belief.prior.keys for belief in self.possible}) > 1:
            raise PlanError("beliefs are priors for the same keys, at least one")
        if self.weights is not None and len(self.weights) != len(self.possible):
            raise PlanError("beliefs have one weight each")

    @classmethod
    def of(cls, schema: Schema, mean: float | None = None, spread: float | None = None) -> Beliefs:
        """The beliefs of a planner that is told nothing about how many keys people hold.

        ``mean`` and ``spread`` of values are on the schema's scale; None for the defaults.
        """
        keys = len(schema.keys)
        laws: dict[str, Floats | None] = {"one key": np.eye(2)[1]}
        if keys >= 4 * TWO:
            laws["two keys"] = _at_least_one(TWO, keys, 1.0)
        if keys >= 4 * FEW:
            laws["a few keys"] = _at_least_one(FEW, keys, 0.5)
        if TENTH * keys >= CLEARLY_MORE * FEW:
            laws["a tenth of the keys"] = _law(TENTH, keys, 1.0)
        laws["a third of the keys"] = None  # the default prior
        laws["most keys"] = _law(MOST, keys, 2.0)
        possible = tuple(
            Belief(words, Prior.of(schema, sizes=law, mean=mean, spread=spread))
            for words, law in laws.items()
        )
        return cls(possible, possible[-2].prior, mean=mean, spread=spread)

    def about_several_keys(self, schema: Schema) -> Beliefs:
        """The beliefs under which some people hold several keys: others say nothing of conditionals.

        In place of one key there is one key or two, unless keys are so few that a third of them is that.
        """
        several = [belief for belief in self.possible if belief.prior.sizes[2:].any()]
        if len(several) < len(self.possible) and self.keys >= 4 * SOME_TWO:
            law = _at_least_one(SOME_TWO, self.keys, 1.0)
            sparse = Prior.of(schema, sizes=law, mean=self.mean, spread=self.spread)
            several.insert(0, Belief("one key or two", sparse))
        return replace(self, possible=tuple(several))

    @property
    def keys(self) -> int:
        """The number of keys."""
        return self.prior.keys

    @property
    def priors(self) -> tuple[Prior, ...]:
        """The prior of each belief."""
        return tuple(belief.prior for belief in self.possible)

    @property
    def source(self) -> str:
        """Where they are from, in words for people."""
        if self.weights is not None:
            return self.prior.source
        first, last = self.possible[0].words, self.possible[-1].words
        values = self.prior.source.partition(", ")[2]
        return f"that people may hold anything from {first} to {last}, {values}"


def in_words(names: Sequence[str]) -> str:
    """Names joined by commas and "or"."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _law(share: float, keys: int, shape: float) -> Floats:
    """A beta-binomial law of 0, 1, 2, ... keys."""
    return beta_binomial(share, keys, shape, min(keys, MOST_HELD))


def _at_least_one(held: float, keys: int, shape: float) -> Floats:
    """A beta-binomial law of the keys beyond the first, which everyone holds."""
    others = _law((held - 1.0) / (keys - 1.0), keys - 1, shape)
    law = np.concatenate([[0.0], others])[: min(keys, MOST_HELD) + 1]
    return np.asarray(law / law.sum())
