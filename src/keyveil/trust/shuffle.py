"""Shuffle amplification: the epsilon towards someone who sees all reports but not who sent which.

Three numbers of a plan's law decide it (``Parameters``). Let R be the law of a report, nu the part that
all records share (for each report the least chance that any record gives it), *blanket* its mass,
*ratio* the most that any record exceeds nu by (e^epsilon), and *variation* the largest total variation
between two records' laws.

**The blanket** (Balle, Bell, Gascon, Nissim, "The privacy blanket of the shuffle model", CRYPTO 2019).
Whether a device drew its report from nu is a coin that does not depend on its record; tell the onlooker
whose coins fell otherwise, and what they sent. What is left is one person's report among M others that
are all drawn from nu, M ~ Binomial(n - 1, blanket). For the person's two records the divergence is

    delta(epsilon) <= E[(mean of L over M + 1 draws)+],   L = blanket (R(x) - e^epsilon R(x')) / nu

**Three values are the worst.** L has mean 1 - e^epsilon for every pair of records, and lies between
blanket (1 - e^epsilon ratio) and blanket (ratio - e^epsilon). Above the value that it takes where both
laws are nu, blanket (1 - e^epsilon), it has no more mass than ``variation``. Of all such L the one that
takes only these three values is the largest in convex order, and with it the right-hand side: for
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

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import comb, exp, inf, log, log1p, nextafter, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channel import Channel, Proof
from ..channel.coco_channel import CoCo
from ..channel.collision_channel import Collision
from ..channel.halfspace import Halfspace
from ..channel.hash import Hash
from ..channel.product import Product
from ..channel.subset import Subset
from ..channel.symbols import Symbols
from ..channel.symmetric import Symmetric
from ..channel.table import Table
from ..foundation.arrays import WORD, Floats
from ..foundation.errors import PlanError
from ..foundation.tails import log_binomial, shorter_tail, tail_over_term
from ..plan.encoding import proof_over_records

if TYPE_CHECKING:
    from ..plan.plan import Plan

DELTA = 1e-9
MOST_PEOPLE = 10**12
_RUNS_OF_PEOPLE, _RUNS_OF_DRAWS = 20, 120
"""Into how many runs of neighbours all numbers are put, at the most."""
_SLACK = 1 + 1e-9
"""Covers the last digits of floating-point sums and tails."""


@dataclass(frozen=True)
class Parameters:
    """What a plan's reports look like to the proof; each rounded to the safe side."""

    ratio: float
    """How much likelier a report can be from one record than from another: e^epsilon."""
    variation: float
    """The largest total variation between the reports of two records, or a little more."""
    blanket: float
    """The chance that a report is drawn from what all records share, or a little less."""


@dataclass(frozen=True)
class Amplified:
    """The central guarantee: (epsilon, delta) for everyone among so many shuffled reports."""

    epsilon: float
    delta: float
    local_epsilon: float
    people: int
    parameters: Parameters
    closed_form: float | None
    """What Feldman, McMillan and Talwar's formula gives where it holds; ``epsilon`` is the lesser."""

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
    """The epsilon of one report among ``people`` that pass a shuffler together, at a ``delta``."""
    count = _people(people)
    if not 0 < delta < 1:
        raise PlanError("delta lies between 0 and 1, and well below one by the number of people")
    known = parameters(plan)
    local = float(plan.proven)
    found = min(smallest_epsilon(known, count, delta), nextafter(local, inf))
    closed = closed_form(local, count, delta)
    best = found if closed is None else min(found, closed)
    return Amplified(best, delta, local, count, known, closed)


def line(plan: Plan, people: int, delta: float = DELTA) -> str:
    """One sentence for the explanation of a plan."""
    made = amplified(plan, people, delta)
    return (
        f"if the reports of {made.people:,} people pass a shuffler, whoever sees them all learns at "
        f"most epsilon {made.epsilon:.3g} (delta {delta:g}) of one person, not {made.local_epsilon:.3g}"
    )


def _people(people: float) -> int:
    if not 1 <= people <= MOST_PEOPLE or people != int(people):
        raise PlanError(f"people must be a whole number from 1 to {MOST_PEOPLE:,}")
    return int(people)


def closed_form(local_epsilon: float, people: int, delta: float) -> float | None:
    """Feldman, McMillan, Talwar, "Hiding among the clones", FOCS 2021; None where it does not hold."""
    if local_epsilon > log(max(people / (16 * log(2 / delta)), 1e-300)):
        return None
    odds = exp(local_epsilon)
    spread = 8 * sqrt(odds * log(4 / delta) / people) + 8 * odds / people
    return log1p((odds - 1) / (odds + 1) * spread)


