"""The laws and exact errors behind mechanisms: what the pages on mechanisms and estimators compute with.

Channels (``Symmetric``, ``Table``), predicted errors (``forecast``, ``forecast_key``), the least error
that any mechanism can reach (``limit``, ``error_of``), tallies of made-up people (``simulate``,
``simulate_runs``), and formulas of single mechanisms. Each name is loaded when it is first asked for.
"""

from typing import TYPE_CHECKING

from ..foundation.lazy_names import loaded_later

if TYPE_CHECKING:
    from ..channel import Symmetric, Table
    from ..channel.design.error_limit import error_of, key_law, limit
    from ..channel.design.pair_channels import tabled_pair
    from ..channel.design.value_channels import Design, channel_for
    from ..channel.design.view_channels import choose, conditional_variances, default_prior
    from ..channel.shapes.coco_channel import best_cells
    from ..channel.shapes.coco_channel import variances as coco_variances
    from ..estimate import bands, estimators_of
    from ..estimate.forecast import forecast
    from ..estimate.forecast.key_forecast import forecast_key
    from ..estimate.pools.pool_decoder import forecast_pool_key
    from ..estimate.side import side_information
    from ..mechanisms.collision import pool_for
    from ..mechanisms.f2m import by_two_bits
    from ..mechanisms.kvoh import by_bits, by_constrained_bits
    from ..mechanisms.signed_ue import best_pair
    from ..mechanisms.signed_ue import variances as signed_variances
    from ..people.prior_laws import value_law
    from .tallies import simulate, simulate_runs

_PLACES = {
    "Design": "channel.design.value_channels",
    "Symmetric": "channel",
    "Table": "channel",
    "bands": "estimate",
    "best_cells": "channel.shapes.coco_channel",
    "best_pair": "mechanisms.signed_ue",
    "by_bits": "mechanisms.kvoh",
    "by_constrained_bits": "mechanisms.kvoh",
    "by_two_bits": "mechanisms.f2m",
    "channel_for": "channel.design.value_channels",
    "choose": "channel.design.view_channels",
    "coco_variances": "channel.shapes.coco_channel:variances",
    "conditional_variances": "channel.design.view_channels",
    "default_prior": "channel.design.view_channels",
    "error_of": "channel.design.error_limit",
    "estimators_of": "estimate",
    "forecast": "estimate.forecast",
    "forecast_key": "estimate.forecast.key_forecast",
    "forecast_pool_key": "estimate.pools.pool_decoder",
    "key_law": "channel.design.error_limit",
    "limit": "channel.design.error_limit",
    "pool_for": "mechanisms.collision",
    "side_information": "estimate.side",
    "signed_variances": "mechanisms.signed_ue:variances",
    "simulate": "simulate.tallies",
    "simulate_runs": "simulate.tallies",
    "tabled_pair": "channel.design.pair_channels",
    "value_law": "people.prior",
}
"""The module of each name."""

__getattr__ = loaded_later(__name__, _PLACES, below="keyveil")

__all__ = [
    "Design",
    "Symmetric",
    "Table",
    "bands",
    "best_cells",
    "best_pair",
    "by_bits",
    "by_constrained_bits",
    "by_two_bits",
    "channel_for",
    "choose",
    "coco_variances",
    "conditional_variances",
    "default_prior",
    "error_of",
    "estimators_of",
    "forecast",
    "forecast_key",
    "forecast_pool_key",
    "key_law",
    "limit",
    "pool_for",
    "side_information",
    "signed_variances",
    "simulate",
    "simulate_runs",
    "tabled_pair",
    "value_law",
]
