"""Least squares: unbiased weights on the tally's cells, with their exact covariance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Floats, Integers
from ..channel import Channel
from ..errors import PlanError
from ..schema import Schema
from .answer import Answers, Estimate, KeyAnswer, plain, ratio, shifted
from .project import onto_simplex

if TYPE_CHECKING:
    from ..plan import Plan
    from ..tally import Tally

Decoder = Callable[[Channel, Floats], Floats]
"""Turns weights on states into unbiased weights on cells."""


def key_weights(schema: Schema) -> Floats:
    """Weights on the states of a single key, whose sums are frequency and mass; a column each."""
    held = np.concatenate([[0.0], np.ones(schema.levels)])
    worth = np.concatenate([[0.0], schema.values if schema.levels > 1 else [np.nan]])
    return np.stack([held, worth], axis=1)


def by_least_squares(channel: Channel, weights: Floats) -> Floats:
    """The generic decoder; columns with unknown weights stay unknown."""
    known = ~np.isnan(weights).any(axis=0)
    solved = np.full((channel.cells, weights.shape[1]), np.nan)
    solved[:, known] = channel.decoder(weights[:, known])
    return solved


@dataclass(frozen=True)
class Moments:
    """Frequency and mass of every key with their covariance; NaN where they cannot be known."""

    reports: Integers
    values: Floats
    """One row per key: frequency, mass."""
    covariance: Floats
    """One 2 x 2 matrix per key, of the two values."""


def single_moments(plan: Plan, tally: Tally, decode: Decoder = by_least_squares) -> Moments:
    """Frequency and mass of every key, for plans whose views are single keys."""
    keys = len(plan.schema.keys)
    if plan.encode != "views" or any(len(view) != 1 for view in plan.views.keys):
        raise PlanError("this estimator is for plans that speak of one key at a time")
    weights = key_weights(plan.schema)
    reports = np.zeros(keys, np.int64)
    values, covariance = np.full((keys, 2), np.nan), np.full((keys, 2, 2), np.nan)
    for number, channel in enumerate(plan.channels):
        views = plan.views_of(number)
        counts = np.array([tally.view_counts(view)[1] for view in views], np.float64)
        places = [plan.views.keys[view][0] for view in views]
        n = counts.sum(axis=1)
        cells = decode(channel, weights)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = counts / n[:, None]
            mean = shares @ cells
            covariance[places] = _spread(channel, shares, n, cells) / n[:, None, None]
        values[places] = mean
        reports[places] = n.astype(np.int64)
    return Moments(reports, values, covariance)


def _spread(channel: Channel, shares: Floats, reports: Floats, cells: Floats) -> Floats:
    """Each row's covariance of one report's sums, at the likely law that its shares point to.

    Shares themselves may be those of no law at all (one report has no spread), so the covariance is
    taken at the nearest law of the states, with one more report from each state for caution.
    """
    law = channel.expected()
    nearest = onto_simplex(np.nan_to_num(shares) @ np.linalg.pinv(law))
    n = reports[:, None]
    seen = (n * nearest + 1.0) / (n + channel.states) @ law
    average = seen @ cells
    square = np.einsum("vc,cij->vij", seen, cells[:, :, None] * cells[:, None, :])
    return np.asarray(square - average[:, :, None] * average[:, None, :])


def key_answers(plan: Plan, moments: Moments, level: float) -> tuple[KeyAnswer, ...]:
    """Frequency and mean (or mass, where that is all a mechanism knows) of every key."""
    wanted = plan.kind.answers
    answers = []
    for place, key in enumerate(plan.schema.keys):
        n = int(moments.reports[place])
        (frequency, mass), spread = moments.values[place], moments.covariance[place]
        made: dict[str, Estimate] = {}
        if "frequency" in wanted:
            made["frequency"] = plain(frequency, spread[0, 0], n, level)
        if "mean" in wanted:
            swapped = np.array([[spread[1, 1], spread[0, 1]], [spread[0, 1], spread[0, 0]]])
            made["mean"] = on_scale(plan, place, ratio(mass, frequency, swapped, n, level))
        if "mass" in wanted:
            made["mass"] = plain(mass, spread[1, 1], n, level)
        answers.append(KeyAnswer(key, **made))
    return tuple(answers)


def on_scale(plan: Plan, place: int, estimate: Estimate) -> Estimate:
    """A mean on [-1, 1], on its key's own scale."""
    return shifted(estimate, float(plan.schema.low[place]), float(plan.schema.high[place]))


def answers_of(plan: Plan, keys: tuple[KeyAnswer, ...], estimator: str, level: float) -> Answers:
    """Answers with the plan's mechanism and its note."""
    return Answers(keys, plan.mechanism, estimator, level, plan.kind.note)


def least_squares(plan: Plan, tally: Tally, level: float) -> Answers:
    """The generic estimator: works for every mechanism, unbiased, with intervals."""
    if plan.encode == "views":
        keys = key_answers(plan, single_moments(plan, tally), level)
    elif plan.encode == "item":
        keys = _item_answers(plan, tally, level)
    else:
        keys = _sign_answers(plan, tally, level)
    return answers_of(plan, keys, "least_squares", level)


def _item_answers(plan: Plan, tally: Tally, level: float) -> tuple[KeyAnswer, ...]:
    n, counts = tally.view_counts(0)
    if n == 0:
        return tuple(KeyAnswer(k, frequency=plain(0, 0, 0, level)) for k in plan.schema.keys)
    channel, shares = plan.channels[0], counts / n
    values = channel.state_estimates(shares)[0]
    # One more report from an average state, for caution: one report alone has no spread.
    average = channel.mix(np.full(channel.states, 1.0 / channel.states))[: len(shares)]
    variances = channel.state_estimates((n * shares + average) / (n + 1))[1]
    return tuple(
        KeyAnswer(key, frequency=plain(float(value), float(variance) / n, n, level))
        for key, value, variance in zip(plan.schema.keys, values[1:], variances[1:], strict=True)
    )


def _sign_answers(plan: Plan, tally: Tally, level: float) -> tuple[KeyAnswer, ...]:
    from ..channel import Halfspace

    channel = plan.channels[0]
    if not isinstance(channel, Halfspace):
        raise PlanError("this estimator is for vectors of signs")
    n, counts = tally.view_counts(0)
    if n == 0:
        return tuple(KeyAnswer(k, mass=plain(0, 0, 0, level)) for k in plan.schema.keys)
    shares = counts / n if channel.one_cell else np.append(counts / n, 1.0)
    means = shares @ channel.sign_decoder()
    # A sent sign is always -1 or +1; one more fair one, for caution.
    variances = (1.0 / channel.pull**2 - (np.clip(means, -1, 1) * n / (n + 1)) ** 2) / n
    return tuple(
        KeyAnswer(key, mass=plain(float(mean), float(variance), n, level))
        for key, mean, variance in zip(plan.schema.keys, means, variances, strict=True)
    )
