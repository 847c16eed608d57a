"""Simulation without people: tallies drawn straight from a population's law.

People are an independent draw from the population (a table's records, each equally likely). Then the
outputs of a view's reports are one multinomial draw, and so are the states of those who are drawn one
item of their own; what positions show is multinomial given the states. A repetition costs the same for
a thousand people as for a billion, and its law is exactly that of the per-person path. Only reports
that speak of a whole set need people: those are drawn from the table, in a compiled loop. Where many
repetitions are asked for, the law of such reports is averaged first: the table is gone through whole
several times, and each person adds, under a fresh seed, not one report but the whole law of theirs,
until what the average leaves uncertain is 1 % of a repetition's own variance. Repetitions are then drawn
from that law, where this is the shorter way.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import WORD, Floats, Integers
from .channel import Channel, CoCo, Collision, Subset, Symbols
from .channel.hash import mixed
from .coins import Coins, Stream
from .encode import SETS, bucket_of
from .errors import PlanError
from .fast import compiled
from .people import People
from .report import Reports
from .schema import Schema
from .tally import Tally

if TYPE_CHECKING:
    from .plan import Plan

CHUNK = 1 << 14
MANY = 1 << 16
"""People at a time in compiled loops, where they are made as they are drawn."""
LEAST = 1 << 19
"""People whose laws are averaged, at the least."""
SLACK = 0.01
"""What an average law may leave uncertain, as a share of a repetition's own variance."""
COST_OF_HOLDER = 1000
"""What it takes to look up one holder of a pair of keys, in products of a matrix multiplication."""
LEAST_SHARE = 1e-13
"""Less than this is left by rounding where there is no one."""
MOST_DRAWN = 1 << 32
"""People whose whole sets are drawn, or whose laws are averaged, for one plan; minutes of work."""
_NO_LAW: Floats = np.zeros((0, 0))


