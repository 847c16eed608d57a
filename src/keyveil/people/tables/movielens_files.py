"""Ratings of the top films from a MovieLens release: 20M, 25M, 32M, 10M, 1M or 100K.

========  =============  ==========================  ==============
release   file           cells                       stars
========  =============  ==========================  ==============
20M ..    ratings.csv    comma, a header line        0.5 .. 5 by .5
10M       ratings.dat    ``::``, no header line      0.5 .. 5 by .5
1M        ratings.dat    ``::``, no header line      1 .. 5
100K      u.data         tab, no header line         1 .. 5
========  =============  ==========================  ==============

A file is read twice, a block at a time: once to count films, once for the ratings of the top films.
An error names the line, never its content.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from ...foundation.arrays import Floats, Integers
from ...foundation.coins import address
from ...foundation.errors import RecordError, TableError
from ..people import People
from ..schema import Schema
from .frames import Batch, arrow, readable

BLOCK = 1 << 22
MOST = 1 << 24
"""User and film numbers stay below this in every release."""
HEADER = "userId,movieId,rating,timestamp"
FILES = {"ratings.csv": "20M, 25M or 32M", "ratings.dat": "1M or 10M", "u.data": "100K"}
BETWEEN = {"ratings.csv": ",", "ratings.dat": "::", "u.data": "\t"}
"""What stands between the cells of each file."""
PACKED = (".zip", ".gz", ".7z", ".tar", ".tgz", ".bz2", ".xz")
RELEASES = {
    "ml-100k": 100_000,
    "ml-1m": 1_000_209,
    "ml-10m": 10_000_054,
    "ml-10m100k": 10_000_054,
    "ml-20m": 20_000_263,
    "ml-25m": 25_000_095,
    "ml-32m": 32_000_204,
}
"""Number of ratings in each release, by the name of its folder."""


@dataclass(frozen=True)
class Ratings:
    """The top films of a release: everyone's ratings of them, and each film's histogram."""

    schema: Schema
    people: People
    counts: Integers
    """Number of people by film and star value."""
    stars: Floats
    """The values, lowest first."""
    rows: int
    """Number of ratings in the file, over all films."""

    @property
    def points(self) -> Floats:
        """The star values on [-1, 1]."""
        low, high = self.stars[0], self.stars[-1]
        return np.asarray((self.stars - low) / (high - low) * 2 - 1)


def read_movielens(path: str | Path, top: int = 100) -> Ratings:
    """The ``top`` most rated films of a MovieLens folder or ratings file."""
    file = _Ratings(_file_in(Path(path)))
    rows, everyone, films = _counted(file)
    order = np.lexsort((np.arange(len(films)), -films))[:top]
    order = order[films[order] > 0]
    if len(order) < top:
        raise TableError(f"{file.path} has {len(order)} films; the top {top} were asked for")
    stars = file.stars
    schema = Schema.of([str(film) for film in order], Decimal(str(stars[0])), Decimal(str(stars[-1])))
    place = np.full(len(films), -1, np.int64)
    place[order] = np.arange(top)
    people = _people(file, schema, everyone, place)
    levels = np.rint((people.values - stars[0]) / (stars[1] - stars[0])).astype(np.int64)
    cells = people.keys.astype(np.int64) * len(stars) + levels
    counts = np.bincount(cells, minlength=top * len(stars)).reshape(top, len(stars))
    return Ratings(schema, people, counts, stars, rows)


def _counted(file: _Ratings) -> tuple[int, Integers, Integers]:
    """The number of ratings, the users in ascending order, and the number of ratings of each film."""
    rows, users, films = 0, np.zeros(0, bool), np.zeros(0, np.int64)
    for user, film, _ in file.columns():
        rows += len(user)
        films = _grown(films, int(film.max()) + 1)
        films += np.bincount(film, minlength=len(films))
        users = _grown(users, int(user.max()) + 1)
        users[user] = True
    file.check_rows(rows)
    return rows, np.flatnonzero(users), films


def _people(file: _Ratings, schema: Schema, everyone: Integers, place: Integers) -> People:
    """Everyone's ratings of the schema's films; ``place`` is a film's place in the schema, or -1."""
    parts, numbers, first = [], [], 0
    for user, film, rating in file.columns():
        listed = place[film] >= 0
        parts.append((user[listed], place[film[listed]], rating[listed].astype(np.float64)))
        numbers.append(first + np.flatnonzero(listed))
        first += len(user)
    who, places, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    try:
        rows = np.searchsorted(everyone, who)
        return People.of_places(schema, address(everyone), rows, places, values)
    except RecordError:
        repeated = _repeated(who * len(schema.keys) + places)
        if repeated is None:
            raise
        line = file.line_of(int(np.concatenate(numbers)[repeated]))
        raise TableError(
            f"{file.path}, line {line}: the person has rated this film before; each rates a film once"
        ) from None


def _repeated(numbers: Integers) -> int | None:
    """The first place whose number also stands at an earlier place; None if all numbers differ."""
    order = np.argsort(numbers, kind="stable")
    repeats = order[1:][numbers[order[1:]] == numbers[order[:-1]]]
    return int(repeats.min()) if len(repeats) else None


def _grown(array: Any, size: int) -> Any:
    """The array, padded with zeros to at least ``size``."""
    return array if len(array) >= size else np.append(array, np.zeros(size - len(array), array.dtype))


