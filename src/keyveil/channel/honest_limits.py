"""What honest reports can add up to: counts of events, and the limits of their probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..foundation.arrays import Floats, Integers


@dataclass(frozen=True)
class HonestLimits:
    """Counts of events in reports, and the range of the probability of each in an honest report.

    An event is a marked cell, a named item or a shown symbol. All arrays have one entry per event.
    """

    counts: Floats
    least: Floats
    most: Floats
    states: Integers | None = None
    """The state that each event stands for; None if events stand for no single state."""

    @classmethod
    def of(
        cls, counts: Floats, least: Floats | float, most: Floats | float, states: Integers | None = None
    ) -> HonestLimits:
        """The limits from ends that are arrays, or one number for all events."""
        low, high = (np.broadcast_to(np.asarray(end, np.float64), counts.shape) for end in (least, most))
        return cls(counts, low, high, states)


@dataclass(frozen=True)
class MarkTotal:
    """The number of marks of one kind in a tally, and what an honest report adds to it.

    In an honest report ``others`` positions show the mark with probability ``background`` each, and
    one more position shows it with a probability between ``least`` and ``most``.
    """

    total: int
    others: int
    background: float
    least: float
    most: float
