"""Sized: ask a few people how many keys they hold, then ask the others with a cap that fits.

keyveil. Mechanisms for whole records need a cap on the keys of a person, or a padding length. If it is
too small, large records lose keys; if it is too large, all answers are noisier. Nobody knows the best
number beforehand. So Sized is a chain of two plans. The first asks a ``share`` of people for the number
of keys they hold, in buckets, through subset selection (Ye, Barg, ISIT 2017). Its tally gives the cap of
the second plan, which asks all other people about their keys with a mechanism for sets. Everyone answers
one plan with all of epsilon, so the chain costs the larger of the two, not their sum. The collector
assigns people to plans, and must not use their records for it. A person who answers both plans spends
both budgets, and the chain of the plan records that.

By default the cap minimises the predicted squared error of frequency plus mass for the remaining people.
With ``rule`` quantile it is the stated quantile of the estimated sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channel import Channel, Symmetric
from ..channel.design.view_channels import best_subset
from ..estimate.forecast.predicted_error import Mixed
from ..estimate.projection import onto_simplex
from ..foundation.arrays import Floats, Integers
from ..foundation.coins import Coins
from ..foundation.errors import FinishedError, PlanError
from ..foundation.exact import decimal, text
from ..people.schema import Schema
from ..people.size_buckets import bucket_ends, bucket_of, bucket_shares
from ..people.views import Views
from ..plan.plan import Plan
from ..plan.registry import mechanism_named
from .collision import MOST_CAP
from .encodings.set_size import SetSize, one_report
from .mechanism import Choice, Draft, Mechanism, NamedEstimators, Parameter, with_parameters
from .rounds import parent_fault

if TYPE_CHECKING:
    from ..estimate.forecast.predicted_error import Forecast
    from ..people.prior import Prior
    from ..plan.tally import Tally

CAP_NAMES = {
    "collision": "cap",
    "coco": "cap",
    "pckv_ue": "length",
    "pckv_grr": "length",
    "signed_ue": "length",
}
"""Mechanisms for whole sets of keys, and the parameter that is the cap of each."""

DRAWS = 24
"""Number of simulated first rounds in a forecast, an even number; each gives a cap."""
MEMBERS = {"round", "parent", "total", "spent", "share", "cap"}
"""Members of the chain of a plan; ``share`` is the part of all people who answer the plan."""


class Sized(Mechanism):
    """A chain of two plans between which people are split."""

    name = "sized"
    source = "keyveil; subset selection of Ye, Barg, ISIT 2017, for the sizes"
    speaks_of = "how many keys are held, from a few people; from the others as the second mechanism does"
    note = (
        "a person with more keys than the cap, which the first plan found, counts in part: frequencies "
        "are biased downwards by the rest"
    )
    bits = "log2 of the sets of buckets; then those of the second mechanism"
    parameters = {
        "then": Choice("collision", tuple(CAP_NAMES), "mechanism of the second plan"),
        "rule": Choice("best", ("best", "quantile"), "how the cap follows from the sizes"),
        "quantile": Parameter("0.9", "0.01", "1", "share of people who hold no more keys than the cap"),
        "share": Parameter("0.1", "0.001", "0.9", "share of all people who are asked for sizes"),
    }
    estimators = NamedEstimators("least_squares")

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
            raise PlanError("the first plan has no reports yet; the cap is chosen from its sizes")
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
        draft = Draft(
            drafted.schema,
            drafted.views,
            drafted.encode,
            drafted.channels,
            drafted.promised,
            chain=chain,
        )
        return with_parameters(draft, chosen)

    def _second(
        self, schema: Schema, epsilon: Decimal, tight: bool, chosen: Mapping[str, Any], cap: int
    ) -> Draft:
        mechanism = _mechanism(chosen["then"])
        own = mechanism.chosen({CAP_NAMES[mechanism.name]: cap})
        return mechanism.draft(schema, epsilon, tight, own)

    def _cap(self, plan: Plan, sizes: Floats, people: float) -> int:
        """The cap for people whose number of keys has the law ``sizes``, when ``people`` will answer."""
        keys = min(len(plan.schema.keys), MOST_CAP)
        if plan.parameters["rule"] == "quantile":
            reached = np.cumsum(sizes) >= float(plan.parameters["quantile"]) - 1e-12
            return max(1, min(int(np.argmax(reached)) if reached.any() else keys, keys))
        return self._best_cap(plan, sizes, people)

    def _best_cap(self, plan: Plan, sizes: Floats, people: float) -> int:
        """The cap with the smallest predicted squared error of frequency plus mass, over all keys."""
        from ..people.prior import Prior

        keys = min(len(plan.schema.keys), MOST_CAP)
        if not sizes[1:].sum():
            return 1
        prior = Prior.of(len(plan.schema.keys), sizes=sizes)
        mechanism = _mechanism(str(plan.parameters["then"]))
        best, least = 1, np.inf
        for cap in sorted({int(min(max(end, 1), keys)) for end in bucket_ends(_buckets(plan))}):
            forecast = mechanism.forecast(
                _capped(plan.schema, mechanism.name, plan.promised, "paper", cap), people, prior
            )
            error = float(prior.weight @ (forecast.frequency + forecast.mass))
            if error < least:
                best, least = cap, error
        return best

    def forecast(self, plan: Plan, people: float, prior: Prior) -> Forecast:
        mechanism = _mechanism(str(plan.parameters["then"]))
        assert plan.chain is not None
        if plan.chain["round"] > 1:
            return mechanism.forecast(plan, people, prior)
        share = float(plan.chain["share"])
        left = people * (1 - share)
        caps = self._likely_caps(plan, people * share, left, prior)
        parts = []
        for cap in sorted(set(caps)):
            capped_plan = _capped(plan.schema, mechanism.name, plan.promised, plan.calibrate, cap)
            parts.append((caps.count(cap) / len(caps), mechanism.forecast(capped_plan, left, prior)))
        return Mixed.of(parts)

    def _likely_caps(self, plan: Plan, asked: float, left: float, prior: Prior) -> list[int]:
        """Caps from fixed draws of the first round, when ``asked`` people report their sizes."""
        channel = plan.channels[0]
        law = bucket_shares(prior.sizes, channel.states)
        spread = channel.covariance(channel.decoder(np.eye(len(law))), law) / asked
        values, turn = np.linalg.eigh(spread)
        root = turn * np.sqrt(np.maximum(values, 0.0))
        half = (
            Coins.stated("draws of sizes").generator().standard_normal((DRAWS // 2, len(law))) @ root.T
        )
        laws = onto_simplex(law + np.concatenate([half, -half]))
        return [self._cap(plan, within_buckets(plan, bucket_law), left) for bucket_law in laws]

    def chain_fault(self, chain: object, keys: int) -> str:
        if not isinstance(chain, dict) or set(chain) != MEMBERS:
            return f"the plan's chain has {', '.join(sorted(MEMBERS))}"
        number, cap = chain["round"], chain["cap"]
        integers = all(isinstance(n, int) and not isinstance(n, bool) for n in (number, cap))
        if not integers or number not in (1, 2) or not 0 <= cap <= keys or (number == 2) != (cap > 0):
            return "the plan's chain does not fit its keys and round"
        fault = parent_fault(number, chain["parent"])
        if fault:
            return fault
        try:
            numbers = [decimal(chain[name], name) for name in ("total", "spent", "share")]
            if all(isinstance(chain[n], str) for n in MEMBERS - {"round", "cap"}) and min(numbers) >= 0:
                return ""
        except ValueError:
            pass
        return "the plan's chain has numbers that no round could have made"


@lru_cache(maxsize=64)
def _capped(schema: Schema, name: str, promised: Decimal, calibrate: str, cap: int) -> Plan:
    """The second plan with this cap."""
    given: dict[str, Any] = {CAP_NAMES[name]: cap}
    return Plan.of(schema, name, promised, calibrate, **given)


def _mechanism(name: str) -> Mechanism:
    mechanism = mechanism_named(name)
    assert isinstance(mechanism, Mechanism)
    return mechanism


def _buckets(plan: Plan) -> int:
    return int(bucket_of(min(len(plan.schema.keys), MOST_CAP))) + 1


def shares_of(plan: Plan, counts: Integers) -> Floats:
    """Unbiased shares of the buckets, possibly below 0, from the counts of the first plan."""
    channel = plan.channels[0]
    n, cells = int(counts[0]), np.asarray(counts[1:], np.float64)
    shares = cells / max(n, 1)
    if not channel.one_cell:
        shares = np.append(shares, 1.0)
    return np.asarray(shares @ channel.decoder(np.eye(channel.states)))


def noise_of(plan: Plan, laws: Floats) -> Floats:
    """Variance of the unbiased share of each bucket from one report, at given laws of buckets.

    The channel is symmetric, so the variance follows from the two cases of being in a bucket or not.
    """
    inside, outside = one_report(plan.channels[0])
    return np.asarray(laws * inside + (1.0 - laws) * outside - laws**2)


def bucket_law(plan: Plan, counts: Integers) -> Floats:
    """The proper law of the buckets that is nearest to the unbiased shares."""
    return np.asarray(onto_simplex(shares_of(plan, counts))[0])


def sizes_of(plan: Plan, counts: Integers) -> Floats:
    """Estimated shares of people who hold 0, 1, 2, ... keys, uniform within a bucket."""
    return within_buckets(plan, bucket_law(plan, counts))


def within_buckets(plan: Plan, law: Floats) -> Floats:
    """Shares of people who hold 0, 1, 2, ... keys, from the law of the buckets."""
    ends = bucket_ends(len(law))
    keys = len(plan.schema.keys)
    sizes = np.zeros(int(ends[-1]) + 1)
    first = 0
    for share, end in zip(law, ends.tolist(), strict=True):
        sizes[first : end + 1] = share / (end + 1 - first)
        first = end + 1
    return sizes[: keys + 1] / sizes[: keys + 1].sum()
