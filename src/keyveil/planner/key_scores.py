"""Key scores: the predicted errors of a plan for single keys, before and after shrinkage.

Shrinkage reduces an error v to v t^2 / (v + t^2), where t^2 is the variance across keys, and adds the
error of the common mean, which must itself be estimated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf

import numpy as np

from ..estimate.forecast.cap_forecast import CorrectedForecast, corrected_forecast, least_coverage
from ..estimate.forecast.key_forecast import forecast
from ..estimate.forecast.pair_forecast import forecast_pairs
from ..estimate.forecast.predicted_error import Errors, Forecast, averaged
from ..foundation.arrays import Floats
from ..foundation.errors import PlanError
from ..people.prior import Prior
from ..plan.plan import Plan

LEAST_ACROSS = 1e-3
"""The least assumed variance of means across keys; without it shrinkage would make all plans alike."""
ANYWHERE_F, ANYWHERE_M = 1 / 12, 1 / 3
"""The variance of a uniform frequency on [0, 1], and of a uniform mean on [-1, 1]."""
CAP_WEIGHT, KNOWN_CAP_WEIGHT = 4.0, 2.0
"""Weight of the squared bias that a cap causes; the second one if a table gives its size. It is above 1
because neither more people nor shrinkage reduce that bias, and intervals do not include it."""
TELLING = 0.1
"""A plan can answer if at least this share of its keys has a useful answer."""
SURE = 2.0
"""A useful frequency exceeds this many standard errors."""
COARSE = 0.5
"""The largest standard error of a useful mean, on [-1, 1]."""
STEPS = 8
"""The most steps of the search for the number of people that a plan needs."""
MOST_PEOPLE = 1e15
"""The search for a number of people ends here."""


@dataclass(frozen=True)
class KeyScores:
    """Predicted errors of a plan for single keys, averaged over keys, and what it needs to answer.

    Each is computed when it is first asked for.
    """

    predicted: Forecast
    prior: Prior
    cap_weight: float | None = None
    """The weight of the squared bias of a cap; None for the prior's own."""

    @cached_property
    def _corrected(self) -> CorrectedForecast:
        return corrected_forecast(self.predicted)

    @cached_property
    def raw(self) -> Errors:
        """Before shrinkage, clipped to the range."""
        whole = self._corrected.whole
        return averaged(self.prior, whole.clipped_frequency, whole.clipped_mean)

    @cached_property
    def shrunk(self) -> Errors:
        """After shrinkage, in closed form, with the penalty for a cap."""
        prior, predicted, corrected = self.prior, self.predicted, self._corrected
        across_f, across_m = prior.across()
        off_f = float(prior.weight @ prior.frequency) - 0.5
        off_m = float(prior.weight @ prior.mean)
        noise, count = corrected.noise.covariance[:, 0, 0], prior.count
        frequency = _shrunk(noise, max(across_f, 1e-12), count, (ANYWHERE_F, off_f), predicted.together)
        mean = _shrunk(predicted.mean, max(across_m, LEAST_ACROSS), count, (ANYWHERE_M, off_m))
        frequency = frequency + corrected.noise.bias[:, 0] ** 2 + corrected.unknown
        frequency = frequency + cap_penalty(prior, predicted, self.cap_weight)
        return averaged(prior, frequency, mean)

    @cached_property
    def people_factors(self) -> dict[str, float]:
        """The factor of people that the plan needs to answer, for each thing that may be asked."""
        return people_factors(self._corrected.noise, self.prior, self._corrected.unknown)

    @cached_property
    def covered(self) -> float:
        """The predicted coverage of the answer that is covered least, see ``least_coverage``."""
        return least_coverage(self.predicted, self._corrected)


def key_scores(
    plan: Plan, people: int, prior: Prior, cap_weight: float | None = None
) -> KeyScores | None:
    """The predicted errors and people factors of a plan for single keys; None without a forecast."""
    try:
        return KeyScores(forecast(plan, people, prior), prior, cap_weight)
    except PlanError:
        return None


def cap_penalty(prior: Prior, predicted: Forecast, weight: float | None = None) -> Floats:
    """The penalty on each frequency's squared error for the bias that a cap causes.

    There is none if answers are corrected for it. Otherwise neither they nor their intervals know it.
    ``weight`` is that of the squared bias; by default it follows from what the prior knows.
    """
    if predicted.caps is not None:
        return np.zeros(len(predicted.bias))
    usual = CAP_WEIGHT if prior.together is None else KNOWN_CAP_WEIGHT
    times = usual if weight is None else weight
    return np.asarray((times - 1) * predicted.left_out[:, 0] ** 2)


def _shrunk(
    error: Floats, across: float, count: Floats, anywhere: tuple[float, float], together: float = 1.0
) -> Floats:
    """The error after shrinkage of numbers whose variance across keys is ``across``.

    ``anywhere`` is the prior variance of the keys' common mean, and its distance from the middle of the
    range; ``together`` is the factor by which errors that keys share raise the variance of their mean.
    """
    error = np.where(np.isinf(error), 1e12, error)
    common = together / float((count / (error + across)).sum())
    variance, off = anywhere
    trust = variance / (common + variance)
    common = trust**2 * common + (1.0 - trust) ** 2 * off**2
    own = across / (error + across)
    return np.asarray(error * own + (1.0 - own) ** 2 * common)


def people_factors(predicted: Forecast, prior: Prior, unknown: Floats | float = 0.0) -> dict[str, float]:
    """The factor of people that a plan needs to answer, for each thing that may be asked.

    A frequency must exceed its noise, the bias that a cap causes and the standard deviation of what is
    ``unknown`` about it (a variance); no number of people reduces the latter two.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        room = prior.frequency**2 - SURE**2 * (predicted.bias[:, 0] ** 2 + unknown)
        frequency = SURE**2 * predicted.covariance[:, 0, 0] / np.maximum(room, 1e-24)
        frequency = np.where(room <= 0, np.inf, frequency)
        mean = predicted.mean / COARSE**2
    wanted = {"frequency": frequency, "mean": np.maximum(frequency, mean)}
    factors = {name: _at_share(factor, prior.weight) for name, factor in wanted.items()}
    return {**factors, "both": factors["mean"]}


def _at_share(factor: Floats, weight: Floats) -> float:
    """The factor that suffices for the best-known ``TELLING`` of keys."""
    factor = np.where(np.isnan(factor), np.inf, factor)
    order = np.argsort(factor)
    reached = int(np.searchsorted(np.cumsum(weight[order]), TELLING - 1e-12))
    return float(factor[order][min(reached, len(order) - 1)])


def people_factor(plan: Plan, people: int, ask: str, prior: Prior) -> float:
    """The factor of people that a plan needs to answer, to first order."""
    if ask == "conditional":
        return forecast_pairs(plan, people, prior).people_factor
    scores = key_scores(plan, people, prior)
    return inf if scores is None else scores.people_factors[ask]


def refined_factor(plan: Plan, people: int, ask: str, prior: Prior, first: float) -> float:
    """The factor of people that a plan needs; ``first`` is that to first order.

    Errors do not fall exactly as people rise, so it is found step by step.
    """
    number, factor = people, first
    for _ in range(STEPS):
        if not factor > 1 or not np.isfinite(number * factor) or number * factor > MOST_PEOPLE:
            break
        number = ceil(number * max(factor, 1.02))
        factor = people_factor(plan, number, ask, prior)
    if factor > 1:
        return inf
    return first if number == people else number / people
