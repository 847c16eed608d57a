"""Shrinkage: the answer of every key moves towards a prior learned from all keys.

The input is the unbiased frequency and mass of every key with their covariance, so shrinkage works for
every mechanism that has moments. It has three steps.

1. *Noise.* The variance of a report depends on the true value, not on the observed one. At every
   possible value it is taken from a line fitted through the variances of all keys (``noise_line``; exact
   for one-key channels).
2. *Frequency.* Its likelihood on a grid of [0, 1], times the prior (``common_law``).
3. *Mean.* Its likelihood on a grid of [-1, 1], averaged over the posterior of the frequency, times the
   prior, whose mean may depend on frequency (``mean_by_frequency``). In turn the mass is evidence about
   the frequency if the means of keys are similar.

If noise is smaller than the spacing of the grid, the result is scaled to the noise. So the answer
approaches the raw one as reports increase.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from ...foundation.arrays import Flags, Floats, Integers
from ..answer import Answers, Band, KeyBands
from ..cap_correction import cap_note
from ..estimator import ArrayEstimator, answers_from, answers_of
from ..linear import Moments, key_bands
from ..side import moments_with_side
from ..side_mean import CommonMean, SideMean
from .common_law import Posterior, beta_laws, learn_prior, points, posterior, spacing
from .key_intervals import key_intervals, with_intervals
from .mean_by_frequency import Held, classes, in_class_order, in_key_order, offsets
from .noise_line import Noise

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...plan.tally import Tally

FEWEST = 5
"""Smallest number of keys with reports for shrinkage; with fewer, answers are raw and clipped."""
SHARES = 128
"""Number of points of the grid of frequencies."""
VALUES = 96
"""Number of points of the grid of means."""
NODES = 7
"""Number of frequencies at which the likelihood of a mean is computed."""
LOWEST = {"frequency": 0.0, "mean": -1.0, "mass": -1.0}
"""Lower end of the range of each statistic; the upper end is 1."""
MOST = 4096
"""Largest number of keys that are shrunk together. More keys are shrunk in groups."""
_BLOCK = 1 << 20
"""Number of array elements processed at once."""
_BELOW = 0.6
"""Standard error, as a share of the spacing of the grid, below which the result is scaled."""

NOTE = "shrunk towards what all keys have in common; each interval covers its own key at its level"
FEW_NOTE = (
    f"nothing was shrunk: fewer than {FEWEST} keys have reports, too few to learn what they have in "
    "common; values are the raw ones, clipped to their range"
)


def _shrunk(plan: Plan, counts: Integers, level: float) -> KeyBands:
    """Frequency and mean (or mass) of every key, shrunk across keys."""
    moments = moments_with_side(plan, counts)
    return shrunk_bands(key_bands(plan, moments, level), moments, level)


class Shrunk(ArrayEstimator):
    """The estimator ``shrunk``; its note says whether anything was shrunk."""

    def __call__(self, plan: Plan, tally: Tally, level: float) -> Answers:
        """The answers from one tally."""
        moments = moments_with_side(plan, tally.counts)
        raw = key_bands(plan, moments, level)
        posteriors = learn(raw, moments)
        keys = answers_from(plan, shrunk_where(raw, posteriors, moments, level), level)
        any_learned = any(np.isfinite(part.mean).any() for part in posteriors.values())
        note = NOTE if any_learned else FEW_NOTE
        notes = "; ".join(part for part in (note, cap_note(plan, moments.caps)) if part)
        return answers_of(plan, keys, self.name, level, notes, moments.caps)


shrunk = Shrunk("shrunk", _shrunk, NOTE)


def shrunk_bands(raw: KeyBands, moments: Moments, level: float | None) -> KeyBands:
    """Shrunk bands, from raw bands and the moments that gave them; see ``shrunk_where``."""
    return shrunk_where(raw, learn(raw, moments), moments, level)


def shrunk_where(
    raw: KeyBands,
    posteriors: dict[str, Posterior],
    moments: Moments,
    level: float | None,
    pays: dict[str, Flags] | None = None,
) -> KeyBands:
    """Bands with posteriors in place of the raw values, where there are any and where it ``pays``.

    Other values are clipped to their range. Without a ``level``, intervals are those of ``raw``. Last,
    answers are corrected for the keys that caps leave out, if the moments know about them.
    """
    bands = {}
    for name, (mean, variance) in posteriors.items():
        clipped = clipped_band(getattr(raw, name), LOWEST[name])
        learned = np.isfinite(mean) if pays is None else pays[name]
        value = np.where(learned, mean, clipped.value)
        stderr = np.where(learned, np.sqrt(variance), clipped.stderr)
        bands[name] = Band(value, stderr, clipped.low, clipped.high)
    if level is not None:
        ends = key_intervals(moments, {name: band.value for name, band in bands.items()}, level)
        bands = {name: with_intervals(band, ends[name], LOWEST[name]) for name, band in bands.items()}
    shrunken = KeyBands(moments.reports, **bands)
    return shrunken if moments.caps is None else moments.caps.corrected(shrunken, level)


def learn(raw: KeyBands, moments: Moments) -> dict[str, Posterior]:
    """Posteriors by statistic, each ``(..., keys)``; NaN with few keys."""
    shape = moments.reports.shape
    keys = shape[-1]
    reports = moments.reports.reshape(-1, keys)
    values = moments.values.reshape(-1, keys, 2)
    covariance = moments.covariance.reshape(-1, keys, 2, 2)
    together = None if moments.together is None else moments.together.reshape(-1)
    side = None if moments.side is None else moments.side.flat()
    names = [n for n in ("frequency", "mean", "mass") if getattr(raw, n) is not None]
    posteriors = {name: np.full((2, *reports.shape), np.nan) for name in names}
    groups = -(-keys // MOST)
    step = max(1, _BLOCK // (-(-keys // groups) * NODES * VALUES))
    for group in range(groups):
        members = slice(group, None, groups)  # a systematic sample of all keys
        for first in range(0, len(reports), step):
            rows = slice(first, first + step)
            part = _shrink(
                names,
                reports[rows, members],
                values[rows, members],
                covariance[rows, members],
                None if side is None else side.rows(rows),
            )
            if together is not None and "frequency" in part:
                noise, has_reports = covariance[rows, members, 0, 0], reports[rows, members] > 0
                part["frequency"] = _with_shared(part["frequency"], noise, has_reports, together[rows])
            for name, shrunken in part.items():
                posteriors[name][:, rows, members] = shrunken
    return {name: Posterior(*part.reshape(2, *shape)) for name, part in posteriors.items()}


def clipped_band(band: Band, low: float) -> Band:
    """A raw band clipped to its range; unknown values stay unknown."""
    known = np.isfinite(band.value)
    value, below, above = (np.clip(part, low, 1.0) for part in (band.value, band.low, band.high))
    ends = np.where(known, below, band.low), np.where(known, above, band.high)
    return Band(value, band.stderr, *ends)


def _shrink(
    wanted: list[str], reports: Integers, values: Floats, covariance: Floats, side: SideMean | None
) -> dict[str, Posterior]:
    """Posteriors of the wanted statistics, (repetition, key); NaN with few keys."""
    posteriors: dict[str, Posterior] = {}
    if "mass" in wanted and "mean" not in wanted:
        known = (reports > 0) & np.isfinite(values[..., 1])
        # On [0, 1], where a mass of -1 is 0.
        share, noise = (values[..., 1] + 1) / 2, covariance[..., 1, 1] / 4
        shares = _alone(share, noise, reports, known)
        posteriors["mass"] = Posterior(2 * shares.mean - 1, 4 * shares.variance)
    if "frequency" not in wanted:
        return posteriors
    known = (reports > 0) & np.isfinite(values[..., 0])
    if "mean" not in wanted:
        posteriors["frequency"] = _alone(values[..., 0], covariance[..., 0, 0], reports, known)
        return posteriors
    known &= np.isfinite(values[..., 1])
    noise_law = Noise.of(values, covariance, reports, known)
    total = values.sum(axis=1, where=known[..., None])
    common_mean = np.clip(total[:, 1] / np.maximum(total[:, 0], 1e-9), -1.0, 1.0)
    frequency = _frequency(values[..., 0], noise_law, known, common_mean)
    posteriors["frequency"], posteriors["mean"] = _mean(values, noise_law, known, frequency, side)
    return {name: _blank(part, known) for name, part in posteriors.items()}


def _alone(values: Floats, variances: Floats, reports: Integers, known: Flags) -> Posterior:
    """Posterior of a single statistic on [0, 1]."""
    pairs = np.stack([values, np.zeros_like(values)], axis=-1)
    spread = np.zeros((*values.shape, 2, 2))
    spread[..., 0, 0], spread[..., 1, 1] = variances, 1.0
    noise_law = Noise.of(pairs, spread, reports, known)
    return _blank(_frequency(values, noise_law, known, np.zeros(len(values))), known)


def _blank(posterior: Posterior, known: Flags) -> Posterior:
    """The posterior, with NaN for repetitions with fewer than ``FEWEST`` known keys."""
    few = known.sum(axis=-1, keepdims=True) < FEWEST
    return Posterior(*(np.where(few, np.nan, part) for part in posterior))


def _with_shared(posterior: Posterior, noise: Floats, known: Flags, together: Floats) -> Posterior:
    """The posterior widened for correlated errors of keys.

    An answer has weight B on its own key and 1 - B on the average of all keys. The variance of the
    average enters with weight 1 - B^2, and is ``together`` times the value under independent keys.
    """
    noise = np.where(known, noise, 0.0)
    count = np.maximum(known.sum(axis=-1, keepdims=True), 1)
    more = (together[:, None] - 1.0) * noise.sum(axis=-1, keepdims=True) / count**2
    own = np.minimum(posterior.variance / np.maximum(noise, 1e-300), 1.0)
    wide = posterior.variance + (1.0 - own**2) * more
    return Posterior(posterior.mean, wide)


# -- frequency -------------------------------------------------------------------------------------


def _frequency(values: Floats, noise_law: Noise, known: Flags, common_mean: Floats) -> Posterior:
    """Posterior of the frequencies, from their own estimates.

    ``common_mean`` is the mean of all keys, at which the noise is taken; the noise hardly depends on it.
    """
    at = points(SHARES)
    seen = np.where(known, values, 0.5)
    inside = np.clip(seen, 0.0, 1.0)
    mean_axis = common_mean[:, None, None]
    grid = np.broadcast_to(at, (*values.shape, SHARES))
    noise = noise_law.entry(0, 0, grid, grid * mean_axis)
    near = noise_law.entry(0, 0, inside[..., None], inside[..., None] * mean_axis)[..., 0]
    below = np.minimum(1.0, near / (_BELOW * spacing(inside, SHARES)) ** 2)
    noise /= below[..., None]
    height = seen[..., None] - at  # in place from here on: these arrays are large
    np.square(height, out=height)
    height /= 2 * noise
    height += np.multiply(0.5, np.log(noise, out=noise), out=noise)
    np.subtract(height.min(axis=-1, keepdims=True), height, out=height)
    likelihood = np.exp(height, out=height)
    likelihood[~known] = 1.0

    def centre(widths: Floats) -> tuple[Floats, Floats]:
        weight = known / near
        mean = np.clip((weight * seen).sum(axis=-1) / weight.sum(axis=-1).clip(1e-300), 0.001, 0.999)
        middle = np.repeat(mean[:, None], len(widths), axis=1)
        for _ in range(2):
            clipped = np.clip(middle, 0.001, 0.999)
            across = (widths**2 * clipped * (1 - clipped))[..., None]
            weight = known[:, None] / (near[:, None] + across)
            total = weight.sum(axis=-1).clip(1e-300)
            middle = (weight * seen[:, None]).sum(axis=-1) / total
        return middle, total**-0.5

    laws = beta_laws(centre, np.zeros((len(values), 1)), SHARES)
    prior = learn_prior(likelihood[:, None], laws, known[:, None].astype(np.float64))
    grid_posterior = posterior(likelihood[:, None], prior, at)
    scaled = _scaled(Posterior(*(part[:, 0] for part in grid_posterior)), seen, near, below, known)
    return scaled._replace(mean=np.clip(scaled.mean, 0.0, 1.0))


def _scaled(posterior: Posterior, raw: Floats, noise: Floats, below: Floats, known: Flags) -> Posterior:
    """The posterior on the grid at ``noise / below``, scaled to the noise.

    To first order, both the distance to the raw value and the share of the variance that shrinkage
    removes are proportional to the noise.
    """
    mean = raw + (posterior.mean - raw) * below
    share = np.maximum(1.0 - posterior.variance * below / noise, 0.0)
    small = known & (below < 1)
    return Posterior(
        np.where(small, mean, posterior.mean),
        np.where(small, noise * (1 - share * below), posterior.variance),
    )


# -- mean ------------------------------------------------------------------------------------------


def _mean(
    values: Floats, noise_law: Noise, known: Flags, frequency: Posterior, side: SideMean | None
) -> tuple[Posterior, Posterior]:
    """Posteriors of the frequencies, updated by the masses, and of the means."""
    seen = np.where(known, values[..., 0], 0.0)
    mass = np.where(known, values[..., 1], 0.0)
    f = np.maximum(frequency.mean, 1e-5)
    nodes = _nodes(f, frequency.variance)
    slope, rest = _given_frequency(mass, f, nodes, noise_law, known)
    middle = NODES // 2
    own = np.clip(mass / f, -1, 1)
    near = rest[..., middle]
    below = np.minimum(1.0, near / (_BELOW * 2 * spacing((own + 1) / 2, VALUES) * f) ** 2)
    # The mass given the frequency of a node: node times mean, plus noise.
    residual = mass[..., None] - slope * (seen[..., None] - nodes)
    by_node = _mean_likelihood(residual, nodes, rest / below[..., None], known)
    held = Held(mass - slope[..., middle] * (seen - f), f, near, frequency.variance, slope[..., middle])
    offset, offset_variance = offsets(held, known)
    common = None if side is None else side.of_keys(f, offset, known)
    grid_posterior, prior = _mean_on_grid(by_node.mean(axis=-2), held, offset, known, common)
    # In the units of the mean, with the variance of the frequency.
    unsure = frequency.variance * (grid_posterior.mean - held.slope) ** 2
    total, wider = (near + unsure) / f**2, (near / below + unsure) / f**2
    scaled = _scaled(grid_posterior, mass / f, total, total / wider, known)
    # The weight on other keys carries their uncertain offset from keys of this frequency.
    borrowed = np.where(known, 1.0 - np.minimum(scaled.variance / total, 1.0), 1.0)
    wide = scaled.variance + borrowed**2 * offset_variance
    mean = Posterior(np.clip(scaled.mean, -1.0, 1.0), wide)
    return _updated_frequency(frequency, nodes, np.einsum("rkjc,rkc->rkj", by_node, prior)), mean


def _mean_likelihood(residual: Floats, nodes: Floats, noise: Floats, known: Flags) -> Floats:
    """Likelihood of each mean of the grid at each node, (repetition, key, node, point)."""
    at = 2 * points(VALUES) - 1
    height = nodes[..., None] * at  # in place from here on: this is the largest array
    np.subtract(residual[..., None], height, out=height)
    np.square(height, out=height)
    height /= 2 * noise[..., None]
    height += 0.5 * np.log(noise)[..., None]
    np.subtract(height.min(axis=(-1, -2), keepdims=True), height, out=height)
    likelihood = np.exp(height, out=height)
    likelihood[~known] = 1.0
    return np.asarray(likelihood)


def _mean_on_grid(
    likelihood: Floats, held: Held, offset: Floats, known: Flags, common: CommonMean | None
) -> tuple[Posterior, Floats]:
    """Posterior of the means on the grid, and their prior (repetition, key, point).

    ``common`` is an observation of the common mean from other people.
    """
    order, counted, shift = classes(offset)
    laws = beta_laws(held.centre(offset, known, common), shift / 2, VALUES, common)
    classed = np.take_along_axis(likelihood, order.reshape(len(order), -1)[..., None], axis=1)
    classed = classed.reshape(*order.shape, VALUES)
    prior = learn_prior(classed, laws, counted * in_class_order(known, order))
    by_class = posterior(classed, prior, 2 * points(VALUES) - 1)
    means = Posterior(*(in_key_order(part, order, known.shape) for part in by_class))
    return means, in_key_order(prior, order, likelihood.shape)


def _nodes(f: Floats, variance: Floats) -> Floats:
    """Quadrature nodes of the posterior of each frequency, (repetition, key, node), all above zero."""
    normal = np.array([NormalDist().inv_cdf((j + 0.5) / NODES) for j in range(NODES)])
    normal /= np.sqrt((normal**2).mean())
    width = np.sqrt(np.log1p(variance / f**2))[..., None]
    return np.minimum(f[..., None] * np.exp(width * normal - 0.5 * width**2), 1.0)


def _given_frequency(
    mass: Floats, f: Floats, nodes: Floats, noise_law: Noise, known: Flags
) -> tuple[Floats, Floats]:
    """Regression coefficient of the mass on the frequency, and residual variance, at each node."""
    own = noise_law.own / noise_law.reports[..., None, None]
    rest = np.maximum(own[..., 1, 1] - own[..., 0, 1] ** 2 / own[..., 0, 0], 1e-300)
    # A rough mean at which the noise is taken, shrunk as if means had a standard deviation of 0.3.
    weight = known / (rest + 0.09 * f**2)
    total = (weight * f * f).sum(axis=-1, keepdims=True).clip(1e-300)
    common = np.clip((weight * f * mass).sum(axis=-1, keepdims=True) / total, -1, 1)
    rough = np.clip((mass * f * 0.09 + common * rest) / (f**2 * 0.09 + rest), -1, 1)[..., None]
    ff, fs, ss = (noise_law.entry(i, j, nodes, nodes * rough) for i, j in ((0, 0), (0, 1), (1, 1)))
    slope = fs / ff
    least = noise_law.least[:, 1, None, None] / noise_law.reports[..., None]
    return slope, np.maximum(ss - slope * fs, least)


def _updated_frequency(frequency: Posterior, nodes: Floats, weight: Floats) -> Posterior:
    """Posterior of the frequencies after the evidence of the masses about their nodes."""
    weight = weight / weight.sum(axis=-1, keepdims=True)
    mean = (weight * nodes).sum(axis=-1)
    variance = (weight * nodes**2).sum(axis=-1) - mean**2
    before = nodes.var(axis=-1)
    change = np.clip(variance / np.maximum(before, 1e-300), 0.05, 4.0)
    shifted = np.clip(frequency.mean + mean - nodes.mean(axis=-1), 0.0, 1.0)
    return Posterior(shifted, frequency.variance * change)
