"""The forecast of a plan of parts: those of its parts, combined by precision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ..cap_correction import caps_of
from ..combined_parts import answering, precision_weights
from ..decoding import decoding_of, state_decoding_of
from .predicted_error import CapForecast, Forecast, ValueForecast

if TYPE_CHECKING:
    from ...people.prior import Prior
    from ...plan.plan import Plan


def combined_forecast(plan: Plan, people: float, prior: Prior) -> Forecast:
    """The predicted error if every part gets its expected share of people.

    Bias and covariance are those of the same combination that reads a tally, up to its weights.
    """
    forecast, weights = _of_keys(plan, people, prior)
    side, caps = _of_side(plan, people, prior), _of_caps(plan, people, prior, weights)
    return replace(forecast, side=side, caps=caps)


def _of_caps(plan: Plan, people: float, prior: Prior, weights: Floats) -> CapForecast | None:
    """What the largest part that asks for the number of keys will tell; None if nothing is left out."""
    assert plan.parts is not None
    keys, caps = len(plan.schema.keys), caps_of(plan)
    answers = [
        (part.weight, answer)
        for part in plan.parts
        if (answer := state_decoding_of(part.plan).size_forecast(part.plan, people * part.share, prior))
    ]
    if not answers or not any(cap is not None and cap < keys for cap in caps):
        return None
    size = max(answers, key=lambda part: part[0])[1]
    return CapForecast(size, keys, tuple(caps), weights, prior.together is not None)


def _of_side(plan: Plan, people: float, prior: Prior) -> ValueForecast | None:
    """The answer of the largest part that asks for one held value; None if no part does."""
    assert plan.parts is not None
    answers = [
        (part.weight, answer)
        for part in plan.parts
        if (answer := state_decoding_of(part.plan).value_forecast(part.plan, people * part.share, prior))
    ]
    return max(answers, key=lambda part: part[0])[1] if answers else None


def _of_keys(plan: Plan, people: float, prior: Prior) -> tuple[Forecast, Floats]:
    """The forecast of single keys, and the share of each answering part in the frequencies."""
    assert plan.parts is not None
    forecasts = [
        decoding_of(part.plan).forecast(part.plan, people * part.share, prior)
        for part, answers in zip(plan.parts, answering(plan), strict=True)
        if answers
    ]
    if not forecasts:
        raise PlanError("no part of this plan answers single keys, so there is no error to forecast")
    if len(forecasts) == 1:
        return forecasts[0], np.ones(1)
    weights = precision_weights(
        [forecast.bias for forecast in forecasts],
        [_average(forecast.covariance, prior.weight) for forecast in forecasts],
    )
    parts = list(zip(weights, forecasts, strict=True))
    spreads = [w @ np.nan_to_num(f.covariance) @ np.swapaxes(w, -1, -2) for w, f in parts]
    claims = [
        w @ np.nan_to_num(f.covariance if f.claimed is None else f.claimed) @ np.swapaxes(w, -1, -2)
        for w, f in parts
    ]
    fixed = [_turned(w, np.zeros_like(f.bias) if f.fixed is None else f.fixed) for w, f in parts]
    known = ~np.all([np.isnan(forecast.bias) for forecast in forecasts], axis=0)
    both = known[..., :, None] & known[..., None, :]
    noise = [float(prior.weight @ spread[:, 0, 0]) for spread in spreads]
    ratios = sum(f.together * part for (_, f), part in zip(parts, noise, strict=True))
    combined = Forecast(
        prior,
        np.where(known, sum(_turned(w, f.bias) for w, f in parts), np.nan),
        np.where(both, sum(spreads), np.nan),
        together=float(ratios / sum(noise)) if sum(noise) else 1.0,
        claimed=_stated(both, claims) if any(f.claimed is not None for f in forecasts) else None,
        fixed=np.asarray(sum(fixed)) if any(f.fixed is not None for f in forecasts) else None,
    )
    return combined, np.array([float(prior.weight @ weight[:, 0, 0]) for weight in weights])


def _average(covariance: Floats, weight: Floats) -> Floats:
    """The average covariance over keys, for every row."""
    known = np.isfinite(covariance)
    total = np.einsum("k,kij->ij", weight, np.where(known, covariance, 0.0))
    share = np.einsum("k,kij->ij", weight, known.astype(np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.broadcast_to(total / share, covariance.shape)


def _turned(weight: Floats, values: Floats) -> Floats:
    return np.einsum("kij,kj->ki", weight, np.nan_to_num(values))


def _stated(known: Floats, claims: list[Floats]) -> Floats:
    return np.where(known, sum(claims), np.nan)
