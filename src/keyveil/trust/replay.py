"""Replay: redraw reports with an id in place of coins.

A report is a function of the record and of the words of the coins. An attacker who knows some of the
words can redraw the report of every record and see which records give the sent cells. Ids must not help.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..foundation.arrays import Floats, Integers, Words
from ..foundation.coins import Coins, address
from ..foundation.stream import Stream
from ..people.people import People
from ..people.schema import Record
from ..plan.plan import Plan

REDRAWS = 4
"""Number of draws, for each record, of the words that an attacker does not know."""
DECOYS = 63
"""Number of random ids that the real id is compared with."""
_ROOM = 1 << 22
"""Maximum number of words in memory."""


class Replay:
    """Redraws of reports with known cells. ``draw`` supplies the unknown words."""

    def __init__(
        self,
        plan: Plan,
        records: Sequence[Record],
        cells: Sequence[tuple[int, ...]],
        draw: np.random.Generator,
    ) -> None:
        self.plan, self.cells, self._draw = plan, cells, draw
        self._people = People.of_records(plan.schema, records)
        self.words = max(plan.words_of(view) for view in range(len(plan.views)))
        """Number of words of a report, the largest over views."""
        self._views, self._outputs = plan.packing.outputs(plan.packing.batch_of(cells))

    def guessed(self, ids: Words, offset: int) -> Integers:
        """The number of each report's likeliest record, if the id is the coins' words from ``offset``.

        It is the record whose redraws give the report's cells most often, or -1 if none does. Ties are
        broken at random.
        """
        records = len(self._people)
        who = np.tile(np.repeat(np.arange(records), REDRAWS), (len(ids), 1))
        known = np.broadcast_to(ids[:, None, :], (*who.shape, 4))
        same = self._matches(who, known, offset).reshape(len(ids), records, REDRAWS)
        score = same.sum(axis=2)
        likely = np.argmax(score + self._draw.uniform(0, 0.5, score.shape), axis=1)
        return np.where(score.any(axis=1), likely, -1)

    def redrawn(self, truth: Integers, ids: Words, offset: int) -> tuple[np.ndarray, Floats]:
        """Whether each id reproduces its report's cells from the true record, and the probability of it.

        The probability is that of an unrelated id, given how many of the id and its decoys do.
        """
        who = np.tile(truth[:, None], (1, 1 + DECOYS))
        known = self._draw.integers(1 << 32, size=(*who.shape, 4), dtype=np.uint32)
        known[:, 0] = ids
        same = self._matches(who, known, offset)
        return same[:, 0], same.mean(axis=1)

    def _matches(self, who: Integers, known: Words, offset: int) -> np.ndarray:
        """Whether the records of row i give the cells of report i; the shape is that of ``who``.

        Four words are known. The others are random, except those that pick the view: the cells show
        it.
        """
        first, last = max(offset, 0), min(offset + 4, self.words)
        reports, per_report = who.shape
        size = max(1, _ROOM // (per_report * self.words))
        same = np.empty(who.shape, bool)
        for begin in range(0, reports, size):
            rows = slice(begin, min(begin + size, reports))
            shape = (rows.stop - rows.start, per_report, self.words)
            ready = self._draw.integers(1 << 32, size=shape, dtype=np.uint32)
            views, outputs = self._views[rows], self._outputs[rows]
            places, picking = self.plan.picking_words
            ready[:, :, list(places)] = picking[views][:, None]
            ready[:, :, first:last] = known[rows, :, first - offset : last - offset]
            numbers = np.arange(shape[0] * per_report)
            people = self._people.chosen(who[rows].ravel(), numbers)
            words = ready.reshape(-1, self.words)
            stream = Stream(Coins.stated("replay"), address(numbers), ready=words)
            picked, redrawn = self.plan.perturb(people, stream)
            equal = redrawn == np.repeat(outputs, per_report, axis=0)
            equal = equal.reshape(len(numbers), -1).all(axis=1) & (
                picked == np.repeat(views, per_report)
            )
            same[rows] = equal.reshape(-1, per_report)
        return same


def binomials_tail(count: int, chances: Floats) -> float:
    """The probability that at least ``count`` of independent events with these ``chances`` occur."""
    law = np.ones(1)
    for chance in chances[chances > 0]:
        law = np.convolve(law, [1 - chance, chance])
    return min(1.0, float(law[count:].sum()))
