"""The influence of one report on the targets: of a report that marks a cell, or several positions."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from ...foundation.arrays import Floats, Integers
from ...foundation.errors import PlanError

MOST_INFLUENCES = 1 << 25
MOST_SOLVED = 1024
_FEW = 512
"""Maximum number of outputs that are all examined. Of more, those of the targets and one other are."""
_NEAR = 1e-6
"""Reports whose influences differ by less, for example by rounding, are sent equally often."""


class CellInfluence:
    """Reports of one cell each, with ``influence[seed, cell, target, part]``.

    An entry may stand for ``many`` cells of equal influence, 0 if it cannot be sent. ``at`` are the
    numbers of the cells.
    """

    def __init__(self, influence: Floats, many: Floats, at: Integers | None = None) -> None:
        if influence.size > MOST_INFLUENCES:
            raise PlanError("there are too many targets for this plan's reports; take fewer")
        self.speaks = np.asarray(~np.isnan(influence).any(axis=(0, 1)))
        self.influence, self.many = np.nan_to_num(influence), many
        self.at = np.arange(influence.shape[1]) if at is None else at

    def pick(self, weights: Floats, seeds: str) -> Floats:
        """The law ``(seeds, cells)`` of the best reports, uniform over ties."""
        score = np.einsum("scti,ti->sc", self.influence, weights)
        score = np.where(self.many > 0, score, -inf)
        if seeds == "chosen":
            return _largest(score, None)
        return _largest(score, 1) / len(score)

    def mean_influence(self, pick: Floats) -> Floats:
        """The mean influence ``(targets, 2)`` of reports of that law."""
        return np.einsum("sc,scti->ti", pick, self.influence)

    def even(self) -> Floats:
        """The mean influence of all possible reports, each equally likely."""
        return np.asarray(np.average(self.influence.mean(axis=0), axis=0, weights=self.many))

    def mark(self, cells: Integers, count: int, pick: Floats, draw: Any) -> None:
        """Add the marks of ``count`` reports of that law to a view's cells."""
        per = len(cells) // len(pick)
        at = np.arange(len(pick))[:, None] * per + self.at
        cells[at.ravel()] += draw.multinomial(count, pick.ravel() / pick.sum())


class Positions:
    """Reports that mark positions, with ``influence[kind, symbol, target, part]``; symbol 0 is no mark.

    ``kinds`` is the kind of each position. ``own`` is the influence of a report without marks. A report
    marks exactly ``size`` positions, or any number if ``size`` is None.
    """

    def __init__(self, own: Floats, influence: Floats, kinds: Integers, size: int | None = None) -> None:
        self.speaks = np.asarray(~np.isnan(own) & ~np.isnan(influence).any(axis=(0, 1)))
        self.own, self.influence = np.nan_to_num(own), np.nan_to_num(influence)
        self.kinds, self.size = kinds, size
        self.many = np.bincount(kinds, minlength=len(influence)).astype(np.float64)

    def pick(self, weights: Floats, seeds: str) -> Floats:
        """The law ``(kinds, symbols)`` of the best symbols, uniform over ties."""
        score = np.einsum("ksti,ti->ks", self.influence, weights)
        if self.size is not None:
            order = np.argsort(score[:, 0] - score[:, 1], kind="stable")[: self.size]
            law = np.tile([1.0, 0.0], (len(score), 1))
            law[order] = [0.0, 1.0]
            return law
        return _largest(score, 1)

    def mean_influence(self, pick: Floats) -> Floats:
        """The mean influence ``(targets, 2)`` of reports of that law."""
        return np.asarray(self.own + np.einsum("k,ks,ksti->ti", self.many, pick, self.influence))

    def even(self) -> Floats:
        """The mean influence of a report with a random symbol at each position."""
        symbols = self.influence.shape[1]
        law = np.full(symbols, 1.0 / symbols)
        if self.size is not None:
            law = np.array([1.0 - self.size / len(self.kinds), self.size / len(self.kinds)])
        return self.mean_influence(np.tile(law, (len(self.influence), 1)))

    def mark(self, cells: Integers, count: int, pick: Floats, draw: Any) -> None:
        """Add the marks of ``count`` reports of that law to a view's cells."""
        counts = np.full(len(self.kinds), count)
        cells += draw.multinomial(counts, pick[self.kinds])[:, 1:].ravel()


def _largest(scores: Floats, axis: int | None) -> Floats:
    """A law along the axis, or over all entries, that is uniform over the largest scores."""
    most = scores.max(axis=axis, keepdims=True)
    near = (scores >= most - _NEAR * (1 + np.abs(most))).astype(np.float64)
    return np.asarray(near / near.sum(axis=axis, keepdims=True))
