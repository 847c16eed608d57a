"""Tests of association: whether two questions about a person are independent, under a hypothesis.

The statistic is the covariance of the answers, decoded without bias. Its law is that of the hypothesis,
from the channel itself (``report_scores``), so that the level holds with few reports, too.
"""

from __future__ import annotations

from math import copysign
from typing import NamedTuple

import numpy as np

from ...foundation.arrays import Floats
from ..caution import law_with_one_more
from .released import Released
from .report_scores import ScoreSum, score_sum
from .saddlepoint import CumulantPart, normal_cumulants, two_sided, upper_tail


class AnswerPair(NamedTuple):
    """The answers to two questions about people on a path: arrays over the joint states of the keys.

    ``inside`` is 1 for states on the path. ``first`` and ``second`` are the answers as numbers; for
    questions of yes or no, 1 and 0.
    """

    inside: Floats
    first: Floats
    second: Floats


def association(
    released: Released, keys: tuple[int, ...], asked: AnswerPair, law: Floats
) -> ScoreSum | None:
    """The covariance of two answers on the path, and its law if the joint states follow ``law``.

    The means of the answers are estimated. Their errors add the product of both to the statistic, which
    is a term of second order, and its mean and variance are added as those of a normal term.
    """
    people = float((law * asked.inside).sum())
    centred = [
        asked.inside * (answer - float((law * asked.inside * answer).sum()) / people)
        for answer in (asked.first, asked.second)
    ]
    statistic = _statistic(released, keys, centred[0] * centred[1], law)
    if statistic is None:
        return None
    errors = released.moments(keys, np.stack(centred, axis=-1)).covariance
    limit = [people * float(np.abs(part).max()) / 2 for part in centred]
    first, second = (min(errors[i, i], limit[i] ** 2) for i in (0, 1))
    both = float(np.clip(errors[0, 1], -limit[0] * limit[1], limit[0] * limit[1]))
    product = normal_cumulants(-both / people, (first * second + both**2) / people**2)
    return ScoreSum(statistic.value, [*statistic.parts, product], statistic.report)


def independence(released: Released, keys: tuple[int, ...], asked: AnswerPair, law: Floats) -> float:
    """p-value of the hypothesis ``law``, in which the answers are independent, in both tails."""
    statistic = association(released, keys, asked, law)
    return 1.0 if statistic is None else two_sided(statistic.parts, _cautious_value(statistic))


def excess(released: Released, keys: tuple[int, ...], asked: AnswerPair, law: Floats) -> float:
    """p-value of the hypothesis that the answers go together at most as in ``law``."""
    statistic = association(released, keys, asked, law)
    return 1.0 if statistic is None else upper_tail(statistic.parts, _cautious_value(statistic))


def _cautious_value(statistic: ScoreSum) -> float:
    """The value moved towards its mean under the hypothesis by what one report adds.

    Sums of few reports are discrete, and tails by the saddlepoint method are those of a sum without
    jumps. A finding that depends on one report is none.
    """
    mean = sum(part(0.0).slope for part in statistic.parts)
    gap = statistic.value - mean
    return mean + copysign(max(abs(gap) - statistic.report, 0.0), gap)


def keys_independence(released: Released, first: int, second: int) -> float:
    """p-value of the hypothesis that two keys are independent: both presences and all values.

    Presence is tested against presence, and value against presence and value. Half of the chance of
    error is given to the first test and a sixth to each of the other three (Bonferroni).
    """
    keys, states = (first, second), released.states
    margins = [_cautious(released, key) for key in keys]
    law, everyone = np.outer(*margins), np.ones((states, states))
    answers = [_answers(released, margin) for margin in margins]
    smallest = 1.0
    for i, answer in enumerate(answers[0]):
        for j, other in enumerate(answers[1]):
            asked = AnswerPair(everyone, everyone * answer[:, None], everyone * other)
            share = 1.0 if len(answers[0]) == 1 else 0.5 if i == j == 0 else 1 / 6
            smallest = min(smallest, independence(released, keys, asked, law) / share)
    return smallest


def _cautious(released: Released, key: int) -> Floats:
    """The law of a key with one more report of each state."""
    count = np.asarray(float(released.reports((key,))))
    return law_with_one_more(released.single(key), count, released.states)


def _answers(released: Released, law: Floats) -> list[Floats]:
    """AnswerPair about a key as numbers for its digits: whether it is held, and its value if it is."""
    held = (np.arange(len(law)) > 0).astype(np.float64)
    if len(law) < 3:
        return [held]
    values = np.concatenate([[0.0], released.schema.values])
    return [held, values - held * float(law @ values) / float(law @ held)]


def law_with_lift(law: Floats, asked: AnswerPair, reports: int, lift: float = 1.0) -> Floats:
    """A law like ``law`` in which yes to both questions is ``lift`` times as frequent as by chance.

    The shares of people on the path and of those who say yes to each question remain, up to one more
    report for each of the two answers. Each of the four groups keeps its own law.
    """
    count = float(max(reports, 1))
    even = np.full_like(law, 1.0 / law.size)
    smooth = (count * law + even * 4.0) / (count + 4.0)
    people = float((smooth * asked.inside).sum())
    yes = asked.inside * asked.first, asked.inside * asked.second
    shares = [
        (count * float((law * part).sum()) + 1.0)
        / (count * max(float((law * asked.inside).sum()), 1e-9) + 2.0)
        for part in yes
    ]
    both = min(lift * shares[0] * shares[1], 0.999 * min(shares))
    null = smooth.copy()
    for first in (True, False):
        for second in (True, False):
            group = asked.inside * _answer(asked.first, first) * _answer(asked.second, second)
            share = both if first and second else 0.0
            if first != second:
                share = (shares[0] if first else shares[1]) - both
            elif not first:
                share = max(1.0 - shares[0] - shares[1] + both, 1e-9)
            weight = float((smooth * group).sum())
            if weight > 0:
                null = np.where(group > 0, smooth * share * people / weight, null)
    return np.asarray(null / null.sum())


def _answer(answers: Floats, yes: bool) -> Floats:
    return answers if yes else 1.0 - answers


def _statistic(released: Released, keys: tuple[int, ...], score: Floats, law: Floats) -> ScoreSum | None:
    """The mean score and its law; by the parts of the keys that views hold if none holds all."""
    direct = score_sum(released.evidence, keys, score, law)
    if direct is not None or len(keys) < 3:
        return direct
    value, report, cumulants = 0.0, 0.0, list[CumulantPart]()
    for part, weights in released.regressed(keys, score, law).items():
        share = score_sum(released.evidence, part, weights, _marginal(law, keys, part))
        if share is None:
            return None
        value, report = value + share.value, max(report, share.report)
        cumulants += list(share.parts)
    return ScoreSum(value, cumulants, report)


def _marginal(law: Floats, keys: tuple[int, ...], part: tuple[int, ...]) -> Floats:
    """The law of some of the keys, in the order of ``part``."""
    others = tuple(axis for axis, key in enumerate(keys) if key not in part)
    order = [key for key in keys if key in part]
    return np.asarray(law.sum(axis=others).transpose([order.index(key) for key in part]))
