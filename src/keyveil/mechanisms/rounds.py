"""What PrivKVM and PrivKVM+ share: rounds in which the collector tells absent keys what to say.

From the second round on the key is flipped with a fair coin (it carries no information), so a round's
share of values has mean f m + (1 - f) m~, where m~ is the feedback that the plan states for the key.
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
from ..estimate.forecast.result import Forecast, Mixed
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
"""What a plan says of the chain it belongs to."""
LEAST = Decimal("0.001")
"""A round with less value budget than this is not worth having, where budgets decay."""
UNLIKELY = 1e-4
"""An end of a chain that is less likely than this is left out of its forecast."""


def short(value: Decimal) -> Decimal:
    """Rounded down to twelve places: plans stay readable, and parts never exceed the whole."""
    return Decimal(int(value.scaleb(12))).scaleb(-12)


def round_draft(
    schema: Schema,
    key_epsilon: float,
    value_epsilon: Decimal,
    promised: Decimal,
    feedback: Sequence[str],
    chain: dict[str, Any],
) -> Draft:
    """One round: a table for each feedback, shared by the keys that have it."""
    tables: dict[str, int] = {}
    channels: list[Table] = []
    for told in feedback:
        if told not in tables:
            tables[told] = len(channels)
            channels.append(_told(key_epsilon, float(value_epsilon), float(told), promised))
    of = tuple(tables[told] for told in feedback)
    views = Views.singles(len(schema.keys))
    chain = {**chain, "feedback": list(feedback)}
    one = len(channels) == 1
    return Draft(schema.at(2), views, "views", tuple(channels), promised, None if one else of, chain)


def _told(key_epsilon: float, value_epsilon: float, told: float, promised: Decimal) -> Table:
    def build(nominal: float) -> Table:
        scale = nominal / (key_epsilon + value_epsilon)
        return Table.rounded(privkv_rows(key_epsilon * scale, value_epsilon * scale, told))

    return fitted(build, key_epsilon + value_epsilon, promised)


def chain_fault(chain: object, keys: int, members: set[str]) -> str:
    """What is wrong with a document's chain; empty if nothing is."""
    if not isinstance(chain, dict) or set(chain) != members:
        return f"the plan's chain has {', '.join(sorted(members))}"
    told, found = chain["feedback"], chain["frequency"]
    whole = isinstance(chain["round"], int) and chain["round"] >= 1
    texts = all(isinstance(chain[n], str) for n in members & {"parent", "total", "spent", "left"})
    lists = isinstance(told, list) and isinstance(found, list) and len(told) == keys
    if not (whole and texts and lists and len(found) == (keys if chain["round"] > 1 else 0)):
        return "the plan's chain does not fit its keys and round"
    wrong = parent_fault(chain["round"], chain["parent"])
    if wrong:
        return wrong
    try:
        numbers = [decimal(n, "a chain's number") for n in (*told, chain["total"], chain["spent"])]
        inside = all(-1 <= number <= 1 for number in numbers[: len(told)])
        for value, stderr, reports in found:
            decimal(value, "a frequency")
            inside = inside and decimal(stderr, "an error") >= 0 and isinstance(reports, int)
        if "left" in members:
            decimal(chain["left"], "a budget")
    except (ValueError, TypeError):
        inside = False
    return "" if inside else "the plan's chain has numbers that no round could have made"


def parent_fault(number: int, parent: object) -> str:
    """What is wrong with the parent that a round names; empty if nothing is."""
    if number == 1:
        return "" if parent == "" else "the plan's chain names a parent in its first round"
    return "" if is_hex(parent, 64) else "the plan's chain names its parent by no hash"


def told_next(plan: Plan, tally: Tally) -> list[str]:
    """The feedback of the next round: this round's raw means; a key without reports keeps its own."""
    assert plan.chain is not None
    return [
        text(Decimal(f"{mean:.6f}")) if isfinite(mean) else told
        for mean, told in zip(raw_means(plan, tally), plan.chain["feedback"], strict=True)
    ]


def frequencies(plan: Plan, tally: Tally) -> list[list[Any]]:
    """What the first round learned of each key's frequency: value, standard error, reports."""
    assert plan.chain is not None
    if plan.chain["round"] > 1:
        return list(plan.chain["frequency"])
    moments = single_moments(plan, tally)
    found: list[list[Any]] = []
    for value, spread, n in zip(
        moments.values[:, 0], moments.covariance[:, 0, 0], moments.reports, strict=True
    ):
        known = bool(n) and isfinite(value)
        found.append(
            [f"{value:.9f}", f"{np.sqrt(max(spread, 0.0)):.9f}", int(n)] if known else ["0", "0", 0]
        )
    return found


