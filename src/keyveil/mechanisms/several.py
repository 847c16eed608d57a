"""Several keys in one report: each person reports a few keys at once, with all of epsilon.

A report on w keys is noisier than a report on one key, but there are w times as many reports for each
key. This is better for frequencies from epsilon 2 on, and for frequency and mean together from 2.5 on
(two keys at four levels). ``several`` asks for values, ``several_rr`` only for presence.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..channel import Channel, Symmetric
from ..channel.design.value_channels import Design, channel_for, is_tabled
from ..foundation.errors import PlanError
from ..people.schema import Schema
from .designed import DESIGN, cyclic_views, design_of, designed_forecast, designed_moments
from .mechanism import Choice, Draft, Mechanism, NamedEstimators, Parameter

if TYPE_CHECKING:
    from ..estimate.forecast.predicted_error import Forecast
    from ..estimate.linear import Moments
    from ..foundation.arrays import Integers
    from ..people.prior import Prior
    from ..plan.plan import Plan

MOST_STATES = 4096
"""Largest number of states of a view; larger views would need too many people."""

_CHANNEL = Choice(
    "best", ("best", "optimal", "grr", "solved"), "best is optimal if tabled (solved needs CVXPY)"
)


class Several(Mechanism):
    """A view of a few keys in equal strides, through the optimal channel or k-RR."""

    name = "several"
    source = "k-RR or a convex program over a few keys, ours"
    speaks_of = "a few keys together, drawn at random: not held, or the value's level"
    bits = "log2 d + the channel's"
    parameters = {
        "keys": Parameter(2, 2, 6, "number of keys of a report"),
        "levels": Parameter(4, 2, 9, "number of levels that values are rounded to"),
        "channel": _CHANNEL,
        **DESIGN,
    }
    estimators = NamedEstimators("least_squares")
    fewest_keys = 2

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        design = self.design(chosen)
        if design.keys > len(schema.keys):
            raise PlanError(f"a report cannot speak of {design.keys} keys where there are fewer")
        if design.states > MOST_STATES:
            raise PlanError(
                f"{design.keys} keys at {design.levels} levels have {design.states} states; take fewer"
            )
        views = cyclic_views(len(schema.keys), design.keys)
        channel = self._channel(epsilon, design, chosen["channel"])
        return Draft(schema.at(design.levels), views, "views", (channel,), epsilon)

    def _channel(self, epsilon: Decimal, design: Design, name: str) -> Channel:
        if name == "grr" or (name == "best" and not is_tabled(design)):
            return Symmetric.of(design.states, epsilon)
        return channel_for(epsilon, design, name == "solved")

    def design(self, chosen: Mapping[str, Any]) -> Design:
        """The design of the channel, from the parameters of a plan."""
        return design_of(chosen, chosen["keys"], chosen["levels"])

    def plan_fault(self, plan: Plan) -> str:
        design = self.design(plan.parameters)
        fits = plan.schema.levels == design.levels and set(plan.views.sizes) == {design.keys}
        wrong = f"the plan's views do not have the keys and levels that {self.name} states"
        return "" if fits else wrong

    def moments(self, plan: Plan, counts: Integers) -> Moments:
        return designed_moments(plan, counts, self.design(plan.parameters))

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        return designed_forecast(plan, people, prior, self.design(plan.parameters))


class SeveralRR(Several):
    """A view of a few keys, held or not."""

    name = "several_rr"
    speaks_of = "a few keys together, drawn at random: held or not"
    answers = ("frequency",)
    note = "frequency only: values are not asked"
    parameters = {
        "keys": Parameter(2, 2, 12, "number of keys of a report"),
        "channel": _CHANNEL,
        "frequency": DESIGN["frequency"],
    }

    def design(self, chosen: Mapping[str, Any]) -> Design:
        frequency = Decimal(chosen["frequency"])
        return Design(frequency, weight=Decimal(0), keys=chosen["keys"], levels=1)
