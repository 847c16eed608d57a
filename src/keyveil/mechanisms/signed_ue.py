"""Signed unary encoding: every key shows nothing, low, high, or both.

keyveil. PCKV-UE (Gu et al., USENIX Security 2020) and optimal unary encoding over the 2 d signed keys
(Wang et al., USENIX Security 2017) are two members of one family, and neither is its best. A key that
was not sampled shows "high" with chance alpha, "low" with chance alpha, and both with chance gamma. For
a key that was sampled with a high value, symbols that include "high" are e^epsilon times as likely
relative to the others. So no report of d keys is more than e^epsilon times as likely from one sampled
key as from another. With E = e^epsilon and k = ((1 + alpha (E - 1)) / (E - 1))^2, for a rare key and
one report

    variance of the mass       2 k / (alpha - gamma)
    variance of the frequency    k / ((alpha + gamma) / 2 - alpha^2)

PCKV-UE is alpha = 1 / (E + 3), gamma = 0; unary encoding is alpha = 1 / (E + 1), gamma = alpha^2. We
take the alpha and gamma that minimise the first plus ``weight`` times the second. Given alpha, gamma has
a closed form; alpha is found by a search in one dimension. The default weight is 1/3. The variance of a
mean m is (variance of the mass + m^2 variance of the frequency) / frequency^2, and 1/3 is the average of
m^2 for a uniform mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import exp, sqrt
from typing import Any

import numpy as np

from ..channel import Symbols
from ..estimate.linear import least_squares
from ..estimate.pools.padded_items import baseline
from ..foundation.arrays import WORD
from ..foundation.errors import ChannelError
from .mechanism import Parameter
from .pckv import MOST_LENGTH, Padded


def variances(odds: float, alpha: Any, gamma: Any) -> tuple[Any, Any]:
    """Variances of mass and frequency of a rare key from one report."""
    scale = ((1.0 + alpha * (odds - 1.0)) / (odds - 1.0)) ** 2
    return 2.0 * scale / (alpha - gamma), scale / ((alpha + gamma) / 2.0 - alpha**2)


def best_pair(odds: float, weight: float) -> tuple[float, float]:
    """The alpha and gamma that minimise variance of the mass plus ``weight`` x that of the frequency.

    For fixed alpha both variances have the same factor. A zero derivative in gamma gives
    gamma = alpha (2 alpha - 1 + sqrt(weight)) / (1 + sqrt(weight)), or 0 if that is negative.
    """
    root = sqrt(weight)
    low, high = 1e-9, 0.5
    for _ in range(6):  # refine the grid around the best: ten digits
        alpha = np.linspace(low, high, 401)
        gamma = np.maximum(alpha * (2.0 * alpha - 1.0 + root) / (1.0 + root), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            mass, frequency = variances(odds, alpha, gamma)
            cost = np.where((alpha + gamma) / 2.0 > alpha**2, mass + weight * frequency, np.inf)
        best = int(np.argmin(cost))
        low, high = float(alpha[max(best - 2, 0)]), float(alpha[min(best + 2, 400)])
    return float(alpha[best]), float(gamma[best])


def signed_symbols(positions: int, epsilon: Decimal, alpha: float, gamma: float) -> Symbols:
    """The channel of ``positions`` positions, with integers rounded to use epsilon without exceeding it.

    Symbols: 0 nothing, 1 low, 2 high, 3 both (absent if gamma is 0).
    """
    single = max(1, round((alpha - gamma) * WORD))
    both = round(gamma * WORD)
    back = (WORD - 2 * single - both, single, single, *([both] if both else []))
    nominal, cut = float(epsilon), 1e-10
    while True:
        channel = _symbols_at(positions, back, exp(nominal))
        if channel is not None and channel.proof().keeps(epsilon):
            return channel
        if cut > 1e-2:
            raise ChannelError(f"2^32 is too coarse for this mechanism at epsilon {epsilon}")
        nominal, cut = float(epsilon) * (1 - cut), 2 * cut


def _symbols_at(positions: int, back: tuple[int, ...], odds: float) -> Symbols | None:
    """The channel with background ``back``; a sampled key raises its own symbols by ``odds``.

    None if an integer weight would be 0.
    """
    total = odds * (back[1] + sum(back[3:])) + back[0] + back[1]
    own = [int(odds * w * WORD / total) for w in (back[2], *back[3:])]
    other = -int(-back[1] * WORD // total)
    nothing = WORD - sum(own) - other
    if nothing < 1 or min(own) < 1 or other < 1:
        return None
    high = (nothing, other, *own)
    low = (nothing, own[0], other, *own[1:])
    return Symbols(positions, (back, low, high))


class SignedUE(Padded):
    """d + l positions, each with four symbols, or three if "both" is not used."""

    name = "signed_ue"
    source = "keyveil; contains PCKV-UE of Gu et al. 2020 and OUE of Wang et al. 2017"
    bits = "2 (d + l), or (d + l) log2 3 where both signs at once do not pay"
    most_keys = (1 << 20) - MOST_LENGTH
    parameters = {
        "length": Padded.parameters["length"],
        "weight": Parameter("0.333333", "0.001", "1000", "weight of the frequency's variance"),
    }
    estimators = {"least_squares": least_squares, "baseline": baseline}

    def channel(self, keys: int, length: int, epsilon: Decimal, chosen: Mapping[str, Any]) -> Symbols:
        alpha, gamma = best_pair(float(epsilon.exp()), float(chosen["weight"]))
        return signed_symbols(keys + length, epsilon, alpha, gamma)
