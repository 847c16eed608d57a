"""Learners from a tally and from the table itself: ``python -m bench.learn --data DIR``.

Simulated people are drawn from one half of each table, and classifiers are scored on the other half.
Accuracies are means over every key as the target and over the repetitions. "Raw" is the same learner
on the exact laws of the first half. ``--false-findings RUNS`` counts what learners find among
independent keys.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from keyveil import Coins, People, Plan, Schema
from keyveil.estimate.learn import ChowLiu, Cube, DecisionTree, ExactEvidence, NaiveBayes, rules
from keyveil.estimate.learn.classifier import Classes, true_classes
from keyveil.estimate.learn.released import Released, Source
from keyveil.estimate.together.conditional import Conditionals
from keyveil.people.tables import people_of
from keyveil.simulate.tallies import Population, simulate

from .false_edges import false_finding_table
from .table import Table

DOCS = Path(__file__).parents[1] / "docs" / "learn.md"
EPSILONS = (1, 2, 4)
SIZES = (100_000, 1_000_000)
LEARNERS = ("decision tree", "naive Bayes", "Chow-Liu")


class Data(NamedTuple):
    """A table, its range of values, and whether classifiers predict levels or only presence."""

    name: str
    low: float
    high: float
    levels: bool


SETS = (Data("ml-25m-recent", 0.5, 5, False), Data("jester-1", -10, 10, True))


class Halves(NamedTuple):
    """The population that people are drawn from, and the people that learners are scored on."""

    population: Population
    others: People


def halves(data: Data, folder: Path, keys: int) -> Halves:
    schema = Schema.of([str(i) for i in range(keys)], data.low, data.high)
    path = folder / f"{data.name}.parquet"
    everyone = people_of(schema, path, person="user", key="key", value="value", lenient=True)
    order = Coins.stated("halves").generator().permutation(len(everyone))
    half = len(order) // 2
    first, second = (everyone.chosen(rows, rows) for rows in (order[:half], order[half:]))
    return Halves(Population(schema, first), second)


def truths(source: Source, others: People, levels: bool) -> list[np.ndarray]:
    released = Released(source)
    names = released.schema.keys
    return [true_classes(released, Classes(released, name, levels), others) for name in names]


def accuracies(
    source: Source, others: People, true: list[np.ndarray], levels: bool, targets: Iterable[str]
) -> dict[str, float]:
    """The mean share of correct predictions of each learner over the targets."""
    released = Released(source)
    tree = ChowLiu().fit(source)
    scores: dict[str, list[float]] = {name: [] for name in (*LEARNERS, "majority")}
    for target in targets:
        right = true[released.place(target)]
        classes = Classes(released, target, levels)
        common = np.array(classes.labels)[(released.single(classes.place) @ classes.digits).argmax()]
        guesses = {
            "decision tree": DecisionTree(target, levels=levels).fit(source).predict(others),
            "naive Bayes": NaiveBayes(target, levels=levels).fit(source).predict(others),
            "Chow-Liu": tree.predict(others, target, levels),
            "majority": common,
        }
        for name, guess in guesses.items():
            scores[name].append(float((guess == right).mean()))
    return {name: float(np.mean(shares)) for name, shares in scores.items()}


def listed(source: Source, exact: Source, lift: float) -> tuple[int, int, float]:
    """The number of listed rules, of false ones among them, and the share of true rules listed.

    A rule of two keys is about both directions, whichever is named first.
    """
    listed_rules, true = (
        {frozenset((r.antecedent[0][0], r.consequent)) for r in rules(given, min_lift=lift)}
        for given in (source, exact)
    )
    return len(listed_rules), len(listed_rules - true), len(listed_rules & true) / max(len(true), 1)


def cube_errors(source: Source, exact: Source, keys: tuple[str, ...]) -> tuple[float, float]:
    """Mean absolute error of the cells of all two-key cubes, and the coverage of their intervals."""
    errors, held = [], []
    for i, first in enumerate(keys):
        for second in keys[:i]:
            cells = Cube(source, (first, second)).cells()
            truth = Cube(exact, (first, second)).cells()
            for (_, estimate), (_, true) in zip(cells, truth, strict=True):
                errors.append(abs(estimate.value - true.value))
                held.append(estimate.low - 1e-12 <= true.value <= estimate.high + 1e-12)
    return float(np.mean(errors)), float(np.mean(held))


def aimed(schema: Schema, target: str, epsilon: float) -> Plan:
    """A plan in which every view holds the target."""
    queries = ";".join(f"frequency({target} | {key})" for key in schema.keys if key != target)
    return Plan.of(schema, "workload", epsilon, queries=queries)


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def measure(data: Data, folder: Path, keys: int, repeat: int) -> list[Table]:
    population, others = halves(data, folder, keys)
    schema, exact = population.schema, ExactEvidence(population)
    true = truths(exact, others, data.levels)
    raw = accuracies(exact, others, true, data.levels, schema.keys)
    lift = 1.5
    settings = [(epsilon, people) for people in SIZES for epsilon in EPSILONS]
    columns: list[dict[str, list[float]]] = []
    for epsilon, people in settings:
        scores: dict[str, list[float]] = {}
        plan = Plan.of(schema, "pairs", epsilon)
        plans = {target: aimed(schema, target, epsilon) for target in schema.keys}
        for run in range(repeat):
            coins = Coins.stated(f"bench learn {data.name} {people}")
            source = Conditionals(plan, simulate(plan, population, people, coins, run))
            score = accuracies(source, others, true, data.levels, schema.keys)
            score["rules"], score["false"], score["recall"] = listed(source, exact, lift)
            score["cells"], score["held"] = cube_errors(source, exact, schema.keys)
            for name, value in score.items():
                scores.setdefault(name, []).append(value)
            for target, aimed_plan in plans.items():
                source = Conditionals(aimed_plan, simulate(aimed_plan, population, people, coins, run))
                for name, value in accuracies(source, others, true, data.levels, [target]).items():
                    scores.setdefault(f"{name}, aimed", []).append(value)
        columns.append(scores)
        print(f"{data.name}: epsilon {epsilon}, {people} people done", flush=True)
    heads = tuple(f"ε {e}, {n:.0e}".replace("e+0", "e") for e, n in settings)
    lines = []
    for name in LEARNERS:
        for plan_name, ending in (("all pairs", ""), ("target's pairs", ", aimed")):
            shares = (percent(float(np.mean(column[name + ending]))) for column in columns)
            lines.append((f"{name}, {plan_name}", percent(raw["majority"]), percent(raw[name]), *shares))
    predicted = "absent, low or high" if data.levels else "held or not"
    tables = [
        Table(
            f"{data.name}, top {keys} keys: accuracy in %, every key as target ({predicted})",
            ("learner, plan", "majority", "raw", *heads),
            tuple(lines),
        )
    ]
    total = len(rules(exact, min_lift=lift))
    parts = [
        ("two-key cubes: mean error of a cell", "cells", "{:.4f}"),
        ("cells whose 95 % interval holds the truth", "held", "{:.3f}"),
    ]
    if total:
        parts += [
            (f"rules with lift > {lift} ({total} true)", "rules", "{:.1f}"),
            ("of these false", "false", "{:.1f}"),
            ("share of true rules found", "recall", "{:.2f}"),
        ]
    lines = [
        (title, *(shape.format(float(np.mean(column[name]))) for column in columns))
        for title, name, shape in parts
    ]
    title = f"{data.name}, top {keys} keys: rules and cubes, all pairs, means over {repeat} runs"
    tables.append(Table(title, ("", *heads), tuple(lines)))
    return tables


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.learn", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), metavar="DIR")
    parser.add_argument("--keys", type=int, default=20, help="the most popular keys taken")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/learn.md")
    parser.add_argument("--false-findings", type=int, metavar="RUNS", help="among independent keys")
    given = parser.parse_args()
    began, tables = perf_counter(), []
    if given.false_findings:
        tables = [false_finding_table(given.false_findings)]
    for data in () if given.false_findings else SETS:
        if not (given.data / f"{data.name}.parquet").exists():
            print(f"{data.name}: not in {given.data}, skipped")
            continue
        tables += measure(data, given.data, given.keys, given.repeat)
    for table in tables:
        print(f"\n{table}")
    print(f"({perf_counter() - began:.0f} s)")
    if given.write:
        mark = "false findings" if given.false_findings else "bench"
        page = DOCS.read_text(encoding="utf-8")
        head, rest = page.split(f"<!-- {mark} -->")
        tail = rest.split(f"<!-- /{mark} -->")[1]
        body = "\n\n".join(table.markdown() for table in tables)
        DOCS.write_text(f"{head}<!-- {mark} -->\n\n{body}\n\n<!-- /{mark} -->{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
