"""Forecast of conditionals of two keys, frequency(a | b) and mean(a | b), in closed form.

The two keys go together as the people of the prior's table hold them, or else are independent. First
comes the covariance of the share of people who hold both and of the sum of their values; reports on
only one of the two keys are folded in, as the estimator ``pooled`` does. The delta method then gives
the variances of the two ratios.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from ...channel import Channel
from ...channel.shapes.seed_pool import pool_of
from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ...people.views import digits
from ..answer import quantile
from ..combined_parts import together_part
from ..decoding import state_decoding_of
from ..together.joint import lifted
from .few_reports import effective_reports
from .normal_law import below, clipped
from .predicted_error import Errors, Forecast, StatedTruth

if TYPE_CHECKING:
    from ...people.prior import Prior
    from ...plan.plan import Plan

HOPELESS = 0.25
"""The largest useful standard error of a frequency: beyond it a 95 % interval is as wide as [0, 1]."""
MOST_KINDS = 8
"""The most representative keys of which all pairs are forecast."""


@dataclass(frozen=True)
class PairForecast(Forecast):
    """The forecast of conditionals: a row for each ordered pair of representative keys.

    Frequency and mean are those of the first key among the holders of the second; the row's count is
    the pair's share of all pairs. Only the frequency's variance is in ``covariance``.
    """

    mean_variance: Floats

    @property
    def mean(self) -> Floats:
        """The variance of each conditional mean, by the delta method."""
        return self.mean_variance

    @cached_property
    def clipped_mean(self) -> Floats:
        """The mean squared error of each conditional mean after clipping to [-1, 1]."""
        return clipped(self.mean_variance, self.truth.mean, -1.0, 1.0)

    def errors(self) -> Errors:
        """The errors of clipped answers, averaged over pairs; infinite without any pair."""
        share = self.truth.count
        if not len(share):
            return Errors(np.inf, np.inf)
        frequency, mean = (
            sum((share * errors).tolist()) / sum(share.tolist())
            for errors in (self.clipped_frequency, self.clipped_mean)
        )
        return Errors(frequency, mean)

    def least_covered(self, level: float = 0.95) -> float:
        """The predicted coverage of the conditional frequency that is covered least.

        Intervals know the noise and not the bias from pairs that a cap leaves out.
        """
        stderr = np.sqrt(np.maximum(self.covariance[:, 0, 0], 1e-300))
        off, reach = self.bias[:, 0] / stderr, quantile(level)
        return float(np.min(below(reach - off) - below(-reach - off), initial=1.0))

    @property
    def people_factor(self) -> float:
        """The factor of people at which half of the pairs have a useful frequency; at most 1 if so."""
        factor, share = self.covariance[:, 0, 0] / HOPELESS**2, self.truth.count
        if not len(share):
            return np.inf
        order = np.lexsort((share, factor))
        reached = np.searchsorted(np.cumsum(share[order]), 0.5)
        return float(factor[order][min(int(reached), len(order) - 1)])


def forecast_pairs(plan: Plan, people: float, prior: Prior) -> PairForecast:
    """The forecast of conditionals between the most frequent half of all keys.

    Pairs that no one holds together have no mean, and no row. A plan of parts has the forecast of
    the part that knows about keys together.
    """
    number, answering = together_part(plan)
    plan, people = plan.part_plans[number], people * answering
    kinds = popular_kinds(prior)
    weight = prior.weight[kinds] / prior.weight[kinds].sum()
    rows = []
    for first, second in product(range(len(kinds)), repeat=2):
        a, b = kinds[first], kinds[second]
        if a == b and prior.sample is not None and len(kinds) > 1:
            continue  # a representative of a table is a single key
        variances = state_decoding_of(plan).pair_forecast(plan, people, prior, a, b)
        f, m = _conditionals(_law(prior, 2, 2, a, b))
        if np.isfinite(m):
            rows.append((float(weight[first] * weight[second]), f, m, *variances))
    share, frequency, mean, of_f, of_m, off_f = np.array(rows).reshape(-1, 6).T
    bias, covariance = np.zeros((len(rows), 2)), np.full((len(rows), 2, 2), np.nan)
    bias[:, 0], covariance[:, 0, 0] = off_f, of_f
    return PairForecast(StatedTruth(frequency, mean, share), bias, covariance, of_m)


def popular_kinds(prior: Prior) -> list[int]:
    """The representatives that are held most and stand for half of all keys, at most ``MOST_KINDS``."""
    order = np.argsort(-prior.frequency, kind="stable")
    half = int(np.searchsorted(np.cumsum(prior.weight[order]), 0.5)) + 1
    picked = order[:half]
    if len(picked) > MOST_KINDS:
        picked = picked[np.linspace(0, len(picked) - 1, MOST_KINDS).astype(int)]
    return [int(kind) for kind in picked]


def pair_in_views(plan: Plan, people: float, prior: Prior, a: int, b: int) -> tuple[float, float, float]:
    """Variances of frequency(a | b) and mean(a | b) from views, and the bias of the first."""
    several = plan.views.sizes > 1
    if not several.any():
        raise PlanError(f"{plan.mechanism_name} tells nothing of two keys together")
    view, views = int(np.argmax(several)), int(several.sum())
    size, levels = len(plan.views.keys[view]), plan.schema.levels
    channel = plan.view_channels[view]
    # Reports that hold these two keys together, and those that hold only one of them.
    keys = len(plan.schema.keys)
    asked = people * float(plan.views.shares[several].sum())
    both = asked / views
    if plan.mechanism.name != "workload":
        both *= views * size * (size - 1) / (keys * (keys - 1))
    alone = max(0.0, asked * size / keys - both)
    law = _law(prior, levels, size, a, b)
    spread = _functionals(channel, law, size, levels) / effective_reports(people, both / people)
    if alone > 0 and plan.mechanism.name != "workload":
        singles = spread[2:, 2:]
        gain = spread[:, 2:] @ np.linalg.pinv(singles + singles * both / alone, hermitian=True)
        spread = spread - gain @ spread[2:, :]
    return (*_ratios(spread, _law(prior, levels, 2, a, b)), 0.0)


def _law(prior: Prior, levels: int, size: int, a: int, b: int) -> Floats:
    """The law of a view's states: of the two keys together, and of average ones independent of them."""
    states = prior.states(levels)
    law = np.kron(states[a], states[b])
    if prior.sample is not None and a != b:
        law = prior.pair(levels, a, b)
    other = prior.weight @ states
    for _ in range(size - 2):
        law = np.kron(law, other)
    return np.asarray(law)


