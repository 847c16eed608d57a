"""The results of a run in a folder: numbers, figures, and finished settings of unfinished experiments.

Everything carries a stamp of what made it (seed, versions, code, options, data). A run takes what has
its own stamp and nothing else.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ... import __version__
from ...foundation.errors import PlanError, TableError
from ...foundation.files import write_whole
from ...people.synthetic import KnownPopulation
from .experiment import Row, Setup

NUMBERS, FIGURES = "numbers", "figures"
PACKAGE = Path(__file__).parents[2]
"""The folder of the whole package, whose code the stamp covers."""


@dataclass(frozen=True)
class Drawn:
    """A figure as it lies on disk."""

    experiment: str
    name: str
    caption: str
    svg: bytes
    png: bytes
    """Empty after a quick run."""


class ResultsFolder:
    """The results in a folder, as a run with one stamp sees them."""

    def __init__(self, folder: str | Path, setup: Setup) -> None:
        self._numbers, self._figures = Path(folder) / NUMBERS, Path(folder) / FIGURES
        self._quick = setup.quick
        if (not self._quick) in kinds_in(folder):
            here, wanted = ("whole", "quick") if self._quick else ("quick", "whole")
            raise PlanError(
                f"{folder} holds a {here} run, which a {wanted} one would replace: name another folder, "
                "or say --fresh"
            )
        for part in (self._numbers, self._figures):
            part.mkdir(parents=True, exist_ok=True)
        self._stamp = stamp_of(setup)
        self._mark = _digest(json.dumps(self._stamp, sort_keys=True).encode())

    # -- numbers -------------------------------------------------------------------------------------

    def rows(self, name: str) -> list[Row] | None:
        """An experiment's finished numbers; None if they do not have this run's stamp."""
        text = self._text(name)
        return None if text is None else of_csv(text.decode())

    def _text(self, name: str) -> bytes | None:
        text = _read(self._numbers / f"{name}.csv")
        body = _read_json(self._numbers / f"{name}.json")
        return text if body == {**self._stamp, "sha256": _sha256(text)} else None

    def others(self, name: str) -> str | None:
        """How finished numbers in the folder differ from this run's; None without other numbers."""
        body = _read_json(self._numbers / f"{name}.json")
        if not body or self._text(name) is not None:
            return None
        wrong = [
            word
            for word, parts in STAMPED.items()
            if any(body.get(part) != self._stamp[part] for part in parts)
        ]
        return f"another {' and '.join(wrong)}" if wrong else "numbers that were changed since"

    def keep_rows(self, name: str, parts: Sequence[list[Row]]) -> list[Row]:
        """Write an experiment's numbers, the stamp last. Returns the rows as they will be read back."""
        rows = [row for part in parts for row in part]
        text = as_csv(rows).encode()
        write_whole(self._numbers / f"{name}.csv", text)
        try:
            from ...people.tables.table_writer import parquet_bytes

            write_whole(self._numbers / f"{name}.parquet", parquet_bytes(rows))
        except TableError:
            pass  # without pyarrow there is the CSV
        _write_json(self._numbers / f"{name}.json", {**self._stamp, "sha256": _sha256(text)})
        self._unfinished(name).unlink(missing_ok=True)
        return of_csv(text.decode())

    # -- finished settings of an unfinished experiment -----------------------------------------------

    def _unfinished(self, name: str) -> Path:
        return self._numbers / f"{name}.unfinished.jsonl"

    def settings(self, name: str) -> dict[int, list[Row]]:
        """The settings that an interrupted run had finished, by number."""
        bodies = map(_parsed, _read(self._unfinished(name)).splitlines())
        finished = [body for body in bodies if body.get("mark") == self._mark]
        return {int(body["setting"]): list(body["rows"]) for body in finished}

    def keep_setting(self, name: str, number: int, rows: list[Row]) -> None:
        """Add one finished setting."""
        body = {"mark": self._mark, "quick": self._quick, "setting": number, "rows": rows}
        with self._unfinished(name).open("a", encoding="utf-8") as file:
            file.write(f"\n{json.dumps(body, default=np.generic.item)}\n")

    # -- figures -------------------------------------------------------------------------------------

    def figures(self, name: str, source: str) -> list[Drawn] | None:
        """An experiment's figures, drawn from the numbers of ``source`` that are here."""
        body, text = _read_json(self._figures / f"{name}.json"), self._text(source)
        if text is None or body.get("mark") != self._figure_mark(text):
            return None
        drawn = []
        for part in body["figures"]:
            path = self._figures / f"{part['name']}.svg"
            svg, png = _read(path), _read(path.with_suffix(".png")) if part["png"] else b""
            if (_sum(svg), _sum(png)) != (part["svg"], part["png"]):
                return None
            drawn.append(Drawn(name, part["name"], part["caption"], svg, png))
        return drawn

    def keep_figures(self, name: str, source: str, figures: Sequence[Drawn]) -> None:
        """Write an experiment's figures, and the stamp of the numbers that they show."""
        parts = []
        for figure in figures:
            for form, content in (("svg", figure.svg), ("png", figure.png)):
                path = self._figures / f"{figure.name}.{form}"
                if content:
                    write_whole(path, content)
                else:
                    path.unlink(missing_ok=True)  # an earlier run's, which shows other numbers
            sums = {"svg": _sum(figure.svg), "png": _sum(figure.png)}
            parts.append({"name": figure.name, "caption": figure.caption, **sums})
        text = self._text(source)
        assert text is not None, "figures are drawn from numbers that are kept"
        _write_json(self._figures / f"{name}.json", {"mark": self._figure_mark(text), "figures": parts})

    def _figure_mark(self, text: bytes) -> str:
        return f"{self._mark}/{_sha256(text)}"


