"""Sized: ask a few people how many keys they hold, then the others about their keys, capped to fit.

keyveil. Mechanisms that speak of a whole record need a number that no one knows beforehand: the cap on
a person's keys, or the length that records are padded to. Too small, and those who hold more are cut
short; too large, and all answers are noisier for it. So a chain of two plans: the first asks a ``share``
of people for the number of keys they hold, in buckets, through subset selection (Ye, Barg, ISIT 2017);
its tally gives the cap of the second, which asks everyone else about their keys with one of the
mechanisms for sets. Everyone answers one plan, with all of epsilon: the chain costs the larger of the
two, not their sum. Who answers which is up to the collector and must not depend on records; a person
who answers both has spent both, and the plan's chain says so.

The cap is the one with the least predicted squared error of frequency and mass together for as many
people as are left; or (``rule`` quantile) where the stated part of people holds no more, which is no
better known than the sizes are.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channel import Channel, Symmetric
from ..channel.design.view_channels import best_subset
from ..estimate.forecast.result import Mixed
from ..estimate.linear import least_squares
from ..estimate.projection import onto_simplex
from ..foundation.arrays import Floats, Integers
from ..foundation.coins import Coins
from ..foundation.errors import FinishedError, PlanError
from ..foundation.exact import decimal, text
from ..people.schema import Schema
from ..people.views import Views
from ..plan.plan import Plan
from ..plan.registry import mechanism_named
from .collision import MOST_CAP
from .encodings.set_size import SetSize, bucket_ends, bucket_of, bucket_shares
from .mechanism import Choice, Draft, Mechanism, Parameter, with_parameters
from .rounds import parent_fault

if TYPE_CHECKING:
    from ..estimate.forecast.result import Forecast
    from ..people.prior import Prior
    from ..plan.tally import Tally

CAP_NAMES = {
    "collision": "cap",
    "coco": "cap",
    "pckv_ue": "length",
    "pckv_grr": "length",
    "signed_ue": "length",
}
"""Mechanisms for whole sets of keys, and what each calls its cap or padding length."""

DRAWS = 24
"""First rounds that a forecast looks at, to see which caps they find; an even number."""
MEMBERS = {"round", "parent", "total", "spent", "share", "cap"}
"""What a plan says of the chain it belongs to; ``share`` is the part of all people who answer it."""


class Sized(Mechanism):
    """A chain of two plans between which people are split."""

    name = "sized"
    source = "keyveil; subset selection of Ye, Barg, ISIT 2017, for the sizes"
    speaks_of = "how many keys are held, from a few people; from the others as the second mechanism does"
    note = (
        "of people who hold more keys than the cap that the first plan found, only so many count: "
        "frequencies lie below the truth by what was left out"
    )
    bits = "log2 of the sets of buckets; then those of the second mechanism"
    parameters = {
        "then": Choice("collision", tuple(CAP_NAMES), "what the second plan asks with"),
        "rule": Choice("best", ("best", "quantile"), "how the cap is chosen from the sizes"),
        "quantile": Parameter("0.9", "0.01", "1", "the part of people who hold no more than the cap"),
        "share": Parameter("0.1", "0.001", "0.9", "the part of all people who are asked for sizes"),
    }
    estimators = {"least_squares": least_squares}

    def draft(self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any]) -> Draft:
        keys = len(schema.keys)
        buckets = int(bucket_of(min(keys, MOST_CAP))) + 1
        channel: Channel = best_subset(buckets, epsilon)
        if getattr(channel, "size", 0) == 1:
            channel = Symmetric.of(buckets, epsilon)
        chain = {
            "round": 1,
            "parent": "",
            "total": text(epsilon),
            "spent": "0",
            "share": text(chosen["share"]),
            "cap": 0,
        }
        return Draft(schema, Views.whole(keys), SetSize.name, (channel,), epsilon, chain=chain)

    def next(self, plan: Plan, tally: Tally) -> Draft:
        assert plan.chain is not None
        if plan.chain["round"] > 1:
            raise FinishedError("the chain is finished: its second round was the last")
        if not tally.reports:
            raise PlanError("no one has told a size yet; the cap is chosen from what people tell")
        share = Decimal(plan.chain["share"])
        left = float(tally.reports / share * (1 - share))
        cap = self._cap(plan, sizes_of(plan, tally.counts), left)
        chosen = self.chosen(plan.parameters)
        drafted = self._second(plan.schema, plan.promised, plan.calibrate == "tight", chosen, cap)
        chain = {
            "round": 2,
            "parent": plan.hash,
            "total": plan.chain["total"],
            "spent": text(plan.proven),
            "share": text(1 - share),
            "cap": cap,
        }
        made = Draft(
            drafted.schema,
            drafted.views,
            drafted.encode,
            drafted.channels,
            drafted.promised,
            chain=chain,
        )
        return with_parameters(made, chosen)

    def _second(
        self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any], cap: int
    ) -> Draft:
        kind = _kind(chosen["then"])
        own = kind.chosen({CAP_NAMES[kind.name]: cap})
        return kind.draft(schema, epsilon, tight, own)

    def _cap(self, plan: Plan, sizes: Floats, people: float) -> int:
        """The cap for people whose sizes follow a law, when so many of them will answer."""
        keys = min(len(plan.schema.keys), MOST_CAP)
        if plan.parameters["rule"] == "quantile":
            reached = np.cumsum(sizes) >= float(plan.parameters["quantile"]) - 1e-12
            return max(1, min(int(np.argmax(reached)) if reached.any() else keys, keys))
        return self._best_cap(plan, sizes, people)

    def _best_cap(self, plan: Plan, sizes: Floats, people: float) -> int:
        """The cap with the least predicted squared error of frequency plus mass, over all keys."""
        from ..people.prior import Prior

        keys = min(len(plan.schema.keys), MOST_CAP)
        if not sizes[1:].sum():
            return 1
        prior = Prior.of(len(plan.schema.keys), sizes=sizes)
        kind = _kind(str(plan.parameters["then"]))
        best, least = 1, np.inf
        for cap in sorted({int(min(max(end, 1), keys)) for end in bucket_ends(_buckets(plan))}):
            told = kind.forecast(
                _capped(plan.schema, kind.name, plan.promised, "paper", cap), people, prior
            )
            error = float(prior.weight @ (told.frequency + told.mass))
            if error < least:
                best, least = cap, error
        return best

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        kind = _kind(str(plan.parameters["then"]))
        assert plan.chain is not None
        if plan.chain["round"] > 1:
            return kind.forecast(plan, people, prior)
        share = float(plan.chain["share"])
        left = people * (1 - share)
        caps = self._likely_caps(plan, people * share, left, prior)
        parts = []
        for cap in sorted(set(caps)):
            made = _capped(plan.schema, kind.name, plan.promised, plan.calibrate, cap)
            parts.append((caps.count(cap) / len(caps), kind.forecast(made, left, prior)))
        return Mixed.of(parts)

    def _likely_caps(self, plan: Plan, asked: float, left: float, prior: Prior) -> list[int]:
        """The caps that are found when so many are asked for their sizes, on a few fixed draws."""
        channel = plan.channels[0]
        law = bucket_shares(prior.sizes, channel.states)
        spread = channel.covariance(channel.decoder(np.eye(len(law))), law) / asked
        values, turn = np.linalg.eigh(spread)
        root = turn * np.sqrt(np.maximum(values, 0.0))
        half = (
            Coins.stated("draws of sizes").generator().standard_normal((DRAWS // 2, len(law))) @ root.T
        )
        laws = onto_simplex(law + np.concatenate([half, -half]))
        return [self._cap(plan, within_buckets(plan, each), left) for each in laws]

    def chain_fault(self, chain: object, keys: int) -> str:
        if not isinstance(chain, dict) or set(chain) != MEMBERS:
            return f"the plan's chain has {', '.join(sorted(MEMBERS))}"
        number, cap = chain["round"], chain["cap"]
        whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (number, cap))
        if not whole or number not in (1, 2) or not 0 <= cap <= keys or (number == 2) != (cap > 0):
            return "the plan's chain does not fit its keys and round"
        wrong = parent_fault(number, chain["parent"])
        if wrong:
            return wrong
        try:
            numbers = [decimal(chain[name], name) for name in ("total", "spent", "share")]
            if all(isinstance(chain[n], str) for n in MEMBERS - {"round", "cap"}) and min(numbers) >= 0:
                return ""
        except ValueError:
            pass
        return "the plan's chain has numbers that no round could have made"


@lru_cache(maxsize=64)
def _capped(schema: Schema, name: str, promised: Decimal, calibrate: str, cap: int) -> Plan:
    """The plan that comes second if this cap is found."""
    given: dict[str, Any] = {CAP_NAMES[name]: cap}
    return Plan.of(schema, name, promised, calibrate, **given)


def _kind(name: str) -> Mechanism:
    mechanism = mechanism_named(name)
    assert isinstance(mechanism, Mechanism)
    return mechanism


def _buckets(plan: Plan) -> int:
    return int(bucket_of(min(len(plan.schema.keys), MOST_CAP))) + 1


def shares_of(plan: Plan, counts: Integers) -> Floats:
    """The unbiased shares of the buckets, which may lie below 0, from the first plan's counts."""
    channel = plan.channels[0]
    n, cells = int(counts[0]), np.asarray(counts[1:], np.float64)
    shares = cells / max(n, 1)
    if not channel.one_cell:
        shares = np.append(shares, 1.0)
    return np.asarray(shares @ channel.decoder(np.eye(channel.states)))