def _frequency(row: Sequence[Any], level: float) -> Estimate:
    value, stderr, reports = float(row[0]), float(row[1]), int(row[2])
    return plain(value, stderr**2, reports, level)


def published(plan: Plan, tally: Tally, level: float) -> Answers:
    """Frequency from the first round, mean of this one as published: biased by (1 - f)^rounds."""
    assert plan.chain is not None
    means = raw_means(plan, tally)
    keys = []
    for place, key in enumerate(plan.schema.keys):
        reports = tally.view_counts(place)[0]
        mean = on_scale(plan, place, biased(float(means[place]), reports))
        keys.append(KeyAnswer(key, _frequency(frequencies(plan, tally)[place], level), mean))
    return answers_of(plan, tuple(keys), "published", level)


def debiased(plan: Plan, tally: Tally, level: float) -> Answers:
    """The mean without the feedback's pull: m = m~ + (share - m~) / f, with Fieller's interval."""
    assert plan.chain is not None
    if plan.chain["round"] == 1:
        keys = key_answers(plan, single_moments(plan, tally), level)
        return answers_of(plan, keys, "debiased", level)
    found = frequencies(plan, tally)
    made = []
    for place, key in enumerate(plan.schema.keys):
        frequency = _frequency(found[place], level)
        told = float(plan.chain["feedback"][place])
        _, (_, low, high) = tally.view_counts(place)
        mean = _mean(plan, place, int(low), int(high), told, frequency, level)
        made.append(KeyAnswer(key, frequency, on_scale(plan, place, mean)))
    return answers_of(plan, tuple(made), "debiased", level)


def _mean(
    plan: Plan, place: int, low: int, high: int, told: float, frequency: Estimate, level: float
) -> Estimate:
    shown = low + high
    if not shown or not isfinite(frequency.value):
        return ratio(nan, nan, _NOTHING, 0, level)
    keep = keeps_of(plan.view_channels[place])[1]
    average = (high - low) / shown
    share = average / (2 * keep - 1)
    spread = share_variance(average, float(shown), keep)
    # The two rounds' noise is independent.
    covariance = np.diag([spread, frequency.stderr**2])
    apart = ratio(share - told, frequency.value, covariance, shown, level)
    return shifted(apart, told - 1.0, told + 1.0)


_NOTHING: Floats = np.zeros((2, 2))


# -- the error to come ------------------------------------------------------------------------------


def later_budgets(plan: Plan) -> list[float]:
    """The value budget of every round that may follow this one."""
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
    """The error of ``debiased``, and beside it of ``published``, when the chain has come to its end.

    The frequency is the first round's; only how many are shown tells of it, so that it is independent
    of every round's signs. Where means that hardly change end the chain, their average change is taken
    as normal, and independent from round to round: each round is the last with some chance.
    """
    assert plan.chain is not None
    keys, f, m = len(plan.schema.keys), prior.frequency, prior.mean
    told = np.array([float(word) for word in plan.chain["feedback"]])
    at = asked_once(plan, people, prior, told if len(f) == keys else np.full(len(f), told.mean()))
    if plan.chain["round"] == 1:
        alone = state_decoding_of(plan).forecast(plan, people, prior)
        variance = alone.covariance[:, 0, 0]
        made: Forecast = first_round(alone, at)
    else:
        known = np.array([float(row[1]) ** 2 for row in plan.chain["frequency"]])
        variance = known if len(f) == keys else np.full(len(f), known.mean())
        made = Debiased.of(variance, at, prior)
    cost = float(plan.parameters["cost"]) if "cost" in plan.parameters else None
    parts, left = [], 1.0
    for value in later_budgets(plan):
        if cost is not None:
            average, spread = at.change()
            ends = float(below(np.array((cost - average) / np.sqrt(max(spread, 1e-300)))))
            parts.append((left * ends, made))
            left *= 1.0 - ends
            if left < UNLIKELY:
                break
        gain = (np.exp(value) - 1.0) / (np.exp(value) + 1.0)
        at = FeedbackRound.of(at.next(), f, m, np.full(len(f), people / keys / 2), float(gain))
        made = Debiased.of(variance, at, prior)
    parts.append((left, made))
    likely = [(chance, part) for chance, part in parts if chance >= UNLIKELY]
    total = sum(chance for chance, _ in likely)
    return Mixed.of([(chance / total, part) for chance, part in likely])
