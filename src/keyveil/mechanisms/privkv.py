"""PrivKV: flip whether the key is held; if it is shown, send the flipped sign of its value.

Ye, Hu, Meng, Zheng, "PrivKV: Key-value data collection with LDP", IEEE S&P 2019 (Algorithms 1 and 2 of
Sun et al.). An absent key that is shown gets a random value. Paper letters: p1 keeps the key, p2 the
sign, epsilon_1 = epsilon_2 = epsilon / 2. That is truly max{e2, e1 + ln(2 / (1 + e^-e2))}, 0.719 at a
nominal 1; ``tight`` takes e2 = epsilon and e1 = ln((e^epsilon + 1) / 2), which uses all of epsilon.

It has three estimators. ``unbiased`` is the paper's PrivKV-A. (It is least squares: the channel is
square, so only one estimator is unbiased.) ``published`` is PrivKV's own mean; it ignores that absent
keys also send values, and so shrinks towards 0. ``virtual`` iterates ``published`` at the collector and
approaches ``unbiased``.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import exp, log
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channel import Channel, Table
from ..estimate.answer import KeyAnswer, biased
from ..estimate.caution import Number, mean_with_one_more
from ..estimate.forecast.round_forecast import FeedbackForecast, FeedbackRound, first_round
from ..estimate.likelihood import likelihood
from ..estimate.linear import answers_of, key_answers, on_scale, single_moments
from ..foundation.arrays import Floats, Integers
from ..people.schema import Schema
from ..people.views import Views
from .mechanism import Draft, Mechanism, fitted

if TYPE_CHECKING:
    from ..estimate.answer import Answers
    from ..estimate.forecast.predicted_error import Forecast
    from ..people.prior import Prior
    from ..plan.plan import Plan
    from ..plan.tally import Tally

VIRTUAL_ROUNDS = 10
"""Number of rounds of ``virtual``, the first included."""


def keep_probability(epsilon: float) -> float:
    """How often binary randomised response keeps the truth: e^epsilon / (e^epsilon + 1)."""
    return exp(epsilon) / (exp(epsilon) + 1)


def absent_law(key_epsilon: float, value_epsilon: float, feedback: Floats | float) -> Floats:
    """The law ``(..., 3)`` of absent, low and high for an absent key that says ``feedback`` if shown."""
    keep_key, keep = keep_probability(key_epsilon), keep_probability(value_epsilon)
    high = np.asarray((1 + (2 * keep - 1) * feedback) / 2)
    shown = 1 - keep_key
    return np.stack([np.full(high.shape, keep_key), shown * (1 - high), shown * high], axis=-1)


def privkv_rows(key_epsilon: float, value_epsilon: float, feedback: float = 0.0) -> Floats:
    """The law: rows absent, low, high; columns absent, low, high.

    ``feedback`` is the value that absent keys send.
    """
    keep_key, keep = keep_probability(key_epsilon), keep_probability(value_epsilon)
    return np.array(
        [
            absent_law(key_epsilon, value_epsilon, feedback),
            [1 - keep_key, keep_key * keep, keep_key * (1 - keep)],
            [1 - keep_key, keep_key * (1 - keep), keep_key * keep],
        ]
    )


def keeps_of(channel: Channel) -> tuple[float, float]:
    """Probabilities that the channel keeps the key, and the sign of a shown key."""
    rows = channel.expected()
    shown = rows[1, 1] + rows[1, 2]
    return float(shown), float(rows[1, 1] / shown)


def raw_means(plan: Plan, tally: Tally) -> Floats:
    """PrivKV's own mean of every key, on [-1, 1]; NaN without reports that show it."""
    views = range(len(plan.views))
    counts = np.array([tally.view_counts(view)[1] for view in views])
    return sign_means(counts, np.array([keeps_of(channel)[1] for channel in plan.view_channels]))