class Population:
    """The law of records: the share of every joint state of any keys, rounding included."""

    people: People

    def __init__(self, schema: Schema, people: People, levels: int = 2) -> None:
        if not len(people):
            raise PlanError("a population needs at least one person")
        self.schema, self.people, self.levels = schema.at(levels), people, levels
        self._laws: dict[tuple[int, ...], Floats] = {}
        self._at: dict[int, Population] = {levels: self}
        self._looked_up = 0.0

    def at(self, levels: int) -> Population:
        """The same people, their values rounded to other levels; made once."""
        if levels not in self._at:
            self._at[levels] = Population(self.schema, self.people, levels)
            self._at[levels]._at = self._at
        return self._at[levels]

    def on_unit_scale(self) -> Population:
        """The same population with every key's values on [-1, 1]."""
        schema, people = self.schema, self.people
        if bool((schema.low == -1).all() and (schema.high == 1).all()):
            return self
        keys = people.keys.astype(np.int64)
        low, high = schema.low[keys], schema.high[keys]
        values = np.clip((people.values - low) / (high - low) * 2 - 1, -1, 1)
        return Population(Schema.of(list(schema.keys)), replace(people, values=values), self.levels)

    def draw(self, people: int, draw: np.random.Generator, first: int = 0) -> People:
        """So many independent people, numbered from ``first`` on."""
        rows = draw.integers(0, len(self.people), people)
        return self.people.chosen(rows, np.arange(first, first + people, dtype=np.int64))

    # -- the laws of single keys, from the rows that there are -------------------------------------

    @cached_property
    def _digits(self) -> tuple[Integers, Integers, Floats]:
        """Of every row: its key, the level below its value, and the chance of the one above."""
        people, schema = self.people, self.schema
        keys = people.keys.astype(np.int64)
        if self.levels == 1:
            return keys, np.zeros(len(keys), np.int64), np.zeros(len(keys))
        low, high = schema.low[keys], schema.high[keys]
        at = (people.values - low) / (high - low) * (self.levels - 1)
        below = np.minimum(np.floor(at), self.levels - 2).astype(np.int64)
        return keys, below, at - below

    def _counted(self, weights: Floats) -> Floats:
        """The weight of every key's levels, from a weight for each row."""
        keys, below, up = self._digits
        size, cells = len(self.schema.keys) * self.levels, keys * self.levels + below
        made = np.bincount(cells, weights * (1.0 - up), size)
        if self.levels > 1:
            made += np.bincount(cells + 1, weights * up, size)
        return made.reshape(-1, self.levels) / len(self.people)

    @cached_property
    def _one(self) -> Floats:
        """The law of every single key: (key, state)."""
        held = self._counted(np.ones(len(self.people.keys)))
        return np.concatenate([1.0 - held.sum(axis=1, keepdims=True), held], axis=1)

    def drawn(self, length: int) -> Floats:
        """How often each key and level is drawn, one in max(h, length) of those who hold h keys."""
        held = np.diff(self.people.starts)
        return self._counted(np.repeat(1.0 / np.maximum(held, length), held))

    @cached_property
    def sizes(self) -> Floats:
        """The share of people who hold 0, 1, 2, ... keys."""
        return np.bincount(np.diff(self.people.starts)) / len(self.people)

    # -- of several keys ---------------------------------------------------------------------------

    @property
    def chances(self) -> Floats:
        """Person by key by state: the chance that the key's digit is that after rounding; dense."""
        return self._dense(0, len(self.people))

    def _dense(self, first: int, last: int) -> Floats:
        people, (keys, below, up) = self.people, self._digits
        rows = slice(int(people.starts[first]), int(people.starts[last]))
        made = np.zeros((last - first, len(self.schema.keys), self.levels + 1))
        made[:, :, 0] = 1.0
        who = np.repeat(np.arange(last - first), np.diff(people.starts[first : last + 1]))
        made[who, keys[rows], 0] = 0.0
        made[who, keys[rows], below[rows] + 1] = 1.0 - up[rows]
        if self.levels > 1:
            made[who, keys[rows], below[rows] + 2] = up[rows]
        return made

    @cached_property
    def _two(self) -> Floats:
        """The joint law of every two different keys: (key, state, key, state)."""
        keys, levels = len(self.schema.keys), self.levels
        both = np.zeros((keys * levels, keys * levels))
        step = max(1, (1 << 21) // (keys * levels))
        for first in range(0, len(self.people), step):
            held = self._dense(first, min(first + step, len(self.people)))[:, :, 1:]
            flat = held.reshape(-1, keys * levels)
            both += flat.T @ flat
        law = np.zeros((keys, levels + 1, keys, levels + 1))
        law[:, 1:, :, 1:] = both.reshape(keys, levels, keys, levels) / len(self.people)
        one = self._one[:, 1:]
        law[:, 1:, :, 0] = one[:, :, None] - law[:, 1:, :, 1:].sum(axis=3)
        law[:, 0, :, 1:] = one[None, :, :] - law[:, 1:, :, 1:].sum(axis=1)
        law[:, 0, :, 0] = 1.0 - one.sum(axis=1)[:, None] - law[:, 0, :, 1:].sum(axis=2)
        return law

    @cached_property
    def _by_key(self) -> tuple[Integers, Integers, Integers]:
        """Rows sorted by key, where each key's begin, and whose each row is."""
        keys = self._digits[0]
        order = np.argsort(keys, kind="stable")
        starts = np.searchsorted(keys[order], np.arange(len(self.schema.keys) + 1))
        who = np.repeat(np.arange(len(self.people)), np.diff(self.people.starts))
        return order, starts, who[order]

    def law(self, keys: tuple[int, ...]) -> Floats:
        """The share of every joint state of the keys, the first key the most significant digit."""
        if keys not in self._laws:
            self._laws[keys] = self._law(keys)
        return self._laws[keys]

    def _law(self, keys: tuple[int, ...]) -> Floats:
        if len(keys) == 1:
            return np.asarray(self._one[keys[0]])
        if len(keys) == 2 and self._all_pairs_pay(keys):
            return np.asarray(self._two[keys[0], :, keys[1], :].reshape(-1))
        size = self.levels + 1
        law = np.zeros((size,) * len(keys))
        # First with a key's state 0 for "held or not", from those who hold the other keys.
        for asked in product((False, True), repeat=len(keys)):
            some = tuple(key for key, is_asked in zip(keys, asked, strict=True) if is_asked)
            part = law[(..., *(slice(1, None) if is_asked else 0 for is_asked in asked))]
            part[...] = self._held(some, len(keys)) if some else 1.0
        for axis in range(len(keys)):
            turned = np.moveaxis(law, axis, 0)
            turned[0] -= turned[1:].sum(axis=0)
        law[np.abs(law) < LEAST_SHARE] = 0.0
        return law.reshape(-1)

    def _held(self, keys: tuple[int, ...], whole: int) -> Floats:
        """The share of people who hold all of the keys, by their levels; for a law of ``whole`` keys."""
        if len(keys) == 1:
            return np.asarray(self._one[keys[0], 1:])
        if len(keys) == 2 < whole:
            return self.law(keys).reshape(self.levels + 1, -1)[1:, 1:]
        order, starts, whose = self._by_key
        first = slice(starts[keys[0]], starts[keys[0] + 1])
        who, rows = whose[first], [order[first]]
        for key in keys[1:]:
            own = slice(starts[key], starts[key + 1])
            place = np.full(len(self.people), -1)
            place[whose[own]] = order[own]
            found = place[who]
            here = found >= 0
            who, rows = who[here], [*(each[here] for each in rows), found[here]]
        _, below, up = self._digits
        levels, ups = [below[each] for each in rows], [up[each] for each in rows]
        size = self.levels ** len(keys)
        made = np.zeros(size)
        for rounded in product((0, 1) if self.levels > 1 else (0,), repeat=len(keys)):
            cells, share = np.zeros(len(who), np.int64), np.ones(len(who))
            for level, chance, is_up in zip(levels, ups, rounded, strict=True):
                cells *= self.levels
                cells += level + is_up
                share *= chance if is_up else 1.0 - chance
            made += np.bincount(cells, share, size)
        return (made / len(self.people)).reshape((self.levels,) * len(keys))

    def _all_pairs_pay(self, keys: tuple[int, ...]) -> bool:
        """Whether so many pairs were looked up by their holders that all at once had been quicker."""
        held = np.diff(self._by_key[1])
        self._looked_up += float(held[list(keys)].sum()) + 1000.0
        every = len(self.people) * (len(held) * self.levels) ** 2
        return self._looked_up * COST_OF_HOLDER > every

    # -- for compiled loops ------------------------------------------------------------------------

    @cached_property
    def ups(self) -> np.ndarray:
        """Of every row, at two levels, the word below which its value is rounded up."""
        return np.floor(self.at(2)._digits[2] * WORD).astype(np.uint64)


# -- tallies ---------------------------------------------------------------------------------------


def simulate(plan: Plan, population: Population, people: int, coins: Coins, run: int = 0) -> Tally:
    """A tally of ``people`` independent draws from the population; ``run`` numbers repetitions."""
    counts = _counts(plan, population, people, coins.under(plan.hash).generator(run), 1)
    return Tally(plan, counts[0])


def simulate_runs(
    plan: Plan, population: Population, people: int, coins: Coins, runs: int | Sequence[int]
) -> Integers:
    """Counts ``(runs, cells)`` of so many independent tallies, each of the same law as ``simulate``'s.

    ``runs`` is their number, or the numbers of some repetitions; they are drawn together, so that a row
    is not the tally that ``simulate`` draws under its number.
    """
    numbers = range(runs) if isinstance(runs, int) else runs
    if not len(numbers):
        return np.zeros((0, plan.layout.cells), np.int64)
    draw = coins.under(f"{plan.hash} together").generator(numbers[0])
    return _counts(plan, population, people, draw, len(numbers))


def _counts(
    plan: Plan, population: Population, people: int, draw: np.random.Generator, runs: int
) -> Integers:
    if population.schema.keys != plan.schema.keys:
        raise PlanError("the population has other keys than the plan")
    if plan.encode == "views":
        return _of_views(plan, population.at(plan.schema.levels), people, draw, runs)
    if plan.encode in ("item", "padded", "size"):
        made = _of_states(plan, population.at(plan.schema.levels), people, draw, runs)
        if made is not None:
            return made
    counts = np.zeros((runs, plan.layout.cells), np.int64)
    loops: Any = compiled()
    if plan.encode not in SETS or loops is None:
        for row in counts:
            _by_person(plan, population, people, draw, row)
        return counts
    counts[:, 0] = people
    sets = _Sets(plan, loops)
    many = max(int(people * sets.telling(population) / SLACK), LEAST)
    if min(many, runs * people) > MOST_DRAWN:
        most = int(MOST_DRAWN * people / min(many, runs * people))
        raise PlanError(
            f"whole sets of {people:,} people take too long to draw; simulate at most {most:.0e} people "
            f"with {plan.mechanism} (errors fall as one over people)"
        )
    if type(population).draw is not Population.draw:  # people are made as they are drawn, not a table
        for row, each in zip(counts, draw.spawn(runs), strict=True):
            for first in range(0, people, MANY):
                some = Population(plan.schema, population.draw(min(MANY, people - first), each, first))
                sets.add(some, len(some.people), True, each, row)
        return counts
    _ = population.ups  # made once, before threads ask for it
    if runs * people > 2 * many:
        counts[:, 1:] = _of_law(sets.law(population, many, draw), people, runs, draw)
        return counts
    with ThreadPoolExecutor(min(runs, os.cpu_count() or 1)) as workers:
        jobs = zip(counts, draw.spawn(runs), strict=True)
        list(workers.map(lambda job: sets.add(population, people, False, job[1], job[0]), jobs))
    return counts


def _proper(laws: Floats) -> Floats:
    laws = np.maximum(laws, 0.0)
    return laws / laws.sum(axis=-1, keepdims=True)


def _of_views(
    plan: Plan, population: Population, people: int, draw: np.random.Generator, runs: int
) -> Integers:
    """Reports of views: one multinomial each."""
    layout = plan.layout
    counts = np.zeros((runs, layout.cells), np.int64)
    reports = draw.multinomial(people, plan.views.shares, size=runs)
    counts[:, layout.own] = reports
    for number, channel in enumerate(plan.channels):
        views = plan.views_of(number)
        laws = np.array([population.law(plan.views.keys[view]) for view in views])
        made = _drawn(channel, _proper(laws), reports[:, views], draw)
        if made is None:
            for row in counts:
                row[:] = 0
                _by_person(plan, population, people, draw, row)
            return counts
        cells = layout.own[views][:, None] + 1 + np.arange(channel.cells)
        counts[:, cells] = made
    return counts


def _of_states(
    plan: Plan, population: Population, people: int, draw: np.random.Generator, runs: int
) -> Integers | None:
    """Reports of one view whose state is one drawn item, or a size."""
    channel = plan.channels[0]
    if plan.encode == "size":
        held = np.minimum(bucket_of(np.arange(len(population.sizes))), channel.states - 1)
        law: Floats = np.bincount(held, population.sizes, channel.states).astype(np.float64)
    elif plan.encode == "item":
        items = population.drawn(1).sum(axis=1)
        law = np.concatenate([[max(0.0, 1.0 - items.sum())], items])
    else:
        items = population.drawn(plan.cap).reshape(-1)
        dummy = max(0.0, 1.0 - items.sum()) / (2 * plan.cap)
        law = np.concatenate([items, np.full(2 * plan.cap, dummy)])
    made = _drawn(channel, _proper(law[None, :]), np.full((runs, 1), people), draw)
    if made is None:
        return None
    return np.concatenate([np.full((runs, 1), people), made[:, 0]], axis=1)


def _drawn(
    channel: Channel, laws: Floats, reports: Integers, draw: np.random.Generator
) -> Integers | None:
    """Counts ``(..., cells)`` of so many reports ``(...,)`` whose states follow the laws, or None.

    Where a report marks many cells, its states are drawn first; given these, what positions show is
    independent of each other and of everything else.
    """
    if channel.one_cell:
        return draw.multinomial(reports, _proper(channel.mix(laws)))
    if isinstance(channel, Subset):
        return _subsets(channel, draw.multinomial(reports, laws), draw)
    if not isinstance(channel, Symbols):
        return None
    states = draw.multinomial(reports, laws)
    own = states[..., channel.silent :].reshape(*reports.shape, channel.positions, -1)
    rest = reports[..., None] - own.sum(axis=-1)
    law = np.array(channel.laws, np.float64) / WORD
    if channel.alphabet == 2 and len(law) == 2:
        return draw.binomial(own[..., 0], law[1, 1]) + draw.binomial(rest, law[0, 1])
    law = np.roll(law, -1, axis=1)  # symbol 0 last: it marks nothing
    shown = draw.multinomial(rest, law[0])
    for number, row in enumerate(law[1:]):
        shown = shown + draw.multinomial(own[..., number], row)
    return shown[..., :-1].reshape(*reports.shape, channel.cells)


def _subsets(channel: Subset, states: Integers, draw: np.random.Generator) -> Integers:
    """How often each state is among those sent, from counts ``(..., states)`` of the true ones.

    The sampler's own steps, for all reports at once that have as many states left to choose.
    """
    shown = draw.binomial(states, channel.show / WORD)
    marks, others = shown.copy(), channel.states - 1
    own = np.arange(channel.states)
    waiting = np.zeros((channel.size + 1, *states.shape), np.int64)  # by how many are yet to choose
    waiting[channel.size], waiting[channel.size - 1] = states - shown, shown
    for j in range(others):
        left = others - j
        for need in range(1, channel.size + 1):
            chance = ((need << 32) // left) / WORD
            taken = draw.binomial(waiting[need], min(chance, 1.0))
            for other in (j, j + 1):  # the j-th other state is itself, or one further
                marks[..., other] += (taken * (j + (j >= own) == other)).sum(axis=-1)
            waiting[need - 1] += taken
            waiting[need] -= taken
    return np.asarray(marks)


def _by_person(
    plan: Plan, population: Population, people: int, draw: np.random.Generator, counts: Integers
) -> None:
    """Draw people and run the line itself, with words from the generator."""
    words = max(plan.words_of(view) for view in range(len(plan.views)))
    chunk = max(1, min(CHUNK, (1 << 22) // words))
    tally = Tally(plan, counts)
    for first in range(0, people, chunk):
        some = population.draw(min(chunk, people - first), draw, first)
        ready = draw.integers(0, WORD, (len(some), words), np.uint32)
        stream = Stream(Coins.stated("not used"), some.addresses, ready=ready)
        views, outputs = plan.perturb(some, stream)
        if plan.layout.one_cell:
            codes = (plan.layout.first_code[views] + outputs).astype(plan.layout.code_type)
            tally.add(Reports(plan.hash, codes=codes))
        else:
            bits = np.packbits(outputs, axis=1, bitorder="little")
            tally.add(Reports(plan.hash, views=views, bits=bits))


class _Sets:
    """Reports about whole sets, by the compiled loop of the plan's channel."""

    def __init__(self, plan: Plan, loops: Any) -> None:
        channel, keys = plan.channels[0], len(plan.schema.keys)
        numbers = np.arange(2 * keys, dtype=np.uint32) + np.uint32(0x9E3779B9)
        if isinstance(channel, CoCo):
            rest = np.array([channel.left(j) for j in range(channel.held + 1)], np.int64)
            more: tuple[Any, ...] = (mixed(numbers[:keys]), channel.salt, channel.pool, channel.small)
            self._draw, self._more = loops.draw_coco, (*more, channel.high, channel.low, rest)
        else:
            assert isinstance(channel, Collision)
            rest = np.array([channel.low(j) for j in range(channel.held + 1)], np.int64)
            pairs = keys if plan.encode == "pair_items" else 0
            more = (pairs, mixed(numbers), channel.salt, channel.pool, channel.small)
            self._draw, self._more = loops.draw_collision, (*more, channel.high, rest)
        self._cap, self._pool, self._small = plan.cap, channel.pool, channel.small
        self._channel, self._pairs = channel, plan.encode == "pair_items"

    def add(
        self,
        population: Population,
        people: int,
        once: bool,
        draw: np.random.Generator,
        counts: Integers,
    ) -> None:
        """Add so many people's reports: drawn from the population's table, or each of it once."""
        table, seed = population.people, draw.integers(0, 1 << 64, dtype=np.uint64)
        rows = table.starts, np.ascontiguousarray(table.keys), population.ups
        self._draw(people, once, *rows, self._cap, *self._more, seed, counts[1:], _NO_LAW)

    def telling(self, population: Population) -> float:
        """The variance of a cell's weight between people, by that of whether it is reported."""
        kept = float(population.sizes @ np.minimum(np.arange(len(population.sizes)), self._cap))
        channel, cells = self._channel, self._small
        if isinstance(channel, CoCo):
            empty = channel.left(self._cap)[0]
            apart = (channel.high - empty) ** 2 + (channel.low - empty) ** 2
            return self._cap * apart / WORD**2
        held = kept * (kept + 1) / 2 if self._pairs else kept
        empty = channel.low(min(round(held), channel.held))[0]
        return held * (1 - min(held / cells, 1.0)) * ((channel.high - empty) / WORD) ** 2

    def law(self, population: Population, people: int, draw: np.random.Generator) -> Floats:
        """The law of the cells under each seed, a row each: averaged over so many people's own."""
        made = np.zeros((self._pool, 1 + self._small))
        people = -(-people // len(population.people)) * len(population.people)
        table, seed = population.people, draw.integers(0, 1 << 64, dtype=np.uint64)
        rows = table.starts, np.ascontiguousarray(table.keys), population.ups
        nothing = np.zeros(0, np.int64)
        self._draw(people, False, *rows, self._cap, *self._more, seed, nothing, made)
        made = made[:, 1:] + made[:, :1]
        made[made.sum(axis=1) == 0] = 1.0  # a seed that no one drew
        return _proper(made)


def _of_law(laws: Floats, people: int, runs: int, draw: np.random.Generator) -> Integers:
    """Counts of reports whose seeds are drawn evenly and whose cells follow the seed's law."""
    seeds = draw.multinomial(people, np.full(len(laws), 1.0 / len(laws)), size=runs)
    counts = np.empty((runs, laws.size), np.int64)
    for row, own in zip(counts, seeds, strict=True):
        row[:] = draw.multinomial(own, laws).reshape(-1)
    return counts
