"""Conditionals with and without shrinkage on the same tallies: ``best`` beside ``pooled``.

``python -m bench.shrunk_conditionals --data DIR [--write] [--repeat 20] [--keys 8,20]
[--people 6e3,1e5,1e6] [--epsilon 0.5,1,2,4]`` reads the tables of ratings in DIR and measures all
ordered pairs of each table's most held keys with ``pairs``. A ratio is the squared error of ``pooled``
over that of ``best``, values clipped to their range, unknown ones taken as its middle.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from keyveil import Coins, Plan, Schema
from keyveil.estimate.together.conditional import Conditionals
from keyveil.estimate.together.query import Query
from keyveil.people.tables.top_keys import read_top
from keyveil.simulate.conditional_questions import true_value
from keyveil.simulate.tallies import Population, simulate

PAGE = Path(__file__).parents[1] / "docs" / "conditional.md"
TABLES = {
    "ml-25m-recent": (0.5, 5.0),
    "movietweetings-336k": (0.0, 10.0),
    "jester-1": (-10.0, 10.0),
    "online-retail-uci": (0.0, 100.0),
}
"""Tables and the range that their values are cut to."""
RANGES = {"frequency": (0.0, 1.0), "mean": (-1.0, 1.0)}
HEADER = [
    "| table | keys | people | epsilon | f: pooled over best | m | coverage f | worst tenth of pairs | "
    "m | worst tenth | m unbounded |",
    "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |",
]


def most_held(path: Path, ends: tuple[float, float], keys: int) -> Population:
    """The people of a table with its most held keys, values on [-1, 1]."""
    read = read_top(str(path), "user", "key", "value", ends, keys)
    schema = Schema.of(read.keys, repr(ends[0]), repr(ends[1]))
    return Population(schema, read.people).on_unit_scale()


def answers(source: Conditionals, queries: list[Query], kind: str) -> np.ndarray:
    """Value and both ends of every query, a row each; unknown values are the middle of the range."""
    low, high = RANGES[kind]
    rows = [(a.point, a.estimate.low, a.estimate.high) for a in source.answers(queries)]
    values = np.array(rows)
    values[:, 0] = np.clip(np.nan_to_num(values[:, 0], nan=(low + high) / 2), low, high)
    return values


def row(name: str, population: Population, people: int, epsilon: str, repeat: int) -> tuple[str, tuple]:
    """One line of the table, and its two ratios."""
    schema = population.schema
    plan = Plan.of(schema, "pairs", epsilon)
    ratios, cells = [], []
    pairs = [(k, c) for k in schema.keys for c in schema.keys if k != c]
    coins = Coins.stated(f"bench {name}")
    tallies = [simulate(plan, population, people, coins, run) for run in range(repeat)]
    for kind in RANGES:
        queries = [Query(kind, k, ((c, True),)) for k, c in pairs]
        truth = np.array([true_value(population, query) for query in queries])
        queries = [query for query, value in zip(queries, truth, strict=True) if np.isfinite(value)]
        truth = truth[np.isfinite(truth)]
        found = {
            name: np.array(
                [answers(Conditionals(plan, tally, name), queries, kind) for tally in tallies]
            )
            for name in ("pooled", "best")
        }
        errors = {e: float(((part[..., 0] - truth) ** 2).mean()) for e, part in found.items()}
        ratios.append(errors["pooled"] / errors["best"])
        slack = 1e-12  # a truth of one may be a little more by rounding
        low, high = found["best"][..., 1], found["best"][..., 2]
        inside = ((low <= truth + slack) & (truth - slack <= high)).mean(axis=0)
        cells += [f"{inside.mean():.1%}", f"{np.quantile(inside, 0.1):.0%}"]
    cells.append(f"{np.isinf(found['best'][..., 1]).mean():.0%}")
    facts = (name, len(schema.keys), f"{people:,}", epsilon, *(f"{ratio:.2f}" for ratio in ratios))
    start = f"| {' | '.join(map(str, facts))} | "
    return start + " | ".join(cells) + " |", tuple(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.shrunk_conditionals", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder with the tables of ratings")
    parser.add_argument("--only", default=",".join(TABLES))
    parser.add_argument("--keys", default="8,20")
    parser.add_argument("--people", default="6e3,1e5,1e6")
    parser.add_argument("--epsilon", default="0.5,1,2,4")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    lines, ratios = list(HEADER), []
    for name in given.only.split(","):
        for keys in map(int, given.keys.split(",")):
            top = most_held(given.data / f"{name}.parquet", TABLES[name], keys)
            for people in (int(float(number)) for number in given.people.split(",")):
                for epsilon in given.epsilon.split(","):
                    line, pair = row(name, top, people, epsilon, given.repeat)
                    lines.append(line)
                    ratios.append(pair)
                    print(line, flush=True)
    means = np.exp(np.log(ratios).mean(axis=0))
    least = np.min(ratios, axis=0)
    lines += [
        "",
        f"Geometric means over {len(ratios)} settings: {means[0]:.2f} for frequencies and "
        f"{means[1]:.2f} for means; at worst {least[0]:.2f} and {least[1]:.2f}.",
    ]
    print(lines[-1])
    if given.write:
        page = PAGE.read_text()
        start, end = "<!-- bench:shrunk -->", "<!-- /bench -->"
        before, rest = page.split(start)
        after = rest.split(end, 1)[1]
        PAGE.write_text(f"{before}{start}\n\n" + "\n".join(lines) + f"\n\n{end}{after}")


if __name__ == "__main__":
    main()
