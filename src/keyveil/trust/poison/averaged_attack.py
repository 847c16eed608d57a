"""Fakes among views of several keys, whose answers are averaged over views.

The weight of a view in the average is its number of reports times a matrix of its channel. Fakes who
choose their view raise its weight, so an answer is not linear in what they send, and the report with the
largest influence need not change it most. So the estimator itself is run on counts that include fakes:
first with every report of every view alone, then with mixtures, which are changed step by step as long
as the goal gains. It is not proven that no mixture is better; none that we tried is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from ...channel import Channel
from ...estimate.decoding import decoding_of
from ...estimate.forecast.query_forecast import expected_tally
from ...estimate.linear import key_weights, single_keys
from ...estimate.together.view_laws import key_information
from ...foundation.arrays import Floats, Integers
from ...people.prior_laws import independent_law
from ...plan.plan import Plan
from ...plan.tally import Tally
from .influence import views_by_kind

Score = Callable[[Floats], Floats]
"""The score of values ``(..., targets, 2)`` for a goal; larger is better for the attacker."""
STEPS = (0.5, 0.2, 0.05, 0.01)
"""Fractions of the fakes that change to another report in one step."""
MOST_MOVES = 30
MOST_ROWS = 1 << 15
"""Maximum of views times outputs in one evaluation. Above it, drawn views all send the same."""
MOST_TRIED = 64
"""Maximum number of views of a block in mixtures: those where a single report has most effect."""
MOST_OUTPUTS = 64
"""Maximum number of outputs that are all tried. Of more, two are tried for each law of the targets."""
APART = 4
"""Number of identical views that may hold different fakes. The rest have none, or the same."""
_GAIN = 1e-6
"""Minimum gain of a step."""


def is_pooled(plan: Plan) -> bool:
    """Whether answers for single keys are averaged over views."""
    own = decoding_of(plan).has_own_moments or decoding_of(plan).has_own_evidence
    return plan.encoding.speaks_of_views and not own and not single_keys(plan) and len(plan.views) > 1


@dataclass
class _Block:
    """Views of one channel that hold targets at the same places."""

    channel: Channel
    views: list[list[int]]
    """The views of each row; several if they are identical."""
    places: list[tuple[int, int]]
    """Number and place in the view of each target."""
    counts: Floats
    """Honest counts ``(rows, cells)`` of one view of each row."""
    shares: Floats
    """The probability of one view of each row."""
    times: Floats
    """Number of views that each row stands for."""
    outputs: Integers
    """The outputs that fakes try."""


class AveragedViews:
    """The answers of the targets, averaged over their views, with fakes among the reports."""

    def __init__(
        self, plan: Plan, places: list[int], tally: Tally | None, frequency: float, mean: float
    ) -> None:
        levels = plan.schema.levels
        if tally is None:
            law = cache(lambda size: independent_law(levels, size, frequency, mean))
            tally = expected_tally(plan, lambda keys: law(len(keys)))
        self.plan, self.targets, self.levels = plan, len(places), levels
        self.reports = float(tally.reports)
        weights = key_weights(plan.schema)
        self._slope = weights[1:] - weights[0]
        self.blocks = list(_blocks(plan, places, tally))
        self._honest = [self._known(block, block.counts) for block in self.blocks]

    # -- the estimator -----------------------------------------------------------------------------

    def _known(self, block: _Block, counts: Floats) -> dict[int, tuple[Floats, Floats]]:
        """For each target in a block, the weight and weighted shares of every row of counts."""
        reports = counts.sum(axis=-1)
        return {
            target: key_information(block.channel, counts, reports, place, self.levels)
            for target, place in block.places
        }

    def values(self, fakes: list[Floats]) -> Floats:
        """Frequency and mass of the targets ``(targets, 2)`` with these fakes in each block."""
        return self._solved(*self._summed(fakes))

    def _summed(self, fakes: list[Floats]) -> tuple[Floats, Floats]:
        matrix = np.zeros((self.targets, self.levels, self.levels))
        vector = np.zeros((self.targets, self.levels))
        for block, known, sent in zip(self.blocks, self._honest, fakes, strict=True):
            full = sent.any(axis=1)
            changed = self._known(block, (block.counts + sent)[full]) if full.any() else {}
            for target, (weight, weighted) in known.items():
                matrix[target] += np.tensordot(block.times[~full], weight[~full], 1)
                vector[target] += block.times[~full] @ weighted[~full]
                if changed:
                    matrix[target] += np.tensordot(block.times[full], changed[target][0], 1)
                    vector[target] += block.times[full] @ changed[target][1]
        return matrix, vector

    def _solved(self, matrix: Floats, vector: Floats) -> Floats:
        shares = np.einsum("...ij,...j->...i", np.linalg.pinv(matrix), vector)
        return np.asarray(shares @ self._slope)

    def none(self) -> list[Floats]:
        """No fakes at all."""
        return [np.zeros_like(block.counts) for block in self.blocks]

    # -- what fakes send ---------------------------------------------------------------------------

    def random(self, count: float) -> list[Floats]:
        """Fakes with a random view and a random valid output, by block ``(rows, cells)``."""
        per_view = count / len(self.plan.views)
        fakes = []
        for block in self.blocks:
            possible = block.channel.possible / block.channel.possible.sum()
            fakes.append(np.tile(per_view * possible, (len(block.views), 1)))
        return fakes

    def honest(self, count: float, goal: str) -> list[Floats]:
        """Honest reports on records of one random target, or on empty records to lower a frequency."""
        level = 1 if goal == "lower-mean" else self.levels
        fakes = []
        for block in self.blocks:
            size = len(self.plan.views.keys[block.views[0][0]])
            law = np.zeros(block.channel.states)
            if goal != "lower-frequency":
                for _, place in block.places:
                    law[level * (self.levels + 1) ** (size - 1 - place)] += 1 / self.targets
            law[0] += 1 - law.sum()
            fakes.append(count * block.shares[:, None] * block.channel.mix(law[None, :])[0])
        return fakes

    def worst(self, count: float, score: Score, views: str) -> list[Floats]:
        """The best fakes that the search finds, by block ``(rows, cells)``."""
        return self._drawn(count, score) if views == "drawn" else self._chosen(count, score)

    def _chosen(self, count: float, score: Score) -> list[Floats]:
        fakes = self.none()
        single = [np.flatnonzero(block.times == 1) for block in self.blocks]
        best, where, scores = self._best_addition(fakes, count, score, single)
        tried = [rows[np.argsort(-s)[:MOST_TRIED]] for rows, s in zip(single, scores, strict=True)]
        fakes[where[0]][where[1:]] = count
        for _ in range(MOST_MOVES):
            reached = best
            for step in STEPS:
                fewer = [(1 - step) * sent for sent in fakes]
                gained, place, _ = self._best_addition(fewer, step * count, score, tried)
                if gained > reached + _GAIN:
                    reached, remaining, moving, where = gained, fewer, step, place
            if not reached > best + _GAIN:
                break
            fakes, best = remaining, reached
            fakes[where[0]][where[1:]] += moving * count
        return fakes

    def _best_addition(
        self, fakes: list[Floats], count: float, score: Score, tried: list[Integers]
    ) -> tuple[float, tuple[int, int, int], list[Floats]]:
        """The best place to add ``count`` fakes, among the tried rows of each block.

        Returns the score, then block, row and cell, then the best score of each row.
        """
        matrix, vector = self._summed(fakes)
        best, where, row_scores = -np.inf, (0, 0, 0), []
        for number, (block, sent) in enumerate(zip(self.blocks, fakes, strict=True)):
            possible = block.outputs
            best_scores = []
            size = max(1, MOST_ROWS // len(possible))
            for first in range(0, len(tried[number]), size):
                rows = tried[number][first : first + size]
                scores = self._additions(block, sent, rows, possible, count, score, matrix, vector)
                best_scores.append(scores.max(axis=1))
                if scores.max() > best:
                    row, cell = np.unravel_index(int(np.argmax(scores)), scores.shape)
                    best, where = float(scores.max()), (number, int(rows[row]), int(possible[cell]))
            row_scores.append(np.concatenate(best_scores) if best_scores else np.zeros(0))
        return best, where, row_scores

    def _additions(
        self,
        block: _Block,
        sent: Floats,
        chosen: Integers,
        possible: Integers,
        count: float,
        score: Score,
        matrix: Floats,
        vector: Floats,
    ) -> Floats:
        """The scores ``(rows, cells)`` of ``count`` more fakes in each possible cell of the rows."""
        current = (block.counts + sent)[chosen]
        rows = np.repeat(current, len(possible), axis=0)
        rows[np.arange(len(rows)), np.tile(possible, len(chosen))] += count
        before, after = self._known(block, current), self._known(block, rows)
        values = np.tile(self._solved(matrix, vector), (len(rows), 1, 1))
        for target, gained in after.items():
            lost = (np.repeat(part, len(possible), axis=0) for part in before[target])
            values[:, target] = self._changed(matrix[target], vector[target], gained, lost)
        return score(values).reshape(len(chosen), len(possible))

    def _changed(
        self, matrix: Floats, vector: Floats, gained: Iterable[Floats], lost: Iterable[Floats]
    ) -> Floats:
        """Frequency and mass of one target after information is gained and lost."""
        sums = zip((matrix, vector), gained, lost, strict=True)
        return self._solved(*(whole + more - less for whole, more, less in sums))

    def _drawn(self, count: float, score: Score) -> list[Floats]:
        """Fakes whose views are drawn. One kind of views after another changes what its fakes send."""
        fakes = self.random(1.0)
        for block, sent in zip(self.blocks, fakes, strict=True):
            sent *= count * block.shares[:, None] / sent.sum(axis=1, keepdims=True)
        kinds = [list(_equal_rows(block)) for block in self.blocks]
        best = float(score(self.values(fakes)))
        for _ in range(MOST_MOVES):
            start = best
            for number, groups in enumerate(kinds):
                for rows in groups:
                    best = self._move(fakes, number, rows, count, best, score)
            if not best > start + _GAIN:
                break
        return fakes

    def _move(
        self, fakes: list[Floats], number: int, rows: Integers, count: float, best: float, score: Score
    ) -> float:
        """Change all or a part of the fakes in rows of a block to the best output; returns the score."""
        block, sent = self.blocks[number], fakes[number]
        moves = [(step, cell) for step in (1.0, *STEPS) for cell in block.outputs.tolist()]
        current = sent[rows]
        sent[rows] = 0.0
        matrix, vector = self._summed(fakes)
        sent[rows] = current
        added = np.tile(current, (len(moves), 1, 1))
        for row, (step, cell) in zip(added, moves, strict=True):
            row *= 1 - step
            row[:, cell] += step * count * block.shares[rows]
        shape, times = added.shape[:2], block.times[rows]
        known = self._known(block, (block.counts[rows] + added).reshape(-1, added.shape[-1]))
        values = np.tile(self._solved(matrix, vector), (len(moves), 1, 1))
        for target, both in known.items():
            more = (np.einsum("r,mr...->m...", times, x.reshape(*shape, *x.shape[1:])) for x in both)
            lost = (np.tensordot(times, x[rows], 1) for x in self._honest[number][target])
            values[:, target] = self._changed(matrix[target], vector[target], more, lost)
        scores = score(values)
        at = int(np.argmax(scores))
        if not scores[at] > best + _GAIN:
            return best
        step, cell = moves[at]
        sent[rows] = (1 - step) * current
        sent[rows, cell] += step * count * block.shares[rows]
        return float(scores[at])


def _blocks(plan: Plan, places: list[int], tally: Tally) -> Iterator[_Block]:
    for (channel, _, held), views in views_by_kind(plan, places).items():
        counts = np.array([tally.view_counts(view)[1] for view in views], np.float64)
        shares = plan.views.shares[views]
        rows = _rows(counts, shares)
        first = [row[0] for row in rows]
        yield _Block(
            plan.channels[channel],
            [[views[at] for at in row] for row in rows],
            list(held),
            counts[first],
            shares[first],
            np.array([len(row) for row in rows], float),
            _outputs(plan.channels[channel], list(held), counts, plan.schema.levels),
        )


def _outputs(channel: Channel, places: list[tuple[int, int]], counts: Floats, levels: int) -> Integers:
    """The outputs to try: all outputs of a small channel, two of each class of a large one.

    Outputs are in one class if they have the same probability under each digit of the targets, other
    keys uniform. Outputs of a class differ only in how many honest people sent them, so the rarest and
    the most frequent are tried.
    """
    possible = np.flatnonzero(channel.possible)
    if len(possible) <= MOST_OUTPUTS:
        return possible
    digits, states = levels + 1, np.arange(channel.states)
    size = round(np.log(channel.states) / np.log(digits))
    laws = [
        states // digits ** (size - 1 - place) % digits == digit
        for _, place in places
        for digit in range(digits)
    ]
    chances = channel.mix(np.array(laws, float) * digits / channel.states)[:, possible]
    said = np.rint(chances / chances.max(initial=1e-300) * 1e9)
    kinds = np.unique(said, axis=1, return_inverse=True)[1].ravel()
    order = np.lexsort((counts.sum(axis=0)[possible], kinds))
    first = np.flatnonzero(np.diff(kinds[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    return np.unique(possible[order[np.concatenate([first, last])]])


def _rows(counts: Floats, shares: Floats) -> list[list[int]]:
    """Rows of views: a view alone, except that many identical views form a few rows and a rest."""
    by_counts: dict[bytes, list[int]] = {}
    for at, kind in enumerate(np.column_stack([_rounded(counts), _rounded(shares)])):
        by_counts.setdefault(kind.tobytes(), []).append(at)
    rows = []
    for identical in by_counts.values():
        separate = APART if len(identical) > 2 * APART else len(identical)
        rows += [[at] for at in identical[:separate]]
        rows += [identical[separate:]] if identical[separate:] else []
    return rows


def _rounded(counts: Floats) -> Floats:
    """Counts to seven digits of the largest, so that weights one unit apart count as equal."""
    return np.asarray(np.rint(counts * (1e7 / max(float(counts.max(initial=0.0)), 1e-300))))


def _equal_rows(block: _Block) -> Iterator[Integers]:
    """Groups of rows whose fakes send the same: rows with equal counts, or all rows if they are many."""
    if block.counts.size * len(block.views) > MOST_ROWS:
        yield np.arange(len(block.views))
        return
    kinds = np.column_stack([_rounded(block.counts), _rounded(block.shares)])
    of = np.unique(kinds, axis=0, return_inverse=True)[1].ravel()
    for kind in range(int(of.max()) + 1):
        yield np.flatnonzero(of == kind)
