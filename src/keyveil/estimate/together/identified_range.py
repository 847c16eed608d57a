"""Identified range: the values a query can have, given what is known of fewer keys together.

If no view holds all keys of a query, many joint laws agree with the tally. The range contains the value
of the query at every joint law whose shares lie within their intervals, for every set of keys that is
known together. The intervals cover simultaneously at the stated level (Bonferroni). So the range
contains the truth at least at that level, whatever the joint law is. Each end is a linear program, which
needs SciPy (``keyveil[bounds]``).
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
"""Places of keys in a schema."""


class FunctionalEstimator(Protocol):
    """A function that estimates functionals of a set of keys."""

    def __call__(self, keys: Keys, weights: Floats) -> JointMoments | None:
        """Values and covariance; None if the keys are not known together."""


def known_moments(
    estimator: FunctionalEstimator, parts: Mapping[Keys, object], keys: Keys, levels: int
) -> dict[Keys, JointMoments]:
    """Moments of every known part of the keys and of every single key, for ``share_weights``."""
    known_parts = {}
    for part in {*parts, *((key,) for key in keys)}:
        part_moments = estimator(part, share_weights(len(part), levels))
        if part_moments is not None:
            known_parts[part] = part_moments
    return known_parts


def share_weights(keys: int, levels: int) -> Floats:
    """Weights of the shares of joint states: absent, each level, held at any level, and the value.

    Coarse shares are included because their errors are smaller than the sums of the errors of their
    parts.
    """
    held = np.concatenate([[0.0], np.ones(levels)])
    summaries = [held, np.concatenate([[0.0], np.linspace(-1, 1, levels)])] if levels > 1 else []
    single_key = np.column_stack([*np.eye(levels + 1), *summaries])
    joint = reduce(np.kron, [single_key] * keys)
    return np.asarray(joint.reshape((levels + 1,) * keys + (-1,)))


class IdentifiedRange:
    """Ranges of functionals of a set of keys over all joint laws that agree with ``parts``.

    ``parts`` holds the moments of known parts of the keys, for ``share_weights``.
    """

    def __init__(
        self, keys: Keys, states: int, parts: Mapping[Keys, JointMoments], level: float
    ) -> None:
        rows, values, errors = [], [], []
        for part, moments in parts.items():
            rows.append(_on_all(share_weights(len(part), states - 1), part, keys, states))
            values.append(moments.values)
            errors.append(np.sqrt(np.maximum(moments.covariance.diagonal(), 0.0)))
        self._rows, self._centre = np.vstack(rows), np.concatenate(values)
        self._stderr = np.concatenate(errors)
        self._reach = NormalDist().inv_cdf(1 - (1 - level) / (2 * len(self._centre)))

    def ends(self, above: Floats, below: Floats) -> tuple[float, float] | None:
        """Smallest and largest value of the ratio of two weights of joint states; None without SciPy.

        Charnes and Cooper (1962): with y = t * law and the denominator of y set to 1, a ratio of two
        linear functions becomes a linear function.
        """
        try:
            from scipy.optimize import linprog
        except ImportError:
            return None
        numerator, denominator = above.reshape(-1), below.reshape(-1)
        equalities = np.vstack([np.append(denominator, 0.0), np.append(np.ones(len(numerator)), -1.0)])
        reach = self._reach
        for _ in range(20):  # widen the intervals if no law agrees with them
            slack = reach * self._stderr + 1e-9
            upper = np.column_stack([self._rows, -(self._centre + slack)])
            lower = np.column_stack([-self._rows, self._centre - slack])
            ends = []
            for sign in (1.0, -1.0):
                solved = linprog(
                    np.append(sign * numerator, 0.0),
                    A_ub=np.vstack([upper, lower]),
                    b_ub=np.zeros(2 * len(self._centre)),
                    A_eq=equalities,
                    b_eq=np.array([1.0, 0.0]),
                )
                if solved.status == 0 and solved.fun is not None:
                    ends.append(sign * float(solved.fun))
            if len(ends) == 2:
                return min(ends), max(ends)
            reach *= 1.5
        return None


def possible_range(
    keys: Keys, weights: Floats, parts: Mapping[Keys, JointMoments], level: float
) -> tuple[float, float] | None:
    """Smallest and largest value of the first functional over the second; None without SciPy."""
    ranges = IdentifiedRange(keys, weights.shape[0], parts, level)
    return ranges.ends(weights[..., 0], weights[..., 1])


def _on_all(weights: Floats, part: Keys, keys: Keys, states: int) -> Floats:
    """Weights on the states of a part, as rows over the joint states of all keys."""
    digits = np.indices((states,) * len(keys)).reshape(len(keys), -1)
    return weights[tuple(digits[keys.index(key)] for key in part)].T
