"""Estimators that work on many tallies at once, and the loop for those that work on one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..foundation.arrays import Floats, Integers
from .answer import Answers, Band, Estimate, KeyAnswer, KeyBands, shifted

if TYPE_CHECKING:
    from ..plan.plan import Plan
    from ..plan.tally import Tally

Make = Callable[["Plan", Integers, float], KeyBands]
"""Turns counts ``(..., cells)`` into bands ``(..., keys)`` at a level."""


@dataclass(frozen=True)
class ArrayEstimator:
    """An estimator that is written once for arrays of counts, and answers for one tally too."""

    name: str
    make: Make
    note: str = ""
    """What a reader of these answers must know, beside the mechanism's own note."""

    def bands(self, plan: Plan, counts: Integers, level: float) -> KeyBands:
        """Bands of every key for every tally along the leading axes of ``counts``."""
        return self.make(plan, counts, level)

    def __call__(self, plan: Plan, tally: Tally, level: float) -> Answers:
        """The answers of one tally."""
        keys = answers_from(plan, self.make(plan, tally.counts, level))
        return answers_of(plan, keys, self.name, level, self.note)


def on_arrays(name: str, note: str = "") -> Callable[[Make], ArrayEstimator]:
    """Makes an estimator of a function from counts to bands."""

    def made(make: Make) -> ArrayEstimator:
        return ArrayEstimator(name, make, note)

    return made


def answers_of(
    plan: Plan, keys: tuple[KeyAnswer, ...], estimator: str, level: float, note: str = ""
) -> Answers:
    """Answers with the plan's mechanism, its note and the estimator's."""
    notes = "; ".join(part for part in (plan.mechanism.note, note) if part)
    return Answers(keys, plan.mechanism_name, estimator, level, notes)


def on_scale(plan: Plan, place: int, estimate: Estimate) -> Estimate:
    """A mean on [-1, 1], on its key's own scale."""
    return shifted(estimate, float(plan.schema.low[place]), float(plan.schema.high[place]))


def answers_from(plan: Plan, bands: KeyBands) -> tuple[KeyAnswer, ...]:
    """The answers of one tally, means on their keys' own scales."""
    answers = []
    for place, key in enumerate(plan.schema.keys):
        n = int(bands.reports[place])
        parts = {"frequency": bands.frequency, "mean": bands.mean, "mass": bands.mass}
        made = {name: band.estimate(place, n) for name, band in parts.items() if band is not None}
        if "mean" in made:
            made["mean"] = on_scale(plan, place, made["mean"])
        answers.append(KeyAnswer(key, **made))
    return tuple(answers)


def bands_from(plan: Plan, answers: list[Answers], shape: tuple[int, ...]) -> KeyBands:
    """The bands of answers that were made one tally at a time, in the tallies' order."""
    keys = len(plan.schema.keys)
    first = next(iter(answers), None)
    named = [n for n in ("frequency", "mean", "mass") if first and getattr(first.keys[0], n) is not None]
    parts = {}
    for name in named:
        made = np.array(
            [
                [(e.value, e.stderr, e.low, e.high) for e in (getattr(a, name) for a in one)]
                for one in answers
            ]
        ).reshape(*shape, keys, 4)
        parts[name] = Band(*np.moveaxis(made, -1, 0))
    if "mean" in parts:
        parts["mean"] = _on_unit(parts["mean"], plan.schema.low, plan.schema.high)
    reports = np.array([[getattr(a, named[0]).reports for a in one] for one in answers], np.int64)
    return KeyBands(reports.reshape(*shape, keys), **parts)


def _on_unit(band: Band, low: Floats, high: Floats) -> Band:
    """Means on their keys' own scales, on [-1, 1]."""
    half = (high - low) / 2
    ends = ((end - low) / half - 1.0 for end in (band.value, band.low, band.high))
    value, below, above = ends
    return Band(value, band.stderr / half, below, above)
