"""Curves: the predicted errors of the best options against epsilon and against people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from ..estimate.forecast.pair_forecast import forecast_pairs
from ..estimate.forecast.predicted_error import Errors
from ..estimate.together.query import Query
from ..people.scale import Scale
from ..people.schema import Schema
from ..plan.plan import Plan
from .advice import Advice
from .key_scores import key_scores
from .options import options_for
from .planner import EPSILONS
from .side_part import SIDE

A_FEW = ("0.1", "0.2", "0.5", "1", "2", "4", "6")
"""Epsilons for a small picture."""


@dataclass(frozen=True)
class Curves:
    """Predicted errors of a few mechanisms against epsilon, and against people."""

    epsilons: tuple[float, ...]
    people: tuple[int, ...]
    by_epsilon: dict[str, dict[str, list[float]]]
    """By mechanism, then "frequency" or "mean": a mean squared error for each epsilon."""
    by_people: dict[str, dict[str, list[float]]]
    ask: str
    first: str
    """Why the first mechanism is first: it is "chosen", or none answers and it has the "least error"."""
    scale: Scale = field(default_factory=Scale)
    """The scale of the means' errors."""


def curves(
    schema: Schema, advice: Advice, most: int = 5, epsilons: Sequence[str] | None = None
) -> Curves:
    """The best options' errors around the epsilon and the number of people that were asked about.

    At every epsilon each mechanism takes its best parameters. Means are on the schema's scale. Errors
    are those before shrinkage, which a question for one held value hardly changes, so plans are drawn
    without it.
    """
    scale = Scale.of(schema)
    shown = advice.runners_up(most + 1)
    best = [option for option in shown if SIDE not in option.family.split("+")][:most]
    places = tuple(sorted({*map(float, epsilons or EPSILONS[:-2]), float(advice.epsilon)}))
    by_epsilon = {option.family: _Line(scale) for option in best}
    for epsilon in places:
        errors = _best_at(schema, Decimal(str(epsilon)), advice, list(by_epsilon))
        for name, line in by_epsilon.items():
            line.add(errors.get(name, UNKNOWN))
    counts = (max(1, int(advice.people * 10**power)) for power in np.linspace(-2, 2, 9))
    people = tuple(sorted(set(counts)))
    by_people = {option.family: _Line(scale) for option in best}
    for option in best:
        for count in people:
            by_people[option.family].add(_errors(option.plan, count, advice))
    first = "chosen" if advice.may_answer else "least error"
    against_epsilon, against_people = (
        {name: line.errors for name, line in lines.items()} for lines in (by_epsilon, by_people)
    )
    return Curves(places, people, against_epsilon, against_people, advice.ask, first, scale)


UNKNOWN = Errors(float("nan"), float("nan"))


class _Line:
    """One mechanism's errors along an axis, means on the schema's scale."""

    def __init__(self, scale: Scale) -> None:
        self.errors: dict[str, list[float]] = {"frequency": [], "mean": []}
        self.unit = Errors(1.0, scale.half**2)

    def add(self, errors: Errors) -> None:
        for part, values in self.errors.items():
            values.append(getattr(self.unit, part) * getattr(errors, part))


def _best_at(
    schema: Schema, epsilon: Decimal, advice: Advice, names: Sequence[str]
) -> dict[str, Errors]:
    """The errors of each mechanism's best option at another epsilon."""
    plans = (option.plan.parameters for option in advice.options)
    queries = next((stated["queries"] for stated in plans if "queries" in stated), "")
    asked = Query.parse_all(str(queries))
    options = options_for(schema, epsilon, advice.people, advice.ask, asked, advice.prior, names)
    best = Advice(options, epsilon, advice.people, advice.ask, advice.prior).runners_up(99)
    return {option.family: Errors(option.frequency, option.mean) for option in best}


def _errors(plan: Plan, people: int, advice: Advice) -> Errors:
    if advice.ask == "conditional":
        return forecast_pairs(plan, people, advice.prior).errors()
    scores = key_scores(plan, people, advice.prior)
    return UNKNOWN if scores is None else scores.raw
