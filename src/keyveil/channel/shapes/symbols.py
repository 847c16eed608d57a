"""The shape ``symbols``: independent positions over a small alphabet (KVOH, IOH, RAPPOR, PCKV-UE).

Every position follows the background law, except the one that the state marks, which follows the
state's own law. Two states differ in at most two positions. So the worst ratio is the product of the two
worst ratios of a position, for any number of positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import numpy as np

from ...foundation.arrays import WORD, Bits, Flags, Floats, Integers, Words
from ...foundation.errors import ChannelError
from ...foundation.stream import Stream
from ..document_fields import Document, integer, weights_of
from ..honest_limits import HonestLimits, MarkTotal
from ..law import MOST_OUTPUTS, ROUNDING, FastDraw
from ..law_arrays import as_states, thresholds
from ..proof import Proof, worst_of
from ..report_choices import ReportChoices
from .symbol_law import SymbolLaw
from .symbol_planes import GROUP, below_by_planes, symbols_at, unplane

MOST_POSITIONS = 1 << 20


@dataclass(frozen=True)
class Symbols(SymbolLaw):
    """Positions that are drawn independently; see ``SymbolLaw`` for what states and cells are."""

    shape: ClassVar[str] = "symbols"
    align: ClassVar[int] = 4
    sends_all: ClassVar[bool] = True  # every symbol of every law has weight

    def __post_init__(self) -> None:
        if not 1 <= self.positions <= MOST_POSITIONS or self.silent not in (0, 1):
            raise ChannelError(f"symbols have 1 to {MOST_POSITIONS} positions and 0 or 1 silent")
        if len(self.laws) < 2 or not 2 <= len(self.laws[0]) <= 16:
            raise ChannelError("symbols need a background law, one more, and 2 to 16 symbols")
        laws = tuple(weights_of(law, len(self.laws[0])) for law in self.laws)
        if any(w == 0 for law in laws for w in law):
            raise ChannelError("a symbol that some law makes impossible: no epsilon covers it")
        object.__setattr__(self, "laws", laws)
        outputs = len(laws[0]) ** min(self.positions, 64)
        few, marks = outputs <= MOST_OUTPUTS, self.positions * (len(laws[0]) - 1)
        self._derive(words=self.positions, one_cell=few, cells=outputs if few else marks)
        self._derive(states=self.silent + self.positions * (len(laws) - 1))

    @classmethod
    def bits_of(cls, positions: int, show: int, fake: int, silent: int = 0) -> Symbols:
        """One-hot bits: the true bit is set with weight ``show``, every other with ``fake``."""
        return cls(positions, ((WORD - fake, fake), (WORD - show, show)), silent)

    def proof(self) -> Proof:
        up, down = self._best_symbol(1), self._best_symbol(-1)
        step, first = len(self.laws) - 1, self.silent
        proofs = [Proof(1, 1, (0, 0), "none"), *self._same_position()]
        if self.silent:
            for own, back, law, symbol in (up, down):
                place, marked_state = f"symbol {symbol} at position 0", 1 + law
                proofs.append(Proof(own, back, (marked_state, 0), place))
                proofs.append(Proof(back, own, (0, marked_state), place))
        if self.positions > 1:
            proofs.append(
                Proof(
                    up[0] * down[1],
                    up[1] * down[0],
                    (first + up[2], first + step + down[2]),
                    f"symbols {up[3]} and {down[3]} at positions 0 and 1",
                )
            )
        return worst_of(proofs)

    def _best_symbol(self, sign: int) -> tuple[int, int, int, int]:
        """The symbol with the largest (1) or smallest (-1) ratio of an own law to the background.

        Returns its weight in that law and in the background, the number of the law, and the symbol.
        """
        best = (1, 1, 0, 0)
        for symbol, (back, *weights) in enumerate(zip(*self.laws, strict=True)):
            own = max(weights) if sign > 0 else min(weights)
            if symbol == 0 or sign * own * best[1] > sign * best[0] * back:
                best = own, back, weights.index(own), symbol
        return best

    def _same_position(self) -> Iterator[Proof]:
        """For each symbol the ratio of the two own laws that differ most in it."""
        for symbol, weights in enumerate(zip(*self.laws[1:], strict=True)):
            most, least = max(weights), min(weights)
            states = self.silent + weights.index(most), self.silent + weights.index(least)
            yield Proof(most, least, states, f"symbol {symbol} at position 0")

    def document(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "positions": self.positions,
            "laws": [list(law) for law in self.laws],
            "silent": self.silent,
        }

    @classmethod
    def parse(cls, document: Document) -> Symbols:
        laws = document.get("laws")
        if not isinstance(laws, list) or not all(isinstance(law, list) for law in laws):
            raise ChannelError("the 'laws' of symbols are a list of lists of weights")
        return cls(
            integer(document, "positions", 1, MOST_POSITIONS),
            tuple(tuple(law) for law in laws),
            integer(document, "silent", 0, 1),
        )

    def bits(self) -> float:
        return self.positions * float(np.log2(self.alphabet))

    # -- the sampler ---------------------------------------------------------------------------

    def draw(self, states: np.ndarray, stream: Stream) -> np.ndarray:
        """Each position's symbol from its own 32-bit number, laid out in bit planes.

        Positions go in groups of 32. A group of r positions takes r words; their 32 r bits, least
        significant first, are 32 planes of r bits, the most significant plane first: bit ``j r + p``
        is bit ``31 - j`` of position p's number. A number picks the symbol whose slice of its
        position's law it falls into, symbol 0 taking the topmost slice.
        """
        states = as_states(states)
        symbols = np.empty((len(states), self.positions), np.uint8)
        for first in range(0, self.positions, GROUP):
            size = min(GROUP, self.positions - first)
            if size == GROUP and self.is_bits:
                self._draw_bits(symbols, states, stream, first)
                continue
            numbers = unplane(stream.words(first, size), size)
            symbols[:, first : first + size] = symbols_at(numbers, self.slice_ends[0])
            self._redraw(symbols, numbers, states, first, size)
        return self._code(symbols) if self.one_cell else self._marks(symbols)

    def _draw_bits(self, symbols: Bits, states: np.ndarray, stream: Stream, first: int) -> None:
        """A whole group of bits at once, from as many planes as it takes to decide them all.

        The same bits as by the numbers themselves: a bit is set where its number lies below the
        background's slice, and planes are compared from the most significant on.
        """
        below = below_by_planes(int(self.slice_ends[0, 0]), stream, first, len(states))
        raw = below.astype("<u4").reshape(-1, 1).view(np.uint8)
        symbols[:, first : first + GROUP] = np.unpackbits(raw, axis=1, bitorder="little")
        position = states - self.silent - first
        rows = np.flatnonzero((states >= self.silent) & (position >= 0) & (position < GROUP))
        if len(rows):
            numbers = unplane(stream.words(first, GROUP, rows), GROUP)
            own = numbers[np.arange(len(rows)), position[rows]]
            symbols[rows, first + position[rows]] = own < self.slice_ends[1, 0]

    def _redraw(
        self, symbols: Bits, numbers: np.ndarray, states: np.ndarray, first: int, size: int
    ) -> None:
        """Put the states' own laws in place of the background where they mark this group."""
        per = self._per
        position = (states - self.silent) // per - first
        inside = (states >= self.silent) & (position >= 0) & (position < size)
        rows = np.flatnonzero(inside)
        own = numbers[rows, position[rows]]
        law = (states[rows] - self.silent) % per
        for number in range(per):
            chosen = law == number
            at = rows[chosen]
            symbols[at, first + position[at]] = symbols_at(own[chosen], self.slice_ends[number + 1])

    def draw_counts(self, laws: Floats, reports: Integers, generator: np.random.Generator) -> Integers:
        """Draw the states first. Given the states, positions are independent."""
        if self.one_cell:
            return super().draw_counts(laws, reports, generator)
        states = generator.multinomial(reports, laws)
        own = states[..., self.silent :].reshape(*reports.shape, self.positions, -1)
        rest = reports[..., None] - own.sum(axis=-1)
        law = self._shares
        if self.is_bits:
            return generator.binomial(own[..., 0], law[1, 1]) + generator.binomial(rest, law[0, 1])
        law = np.roll(law, -1, axis=1)  # symbol 0 last: it marks nothing
        shown = generator.multinomial(rest, law[0])
        for number, row in enumerate(law[1:]):
            shown = shown + generator.multinomial(own[..., number], row)
        return shown[..., :-1].reshape(*reports.shape, self.cells)

    @property
    def draw_room(self) -> str:
        fast = self.is_bits if self.one_cell else self.alphabet <= 9  # eight positions in 64 bits
        return "bit_planes" if fast else ""

    def fast_draw(self, loops: Any) -> FastDraw:
        """Only for bits whose report is one cell; others take their words plane by plane."""
        kind = self.one_hot_bits
        assert kind is not None

        def draw(words: Words, column: int, states: np.ndarray, out: np.ndarray) -> None:
            marks = np.empty((len(words), 1), np.uint32)
            loops.draw_bits(words, column, *kind, states, marks)
            out[:] = marks[:, 0]

        return draw

    @cached_property
    def slice_ends(self) -> np.ndarray:
        """For each law the upper ends of the slices of symbols 1, 2, ..."""
        laws = np.array(self.laws, np.uint64)
        return thresholds(np.concatenate([laws[:, 1:], laws[:, :1]], axis=1))

    def _code(self, symbols: Bits) -> np.ndarray:
        """The output's number: position 0 is the least significant digit."""
        place = self.alphabet ** np.arange(self.positions, dtype=np.int64)
        return symbols.astype(np.int64) @ place

    def _marks(self, symbols: Bits) -> Bits:
        if self.alphabet == 2:
            return symbols
        shown = np.arange(1, self.alphabet, dtype=np.uint8)
        return (symbols[:, :, None] == shown).reshape(len(symbols), -1).astype(np.uint8)

    def admits(self, cells: tuple[int, ...]) -> bool:
        if not super().admits(cells):
            return False
        per = self.alphabet - 1
        return self.one_cell or len({c // per for c in cells}) == len(cells)

    def admits_rows(self, marks: Bits) -> Flags:
        per = self.alphabet - 1
        if per == 1:
            return super().admits_rows(marks)
        return np.asarray((marks.reshape(len(marks), -1, per).sum(axis=2) <= 1).all(axis=1))

    @property
    def position_cells(self) -> int:
        return 0 if self.one_cell else self.alphabet - 1

    # -- what honest counts can be ---------------------------------------------------------------

    def _shared_laws(self, share: float) -> Floats:
        """The laws of a position whose own states have a total share of ``share``."""
        law = self._shares
        return np.asarray(law[0] + share * (law - law[0]))

    def limits(self, counts: Floats, share: float = 1.0) -> HonestLimits | None:
        if self.one_cell:
            return super().limits(counts, share)
        law = self._shared_laws(share)[:, 1:]
        low, high = (np.tile(end, self.positions) for end in (law.min(axis=0), law.max(axis=0)))
        positions = np.repeat(np.arange(self.positions), self.alphabet - 1)
        return HonestLimits.of(counts, low, high, self.silent + positions * self._per)

    def group_counts(self, counts: Floats, size: int) -> Floats | None:
        if size != self._per:
            return None
        marks = counts @ self.shown if self.one_cell else counts
        return np.asarray(marks.reshape(*marks.shape[:-1], self.positions, -1))

    def group_law(self, size: int) -> Floats:
        return self._shared_laws(1.0)

    def group_shares(self, shown: Floats) -> Floats:
        return np.asarray((shown - self._shares[0, 1:]) @ self.undo)

    def group_decoder(self, size: int) -> Floats:
        return self.undo

    def group_limits(self, counts: Floats, share: float, size: int) -> HonestLimits | None:
        marks = self.group_counts(counts, size)
        if marks is None or self.alphabet < 3:
            return None
        law = 1.0 - self._shared_laws(share)[:, 0]
        return HonestLimits.of(marks.sum(axis=1), law.min(), law.max())

    def mark_totals(self, counts: Integers) -> list[MarkTotal]:
        if self.one_cell:
            return []
        law = self._shares[:, 1:]
        own = law if self.silent else law[1:]
        least, most = own.min(axis=0), own.max(axis=0)
        totals = counts.reshape(self.positions, -1).sum(axis=0)
        return [
            MarkTotal(int(total), self.positions - 1, *map(float, ends))
            for total, *ends in zip(totals, law[0], least, most, strict=True)
        ]

    def choices(self) -> ReportChoices:
        if self.one_cell:
            return super().choices()
        return ReportChoices(None, self.positions, self.alphabet - 1)

    def positions_of(self, states: Integers) -> Integers | None:
        return np.asarray((states - self.silent) // self._per)

    # -- what the shuffle model asks -------------------------------------------------------------

    def total_variation(self) -> Fraction:
        """The maximum over two states, which differ in at most two positions; the others cancel."""
        background, *own = self.laws
        pairs = [((law, background), (other, background)) for law, other in product(own, own)]
        if self.positions > 1:
            pairs += [((law, background), (background, other)) for law, other in product(own, own)]
        if self.silent:
            pairs += [((law, background), (background, background)) for law in own]
        worst = 0
        for first, second in pairs:
            law, other = ([a * b for a, b in product(*laws)] for laws in (first, second))
            worst = max(worst, sum(abs(a - b) for a, b in zip(law, other, strict=True)))
        return Fraction(worst, 2 * WORD**2)

    def blanket(self) -> Fraction:
        """The state that makes an output least likely marks the position with its worst symbol.

        So the shared mass is a sum over the smallest ratio of any symbol in the output.
        """
        background, *own = self.laws
        ratios = [min(Fraction(law[s], w) for law in own) for s, w in enumerate(background)]
        if self.silent:
            ratios = [min(ratio, Fraction(1)) for ratio in ratios]
        shared, before = 0.0, 1.0
        for ratio in sorted(set(ratios)):
            above = sum(w for r, w in zip(ratios, background, strict=True) if r > ratio) / WORD
            after = above**self.positions
            shared, before = shared + float(ratio) * (before - after), after
        return Fraction(shared * (1 - ROUNDING))
