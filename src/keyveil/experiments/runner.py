"""Runs experiments: settings over processes, numbers kept as they are finished, figures, the report.

Every setting draws from coins of its own address, so numbers do not depend on the number of processes.
An experiment's numbers are written whole, with a stamp of what made them (seed, version, code, options,
data); a later run with the same stamp takes them from there.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..errors import TableError
from ..files import write_whole
from ..populations import KnownPopulation, gaussian, uniform
from . import NAMES, PER_PERSON, experiment
from .base import Claim, Row, Setup
from .summary import of_folder, shipped

Progress = Callable[[int, int | None], None]

SEED = "1907.05014"
NUMBERS, FIGURES = "numbers", "figures"
TICKS = 1000
"""Progress is told in thousandths of the expected work."""
DRAWING = 4.0
"""What drawing an experiment's figures costs, beside its settings."""


@dataclass(frozen=True)
class Drawn:
    """A figure on disk."""

    experiment: str
    name: str
    caption: str
    svg: bytes
    png: bytes
    """Empty after a quick run."""


@dataclass(frozen=True)
class Outcome:
    """All that a run has made."""

    setup: Setup
    names: tuple[str, ...]
    rows: dict[str, list[Row]]
    figures: list[Drawn]
    claims: dict[str, list[Claim]]
    taken: tuple[str, ...]
    """Experiments whose numbers an earlier run had finished."""


def prepared(seed: str = SEED, *, quick: bool = False, movielens: str | Path | None = None) -> Setup:
    """What all experiments are given."""
    films, note = shipped() if movielens is None else of_folder(movielens)
    return Setup(seed, quick, films, note, gaussian(), uniform())


def chosen(only: Sequence[str] | None, per_person: bool = False) -> tuple[str, ...]:
    """The experiments to run, in their order; a name that does not exist is an error."""
    if only:
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
) -> Outcome:
    """Run experiments and write their numbers and, unless told not to draw, figures into a folder."""
    shown = list(names) if draw else []
    folder = Path(out)
    for part in (NUMBERS, FIGURES):
        (folder / part).mkdir(parents=True, exist_ok=True)
    stamp = _stamp(setup)
    sources = list(dict.fromkeys(experiment(name).ROWS_OF for name in names))
    rows = {name: found for name in sources if (found := _kept(folder, name, stamp)) is not None}
    taken = tuple(rows)
    todo = [
        (name, number, job)
        for name in sources
        if name not in rows
        for number, job in enumerate(experiment(name).jobs(setup))
    ]
    steps = _Steps(sum(job.cost for *_, job in todo) + DRAWING * len(shown), moved)
    made: dict[str, dict[int, list[Row]]] = {}
    drawn: dict[str, list[Drawn]] = {}
    with _Workers(setup, processes) as workers:
        for name, number, job in todo:
            workers.submit(_worked, (name, job.what), (name, number, job.cost))
        for name in shown:
            if experiment(name).ROWS_OF in rows:
                source = experiment(name).ROWS_OF
                workers.submit(_drawn, (name, rows[source]), (name, None, DRAWING))
        for (name, number, cost), result in workers.results():
            steps.done(cost)
            if number is None:
                drawn[name] = result
                continue
            made.setdefault(name, {})[number] = result
            if len(made[name]) == sum(1 for other, *_ in todo if other == name):
                rows[name] = _keep(folder, name, stamp, [made[name][n] for n in sorted(made[name])])
                for other in shown:
                    if name == experiment(other).ROWS_OF:
                        workers.submit(_drawn, (other, rows[name]), (other, None, DRAWING))
    figures = [figure for name in shown for figure in drawn[name]]
    _save_figures(folder, figures)
    claims = {name: experiment(name).claims(setup, rows[experiment(name).ROWS_OF]) for name in names}
    return Outcome(setup, tuple(names), rows, figures, claims, taken)


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


# -- processes ---------------------------------------------------------------------------------------

_SHARED: list[Setup] = []
"""What forked processes find in their memory, so that populations are not sent to them."""


def _worked(name: str, what: dict[str, Any]) -> list[Row]:
    return experiment(name).work(_SHARED[-1], what)


def _drawn(name: str, rows: list[Row]) -> list[Drawn]:
    from . import figures

    made = []
    for figure in experiment(name).draw(_SHARED[-1], rows):
        with figures.look():
            svg = figures.as_bytes(figure.made, "svg")
            # A quick look is at the report, which holds the SVG.
            png = b"" if _SHARED[-1].quick else figures.as_bytes(figure.made, "png")
        made.append(Drawn(name, figure.name, figure.caption, svg, png))
    return made


