"""The law of a statistic under a hypothesis about people: sums of scores of independent reports.

The statistic of a test is the mean of a score over the joint states of keys, decoded without bias. So it
is a sum over reports, and a report adds a number that depends on its output alone. Under a hypothesis
the law of the outputs follows from the channel. So the cumulants of the statistic are known for every
number of reports, and its tails follow from them (``saddlepoint``). The variance is that of the
hypothesis: an estimated one is too small when the statistic is large by chance, and with few reports
such tests are wrong far too often.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from math import sqrt
from typing import NamedTuple

import numpy as np

from ...channel.one_hot_bits import OneHotBits
from ...foundation.arrays import WORD, Floats
from ..together.joint import Evidence, HeldEvidence, lifted
from ..together.monomials import SumEvidence
from ..together.single_view import WholeEvidence, bits_of_states
from ..together.view_laws import ViewEvidence
from .exact_statistics import ExactEvidence
from .saddlepoint import CumulantPart, mixture_cumulants, normal_cumulants

PRODUCT_DIGITS = ((1.0, 1.0, 1.0), (0.0, -1.0, 1.0), (0.0, 1.0, 1.0))
"""1, x and |x| of absent, low and high."""


class ScoreSum(NamedTuple):
    """The value of a statistic, and the cumulants of its independent parts under the hypothesis."""

    value: float
    parts: Sequence[CumulantPart]
    report: float = 0.0
    """Standard deviation of what one report adds to the value."""


def _summed(value: float, reports: Sequence[int], parts: Sequence[CumulantPart]) -> ScoreSum:
    """A statistic from the number of reports and the cumulants of each part."""
    variances = [part(0.0).curve / max(n, 1) for n, part in zip(reports, parts, strict=True)]
    return ScoreSum(value, parts, sqrt(max(variances, default=0.0)))


@singledispatch
def score_sum(evidence: Evidence, keys: tuple[int, ...], score: Floats, law: Floats) -> ScoreSum | None:
    """The mean ``score`` of the joint states of ``keys``, and its cumulants if people follow ``law``.

    Both are arrays ``(levels + 1,) * keys``. None if the evidence does not know the keys together. For
    evidence without independent cells, the law is normal with the estimated variance.
    """
    moments = evidence.moments(keys, score[..., None])
    if moments is None:
        return None
    mean = float((score * law).sum())
    part = normal_cumulants(mean, float(moments.covariance[0, 0]))
    return _summed(float(moments.values[0]), [moments.reports], [part])


@score_sum.register
def _of_a_table(
    evidence: ExactEvidence, keys: tuple[int, ...], score: Floats, law: Floats
) -> ScoreSum | None:
    table = evidence.law(keys)
    if table is None:
        return None
    value = float((score * table).sum())
    if evidence.people is None:
        return ScoreSum(value, [normal_cumulants(float((score * law).sum()), 0.0)])
    scores = score.reshape(-1) / evidence.people
    part = mixture_cumulants(evidence.people, law.reshape(-1), scores)
    return _summed(value, [evidence.people], [part])


@score_sum.register
def _of_views(
    evidence: ViewEvidence, keys: tuple[int, ...], score: Floats, law: Floats
) -> ScoreSum | None:
    """Views that hold the keys, weighted by their precision under the hypothesis."""
    terms = []
    for view in evidence.covering(keys):
        number, row = evidence.place_of(view)
        reports = int(evidence.raw[number].reports[row])
        if not reports:
            continue
        held = evidence.plan.views.keys[view]
        decoder, channel = evidence.decoding(number)
        weights = lifted(score[..., None], keys, held, evidence.levels)
        scores = decoder @ weights[:, 0]
        outputs = _view_law(evidence, held, keys, law) @ channel
        mean = float(outputs @ scores)
        variance = float(outputs @ (scores - mean) ** 2)
        value = float(evidence.raw[number].laws[row] @ weights[:, 0])
        terms.append((reports, outputs, scores, variance, value))
    if not terms:
        return None
    precision = np.array([reports / max(variance, 1e-30) for reports, _, _, variance, _ in terms])
    shares = precision / precision.sum()
    return _summed(
        sum(share * term[4] for share, term in zip(shares, terms, strict=True)),
        [term[0] for term in terms],
        [
            mixture_cumulants(reports, outputs, scores * share / reports)
            for share, (reports, outputs, scores, _, _) in zip(shares, terms, strict=True)
        ],
    )


def _view_law(
    evidence: ViewEvidence, held: tuple[int, ...], keys: tuple[int, ...], law: Floats
) -> Floats:
    """The law of a view with the hypothetical law of ``keys``, the others independent of them.

    The score does not depend on the others, and they hardly change its noise.
    """
    flat = lifted(law[..., None], keys, held, evidence.levels)[:, 0]
    for key in held:
        if key not in keys:
            single = evidence.law((key,))
            assert single is not None
            flat = flat * lifted(single[:, None], (key,), held, evidence.levels)[:, 0]
    return flat


@score_sum.register
def _of_one_view(
    evidence: WholeEvidence, keys: tuple[int, ...], score: Floats, law: Floats
) -> ScoreSum | None:
    moments = evidence.moments(keys, score[..., None])
    if moments is None:
        return None
    bits, few = bits_of_states(evidence.channel), evidence.channel.few_digits(len(keys))
    value, reports, states = float(moments.values[0]), evidence.reports, law.reshape(-1)
    if bits is not None:
        folded = len(evidence.shares) // law.size
        part = bit_cumulants(bits, folded, reports, score.reshape(-1), states)
        return _summed(value, [reports], [part])
    if few is not None:
        scores = few.decoder(score.reshape(-1, 1))[:, 0]
        part = mixture_cumulants(reports, states @ few.expected(), scores / reports)
        return _summed(value, [reports], [part])
    mean = float((score * law).sum())
    return _summed(value, [reports], [normal_cumulants(mean, float(moments.covariance[0, 0]))])


def bit_cumulants(
    kind: OneHotBits, folded: int, reports: int, score: Floats, law: Floats
) -> CumulantPart:
    """Reports of one bit for each state, ``folded`` of them in every cell of ``score``.

    The true bit is set with another probability than all others, and the bits are independent given the
    state. See ``WholeEvidence._of_bits`` for the decoder: a constant is taken from all scores first.
    """
    offset = float(score.mean())
    weights = (score - offset) / (kind.lift * reports)
    fake, show = kind.fake / WORD, kind.show / WORD
    constant = offset / reports - folded * fake * float(weights.sum())

    def noise(t: float) -> Floats:
        false, true = _bit(fake, t, weights), _bit(show, t, weights)
        return np.asarray(folded * false.sum(axis=1, keepdims=True) + true - false)

    return mixture_cumulants(reports, law, np.full(law.size, constant), noise)


def _bit(chance: float, t: float, weights: Floats) -> Floats:
    """Cumulants ``(3, weights)`` of a bit times its weight."""
    up = t * weights
    high = np.maximum(up, 0.0)
    set_, clear = chance * np.exp(up - high), (1 - chance) * np.exp(-high)
    tilted = set_ / (set_ + clear)
    return np.stack([np.log(set_ + clear) + high, tilted * weights, tilted * (1 - tilted) * weights**2])


@score_sum.register
def _of_sets(
    evidence: HeldEvidence, keys: tuple[int, ...], score: Floats, law: Floats
) -> ScoreSum | None:
    """Sets of keys hashed to cells: exact for the cells of the keys' own items, normal for others."""
    pairs = evidence.pairs
    statistic = pairs.score(keys, score, law, evidence.cautious_laws)
    if statistic is None:
        return None
    own = mixture_cumulants(pairs.reports, statistic.chances, statistic.scores / pairs.reports)
    rest = normal_cumulants(statistic.mean - own(0.0).slope, statistic.other_variance)
    return _summed(statistic.value, [pairs.reports, pairs.reports], [own, rest])


