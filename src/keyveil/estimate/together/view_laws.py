"""Laws of small views, sharpened by the evidence of other views about their keys.

The law of every view is estimated without bias. Different views are answered by different people, so
their errors are independent and their evidence can be combined. If several views hold all keys of a
query, views of one channel are averaged with equal weight per report, and different channels are
weighted by precision.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import combinations, product
from math import log
from typing import TYPE_CHECKING

import numpy as np

from ...channel import Channel
from ...foundation.arrays import Floats, Integers
from ...foundation.errors import PlanError
from ..caution import law_with_one_more
from ..projection import nearest_law, onto_simplex
from .joint import JointMoments, lifted, not_together
from .key_sums import (
    KeySums,
    independent_laws,
    inverse,
    levels_at,
    steady_laws,
    weight_of_report,
)
from .view_group import ViewGroup, unbiased_laws

if TYPE_CHECKING:
    from ...plan.plan import Plan
    from ...plan.tally import Tally


MOST_JOINED = 3**5
"""Largest number of joint states of a view that is combined with other views of its pairs of keys."""


class ViewEvidence:
    """Evidence from the laws of small views, sharpened by other views of the same keys."""

    def __init__(self, plan: Plan, tally: Tally, sharpen: bool = True) -> None:
        self.plan, self.levels = plan, plan.schema.levels
        self.raw = _groups(plan, tally)
        self._sharpen = sharpen
        self._joint: dict[tuple[int, ...], JointMoments] = {}
        self._joint_laws: dict[tuple[int, ...], Floats] = {}
        self._decodings: dict[int, tuple[Floats, Floats]] = {}

    @cached_property
    def groups(self) -> list[ViewGroup]:
        """The laws of the views that answer queries; queries of single keys do not need them."""
        return self._sharpened() if self._sharpen else self.raw

    # -- building --------------------------------------------------------------------------------

    @cached_property
    def _keys(self) -> list[Integers]:
        """The keys of each view, ``(views, size)``, for each group; a group's views have one size."""
        views = self.plan.views
        sizes = [int(views.sizes[group.views[0]]) for group in self.raw]
        both = zip(self.raw, sizes, strict=True)
        return [views.key_table[group.views, :size].astype(np.int64) for group, size in both]

    def _about_keys(self, groups: list[ViewGroup]) -> list[list[KeySums]]:
        """What each view says about its key, for each group and place."""
        sums: list[list[KeySums]] = []
        for group, held in zip(groups, self._keys, strict=True):
            channel, size = self.plan.channels[group.channel], held.shape[1]
            sums.append([])
            for place in range(size):
                pick = levels_at(self.levels, size, place)
                weight = weight_of_report(channel, size, place, self.levels)
                weight = group.reports[:, None, None] * weight
                sums[-1].append(KeySums.of_views(weight, group.laws @ pick, group.spread_of(pick)))
        return sums

    def _by_key(self, sums: list[list[KeySums]]) -> KeySums:
        """What all views together say about each key."""
        total = KeySums.empty(len(self.plan.schema.keys), self.levels)
        for held, places in zip(self._keys, sums, strict=True):
            for place, own in enumerate(places):
                for part, summand in zip(total, own, strict=True):
                    np.add.at(part, held[:, place], summand)
        return total

    @cached_property
    def steady(self) -> list[ViewGroup]:
        """The raw groups with covariances that depend little on the noise of a single view."""
        laws, groups = self._by_key(self._about_keys(self.raw)).laws(), []
        for group, held in zip(self.raw, self._keys, strict=True):
            independent = independent_laws(laws, held)
            steady = steady_laws(group.laws, group.total_variance, group.reports, independent)
            groups.append(replace(group, likely=steady))
        return groups

    @cached_property
    def _own(self) -> list[list[KeySums]]:
        """What each view says about its key, for each group and place."""
        return self._about_keys(self.steady)

    @cached_property
    def singles(self) -> tuple[KeySums, Integers]:
        """What all views together say about each key, and the number of reports."""
        reports = np.zeros(len(self.plan.schema.keys), np.int64)
        for group, keys in zip(self.raw, self._keys, strict=True):
            for held in keys.T:
                np.add.at(reports, held, group.reports)
        return self._by_key(self._own), reports

    def _sharpened(self) -> list[ViewGroup]:
        """The views' laws combined with the other views of single keys (generalised least squares)."""
        total, sharpened = self.singles[0], []
        for group, own, held in zip(self.steady, self._own, self._keys, strict=True):
            size = len(own)
            if size == 1:
                sharpened.append(group)
                continue
            laws, covariance = group.laws, group.covariance
            for place in range(size):
                others = total.at(held[:, place]).less(own[place]).information()
                pick = levels_at(self.levels, size, place)
                laws, covariance = _updated(laws, covariance, pick, *others)
            sharpened.append(replace(group, laws=laws, updated=covariance))
        return sharpened

    @cached_property
    def _places(self) -> dict[int, tuple[int, int]]:
        """The group and row of each view."""
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

    def moments(self, keys: tuple[int, ...], weights: Floats) -> JointMoments | None:
        if len(keys) == 1:
            return self._single(keys[0], weights) if self.singles[1][keys[0]] else None
        views = [v for v in self.covering(keys) if self._reports(v) > 0]
        if not views:
            return None
        if len(views) == 1 and not self._joins(views[0]):
            return self._of_view(self.groups, views[0], keys, weights)
        held = tuple(sorted(keys if len(views) > 1 else self.plan.views.keys[views[0]]))
        joint = self._joined(held)
        flat = lifted(weights, keys, held, self.levels)
        return JointMoments(joint.values @ flat, flat.T @ joint.covariance @ flat, joint.reports)

    def pair_moments(self, weights: Floats) -> tuple[Integers, Floats, Floats] | None:
        """Keys, functionals and their covariance of all pairs with reports, if views are pairs.

        None for other plans. ``weights`` are as for ``moments``, with the key of lower place first.
        """
        views = self.plan.views.keys
        distinct = len({frozenset(view) for view in views}) == len(views)
        if not distinct or any(len(view) != 2 for view in views):
            return None
        parts = []
        for group in self.groups:
            keys = np.array([views[int(view)] for view in group.views])
            for turned in (False, True):
                rows = np.flatnonzero((group.reports > 0) & ((keys[:, 0] > keys[:, 1]) == turned))
                table = np.swapaxes(weights, 0, 1) if turned else weights
                flat = table.reshape(-1, weights.shape[-1])
                spread = flat.T @ group.spread(rows) @ flat
                parts.append((np.sort(keys[rows]), group.laws[rows] @ flat, spread))
        pairs, values, covariance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return pairs, values, covariance

    def _joins(self, view: int) -> bool:
        """Whether a view is combined with other views of two or more of its keys.

        Views of two keys share only single keys with others; ``groups`` combines those for all views.
        """
        size = len(self.plan.views.keys[view])
        return self._sharpen and size > 2 and (self.levels + 1) ** size <= MOST_JOINED

    def _joined(self, keys: tuple[int, ...]) -> JointMoments:
        """The law of keys in ascending order and its covariance, from all views that hold any of them.

        A view is evidence about those of the keys that it holds. Views of one channel that hold the
        same keys are averaged with equal weight per report; the information of different sets is added.
        Laws omit the first state, whose share is the remainder, so that matrices have inverses. Without
        sharpening, only views that hold all of the keys are used.
        """
        if keys in self._joint:
            return self._joint[keys]
        size = (self.levels + 1) ** len(keys) - 1
        information, vector = np.zeros((size, size)), np.zeros(size)
        reports = 0
        used = KeySums.empty(len(keys), self.levels)
        for (number, part), rows in self._meeting(keys).items():
            if part != keys and not self._sharpen:
                continue
            law, precision = self._average(number, np.array(rows), part)
            pick = lifted(_states(self.levels, len(part)), part, keys, self.levels)[1:]
            information += pick @ precision @ pick.T
            vector += pick @ precision @ law
            reports += int(self.raw[number].reports[rows].sum()) if part == keys else 0
            held = self._keys[number][rows]
            for key, (place, own) in product(part, enumerate(self._own[number])):
                own_rows = np.array(rows)[held[:, place] == key]
                for whole, summand in zip(used, own, strict=True):
                    whole[keys.index(key)] += summand[own_rows].sum(axis=0)
        if self._sharpen:
            rest = self.singles[0].at(list(keys)).less(used).information()
            for key, matrix, known in zip(keys, *rest, strict=True):
                pick = lifted(_states(self.levels, 1), (key,), keys, self.levels)[1:]
                information += pick @ matrix @ pick.T
                vector += pick @ known
        spread = inverse(information)
        law = spread @ vector
        expansion = np.vstack([-np.ones(size), np.eye(size)])
        spread = expansion @ (spread + spread.T) @ expansion.T / 2
        self._joint[keys] = JointMoments(np.append(1.0 - law.sum(), law), spread, reports)
        return self._joint[keys]

    def _meeting(self, keys: tuple[int, ...]) -> dict[tuple[int, tuple[int, ...]], list[int]]:
        """Rows of views that hold two or more of the keys, by group and by the keys they hold."""
        rows: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
        views = {view for two in combinations(keys, 2) for view in self.covering(two)}
        for view in sorted(views):
            number, row = self._places[view]
            if self.raw[number].reports[row]:
                rows[number, tuple(key for key in keys if key in self.plan.views.keys[view])].append(row)
        return rows

    def _average(self, number: int, rows: Integers, keys: tuple[int, ...]) -> tuple[Floats, Floats]:
        """The average law of keys over rows of a group, without the first state, and its information."""
        group, size = self.steady[number], (self.levels + 1) ** len(keys) - 1
        shares = group.reports[rows] / group.reports[rows].sum()
        law, covariance = np.zeros(size), np.zeros((size, size))
        views = [self.plan.views.keys[int(view)] for view in group.views[rows]]
        places = np.array([[view.index(key) for key in keys] for view in views])
        for order in np.unique(places, axis=0):
            same_places = (places == order).all(axis=1)
            same_rows, share = rows[same_places], shares[same_places]
            view = self.plan.views.keys[int(group.views[same_rows[0]])]
            pick = lifted(_states(self.levels, len(keys)), keys, view, self.levels)
            law += share @ group.laws[same_rows] @ pick
            covariance += pick.T @ np.tensordot(share**2, group.spread(same_rows), 1) @ pick
        return law, inverse(covariance)

    def place_of(self, view: int) -> tuple[int, int]:
        """The group of a view, and its row in that group."""
        return self._places[view]

    def decoding(self, number: int) -> tuple[Floats, Floats]:
        """The decoder ``(cells, states)`` and the law ``(states, cells)`` of the channel of a group."""
        if number not in self._decodings:
            channel = self.plan.channels[self.raw[number].channel]
            self._decodings[number] = channel.decoder(np.eye(channel.states)), channel.expected()
        return self._decodings[number]

    def _row(self, groups: list[ViewGroup], view: int) -> tuple[int, Floats, Floats]:
        number, row = self._places[view]
        group = groups[number]
        return int(group.reports[row]), group.laws[row], group.spread(np.array([row]))[0]

    def _reports(self, view: int) -> int:
        number, row = self._places[view]
        return int(self.raw[number].reports[row])

    def _of_view(
        self, groups: list[ViewGroup], view: int, keys: tuple[int, ...], weights: Floats
    ) -> JointMoments:
        reports, law, covariance = self._row(groups, view)
        flat = lifted(weights, keys, self.plan.views.keys[view], self.levels)
        return JointMoments(law @ flat, flat.T @ covariance @ flat, reports)

    def _single(self, key: int, weights: Floats) -> JointMoments:
        sums, reports = self.singles
        shares, spread = (part[0] for part in sums.at([key]).average())
        slope = weights[1:] - weights[0]  # the share of "not held" is the remainder
        return JointMoments(weights[0] + shares @ slope, slope.T @ spread @ slope, int(reports[key]))

    @cached_property
    def _nearest(self) -> list[Floats]:
        return [nearest_law(group.laws, group.covariance) for group in self.groups]

    def law(self, keys: tuple[int, ...]) -> Floats | None:
        views = [v for v in self.covering(keys) if self._reports(v) > 0]
        if not views:
            return None
        if len(keys) == 1:
            single = self._single(keys[0], np.eye(self.levels + 1))
            return onto_simplex(single.values[None, :])[0]
        if len(views) > 1:
            return self._joined_law(keys)
        if self._joins(views[0]):
            return self._part(views[0], self._joined_law(self.plan.views.keys[views[0]]), keys)
        number, row = self._places[views[0]]
        return self._part(views[0], self._nearest[number][row], keys)

    def _part(self, view: int, law: Floats, keys: tuple[int, ...]) -> Floats:
        """The law of a subset of the keys of a view, in the order of ``keys``."""
        held = self.plan.views.keys[view]
        others = tuple(i for i, key in enumerate(held) if key not in keys)
        order = [key for key in held if key in keys]
        table = law.reshape((self.levels + 1,) * len(held)).sum(axis=others)
        return np.asarray(table.transpose([order.index(key) for key in keys]))

    def _joined_law(self, keys: tuple[int, ...]) -> Floats:
        """The proper law nearest to the combined law of all views, in the order of ``keys``.

        Laws are averaged before they are projected. In the other order, empty states would keep a
        positive share from the noise of each view.
        """
        ordered = tuple(sorted(keys))
        if ordered not in self._joint_laws:
            joint = self._joined(ordered)
            law = nearest_law(joint.values[None, :], joint.covariance[None, :, :])[0]
            self._joint_laws[ordered] = law.reshape((self.levels + 1,) * len(keys))
        return np.transpose(self._joint_laws[ordered], np.argsort(np.argsort(keys)))


