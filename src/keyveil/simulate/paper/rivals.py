"""The mechanisms that the paper leaves out because PrivKV was said to beat them, measured.

Frequencies: RAPPOR, k-RR and SHist, which draw one of the held keys. Values: Harmony and MeanEst, which
estimate frequency times mean (the mass); PrivKV's, PrivKV-A's and KVUE's masses are shown with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...estimate.decoding import moments_of
from ...people.synthetic import KnownPopulation, TablePopulation, pckv_uniform
from ...plan.plan import Plan
from ..tallies import simulate_runs
from . import figures
from .compared import decoded
from .evidence import below, listed, number, only_row, select_rows, verdict
from .experiment import PEOPLE, Claim, Experiment, Figure, Job, Row, Setup

NAME = "rivals"
TITLE = "Left out by the paper: RAPPOR, k-RR, SHist, Harmony, MeanEst"
ABOUT = (
    "100 keys, 100,000 people in all, squared error averaged over keys and repetitions. One key each: "
    "everyone holds exactly one of the keys (PCKV's UU). Gaussian: about fifty of them. Rescaled: times "
    "the average number of keys that a person holds, since only one of them is told; the published "
    "estimators do not do that."
)

EPSILONS = (0.5, 1.0, 2.0, 4.0)
QUICK = (1.0, 4.0)
DATA = {"one key each": "people hold one key each", "Gaussian": "people hold many keys"}
LINES = {
    "frequency": ("PrivKV", "KVUE", "RAPPOR", "k-RR", "SHist"),
    "mass": ("PrivKV", "PrivKV-A", "KVUE", "Harmony", "MeanEst"),
}
MECHANISMS = {"PrivKV": "privkv", "PrivKV-A": "privkv", "k-RR": "grr"}
"""Mechanisms that are not called like their line."""
TELL_ONE, MASS_ONLY = ("RAPPOR", "k-RR", "SHist"), ("Harmony", "MeanEst")
"""Rivals that report one of the held keys, and those that estimate the mass alone."""
SLOW = {"RAPPOR": 4.0, "SHist": 4.0, "MeanEst": 6.0}
"""Lines whose reports are not drawn in one go, and what that costs."""


def jobs(setup: Setup) -> list[Job]:
    return [
        Job({"data": data, "part": part, "line": label}, SLOW.get(label, 1.0))
        for data in DATA
        for part, labels in LINES.items()
        for label in labels
    ]


def work(setup: Setup, what: dict[str, Any]) -> list[Row]:
    data, part, label = what.values()
    population: KnownPopulation = setup.gaussian
    if data != "Gaussian":
        population = pckv_uniform(coins=setup.coins(NAME, "keys"))
    if label == "MeanEst":  # whole records are drawn person by person: from a table
        table = population.draw(20_000, setup.coins(NAME, data, "people").generator())
        population = TablePopulation(population.schema, table)
    truth = population.frequency * (population.mean if part == "mass" else 1.0)
    scales = {"mse": 1.0, "mse_rescaled": _held_keys(population) if label in TELL_ONE else 1.0}
    runs = range(setup.pick(3 if label == "MeanEst" else 10, 1 if label in SLOW else 4))
    rows = []
    for epsilon in setup.pick(EPSILONS, QUICK):
        plan = Plan.of(population.schema, MECHANISMS.get(label, label.lower()), epsilon)
        coins = setup.coins(NAME, *what.values(), epsilon)
        tallies = simulate_runs(plan, population.at(plan.schema.levels), PEOPLE, coins, runs)
        if part == "mass" and label == "PrivKV":  # raw, as published
            values = np.prod(decoded(plan, tallies, "published"), axis=0)
        else:
            values = moments_of(plan, tallies).values[..., list(LINES).index(part)]
        row = {
            **what,
            "epsilon": epsilon,
            "true_epsilon": float(plan.proven),
            "people": PEOPLE,
            "repetitions": len(runs),
            "mse_of_zero": float((truth**2).mean()),
        }
        for name, scale in scales.items():
            estimates = np.clip(np.nan_to_num(values * scale), -1.0 if part == "mass" else 0.0, 1.0)
            squares = (estimates - truth) ** 2
            row[name] = float(squares.mean())
            row[f"se_{name}"] = float(squares.std(ddof=1) / np.sqrt(squares.size))
        rows.append(row)
    return rows


def _held_keys(population: KnownPopulation) -> float:
    """The average number of keys among people who hold any."""
    return float(population.frequency.sum() / (1 - population.sizes[0]))


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    figure, grid = figures.panels(2, 2, 10, 7.2, left=0.9, top=0.4, across=0.9, sharex=True)
    for panel, part, data in figures.cells(grid, LINES, DATA):
        for label in LINES[part]:
            own = select_rows(rows, part=part, data=data, line=label)
            figures.curve(panel, own, "epsilon", "mse", label)
        figures.errors(panel)
        panel.set_title(f"{part}, {data}")
        panel.set_ylabel("squared error")
        panel.legend(fontsize=8, loc="best")
    caption = (
        "What the paper leaves out: squared errors, 100,000 people in all. On Gaussian data RAPPOR, "
        "k-RR and SHist lie on each other: they tell one of some fifty held keys, and as published "
        "are not multiplied by that number."
    )
    return [figures.finished(NAME, caption, figure, grid, values=EPSILONS)]


# -- claims ------------------------------------------------------------------------------------------


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    frequencies, masses = select_rows(rows, part="frequency"), select_rows(rows, part="mass")
    rescaled = (
        "Most of the large ratios is a missing factor: one of some fifty held keys is told, and the "
        "published estimators are not multiplied by that number. Rescaled: "
        f"{_ratios(frequencies, TELL_ONE, 'mse_rescaled')}. "
    )
    zeros = [
        f"{number(own[0]['mse_of_zero'])} ({data}; PrivKV's least {number(least)})"
        for data in DATA
        for own in (select_rows(masses, data=data, line="PrivKV"),)
        for least in (min(row["mse"] for row in own),)
    ]
    masses_too = (
        f" With the paper's own estimator, {_where(masses, MASS_ONLY, 'PrivKV-A')} Raw PrivKV "
        "pulls means to 0, and 0 for every key is a good answer where keys are rare: its squared "
        f"error is {', '.join(zeros)}."
    )
    mean = "mean (here frequency times mean, which is all they tell)"
    return [
        _claim(frequencies, TELL_ONE, "frequency", rescaled, "", f"{NAME}, numbers/{NAME}.csv"),
        _claim(masses, MASS_ONLY, mean, "", masses_too, NAME),
    ]


def _claim(
    rows: list[Row], rivals: tuple[str, ...], what: str, before: str, after: str, figure: str
) -> Claim:
    """PrivKV is better than its rivals; ``before`` and ``after`` stand around where it wins."""
    return Claim(
        "Sec. VI",
        f"PrivKV-based mechanisms have great advantages over {', '.join(rivals)} for the {what}.",
        _outcome(rows, rivals),
        f"Squared error over PrivKV's, median over epsilon: {_ratios(rows, rivals, 'mse')}. "
        f"{before}{_where(rows, rivals, 'PrivKV')}{after}",
        figure,
    )


def _ratios(rows: list[Row], rivals: tuple[str, ...], error: str) -> str:
    """Each rival's error over PrivKV's, in words."""
    words = []
    for data in DATA:
        privkv = {row["epsilon"]: row["mse"] for row in select_rows(rows, data=data, line="PrivKV")}
        medians = {}
        for rival in rivals:
            own = select_rows(rows, data=data, line=rival)
            medians[rival] = float(np.median([row[error] / privkv[row["epsilon"]] for row in own]))
        words.append(f"{data}: {listed(medians, number)}")
    return "; ".join(words)


Settings = set[tuple[str, float]]
"""Pairs of data and epsilon."""


def _duels(rows: list[Row], rivals: tuple[str, ...], line: str) -> tuple[Settings, Settings]:
    """Where all rivals, rescaled too, are clearly worse than a line, and where any is better."""
    better, worse = set(), set()
    for row in select_rows(rows, line=line):
        at = (row["data"], row["epsilon"])
        others = [only_row(rows, line=rival, data=at[0], epsilon=at[1]) for rival in rivals]
        errors = [
            {"mse": other[error], "se_mse": other[f"se_{error}"]}
            for other in others
            for error in ("mse", "mse_rescaled")
        ]
        if all(below(row, other, "mse") for other in errors):
            better.add(at)
        if any(below(other, row, "mse") for other in errors):
            worse.add(at)
    return better, worse


def _outcome(rows: list[Row], rivals: tuple[str, ...]) -> str:
    """The condition is what is true of all settings that are won, and of none that is lost."""
    better, worse = _duels(rows, rivals, "PrivKV")
    if not worse or not better:
        return verdict(bool(better))
    won = {data for data, _ in better}
    lost_there = [epsilon for data, epsilon in worse if data in won]
    words = [DATA[data] for data in won if len(won) < len(DATA)]
    if lost_there:
        if min(epsilon for _, epsilon in better) > max(lost_there):
            words.append("epsilon is large")
        elif max(epsilon for _, epsilon in better) < min(lost_there):
            words.append("epsilon is small")
        else:
            words = ["people and epsilon are the right ones; who wins depends on both"]
    return verdict(False, " and ".join(words))


def _where(rows: list[Row], rivals: tuple[str, ...], line: str) -> str:
    """Where the paper's line wins and loses, in words."""
    better, worse = _duels(rows, rivals, line)
    words_of = []
    for words, settings in (("better than all", better), ("worse than one", worse)):
        places = [
            f"{data} at epsilon {', '.join(f'{e:g}' for d, e in sorted(settings) if d == data)}"
            for data in DATA
            if any(d == data for d, _ in settings)
        ]
        words_of.append(f"clearly {words} of them: {'; '.join(places) or 'nowhere'}")
    return f"{line} is " + ", and ".join(words_of) + "."


EXPERIMENTS = {NAME: Experiment(NAME, TITLE, ABOUT, jobs, work, draw, claims)}
