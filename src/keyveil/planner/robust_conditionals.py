"""The choice of a plan for conditionals if nothing is known of how many keys people hold.

As for single keys (see ``robust``), every option has a cost under each belief, and its *regret* there is
that cost over the least one. The choice has the smallest worst regret. Costs are in closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np

from ..estimate.together.query import Query
from ..foundation.errors import PlanError
from ..people.beliefs import Beliefs
from ..people.schema import Schema
from .options import (
    COVERED,
    NO_CONDITIONALS,
    Option,
    conditional_candidates,
    conditional_options,
    conditional_plans,
)
from .robust import UNCOVERED, RegretTable, bounded_cost_among


def robust_conditionals(
    schema: Schema, epsilon: Decimal, people: int, queries: Sequence[Query], beliefs: Beliefs
) -> tuple[Option, ...]:
    """The options for conditionals, the choice first, then by their worst regrets.

    Their errors are those under the prior that numbers are shown for.
    """
    tried = [
        candidate
        for prior in beliefs.priors
        for candidate in conditional_candidates(schema, queries, prior)
    ]
    distinct = [candidate for place, candidate in enumerate(tried) if candidate not in tried[:place]]
    plans = conditional_plans(schema, epsilon, distinct)
    by_belief = [conditional_options(plans, people, queries, prior) for prior in beliefs.priors]
    table = _regret_table(by_belief)
    assert table.allowed is not None
    listed = np.flatnonzero(table.allowed & np.isfinite(table.worst))
    if not len(listed):
        raise PlanError(NO_CONDITIONALS)
    first = table.choice()
    ranked = sorted(listed.tolist(), key=lambda place: (place != first, table.worst[place]))
    shown = by_belief[[prior is beliefs.prior for prior in beliefs.priors].index(True)]
    return tuple(
        replace(
            shown[place],
            score=float(table.worst[place]),
            people_factor=max(options[place].people_factor for options in by_belief),
            regrets=tuple(table.regrets[place].tolist()),
            people_factors=tuple(options[place].people_factor for options in by_belief),
        )
        for place in ranked
    )


def _regret_table(by_belief: Sequence[Sequence[Option]]) -> RegretTable:
    """The regrets of all options; under each belief the least cost is one of an option that covers."""
    costs, least = [], []
    for options in by_belief:
        covering = [option for option in options if option.covered >= COVERED]
        cost = bounded_cost_among(covering)
        costs.append([cost(o) * (1.0 if o.covered >= COVERED else UNCOVERED) for o in options])
        least.append(min(cost(option) for option in covering))
    covers = [[option.covered >= COVERED for option in options] for options in by_belief]
    mechanisms = tuple(option.mechanism for option in by_belief[0])
    return RegretTable(mechanisms, np.array(costs).T, np.array(least), None, np.all(covers, axis=0))
