"""The shape ``symmetric``: k-RR. Report the true state, or another one, each equally likely."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...foundation.arrays import WORD, Floats, Integers, Words
from ...foundation.errors import ChannelError
from ...foundation.exact import at_most, most_lies
from ...foundation.stream import Stream
from ..law import FastDraw, IntegerChannel
from ..law_arrays import as_states, nan_where_biased, thresholds
from ..proof import Proof

if TYPE_CHECKING:
    from ..honest_limits import HonestLimits

MOST_STATES = 1 << 20
MOST_COMPARED = 1 << 12
"""Largest number of states whose rows are compared pair by pair."""


@dataclass(frozen=True)
class Symmetric(IntegerChannel):
    """Weight ``keep`` on the true state and ``lie`` on each other one.

    The left-over units, fewer than ``states - 1``, go one each to the states that follow the true one in
    a circle. So the law is a circulant matrix, and it is inverted as one.
    """

    shape: ClassVar[str] = "symmetric"
    names_states: ClassVar[bool] = True
    sends_all: ClassVar[bool] = True  # a lie has at least one unit
    words = 1
    bounds = {"states": (2, MOST_STATES), "keep": (1, WORD), "lie": (1, WORD)}

    states: int
    keep: int
    lie: int

    def __post_init__(self) -> None:
        if not 2 <= self.states <= MOST_STATES:
            raise ChannelError(f"a symmetric channel has 2 to {MOST_STATES} states")
        if self.lie < 1 or self.keep < self.lie or not 0 <= self.rest < self.states - 1:
            raise ChannelError(
                "a symmetric channel keeps at least as often as it lies, and its weights sum to 2^32"
            )
        self._derive(cells=self.states)

    @classmethod
    def of(cls, states: int, epsilon: Decimal) -> Symmetric:
        """The k-RR with the largest ``keep`` whose proven epsilon keeps the promise."""
        if not 2 <= states <= MOST_STATES:
            raise ChannelError(f"a symmetric channel has 2 to {MOST_STATES} states")
        others = states - 1
        low = most_lies(others, epsilon)
        choices = [(at_most(low, epsilon), low), (WORD - others * (low + 1), low + 1)]
        fits = [
            (keep, lie)
            for keep, lie in choices
            if lie <= keep and 0 <= WORD - keep - others * lie < max(others, 1)
        ]
        if not fits:
            raise ChannelError(f"2^32 is too coarse for {states} states at epsilon {epsilon}")
        return cls(states, *max(fits, key=lambda fit: Fraction(*fit)))

    @property
    def rest(self) -> int:
        """Number of lies with one unit more."""
        return WORD - self.keep - (self.states - 1) * self.lie

    def proof(self) -> Proof:
        if self.states == 2:
            return Proof(self.keep, self.lie, (0, 1), "0")
        # Column 0 holds keep at state 0 and, because rest < states - 1, a plain lie at state 1.
        return Proof(max(self.keep, self.lie + 1 if self.rest else 0), self.lie, (0, 1), "0")

    def circle_weights(self) -> Integers:
        """The weights of the outputs of state 0. Those of state i are the same, shifted by i."""
        row = np.full(self.states, self.lie, np.int64)
        row[0], row[1 : 1 + self.rest] = self.keep, self.lie + 1
        return row

    def _circle(self) -> Floats:
        return self.circle_weights() / WORD

    def expected(self) -> Floats:
        row = self._circle()
        offset = np.arange(self.states)
        return row[(offset[None, :] - offset[:, None]) % self.states]

    def mix(self, states: Floats) -> Floats:
        spectrum = np.fft.rfft(self._circle())
        return np.fft.irfft(np.fft.rfft(states) * spectrum, self.states)

    def back(self, weights: Floats) -> Floats:
        spectrum = np.conj(np.fft.rfft(self._circle()))
        return np.fft.irfft(np.fft.rfft(weights) * spectrum, self.states)

    def decoder(self, weights: Floats) -> Floats:
        spectrum = np.conj(np.fft.rfft(self._circle()))[:, None]
        wanted = np.fft.rfft(weights, axis=0)
        known = np.broadcast_to(np.abs(spectrum) > 0, wanted.shape)
        quotient = np.divide(wanted, spectrum, out=np.zeros_like(wanted), where=known)
        solved = np.fft.irfft(quotient, self.states, axis=0)
        if self.states <= 512:
            return nan_where_biased(self.expected(), solved, weights)
        return solved

    def unmixed_rows(self, shares: Floats) -> Floats:
        """``unmixed`` for many rows, ``(..., states)``, by Fourier transforms."""
        return np.fft.irfft(np.fft.rfft(shares) / np.fft.rfft(self._circle()), self.states)

    def state_estimates(self, shares: Floats) -> tuple[Floats, Floats]:
        """By Fourier transforms, because the inverse of a circulant law is circulant too."""
        spectrum = np.fft.rfft(self._circle())
        inverse = np.fft.irfft(1.0 / spectrum, self.states)
        values = np.fft.irfft(np.fft.rfft(shares) / spectrum, self.states)
        square = np.fft.irfft(np.fft.rfft(shares) * np.fft.rfft(inverse**2), self.states)
        return values, square - values**2

    def slices(self) -> tuple[np.ndarray, np.ndarray] | None:
        ends = np.tile(thresholds(self.circle_weights()), (self.states, 1))
        offset = np.arange(self.states)
        return ends, ((offset[:, None] + offset[None, :]) % self.states).astype(np.uint64)

    @property
    def circle(self) -> tuple[int, int, int, int] | None:
        return self.states, self.keep, self.lie, self.rest

    @property
    def draw_room(self) -> str:
        return "held_keys"

    def fast_draw(self, loops: Any) -> FastDraw:
        circle = self.states, self.keep, self.lie, self.rest

        def draw(words: Words, column: int, states: np.ndarray, out: np.ndarray) -> None:
            loops.walk(words, column, states, *circle, out)

        return draw

    def draw(self, states: np.ndarray, stream: Stream) -> Integers:
        """Below ``keep`` the state itself; above, walk round the circle by the lie's own slices.

        The first ``rest`` slices have ``lie + 1`` words and the others ``lie``, so the larger of two
        quotients is the number of the slice; both are negative below ``keep``.
        """
        word = stream.words(0, 1)[:, 0].astype(np.int64)
        if len(word) == 1:  # on a device: the same in Python's own numbers
            return np.array([self._drawn(int(states[0]), int(word[0]))])
        over = word - self.keep
        slices = np.maximum(over // (self.lie + 1), (over - self.rest) // self.lie)
        return (as_states(states) + np.maximum(slices + 1, 0)) % self.states

    def _drawn(self, state: int, word: int) -> int:
        """The output of one state for one word."""
        over = word - self.keep
        steps = max(over // (self.lie + 1), (over - self.rest) // self.lie) + 1
        return (state + max(steps, 0)) % self.states

    @property
    def mean_lie(self) -> float:
        """The probability of another state's output, on average over the other states."""
        return (WORD - self.keep) / (self.states - 1) / WORD

    @property
    def most_lie(self) -> float:
        """The largest probability of another state's output."""
        return (self.lie + bool(self.rest)) / WORD

    def limits(self, counts: Floats, share: float = 1.0) -> HonestLimits | None:
        from ..honest_limits import HonestLimits

        most = self.most_lie + share * max(self.keep / WORD - self.most_lie, 0.0)
        return HonestLimits.of(counts, self.lie / WORD, most, np.arange(self.states))

    def group_counts(self, counts: Floats, size: int) -> Floats | None:
        return counts.reshape(*counts.shape[:-1], -1, size)

    def group_law(self, size: int) -> Floats:
        law = np.full((size + 1, size), self.mean_lie)
        np.fill_diagonal(law[1:], self.keep / WORD)
        return np.column_stack([1.0 - law.sum(axis=1), law])

    def group_shares(self, shown: Floats) -> Floats:
        flat = shown.reshape(*shown.shape[:-2], -1)
        return np.asarray(self.unmixed_rows(flat).reshape(shown.shape))

    def group_decoder(self, size: int) -> Floats:
        return np.eye(size) / (self.keep / WORD - self.mean_lie)

    def group_limits(self, counts: Floats, share: float, size: int) -> HonestLimits | None:
        from ..honest_limits import HonestLimits

        most = size * self.most_lie + share * max(self.keep / WORD - self.most_lie, 0.0)
        return HonestLimits.of(counts.reshape(-1, size).sum(axis=1), size * self.lie / WORD, most)

    def outside_limits(self, count: int) -> tuple[float, float] | None:
        least = 1.0 - self.keep / WORD - (count - 1) * self.most_lie
        return max(0.0, least), 1.0 - count * self.lie / WORD

    def total_variation(self) -> Fraction:
        """Two rows differ at their own states and at the left-over units."""
        if self.states > MOST_COMPARED:
            return Fraction(self.keep - self.lie + self.rest, WORD)
        row = self.circle_weights()
        turns = (np.abs(row - np.roll(row, by)).sum() for by in range(1, self.states // 2 + 1))
        return Fraction(int(max(turns)), 2 * WORD)

    def blanket(self) -> Fraction:
        return Fraction(self.states * self.lie, WORD)

    def product_variation(self, count: int) -> Fraction:
        """Exact, plus a bound on the effect of the left-over units."""
        row = np.full(self.states, self.lie / WORD)
        row[0] = 1.0 - row[1:].sum()
        first: Floats = np.ones(1)
        second: Floats = np.ones(1)
        for _ in range(count):
            first, second = np.asarray(np.kron(first, row)), np.asarray(np.kron(second, np.roll(row, 1)))
        rounding = 2 * count * self.states / WORD
        return Fraction(float(np.abs(first - second).sum()) / 2 + rounding)
