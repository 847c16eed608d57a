"""The planner's choice and every published mechanism, at equal true epsilon.

``python -m bench.planner [--write] [--data DIR] [--repeat 50] [--epsilon 0.1,...] [--only NAMES]
[--processes N] [--json FILE] [--read FILES] [--places NAMES]`` measures the paper's populations, PCKV's,
and with ``--data`` real ratings. The score is mse_f / mse_f(KVUE) + mse_m / mse_m(KVUE), with means
clipped to their range; KVUE with the same kind of estimator has 2. Competitors for sets have the padding
length of least predicted error on the population, one for each estimator.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np

from keyveil import Coins, Schema
from keyveil.estimate import DEFAULT
from keyveil.people.synthetic import gaussian, pckv_gaussian, pckv_uniform, uniform
from keyveil.people.tables.top_keys import read_top
from keyveil.simulate.contest import Contest
from keyveil.simulate.contest_row import ContestRow
from keyveil.simulate.parallel import measure
from keyveil.simulate.tallies import Population

PAGE = Path(__file__).parents[1] / "docs" / "planner-benchmarks.md"
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
"""The competitors and their published estimators; of several, the better one counts."""
OURS = DEFAULT
MEASURED = tuple(dict.fromkeys((OURS, *(name for names in PUBLISHED.values() for name in names))))
"""The estimators that are measured, the planner's first."""
PILOTS = 10
"""The most first rounds at one setting; repetitions are split between them."""
Settings = dict[str, list[dict[str, object]]]
"""Settings by the name of their table."""
TABLES = {
    "ml-25m-recent": ("0.5,5", 100),
    "jester-1": ("-10,10", 100),
    "movietweetings-336k": ("0,10", 50),
}
NAMES = ("gaussian", "uniform", "pckv-uu", "pckv-gg", *TABLES)
"""The names of the populations, in the order of tables."""


@dataclass(frozen=True)
class Score:
    """A mechanism's errors relative to KVUE's, with the standard errors of their ratios to auto's."""

    total: float
    frequency: float
    mean: float
    beyond: float
    """Auto's total less this one's, in standard errors."""
    beyond_frequency: float
    beyond_mean: float


def populations(data: Path | None, only: set[str]) -> dict[str, tuple[Population, int]]:
    """Populations by name, with the number of people to simulate."""
    by_name: dict[str, tuple[Population, int]] = {}
    for name, make, people in (
        ("gaussian", gaussian, 100_000),
        ("uniform", uniform, 100_000),
        ("pckv-uu", pckv_uniform, 1_000_000),
        ("pckv-gg", pckv_gaussian, 1_000_000),
    ):
        if not only or name in only:
            stated = make()
            by_name[name] = (Population(stated.schema, stated.people), people)
    for name, (ends, top) in TABLES.items():
        if data is None or (only and name not in only):
            continue
        low, high = (float(end) for end in ends.split(","))
        path = str(data / f"{name}.parquet")
        read = read_top(path, "user", "key", "value", (low, high), top)
        schema = Schema.of(read.keys, repr(low), repr(high))
        by_name[name] = (Population(schema, read.people).on_unit_scale(), 100_000)
    return by_name


def scored(rows: list[ContestRow], base: ContestRow, auto: ContestRow, row: ContestRow) -> Score:
    """Errors relative to KVUE's, with jackknife standard errors over repetitions."""

    def parts(keep: np.ndarray, row: ContestRow) -> np.ndarray:
        ratios = []
        for name in ("frequency", "mean"):
            ratios.append(row.runs[name][keep].mean() / base.runs[name][keep].mean())
        return np.array([sum(ratios), *ratios])

    every = np.ones(len(base.runs["mean"]), bool)
    size = len(every)
    whole = np.log(parts(every, auto) / parts(every, row))
    jackknife = np.array([np.log(parts(k, auto) / parts(k, row)) for k in ~np.eye(size, dtype=bool)])
    spread = np.sqrt((size - 1) * jackknife.var(axis=0))
    beyond = np.divide(whole, spread, out=np.zeros(3), where=spread > 0)
    return Score(*parts(every, row), *beyond)


def best_rows(rows: list[ContestRow], ours: bool) -> dict[str, ContestRow]:
    """Each competitor's row with its published estimator, or with ours."""
    best_of: dict[str, ContestRow] = {}
    for row in rows:
        allowed = (OURS,) if ours else PUBLISHED.get(row.mechanism, ())
        if row.mechanism == "auto" or row.estimator not in allowed or row.mse_mean is None:
            continue
        best = best_of.get(row.mechanism)
        if best is None or row.mse_frequency + row.mse_mean < best.mse_frequency + best.mse_mean:
            best_of[row.mechanism] = row
    return best_of


