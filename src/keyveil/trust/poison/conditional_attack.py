"""What a share of fakes does to a conditional."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from ...estimate.together.conditional import query_weights
from ...estimate.together.joint import lifted
from ...estimate.together.query import Query
from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ...people.prior_laws import independent_law
from ...plan.plan import Plan
from .attack import FREQUENCY, MEAN, Aimed, Attack, best_ratio, on_own_range, ratio
from .gains import Change
from .influence import channel_influence
from .report_influence import CellInfluence, Positions

_ZERO = 1e-9
"""Smallest denominator of a ratio."""


def raised_conditional(
    plan: Plan,
    share: float,
    query: Query,
    *,
    views: str = "chosen",
    frequency: float = FREQUENCY,
    mean: float = MEAN,
) -> Change:
    """How far crafted fakes raise a conditional, on its own scale and within its range.

    The answer is that of ``single_view``: only the views that hold the query's keys together. If fakes
    are in these views alone, answers from all views change less, often by half, because other views
    inform about the keys too. Honest people hold each key with ``frequency``, independently, with
    values of ``mean``.
    """
    Attack(share, views=views).checked(plan)
    if not plan.encoding.speaks_of_views:
        raise PlanError(
            f"what fakes could do to a conditional of {plan.mechanism_name} is not offered: it leans on "
            "the reports of all pairs; keyveil poison says it of single keys"
        )
    target, given = query.places(plan.schema)
    keys, levels = (target, *(place for place, _ in given)), plan.schema.levels
    holding = [number for number, view in enumerate(plan.views.keys) if set(keys) <= set(view)]
    if not holding:
        raise PlanError(f"no view of {plan.mechanism_name} holds the keys of this query together")
    view, channel = plan.views.keys[holding[0]], plan.view_channels[holding[0]]
    asked = query if query.kind == "mean" else replace(query, kind="frequency")
    # The denominator comes first, as a frequency comes before its mass.
    flat = lifted(query_weights(plan.schema, asked), keys, view, levels)[:, ::-1]
    before = (independent_law(levels, len(view), frequency, mean) @ flat)[None, :]
    options = channel_influence(channel, channel.decoder(flat)[:, None])
    informing = float(plan.views.shares[holding].sum())
    fakes = share if views == "drawn" else share / (share + (1 - share) * informing)

    def shown(ratio: float) -> float:
        ratio = min(max(ratio, -1.0), 1.0)
        return max(ratio, 0.0) if asked.kind == "frequency" else on_own_range(plan, target, ratio)

    return Change(shown(ratio(before[0])), shown(_most_raised(options, before, fakes)))


def _most_raised(options: CellInfluence | Positions, before: Floats, fakes: float) -> float:
    """The largest ratio that a share of ``fakes`` with these reports makes of ``before``, ``(1, 2)``."""
    if isinstance(options, CellInfluence):
        influences = options.influence[0, options.many > 0, 0]
        return largest_ratio((1 - fakes) * before + fakes * influences)

    def outcome(weights: Floats) -> Aimed:
        pick = options.pick(weights, "chosen")
        return Aimed((1 - fakes) * before + fakes * options.mean_influence(pick), np.ones(1), [pick])

    return ratio(best_ratio(before, 1.0, outcome).values[0])


def largest_ratio(points: Floats) -> float:
    """The largest ratio of second to first value over mixtures of points with a first value above zero.

    It is that of a point, or lies where a line between two points meets the axis.
    """
    above, below = points[points[:, 0] > _ZERO], points[points[:, 0] <= _ZERO]
    ratios = [-inf, *(above[:, 1] / above[:, 0]).tolist()]
    for low in below:
        part = (_ZERO - low[0]) / (above[:, 0] - low[0])
        ratios += ((low[1] + part * (above[:, 1] - low[1])) / _ZERO).tolist()
    return max(ratios)
