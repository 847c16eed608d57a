"""Channels for the frequency and mean of single keys: designed for a prior, solved once, shipped.

The best channel depends on the frequency of keys and the law of their values. So there is a channel for
each *design*: the frequency, the mean and spread of values, and the weight of the mean relative to the
frequency. The law of values is ``prior.value_law`` (maximum entropy), mixed over keys with the mean of
the design and with 0.4 less and more, as in ``Prior.of``. The objective is

    (1 - weight) * Var(frequency) / KVUE's + weight * Var(mean) / KVUE's

for one report, with weights on outputs that are unbiased for every law of the states. A report is about
one key rounded to nine levels, or two keys rounded to four, or the presence alone of two or three keys.
Estimates use the design only to weigh the outputs: a wrong design costs accuracy but adds no bias.

``optimal_values.json`` holds mixtures of patterns (see ``patterns``) on a small grid of designs and
epsilons. A mixture is a tight channel at every epsilon, so the nearest tabled epsilon is used, which
loses at most 1.5 %. ``python -m keyveil.channel.design.value_channels`` (extra ``design``) makes the
file in two minutes, with the same bytes each time for the same solver.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, cached_property, lru_cache
from itertools import product
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ...foundation.exact import text
from ...people.prior import BETWEEN, Prior
from ...people.prior_laws import GRID, HELD, value_law
from ...people.rounding import rounding
from ...people.views import digits
from .. import Channel, Symmetric, Table
from .patterns import (
    Solutions,
    best_mixture,
    classes_of,
    image_of,
    independent_keys,
    intervals,
    moves,
    orbit,
    shipped,
    table_of,
)

LEVELS = {1: 9, 2: 4}
"""Number of levels of the tabled channels with values, by the number of keys of a report."""

FREQUENCIES = ("0.03", "0.1", "0.3", "0.7")
SPREADS = ("0.3", "0.6")
MEANS = ("0", "0.4")
WEIGHTS = ("0.25", "0.5", "0.75")
EPSILONS = ("0.5", "1", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
"""The grid of epsilons. Designs with a mean below zero are reversed tabled ones."""

LARGEST = Decimal(12)
"""Largest epsilon. Above it 32-bit weights are too coarse, and k-RR over the states is as good."""

MOST_SOLVED = 36
"""Maximum number of states: two keys at five levels, three at two, or five at one."""

SMALLEST_OF_SEVERAL = Decimal("1.5")
"""Smallest tabled epsilon for several keys. Below it, two keys in a report are no better than one."""


@dataclass(frozen=True)
class Design:
    """The population that a channel is designed for, as the decimals of a plan."""

    frequency: Decimal = Decimal(str(HELD))
    spread: Decimal = Decimal("0.5")
    mean: Decimal = Decimal(0)
    weight: Decimal = Decimal("0.5")
    keys: int = 1
    levels: int = 9

    @property
    def states(self) -> int:
        """Number of states of a report."""
        return int((self.levels + 1) ** self.keys)

    @cached_property
    def means(self) -> tuple[float, ...]:
        """The three assumed means of keys."""
        mean = float(self.mean)
        apart = min(BETWEEN, 0.95 - abs(mean))
        return mean - apart, mean, mean + apart

    def laws(self, levels: int) -> Floats:
        """The law ``(3, levels + 1)`` of one key's states after rounding, one row per mean."""
        held = float(self.frequency)
        rows = [
            np.concatenate([[1.0 - held], held * value_law_at(levels, mean, float(self.spread))])
            for mean in self.means
        ]
        return np.array(rows)

    @cached_property
    def key_law(self) -> Floats:
        """The law of one key's states, mixed over the means."""
        return np.asarray(self.laws(self.levels).mean(axis=0))

    @cached_property
    def law(self) -> Floats:
        """The law of the states of a report: keys are independent."""
        return independent_keys(self.key_law, self.keys)

    def wanted(self, epsilon: Decimal) -> Floats:
        """Weights on the states; the variances of the columns sum to the first key's error."""
        first = digits(self.levels, self.keys)[:, 0]
        held, weight = float(self.frequency), float(self.weight)
        kvue = np.array([_kvue(epsilon, held, mean) for mean in self.means])
        apart = np.var(self.means)
        of_mean = weight * float((1.0 / (held**2 * kvue[:, 1])).mean())
        of_held = (1.0 - weight) * float((1.0 / kvue[:, 0]).mean()) + apart * of_mean
        if self.levels == 1:
            return (first > 0).astype(np.float64)[:, None] * np.sqrt(1.0 / kvue[:, :1].mean())
        values = np.concatenate([[0.0], np.linspace(-1.0, 1.0, self.levels) - float(self.mean)])
        columns = [np.sqrt(of_held) * (first > 0), np.sqrt(of_mean) * values[first]]
        return np.stack(columns, axis=1)

    @property
    def turns(self) -> bool:
        """Whether reversed values give the same design."""
        return self.levels == 1 or self.mean == 0


