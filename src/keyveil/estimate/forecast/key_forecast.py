"""Forecast: the error that a plan's answers will have, before anyone has answered.

For every representative key of a ``Prior``: bias and exact covariance of frequency and mass under the
least-squares estimator, from the channel's own law. From these follow the errors people ask about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import erf, pi
from typing import TYPE_CHECKING

import numpy as np

from ...channel import Channel
from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ..decoding import decoding_of
from ..linear import Decoder, key_weights
from ..together.joint import lifted

if TYPE_CHECKING:
    from ...people.prior import Prior
    from ...plan.plan import Plan

MOST_STATES = 3**9
"""Larger views are not written out state by state."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(32)
REACH = 6.0
"""So many standard deviations of a normal law are summed over, in so many points."""


@dataclass(frozen=True)
class Forecast:
    """Bias and covariance of (frequency, mass) for each representative key; NaN where unanswered."""

    bias: Floats
    covariance: Floats
    together: float = field(default=1.0, kw_only=True)
    """As in ``Moments``."""
    claimed: Floats | None = field(default=None, kw_only=True)
    """The covariance that the estimator will claim, where it is not the one there is."""
    fixed: Floats | None = field(default=None, kw_only=True)
    """The part of the bias that seeds leave and more of them would take away; none unless given."""

    @property
    def left_out(self) -> Floats:
        """The other part of the bias: what a cap on keys leaves out."""
        return self.bias if self.fixed is None else np.asarray(self.bias - self.fixed)

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
        first = np.clip(-middle / size, -REACH, REACH)  # from here on it is above zero
        half = (REACH - first)[:, None] / 2
        z = first[:, None] + half * (1.0 + NODES)
        f = np.maximum(middle[:, None] + size[:, None] * z, 1e-12)
        mass = (prior.frequency * prior.mean + self.bias[:, 1])[:, None]
        mass = mass + (c[:, 0, 1] / size)[:, None] * z
        rest = np.maximum(c[:, 1, 1] - (c[:, 0, 1] / size) ** 2, 0.0)[:, None]
        off = clipped(rest / f**2, truth, -1.0, 1.0, mass / f - truth)
        told = (off * height(z) * half) @ WEIGHTS
        return np.asarray(told + area(first) * prior.mean**2)

    @property
    def mass(self) -> Floats:
        """The mean squared error of each mass."""
        return np.asarray(self.bias[:, 1] ** 2 + self.covariance[:, 1, 1])

    @property
    def published(self) -> Forecast | None:
        """The same of the mechanism's estimator ``published``; None where that is not known."""
        return None


@dataclass(frozen=True)
class Beside(Forecast):
    """A forecast with that of the published estimator beside it."""

    other: Forecast

    @property
    def published(self) -> Forecast:
        """The other one."""
        return self.other


@dataclass(frozen=True)
class Mixed(Forecast):
    """One of several forecasts, each with its chance; bias and covariance are the likeliest one's."""

    parts: tuple[tuple[float, Forecast], ...]

    @classmethod
    def of(cls, parts: Sequence[tuple[float, Forecast]]) -> Forecast:
        """Their mixture, or the only one."""
        likeliest = max(parts, key=lambda part: part[0])[1]
        return likeliest if len(parts) == 1 else cls(likeliest.bias, likeliest.covariance, tuple(parts))

    def clipped_frequency(self, prior: Prior) -> Floats:
        """The mean squared error of each frequency once it is clipped to [0, 1]."""
        return np.asarray(sum(chance * part.clipped_frequency(prior) for chance, part in self.parts))

    def clipped_mean(self, prior: Prior) -> Floats:
        """The mean squared error of each mean once it is clipped to [-1, 1]."""
        return np.asarray(sum(chance * part.clipped_mean(prior) for chance, part in self.parts))

    @property
    def published(self) -> Forecast | None:
        """The mixture of the published ones, if all parts have one."""
        made = [(chance, part.published) for chance, part in self.parts]
        found = [(chance, part) for chance, part in made if part is not None]
        return Mixed.of(found) if len(found) == len(made) else None


def clipped(
    variance: Floats, truth: Floats, low: float, high: float, bias: Floats | float = 0.0
) -> Floats:
    """The mean squared error that is left of a normal error when values are clipped to a range."""
    known = np.isfinite(variance)
    size = np.sqrt(np.maximum(np.where(known, variance, 1.0), 1e-300))
    below, above = (low - truth - bias) / size, (high - truth - bias) / size
    under, over = area(below), area(-above)
    at_low, at_high = height(below), height(above)
    within = 1.0 - under - over
    inner = size**2 * (within + below * at_low - above * at_high)
    inner += 2 * bias * size * (at_low - at_high) + bias**2 * within
    made = inner + under * (low - truth) ** 2 + over * (high - truth) ** 2
    ends = ((low - truth) ** 2 + (high - truth) ** 2) / 2  # an error without end lands on either
    return np.asarray(np.where(np.isinf(variance), ends, np.where(known, made, np.nan)))


