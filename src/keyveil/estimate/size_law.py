"""Size law: how many keys people hold, from the answers to the size question, and what a cap keeps.

The unbiased shares of the buckets are noisy, and noise in the buckets of many keys looks like people who
hold many. So they are weighed against ``SizeGuesses``, as a pilot's are: each guess counts by its
posterior probability, and under each guess a bucket's share is the average of the guess and the report,
weighted by their precisions. With many reports the law is the reported one. Without any it is that of
the guesses, and the variance says that nothing is known.

A cap keeps min(h, cap) of h held keys, all equally likely. So a key of a person with h keys counts
w(h) = min(1, cap / h), and the average of w over all held pairs is E[min(h, cap)] / E[h].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..foundation.arrays import Floats
from ..people.size_guesses import SizeGuesses, guesses_for, slack_of
from .projection import onto_simplex

if TYPE_CHECKING:
    from .side import SizeAnswer

_BLOCK = 1 << 20
"""Number of array elements processed at once."""


@dataclass(frozen=True)
class SizeLaw:
    """The law of the number of keys in buckets, and what caps keep of them. Leading axes are tallies."""

    shares: Floats
    """The share of people in each bucket, ``(..., buckets)``."""
    held: Floats
    """The average number of keys of people in each bucket, ``(..., buckets)``."""
    kept: Floats
    """The average number of keys that count, ``(..., buckets)``."""
    average: Floats
    """The share of held pairs that count, ``(...,)``: its geometric mean over what is possible."""
    log_variance: Floats
    """The variance of the logarithm of that share, ``(...,)``."""
    least: Floats
    """The share that counts of a person who holds every key, ``(...,)``: the least possible one."""

    @classmethod
    def of(
        cls, answer: SizeAnswer, keys: int, caps: Sequence[int | None], weights: Floats | None = None
    ) -> SizeLaw:
        """The law from answers to the size question, for parts with these ``caps`` (None: no cap).

        ``weights`` ``(..., parts)`` are the shares of the parts in the answers; they sum to one.
        """
        shape = answer.reports.shape
        rows = int(np.prod(shape, dtype=np.int64))
        parts = np.ones(1) if weights is None else np.asarray(weights)
        parts = np.broadcast_to(parts, (*shape, len(caps))).reshape(rows, len(caps))
        guesses = guesses_for(keys, answer.shares.shape[-1])
        held, kept = _bucket_means(keys, answer.shares.shape[-1], tuple(caps))
        shares = np.nan_to_num(answer.shares).reshape(rows, -1)
        reports = answer.reports.reshape(rows).astype(np.float64)
        step = max(1, _BLOCK // guesses.buckets.size)
        blocks = [
            _posterior(guesses, shares[part], reports[part], answer.one_report, held, kept, parts[part])
            for part in (slice(first, first + step) for first in range(0, rows, step))
        ]
        columns = [np.concatenate(column) for column in zip(*blocks, strict=True)]
        limits = np.array([1.0 if cap is None else min(1.0, cap / keys) for cap in caps])
        columns.append(parts @ limits)
        return cls(*(part.reshape((*shape, *part.shape[1:])) for part in columns))

    @property
    def pair_shares(self) -> Floats:
        """The share of all held pairs that people of each bucket hold, ``(..., buckets)``."""
        pairs = self.shares * self.held
        return np.asarray(pairs / np.maximum(pairs.sum(axis=-1, keepdims=True), 1e-300))

    @property
    def counted(self) -> Floats:
        """The share that counts of the keys of people in each bucket, ``(..., buckets)``."""
        return np.where(self.held > 0, self.kept / np.maximum(self.held, 1e-300), 1.0)


UNLIKELY = 1e-9
"""Probability below which a guess is left out."""


@lru_cache(maxsize=32)
def _bucket_means(keys: int, buckets: int, caps: tuple[int | None, ...]) -> tuple[Floats, Floats]:
    """Average numbers of keys ``(guesses, buckets)``, and of kept keys ``(guesses, buckets, parts)``."""
    guesses = guesses_for(keys, buckets)
    number = np.arange(guesses.laws.shape[1], dtype=np.float64)
    within = guesses.within(np.arange(len(guesses.part)))
    in_bucket = np.eye(guesses.buckets.shape[1])[guesses.bucket]
    held = (within * number) @ in_bucket
    kept = [held if cap is None else (within * np.minimum(number, cap)) @ in_bucket for cap in caps]
    return held, np.stack(kept, axis=-1)


def _posterior(
    guesses: SizeGuesses,
    shares: Floats,
    reports: Floats,
    one_report: Floats,
    held: Floats,
    kept_by_part: Floats,
    parts: Floats,
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Shares, held and kept keys by bucket, the average share that counts, and its log variance."""
    laws = guesses.buckets
    inside, outside = one_report
    noise = laws * inside + (1.0 - laws) * outside - laws**2
    slack = slack_of(laws)
    n = np.maximum(reports, 1e-9)[:, None, None]
    spread = slack + noise / n
    off = np.where(reports[:, None, None] > 0, shares[:, None, :] - laws, 0.0)
    likely = -0.5 * (off**2 / spread + np.log(spread)).sum(axis=-1)
    weight = guesses.probability * np.exp(likely - likely.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    # Guesses that no row of the block leaves likely change nothing, and are most of them.
    alive = (weight > UNLIKELY).any(axis=0)
    weight, off, spread = weight[:, alive], off[:, alive], spread[:, alive]
    laws, noise, slack, held = laws[alive], noise[alive], slack[alive], held[alive]
    kept_by_part = kept_by_part[alive]
    size = laws.shape[-1]
    law = onto_simplex((laws + off * slack / spread).reshape(-1, size)).reshape(off.shape)
    variance = slack * (noise / n) / spread
    kept = np.einsum("gbp,rp->rgb", kept_by_part, parts)
    all_held, all_kept = np.einsum("rgb,gb->rg", law, held), np.einsum("rgb,rgb->rg", law, kept)
    holding = all_held > 1e-9
    all_held, all_kept = np.where(holding, all_held, 1.0), np.where(holding, all_kept, 1.0)
    slope = kept / all_kept[..., None] - held / all_held[..., None]
    log_share = np.log(all_kept / all_held)
    centre = np.einsum("rg,rg->r", weight, log_share)
    own = np.einsum("rgb,rgb->rg", slope**2, variance)
    around = np.einsum("rg,rg->r", weight, own + (log_share - centre[:, None]) ** 2)
    weighted = weight[..., None] * law
    total = weighted.sum(axis=1)
    safe = np.maximum(total, 1e-300)
    mean_held = np.einsum("rgb,gb->rb", weighted, held) / safe
    mean_kept = np.einsum("rgb,rgb->rb", weighted, kept) / safe
    return total, mean_held, mean_kept, np.exp(centre), around