def noise_of(plan: Plan, laws: Floats) -> Floats:
    """The variance of each bucket's unbiased share from one report, where the laws of buckets hold.

    Buckets are all treated alike, so that it follows from the two cases of being in a bucket or not.
    """
    channel = plan.channels[0]
    everyone = np.eye(channel.states)
    spread = channel.covariance(channel.decoder(everyone), everyone[0])
    inside, outside = spread[0, 0] + 1.0, spread[-1, -1]
    return np.asarray(laws * inside + (1.0 - laws) * outside - laws**2)


def bucket_law(plan: Plan, counts: Integers) -> Floats:
    """The likely law of the buckets: the proper one nearest to the unbiased one."""
    return np.asarray(onto_simplex(shares_of(plan, counts))[0])


def sizes_of(plan: Plan, counts: Integers) -> Floats:
    """The likely share of people who hold 0, 1, 2, ... keys; within a bucket all alike."""
    return within_buckets(plan, bucket_law(plan, counts))


def within_buckets(plan: Plan, law: Floats) -> Floats:
    """The share of people who hold 0, 1, 2, ... keys where buckets have this law."""
    ends = bucket_ends(len(law))
    keys = len(plan.schema.keys)
    made = np.zeros(int(ends[-1]) + 1)
    first = 0
    for share, end in zip(law, ends.tolist(), strict=True):
        made[first : end + 1] = share / (end + 1 - first)
        first = end + 1
    return made[: keys + 1] / made[: keys + 1].sum()
