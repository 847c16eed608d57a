"""Simulation without people: tallies drawn straight from a population's law.

People are an independent draw from the population (a table's records, each equally likely). Then the
outputs of a view's reports are one multinomial draw, and bits are binomial given the states: a
repetition costs the same for a thousand people as for a billion, and its law is exactly that of the
per-person path.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .arrays import WORD, Floats
from .channel import Symbols
from .coins import Coins
from .errors import PlanError
from .people import People
from .schema import Schema
from .tally import Tally

if TYPE_CHECKING:
    from .plan import Plan

CHUNK = 1 << 14


class Population:
    """The law of records: the share of every joint state of any keys, rounding included."""

    def __init__(self, schema: Schema, people: People, levels: int = 2) -> None:
        if not len(people):
            raise PlanError("a population needs at least one person")
        self.schema, self.people, self.levels = schema.at(levels), people, levels
        self._laws: dict[tuple[int, ...], Floats] = {}

    def on_unit_scale(self) -> Population:
        """The same population with every key's values on [-1, 1]."""
        schema, people = self.schema, self.people
        if bool((schema.low == -1).all() and (schema.high == 1).all()):
            return self
        keys = people.keys.astype(np.int64)
        low, high = schema.low[keys], schema.high[keys]
        values = np.clip((people.values - low) / (high - low) * 2 - 1, -1, 1)
        return Population(Schema.of(list(schema.keys)), replace(people, values=values), self.levels)

    @cached_property
    def chances(self) -> Floats:
        """Person by key by state: the chance that the key's digit is that after rounding."""
        people, schema = self.people, self.schema
        states = self.levels + 1
        made = np.zeros((len(people), len(schema.keys), states))
        made[:, :, 0] = 1.0
        who = np.repeat(np.arange(len(people)), np.diff(people.starts))
        keys = people.keys.astype(np.int64)
        made[who, keys, 0] = 0.0
        if self.levels == 1:
            made[who, keys, 1] = 1.0
            return made
        low, high = schema.low[keys], schema.high[keys]
        at = (people.values - low) / (high - low) * (self.levels - 1)
        below = np.minimum(np.floor(at), self.levels - 2).astype(np.int64)
        made[who, keys, below + 1] = 1.0 - (at - below)
        made[who, keys, below + 2] = at - below
        return made

    @cached_property
    def _two(self) -> Floats:
        """The joint law of every two keys: (key, state, key, state)."""
        people, keys, states = self.chances.shape
        flat = self.chances.reshape(people, keys * states)
        return (flat.T @ flat / people).reshape(keys, states, keys, states)

    def law(self, keys: tuple[int, ...]) -> Floats:
        """The share of every joint state of the keys, the first key the most significant digit."""
        if keys not in self._laws:
            self._laws[keys] = self._law(keys)
        return self._laws[keys]

    def _law(self, keys: tuple[int, ...]) -> Floats:
        if len(keys) == 1:
            return np.asarray(self.chances[:, keys[0]].mean(axis=0))
        if len(keys) == 2:
            return np.asarray(self._two[keys[0], :, keys[1], :].reshape(-1))
        total = np.zeros((self.levels + 1) ** len(keys))
        for first in range(0, len(self.people), CHUNK):
            part = self.chances[first : first + CHUNK]
            joint = part[:, keys[0]]
            for key in keys[1:-1]:
                joint = (joint[:, :, None] * part[:, key, None, :]).reshape(len(part), -1)
            total += (joint.T @ part[:, keys[-1]]).reshape(-1)
        return total / len(self.people)


def simulate(plan: Plan, population: Population, people: int, coins: Coins, run: int = 0) -> Tally:
    """A tally of ``people`` independent draws from the population; ``run`` numbers repetitions."""
    if plan.encode != "views":
        return _by_person(plan, population, people, coins, run)
    if population.levels != plan.schema.levels or population.schema.keys != plan.schema.keys:
        raise PlanError("the population has other keys or levels than the plan")
    draw = coins.under(plan.hash).generator(run)
    tally, layout = Tally(plan), plan.layout
    reports = draw.multinomial(people, plan.views.shares)
    tally.counts[layout.own] = reports
    for number, channel in enumerate(plan.channels):
        views = plan.views_of(number)
        laws = np.array([population.law(plan.views.keys[view]) for view in views])
        cells = layout.own[views][:, None] + 1 + np.arange(channel.cells)
        if channel.one_cell:
            tally.counts[cells] = draw.multinomial(reports[views], _proper(channel.mix(laws)))
        elif isinstance(channel, Symbols) and channel.alphabet == 2 and len(channel.laws) == 2:
            fake, show = (law[1] / WORD for law in channel.laws)
            states = draw.multinomial(reports[views], _proper(laws))
            true = states[:, channel.silent :]
            rest = reports[views][:, None] - true
            tally.counts[cells] = draw.binomial(true, show) + draw.binomial(rest, fake)
        else:
            raise PlanError(f"reports of shape {channel.shape} that mark many cells are not simulated")
    return tally


def _proper(laws: Floats) -> Floats:
    laws = np.maximum(laws, 0.0)
    return laws / laws.sum(axis=1, keepdims=True)


def _by_person(plan: Plan, population: Population, people: int, coins: Coins, run: int) -> Tally:
    """Encodings whose state is no view's: draw people from the table and run the line itself."""
    draw = coins.under(plan.hash).generator(run)
    table, tally = population.people, Tally(plan)
    for first in range(0, people, CHUNK):
        rows = draw.integers(0, len(table), min(CHUNK, people - first))
        numbers = np.arange(first, first + len(rows), dtype=np.int64)
        tally.add(plan.privatise(table.chosen(rows, numbers), coins.under(f"run {run}")))
    return tally
