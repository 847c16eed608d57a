"""F2M's split of epsilon between key and value, which the paper does not state: exact variances."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...estimate.forecast.key_forecast import forecast_key
from ...estimate.linear import Decoder, by_least_squares
from ...mechanisms.f2m import by_two_bits
from ...people.schema import Schema
from ...people.synthetic import KnownPopulation
from ...plan.plan import Plan
from .experiment import EPSILONS, STATISTICS

UNEVEN = {"default": "0", "split": "0.3"}
"""F2M with three tenths of epsilon for the key."""
DEFAULTS = ("-1", "-0.5", "0", "0.5", "1")


class Variances(NamedTuple):
    """The variances of one report's frequency and mean, averaged over the keys of a population."""

    frequency: float
    mean: float


def uneven_over(mechanism: str, population: KnownPopulation) -> dict[float, Variances]:
    """By true epsilon, F2M's variances with three tenths for the key, over another mechanism's."""
    ratios = {}
    for epsilon in EPSILONS:
        other = variances(mechanism, epsilon, population)
        own = variances("f2m", epsilon, population, parameters=UNEVEN)
        ratios[epsilon] = Variances(own.frequency / other.frequency, own.mean / other.mean)
    return ratios


def said_of(ratios: Mapping[float, Variances], part: str) -> str:
    """The ratios of frequency or mean in words, by epsilon."""
    return ", ".join(f"{getattr(ratio, part):.2f} at {e:g}" for e, ratio in ratios.items())


def variances(
    mechanism: str,
    epsilon: float,
    population: KnownPopulation,
    calibrate: str = "tight",
    decode: Decoder = by_least_squares,
    parameters: Mapping[str, str] | None = None,
) -> Variances:
    """The exact variances of one report for each key, averaged."""
    plan = _plan(mechanism, epsilon, calibrate, tuple((parameters or {}).items()))
    keys = zip(population.frequency.tolist(), population.mean.tolist(), strict=True)
    by_key = [forecast_key(plan, 1, f, m, decode=decode) for f, m in keys]
    return Variances(
        *(float(np.mean([getattr(forecast, part) for forecast in by_key])) for part in STATISTICS)
    )


@lru_cache(maxsize=256)
def _plan(mechanism: str, epsilon: float, calibrate: str, given: tuple[tuple[str, str], ...]) -> Plan:
    return Plan.of(Schema.of(1), mechanism, epsilon, calibrate, **dict(given))


def by_default(epsilon: float, population: KnownPopulation, calibrate: str) -> Mapping[str, Variances]:
    """F2M's variances with the paper's estimator and an even split, by its default value."""
    return {
        default: variances("f2m", epsilon, population, calibrate, by_two_bits, {"default": default})
        for default in DEFAULTS
    }
