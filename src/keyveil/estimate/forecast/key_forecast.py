"""Forecast of single keys in closed form, from the channel's own law.

For every representative key of a ``Prior``: bias and exact covariance of frequency and mass under the
least-squares estimator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...channel import Channel, Halfspace
from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ...people.prior import independent_law
from ..decoding import decoding_of
from ..linear import Decoder, by_least_squares, key_weights
from ..together.joint import lifted
from .result import Forecast, StatedTruth

if TYPE_CHECKING:
    from ...people.prior import Prior
    from ...plan.plan import Plan

MOST_STATES = 3**9
"""The most states of a view whose law is written out state by state."""


def forecast(plan: Plan, people: float, prior: Prior) -> Forecast:
    """The predicted error of every representative key when ``people`` answer the plan.

    It is that of the mechanism's first estimator; ``by_draws`` has the estimators without closed form.
    """
    if prior.keys != len(plan.schema.keys):
        raise PlanError(f"the prior is for {prior.keys} keys, the plan for {len(plan.schema.keys)}")
    return decoding_of(plan).forecast(plan, people, prior)


def forecast_key(
    plan: Plan,
    people: float,
    frequency: float,
    mean: float,
    *,
    view: int = 0,
    law: Floats | None = None,
    decode: Decoder = by_least_squares,
) -> Forecast:
    """The forecast of one key with a stated frequency and mean, without a row axis.

    Values lie at the two ends of the range, or as ``law`` (of the key's states) says.
    """
    if plan.encode != "views" or len(plan.views.keys[view]) != 1:
        raise PlanError("a forecast of one key is for plans that speak of one key at a time")
    states = state_law(plan, frequency, mean) if law is None else np.asarray(law, np.float64)
    channel, weights = plan.view_channels[view], key_weights(plan.schema)
    f, mass = states @ np.nan_to_num(weights)
    truth = StatedTruth.of_key(f, mass / f if f > 0 else np.nan)
    spread = channel.covariance(decode(channel, weights), states)
    return Forecast(truth, np.zeros(2), spread / (people * float(plan.views.shares[view])))


def state_law(plan: Plan, frequency: float, mean: float) -> Floats:
    """The law of a key's states when its values lie at the two ends of the range."""
    if not 0 <= frequency <= 1 or not -1 <= mean <= 1:
        raise PlanError("a frequency lies in [0, 1] and a mean in [-1, 1]")
    return independent_law(plan.schema.levels, 1, frequency, mean)


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
    """Every report of a view is about each of its keys; reports on a key are pooled by precision."""
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
            laws = prior.view_laws(levels, tuple(plan.views.keys[view] for view in views))
            precision_of_one = _precision(channel, laws, weights[:, known], size, levels)
            share = float(sum(plan.views.shares[view] for view in views))
            reports = people * share * size / keys
            precision += reports * precision_of_one
    answered = np.zeros(2, bool)
    answered[known] = (np.diagonal(precision, axis1=1, axis2=2) > 0).all(axis=0)
    covariance = np.full((kinds, 2, 2), np.nan)
    inside = np.ix_(np.arange(kinds), answered[known], answered[known])
    covariance[np.ix_(np.arange(kinds), answered, answered)] = np.linalg.inv(precision[inside])
    return Forecast(prior, np.where(answered, 0.0, np.nan) * np.ones((kinds, 2)), covariance)


def by_decoder(plan: Plan, people: float, prior: Prior, decode: Decoder) -> Forecast:
    """The forecast of views of single keys that share one channel, under a decoder of their own."""
    channel, weights = plan.channels[0], key_weights(plan.schema)
    cells, reports = decode(channel, weights), people / len(plan.schema.keys)
    laws = prior.states(plan.schema.levels)
    spread = np.array([channel.covariance(cells, law) for law in laws])
    return Forecast(prior, np.zeros((len(laws), 2)), spread / reports)


def _precision(channel: Channel, laws: Floats, weights: Floats, size: int, levels: int) -> Floats:
    """The precision of one report of a view of ``size`` keys about its first key.

    ``laws`` are those of the view's states, a row for each representative as first key.
    """
    lifted_weights = lifted(weights.reshape(-1, weights.shape[1]), (0,), tuple(range(size)), levels)
    cells = channel.decoder(lifted_weights)
    answered = ~np.isnan(cells).any(axis=0)
    precision = np.zeros((len(laws), weights.shape[1], weights.shape[1]))
    if not answered.any():
        return precision
    pick = np.ix_(answered, answered)
    for kind, law in enumerate(laws):
        spread = channel.covariance(cells[:, answered], law)
        precision[kind][pick] = np.linalg.pinv(spread, hermitian=True)
    return precision


def _of_items(plan: Plan, people: float, prior: Prior) -> Forecast:
    """One held key is drawn from each person, so the frequencies of people with several are too low."""
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
    return Forecast(prior, bias, covariance)


def _of_signs(plan: Plan, people: float, prior: Prior) -> Forecast:
    """A report is a vector of signs, one for each key, about masses alone."""
    channel = plan.channels[0]
    assert isinstance(channel, Halfspace)
    bias = np.full((len(prior.count), 2), np.nan)
    covariance = np.full((len(prior.count), 2, 2), np.nan)
    bias[:, 1] = 0.0
    covariance[:, 1, 1] = (1.0 / channel.pull**2 - (prior.frequency * prior.mean) ** 2) / people
    return Forecast(prior, bias, covariance)
