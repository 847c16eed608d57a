"""Optimal: the channel on nine levels of value that is best for a stated design.

Outputs favour neighbouring levels (with or without "not held", or all but these). A convex program finds
the channel of this kind with the smallest error of frequency and mean at the design; see
``value_channels``. KVUE, BiSample and ``graded`` with 2, 3, 5 or 9 levels are of this kind, so none of
them is better at the design. Estimates are unbiased for any law of people. A wrong design costs little.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..channel.design.value_channels import LEVELS, channel_for
from ..people.schema import Schema
from ..people.views import Views
from .designed import DESIGN, design_of, designed_forecast, designed_moments
from .mechanism import Choice, Draft, Mechanism, NamedEstimators

if TYPE_CHECKING:
    from ..estimate.forecast.predicted_error import Forecast
    from ..estimate.linear import Moments
    from ..foundation.arrays import Integers
    from ..people.prior import Prior
    from ..plan.plan import Plan


class Optimal(Mechanism):
    """Outputs: patterns of states in the order of their numbers, then a blank."""

    name = "optimal"
    source = "a convex program over staircase channels, ours"
    speaks_of = "one key, drawn at random: not held, or its value's level out of nine"
    bits = "log2 d + about 4.2"
    parameters = {
        **DESIGN,
        "solve": Choice("no", ("no", "yes"), "no: the nearest tabled design; yes: solve this one"),
    }
    estimators = NamedEstimators("least_squares", "likelihood")

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        channel = channel_for(epsilon, design_of(chosen), chosen["solve"] == "yes")
        views = Views.singles(len(schema.keys))
        return Draft(schema.at(LEVELS[1]), views, "views", (channel,), epsilon)

    def moments(self, plan: Plan, counts: Integers) -> Moments:
        return designed_moments(plan, counts, design_of(plan.parameters))

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        return designed_forecast(plan, people, prior, design_of(plan.parameters))
