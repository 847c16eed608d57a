"""Runs experiments: settings over processes, numbers kept as they are finished, figures, claims.

Every setting draws from coins of its own address, so numbers do not depend on the number of processes.
What an earlier run with the same stamp had finished, down to single settings, is taken from the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...foundation.errors import PlanError
from ...people.synthetic import gaussian, uniform
from . import NAMES, PER_PERSON, experiment
from .experiment import Claim, Row, Setup
from .movielens_summary import of_folder, shipped
from .results_folder import Drawn, Kept, cleared
from .workers import Workers, shared

Progress = Callable[[int, int | None], None]

SEED = "1907.05014"
TICKS = 1000
"""Progress is told in thousandths of the expected work."""
DRAWING = 4.0
"""What drawing an experiment's figures costs, beside its settings."""


@dataclass(frozen=True)
class ExperimentResult:
    """All that a folder has of one seed and setting, after a run."""

    setup: Setup
    asked: tuple[str, ...]
    """The experiments that this run was asked for."""
    names: tuple[str, ...]
    """These, and what earlier runs with the same seed, options, code and data had finished."""
    rows: dict[str, list[Row]]
    figures: list[Drawn]
    claims: dict[str, list[Claim]]
    taken: tuple[str, ...]
    """Experiments whose numbers an earlier run had finished."""
    missing: dict[str, str]
    """Experiments that are not here, and why."""


def prepared(seed: str = SEED, *, quick: bool = False, movielens: str | Path | None = None) -> Setup:
    """What all experiments are given."""
    films, note = shipped() if movielens is None else of_folder(movielens)
    return Setup(seed, quick, films, note, gaussian(), uniform())


def chosen(only: Sequence[str] | None, per_person: bool = False) -> tuple[str, ...]:
    """The experiments to run, in their order; a name that does not exist is an error."""
    if only is not None:
        if not only:
            raise PlanError(f"no experiment is named; known: {', '.join(NAMES)}")
        for name in only:
            experiment(name)
        named = [name for name in (*NAMES, PER_PERSON) if name in only]
    else:
        named = list(NAMES)
    if per_person and PER_PERSON not in named:
        named.append(PER_PERSON)
    return tuple(named)


def run(
    setup: Setup,
    names: Sequence[str],
    out: str | Path,
    *,
    processes: int | None = None,
    moved: Progress | None = None,
    draw: bool = True,
    fresh: bool = False,
) -> ExperimentResult:
    """Run experiments and write their numbers and, unless told not to draw, figures into a folder.

    A folder is of whole runs or of quick ones; ``fresh`` first removes what earlier runs left there.
    """
    if fresh:
        cleared(out)
    kept = Kept(out, setup)
    shown = list(names) if draw else []
    sources = list(dict.fromkeys(source_of(name) for name in names))
    rows = {name: found for name in sources if (found := kept.rows(name)) is not None}
    taken = tuple(rows)
    drawn = {
        name: made_before
        for name in shown
        if (made_before := kept.figures(name, source_of(name))) is not None
    }
    jobs = {name: experiment(name).jobs(setup) for name in sources if name not in rows}
    made = {name: kept.settings(name) for name in jobs}
    todo = [
        (name, number, job)
        for name, listed in jobs.items()
        for number, job in enumerate(listed)
        if number not in made[name]
    ]
    left = sum(job.cost for *_, job in todo) + DRAWING * (len(shown) - len(drawn))
    steps = _Steps(left, moved)
    with Workers(setup, processes) as workers:

        def finished(source: str) -> None:
            """Draw what takes its numbers from here."""
            for name in shown:
                if source_of(name) == source and name not in drawn:
                    workers.submit(_drawn, (name, rows[source]), (name, None, DRAWING))

        def settled(source: str) -> None:
            """Keep an experiment's numbers once all of its settings are there."""
            if len(made[source]) == len(jobs[source]):
                parts = [made[source][number] for number in range(len(jobs[source]))]
                rows[source] = kept.keep_rows(source, parts)
                finished(source)

        for name, number, job in todo:
            workers.submit(_worked, (name, job.what), (name, number, job.cost))
        for name in taken:
            finished(name)
        for name in jobs:
            settled(name)
        for (name, number, cost), result in workers.results():
            steps.done(cost)
            if number is None:
                kept.keep_figures(name, source_of(name), result)
                drawn[name] = result
            else:
                kept.keep_setting(name, number, result)
                made[name][number] = result
                settled(name)
    every = _with_earlier(kept, names, rows, drawn) if draw else tuple(names)
    missing = {
        name: f"here with {other}" if (other := kept.others(source_of(name))) else "not run"
        for name in NAMES
        if name not in every
    }
    figures = [figure for name in every if draw for figure in drawn[name]]
    claims = {name: experiment(name).claims(setup, rows[source_of(name)]) for name in every}
    return ExperimentResult(setup, tuple(names), every, rows, figures, claims, taken, missing)


def source_of(name: str) -> str:
    """The experiment whose numbers one shows."""
    return experiment(name).ROWS_OF


def _with_earlier(
    kept: Kept, names: Sequence[str], rows: dict[str, list[Row]], drawn: dict[str, list[Drawn]]
) -> tuple[str, ...]:
    """The experiments of this run, and with the same stamp of earlier ones, whose parts are added."""
    for name in (*NAMES, PER_PERSON):
        if name in names:
            continue
        found, figures = kept.rows(source_of(name)), kept.figures(name, source_of(name))
        if found is not None and figures is not None:
            rows[source_of(name)], drawn[name] = found, figures
    return tuple(name for name in (*NAMES, PER_PERSON) if name in drawn)


class _Steps:
    """Progress in thousandths of the work that is expected."""

    def __init__(self, total: float, moved: Progress | None) -> None:
        self._total, self._moved, self._sum = total, moved, 0.0
        if moved is not None:
            moved(0, TICKS)

    def done(self, cost: float) -> None:
        self._sum += cost
        if self._moved is not None:
            self._moved(min(TICKS, round(TICKS * self._sum / self._total)), TICKS)


# -- what processes do -------------------------------------------------------------------------------


def _worked(name: str, what: dict[str, Any]) -> list[Row]:
    return experiment(name).work(shared(), what)


def _drawn(name: str, rows: list[Row]) -> list[Drawn]:
    from . import figures

    made = []
    for figure in experiment(name).draw(shared(), rows):
        with figures.look():
            svg = figures.as_bytes(figure.made, "svg")
            # A quick look is at the report, which holds the SVG.
            png = b"" if shared().quick else figures.as_bytes(figure.made, "png")
        made.append(Drawn(name, figure.name, figure.caption, svg, png))
    return made