@score_sum.register
def _of_products(
    evidence: SumEvidence, keys: tuple[int, ...], score: Floats, law: Floats
) -> ScoreSum | None:
    """Products of signs and presences, each a bit that other people report."""
    expansion = evidence.expansion(keys, score[..., None])
    if expansion is None:
        return None
    value, parts, counts = float(expansion[0][0]), list[CumulantPart](), list[int]()
    for name, coefficients in expansion[1].items():
        estimate, _, reports = evidence.means[name]
        low, high = ends = evidence.ends[name]
        mean = float((law * _product_values(keys, dict(name), law.shape)).sum())
        chance = min(max((mean - low) / (high - low), 0.0), 1.0)
        scores = float(coefficients[0]) * np.array(ends) / reports
        value += float(coefficients[0]) * estimate
        parts.append(mixture_cumulants(reports, np.array([1 - chance, chance]), scores))
        counts.append(reports)
    constant = normal_cumulants(float(expansion[0][0]), 0.0)
    return _summed(value, [*counts, 1], [*parts, constant])


def _product_values(keys: tuple[int, ...], powers: dict[int, int], shape: tuple[int, ...]) -> Floats:
    """The value of a product of {x, |x|} in every joint state of keys with two levels."""
    values = np.ones(())
    for key in keys:
        values = values[..., None] * np.array(PRODUCT_DIGITS[powers.get(key, 0)])
    return np.broadcast_to(values, shape)