def _functionals(channel: Channel, law: Floats, size: int, levels: int) -> Floats:
    """Covariance for one report of P(ab), S_a 1(b), and f_a, f_b, S_a, S_b."""
    return channel.covariance(_decoder(channel, size, levels), law)


@lru_cache(maxsize=4)
def _decoder(channel: Channel, size: int, levels: int) -> Floats:
    """The weights on outputs that estimate them; cached, because all pairs of a plan share them."""
    rows = digits(levels, 2)
    held = (rows > 0).astype(np.float64)
    worth = np.concatenate([[0.0], np.linspace(-1.0, 1.0, levels)])[rows]
    columns = [held[:, 0] * held[:, 1], worth[:, 0] * held[:, 1], held[:, 0], held[:, 1]]
    weights = np.stack([*columns, worth[:, 0], worth[:, 1]], axis=1)
    weights = weights.reshape(levels + 1, levels + 1, -1)
    return channel.decoder(lifted(weights, (0, 1), tuple(range(size)), levels))


def _conditionals(law: Floats) -> tuple[float, float]:
    """frequency(a | b) and mean(a | b) under a law of the two."""
    levels = round(len(law) ** 0.5) - 1
    shares = law.reshape(levels + 1, levels + 1)[:, 1:].sum(axis=1)
    both = float(shares[1:].sum())
    if not both > 0:
        return 0.0, np.nan
    return both / float(shares.sum()), float(shares[1:] @ np.linspace(-1.0, 1.0, levels)) / both


def _ratios(spread: Floats, law: Floats) -> tuple[float, float]:
    """Variances of P(ab) / f_b and S_a 1(b) / P(ab) by the delta method."""
    levels = round(len(law) ** 0.5) - 1
    g = float(law.reshape(levels + 1, levels + 1)[:, 1:].sum())
    f, m = _conditionals(law)
    both = f * g
    if not both > 0:
        return np.inf, np.inf
    of_f = (spread[0, 0] - 2 * f * spread[0, 3] + f**2 * spread[3, 3]) / g**2
    of_m = (spread[1, 1] - 2 * m * spread[0, 1] + m**2 * spread[0, 0]) / both**2
    return float(of_f), float(of_m)


def pair_in_sets(plan: Plan, people: float, prior: Prior, a: int, b: int) -> tuple[float, float, float]:
    """The same from sets: a pair has four items and a key two, nearly independent of each other."""
    channel = pool_of(plan.view_channels[0])
    number = np.arange(len(prior.sizes))
    cap = plan.cap
    kept = np.minimum(number, cap)
    keys = max(prior.keys, 2)
    kept_keys = float(prior.sizes @ kept) / max(prior.held, 1e-12)
    pairs = float(prior.sizes @ (number * (number - 1.0)))
    kept_pairs = float(prior.sizes @ (kept * (kept - 1.0))) / pairs if pairs > 0 else 1.0
    f, g, m = prior.frequency[a], prior.frequency[b], prior.mean[a]
    # People who hold many keys raise the share of every pair above independence.
    lift = pairs / prior.held**2 * keys / (keys - 1) if prior.held > 0 else 1.0
    both = min(f * g * max(lift, 1.0), f, g)
    part = 1.0 / channel.small
    item = channel.noise[0] / people
    energy = float(np.sum(prior.count * prior.frequency**2)) / 2 + prior.sizes @ kept**2 / keys
    item += channel.pool_variance(energy)[0] / 2  # of a key's two items one
    of_pair = 4 * item + both * kept_pairs * part / (channel.gains[0] * people)
    of_key = 2 * item
    if not both * kept_pairs * g * kept_keys > 0:
        return np.inf, np.inf, 0.0
    conditional = both * kept_pairs / (g * kept_keys)
    of_f = (of_pair + conditional**2 * of_key) / (g * kept_keys) ** 2
    of_m = (1 + m**2) * of_pair / (both * kept_pairs) ** 2
    return float(of_f), float(of_m), float(conditional - both / g)
