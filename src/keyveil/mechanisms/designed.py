"""What mechanisms have in common whose channel is made for a design: parameters, decoding, forecast.

Outputs are weighed so that the variance is least at the design's law, and unbiased at any other. Where
a report speaks of several keys, it tells of each whatever the others are: a key's answer is the average
over all reports that speak of it.
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
from ..estimate.caution import with_one_more
from ..estimate.forecast.result import Forecast
from ..estimate.linear import Moments, key_weights, single_keys, view_moments
from ..estimate.together.joint import lifted
from ..foundation.arrays import Floats, Integers
from ..people.prior import HELD
from ..people.schema import Schema
from ..people.views import Views
from .mechanism import Parameter

if TYPE_CHECKING:
    from ..people.prior import Prior
    from ..plan.plan import Plan

DESIGN = {
    "frequency": Parameter(str(HELD), "0.001", "0.999", "how often keys are expected to be held"),
    "spread": Parameter("0.5", "0.05", "0.95", "expected spread of a key's values on [-1, 1]"),
    "mean": Parameter("0", "-0.9", "0.9", "expected mean of keys' values on [-1, 1]"),
    "weight": Parameter("0.5", "0.05", "0.95", "how much the mean counts beside the frequency"),
}
"""What is believed of keys and wanted of them; estimates use it only to weigh outputs."""


MOST_VIEWS = 512
"""So many views are enough for every key to meet many others; where keys are more, each has one."""


def design_of(chosen: Mapping[str, Any], keys: int = 1, levels: int = LEVELS[1]) -> Design:
    """What a plan's parameters say its channel is made for."""
    held, spread, mean, weight = (Decimal(chosen[name]) for name in DESIGN)
    return Design(held, spread, mean, weight, keys, levels)


def cyclic_views(keys: int, size: int) -> Views:
    """Views in which every key stands equally often at every place; one view if it has all keys.

    Each key with those that follow it round the circle in equal strides, for as many strides as
    there is room for. Keys are often listed by how common they are: strides mix them.
    """
    if size == keys:
        return Views.whole(keys)
    apart = range(1, size + 1)
    strides = [s for s in range(1, (keys + 1) // 2) if all(j * s % keys for j in apart)] or [1]
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
    """Unbiased weights on outputs for frequency and mass of the key at each place of a view."""
    weights = key_weights(Schema.of(1).at(levels))
    weights = weights[:, ~np.isnan(weights).any(axis=0)]
    made = []
    for place in range(size):
        flat = lifted(weights, (place,), tuple(range(size)), levels)
        if design is None or channel.names_states:
            made.append(channel.decoder(flat))  # as many outputs as states: there is but one
        else:
            made.append(decoder_at(channel, flat, design.law))
    return np.array(made)


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
    even = channel.mix(np.full(channel.states, 1.0 / channel.states))
    for place in range(size):
        who = np.array([view[place] for view in plan.views.keys])
        square = cells[place][:, :, None] * cells[place][:, None, :]
        there = np.unique(who)
        order = np.argsort(who, kind="stable").reshape(len(there), -1)
        reports[..., there] += block.sum(axis=-1)[..., order].sum(axis=-1)
        sums[..., there, :] += (block @ cells[place])[..., order, :].sum(axis=-2)
        told = np.tensordot(block, square, axes=1)
        squares[..., there, :, :] += told[..., order, :, :].sum(axis=-3)
    made = Moments.unknown(shape, keys)
    made.reports[...] = reports.astype(np.int64)
    n = reports[..., None]
    with np.errstate(invalid="ignore", divide="ignore"):
        made.values[..., :width] = sums / n
        more = np.einsum("c,cij->ij", even, cells[0][:, :, None] * cells[0][:, None, :])
        middle = with_one_more(sums, even @ cells[0], n)
        spread = with_one_more(squares, more, n[..., None]) - middle[..., :, None] * middle[..., None, :]
        made.covariance[..., :width, :width] = spread / n[..., None]
    return replace(made, together=_together(block, cells))


def _together(seen: Floats, cells: Floats) -> Floats:
    """How many times as variable a report's sum of frequencies is, over all its keys, as they are each.

    ``seen`` (..., view, output) is how often outputs were seen, or their chances. People may hold all
    keys or none; then one report errs on all of its keys to the same side.
    """
    each = np.concatenate([cells[:, :, 0], cells[:, :, 0].sum(axis=0, keepdims=True)])
    n = np.maximum(seen.sum(axis=-1), 1e-300)[..., None]
    within = (seen @ (each**2).T - (seen @ each.T) ** 2 / n).sum(axis=-2)
    alone = within[..., :-1].sum(axis=-1)
    return np.clip(within[..., -1] / np.maximum(alone, 1e-300), 1.0, float(len(cells)))


def designed_forecast(plan: Plan, people: float, prior: Prior, design: Design | None) -> Forecast:
    """The error of ``designed_moments``; where views hold several keys, they lie as the prior says."""
    channel, levels = plan.channels[0], plan.schema.levels
    size = len(plan.views.keys[0])
    places = _cells(channel, levels, size, design)
    cells = places[0]
    kinds, width = len(prior.count), cells.shape[-1]
    seen = channel.mix(prior.view_laws(levels, plan.views.keys))
    middle = seen @ cells
    square = np.einsum("kc,ci,cj->kij", seen, cells, cells, optimize=True)
    reports = people * size / len(plan.schema.keys)
    bias, covariance = np.full((kinds, 2), np.nan), np.full((kinds, 2, 2), np.nan)
    bias[:, :width] = 0.0
    covariance[:, :width, :width] = (square - middle[:, :, None] * middle[:, None, :]) / reports
    together = float(_together(seen * prior.count[:, None], places)) if size > 1 else 1.0
    return Forecast(prior, bias, covariance, together=together)
