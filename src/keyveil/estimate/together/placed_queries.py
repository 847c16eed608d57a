"""Queries with the places of their keys, which are the same for every tally of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...foundation.arrays import Flags, Integers
from .pair_moments import Pair
from .query import Query

if TYPE_CHECKING:
    from ...people.schema import Schema

Given = tuple[tuple[int, bool], ...]
"""Places of the keys of the conditions, and whether each is held."""
OTHER = -1
"""Stands for the places of a query that has not exactly one held key as its condition."""


@dataclass(frozen=True)
class PlacedQueries:
    """Queries, and for each the places of its target and of its conditions."""

    queries: tuple[Query, ...]
    places: tuple[tuple[int, Given], ...]

    @classmethod
    def of(cls, queries: Sequence[Query], schema: Schema) -> PlacedQueries:
        return cls(tuple(queries), tuple(query.places(schema) for query in queries))

    @cached_property
    def kinds(self) -> dict[str, Flags]:
        """By statistic that is asked for: the queries of it."""
        kinds = np.array([query.kind for query in self.queries])
        return {str(kind): kinds == kind for kind in np.unique(kinds)}

    @cached_property
    def asked(self) -> frozenset[Pair]:
        """The pairs of a target and one of its conditions."""
        return frozenset(pair_of(target, key) for target, given in self.places for key, _ in given)

    @cached_property
    def held_pairs(self) -> Integers:
        """Target and condition ``(queries, 2)`` of queries with one held key as their condition."""
        pairs = [
            (target, given[0][0]) if len(given) == 1 and given[0][1] else (OTHER, OTHER)
            for target, given in self.places
        ]
        return np.array(pairs, np.int64).reshape(-1, 2)


def pair_of(target: int, key: int) -> Pair:
    """Two places in ascending order."""
    return (target, key) if target < key else (key, target)
