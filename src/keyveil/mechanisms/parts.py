"""Parts: several mechanisms in one plan; each person answers one of them, drawn with public shares.

keyveil. A report of a part is a report of that part's mechanism with all of epsilon, and which part a
person answers does not depend on the record. So the whole costs the largest epsilon of its parts. Two
uses: mechanisms mixed where each is best, and *side questions*, which a small share of people answer
(how many keys they hold, the sign of one held value) and which help to read what the others say.

The parameter ``parts`` lists the mechanisms, joined by ``/``. Each has its parameters after a colon and
its share of people after an at sign: ``collision:cap=4+pool=64/sign@0.1/size@0.05``. One mechanism may
be without a share and gets what the others leave.

Frequencies and masses are combined by precision: every part's unbiased estimate has the weight of its
reports and of the average covariance of one report. These weights hardly depend on the noise of a single
key, so the combination is as unbiased as the parts are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..estimate.combined_parts import answering, combined_moments, part_evidence
from ..estimate.forecast.combined_forecast import combined_forecast
from ..foundation.arrays import Integers
from ..foundation.errors import PlanError
from ..people.scale import DOCUMENT, ExactScale
from ..people.schema import Schema
from ..people.views import Views
from ..plan.plan import Plan
from ..plan.plan_parts import MOST_PARTS, PlanPart, flattened_channels, share_text, weights_of
from ..plan.recipe import Text, written
from ..plan.registry import mechanism_named, parse_mechanism
from .mechanism import Draft, Mechanism, NamedEstimators

if TYPE_CHECKING:
    from ..estimate.forecast.predicted_error import Forecast
    from ..estimate.linear import Moments
    from ..estimate.together.joint import Evidence
    from ..people.prior import Prior
    from ..plan.tally import Tally


MOST_LETTERS = 1 << 16
"""Maximum number of characters of a list of parts."""
LONG = 250
"""Number of characters of a fault that is not repeated, because it repeats the list."""


@dataclass(frozen=True)
class PartsText(Text):
    """Mechanisms with their parameters and shares, in one form."""

    def read(self, name: str, value: object, scale: ExactScale = DOCUMENT) -> str:
        """The text with parameters at their default left out and every share but the first stated.

        Values and spreads among the parameters are given on ``scale``.
        """
        return parts_text(parse_parts(super().read(name, value)), given_on=scale)

    def shown(self, value: int | str, scale: ExactScale) -> int | str:
        """The text with values and spreads as people type and read them."""
        return parts_text(parse_parts(str(value)), shown_on=scale)


class Parts(Mechanism):
    """Several mechanisms, of which each person answers one."""

    name = "parts"
    source = "keyveil"
    speaks_of = "what the mechanism of the drawn part speaks of"
    bits = "log2 of the reports of all parts"
    makes_parts = True
    parameters = {
        "parts": PartsText("kvue/sign@0.1", "mechanisms joined by '/', each with '@' and its share")
    }
    estimators = NamedEstimators("least_squares")

    def __init__(self, plan: Plan | None = None) -> None:
        """The mechanism; for one plan, with the answers and notes of its parts."""
        if plan is None:
            return
        kinds = [own.mechanism for own in plan.part_plans]
        known = {answer for kind in kinds for answer in kind.answers}
        if {"frequency", "mass"} <= known or "mean" in known:
            known |= {"mean"}
            known -= {"mass"}
        self.answers = tuple(name for name in ("frequency", "mean", "mass") if name in known)
        notes = dict.fromkeys(kind.note for kind in kinds if kind.note and kind.answers)
        self.note = "; ".join(notes)

    def of_plan(self, plan: Plan) -> Parts:
        return type(self)(plan)

    # -- plans -------------------------------------------------------------------------------------

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        calibrate = "tight" if tight else "paper"
        parts = tuple(
            PlanPart(weight, Plan.of_document(schema, mechanism, epsilon, calibrate, parameters))
            for mechanism, parameters, weight in parse_parts(chosen["parts"])
        )
        channels, channel_of = flattened_channels(parts)
        views = Views.whole(len(schema.keys))
        return Draft(schema, views, "parts", channels, epsilon, channel_of, parts=parts)

    def parameters_of(self, parts: Sequence[PlanPart]) -> dict[str, int | str]:
        listed = [(part.plan.mechanism_name, dict(part.plan.parameters), part.weight) for part in parts]
        return {"parts": parts_text(listed)}

    def parameter_fault(self, given: Mapping[str, Any]) -> str:
        fault = super().parameter_fault(given)
        return fault if len(fault) <= LONG else "the plan's list of parts names no known mechanisms"

    def plan_fault(self, plan: Plan) -> str:
        if plan.parts is None or self.parameters_of(plan.parts) != dict(plan.parameters):
            return "the plan's list of mechanisms is not that of its parts"
        return ""

    # -- tallies -----------------------------------------------------------------------------------

    def has_moments(self, plan: Plan) -> bool:
        return any(answering(plan))

    def moments(self, plan: Plan, counts: Integers) -> Moments:
        return combined_moments(plan, counts)

    def evidence(self, plan: Plan, tally: Tally) -> Evidence | None:
        return part_evidence(plan, tally)

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        return combined_forecast(plan, people, prior)


def parse_parts(listed: str) -> list[tuple[str, dict[str, str], int]]:
    """The mechanism, parameters and weight of each part of a list like ``collision:cap=4/sign@0.1``."""
    words = listed.split("/", MOST_PARTS)
    if not 2 <= len(words) <= MOST_PARTS or len(listed) > MOST_LETTERS:
        raise PlanError(f"a list of parts has 2 to {MOST_PARTS} of them, joined by '/'")
    parts, shares = [], list[str | None]()
    for part in words:
        name, at, share = part.strip().partition("@")
        mechanism, parameters = parse_mechanism(name.strip())
        if mechanism_named(mechanism).makes_parts:
            raise PlanError("a part has no parts of its own")
        parts.append((mechanism, parameters))
        shares.append(share.strip() if at else None)
    weights = weights_of(shares)
    return [(name, given, weight) for (name, given), weight in zip(parts, weights, strict=True)]


def parts_text(
    parts: Sequence[tuple[str, Mapping[str, Any], int]],
    *,
    given_on: ExactScale = DOCUMENT,
    shown_on: ExactScale = DOCUMENT,
) -> str:
    """The list of mechanisms, parameters and weights, in its one form; see ``parse_parts``.

    Values and spreads among the parameters are given on one scale and written on another.
    """
    words = []
    for number, (name, given, weight) in enumerate(parts):
        mechanism = mechanism_named(name)
        document = written(mechanism.chosen(given, given_on))
        stated = [
            f"{parameter}={value}"
            for parameter, value in mechanism.shown(document, shown_on).items()
            if str(document[parameter]) != str(mechanism.parameters[parameter].default)
        ]
        if any(sign in value for value in stated for sign in "/+@"):
            raise PlanError("a parameter of a part has none of '/', '+' and '@' in it")
        word = f"{name}:{'+'.join(stated)}" if stated else name
        words.append(f"{word}@{share_text(weight)}" if number else word)
    return "/".join(words)
