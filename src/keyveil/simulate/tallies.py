"""Simulation without people: tallies drawn straight from a population's law.

People are an independent draw from the population (a table's records, each equally likely). Then the
outputs of a view's reports are one multinomial draw, and so are the states of those who are drawn one
item of their own; what positions show is multinomial given the states. A repetition costs the same for
a thousand people as for a billion, and its law is exactly that of the per-person path. Only reports
that speak of a whole set need people: those are drawn from the table, in a compiled loop if that pays
and with the same result in NumPy if not. For many repetitions it is faster to average the law of such
reports first. Each pass over the table draws a seed for every person and adds the law of that person's
report, until the variance of the average is 1 % of that of a repetition. Repetitions are then drawn from
the averaged law.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channel.law_arrays import as_laws, random_stream
from ..channel.shapes import table_draws
from ..channel.shapes.seed_pool import pool_of
from ..foundation.arrays import Floats, Integers
from ..foundation.coins import Coins
from ..foundation.compiled import worthwhile
from ..foundation.errors import PlanError
from ..people.population import Population
from ..plan.tally import Tally

if TYPE_CHECKING:
    from ..plan.plan import Plan

CHUNK = 1 << 14
MANY = 1 << 16
"""Number of people who are made and drawn at a time."""
LEAST = 1 << 19
"""Minimum number of people whose laws are averaged."""
SLACK = 0.01
"""Variance of an averaged law, relative to that of a repetition."""
MOST_DRAWN = 1 << 32
"""Maximum number of people whose whole sets are drawn, or whose laws are averaged: minutes of work."""
_A_PERSON, _AN_ITEM = 3e-7, 1e-7
"""Seconds that the plain form takes for a person, and for each item of a set."""
_NO_LAW: Floats = np.zeros((0, 0))


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
    plan: Plan,
    population: Population,
    people: int | Integers,
    draw: np.random.Generator,
    runs: int,
) -> Integers:
    """Counts ``(runs, cells)``; ``people`` is the number of people in every run, or in each."""
    if population.schema.keys != plan.schema.keys:
        raise PlanError("the population has other keys than the plan")
    if plan.parts is not None:
        shares = np.array([part.share for part in plan.parts])
        asked = draw.multinomial(people, shares, size=runs)
        parts = zip(plan.part_plans, asked.T, strict=True)
        return np.concatenate([_counts(own, population, n, draw, runs) for own, n in parts], axis=1)
    counts = _of_laws(plan, population.at(plan.schema.levels), people, draw, runs)
    if counts is not None:
        return counts
    counts = np.zeros((runs, plan.layout.cells), np.int64)
    if not plan.encoding.speaks_of_sets:
        for row, own in zip(counts, _people_of_runs(people, runs), strict=True):
            _by_person(plan, population, own, draw, row)
        return counts
    counts[:, 0] = people
    _add_sets(plan, population, _people_of_runs(people, runs), draw, SetCounts(plan), counts)
    return counts


def _add_sets(
    plan: Plan,
    population: Population,
    numbers: list[int],
    draw: np.random.Generator,
    sets: SetCounts,
    counts: Integers,
) -> None:
    """Add the cells of reports about whole sets to ``counts``, of ``numbers`` people in each run."""
    people, total = max(numbers), sum(numbers)
    many = max(int(people * sets.telling(population) / SLACK), LEAST)
    if min(many, total) > MOST_DRAWN:
        most = int(MOST_DRAWN * people / min(many, total))
        raise PlanError(
            f"whole sets of {people:,} people take too long to draw; simulate at most {most:.0e} people "
            f"with {plan.mechanism_name} (errors fall as one over people)"
        )
    drawn_anew = type(population).draw is not Population.draw
    sets.choose_form(total if drawn_anew else min(many, total))
    if drawn_anew:  # people are made as they are drawn, not a table
        for row, own, generator in zip(counts, numbers, draw.spawn(len(numbers)), strict=True):
            for first in range(0, own, MANY):
                drawn = Population(
                    plan.schema, population.draw(min(MANY, own - first), generator, first)
                )
                sets.add(drawn, len(drawn.people), True, generator, row)
        return
    _ = population.ups  # made once, before threads ask for it
    if total > 2 * many:
        counts[:, 1:] = _of_law(sets.law(population, many, draw), counts[:, 0], draw)
        return
    with ThreadPoolExecutor(min(len(numbers), os.cpu_count() or 1)) as workers:
        jobs = zip(counts, numbers, draw.spawn(len(numbers)), strict=True)
        list(workers.map(lambda job: sets.add(population, job[1], False, job[2], job[0]), jobs))


def _people_of_runs(people: int | Integers, runs: int) -> list[int]:
    """The number of people of each run."""
    numbers: list[int] = np.broadcast_to(people, (runs,)).tolist()
    return numbers


def _of_laws(
    plan: Plan,
    population: Population,
    people: int | Integers,
    draw: np.random.Generator,
    runs: int,
) -> Integers | None:
    """Counts ``(runs, cells)`` from the laws of the views' states, one multinomial draw each.

    None where the states are no numbers.
    """
    layout, keys = plan.layout, plan.views.keys
    laws = [plan.encoding.population_law(population, view, plan.cap) for view in keys]
    known = [law for law in laws if law is not None]
    if len(known) < len(keys):
        return None
    counts = np.zeros((runs, layout.cells), np.int64)
    reports = draw.multinomial(people, plan.views.shares, size=runs)
    counts[:, layout.own] = reports
    for number, channel in enumerate(plan.channels):
        views = plan.views_of(number)
        view_laws = as_laws(np.array([known[view] for view in views]))
        cells = layout.own[views][:, None] + 1 + np.arange(channel.cells)
        counts[:, cells] = channel.draw_counts(view_laws, reports[:, views], draw)
    return counts


def _by_person(
    plan: Plan, population: Population, people: int, draw: np.random.Generator, counts: Integers
) -> None:
    """Draw people and run the line itself, with words from the generator."""
    words = max(plan.words_of(view) for view in range(len(plan.views)))
    chunk = max(1, min(CHUNK, (1 << 22) // words))
    tally = Tally(plan, counts)
    for first in range(0, people, chunk):
        drawn = population.draw(min(chunk, people - first), draw, first)
        stream = random_stream(len(drawn), words, draw)
        tally.add(plan.packing.batch(*plan.perturb(drawn, stream)))


class SetCounts:
    """Reports about whole sets, by the loop of the plan's channel: compiled, or its plain form."""

    def __init__(self, plan: Plan) -> None:
        self._channel, self._keys = pool_of(plan.channels[0]), len(plan.schema.keys)
        self._pairs, self._cap = plan.encoding.item_width > 1, plan.cap
        self.choose_form(0)

    def choose_form(self, people: int) -> None:
        """Take the form that is sooner done with so many people; both draw the same."""
        items = self._cap * (self._cap + 1) // 2 if self._pairs else self._cap
        loops: Any = worthwhile(people * (_A_PERSON + items * _AN_ITEM), "drawn_people")
        form = table_draws if loops is None else loops
        self._draw, self._more = self._channel.table_draw(form, self._keys, self._pairs)

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
        return self._channel.weight_variance(kept * (kept + 1) / 2 if self._pairs else kept)

    def law(self, population: Population, people: int, draw: np.random.Generator) -> Floats:
        """The law of the cells under each seed, a row each: averaged over so many people's own."""
        law = np.zeros((self._channel.pool, 1 + self._channel.small))
        people = -(-people // len(population.people)) * len(population.people)
        table, seed = population.people, draw.integers(0, 1 << 64, dtype=np.uint64)
        rows = table.starts, np.ascontiguousarray(table.keys), population.ups
        nothing = np.zeros(0, np.int64)
        self._draw(people, False, *rows, self._cap, *self._more, seed, nothing, law)
        law = law[:, 1:] + law[:, :1]
        law[law.sum(axis=1) == 0] = 1.0  # a seed that no one drew
        return as_laws(law)


def _of_law(laws: Floats, people: Integers, draw: np.random.Generator) -> Integers:
    """Counts of reports whose seeds are drawn evenly and whose cells follow the seed's law."""
    seeds = draw.multinomial(people, np.full(len(laws), 1.0 / len(laws)))
    counts = np.empty((len(people), laws.size), np.int64)
    for row, own in zip(counts, seeds, strict=True):
        row[:] = draw.multinomial(own, laws).reshape(-1)
    return counts
