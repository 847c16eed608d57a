"""Curves: the best options' predicted errors against epsilon and against people, for pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from ..estimate.forecast.pair_forecast import forecast_pairs
from ..estimate.together.query import Query
from ..people.scale import Scale
from ..people.schema import Schema
from ..plan.plan import Plan
from .options import errors, options_for
from .planner import EPSILONS, Advice

A_FEW = ("0.1", "0.2", "0.5", "1", "2", "4", "6")
"""Epsilons enough for a small picture."""


@dataclass(frozen=True)
class Curves:
    """Predicted errors of a few mechanisms against epsilon, and against people."""

    epsilons: tuple[float, ...]
    people: tuple[int, ...]
    by_epsilon: dict[str, dict[str, list[float]]]
    """Mechanism, then "frequency" and "mean", then one mean squared error for each epsilon."""
    by_people: dict[str, dict[str, list[float]]]
    ask: str
    first: str
    """What the first mechanism is: chosen, or where none answers that of least error."""
    scale: Scale = field(default_factory=Scale)
    """The scale of the means' errors."""


def curves(
    schema: Schema, advice: Advice, most: int = 5, epsilons: Sequence[str] | None = None
) -> Curves:
    """The best options' errors around the promise and the number of people that were asked about.

    Against epsilon every mechanism takes its best parameters anew. Means are on the schema's scale.
    """
    scale = Scale.of(schema)
    unit = {"frequency": 1.0, "mean": scale.half**2}
    names = [option.mechanism for option in advice.runners_up(most)]
    places = tuple(sorted({*map(float, epsilons or EPSILONS[:-2]), float(advice.epsilon)}))
    parts = ("frequency", "mean")
    asked = next(
        (str(o.plan.parameters["queries"]) for o in advice.options if "queries" in o.plan.parameters), ""
    )
    queries = Query.parse_all(asked)
    by_epsilon: dict[str, dict[str, list[float]]] = {
        name: {part: [] for part in parts} for name in names
    }
    for promised in (Decimal(str(epsilon)) for epsilon in places):
        made = Advice(
            options_for(schema, promised, advice.people, advice.ask, queries, advice.prior, names),
            promised,
            advice.people,
            advice.ask,
            advice.prior,
        )
        found = {option.mechanism: option for option in made.runners_up(99)}
        for name in names:
            for part in parts:
                value = getattr(found[name], part) if name in found else float("nan")
                by_epsilon[name][part].append(unit[part] * value)
    counts = (max(1, int(advice.people * 10**power)) for power in np.linspace(-2, 2, 9))
    people = tuple(sorted(set(counts)))
    by_people: dict[str, dict[str, list[float]]] = {name: {part: [] for part in parts} for name in names}
    for option in advice.runners_up(most):
        for count in people:
            made_errors = _pair_or_single(option.plan, count, advice)
            for part, value in zip(parts, made_errors, strict=True):
                by_people[option.mechanism][part].append(unit[part] * value)
    first = "chosen" if advice.answers else "least error"
    return Curves(places, people, by_epsilon, by_people, advice.ask, first, scale)


def _pair_or_single(plan: Plan, people: int, advice: Advice) -> tuple[float, float]:
    if advice.ask == "conditional":
        return forecast_pairs(plan, people, advice.prior).errors()
    made = errors(plan, people, advice.prior)
    return made[0] if made is not None else (float("nan"), float("nan"))
