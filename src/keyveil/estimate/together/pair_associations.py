"""Associations of pairs of keys, shrunk towards what all pairs have in common.

For keys k and c, the *association* is phi, the correlation of holding k and holding c. The *shift* is
the mean of k among holders of c minus the mean of k among all its holders. Both are estimated without
bias for every pair, and both are small for most pairs, far smaller than their noise. So they are shrunk:
each has a prior, learned from all pairs, around a common value. Conditionals follow from the shrunk
association and shift, and from the answers of single keys from the same tally:

    f(k | c) = f_k + phi sqrt(f_k (1 - f_k) f_c (1 - f_c)) / f_c        m(k | c) = m_k + shift

Intervals test numerator - t * denominator with the unbiased estimates, and use the prior of the pair
from all other pairs only to place the region (``assisted``). So they cover every pair at their level.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ...foundation.arrays import Flags, Floats, Integers
from ..answer import Band, quantile
from ..assisted import Mixture, RatioEstimates, assisted_interval, prior_from_others
from .joint import Evidence

if TYPE_CHECKING:
    from ...people.schema import Schema

BOTH, FIRST, SECOND, FIRST_GIVEN, SECOND_GIVEN, FIRST_MASS, SECOND_MASS = range(7)
"""The functionals of a pair: share who hold both, share of each key, mass of each key among holders of
the other, and mass of each key."""
WIDEST_PHI, WIDEST_SHIFT = 0.3, 0.5
"""Scales of the widest laws of the priors."""
COMMON = 0.1
"""Standard deviation of the common association and of the common shift around zero."""
LEAST_SHARE = 1e-4
"""Frequencies and joint shares are taken as at least this in divisors."""


MOST_PAIRS = 1000
"""Number of pairs that priors are learned from, if each pair has to be decoded by itself."""

Pair = tuple[int, int]
"""Places of two keys in ascending order."""


@runtime_checkable
class VectorisedPairs(Protocol):
    """A source of evidence that decodes all pairs at once."""

    def pair_moments(self, weights: Floats) -> tuple[Integers, Floats, Floats] | None:
        """Keys, functionals and covariance of all pairs; None if it cannot."""


class AssociationPosterior(NamedTuple):
    """Posterior mean and standard deviation."""

    mean: Floats
    stderr: Floats


def pair_weights(schema: Schema) -> Floats:
    """Weights of the functionals on the joint states of two keys, ``(states, states, 7)``."""
    held = np.concatenate([[0.0], np.ones(schema.levels)])
    value = np.concatenate([[0.0], schema.values if schema.levels > 1 else [0.0]])
    one = np.ones(schema.levels + 1)
    parts = (
        *((held, held), (held, one), (one, held)),
        *((value, held), (held, value), (value, one), (one, value)),
    )
    return np.stack([np.outer(*part) for part in parts], axis=-1)


@dataclass(frozen=True)
class PairMoments:
    """Unbiased functionals of all pairs that are known together."""

    pairs: Integers
    """Places of the keys, ``(pairs, 2)``."""
    values: Floats
    """``(pairs, 7)``."""
    covariance: Floats
    """``(pairs, 7, 7)``."""
    learned_from: Flags
    """Whether the priors are learned from a pair."""

    @classmethod
    def of(cls, source: Evidence, schema: Schema, asked: Collection[Pair] = ()) -> PairMoments:
        """The functionals of the pairs that the source knows.

        If decoding is slow for each pair, at most ``MOST_PAIRS`` are used, always the same ones, and
        the ``asked`` ones are added.
        """
        weights = pair_weights(schema)
        if isinstance(source, VectorisedPairs) and (rows := source.pair_moments(weights)) is not None:
            return cls(*rows, np.ones(len(rows[0]), bool))
        pairs = list(combinations(range(len(schema.keys)), 2))
        sample = set(pairs[:: -(-len(pairs) // MOST_PAIRS)])
        moments = {pair: source.moments(pair, weights) for pair in sorted(sample | set(asked))}
        known = {pair: part for pair, part in moments.items() if part is not None}
        if not known:
            return cls(np.zeros((0, 2), int), np.zeros((0, 7)), np.zeros((0, 7, 7)), np.zeros(0, bool))
        return cls(
            np.array(list(known)),
            np.array([part.values for part in known.values()]),
            np.array([part.covariance for part in known.values()]),
            np.array([pair in sample for pair in known]),
        )


def _ordered(moments: PairMoments) -> tuple[Integers, Floats, Floats]:
    """Target and condition, values and covariance of every ordered pair; the second half is swapped."""
    swap = [BOTH, SECOND, FIRST, SECOND_GIVEN, FIRST_GIVEN, SECOND_MASS, FIRST_MASS]
    keys = np.concatenate([moments.pairs, moments.pairs[:, ::-1]])
    values = np.concatenate([moments.values, moments.values[:, swap]])
    covariance = np.concatenate([moments.covariance, moments.covariance[:, swap][:, :, swap]])
    return keys, values, covariance


class PairAssociations:
    """Conditionals of every ordered pair of keys, ``(target, condition)``, means on [-1, 1]."""

    def __init__(self, moments: PairMoments, frequency: Band, mean: Band | None, level: float) -> None:
        self.moments, self.level = moments, level
        self._singles = frequency, mean
        self.frequency = np.clip(np.nan_to_num(frequency.value, nan=0.5), LEAST_SHARE, 1.0)
        self.mean = None if mean is None else np.clip(np.nan_to_num(mean.value), -1.0, 1.0)
        self.keys, self.values, self.covariance = _ordered(moments)
        self.rows = {(int(k), int(c)): row for row, (k, c) in enumerate(self.keys)}
        self.target = self.frequency[self.keys[:, 0]]
        self.given = self.frequency[self.keys[:, 1]]

    # -- association -----------------------------------------------------------------------------

    @cached_property
    def spread(self) -> Floats:
        """Covariance of holding both keys if phi is 1, for each ordered pair."""
        k, c = self.target, self.given
        return np.sqrt(np.maximum(k * (1 - k) * c * (1 - c), LEAST_SHARE**2))

    @cached_property
    def _covariance_of_holding(self) -> tuple[Floats, Floats]:
        """Unbiased covariance of holding both keys of an unordered pair, and its variance."""
        half = len(self.moments.pairs)
        k, c = self.target[:half], self.given[:half]
        slopes = np.zeros((half, 7))
        slopes[:, BOTH], slopes[:, FIRST], slopes[:, SECOND] = 1.0, -c, -k
        value = np.einsum("pi,pi->p", slopes, self.moments.values) + k * c
        return value, _variance(slopes, self.moments.covariance)

    @cached_property
    def phi_prior(self) -> Mixture:
        """The prior of phi of each unordered pair, from all others."""
        value, variance = self._covariance_of_holding
        half = len(value)
        counted = np.isfinite(value) & self.moments.learned_from
        return prior_from_others(value, variance, counted, WIDEST_PHI, self.spread[:half], COMMON)

    @cached_property
    def phi(self) -> AssociationPosterior:
        """The posterior of phi of each ordered pair."""
        value, variance = self._covariance_of_holding
        learned = posterior(
            value,
            self.spread[: len(value)],
            variance,
            _common(self.phi_prior, self.moments.learned_from),
        )
        return AssociationPosterior(*(np.tile(part, 2) for part in learned))

    @cached_property
    def joint(self) -> Floats:
        """Share of people who hold both keys, within what the frequencies allow."""
        share = self.target * self.given + self.phi.mean * self.spread
        low = np.maximum(self.target + self.given - 1.0, 0.0)
        return np.clip(share, low, np.minimum(self.target, self.given))

    def frequencies(self) -> tuple[Floats, Floats]:
        """f(k | c) of every ordered pair and its standard error."""
        value = np.clip(self.joint / self.given, 0.0, 1.0)
        return value, self.phi.stderr * self.spread / self.given

    def frequency_prior(self) -> Mixture:
        """The prior of f(k | c) of every ordered pair, from all other pairs."""
        factor = self.spread / self.given
        centre = self.target + np.tile(self.phi_prior.centre, 2) * factor
        scales = np.tile(self.phi_prior.scales, (2, 1)) * factor[:, None]
        slopes = np.zeros((len(self.keys), 7))
        slopes[:, FIRST] = 1.0
        return Mixture(
            np.clip(centre, 0.0, 1.0),
            _no_wider(scales, 0.5),
            self.phi_prior.weights,
            *self._single_covariance(slopes, self._singles[0], BOTH, SECOND),
        )

    def _single_covariance(
        self, slopes: Floats, single: Band, above: int, below: int
    ) -> tuple[Floats, Floats]:
        """Covariances of the answer of the target by itself with numerator and denominator.

        ``slopes`` make its raw value from the functionals; shrinkage scales its error down.
        """
        stderr = single.stderr[self.keys[:, 0]]
        own = np.fmin(stderr**2 / _variance(slopes, self.covariance), 1.0)
        both = np.einsum("pi,pij->pj", slopes, self.covariance) * own[:, None]
        return both[:, above], both[:, below]

    @cached_property
    def frequency_ends(self) -> tuple[Floats, Floats]:
        """Both ends of the interval of f(k | c)."""
        tested = _tested(self.values, self.covariance, BOTH, SECOND)
        return assisted_interval(tested, self.frequency_prior(), (0.0, 1.0), self.level)

    @cached_property
    def associated(self) -> Flags:
        """Whether the tally shows that holding k and holding c go together, for each ordered pair."""
        value, variance = self._covariance_of_holding
        return np.tile(np.abs(value) > quantile(self.level) * np.sqrt(variance), 2)

    # -- shift -----------------------------------------------------------------------------------

    @cached_property
    def _mass_beyond(self) -> tuple[Floats, Floats]:
        """Unbiased joint share times shift of every ordered pair, and its variance."""
        assert self.mean is not None
        mean, part = self.mean[self.keys[:, 0]], self.joint / self.target
        slopes = np.zeros((len(self.keys), 7))
        slopes[:, FIRST_GIVEN], slopes[:, BOTH] = 1.0, -mean
        slopes[:, FIRST_MASS], slopes[:, FIRST] = -part, mean * part
        return np.einsum("pi,pi->p", slopes, self.values), _variance(slopes, self.covariance)

    @cached_property
    def shift_prior(self) -> Mixture:
        """The prior of the shift of every ordered pair, from all others."""
        value, variance = self._mass_beyond
        counted = np.isfinite(value) & np.tile(self.moments.learned_from, 2)
        return prior_from_others(value, variance, counted, WIDEST_SHIFT, self._shares, COMMON)

    @cached_property
    def _shares(self) -> Floats:
        return np.maximum(self.joint, LEAST_SHARE)

    @cached_property
    def shift(self) -> AssociationPosterior:
        """The posterior of the shift of every ordered pair."""
        value, variance = self._mass_beyond
        return posterior(
            value,
            self._shares,
            variance,
            _common(self.shift_prior, np.tile(self.moments.learned_from, 2)),
        )

    def means(self) -> tuple[Floats, Floats]:
        """m(k | c) of every ordered pair and its standard error."""
        assert self.mean is not None
        value = np.clip(self.mean[self.keys[:, 0]] + self.shift.mean, -1.0, 1.0)
        return value, self.shift.stderr

    def mean_prior(self) -> Mixture:
        """The prior of m(k | c) of every ordered pair, from all other pairs."""
        assert self.mean is not None
        prior = self.shift_prior
        mean = self.mean[self.keys[:, 0]]
        slopes = np.zeros((len(self.keys), 7))
        slopes[:, FIRST_MASS], slopes[:, FIRST] = 1.0 / self.target, -mean / self.target
        single = self._singles[1]
        assert single is not None
        return Mixture(
            np.clip(mean + prior.centre, -1.0, 1.0),
            prior.scales,
            prior.weights,
            *self._single_covariance(slopes, single, FIRST_GIVEN, BOTH),
        )

    @cached_property
    def mean_ends(self) -> tuple[Floats, Floats]:
        """Both ends of the interval of m(k | c)."""
        tested = _tested(self.values, self.covariance, FIRST_GIVEN, BOTH)
        return assisted_interval(tested, self.mean_prior(), (-1.0, 1.0), self.level)

    @cached_property
    def shifted(self) -> Flags:
        """Whether the tally shows that the mean of k differs among holders of c."""
        value, variance = self._mass_beyond
        return np.asarray(np.abs(value) > quantile(self.level) * np.sqrt(variance))


def _variance(slopes: Floats, covariance: Floats) -> Floats:
    """Variances of linear functionals, one for each pair."""
    return np.maximum(np.einsum("pi,pij,pj->p", slopes, covariance, slopes), 1e-30)


def _tested(values: Floats, covariance: Floats, above: int, below: int) -> RatioEstimates:
    return RatioEstimates(
        values[:, above],
        values[:, below],
        covariance[:, above, above],
        covariance[:, above, below],
        covariance[:, below, below],
    )


def _no_wider(scales: Floats, widest: float) -> Floats:
    """Scales of the laws of a prior, all at most ``widest``, and the last law that wide."""
    capped = np.minimum(scales, widest)
    capped[:, -1] = widest
    return capped


def _common(prior: Mixture, learned_from: Flags) -> Mixture:
    """The median of the priors that leave one out: the prior for values, which need no such care."""
    if not learned_from.any():
        return prior
    centre = np.full_like(prior.centre, np.median(prior.centre[learned_from]))
    scales = np.broadcast_to(np.median(prior.scales[learned_from], axis=0), prior.scales.shape)
    return Mixture(centre, scales, prior.weights)


def posterior(value: Floats, loading: Floats, variance: Floats, prior: Mixture) -> AssociationPosterior:
    """Posterior mean and standard deviation of x, if ``value`` is ``loading * x`` plus normal noise."""
    across = prior.scales**2
    total = variance[:, None] + loading[:, None] ** 2 * across
    gap = (value - loading * prior.centre)[:, None]
    height = np.log(prior.weights) - gap**2 / (2 * total) - 0.5 * np.log(total)
    weight = np.exp(height - height.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    means = prior.centre[:, None] + across * loading[:, None] * gap / total
    own = across * variance[:, None] / total
    mean = (weight * means).sum(axis=1)
    spread = (weight * (own + means**2)).sum(axis=1) - mean**2
    return AssociationPosterior(mean, np.sqrt(np.maximum(spread, 0.0)))
