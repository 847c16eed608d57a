"""Shuffle amplification: the epsilon towards someone who sees all reports but not who sent which.

Three numbers of a plan's law decide it (``Parameters``). Let R be the law of a report, nu the part that
all records share (for each report the least chance that any record gives it), *blanket* its mass,
*ratio* the most that any record exceeds nu by (e^epsilon), and *variation* the largest total variation
between two records' laws.

**The blanket** (Balle, Bell, Gascon, Nissim, "The privacy blanket of the shuffle model", CRYPTO 2019).
A coin that does not depend on the record decides whether a device draws its report from nu. Suppose the
onlooker learns who did not, and what they sent. Then one person's report hides among M others that are
all drawn from nu, M ~ Binomial(n - 1, blanket). For the person's two records the divergence is

    delta(epsilon) <= E[(mean of L over M + 1 draws)+],   L = blanket (R(x) - e^epsilon R(x')) / nu

**Three values are the worst.** L has mean 1 - e^epsilon for every pair of records, and lies between
blanket (1 - e^epsilon ratio) and blanket (ratio - e^epsilon). Where both laws are nu, its value is
blanket (1 - e^epsilon); at most the mass ``variation`` lies above that. Among all such L, the one that
takes only these three values is the largest in convex order, and so is its right-hand side: for
any pair of records, any mixture of views, and any channel. So a plan's two records may differ in all
keys, and no pair needs to be looked for.

(Wang et al., "Privacy amplification via shuffling", VLDB 2024, go from the same total variation and
ratio to a sharper formula, which also hides among people whose reports are their own. It does not
hold: two people and k-RR over three states already have a larger divergence; docs/shuffle.md.)

**The sum.** Given m, the number t of draws that are at either end is binomial, and so is their number
at the upper end given t: E[(..)+] is one tail of it. The mean over m draws falls with m (it is a
reversed martingale), and by Jensen one more draw lowers the sum by no more than its drift: so runs of
neighbouring m and t count as one that is no better, and a billion people take no longer than a
thousand. Whatever is rounded or left out is added to delta.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import exp, inf, log, log1p, nextafter, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channel import Channel, Proof
from ..foundation.arrays import Floats
from ..foundation.errors import PlanError
from ..foundation.tails import log_binomial, shorter_tail, tail_over_term

if TYPE_CHECKING:
    from ..plan.plan_parts import PlanPart
from ..plan.plan import Plan

DELTA = 1e-9
MOST_PEOPLE = 10**12
RUNS_OF_PEOPLE, RUNS_OF_DRAWS = 20, 120
"""Maximum number of runs into which consecutive numbers of people, and of draws, are grouped."""
_SLACK = 1 + 1e-9
"""A factor that covers rounding errors of floating-point sums and tails."""


@dataclass(frozen=True)
class Parameters:
    """The three numbers of a plan's law that the proof uses, each rounded to the safe side."""

    ratio: float
    """The largest ratio of a report's probabilities under two records: e^epsilon."""
    variation: float
    """The largest total variation distance between the reports of two records, or slightly more."""
    blanket: float
    """The probability mass that the reports of all records share, or slightly less."""


@dataclass(frozen=True)
class Amplified:
    """The central guarantee: (epsilon, delta) for each person among ``people`` shuffled reports."""

    epsilon: float
    delta: float
    local_epsilon: float
    people: int
    parameters: Parameters
    closed_form: float | None
    """The epsilon of Feldman, McMillan and Talwar's formula; None if it does not hold.

    ``epsilon`` is the smaller of this and our own.
    """

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "local_epsilon": self.local_epsilon,
            "people": self.people,
            "ratio": self.parameters.ratio,
            "variation": self.parameters.variation,
            "blanket": self.parameters.blanket,
            "closed_form": self.closed_form,
        }


def amplified(plan: Plan, people: int, delta: float = DELTA) -> Amplified:
    """The central guarantee, at ``delta``, of one report among ``people`` that are shuffled."""
    count = _people(people)
    if not 0 < delta < 1:
        raise PlanError("delta lies between 0 and 1, and well below one by the number of people")
    known = parameters(plan)
    local = float(plan.proven)
    own = min(smallest_epsilon(known, count, delta), nextafter(local, inf))
    closed = closed_form(local, count, delta)
    best = own if closed is None else min(own, closed)
    return Amplified(best, delta, local, count, known, closed)


def line(plan: Plan, people: int, delta: float = DELTA) -> str:
    """One sentence for the explanation of a plan."""
    result = amplified(plan, people, delta)
    return (
        f"if the reports of {result.people:,} people pass a shuffler, whoever sees them all learns at "
        f"most epsilon {result.epsilon:.3g} (delta {delta:g}, about the chance of more) of one person, "
        f"not {result.local_epsilon:.3g}"
    )


