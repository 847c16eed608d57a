"""Laws of small views, sharpened by what the other views know of each single key.

Every view's law is estimated without bias; people of different views are different people, so their
noise is independent and what they know can be folded in; views that hold all keys of a query are
pooled by precision.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from ..channel import Channel
from ..errors import PlanError
from .joint import Moments, digits, lifted
from .project import nearest_law, onto_simplex

if TYPE_CHECKING:
    from ..plan import Plan
    from ..tally import Tally


_SMALL = 1 << 20


class Group(NamedTuple):
    """Views of one size and channel: their laws without bias, and the laws' covariance."""

    views: Integers
    reports: Integers
    laws: Floats
    covariance: Floats


class ViewEvidence:
    """Laws of small views, sharpened by what other views know of each key."""

    def __init__(self, plan: Plan, tally: Tally, sharpen: bool = True) -> None:
        self.plan, self.levels = plan, plan.schema.levels
        self.raw = _groups(plan, tally)
        self._sharpen = sharpen

    @cached_property
    def groups(self) -> list[Group]:
        """The views' laws as they are asked for; single keys need none of them."""
        return self._sharpened() if self._sharpen else self.raw

    # -- building --------------------------------------------------------------------------------

    def _marginals(self, group: Group, place: int) -> tuple[Floats, Floats]:
        """The held levels' shares of the key at a place of each view, and their covariance."""
        size = len(self.plan.views.keys[int(group.views[0])])
        at = digits(self.levels, size)[:, place]
        pick = (at[:, None] == np.arange(1, self.levels + 1)).astype(np.float64)
        return group.laws @ pick, pick.T @ group.covariance @ pick

    @cached_property
    def singles(self) -> tuple[Floats, Floats, Integers]:
        """Each key's pooled information matrix, information vector, and reports."""
        keys, levels = len(self.plan.schema.keys), self.levels
        information, vector = np.zeros((keys, levels, levels)), np.zeros((keys, levels))
        reports = np.zeros(keys, np.int64)
        for group in self.raw:
            for place, held in enumerate(np.array([self.plan.views.keys[v] for v in group.views]).T):
                shares, spread = self._marginals(group, place)
                precision = _inverse(spread) * (group.reports > 0)[:, None, None]
                np.add.at(information, held, precision)
                np.add.at(vector, held, np.einsum("vij,vj->vi", precision, shares))
                np.add.at(reports, held, group.reports)
        return information, vector, reports

    def _sharpened(self) -> list[Group]:
        """Fold what the other views know of a view's keys into its law (generalised least squares)."""
        information, vector, _ = self.singles
        made = []
        for group in self.raw:
            size = len(self.plan.views.keys[int(group.views[0])])
            if size == 1:
                made.append(group)
                continue
            held = np.array([self.plan.views.keys[v] for v in group.views])
            laws, covariance = group.laws, group.covariance
            rows = digits(self.levels, size)
            for place in range(size):
                shares, spread = self._marginals(group, place)
                own = _inverse(spread) * (group.reports > 0)[:, None, None]
                others = information[held[:, place]] - own
                known = vector[held[:, place]] - np.einsum("vij,vj->vi", own, shares)
                pick = (rows[:, place][:, None] == np.arange(1, self.levels + 1)).astype(float)
                laws, covariance = _updated(laws, covariance, pick, others, known)
            made.append(Group(group.views, group.reports, laws, covariance))
        return made

    @cached_property
    def _places(self) -> dict[int, tuple[int, int]]:
        """Each view's group and row."""
        return {
            int(view): (number, row)
            for number, group in enumerate(self.raw)
            for row, view in enumerate(group.views)
        }

    @cached_property
    def _holding(self) -> dict[int, set[int]]:
        """The views that hold each key."""
        holding: dict[int, set[int]] = defaultdict(set)
        for number, view in enumerate(self.plan.views.keys):
            for key in view:
                holding[key].add(number)
        return holding

    def covering(self, keys: tuple[int, ...]) -> list[int]:
        """The views that hold all of the keys."""
        sets = [self._holding.get(key, set()) for key in keys]
        return sorted(set.intersection(*sets)) if sets else []

    # -- asking ----------------------------------------------------------------------------------

    def moments(self, keys: tuple[int, ...], weights: Floats) -> Moments | None:
        if len(keys) == 1:
            return self._single(keys[0], weights) if self.singles[2][keys[0]] else None
        views = [v for v in self.covering(keys) if self._row(self.raw, v)[0] > 0]
        if not views:
            return None
        if len(views) == 1:
            return self._of_view(self.groups, views[0], keys, weights)
        parts = [self._of_view(self.raw, view, keys, weights) for view in views]
        return _pooled(parts)

    def _row(self, groups: list[Group], view: int) -> tuple[int, Floats, Floats]:
        number, row = self._places[view]
        group = groups[number]
        return int(group.reports[row]), group.laws[row], group.covariance[row]

    def _of_view(
        self, groups: list[Group], view: int, keys: tuple[int, ...], weights: Floats
    ) -> Moments:
        reports, law, covariance = self._row(groups, view)
        flat = lifted(weights, keys, self.plan.views.keys[view], self.levels)
        return Moments(law @ flat, flat.T @ covariance @ flat, reports)

    def _single(self, key: int, weights: Floats) -> Moments:
        information, vector, reports = self.singles
        spread = np.linalg.pinv(information[key])
        shares = spread @ vector[key]
        slope = weights[1:] - weights[0]  # the share of "not held" is what the levels leave
        return Moments(weights[0] + shares @ slope, slope.T @ spread @ slope, int(reports[key]))

    @cached_property
    def _nearest(self) -> list[Floats]:
        return [nearest_law(group.laws, group.covariance) for group in self.groups]

    def law(self, keys: tuple[int, ...]) -> Floats | None:
        shape = (self.levels + 1,) * len(keys)
        views = [v for v in self.covering(keys) if self._row(self.raw, v)[0] > 0]
        if not views:
            return None
        if len(keys) == 1:
            found = self._single(keys[0], np.eye(self.levels + 1))
            return onto_simplex(found.values[None, :])[0]
        total, weight = np.zeros(shape), 0
        for view in views:
            number, row = self._places[view]
            held = self.plan.views.keys[view]
            whole = self._nearest[number][row].reshape((self.levels + 1,) * len(held))
            others = tuple(i for i, key in enumerate(held) if key not in keys)
            kept = [key for key in held if key in keys]
            part = whole.sum(axis=others).transpose([kept.index(key) for key in keys])
            reports = int(self.raw[number].reports[row])
            total, weight = total + reports * part, weight + reports
        return total / weight


