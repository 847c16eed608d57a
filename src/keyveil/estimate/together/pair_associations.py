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

from functools import cached_property

import numpy as np

from ...foundation.arrays import Flags, Floats, Integers
from ..answer import Band, quantile
from ..assisted import (
    Mixture,
    RatioEstimates,
    assisted_interval,
    prior_from_others,
    slopes_of_centre,
)
from .association_posterior import (
    AssociationPosterior,
    common_prior,
    posterior,
    posterior_of_few,
)
from .pair_moments import (
    BOTH,
    FIRST,
    FIRST_GIVEN,
    FIRST_MASS,
    SECOND,
    SECOND_MASS,
    SWAPPED,
    PairMoments,
    ordered,
)

WIDEST_PHI, WIDEST_SHIFT = 0.3, 0.5
"""Scales of the widest laws of the priors."""
COMMON = 0.1
"""Standard deviation of the common association and of the common shift around zero."""
NEAR_END = 3.0
"""Distance of a frequency from one, in standard errors, within which it may be one."""
LEAST_SHARE = 1e-4
"""Frequencies and joint shares are taken as at least this in divisors."""


class PairAssociations:
    """Conditionals of every ordered pair of keys, ``(target, condition)``, means on [-1, 1]."""

    def __init__(self, moments: PairMoments, frequency: Band, mean: Band | None, level: float) -> None:
        self.moments, self.level = moments, level
        self._singles = frequency, mean
        self.frequency = np.clip(np.nan_to_num(frequency.value, nan=0.5), LEAST_SHARE, 1.0)
        self.mean = None if mean is None else np.clip(np.nan_to_num(mean.value), -1.0, 1.0)
        self.keys, self.values, self.covariance = ordered(moments)
        self.rows = {(int(k), int(c)): row for row, (k, c) in enumerate(self.keys)}
        self._nearly_all = np.zeros(len(self.frequency), bool)
        if moments.proper is not None:
            self._take_proper_frequencies(moments.proper)
        self.target = self.frequency[self.keys[:, 0]]
        self.given = self.frequency[self.keys[:, 1]]

    def _take_proper_frequencies(self, proper: Floats) -> None:
        """Takes the frequencies of few keys at proper laws, and finds those that nearly everyone holds.

        Single answers of so few keys are not shrunk. A proper law of two keys has more limits than
        a single frequency, and these limits say much if many cells are near zero.
        """
        spread = np.sqrt(np.maximum(self.covariance[:, FIRST, FIRST], 0.0))
        near = self.values[:, FIRST] + NEAR_END * spread >= 1.0
        ends = np.concatenate([proper[:, FIRST], proper[:, SECOND]])
        for key in np.unique(self.keys[:, 0]):
            rows = self.keys[:, 0] == key
            self._nearly_all[key] = near[rows].all()
            self.frequency[key] = np.clip(ends[rows].mean(), LEAST_SHARE, 1.0)

    # -- association -----------------------------------------------------------------------------

    @cached_property
    def spread(self) -> Floats:
        """Covariance of holding both keys if phi is 1, for each ordered pair."""
        k, c = self.target, self.given
        return np.sqrt(np.maximum(k * (1 - k) * c * (1 - c), LEAST_SHARE**2))

    @cached_property
    def _holding_slopes(self) -> Floats:
        """Slopes of the covariance of holding both keys in the functionals of an unordered pair."""
        half = len(self.moments.pairs)
        slopes = np.zeros((half, 7))
        slopes[:, BOTH] = 1.0
        slopes[:, FIRST], slopes[:, SECOND] = -self.given[:half], -self.target[:half]
        return slopes

    @cached_property
    def _covariance_of_holding(self) -> tuple[Floats, Floats]:
        """Unbiased covariance of holding both keys of an unordered pair, and its variance."""
        value = self._holding_together(self.moments.values)
        return value, _variance(self._holding_slopes, self.moments.covariance)

    def _holding_together(self, values: Floats) -> Floats:
        """Covariance of holding both keys of an unordered pair, from its functionals."""
        half = len(self.moments.pairs)
        covariance = np.einsum("pi,pi->p", self._holding_slopes, values)
        return np.asarray(covariance + self.target[:half] * self.given[:half])

    @cached_property
    def phi_prior(self) -> Mixture:
        """The prior of phi of each unordered pair, from all others."""
        value, variance = self._covariance_of_holding
        half = len(value)
        counted = np.isfinite(value) & self.moments.learned_from
        return prior_from_others(value, variance, counted, WIDEST_PHI, self.spread[:half], COMMON)

    @cached_property
    def _with_common_phi(self) -> Floats:
        """Covariances of the functionals of ordered pairs with the centre of their prior of phi."""
        value, variance = self._covariance_of_holding
        half = len(value)
        counted = np.isfinite(value) & self.moments.learned_from
        pull, scale = slopes_of_centre(value, variance, counted, self.spread[:half], COMMON)
        slopes = self._holding_slopes * pull[:, None]
        through = _through_keys(self.moments.pairs, self.moments.covariance, slopes)
        through *= scale[:, None]
        return np.concatenate([through, through[:, SWAPPED]])

    @cached_property
    def phi(self) -> AssociationPosterior:
        """The posterior of phi of each ordered pair."""
        value, variance = self._covariance_of_holding
        loading, known = self.spread[: len(value)], self.moments.learned_from
        if self.moments.proper is None:
            prior = common_prior(self.phi_prior, known)
            learned = posterior(value, loading, variance, prior, *self._possible_phi)
        else:
            value = self._holding_together(self.moments.proper)
            limits = self._possible_phi
            learned = posterior_of_few(value, loading, variance, known, WIDEST_PHI, COMMON, limits)
        return AssociationPosterior(*(np.tile(part, 2) for part in learned))

    @property
    def _possible_joint(self) -> tuple[Floats, Floats]:
        """The smallest and largest share of people who may hold both keys of each ordered pair."""
        k, c = self.target, self.given
        return np.maximum(k + c - 1.0, 0.0), np.minimum(k, c)

    @property
    def _possible_phi(self) -> tuple[Floats, Floats]:
        """The smallest and largest phi of each unordered pair."""
        half, apart = len(self.moments.pairs), self.target * self.given
        low, high = ((end - apart)[:half] / self.spread[:half] for end in self._possible_joint)
        return low, high

    @cached_property
    def joint(self) -> Floats:
        """Share of people who hold both keys, within what the frequencies allow."""
        share = self.target * self.given + self.phi.mean * self.spread
        if self.moments.proper is not None and self._nearly_all.any():
            proper = np.concatenate([self.moments.proper, self.moments.proper[:, SWAPPED]])
            own = self.given * proper[:, BOTH] / np.maximum(proper[:, SECOND], LEAST_SHARE)
            share = np.where(self._nearly_all[self.keys].all(axis=1), own, share)
        return np.clip(share, *self._possible_joint)

    def frequencies(self) -> tuple[Floats, Floats]:
        """f(k | c) of every ordered pair and its standard error."""
        value = np.clip(self.joint / self.given, 0.0, 1.0)
        return value, self.phi.stderr * self.spread / self.given

    def frequency_prior(self) -> Mixture:
        """The prior of f(k | c) of every ordered pair, from all other pairs."""
        factor, through = self.spread / self.given, self._with_frequency_centre[0]
        scales = np.tile(self.phi_prior.scales, (2, 1)) * factor[:, None]
        centre = np.clip(self.target + np.tile(self.phi_prior.centre, 2) * factor, 0.0, 1.0)
        weights = self.phi_prior.weights
        return Mixture(centre, _no_wider(scales, 0.5), weights, through[:, BOTH], through[:, SECOND])

    @cached_property
    def absent_frequency_prior(self) -> Mixture:
        """The prior of f(k | !c) of every ordered pair: what that of f(k | c) leaves to the others."""
        prior = self.frequency_prior()
        through, with_target, with_given = self._with_frequency_centre
        absent = np.maximum(1.0 - self.given, LEAST_SHARE)
        centre, scales = _turned(prior, self.target, -self.given / absent)
        moved = (centre - prior.centre)[:, None] * with_given
        through = (with_target - self.given[:, None] * through + moved) / absent[:, None]
        above, below = through[:, FIRST] - through[:, BOTH], -through[:, SECOND]
        return Mixture(centre, scales, prior.weights, above, below)

    @cached_property
    def _with_frequency_centre(self) -> tuple[Floats, Floats, Floats]:
        """Covariances of the functionals with the prior's centre, and with either frequency in it."""
        k, c, factor = self.target, self.given, self.spread / self.given
        # The centre depends on both frequencies, and these on the same reports.
        half = np.tile(self.phi_prior.centre, 2) * factor / 2
        in_target = 1.0 + half * (1.0 - 2.0 * k) / np.maximum(k * (1.0 - k), LEAST_SHARE)
        in_given = -half / np.maximum(c * (1.0 - c), LEAST_SHARE)
        target, given = (
            self._single_covariance(self._one(part), self._singles[0], which)
            for which, part in enumerate((FIRST, SECOND))
        )
        common = self._with_common_phi * factor[:, None]
        return common + target * in_target[:, None] + given * in_given[:, None], target, given

    def _one(self, part: int) -> Floats:
        """Slopes that pick one functional of every ordered pair."""
        slopes = np.zeros((len(self.keys), 7))
        slopes[:, part] = 1.0
        return slopes

    def _single_covariance(self, slopes: Floats, single: Band, which: int) -> Floats:
        """Covariances of the functionals with the answer of one key by itself, ``(pairs, 7)``.

        The key is the target (``which`` 0) or the condition (1). ``slopes`` make its raw value from the
        functionals; shrinkage scales its error down.
        """
        stderr = single.stderr[self.keys[:, which]]
        own = np.fmin(stderr**2 / _variance(slopes, self.covariance), 1.0)
        return np.asarray(np.einsum("pi,pij->pj", slopes, self.covariance) * own[:, None])

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
    def _shift_slopes(self) -> Floats:
        """Slopes of joint share times shift in the functionals of an ordered pair."""
        assert self.mean is not None
        mean, part = self.mean[self.keys[:, 0]], self.joint / self.target
        slopes = np.zeros((len(self.keys), 7))
        slopes[:, FIRST_GIVEN], slopes[:, BOTH] = 1.0, -mean
        slopes[:, FIRST_MASS], slopes[:, FIRST] = -part, mean * part
        return slopes

    @cached_property
    def _mass_beyond(self) -> tuple[Floats, Floats]:
        """Unbiased joint share times shift of every ordered pair, and its variance."""
        slopes = self._shift_slopes
        return np.einsum("pi,pi->p", slopes, self.values), _variance(slopes, self.covariance)

    @cached_property
    def shift_prior(self) -> Mixture:
        """The prior of the shift of every ordered pair, from all others."""
        value, variance = self._mass_beyond
        counted = np.isfinite(value) & np.tile(self.moments.learned_from, 2)
        return prior_from_others(value, variance, counted, WIDEST_SHIFT, self._shares, COMMON)

    @cached_property
    def _with_common_shift(self) -> Floats:
        """Covariances of the functionals of ordered pairs with the centre of the prior of the shift."""
        value, variance = self._mass_beyond
        counted = np.isfinite(value) & np.tile(self.moments.learned_from, 2)
        pull, scale = slopes_of_centre(value, variance, counted, self._shares, COMMON)
        slopes = self._shift_slopes * pull[:, None]
        through = _through_keys(self.keys, self.covariance, slopes)
        # The same two keys in the other order are answered by the same reports.
        other = np.roll(slopes, len(slopes) // 2, axis=0)[:, SWAPPED]
        same = _through_keys(self.keys, self.covariance, other, others=False)
        through += np.einsum("pi,pij->pj", other, self.covariance) - same
        return through * scale[:, None]

    @cached_property
    def _shares(self) -> Floats:
        return np.maximum(self.joint, LEAST_SHARE)

    @cached_property
    def shift(self) -> AssociationPosterior:
        """The posterior of the shift of every ordered pair."""
        value, variance = self._mass_beyond
        assert self.mean is not None
        mean = self.mean[self.keys[:, 0]]
        return posterior(
            value,
            self._shares,
            variance,
            common_prior(self.shift_prior, np.tile(self.moments.learned_from, 2)),
            -1.0 - mean,
            1.0 - mean,
        )

    def means(self) -> tuple[Floats, Floats]:
        """m(k | c) of every ordered pair and its standard error."""
        assert self.mean is not None
        value = np.clip(self.mean[self.keys[:, 0]] + self.shift.mean, -1.0, 1.0)
        return value, self.shift.stderr

    def mean_prior(self) -> Mixture:
        """The prior of m(k | c) of every ordered pair, from all other pairs."""
        assert self.mean is not None
        prior, through = self.shift_prior, self._with_mean + self._with_common_shift
        centre = np.clip(self.mean[self.keys[:, 0]] + prior.centre, -1.0, 1.0)
        return Mixture(centre, prior.scales, prior.weights, through[:, FIRST_GIVEN], through[:, BOTH])

    @cached_property
    def absent_mean_prior(self) -> Mixture:
        """The prior of m(k | !c) of every ordered pair: what that of m(k | c) leaves to the others."""
        assert self.mean is not None
        prior = self.mean_prior()
        factor = -self.joint / np.maximum(self.target - self.joint, LEAST_SHARE)
        centre, scales = _turned(prior, self.mean[self.keys[:, 0]], factor)
        through = self._with_mean + factor[:, None] * self._with_common_shift
        above = through[:, FIRST_MASS] - through[:, FIRST_GIVEN]
        return Mixture(centre, scales, prior.weights, above, through[:, FIRST] - through[:, BOTH])

    @cached_property
    def _with_mean(self) -> Floats:
        """Covariances of the functionals of ordered pairs with the mean of the target."""
        single = self._singles[1]
        assert self.mean is not None
        assert single is not None
        slopes = np.zeros((len(self.keys), 7))
        slopes[:, FIRST_MASS] = 1.0 / self.target
        slopes[:, FIRST] = -self.mean[self.keys[:, 0]] / self.target
        return self._single_covariance(slopes, single, 0)

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


def _turned(prior: Mixture, middle: Floats, factor: Floats) -> tuple[Floats, Floats]:
    """Centre and scales of a prior whose distance from ``middle`` is multiplied, but for the widest."""
    scales = prior.scales * np.abs(factor)[:, None]
    scales[:, -1] = prior.scales[:, -1]
    return middle + factor * (prior.centre - middle), scales


def _variance(slopes: Floats, covariance: Floats) -> Floats:
    """Variances of linear functionals, one for each pair."""
    return np.maximum(np.einsum("pi,pij,pj->p", slopes, covariance, slopes), 1e-30)


def _through_keys(keys: Integers, covariance: Floats, slopes: Floats, others: bool = True) -> Floats:
    """Covariances of the functionals of each pair with a sum over pairs, ``(pairs, 7)``.

    The summands are ``slopes`` times the functionals of a pair, and the sum is over all other pairs, or
    only over the pair itself. Pairs are answered by different people, but all pairs of a key share what
    is known of the key by itself: its frequency and its mass.
    """
    cross = np.einsum("pi,pij->pj", slopes, covariance)
    single = ([FIRST, FIRST_MASS], [SECOND, SECOND_MASS])
    own = []
    for parts in single:
        spread = covariance[:, parts][:, :, parts]
        size = np.trace(spread, axis1=1, axis2=2)[:, None, None] + 1e-30
        spread = spread + 1e-9 * size * np.eye(2)
        own.append(np.linalg.solve(spread, cross[:, parts, None])[:, :, 0])
    total = np.zeros((int(keys.max(initial=0)) + 1, 2))
    for place, slope in enumerate(own):
        np.add.at(total, keys[:, place], slope)
    through = np.zeros_like(cross)
    for place, parts in enumerate(single):
        summed = total[keys[:, place]] - own[place] if others else own[place]
        through += np.einsum("pi,pij->pj", summed, covariance[:, parts])
    return through


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
