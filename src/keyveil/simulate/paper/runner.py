"""Runs experiments: settings in processes, then numbers, figures and claims.

Every setting draws from coins of its own address, so numbers do not depend on the number of processes.
Settings that an earlier run with the same stamp finished are taken from the folder.
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
from .results_folder import Drawn, ResultsFolder, clear_results
from .workers import Workers, shared

Progress = Callable[[int, int | None], None]

SEED = "1907.05014"
TICKS = 1000
"""Number of progress steps of the whole work."""
DRAWING = 4.0
"""Cost of drawing an experiment's figures, in the unit of its settings' costs."""


@dataclass(frozen=True)
class ExperimentResult:
    """The results in a folder after a run."""

    setup: Setup
    asked: tuple[str, ...]
    """The experiments of this run."""
    names: tuple[str, ...]
    """The experiments of this run and of earlier runs with the same seed, options, code and data."""
    rows: dict[str, list[Row]]
    figures: list[Drawn]
    claims: dict[str, list[Claim]]
    taken: tuple[str, ...]
    """Experiments whose numbers come from an earlier run."""
    missing: dict[str, str]
    """Experiments without results, and why."""


def prepared(seed: str = SEED, *, quick: bool = False, movielens: str | Path | None = None) -> Setup:
    """The seed, the size and the data of a run."""
    films, note = shipped() if movielens is None else of_folder(movielens)
    return Setup(seed, quick, films, note, gaussian(), uniform())


def chosen(only: Sequence[str] | None, per_person: bool = False) -> tuple[str, ...]:
    """The experiments to run, in their order; unknown names are refused."""
    if only is not None and not only:
        raise PlanError(f"no experiment is named; known: {', '.join(NAMES)}")
    wanted = {experiment(name).name for name in (NAMES if only is None else only)}
    if per_person:
        wanted.add(PER_PERSON)
    return tuple(name for name in (*NAMES, PER_PERSON) if name in wanted)


def run(
    setup: Setup,
    names: Sequence[str],
    out: str | Path,
    *,
    processes: int | None = None,
    on_progress: Progress | None = None,
    draw: bool = True,
    fresh: bool = False,
) -> ExperimentResult:
    """Run experiments, and write their numbers and (with ``draw``) their figures into a folder.

    A folder holds whole runs or quick ones. ``fresh`` first removes what earlier runs left there.
    """
    if fresh:
        clear_results(out)
    experiments = _Run(setup, names, ResultsFolder(out, setup), draw)
    experiments.work(processes, on_progress)
    return experiments.result()


def _source(name: str) -> str:
    return experiment(name).rows_of


class _Run:
    """One run: what the folder has already, what is still to do, and the results so far."""

    def __init__(self, setup: Setup, names: Sequence[str], folder: ResultsFolder, draw: bool) -> None:
        self._setup, self._names, self._folder, self._draw = setup, tuple(names), folder, draw
        sources = list(dict.fromkeys(map(_source, names)))
        self._rows = {name: rows for name in sources if (rows := folder.rows(name)) is not None}
        """By source: the finished numbers."""
        self._taken = tuple(self._rows)
        self._jobs = {name: experiment(name).jobs(setup) for name in sources if name not in self._rows}
        self._settings = {name: folder.settings(name) for name in self._jobs}
        """By source: the rows of finished settings, by number."""
        kept = {name: folder.figures(name, _source(name)) for name in self._names if draw}
        self._figures = {name: figures for name, figures in kept.items() if figures is not None}

    def work(self, processes: int | None, on_progress: Progress | None) -> None:
        """Run every setting and draw every figure that the folder does not have."""
        settings = [
            (name, number, job)
            for name, jobs in self._jobs.items()
            for number, job in enumerate(jobs)
            if number not in self._settings[name]
        ]
        total = sum(job.cost for *_, job in settings) + DRAWING * len(self._missing_figures())
        done = 0.0
        step = on_progress or (lambda *_: None)
        step(0, TICKS)
        with Workers(self._setup, processes) as workers:
            for name, number, job in settings:
                workers.submit(run_job, (name, job.what), (name, number, job.cost))
            for source in (*self._taken, *self._jobs):
                self._finish_source(source, workers)
            for (name, number, cost), result in workers.results():
                done += cost
                step(min(TICKS, round(TICKS * done / total)), TICKS)
                if number is None:
                    self._folder.keep_figures(name, _source(name), result)
                    self._figures[name] = result
                else:
                    self._folder.keep_setting(name, number, result)
                    self._settings[name][number] = result
                    self._finish_source(name, workers)

    def _missing_figures(self) -> list[str]:
        return [name for name in self._names if self._draw and name not in self._figures]

    def _finish_source(self, source: str, workers: Workers) -> None:
        """Once all settings of a source are finished: keep its numbers, and draw missing figures."""
        if source not in self._rows:
            settings, count = self._settings[source], len(self._jobs[source])
            if len(settings) < count:
                return
            parts = [settings[number] for number in range(count)]
            self._rows[source] = self._folder.keep_rows(source, parts)
        for name in self._missing_figures():
            if _source(name) == source:
                workers.submit(_drawn, (name, self._rows[source]), (name, None, DRAWING))

    def result(self) -> ExperimentResult:
        """All that the folder has after the run."""
        names = self._with_earlier() if self._draw else self._names
        missing = {
            name: f"here with {other}" if (other := self._folder.others(_source(name))) else "not run"
            for name in NAMES
            if name not in names
        }
        return ExperimentResult(
            setup=self._setup,
            asked=self._names,
            names=names,
            rows=self._rows,
            figures=[figure for name in names if self._draw for figure in self._figures[name]],
            claims={n: experiment(n).claims(self._setup, self._rows[_source(n)]) for n in names},
            taken=self._taken,
            missing=missing,
        )

    def _with_earlier(self) -> tuple[str, ...]:
        """The experiments of this run and of earlier runs with the same stamp, whose rows are added."""
        for name in (*NAMES, PER_PERSON):
            if name in self._names:
                continue
            rows = self._folder.rows(_source(name))
            figures = self._folder.figures(name, _source(name))
            if rows is not None and figures is not None:
                self._rows[_source(name)], self._figures[name] = rows, figures
        return tuple(name for name in (*NAMES, PER_PERSON) if name in self._figures)


# -- what processes do -------------------------------------------------------------------------------


def run_job(name: str, what: dict[str, Any]) -> list[Row]:
    """The rows of one job of an experiment."""
    return experiment(name).work(shared(), what)


def _drawn(name: str, rows: list[Row]) -> list[Drawn]:
    from . import figures

    files = []
    with figures.look():
        for figure in experiment(name).draw(shared(), rows):
            svg = figures.as_bytes(figure.drawing, "svg")
            # The report of a quick run holds the SVG alone.
            png = b"" if shared().quick else figures.as_bytes(figure.drawing, "png")
            files.append(Drawn(name, figure.name, figure.caption, svg, png))
    return files
