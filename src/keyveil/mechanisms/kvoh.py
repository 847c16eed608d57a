"""KVOH: one-hot bits for absent, low and high, each flipped independently with budget epsilon / 2.

Sun et al. 2019, Sec. IV-C; it is symmetric unary encoding (SUE) and tight. It has three estimators of
its own. ``per_bit`` is the paper's. ``constrained`` also uses that the three shares sum to one, which
saves a third of the variance of the frequency. ``least_squares`` also uses the joint law of the bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channel import Channel, Symbols
from ..estimate.likelihood import likelihood
from ..estimate.linear import answers_of, key_answers, least_squares, single_moments
from ..foundation.arrays import WORD, Floats
from ..foundation.errors import PlanError
from ..foundation.exact import most_lies
from ..people.schema import Schema
from ..people.views import Views
from .mechanism import Draft, Mechanism

if TYPE_CHECKING:
    from ..estimate.answer import Answers
    from ..plan.plan import Plan
    from ..plan.tally import Tally


def flipped_bits(positions: int, epsilon: Decimal, silent: int = 0) -> Symbols:
    """One-hot bits, all flipped with the smallest probability that keeps epsilon."""
    fake = most_lies(1, epsilon / 2)
    bits = Symbols.bits_of(positions, WORD - fake, fake, silent)
    while not bits.proof().keeps(epsilon):
        fake += 1
        bits = Symbols.bits_of(positions, WORD - fake, fake, silent)
    return bits


def _symbols(channel: Channel) -> Symbols:
    if not isinstance(channel, Symbols):
        raise PlanError("this estimator is for one-hot bits")
    return channel


def by_bits(channel: Channel, weights: Floats) -> Floats:
    """The paper's decoder: the share of each state from its own bit alone."""
    bits = _symbols(channel)
    return bits.per_output(bits.position_decoder(weights, np.zeros(weights.shape[1])))


def by_constrained_bits(channel: Channel, weights: Floats) -> Floats:
    """The decoder of the sums of bits, with the constraint that the shares of states sum to one."""
    bits = _symbols(channel)
    return bits.per_output(bits.position_decoder(weights))


def per_bit(plan: Plan, tally: Tally, level: float) -> Answers:
    """The paper's estimator, N_i* = ((e^(eps/2) + 1) M_i - N) / (e^(eps/2) - 1)."""
    keys = key_answers(plan, single_moments(plan, tally, by_bits), level)
    return answers_of(plan, keys, "per_bit", level)


def constrained(plan: Plan, tally: Tally, level: float) -> Answers:
    """Answers from the sums of bits, with the constraint that shares sum to one."""
    keys = key_answers(plan, single_moments(plan, tally, by_constrained_bits), level)
    return answers_of(plan, keys, "constrained", level)


class KVOH(Mechanism):
    """Three bits, eight outputs."""

    name = "kvoh"
    paper_name = "KVOH"
    source = "Sun et al. 2019, Sec. IV-C"
    speaks_of = "one key, drawn at random: absent, low or high"
    bits = "log2 d + 3"
    estimators = {
        "least_squares": least_squares,
        "per_bit": per_bit,
        "constrained": constrained,
        "likelihood": likelihood,
    }

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        views = Views.singles(len(schema.keys))
        return Draft(schema.at(2), views, "views", (flipped_bits(3, epsilon),), epsilon)
