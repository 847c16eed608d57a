"""Channel: the exact law Pr[output | state], and what can be computed from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..foundation.arrays import Bits, Flags, Floats, Integers, Words
from ..foundation.errors import ChannelError
from ..foundation.stream import Stream
from .document_fields import Document, integer
from .law_arrays import as_laws, cell_covariance, nan_where_biased, random_stream
from .one_hot_bits import OneHotBits
from .proof import Proof

if TYPE_CHECKING:
    from .honest_limits import HonestLimits, MarkTotal
    from .report_choices import ReportChoices

MOST_OUTPUTS = 4096
"""Maximum number of outputs for a tally with one cell per output, which keeps the exact likelihood."""

MOST_WRITTEN = 1 << 22
"""Maximum number of entries of a law that is written out as a matrix."""


FastDraw = Callable[[Words, int, Any, np.ndarray], None]
"""Writes the outputs of states, from people's words and the number of the channel's first word."""

ROUNDING = 1e-12
"""Relative error allowed for sums of probabilities in doubles."""


class Channel(ABC):
    """A finite law held as integers over 2^32, in one of a few shapes.

    A ``one_cell`` channel has one tally cell for each output, and a report marks exactly one of them.
    In other channels a report marks any number of cells. Every report also counts once in its view's
    own cell. In the vectors of ``expected``, ``decoder`` and ``covariance`` that cell is the last
    entry, but only if reports mark many cells: a one-cell channel does not need it.
    """

    shape: ClassVar[str]
    state_kind: ClassVar[str] = "number"
    """What a state is: a "number", a vector of "signs" or a set of "items"."""
    align: ClassVar[int] = 1
    """The channel's words begin at the next multiple of this."""

    names_states: ClassVar[bool] = False
    """Whether output i says "state i", as in k-RR."""
    sends_all: ClassVar[bool] = False
    """Whether every output has a positive probability, so that none needs to be looked up."""

    states: int
    cells: int
    words: int
    one_cell: bool = True
    seeds: int = 0
    """Number of seeds that a device draws from, 0 if none. The outputs of a seed are adjacent."""

    def _derive(self, **facts: int) -> None:
        """Set what follows from the fields of a frozen shape."""
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @abstractmethod
    def proof(self) -> Proof:
        """The largest ratio of an output's probability between two states, in exact integers."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """The integers a client needs, as JSON."""

    @classmethod
    @abstractmethod
    def parse(cls, document: Document) -> Channel:
        """The channel of a document. Raises ``ChannelError`` if the document is not a law."""

    @abstractmethod
    def draw(self, states: np.ndarray, stream: Stream) -> np.ndarray:
        """Draw a report for each state: its output ``(n,)``, or its marks ``(n, cells)``."""

    def slices(self) -> tuple[np.ndarray, np.ndarray] | None:
        """How one word draws the output: slice ends and outputs, both with one row per state.

        None if the output takes more than one word.
        """
        return None

    @property
    def draw_room(self) -> str:
        """The room of the compiled loops that draw; empty if there are none."""
        return ""

    def fast_draw(self, loops: Any) -> FastDraw:
        """``draw`` in compiled loops; only if there is a ``draw_room``."""
        raise NotImplementedError(f"{self.shape} has no compiled loops")

    @property
    def circle(self) -> tuple[int, int, int, int] | None:
        """The numbers (states, keep, lie, rest) of k-RR; None for other channels."""
        return None

    @property
    def one_hot_bits(self) -> OneHotBits | None:
        """The integers of a channel that flips bits, of which a state sets one; None for others."""
        return None

    def in_draw_form(self, states: Integers) -> np.ndarray:
        """Numbers of states in the form that ``draw`` takes."""
        return states

    def marginals(self, state: int) -> Floats:
        """The probability ``(cells,)`` that each cell is marked from a state."""
        return self.mix(np.eye(1, self.states, state)[0])[: self.cells]

    @property
    def proof_steps(self) -> int:
        """Number of states that ``proof`` goes through one by one. A plan limits the total."""
        return 0

    @abstractmethod
    def expected(self) -> Floats:
        """E[marks | state], one row per state. For one-cell channels it is Pr[output | state]."""

    def output_law(self) -> Floats | None:
        """Pr[output | state], one row per state; None above ``MOST_WRITTEN`` entries."""
        if not self.one_cell or self.states * self.cells > MOST_WRITTEN:
            return None
        return self.expected()

    def output_marks(self) -> Floats:
        """The marks of each output of ``output_law``: one row per output, columns as in ``decoder``."""
        return np.eye(self.cells)

    def mix(self, states: Floats) -> Floats:
        """The law of the outputs (or expected marks) under laws of the states, one per row."""
        return states @ self.expected()

    def back(self, weights: Floats) -> Floats:
        """The expectation of ``weights`` on the outputs under each state; the transpose of ``mix``."""
        return weights @ self.expected().T

    def decoder(self, weights: Floats) -> Floats:
        """Weights on cells whose sum over a report is unbiased for ``weights`` on states.

        The result has one column per column of ``weights``; a column is NaN if no estimator is
        unbiased. The weights are least squares: they have the smallest variance of all unbiased
        weights when every state is equally likely.
        """
        law = self.expected()
        shares = law.mean(axis=0)
        scaled = law / np.sqrt(np.where(shares > 0, shares, 1.0))
        solved = (np.linalg.pinv(scaled) @ weights) / np.sqrt(np.where(shares > 0, shares, 1.0))[:, None]
        return nan_where_biased(law, solved, weights)

    def covariance(self, decoder: Floats, states: Floats) -> Floats:
        """The exact covariance of one report's ``decoder`` sums when states follow ``states``."""
        return cell_covariance(decoder, self.mix(states))

    @cached_property
    def _state_decoder(self) -> Floats:
        """The decoder of every single state, ``(cells, states)``."""
        return self.decoder(np.eye(self.states))

    def unmixed(self, shares: Floats) -> Floats:
        """Unbiased estimates of the states' shares, from shares of a one-cell channel's outputs."""
        return shares @ self._state_decoder

    def state_estimates(self, shares: Floats) -> tuple[Floats, Floats]:
        """Each state's estimated share and its one-report variance, from shares ``(..., cells)``."""
        values = shares @ self._state_decoder
        return values, shares @ self._state_decoder**2 - values**2

    def bits(self) -> float:
        """The size of a report in bits: log2 of the number of outputs."""
        return float(np.log2(self.cells)) if self.one_cell else float(self.cells)

    def admits(self, cells: tuple[int, ...]) -> bool:
        """Whether an honest device could mark these cells."""
        if self.one_cell:
            return len(cells) == 1 and 0 <= cells[0] < self.cells and bool(self.possible[cells[0]])
        return all(0 <= c < self.cells for c in cells) and len(set(cells)) == len(cells)

    def admits_rows(self, marks: Bits) -> Flags:
        """``admits`` for many reports, each a row of 0 and 1 over cells; not for one-cell channels."""
        return np.ones(len(marks), bool)

    @property
    def position_cells(self) -> int:
        """Number of adjacent cells of which a report marks at most one, whatever the others; else 0.

        ``admits_rows`` asks for nothing more in a channel that has such positions.
        """
        return 0

    @cached_property
    def possible(self) -> Bits:
        """1 for each output of a one-cell channel that has a positive probability from some state."""
        if self.sends_all:
            return np.ones(self.cells, np.uint8)
        return (self.expected().max(axis=0) > 0).astype(np.uint8)

    # -- simulation --------------------------------------------------------------------------------

    def draw_counts(self, laws: Floats, reports: Integers, generator: np.random.Generator) -> Integers:
        """Draw the counts of every cell, ``(..., cells)``, for ``reports`` reports, ``(...,)``.

        The states of the reports are independent and follow ``laws``, ``(..., states)``; leading
        axes broadcast. A one-cell channel takes one multinomial draw. For other channels the default
        draws the marks with the sampler, report by report.
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
        """Number of cells that every report marks; None if it varies."""
        return 1 if self.one_cell else None

    def limits(self, counts: Floats, share: float = 1.0) -> HonestLimits | None:
        """The count of each cell, with the least and the largest probability that it is marked.

        The limits hold for every mixture of states in which the states of one item have a total
        share of at most ``share``. The default takes the least and the largest over all states,
        whatever the share. A shape may count other events than marked cells, or have no limits (None).
        """
        from .honest_limits import HonestLimits

        law = self.expected()[:, : self.cells]
        return HonestLimits.of(counts, law.min(axis=0), law.max(axis=0))

    def group_counts(self, counts: Floats, size: int) -> Floats | None:
        """The counts ``(..., groups, symbols)`` of symbols; a group is ``size`` adjacent states.

        ``counts`` are counts of cells, ``(..., cells)``. None if groups have no symbols of their own.
        """
        return None

    def group_law(self, size: int) -> Floats:
        """The law of a group's symbol: a row for states of other groups, then one for each of its own.

        Column 0 is the probability that the group shows no symbol.
        """
        raise ChannelError(f"groups of states have no symbols of their own in a {self.shape}")

    def group_shares(self, shown: Floats) -> Floats:
        """The unbiased shares of the groups' states, ``(..., groups, size)``, from shares of symbols."""
        raise ChannelError(f"groups of states have no symbols of their own in a {self.shape}")

    def group_decoder(self, size: int) -> Floats:
        """The weights of ``group_shares`` on a group's symbols, a column for each state.

        A constant is left out, and so is the effect of rounding on other groups.
        """
        raise ChannelError(f"groups of states have no symbols of their own in a {self.shape}")

    def group_limits(self, counts: Floats, share: float, size: int) -> HonestLimits | None:
        """How often each group shows any symbol, with limits as in ``limits``.

        None if the sum over a group's symbols says no more than each symbol alone.
        """
        return None

    def outside_limits(self, count: int) -> tuple[float, float] | None:
        """The least and the largest probability that an output names none of ``count`` states.

        They hold for every true state. None if outputs do not name states.
        """
        return None

    def mark_totals(self, counts: Integers) -> list[MarkTotal]:
        """The total of every kind of mark, if positions are independent; else an empty list."""
        return []

    def digit_counts(self, counts: Floats) -> tuple[Channel, Floats] | None:
        """The channel of one digit, and the counts of its outputs, one row per digit.

        None if a state is not drawn digit by digit.
        """
        return None

    def few_digits(self, count: int) -> Channel | None:
        """The channel of ``count`` of a state's digits, if counts may be summed over the other digits.

        None if a state is not drawn digit by digit, or if the sums depend on the other digits.
        """
        return None

    # -- what one report can move ------------------------------------------------------------------

    def choices(self) -> ReportChoices:
        """All reports that a device, honest or not, can send. ``admits`` accepts exactly these.

        By default a report of a channel with many cells marks any set of them.
        """
        from .report_choices import ReportChoices

        if self.one_cell:
            return ReportChoices(self.possible.reshape(max(self.seeds, 1), -1).astype(np.float64))
        return ReportChoices(None, self.cells, size=self.fixed_marks)

    def positions_of(self, states: Integers) -> Integers | None:
        """The position that each state marks; None if states have no positions of their own."""
        return None

    @property
    def pull(self) -> float:
        """E[sign sent | true sign] = pull * true sign; for channels whose states are signs."""
        raise ChannelError(f"the states of a {self.shape} are no vectors of signs")

    def sign_decoder(self) -> Floats:
        """Weights on cells, one column per sign, whose sum over a report is unbiased for the sign.

        Only for channels whose states are vectors of signs.
        """
        raise ChannelError(f"the states of a {self.shape} are no vectors of signs")

    # -- what the shuffle model asks ---------------------------------------------------------------

    def total_variation(self) -> Fraction:
        """The largest total variation distance between the reports of two states, or slightly more.

        The default compares all pairs of rows. For a law that is not written out it is the bound that
        follows from the worst ratio E: (E - 1) / (E + 1).
        """
        law = self.output_law()
        if law is None:
            proof = self.proof()
            return Fraction(proof.numerator - proof.denominator, proof.numerator + proof.denominator)
        pairs = (np.abs(law[first:] - row).sum(axis=1).max() for first, row in enumerate(law))
        return Fraction(float(max(pairs)) / 2 * (1 + ROUNDING))

    def blanket(self) -> Fraction:
        """The probability mass that the reports of all states share, or slightly less.

        It is the sum over outputs of the smallest probability from any state. For a law that is not
        written out it is the bound that follows from the worst ratio E: 1 / E.
        """
        law = self.output_law()
        if law is None:
            proof = self.proof()
            return Fraction(proof.denominator, proof.numerator)
        return Fraction(float(law.min(axis=0).sum()) * (1 - ROUNDING))

    def product_variation(self, count: int) -> Fraction:
        """An upper bound on the total variation distance between ``count`` independent reports."""
        return 1 - (1 - self.total_variation()) ** count

    def check(self, promised: Decimal) -> Proof:
        """The proof, or an error that names the worst pair of states and its ratio."""
        proof = self.proof()
        if not proof.keeps(promised):
            raise ChannelError(f"the channel breaks its promise of epsilon {promised}: {proof}")
        return proof


@dataclass(frozen=True)
class IntegerChannel(Channel):
    """A shape whose fields are integers: documents hold them under the names of ``bounds``."""

    bounds: ClassVar[Mapping[str, tuple[int, int]]]
    """Name in documents, least and largest value of each field, in the order of the fields."""

    def document(self) -> dict[str, Any]:
        values = (getattr(self, field.name) for field in fields(self))
        return {"shape": self.shape, **dict(zip(self.bounds, values, strict=True))}

    @classmethod
    def parse(cls, document: Document) -> Self:
        return cls(*(integer(document, name, *ends) for name, ends in cls.bounds.items()))