def _file_in(path: Path) -> Path:
    """The ratings file of a folder, or the file itself."""
    known = ", ".join(f"{name} ({which})" for name, which in FILES.items())
    if path.is_file() and path.suffix.lower() in PACKED:
        raise TableError(f"{path} is packed; unpack it and name the folder")
    if path.is_file():
        if path.name in FILES:
            return path
        raise TableError(f"{path.name} is not a MovieLens ratings file; known: {known}")
    if not path.is_dir():
        raise TableError(f"there is no folder {path}; --movielens names the unpacked MovieLens folder")
    for folder in (path, *sorted(child for child in path.iterdir() if child.is_dir())):
        for name in FILES:
            if (folder / name).is_file():
                return folder / name
    for packed in sorted(child for child in path.iterdir() if child.suffix.lower() in PACKED):
        raise TableError(f"{packed} is packed; unpack it and name the folder")
    raise TableError(f"{path} has no MovieLens ratings; looked for {known}")


class _Ratings:
    """One ratings file, checked to begin and end as it should."""

    def __init__(self, path: Path) -> None:
        self.path, self._kind, self._between = path, path.name, BETWEEN[path.name]
        try:
            with path.open("rb") as file:
                first = file.readline(200).decode("utf-8", "replace").strip()
                file.seek(0, 2)
                if not file.tell():
                    raise TableError(f"{path} is empty")
                file.seek(-1, 2)
                whole = file.read(1) == b"\n"
        except OSError as error:
            raise TableError(f"cannot read {path}: {error.strerror}") from None
        if self._kind == "ratings.csv":
            begins_well = first.lstrip("\ufeff").replace('"', "") == HEADER  # some tools quote it
            form = f"its first line is {HEADER}"
        else:
            cells, signs = first.split(self._between), self._between.replace("\t", "tabs")
            begins_well = len(cells) == 4 and all(c.replace(".", "", 1).isdigit() for c in cells)
            form = f"each line is user, film, rating and time with {signs} between"
        if not begins_well:
            raise TableError(f"{path} does not begin as MovieLens's does: {form}")
        if not whole:
            raise TableError(f"{path} ends in the middle of a line; it was cut short: download it again")

    @property
    def stars(self) -> Floats:
        """The values a rating may have: half stars in all releases except 1M and 100K."""
        halves = self._kind == "ratings.csv"
        if self._kind == "ratings.dat":
            halves = any(bool((rating % 1 != 0).any()) for _, _, rating in self.columns())
        return np.arange(1, 11) / 2 if halves else np.arange(1.0, 6.0)

    def columns(self) -> Iterator[tuple[Integers, Integers, Floats]]:
        """Users, films and ratings, a block of rows at a time."""
        rows = 0
        with readable(self.path):
            for batch in self._batches():
                if not batch.num_rows:
                    continue
                user, film, rating = (
                    batch.column(name).to_numpy() for name in ("user", "film", "rating")
                )
                wrong = (np.minimum(user, film) < 0) | (np.maximum(user, film) >= MOST)
                self._refuse(wrong, rows, "a user or film number that does not occur in MovieLens")
                right = (rating >= 0.5) & (rating <= 5) & (rating * 2 % 1 == 0)
                self._refuse(~right, rows, "a rating other than 0.5, 1, ... 5 stars")
                rows += len(user)
                yield user, film, rating

    def _refuse(self, wrong: Any, rows: int, what: str) -> None:
        """Raise an error that names the first wrong line; ``rows`` rows precede the block."""
        if wrong.any():
            raise TableError(f"{self.path}, line {self.line_of(rows + int(np.argmax(wrong)))}: {what}")

    def line_of(self, row: int) -> int:
        """The line number, from 1, of a row, from 0. Empty lines are not rows."""
        left = row + (self._kind == "ratings.csv")  # its first line has names
        with self.path.open("rb") as file:
            for line, content in enumerate(file, 1):
                if content.strip():
                    if not left:
                        return line
                    left -= 1
        raise AssertionError("every rating has a line")

    def _batches(self) -> Iterator[Batch]:
        pa, reading = arrow(), arrow("csv")
        between = self._between[0]
        names = ["user", "film", "rating", "time"]
        if between == ":":  # two colons between cells: an empty cell after each
            names = ["user", "", "film", " ", "rating", "  ", "time"]
        yield from reading.open_csv(
            str(self.path),
            reading.ReadOptions(
                block_size=BLOCK, column_names=names, skip_rows=1 if between == "," else 0
            ),
            # some tools quote cells when they rewrite a CSV
            reading.ParseOptions(delimiter=between, quote_char='"' if between == "," else False),
            reading.ConvertOptions(
                include_columns=["user", "film", "rating"],
                column_types={"user": pa.int64(), "film": pa.int64(), "rating": pa.float32()},
                null_values=[],
            ),
        )

    def check_rows(self, rows: int) -> None:
        """Refuse a release that lacks ratings."""
        if not rows:
            raise TableError(f"{self.path} has no ratings")
        wanted = RELEASES.get(self.path.resolve().parent.name.lower())
        if wanted is not None and rows != wanted:
            raise TableError(
                f"{self.path} has {rows:,} ratings, but this release has {wanted:,}: download it again"
            )
