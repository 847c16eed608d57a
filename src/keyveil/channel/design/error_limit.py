"""The limit: the least error that any epsilon-LDP channel can have on one key.

A channel that keeps epsilon is a mixture of patterns, and splitting outputs into patterns loses nothing
(see ``patterns``). So the least error over all 2^(g + 1) - 2 patterns of "not held" and g levels is the
least error of *all* channels on these states. It is the least error of any estimator that does not know
the law of the states: the inverse information at the law. Least squares with the right weights and
maximum likelihood reach it with many reports. A limit for the mean is that of the best channel for this
one mean; no channel is best for all means.

Values between the levels are rounded first. So the limit at g levels holds for channels that round to g
levels, and it falls as g grows. It does not hold for reports on several keys.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from .. import Channel, Symmetric
from .patterns import decoder_at, every, least_error
from .value_channels import value_law_at

GOALS = ("frequency", "mean", "both")
MOST_LEVELS = 9
"""Maximum number of levels; nine levels have 1,022 patterns."""


def key_law(levels: int, frequency: float, mean: float, spread: float) -> Floats:
    """The law ``(levels + 1,)`` of a key's states: not held, then levels by ``prior.value_law``."""
    if not 0 < frequency < 1 or not -1 < mean < 1:
        raise PlanError("a frequency lies inside (0, 1) and a mean inside (-1, 1)")
    held = frequency * value_law_at(levels, mean, spread)
    return np.concatenate([[1.0 - frequency], held])


def goal_weights(epsilon: Decimal, law: Floats, goal: str) -> Floats:
    """Weights on the states, one column per answer of the goal.

    For "both" each column is divided by KVUE's standard error, so that KVUE's error is 2.
    """
    if goal not in GOALS:
        raise PlanError(f"a goal is one of {', '.join(GOALS)}")
    held = np.concatenate([[0.0], np.ones(len(law) - 1)])
    if goal == "frequency":
        return held[:, None]
    values = np.linspace(-1.0, 1.0, len(law) - 1)
    frequency = 1.0 - law[0]
    mean = float(law[1:] @ values) / frequency
    of_mean = np.concatenate([[0.0], (values - mean) / frequency])
    if goal == "mean":
        return of_mean[:, None]
    both = np.stack([held, of_mean], axis=1)
    ends = np.array([1 - frequency, frequency * (1 - mean) / 2, frequency * (1 + mean) / 2])
    kvue, rounded = Symmetric.of(3, epsilon), np.stack([[0, 1, 1], np.array([0, -1, 1.0])], axis=1)
    rounded[1:, 1] = (rounded[1:, 1] - mean) / frequency
    return both / np.sqrt(np.diag(kvue.covariance(kvue.decoder(rounded), ends)))


def limit(epsilon: Decimal, law: Floats, goal: str = "both") -> float:
    """The least variance of one report over all channels on the states of a key; needs CVXPY.

    "both" is the sum of the variances of frequency and mean, each relative to KVUE's.
    """
    states = len(law)
    if not 3 <= states <= MOST_LEVELS + 1:
        raise PlanError(f"the limit is offered for 2 to {MOST_LEVELS} levels")
    still = tuple(range(states))
    return least_error(epsilon, law, goal_weights(epsilon, law, goal), every(states), [still])


def error_of(
    channel: Channel, epsilon: Decimal, law: Floats, goal: str = "both", at: Floats | None = None
) -> float:
    """The variance of one report of a channel, in the same measure as the limit.

    Outputs are weighed for the least variance at the law itself, or at another law ``at``.
    """
    cells = decoder_at(channel, goal_weights(epsilon, law, goal), law if at is None else at)
    if np.isnan(cells).any():
        return np.inf
    return float(np.trace(channel.covariance(cells, law)))