@lru_cache(maxsize=16)
def _states(levels: int, keys: int) -> Floats:
    """Indicators of every joint state except the first."""
    count = (levels + 1) ** keys
    return np.eye(count).reshape((levels + 1,) * keys + (count,))[..., 1:]


def _groups(plan: Plan, tally: Tally) -> list[ViewGroup]:
    """Least-squares laws of all views, channel by channel."""
    groups = []
    for number, channel in enumerate(plan.channels):
        views = plan.views_of(number)
        if not views:
            continue
        own = plan.layout.own[np.array(views)]
        counts = tally.counts[own[:, None] + 1 + np.arange(channel.cells)].astype(np.float64)
        reports = tally.counts[own].astype(np.int64)
        try:
            laws, decoder = unbiased_laws(channel, counts, reports)
        except PlanError:
            raise not_together(plan) from None
        n = np.maximum(reports, 1)[:, None].astype(np.float64)
        likely = law_with_one_more(onto_simplex(laws), n, channel.states)
        facts = laws, likely, number, channel.expected(), decoder
        groups.append(ViewGroup(np.array(views), reports, *facts))
    return groups


def key_information(
    channel: Channel, counts: Floats, reports: Floats, place: int, levels: int
) -> tuple[Floats, Floats]:
    """Weights of the key at a place of one channel's views, and weighted shares, from rows of counts.

    Matrices ``(rows, levels, levels)`` and vectors ``(rows, levels)`` about the shares of the held
    levels, as ``ViewEvidence`` adds them up for a single key.
    """
    size = round(log(channel.states, levels + 1))
    shares = unbiased_laws(channel, counts, reports)[0] @ levels_at(levels, size, place)
    weight = reports[:, None, None] * weight_of_report(channel, size, place, levels)
    return weight, np.einsum("vij,vj->vi", weight, shares)


def _updated(
    laws: Floats, covariance: Floats, pick: Floats, information: Floats, vector: Floats
) -> tuple[Floats, Floats]:
    """Laws and covariances after independent information about ``pick``, row by row."""
    cross = covariance @ pick
    spread = pick.T @ cross
    # K = C M (M C M' + T)^-1 with T^-1 = information, written without the inverse of T.
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