def sign_means(counts: Integers | Floats, keep: float | Floats) -> Floats:
    """PrivKV's own means from counts ``(..., 3)`` of absent, low and high.

    Signs are debiased among all that are shown, and clipped; ``keep`` is how often a sign is kept.
    """
    keep = np.asarray(keep)
    shown = counts[..., 1:].sum(axis=-1)
    low, high = (
        np.clip(((keep - 1) * shown + counts[..., place]) / (2 * keep - 1), 0, shown) for place in (1, 2)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((high - low) / shown)


def share_variance(average: Number, shown: Number, keep: Number) -> Number:
    """The variance of the debiased mean sign ``average / (2 keep - 1)`` of ``shown`` reports."""
    return (1 - mean_with_one_more(average, shown) ** 2) / shown / (2 * keep - 1) ** 2


def unbiased(plan: Plan, tally: Tally, level: float) -> Answers:
    """PrivKV-A, the paper's unbiased counts N_1* and N_-1*."""
    keys = key_answers(plan, single_moments(plan, tally), level)
    return answers_of(plan, keys, "unbiased", level)


def published(plan: Plan, tally: Tally, level: float) -> Answers:
    """PrivKV's frequency with an interval, and its biased mean without one."""
    return _with_means(plan, tally, level, raw_means(plan, tally), "published")


def virtual(plan: Plan, tally: Tally, level: float) -> Answers:
    """Virtual iterations: m_r = f* m^ + (1 - f*) m_(r-1) from the published mean, ten rounds in all.

    The closed form is m^ + (1 - f*)^9 (m_1 - m^), where m^ is the unbiased mean, the limit.
    """
    moments = single_moments(plan, tally)
    first = raw_means(plan, tally)
    with np.errstate(divide="ignore", invalid="ignore"):
        goal = moments.values[:, 1] / moments.values[:, 0]
    left = (1.0 - np.clip(moments.values[:, 0], 0.0, 1.0)) ** (VIRTUAL_ROUNDS - 1)
    return _with_means(plan, tally, level, goal + left * (first - goal), "virtual")


def _with_means(plan: Plan, tally: Tally, level: float, means: Floats, name: str) -> Answers:
    """Unbiased frequencies with intervals, and given means on [-1, 1] without intervals."""
    moments = single_moments(plan, tally)
    keys = []
    for place, answer in enumerate(key_answers(plan, moments, level)):
        mean = biased(float(means[place]), int(moments.reports[place]))
        keys.append(KeyAnswer(answer.key, answer.frequency, on_scale(plan, place, mean)))
    return answers_of(plan, tuple(keys), name, level)


class PrivKV(Mechanism):
    """Three states, three outputs."""

    name = "privkv"
    paper_name = "PrivKV"
    source = "Ye et al., IEEE S&P 2019; Sun et al. 2019, Sec. III"
    speaks_of = "one key, drawn at random: absent, low or high"
    wasteful = True
    bits = "log2 d + log2 3"
    estimators = {
        "unbiased": unbiased,
        "published": published,
        "virtual": virtual,
        "likelihood": likelihood,
    }

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        def build(nominal: float) -> Table:
            if tight:
                return Table.rounded(privkv_rows(log((exp(nominal) + 1) / 2), nominal))
            return Table.rounded(privkv_rows(nominal / 2, nominal / 2))

        table = fitted(build, float(epsilon), epsilon)
        views = Views.singles(len(schema.keys))
        return Draft(schema.at(2), views, "views", (table,), epsilon)

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        return first_round(
            super().forecast(plan, people, prior), asked_once(plan, people, prior, np.zeros(1))
        )


def asked_once(plan: Plan, people: float, prior: Prior, feedback: Floats) -> FeedbackRound:
    """Forecast of the raw means of one round in which absent keys send ``feedback``."""
    show, keep = keeps_of(plan.view_channels[0])
    f = prior.frequency
    shown = f * show + (1.0 - f) * (1.0 - show)
    certain = FeedbackForecast.surely(np.broadcast_to(feedback, f.shape))
    return FeedbackRound.of(
        certain, f * show / shown, prior.mean, people / len(plan.schema.keys) * shown, 2 * keep - 1
    )
