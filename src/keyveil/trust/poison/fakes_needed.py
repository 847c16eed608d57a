"""The number of fakes that it takes to shift an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, isfinite, nan
from typing import Any

import numpy as np

from ...estimate.decoding import decoding_of, moments_of
from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ...people.prior import Prior
from ...people.prior_laws import value_law
from ...plan.plan import Plan
from ...plan.tally import Tally
from .attack import COLUMN, FREQUENCY, MEAN, Attack, Scene, finite, ratio

MOST_SHARE = 0.5
"""The largest share of fakes that is considered."""
LEAST_SHARE = 1e-15
MOST_GUESSES = 180
"""Maximum number of guesses. A third of them halve the bracket, so it ends below ``LEAST_SHARE``."""


@dataclass(frozen=True)
class Needed:
    """The number of fakes that shift an answer by a given amount."""

    key: str
    goal: str
    by: float
    """The shift; on the key's own scale for a mean."""
    share: float
    """The fakes as a share of all clients; infinite if no number is enough."""
    fakes: float
    """The number of fakes for the given number of honest people."""

    def document(self) -> dict[str, Any]:
        """As JSON, null for what is out of reach."""
        return {name: finite(value) for name, value in self.__dict__.items()}


def fakes_needed(
    plan: Plan,
    target: str,
    goal: str = "raise-frequency",
    *,
    people: float = 1e6,
    by: float | None = None,
    tally: Tally | None = None,
    frequency: float = FREQUENCY,
    mean: float = MEAN,
    seeds: str = "chosen",
    views: str = "chosen",
) -> Needed:
    """The number of crafted fakes that shift one key's answer by ``by``, or by its standard error."""
    attack = Attack(0.0, goal, "crafted", seeds, views).checked(plan)
    place = plan.schema.place(target)
    scene = Scene(plan, [place], tally, frequency, mean)
    honest = float(tally.reports) if tally is not None else float(people)
    scale = 1.0
    if attack.part(plan) == "mean":
        scale = float(plan.schema.high[place] - plan.schema.low[place]) / 2
    wanted = by
    if wanted is None:
        wanted = scale * standard_error(plan, place, goal, honest, tally, frequency, mean)
    if not wanted > 0:
        raise PlanError("an answer is moved by more than nothing, and so far its error is unknown")

    def shift(share: float) -> float:
        after = scene.after(attack._replace(share=share))[0]
        first, last = (_asked(attack.part(plan), values) for values in (scene.before[0], after))
        return abs(last - first) * scale if isfinite(last - first) else inf

    most = shift(MOST_SHARE)
    if most < wanted:
        return Needed(plan.schema.keys[place], goal, wanted, inf, inf)
    share = _least_share(shift, wanted, most, 1e-6 if scene.pooled is None else 1e-3)
    return Needed(plan.schema.keys[place], goal, wanted, share, honest * share / (1 - share))


def _least_share(shift: Callable[[float], float], wanted: float, most: float, digits: float) -> float:
    """The least share of fakes whose shift is ``wanted``, to a relative error of ``digits``.

    The shift is nearly proportional to small shares. So the search tries the line through the ends of
    the bracket first, then a share next to it, then the middle, which bounds the number of guesses.
    """
    low, high, below, above, guess = 0.0, MOST_SHARE, 0.0, most, MOST_SHARE
    for number in range(MOST_GUESSES):
        if high - low <= digits * high or high <= LEAST_SHARE:
            break
        middle = (low + high) / 2
        if number % 3 == 0 and isfinite(above):
            middle = low + (high - low) * (wanted - below) / (above - below)
        elif number % 3 == 1:
            middle = (1 - 0.9 * digits) * high if guess == high else (1 + 0.9 * digits) * low
        guess = min(max(middle, low + digits * high / 10), high - digits * high / 10)
        reached = shift(guess)
        if reached >= wanted:
            high, above = guess, reached
        else:
            low, below = guess, reached
    return high


def _asked(part: str, values: Floats) -> float:
    """One part of a key's answers, on [-1, 1]."""
    if part == "mean":
        return float(np.clip(ratio(values), -1.0, 1.0))
    return float(values[COLUMN[part]])


def standard_error(
    plan: Plan,
    place: int,
    goal: str,
    people: float,
    tally: Tally | None = None,
    frequency: float = FREQUENCY,
    mean: float = MEAN,
) -> float:
    """The standard error of a goal's answer, on [-1, 1]: the tally's, or forecast for ``people``."""
    if tally is not None:
        moments = moments_of(plan, tally.counts)
        values, spread = moments.values[place], moments.covariance[place]
    else:
        keys = len(plan.schema.keys)
        plain = Prior.of(keys, held=max(frequency, 1e-6) * keys)
        prior = replace(
            plain,
            count=np.array([float(keys)]),
            frequency=np.array([frequency]),
            values=value_law(min(max(mean, -0.99), 0.99), 0.5)[None, :],
        )
        spread = decoding_of(plan).forecast(plan, people, prior).covariance[0]
        values = np.array([frequency, frequency * mean])
    part = Attack(0.0, goal).part(plan)
    if part != "mean":
        return float(np.sqrt(spread[COLUMN[part], COLUMN[part]]))
    if not values[0] > 0:
        return nan
    ratio = values[1] / values[0]
    variance = spread[1, 1] - 2 * ratio * spread[0, 1] + ratio**2 * spread[0, 0]
    return float(np.sqrt(max(variance, 0.0)) / values[0])
