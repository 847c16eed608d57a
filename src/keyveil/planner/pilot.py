"""Pilot: a few people report how many keys they hold, and the planner chooses for everyone else.

The pilot's plan is the first of ``sized``: the number of keys, in buckets, with all of epsilon. Everyone
answers one plan, the pilot's or the one that follows, so the whole costs epsilon once.

A pilot estimates the law of how many keys people hold. Its unbiased estimate alone is no prior: at a
small epsilon it is mostly noise, and noise in the buckets of many keys looks like people who hold many.
So it is weighed against *guesses*, laws that are plausible beforehand: beta-binomials of every average
and unevenness, with and without people who hold nothing, and mixtures of few keys and many. The true
law may vary around a guess as if the guess had been seen in ``SEEN`` people. Then:

- The default prior's own law stays, unless all guesses together are ``ODDS`` times as likely. Otherwise
  each guess counts by its posterior probability.
- Under each guess, the estimate of a bucket is the average of the guess and the report, weighted by
  their precisions.
- Guesses are averaged by root mean square, which leans towards people who hold many keys: a cap costs
  the square of what it leaves out.

The law approaches the reported one as people grow; without any it is the default's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..estimate.answer import Estimate, plain
from ..estimate.projection import onto_simplex
from ..foundation.arrays import Floats
from ..foundation.errors import PlanError
from ..mechanisms.sized import noise_of, shares_of
from ..people.beliefs import Belief, Beliefs
from ..people.prior import Prior, keys_in_words
from ..people.size_buckets import bucket_ends
from ..people.size_guesses import SizeGuesses, guesses_for, slack_of

if TYPE_CHECKING:
    from ..plan.plan import Plan
    from ..plan.tally import Tally

ODDS = 7.0
"""How many times likelier than the default's law the guesses must be to replace it."""
NO_ONE = 1e-6
"""A share of people that is zero but for rounding."""
VAGUE = 0.1
"""The share of people in the last bucket from which the prior's source says that it has no end."""
COUNTS = 0.05
"""Guesses below this probability, relative to the likeliest, are dropped."""
BELIEFS = 5
"""The most beliefs that a pilot leads to; each is an average of guesses with similar averages."""
POSSIBLE = 0.02
"""The least probability of a belief that is kept."""
SAME = 0.03
"""Beliefs whose laws differ in less than this share of people are joined."""


def pilot_prior(
    plan: Plan, tally: Tally, mean: float | None = None, spread: float | None = None
) -> Prior:
    """The prior from a pilot's tally: how many keys are held; ``mean`` and ``spread`` as stated.

    They are on the scale of the plan's values.
    """
    check_pilot(plan)
    tally.belongs_to(plan)
    _check_reports(tally)
    return _prior_of(plan, tally.reports, learned(plan, tally), mean, spread)


def pilot_beliefs(
    plan: Plan, tally: Tally, mean: float | None = None, spread: float | None = None
) -> Beliefs:
    """What a pilot's tally leaves possible: a few laws of the number of keys, with probabilities.

    ``mean`` and ``spread`` are as stated, on the scale of the plan's values. Single numbers are shown
    for the average law.
    """
    check_pilot(plan)
    tally.belongs_to(plan)
    _check_reports(tally)
    weights, laws = posterior_laws(plan, tally)
    average = _prior_of(plan, tally.reports, weights @ laws, mean, spread)
    priors = [Prior.of(plan.schema, sizes=law, mean=mean, spread=spread) for law in laws]
    possible = tuple(Belief(_held_words(prior.held), prior) for prior in priors)
    return Beliefs(possible, average, weights)


def posterior_laws(plan: Plan, tally: Tally) -> tuple[Floats, Floats]:
    """Probabilities, and laws ``(beliefs, 0 .. keys)``, by rising averages of keys held.

    Each is the average of guesses that follow each other by their averages.
    """
    shares = shares_of(plan, tally.counts)
    guesses = guesses_for(len(plan.schema.keys), len(shares))
    likely, off, slack, spread = _fit(plan, tally.reports, shares, guesses)
    weight = guesses.probability * np.exp(likely - likely.max())
    rows = np.flatnonzero(weight >= COUNTS**2 * weight.max())
    weight = weight[rows] / weight[rows].sum()
    posterior = onto_simplex((guesses.buckets + off * slack / spread)[rows])
    laws = posterior[:, guesses.bucket] * guesses.within(rows)
    laws /= laws.sum(axis=1, keepdims=True)
    order = np.argsort(laws @ np.arange(laws.shape[1]), kind="stable")
    weight, laws = weight[order], laws[order]
    bins = np.minimum(((np.cumsum(weight) - weight / 2) * BELIEFS).astype(int), BELIEFS - 1)
    groups: list[tuple[float, Floats]] = []
    for place in np.unique(bins).tolist():
        share = float(weight[bins == place].sum())
        law = weight[bins == place] @ laws[bins == place] / share
        if groups and 0.5 * float(np.abs(groups[-1][1] - law).sum()) < SAME:
            before, other = groups.pop()
            law = (before * other + share * law) / (before + share)
            share += before
        groups.append((share, law))
    kept = [group for group in groups if group[0] >= POSSIBLE]
    probabilities = np.array([share for share, _ in kept])
    return probabilities / probabilities.sum(), np.array([law for _, law in kept])