def _people(people: float) -> int:
    if not 1 <= people <= MOST_PEOPLE or people != int(people):
        raise PlanError(f"people must be a whole number from 1 to {MOST_PEOPLE:,}")
    return int(people)


def closed_form(local_epsilon: float, people: int, delta: float) -> float | None:
    """The epsilon of Feldman, McMillan, Talwar, "Hiding among the clones", FOCS 2021.

    None if the formula does not hold.
    """
    if local_epsilon > log(max(people / (16 * log(2 / delta)), 1e-300)):
        return None
    odds = exp(local_epsilon)
    spread = 8 * sqrt(odds * log(4 / delta) / people) + 8 * odds / people
    return log1p((odds - 1) / (odds + 1) * spread)


# -- the accountant ----------------------------------------------------------------------------------


class Accountant:
    """delta as a function of epsilon, for given parameters and a number of people."""

    def __init__(self, known: Parameters, people: int, aim: float = 1e-20) -> None:
        self.known = known
        self.reach = sqrt(2 * log(1e5 / aim))
        """Number of standard deviations on either side in the sum. The mass beyond is a small part of
        ``aim`` and is added to delta."""
        others, chance = np.array([people - 1.0]), min(known.blanket, 1.0)
        edges = self._edges(others, chance, RUNS_OF_PEOPLE)
        mass, outside = _masses(edges, others[:, None], chance)
        filled = edges[0, 1:] > edges[0, :-1]
        self.drawn, self.mass = edges[0, :-1][filled] + 1.0, mass[0, filled]
        """Each run's least number of draws from the blanket, one's own included; its probability."""
        self.outside = float(outside[0])

    def _edges(self, trials: Floats, chance: float, runs: int) -> Floats:
        """The first values of the runs of each binomial, one row per binomial, and one past the last.

        Runs are short near the mean, where most of the mass is.
        """
        mean, spread = trials * chance, np.sqrt(trials * chance * (1 - chance))
        half = self.reach * (spread + self.reach)
        low, high = np.maximum(0, np.floor(mean - half)), np.minimum(trials, np.ceil(mean + half))
        if (high - low).max() < runs:
            return np.asarray(np.minimum(low[:, None] + np.arange(runs + 1), high[:, None] + 1))
        at = np.linspace(-1, 1, runs + 1)
        at = (at**3 + at / 4) / 1.25
        edges = np.ceil(mean[:, None] + half[:, None] * at)
        edges[:, 0], edges[:, -1] = low, high + 1
        return np.asarray(np.clip(edges, low[:, None], high[:, None] + 1))

    def delta(self, epsilon: float) -> float:
        """An upper bound on the divergence at ``epsilon``."""
        ratio, blanket = self.known.ratio, self.known.blanket
        growth = exp(epsilon)
        if ratio <= growth or self.known.variation <= 0:
            return 0.0
        # The shares of all reports for which L takes its upper and its lower value.
        most = (blanket * (growth * ratio - 1) - (growth - 1)) / ((ratio - 1) * (1 + growth))
        upper = min(self.known.variation / (ratio - 1), most)
        lower = (upper * (ratio - 1) + (growth - 1) * (1 - blanket)) / (growth * (ratio - 1))
        either, rising = min((upper + lower) / blanket, 1.0), upper / (upper + lower)
        sums = self.mean_excesses(either, rising, growth)
        divergences = blanket * (ratio - 1) * (1 + growth) * sums
        return float(self.mass @ divergences) * _SLACK + self.outside

    def mean_excesses(self, either: float, rising: float, grown: float) -> Floats:
        """E[(A - start)+] / m: A of the t ~ Binomial(m, either) draws at an end are at the upper end."""
        m = self.drawn
        edges = self._edges(m, either, RUNS_OF_DRAWS)
        mass, outside = _masses(edges, m[:, None], either)
        first, last = edges[:, :-1], edges[:, 1:] - 1.0
        drift = max(0.0, grown / (1 + grown) - rising)
        start = (grown * last + (grown - 1) * m[:, None] / (self.known.ratio - 1)) / (1 + grown)
        start -= (last - first) * drift
        usable = (last >= first) & (last > 0) & (start < last)
        t = last[usable]
        begin = np.maximum(start[usable], t * rising)
        k = np.minimum(np.maximum(np.ceil(begin), np.floor(t * rising) + 1), t)
        term = np.exp(log_binomial(k, t, rising))
        # E[A - t rising; A >= k] = k (1 - rising) Pr[A = k].
        over = np.zeros_like(mass)
        over[usable] = term * (k * (1 - rising) - (begin - t * rising) * tail_over_term(k, t, rising))
        return np.asarray((mass * np.maximum(over, 0.0)).sum(axis=1) / m + outside)


