"""Counts of cells, signs, items and keys in a tally, with the limits of honest reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ...channel.honest_limits import HonestLimits
from ...channel.shapes.seed_pool import pool_of
from ...foundation.arrays import Floats
from ...foundation.tails import below, exponential_bound
from ...plan.plan import Plan
from ...plan.tally import Tally
from .pool_limits import either_sign, least_of_items, odd_sets


def view_name(plan: Plan, view: int) -> str:
    keys = plan.views.keys[view]
    if len(keys) > 1 and len(keys) == len(plan.schema.keys):
        return "all keys"
    return " + ".join(plan.schema.keys[key] for key in keys)


@dataclass(frozen=True)
class Occurrences:
    """Counts of events among ``reports`` reports, and the limits of their probabilities.

    All arrays have one entry per name.
    """

    names: list[str]
    counts: Floats
    reports: Floats
    least: Floats
    most: Floats

    @property
    def two_sided(self) -> Floats:
        """The counts ``(names, 2)`` of reports with and without each event."""
        return np.stack([self.counts, self.reports - self.counts], axis=1)

    @classmethod
    def of(cls, names: list[str], limits: HonestLimits, reports: float) -> Occurrences:
        """Occurrences with one number of reports for all events."""
        many = np.full(len(names), float(reports))
        return cls(names, limits.counts, many, limits.least, limits.most)


def cell_occurrences(plan: Plan, tally: Tally) -> Iterator[Occurrences]:
    """Cells, symbols of positions, signs and items of each view, with the channel's limits."""
    for number, channel in enumerate(plan.channels):
        for view in plan.views_of(number):
            n, cells = tally.view_counts(view)
            counts = cells.astype(np.float64)
            if plan.encoding.speaks_of_sets:
                limits = _item_limits(plan, counts)
            else:
                limits = channel.limits(counts, plan.encoding.largest_chance(plan.cap))
            if limits is not None:
                yield Occurrences.of(_names(plan, view_name(plan, view), limits), limits, n)


def _names(plan: Plan, view: str, limits: HonestLimits) -> list[str]:
    """The name of each event: the key of a sign or an item, or else the view of a cell."""
    encoding, keys = plan.encoding, plan.schema.keys
    if encoding.speaks_of_sets:
        return [key for key in keys for _ in (0, 1)]
    if encoding.state_kind == "signs":
        return list(keys)
    if limits.states is None or not encoding.keyless:
        return [view] * len(limits.counts)
    named = {state: key for place, key in enumerate(keys) for state in encoding.key_states(place)}
    return [named.get(state, encoding.keyless) for state in limits.states]


def _item_limits(plan: Plan, counts: Floats) -> HonestLimits | None:
    """How often the cell of each signed key is named, summed over all seeds, with its limits."""
    channel, keys = pool_of(plan.channels[0]), len(plan.schema.keys)
    limits, least = channel.item_limits(counts, np.arange(2 * keys)), None
    if limits is not None:
        least = least_of_items(channel, keys, plan.cap)
    return limits if limits is None or least is None else replace(limits, least=least)


def key_occurrences(plan: Plan, tally: Tally) -> Occurrences | None:
    """How often each key occurs with either sign, with its limits; None if the plan has no such limits.

    Each sign may stay within its limits although both together say that more people hold the key than
    there are. A report names a key or does not, so these are counts of coins like the others.
    """
    channel, keys = plan.channels[0], list(plan.schema.keys)
    n, cells = tally.view_counts(0)
    counts = cells.astype(np.float64)
    if plan.encoding.speaks_of_sets:
        limits = either_sign(pool_of(channel), len(keys), plan.cap, counts)
        return None if limits is None else Occurrences.of(keys, limits, n)
    if not plan.encoding.dummies(plan.cap):
        return None
    groups = channel.group_limits(counts, plan.encoding.largest_chance(plan.cap), 2)
    if groups is None:
        return None
    rows = np.arange(len(keys))
    named, least, most = groups.counts[rows], groups.least[rows], groups.most[rows]
    # All keys together: the reports that name no dummy, at least from a record of dummies alone.
    outside = channel.outside_limits(2 * plan.cap)
    if outside is not None:
        keys, named = [*keys, "all keys"], np.append(named, named.sum())
        least, most = np.append(least, outside[0]), np.append(most, outside[1])
    return Occurrences.of(keys, HonestLimits(named, least, most), n)


FLOORS = (0.0, 1.0, 2.0)
"""Thresholds of a shortage, in standard errors below the least expected count."""
_DEEP, _FINE = 40.0, 0.01
"""Largest shortage and bin width of its law, in standard errors."""


def many_below(counts: Floats, n: float, least: float, start: float) -> float:
    """An upper bound on the probability that many counts together are so far below their minimum.

    Everyone names every item with probability ``least`` or more. Fakes who name one item take reports
    from all others, too few from each to show there alone. The statistic sums over counts the shortage
    in standard errors beyond ``start``. A report raises one count, so counts are negatively associated
    (Joag-Dev and Proschan 1983), and the exponential moment of the sum is at most the product of
    theirs. A shortage is convex in its count, so it is largest if everyone has probability ``least``
    (Hoeffding 1956).
    """
    error = float(np.sqrt(n * least * (1 - least)))
    total = float(np.maximum((n * least - counts) / error - start, 0.0).sum())
    chances, shortages = _shortages(n, least, start)

    def exponent(tilt: float) -> float:
        return len(counts) * float(np.log1p(chances @ np.expm1(tilt * shortages))) - tilt * total

    return float(exponential_bound(exponent, 0.0, 8.0, 60))


@lru_cache(maxsize=16)
def _shortages(n: float, least: float, start: float) -> tuple[Floats, Floats]:
    """The law of a count's shortage beyond ``start``: the probability and the upper end of each bin."""
    error = float(np.sqrt(n * least * (1 - least)))
    edges = np.arange(start, _DEEP, _FINE)
    tail = np.append(below(n * least - edges * error, n, least), 0.0)
    return tail[:-1] - tail[1:], edges + _FINE - start


def set_chances(plan: Plan, tally: Tally) -> Iterator[tuple[str, float]]:
    """P-values by name for the keys of a hash pool.

    They test for a mass above its frequency, and for more held keys in all than people may hold.
    """
    channel = plan.channels[0]
    if plan.encoding.speaks_of_sets:
        n, cells = tally.view_counts(0)
        grid = cells.astype(np.float64).reshape(channel.seeds, -1)
        yield from odd_sets(channel, list(plan.schema.keys), plan.cap, float(n), grid)
