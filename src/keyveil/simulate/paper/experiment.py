"""What an experiment is: its settings, rows of numbers, figures and claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ...foundation.coins import Coins
from ...people.synthetic import KnownPopulation
from .. import contest_row

T = TypeVar("T")
Row = dict[str, Any]
"""One line of an experiment's numbers: names to texts, whole numbers and floats."""

CONFIRMED, REFUTED, ONLY_IF = "confirmed", "not confirmed", "true only if"

EPSILONS = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
"""The paper's epsilons."""
PEOPLE = 100_000
"""The paper's number of people."""
STATISTICS = tuple(contest_row.STATISTICS)
"""The statistics whose errors are measured."""


@dataclass(frozen=True)
class Job:
    """One setting of an experiment, and its relative cost."""

    what: dict[str, Any]
    cost: float = 1.0


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and our verdict on it."""

    place: str
    text: str
    verdict: str
    """CONFIRMED, REFUTED, or ONLY_IF and the condition."""
    evidence: str
    """The numbers, in words."""
    figure: str
    """The evidence: figures separated by commas, or the file of numbers."""

    @property
    def kind(self) -> str:
        """The verdict without its condition."""
        return ONLY_IF if self.verdict.startswith(ONLY_IF) else self.verdict


@dataclass(frozen=True)
class Figure:
    """A drawn figure: its name, what it shows, and the matplotlib figure itself."""

    name: str
    caption: str
    drawing: Any


@dataclass(frozen=True)
class Setup:
    """The seed, the size and the data of all experiments."""

    seed: str
    quick: bool
    movielens: KnownPopulation
    movielens_note: str
    """The source of the film ratings, for figures and the report."""
    gaussian: KnownPopulation
    uniform: KnownPopulation

    def coins(self, *address: object) -> Coins:
        """The coins of one setting; repetitions number their streams."""
        return Coins.stated(self.seed).under("/".join(str(part) for part in address))

    def pick(self, whole: T, quick: T) -> T:
        """The first for a whole run, the second for a quick one."""
        return quick if self.quick else whole


@dataclass(frozen=True)
class Experiment:
    """A figure or table: its settings, their numbers, and what these show of the paper's claims."""

    name: str
    title: str
    about: str
    jobs: Callable[[Setup], list[Job]]
    """The settings to run."""
    work: Callable[[Setup, dict[str, Any]], list[Row]]
    """The rows of one setting."""
    draw: Callable[[Setup, list[Row]], list[Figure]]
    """The figures of all rows."""
    claims: Callable[[Setup, list[Row]], list[Claim]]
    """The verdicts on the paper's claims."""
    shows: str = ""
    """The experiment whose rows this one shows, if not its own."""

    @property
    def rows_of(self) -> str:
        """The experiment whose rows are shown; two figures may show one run."""
        return self.shows or self.name
