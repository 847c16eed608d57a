"""How often something may be met in honest reports, whatever people hold: cells, signs, items, keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...channel import (
    Channel,
    CoCo,
    Collision,
    Halfspace,
    Hash,
    Product,
    Subset,
    Symbols,
    Symmetric,
)
from ...foundation.arrays import WORD, Floats
from ...foundation.tails import below
from ...plan.encoding import SETS
from ...plan.plan import Plan
from ...plan.tally import Tally
from .pool_limits import MOST_HASHED, cells_of, coco_limits, collision_limits, one_sided, too_many


def view_name(plan: Plan, view: int) -> str:
    keys = plan.views.keys[view]
    if len(keys) > 1 and len(keys) == len(plan.schema.keys):
        return "all keys"
    return " + ".join(plan.schema.keys[key] for key in keys)


def pool_of(channel: Channel) -> int:
    """How many seeds a channel draws from; 0 if it has none."""
    return channel.pool if isinstance(channel, Hash | Collision | CoCo) else 0


@dataclass(frozen=True)
class Met:
    """How often something is met in so many reports, and the least and most often it may be."""

    names: list[str]
    counts: Floats
    reports: Floats
    least: Floats
    most: Floats


def met_cells(plan: Plan, tally: Tally) -> Iterator[Met]:
    """Cells, positions' symbols, signs and items, each with the channel's limits."""
    for number, channel in enumerate(plan.channels):
        for view in plan.views_of(number):
            n, cells = tally.view_counts(view)
            made = _met_in(plan, channel, view_name(plan, view), n, cells.astype(np.float64))
            if made is not None:
                yield made


def _met_in(plan: Plan, channel: Channel, name: str, n: int, cells: Floats) -> Met | None:
    def made(names: list[str], counts: Floats, least: Any, most: Any) -> Met:
        shape = (len(counts),)
        low, high = (np.broadcast_to(np.asarray(end, np.float64), shape) for end in (least, most))
        return Met(names, counts, np.full(shape, float(n)), low, high)

    keys = plan.schema.keys
    if isinstance(channel, Halfspace):
        marks = cells @ channel._vectors() if channel.one_cell else cells
        return made(list(keys), marks, (1 - channel.pull) / 2, (1 + channel.pull) / 2)
    if pool_of(channel):
        return _met_items(plan, channel, n, cells)
    if isinstance(channel, Symbols) and not channel.one_cell:
        law = np.array(channel.laws, np.float64)[:, 1:] / WORD
        law = law[0] + most_drawn(plan) * (law - law[0])
        low, high = (np.tile(end, channel.positions) for end in (law.min(axis=0), law.max(axis=0)))
        return made(_cell_names(plan, channel, name), cells, low, high)
    if isinstance(channel, Subset) and not channel.one_cell:
        show = channel.show / WORD
        fake = (channel.size - show) / (channel.states - 1)
        # The sampler's own rounding is below a millionth of a share.
        return made([name] * len(cells), cells, min(show, fake) - 1e-6, max(show, fake) + 1e-6)
    if isinstance(channel, Symmetric):
        lie = (channel.lie + bool(channel.rest)) / WORD
        most = lie + most_drawn(plan) * max(channel.keep / WORD - lie, 0.0)
        return made(_cell_names(plan, channel, name), cells, channel.lie / WORD, most)
    if isinstance(channel, Product) or not channel.one_cell:
        return None  # a product's digits are each looked at as a mixture
    rows = channel.expected()
    return made([name] * len(cells), cells, rows.min(axis=0), rows.max(axis=0))


def most_drawn(plan: Plan) -> float:
    """The chance, at most, that a report is about one key: one in the length of padded ones."""
    return -(-WORD // plan.cap) / WORD if plan.encode == "padded" else 1.0


def _cell_names(plan: Plan, channel: Channel, view: str) -> list[str]:
    """What each cell stands for: its view, or where a report names one item, the item's key."""
    keys = plan.schema.keys
    if plan.encode not in ("item", "padded") or not isinstance(channel, Symbols | Symmetric):
        return [view] * channel.cells
    first = ["no key"] if plan.encode == "item" and isinstance(channel, Symmetric) else []
    per = (channel.cells - len(first)) // (channel.states // 2 if plan.encode == "padded" else len(keys))
    named = [*first, *(key for key in keys for _ in range(per))]
    return named + ["a dummy key"] * (channel.cells - len(named))


