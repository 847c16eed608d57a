"""The planner's choice beside every published mechanism, at equal true epsilon.

``python -m bench.planner [--write] [--data DIR] [--repeat 50] [--epsilon 0.1,...] [--only NAMES]``: the
paper's populations, PCKV's, and with ``--data`` real ratings. Score: mse_f / mse_f(KVUE) +
mse_m / mse_m(KVUE), means clipped to their range for all; KVUE with the same kind of estimator is 2.
Competitors for sets have the padding length of least predicted error on the population, one for each
estimator.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np

from keyveil import Coins, Schema
from keyveil.people.prior import Prior
from keyveil.people.synthetic import gaussian, pckv_gaussian, pckv_uniform, uniform
from keyveil.people.tables.top_keys import read_top
from keyveil.simulate.contest import Contest
from keyveil.simulate.contest_row import ContestRow
from keyveil.simulate.parallel import measure
from keyveil.simulate.tallies import Population

PAGE = Path(__file__).parents[1] / "docs" / "planner.md"
EPSILONS = ("0.1", "0.2", "0.5", "1", "2", "3", "4", "5")
PUBLISHED = {
    "privkv": ("least_squares", "published"),
    "privkvm": ("published", "debiased"),
    "f2m": ("least_squares",),
    "kvue": ("least_squares",),
    "kvoh": ("least_squares", "published"),
    "bisample": ("least_squares",),
    "pckv_ue": ("published",),
    "pckv_grr": ("published",),
    "collision": ("least_squares",),
    "coco": ("least_squares",),
}
"""The competitors and their published estimators (where several, the better one counts)."""
OURS = "shrunk"
TABLES = {
    "ml-25m-recent": ("0.5,5", 100),
    "jester-1": ("-10,10", 100),
    "movietweetings-336k": ("0,10", 50),
}


@dataclass(frozen=True)
class Score:
    """A mechanism's errors relative to KVUE's, with the standard errors of their ratios to auto's."""

    total: float
    frequency: float
    mean: float
    beyond: float
    """By how many standard errors auto's total lies above this one's; negative where it lies below."""
    beyond_frequency: float
    beyond_mean: float


def populations(data: Path | None, only: set[str]) -> dict[str, tuple[Population, int]]:
    """By name, with the number of people to simulate."""
    made: dict[str, tuple[Population, int]] = {}
    for name, make, people in (
        ("gaussian", gaussian, 100_000),
        ("uniform", uniform, 100_000),
        ("pckv-uu", pckv_uniform, 1_000_000),
        ("pckv-gg", pckv_gaussian, 1_000_000),
    ):
        if not only or name in only:
            stated = make()
            made[name] = (Population(stated.schema, stated.people), people)
    for name, (ends, top) in TABLES.items():
        if data is None or (only and name not in only):
            continue
        low, high = (float(end) for end in ends.split(","))
        path = str(data / f"{name}.parquet")
        read = read_top(path, "user", "key", "value", (low, high), top)
        schema = Schema.of(read.keys, repr(low), repr(high))
        made[name] = (Population(schema, read.people).on_unit_scale(), 100_000)
    return made


def scored(rows: list[ContestRow], base: ContestRow, auto: ContestRow, row: ContestRow) -> Score:
    """Errors relative to KVUE's; standard errors by leaving out one repetition at a time."""

    def parts(keep: np.ndarray, one: ContestRow) -> np.ndarray:
        made = []
        for name in ("frequency", "mean"):
            made.append(one.runs[name][keep].mean() / base.runs[name][keep].mean())
        return np.array([sum(made), *made])

    every = np.ones(len(base.runs["mean"]), bool)
    size = len(every)
    whole = np.log(parts(every, auto) / parts(every, row))
    left = np.array([np.log(parts(k, auto) / parts(k, row)) for k in ~np.eye(size, dtype=bool)])
    spread = np.sqrt((size - 1) * left.var(axis=0))
    beyond = np.divide(whole, spread, out=np.zeros(3), where=spread > 0)
    return Score(*parts(every, row), *beyond)


