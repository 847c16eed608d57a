"""Influence: what one report adds to the answers of the targeted keys, if its sender chooses it.

Every answer is an average over reports. The influence of a report on a key is the answer that this
report alone would give. ``PossibleReports`` lists what may be sent, by groups of views that affect the
targets in the same way. Reports mark one cell each (``CellInfluence``, with a block of cells for each
seed of a pool) or several positions (``Positions``). Influences are ``(target, part)`` arrays; the
parts are frequency and mass.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from ...channel import Channel
from ...channel.shapes.seed_pool import pool_of
from ...estimate.decoding import decoding_of, moments_of
from ...estimate.linear import key_weights
from ...estimate.pools.collision_matrix import (
    MOST_SHARE,
    SMALL_SHARE,
    core_share,
    core_size,
    item_weights,
    undoing,
)
from ...estimate.pools.padded_items import TURN
from ...estimate.together.joint import lifted
from ...foundation.arrays import Floats, Integers
from ...foundation.errors import PlanError
from ...people.schema import Schema
from ...people.views import Views
from ...plan.plan import Plan
from ...plan.tally import Tally
from .report_influence import CellInfluence, Positions

MOST_INFLUENCES = 1 << 25
MOST_SOLVED = 1024
_FEW = 512
"""Maximum number of outputs that are all examined. Of more, those of the targets and one other are."""
_NEAR = 1e-6
"""Reports whose influences differ by less, for example by rounding, are sent equally often."""


@dataclass(frozen=True)
class ReportGroup:
    """Views that affect the same targets in the same way."""

    targets: list[int]
    """Numbers of the targets that the views hold."""
    members: list[int]
    """Numbers of the views."""
    best: CellInfluence | Positions

    @property
    def speaks(self) -> np.ndarray:
        """Whether the reports inform about frequency and mass of each target, ``(targets, 2)``."""
        return self.best.speaks


class PossibleReports:
    """All reports that a fake may send, by groups of views, with their influence on the targets."""

    def __init__(self, plan: Plan, targets: int, groups: list[ReportGroup], tally: Tally | None) -> None:
        self.groups, self.targets = groups, targets
        public = plan.views.shares
        seen = public if tally is None else tally.counts[plan.layout.own] / max(tally.reports, 1)
        self.shares = np.array([public[group.members].sum() for group in groups])
        """The probability that a drawn view is in each group."""
        self.evenly = np.array([len(group.members) / len(plan.views) for group in groups])
        self.asked = self.summed(np.array([seen[group.members].sum() for group in groups]))
        """The share of honest reports that inform about each part of each target, ``(targets, 2)``."""
        wanted = np.array([part in plan.mechanism.answers for part in ("frequency", "mean")])
        wanted[1] |= "mass" in plan.mechanism.answers
        if not groups or (self.asked[:, wanted] <= 0).any():
            raise PlanError(f"what fakes could do to {plan.mechanism_name} is not offered for this plan")

    def summed(self, drawn: Floats) -> Floats:
        """The share of reports on each part of each target, if ``drawn`` are in each group."""
        total = np.zeros((self.targets, 2))
        for group, fraction in zip(self.groups, drawn, strict=True):
            total[group.targets] += fraction * group.speaks
        return total

    def after(self, before: Floats, share: float, drawn: Floats, influences: list[Floats]) -> Floats:
        """The answers ``(targets, 2)`` with fakes of these influences, ``drawn`` in each group."""
        informing, sums = self.summed(drawn), np.zeros((self.targets, 2))
        for group, part, influence in zip(self.groups, drawn, influences, strict=True):
            sums[group.targets] += part * np.where(group.speaks, influence, 0.0)
        fakes, honest = share * informing, (1 - share) * self.asked
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(informing > 0, fakes / (fakes + honest), 0.0)
            influence = np.where(informing > 0, sums / informing, 0.0)
        return np.asarray((1 - part) * before + part * influence)

    def average(self, tally: Tally) -> Floats:
        """The answers ``(targets, 2)`` of a tally with one view whose reports mark one cell each."""
        (group,) = self.groups
        assert isinstance(group.best, CellInfluence)
        n, cells = tally.view_counts(0)
        shares = cells.reshape(group.best.influence.shape[:2]) / max(n, 1)
        return np.where(group.speaks, np.einsum("sc,scti->ti", shares, group.best.influence), np.nan)

    def chosen(self, weights: Floats, influences: list[Floats], before: Floats) -> Floats:
        """The share of fakes in each group, split evenly over targets.

        The fakes of a target go to the view of it that serves all targets best.
        """
        scores = []
        for group, influence in zip(self.groups, influences, strict=True):
            rows = group.targets
            gains = np.where(group.speaks, weights[rows] * (influence - before[rows]), 0.0)
            scores.append(float((gains / np.maximum(self.asked[rows], 1e-300)).sum()))
        drawn = np.zeros(len(self.groups))
        for target in range(self.targets):
            having = [g for g, group in enumerate(self.groups) if target in group.targets]
            best = max(scores[g] for g in having)
            ties = [g for g in having if scores[g] >= best - _NEAR * (1 + abs(best))]
            for g in ties:
                drawn[g] += 1 / (self.targets * len(ties))
        return drawn

    def honest(self, goal: str) -> Floats:
        """The mean influence ``(targets, 2)`` of an honest report on a record of one random target."""
        held = 0.0 if goal == "lower-frequency" else 1.0 / self.targets
        sign = -1.0 if goal == "lower-mean" else 1.0
        return np.tile([held, sign * held], (self.targets, 1))

    @classmethod
    def of(
        cls, plan: Plan, places: list[int], tally: Tally | None = None, core: int | None = None
    ) -> PossibleReports:
        """The possible reports against these targets, among the honest reports of a tally if given.

        ``core`` is the number of items of a hash pool whose collisions are undone. By default it is
        that of the tally, or without a tally the first of ``possible_cores``.
        """
        encoding = plan.encoding
        if encoding.speaks_of_views:
            return cls(plan, len(places), _view_groups(plan, places), tally)
        if encoding.speaks_of_sets:
            if core is None:
                core = possible_cores(plan)[0] if tally is None else core_of(plan, tally)
            best: CellInfluence | Positions = set_influence(plan, places, core)
        elif encoding.state_kind == "signs":
            best = _of_signs(plan, places)
        elif encoding.keyless:
            best = _of_named(plan, places)
        else:
            raise PlanError(f"what fakes could do to {plan.mechanism_name} is not offered")
        return cls(plan, len(places), [ReportGroup(list(range(len(places))), [0], best)], tally)


class ViewKind(NamedTuple):
    """What views that affect the targets in the same way have in common."""

    channel: int
    """Number of the channel."""
    size: int
    """Number of keys."""
    held: tuple[tuple[int, int], ...]
    """Number and place in the view of each target."""


def views_by_kind(plan: Plan, places: list[int]) -> dict[ViewKind, list[int]]:
    """The views that hold one of the keys at ``places``, by kind."""
    target_of = {place: row for row, place in enumerate(places)}
    numbers = plan.channel_of or (0,) * len(plan.views)
    views: dict[ViewKind, list[int]] = defaultdict(list)
    for view, keys in enumerate(plan.views.keys):
        held = tuple((target_of[key], at) for at, key in enumerate(keys) if key in target_of)
        if held:
            views[ViewKind(numbers[view], len(keys), held)].append(view)
    return views


def _view_groups(plan: Plan, places: list[int]) -> list[ReportGroup]:
    """Groups of views with the same channel and the same targets at the same places."""
    influence_of = cache(partial(view_influence, plan))
    groups = []
    for (channel, size, held), members in views_by_kind(plan, places).items():
        influence = influence_of(channel, size)[:, [at for _, at in held]]
        best = channel_influence(plan.channels[channel], influence)
        if best.speaks.any():
            groups.append(ReportGroup([row for row, _ in held], members, best))
    return groups


def view_influence(plan: Plan, number: int, size: int) -> Floats:
    """The influence ``(cells, size, 2)`` of each cell of a view of ``size`` keys.

    A channel whose reports mark many cells has one more row, for the report itself. If the mechanism has
    its own estimator, that is applied to a plan with this one view.
    """
    channel = plan.channels[number]
    if decoding_of(plan).has_own_moments and channel.one_cell:
        schema = Schema(plan.schema.keys[:size], plan.schema.ranges[:size], plan.schema.levels)
        views = Views.whole(size)
        small = replace(plan, schema=schema, views=views, channels=(channel,), channel_of=None)
        return moments_of(small, _single(np.arange(channel.cells), channel.cells)).values
    weights = key_weights(plan.schema)
    rows = channel.cells + (not channel.one_cell)
    influence = np.full((rows, size, 2), np.nan)
    for at in range(size):
        flat = lifted(weights, (at,), tuple(range(size)), plan.schema.levels)
        for part in (0, 1):
            if not np.isnan(flat[:, part]).any():
                influence[:, at, part] = channel.decoder(flat[:, [part]])[:, 0]
    return influence


def channel_influence(channel: Channel, influence: Floats) -> CellInfluence | Positions:
    """The possible reports of a channel, from the influence ``(cells, targets, 2)`` of its cells."""
    choices = channel.choices()
    if choices.outputs is not None:
        return _of_outputs(choices.outputs, influence)
    cells, own = influence[:-1], influence[-1]
    shown = cells.reshape(choices.positions, choices.marks, *cells.shape[1:])
    return Positions(own, _with_blank(shown), np.arange(choices.positions), choices.size)


def _with_blank(shown: Floats) -> Floats:
    """Influences ``(positions, symbols, targets, 2)`` with symbol 0, no mark, in front: it has none."""
    return np.concatenate([np.where(np.isnan(shown[:, :1]), np.nan, 0.0), shown], axis=1)


def _of_outputs(possible: Floats, influence: Floats) -> CellInfluence:
    """Reports of one output: ``possible`` is ``(seeds, cells)``, ``influence`` has a row per output."""
    return CellInfluence(influence.reshape(*possible.shape, *influence.shape[1:]), possible[0])


def _single(cells: Integers, count: int) -> Integers:
    """Tallies of one report each: the view's own cell and one of ``cells``, in ``count + 1`` columns."""
    counts = np.zeros((len(cells), count + 1), np.int64)
    counts[:, 0] = 1
    counts[np.arange(len(cells)), 1 + cells] = 1
    return counts


