"""The shipped summary of MovieLens: how many hold each of the top 100 films, and how they rate it.

It stands in where MovieLens itself is not on disk. It holds facts about films and no one's record: which
ratings belong to one person cannot be told from it. Made by

    python -m keyveil.simulate.paper.movielens_summary ml-25m-recent.parquet --person user \\
        -o ml_top100.json

from a long table of MovieLens 25M (films from 2014 on), under GroupLens's terms, which it carries along.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from ...foundation.errors import TableError
from ...foundation.files import write_whole
from ...people.schema import Schema
from ...people.synthetic import KnownPopulation, of_histograms, of_table

FORMAT = "keyveil/summary/1"
FILE = "ml_top100.json"
TOP = 100
STARS = np.arange(1, 11) / 2
TERMS = (
    "GroupLens: for research; cite F. M. Harper and J. A. Konstan, The MovieLens Datasets: History "
    "and Context, ACM TiiS 5(4), 2015; pass on under the same terms only; no commercial use without "
    "permission"
)


def shipped() -> tuple[KnownPopulation, str]:
    """The population of the shipped summary, and a line that says what it is."""
    return parsed(json.loads(files(__package__).joinpath(FILE).read_text("utf-8")))


def parsed(document: Any) -> tuple[KnownPopulation, str]:
    """The population of a summary."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise TableError(f"a summary has the format {FORMAT!r}")
    stars = np.array(document["stars"], np.float64)
    points = (stars - stars[0]) / (stars[-1] - stars[0]) * 2 - 1
    population = of_histograms(np.array(document["frequency"]), np.array(document["ratings"]), points)
    return population, f"shipped summary of {document['title']}"


def of_folder(path: str | Path) -> tuple[KnownPopulation, str]:
    """The top films of a MovieLens folder: everyone's own ratings."""
    from ...people.tables.movielens_files import read_movielens

    read = read_movielens(path, TOP)
    note = f"{read.rows:,} ratings by {len(read.people):,} people"
    low, high = read.schema.ranges[0]
    return of_table(Schema.of(TOP, low, high), read.people), note  # films by their rank


def summarise(source: str | Path, person: str, key: str, value: str, title: str) -> dict[str, Any]:
    """The summary of a long table of ratings from 0.5 to 5 stars."""
    from ...people.tables import key_counts, people_of

    counts = key_counts(source, person=person, key=key)
    if len(counts) < TOP:
        raise TableError(f"{source} has {len(counts)} films; a summary has {TOP}")
    top = sorted(counts, key=lambda name: (-counts[name], name))[:TOP]
    schema = Schema.of(top, "0.5", "5")
    people = people_of(schema, source, person=person, key=key, value=value, lenient=True)
    at = np.rint(people.values * 2).astype(np.int64) - 1
    ratings = np.bincount(people.keys.astype(np.int64) * len(STARS) + at, minlength=TOP * len(STARS))
    ratings = ratings.reshape(TOP, len(STARS))
    holders = ratings.sum(axis=1)
    return {
        "format": FORMAT,
        "title": title,
        "terms": TERMS,
        "people": len(people),
        "stars": STARS.tolist(),
        "frequency": np.round(holders / len(people), 6).tolist(),
        "ratings": np.round(ratings / holders[:, None], 4).tolist(),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a summary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("table", help="a long table: .csv or .parquet")
    parser.add_argument("--person", default="person")
    parser.add_argument("--key", default="key")
    parser.add_argument("--value", default="value")
    parser.add_argument("--title", default="MovieLens 25M, films from 2014 on")
    parser.add_argument("-o", "--output", default=FILE)
    given = parser.parse_args(arguments)
    document = summarise(given.table, given.person, given.key, given.value, given.title)
    lines = [f"  {json.dumps(name)}: {_listed(part)}" for name, part in document.items()]
    write_whole(Path(given.output), ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def _listed(part: Any) -> str:
    """JSON with a row of ratings on each line."""
    if isinstance(part, list) and part and isinstance(part[0], list):
        return "[\n" + ",\n".join(f"    {json.dumps(row)}" for row in part) + "\n  ]"
    return json.dumps(part)


if __name__ == "__main__":
    main()