def best_rows(rows: list[ContestRow], ours: bool) -> dict[str, ContestRow]:
    """Each competitor's row with its published estimator, or with ours."""
    found: dict[str, ContestRow] = {}
    for row in rows:
        allowed = (OURS,) if ours else PUBLISHED.get(row.mechanism, ())
        if row.mechanism == "auto" or row.estimator not in allowed or row.mse_mean is None:
            continue
        best = found.get(row.mechanism)
        if best is None or row.mse_frequency + row.mse_mean < best.mse_frequency + best.mse_mean:
            found[row.mechanism] = row
    return found


def summary(rows: list[ContestRow], name: str, epsilon: float, ours: bool) -> dict[str, object]:
    """One setting: auto against the best competitor on the sum, and on each of the two alone."""
    here = [row for row in rows if row.epsilon == epsilon]
    auto = next(row for row in here if row.mechanism == "auto")  # first with the planner's estimator
    competitors = best_rows(here, ours)
    base = competitors["kvue"]
    scores = {each: scored(here, base, auto, row) for each, row in competitors.items()}
    own = scored(here, base, auto, auto)
    nearest = min(scores, key=lambda each: scores[each].total)
    return {
        "population": name,
        "epsilon": epsilon,
        "chosen": auto.chosen + ("" if auto.estimator == OURS else f", {auto.estimator}"),
        "pilot": auto.pilot,
        "choices": auto.choices,
        "auto": own.total,
        "nearest": nearest,
        "its": scores[nearest].total,
        "beyond": scores[nearest].beyond,
        "above": sorted(each for each, s in scores.items() if s.beyond > 2),
        "above_frequency": sorted(each for each, s in scores.items() if s.beyond_frequency > 2),
        "above_mean": sorted(each for each, s in scores.items() if s.beyond_mean > 2),
        "kvue_over_auto": base.mse_mean / auto.mse_mean,
        "kvue_over_auto_frequency": base.mse_frequency / auto.mse_frequency,
        "pckv_over_auto": competitors["pckv_ue"].mse_mean / auto.mse_mean
        if "pckv_ue" in competitors
        else float("nan"),
        "coverage": (auto.coverage_frequency, auto.coverage_mean),
    }


def lines_of(found: list[dict[str, object]]) -> list[str]:
    lines = [
        "| population | epsilon | auto took | score | nearest | its score | above by (se) "
        "| KVUE / auto, f | KVUE / auto, m | PCKV-UE / auto, m | coverage f, m "
        "| lost on f to | lost on m to |",
        "| --- | --: | --- | --: | --- | --: | --: | --: | --: | --: | --- | --- | --- |",
    ]
    for one in found:
        cover = ", ".join("-" if c is None else f"{c:.1%}" for c in one["coverage"])
        lines.append(
            f"| {one['population']} | {one['epsilon']:g} | {one['chosen']} | {one['auto']:.3f} "
            f"| {one['nearest']} | {one['its']:.3f} | {one['beyond']:+.1f} "
            f"| {one['kvue_over_auto_frequency']:.2f} | {one['kvue_over_auto']:.2f} "
            f"| {one['pckv_over_auto']:.2f} | {cover} "
            f"| {', '.join(one['above_frequency']) or '-'} | {', '.join(one['above_mean']) or '-'} |"
        )
    return lines


def verdict(found: list[dict[str, object]]) -> list[str]:
    """What the issue asks, in numbers."""
    count = len(found)
    lost = [one for one in found if one["above"]]
    alone = {part: sum(not one[f"above_{part}"] for one in found) for part in ("frequency", "mean")}

    def geometric(name: str) -> float:
        values = np.array([one[name] for one in found], float)
        return float(np.exp(np.log(values[np.isfinite(values)]).mean()))

    names = ", ".join(
        f"{one['population']} at {one['epsilon']:g} to {'/'.join(one['above'])}" for one in lost
    )
    return [
        "- Above some published mechanism on the sum by more than two standard errors at "
        f"{len(lost)} of {count} settings{': ' + names if names else ''}.",
        f"- Not above any on frequency alone at {alone['frequency']} of {count} settings, on the mean "
        f"alone at {alone['mean']} of {count}.",
        f"- Geometric mean over settings: the mean's error is {geometric('kvue_over_auto'):.2f} times "
        f"below KVUE's and {geometric('pckv_over_auto'):.2f} times below PCKV-UE's.",
    ]


