"""Worth: what single reports add to the answers of some keys, for whoever may choose what to send.

Every answer is an average over reports, so a report is worth to a key what the answer would be if it
were the only one. ``Options`` lists what may be sent, by groups of views that bear on the targets in
the same way: reports of one cell each (``Cells``, a block of them for each seed of a pool), or reports
that mark positions (``Positions``). Worths are ``(target, part)`` arrays: frequency, then mass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from ...channel import Channel
from ...channel.seed_pool import pool_of
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

MOST_WORTHS = 1 << 25
MOST_SOLVED = 1024
_FEW = 512
"""Up to so many outputs are all looked at; of more, those of the targets and one other."""
_NEAR = 1e-6
"""Reports whose worth differs by less, as by a channel's rounding, are alike: each is sent as often."""


@dataclass(frozen=True)
class ReportGroup:
    """Views that bear on the same targets in the same way."""

    targets: list[int]
    """Which of the targets they speak of, by number."""
    members: list[int]
    """Which views they are."""
    best: CellInfluence | Positions

    @property
    def speaks(self) -> np.ndarray:
        """(targets, 2): whether they tell a target's frequency, and its mass."""
        return self.best.speaks


class Options:
    """All that a fake may send, by groups of views, and what it is worth to the targets."""

    def __init__(self, plan: Plan, targets: int, groups: list[ReportGroup], tally: Tally | None) -> None:
        self.groups, self.targets = groups, targets
        public = plan.views.shares
        seen = public if tally is None else tally.counts[plan.layout.own] / max(tally.reports, 1)
        self.shares = np.array([public[group.members].sum() for group in groups])
        """The chance that a drawn view is of each group."""
        self.evenly = np.array([len(group.members) / len(plan.views) for group in groups])
        self.asked = self.summed(np.array([seen[group.members].sum() for group in groups]))
        """The share of honest reports that tell each target's parts."""
        wanted = np.array([part in plan.mechanism.answers for part in ("frequency", "mean")])
        wanted[1] |= "mass" in plan.mechanism.answers
        if not groups or (self.asked[:, wanted] <= 0).any():
            raise PlanError(f"what fakes could do to {plan.mechanism_name} is not offered for this plan")

    def summed(self, drawn: Floats) -> Floats:
        """The share of reports, of which ``drawn`` are of each group, that tell each target's parts."""
        total = np.zeros((self.targets, 2))
        for group, part in zip(self.groups, drawn, strict=True):
            total[group.targets] += part * group.speaks
        return total

    def after(self, before: Floats, share: float, drawn: Floats, worths: list[Floats]) -> Floats:
        """The answers when ``drawn`` of the fakes are of each group, and send what is worth so much."""
        told, sums = self.summed(drawn), np.zeros((self.targets, 2))
        for group, part, worth in zip(self.groups, drawn, worths, strict=True):
            sums[group.targets] += part * np.where(group.speaks, worth, 0.0)
        fakes, honest = share * told, (1 - share) * self.asked
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(told > 0, fakes / (fakes + honest), 0.0)
            worth = np.where(told > 0, sums / told, 0.0)
        return np.asarray((1 - part) * before + part * worth)

    def average(self, tally: Tally) -> Floats:
        """The answers of a tally of one view whose reports are one cell each, ``(targets, 2)``."""
        (group,) = self.groups
        assert isinstance(group.best, CellInfluence)
        n, cells = tally.view_counts(0)
        shares = cells.reshape(group.best.worth.shape[:2]) / max(n, 1)
        return np.where(group.speaks, np.einsum("sc,scti->ti", shares, group.best.worth), np.nan)

    def chosen(self, weights: Floats, worths: list[Floats], before: Floats) -> Floats:
        """Fakes split evenly over the targets; each goes to the view that serves all targets best."""
        scores = []
        for group, worth in zip(self.groups, worths, strict=True):
            rows = group.targets
            each = np.where(group.speaks, weights[rows] * (worth - before[rows]), 0.0)
            scores.append(float((each / np.maximum(self.asked[rows], 1e-300)).sum()))
        drawn = np.zeros(len(self.groups))
        for target in range(self.targets):
            having = [g for g, group in enumerate(self.groups) if target in group.targets]
            most = max(scores[g] for g in having)
            tied = [g for g in having if scores[g] >= most - _NEAR * (1 + abs(most))]
            for g in tied:
                drawn[g] += 1 / (self.targets * len(tied))
        return drawn

    def honest(self, goal: str) -> Floats:
        """What an honest report on a record of one target, drawn at random, is worth: it is unbiased."""
        held = 0.0 if goal == "lower-frequency" else 1.0 / self.targets
        sign = -1.0 if goal == "lower-mean" else 1.0
        return np.tile([held, sign * held], (self.targets, 1))

    @classmethod
    def of(
        cls, plan: Plan, places: list[int], tally: Tally | None = None, core: int | None = None
    ) -> Options:
        """The options of a plan against these targets, beside a tally of honest reports if given.

        ``core`` is how many items of a hash pool have their collisions undone (``possible_cores``);
        the default is what the tally, or without one the first that is possible, leads to.
        """
        encoding = plan.encoding
        if encoding.speaks_of_views:
            return cls(plan, len(places), _view_groups(plan, places), tally)
        if encoding.speaks_of_sets:
            if core is None:
                core = possible_cores(plan)[0] if tally is None else core_of(plan, tally)
            best: CellInfluence | Positions = set_worth(plan, places, core)
        elif encoding.state_kind == "signs":
            best = _of_signs(plan, places)
        elif encoding.keyless:
            best = _of_named(plan, places)
        else:
            raise PlanError(f"what fakes could do to {plan.mechanism_name} is not offered")
        return cls(plan, len(places), [ReportGroup(list(range(len(places))), [0], best)], tally)


