"""Arrays of laws, states and random words, as channels need them."""

from __future__ import annotations

import numpy as np

from ..foundation.arrays import WORD, Floats, Integers
from ..foundation.coins import Coins, address
from ..foundation.stream import Stream


def nan_where_biased(law: Floats, solved: Floats, weights: Floats) -> Floats:
    """``solved``, with NaN in the columns that are not unbiased for ``weights`` under the law."""
    # Errors of a solvable system stay near machine precision times the solution's size.
    slack = 1e-9 * (1.0 + np.abs(solved).max(axis=0, initial=0.0))
    biased = np.abs(law @ solved - weights).max(axis=0, initial=0.0) > slack
    solved[:, biased] = np.nan
    return solved


def cell_covariance(decoder: Floats, law: Floats) -> Floats:
    """The covariance of ``decoder`` sums when exactly one cell is marked, which follows ``law``."""
    mean = law @ decoder
    return (decoder * law[:, None]).T @ decoder - np.outer(mean, mean)


def as_laws(values: Floats) -> Floats:
    """Laws along the last axis: negative entries become zero, and each sum becomes one."""
    laws = np.maximum(values, 0.0)
    return np.asarray(laws / laws.sum(axis=-1, keepdims=True))


def random_stream(people: int, words: int, generator: np.random.Generator) -> Stream:
    """A stream of ``words`` random words for each of ``people`` people, for simulation."""
    words_drawn = generator.integers(0, WORD, (people, words), np.uint32)
    return Stream(Coins.stated("not used"), address(np.arange(people)), ready=words_drawn)


def thresholds(rows: np.ndarray) -> np.ndarray:
    """Cumulative weights along the last axis, without the last one, which is always 2^32."""
    return np.cumsum(np.asarray(rows, np.uint64), axis=-1)[..., :-1]


def as_states(states: np.ndarray) -> Integers:
    return np.asarray(states, np.int64)
