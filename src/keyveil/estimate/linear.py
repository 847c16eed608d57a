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
from .caution import key_law_with_more
from .decoding import moments_of
from .estimator import answers_from, answers_of, on_arrays, on_scale
from .projection import onto_simplex

if TYPE_CHECKING:
    from ..plan.plan import Plan
    from ..plan.tally import Tally
    from .cap_correction import CapCorrection
    from .side_mean import SideMean

Decoder = Callable[[Channel, Floats], Floats]
"""Turns weights on states into unbiased weights on cells."""


def key_weights(schema: Schema) -> Floats:
    """Weights ``(states, 2)`` on the states of a single key; their sums are frequency and mass."""
    held = np.concatenate([[0.0], np.ones(schema.levels)])
    value = np.concatenate([[0.0], schema.values if schema.levels > 1 else [np.nan]])
    return np.stack([held, value], axis=1)


def by_least_squares(channel: Channel, weights: Floats) -> Floats:
    """Least-squares weights on cells, ``(cells, columns)``; a column with a NaN weight stays NaN."""
    known = ~np.isnan(weights).any(axis=0)
    solved = np.full((channel.cells, weights.shape[1]), np.nan)
    solved[:, known] = channel.decoder(weights[:, known])
    return solved


@dataclass(frozen=True)
class Moments:
    """Frequency and mass of every key with their covariance; NaN for what cannot be known.

    Leading axes, if any, are tallies decoded at once, such as the repetitions of a simulation.
    """

    reports: Integers
    """Reports about each key, ``(..., keys)``."""
    values: Floats
    """Frequency and mass, ``(..., keys, 2)``."""
    covariance: Floats
    """Covariance of the two values of each key, ``(..., keys, 2, 2)``."""
    together: Floats | None = None
    """Ratio of the variance of the average frequency to its value under independent keys, ``(...,)``.
    None if the errors of keys are independent or negatively correlated."""
    side: SideMean | None = None
    """The mean of one held value of each person, from people who answer a side question; see
    ``side.moments_with_side``. None if the plan does not ask for it, or if it is not used."""
    part_weights: Floats | None = None
    """The share of each answering part in the frequencies, ``(..., parts)``; None for a single one."""
    caps: CapCorrection | None = None
    """What is known about the keys that caps leave out; values are those of kept keys. None if the plan
    does not ask how many keys people hold, or if nothing is left out."""

    @classmethod
    def unknown(cls, shape: tuple[int, ...], keys: int) -> Moments:
        """Moments without reports: every value is NaN."""
        lead = (*shape, keys)
        return cls(np.zeros(lead, np.int64), np.full((*lead, 2), np.nan), np.full((*lead, 2, 2), np.nan))

    def shaped(self, shape: tuple[int, ...]) -> Moments:
        """The same moments with the leading axes ``shape``."""
        keys = self.reports.shape[-1]
        return Moments(
            self.reports.reshape(*shape, keys),
            self.values.reshape(*shape, keys, 2),
            self.covariance.reshape(*shape, keys, 2, 2),
        )


def single_keys(plan: Plan) -> bool:
    """Whether every report is about one key."""
    if plan.parts is not None:
        return False
    return plan.encoding.speaks_of_views and all(len(view) == 1 for view in plan.views.keys)


def view_counts(plan: Plan, counts: Integers, number: int) -> tuple[list[int], Floats]:
    """The keys that use a channel, and their counts ``(..., keys, cells)``."""
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
        raise PlanError("this estimator is for plans that ask about one key at a time")
    weights = key_weights(plan.schema)
    shape = np.shape(counts)[:-1]
    moments = Moments.unknown(shape, len(plan.schema.keys))
    for number, channel in enumerate(plan.channels):
        places, key_counts = view_counts(plan, counts, number)
        rows = key_counts.reshape(-1, channel.cells)
        n = rows.sum(axis=1)
        cells = decode(channel, weights)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = rows / n[:, None]
            mean = shares @ cells
            spread = spread_of_report(channel, shares, n, cells) / n[:, None, None]
        lead = (*shape, len(places))
        moments.values[..., places, :] = mean.reshape(*lead, 2)
        moments.covariance[..., places, :, :] = spread.reshape(*lead, 2, 2)
        moments.reports[..., places] = n.astype(np.int64).reshape(lead)
    return moments


def spread_of_report(channel: Channel, shares: Floats, reports: Floats, cells: Floats) -> Floats:
    """Covariance of the sums of one report, ``(rows, 2, 2)``, at the likely law of each row.

    Observed shares may belong to no law, and a single report has no spread. So the covariance is taken
    at a law of the states, with a few reports added as a precaution. Its frequency is the unbiased one,
    and only its values are those of the nearest law: with many levels, noise in their shares makes that
    law's frequency too large.
    """
    law = channel.expected()
    nearest = onto_simplex(np.nan_to_num(shares) @ np.linalg.pinv(law))
    unbiased = shares @ cells[:, :1]
    frequency = np.clip(np.where(np.isnan(unbiased), 1.0 - nearest[:, :1], unbiased), 0.0, 1.0)
    of_values = nearest[:, 1:]
    held = of_values.sum(axis=1, keepdims=True)
    even = np.full(of_values.shape, 1.0 / of_values.shape[1])
    of_values = np.divide(of_values, held, out=even, where=held > 0)
    likely = np.concatenate([1.0 - frequency, frequency * of_values], axis=1)
    outputs = key_law_with_more(likely, reports[:, None]) @ law
    mean = outputs @ cells
    square = np.einsum("vc,cij->vij", outputs, cells[:, :, None] * cells[:, None, :])
    return np.asarray(square - mean[:, :, None] * mean[:, None, :])


def key_bands(plan: Plan, moments: Moments, level: float) -> KeyBands:
    """Bands of every key for the statistics that the mechanism answers."""
    statistics = plan.mechanism.answers
    frequency, mass = moments.values[..., 0], moments.values[..., 1]
    spread, n = moments.covariance, moments.reports
    bands: dict[str, Band] = {}
    if "frequency" in statistics:
        bands["frequency"] = Band.plain(frequency, spread[..., 0, 0], n, level)
    if "mean" in statistics:
        bands["mean"] = Band.ratio(mass, frequency, spread[..., ::-1, ::-1], n, level)
    if "mass" in statistics:
        bands["mass"] = Band.plain(mass, spread[..., 1, 1], n, level)
    return KeyBands(n, **bands)


def key_answers(plan: Plan, moments: Moments, level: float) -> tuple[KeyAnswer, ...]:
    """The answers from the moments of one tally, means on the scales of their keys."""
    return answers_from(plan, key_bands(plan, moments, level))


@on_arrays("least_squares")
def least_squares(plan: Plan, counts: Integers, level: float) -> KeyBands:
    """The generic estimator, unbiased and with intervals, for every mechanism that has moments."""
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