class CellInfluence:
    """Reports of one cell each: ``worth[seed, cell, target, part]``.

    ``many`` cells are worth the same as each (none: it cannot be sent); ``at`` are their own numbers.
    """

    def __init__(self, worth: Floats, many: Floats, at: Integers | None = None) -> None:
        if worth.size > MOST_WORTHS:
            raise PlanError("so many targets are too many for this plan's reports; take fewer")
        self.speaks = np.asarray(~np.isnan(worth).any(axis=(0, 1)))
        self.worth, self.many = np.nan_to_num(worth), many
        self.at = np.arange(worth.shape[1]) if at is None else at

    def pick(self, weights: Floats, seeds: str) -> Floats:
        """The law over seeds and cells of the best reports; evenly where several are the best."""
        score = np.einsum("scti,ti->sc", self.worth, weights)
        score = np.where(self.many > 0, score, -inf)
        most = score.max(axis=1, keepdims=True)
        if seeds == "chosen":
            most = most.max(keepdims=True)
        near = (score >= most - _NEAR * (1 + np.abs(most))).astype(np.float64)
        if seeds == "chosen":
            return np.asarray(near / near.sum())
        return np.asarray(near / near.sum(axis=1, keepdims=True) / len(near))

    def worth_of(self, pick: Floats) -> Floats:
        """What reports of that law are worth on average."""
        return np.einsum("sc,scti->ti", pick, self.worth)

    def even(self) -> Floats:
        """What a report is worth that is any of them, all equally likely."""
        return np.asarray(np.average(self.worth.mean(axis=0), axis=0, weights=self.many))

    def mark(self, cells: Integers, count: int, pick: Floats, draw: Any) -> None:
        """Add the marks of so many reports of that law to a view's cells."""
        per = len(cells) // len(pick)
        at = np.arange(len(pick))[:, None] * per + self.at
        cells[at.ravel()] += draw.multinomial(count, pick.ravel() / pick.sum())


class Positions:
    """Reports that mark positions: ``worth[kind, symbol, target, part]``, symbol 0 marking nothing.

    ``kinds`` says which kind each position is of; ``own`` is what the report itself is worth. Where
    ``size`` is stated, exactly so many positions are marked.
    """

    def __init__(self, own: Floats, worth: Floats, kinds: Integers, size: int | None = None) -> None:
        self.speaks = np.asarray(~np.isnan(own) & ~np.isnan(worth).any(axis=(0, 1)))
        self.own, self.worth, self.kinds, self.size = (
            np.nan_to_num(own),
            np.nan_to_num(worth),
            kinds,
            size,
        )
        self.many = np.bincount(kinds, minlength=len(worth)).astype(np.float64)

    def pick(self, weights: Floats, seeds: str) -> Floats:
        """For each kind of position the law of its symbol; evenly where several are the best."""
        score = np.einsum("ksti,ti->ks", self.worth, weights)
        if self.size is not None:
            order = np.argsort(score[:, 0] - score[:, 1], kind="stable")[: self.size]
            made = np.tile([1.0, 0.0], (len(score), 1))
            made[order] = [0.0, 1.0]
            return made
        most = score.max(axis=1, keepdims=True)
        near = (score >= most - _NEAR * (1 + np.abs(most))).astype(np.float64)
        return np.asarray(near / near.sum(axis=1, keepdims=True))

    def worth_of(self, pick: Floats) -> Floats:
        """What reports of that law are worth on average."""
        return np.asarray(self.own + np.einsum("k,ks,ksti->ti", self.many, pick, self.worth))

    def even(self) -> Floats:
        """What a report is worth that shows any symbol at any position, all equally likely."""
        symbols = self.worth.shape[1]
        law = np.full(symbols, 1.0 / symbols)
        if self.size is not None:
            law = np.array([1.0 - self.size / len(self.kinds), self.size / len(self.kinds)])
        return self.worth_of(np.tile(law, (len(self.worth), 1)))

    def mark(self, cells: Integers, count: int, pick: Floats, draw: Any) -> None:
        """Add the marks of so many reports of that law to a view's cells."""
        each = np.full(len(self.kinds), count)
        cells += draw.multinomial(each, pick[self.kinds])[:, 1:].ravel()


