"""Views of one channel: their unbiased laws, and covariances that are computed where they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...channel import Channel
from ...foundation.arrays import Floats, Integers
from ...foundation.errors import PlanError

_SMALL = 1 << 20
"""Largest number of entries of the outer products of a decoder that are computed at once."""


@dataclass(frozen=True)
class ViewGroup:
    """Views of one size and channel, their unbiased laws, and the covariance of each law.

    A covariance is that of the decoded reports of people with the ``likely`` law of the view.
    """

    views: Integers
    reports: Integers
    laws: Floats
    likely: Floats
    """The laws at which covariances are taken, ``(views, states)``."""
    channel: int
    """The number of their channel in the plan."""
    expected: Floats
    """The law of the channel, ``(states, cells)``."""
    decoder: Floats
    """Unbiased weights, ``(cells, states)``."""
    updated: Floats | None = None
    """The covariances, if other views have changed them."""

    @cached_property
    def covariance(self) -> Floats:
        """The covariance of every law, ``(views, states, states)``: large, so not for single keys."""
        return self.spread(np.arange(len(self.views)))

    def spread(self, rows: Integers) -> Floats:
        """The covariances of the laws in some rows."""
        if self.updated is not None:
            return self.updated[rows]
        likely = self.likely[rows]
        square = _weighted_squares(likely @ self.expected, self.decoder)
        return np.asarray((square - _squares(likely)) / self._people(rows)[:, None, None])

    def spread_of(self, pick: Floats) -> Floats:
        """The covariances of the sums over states ``laws @ pick``, ``(views, sums, sums)``."""
        if self.updated is not None:
            return np.asarray(pick.T @ self.updated @ pick)
        cells = self.decoder @ pick
        square = self.likely @ (self.expected @ _squares(cells).reshape(len(cells), -1))
        square = square.reshape(-1, pick.shape[1], pick.shape[1])
        return np.asarray((square - _squares(self.likely @ pick)) / self._people()[:, None, None])

    @cached_property
    def total_variance(self) -> Floats:
        """The sum of the variances of all states, for each view."""
        if self.updated is not None:
            return np.trace(self.updated, axis1=1, axis2=2)
        square = self.likely @ (self.expected @ (self.decoder**2).sum(axis=1))
        return np.asarray((square - (self.likely**2).sum(axis=1)) / self._people())

    def _people(self, rows: Integers | slice = slice(None)) -> Floats:
        return np.maximum(self.reports[rows], 1).astype(np.float64)


def unbiased_laws(channel: Channel, counts: Floats, reports: Floats | Integers) -> tuple[Floats, Floats]:
    """Unbiased laws of the states, one row per row of counts, and the decoder ``(cells, states)``.

    A view without reports has the uniform law.
    """
    if not channel.one_cell:
        raise PlanError("small views keep one cell for every output")
    decoder = channel.decoder(np.eye(channel.states))
    if np.isnan(decoder).any():
        raise PlanError("this channel does not distinguish all states of its view")
    n = np.maximum(reports, 1)[:, None].astype(np.float64)
    shares = np.where(reports[:, None] > 0, counts / n, channel.expected().mean(axis=0))
    return shares @ decoder, decoder


def _squares(rows: Floats) -> Floats:
    """The outer product of each row with itself."""
    return np.asarray(rows[:, :, None] * rows[:, None, :])


def _weighted_squares(weights: Floats, rows: Floats) -> Floats:
    """Sums of the outer products of ``rows`` with themselves, one for each row of weights."""
    states = rows.shape[1]
    if rows.size * states <= _SMALL:  # one product for all views is faster if it fits
        flat = _squares(rows).reshape(len(rows), -1)
        return np.asarray((weights @ flat).reshape(len(weights), states, states))
    return np.einsum("vc,cs,ct->vst", weights, rows, rows, optimize=True)
