"""The shape ``subset``: send w of k states, your own among them more often than not.

Ye, Barg, "Optimal schemes for discrete distribution estimation under LDP", ISIT 2017; Wang et al. 2016.
One word decides whether one's own state is sent. Then the other states are chosen one by one in their
order, each with the probability that makes all choices equally likely, rounded to 32 bits. The proof
includes the rounding: it finds the likeliest and the unlikeliest choice, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations
from math import comb, prod
from typing import Any, ClassVar, overload

import numpy as np

from ...foundation.arrays import WORD, Bits, Flags, Floats, Integers, Words
from ...foundation.errors import ChannelError
from ...foundation.exact import at_most
from ...foundation.search import largest_fitting
from ...foundation.stream import Stream
from ..honest_limits import HonestLimits
from ..law import MOST_OUTPUTS, FastDraw, IntegerChannel
from ..law_arrays import as_states
from ..proof import Proof, worst_of

MOST_STATES = 1 << 12
STEP_ERROR = 2.0**-48
"""Upper bound on the relative error of one step's logarithm and sum in doubles."""


@dataclass(frozen=True)
class Subset(IntegerChannel):
    """``show`` is the weight of sending one's own state among the ``size`` states of a report."""

    shape: ClassVar[str] = "subset"
    bounds = {"states": (2, MOST_STATES), "size": (1, MOST_STATES), "show": (1, WORD - 1)}

    states: int
    size: int
    show: int

    def __post_init__(self) -> None:
        if not 2 <= self.states <= MOST_STATES or not 1 <= self.size < self.states:
            raise ChannelError(f"a subset takes 1 or more, but not all, of 2 to {MOST_STATES} states")
        if not 0 < self.show < WORD:
            raise ChannelError("a subset shows its own state sometimes, and not always")
        outputs = comb(self.states, self.size)
        few = outputs <= MOST_OUTPUTS
        self._derive(words=self.states, one_cell=few, cells=outputs if few else self.states)

    @classmethod
    def of(cls, states: int, epsilon: Decimal, size: int | None = None) -> Subset:
        """The subset channel with the largest ``show`` that keeps the promise."""
        if size is None:
            size = min(max(1, round(states / (float(epsilon.exp()) + 1))), states - 1)
        odds = at_most(1 << 80, epsilon)

        def fits(show: int) -> bool:
            proof = cls(states, size, show).proof()
            return proof.numerator << 80 <= odds * proof.denominator

        fair = size * WORD // states
        return cls(states, size, largest_fitting(fair, WORD - 1, fits))

    @property
    def fake(self) -> float:
        """The probability that another state is sent, up to rounding."""
        return (self.size - self.show / WORD) / (self.states - 1)

    @cached_property
    def _choices(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The likeliest and unlikeliest choice of size - 1, and of size, of the other states."""
        return choice_extremes(self.states - 1, self.size)

    def proof(self) -> Proof:
        (with_most, with_least), (without_most, without_least) = self._choices
        own, other = self.show, WORD - self.show
        up = Proof(own * with_most, other * without_least, (0, self.states - 1), "a set with state 0")
        down = Proof(
            other * without_most, own * with_least, (self.states - 1, 0), "a set without the state"
        )
        flat = Proof(with_most, with_least, (0, 1), "a set with both states")
        level = Proof(without_most, without_least, (0, 1), "a set with neither state")
        return worst_of((up, down, flat, level))

    def bits(self) -> float:
        return float(np.log2(float(comb(self.states, self.size))))

    @property
    def draw_room(self) -> str:
        return "word_slices" if self.one_cell else ""

    def fast_draw(self, loops: Any) -> FastDraw:
        others = self.states - 1
        need = np.arange(self.size + 1)
        rows = [np.minimum(choice_weight(need, max(left, 1)), WORD) for left in range(others + 1)]
        facts = others, self.size, self.show, np.array(rows, np.uint64), self._ranks, self.cells - 1

        def draw(words: Words, column: int, states: np.ndarray, out: np.ndarray) -> None:
            loops.draw_subset(words, column, states, *facts, out)

        return draw

    def draw(self, states: np.ndarray, stream: Stream) -> np.ndarray:
        """Word 0 says whether one's own state is sent; word j decides on the j-th other state."""
        states = as_states(states)
        words = stream.words(0, self.words).astype(np.uint64)
        shown = words[:, 0] < np.uint64(self.show)
        need = self.size - shown.astype(np.int64)
        marks = np.zeros((len(states), self.states), np.uint8)
        rows = np.arange(len(states))
        others = self.states - 1
        for j in range(others):
            left = others - j
            take = words[:, j + 1] < choice_weight(need, left).astype(np.uint64)
            marks[rows, j + (j >= states)] = take
            need -= take
        marks[rows, states] = shown
        return self._code(marks) if self.one_cell else marks

    def draw_counts(self, laws: Floats, reports: Integers, generator: np.random.Generator) -> Integers:
        """The sampler's steps, at once for all reports with the same number of states left to choose."""
        if self.one_cell:
            return super().draw_counts(laws, reports, generator)
        return self.counts_of_states(generator.multinomial(reports, laws), generator)

    def counts_of_states(self, states: Integers, generator: np.random.Generator) -> Integers:
        """Draw how often each state is sent, from counts ``(..., states)`` of the true states."""
        shown = generator.binomial(states, self.show / WORD)
        marks, others = shown.copy(), self.states - 1
        own = np.arange(self.states)
        # By the number of states left to choose.
        waiting = np.zeros((self.size + 1, *states.shape), np.int64)
        waiting[self.size], waiting[self.size - 1] = states - shown, shown
        for j in range(others):
            for need in range(1, self.size + 1):
                chance = choice_weight(need, others - j) / WORD
                taken = generator.binomial(waiting[need], min(chance, 1.0))
                for other in (j, j + 1):  # the j-th other state is itself, or one further
                    marks[..., other] += (taken * (j + (j >= own) == other)).sum(axis=-1)
                waiting[need - 1] += taken
                waiting[need] -= taken
        return np.asarray(marks)

    @cached_property
    def _sets(self) -> Bits:
        """Every set as a row of marks, in order of its states."""
        rows = np.zeros((self.cells, self.states), np.uint8)
        for row, chosen in zip(rows, combinations(range(self.states), self.size), strict=True):
            row[list(chosen)] = 1
        return rows

    @cached_property
    def _ranks(self) -> np.ndarray:
        """What each state adds to a set's number, by the number of states left to choose."""
        ranks = np.zeros((self.states, self.size + 1), np.int64)
        for state in range(self.states):
            for left in range(1, self.size + 1):
                ranks[state, left] = comb(self.states - 1 - state, left)
        return ranks

    def _code(self, marks: Bits) -> np.ndarray:
        """The set's number in lexicographic order, by the combinatorial number system."""
        left = self.size - np.cumsum(marks, axis=1, dtype=np.int64) + marks
        rank = self._ranks[np.arange(self.states)[None, :], left]
        return comb(self.states, self.size) - 1 - (rank * marks).sum(axis=1)

    def admits(self, cells: tuple[int, ...]) -> bool:
        return super().admits(cells) and (self.one_cell or len(cells) == self.size)

    def admits_rows(self, marks: Bits) -> Flags:
        return np.asarray(marks.sum(axis=1) == self.size)

    def expected(self) -> Floats:
        if self.one_cell:
            return self._law
        show, fake = self.show / WORD, self.fake
        marks = np.full((self.states, self.states), fake) + np.eye(self.states) * (show - fake)
        return np.concatenate([marks, np.ones((self.states, 1))], axis=1)

    @cached_property
    def _law(self) -> Floats:
        """Pr[set | state], by walking each set through the sampler's own steps."""
        rows = []
        others = self.states - 1
        for state in range(self.states):
            sets = np.delete(self._sets, state, axis=1).astype(np.int64)
            own = self._sets[:, state]
            chance = np.where(own == 1, self.show, WORD - self.show) / WORD
            need = self.size - own.astype(np.int64)
            for j in range(others):
                take = choice_weight(need, others - j) / WORD
                chance = chance * np.where(sets[:, j] == 1, take, 1 - take)
                need = need - sets[:, j]
            rows.append(chance)
        return np.array(rows)

    def decoder(self, weights: Floats) -> Floats:
        if self.one_cell:
            return super().decoder(weights)
        show, fake = self.show / WORD, self.fake
        cells = (weights - weights.mean(axis=0)) / (show - fake)
        own = weights.mean(axis=0) - fake * cells.sum(axis=0)
        return np.concatenate([cells, own[None, :]])

    def covariance(self, decoder: Floats, states: Floats) -> Floats:
        """The covariance from pairs of marks under each state, up to the rounding of choices."""
        if self.one_cell:
            return super().covariance(decoder, states)
        k, w, show = self.states, self.size, self.show / WORD
        marks = decoder[:-1]
        spread = np.zeros((decoder.shape[1],) * 2)
        # Given the state, the others are a uniform choice of w - 1 or w: first and second moments.
        for share, own, count in ((show, 1.0, w - 1), (1 - show, 0.0, w)):
            single = count / (k - 1)
            pair = count * (count - 1) / ((k - 1) * (k - 2)) if k > 2 else 0.0
            total = marks.sum(axis=0)
            rest = total[None, :] - marks
            square = marks.T @ marks
            own_square = np.einsum("x,xi,xj->ij", states, marks, marks)
            others_square = square - own_square
            rests = np.einsum("x,xi,xj->ij", states, rest, rest)
            inner = single * others_square + pair * (rests - others_square)
            cross = own * single * (np.einsum("x,xi,xj->ij", states, marks, rest))
            spread += share * (own * own_square + cross + cross.T + inner)
        mean = states @ self.expected()[:, :-1] @ marks
        return spread - np.outer(mean, mean)

    @property
    def proof_steps(self) -> int:
        return self.states

    @property
    def fixed_marks(self) -> int | None:
        return 1 if self.one_cell else self.size

    def limits(self, counts: Floats, share: float = 1.0) -> HonestLimits | None:
        if self.one_cell:
            return super().limits(counts, share)
        ends = self.show / WORD, self.fake
        # The sampler's own rounding is below a millionth of a share.
        return HonestLimits.of(counts, min(ends) - 1e-6, max(ends) + 1e-6)

    def total_variation(self) -> Fraction:
        """The sum over sets with exactly one of two states, plus the rounding of the choices."""
        k, w, show, hide = self.states, self.size, self.show, WORD - self.show
        (with_most, with_least), (without_most, without_least) = self._choices
        apart = max(show * with_most - hide * without_least, hide * without_most - show * with_least, 0)
        total = 2 * comb(k - 2, w - 1) * apart
        total += (comb(k - 2, w - 2) if w > 1 else 0) * show * (with_most - with_least)
        total += comb(k - 2, w) * hide * (without_most - without_least)
        return Fraction(total, 2 * WORD**k)

    def blanket(self) -> Fraction:
        (_, with_least), (_, without_least) = self._choices
        least = min(self.show * with_least, (WORD - self.show) * without_least)
        return Fraction(comb(self.states, self.size) * least, WORD**self.states)


@overload
def choice_weight(need: int, left: int) -> int: ...
@overload
def choice_weight(need: Integers, left: int) -> Integers: ...
def choice_weight(need: int | Integers, left: int) -> int | Integers:
    """The weight, of 2^32, of taking the next of ``left`` states when ``need`` are yet to be taken."""
    return (need << 32) // left


@lru_cache(maxsize=64)
def choice_extremes(others: int, size: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The weights of the likeliest and the unlikeliest choice of size - 1, and of size, states.

    They are integers over 2^(32 others), for choices among ``others`` states.
    """
    most, least = _Walk(others, size, 1), _Walk(others, size, -1)
    less, full = ((most.weight(others, n), least.weight(others, n)) for n in (size - 1, size))
    return less, full


class _Walk:
    """The sampler's steps that lead to the likeliest choice (``sign`` 1), or the unlikeliest (-1).

    Without rounding, all choices of the same number of states are equally likely. So two choices differ
    by what rounding adds to the logarithms of their steps. Doubles hold these small sums, and ``error``
    bounds their error. If two sums are nearer than that, the exact products decide.
    """

    def __init__(self, others: int, size: int, sign: int) -> None:
        self.steps: list[tuple[int, Flags]] = []
        """For each number of states left: the least need, and from there on whether to take."""
        best = np.zeros(size + 1)
        error = 0.0
        for left in range(1, others + 1):
            low, high = max(0, size - 1 - (others - left)), min(left, size)
            need = np.arange(low, high + 1)
            rest = (need << 32) % left
            with np.errstate(divide="ignore", invalid="ignore"):
                taken = sign * np.log1p(-rest / (need << 32)) + best[need - 1]
                passed = sign * np.log1p(rest / ((left - need) << 32)) + best[need]
            taken[need == 0], passed[need == left] = -np.inf, -np.inf
            take = taken > passed
            best[low : high + 1] = np.where(take, taken, passed)
            # A step adds at most left / 2^32; divisions, logarithms and sums err by a few parts in 2^53.
            error += STEP_ERROR * (float(np.abs(best[low : high + 1]).max()) + left / WORD)
            for at in np.flatnonzero(np.abs(taken - passed) <= 2 * error):
                take[at] = self._takes(left, int(need[at]), sign)
            self.steps.append((low, take))

    def _takes(self, left: int, need: int, sign: int) -> bool:
        """Whether to take the next of ``left`` states, by exact products."""
        weight = choice_weight(need, left)
        taken = weight * self.weight(left - 1, need - 1)
        passed = (WORD - weight) * self.weight(left - 1, need)
        return sign * taken > sign * passed

    def weight(self, left: int, need: int) -> int:
        """The exact weight of the choice of ``need`` of the last ``left`` states, over 2^(32 left)."""
        factors = [1]
        for states in range(left, 0, -1):
            low, take = self.steps[states - 1]
            weight = choice_weight(need, states)
            factors.append(weight if take[need - low] else WORD - weight)
            need -= int(take[need - low])
        while len(factors) > 1:  # in pairs, so that the numbers grow evenly
            factors = [prod(factors[i : i + 2]) for i in range(0, len(factors), 2)]
        return factors[0]