# -- the accountant ----------------------------------------------------------------------------------


class Accountant:
    """delta as a function of epsilon for one set of parameters and so many people."""

    def __init__(self, known: Parameters, people: int, aim: float = 1e-20) -> None:
        self.known = known
        self.reach = sqrt(2 * log(1e5 / aim))
        """Standard deviations on either side that are summed over: beyond, there is a part of ``aim``
        left that hardly matters, and is added to delta."""
        others, chance = np.array([people - 1.0]), min(known.blanket, 1.0)
        edges = self._edges(others, chance, _RUNS_OF_PEOPLE)
        mass, outside = _masses(edges, others[:, None], chance)
        some = edges[0, 1:] > edges[0, :-1]
        self.drawn, self.mass = edges[0, :-1][some] + 1.0, mass[0, some]
        """The least number of draws from the blanket in each run, one's own among them; its chance."""
        self.outside = float(outside[0])

    def _edges(self, trials: Floats, chance: float, runs: int) -> Floats:
        """Where runs of a binomial's values begin, one row for each, and one past the last.

        Runs are short near the mean, where most of the mass is.
        """
        mean, spread = trials * chance, np.sqrt(trials * chance * (1 - chance))
        half = self.reach * (spread + self.reach)
        low, high = np.maximum(0, np.floor(mean - half)), np.minimum(trials, np.ceil(mean + half))
        if (high - low).max() < runs:
            return np.asarray(np.minimum(low[:, None] + np.arange(runs + 1), high[:, None] + 1))
        at = np.linspace(-1, 1, runs + 1)
        at = (at**3 + at / 4) / 1.25
        made = np.ceil(mean[:, None] + half[:, None] * at)
        made[:, 0], made[:, -1] = low, high + 1
        return np.asarray(np.clip(made, low[:, None], high[:, None] + 1))

    def delta(self, epsilon: float) -> float:
        """An upper bound on the divergence at ``epsilon``."""
        ratio, blanket = self.known.ratio, self.known.blanket
        grown = exp(epsilon)
        if ratio <= grown or self.known.variation <= 0:
            return 0.0
        # How often, in parts of all reports, L takes its upper and its lower value; two values at most.
        most = (blanket * (grown * ratio - 1) - (grown - 1)) / ((ratio - 1) * (1 + grown))
        upper = min(self.known.variation / (ratio - 1), most)
        lower = (upper * (ratio - 1) + (grown - 1) * (1 - blanket)) / (grown * (ratio - 1))
        either, rising = min((upper + lower) / blanket, 1.0), upper / (upper + lower)
        sums = self._means(either, rising, grown)
        each = blanket * (ratio - 1) * (1 + grown) * sums
        return float(self.mass @ each) * _SLACK + self.outside

    def _means(self, either: float, rising: float, grown: float) -> Floats:
        """E[(A - start)+] / m: A of the t ~ Binomial(m, either) draws at an end are at the upper one."""
        m = self.drawn
        edges = self._edges(m, either, _RUNS_OF_DRAWS)
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
    """The binomial chance of each run between edges, and of all that lies outside."""
    far, tail = shorter_tail(edges, trials, chance)
    same = np.abs(tail[:, 1:] - tail[:, :-1])  # both ends on one side of the mean
    mass = np.where(far[:, 1:] == far[:, :-1], same, 1.0 - tail[:, 1:] - tail[:, :-1])
    upper = np.where(far[:, -1], tail[:, -1], 1.0 - tail[:, -1])
    lower = np.where(far[:, 0], 1.0 - tail[:, 0], tail[:, 0])
    return np.maximum(mass, 0.0), np.asarray(upper + lower)


def smallest_epsilon(known: Parameters, people: int, delta: float) -> float:
    """The smallest epsilon whose bound on delta is met, rounded up; infinite if there is none."""
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
        # The line through both ends, and the middle whenever that would not halve the gap.
        cut = (low * at_high - high * at_low) / (at_high - at_low)
        cut = min(max(cut, low + 0.02 * (high - low)), high - 0.02 * (high - low))
        for epsilon in (cut, None):
            before = high - low
            point = (low + high) / 2 if epsilon is None else epsilon
            found = excess(point)
            if found <= 0:
                high, at_high = point, found
            else:
                low, at_low = point, found
            if high - low <= 0.1 * before:
                break
    return high


# -- the parameters, from the channel's integers -----------------------------------------------------


