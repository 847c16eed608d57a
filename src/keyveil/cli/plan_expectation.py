"""What to expect of a plan: the errors that a number of people's answers to it will have."""

from __future__ import annotations

from math import isfinite, sqrt
from typing import Any, NamedTuple

from ..estimate.forecast.key_forecast import forecast
from ..foundation.errors import KeyveilError
from ..people.prior import Prior
from ..people.scale import Scale
from ..plan.plan import Plan
from ..planner.first_round import pilot_people
from ..planner.outlook import outlook
from .output import counted


class Expectation(NamedTuple):
    """The errors that a number of people's answers to a plan will have."""

    words: str
    answers: bool
    facts: dict[str, Any]
    """As JSON."""


def expect(plan: Plan, people: int, prior: Prior) -> Expectation:
    """The errors to expect of conditionals where the plan answers them, else of single keys."""
    try:
        conditional = outlook(plan, people, prior)
    except KeyveilError:
        conditional = None  # its views contain several keys, but not to be asked together
    if conditional is not None:
        return Expectation(str(conditional), conditional.answers, {"outlook": conditional.document()})
    try:
        facts = _of_keys(plan, people, prior)
    except KeyveilError as error:
        return Expectation(f"the errors cannot be predicted: {error}", True, {"expected": None})
    return Expectation(_in_words(facts, Scale.of(plan.schema)), True, {"expected": facts})


def _of_keys(plan: Plan, people: int, prior: Prior) -> dict[str, Any]:
    """The predicted errors of a plan about single keys, before any shrinkage.

    The mean's error is on the scale of the plan's values, the mass's on [-1, 1].
    """
    scale = Scale.of(plan.schema)
    predicted = forecast(plan, people, prior)
    answers, errors = plan.mechanism.answers, predicted.errors()
    squares = {
        "frequency": errors.frequency,
        "mean": scale.half**2 * errors.mean,
        "mass": float(prior.weight @ predicted.mass),
    }
    return {
        "people": people,
        "prior": prior.source,
        "mean_scale": scale.document(),
        "chain": plan.chain is not None,
        "pilot_people": pilot_people(plan, people) if plan.speaks_of_size else None,
        **{
            f"{name}_error": sqrt(square) if name in answers and isfinite(square) else None
            for name, square in squares.items()
        },
    }


def _in_words(facts: dict[str, Any], scale: Scale) -> str:
    """The predicted errors in one line."""
    parts = [
        f"{name} by about {facts[f'{name}_error']:.3g}{of}"
        for name, of in (("frequency", ""), ("mean", f" {scale}"), ("mass", " on [-1, 1]"))
        if facts[f"{name}_error"] is not None
    ]
    who = counted(facts["people"], "person", "people")
    when = " after this round" if facts["chain"] else ""
    words = f"with {who}{when} a key's answers will be off: {' and '.join(parts)}"
    words += f" (expecting {facts['prior']})" + (f"; {scale.note}" if scale.note else "")
    if facts["pilot_people"] is not None:
        words += f"; for a pilot (plan --mechanism auto --pilot) ask {facts['pilot_people']:,} of them"
    return words
