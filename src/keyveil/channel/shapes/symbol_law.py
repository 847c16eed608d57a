"""The law of ``symbols``: what a position shows, and how states are estimated from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...foundation.arrays import WORD, Bits, Floats
from ...foundation.errors import ChannelError
from ..law import MOST_WRITTEN, Channel
from ..one_hot_bits import OneHotBits

MOST_WRITTEN_POSITIONS = 16


@dataclass(frozen=True)
class SymbolLaw(Channel):
    """``laws[0]`` is the background law; a state puts one of ``laws[1:]`` in its place.

    State ``silent + i`` puts law ``1 + i mod m`` at position ``i div m``, where m is the number of
    laws besides the background; the first ``silent`` states (0 or 1) leave all as background.
    Symbol 0 marks nothing; symbol s of position p marks cell ``p * (alphabet - 1) + s - 1``.
    """

    positions: int
    laws: tuple[tuple[int, ...], ...]
    silent: int = 0

    @property
    def alphabet(self) -> int:
        """Number of symbols that a position may show."""
        return len(self.laws[0])

    @property
    def _per(self) -> int:
        """Number of states of a position: the laws besides the background."""
        return len(self.laws) - 1

    @cached_property
    def _shares(self) -> Floats:
        """The probability of each symbol under each law, ``(laws, alphabet)``."""
        return np.array(self.laws, np.float64) / WORD

    @cached_property
    def _lift(self) -> Floats:
        """What each own law adds to the background's chance of each symbol but 0."""
        return np.asarray(self._shares[1:, 1:] - self._shares[0, 1:])

    @property
    def is_bits(self) -> bool:
        """Whether positions are bits and a state marks one bit."""
        return self.alphabet == len(self.laws) == 2

    @property
    def one_hot_bits(self) -> OneHotBits | None:
        if not self.is_bits:
            return None
        (_, fake), (_, show) = self.laws
        return OneHotBits(self.positions, self.silent, fake, show)

    def marked(self, state: int) -> tuple[int, int] | None:
        """The position of a state and its law there; None if it has none."""
        if state < self.silent:
            return None
        position, law = divmod(state - self.silent, self._per)
        return position, law + 1

    @property
    def _outputs(self) -> int:
        return self.alphabet**self.positions

    @cached_property
    def _digits(self) -> Bits:
        """The symbols of every output, ``(outputs, positions)``; only if outputs are few."""
        codes = np.arange(self._outputs)[:, None] // self.alphabet ** np.arange(self.positions)
        return (codes % self.alphabet).astype(np.uint8)

    @cached_property
    def _law(self) -> Floats:
        return self._written() if self.one_cell else self.mix(np.eye(self.states))

    def _written(self) -> Floats:
        """Pr[output | state] of every output, as a product over positions."""
        law = self._shares
        rows = np.ones((self.states, self._outputs))
        for state, row in enumerate(rows):
            marked = self.marked(state)
            for position in range(self.positions):
                own = marked[1] if marked is not None and marked[0] == position else 0
                row *= law[own][self._digits[:, position]]
        return rows

    def output_law(self) -> Floats | None:
        if self.positions > MOST_WRITTEN_POSITIONS or self.states * self._outputs > MOST_WRITTEN:
            return None
        return self._written()

    def output_marks(self) -> Floats:
        if self.one_cell:
            return super().output_marks()
        return np.column_stack([self.shown, np.ones(self._outputs)])

    def expected(self) -> Floats:
        return self._law

    @cached_property
    def undo(self) -> Floats:
        """Weights on a position's symbols, minus the background, that estimate each own law's share.

        There is a row for each symbol but 0 and a column for each own law. These weights
        have the smallest variance at the background of all. Equal laws cannot be distinguished.
        """
        back = self._shares[0, 1:]
        size, turn = np.linalg.eigh(np.diag(back) - np.outer(back, back))
        root = (turn / np.sqrt(size)) @ turn.T
        return np.asarray(root @ np.linalg.pinv(self._lift @ root))

    @cached_property
    def shown(self) -> Floats:
        """The marks of all positions for each output, one row per output; only if outputs are few."""
        marks = self._digits[:, :, None] == np.arange(1, self.alphabet)
        return np.asarray(marks.reshape(len(marks), -1), np.float64)

    def position_decoder(self, weights: Floats, offset: Floats | None = None) -> Floats:
        """Unbiased weights on the symbols of each position; the last row is that of the report itself.

        Without a silent state one direction is free: an ``offset`` may be subtracted from the weights of
        all states and added to the weight of the report. Zero gives the paper's per-bit estimator. The
        mean, the default, gives least squares under the constraint that states sum to one.
        """
        if self.silent:
            offset = weights[0]
        elif offset is None:
            offset = weights.mean(axis=0)
        wanted = (weights[self.silent :] - offset).reshape(self.positions, self._per, -1)
        cells = np.einsum("sm,pmk->psk", self.undo, wanted)
        own = offset - np.einsum("s,psk->k", self._shares[0, 1:], cells)
        solved = np.concatenate([cells.reshape(-1, weights.shape[1]), own[None, :]])
        # Equal laws cannot be distinguished: NaN, as in ``nan_where_biased``.
        slack = 1e-9 * (1.0 + np.abs(cells).max(axis=(0, 1), initial=0.0))
        off = np.abs(np.einsum("ms,psk->pmk", self._lift, cells) - wanted).max(axis=(0, 1), initial=0.0)
        solved[:, off > slack] = np.nan
        return solved

    def per_output(self, decoder: Floats) -> Floats:
        """A position decoder as weights on the outputs of a one-cell channel."""
        return self.shown @ decoder[:-1] + decoder[-1]

    def decoder(self, weights: Floats) -> Floats:
        return super().decoder(weights) if self.one_cell else self.position_decoder(weights)

    def state_estimates(self, shares: Floats) -> tuple[Floats, Floats]:
        """For one-hot bits, from the share of reports that set each bit."""
        if self.one_cell:
            return super().state_estimates(shares)
        bits = self.one_hot_bits
        if bits is None:
            raise ChannelError("state estimates are offered for one-hot bits")
        lift, raw = bits.lift, (shares - bits.fake / WORD) / bits.lift
        if self.silent:
            spread = shares * (1 - shares) / lift**2
            # "No item" is one minus the sum of the others, whose noise is nearly independent.
            none = 1.0 - raw.sum(axis=-1, keepdims=True)
            more = spread.sum(axis=-1, keepdims=True)
            return np.concatenate([none, raw], axis=-1), np.concatenate([more, spread], axis=-1)
        size = self.positions
        values = raw + (1.0 - raw.sum(axis=-1, keepdims=True)) / size
        held = np.clip(values, 0.0, 1.0)
        block = bits.second_moment(held)
        whole = block.sum(axis=-1, keepdims=True) / size**2
        own = block * ((1 - 1 / size) ** 2 - 1 / size**2)
        return values, (whole + own) / lift**2 - (held - 1 / size) ** 2

    def mix(self, states: Floats) -> Floats:
        if self.one_cell:
            return super().mix(states)
        own = states[..., self.silent :].reshape(*states.shape[:-1], self.positions, self._per)
        marks = self._shares[0, 1:] + own @ self._lift
        whole = states.sum(axis=-1, keepdims=True)
        return np.concatenate([marks.reshape(*states.shape[:-1], -1), whole], axis=-1)

    def covariance(self, decoder: Floats, states: Floats) -> Floats:
        """One block per position on the diagonal, minus the outer product of the mean shift."""
        if self.one_cell:
            return super().covariance(decoder, states)
        inner = np.array([np.diag(row) - np.outer(row, row) for row in self._shares[:, 1:]])
        own, shift = states[self.silent :].reshape(self.positions, self._per), self._lift
        blocks = inner[0] + np.einsum("pm,mst->pst", own, inner[1:] - inner[0])
        blocks += np.einsum("pm,ms,mt->pst", own, shift, shift)
        cells = decoder[:-1].reshape(self.positions, self.alphabet - 1, -1)
        spread = np.einsum("psk,pst,ptl->kl", cells, blocks, cells, optimize=True)
        mean = np.einsum("pm,ms,psk->k", own, shift, cells)
        return np.asarray(spread - np.outer(mean, mean))
