"""Shrinkage: every key's answer, drawn towards what all keys have in common as far as noise is large.

From unbiased frequency and mass of every key, with their covariance, and nothing else: so it works for
every mechanism that has moments. Three steps.

1. *Noise.* A report's variance depends on what is true, not on what was seen: at every possible value
   it is read off a line fitted through all keys' own variances (exact for one-key channels).
2. *Frequency.* Its likelihood on a grid of [0, 1], and what keys have in common (``common``).
3. *Mean.* Its likelihood on a grid of [-1, 1], averaged over what is left open of the key's frequency,
   and what keys have in common, which may go up or down with frequency. In turn the mass tells
   something of the frequency, where keys' means are alike.

Where noise is below the grid's spacing the grid's answer is scaled down to the noise, so that with ever
more reports the answer becomes the raw one.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...foundation.arrays import Flags, Floats, Integers
from ..answer import Answers, Band, KeyBands, quantile
from ..decoding import moments_of
from ..estimator import ArrayEstimator, answers_from, answers_of
from ..linear import Moments, key_bands
from .common_law import Posterior, beta_laws, points, posterior, settle, spacing
from .mean_by_frequency import Held, back, classes, offsets, taken
from .noise_line import Noise

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...plan.tally import Tally

FEWEST = 5
"""With fewer keys that have reports there is nothing in common to learn: clipped raw answers."""
SHARES, VALUES = 128, 96
"""Points of the two grids."""
END = 1e-3
"""The share of a range, at either end, in which the grids tell no values apart."""
NODES = 7
"""Frequencies at which the likelihood of a mean is taken."""
MOST = 4096
"""More keys than this are shrunk in groups, each large enough to know all that is common."""
_BLOCK = 1 << 20
"""So many numbers at once."""
_BELOW = 0.6
"""Noise of less than this share of the grid's spacing is below it."""

NOTE = (
    "shrunk towards what all keys have in common; intervals hold on average over keys, "
    "not for each key by itself"
)
FEW_NOTE = (
    f"nothing was shrunk: fewer than {FEWEST} keys have reports that tell of them, too few to have "
    "anything in common; values and intervals are the raw ones, clipped to their range"
)


def _shrunk(plan: Plan, counts: Integers, level: float) -> KeyBands:
    """Frequency and mean (or mass) of every key, shrunk across keys."""
    moments = moments_of(plan, counts)
    return shrunk_bands(key_bands(plan, moments, level), moments, level)


class Shrunk(ArrayEstimator):
    """The estimator by its name, whose note says whether anything was shrunk."""

    def __call__(self, plan: Plan, tally: Tally, level: float) -> Answers:
        """The answers of one tally."""
        moments = moments_of(plan, tally.counts)
        raw = key_bands(plan, moments, level)
        found = learned(raw, moments)
        keys = answers_from(plan, _with_learned(raw, found, moments, level))
        told = any(np.isfinite(part[0]).any() for part in found.values())
        return answers_of(plan, keys, self.name, level, NOTE if told else FEW_NOTE)


shrunk = Shrunk("shrunk", _shrunk, NOTE)


def shrunk_bands(raw: KeyBands, moments: Moments, level: float) -> KeyBands:
    """The shrunk form of raw bands, from the moments that they were made of."""
    return _with_learned(raw, learned(raw, moments), moments, level)


