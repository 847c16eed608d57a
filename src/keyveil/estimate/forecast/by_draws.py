"""Forecast by simulated draws, for estimators whose error has no closed form.

Shrinkage learns from all keys together, so its error has no closed form. The estimator itself runs on
a few fixed draws of frequency and mass, normal with the bias and covariance of a closed-form forecast
and independent between keys. The error of the raw answers on the same draws is a control variate: its
expectation is known, so it removes most of the noise of the draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.coins import Coins
from ..answer import KeyBands
from ..linear import Moments, key_bands
from ..ratio_bias import corrected_bands
from ..shrink.best import best_bands
from ..shrink.noise_line import Noise
from ..shrink.shrinkage import shrunk_bands
from ..side import ValueAnswer
from ..side_mean import SideMean
from .cap_forecast import cap_draws, unusual_keys
from .predicted_error import Errors, Forecast, Mixed, ValueForecast, held_keys

if TYPE_CHECKING:
    from ...plan.plan import Plan

DRAWN = 1 << 12
"""The target number of (draw, key) samples."""
FEWEST, MOST = 32, 128
"""The least and the largest number of draws."""
MOST_KEYS = 512
"""The most keys that are drawn. More keys are sampled evenly: their common law is well known by then."""
FEWEST_DRAWS = 6
"""The least number of draws for a part of a mixture."""
_LEVEL = 0.95
DRAWN_ESTIMATORS: dict[str, Callable[[KeyBands, Moments], KeyBands]] = {
    "best": lambda raw, moments: best_bands(raw, moments, None)[0],
    "shrunk": lambda raw, moments: shrunk_bands(raw, moments, None),
    "corrected": corrected_bands,
}
"""Estimators whose error has no closed form, and how each makes its answers from the raw ones."""


def forecast_by_draws(
    plan: Plan,
    forecast: Forecast,
    people: float,
    estimators: Sequence[str] = tuple(DRAWN_ESTIMATORS),
    share: float = 1.0,
) -> dict[str, Errors]:
    """The predicted errors of each estimator, averaged over keys; of means, over keys that are held.

    ``forecast`` is the plan's own for the same number of people; ``share`` is the part of the usual
    number of draws to make.
    """
    if not isinstance(forecast, Mixed):
        return _unmixed(plan, forecast, people, estimators, share)
    with_side = [(chance, replace(part, side=forecast.side)) for chance, part in forecast.parts]
    parts = [
        (chance, forecast_by_draws(plan, part, people, estimators, max(chance, 0.25) * share))
        for chance, part in with_side
    ]
    return {
        name: Errors(
            *(float(sum(chance * errors[name][place] for chance, errors in parts)) for place in (0, 1))
        )
        for name in estimators
    }


def _unmixed(
    plan: Plan, forecast: Forecast, people: float, estimators: Sequence[str], share: float
) -> dict[str, Errors]:
    """The same for a forecast that is no mixture."""
    rows = _rows(forecast)
    raw, moments = _raw_answers(plan, forecast, people, rows, share)
    frequency, mean = forecast.truth.frequency, forecast.truth.mean
    parts = (
        ("frequency", frequency[rows], 0.0, forecast.clipped_frequency[rows]),
        (
            "mean",
            np.where(held_keys(forecast.truth), mean, np.nan)[rows],
            -1.0,
            forecast.clipped_mean[rows],
        ),
    )
    errors = {}
    for estimator in estimators:
        answers = DRAWN_ESTIMATORS[estimator](raw, moments)
        errors[estimator] = Errors(*(_error(answers, raw, *part) for part in parts))
    return errors


def _raw_answers(
    plan: Plan, forecast: Forecast, people: float, rows: np.ndarray, share: float
) -> tuple[KeyBands, Moments]:
    """Least-squares answers on every draw ``(draws, keys)``, and the moments an estimator would see."""
    frequency, mean = forecast.truth.frequency, forecast.truth.mean
    center = np.stack([frequency, frequency * mean], axis=1)[rows] + forecast.bias[rows]
    covariance = forecast.covariance[rows]
    draws = max(round(share * min(max(DRAWN // len(rows), FEWEST), MOST)), FEWEST_DRAWS)
    errors = _draws(covariance, draws, _dummies(plan))
    keys = round(float(forecast.truth.count.sum()))
    common = (forecast.together - 1.0) / max(keys - 1, 1)
    values = center + (_in_common(errors, covariance, common) if common > 0 else errors)
    if forecast.caps is not None:
        caps = cap_draws(forecast.caps, draws, np.full(len(rows), keys / len(rows)))
        if not forecast.caps.known:
            values = values + center * unusual_keys(caps, center[:, 0], draws)[..., None]
    claimed = covariance if forecast.claimed is None else forecast.claimed[rows]
    moments = _moments(plan, values, center, claimed, people)
    if forecast.side is not None:
        moments = replace(moments, side=side_draws(forecast.side, draws))
    if forecast.caps is not None:
        moments = replace(moments, caps=caps)
    return key_bands(plan, moments, _LEVEL), moments


def _error(
    answers: KeyBands, raw: KeyBands, name: str, truth: Floats, low: float, raw_error: Floats
) -> float:
    """The mean squared error of one statistic over keys with a truth; NaN if it is not answered."""
    after, before = getattr(answers, name), getattr(raw, name)
    if after is None:
        return float("nan")
    held = np.isfinite(truth)
    squares = [_squares(band.value[:, held], truth[held], low) for band in (after, before)]
    return _controlled(squares[0], squares[1], float(raw_error[held].mean()))


def _rows(forecast: Forecast) -> np.ndarray:
    """The representative of every drawn key."""
    count = np.maximum(np.round(forecast.truth.count).astype(int), 1)
    rows = np.repeat(np.arange(len(count)), count)
    return rows[np.arange(MOST_KEYS) * len(rows) // MOST_KEYS] if len(rows) > MOST_KEYS else rows


def _normal_quantiles(draws: int) -> Floats:
    """Evenly spaced quantiles of the normal law, scaled to variance 1."""
    normal = NormalDist()
    quantiles = np.array([normal.inv_cdf((j + 0.5) / draws) for j in range(draws)])
    return np.asarray(quantiles / np.sqrt((quantiles**2).mean()))


def _draws(covariance: Floats, draws: int, dummies: int) -> Floats:
    """Normal errors ``(draws, keys, 2)``, the same on every call; NaN where there is no answer.

    Every key gets the same quantiles in a random order of its own, so no key is lucky. With ``dummies``
    the errors of all frequencies, those of this number of dummies included, sum to zero.
    """
    known = np.isfinite(covariance)
    values, turn = np.linalg.eigh(np.where(known, covariance, 0.0))
    root = turn * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    keys = len(covariance)
    shape = (draws, keys + dummies, 2)
    quantiles = np.broadcast_to(_normal_quantiles(draws)[:, None, None], shape)
    drawn = Coins.stated("draws of a forecast").generator().permuted(quantiles, axis=0)
    errors = np.einsum("kij,rkj->rki", root, drawn[:, :keys])
    if dummies:
        rest = drawn[:, keys:, 0].sum(axis=1) * np.sqrt(covariance[:, 0, 0].mean())
        size = keys + dummies
        errors[..., 0] -= ((errors[..., 0].sum(axis=1) + rest) / size)[:, None]
        errors[..., 0] *= np.sqrt(size / (size - 1.0))
    return np.where(np.diagonal(known, axis1=1, axis2=2), errors, np.nan)


def side_draws(side: ValueForecast, draws: int) -> SideMean:
    """The answers to the question for one held value, one for each draw."""
    values, turn = np.linalg.eigh(side.covariance)
    root = turn * np.sqrt(np.maximum(values, 0.0))
    quantiles = np.broadcast_to(_normal_quantiles(draws)[:, None], (draws, 2))
    drawn = Coins.stated("draws of side answers").generator().permuted(quantiles, axis=0)
    spread = np.broadcast_to(side.covariance, (draws, 2, 2))
    return SideMean.of(ValueAnswer(np.ones(draws, np.int64), side.values + drawn @ root.T, spread))


def _in_common(errors: Floats, covariance: Floats, share: float) -> Floats:
    """The errors with a share of the frequencies' variance that is common to all keys."""
    common = (
        Coins.stated("draws in common").generator().permuted(_normal_quantiles(len(errors)))[:, None]
    )
    noise = covariance[:, 0, 0]
    change = (np.sqrt(1.0 - share) - 1.0) * errors[..., 0] + np.sqrt(share * noise) * common
    slope = covariance[:, 0, 1] / np.maximum(noise, 1e-300)
    return errors + np.stack([change, slope * change], axis=-1)


