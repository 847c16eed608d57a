"""Replay: draw reports again with an id in place of coins.

A report is a function of the record and of the coins' words. Whoever knows some of the words can draw
every record's report again and see which records give the cells that were sent. Ids must not help.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..foundation.arrays import Floats, Integers, Words
from ..foundation.coins import Coins, Stream, address
from ..people.people import People
from ..people.schema import Record
from ..plan.plan import Plan

REDRAWS = 4
"""How often the words that an attacker does not know are drawn, for each record."""
DECOYS = 63
"""Number of random ids beside which the real one is put."""
_ROOM = 1 << 22
"""Words in memory at once."""


class Replay:
    """Reports with known cells, drawn again with other words. ``draw`` gives what is not known."""

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
        """How many words a report takes, whatever its view."""
        self._views, self._outputs = plan.packing.outputs(plan.packing.batch_of(cells))

    def guessed(self, ids: Words, offset: int) -> Integers:
        """Each report's likeliest record, if the id is the coins' words from ``offset`` on.

        It is the number of the record that draws the report's cells most often; -1 if none does. Ties
        are broken at random.
        """
        records = len(self._people)
        who = np.tile(np.repeat(np.arange(records), REDRAWS), (len(ids), 1))
        known = np.broadcast_to(ids[:, None, :], (*who.shape, 4))
        same = self._matches(who, known, offset).reshape(len(ids), records, REDRAWS)
        score = same.sum(axis=2)
        likely = np.argmax(score + self._draw.uniform(0, 0.5, score.shape), axis=1)
        return np.where(score.any(axis=1), likely, -1)

    def redrawn(self, truth: Integers, ids: Words, offset: int) -> tuple[np.ndarray, Floats]:
        """Whether each id gives its report's cells again from the true record, and with what chance.

        The chance is that of an unrelated id, given how many of the id and its decoys give the cells.
        """
        who = np.tile(truth[:, None], (1, 1 + DECOYS))
        known = self._draw.integers(1 << 32, size=(*who.shape, 4), dtype=np.uint32)
        known[:, 0] = ids
        same = self._matches(who, known, offset)
        return same[:, 0], same.mean(axis=1)

    def _matches(self, who: Integers, known: Words, offset: int) -> np.ndarray:
        """Whether row i's records draw report i's cells, with four known words each; as ``who``.

        Other words are drawn at random, but for the one that picks the view, which the cells show.
        """
        first, last = max(offset, 0), min(offset + 4, self.words)
        reports, each = who.shape
        size = max(1, _ROOM // (each * self.words))
        same = np.empty(who.shape, bool)
        for begin in range(0, reports, size):
            rows = slice(begin, min(begin + size, reports))
            shape = (rows.stop - rows.start, each, self.words)
            ready = self._draw.integers(1 << 32, size=shape, dtype=np.uint32)
            views, outputs = self._views[rows], self._outputs[rows]
            ready[:, :, 0] = np.concatenate([[0], self.plan.views.bounds])[views][:, None]
            ready[:, :, first:last] = known[rows, :, first - offset : last - offset]
            numbers = np.arange(shape[0] * each)
            people = self._people.chosen(who[rows].ravel(), numbers)
            words = ready.reshape(-1, self.words)
            stream = Stream(Coins.stated("replay"), address(numbers), ready=words)
            picked, again = self.plan.perturb(people, stream)
            equal = again == np.repeat(outputs, each, axis=0)
            equal = equal.reshape(len(numbers), -1).all(axis=1) & (picked == np.repeat(views, each))
            same[rows] = equal.reshape(-1, each)
        return same


def binomials_tail(count: int, chances: Floats) -> float:
    """The chance that at least ``count`` of some independent events occur, each with its own chance."""
    law = np.ones(1)
    for chance in chances[chances > 0]:
        law = np.convolve(law, [1 - chance, chance])
    return min(1.0, float(law[count:].sum()))
