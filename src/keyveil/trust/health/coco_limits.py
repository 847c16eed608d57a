"""Limits of ``coco`` pools: how often an honest person can name the pair of cells of a key.

Cells come in mirrored pairs. A claimed pair has the probability high + low, whoever claims
it, and its cells differ by at most high - low. Other keys fall into the pair with either sign, which
nearly cancels over seeds. Everyone claims ``held`` pairs; dummies are drawn evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...channel.shapes.coco_channel import CoCo
from ...foundation.arrays import WORD, Floats
from ...foundation.tails import exponential_bound
from .collision_limits import MOST_TRIPLED, ROUNDED, largest_sums, least_there, two_in


@dataclass(frozen=True)
class Mirrored:
    """CoCo's limits from people who do not hold a key, one entry per key.

    ``least`` is the least share of the key's pair of cells, ``apart`` the largest difference of the two.
    """

    least: Floats
    apart: Floats


@lru_cache(maxsize=4)
def coco_limits(channel: CoCo, keys: int) -> Mirrored | None:
    """The limits of each key's pair of cells from people without the key; None if keys are too many."""
    pool, held, half = channel.pool, channel.held, channel.small // 2
    if keys**3 * pool > MOST_TRIPLED:
        return None
    words = channel.words_under(np.arange(keys)).T
    cell = (words >> np.uint64(32)).astype(np.int64)
    free = 1.0 - (words & np.uint64(WORD - 1)).astype(np.float64) / WORD / half
    pair, upper = np.ascontiguousarray((cell % half).astype(np.int32)), cell >= half
    claimed = (channel.high + channel.low) / WORD
    left = min(claimed, *(2 * weight / WORD for weight, _ in map(channel.left, range(held + 1))))
    dummies = held - np.arange(held + 1)
    least, apart = np.empty(keys), np.empty(keys)
    for key in range(keys):
        same = pair == pair[key]
        halves = two_in(same, key, held, 1)
        there = least_there(same.mean(axis=1), halves, key, 1)
        nobody = (1.0 - there) * (1.0 - 1.0 / half) ** dummies
        least[key] = (claimed - nobody * (claimed - left)).min()
        same[key] = False
        who, seeds = np.nonzero(same)
        sign = np.where(upper[who, seeds] == upper[key, seeds], 1.0, -1.0)
        lent = 0.0
        for count, others in enumerate(dummies.tolist()):
            shift = np.abs(np.bincount(who, sign * free[who, seeds] ** others, keys)) / pool
            lent = max(lent, float(largest_sums(shift + halves[:, count], count)[count]))
        apart[key] = min(lent, 1.0)
    return Mirrored(least - ROUNDED, apart * (channel.high - channel.low) / WORD + ROUNDED)


def one_sided(channel: CoCo, limits: Mirrored, n: float, signs: Floats) -> Floats:
    """P-values ``(keys, 2)`` of an excess of a key's low cell over its high cell, and the reverse.

    ``signs`` holds the counts of each key's low and high cell. For holders of the key the two have a sum
    of high + low and a difference of at most high - low. For others the sum may be smaller and the
    difference is small. A point beyond the line between the two is a mass above its frequency. The bound
    is Chernoff's: the expectation of exp(tilt ...) is linear in the law, so it is largest at a corner.
    """
    claimed, apart = (channel.high + channel.low) / WORD, (channel.high - channel.low) / WORD
    sums = np.stack([limits.least, limits.least, *(np.full_like(limits.least, claimed),) * 2])
    held = np.full_like(limits.least, apart)
    unlike = np.stack([limits.apart, -limits.apart, held, -held])
    slope = (apart - limits.apart) / np.maximum(claimed - limits.least, 1e-12)
    chances = []
    for this, other in ((signs[:, 0], signs[:, 1]), (signs[:, 1], signs[:, 0])):
        total = this - other - slope * (this + other)

        def exponent(tilt: Floats, total: Floats = total) -> Floats:
            up, down = np.expm1(tilt * (1 - slope)), np.expm1(-tilt * (1 + slope))
            grown = ((sums + unlike) / 2 * up + (sums - unlike) / 2 * down).max(axis=0)
            return np.asarray(n * np.log1p(grown) - tilt * total)

        chances.append(exponential_bound(exponent, np.zeros(len(slope)), np.full(len(slope), 8.0), 100))
    return np.stack(chances, axis=1)
