"""Rounds with feedback, for PrivKVM and PrivKVM+: the plan says which value absent keys send.

From the second round on, the key is flipped with a fair coin and carries no information. So the values
of a round have mean f m + (1 - f) m~, where m~ is the feedback of the plan for the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channel import Table
from ..estimate.answer import Estimate, KeyAnswer, biased, plain, ratio, shifted
from ..estimate.decoding import state_decoding_of
from ..estimate.forecast.normal_law import below
from ..estimate.forecast.predicted_error import Forecast, Mixed
from ..estimate.forecast.round_forecast import Debiased, FeedbackRound, first_round
from ..estimate.linear import answers_of, key_answers, on_scale, single_moments
from ..foundation.arrays import Floats
from ..foundation.exact import decimal, own_context, text
from ..people.schema import Schema
from ..people.views import Views
from ..plan.report import is_hex
from .mechanism import Draft, fitted
from .privkv import asked_once, keeps_of, privkv_rows, raw_means, share_variance

if TYPE_CHECKING:
    from ..estimate.answer import Answers
    from ..people.prior import Prior
    from ..plan.plan import Plan
    from ..plan.tally import Tally


MEMBERS = {"round", "parent", "total", "spent", "frequency", "feedback"}
"""Members of the chain of a plan."""
LEAST = Decimal("0.001")
"""Smallest value budget of a round, if budgets decay."""
UNLIKELY = 1e-4
"""Smallest probability of an end of a chain that its forecast includes."""


def short(value: Decimal) -> Decimal:
    """The value rounded down to twelve places, so that plans stay readable and sums stay in budget."""
    return Decimal(int(value.scaleb(12))).scaleb(-12)


def round_draft(
    schema: Schema,
    key_epsilon: float,
    value_epsilon: Decimal,
    promised: Decimal,
    feedback: Sequence[str],
    chain: dict[str, Any],
) -> Draft:
    """The draft of a round: a table for each value of the feedback, shared by its keys."""
    tables: dict[str, int] = {}
    channels: list[Table] = []
    for mean in feedback:
        if mean not in tables:
            tables[mean] = len(channels)
            channels.append(_round_table(key_epsilon, float(value_epsilon), float(mean), promised))
    channel_of = tuple(tables[mean] for mean in feedback)
    views = Views.singles(len(schema.keys))
    chain = {**chain, "feedback": list(feedback)}
    shared = len(channels) == 1
    return Draft(
        schema.at(2), views, "views", tuple(channels), promised, None if shared else channel_of, chain
    )


def _round_table(key_epsilon: float, value_epsilon: float, feedback: float, promised: Decimal) -> Table:
    """The channel of keys with this feedback, scaled to keep the promise."""

    def build(nominal: float) -> Table:
        scale = nominal / (key_epsilon + value_epsilon)
        return Table.rounded(privkv_rows(key_epsilon * scale, value_epsilon * scale, feedback))

    return fitted(build, key_epsilon + value_epsilon, promised)


def chain_fault(chain: object, keys: int, members: set[str]) -> str:
    """The fault of the chain of a document; empty if there is none."""
    if not isinstance(chain, dict) or set(chain) != members:
        return f"the plan's chain has {', '.join(sorted(members))}"
    feedback, frequency = chain["feedback"], chain["frequency"]
    valid_round = isinstance(chain["round"], int) and chain["round"] >= 1
    texts = all(isinstance(chain[n], str) for n in members & {"parent", "total", "spent", "left"})
    lists = isinstance(feedback, list) and isinstance(frequency, list) and len(feedback) == keys
    if not (valid_round and texts and lists and len(frequency) == (keys if chain["round"] > 1 else 0)):
        return "the plan's chain does not fit its keys and round"
    fault = parent_fault(chain["round"], chain["parent"])
    if fault:
        return fault
    try:
        numbers = [decimal(n, "a chain's number") for n in (*feedback, chain["total"], chain["spent"])]
        inside = all(-1 <= number <= 1 for number in numbers[: len(feedback)])
        for value, stderr, reports in frequency:
            decimal(value, "a frequency")
            inside = inside and decimal(stderr, "an error") >= 0 and isinstance(reports, int)
        if "left" in members:
            decimal(chain["left"], "a budget")
    except (ValueError, TypeError):
        inside = False
    return "" if inside else "the plan's chain has numbers that no round could have made"


def parent_fault(number: int, parent: object) -> str:
    """The fault of the parent that a round names; empty if there is none."""
    if number == 1:
        return "" if parent == "" else "the plan's chain names a parent in its first round"
    return "" if is_hex(parent, 64) else "the plan's chain names its parent by no hash"


def next_feedback(plan: Plan, tally: Tally) -> list[str]:
    """The feedback of the next round: the raw means of this one; a key without reports keeps its old."""
    assert plan.chain is not None
    return [
        text(Decimal(f"{mean:.6f}")) if isfinite(mean) else previous
        for mean, previous in zip(raw_means(plan, tally), plan.chain["feedback"], strict=True)
    ]


def frequencies(plan: Plan, tally: Tally) -> list[list[Any]]:
    """Frequency of each key from the first round: value, standard error, number of reports."""
    assert plan.chain is not None
    if plan.chain["round"] > 1:
        return list(plan.chain["frequency"])
    moments = single_moments(plan, tally)
    rows: list[list[Any]] = []
    for value, spread, n in zip(
        moments.values[:, 0], moments.covariance[:, 0, 0], moments.reports, strict=True
    ):
        known = bool(n) and isfinite(value)
        rows.append(
            [f"{value:.9f}", f"{np.sqrt(max(spread, 0.0)):.9f}", int(n)] if known else ["0", "0", 0]
        )
    return rows


def _frequency(row: Sequence[Any], level: float) -> Estimate:
    """The estimate of a frequency from its value, standard error and number of reports."""
    value, stderr, reports = float(row[0]), float(row[1]), int(row[2])
    return plain(value, stderr**2, reports, level)


def published(plan: Plan, tally: Tally, level: float) -> Answers:
    """Frequency from the first round, and the published mean of this round, biased by (1 - f)^rounds."""
    assert plan.chain is not None
    means = raw_means(plan, tally)
    keys = []
    for place, key in enumerate(plan.schema.keys):
        reports = tally.view_counts(place)[0]
        mean = on_scale(plan, place, biased(float(means[place]), reports))
        keys.append(KeyAnswer(key, _frequency(frequencies(plan, tally)[place], level), mean))
    return answers_of(plan, tuple(keys), "published", level)


def debiased(plan: Plan, tally: Tally, level: float) -> Answers:
    """The mean without the effect of the feedback: m = m~ + (share - m~) / f, by Fieller."""
    assert plan.chain is not None
    if plan.chain["round"] == 1:
        keys = key_answers(plan, single_moments(plan, tally), level)
        return answers_of(plan, keys, "debiased", level)
    frequency_rows = frequencies(plan, tally)
    answers = []
    for place, key in enumerate(plan.schema.keys):
        frequency = _frequency(frequency_rows[place], level)
        feedback = float(plan.chain["feedback"][place])
        _, (_, low, high) = tally.view_counts(place)
        mean = _mean(plan, place, int(low), int(high), feedback, frequency, level)
        answers.append(KeyAnswer(key, frequency, on_scale(plan, place, mean)))
    return answers_of(plan, tuple(answers), "debiased", level)


def _mean(
    plan: Plan, place: int, low: int, high: int, feedback: float, frequency: Estimate, level: float
) -> Estimate:
    """The debiased mean of a key on [-1, 1], from its counts of low and high."""
    shown = low + high
    if not shown or not isfinite(frequency.value):
        return ratio(nan, nan, _NOTHING, 0, level)
    keep = keeps_of(plan.view_channels[place])[1]
    average = (high - low) / shown
    share = average / (2 * keep - 1)
    spread = share_variance(average, float(shown), keep)
    # The errors of the two rounds are independent.
    covariance = np.diag([spread, frequency.stderr**2])
    deviation = ratio(share - feedback, frequency.value, covariance, shown, level)
    return shifted(deviation, feedback - 1.0, feedback + 1.0)


_NOTHING: Floats = np.zeros((2, 2))


# -- forecast ---------------------------------------------------------------------------------------


def later_budgets(plan: Plan) -> list[float]:
    """Value budgets of all rounds that may follow this one."""
    assert plan.chain is not None
    rounds = int(plan.parameters["rounds"])
    left = Decimal(plan.chain["left"]) if "left" in plan.chain else None
    budgets: list[float] = []
    with own_context():
        for _ in range(rounds - int(plan.chain["round"])):
            if left is None:
                value = short(Decimal(plan.chain["total"]) / (2 * rounds))
            else:
                value = short(left / Decimal(plan.parameters["decay"]))
                left -= value
                if value < LEAST:
                    break
            budgets.append(float(value))
    return budgets


def chain_forecast(plan: Plan, people: float, prior: Prior) -> Forecast:
    """The error of ``debiased``, and of ``published``, at the end of the chain.

    The frequency comes from the first round. It depends only on the number of shown keys, so it is
    independent of the signs of every round. If the chain may end early, the average change of the means
    is taken as normal and independent between rounds, which gives the probability that each round is
    the last.
    """
    assert plan.chain is not None
    keys, f, m = len(plan.schema.keys), prior.frequency, prior.mean
    feedback = np.array([float(word) for word in plan.chain["feedback"]])
    this_round = asked_once(plan, people, prior, _by_kind(feedback, len(f)))
    if plan.chain["round"] == 1:
        alone = state_decoding_of(plan).forecast(plan, people, prior)
        variance = alone.covariance[:, 0, 0]
        forecast: Forecast = first_round(alone, this_round)
    else:
        known = np.array([float(row[1]) ** 2 for row in plan.chain["frequency"]])
        variance = _by_kind(known, len(f))
        forecast = Debiased.of(variance, this_round, prior)
    cost = float(plan.parameters["cost"]) if "cost" in plan.parameters else None
    parts, left = [], 1.0
    for value in later_budgets(plan):
        if cost is not None:
            average, spread = this_round.change()
            ends = float(below(np.array((cost - average) / np.sqrt(max(spread, 1e-300)))))
            parts.append((left * ends, forecast))
            left *= 1.0 - ends
            if left < UNLIKELY:
                break
        gain = (np.exp(value) - 1.0) / (np.exp(value) + 1.0)
        this_round = FeedbackRound.of(
            this_round.next(), f, m, np.full(len(f), people / keys / 2), float(gain)
        )
        forecast = Debiased.of(variance, this_round, prior)
    parts.append((left, forecast))
    likely = [(chance, part) for chance, part in parts if chance >= UNLIKELY]
    total = sum(chance for chance, _ in likely)
    return Mixed.of([(chance / total, part) for chance, part in likely])


def _by_kind(values: Floats, kinds: int) -> Floats:
    """Values of the kinds of keys of a prior: those of the keys, or their average if kinds differ."""
    return values if len(values) == kinds else np.full(kinds, values.mean())
