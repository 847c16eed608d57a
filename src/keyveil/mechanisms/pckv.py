"""PCKV: pad a record to a length, sample one of its pairs, and perturb key and value together.

Gu, Li, Cheng, Xiong, Cao, "PCKV: Locally Differentially Private Correlated Key-Value Data Collection
with Optimized Utility", USENIX Security 2020. A person with h keys draws each of them with chance
1 / max(h, l), or else one of l dummy keys with the value 0. Paper letters: l = length, d' = d + l,
a = show the sampled key, b = fake another one, p = keep the sign.

The budgets of key and value compose to less than their sum, and the optimal split of the authors uses
all of it. For bits a = 1/2, b = 2 / (E + 3), p = E / (E + 1) with E = e^epsilon. For k-RR
a = (l (E - 1) + 2) / (l (E - 1) + 2 d') and p = (l (E - 1) + 1) / (l (E - 1) + 2), which makes all lies
equally likely: it is k-RR over the 2 d' signed keys with odds l (E - 1) + 1. These odds may exceed E,
because padding hides a held key among l. The proof is about records and uses the integers of the plan
(``PaddedItem.proof``); it includes that the share of words of a padded key is not exactly 1 / l.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ..channel import Channel, Symbols, Symmetric
from ..estimate.forecast.predicted_error import WithPublished
from ..estimate.linear import least_squares
from ..estimate.pools.padded_items import (
    Published,
    baseline,
    padded_forecast,
    published,
)
from ..foundation.arrays import WORD
from ..foundation.errors import ChannelError
from ..foundation.exact import at_most, own_context
from ..foundation.search import smallest_fitting
from ..people.schema import Schema
from ..people.views import Views
from .encodings.padded_item import PaddedItem
from .mechanism import Draft, Mechanism, Parameter

if TYPE_CHECKING:
    from ..estimate.forecast.predicted_error import Forecast
    from ..people.prior import Prior
    from ..plan.plan import Plan

MOST_LENGTH = 64
"""Largest padding length."""
ENCODING = PaddedItem()
"""The encoding of all mechanisms that pad and sample."""


class Padded(Mechanism):
    """One signed key of a padded record through a channel over keys and dummies."""

    speaks_of = "one held key with its sign, drawn from a padded record: real or dummy"
    note = (
        "a person with more keys than the padding length counts as if they held that many: frequencies "
        "are biased downwards by the rest, and means are those of the keys that were drawn"
    )
    parameters = {
        "length": Parameter(
            4, 1, MOST_LENGTH, "number of keys that a record is padded to (the paper's l)"
        )
    }
    estimators = {"least_squares": least_squares, "published": published, "baseline": baseline}

    @abstractmethod
    def channel(self, keys: int, length: int, epsilon: Decimal, chosen: Mapping[str, Any]) -> Channel:
        """The channel over ``keys`` keys and ``length`` dummies."""

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        keys = len(schema.keys)
        channel = self.channel(keys, min(int(chosen["length"]), keys), epsilon, chosen)
        return Draft(schema.at(2), Views.whole(keys), ENCODING.name, (channel,), epsilon)

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        forecast = super().forecast(plan, people, prior)
        if "published" not in self.estimators:
            return forecast
        baseline_forecast = padded_forecast(plan, people, prior, summed=False)
        published = Published(prior, baseline_forecast.bias, baseline_forecast.covariance)
        return WithPublished(prior, forecast.bias, forecast.covariance, published)

    def true_epsilon(self, epsilon: Decimal) -> Decimal:
        with own_context():
            drafted = self.draft(Schema.of(8), epsilon, False, self.chosen({}))
        return ENCODING.proof(drafted.channels[0], 8).epsilon


class PCKVUE(Padded):
    """d + l positions, each with three symbols."""

    name = "pckv_ue"
    paper_name = "PCKV-UE"
    source = "Gu et al., USENIX Security 2020"
    bits = "(d + l) log2 3"
    most_keys = (1 << 20) - MOST_LENGTH

    def channel(self, keys: int, length: int, epsilon: Decimal, chosen: Mapping[str, Any]) -> Symbols:
        flip = smallest_fitting(1, WORD // 4, lambda w: WORD // 2 - w <= at_most(w, epsilon))
        keep, half = WORD // 2 - flip, WORD // 2
        most = max(keep, WORD // 4)
        fake = smallest_fitting(1, most, lambda w: keep * (WORD - 2 * w) <= at_most(w * half, epsilon))
        laws = ((WORD - 2 * fake, fake, fake), (half, keep, flip), (half, flip, keep))
        return Symbols(keys + length, laws)


class PCKVGRR(Padded):
    """2 (d + l) outputs, one for each signed key and dummy."""

    name = "pckv_grr"
    paper_name = "PCKV-GRR"
    source = "Gu et al., USENIX Security 2020"
    bits = "log2 (d + l) + 1"
    most_keys = (1 << 19) - MOST_LENGTH

    def channel(self, keys: int, length: int, epsilon: Decimal, chosen: Mapping[str, Any]) -> Symmetric:
        return padded_symmetric(keys, length, epsilon)


def padded_symmetric(keys: int, length: int, epsilon: Decimal) -> Symmetric:
    """The k-RR over signed keys and dummies with the largest odds that keep epsilon for *records*."""
    states, share = 2 * (keys + length), -(-WORD // length)
    others = states - 1
    # Without rounding: lie = 2^32 / (length (E - 1) + states).
    spread = Fraction(at_most(1 << 64, epsilon), 1 << 64) - 1
    near = int(WORD / (length * spread + states))
    best: Symmetric | None = None
    for lie in range(max(1, near - 1), near + 3):
        room = at_most(WORD * lie, epsilon)
        for over in (0, 1):  # whether any lie is one unit heavier
            keep = min((room - (WORD - share) * (lie + over)) // share, WORD - others * lie)
            if keep < lie or not 0 <= WORD - keep - others * lie < others:
                continue
            candidate = Symmetric(states, keep, lie)
            private = ENCODING.proof(candidate, keys).keeps(epsilon)
            if private and (best is None or candidate.keep * best.lie > best.keep * candidate.lie):
                best = candidate
    if best is None:
        raise ChannelError(f"2^32 is too coarse for {states} states at epsilon {epsilon}")
    return best