def _prior_of(
    plan: Plan, reports: int, sizes: Floats, mean: float | None, spread: float | None
) -> Prior:
    """The prior of a law of the number of keys; its source names the pilot."""
    if sizes[1:].sum() < NO_ONE:
        raise PlanError("as far as the pilot tells, no one holds a key: there is nothing to plan for")
    prior = Prior.of(plan.schema, sizes=sizes, mean=mean, spread=spread)
    people = f"{reports:,} {'people' if reports > 1 else 'person'}"
    last = int(bucket_ends(plan.channels[0].states)[-1])
    if len(plan.schema.keys) > last and sizes[last:].sum() >= VAGUE:
        people += f", which does not tell {last} keys from more"
    return replace(prior, source=f"{prior.source} (from a pilot of {people})")


def _held_words(held: float) -> str:
    """An average number of keys in words."""
    return f"{keys_in_words(held)} on average"


def learned(plan: Plan, tally: Tally) -> Floats:
    """The share of people who hold 0, 1, 2, ... keys, from a pilot's tally."""
    shares = shares_of(plan, tally.counts)
    guesses = guesses_for(len(plan.schema.keys), len(shares))
    likely, off, slack, spread = _fit(plan, tally.reports, shares, guesses)
    top = float(likely.max())
    weight = guesses.weight * np.exp(likely - top)
    if np.exp(likely[0] - top) * ODDS >= weight.sum():
        weight = np.zeros(len(weight))
        weight[0] = 1.0
    rows = np.flatnonzero(weight >= COUNTS * weight.max())
    weight = weight[rows] / weight[rows].sum()
    posterior = onto_simplex((guesses.buckets + off * slack / spread)[rows])
    law = np.sqrt(weight @ posterior**2)
    within = weight @ (posterior[:, guesses.bucket] * guesses.within(rows))
    sums = np.bincount(guesses.bucket, within, len(law))
    sizes = within * (law / np.where(sums > 0, sums, 1.0))[guesses.bucket]
    return np.asarray(sizes / sizes.sum())


class _Fit(NamedTuple):
    """How guesses fit a pilot's shares: log likelihoods, and for each guess and bucket the difference,
    the variance of the true share around the guess, and that of the difference."""

    likely: Floats
    off: Floats
    slack: Floats
    spread: Floats


def _fit(plan: Plan, reports: int, shares: Floats, guesses: SizeGuesses) -> _Fit:
    noise = noise_of(plan, guesses.buckets) / reports
    slack = slack_of(guesses.buckets)
    off, spread = shares - guesses.buckets, slack + noise
    return _Fit(-0.5 * (off**2 / spread + np.log(spread)).sum(axis=1), off, slack, spread)


class PilotAnswer(NamedTuple):
    """The share of people who hold ``least`` to ``most`` keys, from a pilot."""

    least: int
    most: int
    share: Estimate

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"held": [self.least, self.most], "share": self.share.document()}


def bucket_shares(plan: Plan, tally: Tally, level: float = 0.95) -> list[PilotAnswer]:
    """The unbiased share of every bucket, which may lie below 0, with its interval."""
    check_pilot(plan)
    tally.belongs_to(plan)
    _check_reports(tally)
    shares = shares_of(plan, tally.counts)
    noise = noise_of(plan, np.clip(shares, 0.0, 1.0)) / tally.reports
    last = bucket_ends(len(shares)).tolist()[:-1]
    return [
        PilotAnswer(least, most, plain(share, variance, tally.reports, level))
        for least, most, share, variance in zip(
            (0, *(end + 1 for end in last)),
            (*last, len(plan.schema.keys)),
            shares.tolist(),
            noise.tolist(),
            strict=True,
        )
    ]


def _check_reports(tally: Tally) -> None:
    if not tally.reports:
        raise PlanError("the pilot's tally is empty: no one has told how many keys they hold")


def check_pilot(plan: Plan) -> None:
    """Raise a PlanError unless the plan asks how many keys are held."""
    if plan.parts is not None or not plan.encoding.speaks_of_size:
        name = plan.mechanism_name
        other = "; this is its second" if name == "sized" else f", not {name}"
        raise PlanError(f"a pilot's plan asks how many keys are held: the first one of sized{other}")