REPORT = ("report.html", "claims.csv", "claims.md")
"""The files that a run writes into the folder itself."""


def kinds_in(folder: str | Path) -> set[bool]:
    """The kinds of runs with results in a folder: True for quick, False for whole."""
    numbers = Path(folder) / NUMBERS
    bodies = [_read_json(path) for path in numbers.glob("*.json")]
    for path in numbers.glob("*.unfinished.jsonl"):
        bodies += map(_parsed, _read(path).splitlines()[1:2])
    return {bool(body["quick"]) for body in bodies if "quick" in body}


def clear_results(folder: str | Path) -> None:
    """Remove what earlier runs left in a folder, and nothing else."""
    numbers, figures = Path(folder) / NUMBERS, Path(folder) / FIGURES
    files = [*numbers.glob("*.unfinished.jsonl"), *(Path(folder) / name for name in REPORT)]
    for path in numbers.glob("*.json"):
        if "sha256" in _read_json(path):  # a stamp of ours
            files += [path.with_suffix(f".{ending}") for ending in ("csv", "parquet", "json")]
    for path in figures.glob("*.json"):
        body = _read_json(path)
        if "mark" in body:
            names = [Path(part["name"]).name for part in body["figures"]]
            files += [path, *(figures / f"{name}.{form}" for name in names for form in ("svg", "png"))]
    for path in files:
        path.unlink(missing_ok=True)


# -- stamps ------------------------------------------------------------------------------------------


STAMPED = {
    "seed": ("seed",),
    "choice of --quick": ("quick",),
    "version of the code": ("version", "numpy", "code"),
    "MovieLens": ("data",),
}
"""What a stamp has, in words."""


def stamp_of(setup: Setup) -> dict[str, Any]:
    """What numbers depend on."""
    return {
        "seed": setup.seed,
        "version": __version__,
        "numpy": np.__version__,
        "quick": setup.quick,
        "code": _code(),
        "data": _data(setup.movielens),
    }


def _code() -> str:
    """A digest of the package's own files: other code, other numbers."""
    total = hashlib.sha256()
    for path in sorted((*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.json"))):
        if "__pycache__" not in path.parts:
            total.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:16]


def _data(population: KnownPopulation) -> str:
    parts = (population.frequency, population.mean, population.sizes)
    return _digest(b"".join(np.ascontiguousarray(part).tobytes() for part in parts))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest(content: bytes) -> str:
    return _sha256(content)[:16]


def _sum(content: bytes) -> str:
    """A figure's digest; empty if there is no such figure."""
    return _sha256(content) if content else ""


def _read(path: Path) -> bytes:
    """A file's content; empty if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _read_json(path: Path) -> dict[str, Any]:
    return _parsed(_read(path))


def _parsed(text: bytes) -> dict[str, Any]:
    """A JSON object; empty if the text is none, like a line that was cut short."""
    try:
        body = json.loads(text)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _write_json(path: Path, body: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(body, indent=2).encode() + b"\n")


# -- CSV ---------------------------------------------------------------------------------------------


def as_csv(rows: Sequence[Row]) -> str:
    """Rows as CSV; floats in full, so that reading gives them back."""
    file = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(file, names, lineterminator="\n")
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
