"""What experiments share: their settings, rows of numbers, figures and claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any, Protocol

import numpy as np

from ...foundation.arrays import Floats
from ...foundation.coins import Coins
from ...people.synthetic import KnownPopulation
from .. import contest_row

Row = dict[str, Any]
"""One line of an experiment's numbers: names to texts, whole numbers and floats."""

CONFIRMED, REFUTED, ONLY_IF = "confirmed", "not confirmed", "true only if"

EPSILONS = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
"""The paper's epsilons."""
PEOPLE = 100_000
"""The paper's number of people."""
STATISTICS = tuple(contest_row.STATISTICS)
"""The statistics whose errors are measured."""
CLEAR = 4.0
"""Number of standard errors beyond which a difference is clear. Chance exceeds it once in 30,000."""
NOISE = (
    f"No verdict rests on noise: one error counts as below another only if the difference is more than "
    f"{CLEAR:g} of its standard errors (the columns se_... of the numbers)."
)


@dataclass(frozen=True)
class Job:
    """One setting of an experiment: what to run, and about how long it takes beside the others."""

    what: dict[str, Any]
    cost: float = 1.0


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and what the numbers say of it."""

    place: str
    text: str
    verdict: str
    """CONFIRMED, REFUTED, or ONLY_IF and the condition."""
    evidence: str
    """The numbers, in words."""
    figure: str
    """What shows it: figures, with a comma between, or the file of numbers."""

    @property
    def kind(self) -> str:
        """The verdict without its condition."""
        return ONLY_IF if self.verdict.startswith(ONLY_IF) else self.verdict


@dataclass(frozen=True)
class Figure:
    """A drawn figure: its name, what it shows, and the matplotlib figure itself."""

    name: str
    caption: str
    made: Any


@dataclass(frozen=True)
class Setup:
    """What all experiments are given."""

    seed: str
    quick: bool
    movielens: KnownPopulation
    movielens_note: str
    """Where the film ratings are from, for figures and the report."""
    gaussian: KnownPopulation
    uniform: KnownPopulation

    def coins(self, *address: object) -> Coins:
        """Coins of their own for one setting of one experiment; repetitions number their streams."""
        return Coins.stated(self.seed).under("/".join(str(part) for part in address))

    def runs(self, whole: int, quick: int) -> range:
        """The repetitions: as many as the paper's, or a few."""
        return range(quick if self.quick else whole)

    def population(self, name: str) -> KnownPopulation:
        """A data set of Fig. 1 by its name."""
        made = {"MovieLens": self.movielens, "Gaussian": self.gaussian, "Uniform": self.uniform}
        return made[name]


class Experiment(Protocol):
    """A module of this package."""

    NAME: str
    TITLE: str
    ABOUT: str
    ROWS_OF: str
    """The experiment whose rows it takes: itself, unless two figures show one run."""

    @staticmethod
    def jobs(setup: Setup) -> list[Job]:
        """The settings to run."""

    @staticmethod
    def work(setup: Setup, what: dict[str, Any]) -> list[Row]:
        """The rows of one setting."""

    @staticmethod
    def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
        """The figures of all rows."""

    @staticmethod
    def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
        """What the rows say of the paper's claims."""


def picked(rows: Sequence[Row], **wanted: object) -> list[Row]:
    """The rows with these entries, in their order."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def one(rows: Sequence[Row], **wanted: object) -> Row:
    """The only row with these entries."""
    found = picked(rows, **wanted)
    if len(found) != 1:
        raise LookupError(f"{len(found)} rows with {wanted}")
    return found[0]


def verdict(holds: bool) -> str:
    """Confirmed or not."""
    return CONFIRMED if holds else REFUTED


def only_if(condition: str) -> str:
    """True under a condition that the paper does not state."""
    return f"{ONLY_IF} {condition}"


def number(value: float) -> str:
    """A number for people: three digits, plain where it can be."""
    if value != 0 and (abs(value) < 1e-3 or abs(value) >= 1e5):
        return f"{value:.2e}"
    return f"{value:.3g}"


def averages(name: str, off: Floats, *, by_run: bool = False) -> Row:
    """Mean absolute and squared error over repetitions and keys, each with its standard error.

    Errors of different keys are taken to be independent, and what differs from key to key counts as
    noise, so the standard errors are rather too large. ``by_run`` compares whole repetitions instead,
    for errors that are not independent within one.
    """
    made: Row = {}
    for kind, errors in (("mae", np.abs(off)), ("mse", off**2)):
        units = errors.mean(axis=1) if by_run else errors.ravel()
        noise = units.std(ddof=1) / np.sqrt(len(units)) if len(units) > 1 else np.inf
        made |= {f"{kind}_{name}": float(errors.mean()), f"se_{kind}_{name}": float(noise)}
    return made


def below(lower: Row, upper: Row, part: str, times: float = 1.0) -> bool:
    """Whether one row's error is below so many times another's, and clearly so."""
    noise = hypot(lower.get(f"se_{part}", 0.0), times * upper.get(f"se_{part}", 0.0))
    return bool(times * upper[part] - lower[part] > CLEAR * noise)


def pooled(rows: Sequence[Row], part: str) -> Row:
    """The average of an error over some rows, with its standard error."""
    noise = np.sqrt(np.sum([row.get(f"se_{part}", 0.0) ** 2 for row in rows])) / len(rows)
    return {part: float(np.mean([row[part] for row in rows])), f"se_{part}": float(noise)}