def _of_named(plan: Plan, places: list[int]) -> CellInfluence | Positions:
    """Influence of the outputs or positions that stand for the targets, and of one other."""
    channel, outputs = plan.channels[0], plan.channels[0].choices().outputs
    states = [plan.encoding.key_states(place) for place in places]
    first = np.array([own[0] for own in states])
    if channel.names_states and channel.cells > _FEW:
        named = [state for own in states for state in own]
        other = next(cell for cell in range(channel.cells) if cell not in set(named))
        cells = np.array([*named, other])
        influence = moments_of(plan, _single(cells, channel.cells)).values[:, places]
        many = np.array([1.0] * len(named) + [channel.cells - len(named)])
        return CellInfluence(influence[None], many, cells)
    if outputs is not None and all(len(own) == 1 for own in states):
        weights = np.zeros((channel.states, len(places)))
        weights[first, np.arange(len(places))] = 1.0
        decoder = channel.decoder(weights)
        return _of_outputs(outputs, np.stack([decoder, np.full_like(decoder, np.nan)], axis=-1))
    if outputs is not None:
        every = np.arange(channel.cells)
        runs = [every[i : i + _FEW] for i in range(0, len(every), _FEW)]
        parts = [moments_of(plan, _single(run, channel.cells)).values[:, places] for run in runs]
        return _of_outputs(outputs, np.concatenate(parts))
    return _of_positions(plan, places, channel.positions_of(first))


