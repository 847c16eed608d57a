"""Ratio of predicted to measured error of the planner's choice, answered by default.

``python -m bench.predicted_auto [--write] [--data DIR] [--json FILE] [--repeat 100] [--only NAMES]
[--epsilon 0.1,...] [--ways auto,...]`` measures the populations of ``bench.planner`` with a planner that
is told the table, one that is told nothing, and one that has a first round. ``--conditional`` measures
conditionals of the most held keys of real tables instead (``--keys 8,20``), with a planner that is told
the table and one that is told nothing; they have a table of their own.
``--json`` keeps rows that were measured before, so that populations can be measured one after the other;
several files with commas between them are read, and the first is written.
Where a planner that is told nothing takes the plan of one that is told the table, the row is that one's.
A conditional ratio that is off by more than a tenth is measured anew, with other coins and more
repetitions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from keyveil import Coins
from keyveil.estimate import DEFAULT
from keyveil.people.population import Population
from keyveil.simulate.contest import Contest

from .planner import EPSILONS, NAMES, PILOTS, populations, write
from .predicted import HIGH, LOW
from .shrunk_conditionals import TABLES, most_held

WAYS = {"auto": "the table", "auto:one_round": "nothing", "auto:pilot": "its first round"}
"""Competitors, and what the planner is told."""
TOGETHER_WAYS = ("auto", "auto:one_round")
PEOPLE = 100_000
AGAIN, AGAIN_SLOW = 16, 4
"""Factors on the repetitions when a ratio that is off by more than a tenth is measured again; the second
is for plans other than ``pairs``, which take a second for each repetition."""
TOGETHER_EPSILONS = ("0.5", "1", "2", "4")
Row = dict[str, Any]


def settings(given: argparse.Namespace) -> Iterator[tuple[Population, str, int, int | None]]:
    """Populations with their names, the number of people, and the number of keys in a conditional."""
    only = {name for name in given.only.split(",") if name}
    if not given.conditional:
        for name, (population, people) in populations(given.data, only).items():
            yield population, name, people, None
        return
    for name, ends in TABLES.items() if given.data else ():
        for keys in map(int, given.keys.split(",")) if not only or name in only else ():
            yield (
                most_held(given.data / f"{name}.parquet", ends, keys),
                f"{name}, {keys} keys",
                PEOPLE,
                2,
            )


def measured(contest: Contest, name: str, way: str, epsilon: str) -> Row:
    """One row: the prediction over the measured error, with its standard error."""
    document = contest.rows(way, epsilon)[0].document()
    middle = "" if contest.keys_together is None else "conditional_"
    row: Row = {"population": name, "way": way, "epsilon": epsilon}
    row |= {part: document[part] for part in ("chosen", "refused")}
    for statistic in ("frequency", "mean"):
        predicted, mse, error = (
            document[f"{kind}_{middle}{statistic}{end}"]
            for kind, end in (("predicted", ""), ("mse", ""), ("mse", "_se"))
        )
        row[statistic] = predicted and (predicted / mse, predicted / mse * error / mse)
    return row


def of_same_plan(contest: Contest, rows: list[Row], name: str, way: str, epsilon: str) -> Row | None:
    """The row of a planner that is told the table, if another way takes the same plan."""
    reference = next((row for row in rows if places_of(row) == (name, "auto", epsilon)), None)
    if reference is None or way == "auto":
        return None
    table, other = (contest.for_auto(each).advice(epsilon) for each in ("auto", way))
    if table.plan != other.plan:
        return None
    ratios = {part: reference[part] for part in ("chosen", "frequency", "mean")}
    return {"population": name, "way": way, "epsilon": epsilon, **ratios, "refused": not other.answers}


def off(row: Row) -> bool:
    """Whether a ratio is off by more than a tenth, of a plan that the planner does not refuse."""
    ratios = (row[statistic][0] for statistic in ("frequency", "mean") if row[statistic])
    return not row["refused"] and not all(LOW <= ratio <= HIGH for ratio in ratios)


def anew(contest: Contest, row: Row) -> Row:
    """The same setting measured again, with other coins and more repetitions."""
    runs = contest.repetitions * (AGAIN if row["chosen"] == "pairs" else AGAIN_SLOW)
    again = replace(contest, repetitions=runs, coins=contest.coins.under("anew"))
    was = {statistic: row[statistic][0] for statistic in ("frequency", "mean") if row[statistic]}
    return {**measured(again, row["population"], row["way"], row["epsilon"]), "was": was}


def measured_together(rows: list[Row], contest: Contest, name: str, way: str, epsilon: str) -> Row:
    """One row of conditionals: that of the same plan, or a measured one, twice if it is off."""
    row = of_same_plan(contest, rows, name, way, epsilon) or measured(contest, name, way, epsilon)
    return anew(contest, row) if off(row) else row


def measured_anew(rows: list[Row]) -> list[str]:
    """What the rows that were measured anew had at first."""
    first = [
        f"{row['population']} at {row['epsilon']}, {statistic}: {row['was'][statistic]:.2f}, then "
        f"{row[statistic][0]:.2f} ± {row[statistic][1]:.2f}"
        for row in rows
        for statistic in ("frequency", "mean")
        if statistic in row.get("was", ()) and not LOW <= row["was"][statistic] <= HIGH
    ]
    if not first:
        return []
    return [
        f"- Off by more than a tenth at first, and measured anew with {AGAIN} times the repetitions "
        f"({AGAIN_SLOW} times if not `pairs`), which is what the table has: {len(first)} "
        f"({'; '.join(first)})."
    ]


def verdict(rows: list[Row]) -> str:
    """How many ratios lie within a tenth, of plans that the planner does not refuse."""
    ratios = [row[s][0] for row in rows if not row["refused"] for s in ("frequency", "mean") if row[s]]
    if not ratios:
        return "the planner refuses all."
    inside = sum(LOW <= ratio <= HIGH for ratio in ratios)
    return (
        f"{inside} of {len(ratios)} ratios are within {LOW} to {HIGH}: the smallest is "
        f"{min(ratios):.2f} and the largest {max(ratios):.2f}."
    )


def lines_of(rows: list[Row]) -> list[str]:
    """Every setting: the plan, whether the planner refuses it, and both ratios."""
    ways = [way for way in WAYS if any(row["way"] == way for row in rows)]
    lines = [
        f"- Told {WAYS[way]}, if the planner can answer: "
        f"{verdict([row for row in rows if row['way'] == way])}"
        for way in ways
    ]
    lines += measured_anew(rows)
    lines += [
        "",
        "| population | epsilon | told | plan | planner | predicted / measured, f | m |",
        "| --- | --: | --- | --- | --- | --: | --: |",
    ]
    for row in rows:
        ratios = (
            "{:.2f} ± {:.2f}".format(*row[statistic]) if row[statistic] else "no forecast"
            for statistic in ("frequency", "mean")
        )
        says = "refuses" if row["refused"] else "can answer"
        facts = (row["population"], row["epsilon"], WAYS[row["way"]], row["chosen"], says, *ratios)
        lines.append(f"| {' | '.join(facts)} |")
    return lines


def places_of(row: Row) -> tuple[str, str, str]:
    """What tells a row from all others."""
    return row["population"], row["way"], row["epsilon"]


def place(row: Row) -> tuple[int, str, int, int, float]:
    """The place of a row in its table."""
    name, _, keys = str(row["population"]).partition(", ")
    order = NAMES.index(name) if name in NAMES else len(NAMES)
    number = int(keys.partition(" ")[0] or 0)
    return order, name, number, list(WAYS).index(row["way"]), float(row["epsilon"])


def main() -> None:
    """Measure, print, and with ``--write`` put the table into the docs."""
    parser = argparse.ArgumentParser(prog="python -m bench.predicted_auto", description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--data", type=Path, help="a folder with the tables of ratings")
    parser.add_argument("--repeat", type=int, default=100)
    parser.add_argument("--only", default="", help="names of populations, all by default")
    parser.add_argument("--epsilon", default="")
    parser.add_argument("--ways", default="")
    parser.add_argument("--conditional", action="store_true")
    parser.add_argument("--keys", default="8,20", help="numbers of keys, for conditionals")
    parser.add_argument("--json", default="", help="files of rows that were measured before")
    given = parser.parse_args()
    rows: list[Row] = []
    files = [Path(name) for name in given.json.split(",") if name]
    for file in files:
        rows += json.loads(file.read_text()) if file.exists() else []
    places = {places_of(row) for row in rows}
    ways = given.ways.split(",") if given.ways else TOGETHER_WAYS if given.conditional else list(WAYS)
    usual = TOGETHER_EPSILONS if given.conditional else EPSILONS
    for population, name, people, together in settings(given):
        coins = Coins.stated("bench predicted auto").under(name)
        contest = Contest(
            population, people, given.repeat, coins, estimators=(DEFAULT,), pilots=PILOTS,
            keys_together=together,
        )  # fmt: skip
        for way in ways:
            for epsilon in given.epsilon.split(",") if given.epsilon else usual:
                if (name, way, epsilon) in places:
                    continue
                of = measured if together is None else partial(measured_together, rows)
                row = of(contest, name, way, epsilon)
                rows.append(row)
                print(lines_of(rows[-1:])[-1], flush=True)
                if files:
                    files[0].write_text(json.dumps(rows))
    rows.sort(key=place)
    lines = lines_of(rows)
    print("\n".join(lines))
    if given.write:
        write({"predicted-conditional" if given.conditional else "predicted-auto": lines})


if __name__ == "__main__":
    main()
