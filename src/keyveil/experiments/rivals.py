"""The mechanisms that the paper leaves out because PrivKV was said to beat them, measured.

Frequencies: RAPPOR, k-RR and SHist, which draw one of the held keys. Values: Harmony and MeanEst, which
estimate frequency times mean (the mass); PrivKV's and KVUE's masses stand beside them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from ..plan import Plan
from ..populations import KnownPopulation, TablePopulation, pckv_uniform
from ..simulate import simulate_runs
from . import figures
from .base import Claim, Figure, Job, Row, Setup, below, number, one, only_if, picked, verdict

NAME = ROWS_OF = "rivals"
TITLE = "Left out by the paper: RAPPOR, k-RR, SHist, Harmony, MeanEst"
ABOUT = (
    "100 keys, 100,000 people in all, squared error averaged over keys and repetitions. One key each: "
    "everyone holds exactly one of the keys (PCKV's UU). Gaussian: about fifty of them."
)

PEOPLE = 100_000
EPSILONS = (0.5, 1.0, 2.0, 4.0)
QUICK = (1.0, 4.0)
DATA = ("one key each", "Gaussian")
LINES = {
    "frequency": {
        "PrivKV": "privkv",
        "KVUE": "kvue",
        "RAPPOR": "rappor",
        "k-RR": "grr",
        "SHist": "shist",
    },
    "mass": {"PrivKV-A": "privkv", "KVUE": "kvue", "Harmony": "harmony", "MeanEst": "meanest"},
}
PARTS = {"frequency": 0, "mass": 1}
SLOW = {"rappor": 4.0, "shist": 4.0, "meanest": 6.0}
"""Mechanisms whose reports are not drawn in one go, and what that costs."""


def jobs(setup: Setup) -> list[Job]:
    return [
        Job({"data": data, "part": part, "line": label}, SLOW.get(mechanism, 1.0))
        for data in DATA
        for part, lines in LINES.items()
        for label, mechanism in lines.items()
    ]


def data_set(setup: Setup, data: str) -> KnownPopulation:
    """The Gaussian data, or people who hold one key each."""
    return setup.gaussian if data == "Gaussian" else pckv_uniform(coins=setup.coins(NAME, "keys"))


def work(setup: Setup, what: dict[str, Any]) -> list[Row]:
    population: KnownPopulation = data_set(setup, what["data"])
    if what["line"] == "MeanEst":  # whole records are drawn person by person: from a table
        table = population.draw(20_000, setup.coins(NAME, what["data"], "people").generator())
        population = TablePopulation(population.schema, table)
    mechanism = LINES[what["part"]][what["line"]]
    truth = population.frequency * (population.mean if what["part"] == "mass" else 1.0)
    low = -1.0 if what["part"] == "mass" else 0.0
    slow = mechanism in SLOW
    runs = setup.runs(3 if what["line"] == "MeanEst" else 10, 1 if slow else 4)
    made = []
    for epsilon in QUICK if setup.quick else EPSILONS:
        plan = Plan.of(population.schema, mechanism, Decimal(str(epsilon)))
        coins = setup.coins(NAME, *what.values(), epsilon)
        there = population.at(plan.schema.levels)
        tallies = simulate_runs(plan, there, PEOPLE, coins, runs)
        values = plan.kind.moments(plan, tallies).values[..., PARTS[what["part"]]]
        off = np.clip(np.nan_to_num(values), low, 1.0) - truth
        made.append(
            {
                **what,
                "epsilon": epsilon,
                "true_epsilon": float(plan.proven),
                "people": PEOPLE,
                "repetitions": len(runs),
                "mse": float((off**2).mean()),
                "se_mse": float((off**2).std(ddof=1) / np.sqrt(off.size)),
            }
        )
    return made


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    with figures.look() as pyplot:
        figure, grid = figures.panels(pyplot, 2, 2, 10, 7.2, left=0.9, top=0.4, across=0.9, sharex=True)
        for across, part in zip(grid, LINES, strict=True):
            for panel, data in zip(across, DATA, strict=True):
                for place, label in enumerate(LINES[part]):
                    some = picked(rows, part=part, data=data, line=label)
                    figures.curve(panel, some, "epsilon", "mse", label, place + 2)
                figures.errors(panel)
                panel.set_title(f"{part}, {data}")
                panel.set_ylabel("squared error")
                panel.legend(fontsize=8, loc="best")
        for panel in grid[-1]:
            figures.epsilons(panel, EPSILONS)
        caption = (
            "What the paper leaves out: squared errors, 100,000 people in all. On Gaussian data RAPPOR, "
            "k-RR and SHist lie on each other: they tell one of some fifty held keys, and miss the rest."
        )
        return [Figure(NAME, caption, figure)]


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    made = []
    for part, rivals, place in (
        ("frequency", ("RAPPOR", "k-RR", "SHist"), "PrivKV"),
        ("mass", ("Harmony", "MeanEst"), "PrivKV-A"),
    ):
        ratios = {
            data: {
                rival: float(
                    np.median(
                        [
                            row["mse"]
                            / one(rows, part=part, data=data, line=place, epsilon=row["epsilon"])["mse"]
                            for row in picked(rows, part=part, data=data, line=rival)
                        ]
                    )
                )
                for rival in rivals
            }
            for data in DATA
        }
        what = (
            "frequency"
            if part == "frequency"
            else "mean (here frequency times mean, which is all they tell)"
        )
        made.append(
            Claim(
                "Sec. VI",
                f"PrivKV-based mechanisms have great advantages over {', '.join(rivals)} for the "
                f"{what}.",
                _outcome(rows, part, rivals, place),
                f"Squared error over {place}'s, median over epsilon: "
                + "; ".join(
                    f"{data}: " + ", ".join(f"{rival} {number(ratio)}" for rival, ratio in found.items())
                    for data, found in ratios.items()
                )
                + f". {_where(rows, part, rivals, place)}",
                NAME,
            )
        )
    return made


def _duels(
    rows: list[Row], part: str, rivals: tuple[str, ...], place: str
) -> tuple[set[tuple[str, float]], set[tuple[str, float]]]:
    """Data and epsilon where all rivals are clearly worse, and where one is clearly better."""
    better, worse = set(), set()
    for row in picked(rows, part=part, line=place):
        at = (row["data"], row["epsilon"])
        others = [
            one(rows, part=part, line=rival, data=row["data"], epsilon=row["epsilon"])
            for rival in rivals
        ]
        if all(below(row, other, "mse") for other in others):
            better.add(at)
        if any(below(other, row, "mse") for other in others):
            worse.add(at)
    return better, worse


def _outcome(rows: list[Row], part: str, rivals: tuple[str, ...], place: str) -> str:
    better, worse = _duels(rows, part, rivals, place)
    if not worse or not better:
        return verdict(bool(better))
    if not {data for data, _ in better} & {data for data, _ in worse}:
        many = "many" if {data for data, _ in better} == {"Gaussian"} else "few"
        return only_if(f"people hold {many} keys; who wins depends on how many keys people hold")
    if min(e for _, e in better) > max(e for data, e in worse if data in {d for d, _ in better}):
        return only_if("epsilon is large; with a small one the others are better")
    return only_if("people and epsilon are the right ones; who wins depends on both")


def _where(rows: list[Row], part: str, rivals: tuple[str, ...], place: str) -> str:
    """Where the paper's line wins and loses, in words."""
    better, worse = _duels(rows, part, rivals, place)
    said = []
    for words, found in (("better than all", better), ("worse than one", worse)):
        each = [
            f"{data} at epsilon {', '.join(f'{e:g}' for d, e in sorted(found) if d == data)}"
            for data in DATA
            if any(d == data for d, _ in found)
        ]
        said.append(f"clearly {words} of them: {'; '.join(each) or 'nowhere'}")
    return f"{place} is " + ", and ".join(said) + "."
