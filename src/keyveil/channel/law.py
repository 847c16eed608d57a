"""Channel: the exact law Pr[output | state], and everything that follows from it by computation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..foundation.arrays import WORD, Bits, Flags, Floats, Integers
from ..foundation.coins import Coins, Stream, address
from ..foundation.errors import ChannelError
from ..foundation.exact import keeps, log_up

MOST_OUTPUTS = 4096
"""Up to so many outputs a report is one cell per output, so the exact likelihood survives."""

MOST_WRITTEN = 1 << 22
"""Laws with more entries are not written out."""

Document = Mapping[str, Any]

ROUNDING = 1e-12
"""Relative error allowed for sums of probabilities in doubles."""

_LONG = 2048
"""Numbers of more bits are not written out in messages."""


@dataclass(frozen=True)
class Proof:
    """The worst ratio of any output between two states, as two exact integers."""

    numerator: int
    denominator: int
    states: tuple[int, int]
    output: str

    @property
    def epsilon(self) -> Decimal:
        """The true epsilon, rounded up."""
        return log_up(self.numerator, self.denominator)

    def keeps(self, promised: Decimal) -> bool:
        """Whether the law is ``promised``-locally differentially private, exactly."""
        return keeps(self.numerator, self.denominator, promised)

    def exceeds(self, other: Proof) -> bool:
        """Whether this ratio is the larger one, exactly."""
        return self.numerator * other.denominator > other.numerator * self.denominator

    def __str__(self) -> str:
        likely, unlikely = (_written(state) for state in self.states)
        long = max(self.numerator, self.denominator).bit_length() > _LONG
        ratio = "" if long else f"{self.numerator}/{self.denominator} = "
        return (
            f"output {self.output} is {ratio}e^{self.epsilon:.12f} times as likely from state {likely} "
            f"as from state {unlikely}"
        )


def _written(state: int) -> str:
    """A state's number; of a very large one its size."""
    bits = state.bit_length()
    if bits <= _LONG:
        return str(state)
    return f"2^{bits} - 1" if state + 1 == 1 << bits else f"about 2^{bits - 1}"


def worst_of(proofs: Iterable[Proof]) -> Proof:
    """The largest ratio of one or more, the first of equal ones."""
    each = iter(proofs)
    worst = next(each)
    for proof in each:
        if proof.exceeds(worst):
            worst = proof
    return worst


@dataclass(frozen=True)
class HonestLimits:
    """How often some things are met in reports, and their least and largest honest probability."""

    counts: Floats
    least: Floats
    most: Floats
    states: Integers | None = None
    """The state that each thing stands for; None where they stand for no single state."""

    @classmethod
    def of(
        cls, counts: Floats, least: Floats | float, most: Floats | float, states: Integers | None = None
    ) -> HonestLimits:
        """Each end is one number for all things, or an array."""
        low, high = (np.broadcast_to(np.asarray(end, np.float64), counts.shape) for end in (least, most))
        return cls(counts, low, high, states)


@dataclass(frozen=True)
class MarkTotal:
    """How many marks of one kind there are in all, and what an honest report adds.

    ``others`` positions each show the mark with probability ``background``, and one position with
    a probability between ``least`` and ``most``.
    """

    total: int
    others: int
    background: float
    least: float
    most: float


@dataclass(frozen=True)
class ReportChoices:
    """What one report can mark: one possible output, or at most one cell of each position."""

    outputs: Floats | None
    """(seeds, outputs): 1 where an output can be sent; None where reports mark positions."""
    positions: int = 0
    marks: int = 1
    """Cells of one position, which are neighbours."""
    size: int | None = None
    """Exactly so many positions are marked; None where any number may be."""


class OneHotBits(NamedTuple):
    """The true bit is set with weight ``show``, every other with ``fake``."""

    positions: int
    silent: int
    fake: int
    show: int

    @property
    def lift(self) -> float:
        """By how much more often the true bit is set."""
        return (self.show - self.fake) / WORD

    def second_moment(self, held: Floats, bits: int = 1) -> Floats:
        """The second moment of the sum of so many bits, less ``fake`` each, of which ``held`` are true.

        As shares of reports, with at most one true bit in each report.
        """
        fake, show = self.fake / WORD, self.show / WORD
        more = show * (1 - show) - fake * (1 - fake) + self.lift**2
        return np.asarray(bits * fake * (1 - fake) + held * more)


