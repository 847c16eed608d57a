"""The choice among plans for conditionals, by the error of the default answers.

``options`` compares plans by the error of unbiased conditionals. Default answers are shrunk, and how far
depends on how keys go together, which only a table tells. Then the plans that are not far from the best
are compared by the default answers on simulated tallies of people like the table's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..estimate import DEFAULT
from ..estimate.forecast.pair_forecast import popular_kinds
from ..estimate.forecast.predicted_error import Errors
from ..estimate.forecast.query_forecast import QueryForecast
from ..estimate.together.query import Query
from ..people.prior import Prior
from .options import Option, counted_of, ordered

FAR = 1.3
"""Plans with a cost beyond this factor of the least are not simulated."""
MOST_VIEWS = 5000
"""The most views of a plan that is simulated."""


def choose_conditional_plan(
    options: Sequence[Option], people: int, queries: Sequence[Query], prior: Prior
) -> tuple[Option, ...]:
    """The options, best first, with scores by simulation where a table tells how keys go together.

    Other plans take over the change of the first plan that is simulated.
    """
    near = [option for option in options if option.cost <= FAR * options[0].cost]
    simulated = [option for option in near if _may_simulate(option)]
    if prior.sample is None or not simulated or len(near) < 2:
        return tuple(options)
    asked = _by_statistic(queries, simulated[0], prior)
    errors = {option.plan.hash: _errors(option, people, asked, prior) for option in simulated}
    counted = [
        part
        for part in counted_of(queries)
        if all(np.isfinite(getattr(own, part)) for own in errors.values())
    ]
    if not counted:
        return tuple(options)
    base, before = errors[simulated[0].plan.hash], simulated[0].score
    scores = {
        name: before * sum(getattr(own, part) / getattr(base, part) for part in counted) / len(counted)
        for name, own in errors.items()
    }
    return ordered(
        [replace(option, score=scores.get(option.plan.hash, option.score)) for option in options]
    )


def _may_simulate(option: Option) -> bool:
    """Whether tallies of the plan follow from the law of a few keys, and are quickly drawn."""
    plan = option.plan
    return plan.parts is None and plan.encoding.speaks_of_views and len(plan.views) <= MOST_VIEWS


def _by_statistic(
    queries: Sequence[Query], option: Option, prior: Prior
) -> Mapping[str, tuple[Query, ...]]:
    """The queries to forecast: those asked for, or all pairs of keys that are held often."""
    if queries:
        return {
            kind: tuple(query for query in queries if query.kind == kind)
            for kind in ("frequency", "mean")
        }
    names = [option.plan.schema.keys[kind] for kind in popular_kinds(prior)]
    pairs = [(target, given) for target in names for given in names if target != given]
    return {
        kind: tuple(Query(kind, target, ((given, True),)) for target, given in pairs)
        for kind in ("frequency", "mean")
    }


def _errors(
    option: Option, people: int, queries: Mapping[str, tuple[Query, ...]], prior: Prior
) -> Errors:
    """The predicted errors of the default answers among people like the table's."""
    levels = option.plan.schema.levels
    forecast = QueryForecast(option.plan, lambda keys: prior.joint(levels, keys), people, DEFAULT)
    return forecast.errors(queries)