def _met_items(plan: Plan, channel: Channel, n: int, cells: Floats) -> Met | None:
    """How often the cell of each item is named, over all seeds."""
    keys, limits = plan.schema.keys, None
    grid = cells.reshape(pool_of(channel), -1)
    if isinstance(channel, Hash):
        law = channel.inner.expected()
        names, count, of = list(keys), len(keys), (float(law.min()), float(law.max()))
    else:
        assert isinstance(channel, Collision | CoCo)
        proof = channel.proof()
        names, count = [key for key in keys for _ in (0, 1)], 2 * len(keys)
        of = (proof.denominator / WORD, max(channel.high, proof.numerator) / WORD)
        if isinstance(channel, Collision):
            limits = collision_limits(channel, plan.encode, len(keys), plan.cap)
    if count * len(grid) > MOST_HASHED:
        return None
    named = np.zeros(count)
    step = max(1, (1 << 22) // len(grid))
    seeds = np.arange(len(grid))[:, None]
    for first in range(0, count, step):
        items = np.arange(first, min(first + step, count))
        at = channel.hashes[:, items] if isinstance(channel, Hash) else cells_of(channel, items)
        named[items] = grid[seeds, at].sum(axis=0)
    least = np.full(count, of[0]) if limits is None else limits.item
    return Met(names, named, np.full(count, float(n)), least, np.full(count, of[1]))


def met_keys(plan: Plan, tally: Tally) -> Met | None:
    """How often each key is met by either sign, and the least and most often it may be.

    Signs may each stay within their limits where both together say that more than everyone holds the
    key. A report meets a key or does not, so these are counts of coins like the others.
    """
    channel, keys = plan.channels[0], plan.schema.keys
    if plan.encode not in ("padded", *SETS) or len(plan.views) > 1:
        return None
    n, cells = tally.view_counts(0)
    counts = cells.astype(np.float64)
    if plan.encode in SETS:
        found = both_signs(channel, plan.encode, len(keys), plan.cap, counts)
        if found is None:
            return None
        met, least, most = found
        return Met(list(keys), met, np.full(len(keys), float(n)), least, most)
    drawn, rows = most_drawn(plan), len(keys)
    names = [*keys, "all keys"]
    if isinstance(channel, Symmetric):
        signs = counts.reshape(-1, 2)[:rows].sum(axis=1)
        keep, lie = channel.keep / WORD, channel.lie / WORD
        lie_ = (channel.lie + bool(channel.rest)) / WORD
        own = 2 * lie_ + drawn * max(keep - lie_, 0.0)
        # Of all keys together: what no dummy gets, and what a record that is all dummies leaves them.
        ends = max(0.0, 1.0 - keep - (2 * plan.cap - 1) * lie_), 1.0 - 2 * plan.cap * lie
        low, high = np.full(rows + 1, 2 * lie), np.full(rows + 1, own)
        low[-1], high[-1] = ends
        met = np.append(signs, signs.sum())
        return Met(names, met, np.full(rows + 1, float(n)), low, high)
    if not isinstance(channel, Symbols) or channel.alphabet < 3:
        return None
    if channel.one_cell:
        counts = counts @ channel.shown
    marked = counts.reshape(channel.positions, -1)[:rows].sum(axis=1)
    law = 1.0 - np.array(channel.laws, np.float64)[:, 0] / WORD
    law = law[0] + drawn * (law - law[0])
    low, high = np.full(rows, law.min()), np.full(rows, law.max())
    return Met(list(keys), marked, np.full(rows, float(n)), low, high)


def both_signs(
    channel: Channel, encode: str, keys: int, cap: int, counts: Floats
) -> tuple[Floats, Floats, Floats] | None:
    """Of a pool's keys: how often the cell of either sign is named, the least and the most."""
    pool = pool_of(channel)
    if not isinstance(channel, Collision | CoCo) or 2 * keys * pool > MOST_HASHED:
        return None
    if isinstance(channel, Collision):
        limits = collision_limits(channel, encode, keys, cap)
        if limits is None:
            return None
        least, most = limits.least, limits.most
    else:
        # A pair of cells that is claimed has exactly high + low; another one what is left, twice.
        left = [channel.left(claimed) for claimed in range(channel.held + 1)]
        pair = channel.high + channel.low
        least = np.full(keys, min(pair, *(2 * weight for weight, _ in left)) / WORD)
        most = np.full(keys, max(pair, *(2 * (weight + bool(rest)) for weight, rest in left)) / WORD)
    at = cells_of(channel, np.arange(2 * keys))
    low, high = at[:, ::2], at[:, 1::2]
    grid, seeds = counts.reshape(pool, -1), np.arange(pool)[:, None]
    met = grid[seeds, high].sum(axis=0) + np.where(low != high, grid[seeds, low], 0.0).sum(axis=0)
    return met, least, most


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


def met_sets(plan: Plan, tally: Tally) -> Iterator[tuple[str, float]]:
    """Of keys in hash pools, each with a bound on its chance: a mass above its frequency, and all keys
    held by more people than each may hold."""
    channel, keys = plan.channels[0], plan.schema.keys
    n, cells = tally.view_counts(0)
    grid = cells.astype(np.float64).reshape(pool_of(channel) or 1, -1)
    if isinstance(channel, CoCo) and 2 * len(keys) * channel.pool <= MOST_HASHED:
        mirrored = coco_limits(channel, len(keys))
        if mirrored is not None:
            at = cells_of(channel, np.arange(2 * len(keys)))
            signs = grid[np.arange(channel.pool)[:, None], at].sum(axis=0).reshape(-1, 2)
            p_values = one_sided(channel, mirrored, float(n), signs)
            yield from zip([key for key in keys for _ in (0, 1)], p_values.ravel().tolist(), strict=True)
    if isinstance(channel, Collision) and plan.encode == "items":
        limits = collision_limits(channel, plan.encode, len(keys), plan.cap)
        if limits is not None:
            yield "all keys", too_many(channel, len(keys), grid, limits)
