"""Cap correction: frequencies with the keys that a cap left out, and intervals that say what is unknown.

A tally of a mechanism for sets estimates g = f a for every key: f is the frequency, and
a = E[w(h) | the key is held] is the share of its holders' reports that still count (see ``size_law``).
How many keys people hold, the law of h, is known from the size question. It gives the average of a over
all held pairs, but not the a of one key: that depends on how many other keys its holders hold.

*The centre* of a is its value under the law of most entropy with the same sizes and frequencies: people
with h keys hold key k with odds that are proportional to those of its frequency. There a frequent key
has a larger a, since people with few keys hold mostly frequent ones.

*The spread* of a around the centre cannot be learned from a tally. Let s be the standard deviation of
w(h) over the key's holders. Then ``SPREAD`` s is taken as the standard deviation of a. So the key is
taken to explain about ``SPREAD``² of the variance of what a cap keeps of a person. ``python -m
bench.caps --spread`` measures the deviations of real tables. In any case a lies between what the cap
keeps of a person with every key, and 1. So a frequency is never below what the reports say.

The mean of a key is that of the values that count. It differs from the mean over all holders by
Cov(value, w(h)) / a, which is at most the correlation of values and sizes times their standard
deviations. ``SHIFT`` is taken as the standard deviation of that correlation.

Ends of intervals are moved from the value by noise and by both unknowns, in quadrature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..foundation.arrays import Floats
from .answer import Band, KeyBands, quantile
from .size_law import SizeLaw

if TYPE_CHECKING:
    from ..plan.plan import Plan
    from .side import SizeAnswer

SPREAD = 0.2
"""Standard deviation of a key's share that counts, in units of that over its holders."""
SHIFT = 0.1
"""Standard deviation of the correlation between a key's values and what counts of its holders."""
VALUES = 0.5
"""Standard deviation of a key's values, as a share of the largest one that its mean allows."""
ROUNDS = 3
"""Number of times that frequencies and shares that count are computed from each other."""
_STEPS = 12
"""Number of steps in the search for the odds of people in a bucket."""
_BLOCK = 1 << 21
"""Number of array elements processed at once."""


class CountedShare(NamedTuple):
    """The share of a key's holders that counts, ``(..., keys)``."""

    value: Floats
    """The centre."""
    holders: Floats
    """The standard deviation of the share over the holders of the key."""
    log_stderr: Floats
    """The standard error of the logarithm of the centre, from the noise of the size question."""
    least: Floats
    """The least possible share."""

    @property
    def variance(self) -> Floats:
        """The relative variance of what is not known."""
        return np.asarray((SPREAD * self.holders / self.value) ** 2 + self.log_stderr**2)

    def arms(self, reach: float) -> tuple[Floats, Floats]:
        """How far 1 / share may lie below and above 1 / value, times value, at ``reach`` deviations."""
        width = reach * SPREAD * self.holders
        most = np.minimum(self.value + width, 1.0)
        least = np.maximum(self.value - width, np.minimum(self.least, self.value))
        noise = np.expm1(np.minimum(reach * self.log_stderr, 50.0))
        below = np.hypot(1.0 - self.value / most, noise / (1.0 + noise))
        above = np.hypot(self.value / least - 1.0, noise)
        return np.minimum(below, 1.0 - self.value), np.minimum(above, self.value / self.least - 1.0)


