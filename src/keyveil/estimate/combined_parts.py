"""Answers of a plan of parts: the estimates of its parts, combined by precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..foundation.arrays import Flags, Floats, Integers
from ..foundation.errors import PlanError
from ..plan.plan_parts import part_counts
from .decoding import StateDecoding, decoding_of, state_decoding_of
from .linear import Moments, single_keys

if TYPE_CHECKING:
    from ..plan.plan import Plan
    from ..plan.tally import Tally
    from .together.joint import Evidence


def answering(plan: Plan) -> list[bool]:
    """Whether each part has unbiased estimates of single keys."""
    return [decoding_of(own).has_moments(own) for own in plan.part_plans]


def combined_moments(plan: Plan, counts: Integers) -> Moments:
    """Frequency and mass of every key from counts ``(..., cells)`` of a plan of parts."""
    parts = zip(plan.part_plans, part_counts(plan, counts), answering(plan), strict=True)
    moments = [decoding_of(own).moments(own, cells) for own, cells, answers in parts if answers]
    if not moments:
        raise PlanError("no part of this plan answers single keys; see side_information")
    return combined(moments)


def combined(moments: Sequence[Moments]) -> Moments:
    """The moments of independent parts about the same keys, combined by precision.

    The weight of a part is the inverse of its average covariance of one report, times its reports about
    the key. Weights from the key's own estimated covariance would depend on its noise and cause a bias.
    """
    if len(moments) == 1:
        return moments[0]
    weights = precision_weights([part.values for part in moments], [_typical(part) for part in moments])
    spreads = [_sandwich(weight, part.covariance) for weight, part in zip(weights, moments, strict=True)]
    known = ~np.all([np.isnan(part.values) for part in moments], axis=0)
    values = sum(
        np.einsum("...ij,...j->...i", weight, np.nan_to_num(part.values))
        for weight, part in zip(weights, moments, strict=True)
    )
    reports = np.sum([part.reports for part in moments], axis=0)
    return Moments(
        reports,
        np.where(known, values, np.nan),
        np.where(known[..., :, None] & known[..., None, :], sum(spreads), np.nan),
        _together(moments, spreads),
        part_weights=np.stack([weight[..., 0, 0].mean(axis=-1) for weight in weights], axis=-1),
    )


def _typical(part: Moments) -> Floats:
    """The covariance of each key, ``(..., keys, 2, 2)``, if one report says as much about every key."""
    reports = part.reports[..., None, None].astype(np.float64)
    per_report = part.covariance * reports
    known = np.isfinite(per_report)
    count = known.sum(axis=-3, keepdims=True)
    average = np.where(known, per_report, 0.0).sum(axis=-3, keepdims=True) / np.maximum(count, 1)
    return np.asarray(np.where(count > 0, average, np.nan) / np.maximum(reports, 1.0))


def precision_weights(values: Sequence[Floats], covariances: Sequence[Floats]) -> list[Floats]:
    """Matrices ``(..., 2, 2)`` with which estimates ``(..., 2)`` are combined; they sum to one.

    A NaN among ``values`` is unknown and gets no weight.
    """
    precisions = [_precision(v, c) for v, c in zip(values, covariances, strict=True)]
    total = np.asarray(sum(precisions))
    known = np.diagonal(total, axis1=-2, axis2=-1) > 0
    inverse = _inverse(total, known)
    return [inverse @ precision for precision in precisions]


def _precision(values: Floats, covariance: Floats) -> Floats:
    return _inverse(np.nan_to_num(covariance), ~np.isnan(values))


def _inverse(matrix: Floats, known: Flags) -> Floats:
    """The inverses of ``(..., 2, 2)`` on the known rows and columns, 0 elsewhere."""
    first, second = known[..., 0], known[..., 1]
    a, b, c = matrix[..., 0, 0], matrix[..., 0, 1], matrix[..., 1, 1]
    both = first & second
    with np.errstate(divide="ignore", invalid="ignore"):
        det = a * c - b * b
        rows = (
            np.where(both, c / det, np.where(first, 1.0 / a, 0.0)),
            np.where(both, -b / det, 0.0),
            np.where(both, a / det, np.where(second, 1.0 / c, 0.0)),
        )
    result = np.stack([rows[0], rows[1], rows[1], rows[2]], axis=-1)
    return np.nan_to_num(result, posinf=0.0, neginf=0.0).reshape(*np.shape(a), 2, 2)


def _sandwich(weight: Floats, covariance: Floats) -> Floats:
    return np.asarray(weight @ np.nan_to_num(covariance) @ np.swapaxes(weight, -1, -2))


def _together(moments: Sequence[Moments], spreads: Sequence[Floats]) -> Floats | None:
    """As in ``Moments``: the ratio of every part, weighted by its share of the variance."""
    if all(part.together is None for part in moments):
        return None
    noise = [spread[..., 0, 0].sum(axis=-1) for spread in spreads]
    ratios = [1.0 if part.together is None else part.together for part in moments]
    total = sum(np.nan_to_num(r) * v for r, v in zip(ratios, noise, strict=True))
    return np.asarray(total / np.maximum(sum(noise), 1e-300))


# -- keys together ---------------------------------------------------------------------------------


def together_part(plan: Plan) -> tuple[int, float]:
    """The number and share of the part that knows about keys together: the largest about several keys.

    If no part asks about several keys, it is the largest that has evidence about single keys. A plan
    without parts is its own part.
    """
    from .together.joint import not_together

    if plan.parts is None:
        return 0, 1.0
    options = [
        (not single_keys(part.plan), part.weight, number)
        for number, part in enumerate(plan.parts)
        if _has_evidence(part.plan)
    ]
    if not options:
        raise not_together(plan)
    number = max(options)[2]
    return number, plan.parts[number].share


def answers_together(plan: Plan) -> bool:
    """Whether ``together_part`` finds a part that has evidence."""
    return plan.parts is None or any(_has_evidence(part.plan) for part in plan.parts)


def asked_together(plan: Plan, tally: Tally) -> tuple[Plan, Tally]:
    """The plan and tally of the part that knows about keys together; see ``together_part``."""
    tally.belongs_to(plan)
    number = together_part(plan)[0]
    return plan.part_plans[number], plan.part_tallies(tally)[number]


def _has_evidence(plan: Plan) -> bool:
    own = type(state_decoding_of(plan)).evidence is not StateDecoding.evidence
    return own or decoding_of(plan).has_own_evidence


def part_evidence(plan: Plan, tally: Tally) -> Evidence:
    """The evidence of the part that knows about keys together."""
    from .together.joint import evidence

    own, cells = asked_together(plan, tally)
    if own.schema.levels != plan.schema.levels:
        raise PlanError("the part that asks about keys together has other levels; query that part")
    return evidence(own, cells)