def parameters(plan: Plan) -> Parameters:
    """Ratio, variation and blanket of whole reports, the drawn view included.

    Everybody draws the view alike, and two records may differ in all keys: each is the mean over
    views of the view's own. Where encoding is random a record is a mixture of states, which lie at
    least as far apart and share no more; the ratio is that between records, as the plan proves it,
    since what padding draws from one record differs by less than its states do.
    """
    keys = len(plan.schema.keys)
    facts = {
        id(channel): channel_parameters(channel, proof_over_records(plan.encode, channel, keys))
        for channel in plan.channels
    }
    each = [facts[id(channel)] for channel in plan.view_channels]
    shares = plan.views.shares
    apart = float(sum(s * one.variation for s, one in zip(shares, each, strict=True)))
    shared = float(sum(s * one.blanket for s, one in zip(shares, each, strict=True)))
    return Parameters(max(one.ratio for one in each), apart * (1 + 1e-14), shared * (1 - 1e-14))


def channel_parameters(channel: Channel, proof: Proof | None = None) -> Parameters:
    """The three numbers of one channel; of an unknown shape those that its epsilon alone implies.

    ``proof`` is the worst ratio between records, where that is less than between the channel's states.
    """
    proof = proof or channel.proof()
    apart, shared = _of_ratio(proof)
    if type(channel) in _SHAPES:
        found = _SHAPES[type(channel)](channel)
        apart, shared = min(apart, found[0]), max(shared, found[1])
    ratio = proof.numerator / proof.denominator * (1 + 1e-14)
    return Parameters(ratio, float(apart) * (1 + 1e-14), float(shared) * (1 - 1e-14))


def _of_ratio(proof: Proof) -> tuple[Fraction, Fraction]:
    """Any two laws lie within (E - 1) / (E + 1) of each other, and all share 1 / E."""
    top, bottom = proof.numerator, proof.denominator
    return Fraction(top - bottom, top + bottom), Fraction(bottom, top)


def _of_table(channel: Table) -> tuple[Fraction, Fraction]:
    rows = np.array(channel.rows, np.int64)
    worst = max(
        (int(np.abs(rows[i + 1 :] - row).sum(axis=1).max(initial=0)) for i, row in enumerate(rows)),
        default=0,
    )
    return Fraction(worst, 2 * WORD), Fraction(int(rows.min(axis=0).sum()), WORD)


