"""The error a plan will have, before anyone has answered: exact covariance at a stated law."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...channel import Channel
from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ..linear import Decoder, by_least_squares, key_weights

if TYPE_CHECKING:
    from ...plan.plan import Plan


def prior_law(levels: int, keys: int, frequency: float = 0.3, mean: float = 0.0) -> Floats:
    """The joint law of independent keys, each held by ``frequency`` with values at the two ends.

    The default is what plans assume when nothing is known: the choice of a channel hardly depends on
    it (a uniform law instead costs a few per cent at most).
    """
    one = np.zeros(levels + 1)
    one[0] = 1 - frequency
    one[1] += frequency * (1 - mean) / 2
    one[-1] += frequency * (1 + mean) / 2
    law: Floats = np.ones(1)
    for _ in range(keys):
        law = np.asarray(np.kron(law, one), np.float64)
    return law


def query_variance(channel: Channel, law: Floats, weights: Floats) -> float:
    """Variance, for one report of a view, of the ratio of two functionals of its states (delta)."""
    decoder = channel.decoder(weights)
    spread = channel.covariance(decoder, law)
    above, below = law @ weights[:, :2]
    slope = np.array([1.0 / below, -above / below**2])
    return float(slope @ spread[:2, :2] @ slope)


class Predicted(NamedTuple):
    """Variances of one key's answers; the mean's on the [-1, 1] scale, by the delta method."""

    frequency: float
    mean: float
    mass: float


def state_law(plan: Plan, frequency: float, mean: float) -> Floats:
    """The law of a key's states: values at the two ends, as two-level rounding leaves them."""
    if not 0 <= frequency <= 1 or not -1 <= mean <= 1:
        raise PlanError("a frequency lies in [0, 1] and a mean in [-1, 1]")
    law = np.zeros(plan.schema.levels + 1)
    law[0] = 1 - frequency
    law[1] += frequency * (1 - mean) / 2
    law[-1] += frequency * (1 + mean) / 2
    return law


def predicted(
    plan: Plan,
    people: float,
    frequency: float,
    mean: float,
    *,
    view: int = 0,
    law: Floats | None = None,
    decode: Decoder = by_least_squares,
) -> Predicted:
    """Variances for a key when ``people`` answer the plan; ``law`` for values not at the ends."""
    if not plan.encoding.speaks_of_views or len(plan.views.keys[view]) != 1:
        raise PlanError("predicted error is offered for plans that speak of one key at a time")
    states = state_law(plan, frequency, mean) if law is None else np.asarray(law, np.float64)
    channel = plan.view_channels[view]
    cells = decode(channel, key_weights(plan.schema))
    seen = channel.mix(states)
    reports = people * float(plan.views.shares[view])
    average = seen @ cells
    spread = ((cells * seen[:, None]).T @ cells - np.outer(average, average)) / reports
    (f, m_) = states @ np.nan_to_num(key_weights(plan.schema))
    ratio = m_ / f if f > 0 else np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        of_mean = (spread[1, 1] - 2 * ratio * spread[0, 1] + ratio**2 * spread[0, 0]) / f**2
    return Predicted(float(spread[0, 0]), float(of_mean), float(spread[1, 1]))
