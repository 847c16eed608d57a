"""Evidence from means of products of {x, |x|}, one product for each view (coefficients)."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from ...channel import Channel
from ...foundation.arrays import Floats
from ...foundation.errors import PlanError
from ...people.views import digits
from .joint import JointMoments, nearest_of

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...plan.tally import Tally


Product = tuple[tuple[int, int], ...]
"""A product of {x, |x|}: keys with their powers, 1 for x and 2 for |x|."""


class SumEvidence:
    """Means of products of {x, |x|} over small sets of keys, one product for each view."""

    def __init__(self, plan: Plan, tally: Tally) -> None:
        self.plan = plan
        self.means: dict[Product, tuple[float, float, int]] = {}
        self.ends: dict[Product, tuple[float, float]] = {}
        """What a report of each output adds to the mean of a product."""
        parts = [self._of_channel(tally, number) for number in range(len(plan.channels))]
        assert plan.channel_of is not None
        turns = [iter(part) for part in parts]
        for view, number in zip(plan.views.keys, plan.channel_of, strict=True):
            powers, ends, mean = next(turns[number])
            name = tuple(sorted(zip(view, powers, strict=True)))
            self.means[name], self.ends[name] = mean, ends

    def _of_channel(
        self, tally: Tally, number: int
    ) -> list[tuple[tuple[int, ...], tuple[float, float], tuple[float, float, int]]]:
        """For each view of a channel its powers, what a report adds, and mean, variance and reports."""
        views, channel = self.plan.views_of(number), self.plan.channels[number]
        if not views:
            return []
        powers, values = _monomial(channel, len(self.plan.views.keys[views[0]]))
        decoder = channel.decoder(values[:, None])[:, 0]
        ends, own = (float(decoder[0]), float(decoder[1])), self.plan.layout.own[np.array(views)]
        counts, reports = tally.counts[own[:, None] + [1, 2]], tally.counts[own]
        shares, most = (counts + 1.0) / (reports + 2.0)[:, None], np.maximum(reports, 1)
        means = shares @ decoder
        spreads = (shares @ decoder**2 - means**2) / most
        estimates = np.where(reports > 0, counts @ decoder / most, 0.0)
        estimated = zip(estimates.tolist(), spreads.tolist(), reports.tolist(), strict=True)
        return [(powers, ends, estimate) for estimate in estimated]

    def moments(self, keys: tuple[int, ...], weights: Floats) -> JointMoments | None:
        """Moments of the weights, expanded over products of {1, x, |x|}.

        Different products are reported by different people, so their errors are independent.
        """
        expansion = self.expansion(keys, weights)
        if expansion is None:
            return None
        constant, products = expansion
        values, spread = constant, np.zeros((weights.shape[-1],) * 2)
        for name, coefficients in products.items():
            value, variance, _ = self.means[name]
            values = values + coefficients * value
            spread = spread + variance * np.outer(coefficients, coefficients)
        fewest = min((self.means[name][2] for name in products), default=0)
        return JointMoments(values, spread, fewest)

    def expansion(
        self, keys: tuple[int, ...], weights: Floats
    ) -> tuple[Floats, dict[Product, Floats]] | None:
        """The weights as a constant and coefficients of products; None if one has no reports."""
        # Row d of the basis change: the weights of absent, low, high as c0 + c1 x + c2 |x|.
        change = np.array([[1.0, 0, 0], [0, -0.5, 0.5], [-1, 0.5, 0.5]])
        parts = weights
        for axis in range(len(keys)):
            parts = np.moveaxis(np.tensordot(change, np.moveaxis(parts, axis, 0), axes=(1, 0)), 0, axis)
        constant, products = np.zeros(weights.shape[-1]), dict[Product, Floats]()
        for powers in product(range(3), repeat=len(keys)):
            coefficients = parts[powers]
            if not np.abs(coefficients).max() > 1e-15:
                continue
            name = tuple(sorted((k, p) for k, p in zip(keys, powers, strict=True) if p))
            if not name:
                constant = constant + coefficients
            elif name not in self.means or not self.means[name][2]:
                return None
            else:
                products[name] = coefficients
        return constant, products

    def law(self, keys: tuple[int, ...]) -> Floats | None:
        return nearest_of(self, keys, self.plan.schema.levels)


def _monomial(channel: Channel, keys: int) -> tuple[tuple[int, ...], Floats]:
    """The product of {x (1), |x| (2)} that a two-output channel reports, and its value by state."""
    side = np.sign(np.round(channel.expected()[:, 1] - channel.expected()[:, 0], 9))
    rows = digits(2, keys)
    sign, held = np.array([0.0, -1.0, 1.0])[rows], (rows > 0).astype(np.float64)
    for powers in product((1, 2), repeat=keys):
        values = np.prod(np.where(np.array(powers) == 1, sign, held), axis=1)
        effect = 2 * values - 1 if set(powers) == {2} else values
        if np.array_equal(effect, side):
            return powers, values
    raise PlanError("a channel of this plan reports no product of signs and presences")