def learned(raw: KeyBands, moments: Moments) -> dict[str, Floats]:
    """Mean, variance and skewness of each answer given all keys, ``(3, ..., keys)``; NaN where few."""
    shape = moments.reports.shape
    keys = shape[-1]
    reports = moments.reports.reshape(-1, keys)
    values = moments.values.reshape(-1, keys, 2)
    covariance = moments.covariance.reshape(-1, keys, 2, 2)
    together = None if moments.together is None else moments.together.reshape(-1)
    names = [n for n in ("frequency", "mean", "mass") if getattr(raw, n) is not None]
    found = {name: np.full((3, *reports.shape), np.nan) for name in names}
    groups = -(-keys // MOST)
    step = max(1, _BLOCK // (-(-keys // groups) * NODES * VALUES))
    for group in range(groups):
        some = slice(group, None, groups)  # every so many: each group is like all of them
        for first in range(0, len(reports), step):
            rows = slice(first, first + step)
            part = _shrink(names, reports[rows, some], values[rows, some], covariance[rows, some])
            if together is not None and "frequency" in part:
                noise, tells = covariance[rows, some, 0, 0], reports[rows, some] > 0
                part["frequency"] = _with_shared(part["frequency"], noise, tells, together[rows])
            for name, shrunken in part.items():
                found[name][:, rows, some] = shrunken
    return {name: part.reshape(3, *shape) for name, part in found.items()}


def _with_learned(raw: KeyBands, found: dict[str, Floats], moments: Moments, level: float) -> KeyBands:
    """Raw bands with what was learned in their place."""
    made = {}
    for name, part in found.items():
        low = 0.0 if name == "frequency" else -1.0
        made[name] = _where_learned(Posterior(*part), _cut(getattr(raw, name), low), low, level)
    return KeyBands(moments.reports, **made)


def _where_learned(found: Posterior, raw: Band, low: float, level: float) -> Band:
    """Shrunk where anything could be learned of keys in common, clipped raw elsewhere.

    Ends are a normal law's, moved by its skewness (Cornish and Fisher): near zero a frequency may be
    further above what is likely than below it. Within ``END`` of the range's end grids tell no values
    apart, and an interval goes to the end if the key's own does.
    """
    learned = np.isfinite(found.mean)
    stderr, reach = np.sqrt(found.variance), quantile(level)
    moved = found.skew * (reach**2 - 1) / 6
    below, above = found.mean + (moved - reach) * stderr, found.mean + (moved + reach) * stderr
    near = END * (1.0 - low)
    below = np.where((raw.low <= low) & (below < low + near), low, below)
    above = np.where((raw.high >= 1.0) & (above > 1.0 - near), 1.0, above)
    return Band(
        np.where(learned, found.mean, raw.value),
        np.where(learned, stderr, raw.stderr),
        np.where(learned, np.clip(below, low, 1.0), raw.low),
        np.where(learned, np.clip(above, low, 1.0), raw.high),
    )


def _cut(band: Band, low: float) -> Band:
    """A raw band within its range; what is unknown stays unknown."""
    known = np.isfinite(band.value)
    value, below, above = (np.clip(each, low, 1.0) for each in (band.value, band.low, band.high))
    ends = np.where(known, below, band.low), np.where(known, above, band.high)
    return Band(value, band.stderr, *ends)


def _shrink(
    wanted: list[str], reports: Integers, values: Floats, covariance: Floats
) -> dict[str, Posterior]:
    """Means and variances of what is wanted, (repetition, key); NaN where nothing can be learned."""
    made: dict[str, Posterior] = {}
    if "mass" in wanted and "mean" not in wanted:
        known = (reports > 0) & np.isfinite(values[..., 1])
        # On [0, 1], where a mass of -1 is 0.
        share, noise = (values[..., 1] + 1) / 2, covariance[..., 1, 1] / 4
        found = _alone(share, noise, reports, known)
        made["mass"] = Posterior(2 * found.mean - 1, 4 * found.variance, found.skew)
    if "frequency" not in wanted:
        return made
    known = (reports > 0) & np.isfinite(values[..., 0])
    if "mean" not in wanted:
        made["frequency"] = _alone(values[..., 0], covariance[..., 0, 0], reports, known)
        return made
    known &= np.isfinite(values[..., 1])
    noise_law = Noise.of(values, covariance, reports, known)
    total = values.sum(axis=1, where=known[..., None])
    together = np.clip(total[:, 1] / np.maximum(total[:, 0], 1e-9), -1.0, 1.0)
    frequency = _frequency(values[..., 0], noise_law, known, together)
    made["frequency"], made["mean"] = _mean(values, noise_law, known, frequency)
    return {name: _blank(each, known) for name, each in made.items()}


def _alone(values: Floats, variances: Floats, reports: Integers, known: Flags) -> Posterior:
    """One value of every key, without another beside it."""
    both = np.stack([values, np.zeros_like(values)], axis=-1)
    spread = np.zeros((*values.shape, 2, 2))
    spread[..., 0, 0], spread[..., 1, 1] = variances, 1.0
    noise_law = Noise.of(both, spread, reports, known)
    return _blank(_frequency(values, noise_law, known, np.zeros(len(values))), known)


def _blank(found: Posterior, known: Flags) -> Posterior:
    few = known.sum(axis=-1, keepdims=True) < FEWEST
    return Posterior(*(np.where(few, np.nan, each) for each in found))


def _with_shared(found: Posterior, noise: Floats, known: Flags, together: Floats) -> Posterior:
    """Wider by what keys' errors have in common: what is taken from other keys errs as this key does.

    An answer is its own key's by B and all keys' average by 1 - B. The average's variance stands in the
    answer's with a weight of 1 - B^2, and is ``together`` times what the grid took it to be.
    """
    noise = np.where(known, noise, 0.0)
    count = np.maximum(known.sum(axis=-1, keepdims=True), 1)
    more = (together[:, None] - 1.0) * noise.sum(axis=-1, keepdims=True) / count**2
    own = np.minimum(found.variance / np.maximum(noise, 1e-300), 1.0)
    wide = found.variance + (1.0 - own**2) * more
    return Posterior(found.mean, wide, found.skew * (found.variance / wide) ** 1.5)


# -- frequency -------------------------------------------------------------------------------------


def _frequency(values: Floats, noise_law: Noise, known: Flags, together: Floats) -> Posterior:
    """Frequencies after all, from their own estimates.

    ``together`` is the mean of all keys, at which the noise is taken: it hardly depends on it.
    """
    at = points(SHARES)
    seen = np.where(known, values, 0.5)
    inside = np.clip(seen, 0.0, 1.0)
    mean_of = together[:, None, None]
    grid = np.broadcast_to(at, (*values.shape, SHARES))
    noise = noise_law.entry(0, 0, grid, grid * mean_of)
    near = noise_law.entry(0, 0, inside[..., None], inside[..., None] * mean_of)[..., 0]
    below = np.minimum(1.0, near / (_BELOW * spacing(inside, SHARES)) ** 2)
    noise = noise / below[..., None]
    height = (seen[..., None] - at) ** 2 / (2 * noise) + 0.5 * np.log(noise)
    likelihood = np.exp(height.min(axis=-1, keepdims=True) - height)
    likelihood[~known] = 1.0

    def centre(widths: Floats) -> tuple[Floats, Floats]:
        weight = known / near
        mean = np.clip((weight * seen).sum(axis=-1) / weight.sum(axis=-1).clip(1e-300), 0.001, 0.999)
        middle = np.repeat(mean[:, None], len(widths), axis=1)
        for _ in range(2):
            held = np.clip(middle, 0.001, 0.999)
            across = (widths**2 * held * (1 - held))[..., None]
            weight = known[:, None] / (near[:, None] + across)
            total = weight.sum(axis=-1).clip(1e-300)
            middle = (weight * seen[:, None]).sum(axis=-1) / total
        return middle, total**-0.5

    laws = beta_laws(centre, np.zeros((len(values), 1)), SHARES)
    prior = settle(likelihood[:, None], laws, known[:, None].astype(np.float64))
    found = posterior(likelihood[:, None], prior, at)
    scaled = _scaled(Posterior(*(part[:, 0] for part in found)), seen, near, below, known)
    return scaled._replace(mean=np.clip(scaled.mean, 0.0, 1.0))


def _scaled(found: Posterior, raw: Floats, noise: Floats, below: Floats, known: Flags) -> Posterior:
    """What the grid found at ``noise / below``, at the noise itself.

    To first order both the way to the raw value and the share that shrinkage takes off the variance
    are as large as the noise.
    """
    mean = raw + (found.mean - raw) * below
    share = np.maximum(1.0 - found.variance * below / noise, 0.0)
    small = known & (below < 1)
    return Posterior(
        np.where(small, mean, found.mean),
        np.where(small, noise * (1 - share * below), found.variance),
        np.where(small, found.skew * np.sqrt(below), found.skew),
    )


# -- mean ------------------------------------------------------------------------------------------


class _Masses(NamedTuple):
    """What masses say of means: at nodes of each frequency, and at its middle node."""

    nodes: Floats
    """Frequencies that stand for each posterior, ``(repetition, key, node)``."""
    likelihood: Floats
    """Of every node and grid value of the mean, up to a factor for each key."""
    held: Held
    smoothing: Floats
    """The factor by which the noise was raised to be no narrower than the grid is, inverted."""


def _mean(
    values: Floats, noise_law: Noise, known: Flags, frequency: Posterior
) -> tuple[Posterior, Posterior]:
    """Frequencies with what the masses add to them, and means."""
    masses = _masses(values, noise_law, known, frequency)
    held = masses.held
    likelihood = masses.likelihood.mean(axis=-2)
    offset, left_open = offsets(held, known)
    order, counted, shift = classes(offset)
    laws = beta_laws(held.centre(offset, known), shift / 2, VALUES)
    classed = np.take_along_axis(likelihood, order.reshape(len(order), -1)[..., None], axis=1)
    classed = classed.reshape(*order.shape, VALUES)
    prior = settle(classed, laws, counted * taken(known, order))
    found = posterior(classed, prior, 2 * points(VALUES) - 1)
    by_key = Posterior(*(back(part, order, values.shape[:2]) for part in found))
    likely = back(prior.likely, order, (*values.shape[:2], VALUES))
    mass = np.where(known, values[..., 1], 0.0)
    mean = _widened(by_key, masses, mass, frequency.variance, left_open, known)
    weight = np.einsum("rkjc,rkc->rkj", masses.likelihood, likely)
    return _told(frequency, masses.nodes, weight), mean


def _masses(values: Floats, noise_law: Noise, known: Flags, frequency: Posterior) -> _Masses:
    """The likelihood of means, given the masses, at nodes of each frequency's posterior."""
    at = 2 * points(VALUES) - 1
    seen = np.where(known, values[..., 0], 0.0)
    mass = np.where(known, values[..., 1], 0.0)
    f = np.maximum(frequency.mean, 1e-5)
    nodes = _nodes(f, frequency.variance)
    slope, rest = _given_frequency(mass, f, nodes, noise_law, known)
    middle = NODES // 2
    own = np.clip(mass / f, -1, 1)
    near = rest[..., middle]
    below = np.minimum(1.0, near / (_BELOW * 2 * spacing((own + 1) / 2, VALUES) * f) ** 2)
    # What is left of the mass once the frequency is known: node times mean, and noise.
    left = mass[..., None] - slope * (seen[..., None] - nodes)
    noise = rest / below[..., None]
    height = (left[..., None] - nodes[..., None] * at) ** 2 / (2 * noise[..., None])
    height += 0.5 * np.log(noise)[..., None]
    likelihood = np.exp(height.min(axis=(-1, -2), keepdims=True) - height)
    likelihood[~known] = 1.0
    held = Held(mass - slope[..., middle] * (seen - f), f, near, frequency.variance, slope[..., middle])
    return _Masses(nodes, likelihood, held, below)


def _widened(
    found: Posterior, masses: _Masses, mass: Floats, variance: Floats, left_open: Floats, known: Flags
) -> Posterior:
    """Means with the variance of the frequency, and with that of what other keys have in common."""
    held, f = masses.held, masses.held.f
    unsure = variance * (found.mean - held.slope) ** 2
    total, wider = (held.noise + unsure) / f**2, (held.noise / masses.smoothing + unsure) / f**2
    scaled = _scaled(found, mass / f, total, total / wider, known)
    # What is taken from other keys may be off by as much as they differ from keys of this frequency.
    borrowed = np.where(known, 1.0 - np.minimum(scaled.variance / total, 1.0), 1.0)
    wide = scaled.variance + borrowed**2 * left_open
    less_skew = scaled.skew * (scaled.variance / wide) ** 1.5
    return Posterior(np.clip(scaled.mean, -1.0, 1.0), wide, less_skew)


def _nodes(f: Floats, variance: Floats) -> Floats:
    """Frequencies that stand for what is left open of each, (repetition, key, node): none below zero."""
    normal = np.array([NormalDist().inv_cdf((j + 0.5) / NODES) for j in range(NODES)])
    normal /= np.sqrt((normal**2).mean())
    width = np.sqrt(np.log1p(variance / f**2))[..., None]
    return np.minimum(f[..., None] * np.exp(width * normal - 0.5 * width**2), 1.0)


def _given_frequency(
    mass: Floats, f: Floats, nodes: Floats, noise_law: Noise, known: Flags
) -> tuple[Floats, Floats]:
    """How the mass's noise goes with the frequency's, and the variance that is left, at each node."""
    own = noise_law.own / noise_law.reports[..., None, None]
    rest = np.maximum(own[..., 1, 1] - own[..., 0, 1] ** 2 / own[..., 0, 0], 1e-300)
    # A rough mean, to know the noise at: towards all keys' mean, as if means were 0.3 apart.
    weight = known / (rest + 0.09 * f**2)
    total = (weight * f * f).sum(axis=-1, keepdims=True).clip(1e-300)
    common = np.clip((weight * f * mass).sum(axis=-1, keepdims=True) / total, -1, 1)
    rough = np.clip((mass * f * 0.09 + common * rest) / (f**2 * 0.09 + rest), -1, 1)[..., None]
    ff, fs, ss = (noise_law.entry(i, j, nodes, nodes * rough) for i, j in ((0, 0), (0, 1), (1, 1)))
    slope = fs / ff
    least = noise_law.least[:, 1, None, None] / noise_law.reports[..., None]
    return slope, np.maximum(ss - slope * fs, least)


def _told(frequency: Posterior, nodes: Floats, weight: Floats) -> Posterior:
    """Frequencies after what the masses say of their nodes."""
    weight = weight / weight.sum(axis=-1, keepdims=True)
    mean = (weight * nodes).sum(axis=-1)
    variance = (weight * nodes**2).sum(axis=-1) - mean**2
    before = nodes.var(axis=-1)
    change = np.clip(variance / np.maximum(before, 1e-300), 0.05, 4.0)
    moved = np.clip(frequency.mean + mean - nodes.mean(axis=-1), 0.0, 1.0)
    return Posterior(moved, frequency.variance * change, frequency.skew)
