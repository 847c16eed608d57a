"""Unbiased functionals of pairs of keys: how often two keys are held, and the mass of their values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from ...foundation.arrays import Flags, Floats, Integers
from ..shrink.shrinkage import FEWEST
from .joint import Evidence

if TYPE_CHECKING:
    from ...people.schema import Schema

BOTH, FIRST, SECOND, FIRST_GIVEN, SECOND_GIVEN, FIRST_MASS, SECOND_MASS = range(7)
"""The functionals of a pair: share who hold both, share of each key, mass of each key among holders of
the other, and mass of each key."""
SWAPPED = [BOTH, SECOND, FIRST, SECOND_GIVEN, FIRST_GIVEN, SECOND_MASS, FIRST_MASS]
"""The functionals of the same pair in the other order."""
MOST_PAIRS = 1000
"""Number of pairs that priors are learned from, if each pair has to be decoded by itself."""

Pair = tuple[int, int]
"""Places of two keys in ascending order."""


@runtime_checkable
class VectorisedPairs(Protocol):
    """A source of evidence that decodes all pairs at once."""

    def pair_moments(self, weights: Floats) -> tuple[Integers, Floats, Floats] | None:
        """Keys, functionals and covariance of all pairs; None if it cannot."""


def pair_weights(schema: Schema) -> Floats:
    """Weights of the functionals on the joint states of two keys, ``(states, states, 7)``."""
    held = np.concatenate([[0.0], np.ones(schema.levels)])
    value = np.concatenate([[0.0], schema.values if schema.levels > 1 else [0.0]])
    ones = np.ones(schema.levels + 1)
    parts = (
        *((held, held), (held, ones), (ones, held)),
        *((value, held), (held, value), (value, ones), (ones, value)),
    )
    return np.stack([np.outer(*part) for part in parts], axis=-1)


@dataclass(frozen=True)
class PairMoments:
    """Unbiased functionals of all pairs that are known together."""

    pairs: Integers
    """Places of the keys, ``(pairs, 2)``."""
    values: Floats
    """``(pairs, 7)``."""
    covariance: Floats
    """``(pairs, 7, 7)``."""
    learned_from: Flags
    """Whether the priors are learned from a pair."""
    proper: Floats | None = None
    """The functionals at the nearest proper law of each pair ``(pairs, 7)``, if there are fewer than
    ``FEWEST`` keys, whose own answers are not shrunk."""

    @classmethod
    def of(cls, source: Evidence, schema: Schema, asked: Collection[Pair] = ()) -> PairMoments:
        """The functionals of the pairs that the source knows.

        If decoding is slow for each pair, at most ``MOST_PAIRS`` are used, always the same ones, and
        the ``asked`` ones are added.
        """
        unbiased = cls._unbiased(source, schema, asked)
        if len(schema.keys) >= FEWEST or not len(unbiased.pairs):
            return unbiased
        weights = pair_weights(schema).reshape(-1, 7)
        laws = [source.law((int(k), int(c))) for k, c in unbiased.pairs]
        assert all(law is not None for law in laws)
        proper = np.array([law.reshape(-1) @ weights for law in laws if law is not None])
        return replace(unbiased, proper=proper)

    @classmethod
    def _unbiased(cls, source: Evidence, schema: Schema, asked: Collection[Pair]) -> PairMoments:
        weights = pair_weights(schema)
        if isinstance(source, VectorisedPairs) and (rows := source.pair_moments(weights)) is not None:
            return cls(*rows, np.ones(len(rows[0]), bool))
        pairs = list(combinations(range(len(schema.keys)), 2))
        sample = set(pairs[:: -(-len(pairs) // MOST_PAIRS)])
        moments = {pair: source.moments(pair, weights) for pair in sorted(sample | set(asked))}
        known = {pair: part for pair, part in moments.items() if part is not None}
        if not known:
            return cls(np.zeros((0, 2), int), np.zeros((0, 7)), np.zeros((0, 7, 7)), np.zeros(0, bool))
        return cls(
            np.array(list(known)),
            np.array([part.values for part in known.values()]),
            np.array([part.covariance for part in known.values()]),
            np.array([pair in sample for pair in known]),
        )


def ordered(moments: PairMoments) -> tuple[Integers, Floats, Floats]:
    """Target and condition, values and covariance of every ordered pair; the second half is swapped."""
    keys = np.concatenate([moments.pairs, moments.pairs[:, ::-1]])
    values = np.concatenate([moments.values, moments.values[:, SWAPPED]])
    covariance = np.concatenate([moments.covariance, moments.covariance[:, SWAPPED][:, :, SWAPPED]])
    return keys, values, covariance
