"""Estimators on arrays of tallies, and conversions between answers and arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..foundation.arrays import Floats, Integers
from .answer import Answers, Band, Estimate, KeyAnswer, KeyBands, as_wide_as_interval, shifted

if TYPE_CHECKING:
    from ..plan.plan import Plan
    from ..plan.tally import Tally
    from .cap_correction import CapCorrection

Make = Callable[["Plan", Integers, float], KeyBands]
"""Turns counts ``(..., cells)`` into bands ``(..., keys)`` at a level."""


@dataclass(frozen=True)
class ArrayEstimator:
    """An estimator on arrays of counts, which also answers for a single tally."""

    name: str
    make: Make
    note: str = ""
    """What a reader of these answers must know, in addition to the note of the mechanism."""

    def bands(self, plan: Plan, counts: Integers, level: float) -> KeyBands:
        """Bands of every key for every tally along the leading axes of ``counts``."""
        return self.make(plan, counts, level)

    def __call__(self, plan: Plan, tally: Tally, level: float) -> Answers:
        """The answers from one tally."""
        keys = answers_from(plan, self.make(plan, tally.counts, level))
        return answers_of(plan, keys, self.name, level, self.note)


def on_arrays(name: str, note: str = "") -> Callable[[Make], ArrayEstimator]:
    """A decorator that turns a function from counts to bands into an estimator."""

    def wrapped(make: Make) -> ArrayEstimator:
        return ArrayEstimator(name, make, note)

    return wrapped


def answers_of(
    plan: Plan,
    keys: tuple[KeyAnswer, ...],
    estimator: str,
    level: float,
    note: str = "",
    caps: CapCorrection | None = None,
) -> Answers:
    """Answers with the name and note of the plan's mechanism, and the name and note of the estimator.

    If they are corrected for what ``caps`` leave out, the notes of mechanisms with a cap are left out.
    """
    own = [plan.mechanism.note] if caps is None else uncapped_notes(plan)
    notes = "; ".join(part for part in (*own, note) if part)
    return Answers(keys, plan.mechanism_name, estimator, level, notes)


def uncapped_notes(plan: Plan) -> list[str]:
    """The notes of the plan's answering mechanisms without a cap."""
    kinds = [own.mechanism for own in plan.part_plans if own.encoding.most_counted(own.cap) is None]
    return list(dict.fromkeys(kind.note for kind in kinds if kind.answers and kind.note))


def on_scale(plan: Plan, place: int, estimate: Estimate) -> Estimate:
    """Converts a mean on [-1, 1] to the scale of its key."""
    return shifted(estimate, float(plan.schema.low[place]), float(plan.schema.high[place]))


def answers_from(plan: Plan, bands: KeyBands, shrunk_at: float | None = None) -> tuple[KeyAnswer, ...]:
    """The answers of every key from the bands of one tally, means on the scales of their keys.

    ``shrunk_at`` is the level of the intervals if values are shrunk.
    """
    answers = []
    for place, key in enumerate(plan.schema.keys):
        n = int(bands.reports[place])
        frequency, mean, mass = (
            None if band is None else band.estimate(place, n)
            for band in (bands.frequency, bands.mean, bands.mass)
        )
        if shrunk_at is not None:
            frequency, mean, mass = (
                None if part is None else as_wide_as_interval(part, shrunk_at)
                for part in (frequency, mean, mass)
            )
        mean = None if mean is None else on_scale(plan, place, mean)
        answers.append(KeyAnswer(key, frequency, mean, mass))
    return tuple(answers)


def bands_from(plan: Plan, answers: list[Answers], shape: tuple[int, ...]) -> KeyBands:
    """Bands ``(*shape, keys)`` from the answers of single tallies, in the order of the tallies."""
    keys = len(plan.schema.keys)
    first = next(iter(answers), None)
    names = [n for n in ("frequency", "mean", "mass") if first and getattr(first.keys[0], n) is not None]
    parts = {}
    for name in names:
        columns = np.array(
            [
                [(e.value, e.stderr, e.low, e.high) for e in (getattr(a, name) for a in tally_answers)]
                for tally_answers in answers
            ]
        ).reshape(*shape, keys, 4)
        parts[name] = Band(*np.moveaxis(columns, -1, 0))
    if "mean" in parts:
        parts["mean"] = _on_unit(parts["mean"], plan.schema.low, plan.schema.high)
    reports = np.array(
        [[getattr(a, names[0]).reports for a in tally_answers] for tally_answers in answers], np.int64
    )
    return KeyBands(reports.reshape(*shape, keys), **parts)


def _on_unit(band: Band, low: Floats, high: Floats) -> Band:
    """Converts means on the scales of their keys to [-1, 1]."""
    half = (high - low) / 2
    ends = ((end - low) / half - 1.0 for end in (band.value, band.low, band.high))
    value, below, above = ends
    return Band(value, band.stderr / half, below, above)