def _of_symmetric(channel: Symmetric) -> tuple[Fraction, Fraction]:
    """Two rows differ in the two states' own cells, and where the units that are left over fall."""
    size, rest = channel.states, channel.rest
    shared = Fraction(size * channel.lie, WORD)
    if size > 1 << 12:
        return Fraction(channel.keep - channel.lie + rest, WORD), shared
    row = np.full(size, channel.lie, np.int64)
    row[0], row[1 : 1 + rest] = channel.keep, channel.lie + 1
    worst = max(int(np.abs(row - np.roll(row, by)).sum()) for by in range(1, size // 2 + 1))
    return Fraction(worst, 2 * WORD), shared


def _of_symbols(channel: Symbols) -> tuple[Fraction, Fraction]:
    """Two states differ in at most two positions; the others cancel."""
    background, *own = channel.laws
    pairs: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = []
    if channel.positions > 1:
        pairs += [(one, background, background, two) for one in own for two in own]
    pairs += [(one, background, two, background) for one in own for two in own]
    if channel.silent:
        pairs += [(one, background, background, background) for one in own]
    worst = 0
    for first, second, first_, second_ in pairs:
        ones, twos = list(zip(first, first_, strict=True)), list(zip(second, second_, strict=True))
        worst = max(worst, sum(abs(a * b - a_ * b_) for (a, a_), (b, b_) in product(ones, twos)))
    # The least likely state is the one whose own position shows the worst symbol for it.
    ratios = [min(Fraction(law[s], w) for law in own) for s, w in enumerate(background)]
    ratios = [min(ratio, Fraction(1)) if channel.silent else ratio for ratio in ratios]
    shared, before = 0.0, 1.0
    for ratio in sorted(set(ratios)):
        at_least = sum(w for r, w in zip(ratios, background, strict=True) if r > ratio) / WORD
        after = at_least**channel.positions
        shared, before = shared + float(ratio) * (before - after), after
    return Fraction(worst, 2 * WORD**2), Fraction(shared * (1 - 1e-12))


def _of_subset(channel: Subset) -> tuple[Fraction, Fraction]:
    """Sets that hold one state and not the other, and how unevenly rounding draws the rest."""
    k, w, show, hide = channel.states, channel.size, channel.show, WORD - channel.show
    (most, least), (most_, least_) = channel._choices
    whole = WORD**k
    apart = max(show * most - hide * least_, hide * most_ - show * least, 0)
    total = 2 * comb(k - 2, w - 1) * apart
    total += (comb(k - 2, w - 2) if w > 1 else 0) * show * (most - least)
    total += comb(k - 2, w) * hide * (most_ - least_)
    return Fraction(total, 2 * whole), Fraction(comb(k, w) * min(show * least, hide * least_), whole)


def _of_product(channel: Product) -> tuple[Fraction, Fraction]:
    """Of k-RR in every digit: two states that differ in all of them, but for the units left over."""
    inner, digits = channel.inner, channel.digits
    apart, shared = _of_table(inner) if isinstance(inner, Table) else _of_symmetric(inner)
    if not isinstance(inner, Symmetric):
        return 1 - (1 - apart) ** digits, shared**digits
    row = np.full(inner.states, inner.lie / WORD)
    row[0] = 1.0 - row[1:].sum()
    one: Floats = np.ones(1)
    two: Floats = np.ones(1)
    for _ in range(digits):
        one, two = np.asarray(np.kron(one, row)), np.asarray(np.kron(two, np.roll(row, 1)))
    rounding = 2 * digits * inner.states / WORD
    return Fraction(float(np.abs(one - two).sum()) / 2 + rounding), shared**digits


def _of_hash(channel: Hash) -> tuple[Fraction, Fraction]:
    """The small channel's own: under most seeds two items fall into different cells."""
    return _of_table(channel.inner)


def _of_collision(channel: Collision) -> tuple[Fraction, Fraction]:
    """Two sets that occupy i and j cells of a seed, as far apart as they can be."""
    small, high = channel.small, channel.high
    low = np.array([channel.low(count)[0] for count in range(channel.held + 1)], np.int64)
    i, j = np.meshgrid(np.arange(channel.held + 1), np.arange(channel.held + 1), indexing="ij")
    both = np.maximum(0, i + j - small)
    off = (i - both) * np.abs(high - low[j]) + (j - both) * np.abs(high - low[i])
    off += (small - i - j + both) * np.abs(low[i] - low[j])
    worst = int(off.max()) + 2 * small  # the units that are left over
    return Fraction(worst, 2 * WORD), Fraction(small * int(min(low.min(), high)), WORD)


def _of_coco(channel: CoCo) -> tuple[Fraction, Fraction]:
    """Two sets that claim i and j pairs of a seed, none in common or all of them with the other sign."""
    high, low, small = channel.high, channel.low, channel.small
    left = [channel.left(count)[0] for count in range(channel.held + 1)]
    worst = 0
    for i in range(channel.held + 1):
        for j in range(i, channel.held + 1):
            for both in {max(0, i + j - small // 2), i}:
                off = 2 * both * (high - low)
                off += (i - both) * (abs(high - left[j]) + abs(low - left[j]))
                off += (j - both) * (abs(high - left[i]) + abs(low - left[i]))
                off += (small - 2 * (i + j - both)) * abs(left[i] - left[j])
                worst = max(worst, off + 2 * small)
    return Fraction(worst, 2 * WORD), Fraction(small * min(low, *left), WORD)


def _of_halfspace(channel: Halfspace) -> tuple[Fraction, Fraction]:
    """By how many signs two vectors differ: sums of the shared and of the other signs are binomial."""
    size, keep = channel.signs, channel.keep
    shared = Fraction(2 * (WORD - keep), WORD)
    if size > 48:
        return Fraction(1), shared
    weight = {1: 2 * keep, 0: WORD, -1: 2 * (WORD - keep)}
    worst = 0
    for differ in range(1, size + 1):
        total = 0
        for a in range(size - differ + 1):
            for b in range(differ + 1):
                u, v = 2 * a - (size - differ), 2 * b - differ
                one, two = weight[_sign(u + v)], weight[_sign(u - v)]
                total += comb(size - differ, a) * comb(differ, b) * abs(one - two)
        worst = max(worst, total)
    return Fraction(worst, (2 * WORD) << size), shared


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


_SHAPES: dict[type[Channel], Callable[[Any], tuple[Fraction, Fraction]]] = {
    Table: _of_table,
    Symmetric: _of_symmetric,
    Symbols: _of_symbols,
    Subset: _of_subset,
    Product: _of_product,
    Hash: _of_hash,
    Collision: _of_collision,
    CoCo: _of_coco,
    Halfspace: _of_halfspace,
}
"""Variation (or more) and blanket (or less) of each shape."""