def value_law_at(levels: int, mean: float, spread: float) -> Floats:
    """The law of values after rounding to levels, lowest first."""
    return np.asarray(_fine_law(mean, spread) @ rounding(GRID, levels))


@cache
def _fine_law(mean: float, spread: float) -> Floats:
    return value_law(mean, spread)


def _kvue(epsilon: Decimal, held: float, mean: float) -> tuple[float, float]:
    """KVUE's variances of frequency and mean for one report."""
    odds = float(epsilon.exp())
    keep, lie = odds / (odds + 2), 1.0 / (odds + 2)
    states = np.array([1 - held, held * (1 - mean) / 2, held * (1 + mean) / 2])
    seen = lie + (keep - lie) * states
    variances = []
    for weights in (np.array([0.0, 1, 1]), np.array([0.0, -1 - mean, 1 - mean]) / held):
        cells = (weights - lie * weights.sum()) / (keep - lie)
        variances.append(float(seen @ cells**2 - (seen @ cells) ** 2))
    return variances[0], variances[1]


# -- channels --------------------------------------------------------------------------------------


def channel_for(epsilon: Decimal, design: Design, solve: bool = False) -> Channel:
    """The channel of the nearest tabled design and epsilon, adapted to this epsilon.

    With ``solve`` the channel is solved for exactly this design and epsilon, which needs CVXPY.
    """
    if epsilon > LARGEST:
        return Symmetric.of(design.states, epsilon)
    if solve:
        return solved(epsilon, design)
    return _tabled_channel(epsilon, nearest(design))


def solved(epsilon: Decimal, design: Design) -> Table:
    """The best channel for a design at an epsilon."""
    if epsilon > LARGEST:
        raise PlanError(f"optimal channels are solved up to epsilon {LARGEST}; use graded above")
    table = table_of(_mixture(epsilon, design), design.states, epsilon)
    table.check(epsilon)
    return table


def _mixture(epsilon: Decimal, design: Design) -> dict[int, int]:
    if design.keys > 1 and design.states > MOST_SOLVED:
        raise PlanError(f"channels for several keys are solved for up to {MOST_SOLVED} states; use grr")
    group = moves(design.levels, design.keys, design.turns)
    patterns = intervals(design.levels, design.keys)
    return best_mixture(epsilon, design.law, design.wanted(epsilon), patterns, group)


@cache
def designs() -> tuple[Design, ...]:
    """Every tabled design, without the reversed ones."""
    grid = []
    for frequency, spread, mean in product(FREQUENCIES, SPREADS, MEANS):
        held, sd, middle = Decimal(frequency), Decimal(spread), Decimal(mean)
        for weight in map(Decimal, WEIGHTS):
            grid.append(Design(held, sd, middle, weight))
            if weight <= Decimal("0.5"):  # more weight on the mean gains nothing with two keys
                grid.append(Design(held, sd, middle, weight, 2, LEVELS[2]))
    for frequency, keys in product(FREQUENCIES, (2, 3)):
        grid.append(Design(Decimal(frequency), weight=Decimal(0), keys=keys, levels=1))
    return tuple(grid)


def is_tabled(design: Design) -> bool:
    """Whether channels for the design's numbers of keys and levels are tabled."""
    return any((d.keys, d.levels) == (design.keys, design.levels) for d in designs())


@lru_cache(maxsize=1024)
def nearest(design: Design) -> Design:
    """The nearest tabled design, reversed if the mean is below zero."""
    known = [d for d in designs() if (d.keys, d.levels) == (design.keys, design.levels)]
    if not known:
        sizes = sorted({(d.keys, d.levels) for d in designs()})
        listed = ", ".join(f"{keys} with {levels}" for keys, levels in sizes)
        raise PlanError(f"optimal channels are tabled for keys a report and levels: {listed}")

    def distance(other: Design) -> tuple[float, float]:
        odds = [log(float(d.frequency) / (1 - float(d.frequency))) for d in (design, other)]
        parts = (
            (odds[0] - odds[1]) / 2,
            float(design.spread - other.spread) * 2,
            float(abs(design.mean) - other.mean) * 2,
            float(design.weight - other.weight) * 4,
        )
        return sum(part**2 for part in parts), float(other.frequency)

    closest = min(known, key=distance)
    return replace(closest, mean=-closest.mean) if design.mean < 0 else closest


@lru_cache(maxsize=1024)
def _tabled_channel(epsilon: Decimal, design: Design) -> Table:
    known = tabled()[design_name(replace(design, mean=abs(design.mean)))]
    at = min(known, key=lambda tabled_epsilon: (abs(tabled_epsilon - epsilon), tabled_epsilon))
    return table_of(_tabled_weights(design, at), design.states, epsilon)


