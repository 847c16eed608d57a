"""Forecast: the error that a plan's answers will have, before anyone has answered.

For every representative key of a ``Prior``: bias and exact covariance of frequency and mass under the
least-squares estimator, from the channel's own law. From these follow the errors people ask about.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, pi
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Floats
from ..channel import Channel, Halfspace
from ..errors import PlanError
from .joint import lifted
from .linear import key_weights

if TYPE_CHECKING:
    from ..plan import Plan
    from ..prior import Prior

MOST_STATES = 3**9
"""Larger views are not written out state by state."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_REACH = 6.0
"""So many standard deviations of a normal law are summed over, in so many points."""


@dataclass(frozen=True)
class Forecast:
    """Bias and covariance of (frequency, mass) for each representative key; NaN where unanswered."""

    bias: Floats
    covariance: Floats

    @property
    def frequency(self) -> Floats:
        """The mean squared error of each frequency."""
        return np.asarray(self.bias[:, 0] ** 2 + self.covariance[:, 0, 0])

    def mean(self, prior: Prior) -> Floats:
        """The mean squared error of each mean, by the delta method, on [-1, 1]."""
        f, mass = prior.frequency, prior.frequency * prior.mean
        with np.errstate(divide="ignore", invalid="ignore"):
            f, mass = f + self.bias[:, 0], mass + self.bias[:, 1]
            m = mass / f
            c = self.covariance
            variance = (c[:, 1, 1] - 2 * m * c[:, 0, 1] + m**2 * c[:, 0, 0]) / f**2
            return np.asarray(np.where(~(f <= 0), variance + (m - prior.mean) ** 2, np.inf))

    def clipped_frequency(self, prior: Prior) -> Floats:
        """The mean squared error of each frequency once it is clipped to [0, 1]."""
        return clipped(self.covariance[:, 0, 0], prior.frequency, 0.0, 1.0, self.bias[:, 0])

    def clipped_mean(self, prior: Prior) -> Floats:
        """The mean squared error of each mean once it is clipped to [-1, 1].

        Frequency and mass are taken as normal, their ratio as what it is: whatever the frequency is
        told to be, the mass is normal again. A frequency that is not above zero tells of no mean,
        and the middle of the range is taken.
        """
        c, truth = self.covariance, prior.mean[:, None]
        middle, size = prior.frequency + self.bias[:, 0], np.sqrt(np.maximum(c[:, 0, 0], 1e-300))
        first = np.clip(-middle / size, -_REACH, _REACH)  # from here on it is above zero
        half = (_REACH - first)[:, None] / 2
        z = first[:, None] + half * (1.0 + _NODES)
        f = np.maximum(middle[:, None] + size[:, None] * z, 1e-12)
        mass = (prior.frequency * prior.mean + self.bias[:, 1])[:, None]
        mass = mass + (c[:, 0, 1] / size)[:, None] * z
        rest = np.maximum(c[:, 1, 1] - (c[:, 0, 1] / size) ** 2, 0.0)[:, None]
        off = clipped(rest / f**2, truth, -1.0, 1.0, mass / f - truth)
        told = (off * _height(z) * half) @ _WEIGHTS
        return np.asarray(told + _area(first) * prior.mean**2)

    @property
    def mass(self) -> Floats:
        """The mean squared error of each mass."""
        return np.asarray(self.bias[:, 1] ** 2 + self.covariance[:, 1, 1])


def clipped(
    variance: Floats, truth: Floats, low: float, high: float, bias: Floats | float = 0.0
) -> Floats:
    """The mean squared error that is left of a normal error when values are clipped to a range."""
    known = np.isfinite(variance)
    size = np.sqrt(np.maximum(np.where(known, variance, 1.0), 1e-300))
    below, above = (low - truth - bias) / size, (high - truth - bias) / size
    under, over = _area(below), _area(-above)
    at_low, at_high = _height(below), _height(above)
    within = 1.0 - under - over
    inner = size**2 * (within + below * at_low - above * at_high)
    inner += 2 * bias * size * (at_low - at_high) + bias**2 * within
    made = inner + under * (low - truth) ** 2 + over * (high - truth) ** 2
    ends = ((low - truth) ** 2 + (high - truth) ** 2) / 2  # an error without end lands on either
    return np.asarray(np.where(np.isinf(variance), ends, np.where(known, made, np.nan)))


def _area(z: Floats) -> Floats:
    """The normal law below z."""
    flat = [erf(each) for each in (np.clip(z, -40, 40) / np.sqrt(2.0)).ravel().tolist()]
    return np.asarray((0.5 + 0.5 * np.array(flat)).reshape(np.shape(z)))


def _height(z: Floats) -> Floats:
    return np.asarray(np.exp(-np.minimum(z**2, 1400.0) / 2) / np.sqrt(2 * pi))


