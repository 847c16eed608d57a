"""KVOH: one-hot bits for absent, low and high, each bit flipped on its own with budget epsilon / 2.

Sun et al. 2019, Sec. IV-C; it is symmetric unary encoding (SUE) and tight. Three estimators:
``per_bit`` is the paper's, ``constrained`` adds that the three shares sum to one (a third of the
variance on the frequency, for free), ``least_squares`` also uses how the bits go together.
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
    """One-hot bits, each flipped alike, with the fewest lies that keep the promise."""
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
    """The paper's decoder: each state's share from its own bit alone."""
    bits = _symbols(channel)
    return bits.per_output(bits.position_decoder(weights, np.zeros(weights.shape[1])))


def by_constrained_bits(channel: Channel, weights: Floats) -> Floats:
    """The bits' sums under the constraint that the shares of the states sum to one."""
    bits = _symbols(channel)
    return bits.per_output(bits.position_decoder(weights))


def per_bit(plan: Plan, tally: Tally, level: float) -> Answers:
    """The paper's estimator, N_i* = ((e^(eps/2) + 1) M_i - N) / (e^(eps/2) - 1)."""
    keys = key_answers(plan, single_moments(plan, tally, by_bits), level)
    return answers_of(plan, keys, "per_bit", level)


def constrained(plan: Plan, tally: Tally, level: float) -> Answers:
    """The bits' sums, constrained to shares that sum to one."""
    keys = key_answers(plan, single_moments(plan, tally, by_constrained_bits), level)
    return answers_of(plan, keys, "constrained", level)


class KVOH(Mechanism):
    """Three bits, eight outputs."""

    name = "kvoh"
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