def summary(rows: list[ContestRow], name: str, epsilon: float, ours: bool) -> dict[str, object]:
    """One setting: auto against the best competitor on the sum, and on each of the two alone."""
    here = [row for row in rows if row.epsilon == epsilon]
    auto = next(row for row in here if row.mechanism == "auto")  # first with the planner's estimator
    competitors = best_rows(here, ours)
    base = competitors["kvue"]
    scores = {competitor: scored(here, base, auto, row) for competitor, row in competitors.items()}
    own = scored(here, base, auto, auto)
    nearest = min(scores, key=lambda competitor: scores[competitor].total)
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
        "above": sorted(competitor for competitor, s in scores.items() if s.beyond > 2),
        "above_frequency": sorted(
            competitor for competitor, s in scores.items() if s.beyond_frequency > 2
        ),
        "above_mean": sorted(competitor for competitor, s in scores.items() if s.beyond_mean > 2),
        "kvue_over_auto": base.mse_mean / auto.mse_mean,
        "kvue_over_auto_frequency": base.mse_frequency / auto.mse_frequency,
        "pckv_over_auto": competitors["pckv_ue"].mse_mean / auto.mse_mean
        if "pckv_ue" in competitors
        else float("nan"),
    }


def lines_of(settings: list[dict[str, object]]) -> list[str]:
    lines = [
        "| population | epsilon | auto took | score | nearest | its score | above by (se) "
        "| KVUE / auto, f | KVUE / auto, m | PCKV-UE / auto, m | lost on f to | lost on m to |",
        "| --- | --: | --- | --: | --- | --: | --: | --: | --: | --: | --- | --- |",
    ]
    for setting in settings:
        lines.append(
            f"| {setting['population']} | {setting['epsilon']:g} | {setting['chosen']} "
            f"| {setting['auto']:.3f} | {setting['nearest']} | {setting['its']:.3f} "
            f"| {setting['beyond']:+.1f} "
            f"| {setting['kvue_over_auto_frequency']:.2f} | {setting['kvue_over_auto']:.2f} "
            f"| {setting['pckv_over_auto']:.2f} "
            f"| {', '.join(setting['above_frequency']) or '-'} "
            f"| {', '.join(setting['above_mean']) or '-'} |"
        )
    return lines


def verdict(settings: list[dict[str, object]]) -> list[str]:
    """The counts and ratios above the table, a line each."""
    count = len(settings)
    lost = [setting for setting in settings if setting["above"]]
    alone = {
        part: sum(not setting[f"above_{part}"] for setting in settings) for part in ("frequency", "mean")
    }

    def geometric(name: str) -> float:
        values = np.array([setting[name] for setting in settings], float)
        return float(np.exp(np.log(values[np.isfinite(values)]).mean()))

    names = ", ".join(
        f"{setting['population']} at {setting['epsilon']:g} to {'/'.join(setting['above'])}"
        for setting in lost
    )
    return [
        "- Above some published mechanism on the sum by more than two standard errors at "
        f"{len(lost)} of {count} settings{': ' + names if names else ''}.",
        f"- Not above any on frequency alone at {alone['frequency']} of {count} settings, on the mean "
        f"alone at {alone['mean']} of {count}.",
        f"- Geometric mean over settings: the mean's error is {geometric('kvue_over_auto'):.2f} times "
        f"below KVUE's and {geometric('pckv_over_auto'):.2f} times below PCKV-UE's.",
    ]


def measured(given: argparse.Namespace) -> tuple[Settings, Settings]:
    """The settings by table, and those of a planner that is told nothing, by way."""
    epsilons = given.epsilon.split(",")
    tables: Settings = {"published": [], "ours": []}
    unknowing: Settings = {"blind": [], "pilot": []}
    only = {name for name in given.only.split(",") if name}
    for name, (population, people) in populations(given.data, only).items():
        start = perf_counter()
        coins = Coins.stated("bench planner").under(name)
        contest = Contest(population, people, given.repeat, coins, estimators=MEASURED)
        rows = measure(
            contest, [*PUBLISHED, "auto"], epsilons, lenient=True, processes=given.processes
        ).rows
        print(f"{name}: {perf_counter() - start:.0f} s", flush=True)
        for epsilon in sorted(set(of(rows))):
            for table in tables:
                tables[table].append(summary(rows, name, epsilon, table == "ours"))
        others = [row for row in rows if row.mechanism != "auto"]
        ways = {
            "blind": replace(contest, nothing=True, one_round=True),
            "pilot": replace(contest, nothing=True, pilots=PILOTS),
        }
        for way, instead in ways.items():
            start = perf_counter()
            every = others + measure(instead, ["auto"], epsilons, processes=given.processes).rows
            print(f"{name}, {way}: {perf_counter() - start:.0f} s", flush=True)
            unknowing[way] += [summary(every, name, epsilon, False) for epsilon in sorted(set(of(rows)))]
        if given.json:
            given.json.write_text(json.dumps({"tables": tables, "unknowing": unknowing}, indent=1))
    return tables, unknowing


