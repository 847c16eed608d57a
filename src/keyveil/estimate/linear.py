"""Least squares: unbiased weights on the tally's cells, with their exact covariance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..channel import Channel
from ..foundation.arrays import Floats, Integers
from ..foundation.errors import PlanError
from ..people.schema import Schema
from .answer import Band, KeyAnswer, KeyBands
from .caution import law_with_one_more
from .decoding import moments_of
from .estimator import answers_from, answers_of, on_arrays, on_scale
from .projection import onto_simplex

if TYPE_CHECKING:
    from ..plan.plan import Plan
    from ..plan.tally import Tally

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
    """Frequency and mass of every key with their covariance; NaN where they cannot be known.

    Leading axes, if any, are tallies that were decoded at once, such as a simulation's repetitions.
    """

    reports: Integers
    """``(..., keys)``."""
    values: Floats
    """``(..., keys, 2)``: frequency, mass."""
    covariance: Floats
    """``(..., keys, 2, 2)``, of the two values of each key."""
    together: Floats | None = None
    """``(...,)``: the variance of the keys' average frequency, over what it were if keys' errors had
    nothing to do with each other; None where they have not, or less than nothing."""

    @classmethod
    def unknown(cls, shape: tuple[int, ...], keys: int) -> Moments:
        """Nothing is known yet."""
        lead = (*shape, keys)
        return cls(np.zeros(lead, np.int64), np.full((*lead, 2), np.nan), np.full((*lead, 2, 2), np.nan))

    def shaped(self, shape: tuple[int, ...]) -> Moments:
        """The same with other leading axes."""
        keys = self.reports.shape[-1]
        return Moments(
            self.reports.reshape(*shape, keys),
            self.values.reshape(*shape, keys, 2),
            self.covariance.reshape(*shape, keys, 2, 2),
        )


def single_keys(plan: Plan) -> bool:
    """Whether every report speaks of one key."""
    return plan.encoding.speaks_of_views and all(len(view) == 1 for view in plan.views.keys)


def view_counts(plan: Plan, counts: Integers, number: int) -> tuple[list[int], Floats]:
    """The keys that draw from a channel, and their counts ``(..., keys, cells)``."""
    views = plan.views_of(number)
    cells = plan.layout.own[views][:, None] + 1 + np.arange(plan.channels[number].cells)
    places = [plan.views.keys[view][0] for view in views]
    return places, np.asarray(counts)[..., cells].astype(np.float64)


def single_moments(plan: Plan, tally: Tally, decode: Decoder = by_least_squares) -> Moments:
    """Frequency and mass of every key of one tally, for plans whose views are single keys."""
    return view_moments(plan, tally.counts, decode)


def view_moments(plan: Plan, counts: Integers, decode: Decoder = by_least_squares) -> Moments:
    """Frequency and mass of every key from counts ``(..., cells)`` of views of single keys."""
    if not single_keys(plan):
        raise PlanError("this estimator is for plans that speak of one key at a time")
    weights = key_weights(plan.schema)
    shape = np.shape(counts)[:-1]
    made = Moments.unknown(shape, len(plan.schema.keys))
    for number, channel in enumerate(plan.channels):
        places, held = view_counts(plan, counts, number)
        rows = held.reshape(-1, channel.cells)
        n = rows.sum(axis=1)
        cells = decode(channel, weights)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = rows / n[:, None]
            mean = shares @ cells
            spread = _spread(channel, shares, n, cells) / n[:, None, None]
        lead = (*shape, len(places))
        made.values[..., places, :] = mean.reshape(*lead, 2)
        made.covariance[..., places, :, :] = spread.reshape(*lead, 2, 2)
        made.reports[..., places] = n.astype(np.int64).reshape(lead)
    return made


def _spread(channel: Channel, shares: Floats, reports: Floats, cells: Floats) -> Floats:
    """Each row's covariance of one report's sums, at the likely law that its shares point to.

    Shares themselves may be those of no law at all (one report has no spread), so the covariance is
    taken at the nearest law of the states, with one more report from each state.
    """
    law = channel.expected()
    nearest = onto_simplex(np.nan_to_num(shares) @ np.linalg.pinv(law))
    n = reports[:, None]
    seen = law_with_one_more(nearest, n, channel.states) @ law
    average = seen @ cells
    square = np.einsum("vc,cij->vij", seen, cells[:, :, None] * cells[:, None, :])
    return np.asarray(square - average[:, :, None] * average[:, None, :])


def key_bands(plan: Plan, moments: Moments, level: float) -> KeyBands:
    """Frequency and mean (or mass, where that is all a mechanism knows) of every key."""
    wanted = plan.mechanism.answers
    frequency, mass = moments.values[..., 0], moments.values[..., 1]
    spread, n = moments.covariance, moments.reports
    made: dict[str, Band] = {}
    if "frequency" in wanted:
        made["frequency"] = Band.plain(frequency, spread[..., 0, 0], n, level)
    if "mean" in wanted:
        made["mean"] = Band.ratio(mass, frequency, spread[..., ::-1, ::-1], n, level)
    if "mass" in wanted:
        made["mass"] = Band.plain(mass, spread[..., 1, 1], n, level)
    return KeyBands(n, **made)


def key_answers(plan: Plan, moments: Moments, level: float) -> tuple[KeyAnswer, ...]:
    """The answers of one tally's moments, means on their keys' own scales."""
    return answers_from(plan, key_bands(plan, moments, level))


@on_arrays("least_squares")
def least_squares(plan: Plan, counts: Integers, level: float) -> KeyBands:
    """The generic estimator: works for every mechanism that has moments, unbiased, with intervals."""
    return key_bands(plan, moments_of(plan, counts), level)


__all__ = [
    "Decoder",
    "Moments",
    "answers_of",
    "by_least_squares",
    "key_answers",
    "key_bands",
    "key_weights",
    "least_squares",
    "on_scale",
    "single_keys",
    "single_moments",
    "view_counts",
    "view_moments",
]
