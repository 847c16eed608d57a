"""One report, Hadamard response, estimates, the conditional matrix and a comparison.

Times are processor time of one process; each is set beside the time of a task that everyone knows.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from resource import RUSAGE_CHILDREN, getrusage
from unittest.mock import patch

import numpy as np

from keyveil import Coins, Plan, Schema, Tally
from keyveil.simulate.speed.plain_numpy import batch_form
from keyveil.simulate.speed.stopwatch import shortest

from .speed import KEYS, population
from .table import Outcome, Table, rows, times
from .tallies import Form

PEOPLE = 200_000
REPORTS = 200
RECORD = {"3": 0.5, "17": -0.2}
AIM_REPORT, AIM_ESTIMATE = 50e-6, 1.0
COMPARE = (
    "compare --population gaussian --people 1e6 --repeat 10 --epsilon 1 --coins bench "
    "--mechanism privkv,kvue,optimal --processes 1"
)


def run(quick: bool) -> Outcome:
    """The table of one report, of answers, and of a comparison."""
    lines, missed = [], []
    rounds = 5 if quick else 20
    for name in ("grr", "kvue", "pairs"):
        seconds = _report(name, rounds)
        if name == "kvue" and seconds > AIM_REPORT:
            missed.append(
                f"one report, kvue: {seconds * 1e6:.0f} microseconds, aim {AIM_REPORT * 1e6:.0f}"
            )
        aim = "50 microseconds" if name == "kvue" else ""
        lines.append((f"one report, {name}", _units(seconds), aim, ""))
    with patch.dict(os.environ, {"KEYVEIL_FAST": "1"}):
        lines.append(_hadamard(rounds))
        for line, seconds in _answers(2 if quick else 5):
            if line[2] and seconds > AIM_ESTIMATE:
                missed.append(f"{line[0]}: {seconds:.2f} s, aim {AIM_ESTIMATE:.0f} s")
            lines.append(line)
    lines.append(("`compare`, a million people, 3 mechanisms", _units(_compare()), "", "a command"))
    shown = Table(
        f"One report, answers and a comparison, {KEYS} keys, epsilon 1, processor time",
        ("task", "time", "aim", "beside it"),
        rows(lines),
        f"A report is a call of `Plan.report` with a new AES key. Answers are from {PEOPLE:,} reports. "
        "Pairs have 4,950 views; `likelihood` runs until it has converged. The comparison is a process "
        "of its own with its start, and 10 repetitions.",
    )
    return Outcome("answers", (shown,), {}, tuple(missed))


def _units(seconds: float) -> str:
    if seconds < 1e-6:
        return f"{seconds * 1e9:.0f} ns"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} microseconds"
    return f"{seconds * 1e3:,.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _report(name: str, rounds: int) -> float:
    """Seconds of one report, as a device makes it."""
    plan = Plan.of(Schema.of(KEYS), name, 1)

    def several() -> None:
        for _ in range(REPORTS):
            plan.report(RECORD)

    return shortest({"": several}, rounds)[""] / REPORTS


def _hadamard(rounds: int) -> tuple[str, ...]:
    """Hadamard response on pair views, beside its plain form."""
    plan = Plan.of(Schema.of(KEYS), "pairs", 1, channel="hadamard")
    people, coins, rng = population(PEOPLE)[0], Coins.secure(), np.random.default_rng()
    few, plain = people[:4_000], batch_form(plan)
    forms: dict[str, Form] = {
        "ours": lambda: plan.privatise(people, coins),
        "plain": lambda: plain(few, rng),
    }
    taken = shortest(forms, rounds)
    own = taken["ours"] / len(people)
    ratio = times(taken["plain"] / len(few) / own)
    return "Hadamard response on pairs, a person", _units(own), "", f"plain NumPy: {ratio}"


def _answers(rounds: int) -> list[tuple[tuple[str, ...], float]]:
    """Rows of estimates and conditionals, each with its seconds."""
    people, timings = population(PEOPLE)[0], []
    for name in ("kvue", "pairs", "triples", "coefficients"):
        plan = Plan.of(Schema.of(KEYS), name, 1)
        tally = Tally(plan).add(plan.privatise(people, Coins.stated("answers")))
        tasks: dict[str, Form] = {f"estimate, {name}": tally.estimate}
        if name == "pairs":
            tasks["conditional matrix, pairs"] = tally.conditionals().matrix
            tasks["conditionals by likelihood, pairs"] = partial(tally.conditionals, "likelihood")
        for task, seconds in shortest(tasks, rounds).items():
            aim = "1 s" if name in ("triples", "coefficients") else ""
            beside = f"{seconds / len(people) * 1e9:.0f} ns a report"
            timings.append(((task, _units(seconds), aim, beside), seconds))
    return timings


def _compare() -> float:
    """Processor seconds of the command."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "keyveil", *COMPARE.split()], check=True, capture_output=True)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
