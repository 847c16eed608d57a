"""Forecast of answers that are corrected for the keys that caps leave out; see ``cap_correction``."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.coins import Coins
from ..answer import quantile
from ..cap_correction import CapCorrection, CountedShare, unknown_shift
from ..side import SizeAnswer
from ..size_law import SizeLaw
from .normal_law import below
from .predicted_error import CapForecast, Forecast

USUAL = 0.1
"""The expected standard deviation of a key's share that counts around the centre, in units of that over
its holders. Intervals use ``cap_correction.SPREAD``, which is larger, for keys that are unusual."""
MOST_HELD = 10
"""The number of most held keys whose coverage is predicted, if no table tells what others are like."""


class CorrectedForecast(NamedTuple):
    """The forecast of corrected answers before shrinkage."""

    noise: Forecast
    """Bias and covariance from the noise of reports about keys."""
    unknown: Floats
    """The variance of each frequency from what is not known about the number of keys, ``(rows,)``."""
    claimed: Floats
    """The variance of each frequency that intervals are made for, ``(rows,)``."""
    shift: Floats
    """The standard deviation of each mean around that of the values that count, ``(rows,)``."""

    @property
    def whole(self) -> Forecast:
        """The forecast with all that is not known. It does not change the mean of a key."""
        truth = self.noise.truth
        unit = np.stack([np.ones_like(truth.mean), truth.mean], axis=-1)
        more = self.unknown[:, None, None] * unit[:, :, None] * unit[:, None, :]
        return replace(self.noise, covariance=self.noise.covariance + np.nan_to_num(more))


def corrected_forecast(forecast: Forecast) -> CorrectedForecast:
    """The forecast of a plan after correction; as it is if the plan does not ask for sizes."""
    claimed = forecast.covariance if forecast.claimed is None else forecast.claimed
    if forecast.caps is None:
        nothing = np.zeros(len(forecast.bias))
        return CorrectedForecast(forecast, nothing, claimed[:, 0, 0], nothing)
    truth = forecast.truth
    expected = np.stack([truth.frequency, truth.frequency * truth.mean], axis=-1)
    kept = expected + forecast.bias
    share = _expected_share(_ShareQuestion(forecast.caps, kept[:, 0], truth.count))
    scale = 1.0 / share.value[:, None]
    noise = replace(
        forecast,
        bias=scale * kept - expected,
        covariance=scale[..., None] ** 2 * forecast.covariance,
        claimed=None,
        fixed=None,
        caps=None,
    )
    square = (scale[:, 0] * kept[:, 0]) ** 2
    usual = 0.0 if forecast.caps.known else (USUAL * share.holders * scale[:, 0]) ** 2
    return CorrectedForecast(
        noise,
        square * (usual + share.log_stderr**2),
        scale[:, 0] ** 2 * claimed[:, 0, 0] + square * share.variance,
        unknown_shift(truth.mean, share),
    )


def least_coverage(
    forecast: Forecast, corrected: CorrectedForecast | None = None, level: float = 0.95
) -> float:
    """The predicted coverage of the answer that is covered least.

    Answers are the frequencies of the most held keys. If answers are corrected for a cap and a table
    tells what each key's holders are like, they are the frequencies and means of all keys. Errors are
    normal around the bias that a cap leaves. Intervals are as wide as they claim. ``corrected`` is
    ``corrected_forecast`` of the same, if it is known already.
    """
    if np.isnan(forecast.bias[:, 0]).all():
        return level
    corrected = corrected or corrected_forecast(forecast)
    bias = forecast.left_out[:, 0] if forecast.caps is None else corrected.noise.bias[:, 0]
    stderr = np.sqrt(np.maximum(corrected.whole.covariance[:, 0, 0], 1e-300))
    covered = _covered(bias, stderr, corrected.claimed, level)
    if forecast.caps is not None and forecast.caps.known:
        return float(np.nanmin([covered, _means_covered(corrected, level)]))
    order = np.argsort(-forecast.truth.frequency, kind="stable")
    before = np.cumsum(forecast.truth.count[order]) - forecast.truth.count[order]
    return float(np.nanmin(covered[order[before < MOST_HELD]]))


def _means_covered(corrected: CorrectedForecast, level: float) -> Floats:
    """The predicted coverage of the mean of each row; NaN if no one holds it."""
    truth, noise = corrected.noise.truth, corrected.noise
    frequency = truth.frequency + noise.bias[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (truth.frequency * truth.mean + noise.bias[:, 1]) / frequency
        turn = np.stack([-mean, np.ones_like(mean)], axis=-1) / frequency[:, None]
        variance = np.einsum("ri,rij,rj->r", turn, noise.covariance, turn)
        held = truth.frequency > 0
        bias, variance = np.where(held, mean - truth.mean, np.nan), np.maximum(variance, 1e-300)
    return _covered(bias, np.sqrt(variance), variance + corrected.shift**2, level)


def _covered(bias: Floats, stderr: Floats, claimed: Floats, level: float) -> Floats:
    """How often an interval for errors of variance ``claimed`` covers, if errors are these."""
    reach = quantile(level) * np.sqrt(np.maximum(claimed, 1e-300))
    return np.asarray(below((reach - bias) / stderr) - below((-reach - bias) / stderr))


class _ShareQuestion:
    """All numbers that the share that counts depends on; equal questions have equal numbers.

    Mechanisms with the same cap have the same share: it depends on people and not on the noise.
    """

    def __init__(self, caps: CapForecast, kept: Floats, count: Floats) -> None:
        self.caps, self.kept, self.count = caps, kept, np.asarray(count)
        size = caps.size
        arrays = (
            size.shares,
            size.covariance,
            size.one_report,
            np.asarray(caps.weights),
            kept,
            self.count,
        )
        content = tuple((array.shape, array.tobytes()) for array in arrays)
        self._content = size.reports, caps.keys, caps.caps, content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ShareQuestion) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)


@lru_cache(maxsize=128)
def _expected_share(question: _ShareQuestion) -> CountedShare:
    """The share that counts if the answers to the size question are as expected."""
    caps, size = question.caps, question.caps.size
    answer = SizeAnswer(
        np.asarray(size.reports), size.shares, size.covariance, np.zeros(0, np.int64), size.one_report
    )
    law = SizeLaw.of(answer, caps.keys, caps.caps, caps.weights)
    return CapCorrection(law, question.count).counted_share(question.kept)


def cap_draws(caps: CapForecast, draws: int, count: Floats) -> CapCorrection:
    """Simulated answers to the size question, ``draws`` of them; ``count`` as in the correction."""
    size = caps.size
    values, turn = np.linalg.eigh(size.covariance)
    root = turn * np.sqrt(np.maximum(values, 0.0))
    half = Coins.stated("draws of held keys").generator().standard_normal((-(-draws // 2), len(values)))
    noise = (np.concatenate([half, -half]) @ root.T)[:draws]
    spread = np.broadcast_to(size.covariance, (draws, *size.covariance.shape))
    reports = np.full(draws, size.reports)
    answer = SizeAnswer(reports, size.shares + noise, spread, np.zeros(0, np.int64), size.one_report)
    return CapCorrection(SizeLaw.of(answer, caps.keys, caps.caps, caps.weights), count)


def unusual_keys(correction: CapCorrection, kept: Floats, draws: int) -> Floats:
    """Relative deviations of kept frequencies from their centre, ``(draws, keys)``, fixed draws."""
    share = correction.counted_share(np.broadcast_to(kept, (draws, len(kept))))
    normal = Coins.stated("draws of unusual keys").generator().standard_normal((draws, len(kept)))
    return np.asarray(USUAL * share.holders / share.value * normal)
