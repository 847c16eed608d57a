"""Simulation on an engine: a population's tally in segments, the same on every engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..foundation.arrays import Integers
from ..foundation.coins import Coins
from ..foundation.errors import PlanError
from ..people.population import Population
from ..plan.engines.engine import Engine, Progress
from ..plan.engines.local_pool import LocalPool
from ..plan.engines.shipped_plan import job_coins, ship, unship
from ..plan.plan import Plan
from ..plan.tally import Tally
from .tallies import simulate

SEGMENT_PEOPLE = 1 << 24
"""Approximate number of people in a segment."""
MOST_SEGMENTS = 64


@dataclass(frozen=True)
class SimulateSegment:
    """Draws the counts of some people under the number of their segment."""

    plan: str
    population: Population
    coins: Coins = field(repr=False)

    def __call__(self, segment: tuple[int, int]) -> Integers:
        number, people = segment
        return simulate(unship(self.plan), self.population, people, self.coins, number).counts


def simulate_on(
    engine: Engine | None,
    plan: Plan,
    population: Population,
    people: int,
    coins: Coins | None = None,
    *,
    progress: Progress | None = None,
) -> Tally:
    """A tally of ``people`` independent draws from the population, made on an engine.

    Its law is that of ``simulate``. The same stated coins give the same tally on every engine, with
    and without Numba.
    """
    if people < 1:
        raise PlanError("a simulation needs at least one person")
    number = min(MOST_SEGMENTS, -(-people // SEGMENT_PEOPLE))
    ends = [people * place // number for place in range(number + 1)]
    segments = [(place, ends[place + 1] - ends[place]) for place in range(number)]
    work = SimulateSegment(ship(plan), population, job_coins(coins))
    counts = (engine or LocalPool()).sum(work, segments, progress)
    return Tally(plan) if counts is None else Tally(plan, counts)
