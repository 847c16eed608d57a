"""What a tally of pair collision says of one key or of two keys together, and under a hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...foundation.arrays import Floats, Integers
from ...plan.encoding import pair_item
from .expected_cells import OwnCells, independent_cells, kept_together, own_cells
from .pair_items import Scores, scores_of

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...plan.tally import Tally


class PairScore(NamedTuple):
    """A statistic about one or two keys, and what is expected of it under a hypothesis."""

    value: float
    mean: float
    """Expected value. The nearest one to ``value`` if a cap leaves open which it is."""
    chances: Floats
    """Probability of each kind of cell of the keys' own items."""
    scores: Floats
    """What a report adds to the statistic by naming a cell of that kind, times the reports."""
    other_variance: float
    """Variance of what is in the statistic besides these scores."""


class _Expected(NamedTuple):
    """What is expected of the items of one or two keys if all keys are independent."""

    values: Floats
    spread: Floats
    weights: Floats
    cells: OwnCells


class PairEvidence:
    """What a tally says of one key, or of two keys together, as estimates with their covariance."""

    def __init__(self, plan: Plan, tally: Tally) -> None:
        self.plan = plan
        self._scores = scores_of(plan, tally)
        self._null: Scores | None = None
        self._kept_pairs: float | None = None
        self._kept: dict[tuple[int, ...], _Expected] = {}
        self.reports = self._scores.reports

    def moments(self, keys: tuple[int, ...], weights: Floats) -> tuple[Floats, Floats] | None:
        """Estimates of E[weights(joint state of the keys)], and their covariance.

        ``weights`` has an axis of 3 for each key (0 not held, 1 low, 2 high), and a last one for the
        functionals. None if the reports do not speak of so many keys at a time.
        """
        width = len(keys)
        if not 1 <= width <= self.plan.encoding.item_width or len(set(keys)) != width:
            return None
        weights = np.asarray(weights, np.float64)
        if not self.reports:
            count = weights.shape[-1]
            return np.full(count, np.nan), np.full((count, count), np.nan)
        items, worth = self._expanded(keys, weights)
        values, spread = self._scores.of(items)
        constant = weights[(0,) * width]
        return constant + values @ worth, worth.T @ spread @ worth

    def score(self, keys: tuple[int, ...], score: Floats, law: Floats, laws: Floats) -> PairScore | None:
        """The mean ``score`` of the joint states of keys, and its law if these states follow ``law``.

        All keys are independent with the ``laws`` ``(keys, 3)`` but for that.
        """
        estimates = self.moments(keys, score[..., None])
        if estimates is None or not self.reports:
            return None
        items, columns = self._expanded(keys, score[..., None])
        expected, worth, gain = self._expected(items, laws), columns[:, 0], self._scores.channel.gain
        single = laws[keys[0]]
        independent = single if len(keys) == 1 else np.multiply.outer(single, laws[keys[1]])
        more = self._shares(keys, law) - self._shares(keys, independent)
        scores = expected.cells.marks @ (worth @ expected.weights) / gain
        own = expected.cells.chances @ scores**2 - (expected.cells.chances @ scores) ** 2
        # The larger of two: with few reports the laws are uncertain, and so is the expected variance.
        variance = max(float(worth @ expected.spread @ worth), float(estimates[1][0, 0]))
        value, bias = float(estimates[0][0]), float(self._cap_bias(keys, law, laws) @ worth)
        mean = float(score[(0,) * len(keys)] + (expected.values + more) @ worth)
        return PairScore(
            value,
            min(max(value, mean + min(bias, 0.0)), mean + max(bias, 0.0)),
            expected.cells.chances_with(more, gain),
            scores,
            max(variance - float(own) / self.reports, 0.0),
        )

    def _cap_bias(self, keys: tuple[int, ...], law: Floats, laws: Floats) -> Floats:
        """What a cap may take from the frequencies of the items of ``_expanded``: that of pairs.

        People with more keys than the cap report a part of them, so keys seem to avoid each other.
        """
        if len(keys) == 1:
            return np.zeros(2)
        if self._kept_pairs is None:
            self._kept_pairs = kept_together(laws[:, 1:].sum(axis=1), self.plan.cap)
        shares = self._shares(keys, law)
        shares[:4] = 0.0
        return (self._kept_pairs - 1.0) * shares

    def _expected(self, items: Integers, laws: Floats) -> _Expected:
        """What is expected of items if keys with these laws are independent; computed once."""
        name = tuple(items.tolist())
        if name not in self._kept:
            if self._null is None:
                self._null = self._scores.expected(independent_cells(self._scores.channel, laws))
            null = self._null
            values, spread = null.of(items)
            cells = own_cells(null.channel, null.shares, items)
            self._kept[name] = _Expected(values, spread, null.own_weights(items), cells)
        return self._kept[name]

    def _shares(self, keys: tuple[int, ...], law: Floats) -> Floats:
        """The frequencies of the items of ``_expanded`` at a joint law of the keys."""
        if len(keys) == 1:
            return law[1:]
        if keys[0] > keys[1]:
            law = law.T
        return np.concatenate([law.sum(axis=1)[1:], law.sum(axis=0)[1:], law[1:, 1:].reshape(-1)])

    def _expanded(self, keys: tuple[int, ...], weights: Floats) -> tuple[Integers, Floats]:
        """The items that a functional is made of, and its weight on each; not held = 1 - low - high."""
        if len(keys) == 1:
            return 2 * keys[0] + np.arange(2), weights[1:] - weights[0]
        if keys[0] > keys[1]:
            keys, weights = (keys[1], keys[0]), weights.swapaxes(0, 1)
        low_key, high_key = keys
        none, of_one, of_two = weights[0, 0], weights[1:, 0], weights[0, 1:]
        of_both = weights[1:, 1:] - of_one[:, None] - of_two[None, :] + none
        first = pair_item(len(self.plan.schema.keys), low_key, high_key)
        items = np.concatenate(
            [2 * low_key + np.arange(2), 2 * high_key + np.arange(2), first + np.arange(4)]
        )
        return items, np.concatenate([of_one - none, of_two - none, of_both.reshape(4, -1)])