def forecast(plan: Plan, people: float, prior: Prior) -> Forecast:
    """What ``people`` answers to the plan will tell of each representative key."""
    if prior.keys != len(plan.schema.keys):
        raise PlanError(f"the prior is for {prior.keys} keys, the plan for {len(plan.schema.keys)}")
    return plan.kind.forecast(plan, people, prior)


def by_shape(plan: Plan, people: float, prior: Prior) -> Forecast:
    """The forecast that follows from the plan's encoding and channels alone."""
    if plan.encode == "views":
        return _of_views(plan, people, prior)
    if plan.encode == "item":
        return _of_items(plan, people, prior)
    if plan.encode == "signs":
        return _of_signs(plan, people, prior)
    raise PlanError(f"the error of {plan.mechanism} is not forecast")


def _of_views(plan: Plan, people: float, prior: Prior) -> Forecast:
    """One report of a view tells of each of its keys; all that tell of a key are pooled by precision."""
    keys, kinds = len(plan.schema.keys), len(prior.count)
    states = prior.states(plan.schema.levels)
    other = prior.weight @ states
    weights = key_weights(plan.schema)
    known = ~np.isnan(weights).any(axis=0)
    precision = np.zeros((kinds, int(known.sum()), int(known.sum())))
    for number, channel in enumerate(plan.channels):
        groups: dict[int, float] = {}
        for view in plan.views_of(number):
            size = len(plan.views.keys[view])
            groups[size] = groups.get(size, 0.0) + float(plan.views.shares[view])
        for size, share in groups.items():
            one = _told(channel, states, other, weights[:, known], size, plan.schema.levels)
            reports = people * share * size / keys
            precision += reports * one
    answered = np.zeros(2, bool)
    answered[known] = (np.diagonal(precision, axis1=1, axis2=2) > 0).all(axis=0)
    covariance = np.full((kinds, 2, 2), np.nan)
    inside = np.ix_(np.arange(kinds), answered[known], answered[known])
    covariance[np.ix_(np.arange(kinds), answered, answered)] = np.linalg.inv(precision[inside])
    return Forecast(np.where(answered, 0.0, np.nan) * np.ones((kinds, 2)), covariance)


def _told(
    channel: Channel, states: Floats, other: Floats, weights: Floats, size: int, levels: int
) -> Floats:
    """What one report of a view of ``size`` keys tells of its first key: the precision, each kind's."""
    if channel.states > MOST_STATES:
        raise PlanError("views of so many keys are not forecast")
    lifted_weights = lifted(weights.reshape(-1, weights.shape[1]), (0,), tuple(range(size)), levels)
    cells = channel.decoder(lifted_weights)
    answered = ~np.isnan(cells).any(axis=0)
    made = np.zeros((len(states), weights.shape[1], weights.shape[1]))
    if not answered.any():
        return made
    rest = np.ones(1)
    for _ in range(size - 1):
        rest = np.asarray(np.kron(rest, other))
    pick = np.ix_(answered, answered)
    for kind, law in enumerate(states):
        spread = channel.covariance(cells[:, answered], np.kron(law, rest))
        made[kind][pick] = np.linalg.pinv(spread, hermitian=True)
    return made


def _of_items(plan: Plan, people: float, prior: Prior) -> Forecast:
    """One held key is drawn: frequencies of those who hold several are told too low."""
    channel = plan.channels[0]
    alone = prior.kept(1)
    drawn = prior.frequency * alone
    law = np.repeat(drawn, np.maximum(np.round(prior.count).astype(int), 1))[: channel.states - 1]
    law = np.concatenate([[max(0.0, 1.0 - law.sum())], law, np.zeros(channel.states - 1 - len(law))])
    seen = channel.mix(law / law.sum())
    shares = seen[: channel.cells]
    variances = channel.state_estimates(shares)[1]
    first = 1 + np.concatenate([[0], np.cumsum(np.maximum(np.round(prior.count).astype(int), 1))[:-1]])
    bias = np.full((len(prior.count), 2), np.nan)
    covariance = np.full((len(prior.count), 2, 2), np.nan)
    bias[:, 0] = drawn - prior.frequency
    covariance[:, 0, 0] = variances[np.minimum(first, len(variances) - 1)] / people
    return Forecast(bias, covariance)


def _of_signs(plan: Plan, people: float, prior: Prior) -> Forecast:
    channel = plan.channels[0]
    assert isinstance(channel, Halfspace)
    bias = np.full((len(prior.count), 2), np.nan)
    covariance = np.full((len(prior.count), 2, 2), np.nan)
    bias[:, 1] = 0.0
    covariance[:, 1, 1] = (1.0 / channel.pull**2 - (prior.frequency * prior.mean) ** 2) / people
    return Forecast(bias, covariance)
