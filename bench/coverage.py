"""How often a 95 % interval contains the truth, over mechanisms, estimators and populations.

The simulation is exact and needs no people: a key's counts are one multinomial draw from the law of
its outputs. If reports speak of one key, one tally holds all repetitions, one key for each.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import cache
from itertools import product

import numpy as np

from keyveil import REGISTRY, Answers, Coins, KeyveilError, Plan, Schema, Tally, estimate
from keyveil.channel import Halfspace, Hash, Symbols, Symmetric
from keyveil.estimate.forecast.key_forecast import state_law
from keyveil.mechanisms.rounds import frequencies, next_feedback, round_draft

from .table import Outcome, Table, rows

LEVEL = 0.95
REPORTS = 10_000
LOWEST, HIGHEST = 0.93, 0.97
MOSTLY = 0.99
"""If this share of intervals is bounded, they must not cover too often either."""


@dataclass(frozen=True)
class Grid:
    """The values of the grid, and the number of repetitions of each cell."""

    repetitions: int
    epsilons: tuple[str, ...]
    frequencies: tuple[float, ...]
    means: tuple[float, ...]


FULL = Grid(4_000, ("0.1", "0.5", "1", "2", "5"), (0.05, 0.2, 0.6, 0.8), (-0.8, 0.0, 0.8))
QUICK = Grid(4_000, ("1",), (0.05, 0.6), (0.8,))

CHAINS = ("privkvm", "privkvm_plus")
ONLY_REPORTED = "likelihood"
"""The estimator that need not keep the bounds.

