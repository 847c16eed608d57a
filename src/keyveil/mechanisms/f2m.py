"""F2M: independently flipped bits for key and value; an absent key has a default value.

Sun et al. 2019, Sec. IV-A. Paper letters: v-bar = ``default``, epsilon_1 = ``split`` * epsilon for the
key, the rest for the value. A default at an end of the range uses all of epsilon. With the middle a
nominal 1 is truly 0.781, and ``tight`` uses the rest. ``published`` decodes the two bits separately, as
the paper does (with e^epsilon_2 where it prints e^epsilon). ``least_squares`` also uses their joint law.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channel import Channel, Table
from ..estimate.forecast.key_forecast import by_decoder
from ..estimate.forecast.predicted_error import WithPublished
from ..estimate.likelihood import likelihood
from ..estimate.linear import answers_of, key_answers, least_squares, single_moments
from ..foundation.arrays import Floats
from ..people.scale import Quantity
from ..people.schema import Schema
from ..people.views import Views
from .mechanism import Draft, Mechanism, Parameter, fitted, largest
from .privkv import keep_probability

if TYPE_CHECKING:
    from ..estimate.answer import Answers
    from ..estimate.forecast.predicted_error import Forecast
    from ..people.prior import Prior
    from ..plan.plan import Plan
    from ..plan.tally import Tally


def f2m_rows(key_epsilon: float, value_epsilon: float, default: float) -> Floats:
    """The law: rows absent, low, high; columns (key bit, value bit) = 00, 01, 10, 11."""
    keep_key, keep = keep_probability(key_epsilon), keep_probability(value_epsilon)
    high = (1 + (2 * keep - 1) * default) / 2
    rows = []
    for key, value in ((1 - keep_key, high), (keep_key, 1 - keep), (keep_key, keep)):
        rows.append([(1 - key) * (1 - value), (1 - key) * value, key * (1 - value), key * value])
    return np.array(rows)


_SHOWN = np.array([[1.0, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]])
"""A constant, the key bit and the value bit of each output."""


def by_two_bits(channel: Channel, weights: Floats) -> Floats:
    """The paper's decoder, which uses only the share of key bits and the share of value bits."""
    return np.asarray(_SHOWN @ np.linalg.solve(channel.expected() @ _SHOWN, weights))


def published(plan: Plan, tally: Tally, level: float) -> Answers:
    """m* = (m_all* - (1 - f*) v-bar) / f*, from the two bits separately."""
    keys = key_answers(plan, single_moments(plan, tally, by_two_bits), level)
    return answers_of(plan, keys, "published", level)


class F2M(Mechanism):
    """Three states, four outputs."""

    name = "f2m"
    paper_name = "F2M"
    source = "Sun et al. 2019, Sec. IV-A"
    speaks_of = "one key, drawn at random: absent, low or high"
    wasteful = True
    bits = "log2 d + 2"
    parameters = {
        "default": Parameter("1", "-1", "1", "the value an absent key is given (v-bar)", Quantity.VALUE),
        "split": Parameter("0.5", "0.01", "0.99", "the key's share of epsilon"),
    }
    estimators = {
        "least_squares": least_squares,
        "published": published,
        "likelihood": likelihood,
    }

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        default, split = float(chosen["default"]), float(chosen["split"])

        def build(nominal: float) -> Table:
            return Table.rounded(f2m_rows(split * nominal, (1 - split) * nominal, default))

        table = largest(build, epsilon) if tight else fitted(build, float(epsilon), epsilon)
        views = Views.singles(len(schema.keys))
        return Draft(schema.at(2), views, "views", (table,), epsilon)

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        forecast = super().forecast(plan, people, prior)
        published = by_decoder(plan, people, prior, by_two_bits)
        return WithPublished(prior, forecast.bias, forecast.covariance, published)