@cache
def _tabled_weights(design: Design, epsilon: Decimal) -> dict[int, int]:
    """The weights of all patterns, not of one per class."""
    known = tabled()[design_name(replace(design, mean=abs(design.mean)))][epsilon]
    group = moves(design.levels, design.keys, design.turns)
    weights = {pattern: weight for first, weight in known for pattern in orbit(first, group)}
    if design.mean < 0:
        # Moves begin with the keys in their order; the last of these reverses every key.
        reverse = moves(design.levels, design.keys, True)[2**design.keys - 1]
        weights = {image_of(pattern, reverse): weight for pattern, weight in weights.items()}
    return weights


def design_name(design: Design) -> str:
    """The name of a design in the table."""
    parts = [f"{design.keys}x{design.levels}", text(design.frequency)]
    if design.levels > 1:
        parts += [text(design.spread), text(design.mean), text(design.weight)]
    return " ".join(parts)


@cache
def tabled() -> Solutions:
    """One pattern of each class with its weight, by design and epsilon."""
    return shipped("optimal_values.json", "designs")


# -- what a planner looks at -----------------------------------------------------------------------

SHARES = ("0.25", "0.5", "0.75", "1")
"""The candidate shares of a blend from KVUE to BiSample."""

BLENDED = Decimal(2)
"""Above this epsilon no blend is better than the optimal channels."""


def candidates(epsilon: Decimal, prior: Prior | None = None) -> list[tuple[str, dict[str, Any]]]:
    """Candidate mechanisms and parameters for frequency and mean of single keys.

    With a prior, only designs with the nearest spread and mean are listed, at all frequencies. That is a
    third of them, and almost nothing is lost.
    """
    mechanisms: list[tuple[str, dict[str, Any]]] = [("kvue", {})]
    if epsilon <= BLENDED:
        mechanisms += [("blend", {"share": share}) for share in SHARES]
    if epsilon >= 1:
        mechanisms += [("graded", {"levels": levels}) for levels in range(3, 10)]
    for design in _near(prior):
        parameters = {"frequency": text(design.frequency)}
        if design.levels > 1:
            parameters |= {"spread": text(design.spread), "mean": text(design.mean)}
            parameters |= {"weight": text(design.weight)}
        if design.keys == 1:
            mechanisms.append(("optimal", parameters))
        elif epsilon >= SMALLEST_OF_SEVERAL:
            name = "several" if design.levels > 1 else "several_rr"
            sizes = {"keys": design.keys} if design.levels == 1 else {}
            mechanisms.append((name, {**parameters, **sizes}))
    if epsilon >= 4:
        key_levels = [(2, 3), (2, 5), (2, 9), (3, 2), (3, 3), (3, 4), (4, 2)]
        mechanisms += [("several", {"keys": k, "levels": g, "channel": "grr"}) for k, g in key_levels]
        mechanisms += [("several_rr", {"keys": keys}) for keys in (4, 5, 6)]
    return mechanisms


def _near(prior: Prior | None) -> Iterator[Design]:
    """The tabled designs, including means below zero, or those near a prior."""
    signed = [replace(d, mean=m) for d in designs() for m in dict.fromkeys((d.mean, -d.mean))]
    if prior is None:
        yield from signed
        return
    weight = prior.count * prior.frequency
    weight = weight / weight.sum() if weight.sum() > 0 else prior.weight
    mean, spread = float(weight @ prior.mean), float(weight @ prior.spread)
    middle = min({d.mean for d in signed}, key=lambda value: (abs(float(value) - mean), value))
    apart = min(map(Decimal, SPREADS), key=lambda value: (abs(float(value) - spread), value))
    for design in signed:
        if design.levels == 1 or (design.mean == middle and design.spread == apart):
            yield design


# -- making the table ------------------------------------------------------------------------------


def _line(design: Design) -> str:
    """One design's mixtures, as JSON."""
    group = moves(design.levels, design.keys, design.turns)
    known = {}
    for epsilon in map(Decimal, EPSILONS):
        if design.keys > 1 and epsilon < SMALLEST_OF_SEVERAL:
            continue
        weights = _mixture(epsilon, design)
        known[text(epsilon)] = [[p, weights[p]] for p, *_ in classes_of(weights, group)]
    return f"  {json.dumps(design_name(design))}: {json.dumps(known, separators=(',', ':'))}"


def main() -> None:
    """Solve for the whole grid and write the table next to this module."""
    lines = [_line(design) for design in designs()]
    whole = '{"designs": {\n' + ",\n".join(lines) + "\n}}\n"
    Path(__file__).with_name("optimal_values.json").write_text(whole, "utf-8")


if __name__ == "__main__":
    main()
