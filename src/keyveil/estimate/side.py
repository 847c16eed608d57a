"""Side questions: what people tell about themselves that names no key.

A plan of parts may ask a few people how many keys they hold (``size``), or for one held value without
its key (``sign``). ``side_information`` reads all such answers of a plan from its tally.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..channel import Channel
from ..foundation.arrays import Floats, Integers
from ..plan.plan_parts import part_counts
from .cap_correction import CapCorrection
from .caution import law_with_one_more
from .decoding import moments_of, state_decoding_of
from .forecast.predicted_error import ratio_variance
from .projection import onto_simplex
from .side_mean import SideMean

if TYPE_CHECKING:
    from ..plan.plan import Plan
    from .linear import Moments


@dataclass(frozen=True)
class SizeAnswer:
    """How many keys people hold, in buckets. Leading axes, if any, are tallies."""

    reports: Integers
    """Number of reports, ``(...,)``."""
    shares: Floats
    """Unbiased shares of people in the buckets, ``(..., buckets)``; they may lie below 0."""
    covariance: Floats
    """Covariance of the shares, ``(..., buckets, buckets)``."""
    least: Integers
    """The smallest number of keys of each bucket; the last bucket has no end."""
    one_report: Floats
    """Second moments of a bucket's share from one report: of a person inside, and outside, ``(2,)``."""

    @property
    def law(self) -> Floats:
        """The proper law of the buckets that is nearest to the shares, ``(..., buckets)``."""
        rows = onto_simplex(np.nan_to_num(self.shares).reshape(-1, self.shares.shape[-1]))
        return np.asarray(rows.reshape(self.shares.shape))

    @property
    def stderr(self) -> Floats:
        """The standard error of each share, ``(..., buckets)``."""
        return np.sqrt(np.diagonal(self.covariance, axis1=-2, axis2=-1))


@dataclass(frozen=True)
class ValueAnswer:
    """One held value of each person, drawn at random. Leading axes, if any, are tallies."""

    reports: Integers
    """Number of reports, ``(...,)``."""
    values: Floats
    """Unbiased share of people who hold anything, and mass (share times mean), ``(..., 2)``."""
    covariance: Floats
    """Covariance of the two, ``(..., 2, 2)``."""

    @property
    def mean(self) -> Floats:
        """The mean over holders of one held value, on [-1, 1] of its key's range, ``(...,)``."""
        return np.asarray(self.values[..., 1] / self.values[..., 0])

    @property
    def stderr(self) -> Floats:
        """The standard error of the mean by the delta method, ``(...,)``."""
        return np.sqrt(ratio_variance(self.mean, self.values[..., 0], self.covariance))


@dataclass(frozen=True)
class SideInformation:
    """The answers to the side questions of a plan; None for a question that it does not ask."""

    size: SizeAnswer | None = None
    value: ValueAnswer | None = None


def side_information(plan: Plan, counts: Integers) -> SideInformation:
    """All that a plan's side questions tell, from counts ``(..., cells)``.

    If several parts ask the same question, the part with the most reports answers it.
    """
    size: SizeAnswer | None = None
    value: ValueAnswer | None = None
    for own, cells in zip(plan.part_plans, part_counts(plan, counts), strict=True):
        answer = state_decoding_of(own).side_answer(own, cells)
        if isinstance(answer, SizeAnswer) and (size is None or _more(answer, size)):
            size = answer
        if isinstance(answer, ValueAnswer) and (value is None or _more(answer, value)):
            value = answer
    return SideInformation(size, value)


def moments_with_side(plan: Plan, counts: Integers) -> Moments:
    """``moments_of``, with the answers to the plan's side questions, if it asks any.

    They are the mean of one held value, and what is known about the keys that caps leave out.
    """
    moments = moments_of(plan, counts)
    if plan.parts is None:
        return moments
    information = side_information(plan, counts)
    if information.value is not None:
        moments = replace(moments, side=SideMean.of(information.value))
    if information.size is not None:
        moments = replace(moments, caps=CapCorrection.of(plan, information.size, moments.part_weights))
    return moments


def _more(answer: SizeAnswer | ValueAnswer, other: SizeAnswer | ValueAnswer) -> bool:
    return int(answer.reports.sum()) > int(other.reports.sum())


def state_sums(channel: Channel, counts: Integers, weights: Floats) -> tuple[Integers, Floats, Floats]:
    """Reports, unbiased means of ``weights`` over people, and their covariance, for one view.

    ``counts`` are ``(..., 1 + cells)``, the view's own first. ``weights`` are ``(states, columns)``.
    Results are ``(...,)``, ``(..., columns)`` and ``(..., columns, columns)``; NaN without reports.
    """
    rows = np.asarray(counts).reshape(-1, channel.cells + 1)
    n = rows[:, :1].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = rows[:, 1:] / n
    if not channel.one_cell:
        shares = np.concatenate([shares, np.where(n > 0, 1.0, np.nan)], axis=1)
    decoder, states = channel.decoder(weights), channel.decoder(np.eye(channel.states))
    laws = law_with_one_more(onto_simplex(np.nan_to_num(shares @ states)), n, channel.states)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.array([channel.covariance(decoder, law) for law in laws]) / n[:, :, None]
    spread = np.where(n[:, :, None] > 0, spread, np.nan)
    lead, columns = np.shape(counts)[:-1], weights.shape[1]
    values = (shares @ decoder).reshape(*lead, columns)
    return rows[:, 0].reshape(lead), values, spread.reshape(*lead, columns, columns)
