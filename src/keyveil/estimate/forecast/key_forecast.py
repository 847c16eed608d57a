"""Forecast of single keys in closed form, from the channel's own law.

For every representative key of a ``Prior``: bias and exact covariance of frequency and mass under the
least-squares estimator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ...people.prior_laws import independent_law
from ..decoding import decoding_of
from ..linear import Decoder, by_least_squares, key_weights
from .few_reports import effective_reports
from .predicted_error import Forecast, StatedTruth

if TYPE_CHECKING:
    from ...people.prior import Prior
    from ...plan.plan import Plan


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
    if not plan.encoding.speaks_of_views or len(plan.views.keys[view]) != 1:
        raise PlanError("a forecast of one key is for plans that speak of one key at a time")
    states = state_law(plan, frequency, mean) if law is None else np.asarray(law, np.float64)
    channel, weights = plan.view_channels[view], key_weights(plan.schema)
    f, mass = states @ np.nan_to_num(weights)
    truth = StatedTruth.of_key(f, mass / f if f > 0 else np.nan)
    spread = channel.covariance(decode(channel, weights), states)
    reports = effective_reports(people, float(plan.views.shares[view]))
    return Forecast(truth, np.zeros(2), spread / reports)


def state_law(plan: Plan, frequency: float, mean: float) -> Floats:
    """The law of a key's states when its values lie at the two ends of the range."""
    if not 0 <= frequency <= 1 or not -1 <= mean <= 1:
        raise PlanError("a frequency lies in [0, 1] and a mean in [-1, 1]")
    return independent_law(plan.schema.levels, 1, frequency, mean)


def by_decoder(plan: Plan, people: float, prior: Prior, decode: Decoder) -> Forecast:
    """The forecast of views of single keys that share one channel, under a decoder of their own."""
    channel, weights = plan.channels[0], key_weights(plan.schema)
    cells, reports = decode(channel, weights), effective_reports(people, 1 / len(plan.schema.keys))
    laws = prior.states(plan.schema.levels)
    spread = np.array([channel.covariance(cells, law) for law in laws])
    return Forecast(prior, np.zeros((len(laws), 2)), spread / reports)