def _of_positions(plan: Plan, places: list[int], own_positions: Integers | None) -> Positions:
    """Influence of the positions of the targets, and of one other position."""
    channel = plan.channels[0]
    choices = channel.choices()
    if own_positions is None:
        raise PlanError(f"what fakes could do to reports of shape {channel.shape} is not offered")
    marks, positions = choices.marks, own_positions.tolist()
    if len(positions) < choices.positions:
        positions.append(next(p for p in range(choices.positions) if p not in set(positions)))
    cells = (np.array(positions)[:, None] * marks + np.arange(marks)).ravel()
    nothing = np.zeros((1, channel.cells + 1), np.int64)
    nothing[0, 0] = 1
    reports = np.concatenate([nothing, _single(cells, channel.cells)])
    values = moments_of(plan, reports).values[:, places]
    own, shown = values[0], (values[1:] - values[0]).reshape(len(positions), marks, len(places), 2)
    kinds = np.full(choices.positions, len(positions) - 1)
    kinds[own_positions] = np.arange(len(places))
    return Positions(own, _with_blank(shown), kinds)


def _of_signs(plan: Plan, places: list[int]) -> CellInfluence | Positions:
    """Influence in channels whose states are vectors of signs, one per target."""
    channel = plan.channels[0]
    choices, solved = channel.choices(), channel.sign_decoder()[:, places]
    influence = np.stack([np.full_like(solved, np.nan), solved], axis=-1)
    if choices.outputs is not None:
        return _of_outputs(choices.outputs, influence)
    # The sign of another key has no influence on the targets.
    shown = np.concatenate([influence[places], influence[-1:] * 0.0])[:, None]
    kinds = np.full(choices.positions, len(places))
    kinds[places] = np.arange(len(places))
    return Positions(influence[-1], _with_blank(shown), kinds)


