"""The joint law of most entropy that agrees with the known laws of fewer keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations

import numpy as np

from ...foundation.arrays import Floats
from .joint import Evidence, JointMoments


def known_parts(
    keys: tuple[int, ...], law: Callable[[tuple[int, ...]], Floats | None]
) -> dict[tuple[int, ...], Floats]:
    """The largest subsets of the keys whose laws are known, none inside another, with their laws."""
    parts: dict[tuple[int, ...], Floats] = {}
    for size in range(len(keys) - 1, 0, -1):
        for part in combinations(keys, size):
            if not any(set(part) <= set(larger) for larger in parts):
                part_law = law(part)
                if part_law is not None:
                    parts[part] = part_law
    return parts


def entropy_moments(
    source: Evidence,
    keys: tuple[int, ...],
    weights: Floats,
    law: Floats,
    parts: Mapping[tuple[int, ...], Floats],
) -> JointMoments:
    """Functionals at the law of most entropy with these parts, and their covariance.

    At that law the slope of a functional in the parts is its regression on their states. One report is
    added for every state, so that states that look empty stay in the sum. The errors of different parts
    are taken as independent. The covariance does not include the distance of the truth from the law of
    most entropy.
    """
    states, shares = law.shape[0], law.reshape(-1)
    flat = weights.reshape(law.size, -1)
    digits = np.indices(law.shape).reshape(len(keys), -1)
    columns, spreads, reports = [], [], []
    for part in parts:
        at = np.zeros(law.size, np.int64)
        for key in part:
            at = at * states + digits[keys.index(key)]
        count = states ** len(part)
        columns.append((at[:, None] == np.arange(count)).astype(np.float64))
        part_moments = source.moments(part, np.eye(count).reshape((states,) * len(part) + (count,)))
        spreads.append(np.zeros((count, count)) if part_moments is None else part_moments.covariance)
        reports.append(0 if part_moments is None else part_moments.reports)
    root = np.sqrt((min(reports) * shares + 1) / (min(reports) + law.size))[:, None]
    slopes = np.linalg.lstsq(root * np.hstack(columns), root * flat, rcond=1e-9)[0]
    covariance, first = np.zeros((flat.shape[1],) * 2), 0
    for spread in spreads:
        slope = slopes[first : first + len(spread)]
        covariance += slope.T @ spread @ slope
        first += len(spread)
    return JointMoments(shares @ flat, covariance, min(reports))


def entropy_law(
    keys: tuple[int, ...], known: Mapping[tuple[int, ...], Floats], rounds: int = 200
) -> Floats:
    """The joint law of most entropy with the known marginals, by iterative proportional fitting."""
    states = next(iter(known.values())).shape[0]
    law = np.full((states,) * len(keys), states ** -float(len(keys)))
    for _ in range(rounds):
        before = law
        for part, target in known.items():
            axes = tuple(i for i, key in enumerate(keys) if key not in part)
            order = [key for key in keys if key in part]
            want = target.transpose([part.index(key) for key in order])
            have = law.sum(axis=axes, keepdims=True)
            shape = have.shape
            law = law * np.divide(want.reshape(shape), have, out=np.zeros(shape), where=have > 0)
        if np.abs(law - before).max() < 1e-10:
            break
    return law