def _view_groups(plan: Plan, places: list[int]) -> list[ReportGroup]:
    """Views by channel and by which targets they hold at which places."""
    number = {place: row for row, place in enumerate(places)}
    found: dict[tuple[int, int, tuple[tuple[int, int], ...]], list[int]] = {}
    of = plan.channel_of
    for view, keys in enumerate(plan.views.keys):
        held = tuple((at, number[key]) for at, key in enumerate(keys) if key in number)
        if held:
            found.setdefault((0 if of is None else of[view], len(keys), held), []).append(view)
    worths: dict[tuple[int, int], Floats] = {}
    groups = []
    for (channel, size, held), members in found.items():
        if (channel, size) not in worths:
            worths[channel, size] = view_worth(plan, channel, size)
        worth = worths[channel, size][:, [at for at, _ in held]]
        best = output_options(plan.channels[channel], worth)
        if best.speaks.any():
            groups.append(ReportGroup([row for _, row in held], members, best))
    return groups


def view_worth(plan: Plan, number: int, size: int) -> Floats:
    """What each cell of a view of ``size`` keys is worth: ``(cells, size, 2)``.

    A channel that marks many cells has one row more, for the report itself. A mechanism with an
    estimator of its own is asked for a plan with this one view.
    """
    channel = plan.channels[number]
    if decoding_of(plan).has_own_moments and channel.one_cell:
        schema = Schema(plan.schema.keys[:size], plan.schema.ranges[:size], plan.schema.levels)
        views = Views.whole(size)
        small = replace(plan, schema=schema, views=views, channels=(channel,), channel_of=None)
        return _moments(small, _single(np.arange(channel.cells), channel.cells))
    weights = key_weights(plan.schema)
    rows = channel.cells + (not channel.one_cell)
    made = np.full((rows, size, 2), np.nan)
    for at in range(size):
        flat = lifted(weights, (at,), tuple(range(size)), plan.schema.levels)
        for part in (0, 1):
            if not np.isnan(flat[:, part]).any():
                made[:, at, part] = channel.decoder(flat[:, [part]])[:, 0]
    return made


def output_options(channel: Channel, worth: Floats) -> CellInfluence | Positions:
    """The options of a channel, given what its cells are worth, ``(cells, targets, 2)``."""
    choices = channel.choices()
    if choices.outputs is not None:
        return _of_outputs(choices.outputs, worth)
    cells, own = worth[:-1], worth[-1]
    shown = cells.reshape(choices.positions, choices.marks, *cells.shape[1:])
    nothing = np.where(np.isnan(shown[:, :1]), np.nan, 0.0)
    every = np.arange(choices.positions)
    return Positions(own, np.concatenate([nothing, shown], axis=1), every, choices.size)


def _of_outputs(possible: Floats, worth: Floats) -> CellInfluence:
    """One output each: ``possible`` by seed and cell, ``worth`` of every output."""
    return CellInfluence(worth.reshape(*possible.shape, *worth.shape[1:]), possible[0])


def _single(cells: Integers, count: int) -> Integers:
    """Tallies of one report each: its view's own cell, and one more."""
    counts = np.zeros((len(cells), count + 1), np.int64)
    counts[:, 0] = 1
    counts[np.arange(len(cells)), 1 + cells] = 1
    return counts


def _moments(plan: Plan, counts: Integers) -> Floats:
    """Frequency and mass of every key, ``(tallies, keys, 2)``."""
    return moments_of(plan, counts).values


def _of_named(plan: Plan, places: list[int]) -> CellInfluence | Positions:
    """Channels whose outputs or positions each stand for a key: those of the targets, and one other."""
    channel, outputs = plan.channels[0], plan.channels[0].choices().outputs
    states = [plan.encoding.key_states(place) for place in places]
    first = np.array([own[0] for own in states])
    if channel.names_states and channel.cells > _FEW:
        named = [state for own in states for state in own]
        other = next(cell for cell in range(channel.cells) if cell not in set(named))
        cells = np.array([*named, other])
        worth = _moments(plan, _single(cells, channel.cells))[:, places]
        return CellInfluence(
            worth[None], np.array([1.0] * len(named) + [channel.cells - len(named)]), cells
        )
    if outputs is not None and all(len(own) == 1 for own in states):
        weights = np.zeros((channel.states, len(places)))
        weights[first, np.arange(len(places))] = 1.0
        return _of_outputs(outputs, _frequencies(channel.decoder(weights)))
    if outputs is not None:
        every = np.arange(channel.cells)
        runs = [every[i : i + _FEW] for i in range(0, len(every), _FEW)]
        found = [_moments(plan, _single(run, channel.cells))[:, places] for run in runs]
        return _of_outputs(outputs, np.concatenate(found))
    return _of_positions(plan, places, channel.positions_of(first))