def _masses(edges: Floats, trials: Floats | float, chance: float) -> tuple[Floats, Floats]:
    """The binomial probability of each run between edges, and of everything outside."""
    far, tail = shorter_tail(edges, trials, chance)
    same = np.abs(tail[:, 1:] - tail[:, :-1])  # both ends on one side of the mean
    mass = np.where(far[:, 1:] == far[:, :-1], same, 1.0 - tail[:, 1:] - tail[:, :-1])
    upper = np.where(far[:, -1], tail[:, -1], 1.0 - tail[:, -1])
    lower = np.where(far[:, 0], 1.0 - tail[:, 0], tail[:, 0])
    return np.maximum(mass, 0.0), np.asarray(upper + lower)


def smallest_epsilon(known: Parameters, people: int, delta: float) -> float:
    """The smallest epsilon whose bound is at most ``delta``, rounded up; infinite if there is none."""
    account = Accountant(known, people, delta)

    def excess(epsilon: float) -> float:
        return log(max(account.delta(epsilon), 1e-300)) - log(delta)

    low, high = 0.0, log(max(known.ratio, 1.0)) * (1 + 1e-12)
    at_low, at_high = excess(low), excess(high)
    if at_low <= 0:
        return 0.0
    if at_high > 0:
        return inf
    for _ in range(200):
        if high - low <= 1e-6 * high:
            break
        # Try the line through both ends, then the middle unless the gap has shrunk to a tenth.
        cut = (low * at_high - high * at_low) / (at_high - at_low)
        cut = min(max(cut, low + 0.02 * (high - low)), high - 0.02 * (high - low))
        for epsilon in (cut, None):
            before = high - low
            point = (low + high) / 2 if epsilon is None else epsilon
            above = excess(point)
            if above <= 0:
                high, at_high = point, above
            else:
                low, at_low = point, above
            if high - low <= 0.1 * before:
                break
    return high


# -- the parameters, from the channel's integers -----------------------------------------------------


def parameters(plan: Plan) -> Parameters:
    """Ratio, variation and blanket of whole reports, including the drawn view.

    Everybody draws the view with the same weights, and two records may differ in all keys. So variation
    and blanket are the means over views of the views' own. If the encoding is random, a record is a
    mixture of states; states are at least as far apart as records and share no more. The ratio is the
    one between records that the plan proves, because records that are padded
    at random differ by less than their states.
    """
    if plan.parts is not None:
        return _of_parts(plan.parts)
    keys = len(plan.schema.keys)
    facts = {
        id(channel): channel_parameters(channel, plan.encoding.proof(channel, keys))
        for channel in plan.channels
    }
    by_view = [facts[id(channel)] for channel in plan.view_channels]
    shares = plan.views.shares
    apart = float(sum(s * view.variation for s, view in zip(shares, by_view, strict=True)))
    shared = float(sum(s * view.blanket for s, view in zip(shares, by_view, strict=True)))
    return Parameters(max(view.ratio for view in by_view), apart * (1 + 1e-14), shared * (1 - 1e-14))


def _of_parts(parts: tuple[PlanPart, ...]) -> Parameters:
    """The same for a plan of parts: a part is drawn as a view is."""
    own = [(part.share, parameters(part.plan)) for part in parts]
    apart = sum(share * part.variation for share, part in own)
    shared = sum(share * part.blanket for share, part in own)
    return Parameters(max(p.ratio for _, p in own), apart * (1 + 1e-14), shared * (1 - 1e-14))


def channel_parameters(channel: Channel, proof: Proof | None = None) -> Parameters:
    """The three numbers of one channel.

    ``proof`` is the worst ratio between records, if that is smaller than between the channel's states.
    """
    proof = proof or channel.proof()
    apart, shared = _of_ratio(proof)
    apart, shared = min(apart, channel.total_variation()), max(shared, channel.blanket())
    ratio = proof.numerator / proof.denominator * (1 + 1e-14)
    return Parameters(ratio, float(apart) * (1 + 1e-14), float(shared) * (1 - 1e-14))


def _of_ratio(proof: Proof) -> tuple[Fraction, Fraction]:
    """Bounds on total variation, (E - 1) / (E + 1), and blanket, 1 / E, from the worst ratio E."""
    top, bottom = proof.numerator, proof.denominator
    return Fraction(top - bottom, top + bottom), Fraction(bottom, top)
