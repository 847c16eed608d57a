"""The shape ``halfspace``: Duchi's sign vector. Send a random vector, mostly on your own side.

The state is a vector v of d signs. The device draws a uniform vector z of d signs, and a side. If z is
on the wrong side of v, all its signs are flipped. A z orthogonal to v (only possible if d is even) is
sent as it is. So Pr[z | v] is 2^(1-d) times ``keep``, 1/2 or ``lie``, as z agrees with v in more than,
exactly or less than half of its signs.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import comb
from typing import ClassVar

import numpy as np

from ...foundation.arrays import WORD, Bits, Floats, Integers
from ...foundation.errors import ChannelError
from ...foundation.exact import most_lies
from ...foundation.stream import Stream
from ..honest_limits import HonestLimits
from ..law import MOST_OUTPUTS, IntegerChannel
from ..proof import Proof

MOST_SIGNS = 1 << 16
MOST_WRITTEN_SIGNS = 10
"""Largest number of signs whose law is written out."""
MOST_COMPARED_SIGNS = 48
"""Largest number of signs whose total variation is summed."""


@dataclass(frozen=True)
class Halfspace(IntegerChannel):
    """``keep`` is the weight of one's own side. Bit j of an output is set if z_j = +1."""

    shape: ClassVar[str] = "halfspace"
    state_kind: ClassVar[str] = "signs"
    sends_all: ClassVar[bool] = True
    bounds = {"signs": (1, MOST_SIGNS), "keep": (WORD // 2, WORD - 1)}

    signs: int
    keep: int

    def __post_init__(self) -> None:
        if not 1 <= self.signs <= MOST_SIGNS or not WORD // 2 <= self.keep < WORD:
            raise ChannelError(
                f"a halfspace has 1 to {MOST_SIGNS} signs and keeps its side at least half the time"
            )
        few = 1 << self.signs <= MOST_OUTPUTS
        cells = 1 << self.signs if few else self.signs
        self._derive(words=1 + -(-self.signs // 32), one_cell=few, cells=cells)

    @property
    def states(self) -> int:  # type: ignore[override]
        """The number of vectors of signs. It has up to 2^16 bits, so it is not stored."""
        return 1 << self.signs

    @classmethod
    def of(cls, signs: int, epsilon: Decimal) -> Halfspace:
        """The largest ``keep`` whose proven epsilon keeps the promise."""
        lie = most_lies(1, epsilon)
        if not cls(signs, WORD - lie).proof().keeps(epsilon):
            lie += 1
        return cls(signs, WORD - lie)

    def proof(self) -> Proof:
        # With an even number of signs "right angles" has weight 1/2, between keep and lie.
        return Proof(self.keep, WORD - self.keep, (self.states - 1, 0), "all signs +")

    def bits(self) -> float:
        return float(self.signs)

    def draw(self, states: np.ndarray, stream: Stream) -> np.ndarray:
        """``states`` has a row of 0/1 signs per person. Word 0 draws the side, the rest z."""
        own = np.asarray(states, np.int8)
        side = stream.words(0, 1)[:, 0].astype(np.uint64) < np.uint64(self.keep)
        raw = np.ascontiguousarray(stream.words(1, self.words - 1)).astype("<u4", copy=False)
        drawn = np.unpackbits(raw.view(np.uint8), axis=1, bitorder="little")[:, : self.signs]
        agree = 2 * (drawn == own).sum(axis=1, dtype=np.int64) - self.signs
        turn = (agree != 0) & ((agree > 0) != side)
        drawn = drawn ^ turn[:, None].astype(np.uint8)
        if not self.one_cell:
            return drawn
        return drawn.astype(np.int64) @ (1 << np.arange(self.signs, dtype=np.int64))

    def in_draw_form(self, states: Integers) -> np.ndarray:
        return (states[:, None] >> np.arange(self.signs) & 1).astype(np.uint8)

    def marginals(self, state: int) -> Floats:
        if self.one_cell:
            return super().marginals(state)
        signs = np.array([state >> place & 1 for place in range(self.signs)]) * 2.0 - 1.0
        return np.asarray((1.0 + self.pull * signs) / 2.0)

    @property
    def pull(self) -> float:
        """E[z_j | v] = pull * v_j."""
        middle = comb(self.signs - 1, self.signs // 2)
        return float(Fraction((2 * self.keep - WORD) * middle, WORD << (self.signs - 1)))

    def _vectors(self) -> Bits:
        codes = np.arange(1 << self.signs)[:, None] >> np.arange(self.signs)
        return (codes & 1).astype(np.uint8)

    def expected(self) -> Floats:
        """Pr[z | v] for all vectors, whatever the tally's cells are; for at most ten signs."""
        if self.signs > MOST_WRITTEN_SIGNS:
            raise ChannelError("the law of a halfspace is written out for at most ten signs")
        vectors = self._vectors().astype(np.int64) * 2 - 1
        agree = np.sign(vectors @ vectors.T)
        keep = self.keep / WORD
        return np.where(agree > 0, keep, np.where(agree < 0, 1 - keep, 0.5)) / 2 ** (self.signs - 1)

    def sign_decoder(self) -> Floats:
        if self.one_cell:
            return np.asarray((self._vectors() * 2.0 - 1.0) / self.pull, np.float64)
        return np.concatenate([np.eye(self.signs) * 2.0, -np.ones((1, self.signs))]) / self.pull

    def limits(self, counts: Floats, share: float = 1.0) -> HonestLimits | None:
        """The number of reports in which each sign is +, with its limits."""
        signs = counts @ self._vectors() if self.one_cell else counts
        return HonestLimits.of(np.asarray(signs), (1 - self.pull) / 2, (1 + self.pull) / 2)

    def output_law(self) -> Floats | None:
        return self.expected() if self.signs <= MOST_WRITTEN_SIGNS else None

    def total_variation(self) -> Fraction:
        """The maximum over numbers of differing signs, by binomial sums over equal and other signs."""
        if self.signs > MOST_COMPARED_SIGNS:
            return Fraction(1)
        weight = {1: 2 * self.keep, 0: WORD, -1: 2 * (WORD - self.keep)}
        worst = 0
        for differ in range(1, self.signs + 1):
            same, total = self.signs - differ, 0
            for a in range(same + 1):
                for b in range(differ + 1):
                    u, v = 2 * a - same, 2 * b - differ
                    apart = abs(weight[_sign(u + v)] - weight[_sign(u - v)])
                    total += comb(same, a) * comb(differ, b) * apart
            worst = max(worst, total)
        return Fraction(worst, (2 * WORD) << self.signs)

    def blanket(self) -> Fraction:
        return Fraction(2 * (WORD - self.keep), WORD)


def _sign(number: int) -> int:
    """-1, 0 or 1."""
    return (number > 0) - (number < 0)