@dataclass(frozen=True)
class CapCorrection:
    """What is known about how many keys people hold, for the answers of plans with caps."""

    law: SizeLaw
    count: Floats
    """The number of keys that each answer stands for, ``(keys,)``."""

    @classmethod
    def of(cls, plan: Plan, answer: SizeAnswer, weights: Floats | None) -> CapCorrection | None:
        """The correction of a plan of parts; None if its caps leave nothing out.

        ``weights`` ``(..., parts)`` are the shares of the answering parts in the answers.
        """
        keys = len(plan.schema.keys)
        caps = caps_of(plan)
        if not any(cap is not None and cap < keys for cap in caps):
            return None
        return cls(SizeLaw.of(answer, keys, caps, weights), np.ones(keys))

    def counted_share(self, kept: Floats) -> CountedShare:
        """The share of each key's holders that counts, from kept frequencies ``(..., keys)``."""
        shape = np.shape(kept)
        law = self.law
        rows = np.nan_to_num(kept).reshape(-1, shape[-1])
        buckets = [part.reshape(len(rows), -1) for part in (law.shares, law.held, law.counted)]
        step = max(1, _BLOCK // (rows.shape[1] * buckets[0].shape[1]))
        blocks = [
            _shares(rows[part], self.count, *(bucket[part] for bucket in buckets))
            for part in (slice(first, first + step) for first in range(0, len(rows), step))
        ]
        value, holders = (np.concatenate(column).reshape(shape) for column in zip(*blocks, strict=True))
        mean = (law.pair_shares * law.counted).sum(axis=-1)
        scale = law.average / np.where(law.shares[..., 1:].sum(axis=-1) > 1e-9, mean, law.average)
        least = np.broadcast_to(law.least[..., None], shape)
        value = np.clip(value * scale[..., None], least, 1.0)
        stderr = np.broadcast_to(np.sqrt(law.log_variance)[..., None], shape)
        return CountedShare(value, holders, stderr, least)

    def corrected(self, bands: KeyBands, level: float | None) -> KeyBands:
        """Bands of all keys, from bands of kept keys; without a ``level``, their ends stay."""
        if bands.frequency is None:
            return bands
        share = self.counted_share(np.clip(bands.frequency.value, 0.0, 1.0))
        return KeyBands(
            bands.reports,
            _scaled(bands.frequency, share, level, 0.0),
            None if bands.mean is None else _widened(bands.mean, share, level),
            None if bands.mass is None else _scaled(bands.mass, share, level, -1.0),
        )


def cap_note(plan: Plan, correction: CapCorrection | None) -> str:
    """What a reader must know about the caps of a plan; empty if they leave nothing out.

    ``correction`` is that of one tally.
    """
    caps = [cap for cap in caps_of(plan) if cap is not None and cap < len(plan.schema.keys)]
    if not caps:
        return ""
    if correction is None:
        return (
            f"no one told how many keys people hold, so intervals do not include what a cap of "
            f"{min(caps)} leaves out; a part that asks for it (size) would tell"
        )
    kept = float(correction.law.average)
    return (
        f"frequencies include what a cap of {min(caps)} leaves out (about {100 * (1 - kept):.2g} % of "
        "all held keys, as people told); intervals include that keys may differ in it"
    )


def caps_of(plan: Plan) -> list[int | None]:
    """The most keys of one person that count in each answering part of a plan; None without a cap."""
    from .combined_parts import answering

    return [
        own.encoding.most_counted(own.cap)
        for own, answers in zip(plan.part_plans, answering(plan), strict=True)
        if answers
    ]


def _scaled(band: Band, share: CountedShare, level: float | None, low: float) -> Band:
    """The band of a frequency or a mass, divided by the share that counts."""
    known = np.isfinite(band.value)
    value = np.where(known, np.clip(band.value / share.value, low, 1.0), band.value)
    stderr = np.sqrt((band.stderr / share.value) ** 2 + np.nan_to_num(value) ** 2 * share.variance)
    if level is None:
        return Band(value, stderr, band.low, band.high)
    unclipped = np.where(known, band.value / share.value, 0.0)
    below, above = share.arms(quantile(level))
    below, above = np.abs(unclipped) * below, np.abs(unclipped) * above
    if low < 0:
        below, above = np.where(unclipped < 0, above, below), np.where(unclipped < 0, below, above)
    noise_below, noise_above = ((band.value - band.low), (band.high - band.value))
    ends = (
        unclipped - np.hypot(noise_below / share.value, below),
        unclipped + np.hypot(noise_above / share.value, above),
    )
    bounded = known & np.isfinite(band.low) & np.isfinite(band.high)
    inside = [np.clip(end, low, 1.0) for end in ends]
    return Band(
        value,
        stderr,
        np.where(bounded, np.minimum(inside[0], value), band.low),
        np.where(bounded, np.maximum(inside[1], value), band.high),
    )


def unknown_shift(mean: Floats, share: CountedShare) -> Floats:
    """The standard deviation of a mean around the mean of the values that count."""
    return np.asarray(SHIFT * VALUES * np.sqrt(1.0 - mean**2) * share.holders / share.value)


def _widened(band: Band, share: CountedShare, level: float | None) -> Band:
    """The band of a mean, with what the mean of the values that count does not tell."""
    known = np.isfinite(band.value)
    middle = np.clip(np.where(known, band.value, 0.0), -1.0, 1.0)
    shift = unknown_shift(middle, share)
    stderr = np.hypot(band.stderr, shift)
    if level is None:
        return Band(band.value, stderr, band.low, band.high)
    arm = quantile(level) * shift
    with np.errstate(invalid="ignore"):
        low = np.maximum(band.value - np.hypot(band.value - band.low, arm), -1.0)
        high = np.minimum(band.value + np.hypot(band.high - band.value, arm), 1.0)
    bounded = known & np.isfinite(band.low) & np.isfinite(band.high)
    return Band(band.value, stderr, np.where(bounded, low, band.low), np.where(bounded, high, band.high))


# -- the law of most entropy -----------------------------------------------------------------------


def _shares(
    kept: Floats, count: Floats, shares: Floats, held: Floats, counted: Floats
) -> tuple[Floats, Floats]:
    """Mean and standard deviation of what counts over each key's holders, ``(rows, keys)`` each.

    ``kept`` are the frequencies of kept keys; ``shares``, ``held`` and ``counted`` are ``(rows,
    buckets)``.
    """
    pairs = shares * held
    average = (pairs * counted).sum(axis=1) / np.maximum(pairs.sum(axis=1), 1e-300)
    average = np.where(pairs.sum(axis=1) > 1e-9, average, 1.0)
    value = np.repeat(average[:, None], kept.shape[1], axis=1)
    square = value**2
    for _ in range(ROUNDS):
        frequency = np.clip(kept / np.maximum(value, 1e-12), 1e-9, 1.0 - 1e-9)
        holders = shares[..., None] * holding_chances(frequency, count, held)
        total = np.maximum(holders.sum(axis=1), 1e-300)
        value = np.einsum("rbk,rb->rk", holders, counted) / total
        square = np.einsum("rbk,rb->rk", holders, counted**2) / total
        value = np.where(total > 1e-200, value, 1.0)
    return value, np.sqrt(np.maximum(square - value**2, 0.0))


def holding_chances(frequency: Floats, count: Floats, held: Floats) -> Floats:
    """The chance that a person of each bucket holds each key, ``(rows, buckets, keys)``.

    Its odds are those of the frequency times one factor for the bucket, with which the chances sum to
    the number of keys that people of the bucket hold.
    """
    odds = np.log(frequency / (1.0 - frequency))[:, None, :]
    low, high = np.full(held.shape, -50.0), np.full(held.shape, 50.0)
    factor = np.log(np.maximum(held, 1e-9) / (np.exp(odds[:, 0]) @ count)[:, None])
    for _ in range(_STEPS):  # Newton's method for the logarithm of the sum, within the known limits
        factor = np.where((factor > low) & (factor < high), factor, (low + high) / 2)
        chance = _logistic(odds + factor[..., None])
        total = chance @ count
        few = total < held
        low, high = np.where(few, factor, low), np.where(few, high, factor)
        slope = 1.0 - (chance**2 @ count) / total
        factor = factor + np.log(np.maximum(held, 1e-9) / total) / np.maximum(slope, 1e-6)
    return np.asarray(chance * (held > 0)[..., None])


def _logistic(x: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))
