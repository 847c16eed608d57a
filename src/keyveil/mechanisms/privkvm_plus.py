"""PrivKVM+: PrivKVM with a decaying value budget, which stops when the means hardly change.

Ye et al., IEEE S&P 2019. Absent keys send 1 in the first round. Each round takes 1/``decay`` of the
remaining value budget. The chain ends when the average change of the means is at most ``cost``, or after
``rounds``. It is not the same as virtual iterations, with which Sun et al. confuse it (docs/errata.md).
All of the spent budget is used, since feedback of 1 or -1 attains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from ..foundation.errors import FinishedError
from ..foundation.exact import own_context, text
from ..people.schema import Schema
from .mechanism import Draft, Mechanism, Parameter, with_parameters
from .rounds import (
    LEAST,
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


class PrivKVMPlus(Mechanism):
    """A chain of at most ``rounds`` plans; each person answers every one."""

    name = "privkvm_plus"
    paper_name = "PrivKVM+"
    source = "Ye et al., IEEE S&P 2019"
    speaks_of = "one key, drawn at random, in each of several rounds"
    bits = "c (log2 d + log2 3), and d means down in each round"
    parameters = {
        "rounds": Parameter(10, 2, 1000, "largest number of rounds"),
        "decay": Parameter("2", "1.01", "100", "a round takes 1/decay of the remaining value budget"),
        "cost": Parameter(
            "0.05", "0", "2", "the chain ends when means change by no more than this (A0)"
        ),
    }
    estimators = {"debiased": debiased, "published": published}

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        value = short(epsilon / 2 / chosen["decay"])
        chain = {
            "round": 1,
            "parent": "",
            "total": text(epsilon),
            "spent": "0",
            "left": text(epsilon / 2 - value),
            "frequency": [],
        }
        feedback = ["1"] * len(schema.keys)
        return round_draft(schema, float(epsilon / 2), value, epsilon / 2 + value, feedback, chain)

    def next(self, plan: Plan, tally: Tally) -> Draft:
        assert plan.chain is not None
        rounds, decay = int(plan.parameters["rounds"]), Decimal(plan.parameters["decay"])
        before = np.array([float(m) for m in plan.chain["feedback"]])
        feedback = next_feedback(plan, tally)
        change = float(np.mean(np.abs(np.array([float(m) for m in feedback]) - before)))
        if plan.chain["round"] >= rounds:
            raise FinishedError(f"the chain is finished: round {rounds} was the last")
        if change <= float(plan.parameters["cost"]):
            raise FinishedError(
                f"the chain is finished: the means changed by {change:.4f} on average in round "
                f"{plan.chain['round']}, no more than the cost of a round, {plan.parameters['cost']}"
            )
        value = short(Decimal(plan.chain["left"]) / decay)
        if value < LEAST:
            raise FinishedError("the chain is finished: too little budget is left for a round")
        chain = {
            "round": plan.chain["round"] + 1,
            "parent": plan.hash,
            "total": plan.chain["total"],
            "spent": text(Decimal(plan.chain["spent"]) + plan.proven),
            "left": text(Decimal(plan.chain["left"]) - value),
            "frequency": frequencies(plan, tally),
        }
        drafted = round_draft(plan.schema, 0.0, value, value, feedback, chain)
        given = {"rounds": rounds, "decay": decay, "cost": Decimal(plan.parameters["cost"])}
        return with_parameters(drafted, given)

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        return chain_forecast(plan, people, prior)

    def chain_fault(self, chain: object, keys: int) -> str:
        return chain_fault(chain, keys, MEMBERS | {"left"})

    def true_epsilon(self, epsilon: Decimal) -> Decimal:
        """The sum over all rounds; each proves exactly its promised epsilon."""
        decay, rounds = Decimal(self.parameters["decay"].default), self.parameters["rounds"].default
        with own_context():
            spent, left = epsilon / 2, epsilon / 2
            for number in range(int(rounds)):
                value = short(left / decay)
                if number and value < LEAST:
                    break
                spent, left = spent + value, left - value
            return spent