def _groups(plan: Plan, tally: Tally) -> list[Group]:
    """Least-squares laws of all views, channel by channel."""
    made = []
    for number, channel in enumerate(plan.channels):
        views = plan.views_of(number)
        if not views:
            continue
        own = plan.layout.own[np.array(views)]
        counts = tally.counts[own[:, None] + 1 + np.arange(channel.cells)].astype(np.float64)
        reports = tally.counts[own].astype(np.int64)
        laws, covariance = view_laws(channel, counts, reports)
        made.append(Group(np.array(views), reports, laws, covariance))
    return made


def view_laws(channel: Channel, counts: Floats, reports: Integers) -> tuple[Floats, Floats]:
    """Unbiased laws of the states, one row per row of counts, and each law's covariance.

    The covariance is taken at the nearest proper law with one more report from each state, as for
    single keys; a view without reports has the uniform law and a covariance to match.
    """
    if not channel.one_cell:
        raise PlanError("small views keep one cell for every output")
    law = channel.expected()
    decoder = channel.decoder(np.eye(channel.states))
    if np.isnan(decoder).any():
        raise PlanError("this channel does not tell all states of its view apart")
    n = np.maximum(reports, 1)[:, None].astype(np.float64)
    shares = np.where(reports[:, None] > 0, counts / n, law.mean(axis=0))
    laws = shares @ decoder
    likely = (n * onto_simplex(laws) + 1.0) / (n + channel.states)
    seen = likely @ law
    if decoder.size * channel.states <= _SMALL:  # one product for all views is faster, and has room
        outer = (decoder[:, :, None] * decoder[:, None, :]).reshape(len(decoder), -1)
        square = (seen @ outer).reshape(len(seen), channel.states, channel.states)
    else:
        square = np.einsum("vc,cs,ct->vst", seen, decoder, decoder, optimize=True)
    return laws, (square - likely[:, :, None] * likely[:, None, :]) / n[:, :, None]


def _inverse(matrices: Floats) -> Floats:
    """Inverses of small covariance matrices, guarded against rounding."""
    size = matrices.shape[-1]
    scale = np.trace(matrices, axis1=-2, axis2=-1)[..., None, None] / size
    return np.asarray(np.linalg.inv(matrices + 1e-12 * scale * np.eye(size)))


def _updated(
    laws: Floats, covariance: Floats, pick: Floats, information: Floats, vector: Floats
) -> tuple[Floats, Floats]:
    """Laws after independent knowledge of ``pick``: information matrix and vector, one per row."""
    cross = covariance @ pick
    spread = pick.T @ cross
    # K = C M (M C M' + T)^-1 with T^-1 = information: written so that T need not be inverted.
    size = pick.shape[1]
    inner = np.linalg.solve(np.eye(size) + information @ spread, information)
    gap = np.einsum(
        "vij,vj->vi", np.linalg.solve(np.eye(size) + information @ spread, np.eye(size)), vector
    )
    shares = laws @ pick
    step = gap - np.einsum("vij,vj->vi", inner, shares)
    laws = laws + np.einsum("vsk,vk->vs", cross, step)
    covariance = covariance - cross @ inner @ cross.transpose(0, 2, 1)
    return laws, (covariance + covariance.transpose(0, 2, 1)) / 2


def _pooled(parts: list[Moments]) -> Moments:
    """Independent estimates of the same functionals, weighted by their precision.

    Where some combination of the functionals is certain (states add up to one), all parts agree on it:
    only what they differ by is weighted.
    """
    precision = [np.linalg.pinv(part.covariance, rcond=1e-10, hermitian=True) for part in parts]
    spread = np.linalg.pinv(np.sum(precision, axis=0), rcond=1e-10, hermitian=True)
    first = parts[0].values
    moves = [p @ (part.values - first) for p, part in zip(precision, parts, strict=True)]
    values = first + spread @ np.sum(moves, axis=0)
    return Moments(values, spread, sum(part.reports for part in parts))