def _moments(plan: Plan, values: Floats, center: Floats, covariance: Floats, people: float) -> Moments:
    """The moments an estimator would see, with the covariance at the drawn values, not at the truth."""
    share = _key_share(plan)
    reports = np.full((1, values.shape[1]), max(1, round(people * share)))
    known = np.asarray(np.isfinite(center).all(axis=-1))[None, :]
    spread = np.broadcast_to(covariance, (len(values), *covariance.shape)).copy()
    if known.any():
        noise = Noise.of(center[None], covariance[None], reports, known)
        f = np.clip(values[..., 0], 0.0, 1.0)
        s = np.clip(values[..., 1], -f, f)
        for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
            at = noise.entry(i, j, f.T[None], s.T[None])[0].T
            spread[..., i, j] = np.where(known, at, spread[..., i, j])
    return Moments(np.broadcast_to(reports, values.shape[:2]).astype(np.int64), values, spread)


def _dummies(plan: Plan) -> int:
    """Number of dummy keys whose errors sum to zero with those of the keys; none for several parts."""
    answering = [own for own in plan.part_plans if own.mechanism.answers]
    return answering[0].encoding.dummies(answering[0].cap) if len(answering) == 1 else 0


def _key_share(plan: Plan) -> float:
    """The share of reports that speak of a key, averaged over keys."""
    if plan.parts is None:
        return plan.encoding.key_share(plan.views, len(plan.schema.keys))
    return sum(part.share * _key_share(part.plan) for part in plan.parts if part.plan.mechanism.answers)


def _squares(values: Floats, truth: Floats, low: float) -> Floats:
    """The mean squared error of each draw; an unknown value counts as the middle of its range."""
    known = np.nan_to_num(values, nan=(low + 1) / 2, posinf=1.0, neginf=low)
    return np.asarray(((np.clip(known, low, 1.0) - truth) ** 2).mean(axis=1))


def _controlled(values: Floats, control: Floats, expectation: float) -> float:
    """The average of ``values``, with ``control`` of known expectation as a control variate."""
    deviation = control - control.mean()
    slope = float(deviation @ values / (deviation @ deviation)) if deviation.any() else 0.0
    average = float(values.mean()) - slope * (float(control.mean()) - expectation)
    return average if average > 0 else float(values.mean())
