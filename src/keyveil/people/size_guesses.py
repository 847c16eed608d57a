"""Guesses: laws of how many keys people hold that are plausible before anyone has told.

They are beta-binomials of every average and unevenness, with and without people who hold nothing, and
mixtures of few keys and many. The true law may vary around a guess as if the guess had been seen in
``SEEN`` people.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..foundation.arrays import Floats
from .prior import Prior
from .prior_laws import MOST_HELD, beta_binomial
from .size_buckets import bucket_of

SEEN = 30.0
"""The weight of a guess, as a number of people in whom it was seen."""
LEAST = 1e-5
"""The least share of a bucket under a guess, for its variance."""
AVERAGES = 14
"""The number of averages that are guessed, from half a key to nearly all, in equal ratios."""
MOSTLY = (0.5, 0.6, 0.7, 0.8, 0.9)
"""More averages, as shares of all keys, where equal ratios leave gaps wider than a bucket."""
EVEN = (0.5, 1.0, 2.0, 6.0, np.inf)
"""Shapes of beta-binomials, from very uneven to a binomial."""
PARTS = (0.05, 0.1, 0.2, 0.4)
"""The shares of people who hold many keys, in mixtures."""
ONE_KEY, USUAL = 0.1, 0.05
"""The prior probabilities that everyone holds one key, and that the default law holds."""


def slack_of(buckets: Floats) -> Floats:
    """The variance of true shares around a guess."""
    least = np.clip(buckets, LEAST, 1.0 - LEAST)
    return np.asarray(least * (1.0 - least) / (SEEN + 1.0))


class SizeGuesses(NamedTuple):
    """Laws of the number of keys that are plausible beforehand; the default prior's comes first.

    A guess is a mixture of two laws (the same one twice if it is none).
    """

    laws: Floats
    """Laws of the number of keys, from 0 on."""
    first: np.ndarray
    second: np.ndarray
    part: Floats
    """The share of people who follow the second law."""
    buckets: Floats
    """Each guess as a law of buckets."""
    bucket: np.ndarray
    """The bucket of each number of keys."""
    weight: Floats
    """The prior weight of each guess, if neither the default's law nor one key each is likelier."""

    @property
    def probability(self) -> Floats:
        """The prior probability of each guess."""
        weight = (1.0 - ONE_KEY - USUAL) * self.weight
        weight[0] += USUAL
        weight[1] += ONE_KEY
        return np.asarray(weight)

    def within(self, rows: np.ndarray) -> Floats:
        """The law within each bucket, for some guesses; uniform where a guess has no one."""
        part = self.part[rows, None]
        laws = (1.0 - part) * self.laws[self.first[rows]] + part * self.laws[self.second[rows]]
        whole = self.buckets[rows][:, self.bucket]
        even = 1.0 / np.bincount(self.bucket)[self.bucket]
        known = whole > 1e-12
        return np.asarray(np.where(known, laws / np.where(known, whole, 1.0), even))


class _Law(NamedTuple):
    """A law of the number of keys, its weight among unmixed guesses, and its role in mixtures."""

    law: Floats
    weight: float = 1.0
    few: bool = False
    many: bool = False


@lru_cache(maxsize=8)
def guesses_for(keys: int, buckets: int) -> SizeGuesses:
    """The guesses for this number of keys and of buckets."""
    most = min(keys, MOST_HELD)
    rows = [*_extreme_laws(keys, most), *_beta_laws(keys, most)]
    alone = range(len(rows))
    mixtures = [
        (few, many, part)
        for few in alone
        if rows[few].few
        for many in alone
        if rows[many].many
        for part in PARTS
    ]
    first, second = ([*alone, *(mixture[place] for mixture in mixtures)] for place in (0, 1))
    part = np.array([0.0] * len(rows) + [share for _, _, share in mixtures])
    laws = np.array([row.law for row in rows])
    bucket = np.minimum(bucket_of(np.arange(most + 1)), buckets - 1)
    lumped = laws @ np.eye(buckets)[bucket]
    joined = (1.0 - part[:, None]) * lumped[first] + part[:, None] * lumped[second]
    weight = np.array([row.weight for row in rows])
    weight *= (0.5 if mixtures else 1.0) / sum(weight.tolist())
    weight = np.concatenate([weight, np.full(len(mixtures), 0.5 / max(1, len(mixtures)))])
    return SizeGuesses(laws, np.array(first), np.array(second), part, joined, bucket, weight)


def _extreme_laws(keys: int, most: int) -> Iterator[_Law]:
    """The default prior's law, everyone holds one key, and everyone holds all."""
    default = Prior.of(keys).sizes
    yield _Law(np.pad(default, (0, max(0, most + 1 - len(default))))[: most + 1])
    yield _Law(np.eye(most + 1)[1], few=True)
    yield _Law(np.eye(most + 1)[most])


def _beta_laws(keys: int, most: int) -> Iterator[_Law]:
    """Beta-binomials of every average and shape, each also with everyone holding at least one key."""
    averages = np.geomspace(0.5, 0.97 * keys, AVERAGES).tolist()
    above = sum(held >= MOSTLY[0] * keys for held in averages)
    for held in (*averages, *(share * keys for share in MOSTLY)):
        # The added averages near all keys do not make that region likelier.
        weight = above / (above + len(MOSTLY)) if held >= MOSTLY[0] * keys else 1.0
        mixes = held in averages  # the added averages are in no mixture
        for even in EVEN:
            few = mixes and held < 0.2 * keys and even in (1.0, np.inf)
            many = mixes and held >= max(2.0, 0.1 * keys) and even in (1.0, 6.0)
            yield _Law(beta_binomial(held / keys, keys, even, most), weight, few, many)
            if held > 1:
                rest = beta_binomial((held - 1) / (keys - 1), keys - 1, even, most - 1)
                yield _Law(np.concatenate([[0.0], rest]), weight, few)