def main() -> None:
    """Measure, print, and with ``--write`` put the tables into the docs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeat", type=int, default=50)
    parser.add_argument("--epsilon", default=",".join(EPSILONS))
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path, help="written after each population")
    parser.add_argument(
        "--read", type=Path, nargs="+", help="show earlier runs from their JSON, measure nothing"
    )
    parser.add_argument("--places", default="", help="the tables to write, all by default")
    parser.add_argument("--processes", type=int, help="by default, one for each processor")
    given = parser.parse_args()
    if given.read:
        tables, unknowing = earlier_runs(given.read)
    else:
        tables, unknowing = measured(given)
    for table, settings in tables.items():
        print("\n".join([f"## {table}", *lines_of(settings), "", *verdict(settings)]))
    pages = {
        way: [*verdict(settings), "", *blind_lines(settings)] for way, settings in unknowing.items()
    }
    pages["pilot"].insert(3, gained(unknowing["pilot"], unknowing["blind"]))
    pages["told"] = told_lines(tables["published"], unknowing)
    for way, lines in pages.items():
        print("\n".join([f"## {way}", *lines]))
    if given.write:
        pages |= {name: [*verdict(f), "", *lines_of(f)] for name, f in tables.items()}
        places = given.places.split(",") if given.places else list(pages)
        write({name: pages[name] for name in places})


def earlier_runs(paths: list[Path]) -> tuple[Settings, Settings]:
    """The settings of several runs, each once, by the order of populations and by epsilon."""
    runs = [json.loads(path.read_text()) for path in paths]
    merged: list[Settings] = []
    for part in ("tables", "unknowing"):
        merged.append({})
        for table in runs[0][part]:
            settings = {(s["population"], s["epsilon"]): s for run in runs for s in run[part][table]}
            order = sorted(settings, key=lambda where: (NAMES.index(where[0]), where[1]))
            merged[-1][table] = [settings[where] for where in order]
    return merged[0], merged[1]


def of(rows: list[ContestRow]) -> list[float]:
    return [row.epsilon for row in rows]


def gained(settings: list[dict[str, object]], blind: list[dict[str, object]]) -> str:
    """The score with a first round where it pays, compared with that of one round."""
    ratios = np.array(
        [float(a["auto"]) / float(b["auto"]) for a, b in zip(settings, blind, strict=True)]
    )
    worst = int(np.argmax(ratios))
    where = f"{settings[worst]['population']} at {settings[worst]['epsilon']:g}"
    shares = [float(setting["pilot"] or 0.0) for setting in settings]
    return (
        f"- The pilot takes {min(shares):.2%} to {max(shares):.2%} of the people. The score is "
        f"{np.exp(np.log(ratios).mean()):.2f} times that of one round (geometric mean), and at "
        f"most {ratios[worst]:.2f} times ({where})."
    )


def told_lines(
    table: list[dict[str, object]], unknowing: dict[str, list[dict[str, object]]]
) -> list[str]:
    """Scores of a planner that is told nothing over those of one that is told the table."""
    lines = [
        "| population | settings | one round, geometric mean | at most | above some "
        "| with a first round where it pays | at most | above some |",
        "| --- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    names = list(dict.fromkeys(setting["population"] for setting in table))
    for name in [*names, "all"]:
        here = [i for i, setting in enumerate(table) if name in ("all", setting["population"])]
        cells = []
        for settings in unknowing.values():
            ratios = np.array([float(settings[i]["auto"]) / float(table[i]["auto"]) for i in here])
            above = sum(bool(settings[i]["above"]) for i in here)
            cells.append(f"{np.exp(np.log(ratios).mean()):.2f} | {ratios.max():.2f} | {above}")
        lines.append(f"| {name} | {len(here)} | {' | '.join(cells)} |")
    return lines


def blind_lines(settings: list[dict[str, object]]) -> list[str]:
    """One line per population: the choice of a planner that is told nothing, and its cost."""
    lines = [
        "| population | auto took | above some, on the sum | KVUE / auto, f | KVUE / auto, m |",
        "| --- | --- | --- | --: | --: |",
    ]
    for name in dict.fromkeys(setting["population"] for setting in settings):
        here = [setting for setting in settings if setting["population"] == name]
        lost = [
            f"{setting['epsilon']:g} ({', '.join(setting['above'])})"
            for setting in here
            if setting["above"]
        ]
        took = ", ".join(
            dict.fromkeys(str(setting["chosen"]).partition(":")[0].partition(",")[0] for setting in here)
        )
        ratios = [
            np.exp(np.mean([np.log(float(setting[part])) for setting in here]))
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
