"""What the views of a key say about it, added up over views.

A view's weight is its number of reports times a matrix that depends on its channel alone. A weight that
was estimated from the view's own counts would favour views that look precise by chance, for example
because few of their reports say "held", and averages over many views of few reports would be biased.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...channel import Channel
from ...foundation.arrays import Flags, Floats, Integers
from ...people.views import digits
from ..caution import with_one_more
from ..projection import onto_simplex

FAR = 3.0
"""Square of the distance of an odd view from independent keys, at least, relative to that of noise."""


class KeySums(NamedTuple):
    """Sums over views about the shares of the held levels of a key, one row for each key or view."""

    weight: Floats
    """Sum of weights ``(rows, levels, levels)``."""
    weighted: Floats
    """Sum of weight times shares ``(rows, levels)``."""
    spread: Floats
    """Covariance of ``weighted``."""

    @classmethod
    def empty(cls, rows: int, levels: int) -> KeySums:
        """Sums over no views."""
        return cls(
            np.zeros((rows, levels, levels)), np.zeros((rows, levels)), np.zeros((rows, levels, levels))
        )

    @classmethod
    def of_views(cls, weight: Floats, shares: Floats, covariance: Floats) -> KeySums:
        """One row for each view."""
        return cls(weight, np.einsum("vij,vj->vi", weight, shares), weight @ covariance @ weight)

    def at(self, rows: Integers | list[int]) -> KeySums:
        """Some of the rows."""
        return KeySums(*(part[rows] for part in self))

    def less(self, other: KeySums) -> KeySums:
        """The sums without those of other views, row by row; nothing if only rounding is left."""
        left = KeySums(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))
        before, after = (np.trace(sums.weight, axis1=1, axis2=2) for sums in (self, left))
        return left.kept(after > 1e-9 * before)

    def kept(self, rows: Flags) -> KeySums:
        """The sums of some rows, and nothing in the others."""
        return KeySums(
            *(np.where(rows.reshape((-1,) + (1,) * (part.ndim - 1)), part, 0.0) for part in self)
        )

    def information(self) -> tuple[Floats, Floats]:
        """Inverse covariance of the weighted average, and its product with the average."""
        kept = self.weight @ inverse(self.spread)
        return kept @ self.weight, np.einsum("vij,vj->vi", kept, self.weighted)

    def average(self) -> tuple[Floats, Floats]:
        """The weighted average of the shares and its covariance."""
        inverted = np.linalg.pinv(self.weight)
        return np.einsum("vij,vj->vi", inverted, self.weighted), inverted @ self.spread @ inverted

    def laws(self) -> Floats:
        """Proper laws ``(rows, levels + 1)`` of the states of each key, near the average."""
        shares = self.average()[0]
        return onto_simplex(np.concatenate([1.0 - shares.sum(axis=1, keepdims=True), shares], axis=1))


def levels_at(levels: int, size: int, place: int) -> Floats:
    """Indicators of the held levels of the key at a place, by joint state of a view."""
    return (digits(levels, size)[:, place][:, None] == np.arange(1, levels + 1)).astype(np.float64)


@lru_cache(maxsize=64)
def weight_of_report(channel: Channel, size: int, place: int, levels: int) -> Floats:
    """The weight of one report about the key at a place.

    It is the inverse covariance of the shares of held levels from one report, if all states are equally
    frequent.
    """
    cells = channel.decoder(np.eye(channel.states)) @ levels_at(levels, size, place)
    seen = channel.expected().mean(axis=0)
    middle = seen @ cells
    return np.asarray(inverse(cells.T @ (seen[:, None] * cells) - np.outer(middle, middle)))


def independent_laws(laws: Floats, keys: Integers) -> Floats:
    """Laws of views ``(views, states)`` if their keys were independent, from the laws of the keys."""
    joint = laws[keys[:, 0]]
    for place in range(1, keys.shape[1]):
        joint = (joint[:, :, None] * laws[keys[:, place]][:, None, :]).reshape(len(keys), -1)
    return np.asarray(joint)


def steady_laws(laws: Floats, variance: Floats, reports: Integers, independent: Floats) -> Floats:
    """Laws at which covariances of views are taken, so that they depend little on a view's own noise.

    Each lies between the view's own law and that of independent keys. The share of its own law is that
    of the variance of true laws around independent ones in the variance of estimated laws. The former
    is the same for all views but odd ones, which are much farther away than noise explains. One more
    report is spread evenly over the states. ``variance`` is the variance of the law of each view, summed
    over states.
    """
    counted = reports > 0
    if not counted.any():
        return np.full_like(laws, 1.0 / laws.shape[1])
    noise = float((reports * variance)[counted].mean()) / np.maximum(reports, 1)
    apart = ((laws - independent) ** 2).sum(axis=1)
    common = float(np.average((apart - noise)[counted], weights=reports[counted]))
    odd = (apart - FAR * noise > max(common, 0.0))[:, None]
    across = np.maximum(max(common, 0.0), apart - FAR * noise)
    share = (across / (across + noise + 1e-300))[:, None]
    own = np.where(odd, without_noise(laws, noise), onto_simplex(laws))
    steady = independent + share * (own - independent)
    n = reports[:, None].astype(np.float64)
    return with_one_more(n * steady, 1.0 / laws.shape[1], n)


def without_noise(laws: Floats, noise: Floats) -> Floats:
    """Proper laws without the states whose shares are below a standard error.

    The nearest proper laws would have people in states that no one is in. ``noise`` is the variance of
    each law, summed over states.
    """
    stderr = np.sqrt(noise / laws.shape[1])
    clear = laws >= np.minimum(stderr, laws.max(axis=1))[:, None]
    shares = np.where(clear, laws, 0.0)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def inverse(matrices: Floats) -> Floats:
    """Inverses of small covariance matrices, with a small ridge against rounding; zero stays zero."""
    size = matrices.shape[-1]
    scale = np.trace(matrices, axis1=-2, axis2=-1)[..., None, None] / size
    empty = scale <= 0
    filled = np.where(empty, np.eye(size), matrices + 1e-12 * scale * np.eye(size))
    return np.where(empty, 0.0, np.linalg.inv(filled))