It cannot leave the simplex, so its intervals may cover too often near the boundary. It is slow, so it
has a quarter of the repetitions, at one of the means.
"""


@dataclass(frozen=True)
class Cell:
    """One answer at one point of the grid: the shares of covering and of bounded intervals."""

    mechanism: str
    estimator: str
    answer: str
    epsilon: str
    frequency: float
    mean: float
    covered: float
    bounded: float

    @property
    def good(self) -> bool:
        """Whether the cell meets its requirement."""
        return self.covered >= LOWEST and (self.bounded < MOSTLY or self.covered <= HIGHEST)

    @property
    def off(self) -> float:
        """Distance from the level; covering too often counts only if intervals are bounded."""
        return abs(self.covered - LEVEL) if self.bounded >= MOSTLY else LEVEL - self.covered

    def __str__(self) -> str:
        return f"epsilon {self.epsilon}, f {self.frequency:g}, m {self.mean:g}"


# -- the run ---------------------------------------------------------------------------------------


def run(quick: bool) -> Outcome:
    """The coverage of every claimed interval over the grid."""
    grid = QUICK if quick else FULL
    names = [name for name in REGISTRY if can_simulate(name)]
    others = ", ".join(name for name in REGISTRY if name not in names)
    tasks = [Task(name, epsilon, grid) for name in names for epsilon in grid.epsilons]
    tasks.sort(key=lambda task: float(task.epsilon))  # likelihood takes longest at small epsilon
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        cells = [cell for batch in pool.map(Task.cells, tasks) for cell in batch]
    cells.sort(key=lambda cell: (list(REGISTRY).index(cell.mechanism), float(cell.epsilon)))
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.mechanism, cell.estimator, cell.answer), []).append(cell)
    bad = [cell for cell in cells if not cell.good and cell.estimator != ONLY_REPORTED]
    noise = (LEVEL * (1 - LEVEL) / grid.repetitions) ** 0.5
    shown = Table(
        f"Coverage of {LEVEL:.0%} intervals, {REPORTS:,} reports a key, {grid.repetitions:,} times each",
        COLUMNS,
        rows(_line(key, batch) for key, batch in groups.items()),
        f"Aim: {LOWEST:.0%} to {HIGHEST:.0%} in cells where at least {MOSTLY:.0%} of intervals are "
        f"bounded, at least {LOWEST:.0%} elsewhere; likelihood is reported only, at a quarter of the "
        f"repetitions and one mean. One standard deviation of a cell's figure is {noise:.2%}, so that "
        f"the bounds are {(LEVEL - LOWEST) / noise:.1f} of them away."
        + (f" Not simulated here: {others}." if others else ""),
    )
    figures = {"cells": [asdict(cell) for cell in cells], "standard deviation": noise}
    missed = [f"{c.mechanism} {c.estimator} {c.answer}, {c}: {c.covered:.1%}" for c in bad]
    return Outcome("coverage", (shown,), figures, tuple(missed))


COLUMNS = (
    "mechanism",
    "estimator",
    "answer",
    "least",
    "median",
    "most",
    "cells",
    "least elsewhere",
    "worst cell",
)


def _line(key: tuple[str, str, str], cells: list[Cell]) -> tuple[str, ...]:
    """Cells with mostly bounded intervals, the least coverage of the others, and the worst cell."""
    inside = [cell.covered for cell in cells if cell.bounded >= MOSTLY]
    elsewhere = [cell.covered for cell in cells if cell.bounded < MOSTLY]
    worst = max(cells, key=lambda cell: cell.off)
    return (
        *key,
        f"{min(inside):.1%}",
        f"{float(np.median(inside)):.1%}",
        f"{max(inside):.1%}",
        str(len(inside)),
        f"{min(elsewhere):.1%} in {len(elsewhere)}" if elsewhere else "",
        f"{worst.covered:.1%} at {worst}",
    )


@dataclass(frozen=True)
class Task:
    """All populations for one mechanism at one epsilon: the task of one worker."""

    mechanism: str
    epsilon: str
    grid: Grid

    def cells(self) -> list[Cell]:
        """The coverage of every estimator that claims intervals."""
        coins = Coins.stated(f"coverage {self.mechanism} {self.epsilon}")
        cells = []
        for stream, (frequency, mean) in enumerate(product(self.grid.frequencies, self.means)):
            rng = coins.generator(stream)
            truth = {"frequency": frequency, "mean": mean, "mass": frequency * mean}
            tallies = list(simulated(self, frequency, mean, rng))
            for estimator in REGISTRY[self.mechanism].estimators:
                sample = tallies
                if estimator == ONLY_REPORTED:
                    if mean != self.means[-1]:
                        continue
                    sample = _quarter(self, tallies)
                answers = [estimate(tally.plan, tally, estimator, LEVEL) for tally in sample]
                for answer in REGISTRY[self.mechanism].answers:
                    low, high = _ends(answers, answer)
                    if np.isnan(low).any():
                        continue  # biased, so it claims no interval
                    covered = float(((low <= truth[answer]) & (truth[answer] <= high)).mean())
                    bounded = float((np.isfinite(low) & np.isfinite(high)).mean())
                    where = (self.mechanism, estimator, answer, self.epsilon, frequency, mean)
                    cells.append(Cell(*where, covered, bounded))
        return cells

    @property
    def means(self) -> tuple[float, ...]:
        """The means to measure; mechanisms that ignore values need only one."""
        return (0.0,) if REGISTRY[self.mechanism].answers == ("frequency",) else self.grid.means


def _ends(batches: list[Answers], answer: str) -> np.ndarray:
    """Both ends of the intervals: of one key of each batch, or of all keys of a single batch."""
    keys = batches[0].keys if len(batches) == 1 else [batch.keys[0] for batch in batches]
    estimates = [getattr(key, answer) for key in keys]
    return np.array([(estimate.low, estimate.high) for estimate in estimates]).T


def _quarter(task: Task, tallies: list[Tally]) -> list[Tally]:
    """The first quarter of the repetitions of a mechanism that speaks of one key."""
    plan = _plan(task.mechanism, task.epsilon, task.grid.repetitions // 4)
    return [Tally(plan, tallies[0].counts[: plan.layout.cells])]


# -- exact counts ----------------------------------------------------------------------------------


@cache
def _plan(mechanism: str, epsilon: str, keys: int) -> Plan:
    return Plan.of(Schema.of(keys), mechanism, epsilon)


def can_simulate(mechanism: str) -> bool:
    """Whether counts can be drawn here: reports of one key, one item or all signs."""
    try:
        plan = _plan(mechanism, "1", 3)
    except KeyveilError:
        return False  # it needs more parameters, such as the pairs
    if plan.parts is not None:
        return False
    if plan.encoding.speaks_of_views:
        return all(len(view) == 1 for view in plan.views.keys)
    if plan.encoding.draws_held_key:
        return isinstance(plan.channels[0], Symmetric | Symbols | Hash)
    return plan.encoding.state_kind == "signs"


def simulated(task: Task, frequency: float, mean: float, rng: np.random.Generator) -> Iterator[Tally]:
    """Tallies of all repetitions: one of many keys, or many whose first key is asked about."""
    count = task.grid.repetitions
    plan = _plan(task.mechanism, task.epsilon, 3)
    if plan.encoding.speaks_of_views:
        plan = _plan(task.mechanism, task.epsilon, count)
        tally = _singles(plan, frequency, mean, rng)
        yield _second_round(plan, tally, frequency, mean, rng) if task.mechanism in CHAINS else tally
        return
    laws = _items if plan.encoding.draws_held_key else _signs
    for counts in laws(plan, frequency, mean, count, rng):
        yield Tally(plan, counts)


def _singles(plan: Plan, frequency: float, mean: float, rng: np.random.Generator) -> Tally:
    """A tally of equal keys with REPORTS reports each."""
    counts = np.zeros(plan.layout.cells, np.int64)
    counts[plan.layout.own] = REPORTS
    states = state_law(plan, frequency, mean)
    laws = [states @ channel.expected() for channel in plan.channels]
    of = plan.channel_of or (0,) * len(plan.views)
    drawn = [rng.multinomial(REPORTS, laws[number] / laws[number].sum()) for number in of]
    counts[plan.layout.code_cells] = np.concatenate(drawn)
    return Tally(plan, counts)


def _second_round(
    plan: Plan, tally: Tally, frequency: float, mean: float, rng: np.random.Generator
) -> Tally:
    """Counts of the second round, with feedback from the tally of the first.

    Feedback is rounded to two places, so that keys share channels and large plans stay small.
    """
    assert plan.chain is not None
    feedback = [str(round(Decimal(value), 2)) for value in next_feedback(plan, tally)]
    chain = {**plan.chain, "round": 2, "parent": plan.hash, "frequency": frequencies(plan, tally)}
    rest = Decimal(plan.chain["total"]) / 2
    value = rest / (2 if plan.mechanism_name == "privkvm_plus" else int(plan.parameters["rounds"]))
    draft = round_draft(plan.schema, 0.0, value, value, feedback, chain)
    follow = Plan(
        draft.schema,
        draft.views,
        draft.encode,
        draft.channels,
        draft.promised,
        plan.mechanism_name,
        channel_of=draft.channel_of,
        parameters=plan.parameters,
        chain=draft.chain,
    )
    return _singles(follow, frequency, mean, rng)


def _items(
    plan: Plan, frequency: float, mean: float, count: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Tallies in which one key has the stated frequency; the others and "none" share the rest."""
    channel = plan.channels[0]
    states = np.full(channel.states, (1 - frequency) / (channel.states - 1))
    states[1] = frequency
    if channel.one_cell:
        law = channel.mix(states)
        outputs = rng.multinomial(REPORTS, law / law.sum(), count)
    else:
        assert isinstance(channel, Symbols)
        (_, fake), (_, show) = np.array(channel.laws) / 2**32
        held = rng.multinomial(REPORTS, states, count)[:, 1:]
        outputs = rng.binomial(held, show) + rng.binomial(REPORTS - held, fake)
    for row in outputs:
        yield np.concatenate([[REPORTS], row])


def _signs(
    plan: Plan, frequency: float, mean: float, count: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Tallies of independent keys with the stated frequency and mean."""
    channel = plan.channels[0]
    assert isinstance(channel, Halfspace)
    high = (1 + frequency * mean) / 2
    signs = np.arange(1 << channel.signs)[:, None] >> np.arange(channel.signs) & 1
    law = np.where(signs == 1, high, 1 - high).prod(axis=1) @ channel.expected()
    for row in rng.multinomial(REPORTS, law / law.sum(), count):
        yield np.concatenate([[REPORTS], row])
