"""The error of shrunk and of corrected answers, before anyone has answered: computed on fixed draws.

Shrinkage learns from all keys together, so that its error has no closed form. The estimator itself is
run, on a few draws of what a forecast says of frequency and mass (normal, each key for itself). How the
raw answers' error on these draws lies beside what is known of it without draws takes out most of their
chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.coins import Coins
from ..answer import KeyBands
from ..linear import Moments, key_bands
from ..ratio_bias import corrected_bands
from ..shrink.noise_line import Noise
from ..shrink.shrinkage import shrunk_bands
from .key_forecast import Forecast, Mixed

if TYPE_CHECKING:
    from ...people.prior import Prior
    from ...plan.plan import Plan

DRAWN = 1 << 12
"""So many keys are drawn in all, in no fewer draws than the least and no more than the most."""
LEAST, MOST = 32, 128
MOST_KEYS = 512
"""Of more keys so many are drawn, evenly spaced: what they have in common is well known by then."""
FEWEST_DRAWS = 6
_LEVEL = 0.95
MADE: dict[str, Callable[[KeyBands, Moments], KeyBands]] = {
    "shrunk": lambda raw, moments: shrunk_bands(raw, moments, _LEVEL),
    "corrected": corrected_bands,
}
"""Estimators whose error has no closed form: how each makes its answers of the raw ones."""


def shrunk_errors(
    plan: Plan, told: Forecast, people: float, prior: Prior, share: float = 1.0
) -> tuple[float, float]:
    """Mean squared error of frequencies and of means after shrinkage, averaged over keys."""
    return drawn_errors(plan, told, people, prior, ("shrunk",), share)["shrunk"]


def drawn_errors(
    plan: Plan,
    told: Forecast,
    people: float,
    prior: Prior,
    estimators: Sequence[str] = tuple(MADE),
    share: float = 1.0,
) -> dict[str, tuple[float, float]]:
    """Mean squared error of frequencies and of means, averaged over keys, for each of the estimators.

    Only of keys that someone holds where it is about means; NaN for what the plan does not answer.
    ``share`` of the draws are made, where it is one of several that may come.
    """
    if isinstance(told, Mixed):
        parts = [
            (chance, drawn_errors(plan, part, people, prior, estimators, max(chance, 0.25) * share))
            for chance, part in told.parts
        ]
        mixed = {
            name: [float(sum(chance * each[name][place] for chance, each in parts)) for place in (0, 1)]
            for name in estimators
        }
        return {name: (first, second) for name, (first, second) in mixed.items()}
    some = _keys(prior)
    truth = np.stack([prior.frequency, prior.frequency * prior.mean], axis=1)[some]
    covariance, middle = told.covariance[some], truth + told.bias[some]
    draws = max(round(share * min(max(DRAWN // len(some), LEAST), MOST)), FEWEST_DRAWS)
    errors = _draws(covariance, draws, plan.encoding.dummies(plan.cap))
    common = (told.together - 1.0) / max(prior.keys - 1, 1)
    values = middle + (_in_common(errors, covariance, common) if common > 0 else errors)
    claimed = covariance if told.claimed is None else told.claimed[some]
    moments = _moments(plan, values, middle, claimed, people)
    raw = key_bands(plan, moments, _LEVEL)
    found: dict[str, tuple[float, float]] = {}
    for estimator in estimators:
        made = MADE[estimator](raw, moments)
        each = []
        for name, true, low, known in (
            ("frequency", prior.frequency, 0.0, told.clipped_frequency),
            ("mean", np.where(prior.frequency > 0, prior.mean, np.nan), -1.0, told.clipped_mean),
        ):
            before, after = getattr(raw, name), getattr(made, name)
            if after is None:
                each.append(np.nan)
                continue
            held = np.isfinite(true[some])
            made_off, raw_off = (
                _squares(band.value[:, held], true[some][held], low) for band in (after, before)
            )
            each.append(_adjusted(made_off, raw_off, float(known(prior)[some][held].mean())))
        found[estimator] = each[0], each[1]
    return found


def _keys(prior: Prior) -> np.ndarray:
    """Which representative each key is drawn from."""
    each = np.repeat(np.arange(len(prior.count)), np.maximum(np.round(prior.count).astype(int), 1))
    return each[np.arange(MOST_KEYS) * len(each) // MOST_KEYS] if len(each) > MOST_KEYS else each


def _draws(covariance: Floats, draws: int, dummies: int) -> Floats:
    """Normal errors ``(draws, keys, 2)``, the same every time; NaN where there is no answer.

    Each key has as many draws in each part of the normal law, in an order of its own: no key is lucky.
    With ``dummies`` the frequencies of all keys and so many dummies sum to what they must.
    """
    known = np.isfinite(covariance)
    values, turn = np.linalg.eigh(np.where(known, covariance, 0.0))
    root = turn * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    keys, normal = len(covariance), NormalDist()
    parts = np.array([normal.inv_cdf((j + 0.5) / draws) for j in range(draws)])
    parts /= np.sqrt((parts**2).mean())
    every = np.broadcast_to(parts[:, None, None], (draws, keys + dummies, 2))
    drawn = Coins.stated("draws of a forecast").generator().permuted(every, axis=0)
    made = np.einsum("kij,rkj->rki", root, drawn[:, :keys])
    if dummies:
        rest = drawn[:, keys:, 0].sum(axis=1) * np.sqrt(covariance[:, 0, 0].mean())
        size = keys + dummies
        made[..., 0] -= ((made[..., 0].sum(axis=1) + rest) / size)[:, None]
        made[..., 0] *= np.sqrt(size / (size - 1.0))
    return np.where(np.diagonal(known, axis1=1, axis2=2), made, np.nan)


def _in_common(errors: Floats, covariance: Floats, share: float) -> Floats:
    """The same errors, a share of the variance of frequencies being the same for all keys."""
    draws = len(errors)
    parts = np.array([NormalDist().inv_cdf((j + 0.5) / draws) for j in range(draws)])
    parts /= np.sqrt((parts**2).mean())
    same = Coins.stated("draws in common").generator().permuted(parts)[:, None]
    noise = covariance[:, 0, 0]
    moved = (np.sqrt(1.0 - share) - 1.0) * errors[..., 0] + np.sqrt(share * noise) * same
    slope = covariance[:, 0, 1] / np.maximum(noise, 1e-300)
    return errors + np.stack([moved, slope * moved], axis=-1)


def _moments(plan: Plan, values: Floats, middle: Floats, covariance: Floats, people: float) -> Moments:
    """What an estimator would see: the covariance at what was drawn, not at what is true."""
    share = plan.encoding.key_share(plan.views, len(plan.schema.keys))
    reports = np.full((1, values.shape[1]), max(1, round(people * share)))
    known = np.asarray(np.isfinite(middle).all(axis=-1))[None, :]
    spread = np.broadcast_to(covariance, (len(values), *covariance.shape)).copy()
    if known.any():
        noise = Noise.of(middle[None], covariance[None], reports, known)
        f = np.clip(values[..., 0], 0.0, 1.0)
        s = np.clip(values[..., 1], -f, f)
        for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
            at = noise.entry(i, j, f.T[None], s.T[None])[0].T
            spread[..., i, j] = np.where(known, at, spread[..., i, j])
    return Moments(np.broadcast_to(reports, values.shape[:2]).astype(np.int64), values, spread)


def _squares(values: Floats, truth: Floats, low: float) -> Floats:
    """Each draw's mean squared error; an unknown value counts as the middle of its range."""
    made = np.nan_to_num(values, nan=(low + 1) / 2, posinf=1.0, neginf=low)
    return np.asarray(((np.clip(made, low, 1.0) - truth) ** 2).mean(axis=1))


def _adjusted(after: Floats, before: Floats, known: float) -> float:
    """The average of ``after``, less what chance did to it as ``before`` tells, whose mean is known."""
    apart = before - before.mean()
    slope = float(apart @ after / (apart @ apart)) if apart.any() else 0.0
    made = float(after.mean()) - slope * (float(before.mean()) - known)
    return made if made > 0 else float(after.mean())
