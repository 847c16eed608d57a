"""Checks of an encoding: its stated laws against all words of a grid."""

from __future__ import annotations

from itertools import product

import numpy as np

from ..foundation.arrays import WORD
from ..foundation.coins import Coins
from ..foundation.stream import Stream
from ..people.people import People
from ..people.population import Population
from ..plan.encoding import Encoding, Held, State, StateLaw
from ..plan.plan import Plan
from .assertions import check_each_part, require
from .record_laws import crowd, record_law, state_law

GRID = 6
"""Number of values that represent all words in ``check_encoding``; divisible by two and three."""

_WORDS = 1e-8
"""Tolerance between shares of 2^32 words and exact fractions: a few words."""


def check_encoding(plan: Plan) -> None:
    """Check the stated laws of a plan's encoding by enumeration, for at most three keys.

    ``record_law`` is compared with the states of a grid of words. The grid has ``GRID`` numbers for
    every word, and values are multiples of its step, so both have the same shares up to 2^-32.
    ``population_law`` is compared with the average of ``record_law`` over people.
    """
    if plan.parts is not None:
        check_each_part(plan, check_encoding)
        return
    keys = len(plan.schema.keys)
    require(keys <= 3, "the grid of words is for plans of at most three keys")
    low, high = plan.schema.low, plan.schema.high
    records: list[Held] = [
        {k: float(low[k] + (high[k] - low[k]) * ((2 * k + 1) % GRID) / GRID) for k in places}
        for places in _subsets(keys)
    ]
    for view in range(len(plan.views)):
        for held in records:
            _check_record_law(plan, view, held)
        _check_population_law(plan, view, records)
        _check_facts(plan, view, records)


def _subsets(keys: int) -> list[list[int]]:
    """All sets of places of ``keys`` keys."""
    return [[k for k in range(keys) if number >> k & 1] for number in range(1 << keys)]


def _check_record_law(plan: Plan, view: int, held: Held) -> None:
    encoding, places = plan.encoding, plan.views.keys[view]
    taken = encoding.words(plan.schema, len(places), plan.cap)
    numbers = [(2 * i + 1) * WORD // (2 * GRID) for i in range(GRID)]
    words = np.array(list(product(numbers, repeat=taken)), np.uint32).reshape(GRID**taken, taken)
    people = crowd(plan.schema, {plan.schema.keys[k]: value for k, value in held.items()}, len(words))
    stream = Stream(Coins.stated("not used"), people.addresses, ready=words)
    picked = np.full(len(people), view)
    states = encoding.encode(plan.schema, plan.views, people, picked, stream, plan.cap)
    seen: StateLaw = {}
    rows, counts = np.unique(states.reshape(len(words), -1), axis=0, return_counts=True)
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        state = _as_state(encoding, row)
        seen[state] = seen.get(state, 0.0) + count / len(words)
    law = state_law(plan, view, held)
    for state in {*seen, *law}:
        enumerated, stated = seen.get(state, 0.0), law.get(state, 0.0)
        require(
            abs(enumerated - stated) <= _WORDS,
            f"{encoding.name}: state {state} of {len(held)} held keys has chance {enumerated} over all "
            f"words, and record_law says {stated}",
        )


def _as_state(encoding: Encoding, row: list[int]) -> State:
    """A row of ``encode`` in the form of the states of ``record_law``."""
    if encoding.speaks_of_sets:
        return tuple(sorted(item for item in row if item >= 0))
    return row[0] if encoding.state_kind == "number" else tuple(row)


def _check_facts(plan: Plan, view: int, records: list[Held]) -> None:
    """Check the largest probability of a state, and that a state of a key means that the key is held."""
    encoding, largest = plan.encoding, plan.encoding.largest_chance(plan.cap)
    owner = {s: place for place in plan.views.keys[view] for s in encoding.key_states(place)}
    for held in records:
        law = state_law(plan, view, held)
        most = max(law.values())
        require(most <= largest + _WORDS, f"{encoding.name}: a state has chance {most}, above {largest}")
        if encoding.keyless:
            named = {owner[state] for state in law if state in owner}
            require(named == set(held), f"{encoding.name}: states name {named}, not {set(held)}")
    laws = [state_law(plan, view, held) for held in ({}, *encoding.telling_records(plan.schema))]
    several = all(first != second for at, first in enumerate(laws) for second in laws[:at])
    require(several, f"{encoding.name}: two of its telling records have the same law")


def _check_population_law(plan: Plan, view: int, records: list[Held]) -> None:
    encoding, names = plan.encoding, plan.schema.keys
    table = [{names[k]: value for k, value in held.items()} for held in records]
    population = Population(plan.schema, People.of_records(plan.schema, table), plan.schema.levels)
    law = encoding.population_law(population, plan.views.keys[view], plan.cap)
    numbers = encoding.state_kind == "number"
    require((law is not None) == numbers, f"{encoding.name}: only numbers have a population_law")
    if law is None:
        return
    average = np.mean([record_law(plan, held, view) for held in records], axis=0)
    off = float(np.abs(law - average).max())
    require(off <= _WORDS, f"{encoding.name}: population_law is off the records' average by {off}")