class _Workers:
    """Calls over processes, or one after the other; whatever their order, results are the same."""

    def __init__(self, setup: Setup, processes: int | None) -> None:
        self._setup = setup
        self._count = processes or os.cpu_count() or 1
        self._pool: ProcessPoolExecutor | None = None
        self._waiting: dict[Future[Any], Any] = {}
        self._queue: list[tuple[Any, Any, Any]] = []

    def __enter__(self) -> _Workers:
        _SHARED.append(self._setup)
        if self._count > 1:
            # Ctrl-C is for this process alone: it lets workers finish what they are at.
            quiet = (signal.SIGINT, signal.SIG_IGN)
            self._pool = ProcessPoolExecutor(self._count, get_context("fork"), signal.signal, quiet)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        _SHARED.pop()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=kind is not None)

    def submit(self, call: Any, arguments: tuple[Any, ...], about: Any) -> None:
        """One more call."""
        if self._pool is None:
            self._queue.append((call, arguments, about))
        else:
            self._waiting[self._pool.submit(call, *arguments)] = about

    def results(self) -> Iterator[tuple[Any, Any]]:
        """What calls were about, and what they made, as they finish; calls may be added meanwhile."""
        while self._queue:
            call, arguments, about = self._queue.pop(0)
            yield about, call(*arguments)
        while self._waiting:
            finished, _ = wait(self._waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                yield self._waiting.pop(future), future.result()


# -- what is kept ------------------------------------------------------------------------------------


def _stamp(setup: Setup) -> dict[str, Any]:
    """What numbers depend on."""
    return {
        "seed": setup.seed,
        "version": __version__,
        "quick": setup.quick,
        "code": _code(),
        "data": _digest(setup.movielens),
    }


def _code() -> str:
    """A digest of the package's own files: other code, other numbers."""
    root = Path(__file__).parents[1]
    total = hashlib.sha256()
    for path in sorted((*root.rglob("*.py"), *root.rglob("*.json"))):
        if "__pycache__" not in path.parts:
            total.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:16]


def _digest(population: KnownPopulation) -> str:
    parts = (population.frequency, population.mean, population.sizes)
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[
        :16
    ]


def _keep(folder: Path, name: str, stamp: dict[str, Any], parts: list[list[Row]]) -> list[Row]:
    """Write an experiment's numbers, the stamp last; the rows as they will be read again."""
    rows = [row for part in parts for row in part]
    text = as_csv(rows).encode()
    write_whole(folder / NUMBERS / f"{name}.csv", text)
    try:
        from ..tables.write import parquet_bytes

        write_whole(folder / NUMBERS / f"{name}.parquet", parquet_bytes(rows))
    except TableError:
        pass  # without pyarrow there is the CSV
    body = {**stamp, "sha256": hashlib.sha256(text).hexdigest()}
    write_whole(folder / NUMBERS / f"{name}.json", json.dumps(body, indent=2).encode() + b"\n")
    return of_csv(text.decode())


def _kept(folder: Path, name: str, stamp: dict[str, Any]) -> list[Row] | None:
    """The numbers of an earlier run, if this one would make the same."""
    try:
        body = json.loads((folder / NUMBERS / f"{name}.json").read_text("utf-8"))
        text = (folder / NUMBERS / f"{name}.csv").read_bytes()
    except (OSError, ValueError):
        return None
    if body != {**stamp, "sha256": hashlib.sha256(text).hexdigest()}:
        return None
    return of_csv(text.decode())


def as_csv(rows: Sequence[Row]) -> str:
    """Rows as CSV; floats in full, so that reading gives them back."""
    file = io.StringIO()
    writer = csv.DictWriter(
        file, list(dict.fromkeys(n for row in rows for n in row)), lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def of_csv(text: str) -> list[Row]:
    """Rows from CSV: whole numbers, floats and texts by their look."""
    return [
        {name: _cell(cell) for name, cell in row.items()} for row in csv.DictReader(io.StringIO(text))
    ]


def _cell(cell: str) -> Any:
    for read in (int, float):
        try:
            return read(cell)
        except ValueError:
            continue
    return cell


def _save_figures(folder: Path, figures: list[Drawn]) -> None:
    for figure in figures:
        for form, made in (("svg", figure.svg), ("png", figure.png)):
            if made:
                write_whole(folder / FIGURES / f"{figure.name}.{form}", made)
