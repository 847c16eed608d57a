"""How often the interval of every single pair covers, over many tallies.

``python -m bench.pair_coverage --data DIR [--tallies 1000] [--json FILE] [--only NAMES] [--keys 3,...]
[--write]`` draws tallies of ``pairs`` from the guests of README, and from the most held keys of real
tables in DIR. A row has the pairs that are covered least and most. Beside them is the range in which
both would lie, 95 % of the time, if every pair were covered 95 % of the time. An unbounded interval
covers; their share is in the last column. With 20 keys there are a third of the tallies, with 100 keys a
twentieth. ``--json`` keeps rows that were measured before.

An interval that reaches an end of the range of its statistic does not exclude that end: the tally cannot
tell. A table of its own tells pairs whose interval lies inside the range in nearly all tallies from all
others.

100 keys have 9,900 pairs and a table of their own (``--keys 100``): so many pairs differ by chance, and
``many_pairs`` says by how much more they differ.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import keyveil as kv
from keyveil.people.people import People
from keyveil.simulate.conditional_questions import true_value
from keyveil.simulate.tallies import Population, simulate

from .many_pairs import HEADER as HEADER_OF_MANY
from .many_pairs import (
    NEAR,
    Coverage,
    at_most,
    in_couples,
    line_of_many,
    odd_couples,
    row_of_many,
    verdict_of_many,
)
from .shrunk_conditionals import RANGES, TABLES, answers, most_held

PAGE = Path(__file__).parents[1] / "docs" / "conditional.md"
GUESTS = 60_000
MANY = 100
"""Number of keys from which pairs are in the second table."""
EPSILONS = ("0.5", "1", "2", "4")
SETTINGS = (
    *(("guests", 5, GUESTS, epsilon) for epsilon in ("1", "2")),
    ("movietweetings-336k", 3, 100_000, "1"),
    *((n, 8, people, e) for n in TABLES for people in (6000, 100_000, 1_000_000) for e in EPSILONS),
    *((name, 20, 100_000, epsilon) for name in TABLES for epsilon in EPSILONS),
    *(("couples", MANY, people, "4") for people in (100_000, 1_000_000)),
    *(("ml-25m-recent", MANY, people, e) for people, e in ((100_000, "4"), (1_000_000, "1"))),
    *(("movietweetings-336k", MANY, people, e) for people, e in ((100_000, "1"), (1_000_000, "2"))),
    *(("jester-1", MANY, n, e) for n, e in ((6000, "0.5"), (100_000, "2"), (1_000_000, "2"))),
    *(("online-retail-uci", MANY, n, e) for n, e in ((6000, "4"), (100_000, "0.5"), (1_000_000, "4"))),
)
"""Table, keys, people and epsilon."""
FEWER = {20: 3, MANY: 20}
"""By the number of keys: the factor by which there are fewer tallies."""
PARTS = ("table", "keys", "people", "epsilon")
INSIDE = 0.95
"""Share of the tallies in which the interval of a pair lies inside the range if the tallies can tell."""
Row = dict[str, Any]
HEADER = [
    "| table | keys | people | epsilon | tallies | answer | pairs | covered, all | least | most "
    "| both expected in | unbounded |",
    "| --- | --: | --: | --: | --: | --- | --: | --: | --: | --: | --- | --: |",
]


HEADER_INSIDE = [
    "| table | keys | people | epsilon | answer | inside: pairs | least | most | both expected in "
    "| others: pairs | least | most | unbounded |",
    "| --- | --: | --: | --: | --- | --: | --: | --: | --- | --: | --: | --: | --: |",
]


def guests() -> Population:
    """The guests of README."""
    frame = pd.DataFrame(kv.synthetic.orders(GUESTS))
    columns = {"person": "guest", "key": "dish", "value": "rating"}
    schema = kv.Schema.from_frame(frame, **columns, low=1, high=5)
    people = People.from_frame(frame, schema, **columns, everyone=GUESTS)
    return Population(schema, people).on_unit_scale()


def expected_range(pairs: int, tallies: int) -> tuple[float, float]:
    """The lowest and highest share of ``pairs`` independent binomial shares, each 2.5 % of the time."""
    below = at_most(tallies)
    least = int(np.searchsorted(1.0 - (1.0 - below) ** pairs, 0.025))
    most = int(np.searchsorted(below**pairs, 0.975))
    return least / tallies, most / tallies


def population_of(name: str, keys: int, data: Path) -> Population:
    """The people of a setting."""
    if name == "guests":
        return guests()
    return (
        odd_couples(keys)
        if name == "couples"
        else most_held(data / f"{name}.parquet", TABLES[name], keys)
    )


def coverage(
    population: Population, facts: tuple[str, int, int, str], tallies: int
) -> Iterator[tuple[str, Coverage]]:
    """Which intervals cover, for frequencies and for means."""
    name, keys, people, epsilon = facts
    plan, names = kv.Plan.of(population.schema, "pairs", epsilon), population.schema.keys
    coins = kv.Coins.stated(f"pair coverage {name}")
    runs = [
        answers(plan, simulate(plan, population, people, coins, run), with_pooled=False)
        for run in range(max(2, tallies // FEWER.get(keys, 1)))
    ]
    for kind in RANGES:
        truth = np.array(
            [
                true_value(population, kv.Query(kind, names[k], ((names[c], True),)))
                for k, c in runs[0].keys.tolist()
            ]
        )
        held = np.isfinite(truth)
        low, high = (np.array([run.best[kind][part][held] for run in runs]) for part in (1, 2))
        asked, truth = ~np.isnan(low), truth[held]
        covered = (low <= truth + 1e-12) & (truth - 1e-12 <= high)
        unbounded = float(np.isinf(low[asked]).mean())
        ends = RANGES[kind]
        between = ((low > ends[0]) & (high < ends[1])).sum(axis=0)
        inside = between >= INSIDE * np.maximum(asked.sum(axis=0), 1)
        yield kind, Coverage(runs[0].keys[held], covered, asked, unbounded, inside)


def rows_of(population: Population, facts: tuple[str, int, int, str], tallies: int) -> Iterator[Row]:
    """The rows of one setting, for frequencies and for means."""
    setting = dict(zip(PARTS, facts, strict=True))
    for kind, measured in coverage(population, facts, tallies):
        share = measured.covered.sum(axis=0) / np.maximum(measured.asked.sum(axis=0), 1)
        yield {
            **setting, "tallies": len(measured.asked), "answer": kind, "pairs": len(share),
            "all": measured.average, "least": float(share.min()), "most": float(share.max()),
            "unbounded": measured.unbounded, **inside_and_others(share, measured),
        }  # fmt: skip


def inside_and_others(share: np.ndarray, measured: Coverage) -> Row:
    """Coverage of pairs whose intervals lie inside the range, and of all others."""
    low, high = (round(end * len(measured.asked)) / len(measured.asked) for end in NEAR)
    parts: Row = {}
    for name, pairs in (("inside", measured.inside), ("others", ~measured.inside)):
        own = share[pairs]
        ends = {"least": float(own.min()), "most": float(own.max())} if len(own) else {}
        beyond = {"below": int((own < low).sum()), "above": int((own > high).sum())}
        parts[name] = {"pairs": len(own), **ends, **beyond}
    return parts


def rows_of_many(
    population: Population, facts: tuple[str, int, int, str], tallies: int
) -> Iterator[Row]:
    """The same for many keys; the odd couples have rows of their own."""
    setting = dict(zip(PARTS, facts, strict=True))
    for kind, measured in coverage(population, facts, tallies):
        yield {**setting, "answer": kind, **row_of_many(measured)}
        if facts[0] == "couples":
            odd = measured.of_pairs(in_couples(measured.keys))
            yield {**setting, "answer": f"{kind}, the couples", **row_of_many(odd)}


def line(row: Row) -> str:
    """A row as a line of the table."""
    low, high = expected_range(row["pairs"], row["tallies"])
    facts = (row["table"], row["keys"], f"{row['people']:,}", row["epsilon"], f"{row['tallies']:,}")
    shares = [f"{row[name]:.1%}" for name in ("all", "least", "most")]
    cells = [*facts, row["answer"], row["pairs"], *shares, f"{low:.1%} to {high:.1%}"]
    return f"| {' | '.join(map(str, cells))} | {row['unbounded']:.0%} |"


def line_inside(row: Row) -> str:
    """A row of the table that tells pairs with intervals inside the range from the others."""
    facts = (row["table"], row["keys"], f"{row['people']:,}", row["epsilon"], row["answer"])
    inside, others = (
        [part["pairs"], *(f"{part[end]:.1%}" if end in part else "-" for end in ("least", "most"))]
        for part in (row["inside"], row["others"])
    )
    low, high = expected_range(max(inside[0], 1), row["tallies"])
    inside.append(f"{low:.1%} to {high:.1%}" if inside[0] else "-")
    return f"| {' | '.join(map(str, (*facts, *inside, *others)))} | {row['unbounded']:.0%} |"


def verdict_inside(rows: list[Row]) -> list[str]:
    """How many pairs inside the range are covered outside 93 to 97 %, and how many by chance."""
    lines = []
    for kind in RANGES:
        here = [row for row in rows if row["answer"] == kind and row["inside"]["pairs"]]
        if not here:
            continue
        parts = [row["inside"] for row in here]
        pairs, below, above = (sum(part[name] for part in parts) for name in ("pairs", "below", "above"))
        chance = np.zeros(2)
        for row in here:
            law, (low, high) = at_most(row["tallies"]), (round(end * row["tallies"]) for end in NEAR)
            chance += row["inside"]["pairs"] * np.array([law[low - 1], 1.0 - law[high]])
        others = [row["others"] for row in rows if row["answer"] == kind and row["others"]["pairs"]]
        rest = ""
        if others:
            rest = (
                f", and the {sum(part['pairs'] for part in others):,} others "
                f"{min(part['least'] for part in others):.1%} to "
                f"{max(part['most'] for part in others):.1%}"
            )
        lines.append(
            f"- {kind.capitalize()}: of {pairs:,} pairs inside the range, {below} are covered less than "
            f"{NEAR[0]:.0%} of the time and {above} more than {NEAR[1]:.0%}; chance alone gives "
            f"{chance[0]:.1f} and {chance[1]:.1f}. They are covered "
            f"{min(part['least'] for part in parts):.1%} to {max(part['most'] for part in parts):.1%} "
            f"of the time{rest}."
        )
    return lines


def verdict(rows: list[Row]) -> list[str]:
    """For each answer: the coverage, and how many settings have a pair outside the range of chance."""
    lines = []
    for kind in RANGES:
        here = [row for row in rows if row["answer"] == kind]
        ends = [expected_range(row["pairs"], row["tallies"]) for row in here]
        below = sum(row["least"] < low for row, (low, _) in zip(here, ends, strict=True))
        above = sum(row["most"] > high for row, (_, high) in zip(here, ends, strict=True))
        average = [row["all"] for row in here]
        many = [row for row in here if row["keys"] not in FEWER]
        least = min(many or here, key=lambda row: float(row["least"]))
        lines.append(
            f"- {kind.capitalize()}: {min(average):.1%} to {max(average):.1%} of intervals cover. "
            f"The pair that is covered least, up to 8 keys, is covered {least['least']:.1%} of the time "
            f"({least['table']}, {least['people']:,} people, epsilon {least['epsilon']}). "
            f"At {below} of {len(here)} settings the least covered pair lies below the range of chance, "
            f"and at {above} the most covered one above it."
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pair_coverage", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder with the tables of ratings")
    parser.add_argument("--tallies", type=int, default=1000)
    parser.add_argument("--only", default="", help="names of tables, all by default")
    parser.add_argument("--keys", default="", help="numbers of keys, all by default")
    parser.add_argument("--people", default="", help="numbers of people, all by default")
    parser.add_argument("--epsilon", default="", help="epsilons, all by default")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    measured: list[Row] = []
    if given.json and given.json.exists():
        measured = json.loads(given.json.read_text())
    settings = {tuple(row[part] for part in PARTS) for row in measured}
    for facts in SETTINGS:
        filters = zip(
            (given.only, given.keys, given.people, given.epsilon), map(str, facts), strict=True
        )
        if facts in settings or any(words and own not in words.split(",") for words, own in filters):
            continue
        of_setting, as_line = (rows_of_many, line_of_many) if facts[1] >= MANY else (rows_of, line)
        for row in of_setting(population_of(*facts[:2], given.data), facts, given.tallies):
            measured.append(row)
            print(as_line(row), flush=True)
        if given.json:
            given.json.write_text(json.dumps(measured))
    measured.sort(key=lambda row: SETTINGS.index(tuple(row[part] for part in PARTS)))
    few, many = ([row for row in measured if (row["keys"] >= MANY) == large] for large in (False, True))
    if few:
        publish("pair-coverage", [*verdict(few), "", *HEADER, *map(line, few)], given.write)
    rows_inside = [row for row in few if "inside" in row]
    if rows_inside:
        lines = [*verdict_inside(rows_inside), "", *HEADER_INSIDE, *map(line_inside, rows_inside)]
        publish("pair-coverage-inside", lines, given.write)
    if many:
        lines = [*verdict_of_many(many), "", *HEADER_OF_MANY, *map(line_of_many, many)]
        publish("pair-coverage-many", lines, given.write)


def publish(place: str, lines: list[str], write: bool) -> None:
    """Prints a table and, if asked, writes it to the page."""
    print("\n".join(lines))
    if write:
        page = PAGE.read_text("utf-8")
        start, end = f"<!-- bench:{place} -->", "<!-- /bench -->"
        before, rest = page.split(start)
        after = rest.split(end, 1)[1]
        PAGE.write_text(f"{before}{start}\n\n" + "\n".join(lines) + f"\n\n{end}{after}", "utf-8")


if __name__ == "__main__":
    main()