class Channel(ABC):
    """A finite law held as integers over 2^32, in one of a few shapes.

    ``one_cell`` channels mark exactly one tally cell per report, one for each output; the others
    mark any number of cells. Either way every report also counts once in its view's own cell,
    which stands last in the vectors that ``expected``, ``decoder`` and ``covariance`` speak of
    (a channel that marks one cell needs no such extra entry, and has none).
    """

    shape: ClassVar[str]
    state_kind: ClassVar[str] = "number"
    """What a state is: a "number", a vector of "signs" or a set of "items"."""
    align: ClassVar[int] = 1
    """The channel's words begin at the next multiple of this."""

    names_states: ClassVar[bool] = False
    """Whether output i says "state i", as in k-RR."""

    states: int
    cells: int
    words: int
    one_cell: bool = True
    seeds: int = 0
    """How many seeds a device draws from; 0 where it draws none. A seed's outputs are neighbours."""

    @abstractmethod
    def proof(self) -> Proof:
        """The worst pair of states, by exact integers."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """The integers a client needs, as JSON."""

    @classmethod
    @abstractmethod
    def parse(cls, document: Document) -> Channel:
        """The channel of a document, refused if it is no law."""

    @abstractmethod
    def draw(self, states: np.ndarray, stream: Stream) -> np.ndarray:
        """Perturb: one output cell per state, or an (n, cells) array of marks."""

    def slices(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Each state's slice ends of one word, and the output of each slice, in order for state 0.

        None unless one word draws the output.
        """
        return None

    @property
    def circle(self) -> tuple[int, int, int, int] | None:
        """States, keep, lie and rest of a channel that is k-RR; None for others."""
        return None

    @property
    def one_hot_bits(self) -> OneHotBits | None:
        """The numbers of a channel that flips bits, of which a state sets one; None for others."""
        return None

    def in_draw_form(self, states: Integers) -> np.ndarray:
        """States, given by number, in the form that ``draw`` takes."""
        return states

    def marginals(self, state: int) -> Floats:
        """The probability that each cell is marked from a state."""
        return self.mix(np.eye(1, self.states, state)[0])[: self.cells]

    @property
    def proof_steps(self) -> int:
        """States through which ``proof`` walks one by one; plans bound their sum."""
        return 0

    @abstractmethod
    def expected(self) -> Floats:
        """E[marks | state], one row per state; for one-cell channels Pr[output | state]."""

    def output_law(self) -> Floats | None:
        """Pr[output | state], one row per state; None above ``MOST_WRITTEN`` entries."""
        if not self.one_cell or self.states * self.cells > MOST_WRITTEN:
            return None
        return self.expected()

    def output_marks(self) -> Floats:
        """The marks of each output of ``output_law``, one row per output, as ``decoder`` weighs them."""
        return np.eye(self.cells)

    def mix(self, states: Floats) -> Floats:
        """The law of the outputs (or expected marks) under laws of the states, one per row."""
        return states @ self.expected()

    def back(self, weights: Floats) -> Floats:
        """What ``weights`` on the outputs are worth in each state; the transpose of ``mix``."""
        return weights @ self.expected().T

    def decoder(self, weights: Floats) -> Floats:
        """Weights on cells whose sum over a report is unbiased for ``weights`` on states.

        One column per column of ``weights``; a column of NaN where no estimator is unbiased.
        Least squares: of all unbiased weights those with the least variance when every state is
        equally likely.
        """
        law = self.expected()
        seen = law.mean(axis=0)
        scaled = law / np.sqrt(np.where(seen > 0, seen, 1.0))
        solved = (np.linalg.pinv(scaled) @ weights) / np.sqrt(np.where(seen > 0, seen, 1.0))[:, None]
        return nan_where_biased(law, solved, weights)

    def covariance(self, decoder: Floats, states: Floats) -> Floats:
        """The exact covariance of one report's ``decoder`` sums when states follow ``states``."""
        return cell_covariance(decoder, self.mix(states))

    def unmixed(self, shares: Floats) -> Floats:
        """The unbiased law of the states that shares of a one-cell channel's outputs point to."""
        return shares @ self.decoder(np.eye(self.states))

    def state_estimates(self, shares: Floats) -> tuple[Floats, Floats]:
        """Each state's estimated share, and a report's variance of it, from shares ``(..., cells)``."""
        decoder = self.decoder(np.eye(self.states))
        values = shares @ decoder
        return values, shares @ decoder**2 - values**2

    def bits(self) -> float:
        """The entropy bound on one output: log2 of the number of outputs."""
        return float(np.log2(self.cells)) if self.one_cell else float(self.cells)

    def admits(self, cells: tuple[int, ...]) -> bool:
        """Whether an honest device could mark these cells."""
        if self.one_cell:
            return len(cells) == 1 and 0 <= cells[0] < self.cells and bool(self.possible[cells[0]])
        return all(0 <= c < self.cells for c in cells) and len(set(cells)) == len(cells)

    def admits_rows(self, marks: Bits) -> Flags:
        """The same of many reports at once, a row of 0 and 1 over cells for each; not for one cell."""
        return np.ones(len(marks), bool)

    @cached_property
    def possible(self) -> Bits:
        """Which outputs of a one-cell channel have any weight at all."""
        return (self.expected().max(axis=0) > 0).astype(np.uint8)

    # -- simulation --------------------------------------------------------------------------------

    def draw_counts(self, laws: Floats, reports: Integers, generator: np.random.Generator) -> Integers:
        """Draw the counts of every cell, ``(..., cells)``, over so many reports, ``(...,)``.

        The states of the reports are independent and follow ``laws``, ``(..., states)``; leading
        axes broadcast. A one-cell channel takes one multinomial draw. By default the sampler
        itself draws the marks of other channels, report by report.
        """
        if self.one_cell:
            return generator.multinomial(reports, as_laws(self.mix(laws)))
        states = generator.multinomial(reports, laws)
        counts = np.zeros((*np.shape(states)[:-1], self.cells), np.int64)
        step = max(1, MOST_WRITTEN // max(self.cells, self.words))
        for at in np.ndindex(counts.shape[:-1]):
            people = np.repeat(np.arange(self.states), states[at])
            for first in range(0, len(people), step):
                own = people[first : first + step]
                marks = self.draw(own, random_stream(len(own), self.words, generator))
                counts[at] += marks.sum(axis=0, dtype=np.int64)
        return counts

    # -- what honest counts can be -----------------------------------------------------------------

    @property
    def fixed_marks(self) -> int | None:
        """How many cells every report marks; None where the number varies."""
        return 1 if self.one_cell else None

    def limits(self, counts: Floats, share: float = 1.0) -> HonestLimits | None:
        """How often each cell is marked in ``counts``, and its probability at least and at most.

        The limits hold for every mixture of states in which those of one item have at most
        ``share`` in all. The default takes the least and the largest over all states, whatever
        the share. A shape may count other things than cells, or have no limits (None).
        """
        law = self.expected()[:, : self.cells]
        return HonestLimits.of(counts, law.min(axis=0), law.max(axis=0))

    def group_counts(self, counts: Floats, size: int) -> Floats | None:
        """How often each group of ``size`` neighbouring states shows each of its symbols.

        From counts ``(..., cells)``, an array ``(..., groups, symbols)``. None where groups have no
        symbols of their own.
        """
        return None

    def group_law(self, size: int) -> Floats:
        """What a group shows: a row for no state of it, then one for each; column 0 shows nothing."""
        raise ChannelError(f"groups of states have no symbols of their own in a {self.shape}")

    def group_shares(self, shown: Floats) -> Floats:
        """The unbiased shares of a group's states, ``(..., groups, size)``, from what groups show."""
        raise ChannelError(f"groups of states have no symbols of their own in a {self.shape}")

    def group_decoder(self, size: int) -> Floats:
        """Weights on a group's symbols, a column for each state, as ``group_shares`` takes them.

        Less a constant, and but for what rounding does to other groups.
        """
        raise ChannelError(f"groups of states have no symbols of their own in a {self.shape}")

    def group_limits(self, counts: Floats, share: float, size: int) -> HonestLimits | None:
        """How often each group shows any symbol, with limits as in ``limits``.

        None where a group's symbols say nothing more together than each alone.
        """
        return None

    def outside_limits(self, count: int) -> tuple[float, float] | None:
        """The probability, at least and at most, that an output names none of ``count`` states.

        For channels that name states, whatever the true state is.
        """
        return None

    def mark_totals(self, counts: Integers) -> list[MarkTotal]:
        """The totals of every kind of mark, where positions are independent; else none."""
        return []

    def digit_counts(self, counts: Floats) -> tuple[Channel, Floats] | None:
        """The channel of one digit, and the counts of its outputs for each digit, one row each.

        None where a state is not drawn digit by digit.
        """
        return None

    def few_digits(self, count: int) -> Channel | None:
        """The channel of ``count`` of a state's digits, where counts may be summed over the others.

        None where a state is not drawn digit by digit, or sums over digits say something of others.
        """
        return None

    # -- what one report can move ------------------------------------------------------------------

    def choices(self) -> ReportChoices:
        """All reports that a device, honest or not, can send; ``admits`` takes exactly these.

        By default a report that marks many cells marks any set of them.
        """
        if self.one_cell:
            return ReportChoices(self.possible.reshape(max(self.seeds, 1), -1).astype(np.float64))
        return ReportChoices(None, self.cells, size=self.fixed_marks)

    def positions_of(self, states: Integers) -> Integers | None:
        """The position that each state marks; None where states have no positions of their own."""
        return None

    @property
    def pull(self) -> float:
        """E[sign sent | true sign] = pull * true sign; for channels whose states are signs."""
        raise ChannelError(f"the states of a {self.shape} are no vectors of signs")

    def sign_decoder(self) -> Floats:
        """Weights on cells, one column a sign, whose sum over a report is unbiased for the sign.

        For channels whose states are vectors of signs.
        """
        raise ChannelError(f"the states of a {self.shape} are no vectors of signs")

    # -- what the shuffle model asks ---------------------------------------------------------------

    def total_variation(self) -> Fraction:
        """The largest total variation between the reports of two states, or slightly more.

        The default compares all pairs of rows. A law that is not written out has the bound that
        follows from its worst ratio E: (E - 1) / (E + 1).
        """
        law = self.output_law()
        if law is None:
            proof = self.proof()
            return Fraction(proof.numerator - proof.denominator, proof.numerator + proof.denominator)
        pairs = (np.abs(law[first:] - row).sum(axis=1).max() for first, row in enumerate(law))
        return Fraction(float(max(pairs)) / 2 * (1 + ROUNDING))

    def blanket(self) -> Fraction:
        """The probability mass that the reports of all states share, or slightly less.

        It is the sum over outputs of the smallest probability from any state. A law that is not
        written out has the bound that follows from its worst ratio E: 1 / E.
        """
        law = self.output_law()
        if law is None:
            proof = self.proof()
            return Fraction(proof.denominator, proof.numerator)
        return Fraction(float(law.min(axis=0).sum()) * (1 - ROUNDING))

    def product_variation(self, count: int) -> Fraction:
        """At least the total variation of ``count`` independent reports of two states."""
        return 1 - (1 - self.total_variation()) ** count

    def check(self, promised: Decimal) -> Proof:
        """The proof, or an error that names the worst pair of states and its ratio."""
        proof = self.proof()
        if not proof.keeps(promised):
            raise ChannelError(f"the channel breaks its promise of epsilon {promised}: {proof}")
        return proof


def nan_where_biased(law: Floats, solved: Floats, weights: Floats) -> Floats:
    """Mark the columns that no estimator can answer: the law has the same report for other states."""
    # Errors of a solvable system stay near machine precision times the solution's size.
    slack = 1e-9 * (1.0 + np.abs(solved).max(axis=0, initial=0.0))
    off = np.abs(law @ solved - weights).max(axis=0, initial=0.0) > slack
    solved[:, off] = np.nan
    return solved


def cell_covariance(decoder: Floats, law: Floats) -> Floats:
    """Covariance of ``decoder`` sums when exactly one cell is marked, following ``law``."""
    mean = law @ decoder
    return (decoder * law[:, None]).T @ decoder - np.outer(mean, mean)


def as_laws(values: Floats) -> Floats:
    """Laws along the last axis: negative entries become zero, and each sum becomes one."""
    laws = np.maximum(values, 0.0)
    return np.asarray(laws / laws.sum(axis=-1, keepdims=True))


def random_stream(people: int, words: int, generator: np.random.Generator) -> Stream:
    """So many random words for each of so many people, for simulation."""
    ready = generator.integers(0, WORD, (people, words), np.uint32)
    return Stream(Coins.stated("not used"), address(np.arange(people)), ready=ready)


def integer(document: Document, name: str, low: int, high: int) -> int:
    """A whole number of a document, within bounds."""
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ChannelError(f"a channel's {name!r} must be a whole number from {low} to {high}")
    return value


def weights_of(row: object, length: int | None = None) -> tuple[int, ...]:
    """A row of whole weights that sum to 2^32."""
    if (
        not isinstance(row, list | tuple)
        or any(isinstance(w, bool) or not isinstance(w, int) or w < 0 for w in row)
        or sum(row) != WORD
        or (length is not None and len(row) != length)
    ):
        raise ChannelError("a row of a channel holds whole weights that sum to 2^32")
    return tuple(row)


def thresholds(rows: np.ndarray) -> np.ndarray:
    """Cumulative weights without the last, which is always 2^32."""
    return np.cumsum(np.asarray(rows, np.uint64), axis=-1)[..., :-1]


def as_states(states: np.ndarray) -> Integers:
    return np.asarray(states, np.int64)