def _of_positions(plan: Plan, places: list[int], own_positions: Integers | None) -> Positions:
    """Positions of which each target has one: these, and one other."""
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
    values = _moments(plan, np.concatenate([nothing, _single(cells, channel.cells)]))[:, places]
    own, shown = values[0], (values[1:] - values[0]).reshape(len(positions), marks, len(places), 2)
    kinds = np.full(choices.positions, len(positions) - 1)
    kinds[own_positions] = np.arange(len(places))
    blank = np.where(np.isnan(shown[:, :1]), np.nan, 0.0)
    return Positions(own, np.concatenate([blank, shown], axis=1), kinds)


def _frequencies(worth: Floats) -> Floats:
    """Worths of frequencies, where nothing is told of masses."""
    return np.stack([worth, np.full_like(worth, np.nan)], axis=-1)


def _of_signs(plan: Plan, places: list[int]) -> CellInfluence | Positions:
    """A sign for each target."""
    channel = plan.channels[0]
    choices, solved = channel.choices(), channel.sign_decoder()[:, places]
    worth = np.stack([np.full_like(solved, np.nan), solved], axis=-1)
    if choices.outputs is not None:
        return _of_outputs(choices.outputs, worth)
    # A sign that is no target's is worth nothing to them.
    shown = np.concatenate([worth[places], worth[-1:] * 0.0])[:, None]
    kinds = np.full(choices.positions, len(places))
    kinds[places] = np.arange(len(places))
    return Positions(worth[-1], np.concatenate([shown * 0.0, shown], axis=1), kinds)


def possible_cores(plan: Plan) -> list[int]:
    """The numbers of items whose collisions the estimator may undo; which of them, a tally decides.

    A single 0 for plans without a pool of sets. More than ``MOST_SOLVED`` are only looked at where a
    tally has them undone (``core_of``): that takes a minute, and moves worths by a few per cent.
    """
    if not plan.encoding.speaks_of_sets:
        return [0]
    channel, found = pool_of(plan.channels[0]), list[int]()
    for items, count in channel.cores(len(plan.schema.keys)):
        share = core_share(channel, count)
        if share <= SMALL_SHARE:
            return list(dict.fromkeys([*found, items]))
        if share <= MOST_SHARE and items <= MOST_SOLVED:
            found.append(items)
    return [*found, 0]


def core_of(plan: Plan, tally: Tally) -> int:
    """The number of items whose collisions the estimator undoes in this tally."""
    if not plan.encoding.speaks_of_sets:
        return 0
    channel = pool_of(plan.channels[0])
    n, cells = tally.view_counts(0)
    grid = cells.astype(np.float64).reshape(channel.pool, channel.small)
    energy = n * channel.gains[0] ** 2 * channel.energies(grid)[0]
    return core_size(channel, len(plan.schema.keys), energy)


def set_worth(plan: Plan, places: list[int], core: int, undo: Floats | None = None) -> CellInfluence:
    """Seed and cell of a pool: what naming a cell does to the scores of all keys that fall into it.

    The collisions of ``core`` items are undone, by ``undo`` where it is not the whole pool's.
    """
    channel = pool_of(plan.channels[0])
    if channel.cells * len(places) * 2 > MOST_WORTHS:
        raise PlanError("so many targets are too many for this plan's pool; take fewer")
    rows = np.array(places)
    if core and undo is None:
        undo = undoing(channel, core)[0]
    every = np.sort(np.concatenate([2 * rows, 2 * rows + 1])) if undo is None else np.arange(core)
    cells = np.arange(channel.pool)[:, None] * channel.small + channel.item_cells(every)
    worth = np.empty((len(places), 2, channel.cells))
    for row, place in enumerate(places):
        if undo is None:
            lent = TURN @ (every == np.array([[2 * place], [2 * place + 1]]))
        else:
            lent = item_weights(undo, place)
        for part, gain in enumerate(channel.gains):
            even = lent[part].sum() / channel.small
            worth[row, part] = (_spread(cells, lent[part], channel.cells) - even) / gain
    shaped = worth.reshape(len(places), 2, channel.pool, channel.small)
    return CellInfluence(np.moveaxis(shaped, (2, 3), (0, 1)), np.ones(channel.small))


def _spread(cells: Integers, lent: Floats, count: int) -> Floats:
    """The sum of what items lend to their cells under every seed."""
    each = np.broadcast_to(lent, cells.shape).ravel()
    return np.asarray(np.bincount(cells.ravel(), each, count), np.float64)
