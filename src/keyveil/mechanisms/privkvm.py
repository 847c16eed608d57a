"""PrivKVM: PrivKV in c rounds; absent keys send the mean of the previous round.

Ye et al., IEEE S&P 2019. Half of epsilon goes to the key in the first round, the other half in equal
parts to the values of all rounds. The feedback of the first round is 0, which equals a uniformly random
value. The published mean is unbiased only in the limit of many rounds, and then each round has little
budget and much noise. ``debiased`` removes the effect of the feedback exactly.
True epsilon at a nominal 1 with ten rounds: 0.975, for any feedback.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..foundation.errors import ChannelError, FinishedError
from ..foundation.exact import own_context, text
from ..foundation.search import largest_fitting_real
from ..people.schema import Schema
from .mechanism import Draft, Mechanism, Parameter, with_parameters
from .rounds import (
    MEMBERS,
    chain_fault,
    chain_forecast,
    debiased,
    frequencies,
    next_feedback,
    published,
    round_draft,
    short,
)

if TYPE_CHECKING:
    from ..estimate.forecast.predicted_error import Forecast
    from ..people.prior import Prior
    from ..plan.plan import Plan
    from ..plan.tally import Tally


class PrivKVM(Mechanism):
    """A chain of ``rounds`` plans; each person answers every one."""

    name = "privkvm"
    paper_name = "PrivKVM"
    source = "Ye et al., IEEE S&P 2019"
    speaks_of = "one key, drawn at random, in each of several rounds"
    wasteful = True
    bits = "c (log2 d + log2 3), and d means down in each round"
    parameters = {"rounds": Parameter(10, 2, 1000, "number of rounds (the paper's c)")}
    estimators = {"debiased": debiased, "published": published}

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        value = short(epsilon / (2 * int(chosen["rounds"])))
        promised = epsilon / 2 + value
        chain = {"round": 1, "parent": "", "total": text(epsilon), "spent": "0", "frequency": []}
        feedback = ["0"] * len(schema.keys)
        key = float(epsilon / 2)
        return _first(schema, key, value, promised, feedback, chain, tight)

    def next(self, plan: Plan, tally: Tally) -> Draft:
        assert plan.chain is not None
        rounds = int(plan.parameters["rounds"])
        if plan.chain["round"] >= rounds:
            raise FinishedError(f"the chain is finished: round {rounds} was the last")
        total = Decimal(plan.chain["total"])
        value = short(total / (2 * rounds))
        chain = {
            "round": plan.chain["round"] + 1,
            "parent": plan.hash,
            "total": plan.chain["total"],
            "spent": text(Decimal(plan.chain["spent"]) + plan.proven),
            "frequency": frequencies(plan, tally),
        }
        feedback = next_feedback(plan, tally)
        drafted = round_draft(plan.schema, 0.0, value, value, feedback, chain)
        return with_parameters(drafted, {"rounds": rounds})

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        return chain_forecast(plan, people, prior)

    def chain_fault(self, chain: object, keys: int) -> str:
        return chain_fault(chain, keys, MEMBERS)

    def true_epsilon(self, epsilon: Decimal) -> Decimal:
        rounds = int(self.parameters["rounds"].default)
        first = super().true_epsilon(epsilon)
        with own_context():
            # High and low of a later round differ by exactly its value budget, for any feedback.
            return first + (rounds - 1) * epsilon / (2 * rounds)


def _first(
    schema: Schema,
    key: float,
    value: Decimal,
    promised: Decimal,
    feedback: list[str],
    chain: dict[str, Any],
    tight: bool,
) -> Draft:
    """The first round; ``tight`` scales both budgets up until the proof reaches the promise."""
    if not tight:
        return round_draft(schema, key, value, promised, feedback, chain)

    def scaled(by: float, limit: Decimal) -> Draft:
        return round_draft(schema, key * by, value * Decimal(by), limit, feedback, chain)

    def fits(by: float) -> bool:
        try:
            return scaled(by, Decimal(100)).channels[0].proof().keeps(promised)
        except ChannelError:
            return False  # so large a factor that an output has no weight left

    return scaled(largest_fitting_real(1.0, 4.0, fits), promised)