def area(z: Floats) -> Floats:
    """The normal law below z."""
    flat = [erf(each) for each in (np.clip(z, -40, 40) / np.sqrt(2.0)).ravel().tolist()]
    return np.asarray((0.5 + 0.5 * np.array(flat)).reshape(np.shape(z)))


def height(z: Floats) -> Floats:
    """The normal density at z."""
    return np.asarray(np.exp(-np.minimum(z**2, 1400.0) / 2) / np.sqrt(2 * pi))


def forecast(plan: Plan, people: float, prior: Prior) -> Forecast:
    """What ``people`` answers to the plan will tell of each representative key."""
    if prior.keys != len(plan.schema.keys):
        raise PlanError(f"the prior is for {prior.keys} keys, the plan for {len(plan.schema.keys)}")
    return decoding_of(plan).forecast(plan, people, prior)


def by_shape(plan: Plan, people: float, prior: Prior) -> Forecast:
    """The forecast that follows from the plan's encoding and channels alone."""
    if plan.encode == "views":
        return _of_views(plan, people, prior)
    if plan.encode == "item":
        return _of_items(plan, people, prior)
    if plan.encode == "signs":
        return _of_signs(plan, people, prior)
    raise PlanError(f"the error of {plan.mechanism_name} is not forecast")


def _of_views(plan: Plan, people: float, prior: Prior) -> Forecast:
    """One report of a view tells of each of its keys; all that tell of a key are pooled by precision."""
    keys, kinds, levels = len(plan.schema.keys), len(prior.count), plan.schema.levels
    weights = key_weights(plan.schema)
    known = ~np.isnan(weights).any(axis=0)
    precision = np.zeros((kinds, int(known.sum()), int(known.sum())))
    for number, channel in enumerate(plan.channels):
        groups: dict[int, list[int]] = {}
        for view in plan.views_of(number):
            groups.setdefault(len(plan.views.keys[view]), []).append(view)
        for size, views in groups.items():
            if channel.states > MOST_STATES:
                raise PlanError("views of so many keys are not forecast")
            laws = prior.beside(levels, tuple(plan.views.keys[view] for view in views))
            one = _told(channel, laws, weights[:, known], size, levels)
            share = float(sum(plan.views.shares[view] for view in views))
            reports = people * share * size / keys
            precision += reports * one
    answered = np.zeros(2, bool)
    answered[known] = (np.diagonal(precision, axis1=1, axis2=2) > 0).all(axis=0)
    covariance = np.full((kinds, 2, 2), np.nan)
    inside = np.ix_(np.arange(kinds), answered[known], answered[known])
    covariance[np.ix_(np.arange(kinds), answered, answered)] = np.linalg.inv(precision[inside])
    return Forecast(np.where(answered, 0.0, np.nan) * np.ones((kinds, 2)), covariance)


def by_decoder(plan: Plan, people: float, prior: Prior, decode: Decoder) -> Forecast:
    """The forecast of views of single keys that share one channel, under a decoder of their own."""
    channel, weights = plan.channels[0], key_weights(plan.schema)
    cells, reports = decode(channel, weights), people / len(plan.schema.keys)
    laws = prior.states(plan.schema.levels)
    spread = np.array([channel.covariance(cells, law) for law in laws])
    return Forecast(np.zeros((len(laws), 2)), spread / reports)


def _told(channel: Channel, laws: Floats, weights: Floats, size: int, levels: int) -> Floats:
    """What one report of a view of ``size`` keys tells of its first key: the precision, each kind's.

    ``laws`` are those of the view's states, one for each kind of first key.
    """
    lifted_weights = lifted(weights.reshape(-1, weights.shape[1]), (0,), tuple(range(size)), levels)
    cells = channel.decoder(lifted_weights)
    answered = ~np.isnan(cells).any(axis=0)
    made = np.zeros((len(laws), weights.shape[1], weights.shape[1]))
    if not answered.any():
        return made
    pick = np.ix_(answered, answered)
    for kind, law in enumerate(laws):
        spread = channel.covariance(cells[:, answered], law)
        made[kind][pick] = np.linalg.pinv(spread, hermitian=True)
    return made


def _of_items(plan: Plan, people: float, prior: Prior) -> Forecast:
    """One held key is drawn: frequencies of those who hold several are told too low."""
    channel = plan.channels[0]
    drawn = prior.capped(1)[:, 0]
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
    bias = np.full((len(prior.count), 2), np.nan)
    covariance = np.full((len(prior.count), 2, 2), np.nan)
    bias[:, 1] = 0.0
    covariance[:, 1, 1] = (1.0 / channel.pull**2 - (prior.frequency * prior.mean) ** 2) / people
    return Forecast(bias, covariance)