def main() -> None:
    """Measure, print, and with ``--write`` put the tables into the docs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeat", type=int, default=50)
    parser.add_argument("--epsilon", default=",".join(EPSILONS))
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    epsilons = given.epsilon.split(",")
    tables: dict[str, list[dict[str, object]]] = {"published": [], "ours": []}
    unknowing: dict[str, list[dict[str, object]]] = {"blind": [], "pilot": []}
    only = {name for name in given.only.split(",") if name}
    for name, (population, people) in populations(given.data, only).items():
        start = perf_counter()
        contest = Contest(population, people, given.repeat, Coins.stated("bench planner").under(name))
        rows = measure(contest, [*PUBLISHED, "auto"], epsilons, lenient=True).rows
        print(f"{name}: {perf_counter() - start:.0f} s", flush=True)
        for epsilon in sorted(set(of(rows))):
            for table in tables:
                tables[table].append(summary(rows, name, epsilon, table == "ours"))
        others = [row for row in rows if row.mechanism != "auto"]
        ways = {
            "blind": replace(contest, prior=Prior.of(len(contest.schema.keys))),
            "pilot": replace(contest, pilot=True),
        }
        for way, instead in ways.items():
            start = perf_counter()
            every = others + measure(instead, ["auto"], epsilons).rows
            print(f"{name}, {way}: {perf_counter() - start:.0f} s", flush=True)
            unknowing[way] += [summary(every, name, epsilon, False) for epsilon in sorted(set(of(rows)))]
    for table, found in tables.items():
        print("\n".join([f"## {table}", *lines_of(found), "", *verdict(found)]))
    beside = {way: [*verdict(found), "", *blind_lines(found)] for way, found in unknowing.items()}
    beside["pilot"].insert(3, gained(unknowing["pilot"], unknowing["blind"]))
    for way, lines in beside.items():
        print("\n".join([f"## {way}", *lines]))
    if given.json:
        given.json.write_text(json.dumps({"tables": tables, "unknowing": unknowing}, indent=1))
    if given.write:
        write({name: [*verdict(f), "", *lines_of(f)] for name, f in tables.items()})
        write(beside)


def of(rows: list[ContestRow]) -> list[float]:
    return [row.epsilon for row in rows]


def gained(found: list[dict[str, object]], blind: list[dict[str, object]]) -> str:
    """A pilot's score beside that of the default prior."""
    ratios = np.array([float(a["auto"]) / float(b["auto"]) for a, b in zip(found, blind, strict=True)])
    worst = int(np.argmax(ratios))
    where = f"{found[worst]['population']} at {found[worst]['epsilon']:g}"
    shares = [float(one["pilot"]) for one in found]
    return (
        f"- The pilot takes {min(shares):.2%} to {max(shares):.2%} of the people. The score is "
        f"{np.exp(np.log(ratios).mean()):.2f} times that of the default prior (geometric mean), and at "
        f"most {ratios[worst]:.2f} times ({where})."
    )


def blind_lines(found: list[dict[str, object]]) -> list[str]:
    """One line a population: what the planner takes when it is told nothing, and what that costs."""
    lines = [
        "| population | auto took | above some, on the sum | KVUE / auto, f | KVUE / auto, m |",
        "| --- | --- | --- | --: | --: |",
    ]
    for name in dict.fromkeys(one["population"] for one in found):
        here = [one for one in found if one["population"] == name]
        lost = [f"{one['epsilon']:g} ({', '.join(one['above'])})" for one in here if one["above"]]
        took = ", ".join(
            dict.fromkeys(str(one["chosen"]).partition(":")[0].partition(",")[0] for one in here)
        )
        ratios = [
            np.exp(np.mean([np.log(float(one[part])) for one in here]))
            for part in ("kvue_over_auto_frequency", "kvue_over_auto")
        ]
        lines.append(
            f"| {name} | {took} | {'; '.join(lost) or '-'} | {ratios[0]:.2f} | {ratios[1]:.2f} |"
        )
    return lines


def write(parts: dict[str, list[str]]) -> None:
    """Put lines between their markers."""
    page = PAGE.read_text("utf-8")
    for name, lines in parts.items():
        before, mark, rest = page.partition(f"<!-- bench:{name} -->")
        if not mark:
            raise SystemExit(f"{PAGE} has no place for {name}")
        after = rest.partition("<!-- /bench -->")[2]
        page = before + mark + "\n\n" + "\n".join(lines) + "\n\n<!-- /bench -->" + after
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
