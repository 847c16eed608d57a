"""Identified range: the values a query can have, given what is known of fewer keys together.

If no view holds all keys of a query, many joint laws agree with the tally. The range covers the query's
value at every joint law whose shares lie within their intervals, for every set of keys that is known
together. These intervals hold all at once at the stated level (Bonferroni), so the range holds the truth
at least that often, whatever the joint law is. Each end is one linear program; needs SciPy
(``keyveil[bounds]``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from statistics import NormalDist
from typing import Protocol

import numpy as np

from ...foundation.arrays import Floats
from .joint import JointMoments

Keys = tuple[int, ...]


class Tells(Protocol):
    """Whatever estimates functionals of some keys."""

    def __call__(self, keys: Keys, weights: Floats) -> JointMoments | None:
        """Values and covariance, or None."""


def told(
    moments: Tells, parts: Mapping[Keys, object], keys: Keys, levels: int
) -> dict[Keys, JointMoments]:
    """What is known of each part of the keys, and of each key alone, in the weights of ``asked_of``."""
    found = {}
    for part in {*parts, *((key,) for key in keys)}:
        known = moments(part, asked_of(len(part), levels))
        if known is not None:
            found[part] = known
    return found


def asked_of(keys: int, levels: int) -> Floats:
    """Shares of people by what they do with each key: absent, a level, held at all, and the value.

    Shares of coarse parts have smaller errors than the sums of their fine parts' errors.
    """
    held = np.concatenate([[0.0], np.ones(levels)])
    more = [held, np.concatenate([[0.0], np.linspace(-1, 1, levels)])] if levels > 1 else []
    one = np.column_stack([*np.eye(levels + 1), *more])
    whole = reduce(np.kron, [one] * keys)
    return np.asarray(whole.reshape((levels + 1,) * keys + (-1,)))


class IdentifiedRange:
    """Ranges of functionals of some keys over all joint laws that agree with ``found``.

    ``found`` is what is known of each part of the keys, in the weights of ``asked_of``.
    """

    def __init__(
        self, keys: Keys, states: int, found: Mapping[Keys, JointMoments], level: float
    ) -> None:
        rows, values, errors = [], [], []
        for part, known in found.items():
            rows.append(_on_all(asked_of(len(part), states - 1), part, keys, states))
            values.append(known.values)
            errors.append(np.sqrt(np.maximum(known.covariance.diagonal(), 0.0)))
        self._rows, self._centre = np.vstack(rows), np.concatenate(values)
        self._stderr = np.concatenate(errors)
        self._reach = NormalDist().inv_cdf(1 - (1 - level) / (2 * len(self._centre)))

    def ends(self, above: Floats, below: Floats) -> tuple[float, float] | None:
        """Least and largest value of ``above`` over ``below``, weights of joint states.

        None without SciPy. Charnes and Cooper (1962): with y = t * law and the denominator of y set
        to 1, a ratio of two linear functions is a linear one.
        """
        try:
            from scipy.optimize import linprog
        except ImportError:
            return None
        numerator, denominator = above.reshape(-1), below.reshape(-1)
        equal = np.vstack([np.append(denominator, 0.0), np.append(np.ones(len(numerator)), -1.0)])
        reach = self._reach
        for _ in range(20):  # intervals that no law agrees with are too narrow
            slack = reach * self._stderr + 1e-9
            most = np.column_stack([self._rows, -(self._centre + slack)])
            least = np.column_stack([-self._rows, self._centre - slack])
            ends = []
            for sign in (1.0, -1.0):
                solved = linprog(
                    np.append(sign * numerator, 0.0),
                    A_ub=np.vstack([most, least]),
                    b_ub=np.zeros(2 * len(self._centre)),
                    A_eq=equal,
                    b_eq=np.array([1.0, 0.0]),
                )
                if solved.status == 0 and solved.fun is not None:
                    ends.append(sign * float(solved.fun))
            if len(ends) == 2:
                return min(ends), max(ends)
            reach *= 1.5
        return None


def possible_range(
    keys: Keys, weights: Floats, found: Mapping[Keys, JointMoments], level: float
) -> tuple[float, float] | None:
    """The least and the largest value of the first functional over the second; None without SciPy."""
    ranges = IdentifiedRange(keys, weights.shape[0], found, level)
    return ranges.ends(weights[..., 0], weights[..., 1])


def _on_all(weights: Floats, part: Keys, keys: Keys, states: int) -> Floats:
    """Weights on the states of a part as rows over the joint states of all keys."""
    digits = np.indices((states,) * len(keys)).reshape(len(keys), -1)
    return weights[tuple(digits[keys.index(key)] for key in part)].T
