"""How often something may be met in honest reports, whatever people hold: cells, signs, items, keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ...channel import Channel
from ...channel.honest_limits import HonestLimits
from ...channel.seed_pool import pool_of
from ...foundation.arrays import Floats
from ...foundation.tails import below
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
    """How often something is met in so many reports, and the least and most often it may be."""

    names: list[str]
    counts: Floats
    reports: Floats
    least: Floats
    most: Floats

    @classmethod
    def of(cls, names: list[str], limits: HonestLimits, reports: float) -> Occurrences:
        """The same number of reports for all of them."""
        many = np.full(len(names), float(reports))
        return cls(names, limits.counts, many, limits.least, limits.most)


def cell_occurrences(plan: Plan, tally: Tally) -> Iterator[Occurrences]:
    """Cells, positions' symbols, signs and items, each with the channel's limits."""
    for number, channel in enumerate(plan.channels):
        for view in plan.views_of(number):
            n, cells = tally.view_counts(view)
            made = _view_occurrences(plan, channel, view_name(plan, view), n, cells.astype(np.float64))
            if made is not None:
                yield made


def _view_occurrences(
    plan: Plan, channel: Channel, name: str, n: int, cells: Floats
) -> Occurrences | None:
    if plan.encoding.speaks_of_sets:
        return _item_occurrences(plan, n, cells)
    limits = channel.limits(cells, plan.encoding.largest_chance(plan.cap))
    return None if limits is None else Occurrences.of(_names(plan, name, limits), limits, n)


def _names(plan: Plan, view: str, limits: HonestLimits) -> list[str]:
    """What the limits are about: signs, the keys of items, or else cells of the view."""
    encoding, keys = plan.encoding, plan.schema.keys
    if encoding.state_kind == "signs":
        return list(keys)
    if limits.states is None or not encoding.keyless:
        return [view] * len(limits.counts)
    named = {state: key for place, key in enumerate(keys) for state in encoding.key_states(place)}
    return [named.get(state, encoding.keyless) for state in limits.states]


def _item_occurrences(plan: Plan, n: int, cells: Floats) -> Occurrences | None:
    """How often the cell of each signed key is named, over all seeds."""
    channel, keys = pool_of(plan.channels[0]), plan.schema.keys
    limits = channel.item_limits(cells, np.arange(2 * len(keys)))
    if limits is None:
        return None
    least = least_of_items(channel, len(keys), plan.cap)
    if least is not None:
        limits = replace(limits, least=least)
    return Occurrences.of([key for key in keys for _ in (0, 1)], limits, n)


def key_occurrences(plan: Plan, tally: Tally) -> Occurrences | None:
    """How often each key is met by either sign, and the least and most often it may be.

    Signs may each stay within their limits where both together say that more than everyone holds the
    key. A report meets a key or does not, so these are counts of coins like the others.
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
    met, least, most = groups.counts[rows], groups.least[rows], groups.most[rows]
    # All keys together: what no dummy gets, and what a record that is all dummies leaves them.
    outside = channel.outside_limits(2 * plan.cap)
    if outside is not None:
        keys, met = [*keys, "all keys"], np.append(met, met.sum())
        least, most = np.append(least, outside[0]), np.append(most, outside[1])
    return Occurrences.of(keys, HonestLimits(met, least, most), n)


FLOORS = (0.0, 1.0, 2.0)
"""Standard errors below the least count from which on a shortage counts."""
_DEEP, _FINE = 40.0, 0.01
"""How far below the least count is looked at, and in which steps, in standard errors."""


def many_below(counts: Floats, n: float, least: float, start: float) -> float:
    """A bound on the chance that many counts lie so far below what nobody's items would have.

    Every item is named with a chance of ``least`` or more, by anyone. Fakes who name one item take from
    all others, each by too little to be seen alone. The statistic is the sum of how many standard errors
    each count lacks, beyond ``start``. Counts of which one report raises one are negatively associated
    (Joag-Dev and Proschan 1983), so the sum's exponential moment is at most the product of theirs; and
    each lacks most where its chance is ``least`` for everyone (Hoeffding 1956: it is convex in a count).
    """
    error = float(np.sqrt(n * least * (1 - least)))
    total = float(np.maximum((n * least - counts) / error - start, 0.0).sum())
    part, lacks = _shortages(n, least, start)

    def exponent(tilt: float) -> float:
        return len(counts) * float(np.log1p(part @ np.expm1(tilt * lacks))) - tilt * total

    low, high = 0.0, 8.0
    for _ in range(60):  # it is convex in the tilt
        one, two = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, two) if exponent(one) < exponent(two) else (one, high)
    return float(np.exp(min(0.0, max(-700.0, exponent((low + high) / 2)))))


@lru_cache(maxsize=16)
def _shortages(n: float, least: float, start: float) -> tuple[Floats, Floats]:
    """The chances of a count's shortages beyond ``start``, in bins, and the deep end of each bin."""
    error = float(np.sqrt(n * least * (1 - least)))
    edges = np.arange(start, _DEEP, _FINE)
    tail = np.append(below(n * least - edges * error, n, least), 0.0)
    return tail[:-1] - tail[1:], edges + _FINE - start


def set_chances(plan: Plan, tally: Tally) -> Iterator[tuple[str, float]]:
    """Of keys in hash pools, each with a bound on its chance: a mass above its frequency, and all keys
    held by more people than each may hold."""
    channel = plan.channels[0]
    if plan.encoding.speaks_of_sets:
        n, cells = tally.view_counts(0)
        grid = cells.astype(np.float64).reshape(channel.seeds, -1)
        yield from odd_sets(channel, list(plan.schema.keys), plan.cap, float(n), grid)
