"""The base of mechanisms whose channel is optimised for a design: parameters, decoding, forecast.

The weights of outputs minimise the variance at the law of the design, and are unbiased at any law. A
report about several keys is evidence about each of them, whatever the others are. So the answer of a key
is the average over all reports about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channel import Channel
from ..channel.design.patterns import decoder_at
from ..channel.design.value_channels import LEVELS, Design
from ..estimate.caution import added_reports, even_key_law, with_more
from ..estimate.forecast.few_reports import effective_reports
from ..estimate.forecast.predicted_error import Forecast
from ..estimate.linear import Moments, key_weights, single_keys, view_moments
from ..estimate.together.joint import lifted
from ..foundation.arrays import Floats, Integers
from ..people.prior_laws import HELD, product_law
from ..people.scale import Quantity
from ..people.schema import Schema
from ..people.views import Views
from .mechanism import Parameter

if TYPE_CHECKING:
    from ..people.prior import Prior
    from ..plan.plan import Plan

DESIGN = {
    "frequency": Parameter(str(HELD), "0.001", "0.999", "expected frequency of keys"),
    "spread": Parameter("0.5", "0.05", "0.95", "expected spread of a key's values", Quantity.SPREAD),
    "mean": Parameter("0", "-0.9", "0.9", "expected mean of keys", Quantity.VALUE),
    "weight": Parameter("0.5", "0.05", "0.95", "weight of the mean; the rest is that of the frequency"),
}
"""Parameters of a design: expected law of keys, and weight of the mean. Estimates use the design only to
weight outputs."""


MOST_VIEWS = 512
"""Largest number of views, unless there are more keys; then there is one view per key. It is enough for
every key to share views with many others."""


def design_of(chosen: Mapping[str, Any], keys: int = 1, levels: int = LEVELS[1]) -> Design:
    """The design of a channel, from the parameters of a plan."""
    frequency, spread, mean, weight = (Decimal(chosen[name]) for name in DESIGN)
    return Design(frequency, spread, mean, weight, keys, levels)


def cyclic_views(keys: int, size: int) -> Views:
    """Views in which every key is equally often at every place; one view if it holds all keys.

    A view is a key with those that follow it around the circle in equal strides, for as many strides as
    fit. Keys are often listed by frequency, and strides mix them.
    """
    if size == keys:
        return Views.whole(keys)
    steps = range(1, size + 1)
    strides = [s for s in range(1, (keys + 1) // 2) if all(j * s % keys for j in steps)] or [1]
    count = min(len(strides), max(1, MOST_VIEWS // keys))
    chosen = [strides[(2 * i + 1) * len(strides) // (2 * count)] for i in range(count)]
    return Views(
        tuple(
            tuple((first + i * stride) % keys for i in range(size))
            for stride in chosen
            for first in range(keys)
        )
    )


@lru_cache(maxsize=256)
def _cells(channel: Channel, levels: int, size: int, design: Design | None) -> Floats:
    """Unbiased weights on outputs, ``(places, outputs, 2)``, for frequency and mass at each place."""
    weights = key_weights(Schema.of(1).at(levels))
    weights = weights[:, ~np.isnan(weights).any(axis=0)]
    decoders = []
    for place in range(size):
        flat = lifted(weights, (place,), tuple(range(size)), levels)
        if design is None or channel.names_states:
            decoders.append(channel.decoder(flat))  # as many outputs as states: only one is unbiased
        else:
            decoders.append(decoder_at(channel, flat, design.law))
    return np.array(decoders)


def designed_moments(plan: Plan, counts: Integers, design: Design | None) -> Moments:
    """Frequency and mass of every key from counts ``(..., cells)``."""
    channel, levels = plan.channels[0], plan.schema.levels
    size = len(plan.views.keys[0])
    cells = _cells(channel, levels, size, design)
    if single_keys(plan):
        return view_moments(plan, counts, lambda _, __: cells[0])
    keys, width = len(plan.schema.keys), cells.shape[-1]
    at = plan.layout.own[:, None] + 1 + np.arange(channel.cells)
    block = np.asarray(counts)[..., at].astype(np.float64)
    shape = block.shape[:-2]
    reports = np.zeros((*shape, keys))
    sums = np.zeros((*shape, keys, width))
    squares = np.zeros((*shape, keys, width, width))
    even, added = channel.mix(product_law(even_key_law(levels + 1), size)), added_reports(levels + 1)
    for place in range(size):
        who = np.array([view[place] for view in plan.views.keys])
        square = cells[place][:, :, None] * cells[place][:, None, :]
        keys_at_place = np.unique(who)
        order = np.argsort(who, kind="stable").reshape(len(keys_at_place), -1)
        reports[..., keys_at_place] += block.sum(axis=-1)[..., order].sum(axis=-1)
        sums[..., keys_at_place, :] += (block @ cells[place])[..., order, :].sum(axis=-2)
        products = np.tensordot(block, square, axes=1)
        squares[..., keys_at_place, :, :] += products[..., order, :, :].sum(axis=-3)
    moments = Moments.unknown(shape, keys)
    moments.reports[...] = reports.astype(np.int64)
    n = reports[..., None]
    with np.errstate(invalid="ignore", divide="ignore"):
        moments.values[..., :width] = sums / n
        more = np.einsum("c,cij->ij", even, cells[0][:, :, None] * cells[0][:, None, :])
        middle = with_more(sums, even @ cells[0], n, added)
        spread = with_more(squares, more, n[..., None], added)
        spread -= middle[..., :, None] * middle[..., None, :]
        moments.covariance[..., :width, :width] = spread / n[..., None]
    return replace(moments, together=_together(block, cells))


def _together(seen: Floats, cells: Floats) -> Floats:
    """Ratio of the variance of a report's sum of frequencies to its value under independent keys.

    ``seen`` (..., view, output) holds counts of outputs, or their probabilities. If people hold all keys
    or none, the errors of a report about its keys have the same sign.
    """
    columns = np.concatenate([cells[:, :, 0], cells[:, :, 0].sum(axis=0, keepdims=True)])
    n = np.maximum(seen.sum(axis=-1), 1e-300)[..., None]
    within = (seen @ (columns**2).T - (seen @ columns.T) ** 2 / n).sum(axis=-2)
    alone = within[..., :-1].sum(axis=-1)
    return np.clip(within[..., -1] / np.maximum(alone, 1e-300), 1.0, float(len(cells)))


def designed_forecast(plan: Plan, people: float, prior: Prior, design: Design | None) -> Forecast:
    """The error of ``designed_moments``; the prior gives the joint law of the keys of a view."""
    channel, levels = plan.channels[0], plan.schema.levels
    size = len(plan.views.keys[0])
    places = _cells(channel, levels, size, design)
    cells = places[0]
    kinds, width = len(prior.count), cells.shape[-1]
    seen = channel.mix(prior.view_laws(levels, plan.views.keys))
    middle = seen @ cells
    square = np.einsum("kc,ci,cj->kij", seen, cells, cells, optimize=True)
    reports = effective_reports(people, size / len(plan.schema.keys))
    bias, covariance = np.full((kinds, 2), np.nan), np.full((kinds, 2, 2), np.nan)
    bias[:, :width] = 0.0
    covariance[:, :width, :width] = (square - middle[:, :, None] * middle[:, None, :]) / reports
    together = float(_together(seen * prior.count[:, None], places)) if size > 1 else 1.0
    return Forecast(prior, bias, covariance, together=together)