def possible_cores(plan: Plan) -> list[int]:
    """The numbers of items whose collisions the estimator may undo. The tally decides between them.

    A single 0 for plans without a pool of sets. Numbers above ``MOST_SOLVED`` are left out unless a
    tally leads to them (``core_of``), because they take a minute and change influences by a few per
    cent.
    """
    if not plan.encoding.speaks_of_sets:
        return [0]
    channel, cores = pool_of(plan.channels[0]), list[int]()
    for items, count in channel.cores(len(plan.schema.keys)):
        share = core_share(channel, count)
        if share <= SMALL_SHARE:
            return list(dict.fromkeys([*cores, items]))
        if share <= MOST_SHARE and items <= MOST_SOLVED:
            cores.append(items)
    return [*cores, 0]


def core_of(plan: Plan, tally: Tally) -> int:
    """The number of items whose collisions the estimator undoes in this tally."""
    if not plan.encoding.speaks_of_sets:
        return 0
    channel = pool_of(plan.channels[0])
    n, cells = tally.view_counts(0)
    grid = cells.astype(np.float64).reshape(channel.pool, channel.small)
    energy = n * channel.gains[0] ** 2 * channel.energies(grid)[0]
    return core_size(channel, len(plan.schema.keys), energy)


def set_influence(plan: Plan, places: list[int], core: int, undo: Floats | None = None) -> CellInfluence:
    """The influence of each seed and cell of a pool on the scores of the keys that fall into the cell.

    The collisions of ``core`` items are undone. ``undo`` is the matrix for that, by default the one of
    the whole pool.
    """
    channel = pool_of(plan.channels[0])
    if channel.cells * len(places) * 2 > MOST_INFLUENCES:
        raise PlanError("there are too many targets for this plan's pool; take fewer")
    rows = np.array(places)
    if core and undo is None:
        undo = undoing(channel, core)[0]
    every = np.sort(np.concatenate([2 * rows, 2 * rows + 1])) if undo is None else np.arange(core)
    cells = np.arange(channel.pool)[:, None] * channel.small + channel.item_cells(every)
    influence = np.empty((len(places), 2, channel.cells))
    for row, place in enumerate(places):
        if undo is None:
            weights_of = TURN @ (every == np.array([[2 * place], [2 * place + 1]]))
        else:
            weights_of = item_weights(undo, place)
        for part, gain in enumerate(channel.gains):
            even = weights_of[part].sum() / channel.small
            weights = np.broadcast_to(weights_of[part], cells.shape).ravel()
            spread = np.bincount(cells.ravel(), weights, channel.cells)
            influence[row, part] = (spread - even) / gain
    shaped = influence.reshape(len(places), 2, channel.pool, channel.small)
    return CellInfluence(np.moveaxis(shaped, (2, 3), (0, 1)), np.ones(channel.small))
