"""PrivKVM+: PrivKVM whose value budget decays and which stops when another round is not worth it.

Ye et al., IEEE S&P 2019. Absent keys say 1 in the first round. Each round takes 1/``decay`` of the value
budget that is left. After each, the mean change of the means is compared with ``cost``: the chain
ends as soon as the change is no more than that, or after ``rounds``. It has nothing to do with
virtual iterations, which Sun et al. confuse it with (docs/errata.md). All of the spent budget is
used, since feedback of 1 or -1 attains it.
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
    published,
    round_draft,
    short,
    told_next,
)

if TYPE_CHECKING:
    from ..estimate.forecast.result import Forecast
    from ..people.prior import Prior
    from ..plan.plan import Plan
    from ..plan.tally import Tally


class PrivKVMPlus(Mechanism):
    """A chain of at most ``rounds`` plans; each person answers every one."""

    name = "privkvm_plus"
    source = "Ye et al., IEEE S&P 2019"
    speaks_of = "one key, drawn at random, in each of several rounds"
    bits = "c (log2 d + log2 3), and d means down in each round"
    parameters = {
        "rounds": Parameter(10, 2, 1000, "rounds at the most"),
        "decay": Parameter("2", "1.01", "100", "a round takes 1/decay of the value budget left"),
        "cost": Parameter("0.05", "0", "2", "the mean change that a further round must exceed (A0)"),
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
        told = ["1"] * len(schema.keys)
        return round_draft(schema, float(epsilon / 2), value, epsilon / 2 + value, told, chain)

    def next(self, plan: Plan, tally: Tally) -> Draft:
        assert plan.chain is not None
        rounds, decay = int(plan.parameters["rounds"]), Decimal(plan.parameters["decay"])
        before = np.array([float(m) for m in plan.chain["feedback"]])
        told = told_next(plan, tally)
        change = float(np.mean(np.abs(np.array([float(m) for m in told]) - before)))
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
        drafted = round_draft(plan.schema, 0.0, value, value, told, chain)
        given = {"rounds": rounds, "decay": decay, "cost": Decimal(plan.parameters["cost"])}
        return with_parameters(drafted, given)

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        return chain_forecast(plan, people, prior)

    def chain_fault(self, chain: object, keys: int) -> str:
        return chain_fault(chain, keys, MEMBERS | {"left"})

    def true_epsilon(self, epsilon: Decimal) -> Decimal:
        """Over all rounds that may follow: the first proves all it promises, and so do the others."""
        decay, rounds = Decimal(self.parameters["decay"].default), self.parameters["rounds"].default
        with own_context():
            spent, left = epsilon / 2, epsilon / 2
            for number in range(int(rounds)):
                value = short(left / decay)
                if number and value < LEAST:
                    break
                spent, left = spent + value, left - value
            return spent
