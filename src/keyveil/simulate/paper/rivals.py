"""The mechanisms that the paper leaves out because PrivKV was said to beat them, measured.

Frequencies: RAPPOR, k-RR and SHist, which draw one of the held keys. Values: Harmony and MeanEst, which
estimate frequency times mean (the mass); PrivKV's, PrivKV-A's and KVUE's masses stand beside them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from ...estimate.decoding import moments_of
from ...people.synthetic import KnownPopulation, TablePopulation, pckv_uniform
from ...plan.plan import Plan
from ..tallies import simulate_runs
from . import figures
from .compared import decoded
from .experiment import (
    PEOPLE,
    Claim,
    Figure,
    Job,
    Row,
    Setup,
    below,
    number,
    one,
    only_if,
    picked,
    verdict,
)

NAME = ROWS_OF = "rivals"
TITLE = "Left out by the paper: RAPPOR, k-RR, SHist, Harmony, MeanEst"
ABOUT = (
    "100 keys, 100,000 people in all, squared error averaged over keys and repetitions. One key each: "
    "everyone holds exactly one of the keys (PCKV's UU). Gaussian: about fifty of them. Rescaled: times "
    "the average number of keys that a person holds, since only one of them is told; the published "
    "estimators do not do that."
)

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
    "mass": {
        "PrivKV": "privkv",
        "PrivKV-A": "privkv",
        "KVUE": "kvue",
        "Harmony": "harmony",
        "MeanEst": "meanest",
    },
}
TELL_ONE = ("RAPPOR", "k-RR", "SHist")
"""Those that tell one of the held keys."""
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
        if what["part"] == "mass" and what["line"] == "PrivKV":  # raw, as published
            values = np.prod(decoded(plan, tallies, "published"), axis=0)
        else:
            values = moments_of(plan, tallies).values[..., PARTS[what["part"]]]
        row = {
            **what,
            "epsilon": epsilon,
            "true_epsilon": float(plan.proven),
            "people": PEOPLE,
            "repetitions": len(runs),
        }
        row["mse_of_zero"] = float((truth**2).mean())
        scale = held_keys(population) if what["line"] in TELL_ONE else 1.0
        for name, times in (("mse", 1.0), ("mse_rescaled", scale)):
            off = np.clip(np.nan_to_num(values * times), low, 1.0) - truth
            row[name] = float((off**2).mean())
            row[f"se_{name}"] = float((off**2).std(ddof=1) / np.sqrt(off.size))
        made.append(row)
    return made


def held_keys(population: KnownPopulation) -> float:
    """How many keys those hold, on average, who hold any."""
    return float(population.frequency.sum() / (1 - population.sizes[0]))


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
            "k-RR and SHist lie on each other: they tell one of some fifty held keys, and as published "
            "are not multiplied by that number."
        )
        return [Figure(NAME, caption, figure)]


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    return [
        _claim(rows, "frequency", TELL_ONE, "PrivKV", "frequency"),
        _claim(
            rows,
            "mass",
            ("Harmony", "MeanEst"),
            "PrivKV",
            "mean (here frequency times mean, which is all they tell)",
        ),
    ]


def _claim(rows: list[Row], part: str, rivals: tuple[str, ...], place: str, what: str) -> Claim:
    said = f"Squared error over {place}'s, median over epsilon: {_ratios(rows, part, rivals, place)}. "
    if part == "frequency":
        said += (
            "Most of the large ratios is a missing factor: one of some fifty held keys is told, and the "
            "published estimators are not multiplied by that number. Rescaled: "
            f"{_ratios(rows, part, rivals, place, 'mse_rescaled')}. "
        )
    said += _where(rows, part, rivals, place)
    if part == "mass":
        zero = {data: picked(rows, part=part, data=data)[0]["mse_of_zero"] for data in DATA}
        least = {
            data: min(row["mse"] for row in picked(rows, part=part, data=data, line=place))
            for data in DATA
        }
        said += (
            f" With the paper's own estimator, {_where(rows, part, rivals, 'PrivKV-A')} Raw PrivKV "
            "pulls means to 0, and 0 for every key is a good answer where keys are rare: its squared "
            "error is "
            + ", ".join(
                f"{number(v)} ({d}; {place}'s least {number(least[d])})" for d, v in zero.items()
            )
            + "."
        )
    return Claim(
        "Sec. VI",
        f"PrivKV-based mechanisms have great advantages over {', '.join(rivals)} for the {what}.",
        _outcome(rows, part, rivals, place),
        said,
        f"{NAME}, {CSV}" if part == "frequency" else NAME,
    )


CSV = f"numbers/{NAME}.csv"


def _ratios(rows: list[Row], part: str, rivals: tuple[str, ...], place: str, error: str = "mse") -> str:
    """Each rival's error over the paper's line's, in words."""
    said = []
    for data in DATA:
        found = []
        for rival in rivals:
            ratios = [
                row[error] / one(rows, part=part, data=data, line=place, epsilon=row["epsilon"])["mse"]
                for row in picked(rows, part=part, data=data, line=rival)
            ]
            found.append(f"{rival} {number(float(np.median(ratios)))}")
        said.append(f"{data}: {', '.join(found)}")
    return "; ".join(said)


Duel = set[tuple[str, float]]


def _duels(rows: list[Row], part: str, rivals: tuple[str, ...], place: str) -> tuple[Duel, Duel]:
    """Data and epsilon where all rivals, rescaled too, are clearly worse, and where one is better."""
    better, worse = set(), set()
    for row in picked(rows, part=part, line=place):
        at = (row["data"], row["epsilon"])
        others = [
            {"mse": other[error], "se_mse": other[f"se_{error}"]}
            for rival in rivals
            for other in (one(rows, part=part, line=rival, data=at[0], epsilon=at[1]),)
            for error in ("mse", "mse_rescaled")
        ]
        if all(below(row, other, "mse") for other in others):
            better.add(at)
        if any(below(other, row, "mse") for other in others):
            worse.add(at)
    return better, worse


def _outcome(rows: list[Row], part: str, rivals: tuple[str, ...], place: str) -> str:
    """The condition is what is true of all settings that are won, and of none that is lost."""
    better, worse = _duels(rows, part, rivals, place)
    if not worse or not better:
        return verdict(bool(better))
    data = {name for name, _ in better}
    lost_there = [e for name, e in worse if name in data]
    kind = {"Gaussian": "people hold many keys", "one key each": "people hold one key each"}
    said = [kind[name] for name in data if len(data) < len(DATA)]
    if lost_there:
        if min(e for _, e in better) > max(lost_there):
            said.append("epsilon is large")
        elif max(e for _, e in better) < min(lost_there):
            said.append("epsilon is small")
        else:
            said = ["people and epsilon are the right ones; who wins depends on both"]
    return only_if(" and ".join(said))


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
