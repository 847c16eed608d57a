"""Optimal: the channel on nine levels of value that is best for a stated design.

A convex program finds, of all channels whose outputs favour neighbouring levels (with or without "not
held", or all but these), the one with the least error in frequency and mean at the design; see
``valuechannels``. These contain KVUE, BiSample and ``graded`` with 2, 3, 5 or 9 levels, so that at its
design none of them is better. Estimates are unbiased whatever people's law is; what a wrong design
costs is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..channel.design.value_channels import LEVELS, channel_for
from ..estimate.likelihood import likelihood
from ..estimate.linear import least_squares
from ..people.schema import Schema
from ..people.views import Views
from .designed import DESIGN, design_of, designed_forecast, designed_moments
from .mechanism import Choice, Draft, Mechanism

if TYPE_CHECKING:
    from ..estimate.forecast.result import Forecast
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
        "solve": Choice("no", ("no", "yes"), "the nearest tabled design, or this one solved for"),
    }
    estimators = {"least_squares": least_squares, "likelihood": likelihood}

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        channel = channel_for(epsilon, design_of(chosen), chosen["solve"] == "yes")
        views = Views.singles(len(schema.keys))
        return Draft(schema.at(LEVELS[1]), views, "views", (channel,), epsilon)

    def moments(self, plan: Plan, counts: Integers) -> Moments:
        return designed_moments(plan, counts, design_of(plan.parameters))

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        return designed_forecast(plan, people, prior, design_of(plan.parameters))
