"""The shape ``table``: a row of weights for each state, drawn with one word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ...foundation.arrays import WORD, Floats, Integers, Words
from ...foundation.errors import ChannelError
from ...foundation.slot_guide import slot_guide
from ...foundation.stream import Stream
from ..document_fields import Document, weights_of
from ..law import MOST_OUTPUTS, Channel, FastDraw
from ..law_arrays import as_states, thresholds
from ..proof import Proof

MOST_ENTRIES = 1 << 16
_MOST_GUIDE = 1 << 14
"""Entries of a guide to slices, which should stay in the cache."""


@dataclass(frozen=True)
class Table(Channel):
    """``rows[state][output]``: whole weights, each row summing to 2^32."""

    shape: ClassVar[str] = "table"
    words = 1

    rows: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.rows or len(self.rows) * len(self.rows[0]) > MOST_ENTRIES:
            raise ChannelError(f"a table has 1 to {MOST_ENTRIES} entries")
        if len(self.rows[0]) > MOST_OUTPUTS:
            raise ChannelError(f"a table has at most {MOST_OUTPUTS} outputs")
        rows = tuple(weights_of(row, len(self.rows[0])) for row in self.rows)
        object.__setattr__(self, "rows", rows)
        self._derive(states=len(rows), cells=len(rows[0]))

    @classmethod
    def rounded(cls, rows: Sequence[Sequence[float]] | Floats) -> Table:
        """The table nearest to real rows: round down, then add one unit to the largest remainders."""
        whole = []
        for row in np.asarray(rows, np.float64):
            exact = row * (WORD / row.sum())
            low = np.floor(exact).astype(np.int64)
            rest = WORD - int(low.sum())
            low[np.argsort(low - exact, kind="stable")[:rest]] += 1
            whole.append(tuple(int(w) for w in low))
        return cls(tuple(whole))

    def proof(self) -> Proof:
        worst = Proof(1, 1, (0, 0), "0")
        for output, column in enumerate(zip(*self.rows, strict=True)):
            most, least = max(column), min(column)
            if most == 0:
                continue
            if least == 0:
                pair = (column.index(most), column.index(0))
                raise ChannelError(
                    f"output {output} is possible from state {pair[0]} and impossible from state "
                    f"{pair[1]}: no epsilon covers it"
                )
            if most * worst.denominator > worst.numerator * least:
                worst = Proof(most, least, (column.index(most), column.index(least)), str(output))
        return worst

    def document(self) -> dict[str, Any]:
        return {"shape": self.shape, "rows": [list(row) for row in self.rows]}

    @classmethod
    def parse(cls, document: Document) -> Table:
        rows = document.get("rows")
        if not isinstance(rows, list) or not rows or not all(isinstance(r, list) for r in rows):
            raise ChannelError("a table's 'rows' is a list of lists of weights")
        return cls(tuple(tuple(row) for row in rows))

    @cached_property
    def _law(self) -> Floats:
        return np.array(self.rows, np.float64) / WORD

    def expected(self) -> Floats:
        return self._law

    @cached_property
    def thresholds(self) -> np.ndarray:
        """Cumulative weights of each row, without the last."""
        return thresholds(np.array(self.rows, np.uint64))

    def slices(self) -> tuple[np.ndarray, np.ndarray] | None:
        order = np.tile(np.arange(self.cells), (self.states, 1))
        return self.thresholds, order.astype(np.uint64)

    @cached_property
    def _guide(self) -> tuple[np.ndarray, np.ndarray, int]:
        """What loops need to find the slice of a word, for each state."""
        bits = max(4, min(8, (_MOST_GUIDE // self.states).bit_length() - 1))
        return slot_guide(self.thresholds, bits)

    @property
    def draw_room(self) -> str:
        return "word_slices"

    def fast_draw(self, loops: Any) -> FastDraw:
        guide = self._guide

        def draw(words: Words, column: int, states: np.ndarray, out: np.ndarray) -> None:
            loops.draw_slices(words, column, states, *guide, out)

        return draw

    def draw(self, states: np.ndarray, stream: Stream) -> Integers:
        """The output whose slice of [0, 2^32) contains the word; slices are in the order of outputs."""
        states = as_states(states)
        word = stream.words(0, 1)[:, 0].astype(np.uint64)
        if self.cells <= 16:
            return (word[:, None] >= self.thresholds[states]).sum(axis=1, dtype=np.int64)
        outputs = np.empty(len(states), np.int64)
        for state in np.unique(states):
            rows = states == state
            outputs[rows] = np.searchsorted(self.thresholds[state], word[rows], side="right")
        return outputs

    def total_variation(self) -> Fraction:
        rows = np.array(self.rows, np.int64)
        pairs = (np.abs(rows[first:] - row).sum(axis=1).max() for first, row in enumerate(rows))
        return Fraction(int(max(pairs)), 2 * WORD)

    def blanket(self) -> Fraction:
        return Fraction(int(np.array(self.rows, np.int64).min(axis=0).sum()), WORD)
